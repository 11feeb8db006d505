## The elements of a radix sort: a key's bits, alone or with a carried word, and the rank that orders them.
## An element has an encoded key. Encoding keeps all bits, so it can be undone. `rank_of` maps an encoded key to the
## unsigned integer that orders it. For integers, the rank is the encoded key, or the bits of it that are compared. For
## floats, encoding turns the bits into an integer of the same order from -infinity = 0 to infinity, with all NaN above;
## -0.0 and 0.0 have equal ranks, and all NaN have equal ranks. Ranks are computed where they are used: elements of
## equal rank keep their bits and order.
## Parameters: key (unsigned C type of the key's size), kind ("u", "i" or "f": unsigned, signed, float), key_bits,
## rank_window ((low, end): the rank of an integer is these bits of the encoded key; None: all bits), descending,
## carried (None; "value": the carried value's bits; "index": the position in the row, which is the result; "gather": the
## position, and the result is the carried value there), word (unsigned C type of a key in an element: as large as the
## carried word), value (C type of the carried values, or None), keys_out (store the sorted keys).
<%!
    def of_bits(key_bits, kind, descending):
        """Sign bit, all bits, place of -infinity among the upward floats, flipped bits of integers, suffix."""
        sign, ones = 1 << key_bits - 1, (1 << key_bits) - 1
        lowest = (1 << {16: 10, 32: 23, 64: 52}.get(key_bits, 0)) - 1
        flipped = (sign if kind == "i" else 0) ^ (ones if descending else 0)
        return sign, ones, lowest, flipped, "UL" if key_bits == 64 else "U"
%>
<%def name="types()">
<%
    sign, ones, lowest, flipped, u = of_bits(key_bits, kind, descending)
    whole = "ulong" if key_bits == 64 else "uint"
%>
typedef ${word} WORD;
% if carried:
typedef ${word}2 ELEMENT;
#define KEY_OF(e) ((e).x)
% else:
typedef WORD ELEMENT;
#define KEY_OF(e) (e)
% endif
typedef ${"ulong" if key_bits == 64 else "uint"} RANK;

${order("encoded", "rank_of", key, "WORD", "RANK")}
${order("encoded_many", "ranks_of", f"{key}16", f"{whole}16", f"{whole}16", f"convert_{whole}16")}

static ${key} decoded(const WORD word) {
% if kind == "f":
    const RANK bits = ((RANK) word + ${lowest}${u}) & ${ones}${u};
    return (${key}) (bits ^ (((bits >> ${key_bits - 1}) - 1) & ${ones}${u} | ${sign}${u}));
% else:
    return (${key}) ((RANK) word ^ ${flipped}${u});
% endif
}
</%def>
##
<%def name="order(encoded, rank_of, key, word, rank, convert='')">
<% sign, ones, lowest, flipped, u = of_bits(key_bits, kind, descending) %>
static ${word} ${encoded}(const ${key} k) {
    const ${rank} bits = ${convert or f"({rank})"}(k);
% if kind == "f":
    const ${rank} upwards = bits ^ (((${rank}) 0 - (bits >> ${key_bits - 1})) & ${ones}${u} | ${sign}${u});
    return (${word}) (upwards - ${lowest}${u}${f" & {ones}{u}" if key_bits < 32 else ""});
% else:
    return (${word}) (bits ^ ${flipped}${u});
% endif
}

