## Common parts of the reduction kernels: arguments, the address of a row, the first value.
## The rows have `outer_dims` axes, the last one fastest; each axis has a size and a stride.
<%def name="functions(source, accumulator, convert)">
static ${accumulator} converted(const ${source} x) { return ${convert}; }
</%def>
<%def name="arguments(outer_dims, initial, accumulator)">
% for d in range(outer_dims):
, const ulong size${d}, const long step${d}
% endfor
% if initial:
, global const ${accumulator}* restrict initial, const ulong initial_offset
% endif
</%def>
<%def name="address(row, outer_dims)">
    long row_start = 0;
    {
        ulong left = ${row};
% for d in reversed(range(outer_dims)):
% if d:
        row_start += (long) (left % size${d}) * step${d};
        left /= size${d};
% else:
        row_start += (long) left * step${d};
% endif
% endfor
    }
</%def>
<%def name="seeded(initial, value)">${f'combine(initial[initial_offset], {value})' if initial else value}</%def>
