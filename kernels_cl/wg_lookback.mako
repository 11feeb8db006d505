## Decoupled look-back between work-groups, run by one work-item (`look_back`) or by the first lanes of a work-group
## (`look_back_together`). Include it in any single-pass algorithm.
## A partition has two slots: A (its aggregate) and P (its inclusive prefix). In a launch, a slot is written once, or
## again with the same words. A slot is one or more atomic words. Every word holds a piece of the value and the tag of
## the launch that wrote it. Each word can be checked alone: no fence, no order between words and no clearing is needed.
## The walk goes back to the nearest P and then folds forward, oldest first: the same left fold for any timing.
##
## The wait is bounded: after `polls` unsuccessful polls of a partition, the work-group computes the aggregate itself.
## 1. It polls again with atomics. They read current values, even if plain loads are served from a stale cache.
## 2. If this fails too, the work-group recomputes the aggregate from the input. The owner may not have run yet, or the
##    driver may not run it before later work-groups end.
## 3. In place (`keeps`), the owner may overwrite its input before or while the work-group reads it. Therefore an owner
##    stores its aggregate before its first result, to one of two more slots: the kept aggregate or the kept prefix. A
##    work-group that recomputes uses the kept value if there is one; else it stores its own value there by
##    compare-and-swap. If the owner has stored a word, the swap fails and the owner's word is used. If the swap
##    succeeds, the owner has not stored a result yet: the work-group read the true input. Both compute the same bits.
## The bound needs only one guarantee, which tickets need too: all work-groups see the atomic operations on one word in
## the same order. Loads, or the words of A and P, need not become visible to other work-groups.
##
## `state`: 64 bytes whose first uint is the ticket counter (0 between launches), then the slots.
## Parameters: wide_words (64-bit atomics: pieces of 32 bits, else 32-bit words and pieces of 16), words (per slot),
## order ("ticket"; for tests: "reversed", "permuted" number the work-groups without a ticket), polls (unsuccessful
## polls of a slot before its aggregate is recomputed; 0: never), chained (only P is published), suppress (for tests:
## one partition in `suppress` publishes nothing; 0: none), plain_polls (poll with volatile loads instead of atomics).
## `keeps`, here and below: the scan is in place.
<%namespace name="barriers" file="wg_barrier.mako"/>
<%def name="functions(value, keeps=False)">
<% piece, word, shift = ("uint", "ulong", 32) if wide_words else ("ushort", "uint", 16) %>
% if wide_words:
#pragma OPENCL EXTENSION cl_khr_int64_base_atomics : enable
% endif
typedef ${word} WORD;
#define AGGREGATE 0
#define PREFIX 1
#define SLOTS(state) ((volatile global WORD*) ((state) + 16))
#define SLOT(state, p, kind) (SLOTS(state) + ((long) (p) * ${4 if keeps else 2} + (kind)) * ${words})
#define SWAP_WORD(where, what) ${"atom_xchg" if wide_words else "atomic_xchg"}(where, what)
#define READ_WORD(where) ${"atom_add" if wide_words else "atomic_add"}(where, (WORD) 0)
#define WORD_OF(tag, piece) (((WORD) (tag) << ${shift}) | (WORD) (piece))
#define TAG_OF(word) ((uint) ((word) >> ${shift}))

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
    volatile global WORD* slot = SLOT(state, p, kind);
    bits.w[${words - 1}] = 0;
    bits.v = v;
    ${each_word("SWAP_WORD(slot + $W, WORD_OF(tag, bits.w[$W]));")}
}

${peeking("peek_surely", value, "READ_WORD(slot + $W)")}
% if plain_polls:
${peeking("peek", value, "slot[$W]")}
% else:
#define peek peek_surely
% endif
% if keeps:

#define KEPT 2
/* Keeps a partition's aggregate before its input is overwritten. The result is always 0, because no later launch has
   used these words. Do not store results before it is known: it depends on the exchange of every word, so all words
   are stored by then. */
static int keep(volatile global uint* state, const uint tag, const int p, const int kind, const ${value} v) {
    union { ${value} v; ${piece} w[${words}]; } bits;
    volatile global WORD* slot = SLOT(state, p, KEPT + kind);
    int later = 0;
    bits.w[${words - 1}] = 0;
    bits.v = v;
    ${each_word("later |= TAG_OF(SWAP_WORD(slot + $W, WORD_OF(tag, bits.w[$W]))) > tag;")}
    return later;
}

