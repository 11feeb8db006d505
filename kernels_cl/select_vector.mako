## Select for CPU drivers: one work-item per work-group.
## A work-item evaluates the condition of a block of elements (a loop that compilers vectorize), then copies the
## elements to private memory without a branch: each is stored after the kept ones, where the next one overwrites a
## dropped one. It publishes the number of kept elements, looks up the number before its partition, and stores whole
## vectors. Blocks without a kept element are skipped. Some conditions, such as that of heads of runs, have a form on
## vectors. Where the driver moves the kept elements of a vector together by few instructions, these are evaluated for
## 16 elements at once, without blocks.
## Launch: one work-group of one work-item per partition of `part` <= most elements.
## Parameters: see select_common and wg_lookback; phase ("single": one pass; "reduce", "seeded": first and last pass of
## reduce-then-scan; "alone": one partition), most (elements of a partition), block, wide (words of a vector of a
## nontemporal store; 0: plain stores), compress (kept elements may be moved together as vectors), word_bytes,
## sum_bytes, mask (C type of the masks of sums), identity, combine_sums_vector, convert_vector (of sums), difference
## (format text of a - b with wrap-around, with {a}, {b} and the vector width {n}: the sum of a run is then the
## difference of two sums that begin at the partition's start; "": sums restart at each head), condition_vector
## (the condition as an expression of vectors: x, with heads a and b; ""), vector_functions (that it calls),
## key_bytes, key_mask (C type of the masks of keys), summand_bytes, partitions_ahead (of the partition that a core takes
## next; 0: nothing is prefetched).
<%namespace name="common" file="select_common.mako"/>
<%namespace name="lookback" file="wg_lookback.mako"/>
<%namespace name="memory" file="prefetch.mako"/>
<%
    recomputed = f"recompute({capture(common.input_names)}, back, &found)"
    digits = "0123456789abcdef"
    by_vectors = bool(condition_vector)
    last, slot = ("per_row", "slots + $P") if limits else ("parts", "$P")
    here = slot.replace("$P", "p")
    listed = indexes or state_kind == "lengths"
    parts_of = [("kept", "places")]
    parts_of += [("second_kept", "second_places")] if three else []
    parts_of += [("others", "other_places")] if rest else []
    # pairs of a part and its value in a list of values for the first, the second and the other elements
    by_part = lambda values: list(zip(parts_of, [values[0]] + values[1:2] * three + values[2:] * rest))
    fetched = [("k", "K_AT", k_unit, key_bytes), ("s", "S_AT", s_unit, summand_bytes)]
    fetched += [("e", "E_AT", e_unit, element_words * word_bytes)] if elements else []
    narrow = min([word_bytes] * elements + [sum_bytes] * sums + [8])  # of the vectors that are compressed
%>
${common.prelude()}
#define BLOCK ${block}
% if partitions_ahead:
#define AHEAD ${memory.attr.DISTANCE // max(size for _, _, _, size in fetched)} /* elements */
% endif
% if compress:
/* The kept lanes of a vector are moved together: by one instruction of processors with AVX-512, for which some compilers
   have functions (elements of 8 and 16 bits need VBMI2), or by a shuffle whose mask comes from a table. */
