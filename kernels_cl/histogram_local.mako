## Counts of bins by groups of lanes (GPU mapping): `waves` sets of bins in local memory, each shared by the lanes of a
## stretch of the group, added to with local atomics; every group leaves its counts as one part.
## Phases: the lanes clear the sets; walk over the group's part side by side; barrier; fold the sets and write.
## Launch: a group of `lanes` for a part; results lie as (parts, bins).
## Parameters: declarations, source (C type), lanes, waves (a power of two that divides lanes), bins (a constant), pad (unused
## entries between the sets, so that the same bin of two sets lies in different banks), direct, edge, guess (see
## histogram_parts).
<%namespace name="barriers" file="wg_barrier.mako"/>
<%namespace name="find" file="histogram_bins.mako"/>
<%  row = bins + pad  %>
${declarations}
% if not direct:
${find.find(source, edge, guess)}
% endif

kernel void histogram_local(global const ${source}* restrict x, const ulong offset, const long step, const ulong n,
                            const ulong part, global uint* restrict sums
% if not direct:
                            , global const ${edge}* restrict edges${f", const {guess} first, const {guess} scale" if guess else ""}
% endif
                            ) {
    local uint sets[${waves * row}];
    const int lane = (int) get_local_id(0);
    const ulong start = get_group_id(0) * part;
    const long count = (long) min(part, n - start);
    x += (long) offset + (long) start * step;
    for (int b = lane; b < ${waves * row}; b += ${lanes}) sets[b] = 0;
    ${barriers.group_barrier()}
    local uint* const own = sets + lane / ${lanes // waves} * ${row};
    for (long i = lane; i < count; i += ${lanes}) {
% if direct:
        atomic_inc(own + (int) x[i * step]);
% else:
        const long found = find_bin(x[i * step], edges, ${bins}${", first, scale" if guess else ""});
        if (found >= 0) atomic_inc(own + (int) found);
% endif
    }
    ${barriers.group_barrier()}
    for (int b = lane; b < ${bins}; b += ${lanes}) {
        uint sum = 0;
        for (int wave = 0; wave < ${waves}; ++wave) sum += sets[wave * ${row} + b];
        sums[get_group_id(0) * (ulong) ${bins} + (ulong) b] = sum;
    }
}
