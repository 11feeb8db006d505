## Repeats elements along one axis: out[o, j, k] = x[o, i, k] for the positions j of element i, which end before ends[i]
## (the inclusive sums of the repeats). All sizes: `outer` x `n` (or `total`) x `inner`. Positions beyond the last end
## repeat the last element; positions beyond `total` are not stored.
## Mapping "vector": the ends and the positions are merged as two sorted arrays (merge path), so that a work-item has
## `part` of both together, also if few elements are repeated often, or many never. Launch: work-groups of 1.
## Mapping "simt": a work-item stores one element; it finds the element by binary search. Launch: one work-item for each
## element of the result. No local memory, no barrier.
## Parameters: mapping, declarations, word (C type of an element; None: the index i is stored, as int), uniform (every
## element has `repeats` copies; there are no ends), flat (outer and inner are 1), part, wide (vectors of 8 store short
## runs: positions behind a run are stored again by the next run of the same work-item).
${declarations}
% if uniform:
#define END(i) ((i) == n - 1 ? total : ((i) + 1) * repeats)
#define OWNER(j) (repeats > 0 ? min((j) / repeats, n - 1) : n - 1)
% else:
/* Clipped, so that wrong ends never lead outside of the result. */
#define END(i) ((i) == n - 1 ? total : clamp(ends[i], 0L, total))
% endif

% if mapping == "vector" and not uniform:
/* The number of ends among the first `diagonal` of ends and positions, merged. */
static long split(const long diagonal, global const long* restrict ends, const long n, const long total) {
    long low = max(0L, diagonal - total), high = min(diagonal, n);
    while (low < high) {
        const long probe = (low + high) / 2;
        if (END(probe) <= diagonal - probe - 1)
            low = probe + 1;
        else
            high = probe;
    }
    return low;
}
% endif

kernel ${one_lane} void repeat_elements(
% if word:
    global const ${word}* restrict x, const long x_at,
% endif
% if uniform:
    const long repeats,
% else:
    global const long* restrict ends, const long ends_at,
% endif
    global ${word or "int"}* restrict out, const long out_at, const long n, const long total, const long outer,
    const long inner) {
% if not uniform:
    ends += ends_at;
% endif
    out += out_at;
% if mapping == "simt":
    const long at = (long) get_global_id(0);
    if (at < outer * total * inner) {
        const long j = at / inner % total;
% if uniform:
        const long i = OWNER(j);
% else:
        long i = 0;
        for (long left = n - 1; left > 0;) {
            /* i counts the ends of the first n - 1 elements that are not beyond j. */
            const long half_size = left > 1 ? left >> 1 : 1;
            if (END(i + half_size - 1) <= j) i += half_size;
            left = left > 1 ? left - half_size : 0;
        }
% endif
        out[at] = ${"x[x_at + (at / (total * inner) * n + i) * inner + at % inner]" if word else "(int) i"};
    }
% else:
% if uniform:
    long j = (long) get_global_id(0) * ${part};
    const long stop = min(j + ${part}, total);
    for (long i = OWNER(j); j < stop; ++i) {
        const long end = min(END(i), stop);
% else:
    const long start = min((long) get_global_id(0) * ${part}, n + total);
    const long stop = min(start + ${part}, n + total);
    long i = split(start, ends, n, total), j = start - i;
% if wide:
    const long last = stop - split(stop, ends, n, total); /* the end of the positions of this work-item */
% endif
    for (; i < n && i + j < stop; ++i) {
        const long end = min(END(i), stop - i);
% endif
% if word and flat:
        const ${word} value = x[x_at + i];
% if wide:
        if (j + 8 <= ${"stop" if uniform else "last"}) {
            vstore8((${word}8) value, 0, out + j);
            if (end <= j + 8) {
                j = max(j, end);
                continue;
            }
            j += 8;
        }
% endif
        for (; j < end; ++j) out[j] = value;
% elif word:
        for (long o = 0; o < outer; ++o)
            for (long to = j; to < end; ++to)
                for (long k = 0; k < inner; ++k)
                    out[(o * total + to) * inner + k] = x[x_at + (o * n + i) * inner + k];
        j = max(j, end);
% else:
        for (; j < end; ++j) out[j] = (int) i;
% endif
    }
% endif
}
