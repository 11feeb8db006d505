## Scan of one axis, or of many rows, for CPU drivers: one work-item per work-group, explicit vectors.
## A work-item reduces its partition while it reads it from memory (only after the last head), publishes the aggregate,
## looks up the prefix, and scans the partition while it is still in the cache.
## Launch: one work-group of one work-item per partition of `part` elements.
## Parameters: see scan_common and wg_lookback; phase ("single": one pass; "reduce", "seeded": first and last pass
## of reduce-then-scan; "alone": no partition needs a prefix), exclusive, start_value (the first value of an exclusive
## scan without init), total (store the last inclusive prefix), vector (elements of a vector, 0: scalar),
## combine_vector, identity, convert_vector, nontemporal, keeps (in place; see wg_lookback), source_bytes,
## in_place, prefetch (see Profile.prefetches), partitions_ahead (a core loads its next partition into its cache while
## it computes this one: this many partitions ahead if the cores take turns; 0: it does not). If no
## other work-group can overwrite the next partition, it is also reduced then, and its aggregate is published. The
## work-group that scans it need not reduce it.
<%namespace name="common" file="scan_common.mako"/>
<%namespace name="lookback" file="wg_lookback.mako"/>
<%namespace name="memory" file="prefetch.mako"/>
<%
    digits = "0123456789abcdef"[:vector or 1]
    wide = f"{value}{vector}"
    ordered = f".s{digits[::-1]}" if vector and x_unit < 0 else ""
    y_ordered = f".s{digits[::-1]}" if vector and y_unit < 0 else ""
    back = (vector or 1) - 1
    x_vector = f"- (k) - {back}" if x_unit < 0 else "+ (k)"
    y_vector = f"- (k) - {back}" if y_unit < 0 else "+ (k)"
    sums_ahead = partitions_ahead and vector and heads == "none" and not (in_place or chained)
%>
${common.prelude()}
${common.addresses()}
% if vector:
typedef ${wide} WIDE;
${combine_vector}
#define LOAD_WIDE(base, k) ${convert_vector.replace("$X", f"vload{vector}(0, x + (base) {x_vector}){ordered}")}
%   if nontemporal:
#define STORE_WIDE(v, base, k) __builtin_nontemporal_store((v)${y_ordered}, (global WIDE*) (y + (base) ${y_vector}))
%   else:
#define STORE_WIDE(v, base, k) vstore${vector}((v)${y_ordered}, 0, y + (base) ${y_vector})
%   endif
static WIDE prefix_wide(WIDE v) {
    WIDE u;
%   for shift in [s for s in (1, 2, 4, 8) if s < vector]:
    u = v.s${"0" * shift + digits[: vector - shift]};
    u.s${digits[:shift]} = (${value}${shift if shift > 1 else ""}) (${identity});
    v = combine_vector(u, v);
%   endfor
    return v;
}
% endif

/* Folds elements begin .. end - 1 after the last head. Returns 1 if there is a head. */
static int aggregate(${common.inputs()}, const long begin, const long end, VALUE* result) {
    int head = 0;
% if rows:
    const long row = (end - 1) / row_length;
    const long base = X_BASE(row);
    const long hi = end - row * row_length;
    long lo = begin - row * row_length;
    if (lo <= 0) { lo = 0; head = 1; }
% else:
    const long base = x_offset;
    const long hi = end;
    long lo = begin;
% endif
% if heads != "none":
    {
        const long h_base = ${"H_BASE(row)" if rows else "h_offset"};
        long k = hi - 1;
        while (k > lo && !IS_HEAD(h_base, k)) --k;
        if (IS_HEAD(h_base, k)) { head = 1; lo = k; }
    }
% endif
    VALUE v = converted(x[X_AT(base, lo)]);
% if heads_init:
    if (head) v = combine(INIT, v);
% endif
    long k = lo + 1;
% if vector:
    if (hi - k >= ${4 * vector}) {
        ${first_vectors("base", "k")}
        for (k += ${4 * vector}; k + ${4 * vector} <= hi; k += ${4 * vector}) {
            ${more_vectors("base", "k")}
        }
        ${sum_of_vectors("v")}
    }
% endif
    for (; k < hi; ++k) v = combine(v, converted(x[X_AT(base, k)]));
    *result = v;
    return head;
}

