## Folds along an axis with adjacent columns: each work-item folds `width` columns.
## Phases: the first row initializes the accumulators; every later row is combined in order. Whole blocks of columns run
## without bounds checks, therefore the compiler can vectorize the inner loop.
## Launch: one work-item for a block of columns of a part; blocks vary fastest, then rows. The last work-group may have
## idle work-items. Results are stored as (parts, outer rows, columns).
## Parameters: declarations, operator (C functions `T combine(T, T)` and, with `lanes`, `wide_combine` on vectors),
## source, accumulator (C types), convert (C expression of x), width (1 on GPUs), unit (columns have stride 1), lanes
## (columns of a vector, or 0), wide (vector type), wide_convert (function name or empty), outer_dims (axes of the outer
## rows), initial (there is a first value).
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
                           const ulong part, const ulong rows, global ${accumulator}* restrict result,
                           const ulong columns, const long column_step, const ulong work${parts.arguments(outer_dims, initial, accumulator)}) {
    const ulong blocks = (columns + ${width - 1}) / ${width};
    const ulong block = get_global_id(0) % blocks, above = get_global_id(0) / blocks;
    const ulong column = block * (ulong) ${width};
    const ulong row = above % rows, part_index = above / rows;
    const ulong start = part_index * part;
    const long length = (long) min(part, n - start);
% if width > 1:
    const int count = (int) min((ulong) ${width}, columns - column);
% endif
    if (get_global_id(0) < work) {
        ${parts.address("row", outer_dims)}
        x += (long) offset + row_start + (long) start * step + (long) column * column_step;
        result += above * columns + column;
% if width == 1:
        ${accumulator} sum = converted(x[0]);
        for (long i = 1; i < length; ++i) {
            x += step;
            sum = combine(sum, converted(x[0]));
        }
        result[0] = ${parts.seeded(initial, "sum")};
% else:
        ${accumulator} sum[${width}];
% if lanes:
        if (count == ${width}) {
            ${wide} wide_sum[${width // lanes}];
            for (int v = 0; v < ${width // lanes}; ++v) wide_sum[v] = ${wide_convert}(vload${lanes}(v, x));
            for (long i = 1; i < length; ++i) {
                x += step;
                for (int v = 0; v < ${width // lanes}; ++v)
                    wide_sum[v] = wide_combine(wide_sum[v], ${wide_convert}(vload${lanes}(v, x)));
            }
            for (int v = 0; v < ${width // lanes}; ++v) vstore${lanes}(wide_sum[v], v, sum);
            for (int c = 0; c < ${width}; ++c) result[c] = ${parts.seeded(initial, "sum[c]")};
        } else
% else:
        if (count == ${width}) {
            ${fold(width)}
        } else
% endif
        {
            ${fold("count")}
        }
% endif
    }
}
