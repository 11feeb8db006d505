## The kernels of pydp.compat.pyopencl.scan: a scan of expressions that the caller wrote in OpenCL C. Reduce, then scan:
##  1. NAME_lev1: reduces each partition to one item.
##  2. NAME_lev2: scans the items of the partitions in place (inclusive).
##  3. NAME_final_update: scans each partition, starting with the item of the partitions before it, and runs the
##     caller's output statement for each element.
## The input expression is evaluated in phases 1 and 3. If an output statement may overwrite what the input expression of
## another element reads, phase 1 stores all inputs and phase 3 reads those (`stored`).
## NAME_single does all of this in one launch, for numbers on CPUs: a work-item takes a partition that a cache
## holds by an atomic ticket, reduces it, waits for the item of the partitions before it, publishes the one that
## includes its own, and scans the partition. An item is published in 64-bit words of 32 bits and a mark, by atomic
## functions (SPEC S2). Tickets only need that a work-group that has started keeps running.
## Launch: CPU mapping ("vector"): one work-item for each partition, and one for phase 2. GPU mapping ("simt"): one
## work-group of `lanes` work-items for each partition, and one for phase 2; a tile has `items` adjacent elements for each
## work-item.
## Parameters: scan_expr, neutral, input_expr, segment_start (None: not segmented), output_statement, preamble: text
## of the caller; arguments, adjust_offsets: text of the kernels' arguments; fetches: (name, C type, argument, offset)
## of values that are read before the input expression; value, index: C types; no_segment: the largest index; name,
## mapping, lanes, items, stored, uses_previous, single (whether NAME_single is built; item_bytes is 4 or 8),
## uses_last, uses_stop (whether the output statement uses psc_stop, the item of the partition's last element),
## read_ahead ((name, bytes of an element) of the arrays that are read at index i only: in NAME_single, a core loads its
## next partition into its cache while it scans this one), units (compute units, which take turns).
<%namespace name="common" file="compat_common.mako"/>
<%namespace name="memory" file="prefetch.mako"/>
${common.definitions(double_support)}
% if single:
#pragma OPENCL EXTENSION cl_khr_int64_base_atomics : enable
% endif
<%
    segmented = segment_start is not None
    group = 1 if mapping == "vector" else lanes
%>
#define psc_WG_SIZE ${group}
#define psc_K ${1 if mapping == "vector" else items}
#define NO_SEG_BOUNDARY ${no_segment}
#define psc_SCAN_EXPR(a, b, across_seg_boundary) ${scan_expr}

${preamble}

typedef ${value} psc_scan_type;
typedef ${index} psc_index_type;

kernel __attribute__((reqd_work_group_size(${group}, 1, 1)))
void ${name}_lev1(${arguments}, const psc_index_type N, const psc_index_type psc_part, global psc_scan_type* psc_sums
        ${", global char* psc_starts" if segmented else ""}
        ${", global psc_scan_type* psc_items" if stored else ""} ${", global char* psc_heads" if stored and segmented else ""}) {
    ${adjust_offsets}
    ${bounds()}
% if mapping == "vector":
    psc_scan_type psc_acc;
    ${reduce_partition()}
    psc_sums[get_group_id(0)] = psc_acc;
% if segmented:
    psc_starts[get_group_id(0)] = psc_has_segment_start;
% endif
% else:
    ${tiles("reduce")}
    if (psc_lane == 0) {
        psc_sums[get_group_id(0)] = psc_carry;
% if segmented:
        psc_starts[get_group_id(0)] = psc_has_segment_start;
% endif
    }
% endif
}

kernel __attribute__((reqd_work_group_size(${group}, 1, 1)))
void ${name}_lev2(${arguments}, const psc_index_type N, const psc_index_type psc_count, global psc_scan_type* psc_sums
        ${", global const char* psc_starts" if segmented else ""}) {
    ${adjust_offsets}
% if mapping == "vector":
    psc_scan_type psc_acc = psc_sums[0];
    for (psc_index_type psc_i = 1; psc_i < psc_count; ++psc_i) {
        const psc_scan_type psc_x = psc_sums[psc_i];
        const bool psc_head = ${"psc_starts[psc_i]" if segmented else "false"};
        psc_acc = psc_SCAN_EXPR(psc_acc, psc_x, psc_head);
        psc_sums[psc_i] = psc_acc;
    }
% else:
    const psc_index_type psc_begin = 0, psc_end = psc_count;
    ${tiles("between")}
% endif
}

