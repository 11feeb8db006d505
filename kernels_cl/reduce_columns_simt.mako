## Folds along an axis with adjacent columns (GPU mapping): each lane folds a part of one column, in order. It loads a
## few elements before it folds them in pairs, and folds blocks of these: loads do not wait for one another, and sums of
## floats lose few roundings.
## Launch: one work-item for a column of a part; columns vary fastest, then rows. The last work-group may have idle
## work-items. Results are stored as (parts, outer rows, columns).
## Parameters: declarations, operator (C function `T combine(T, T)`), source, accumulator (C types), convert (C
## expression of x), unit (columns have stride 1), outer_dims (axes of the outer rows), initial (there is a first
## value);
##   hook (see reduce_hooks.mako; None: none), and if there is one, chain (elements of a run), last (this is the last
##   pass), target (C type of the results).
<%namespace name="parts" file="reduce_parts.mako"/>
<%namespace name="hooks" file="reduce_hooks.mako"/>
<% unrolled = 8 %>
${declarations}
${operator}
% if hook:
<% second = bool(hook["second"]) %>
${hooks.functions(hook, [], False, last)}
% else:
${parts.functions(source, accumulator, convert)}
% endif

kernel void reduce_columns(global const ${source}* restrict x, const ulong offset, const long step, const ulong n,
                           const ulong part, const ulong rows, global ${target if hook else accumulator}* restrict result,
                           const ulong columns, const long column_step, const ulong work${parts.arguments(outer_dims, initial, accumulator)}${hooks.arguments(hook, second, last) if hook else ""}) {
    const ulong column = get_global_id(0) % columns, above = get_global_id(0) / columns;
    const ulong row = above % rows, part_index = above / rows;
    const ulong start = part_index * part;
    const long length = (long) min(part, n - start);
    if (get_global_id(0) < work) {
        ${parts.address("row", outer_dims)}
        x += (long) offset + row_start + (long) start * step + (long) column${"" if unit else " * column_step"};
% if hook:
% if second:
        y += (long) y_offset + row_start + (long) start * step + (long) column${"" if unit else " * column_step"};
% endif
        tuple1 sum;
        for (long i = 0; i < length; i += ${chain}) {
            const int count = (int) min(${chain}L, length - i);
            run1 r = start1(x[0]${", y[0]" if second else ""});
            for (int k = 1; k < count; ++k) r = extend1(r, x[k * step]${", y[k * step]" if second else ""}, k);
            const tuple1 t = closed1(r, count, (long) start + i, 1);
            if (i == 0) sum = t; else sum = merge1(sum, t);
            x += count * step;
% if second:
            y += count * step;
% endif
        }
        ${hooks.store(hook, last, "get_global_id(0)", "sum", False)}
% else:
        ${accumulator} sum;
        for (long i = 0; i < length;) {
            const long end = min(i + ${1 + 32 * unrolled}, length);
            ${accumulator} block = converted(x[0]);
            const int first = i == 0;
            x += step;
            for (++i; i + ${unrolled} <= end; i += ${unrolled}) {
% for k in range(unrolled):
                const ${source} x_${k} = x[${k} * step];
% endfor
                ${parts.fold_in_pairs(accumulator, [f"converted(x_{k})" for k in range(unrolled)])}
                block = combine(block, pair_0);
                x += ${unrolled} * step;
            }
            for (; i < end; ++i) {
                block = combine(block, converted(x[0]));
                x += step;
            }
            if (first) sum = block; else sum = combine(sum, block);
        }
        result[get_global_id(0)] = ${parts.seeded(initial, "sum")};
% endif
    }
}
