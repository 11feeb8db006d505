## Folds along an axis across which neighbours lie side by side: each work-item takes `width` columns and goes down them.
## Phases: the first row starts the accumulators, every later one is combined in order; whole blocks of columns run
## without tests, so that the compiler makes vectors of the inner loop.
## Launch: global (blocks of columns, parts, outer rows), no group; results lie as (parts, outer rows, columns).
## Parameters: declarations, operator (C function `T combine(T, T)`), source, accumulator (C types), convert (C expression
## of x), width (1 on GPUs), unit (columns are 1 apart), outer_dims (axes of the outer rows), initial (a first value is given).
<%namespace name="parts" file="reduce_parts.mako"/>
${declarations}
${operator}
${parts.functions(source, accumulator, convert)}
<%def name="fold(count)">
        for (int c = 0; c < ${count}; ++c) sum[c] = converted(x[${"c" if unit else "c * column_step"}]);
        for (long i = 1; i < length; ++i) {
            x += step;
            for (int c = 0; c < ${count}; ++c)
                sum[c] = combine(sum[c], converted(x[${"c" if unit else "c * column_step"}]));
        }
        for (int c = 0; c < ${count}; ++c) result[c] = ${parts.seeded(initial, "sum[c]")};
</%def>

kernel void reduce_columns(global const ${source}* restrict x, const ulong offset, const long step, const ulong n,
                           const ulong part, global ${accumulator}* restrict result, const ulong columns,
                           const long column_step${parts.arguments(outer_dims, initial, accumulator)}) {
    const ulong column = get_global_id(0) * (ulong) ${width};
    const ulong start = get_global_id(1) * part;
    const ulong row = get_global_id(2);
    const long length = (long) min(part, n - start);
    const int count = (int) min((ulong) ${width}, columns - column);
    ${parts.address("row", outer_dims)}
    x += (long) offset + row_start + (long) start * step + (long) column * column_step;
    result += (get_global_id(1) * get_global_size(2) + row) * columns + column;
    ${accumulator} sum[${width}];
% if width > 1:
    if (count == ${width}) {
        ${fold(width)}
    } else
% endif
    {
        ${fold("count")}
    }
}