#if defined(__AVX512F__) && defined(__AVX512BW__) && defined(__AVX512VL__) && defined(__AVX512DQ__)${" && defined(__AVX512VBMI2__)" if narrow < 4 else ""}
#define COMPRESS
#define COMPRESS_uint(v, mask) as_uint16(__builtin_ia32_compresssi512_mask(as_int16(v), (int16) (0), mask))
#define COMPRESS_ulong(v, mask) as_ulong8(__builtin_ia32_compressdi512_mask(as_long8(v), (long8) (0), mask))
#define COMPRESS_ushort(v, mask) as_ushort16(__builtin_ia32_compresshi256_mask(as_short16(v), (short16) (0), mask))
#define COMPRESS_uchar(v, mask) as_uchar16(__builtin_ia32_compressqi128_mask(as_char16(v), (char16) (0), mask))
#elif defined(FAST_SHUFFLES)
#define COMPRESS
#define BY_SHUFFLES
/* For each set of eight lanes: the numbers of its lanes in ascending order, then zeros. */
constant uchar LANES_OF[] = {
% for bits in range(256):
<% lanes = [lane for lane in range(8) if bits >> lane & 1] %>\
    ${", ".join(map(str, lanes + [0] * (8 - len(lanes))))},
% endfor
};
#endif
#ifdef COMPRESS
/* The lowest bits of 16 bytes; their other bits are 0. A product has the bits of eight bytes in its highest byte. */
static ushort bits_of(const ulong low, const ulong high) {
    return (ushort) ((low * 0x0102040810204080UL >> 56) | (high * 0x0102040810204080UL >> 56 << 8));
}
% for type, size in dict([(word, word_bytes)] * elements + [("int", 4)] * listed + [(sum, sum_bytes)] * sums).items():
<% bits = {1: "uchar", 2: "ushort", 4: "uint", 8: "ulong"}[size] %>
/* Stores the lanes of v whose bits are set in `mask` at `to`, in order. The elements after them, up to to[15], are
   overwritten with other values. */
static void store_kept_${type}(const ${type}16 v, const ushort mask, ${type}* to) {
#ifdef BY_SHUFFLES
    vstore8(as_${type}8(shuffle(as_${bits}8(v.lo), convert_${bits}8(vload8(mask & 255, LANES_OF)))), 0, to);
    vstore8(as_${type}8(shuffle(as_${bits}8(v.hi), convert_${bits}8(vload8(mask >> 8, LANES_OF)))), 0, to + popcount((uint) mask & 255));
#else
% if size == 8:
    vstore8(as_${type}8(COMPRESS_ulong(as_ulong8(v.lo), (uchar) mask)), 0, to);
    vstore8(as_${type}8(COMPRESS_ulong(as_ulong8(v.hi), (uchar) (mask >> 8))), 0, to + popcount((uint) mask & 255));
% else:
    vstore16(as_${type}16(COMPRESS_${bits}(as_${bits}16(v), mask)), 0, to);
% endif
#endif
}
% endfor
#endif
% endif
% if by_vectors:
#ifdef COMPRESS
#define BY_VECTORS
typedef ${key_mask}16 KEY_MASKS;

${vector_functions}
/* Which of 16 elements are kept. ${"They have a predecessor. " if heads else ""}*/
static ushort kept_of(global const SOURCE* keys) {
% if heads:
    const ${source}16 a = vload16(0, keys - 1), b = vload16(0, keys);
% else:
    const ${source}16 x = vload16(0, keys);
% endif
    const KEY_MASKS chosen = ${condition_vector};
#ifdef BY_SHUFFLES
    const ulong2 bytes = as_ulong2(convert_char16(chosen)) & (ulong2) (0x0101010101010101UL);
    return bits_of(bytes.x, bytes.y);
#else
    return ${mask_bits(key_bytes, "chosen")};
#endif
}
% if sums:
typedef ${sum}16 SUMS;
typedef ${mask}16 MASKS;
${combine_sums_vector}
static MASKS masks_of(const ushort bits) {
#ifdef BY_SHUFFLES
    return ((MASKS) (bits) & (MASKS) (${", ".join(str(1 << lane) for lane in range(16))})) != (MASKS) (0);
#else
% if sum_bytes == 4:
    return __builtin_ia32_cvtmask2d512(bits);
% else:
    return (MASKS) (__builtin_ia32_cvtmask2q512((uchar) bits), __builtin_ia32_cvtmask2q512((uchar) (bits >> 8)));
% endif
#endif
}

% if difference:
static SUMS sums_from_first(SUMS v) {
    SUMS u;
% for shift in (1, 2, 4, 8):
    u = v.s${"0" * shift + digits[: 16 - shift]};
    u.s${digits[:shift]} = 0;
    v = combine_sums_vector(u, v);
% endfor
    return v;
}
% endif

/* The sums of 16 values, each from the last head on, or from the first value. `blocked`: no head and no first value may be
   between a value and the one that is added to it. */