kernel __attribute__((reqd_work_group_size(${group}, 1, 1)))
void ${name}_final_update(${arguments}, const psc_index_type N, const psc_index_type psc_part,
        const psc_index_type psc_count, global const psc_scan_type* psc_sums
        ${", global const psc_scan_type* psc_items" if stored else ""}
        ${", global const char* psc_heads" if stored and segmented else ""}) {
    ${adjust_offsets}
    ${bounds()}
% if uses_last:
    psc_scan_type last_item = psc_sums[psc_count - 1];
% endif
% if uses_stop:
    const psc_scan_type psc_stop = psc_sums[get_group_id(0)];
% endif
    psc_scan_type psc_carry = ${neutral};
    if (get_group_id(0)) psc_carry = psc_sums[get_group_id(0) - 1];
% if mapping == "vector":
    for (psc_index_type psc_i = psc_begin; psc_i < psc_end; ++psc_i) {
        ${load("psc_i", stored)}
        ${step("psc_carry", "psc_i")}
    }
% else:
    ${tiles("scan")}
% endif
}
% if single:
<%
    bits = "uint" if item_bytes == 4 else "ulong"
    words = item_bytes // 4
%>
kernel __attribute__((reqd_work_group_size(1, 1, 1)))
void ${name}_single(${arguments}, const psc_index_type N, const psc_index_type psc_part, volatile global ulong* psc_words) {
    ${adjust_offsets}
    const uint psc_ticket = atomic_inc((volatile global uint*) psc_words);
    ${bounds("psc_ticket")}
    psc_scan_type psc_carry = ${neutral};
    psc_scan_type psc_acc;
    ${reduce_partition()}
    if (psc_ticket) {
        ulong psc_word, psc_bits;
        do psc_word = atom_add(psc_words + psc_ticket * ${words}, 0UL); while (!(psc_word >> 32));
        psc_bits = psc_word & 0xFFFFFFFF;
% if words == 2:
        do psc_word = atom_add(psc_words + psc_ticket * 2 + 1, 0UL); while (!(psc_word >> 32));
        psc_bits |= psc_word << 32;
% endif
        psc_carry = as_${value}((${bits}) psc_bits);
    }
    const psc_scan_type psc_stop = psc_SCAN_EXPR(psc_carry, psc_acc, false);
    const ulong psc_published = as_${bits}(psc_stop);
    atom_xchg(psc_words + (psc_ticket + 1) * ${words}, (psc_published & 0xFFFFFFFF) | 1UL << 32);
% if words == 2:
    atom_xchg(psc_words + (psc_ticket + 1) * 2 + 1, psc_published >> 32 | 1UL << 32);
% endif
    for (psc_index_type psc_i = psc_begin; psc_i < psc_end;) {
        const psc_index_type psc_block_end = psc_end - psc_i < 16 ? psc_end : psc_i + 16;
% for array, size in read_ahead:
        ${memory.lines(f"{array} + psc_i + (size_t) psc_part * {units}", min(16 * size, 256))}
% endfor
        for (; psc_i < psc_block_end; ++psc_i) {
            ${load("psc_i", False)}
            ${step("psc_carry", "psc_i")}
        }
    }
}
% endif
##
## Statements: sets psc_acc to the item of a partition, and psc_has_segment_start to whether a segment starts in it.
<%def name="reduce_partition()">
    bool psc_has_segment_start;
    {
        psc_index_type psc_i = psc_begin;
        ${load("psc_i", False)}
        ${store("psc_i")}
        psc_acc = psc_x;
        psc_has_segment_start = psc_head;
    }
    for (psc_index_type psc_i = psc_begin + 1; psc_i < psc_end; ++psc_i) {
        ${load("psc_i", False)}
        ${store("psc_i")}
        psc_acc = psc_SCAN_EXPR(psc_acc, psc_x, psc_head);
% if segment_start is not None:
        psc_has_segment_start |= psc_head;
% endif
    }
</%def>
##
<%def name="bounds(group='get_group_id(0)')">
    const psc_index_type psc_begin = (psc_index_type) ${group} * psc_part;
    const psc_index_type psc_end = N - psc_begin < psc_part ? N : psc_begin + psc_part;
</%def>
##
## Declarations: psc_x, the input of element `at`, and psc_head, whether a segment starts there.
<%def name="load(at, from_store)">
% if from_store:
        psc_scan_type psc_x = psc_items[${at}];
        const bool psc_head = ${f"psc_heads[{at}]" if segment_start is not None else "false"};
% else:
        psc_scan_type psc_x;
        bool psc_head = false;
        {
            psc_index_type i = ${at};
% for name, ctype, argument, offset in fetches:
            ${ctype} ${name};
            ${f"if (i + ({offset}) >= 0)" if offset else ""} ${name} = ${argument}[i + (${offset})];
% endfor
            psc_x = (${input_expr}
                );
% if segment_start is not None:
            {
                psc_scan_type a = psc_x;
                psc_head = (${segment_start}
                    );
            }
% endif
        }
% endif
</%def>
##
<%def name="store(at)">
% if stored:
        psc_items[${at}] = psc_x;
% if segment_start is not None:
        psc_heads[${at}] = psc_head;
% endif
% endif
</%def>
##
## Statements: adds psc_x to `acc`, and runs the output statement for element `at`. The output statement comes last: it
## may contain `continue`.
<%def name="step(acc, at)">
% if uses_previous:
        psc_scan_type prev_item = ${acc};
% if segment_start is not None:
        if (psc_head) prev_item = ${neutral};
