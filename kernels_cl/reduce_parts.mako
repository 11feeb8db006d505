## Common parts of the reduction kernels: arguments, the address of a row, the first value.
## The rows have `outer_dims` axes, the last one fastest; each axis has a size and a stride.
## On CPUs, `operator` has the function `T combine(T, T)` and, with a `width` above 0, `wide_combineW` on vectors of the
## accumulator's type for the powers of two W from 2 to `width`, and `narrow_combine`; `wide` and `narrow` are vector
## types. A few elements are combined as `narrow` first: it is wide enough for their sum and narrower than `wide`, or
## equal to it. narrow_convert, wide_convert: names of the conversions from the source and from `narrow`, or empty.
<%!
def pairwise(function, values):
    """A C expression that combines the values by a tree of calls, in order."""
    half = len(values) // 2
    return f"{function}({pairwise(function, values[:half])}, {pairwise(function, values[half:])})" if half else values[0]
%>
<%def name="functions(source, accumulator, convert)">
static ${accumulator} converted(const ${source} x) { return ${convert}; }
</%def>
## Vectors of adjacent elements, accessed by pointer: some drivers split vloadn and vstoren into pairs of elements.
<%def name="loads(source, width, name='LOAD', type='elements')">
<% w = width %>
% while w > 1:
typedef ${source}${w} ${type}${w} __attribute__((aligned(sizeof(${source}))));
#define ${name}${w}(p) (*(global const ${type}${w}*) (p))
<% w //= 2 %>
% endwhile
</%def>
<%def name="vectors(source, accumulator, width)">
${loads(source, width)}
% if width:
typedef ${accumulator}${width} results${width} __attribute__((aligned(sizeof(${accumulator}))));
#define RESULTS${width}(p) (*(global results${width}*) (p))
% endif
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
## Of one row whose number of elements is read on the device: the last arguments, and n (see reduce_rows_vector).
<%def name="limit_arguments(bounded)">${", global const long* restrict length, const ulong unit" if bounded else ""}</%def>
<%def name="limit(bounded)">${"const ulong n = ((ulong) length[0] + unit - 1) / unit;" if bounded else ""}</%def>
<%def name="seeded(initial, value)">${f'combine(initial[initial_offset], {value})' if initial else value}</%def>
## Declares `pair_0`, the fold of some values in pairs, pairs of pairs and so on, in order: rounding errors of floats grow
## with the logarithm of their number.
<%def name="fold_in_pairs(accumulator, values)">
% for k, value in enumerate(values):
            ${accumulator} pair_${k} = ${value};
% endfor
<% distance = 1 %>
% while distance < len(values):
%   for k in range(0, len(values) - distance, 2 * distance):
            pair_${k} = combine(pair_${k}, pair_${k + distance});
%   endfor
<% distance *= 2 %>
% endwhile
</%def>
