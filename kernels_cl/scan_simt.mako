## Scan of one axis, or of many rows, for GPUs: a work-group of lanes stages a partition in local memory.
## Phases: take a partition; each row of lanes loads its part with coalesced reads; every lane folds its items; the
## work-group scans the lanes; lane 0 publishes the aggregate; the first lanes look back together; lane 0 publishes the
## prefix; every lane scans its items; each row stores its part with coalesced writes. Between loads, folds and stores, only lanes of the
## same row exchange elements: those barriers synchronize a row. Barriers around lane 0 synchronize the work-group.
## Launch: one work-group of `lanes` work-items per partition of `part` <= lanes * items elements.
## Parameters: see scan_common and wg_lookback; one_row (each partition is a whole row, and there are no other heads);
## phase, exclusive, start_value, total, keeps as in scan_vector; lanes,
## columns (lanes of a row of the work-group's scan), items (elements of a lane), pad (one unused element of local
## memory after each `pad` elements, against bank conflicts; 0: none), window (lanes that look back together), lowerings
## (of the barriers `taken`, `loaded`, `summed`, `rows`, `looked`, `prefixes`, `scanned`), attribute and subgroups (see pydp.groups.barrier_plan).
<%namespace name="common" file="scan_common.mako"/>
<%namespace name="group" file="wg_scan.mako"/>
<%namespace name="lookback" file="wg_lookback.mako"/>
<%namespace name="barriers" file="wg_barrier.mako"/>\
<%
    tile = lanes * items
    padded = tile + (tile // pad if pad else 0)
    has_heads = heads != "none" or (rows and not one_row)
    recomputed = f"recompute({capture(common.input_names)}, back, &found)"
%>
% if subgroups:
${barriers.enable_subgroups()}
% endif
${common.prelude()}
${common.addresses()}
#define AT(i) ((i)${f" + (i) / {pad}" if pad else ""})
#define FOLD(sum, have, v) if (have) sum = combine(sum, v); else { sum = v; have = 1; }
#define LANE ((int) get_local_id(0))

% if has_heads:
static int is_head(${common.inputs()}, const long i) {
% if rows:
    const long row = i / row_length;
    const long k = i - row * row_length;
    if (k == 0) return 1;
%   if heads != "none":
    const long h_base = H_BASE(row);
%   endif
% else:
    const long k = i;
    const long h_base = h_offset;
% endif
    return ${"IS_HEAD(h_base, k)" if heads != "none" else "0"};
}
% endif

static long x_at(${common.inputs()}, const long i) {
% if rows:
    const long row = i / row_length;
    return X_AT(X_BASE(row), i - row * row_length);
% else:
    return X_AT(x_offset, i);
% endif
}

## The row of element i and the element's index in it; `next_in_row` moves on by `columns` elements. A division of 64-bit
## integers takes a hundred instructions on GPUs, so there is only one for all elements of a lane if rows are long.
<%def name="row_of(i, declare=True)">
% if one_row:
    ${"const long row = p; long " if declare else ""}in_row = stretch;
% elif rows:
    ${"long " if declare else ""}row = (${i}) / row_length${"," if declare else ";"} in_row = (${i}) - row * row_length;
% endif
</%def>
<%def name="next_in_row()">
% if rows:
        in_row += ${columns};
%   if not one_row:
        if (in_row >= row_length) {
            row += in_row / row_length;
            in_row %= row_length;
        }
%   endif
% endif
</%def>
## Resets the state before an element: a head starts a new segment.
<%def name="reset(sum, have)">
%   if heads_init:
    ${sum} = INIT;
    ${have} = 1;
%   else:
    ${have} = 0;
%   endif
</%def>
% if phase == "single":
${lookback.functions("VALUE", keeps)}
%   if window > 1:
${lookback.look_back_kinds(window)}
%   endif
/* The aggregate of a partition whose owner has not published it, folded in the same order as the work-group's scan.
   Returns 1 if it is the inclusive prefix. Only one work-item computes it, because this is rare. */
static int recompute(${common.inputs()}, const int p, VALUE* result) {
    const long begin = (long) p * part;
    const int count = (int) min((long) part, n - begin);
    VALUE all_v, row_v, lane_v;
    int all_have = 0, whole = 0;
    for (int first = 0; first < count; first += ${columns * items}) {
        int row_have = 0, row_head = 0;
        for (int item = first; item < min(first + ${columns * items}, count); item += ${items}) {
            int have = 0, head = 0;
            for (int i = item; i < min(item + ${items}, count); ++i) {
                const VALUE v = converted(x[x_at(${common.input_names()}, begin + i)]);
% if has_heads:
                if (is_head(${common.input_names()}, begin + i)) {
                    head = 1;
                    ${reset("lane_v", "have")}
                }
% endif
                FOLD(lane_v, have, v)
            }
            if (head) { row_v = lane_v; row_have = 1; row_head = 1; } else { FOLD(row_v, row_have, lane_v) }
        }
        if (row_head) { all_v = row_v; all_have = 1; whole = 1; } else { FOLD(all_v, all_have, row_v) }
    }
    if (p == 0) {
% if start != "none":
        if (!whole) all_v = combine(START, all_v);
% endif
        whole = 1;
    }
    *result = all_v;
    return whole;
}
% endif

kernel __attribute__((reqd_work_group_size(${lanes}, 1, 1))) ${attribute} void scan(
    ${common.kernel_inputs()}
% if phase == "reduce":
    , global VALUE* aggregates, global uchar* partition_heads
% else:
    , ${common.layout_parameters("y", "VALUE", y_unit)}
%   if phase == "single":
    , volatile global uint* state, const uint tag, const int parts
%   elif phase == "seeded":
    , global const VALUE* seeds
%   endif
%   if total:
    , global VALUE* total_out
%   endif
% endif
) {
    ${common.begin_kernel()}
    local VALUE tile[${padded}];
    local VALUE lane_value[${lanes + lanes // columns}];
    local VALUE row_value[${lanes // columns}];
    local uchar lane_head[${lanes + lanes // columns}];
    local uchar row_head[${lanes // columns}];
% if has_heads:
    local uchar heads[${tile}];
% endif
% if phase == "single":
    local int taken;
    local VALUE group_sum;
    local uchar group_head;
%   if window > 1:
    ${lookback.look_back_memory(window)}
%   endif
    if (LANE == 0) taken = take_partition(state, parts);
    ${barriers.synchronize("taken", lowerings, lanes)}
    const int p = taken;
% else:
    const int p = (int) get_group_id(0);
% endif
    const long begin = (long) p * part;
## Without elements, a work-group still passes all barriers: PoCL loses private values if a kernel returns before one.
    const int count = (int) ${"max(0L, min((long) part, n - begin))" if bounded else "min((long) part, n - begin)"};
    const int active = (count + ${items - 1}) / ${items};
    const int stretch = LANE / ${columns} * ${columns * items} + LANE % ${columns};
    ${row_of("begin + stretch")}
    for (int i = 0; i < ${items}; ++i) {
        const int at = stretch + i * ${columns};
        if (at < count) {
% if rows:
            tile[AT(at)] = converted(x[X_AT(X_BASE(row), in_row)]);
%   if has_heads and heads == "none":
            heads[at] = (uchar) (in_row == 0);
%   elif has_heads:
            const long h_base = H_BASE(row);
            heads[at] = (uchar) (in_row == 0 || IS_HEAD(h_base, in_row));
%   endif
% else:
            tile[AT(at)] = converted(x[x_at(${common.input_names()}, begin + at)]);
%   if has_heads:
            heads[at] = (uchar) is_head(${common.input_names()}, begin + at);
%   endif
% endif
        }
        ${next_in_row()}
    }
    ${barriers.synchronize("loaded", lowerings, lanes)}
    const int first = LANE * ${items};
    if (LANE < active) {
        VALUE sum;
        int have = 0;
        uchar head = 0;
        for (int i = first; i < min(first + ${items}, count); ++i) {
            const VALUE v = tile[AT(i)];
% if has_heads:
            if (heads[i]) {
                head = 1;
                ${reset("sum", "have")}
            }
% endif
            FOLD(sum, have, v)
        }
        lane_value[${group.slot("LANE", columns)}] = sum;
        lane_head[${group.slot("LANE", columns)}] = head;
    }
    ${barriers.synchronize("summed", lowerings, lanes)}
    ${group.rows_inclusive(lanes, columns, "LANE", "active")}
    ${barriers.synchronize("rows", lowerings, lanes)}
% if phase == "reduce":
    if (LANE == 0${" && count > 0" if bounded else ""}) {
        VALUE sum;
        uchar head = 0;
        ${group.group_total(lanes, columns, "active", "sum", "head")}
        aggregates[p] = sum;
        partition_heads[p] = head;
    }
%   if bounded:
    if (LANE == 0 && count == 0) { /* an element of the array, for a prefix that no partition uses */
        aggregates[p] = converted(x[x_at(${common.input_names()}, 0)]);
        partition_heads[p] = 0;
    }
%   endif
% else:
%   if phase == "single":
    if (LANE == 0 && p < parts - 1${" && count > 0" if bounded else ""}) {
        VALUE sum;
        uchar head = 0;
        ${group.group_total(lanes, columns, "active", "sum", "head")}
        if (p == 0) {
%     if start != "none":
            if (!head) sum = combine(START, sum);
%     endif
            head = 1;
        }
        if (head) {
            ${lookback.announce("p", "PREFIX", "sum")}
%     if not chained:
        } else {
            ${lookback.announce("p", "AGGREGATE", "sum")}
%     endif
        }
%     if keeps:
        /* Never true. The condition makes the stores of all lanes wait until the aggregate is kept. */
        if (keep(state, tag, p, head ? PREFIX : AGGREGATE, sum)) taken = -1;
%     endif
        group_sum = sum;
        group_head = head;
    }
%     if window > 1:
    if (p > 0${" && count > 0" if bounded else ""}) {
        ${lookback.look_back_together("p", recomputed, "LANE", window, lanes, lowerings, keeps)}
    }
%     endif
%   endif
    if (LANE == 0${" && count > 0" if bounded else ""}) {
        VALUE before;
        int have = 0;
%   if one_row and heads_init:
        before = INIT;
        have = 1;
%   endif
%   if start != "none":
        if (p == 0) { before = START; have = 1; }
%   endif
%   if phase == "seeded":
        if (p > 0) { before = seeds[p - 1]; have = 1; }
%   elif phase == "single":
        if (p > 0) {
%     if window > 1:
            before = seen_prefix;
%     else:
            ${lookback.look_back("p", "before", recomputed, keeps)}
%     endif
            have = 1;
            if (p < parts - 1 && !group_head) {
                const VALUE sum = combine(before, group_sum);
                ${lookback.announce("p", "PREFIX", "sum")}
            }
        }
%   endif
        ${group.rows_exclusive(lanes, columns, "active", "before", "have")}
    }
    ${barriers.synchronize("prefixes", lowerings, lanes)}
    if (LANE < active) {
        VALUE sum;
        int have;
        ${group.lane_exclusive(lanes, columns, "LANE", "sum", "have")}
        for (int i = first; i < min(first + ${items}, count); ++i) {
            const VALUE v = tile[AT(i)];
%   if has_heads:
            if (heads[i]) {
                ${reset("sum", "have")}
            }
%   endif
%   if exclusive:
            if (have) tile[AT(i)] = sum; ${f"else tile[AT(i)] = {start_value};" if start_value else ""}
%   endif
            FOLD(sum, have, v)
%   if not exclusive:
            tile[AT(i)] = sum;
%   endif
        }
%   if total:
        if (begin + first < n && begin + first + ${items} >= n) total_out[0] = sum;
%   endif
    }
    ${barriers.synchronize("scanned", lowerings, lanes)}
    ${row_of("begin + stretch", declare=False)}
    for (int i = 0; i < ${items}; ++i) {
        const int at = stretch + i * ${columns};
        if (at < count${" && taken >= 0" if keeps else ""}) {
%   if rows:
            y[Y_AT(Y_BASE(row), in_row)] = tile[AT(at)];
%   else:
            y[Y_AT(y_offset, begin + at)] = tile[AT(at)];
%   endif
        }
        ${next_in_row()}
    }
% endif
}
