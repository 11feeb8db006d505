## The k best elements of each part of each row, in the order of their indexes: candidates for the k best of the row.
## An element's rank is an unsigned integer that orders it (see sort_radix_elements): larger ranks are better.
## Phases: a work-item keeps a threshold, the rank of the k-th best element so far, and a buffer of `capacity` elements.
## It reads its part in blocks of `block` elements. If a rank in a block is larger than the threshold, it looks at the
## single elements of the vectors with such ranks; these elements go to the buffer. When the buffer holds more than
## k + k / 2 + `block` elements, it drops all but the k best: the new threshold is found bit by bit, by counting ranks.
## Of equal ranks it keeps the first, so a later element must have a larger rank. The first threshold comes from a sample
## of the whole part: with the first elements only, every element of a part in ascending order would be larger than the
## threshold.
## Launch: one work-item for each part, `parts` for each row, in work-groups of 1. Parts have at least k elements.
## Parameters: declarations, key (unsigned C type of the key's size), kind, key_bits, descending, rank_window (see
## sort_radix_elements), index (C type of the indexes in the buffer), block (a multiple of 16), native (C type of the
## key, to compare whole blocks with the threshold's value; None: blocks are compared by ranks), mask_words (number of
## ulong in a vector comparison of native values), prefetch (see Profile.prefetches).
<%namespace name="elements" file="sort_radix_elements.mako"/>
<%namespace name="memory" file="prefetch.mako"/>
<% rank_bits = 64 if key_bits == 64 else 32 %>
${declarations}
typedef ${"ulong" if key_bits == 64 else "uint"} RANK;
typedef ${"ulong" if key_bits == 64 else "uint"}16 RANK16;
typedef ${"long" if key_bits == 64 else "int"}16 COUNT16;
${elements.order("encoded", "rank_of", key, "RANK", "RANK")}
${elements.order("encoded_many", "ranks_of", f"{key}16", "RANK16", "RANK16", f"convert_{'ulong' if key_bits == 64 else 'uint'}16")}

/* The rank of the k-th best of `count` elements. */
static RANK kth_best(global const RANK* ranks, const int count, const int k) {
    const int whole = count / 16 * 16;
    RANK threshold = 0;
    for (int bit = ${rank_bits - 1}; bit >= 0; --bit) {
        const RANK higher = threshold | (RANK) 1 << bit;
        COUNT16 counts = 0;
        for (int i = 0; i < whole; i += 16) counts -= vload16(0, ranks + i) >= higher;
        /* Oclgrind reports sums of .lo and .hi as uninitialized. */
        int found = (int) (${" + ".join(f"counts.s{lane}" for lane in "0123456789abcdef")});
        for (int i = whole; i < count; ++i) found += ranks[i] >= higher;
        if (found >= k) threshold = higher;
    }
    return threshold;
}

/* Keeps the k best of `count` elements, in order; returns the rank of the worst of them. */
static RANK keep_best(global RANK* restrict ranks, global ${index}* restrict places, const int count, const int k) {
    const RANK threshold = kth_best(ranks, count, k);
    int above = 0;
    for (int i = 0; i < count; ++i) above += ranks[i] > threshold;
    int equal = k - above, kept = 0;
    for (int i = 0; i < count; ++i) {
        const RANK rank = ranks[i];
        const int keep = rank > threshold || (rank == threshold && equal > 0);
        equal -= rank == threshold;
        ranks[kept] = rank;
        places[kept] = places[i];
        kept += keep;
        if (kept == k) break;
    }
    return threshold;
}

% if native:
<% mask = {8: "char", 16: "short", 32: "int", 64: "long"}[key_bits] %>
typedef ${mask}16 MASK16;

${elements.any_of("MASK16", mask_words)}

/* The value of a kept element of this rank. */
static ${native} value_of(global const ${key}* x, global const RANK* ranks, global const ${index}* places,
                          const RANK rank) {
    int i = 0;
    while (ranks[i] != rank) ++i;
    return ((global const ${native}*) x)[places[i]];
}
% endif

