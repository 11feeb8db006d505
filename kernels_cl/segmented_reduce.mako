## Reduces each segment of x: segment s has the elements offsets[s] .. offsets[s + 1] - 1.
## Kernel `reduce_parts`: the ends of segments and the elements are merged as two sorted arrays (merge path; D. Merrill
## and M. Garland, Merge-based Parallel Sparse Matrix-Vector Multiplication, 2016): a work-item has `part` of both
## together. It stores the results of segments that begin and end in its part. Of a segment that began earlier, it stores
## the part up to the end in pieces[2 * item]; of one that ends later, the part so far in pieces[2 * item + 1].
## `places` has the first and the last segment of each part, and which pieces are not empty (1, 2: their sum).
## Kernel `join_pieces`: one work-item for each part joins the pieces of the segment that ends there and began earlier.
## Kernel `segment_marks`: flags[offsets[s]] = 1, for a segmented scan of x (mapping "simt").
## Kernel `segment_ends`: takes the results from the last element of each segment of that scan (mapping "simt").
## Launch: reduce_parts and join_pieces: one work-item for each part, in work-groups of 1. The others: one for each
## segment. No local memory, no barrier. Offsets are clipped to the array.
## Parameters: declarations, source (C type of x), value (C type of the result), combine (the C function of the
## operator), convert (of x to the value), start (C text of the result of an empty segment; "" for the argument init),
## initial (init is combined with every segment), part, vector: vectors of 16 reduce long segments, with combine_vector
## (its function), convert_vector (of X to a vector of values).
${declarations}
${combine}
% if vector:
${combine_vector}
typedef ${source}16 SOURCE16;
typedef ${value}16 VALUE16;
% endif
typedef ${value} VALUE;
#define CHAINS 4

static VALUE converted(const ${source} x) { return ${convert}; }

static VALUE with_init(const VALUE found, global const VALUE* init) {
    return ${"combine(init[0], found)" if initial else "found"};
}

static VALUE empty(global const VALUE* init) { return ${start or "init[0]"}; }

/* No result is a `? :` between a value and a constant: one driver computes it wrong for int8. */

#define END(s) clamp((long) offsets[(s) + 1], 0L, n)
#define BEGIN(s) clamp((long) offsets[s], 0L, n)

/* The elements from .. end - 1, at least one. */
static VALUE piece(global const ${source}* restrict x, long from, const long end) {
% if vector:
    if (end - from >= 64) {
        VALUE16 found0, found1;
        {
            const SOURCE16 X0 = vload16(0, x + from), X1 = vload16(1, x + from);
            found0 = ${convert_vector.replace("$X", "X0").replace("$N", "16")};
            found1 = ${convert_vector.replace("$X", "X1").replace("$N", "16")};
        }
        for (from += 32; from + 32 <= end; from += 32) {
            const SOURCE16 X0 = vload16(0, x + from), X1 = vload16(1, x + from);
            found0 = combine_vector(found0, ${convert_vector.replace("$X", "X0").replace("$N", "16")});
            found1 = combine_vector(found1, ${convert_vector.replace("$X", "X1").replace("$N", "16")});
        }
        found0 = combine_vector(found0, found1);
        VALUE found = found0.s0;
% for lane in range(1, 16):
        found = combine(found, found0.s${f"{lane:x}"});
% endfor
        for (; from < end; ++from) found = combine(found, converted(x[from]));
        return found;
    }
% else:
    if (end - from >= 8 * CHAINS) {
        /* Chains do not wait for one another; they are adjacent, so that their order is kept. */
        const long share = (end - from) / CHAINS;
        VALUE found0 = converted(x[from]), found1 = converted(x[from + share]);
        VALUE found2 = converted(x[from + 2 * share]), found3 = converted(x[from + 3 * share]);
        for (long i = from + 1; i < from + share; ++i) {
            found0 = combine(found0, converted(x[i]));
            found1 = combine(found1, converted(x[i + share]));
            found2 = combine(found2, converted(x[i + 2 * share]));
            found3 = combine(found3, converted(x[i + 3 * share]));
        }
        for (long i = from + 4 * share; i < end; ++i) found3 = combine(found3, converted(x[i]));
        return combine(combine(found0, found1), combine(found2, found3));
    }
% endif
    VALUE found = converted(x[from]);
    for (long i = from + 1; i < end; ++i) found = combine(found, converted(x[i]));
    return found;
}

