## Sorts whole rows that fit into a cache, by radix: a work-item reads a row (contiguous; rows at any stride),
## sorts it in scratch memory and writes it to contiguous rows (CPU mapping).
## Launch: one work-item for `share` adjacent rows; each has scratch memory for two copies of a row.
## Parameters: see sort_radix_elements and sort_radix_cached; declarations (C structs of the carried values).
<%namespace name="elements" file="sort_radix_elements.mako"/>
<%namespace name="lsd" file="sort_radix_cached.mako"/>
${declarations}
${elements.types()}
${lsd.cached()}

kernel ${one_lane} void sort_rows(${elements.sources()}, ${elements.results()}, const ulong rows, const ulong share,
                      global ELEMENT* restrict scratch) {
    global ELEMENT* a = scratch + get_global_id(0) * 2 * n;
    global ELEMENT* b = a + n;
    const ulong end = min(rows, (get_global_id(0) + 1) * share);
    for (ulong row = get_global_id(0) * share; row < end; ++row) {
        global const ${key}* keys = x + (long) x_offset + (long) row * row_stride;
        RANK low = ~(RANK) 0, high = 0;
        for (uint i = 0; i < n; ++i) {
            ${elements.load("e", "i")}
            const RANK rank = rank_of(KEY_OF(e));
            low = min(low, rank);
            high = max(high, rank);
            a[i] = e;
        }
        const RANK span = high - low;
        const uint bits = span ? ${64 if key_bits == 64 else 32} - (uint) clz(span) : 0;
        global const ELEMENT* from = sort_cached(a, b, n, low, bits, 1 << 15, 3) ? b : a;
        for (uint i = 0; i < n; ++i) {
            const ELEMENT e = from[i];
            ${elements.store("e", "row * n + i")}
        }
    }
}