/* The kept word, or `mine` if there is none. */
static WORD settled(volatile global WORD* where, const WORD mine, const uint tag) {
    const WORD old = READ_WORD(where);
    if (TAG_OF(old) == tag) return old;
    const WORD found = ${"atom_cmpxchg" if wide_words else "atomic_cmpxchg"}(where, old, mine);
    return TAG_OF(found) == tag ? found : mine;
}

/* Loads the kept words into v, and keeps the words of v that are missing. */
static void settle(volatile global uint* state, const uint tag, const int p, const int kind, ${value}* v) {
    union { ${value} v; ${piece} w[${words}]; } bits;
    volatile global WORD* slot = SLOT(state, p, KEPT + kind);
    bits.w[${words - 1}] = 0;
    bits.v = *v;
    ${each_word("bits.w[$W] = (" + piece + ") settled(slot + $W, WORD_OF(tag, bits.w[$W]), tag);")}
    *v = bits.v;
}
% endif
</%def>
##
## One statement for every word of a slot; $W is the index of the word.
<%def name="each_word(statement)">
% if words <= 8:
%   for w in range(words):
    ${statement.replace("$W", str(w))}
%   endfor
% else:
    for (int w = 0; w < ${words}; ++w) ${statement.replace("$W", "w")}
% endif
</%def>
##
## A function that returns 1 and the value of a slot if all its words were written in this launch. `read`: the load
## of word $W.
<%def name="peeking(name, value, read)">
<% piece, shift = ("uint", 32) if wide_words else ("ushort", 16) %>
static int ${name}(volatile global uint* state, const uint tag, const int p, const int kind, ${value}* v) {
    union { ${value} v; ${piece} w[${words}]; } bits;
    volatile global WORD* slot = SLOT(state, p, kind);
    int whole = 1;
    ${each_word("{ const WORD word = " + read + "; whole &= TAG_OF(word) == tag; bits.w[$W] = (" + piece + ") word; }")}
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
## of partition `back` to `found`, and returns 1 if it already is the inclusive prefix (it contains a head, or
## back == 0). If the owner starts to overwrite the input meanwhile, `recompute` reads some results; its value is then
## discarded.
## slot: the number of a partition's slots, with $P for the partition, where a partition has the slots of several values.
## value, combine: the type of a slot's value, and its operator. step: the distance to the predecessor of a partition.
<%def name="look_back(p, prefix, recompute, keeps=False, slot='$P', value='VALUE', combine='combine', step='1')">
<% at = lambda partition: slot.replace("$P", partition) %>
    {
        int back = ${p} - ${step};
        int looks = 0;
        ${value} found;
        for (int at = PREFIX; at == PREFIX;) {
            if (peek(state, tag, ${at('back')}, PREFIX, &found)) {
                at = AGGREGATE;
            } else if (peek(state, tag, ${at('back')}, AGGREGATE, &found)) {
                back -= ${step};
                looks = 0;
% if polls:
            } else if (++looks > ${polls}) {
                looks = 0;
                ${surely(recompute, keeps, at)}
                if (whole) at = AGGREGATE; else back -= ${step};
% endif
            }
        }
        ${prefix} = found;
        /* These aggregates were read above, or published by this work-group. */
        for (int next = back + ${step}; next < ${p}; next += ${step}) {
% if plain_polls:
            if (!peek(state, tag, ${at('next')}, AGGREGATE, &found)) peek_surely(state, tag, ${at('next')}, AGGREGATE, &found);
% else:
            peek(state, tag, ${at('next')}, AGGREGATE, &found);
% endif
            ${prefix} = ${combine}(${prefix}, found);
        }
    }
</%def>
##
## The same for values that are integers and that `combine` adds. Sums of integers need no order, so each slot is read
## once. The loads of `predecessors` partitions are in flight at once: one round trip to memory for all of them.
<%def name="look_back_sums(p, prefix, recompute, slot, predecessors)">
<% at = lambda partition: slot.replace("$P", partition) %>
    {
        int back = ${p} - 1;
        int looks = 0, ended = 0;
        VALUE sum = 0;
        while (!ended) {
% for k in range(predecessors):
            VALUE prefix_${k} = 0, aggregate_${k} = 0;
            const int at_${k} = ${f"max(back - {k}, 0)" if k else "back"}; /* the walk ends at the first tile of a row */
            const int has_prefix_${k} = peek(state, tag, ${at(f'at_{k}')}, PREFIX, &prefix_${k});
            const int has_aggregate_${k} = peek(state, tag, ${at(f'at_{k}')}, AGGREGATE, &aggregate_${k});
% endfor
            int known = 0; /* aggregates from `back` on */
% for k in range(predecessors):
            if (!ended && known == ${k}) {
                if (has_prefix_${k} || has_aggregate_${k}) sum += has_prefix_${k} ? prefix_${k} : aggregate_${k};
                ended = has_prefix_${k};
                known += !has_prefix_${k} && has_aggregate_${k};
            }
% endfor
            back -= known;
% if polls:
            looks = known || ended ? 0 : looks + 1;
            if (looks > ${polls}) {
                looks = 0;
                VALUE found;
                ${surely(recompute, False, at)}
                sum += found;
                if (whole) ended = 1; else --back;
            }
% endif
        }
        ${prefix} = sum;
    }
</%def>
##
## Declares `whole` and sets it and `found`: the value of partition `back` by atomic reads, else by computing it.
<%def name="surely(recompute, keeps, at)">
% if plain_polls:
                int whole = peek_surely(state, tag, ${at('back')}, PREFIX, &found);
                if (!whole && !peek_surely(state, tag, ${at('back')}, AGGREGATE, &found)) {
                    ${without_owner(recompute, keeps, at)}
                }
% else:
                int whole;
                ${without_owner(recompute, keeps, at)}
% endif
</%def>
##
## `look_back` by the first `window` lanes of a work-group, which poll as many predecessors at once: a walk over many
## aggregates takes one round trip to memory for each window. All lanes call it. Lane 0 folds the values oldest first, so
## that the window does not change a bit of the result, and stores it in `seen_prefix` for itself (in local memory,
## because PoCL loses private values of a single lane between these barriers).
## lane: the index of a lane, as C. lanes: their number. lowerings: of the barrier `looked` of the first `window` lanes.
## slot: see `look_back`.
## Declare `look_back_memory` at the start of the kernel, and `look_back_kinds` outside.
<%!
    PACKED = {8: "ulong", 4: "uint", 2: "ushort", 1: "uchar"}

    def packed(window):
        """(C type, its bytes) of the words that hold a byte of each lane of the window."""
        nbytes = next(size for size in PACKED if window % size == 0)
        return PACKED[nbytes], nbytes

    def reach(words, wide_words):
        """The aggregates that a lane of the window reads at once on the way forward; `window_bytes` knows them too."""
        return 4 if words * (4 if wide_words else 2) <= 8 else 1
%>
<%def name="look_back_kinds(window)">
<% word, nbytes = packed(window) %>
#define ONE_KIND (AGGREGATE + 1)
/* The number of lanes from lane 0 on that have an aggregate. */
static int leading_aggregates(local const ${word}* kinds) {
% for k in range(window // nbytes):
    const ${word} other_${k} = kinds[${k}] ^ (${word}) ${hex(int("01" * nbytes, 16))}${"UL" if nbytes == 8 else ""};
    if (other_${k}) return ${k * nbytes} + (int) popcount((${word}) ((other_${k} & -other_${k}) - 1)) / 8;
% endfor
    return ${window};
}
</%def>
<%def name="look_back_memory(window, value='VALUE')">
<% word, nbytes = packed(window) %>
    local ${value} seen[${2 * window * reach(words, wide_words)}]; /* two halves in turn: one barrier separates stores from loads */
    local ${word} seen_kinds[${2 * window // nbytes}];
    local ${value} seen_prefix;
    local ${value} seen_alone; /* the value that lane 0 computed for a partition, which partition, and its kind */
    local int seen_at;
    local uchar seen_kind;
</%def>
<%def name="look_back_together(p, recompute, lane, window, lanes, lowerings, keeps=False, slot='$P')">
<%
    word, nbytes = packed(window)
    kind = lowerings["looked"][0]
    waiting = lanes if kind["kind"] == "group" else max(window, kind["width"])
    looked = capture(barriers.synchronize, "looked", lowerings, lanes, memory="both").strip()
    at = lambda partition: slot.replace("$P", partition)
    half = window * reach(words, wide_words)
%>
    ${f"if ({lane} < {waiting}) " if waiting < lanes else ""}{
        int back = ${p} - 1;
        int looks = 0, turn = 0, known = 0, whole = 0;
% if polls:
        if (${lane} == 0) seen_at = -1;
% endif
        while (!whole) {
            turn ^= 1;
            if (${lane} < ${window}) {
                VALUE found;
                uchar kind = 0;
                if (${lane} <= back) { /* both slots at once: one round trip to memory */
                    if (peek(state, tag, ${at(f"back - {lane}")}, AGGREGATE, &found)) kind = AGGREGATE + 1;
                    if (peek(state, tag, ${at(f"back - {lane}")}, PREFIX, &found)) kind = PREFIX + 1;
                }
% if polls:
                if (${lane} == 0 && seen_at == back) {
                    kind = seen_kind;
                    found = seen_alone;
                }
% endif
                if (kind) seen[turn * ${half} + ${lane}] = found;
                ((local uchar*) (seen_kinds + turn * ${window // nbytes}))[${lane}] = kind;
            }
            ${looked}
            known = leading_aggregates(seen_kinds + turn * ${window // nbytes});
            whole = known < ${window}
                && ((local const uchar*) (seen_kinds + turn * ${window // nbytes}))[known] == PREFIX + 1;
            looks = known || whole ? 0 : looks + 1;
            if (!whole) back -= known;
% if polls:
            if (looks > ${polls}) {
                looks = 0;
                if (${lane} == 0) {
                    VALUE found;
                    ${surely(recompute, keeps, at)}
                    seen_alone = found;
                    seen_kind = (whole ? PREFIX : AGGREGATE) + 1;
                    seen_at = back;
                }
            }
% endif
        }
        /* Partition back - known has published its prefix, the next `known` ones aggregates. */
        if (${lane} == 0) {
            VALUE sum = seen[turn * ${half} + known];
            ${fold_seen("known", f"turn * {half} + known - 1 - $K")}
            seen_prefix = sum;
        }
        for (int next = back + 1; next < ${p}; next += ${half}) {
            const int count = min(${half}, ${p} - next);
            turn ^= 1;
            if (${lane} < ${window}) {
% for k in range(reach(words, wide_words)):
                VALUE found_${k};
                const int at_${k} = next + min(${lane} + ${k * window}, count - 1);
                const int whole_${k} = peek(state, tag, ${at(f"at_{k}")}, AGGREGATE, &found_${k});
% endfor
% for k in range(reach(words, wide_words)):
% if plain_polls:
                if (!whole_${k}) peek_surely(state, tag, ${at(f"at_{k}")}, AGGREGATE, &found_${k});
% endif
                if (${lane} + ${k * window} < count) seen[turn * ${half} + ${lane} + ${k * window}] = found_${k};
% endfor
            }
            ${looked}
            if (${lane} == 0) {
                VALUE sum = seen_prefix;
                ${fold_seen("count", f"turn * {half} + $K")}
                seen_prefix = sum;
            }
        }
    }
</%def>
##
## Folds `count` values in `seen` into `sum`, in the order $K = 0, 1, ... of their indexes `place`. Later work-groups wait
## for this fold, so it loads a round of values before it combines the first.
<%def name="fold_seen(count, place)">
<% at_once = 8 if words * (4 if wide_words else 2) <= 16 else 1 %>
            for (int round = 0; round < ${count}; round += ${at_once}) {
% for k in range(at_once):
                const VALUE seen_${k} = seen[${place.replace("$K", f"min(round + {k}, {count} - 1)")}];
% endfor
% for k in range(at_once):
                ${f"if (round + {k} < {count}) " if k else ""}sum = combine(sum, seen_${k});
% endfor
            }
</%def>
##
## Computes and publishes the aggregate of partition `back`, which its owner has not published.
<%def name="without_owner(recompute, keeps, at)">
% if keeps:
                    whole = peek_surely(state, tag, ${at('back')}, KEPT + PREFIX, &found);
                    if (!whole && !peek_surely(state, tag, ${at('back')}, KEPT + AGGREGATE, &found)) {
                        whole = ${recompute};
                        settle(state, tag, ${at('back')}, whole ? PREFIX : AGGREGATE, &found);
                    }
% else:
                    whole = ${recompute};
% endif
                    publish(state, tag, ${at('back')}, whole ? PREFIX : AGGREGATE, found);
</%def>
