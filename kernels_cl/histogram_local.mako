## Counts bins by work-groups of lanes (GPU mapping). Every work-group writes its counts as one part.
## Phases: the lanes clear the bins; they walk over the work-group's part, `waves` virtual wavefronts in each iteration
## (wg_waves.mako); barrier; fold and write.
## counters "sets": `sets` sets of bins in local memory. Each set is shared by some adjacent lanes and updated with
## local atomics. `pad` unused entries between sets put the same bin of two sets into different banks. "own": every lane
## has its own bins, in slots that only this lane writes (wg_exchange.mako): no atomics, no conflicts. "registers":
## every lane counts in registers, shared by all wavefronts; for few bins only.
## Launch: one work-group of `lanes` per part. Results are stored as (parts, bins).
## Parameters: declarations, source (C type), lanes, waves, bins (a constant), counters, sets (a power of two that
## divides lanes), pad, x (Exchange.params() of the bins; only for "own", else None), direct, how (see histogram_parts),
## constants (each lane loads the thresholds once into registers; few bins only), lowerings, attribute, subgroups.
<%namespace name="barriers" file="wg_barrier.mako"/>
<%namespace name="find" file="histogram_bins.mako"/>
<%namespace name="virtual" file="wg_waves.mako"/>
<%namespace name="exchange" file="wg_exchange.mako"/>
<%namespace name="lane_constants" file="wg_lane_constants.mako"/>
<%
    row = bins + pad
    size = {"sets": sets * row, "own": x["size"] if x else 0, "registers": bins}[counters]
%>
% if subgroups:
${barriers.enable_subgroups()}
% endif
${declarations}
% if not direct and not constants:
${find.find(how, source)}
% endif

kernel ${attribute} void histogram_local(global const ${source}* restrict x, const ulong offset, const long step, const ulong n,
                            const ulong part, global uint* restrict sums
% if not direct:
                            , ${find.parameters(how)}
% endif
                            ) {
    local uint counts[${size}];
    const int lane = (int) get_local_id(0);
    const ulong start = get_group_id(0) * part;
    const long count = (long) min(part, n - start);
    x += (long) offset + (long) start * step;
    for (int b = lane; b < ${size}; b += ${lanes}) counts[b] = 0;
    ${barriers.synchronize("cleared", lowerings, lanes)}
% if constants and not direct:
    ${lane_constants.load("edge", how["edge"], bins + 1, "t")}
% endif
% if counters == "sets":
    local uint* const own = counts + lane / ${lanes // sets} * ${row};
% elif counters == "registers":
    ${virtual.counters("seen", bins)}
% endif
    for (long begin = 0; begin < count; begin += ${waves * lanes}) {
<%virtual:each waves="${waves}">
        const long i = begin + wave * ${lanes} + lane;
        int bin = -1;
        if (i < count) {
% if direct:
            bin = (int) x[i * step];
% elif constants:
            const ${how["wide"]} v = (${how["wide"]}) x[i * step];
            if (v >= edge_0 && !(v >= edge_${bins}${" && top > " + str(bins) if how["topped"] else ""}))
                bin = ${lane_constants.reached("edge", 1, bins - 1, "v")};
% else:
            bin = find_bin(x[i * step], ${find.arguments(how)});
            bin = bin < ${bins} ? bin : -1;
% endif
        }
% if counters == "registers":
        ${virtual.count("seen", bins, "bin")}
% elif counters == "own":
        if (bin >= 0) counts[${exchange.own(x, "lane", "bin")}] += 1;
% else:
        if (bin >= 0) atomic_inc(own + bin);
% endif
</%virtual:each>
    }
% if counters == "registers":
    ${virtual.add_counters("seen", bins, "counts")}
% endif
    ${barriers.synchronize("counted", lowerings, lanes)}
    for (int b = lane; b < ${bins}; b += ${lanes}) {
% if counters == "registers":
        const uint sum = counts[b];
% elif counters == "sets":
        uint sum = 0;
        for (int set = 0; set < ${sets}; ++set) sum += counts[set * ${row} + b];
% else:
        // Each lane starts with a different bin: the lanes then read all banks at the same time.
        uint sum = 0;
        for (int k = 0; k < ${lanes}; ++k) {
            const int other = (k + lane) & ${lanes - 1};
            sum += counts[${exchange.of(x, "lane", "other", "b")}];
        }
% endif
        sums[get_group_id(0) * (ulong) ${bins} + (ulong) b] = sum;
    }
}
