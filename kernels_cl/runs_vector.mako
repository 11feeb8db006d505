## Sums of runs of equal keys for CPU drivers: one work-item per work-group.
## A partition is cut into four streams that a work-item walks at the same time: their sums do not wait for each other.
## Each stream copies the keys of its heads and the sums before them to private memory without a branch. After the
## look-back, the sums of the runs that continue over the ends of streams and partitions are joined, in order.
## Launch: one work-group of one work-item per partition of `part` <= most elements.
## Parameters: see select_common and wg_lookback; phase, most, wide as in select_vector.
<%namespace name="common" file="select_common.mako"/>
<%namespace name="lookback" file="wg_lookback.mako"/>
<%
    streams = 4
    recomputed = f"recompute({capture(common.input_names)}, back, &found)"
%>
${common.prelude()}
##
## Declares the bounds of the streams: `each` elements, the last one up to the end.
<%def name="bounds()">
    const int each = size / ${streams};
</%def>
##
## Sums the element at `i` (a C expression) of stream t. first: it is the first one of its stream.
<%def name="one_element(t, i, first, stores)">
    {
        const long at = begin + ${i};
        const int head = ${"KEEP(at)" if first else "KEEP_LATER(at)"};
        const SUM v = converted(s[S_AT(at)]);
% if stores and elements:
        for (int w = 0; w < ${element_words}; ++w)
            kept[(keys_of_${t} + heads_${t}) * ${element_words} + w] = e[E_AT(at) * ${element_words} + w];
% endif
        heads_${t} += head;
% if first:
        sum_${t} = v;
% else:
        sum_${t} = head ? v : combine_sums(sum_${t}, v);
% endif
% if stores:
        sums[sums_of_${t} + heads_${t}] = sum_${t};
% endif
    }
</%def>
##
## Walks all streams of elements begin .. begin + size - 1.
<%def name="walk(stores)">
% for t in range(streams):
    int heads_${t} = 0;
    SUM sum_${t};
%   if stores:
    const int keys_of_${t} = ${t} * each, sums_of_${t} = ${t} * (each + 1);
%   endif
% endfor
    if (each > 0) {
% for t in range(streams - 1):
        ${one_element(t, f"{t} * each", True, stores)}
% endfor
    }
    if (size > 0) ${one_element(streams - 1, f"{streams - 1} * each", True, stores)}
    for (int i = 1; i < each; ++i) {
% for t in range(streams):
        ${one_element(t, f"{t} * each + i", False, stores)}
% endfor
    }
    for (int i = ${streams - 1} * each + max(each, 1); i < size; ++i) ${one_element(streams - 1, "i", False, stores)}
</%def>
##
## The state of the streams, from heads and sums.
<%def name="joined(result)">
    {
        VALUE all = state_of(heads_${streams - 1}, sum_${streams - 1});
        if (each > 0) {
            all = state_of(heads_0, sum_0);
% for t in range(1, streams):
            all = combine(all, state_of(heads_${t}, sum_${t}));
% endfor
        }
        ${result} = all;
    }
</%def>
% if phase in ("single", "reduce"):
/* The state of elements begin .. end - 1, at least one. */
static VALUE aggregate(${common.inputs()}, const long begin, const long end) {
    const int size = (int) (end - begin);
    VALUE result;
    ${bounds()}
    ${walk(False)}
    ${joined("result")}
    return result;
}
% endif
% if phase == "reduce":
kernel ${one_lane} void select_elements(${common.kernel_inputs()}, global VALUE* aggregates) {
    ${common.begin_kernel()}
    const long p = get_group_id(0);
% if bounded:
    if (p * part >= n) { /* the state of no element; its sum, of an element of the array, is never used */
        aggregates[p] = state_of(0, converted(s[S_AT(0)]));
        return;
    }
% endif
    aggregates[p] = aggregate(${common.input_names()}, p * part, min(p * part + part, n));
}
% else:
% if phase == "single":
${lookback.functions("VALUE")}
/* The state of a partition whose owner has not published it. Returns 1 if it includes all earlier partitions. */
static int recompute(${common.inputs()}, const int p, VALUE* result) {
    const long begin = (long) p * part;
    *result = aggregate(${common.input_names()}, begin, min(begin + part, n));
    return p == 0;
}
% endif

kernel ${one_lane} void select_elements(${common.kernel_inputs()} ${common.outputs(phase)}) {
    ${common.begin_kernel()}
% if phase == "single":
    const int p = take_partition(state, parts);
% else:
    const int p = (int) get_group_id(0);
% endif
    const long begin = (long) p * part;
% if bounded:
    if (begin >= n) {
        if (p == 0) {
            ${common.store_totals("0")}
        }
        return;
    }
% endif
    const long end = min(begin + part, n);
    const int size = (int) (end - begin);
% if elements:
    WORD_OF_ELEMENT kept[${(most + streams) * element_words}];
% endif
    SUM sums[${most + 2 * streams}];
    ${bounds()}
    ${walk(True)}
    VALUE before;
    int have = 0;
% if phase == "seeded":
    if (p > 0) {
        before = seeds[p - 1];
        have = 1;
    }
% elif phase == "single":
    VALUE own;
    ${joined("own")}
    if (p == 0) {
        if (p < parts - 1) {
            ${lookback.announce("p", "PREFIX", "own")}
        }
    } else {
%   if not chained:
        if (p < parts - 1) {
            ${lookback.announce("p", "AGGREGATE", "own")}
        }
%   endif
        ${lookback.look_back("p", "before", recomputed)}
        have = 1;
        if (p < parts - 1) {
            const VALUE sum = combine(before, own);
            ${lookback.announce("p", "PREFIX", "sum")}
        }
    }
% endif
    long position = have ? before.count : 0;
    SUM open;
    if (have) open = before.sum;
% for t in range(streams):
    if (${"each > 0" if t < streams - 1 else "size > 0"}) {
        /* sums[0] is the sum of the elements before the first head, if there are any. */
        const int leads = !(KEEP(begin + ${t} * each));
        const int heads = heads_${t};
        if (leads) {
            const SUM lead = sums[sums_of_${t}];
            if (have) open = combine_sums(open, lead); else open = lead;
            have = 1;
        }
        if (heads > 0) {
            if (position > 0) sums_out[position - 1] = open;
            for (int j = 1; j < heads; ++j) sums_out[position + j - 1] = sums[sums_of_${t} + j];
%   if elements:
            for (int j = 0; j < heads * ${element_words}; ++j)
                elements_out[position * ${element_words} + j] = kept[keys_of_${t} * ${element_words} + j];
%   endif
            position += heads;
            open = sums[sums_of_${t} + heads];
            have = 1;
        }
    }
% endfor
    if (end == n) {
        if (position > 0) sums_out[position - 1] = open;
        ${common.store_totals("position")}
    }
}
% endif
