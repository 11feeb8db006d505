## Counts the digits of a radix sort for GPUs: all passes up front (`whole`), or one pass for
## reduce-then-scan. A work-group counts a part of a row in local memory. A lane counts runs of equal digits in a
## register first, because lanes that add to the same counter wait for one another.
## Launch: one work-group of `lanes` for each part, `per_row` for each row. counts: (rows, parts, PASSES, BINS), or
## (rows, parts, BINS) for one pass.
## Parameters: see sort_onesweep_keys; lanes, whole, in_flight (keys that a lane loads at once), unroll (a pragma that
## keeps them in registers, or nothing); attribute and subgroups (see pydp.groups.barrier_plan).
<%namespace name="keys" file="sort_onesweep_keys.mako"/>
<%namespace name="barriers" file="wg_barrier.mako"/>
<% counted = passes if whole else 1 %>
${keys.types()}
${keys.moves()}

kernel __attribute__((reqd_work_group_size(${lanes}, 1, 1))) ${attribute} void sort_count(
    global const KEY* x, const ulong x_offset, const long row_stride, const uint n, const uint part, const uint per_row,
    global uint* counts
% if not whole:
    , global const KEY* keys_first, global const KEY* keys_second, global const uint* varies, const int pass,
    const int least
% endif
) {
    local uint bins[${counted} * BINS];
    const int lane = (int) get_local_id(0);
    const uint row = (uint) get_group_id(0) / per_row;
    const uint begin = (uint) get_group_id(0) % per_row * part;
    global const KEY* source = x + (long) x_offset + (long) row * row_stride;
    uint end = min(n, begin + part);
% if not whole:
    const MOVE move = move_of(varies + row * PASSES, pass, least);
    if (move.from != SOURCE) source = (move.from == FIRST ? keys_first : keys_second) + (ulong) row * n;
    if (!move.active) end = begin;
% endif
    for (int b = lane; b < ${counted} * BINS; b += ${lanes}) bins[b] = 0;
    ${barriers.group_barrier()}
% for k in range(counted):
    uint digit_${k} = 0, run_${k} = 0;
% endfor
    for (uint i = begin + (uint) lane; i < end; i += ${lanes * in_flight}) {
        KEY some[${in_flight}];
        ${unroll}
        for (int j = 0; j < ${in_flight}; ++j) some[j] = (uint) j * ${lanes} < end - i ? source[i + (uint) j * ${lanes}] : (KEY) 0;
        ${unroll}
        for (int j = 0; j < ${in_flight}; ++j) {
            if ((uint) j * ${lanes} >= end - i) break;
% for k in range(counted):
            {
                const uint digit = digit_of(some[j], ${k if whole else "pass"});
                if (digit != digit_${k}) {
                    if (run_${k}) atomic_add(bins + ${k} * BINS + digit_${k}, run_${k});
                    digit_${k} = digit;
                    run_${k} = 0;
                }
                ++run_${k};
            }
% endfor
        }
    }
% for k in range(counted):
    if (run_${k}) atomic_add(bins + ${k} * BINS + digit_${k}, run_${k});
% endfor
    ${barriers.group_barrier()}
    counts += get_group_id(0) * (ulong) (${counted} * BINS);
    for (int b = lane; b < ${counted} * BINS; b += ${lanes}) counts[b] = bins[b];
}