static SUMS sum_sixteen(SUMS v, const ushort heads) {
    ushort blocked = heads | 1;
% for shift in (1, 2, 4, 8):
    v = select(combine_sums_vector(v.s${"0" * shift + digits[: 16 - shift]}, v), v, masks_of(blocked));
% if shift < 8:
    blocked |= blocked << ${shift};
% endif
% endfor
    return v;
}
% endif
#endif
% endif

/* Sets the flags of elements first .. first + count - 1; returns the number of those that are kept. Elements of a second
   part count as 65536. */
static int mark(${common.inputs()}, const long first, const int count, uchar* flags) {
    int sum = 0;
% if heads:
    int start = 0;
    if (first == 0) {
        flags[0] = 1;
        sum = 1;
        start = 1;
    }
    for (int i = start; i < count; ++i) {
% else:
    for (int i = 0; i < count; ++i) {
% endif
        const int flag = KEEP_LATER(first + i);
        flags[i] = (uchar) flag;
        sum += ${"flag == 2 ? 1 << 16 : flag" if three else "flag"};
    }
    return sum;
}

% if sums:
% if by_vectors:
#ifndef BY_VECTORS
% endif
typedef ${sum}16 SUMS;
typedef ${mask}16 MASKS;
${combine_sums_vector}
% if by_vectors:
#endif
% endif
/* Scans the values of elements first .. first + length - 1 from each head on; `open` is the sum of the run before.
   Returns the sum of the last run. scanned[i + 1] becomes the sum up to element i. */
static SUM sum_block(${common.inputs()}, const long first, const int length, const uchar* flags, SUM open, SUM* scanned) {
    int i = 0;
    scanned[0] = open;
    for (; i + 16 <= length; i += 16) {
        SUMS v = ${convert_vector.replace("$X", "vload16(0, s + S_AT(first + i))").replace("$N", "16")}, u;
        MASKS headed = convert_${mask}16(vload16(0, flags + i)) != (MASKS) (0), g;
%   for shift in (1, 2, 4, 8):
        u = v.s${"0" * shift + digits[: 16 - shift]};
        u.s${digits[:shift]} = (${sum}${shift if shift > 1 else ""}) (${identity});
        g = headed.s${"0" * shift + digits[: 16 - shift]};
        g.s${digits[:shift]} = (${mask}${shift if shift > 1 else ""}) (0);
        v = select(combine_sums_vector(u, v), v, headed);
        headed |= g;
%   endfor
        v = select(combine_sums_vector((SUMS) (open), v), v, headed);
        open = v.sf;
        vstore16(v, 0, scanned + 1 + i);
    }
    for (; i < length; ++i) {
        const SUM v = converted(s[S_AT(first + i)]);
        open = flags[i] ? v : combine_sums(open, v);
        scanned[1 + i] = open;
    }
    return open;
}
% endif
% if phase in ("single", "reduce"):
/* The state of elements begin .. end - 1. */
static VALUE aggregate(${common.inputs()}, const long begin, const long end) {
    uchar flags[BLOCK];
    long count = 0${", second = 0" if three else ""};
% if state_kind == "lengths":
    long last = 0;
% elif sums:
    SUM scanned[BLOCK + 1], open = ${identity};
% endif
% if by_vectors:
#ifdef BY_VECTORS
    const int size = (int) max(0L, end - begin); /* bounded: a partition may begin after the last element */
    ${by_sixteen(False)}
#else
% endif
    for (long first = begin; first < end; first += BLOCK) {
        const int length = (int) min((long) BLOCK, end - first);
        const int kept = mark(${common.input_names()}, first, length, flags);
% if three:
        count += kept & 65535;
        second += kept >> 16;
% else:
        count += kept;
% endif
% if state_kind == "lengths":
        if (kept) { /* no search from the end: one driver ends the outer loop with such an inner loop */
            for (int i = 0; i < length; ++i) last = flags[i] ? first + i : last;
        }
% elif sums:
        open = sum_block(${common.input_names()}, first, length, flags, open, scanned);
% endif
    }
% if by_vectors:
#endif
% endif
    return ${{"count": "count", "lengths": "(VALUE) (count, last)", "parts": "(VALUE) (count, second)", "sums": "state_of(count, open)"}[state_kind]};
}
% endif
% if phase == "reduce":
kernel ${one_lane} void select_elements(${common.kernel_inputs()}, global VALUE* aggregates) {
    ${common.begin_kernel()}
    ${common.begin_partition("(int) get_group_id(0)", phase)}
    const long begin = (long) p * part;
    aggregates[${here}] = aggregate(${common.input_names()}, begin, min(begin + part, n));
}
% else:
% if phase == "single":
${lookback.functions("VALUE")}
/* The state of a partition whose owner has not published it. Returns 1 if it includes all earlier partitions. */
static int recompute(${common.inputs()}, const int p, VALUE* result) {
    const long begin = (long) p * part;
    *result = aggregate(${common.input_names()}, begin, min(begin + part, n));
    return p == 0;
}
% endif
##
## Stores `count` elements of private memory from position `to` on.
<%def name="store_elements(from_, count, to)">
    {
        const long words_before = (${to}) * ${element_words};
        const int all = (${count}) * ${element_words};
        int w = 0;
% if wide:
        for (; w < all && ((ulong) (elements_out + words_before + w) & (sizeof(WIDE) - 1)); ++w)
            elements_out[words_before + w] = ${from_}[w];
        for (; w + ${wide} <= all; w += ${wide})
            __builtin_nontemporal_store(vload${wide}(0, ${from_} + w), (global WIDE*) (elements_out + words_before + w));
% endif
        for (; w < all; ++w) elements_out[words_before + w] = ${from_}[w];
    }
</%def>
% if wide:
typedef ${word}${wide} WIDE;
% endif
##
## Stores `count` elements and indexes of a part from position `to` on.
<%def name="store_part(elements_of, places_of, count, to)">
% if elements:
    ${store_elements(elements_of, count, to)}
% endif
% if indexes and axes > 1:
    for (int j = 0; j < ${count}; ++j) { ${common.store_index(f"{to} + j", f"begin + {places_of}[j]")} }
% elif indexes:
    ${store_longs(f"indexes_out + ({to})", "0", count, f"begin + convert_long8(vload8(0, {places_of} + j))", f"begin + {places_of}[j]")}
% endif
</%def>
##
## Stores elements first .. count - 1 of a list of longs; nontemporal stores write eight at once.
<%def name="store_longs(to, first, count, eight, one)">
    {
        global long* to = ${to};
        int j = ${first};
% if nontemporal:
        for (; j < ${count} && ((ulong) (to + j) & (sizeof(long8) - 1)); ++j) to[j] = ${one};
        for (; j + 8 <= ${count}; j += 8) __builtin_nontemporal_store(${eight}, (global long8*) (to + j));
% endif
        for (; j < ${count}; ++j) to[j] = ${one};
    }
</%def>

kernel ${one_lane} void select_elements(${common.kernel_inputs()} ${common.outputs(phase)}) {
    ${common.begin_kernel()}
% if phase == "single":
    ${common.begin_partition("take_partition(state, parts)", phase)}
% else:
    ${common.begin_partition("(int) get_group_id(0)", phase)}
% endif
    const long begin = (long) p * part;
% if bounded:
    if (p > 0 && begin >= n) return;
% endif
    const long end = min(begin + part, n);
    const int size = (int) (end - begin);
% if partitions_ahead:
    const long next_begin = p + ${partitions_ahead} < parts ? begin + (long) part * ${partitions_ahead} : begin;
% if elements:
    const int apart = (size_t) (e + E_AT(begin) * ${element_words}) != (size_t) (k + K_AT(begin));
% endif
% endif
    uchar flags[BLOCK] __attribute__((aligned(8)));
% for elements_of, places_of in parts_of: # 16 more elements, for stores after the last one
%   if elements:
    WORD_OF_ELEMENT ${elements_of}[${(most + 16) * element_words}];
%   endif
%   if listed:
    int ${places_of}[${most + 16}];
%   endif
% endfor
% if sums:
    SUM scanned[BLOCK + 1], ended[${most + 16}], open = ${identity}; /* ended: the sums of the runs before the heads */
% endif
    int count = 0${", second = 0" if three else ""};
% if by_vectors:
#ifdef BY_VECTORS
    ${by_sixteen(True)}
#else
% endif
    for (int first = 0; first < size; first += BLOCK) {
        const int length = min(BLOCK, size - first);
% if partitions_ahead:
        ${prefetch("BLOCK")}
% endif
        const int some = mark(${common.input_names()}, begin + first, length, flags);
% if sums:
        open = sum_block(${common.input_names()}, begin + first, length, flags, open, scanned);
% endif
        ${"{" if rest else "if (some) {"}
            int i = 0;
            for (; i + 16 <= length; i += 16) { ${sixteen_elements()} }
            for (; i < length; ++i) {
                ${one_element(["count", "second", f"first + i - count{' - second' if three else ''}"], "i")}
%   if three:
                count += flags[i] & 1;
                second += flags[i] >> 1;
%   else:
                count += flags[i];
%   endif
            }
        }
    }
% if by_vectors:
#endif
% endif
% if phase == "alone":
    const long before = 0;
% else:
    VALUE earlier; /* the state of all earlier partitions, if there are any */
%   if phase == "seeded":
    if (p > 0) {
        ${common.load_seed("earlier").strip()}
    }
%   else:
    const VALUE own = ${{"count": "count", "lengths": "(VALUE) (count, count ? begin + places[count - 1] : 0)", "parts": "(VALUE) (count, second)", "sums": "state_of(count, open)"}[state_kind]};
    if (p == 0) {
        if (p < ${last} - 1) {
            ${lookback.announce(here, "PREFIX", "own")}
        }
    } else {
%     if not chained:
        if (p < ${last} - 1) {
            ${lookback.announce(here, "AGGREGATE", "own")}
        }
%     endif
        ${lookback.look_back("p", "earlier", recomputed, slot=slot)}
        if (p < ${last} - 1) {
            const VALUE sum = combine(earlier, own);
            ${lookback.announce(here, "PREFIX", "sum")}
        }
    }
%   endif
    const long before = p > 0 ? COUNT_OF(earlier) : 0;
% endif
% if state_kind == "lengths":
    const long last_before = ${"0" if phase == "alone" else "p > 0 ? LAST_OF(earlier) : 0"};
% endif
    ${common.declare_sizes(phase, "count", "second")}
    ${store_part("kept", "places", "count", "before")}
% if three:
    const long second_before = ${"0" if phase == "alone" else "p > 0 ? SECOND_OF(earlier) : 0"};
    const int wanted = ${"(int) min((long) second, max(row_size - first_size - second_before, 0L))" if limits else "second"};
    ${store_part("second_kept", "second_places", "wanted", "first_size + second_before")}
% endif
% if rest:
    const long others_before = first_size + begin - before${" + second_size - second_before" if three else ""};
    ${store_part("others", "other_places", f"size - count{' - second' if three else ''}", "others_before")}
% endif
% if state_kind == "lengths":
    /* A run ends where the next one starts: this partition stores the lengths of the runs before its heads. */
    if (count > 0 && before > 0) lengths_out[before - 1] = begin + places[0] - last_before;
    ${store_longs(
        "lengths_out + before - 1", "1", "count", "convert_long8(vload8(0, places + j) - vload8(0, places + j - 1))",
        "places[j] - places[j - 1]",
    )}
    if (end == n && before + count > 0)
        lengths_out[before + count - 1] = n - (count > 0 ? begin + places[count - 1] : last_before);
% elif sums:
    /* The same for the sums. The first one continues that of the earlier partitions. */
%   if phase != "alone":
    if (p > 0 && before > 0) {
        if (!(KEEP(begin))) {
            ended[0] = combine_sums(earlier.sum, count > 0 ? ended[0] : open);
            if (count == 0) open = ended[0];
        } else {
            ended[0] = earlier.sum;
        }
        if (count > 0) sums_out[before - 1] = ended[0];
    }
%   endif
    for (int j = 1; j < count; ++j) sums_out[before + j - 1] = ended[j];
    if (end == n && before + count > 0) sums_out[before + count - 1] = open;
% endif
% if ranks:
    long rank = before - 1;
    for (int i = 0; i < size; ++i) {
        rank += KEEP(begin + i);
        ranks_out[s[S_AT(begin + i)]] = rank;
    }
% endif
% if not limits:
    if (end == n) {
        ${common.store_totals("before + count", "second_before + second")}
    }
% endif
}
% endif
## The bits of 16 masks of `size` bytes.
<%def name="mask_bits(size, name)">\
% if size == 8:
(ushort) (__builtin_ia32_cvtq2mask512(${name}.lo) | __builtin_ia32_cvtq2mask512(${name}.hi) << 8)\
% else:
(ushort) __builtin_ia32_cvt${{1: "b2mask128", 2: "w2mask256", 4: "d2mask512"}[size]}(${name})\
% endif
</%def>
##
## Prefetches `count` (a number or BLOCK) adjacent small elements of each array, AHEAD of `first`: in this partition, or
## after its end in the partition that this core takes next, if the cores take turns.
<%def name="prefetch(count)">
    const int later = first + AHEAD;
    const long next = later < part ? begin + later : next_begin + (later - part);
