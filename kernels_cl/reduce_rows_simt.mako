## Folds rows, or parts of rows, by groups of lanes (GPU mapping). Elements of a row are `step` apart.
## Phases: tile after tile, every lane folds `items` neighbouring elements; a commuting operator keeps them in the lane
## and the group folds once at the end, any other is folded in order tile by tile and then to the tiles before.
## Launch: a group of `lanes` for a part of a row, the rows of a part side by side; results lie as (parts, rows).
## Parameters: declarations, operator (C function `T combine(T, T)`), source, accumulator (C types), convert (C expression
## of x), lanes (a power of two), items, commutes, outer_dims (axes of the rows), initial (a first value is given),
##   ways (of the tree's barriers), attribute, subgroups (see pydp.groups.barrier.build).
<%namespace name="parts" file="reduce_parts.mako"/>
<%namespace name="group" file="wg_reduce.mako"/>
<%namespace name="barriers" file="wg_barrier.mako"/>
<%  tile = lanes * items  %>
% if subgroups:
${barriers.enable_subgroups()}
% endif
${declarations}
${operator}
${parts.functions(source, accumulator, convert)}

kernel ${attribute} void reduce_rows(global const ${source}* restrict x, const ulong offset, const long step, const ulong n,
                        const ulong part, const ulong rows, global ${accumulator}* restrict result
                        ${parts.arguments(outer_dims, initial, accumulator)}) {
    local ${accumulator} values[${lanes}];
    const ulong row = get_group_id(0) % rows;
    const int lane = (int) get_local_id(0);
    const ulong start = get_group_id(0) / rows * part;
    const long count = (long) min(part, n - start);
    const int tiles = (int) ((count + ${tile - 1}) / ${tile});
    ${parts.address("row", outer_dims)}
    x += (long) offset + row_start + (long) start * step;
    ${accumulator} sum;
% if commutes:
    for (int tile = 0; tile < tiles; ++tile) {
        const long first = (long) tile * ${tile} + lane * ${items};
        for (int i = 0; i < ${items}; ++i) {
            if (first + i < count) {
                const ${accumulator} value = converted(x[(first + i) * step]);
                if (tile == 0 && i == 0)
                    sum = value;
                else
                    sum = combine(sum, value);
            }
        }
    }
    if ((long) lane * ${items} < count) values[lane] = sum;
    const int holders = (int) min((long) ${lanes}, (count + ${items - 1}) / ${items});
    ${group.reduce("values", "lane", "holders", lanes, ways)}
    sum = values[0];
% else:
    for (int tile = 0; tile < tiles; ++tile) {
        const long first = (long) tile * ${tile} + lane * ${items};
        const long rest = count - (long) tile * ${tile};
        const int holders = (int) min((long) ${lanes}, (rest + ${items - 1}) / ${items});
        if (lane < holders) {
            ${accumulator} own = converted(x[first * step]);
            for (int i = 1; i < ${items}; ++i)
                if (first + i < count) own = combine(own, converted(x[(first + i) * step]));
            values[lane] = own;
        }
        ${group.reduce("values", "lane", "holders", lanes, ways)}
        if (lane == 0) {
            if (tile == 0)
                sum = values[0];
            else
                sum = combine(sum, values[0]);
        }
    }
% endif
    if (lane == 0)
        result[get_group_id(0)] = ${parts.seeded(initial, "sum")};
}
