## Folds along an axis with adjacent columns (CPU mapping): each work-item folds a block of columns, in order.
## Phases, for each outer row: the first row of elements initializes the results; then `unroll` rows at a time are
## combined with each other, pairwise, and with the results, which stay in the cache. Whole vectors, then single
## columns.
## Launch: one work-item for `block` columns of `each` outer rows of a part; blocks vary fastest, then outer rows.
## Results are stored as (parts, outer rows, columns). The last part may have one more row, of `ragged` columns.
## Parameters: declarations, source, accumulator (C types), convert (C expression of x), unit (columns have stride 1),
## unroll (rows of an iteration, a power of two), outer_dims (axes of the outer rows), initial (there is a first value),
##   operator, width, narrow, narrow_convert, wide, wide_convert (see reduce_parts.mako; width 0: no vectors).
<%namespace name="parts" file="reduce_parts.mako"/>
<%def name="fold(count, rows, first=False)">
<%
    element = "c" if unit else "c * column_step"
    vectors = [f"{narrow_convert}(LOAD{width}(x + {r} * step + c))" for r in range(rows)]
    elements = [f"converted(x[{r} * step + {element}])" for r in range(rows)]
%>
                long c = 0;
% if width:
                for (; c + ${width} <= ${count}; c += ${width}) {
                    const ${wide} v = ${wide_convert}(${parts.module.pairwise(f"narrow_combine{width}", vectors)});
% if not first:
                    RESULTS${width}(to + c) = wide_combine${width}(RESULTS${width}(to + c), v);
% elif initial:
                    RESULTS${width}(to + c) = wide_combine${width}((${wide}) (initial[initial_offset]), v);
% else:
                    RESULTS${width}(to + c) = v;
% endif
                }
% endif
                for (; c < ${count}; ++c) {
                    const ${accumulator} v = ${parts.module.pairwise("combine", elements)};
                    to[c] = ${parts.seeded(initial, "v") if first else "combine(to[c], v)"};
                }
</%def>
${declarations}
${operator}
${parts.functions(source, accumulator, convert)}
${parts.vectors(source, accumulator, width)}

kernel void reduce_columns(global const ${source}* restrict x, const ulong offset, const long step, const ulong n,
                           const ulong part, const ulong rows, global ${accumulator}* restrict result,
                           const ulong columns, const long column_step, const ulong block, const ulong each,
                           const ulong ragged${parts.arguments(outer_dims, initial, accumulator)}) {
    const ulong blocks = (columns + block - 1) / block, turns = (rows + each - 1) / each;
    const ulong above = get_global_id(0) / blocks;
    const ulong column = get_global_id(0) % blocks * block;
    const long count = (long) min(block, columns - column);
    const ulong start = above / turns * part, first = above % turns * each;
    const long length = (long) min(part, n - start);
    const long rest = start + part < n ? 0 : min(count, (long) ragged - (long) column);
    x += (long) offset + (long) start * step + (long) column * column_step;
    result += (above / turns * rows + first) * columns + column;
    for (ulong row = first; row < min(first + each, rows); ++row, result += columns) {
        ${parts.address("row", outer_dims)}
        global const ${source}* const origin = x;
        global ${accumulator}* const to = result;
        x += row_start;
        {
            ${fold("count", 1, first=True)}
        }
        x += step;
        long i = 1;
        for (; i + ${unroll} <= length; i += ${unroll}, x += ${unroll} * step) {
            ${fold("count", unroll)}
        }
        for (; i <= length; ++i, x += step) {
            const long whole = i < length ? count : rest;
            ${fold("whole", 1)}
        }
        x = origin;
    }
}
