## The places of digits in a radix sort for GPUs.
## sort_places: adds up the counts of all parts of a row. Writes the first place of each digit of each pass in a row, and
## whether a pass is needed: not if all keys share the digit.
## Launch: one work-group of `lanes` for each row and pass.
## sort_offsets (reduce-then-scan): turns the counts of one pass into the first places of each part's digits.
## Launch: one work-item for each row and digit, in work-groups of `lanes`.
## Parameters: see sort_onesweep_keys; lanes, columns (lanes of a row of the work-group's scan), lowerings (of the
## barrier `summed`), unroll (a pragma that keeps several loads in flight, or nothing), attribute and subgroups (see pydp.groups.barrier_plan).
<%namespace name="keys" file="sort_onesweep_keys.mako"/>
<%namespace name="group" file="wg_scan.mako"/>
<%namespace name="barriers" file="wg_barrier.mako"/>
<% each = -(-(1 << width) // lanes) %>
% if subgroups:
${barriers.enable_subgroups()}
% endif
${keys.types()}
${keys.moves()}

kernel __attribute__((reqd_work_group_size(${lanes}, 1, 1))) ${attribute} void sort_places(
    global const uint* counts, const uint n, const uint parts, global uint* bases, global uint* varies) {
    local VALUE lane_value[${lanes + lanes // columns}], row_value[${lanes // columns}];
    local uint shared;
    const int lane = (int) get_local_id(0);
    const ulong row = get_group_id(0) / PASSES, pass = get_group_id(0) % PASSES;
    counts += (row * parts * PASSES + pass) * BINS;
    bases += get_group_id(0) * BINS;
    if (lane == 0) shared = 0;
    uint totals[${each}], sum = 0, before, all;
    for (int k = 0; k < ${each}; ++k) {
        const int digit = lane * ${each} + k;
        totals[k] = 0;
        if (digit < BINS) {
            ${unroll}
            for (uint part = 0; part < parts; ++part) totals[k] += counts[(ulong) part * (PASSES * BINS) + digit];
        }
        sum += totals[k];
    }
    ${group.sums_exclusive(lanes, columns, "lane", "sum", "before", "all", lowerings)}
    for (int k = 0; k < ${each}; ++k) {
        const int digit = lane * ${each} + k;
        if (digit < BINS) bases[digit] = before;
        before += totals[k];
        if (totals[k] == n) shared = 1;
    }
    ${barriers.group_barrier()}
    if (lane == 0) varies[get_group_id(0)] = !shared;
}

kernel void sort_offsets(global const uint* bases, global const uint* varies, const int pass, const int least,
                         const uint parts, const ulong digits, global uint* counts) {
    if (get_global_id(0) >= digits) return;
    const ulong row = get_global_id(0) / BINS, digit = get_global_id(0) % BINS;
    if (!move_of(varies + row * PASSES, pass, least).active) return;
    uint sum = bases[(row * PASSES + (ulong) pass) * BINS + digit];
    counts += row * parts * BINS + digit;
    ${unroll}
    for (uint part = 0; part < parts; ++part) {
        const uint here = counts[(ulong) part * BINS];
        counts[(ulong) part * BINS] = sum;
        sum += here;
    }
}
