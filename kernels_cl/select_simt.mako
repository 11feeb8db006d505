## Select for GPUs: a work-group of lanes selects from a partition that it stages in local memory.
## Phases: take a partition; all lanes load elements and flags with coalesced reads; every lane folds the states of its
## items; the work-group scans the lanes' states; lane 0 publishes the state of the partition; the first lanes look back
## together; lane 0 publishes the prefix; every lane notes the places of its kept items in order; all lanes store the kept elements with coalesced
## writes.
## Launch: one work-group of `lanes` work-items per partition of `part` <= lanes * items elements.
## Parameters: see select_common and wg_lookback; phase as in select_vector; lanes, columns (lanes of a row of the
## work-group's scan), items (elements of a lane), window (lanes that look back together), lowerings (of the barriers
## `taken`, `loaded`, `summed`, `rows`, `looked`, `prefixes`, `placed`), attribute and subgroups (see pydp.groups.barrier_plan).
<%namespace name="common" file="select_common.mako"/>
<%namespace name="group" file="wg_scan.mako"/>
<%namespace name="lookback" file="wg_lookback.mako"/>
<%namespace name="barriers" file="wg_barrier.mako"/>\
<%
    tile = lanes * items
    recomputed = f"recompute({capture(common.input_names)}, back, &found)"
    last, slot = ("per_row", "slots + $P") if limits else ("parts", "$P")
    here = slot.replace("$P", "p")
    both = "kept + second" if three else "kept"
%>
% if subgroups:
${barriers.enable_subgroups()}
% endif
${common.prelude()}
#define FOLD(sum, have, v) if (have) sum = combine(sum, v); else { sum = v; have = 1; }
#define LANE ((int) get_local_id(0))

/* The state of one element. */
static VALUE state_at(${common.inputs()}, const long i, const int flag) {
% if state_kind == "count":
    return flag;
% elif state_kind == "lengths":
    return (VALUE) (flag, flag ? i : 0);
% elif state_kind == "parts":
    return (VALUE) (flag == 1, flag == 2);
% else:
    return state_of(flag, converted(s[S_AT(i)]));
% endif
}
% if phase == "single":
${lookback.functions("VALUE")}
%   if window > 1:
${lookback.look_back_kinds(window)}
%   endif
/* The state of a partition whose owner has not published it, folded in the same order as the work-group's scan. Returns
   1 if it includes all earlier partitions. Only one work-item computes it, because this is rare. */
static int recompute(${common.inputs()}, const int p, VALUE* result) {
    const long begin = (long) p * part;
    const int count = (int) min((long) part, n - begin);
    VALUE all_v, row_v, lane_v;
    int all_have = 0;
    for (int first = 0; first < count; first += ${columns * items}) {
        int row_have = 0;
        for (int item = first; item < min(first + ${columns * items}, count); item += ${items}) {
            int have = 0;
            for (int i = item; i < min(item + ${items}, count); ++i) {
                const VALUE v = state_at(${common.input_names()}, begin + i, KEEP(begin + i));
                FOLD(lane_v, have, v)
            }
            FOLD(row_v, row_have, lane_v)
        }
        FOLD(all_v, all_have, row_v)
    }
    *result = all_v;
    return p == 0;
}
% endif

