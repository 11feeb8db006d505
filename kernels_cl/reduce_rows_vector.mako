## Folds rows, or parts of rows, with one work-item each (CPU mapping). Elements of a row have stride `step`.
## Phases: the first elements initialize the accumulators; every later block is combined with them; the accumulators are
## folded, then the rest of the part. With width 0, the fold is strictly left to right, for any associative operator.
## With a width, there are `width` * `unroll` interleaved accumulators, for commutative operators and step 1.
## Launch: one work-item per part of a row; rows vary fastest. Results are stored as (parts, rows).
## Parameters: declarations, operator (C functions `T combine(T, T)` and, with a width, `wide_combine` on vectors),
## source, accumulator (C types), convert (C expression of x), width, unroll, wide (vector type), wide_convert (function
## name or empty), outer_dims (axes of the rows), initial (there is a first value).
<%namespace name="parts" file="reduce_parts.mako"/>
${declarations}
${operator}
${parts.functions(source, accumulator, convert)}

kernel void reduce_rows(global const ${source}* restrict x, const ulong offset, const long step, const ulong n,
                        const ulong part, const ulong rows, global ${accumulator}* restrict result
                        ${parts.arguments(outer_dims, initial, accumulator)}) {
    const ulong row = get_global_id(0) % rows;
    const ulong start = get_global_id(0) / rows * part;
    const long count = (long) min(part, n - start);
    ${parts.address("row", outer_dims)}
    x += (long) offset + row_start + (long) start * step;
    long i = 1;
    ${accumulator} sum;
% if width:
<%  block = width * unroll  %>
    if (count >= ${block}) {
        ${wide} s[${unroll}];
        for (int u = 0; u < ${unroll}; ++u) s[u] = ${wide_convert}(vload${width}(u, x));
        for (i = ${block}; i + ${block} <= count; i += ${block})
            for (int u = 0; u < ${unroll}; ++u) s[u] = wide_combine(s[u], ${wide_convert}(vload${width}(u, x + i)));
        ${accumulator} lanes[${width}];
% for u in range(1, unroll):
        s[0] = wide_combine(s[0], s[${u}]);
% endfor
        vstore${width}(s[0], 0, lanes);
        sum = lanes[0];
        for (int lane = 1; lane < ${width}; ++lane) sum = combine(sum, lanes[lane]);
    } else
% endif
        sum = converted(x[0]);
    for (; i < count; ++i) sum = combine(sum, converted(x[i * step]));
    result[get_global_id(0)] = ${parts.seeded(initial, "sum")};
}