% for array, place, unit, size in fetched:
%   if unit == 1 and 0 < size <= 64:
<% address = f"{array} + {place}(next){f' * {element_words}' if array == 'e' else ''}" %>\
    ${"if (apart) {" if array == "e" else ""}
%     if count == "BLOCK":
    for (int line = 0; line < BLOCK * ${size}; line += 64) ${memory.lines(f"(size_t) ({address}) + line", 1).strip()}
%     else:
    ${memory.lines(address, count * size)}
%     endif
    ${"}" if array == "e" else ""}
%   endif
% endfor
</%def>
##
## Statements: counts the kept ones of elements begin .. begin + size - 1 and sums the values; `stores`: also copies
## them to private memory. With `heads`, the first vector is processed by elements, because element 0 has no
## predecessor.
<%def name="by_sixteen(stores)">
    int first = 0;
% if heads:
    const int lead = begin == 0 ? min(size, 16) : 0; /* the first element has no predecessor */
    for (; first < lead; ++first) { ${single_element(stores)} }
% endif
    for (; first + 16 <= size; first += 16) {
% if partitions_ahead and stores:
        ${prefetch(16)}
% endif
        const ushort mask = kept_of(k + K_AT(begin + first));
% if sums:
        const SUMS v = ${convert_vector.replace("$X", "vload16(0, s + S_AT(begin + first))").replace("$N", "16")};
        const SUMS sums = ${"sums_from_first(v)" if difference and stores else "sum_sixteen(v, mask)"};
% endif
% if stores:
% for (name, place), chosen, at in zip(parts_of, ("mask", "(ushort) ~mask"), ("count", "first - count")):
%   if elements:
        store_kept_${word}(vload16(0, e + E_AT(begin + first)), ${chosen}, ${name} + ${at});
%   endif
%   if listed:
        store_kept_int(first + (int16) (0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15), ${chosen}, ${place} + ${at});
%   endif
% endfor
% if sums and difference:
        store_kept_${sum}(combine_sums_vector((SUMS) (open), ${difference.format(a="sums", b="v", n=16)}), mask, ended + count);
% elif sums:
        store_kept_${sum}(sums.s${"0" + digits[:15]}, mask, ended + count);
        ended[count] = mask & 1 ? open : combine_sums(open, ended[count]);
% endif
% elif state_kind == "lengths":
        last = mask ? begin + first + 31 - (int) clz((uint) mask) : last;
% endif
% if sums:
        open = ${"" if difference and stores else "mask ? sums.sf : "}combine_sums(open, sums.sf);
% endif
        count += popcount((uint) mask);
    }
    for (; first < size; ++first) { ${single_element(stores)} }