kernel __attribute__((reqd_work_group_size(${lanes}, 1, 1))) ${attribute} void select_elements(
    ${common.kernel_inputs()} ${", global VALUE* aggregates" if phase == "reduce" else capture(common.outputs, phase)}
) {
    ${common.begin_kernel()}
    local uchar flags[${tile}];
    local VALUE lane_value[${lanes + lanes // columns}];
    local VALUE row_value[${lanes // columns}];
    local uchar lane_head[${lanes + lanes // columns}]; /* no state ends the fold: always 0 */
    local uchar row_head[${lanes // columns}];
% if phase != "reduce":
%   if elements:
    local WORD_OF_ELEMENT tile[${tile * element_words}];
%   endif
%   if sums:
    local SUM sums[${tile}];
%   endif
    local ushort places[${tile}];
    local VALUE group_sum, group_before;
% endif
% if phase == "single":
    local int taken;
%   if window > 1:
    ${lookback.look_back_memory(window)}
%   endif
    if (LANE == 0) taken = take_partition(state, parts);
    ${barriers.synchronize("taken", lowerings, lanes)}
    ${common.begin_partition("taken", phase)}
% else:
    ${common.begin_partition("(int) get_group_id(0)", phase)}
% endif
    const long begin = (long) p * part;
    const int count = (int) ${"max(0L, min((long) part, n - begin))" if bounded else "min((long) part, n - begin)"};
    const int active = (count + ${items - 1}) / ${items};
    for (int item = 0; item < ${items}; ++item) { /* of constant length: the loads do not wait for one another */
        const int at = LANE + item * ${lanes};
        if (at < count) {
            flags[at] = (uchar) (KEEP(begin + at));
% if phase != "reduce":
%   if elements:
            const long from = E_AT(begin + at) * ${element_words};
            for (int w = 0; w < ${element_words}; ++w) tile[at * ${element_words} + w] = e[from + w];
%   endif
%   if sums:
            sums[at] = converted(s[S_AT(begin + at)]);
%   endif
% endif
        }
    }
    ${barriers.synchronize("loaded", lowerings, lanes)}
    const int first = LANE * ${items};
    if (LANE < active) {
        VALUE sum;
        int have = 0;
        for (int i = first; i < min(first + ${items}, count); ++i) {
            const VALUE v = ${item_state("i")};
            FOLD(sum, have, v)
        }
        lane_value[${group.slot("LANE", columns)}] = sum;
        lane_head[${group.slot("LANE", columns)}] = 0;
    }
    ${barriers.synchronize("summed", lowerings, lanes)}
    ${group.rows_inclusive(lanes, columns, "LANE", "active")}
    ${barriers.synchronize("rows", lowerings, lanes)}
    if (LANE == 0 && count > 0) {
        VALUE sum;
        uchar head = 0;
        ${group.group_total(lanes, columns, "active", "sum", "head")}
% if phase == "reduce":
        aggregates[${here}] = sum;
    }
%   if bounded:
    if (LANE == 0 && count == 0) /* the state of no element; a sum is never used */
        aggregates[p] = ${{"count": "0", "lengths": "(VALUE) (0, 0)", "parts": "(VALUE) (0, 0)", "sums": "state_of(0, converted(s[S_AT(0)]))"}[state_kind]};
%   endif
% else:
        group_sum = sum;
%   if phase == "single":
        if (p < ${last} - 1) {
            if (p == 0) {
                ${lookback.announce(here, "PREFIX", "sum")}
            }${" else {" if not chained else ""}
%     if not chained:
                ${lookback.announce(here, "AGGREGATE", "sum")}
            }
%     endif
        }
    }
%     if window > 1:
    if (p > 0${" && count > 0" if bounded else ""}) {
        ${lookback.look_back_together("p", recomputed, "LANE", window, lanes, lowerings, slot=slot)}
    }
%     endif
    if (LANE == 0 && count > 0) {
%   endif
        VALUE before;
        int have = 0;
%   if phase == "seeded":
        if (p > 0) {
            ${common.load_seed("before").strip()}
            have = 1;
        }
%   elif phase == "single":
        if (p > 0) {
%     if window > 1:
            before = seen_prefix;
%     else:
            ${lookback.look_back("p", "before", recomputed, slot=slot)}
%     endif
            have = 1;
            if (p < ${last} - 1) {
                const VALUE all = combine(before, group_sum);
                ${lookback.announce(here, "PREFIX", "all")}
            }
        }
%   endif
        if (have) group_before = before;
        ${group.rows_exclusive(lanes, columns, "active", "before", "have")}
    }
    ${barriers.synchronize("prefixes", lowerings, lanes)}
    const long kept_before = ${"count > 0 && " if bounded else ""}p > 0 ? COUNT_OF(group_before) : 0;
    const int kept = count > 0 ? (int) COUNT_OF(group_sum) : 0;
% if three:
    const long second_before = ${"count > 0 && " if bounded else ""}p > 0 ? SECOND_OF(group_before) : 0;
    const int second = count > 0 ? (int) SECOND_OF(group_sum) : 0;
% endif
    if (LANE < active) {
        VALUE sum;
        int have;
        ${group.lane_exclusive(lanes, columns, "LANE", "sum", "have")}
        int to = have ? (int) (COUNT_OF(sum) - kept_before) : 0;
%   if three:
        int second_to = have ? (int) (SECOND_OF(sum) - second_before) : 0;
%   endif
        for (int i = first; i < min(first + ${items}, count); ++i) {
%   if sums:
            const VALUE v = ${item_state("i")};
            /* A run ends where the next one starts. */
            if (flags[i] && have && COUNT_OF(sum) > 0) sums_out[COUNT_OF(sum) - 1] = sum.sum;
            FOLD(sum, have, v)
%   endif
            if (flags[i]${" == 1" if three else ""}) places[to++] = (ushort) i;
%   if three:
            else if (flags[i]) places[kept + second_to++] = (ushort) i;
%   endif
%   if rest:
            else places[${both} + i - to${" - second_to" if three else ""}] = (ushort) i;
%   endif
%   if ranks:
            ranks_out[s[S_AT(begin + i)]] = kept_before + to - 1;
%   endif
        }
%   if sums:
        if (begin + first < n && begin + first + ${items} >= n) sums_out[COUNT_OF(sum) - 1] = sum.sum;
%   endif
    }
    ${barriers.synchronize("placed", lowerings, lanes)}
    ${common.declare_sizes(phase, "kept", "second")}
    ${store_part("0", "kept", "kept_before")}
%   if three:
    const long to_second = first_size + second_before - kept;
%     if limits:
    const int wanted = (int) min((long) second, max(row_size - first_size - second_before, 0L));
%     endif
    ${store_part("kept", "kept + wanted" if limits else both, "to_second")}
%   endif
%   if rest:
    const long to_others = first_size + begin - kept_before - kept${" + second_size - second_before - second" if three else ""};
    ${store_part(both, "count", "to_others")}
%   endif
%   if state_kind == "lengths":
    for (int j = LANE; j < kept; j += ${lanes}) {
        const long previous = j > 0 ? begin + places[j - 1] : kept_before > 0 ? LAST_OF(group_before) : 0;
        if (kept_before + j > 0) lengths_out[kept_before + j - 1] = begin + places[j] - previous;
    }
    if (LANE == 0 && ${"count > 0 && " if bounded else ""}begin + count == n && kept_before + kept > 0)
        lengths_out[kept_before + kept - 1] = n - (kept > 0 ? begin + places[kept - 1] : LAST_OF(group_before));
%   endif
%   if not limits:
    if (LANE == 0 && begin + count == n${" && (count > 0 || p == 0)" if bounded else ""}) {
        ${common.store_totals("kept_before + kept", "second_before + second")}
    }
%   endif
% endif
}
##
## Stores the elements and indexes of places from ... end - 1; place j goes to position to + j.
<%def name="store_part(from_, end, to)">
% if elements:
    for (int j = ${from_} + LANE; j < ${end}; j += ${lanes}) {
        for (int w = 0; w < ${element_words}; ++w)
            elements_out[(${to} + j) * ${element_words} + w] = tile[places[j] * ${element_words} + w];
    }
% endif
% if indexes:
    for (int j = ${from_} + LANE; j < ${end}; j += ${lanes}) { ${common.store_index(f"{to} + j", "begin + places[j]")} }
% endif
</%def>
##
<%def name="item_state(i)">\
% if state_kind == "count":
flags[${i}]\
% elif state_kind == "lengths":
(VALUE) (flags[${i}], flags[${i}] ? begin + ${i} : 0)\
% elif state_kind == "parts":
(VALUE) (flags[${i}] == 1, flags[${i}] == 2)\
% elif phase == "reduce":
state_of(flags[${i}], converted(s[S_AT(begin + ${i})]))\
% else:
state_of(flags[${i}], sums[${i}])\
% endif
</%def>
