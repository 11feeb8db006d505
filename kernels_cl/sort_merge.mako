## Merges adjacent sorted runs of `width` elements of every row: one pass of a stable merge sort.
## Phases: each work-item finds its stretch of the result in both runs and merges it. For equal keys, the left run is
## first.
## Launch: one work-item for `stretch` elements of the result (a power of two, at most 2 * width); `per_row` work-items
## for each row, `work` in all. The last work-group may have idle work-items.
## Parameters: declarations, key, ordering (see sort_order), carried (C type of the carried values, or None), chains,
## scalar (see sort_merging).
<%namespace name="order" file="sort_order.mako"/>
<%namespace name="merging" file="sort_merging.mako"/>
${declarations}
${order.less(key, ordering)}
${merging.merging("merge", "global", "long", key, carried, chains, scalar)}

kernel void sort_merge(global const ${key}* restrict source, global ${key}* restrict target, const ulong n,
                       const ulong width, const ulong stretch, const ulong per_row, const ulong work
% if carried:
                       , global const ${carried}* restrict source_values, global ${carried}* restrict target_values
% endif
                       ) {
    if (get_global_id(0) < work) {
        const ulong row = get_global_id(0) / per_row;
        const ulong start = get_global_id(0) % per_row * stretch;
        const ulong pair = start / (2 * width) * (2 * width);
        const ulong middle = min(pair + width, n);
        const ulong end = min(pair + 2 * width, n);
        merge(source + row * n, ${"source_values + row * n," if carried else ""}
              target + row * n + start, ${"target_values + row * n + start," if carried else ""}
              (long) pair, (long) middle, (long) end, (long) (start - pair), (long) min(stretch, end - start));
    }
}