kernel ${one_lane} void reduce_parts(global const ${source}* restrict x, const long x_at, global const long* restrict offsets,
                         const long offsets_at, global VALUE* restrict out, const long out_at, const long n,
                         const long segments, global const VALUE* init, global VALUE* restrict pieces,
                         global long* restrict places) {
    x += x_at;
    offsets += offsets_at;
    out += out_at;
    const long item = (long) get_global_id(0);
    const long start = min(item * ${part}, n + segments), stop = min(start + ${part}, n + segments);
    long s = max(0L, start - n), high = min(start, segments);
    while (s < high) {
        const long probe = (s + high) / 2;
        if (END(probe) <= start - probe - 1)
            s = probe + 1;
        else
            high = probe;
    }
    long from = start - s;
    int found = 0;
    places[3 * item] = s;
    for (int carried = s < segments && from > BEGIN(s); s < segments && s + from < stop; ++s, carried = 0) {
        from = max(from, carried ? from : BEGIN(s));
        const long end = END(s);
        if (end + s >= stop) { /* the segment does not end here */
            const long last = stop - s;
            if (last > from) {
                pieces[2 * item + 1] = piece(x, from, last);
                found |= 2;
            }
            break;
        }
        if (carried) {
            found |= 4;
            if (end > from) {
                pieces[2 * item] = piece(x, from, end);
                found |= 1;
            }
        } else {
            if (end > from)
                out[s] = with_init(piece(x, from, end), init);
            else
                out[s] = empty(init);
        }
        from = max(from, end);
    }
    places[3 * item + 1] = s;
    places[3 * item + 2] = found;
}

kernel ${one_lane} void join_pieces(global VALUE* restrict out, const long out_at, global const VALUE* init,
                        global const VALUE* restrict pieces, global const long* restrict places) {
    const long item = (long) get_global_id(0);
    const long found = places[3 * item + 2], s = places[3 * item];
    if (found & 4) {
        long first = item;
        while (first > 0 && places[3 * first - 2] == s && (places[3 * first - 1] & 2)) --first;
        VALUE sum;
        int any = 0;
        for (; first < item; ++first) {
            const VALUE next = pieces[2 * first + 1];
            sum = any ? combine(sum, next) : next;
            any = 1;
        }
        if (found & 1) {
            const VALUE next = pieces[2 * item];
            sum = any ? combine(sum, next) : next;
            any = 1;
        }
        if (any)
            out[out_at + s] = with_init(sum, init);
        else
            out[out_at + s] = empty(init);
    }
}

kernel void segment_marks(global const long* restrict offsets, const long offsets_at, global uchar* restrict flags,
                          const long n, const long segments) {
    const long s = (long) get_global_id(0);
    if (s < segments) {
        const long at = offsets[offsets_at + s];
        /* Empty segments need no mark; without them, no two work-items write one flag. */
        if (at >= 0 && at < n && offsets[offsets_at + s + 1] > at) flags[at] = 1;
    }
}

kernel void segment_ends(global const VALUE* restrict sums, const long sums_at, global const long* restrict offsets,
                         const long offsets_at, global VALUE* restrict out, const long out_at, const long n,
                         const long segments, global const VALUE* init) {
    const long s = (long) get_global_id(0);
    offsets += offsets_at;
    if (s < segments) {
        if (END(s) > BEGIN(s))
            out[out_at + s] = with_init(sums[sums_at + END(s) - 1], init);
        else
            out[out_at + s] = empty(init);
    }
}