% if phase == "reduce":
kernel ${one_lane} void scan(${common.kernel_inputs()}, global VALUE* aggregates, global uchar* partition_heads) {
    ${common.begin_kernel()}
    const long p = get_group_id(0);
    VALUE v;
%   if bounded:
    if (p * part >= n) { /* an element of the array, for a prefix that no partition uses */
        aggregates[p] = converted(x[X_AT(x_offset, 0)]);
        partition_heads[p] = 0;
        return;
    }
%   endif
    const int head = aggregate(${common.input_names()}, p * part, min(p * part + part, n), &v);
    aggregates[p] = v;
    partition_heads[p] = (uchar) head;
}
% else:
% if phase == "single":
${lookback.functions("VALUE", keeps)}
/* The aggregate of a partition whose owner has not published it. Returns 1 if it is the inclusive prefix. */
static int recompute(${common.inputs()}, const int p, VALUE* v) {
    const long begin = (long) p * part;
    int whole = aggregate(${common.input_names()}, begin, min(begin + part, n), v);
    if (p == 0) {
%   if start != "none":
        if (!whole) *v = combine(START, *v);
%   endif
        whole = 1;
    }
    return whole;
}
% endif

kernel ${one_lane} void scan(
    ${common.kernel_inputs()}, ${common.layout_parameters("y", "VALUE", y_unit)}
% if phase == "single":
    , volatile global uint* state, const uint tag, const int parts
% elif phase == "seeded":
    , global const VALUE* seeds
% endif
% if total:
    , global VALUE* total_out
% endif
) {
    ${common.begin_kernel()}
% if phase == "single":
    const int p = take_partition(state, parts);
% else:
    const int p = (int) get_group_id(0);
% endif
    const long begin = (long) p * part;
% if bounded:
    if (begin >= n) return;
% endif
    const long end = min(begin + part, n);
    VALUE acc;
    int have = 0;
% if start != "none":
    if (p == 0) { acc = START; have = 1; }
% endif
% if phase == "seeded":
    if (p > 0) { acc = seeds[p - 1]; have = 1; }
% elif phase == "single":
    VALUE sum;
    int head = 0;
    if (p < parts - 1) {
%   if sums_ahead:
        const int known = p >= ${partitions_ahead} && peek(state, tag, p, AGGREGATE, &sum);
        if (!known)
%   endif
        head = aggregate(${common.input_names()}, begin, end, &sum);
        if (head) {
            ${lookback.announce("p", "PREFIX", "sum")}
        } else if (p == 0) {
%   if start != "none":
            sum = combine(acc, sum);
%   endif
            ${lookback.announce("p", "PREFIX", "sum")}
        } else ${"if (!known) " if sums_ahead else ""}{
%   if not chained:
            ${lookback.announce("p", "AGGREGATE", "sum")}
%   endif
        }
%   if keeps:
        /* Never returns here. The condition makes the stores below wait until the aggregate is kept. */
        if (keep(state, tag, p, head || p == 0 ? PREFIX : AGGREGATE, sum)) return;
%   endif
    }
    if (p > 0 ${"&& begin % row_length != 0" if rows else ""}) {
        ${lookback.look_back("p", "acc", f"recompute({capture(common.input_names)}, back, &found)", keeps)}
        have = 1;
    }
    if (p > 0 && p < parts - 1 && !head) {
        sum = combine(acc, sum);
        ${lookback.announce("p", "PREFIX", "sum")}
    }
% endif
% if rows:
    for (long at = begin; at < end;) {
        const long row = at / row_length;
        const long lo = at - row * row_length;
        const long hi = min(row_length, lo + (end - at));
        const long x_base = X_BASE(row), y_base = Y_BASE(row);
%   if heads != "none":
        const long h_base = H_BASE(row);
%   endif
        at += hi - lo;
        if (lo == 0) {
%   if heads_init:
            acc = INIT;
            have = 1;
%   else:
            have = 0;
%   endif
        }
% else:
    {
        const long lo = begin, hi = end, x_base = x_offset, y_base = y_offset;
%   if heads != "none":
        const long h_base = h_offset;
%   endif
% endif
        long k = lo;
% if heads != "none":
        for (; k < hi; ++k) {
            const VALUE v = converted(x[X_AT(x_base, k)]);
            if (IS_HEAD(h_base, k)) {
%   if heads_init:
                acc = INIT;
                have = 1;
%   else:
                have = 0;
%   endif
            }
%   if exclusive:
            if (have) y[Y_AT(y_base, k)] = acc; else y[Y_AT(y_base, k)] = ${start_value or "acc"};
%   endif
            if (have) acc = combine(acc, v); else acc = v;
            have = 1;
%   if not exclusive:
            y[Y_AT(y_base, k)] = acc;
%   endif
        }
% else:
        if (!have) {
            acc = converted(x[X_AT(x_base, k)]);
            y[Y_AT(y_base, k)] = ${(start_value or "acc") if exclusive else "acc"};
            have = 1;
            ++k;
        }
%   if vector:
%     if nontemporal:
        for (; k < hi && ((ulong) (y + Y_AT(y_base, k)${f" - {back}" if y_unit < 0 else ""}) & (sizeof(WIDE) - 1)); ++k) {
            ${one_element()}
        }
%     endif
        WIDE carry = (WIDE) (acc);
%     if sums_ahead:
        const long ahead = (long) part * ${partitions_ahead};
        if (p + ${partitions_ahead} < parts - 1 && hi + ahead <= n && part > ${4 * vector}) {
            /* In the order of `aggregate`, so that the bits are the same. */
            const long next_hi = hi + ahead;
            long next_k = lo + ahead;
            VALUE next = converted(x[X_AT(x_base, next_k)]);
            ++next_k;
            ${first_vectors("x_base", "next_k")}
            next_k += ${4 * vector};
            for (; k + ${4 * vector} <= hi && next_k + ${4 * vector} <= next_hi; k += ${4 * vector}, next_k += ${4 * vector}) {
%       if prefetch:
                ${memory.ahead("x + X_AT(x_base, next_k)", 4 * vector * source_bytes)}
%       endif
                ${more_vectors("x_base", "next_k")}
%       for a in range(4):
                { ${one_vector(f"k + {a * vector}")} }
%       endfor
            }
            for (; next_k + ${4 * vector} <= next_hi; next_k += ${4 * vector}) {
                ${more_vectors("x_base", "next_k")}
            }
            ${sum_of_vectors("next")}
            for (; next_k < next_hi; ++next_k) next = combine(next, converted(x[X_AT(x_base, next_k)]));
            ${lookback.announce(f"p + {partitions_ahead}", "AGGREGATE", "next")}
        }
%     elif partitions_ahead and prefetch:
        global const ${source}* next = x + x_base + (p + ${partitions_ahead} < parts ? (long) part * ${partitions_ahead} : 0L);
%     endif
        for (; k + ${vector} <= hi; k += ${vector}) {
%     if partitions_ahead and prefetch and not sums_ahead:
            ${memory.lines("next + k", vector * source_bytes)}
%     endif
            ${one_vector("k")}
        }
        acc = carry.s0;
%   endif
        for (; k < hi; ++k) {
            ${one_element()}
        }
% endif
    }
% if total:
    if (end == n) total_out[0] = acc;
% endif
}
% endif
##
<%def name="one_element()">
            const VALUE v = converted(x[X_AT(x_base, k)]);
% if exclusive:
            y[Y_AT(y_base, k)] = acc;
            acc = combine(acc, v);
% else:
            acc = combine(acc, v);
            y[Y_AT(y_base, k)] = acc;
% endif
</%def>
##
## The aggregate of many vectors: four accumulators from `k` on, the next four vectors, and the sum in `v`.
<%def name="first_vectors(base, k)">
% for a in range(4):
        WIDE a${a} = LOAD_WIDE(${base}, ${k} + ${a * vector});
% endfor
</%def>
<%def name="more_vectors(base, k)">
% for a in range(4):
            a${a} = combine_vector(a${a}, LOAD_WIDE(${base}, ${k} + ${a * vector}));
% endfor
</%def>
<%def name="sum_of_vectors(v)">
        a0 = combine_vector(combine_vector(a0, a1), combine_vector(a2, a3));
% for d in "0123456789abcdef"[:vector]:
        ${v} = combine(${v}, a0.s${d});
% endfor
</%def>
##
## The results of the vector at `k`, and the carry to the next vector.
<%def name="one_vector(k)">
<% digits = "0123456789abcdef"[:vector] %>
            const WIDE v = prefix_wide(LOAD_WIDE(x_base, ${k}));
% if exclusive:
            WIDE u = v.s0${digits[:-1]};
            u.s0 = ${identity};
            STORE_WIDE(combine_vector(carry, u), y_base, ${k});
% else:
            STORE_WIDE(combine_vector(carry, v), y_base, ${k});
% endif
            carry = combine_vector(carry, (WIDE) (v.s${digits[-1]}));
</%def>
