## Sorts elements that fit into a cache: one work-item, digit by digit from the lowest (LSD), stable.
## Few elements are compared with all others, which gives the place of each. Of more elements, one pass counts up to
## three digits; then a pass for each digit moves the elements between two arrays. Digits that all elements share are
## skipped; sorted and descending elements are found first. If ranks have more bits, only the highest digits are sorted,
## and then the few elements that are still in the wrong order are inserted. If that takes too many moves, all digits
## are sorted.
## Parameters: digit (the most bits of a digit), ranked (the most elements that are compared with all others), key_bits,
## carried (see sort_radix_elements).
## Defines  static int sort_cached(global ELEMENT* a, global ELEMENT* b, uint count, RANK base, uint bits, uint many,
## uint most), which sorts a[0 .. count) by the lowest `bits` bits of rank - base (higher ones are 0) and returns 1 if
## the result is in b, 0 if it is in a. From `many` elements on, up to `most` long digits are faster than three of 8
## bits.
<%def name="cached()">
<%
    # Shorter digits for fewer elements: a table takes as long to clear and add up as to move half of its entries.
    rank, signed = ("ulong", "long") if key_bits == 64 else ("uint", "int")
%>
static void sort_pass(global const ELEMENT* restrict from, global ELEMENT* restrict to, const uint count,
                      const RANK base, const uint shift, const uint mask, uint* restrict at) {
    uint sum = 0;
    for (uint d = 0; d <= mask; ++d) {
        const uint t = at[d];
        at[d] = sum;
        sum += t;
    }
    for (uint i = 0; i < count; ++i) {
        const ELEMENT e = from[i];
        to[at[(uint) ((rank_of(KEY_OF(e)) - base) >> shift) & mask]++] = e;
    }
}

static int sort_window(global ELEMENT* a, global ELEMENT* b, const uint count, const RANK base, const uint low,
                       const uint width, const uint digit) {
    uint tables[${3 << digit}];
    const uint passes = (width + digit - 1) / digit;
% if key_bits <= 32 and not carried:
    const uint bits = passes == 3 ? (width + 2) / 3 : passes == 2 ? (width + 1) / 2 : width;
% else:
    const uint bits = min(width, digit);  // a short last digit moves large elements to few places
% endif
    const uint mask = (1u << bits) - 1;
    uint* second = tables + (1u << bits);
    uint* third = second + (1u << bits);
    int moved = 0;
    for (uint i = 0; i < passes << bits; ++i) tables[i] = 0;
    if (passes == 1) {
        for (uint i = 0; i < count; ++i) tables[(uint) ((rank_of(KEY_OF(a[i])) - base) >> low) & mask] += 1;
    } else if (passes == 2) {
        for (uint i = 0; i < count; ++i) {
            const RANK rank = (rank_of(KEY_OF(a[i])) - base) >> low;
            tables[(uint) rank & mask] += 1;
            second[(uint) (rank >> bits) & mask] += 1;
        }
    } else {
        for (uint i = 0; i < count; ++i) {
            const RANK rank = (rank_of(KEY_OF(a[i])) - base) >> low;
            tables[(uint) rank & mask] += 1;
            second[(uint) (rank >> bits) & mask] += 1;
            third[(uint) (rank >> 2 * bits) & mask] += 1;
        }
    }
    for (uint pass = 0; pass < passes; ++pass) {
        const uint shift = low + pass * bits;
        uint* at = tables + (pass << bits);
        if (at[(uint) ((rank_of(KEY_OF(a[0])) - base) >> shift) & mask] == count) continue;
        sort_pass(moved ? b : a, moved ? a : b, count, base, shift, mask, at);
        moved = !moved;
    }
    return moved;
}

/* Moves each element to its place: the number of elements that come before it. 16 elements are compared with one at a
   time; no branch depends on the keys. */
static void sort_few(global const ELEMENT* restrict from, global ELEMENT* restrict to, const uint count) {
    RANK ranks[${ranked}];
    ${signed}16 lanes = (${signed}16) (0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15);
    for (uint i = 0; i < count; ++i) ranks[i] = rank_of(KEY_OF(from[i]));
    for (uint i = count; i % 16; ++i) ranks[i] = 0;
    for (uint block = 0; block < count; block += 16) {
        const uint end = min(block + 16, count);
        const ${rank}16 own = vload16(0, ranks + block);
        ${signed}16 places = 0;
        ${signed} place[16];
        for (uint i = 0; i < block; ++i) places -= (${rank}16) ranks[i] <= own;
        for (uint i = block; i < end; ++i) {
            const ${rank}16 other = ranks[i];
            places -= (other < own) | (other == own) & (lanes > (${signed}16) (i - block));
        }
        for (uint i = end; i < count; ++i) places -= (${rank}16) ranks[i] < own;
        vstore16(places, 0, place);
        for (uint i = block; i < end; ++i) to[place[i - block]] = from[i];
    }
}

/* Sorts by insertion. Returns 0 if that takes more than `moves` moves: the array is then partly sorted. */
static int insert(global ELEMENT* a, const uint count, long moves) {
    for (uint i = 1; i < count; ++i) {
        const ELEMENT e = a[i];
        const RANK rank = rank_of(KEY_OF(e));
        if (rank >= rank_of(KEY_OF(a[i - 1]))) continue;
        uint j = i;
        do {
            a[j] = a[j - 1];
            --j;
        } while (j > 0 && rank < rank_of(KEY_OF(a[j - 1])));
        a[j] = e;
        moves -= (long) (i - j);
        if (moves < 0) return 0;
    }
    return 1;
}

static int sort_cached(global ELEMENT* a, global ELEMENT* b, const uint count, const RANK base, const uint bits,
                       const uint many, const uint most) {
    if (bits == 0) return 0;
    if (count <= ${ranked}) {
        sort_few(a, b, count);
        return 1;
    }
    uint run = 1;
    while (run < count && rank_of(KEY_OF(a[run])) >= rank_of(KEY_OF(a[run - 1]))) ++run;
    if (run == count) return 0;
    for (run = 1; run < count && rank_of(KEY_OF(a[run])) <= rank_of(KEY_OF(a[run - 1])); ++run);
    if (run == count) {
        uint at = 0;
        for (uint end = count, start; end > 0; end = start) {
            const RANK rank = rank_of(KEY_OF(a[end - 1]));
            for (start = end - 1; start > 0 && rank_of(KEY_OF(a[start - 1])) == rank; --start);
            for (uint i = start; i < end; ++i) b[at++] = a[i];
        }
        return 1;
    }
    const uint digit = count < 2048 ? ${min(6, digit)} : count < many ? ${min(8, digit)} : ${digit};
    const uint window = (count < many ? 3 : most) * digit;
    if (bits <= 3 * digit) return sort_window(a, b, count, base, 0, bits, digit);
    int moved = sort_window(a, b, count, base, bits - window, window, digit);
    if (insert(moved ? b : a, count, 4 * (long) count)) return moved;
    for (uint low = 0; low < bits; low += 3 * digit) {
        const uint width = min(3 * digit, bits - low);
        moved ^= moved ? sort_window(b, a, count, base, low, width, digit)
                       : sort_window(a, b, count, base, low, width, digit);
    }
    return moved;
}
</%def>
