## Folds along an axis with adjacent columns (GPU mapping): each lane folds a part of one column, in order.
## Launch: one work-item for a column of a part; columns vary fastest, then rows. The last work-group may have idle
## work-items. Results are stored as (parts, outer rows, columns).
## Parameters: declarations, operator (C function `T combine(T, T)`), source, accumulator (C types), convert (C
## expression of x), unit (columns have stride 1), outer_dims (axes of the outer rows), initial (there is a first
## value).
<%namespace name="parts" file="reduce_parts.mako"/>
${declarations}
${operator}
${parts.functions(source, accumulator, convert)}

kernel void reduce_columns(global const ${source}* restrict x, const ulong offset, const long step, const ulong n,
                           const ulong part, const ulong rows, global ${accumulator}* restrict result,
                           const ulong columns, const long column_step, const ulong work${parts.arguments(outer_dims, initial, accumulator)}) {
    const ulong column = get_global_id(0) % columns, above = get_global_id(0) / columns;
    const ulong row = above % rows, part_index = above / rows;
    const ulong start = part_index * part;
    const long length = (long) min(part, n - start);
    if (get_global_id(0) < work) {
        ${parts.address("row", outer_dims)}
        x += (long) offset + row_start + (long) start * step + (long) column${"" if unit else " * column_step"};
        ${accumulator} sum = converted(x[0]);
        for (long i = 1; i < length; ++i) {
            x += step;
            sum = combine(sum, converted(x[0]));
        }
        result[get_global_id(0)] = ${parts.seeded(initial, "sum")};
    }
}
