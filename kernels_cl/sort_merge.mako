## Merges neighbouring sorted runs of `width` elements of every row: one pass of a stable merge sort.
## Phases: each work-item finds by binary search where its stretch of the result begins in both runs (merge path:
## Green, McColl, Bader 2012), then merges one element after the other. Equal keys: the left run's first.
## Launch: one work-item for `stretch` elements of the result (a power of two, at most 2 * width), the stretches of all
## rows side by side (`per_row` of them for each), `work` in all; the last group may have idle work-items.
## Parameters: declarations, key, ordering (see sort_order), carried (C type carried along, or None).
<%namespace name="order" file="sort_order.mako"/>
${declarations}
${order.less(key, ordering)}

kernel void sort_merge(global const ${key}* restrict source, global ${key}* restrict target, const ulong n,
                       const ulong width, const ulong stretch, const ulong per_row, const ulong work
% if carried:
                       , global const ${carried}* restrict source_values, global ${carried}* restrict target_values
% endif
                       ) {
    if (get_global_id(0) < work) {
        const ulong row = get_global_id(0) / per_row;
        const ulong start = get_global_id(0) % per_row * stretch;
        source += row * n;
        target += row * n + start;
% if carried:
        source_values += row * n;
        target_values += row * n + start;
% endif
        const ulong pair = start / (2 * width) * (2 * width);
        const ulong middle = min(pair + width, n);
        const ulong end = min(pair + 2 * width, n);
        const ulong diagonal = start - pair;
        const ulong left_count = middle - pair, right_count = end - middle;
        ulong low = diagonal > right_count ? diagonal - right_count : 0;
        ulong high = min(diagonal, left_count);
        while (low < high) {
            const ulong probe = (low + high) / 2;
            if (less(source[middle + diagonal - 1 - probe], source[pair + probe]))
                high = probe;
            else
                low = probe + 1;
        }
        ulong a = pair + low, b = middle + diagonal - low;
        const int count = (int) min(stretch, end - start);
        int at = 0;
        while (at < count && a < middle && b < end) {
            const int second = less(source[b], source[a]);
            const ulong chosen = second ? b : a;
            target[at] = source[chosen];
% if carried:
            target_values[at] = source_values[chosen];
% endif
            b += (ulong) second;
            a += (ulong) (1 - second);
            ++at;
        }
        const ulong rest = a < middle ? a : b;
        for (int i = 0; i < count - at; ++i) {
            target[at + i] = source[rest + (ulong) i];
% if carried:
            target_values[at + i] = source_values[rest + (ulong) i];
% endif
        }
    }
}
