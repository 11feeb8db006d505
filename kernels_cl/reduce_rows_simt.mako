## Folds rows, or parts of rows, by work-groups of lanes (GPU mapping). Elements of a row have stride `step`.
## Phases: for each tile, every lane folds `items` adjacent elements for each of `waves` virtual wavefronts. With a
## commutative operator, the values go into a register that the lane shares across the wavefronts (wg_waves.mako), and
## the work-group folds once at the end. Otherwise each tile is folded in order, wavefront by wavefront, and then
## combined with the previous tiles: in two alternating buffers (wg_parity.mako), or in one buffer with one more
## barrier.
## Launch: one work-group of `lanes` per part of a row; rows vary fastest. Results are stored as (parts, rows).
## Parameters: declarations, operator (C function `T combine(T, T)`), source, accumulator (C types), convert (C
## expression of x), lanes (a power of two), items, waves, buffers, commutes, outer_dims (axes of the rows), initial
## (there is a first value), bounded, empty (see reduce_rows_vector),
##   hook (see reduce_hooks.mako; None: none), and if there is one, last (this is the last pass), target (C type of the
##   results); the elements of a lane in a tile are then one run;
##   early (only with a commutative operator: in a whole tile, all elements of a lane are loaded before the first is
##   folded, so their loads do not wait for one another), unit (the step is 1);
##   lowerings (of the tree's barriers), attribute, subgroups (see pydp.groups.barrier.build).
<%namespace name="parts" file="reduce_parts.mako"/>
<%namespace name="hooks" file="reduce_hooks.mako"/>
<%namespace name="group" file="wg_reduce.mako"/>
<%namespace name="barriers" file="wg_barrier.mako"/>
<%namespace name="virtual" file="wg_waves.mako"/>
<%namespace name="parity" file="wg_parity.mako"/>
<%
    wave_items = lanes * items
    tile = waves * wave_items if commutes else wave_items
%>
% if subgroups:
${barriers.enable_subgroups()}
% endif
${declarations}
${operator}
% if hook:
<% second = bool(hook["second"]) %>
${hooks.functions(hook, [], False, last)}
% else:
${parts.functions(source, accumulator, convert)}
% endif
#define AT(i) ${"(i)" if unit else "(i) * step"}