% if sums and difference and stores:
    SUM previous = 0;
    for (int j = 0; j < count; ++j) {
        const SUM here = ended[j];
        ended[j] = ${difference.format(a="here", b="previous", n="")};
        previous = here;
    }
    open = ${difference.format(a="open", b="previous", n="")};
% endif
</%def>
<%def name="single_element(stores)">
        const long at = begin + first;
        const int chosen = KEEP(at);
% if stores:
% for (name, place), to in zip(parts_of, ("count", "first - count")):
%   if elements:
        ${name}[${to}] = e[E_AT(at)];
%   endif
%   if listed:
        ${place}[${to}] = first;
%   endif
% endfor
% if sums:
        ended[count] = open;
% endif
% elif state_kind == "lengths":
        last = chosen ? at : last;
% endif
        count += chosen;
% if sums:
        const SUM v = converted(s[S_AT(at)]);
        open = ${"" if difference and stores else "chosen ? v : "}combine_sums(open, v);
% endif
</%def>
##
## Copies element i of the block to a position of each part; the next element overwrites it in those that it does not
## belong to.
<%def name="one_element(positions, i)">
% if elements:
    {
        const long from = E_AT(begin + first + ${i}) * ${element_words};
%   for (name, _), at in by_part(positions):
%     if element_words <= 8:
%       for w in range(element_words):
        ${name}[(${at}) * ${element_words} + ${w}] = e[from + ${w}];
%       endfor
%     else:
        for (int w = 0; w < ${element_words}; ++w) ${name}[(${at}) * ${element_words} + w] = e[from + w];
%     endif
%   endfor
    }
