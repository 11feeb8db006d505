## Counts bins in global memory (GPU mapping), if there are more bins than local memory holds.
## Phases: the lanes of a work-group walk over the group's part, adjacent lanes over adjacent elements, and count.
## Work-groups share `sets` sets of bins, updated with atomics.
## Launch: `histogram_clear` clears the `length` values of all sets, any number of work-items. Then `histogram_global`,
## one work-group of any size per part. Results are stored as (sets, bins).
## Parameters: declarations, source (C type), value (C type of a bin), weights (C type or None: `histogram_clear` alone),
## direct, how (see histogram_parts).
<%namespace name="find" file="histogram_bins.mako"/>
${declarations}
% if not direct and not weights:
${find.find(how, source)}
% endif

kernel void histogram_clear(global ${value}* restrict sums, const ulong length) {
    for (ulong i = get_global_id(0); i < length; i += get_global_size(0)) sums[i] = 0;
}
% if not weights:

kernel void histogram_global(global const ${source}* restrict x, const ulong offset, const long step, const ulong n,
                             const ulong part, global ${value}* restrict sums, const ulong bins,
                             const ulong sets
% if not direct:
                             , ${find.parameters(how)}
% endif
                            ) {
    const ulong start = get_group_id(0) * part, end = min(n, start + part);
    sums += get_group_id(0) % sets * bins;
    for (ulong i = start + get_local_id(0); i < end; i += get_local_size(0)) {
        const ${source} v = x[(long) offset + (long) i * step];
% if direct:
        const ulong bin = (ulong) v;
% else:
        const ulong bin = (ulong) (long) find_bin(v, ${find.arguments(how)});
% endif
        if (bin < bins) atomic_inc(sums + bin);
    }
}
% endif