kernel ${attribute} void reduce_rows(global const ${source}* restrict x, const ulong offset, const long step, const ulong ${"capacity" if bounded else "n"},
                        const ulong part, const ulong rows, global ${target if hook else accumulator}* restrict result
                        ${parts.arguments(outer_dims, initial, accumulator)}${hooks.arguments(hook, second, last) if hook else ""}${parts.limit_arguments(bounded)}) {
    ${parts.limit(bounded)}
    local ${accumulator} values[${lanes if commutes else buffers * lanes}];
    const ulong row = get_group_id(0) % rows;
    const int lane = (int) get_local_id(0);
    const ulong start = get_group_id(0) / rows * part;
## Without elements, a work-group still passes all barriers: PoCL loses private values if a kernel returns before one.
    const long count = ${"start < n ? (long) min(part, n - start) : 0" if bounded else "(long) min(part, n - start)"};
    const int tiles = (int) ((count + ${tile - 1}) / ${tile});
    ${parts.address("row", outer_dims)}
    x += (long) offset + row_start + (long) start * step;
    ${virtual.declare("sum", accumulator)}
% if hook:
% if second:
    y += (long) y_offset + row_start + (long) start * step;
% endif
    for (int tile = 0; tile < tiles; ++tile) {
        const long origin = (long) tile * ${tile} + lane * ${items};
        run1 r;
        int taken = 0;
% if early:
        if ((long) (tile + 1) * ${tile} <= count) {
            ${load_early()}
<%virtual:each waves="${waves}">
            for (int i = 0; i < ${items}; ++i) {
                const int k = wave * ${items} + i, place = wave * ${wave_items} + i;
                if (k) r = extend1(r, early_x[k]${", early_y[k]" if second else ""}, place); else r = start1(early_x[0]${", early_y[0]" if second else ""});
            }
</%virtual:each>
            taken = ${waves * items};
        } else
% endif
<%virtual:each waves="${waves}">
        for (int i = 0; i < ${items}; ++i) {
            const int place = wave * ${wave_items} + i;
            const long at = AT(origin + place);
            if (origin + place < count) {
                if (taken) r = extend1(r, x[at]${", y[at]" if second else ""}, place); else r = start1(x[at]${", y[at]" if second else ""});
                ++taken;
            }
        }
</%virtual:each>
        if (taken) {
            const tuple1 t = closed1(r, taken, (long) start + origin, 1);
            if (tile) sum = merge1(sum, t); else sum = t;
        }
    }
    const int holders = (int) min((long) ${lanes}, (count + ${items - 1}) / ${items});
    ${virtual.finish("sum", "values", "lane", "holders", lanes, lowerings)}
    sum = values[0];
% elif commutes:
    for (int tile = 0; tile < tiles; ++tile) {
        const long origin = (long) tile * ${tile} + lane * ${items};
%   if early:
        if ((long) (tile + 1) * ${tile} <= count) {
            ${load_early()}
            ${parts.fold_in_pairs(accumulator, [f"converted(early_x[{k}])" for k in range(waves * items)])}
            ${virtual.fold("sum", "pair_0", "tile == 0")}
        } else
%   endif
<%virtual:each waves="${waves}">
        const long first = origin + wave * ${wave_items};
        for (int i = 0; i < ${items}; ++i) {
            if (first + i < count) {
                const ${accumulator} value = converted(x[AT(first + i)]);
                ${virtual.fold("sum", "value", "tile == 0 && wave == 0 && i == 0")}
            }
        }
</%virtual:each>
    }
    const int holders = (int) min((long) ${lanes}, (count + ${items - 1}) / ${items});
    ${virtual.finish("sum", "values", "lane", "holders", lanes, lowerings)}
    sum = values[0];
% else:
    for (int tile = 0; tile < tiles; ++tile) {
        local ${accumulator}* const held = values + ${parity.half(buffers, "tile", lanes)};
        const long first = (long) tile * ${tile} + lane * ${items};
        const long rest = count - (long) tile * ${tile};
        const int holders = (int) min((long) ${lanes}, (rest + ${items - 1}) / ${items});
        if (lane < holders) {
            ${accumulator} own = converted(x[AT(first)]);
            for (int i = 1; i < ${items}; ++i)
                if (first + i < count) own = combine(own, converted(x[AT(first + i)]));
            held[lane] = own;
        }
        ${group.reduce("held", "lane", "holders", lanes, lowerings, shared=buffers == 1)}
        if (lane == 0) {
            if (tile == 0)
                sum = held[0];
            else
                sum = combine(sum, held[0]);
        }
    }
% endif
% if bounded and empty:
    if (lane == 0 && n == 0 && start == 0) result[0] = ${empty};
% endif
    if (lane == 0${" && count > 0" if bounded else ""})
% if hook:
        ${hooks.store(hook, last, "get_group_id(0)", "sum", bounded)}
% else:
        result[get_group_id(0)] = ${parts.seeded(initial, "sum")};
% endif
}
##
## Loads a lane's elements of a whole tile.
<%def name="load_early()">
            ${source} early_x[${waves * items}];
% if hook and hook["second"]:
            ${hook["second"]} early_y[${waves * items}];
% endif
<%virtual:each waves="${waves}">
            for (int i = 0; i < ${items}; ++i) {
                const long at = AT(origin + wave * ${lanes * items} + i);
                early_x[wave * ${items} + i] = x[at];
% if hook and hook["second"]:
                early_y[wave * ${items} + i] = y[at];
% endif
            }
</%virtual:each>
</%def>
