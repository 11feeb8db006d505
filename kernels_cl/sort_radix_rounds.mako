## Radix sort of rows that do not fit into a cache (CPU mapping): two rounds of the highest digit, then every bucket by
## itself.
## A round distributes segments: in the first round the rows, in the second the buckets that are still too large for a
## cache. The second round is always launched and returns at once if there are none. Phases of a round:
##  1. sort_range: the smallest and the largest rank of every chunk (a chunk is a part of a segment). The digit is taken
##     from the rank minus the smallest rank, so digits that all keys share are skipped.
##  2. sort_count: the elements of every chunk in each bin (a bin is a value of the digit).
##  3. sort_cut: joins adjacent bins to buckets of at most `most` elements, and computes where each chunk puts its part
##     of a bucket.
##  4. sort_scatter: moves the elements to their buckets, stably, through a buffer of one cache line for each bucket.
## Rows that are in order already are not counted and scattered: sort_buckets copies them (reverses them, if they are in
## descending order), or leaves the results alone if the caller prefers the sorted source (KEEP).
## Last, sort_buckets: work-items take buckets by a ticket (the largest first), sort them in the cache and write the
## results. A bucket of equal keys is copied; if only integers are sorted and a bin has one key, it is not even
## scattered but filled in.
## Launch: one work-item for each chunk of the first round (`per_row` for each row); for each row; in the second round
## for the most chunks and segments that there can be; `workers` work-items for sort_buckets.
## Parameters: see sort_radix_elements and sort_radix_cached; declarations; word_bytes (bytes of `word`); bins, again
## (bits of the digit in the two rounds; again is 0 if there is no second round), buckets (most buckets of a segment),
## limit (most elements that are sorted in the cache), nontemporal (store whole lines past the caches, if the compiler
## can), prefetch (see Profile.prefetches).
<%namespace name="elements" file="sort_radix_elements.mako"/>
<%namespace name="lsd" file="sort_radix_cached.mako"/>
<%namespace name="memory" file="prefetch.mako"/>
<%
    rank_bits = 64 if key_bits == 64 else 32
    per = 64 // word_bytes // (2 if carried else 1)
    fills = kind != "f" and not carried and not rank_window  # a rank is a whole key
%>
${declarations}
${elements.types()}
${elements.digits()}
${lsd.cached()}
#define PER ${per}
#define BUCKETS ${buckets}

/* Counters of a call. */
enum { TASKS, LARGE, SEGMENTS, CHUNKS, TICKET, KEPT };
typedef struct { uint begin, count, first, chunks; } SEGMENT;
/* Elements begin .. begin + count of the buffer `place` (or results to fill in, FILL), the lowest `bits` bits of whose
   ranks minus base differ. FILL: `bits` adjacent bins from number `bin` of the totals. COPY, REVERSE: the results come
   from the source. */
typedef struct { ulong base, bin; uint begin, count, bits, place; } TASK;
enum { FILL = 2, COPY, REVERSE };
enum { KEEP = ORDERED + 1 }; /* beside the orders that a call looks for */
#define RANK_AT(i) rank_of(encoded(keys[i]))
typedef union { ELEMENT e[PER]; ulong8 whole; } LINE;

static void store_line(global ELEMENT* to, const LINE* line) {
#if ${int(nontemporal)} && defined(__has_builtin)
#if __has_builtin(__builtin_nontemporal_store)
#define STREAMED
    __builtin_nontemporal_store(line->whole, (global ulong8*) to);
#endif
#endif
#ifndef STREAMED
    *(global ulong8*) to = line->whole;
#endif
}

static void add_task(volatile global uint* state, global TASK* tasks, const uint most_tasks, const TASK task) {
    if (task.count > ${limit}u && task.place != FILL && task.bits)
        tasks[most_tasks - 1 - atomic_inc(state + LARGE)] = task;
    else
        tasks[atomic_inc(state + TASKS)] = task;
}
${rounds(True, bins)}
% if again:
${rounds(False, again)}
% endif

