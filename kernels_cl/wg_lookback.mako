## Decoupled look-back between work-groups, done by one work-item; include it for any single-pass algorithm.
## A partition has two slots, each written once per launch: A (its aggregate) and P (its inclusive prefix). A slot is
## one or more atomic words, and every word holds a piece of the value and the launch's tag, so that a word says of
## itself whether it belongs to this launch: no fence, no order between words and no clearing is needed.
## The walk goes back to the nearest P and then folds forward, oldest first: the same left fold whatever the timing.
## `state`: 64 bytes of which the first uint is the ticket counter (0 between launches), then the slots.
## Parameters: wide_words (64-bit atomics: pieces of 32 bits, else 32-bit words and pieces of 16), words (per slot),
## order ("ticket"; tests: "reversed", "permuted" number the groups without a ticket), polls (fruitless looks at a slot
## before its aggregate is recomputed; 0: never), chained (only P is published), suppress (tests: a partition in
## so many publishes nothing; 0: none), plain_polls (volatile loads instead of atomics read the words).
<%def name="functions(value)">
<% piece, word, shift = ("uint", "ulong", 32) if wide_words else ("ushort", "uint", 16) %>
% if wide_words:
#pragma OPENCL EXTENSION cl_khr_int64_base_atomics : enable
% endif
typedef ${word} WORD;
#define AGGREGATE 0
#define PREFIX 1
#define SLOTS(state) ((volatile global WORD*) ((state) + 16))
#define SWAP_WORD(where, what) ${"atom_xchg" if wide_words else "atomic_xchg"}(where, what)
% if plain_polls:
#define READ_WORD(where) (*(where))
% else:
#define READ_WORD(where) ${"atom_add" if wide_words else "atomic_add"}(where, (WORD) 0)
% endif

static int take_partition(volatile global uint* state, const int parts) {
% if order == "ticket":
    const int p = (int) atomic_inc(state);
    if (p == parts - 1) atomic_xchg(state, 0u);
    return p;
% elif order == "reversed":
    return parts - 1 - (int) get_group_id(0);
% else:
    int p = (int) get_group_id(0);
    const int even = parts & ~1;
    return p < even ? (p ^ 1) : p;
% endif
}

static void publish(volatile global uint* state, const uint tag, const int p, const int kind, const ${value} v) {
    union { ${value} v; ${piece} w[${words}]; } bits;
    volatile global WORD* slot = SLOTS(state) + ((long) p * 2 + kind) * ${words};
    bits.w[${words - 1}] = 0;
    bits.v = v;
% if words <= 8:
%   for w in range(words):
    SWAP_WORD(slot + ${w}, ((WORD) tag << ${shift}) | (WORD) bits.w[${w}]);
%   endfor
% else:
    for (int w = 0; w < ${words}; ++w) SWAP_WORD(slot + w, ((WORD) tag << ${shift}) | (WORD) bits.w[w]);
% endif
}

static int peek(volatile global uint* state, const uint tag, const int p, const int kind, ${value}* v) {
    union { ${value} v; ${piece} w[${words}]; } bits;
    volatile global WORD* slot = SLOTS(state) + ((long) p * 2 + kind) * ${words};
    int whole = 1;
% if words <= 8:
%   for w in range(words):
    const WORD word${w} = READ_WORD(slot + ${w});
    whole &= (uint) (word${w} >> ${shift}) == tag;
    bits.w[${w}] = (${piece}) word${w};
%   endfor
% else:
    for (int w = 0; w < ${words}; ++w) {
        const WORD word = READ_WORD(slot + w);
        whole &= (uint) (word >> ${shift}) == tag;
        bits.w[w] = (${piece}) word;
    }
% endif
    if (whole) *v = bits.v;
    return whole;
}
</%def>
##
## Publishes unless a test suppresses it. `kind` is AGGREGATE or PREFIX, an expression.
<%def name="announce(p, kind, v)">
% if suppress:
    if ((uint) (${p}) * 2654435761u % ${suppress}u != 0u) publish(state, tag, ${p}, ${kind}, ${v});
% else:
    publish(state, tag, ${p}, ${kind}, ${v});
% endif
</%def>
##
## Sets `prefix` to the inclusive prefix of partition p - 1. `recompute` is a C expression that stores the aggregate
## of partition `back` to `found` and gives 1 where that is the inclusive prefix already (a head in it, or back == 0).
<%def name="look_back(p, prefix, recompute)">
    {
        int back = ${p} - 1;
        int looks = 0;
        VALUE found;
        for (int at = PREFIX; at == PREFIX;) {
            if (peek(state, tag, back, PREFIX, &found)) {
                at = AGGREGATE;
            } else if (peek(state, tag, back, AGGREGATE, &found)) {
                --back;
                looks = 0;
% if polls:
            } else if (++looks > ${polls}) {
                const int whole = ${recompute};
                publish(state, tag, back, whole ? PREFIX : AGGREGATE, found);
% endif
            }
        }
        ${prefix} = found;
        for (int next = back + 1; next < ${p}; ++next) {
            if (peek(state, tag, next, AGGREGATE, &found)) ${prefix} = combine(${prefix}, found);
        }
    }
</%def>