static ${rank} ${rank_of}(const ${word} word) {
% if kind == "f":
    const ${rank} bits = (${rank}) word;
    const ${rank} negative = bits < ${sign - lowest}${u} ? (${rank}) 1 : (${rank}) 0;
    const ${rank} rank = min(bits + negative, (${rank}) ${ones + 1 - 2 * lowest}${u});
    return ${f"rank ^ {ones}{u}" if descending else "rank"};
% elif rank_window:
<% low, end = rank_window %>
    return (${rank}) word >> ${low % key_bits} & ${(1 << end - low) - 1}${u};
% else:
    return (${rank}) word;
% endif
}
</%def>
##
## A function that returns whether a vector mask of `words` ulong has a bit: faster than any() on some drivers.
<%def name="any_of(mask, words)">
static int any_of(const ${mask} mask) {
    const ulong${words} w${words} = as_ulong${words}(mask);
% while words > 2:
    const ulong${words // 2} w${words // 2} = w${words}.lo | w${words}.hi;
<% words //= 2 %>
% endwhile
    return (w2.x | w2.y) != 0;
}
</%def>
##
## The first digit of ranks: a SPAN has the smallest and the largest rank of some elements, and a DIGIT maps the ranks
## of a span to numbers, whose bits from `shift` up are a bin. 64-bit floats near zero have ranks far apart; the gap
## between the largest negative number and the smallest other one is therefore left out.
## A span also says whether the elements are in order: ASCENDING or DESCENDING.
## Defines ORDERED, SPAN, DIGIT, span_of_none, joined, digit_of (a span and the bits of a bin), bin_of, first_rank (of a bin),
## last_rank (of the bins before one).
<%def name="joined_orders()">
/* The orders of the elements of a followed by those of b. */
static uint joined_orders(const SPAN a, const SPAN b) {
    return a.orders & b.orders & ~((a.high > b.low ? ASCENDING : 0) | (a.low < b.high ? DESCENDING : 0));
}
</%def>
<%def name="digits()">
<%
    rank_bits = 64 if key_bits == 64 else 32
    gaps = kind == "f" and key_bits == 64
%>
enum { ASCENDING = 1, DESCENDING = 2, ORDERED = ASCENDING | DESCENDING };
% if gaps:
#define ZERO rank_of(encoded(0))
/* below: the largest rank below that of zero, or 0; above: the smallest other one, or the largest number. */
typedef struct { RANK low, high, below, above; uint orders; } SPAN;
/* from: what to subtract from ranks below that of zero, and from others. split: the first number above the gap. */
typedef struct { RANK from[2], split, most; uint shift, still; } DIGIT;
${joined_orders()}
static SPAN span_of_none(void) {
    const SPAN none = {~(RANK) 0, 0, 0, ~(RANK) 0, 0};
    return none;
}

static SPAN joined(const SPAN a, const SPAN b) {
    const SPAN both = {
        min(a.low, b.low), max(a.high, b.high), max(a.below, b.below), min(a.above, b.above), joined_orders(a, b)
    };
    return both;
}

/* By an index, not by a condition: compilers make a branch of it, and signs of random numbers cannot be predicted. */
static RANK number_of(const DIGIT digit, const RANK rank) {
    return rank - digit.from[(rank - ZERO + ${1 << 63}UL) >> 63];
}

static RANK rank_of_number(const DIGIT digit, const RANK number) {
    return number + digit.from[number >= digit.split];
}
% else:
typedef struct { RANK low, high; uint orders; } SPAN;
typedef struct { RANK low, most; uint shift, still; } DIGIT;
${joined_orders()}#define number_of(digit, rank) ((rank) - (digit).low)
#define rank_of_number(digit, number) ((number) + (digit).low)

static SPAN span_of_none(void) {
    const SPAN none = {~(RANK) 0, 0, 0};
    return none;
}

static SPAN joined(const SPAN a, const SPAN b) {
    const SPAN both = {min(a.low, b.low), max(a.high, b.high), joined_orders(a, b)};
    return both;
}
% endif

static DIGIT digit_of(const SPAN span, const uint bins) {
    DIGIT digit;
% if gaps:
    const int both = span.low < ZERO && span.high >= ZERO;
    digit.from[0] = span.low;
    digit.from[1] = span.low + (both ? span.above - span.below - 1 : 0);
    digit.split = both ? span.below - span.low + 1 : 0;
% else:
    digit.low = span.low;
% endif
    digit.most = number_of(digit, span.high);
    const uint bits = digit.most ? ${rank_bits} - (uint) clz(digit.most) : 0;
    digit.shift = bits > bins ? bits - bins : 0;
    digit.still = span.low == span.high;
    return digit;
}

static uint bin_of(const DIGIT digit, const RANK rank) {
    return (uint) (number_of(digit, rank) >> digit.shift);
}

static RANK first_rank(const DIGIT digit, const uint bin) {
    return rank_of_number(digit, (RANK) bin << digit.shift);
}

static RANK last_rank(const DIGIT digit, const uint bin) {
    return rank_of_number(digit, min(digit.most, ((RANK) bin << digit.shift) - 1));
}
</%def>
##
## Statements: sets `span` to the span of elements begin .. end - 1, which `element` sets `e` to. many: 16 adjacent
## encoded keys from `i` on as a vector of ranks' type, or None. orders: the orders to look for (a C expression), in
## adjacent keys; "" for none. fetch: statements that prefetch the keys after those from `i` on.
<%def name="range(element, many, begin, end, orders='', fetch='')">
<%
    whole = "ulong" if key_bits == 64 else "uint"
    parts = {"low": ("min", "ranks"), "high": ("max", "ranks")}
    if kind == "f" and key_bits == 64:
        parts |= {"below": ("max", "ranks < ZERO ? ranks : below"), "above": ("min", "ranks < ZERO ? above : ranks")}
%>
    SPAN span = span_of_none();
    uint i = ${begin};
% if many:
%   for part in parts:
    ${whole}16 ${part} = span.${part};
%   endfor
%   if orders:
    /* Each key is compared with the next one, until a block is in no order: of random keys, that is the first one. The
       first and the last key of the prefix in order are its smallest and largest keys, one or the other way round. */
    span.orders = ${orders};
    while (span.orders & ORDERED && i + 32 <= ${end}) {
        ${"long" if key_bits == 64 else "int"}16 falls = 0, rises = 0;
        ${whole}16 ranks = ranks_of(${many});
        const uint from = i, stop = i + min(1024u, (${end} - i - 16) & ~15u);
        while (i < stop) {
            ${fetch}
            i += 16;
            const ${whole}16 next = ranks_of(${many});
            const ${whole}16 later = (${whole}16) (ranks.s1234, ranks.s5678, ranks.s9abc, ranks.sdef, next.s0);
            falls |= later < ranks;
            rises |= later > ranks;
%     for part, (better, ranks) in parts.items():
%       if part not in ("low", "high"):
            ${part} = ${better}(${part}, ${ranks});
%       endif
%     endfor
            ranks = next;
        }
        span.orders &= ~((any(falls) ? ASCENDING : 0) | (any(rises) ? DESCENDING : 0));
        if (!(span.orders & ORDERED)) i = from;
    }
    if (i > ${begin}) {
        const RANK one = rank_of(encoded(keys[${begin}])), other = rank_of(encoded(keys[i - 1]));
        low = min(one, other);
        high = max(one, other);
    }
    for (uint j = i; span.orders & ORDERED && j + 1 < ${end}; ++j) {
        const RANK rank = rank_of(encoded(keys[j])), later = rank_of(encoded(keys[j + 1]));
        span.orders &= ~((later < rank ? ASCENDING : 0) | (later > rank ? DESCENDING : 0));
    }
%   endif
    for (; i + 16 <= ${end}; i += 16) {
        ${fetch}
        const ${whole}16 ranks = ranks_of(${many});
%   for part, (better, ranks) in parts.items():
        ${part} = ${better}(${part}, ${ranks});
%   endfor
    }
%   for part, (better, _) in parts.items():
%     for s in "0123456789abcdef":
    span.${part} = ${better}(span.${part}, ${part}.s${s});
%     endfor
%   endfor
% endif
    for (; i < ${end}; ++i) {
        ${element}
        const RANK rank = rank_of(KEY_OF(e));
% if len(parts) == 4:
        const RANK negative = (RANK) ((long) (rank - ZERO) >> 63);
        span.below = max(span.below, rank & negative);
        span.above = min(span.above, rank | negative);
% endif
        span.low = min(span.low, rank);
        span.high = max(span.high, rank);
    }
</%def>
##
## The parameters and arguments of functions that read the call's arrays.
<%def name="sources()">global const ${key}* restrict x, const ulong x_offset, const long row_stride, const uint n${f", global const {value}* restrict values, const ulong values_offset" if value else ""}</%def>
<%def name="results()">${", ".join(([f"global {key}* restrict sorted_keys"] if keys_out else []) + ([f"global {'long' if carried == 'index' else value}* restrict sorted_values"] if carried else []))}</%def>
##
## Statements: sets `e` to element `i` of a row, whose first key is `keys` and whose number is `row`.
<%def name="load(e, i)">
% if carried == "value":
            const ELEMENT ${e} = (ELEMENT) (encoded(keys[${i}]), (WORD) values[values_offset + row * n + (ulong) (${i})]);
% elif carried:
            const ELEMENT ${e} = (ELEMENT) (encoded(keys[${i}]), (WORD) (${i}));
% else:
            const ELEMENT ${e} = encoded(keys[${i}]);
% endif
</%def>
##
## Statements: stores element `e` as result `at` of all rows; `row` is its row.
<%def name="store(e, at)">
% if keys_out:
            sorted_keys[${at}] = decoded(KEY_OF(${e}));
% endif
% if carried == "index":
            sorted_values[${at}] = (long) ${e}.y;
% elif carried == "value":
            sorted_values[${at}] = (${value}) ${e}.y;
% elif carried:
            sorted_values[${at}] = values[values_offset + (ulong) row * n + (ulong) ${e}.y];
% endif
</%def>