kernel ${one_lane} void sort_buckets(global ELEMENT* restrict first, global ELEMENT* restrict second, global ELEMENT* restrict scratch,
                         volatile global uint* state, global const TASK* tasks, const uint most_tasks,
                         global const uint* totals, ${elements.sources()}, ${elements.results()}) {
    const uint large = state[LARGE], all = large + state[TASKS];
    scratch += get_global_id(0) * ${limit};
    for (;;) {
        const uint t = atomic_inc(state + TICKET);
        if (t >= all) break;
        const TASK task = tasks[t < large ? most_tasks - 1 - t : t - large];
% if fills:
        if (task.place == FILL) {
            uint at = task.begin;
            for (uint bin = 0; bin < task.bits; ++bin) {
                const ${key} k = decoded((WORD) (task.base + bin));
                const uint end = task.bits == 1 ? task.begin + task.count : at + totals[task.bin + bin];
                for (uint i = at; i < end; ++i) sorted_keys[i] = k;
                at = end;
            }
            continue;
        }
% endif
        if (task.place >= COPY) {
            const uint row = task.begin / n, begin = task.begin - row * n;
            global const ${key}* keys = x + (long) x_offset + (long) row * row_stride;
            if (task.place == COPY) {
                for (uint i = 0; i < task.count; ++i) {
                    ${elements.load("e", "begin + i")}
                    ${elements.store("e", "task.begin + i")}
                }
                continue;
            }
            /* The runs of equal ranks that start among these elements, from the last one on; each keeps its order. */
            uint end = n - begin, start = end - task.count;
            while (start < end && start > 0 && RANK_AT(start) == RANK_AT(start - 1)) ++start;
            while (start < end && end < n && RANK_AT(end) == RANK_AT(end - 1)) ++end;
            while (start < end) {
                uint head = end - 1;
                while (head > start && RANK_AT(head) == RANK_AT(head - 1)) --head;
                const ulong to = (ulong) row * n + n - end;
                for (uint i = head; i < end; ++i) {
                    ${elements.load("e", "i")}
                    ${elements.store("e", "to + i - head")}
                }
                end = head;
            }
            continue;
        }
        global ELEMENT* a = (task.place ? second : first) + task.begin;
        global ELEMENT* b = t < large ? (task.place ? first : second) + task.begin : scratch;
        const int moved = sort_cached(a, b, task.count, (RANK) task.base, task.bits, 8192, 2);
        global const ELEMENT* from = moved ? b : a;
        const uint row = task.begin / n;
        for (uint i = 0; i < task.count; ++i) {
            const ELEMENT e = from[i];
            ${elements.store("e", "task.begin + i")}
        }
    }
}
##
## The four kernels of a round.
<%def name="rounds(first, bins)">
<%
    name = "rows" if first else "again"
    many = "encoded_many(vload16(0, keys + i))" if first else None
    if not first and not carried:
        many = f"convert_{'ulong' if key_bits == 64 else 'uint'}16(vload16(0, x + i))"
    fetched = ("keys + i", key_bits // 8) if first else ("x + i", word_bytes)
    fetch = capture(memory.ahead, fetched[0], 16 * fetched[1]).strip() if prefetch and many else ""
    inputs = capture(elements.sources) if first else "global const ELEMENT* restrict x, const uint n"
%>
<%def name="chunk()">
    const uint chunk = (uint) get_global_id(0);
% if first:
    const uint row = chunk / per_row;
    const uint begin = chunk % per_row * chunk_size, end = min(n, begin + chunk_size);
    global const ${key}* keys = x + (long) x_offset + (long) row * row_stride;
    const uint segment = row, first_chunk = row * per_row, chunks = per_row;
% else:
    if (chunk >= state[CHUNKS]) return;
    const uint segment = chunk_segments[chunk];
    const SEGMENT s = segments[segment];
    const uint begin = s.begin + (chunk - s.first) * chunk_size, end = min(s.begin + s.count, begin + chunk_size);
    const uint first_chunk = s.first, chunks = s.chunks;
% endif
</%def>
<%def name="element(e, i)">
% if first:
            ${elements.load(e, i)}
% else:
            const ELEMENT ${e} = x[${i}];
% endif
</%def>
<%def name="digit()">
    SPAN span = spans[first_chunk];
    for (uint c = first_chunk + 1; c < first_chunk + chunks; ++c) span = joined(span, spans[c]);
    DIGIT digit = digit_of(span, ${bins});
</%def>
<% lists = "" if first else ", global const SEGMENT* segments, global const uint* chunk_segments" %>
<% steps = f"const uint chunk_size{', const uint per_row' if first else ''}, volatile global uint* state{lists}" %>

kernel ${one_lane} void sort_range_${name}(${inputs}, ${steps}, global SPAN* restrict spans${", const uint orders" if first else ""}) {
    ${chunk()}
    ${elements.range(capture(element, "e", "i"), many, "begin", "end", "orders" if first else "", fetch)}
    spans[chunk] = span;
% if first:
    if (chunk == 0)
        for (int i = TASKS; i <= KEPT; ++i) state[i] = 0;
% endif
}

kernel ${one_lane} void sort_count_${name}(${inputs}, ${steps}, global const SPAN* restrict spans, global uint* restrict counts) {
    ${chunk()}
    ${digit()}
% if first:
    if (span.orders & ORDERED) return;
% endif
    counts += (ulong) chunk << ${bins};
    for (uint bin = 0; bin < ${1 << bins}; ++bin) counts[bin] = 0;
    uint i = begin;
% if kind == "f":
    /* Two at a time, with both counters read before one is written: a run of equal keys (NaN) waits for half of the
       stores. */
    for (; i + 2 <= end; i += 2) {
        ${element("e", "i")}
        ${element("f", "i + 1")}
        const uint one = bin_of(digit, rank_of(KEY_OF(e))), two = bin_of(digit, rank_of(KEY_OF(f)));
        const uint a = counts[one], b = counts[two] + (one == two);
        counts[one] = a + 1;
        counts[two] = b + 1;
    }
% endif
    for (; i < end; ++i) {
        ${element("e", "i")}
        counts[bin_of(digit, rank_of(KEY_OF(e)))] += 1;
    }
}

/* In `counts`, the elements of a chunk in each bin become the first places of its elements in each bucket. `totals`
   are the elements of the segment in each bin. */
kernel ${one_lane} void sort_cut_${name}(const uint n, const uint chunk_size, const uint ${"per_row" if first else "unused"},
                             volatile global uint* state,
                             global SEGMENT* segments, global uint* chunk_segments, global const SPAN* restrict spans,
                             global uint* restrict counts, global uint* restrict totals, global ushort* restrict table,
                             global DIGIT* restrict digits, global TASK* restrict tasks, const uint most_tasks,
                             const uint target, const uint totals_from) {
    const uint segment = (uint) get_global_id(0);
% if first:
    const uint first_chunk = segment * per_row, chunks = per_row, begin = segment * n, count = n;
% else:
    if (segment >= state[SEGMENTS]) return;
    const SEGMENT s = segments[segment];
    const uint first_chunk = s.first, chunks = s.chunks, begin = s.begin, count = s.count;
% endif
    ${digit()}
% if first:
    if (span.orders & ORDERED) {
        const int ascending = span.orders & ASCENDING, kept = ascending && span.orders & KEEP;
        for (uint part = 0; part < count && !kept; part += target) {
            const TASK task = {0, 0, begin + part, min(target, count - part), 0, ascending ? COPY : REVERSE};
            add_task(state, tasks, most_tasks, task);
        }
        state[KEPT] = (uint) kept;
        digit.still = 1;
        digits[segment] = digit;
        return;
    }
% endif
    const ulong at = (ulong) segment << ${bins};
    counts += (ulong) first_chunk << ${bins};
    totals += totals_from + at;
    table += at;
    for (uint bin = 0; bin < ${1 << bins}; ++bin) totals[bin] = 0;
    for (uint c = 0; c < chunks; ++c)
        for (uint bin = 0; bin < ${1 << bins}; ++bin) {
            const uint here = counts[(c << ${bins}) + bin];
            counts[(c << ${bins}) + bin] = totals[bin];
            totals[bin] += here;
        }
    const int fill = ${"digit.shift == 0" if fills else "0"}, still = ${"0" if first else "digit.still"};
    uint most = target;
    for (uint buckets = BUCKETS + 1; buckets > BUCKETS; most += most / 4 + 1) {
        uint size = 0;
        buckets = 1;
        for (uint bin = 0; bin < ${1 << bins}; ++bin) {
            size += totals[bin];
            if (size > most) {
                ++buckets;
                size = totals[bin];
            }
        }
        if (buckets <= BUCKETS) break;
    }
    uint bucket = 0, place = begin, bin = 0;
    while (bin < ${1 << bins}) {
        const uint from = bin;
        uint size = totals[bin++];
        while (bin < ${1 << bins} && size + totals[bin] <= most) size += totals[bin++];
        for (uint c = 0; c < chunks; ++c) {
            uint before = place;
            for (uint b = from; b < bin; ++b) before += counts[(c << ${bins}) + b];
            counts[(c << ${bins}) + bucket] = before;
        }
        for (uint b = from; b < bin; ++b) table[b] = (ushort) bucket;
        ++bucket;
        if (size == 0) continue;
        const RANK base = first_rank(digit, from), width = last_rank(digit, bin) - base;
        const uint bits = width ? ${rank_bits} - (uint) clz(width) : 0;
        TASK task = {(ulong) base, totals_from + at + from, place, size, bits, ${0 if first else 1} - (uint) still};
        if (fill) {
            task.place = FILL;
            task.bits = bin - from;
        }
        if ((fill || task.bits == 0) && size > ${limit}u && bin - from == 1) {
            for (uint part = 0; part < size; part += ${limit}u) {
                task.begin = place + part;
                task.count = min(${limit}u, size - part);
                add_task(state, tasks, most_tasks, task);
            }
% if first and again:
        } else if (size > ${limit}u && !fill) {
            const uint pieces = (size + chunk_size - 1) / chunk_size;
            const uint next = atomic_inc(state + SEGMENTS), next_chunk = atomic_add(state + CHUNKS, pieces);
            const SEGMENT large = {place, size, next_chunk, pieces};
            segments[next] = large;
            for (uint c = 0; c < pieces; ++c) chunk_segments[next_chunk + c] = next;
% endif
        } else {
            add_task(state, tasks, most_tasks, task);
        }
        place += size;
    }
    digit.still = (uint) (fill || still);
    digits[segment] = digit;
}

kernel ${one_lane} void sort_scatter_${name}(${inputs}, ${steps}, global const uint* restrict counts, global const ushort* restrict table,
                                 global const DIGIT* restrict digits, global ELEMENT* restrict to) {
    ${chunk()}
    const DIGIT digit = digits[segment];
    if (digit.still) return;
    LINE lines[BUCKETS];
    uint starts[BUCKETS], places[BUCKETS];
    counts += (ulong) chunk << ${bins};
    table += (ulong) segment << ${bins};
    const uint all = (uint) table[${(1 << bins) - 1}] + 1;
    for (uint b = 0; b < all; ++b) starts[b] = places[b] = counts[b];
    for (uint i = begin; i < end; ++i) {
        ${element("e", "i")}
        const uint b = table[bin_of(digit, rank_of(KEY_OF(e)))];
        const uint place = places[b]++;
        lines[b].e[place % PER] = e;
        if (place % PER == PER - 1) {
            const uint line = place - (PER - 1);
            if (line >= starts[b])
                store_line(to + line, lines + b);
            else
                for (uint p = starts[b]; p <= place; ++p) to[p] = lines[b].e[p % PER];
        }
    }
    for (uint b = 0; b < all; ++b)
        for (uint p = max(starts[b], places[b] / PER * PER); p < places[b]; ++p) to[p] = lines[b].e[p % PER];
}
</%def>