% endif
% if listed:
%   for (_, name), at in by_part(positions):
    ${name}[${at}] = first + ${i};
%   endfor
% endif
% if sums:
    ended[${positions[0]}] = scanned[${i}];
% endif
</%def>
##
## Copies elements i .. i + 15 of the block. The position of an element is the number of earlier elements of its part:
## a product adds up the flags of eight elements in the bytes of a ulong.
<%def name="sixteen_elements()">
% if compress:
#ifdef COMPRESS
    {
        const ulong low = *(const ulong*) (flags + i), high = *(const ulong*) (flags + i + 8);
% if three:
        const ulong ones = 0x0101010101010101UL;
        const ushort mask = bits_of(low & ones, high & ones), second_mask = bits_of(low >> 1 & ones, high >> 1 & ones);
% else:
        const ushort mask = bits_of(low, high);
% endif
        const int some_of_them = popcount((uint) mask);
<%
    # The masks have no bit in common. LLVM 19 (PoCL 7) never ends if the last one is ~(mask | second_mask).
    masks = ["mask", "second_mask", "65535 - mask - second_mask" if three else "~mask"]
    ends = ["count", "second", f"(first + i - count{' - second' if three else ''})"]
%>
%   if elements:
        const ${word}16 v = vload16(0, e + E_AT(begin + first + i));
%     for ((name, _), mask), (_, end) in zip(by_part(masks), by_part(ends)):
        store_kept_${word}(v, (ushort) (${mask}), ${name} + ${end});
%     endfor
%   endif
%   if listed:
%     for ((_, name), mask), (_, end) in zip(by_part(masks), by_part(ends)):
        store_kept_int(first + i + (int16) (0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15), (ushort) (${mask}), ${name} + ${end});
%     endfor
%   endif
%   if sums:
        store_kept_${sum}(vload16(0, scanned + i), mask, ended + count);
%   endif
        count += some_of_them;
%   if three:
        second += popcount((uint) second_mask);
%   endif
    }
#else
% endif
    for (int j = i; j < i + 16; j += 8) {
        const ulong bytes = as_ulong(vload8(0, flags + j));
        const ulong ones = bytes${" & 0x0101010101010101UL" if three else ""};
        const ulong sums = ones * 0x0101010101010101UL, before = sums - ones;
%   if three:
        const ulong twos = bytes >> 1 & 0x0101010101010101UL;
        const ulong second_sums = twos * 0x0101010101010101UL, second_earlier = second_sums - twos;
%   endif
% for k in range(8):
        {
            const int to = count + (int) (before >> ${8 * k} & 255);
%   if three:
            const int second_to = second + (int) (second_earlier >> ${8 * k} & 255);
%   endif
            ${one_element(["to", "second_to", f"first + j + {k} - to{' - second_to' if three else ''}"], f"j + {k}")}
        }
% endfor
        count += (int) (sums >> 56);
%   if three:
        second += (int) (second_sums >> 56);
%   endif
    }
% if compress:
#endif
% endif
</%def>