% endif
% endif
        ${acc} = psc_SCAN_EXPR(${acc}, psc_x, psc_head);
        psc_scan_type item = ${acc};
        psc_index_type i = ${at};
        { ${output_statement}; }
</%def>
##
## Statements: a work-group goes through elements psc_begin .. psc_end - 1 in tiles. phase: "reduce" leaves their item in
## psc_carry; "between" scans psc_sums in place; "scan" continues psc_carry and runs output statements.
<%def name="tiles(phase)">
<%
    segmented = segment_start is not None
    step_widths = [1 << k for k in range(lanes.bit_length()) if 1 << k < lanes]
%>
    local psc_scan_type psc_lane_sums[${lanes}];
    local char psc_lane_starts[${lanes}];
    const uint psc_lane = get_local_id(0);
% if phase != "scan":
    psc_scan_type psc_carry;
    bool psc_has_segment_start = false;
% endif
    for (psc_index_type psc_tile = psc_begin; ; psc_tile += ${lanes * items}) {
        const psc_index_type psc_left = psc_end - psc_tile;
        const int psc_size = psc_left < ${lanes * items} ? (int) psc_left : ${lanes * items};
        const int psc_mine = min(${items}, psc_size - (int) psc_lane * ${items});
        const psc_index_type psc_first = psc_tile + (psc_index_type) psc_lane * ${items};
        psc_scan_type psc_own[${items}], psc_sum;
        bool psc_own_heads[${items}], psc_started = false;
        for (int psc_k = 0; psc_k < psc_mine; ++psc_k) {
% if phase == "between":
            psc_scan_type psc_x = psc_sums[psc_first + psc_k];
            const bool psc_head = ${"psc_starts[psc_first + psc_k]" if segmented else "false"};
% else:
            ${load("psc_first + psc_k", stored and phase == "scan")}
% endif
% if phase == "reduce":
            ${store("psc_first + psc_k")}
% endif
            psc_own[psc_k] = psc_x;
            psc_own_heads[psc_k] = psc_head;
            if (psc_k == 0) psc_sum = psc_x;
            else psc_sum = psc_SCAN_EXPR(psc_sum, psc_x, psc_head);
            psc_started |= psc_head;
        }
        if (psc_mine > 0) {
            psc_lane_sums[psc_lane] = psc_sum;
            psc_lane_starts[psc_lane] = psc_started;
        }
        barrier(CLK_LOCAL_MEM_FENCE);
% for width in step_widths:
        {
            const bool psc_take = psc_mine > 0 && psc_lane >= ${width};
            if (psc_take) {
                const psc_scan_type psc_before = psc_lane_sums[psc_lane - ${width}];
                psc_sum = psc_SCAN_EXPR(psc_before, psc_sum, psc_started);
                psc_started |= psc_lane_starts[psc_lane - ${width}];
            }
            barrier(CLK_LOCAL_MEM_FENCE);
            if (psc_take) {
                psc_lane_sums[psc_lane] = psc_sum;
                psc_lane_starts[psc_lane] = psc_started;
            }
            barrier(CLK_LOCAL_MEM_FENCE);
        }
% endfor
        const int psc_last = (psc_size - 1) / ${items};
        const psc_scan_type psc_total = psc_lane_sums[psc_last];
        const bool psc_total_started = psc_lane_starts[psc_last];
% if phase != "reduce":
        if (psc_mine > 0) {
            psc_scan_type psc_acc;
            if (psc_lane == 0) {
%   if phase == "scan":
                psc_acc = psc_carry;
%   else:
                if (psc_tile) psc_acc = psc_carry;
%   endif
            } else {
                const psc_scan_type psc_before = psc_lane_sums[psc_lane - 1];
                const bool psc_before_started = psc_lane_starts[psc_lane - 1];
%   if phase == "between":
                if (psc_tile == 0) psc_acc = psc_before;
                else
%   endif
                psc_acc = psc_SCAN_EXPR(psc_carry, psc_before, psc_before_started);
            }
            for (int psc_k = 0; psc_k < psc_mine; ++psc_k) {
                psc_scan_type psc_x = psc_own[psc_k];
                const bool psc_head = psc_own_heads[psc_k];
%   if phase == "scan":
                ${step("psc_acc", "psc_first + psc_k")}
%   else:
                if (psc_first + psc_k == 0) psc_acc = psc_x;
                else psc_acc = psc_SCAN_EXPR(psc_acc, psc_x, psc_head);
                psc_sums[psc_first + psc_k] = psc_acc;
%   endif
            }
        }
% endif
% if phase == "scan":
        psc_carry = psc_SCAN_EXPR(psc_carry, psc_total, psc_total_started);
% else:
        if (psc_tile == psc_begin) psc_carry = psc_total;
        else psc_carry = psc_SCAN_EXPR(psc_carry, psc_total, psc_total_started);
        psc_has_segment_start |= psc_total_started;
% endif
        if (psc_left <= ${lanes * items}) break;  // psc_tile + ${lanes * items} may exceed the index type
        barrier(CLK_LOCAL_MEM_FENCE);
    }
</%def>