kernel ${one_lane} void top_k_candidates(global const ${key}* restrict x, const long x_at, const long row_step, const long n,
                             const int parts, const int k, const int capacity, const int sample, global RANK* restrict ranks,
                             global ${index}* restrict places, global RANK* restrict found_ranks,
                             const long found_ranks_at, global long* restrict found_places, const long found_places_at,
                             global ${key}* restrict found_keys, const long found_keys_at) {
    const long item = (long) get_global_id(0);
    const long row = item / parts, part = item % parts;
    const long from = part * (n / parts) + min(part, n % parts);
    const long end = from + n / parts + (part < n % parts);
    x += x_at + row * row_step;
    ranks += item * capacity;
    places += item * capacity;
    RANK threshold = 0;
    int count = 0;
    if (sample) {
        const long stride = (end - from) / (sample / 16);
        uint random = 1;
        for (int i = 0; i < sample; i += 16) { /* 16 adjacent elements cost one access to memory */
            random = random * 1664525u + 1013904223u;
            const long at = from + i / 16 * stride + (random >> 8) % (uint) (stride - 15);
            for (int j = 0; j < 16; ++j) {
                ranks[i + j] = rank_of(encoded(x[at + j]));
                places[i + j] = (${index}) (at + j);
            }
        }
        /* At least k elements have this rank or a larger one; the next smaller one lets all of them through. */
        const RANK enough = kth_best(ranks, sample, k);
        for (int i = 0; i < sample; ++i)
            if (ranks[i] < enough && ranks[i] >= threshold) {
                threshold = ranks[i];
                count = 1;
            }
    }
    const int found = count;
    long i = from;
    if (!found) { /* no sample, or no rank below that of the k best */
        for (; count < k; ++count, ++i) {
            ranks[count] = rank_of(encoded(x[i]));
            places[count] = (${index}) i;
        }
        threshold = keep_best(ranks, places, count, k);
    }
% if native:
    ${native} limit = value_of(x, ranks, places, threshold);
% endif
    if (found) count = 0;
    const int most = min(k + k / 2, capacity - ${2 * block}) + ${block}; /* the next block must fit */
    for (; i + ${block} <= end; i += ${block}) {
% if prefetch:
        ${memory.ahead("x + i", block * key_bits // 8)}
% endif
% if native:
% for v in range(block // 16):
        const ${native}16 values${v} = vload16(${v}, (global const ${native}*) x + i);
% endfor
<%
    if kind != "f":
        better = [f"(values{v} {'<' if descending else '>'} limit)" for v in range(block // 16)]
    elif descending: # NaN is the worst, so a limit of NaN lets all numbers through
        better = [f"((values{v} < limit) | ((values{v} == values{v}) & (limit_is_nan)))" for v in range(block // 16)]
    else:
        better = [f"~(values{v} <= limit)" for v in range(block // 16)]
%>
% if kind == "f" and descending:
        const MASK16 limit_is_nan = (MASK16) (limit != limit ? -1 : 0);
% endif
        if (any_of(${" | ".join(better)})) {
            const uint hits = ${" | ".join(f"(uint) any_of({one}) << {v}" for v, one in enumerate(better))};
% else:
% for v in range(block // 16):
        const RANK16 ranks${v} = ranks_of(encoded_many(vload16(${v}, x + i)));
% endfor
<% better = [f"(ranks{v} > threshold)" for v in range(block // 16)] %>
        if (any(${" | ".join(better)})) {
            const uint hits = ${" | ".join(f"(uint) any({one}) << {v}" for v, one in enumerate(better))};
% endif
            for (int v = 0; v < ${block // 16}; ++v) {
                if (!(hits >> v & 1)) continue;
                for (long at = i + 16 * v; at < i + 16 * v + 16; ++at) {
                    const RANK rank = rank_of(encoded(x[at]));
                    ranks[count] = rank;
                    places[count] = (${index}) at;
                    count += rank > threshold;
                }
            }
            if (count > most) {
                threshold = keep_best(ranks, places, count, k);
                count = k;
% if native:
                limit = value_of(x, ranks, places, threshold);
% endif
            }
        }
    }
    for (; i < end; ++i) {
        const RANK rank = rank_of(encoded(x[i]));
        ranks[count] = rank;
        places[count] = (${index}) i;
        count += rank > threshold;
    }
    keep_best(ranks, places, count, k);
    for (int j = 0; j < k; ++j) {
        const long to = item * k + j;
        found_ranks[found_ranks_at + to] = ranks[j];
        found_places[found_places_at + to] = (long) places[j];
        found_keys[found_keys_at + to] = x[places[j]];
    }
}
