## One pass of a radix sort for GPUs: moves the elements of all rows to the places of their digit, stably. A work-group
## takes tiles of lanes * items elements (a tile is a part of a row).
## Phases of a tile: load it with coalesced reads; sort the positions of its elements by their digit in local memory, by
## 4 bits at a time; find the first place of each digit for this tile; store the elements, sorted by digit, so that
## adjacent lanes store adjacent elements.
## In each step of the local sort, a lane counts the digits of its adjacent elements in counters of its own (two of 16 bits
## in a uint), a scan over all counters turns them into first places, and the lane walks over its elements again. Only
## loads of keys are unrolled, into registers: more private arrays would take most registers of a GPU. Counters, keys and
## values use the same local memory one after the other.
## lookback: one tile for each work-group; the elements of each digit in earlier tiles of the row come from decoupled
## look-back (wg_lookback.mako), with a slot for each digit of a tile. Otherwise (reduce-then-scan): a work-group walks
## over the tiles of a part, whose first places are in `counts`.
## A pass that does not move a row's elements (see sort_onesweep_keys) walks over no tile: all barriers are in the loop
## over tiles, whose trip count is uniform.
## Launch: one work-group of `lanes` for each tile (lookback) or part, `per_row` for each row.
## Parameters: see sort_onesweep_keys and wg_lookback; declarations, lanes, items, columns (lanes of a row of the
## work-group's scan), unroll (a pragma before loops that load, or nothing; GPUs keep private arrays in registers only if
## such loops are unrolled), counter_skew (one unused counter after each so many; 0: none), lookback,
## carried, value, keys_out (see sort_radix_elements), held (C type of carried values between passes), lowerings (of the
## barrier `summed`), attribute and subgroups (see pydp.groups.barrier_plan).
<%namespace name="keys" file="sort_onesweep_keys.mako"/>
<%namespace name="group" file="wg_scan.mako"/>
<%namespace name="look" file="wg_lookback.mako"/>
<%namespace name="barriers" file="wg_barrier.mako"/>
<%
    tile = lanes * items
    skewed = lambda every: f"((i) + (i) / {every})" if every else "(i)"
    size = lambda count, every: count + (count // every if every else 0)
    steps = [(bit, min(4, width - bit)) for bit in range(0, width, 4)]
    most = max(1 << bits - 1 for _, bits in steps)
%>
% if subgroups:
${barriers.enable_subgroups()}
% endif
${declarations}
${keys.types()}
${keys.moves()}
#define combine(a, b) ((a) + (b))
#define COUNTER_AT(i) stage.steps.counters[${skewed(counter_skew)}]
% if lookback:
${look.functions("VALUE")}

/* How many elements of a tile have the digit. Only for a tile whose work-group has not published it: this is rare. */
static int recount(global const KEY* source, const uint n, const int tile, const int pass, const uint digit, uint* result) {
    const uint begin = (uint) tile * ${tile}, end = min(n, begin + ${tile});
    uint sum = 0;
    for (uint i = begin; i < end; ++i) sum += digit_of(source[i], pass) == digit ? 1u : 0u;
    *result = sum;
    return tile == 0;
}
% endif

kernel __attribute__((reqd_work_group_size(${lanes}, 1, 1))) ${attribute} void sort_pass(
    global const KEY* x, const ulong x_offset, const long row_stride, const uint n,
    global KEY* keys_first, global KEY* keys_second
% if keys_out:
    , global KEY* sorted_keys
% endif
% if value:
    , global const ${value}* values, const ulong values_offset
% endif
% if carried:
    , global ${held}* held_first, global ${held}* held_second, global ${"long" if carried == "index" else value}* sorted_values
% endif
    , global const uint* varies, const int pass, const int least, const uint per_row
% if lookback:
    , global const uint* bases, volatile global uint* state, const uint tag, const int parts
% else:
    , global const uint* counts, const uint tiles
% endif
) {
    local union {
        struct {
            uint counters[${size(most * lanes, counter_skew)}];
            ushort order[${tile if len(steps) > 1 else 1}];
        } steps;
        KEY keys[${tile}];
% if carried:
        ${held} held[${tile}];
% endif
    } stage;
    local uchar digits[${tile}];
    local ushort order[${tile}]; /* the positions of elements in the tile, in the order of their digits */
    local uint starts[BINS], ends[BINS];
    local VALUE lane_value[${lanes + lanes // columns}], row_value[${lanes // columns}];
    const int lane = (int) get_local_id(0);
    KEY my_key[${items}];
% if lookback:
    local int taken;
    if (lane == 0) taken = take_partition(state, parts);
    ${barriers.group_barrier()}
    const int p = taken;
    const uint row = (uint) p / per_row, first = (uint) p % per_row;
    uint last = first + 1;
% else:
    local uint next[BINS];
    const uint row = (uint) get_group_id(0) / per_row, first = (uint) get_group_id(0) % per_row * tiles;
    uint last = min(first + tiles, (n + ${tile - 1}) / ${tile});
    counts += get_group_id(0) * (ulong) BINS;
    for (int d = lane; d < BINS; d += ${lanes}) next[d] = counts[d];
% endif
    const MOVE move = move_of(varies + (ulong) row * PASSES, pass, least);
    if (!move.active) last = first;
    global const KEY* source = x + (long) x_offset + (long) row * row_stride;
    if (move.from != SOURCE) source = (move.from == FIRST ? keys_first : keys_second) + (ulong) row * n;
    for (uint t = first; t < last; ++t) {
        const uint begin = t * ${tile};
        const int count = (int) min((uint) ${tile}, n - begin);
        const int end = min(count, (lane + 1) * ${items});
        ${unroll}
        for (int i = 0; i < ${items}; ++i) {
            const int at = i * ${lanes} + lane;
            if (at < count) {
                my_key[i] = source[begin + (uint) at];
                digits[at] = (uchar) digit_of(my_key[i], pass);
            }
        }
        for (int d = lane; d < BINS; d += ${lanes}) starts[d] = ends[d] = 0;
        ${barriers.group_barrier()}
% for bit, bits in steps:
        ${local_step(bit, bits, "stage.steps.order" if bit else None, "order" if loop.last else "stage.steps.order")}
% endfor
        for (int at = lane; at < count; at += ${lanes}) {
            const uint d = digits[order[at]];
            const uint previous = at ? digits[order[at - 1]] : d;
            if (at == 0 || previous != d) starts[d] = (uint) at;
            if (previous != d) ends[previous] = (uint) at;
            if (at == count - 1) ends[d] = (uint) count;
        }
        ${barriers.group_barrier()}
        ${unroll}
        for (int i = 0; i < ${items}; ++i) {
            const int at = i * ${lanes} + lane;
            if (at < count) stage.keys[at] = my_key[i];
        }
        /* From here on, starts[d] + i is the place of the tile's element i, in the order of digits, if its digit is d. */
        for (int d = lane; d < BINS; d += ${lanes}) {
            const VALUE here = ends[d] - starts[d];
% if lookback:
            VALUE before = 0;
            if (t > 0) {
                if (t + 1 < per_row) {
                    ${look.announce("p * BINS + d", "AGGREGATE", "here")}
                }
                ${look.look_back("p", "before", "recount(source, n, back - (p - (int) t), pass, (uint) d, &found)", slot="$P * BINS + d", sums=True)}
            }
            if (t + 1 < per_row) {
                ${look.announce("p * BINS + d", "PREFIX", "before + here")}
            }
            starts[d] = bases[((ulong) row * PASSES + (ulong) pass) * BINS + (ulong) d] + before - starts[d];
% else:
            starts[d] = next[d] - starts[d];
            next[d] += here;
% endif
        }
        ${barriers.group_barrier()}
        global KEY* target = ${"move.to == RESULT ? sorted_keys : " if keys_out else ""}move.to == FIRST ? keys_first : keys_second;
        target += (ulong) row * n;
        for (int at = lane; at < count; at += ${lanes}) {
            const uint from = order[at];
            ${"" if keys_out else "if (move.to != RESULT) "}target[starts[digits[from]] + (uint) at] = stage.keys[from];
        }
        ${barriers.group_barrier()}
% if carried:
        const ulong row_start = (ulong) row * n;
        global const ${held}* from_held = (move.from == FIRST ? held_first : held_second) + row_start;
        ${unroll}
        for (int i = 0; i < ${items}; ++i) {
            const int at = i * ${lanes} + lane;
            if (at < count) {
                const uint from = begin + (uint) at;
                stage.held[at] = move.from == SOURCE ? ${"values[values_offset + row_start + from]" if carried == "value" else "from"} : from_held[from];
            }
        }
        ${barriers.group_barrier()}
        global ${held}* to_held = (move.to == FIRST ? held_first : held_second) + row_start;
        for (int at = lane; at < count; at += ${lanes}) {
            const uint from = order[at], place = starts[digits[from]] + (uint) at;
            const ${held} one = stage.held[from];
            if (move.to == RESULT) sorted_values[row_start + place] = ${{"value": "one", "index": "(long) one", "gather": "values[values_offset + row_start + one]"}[carried]};
            else to_held[place] = one;
        }
        ${barriers.group_barrier()}
% endif
    }
}
##
## Sorts positions by `bits` bits of their digit from bit `bit` up. before, after: local arrays; before None: 0, 1, 2, ...
<%def name="local_step(bit, bits, before, after)">
<%
    half = 1 << bits - 1
    at = f"{before}[i]" if before else "i"
%>
        for (int c = 0; c < ${half}; ++c) COUNTER_AT(c * ${lanes} + lane) = 0;
        for (int i = lane * ${items}; i < end; ++i) {
            const uint digit = (uint) digits[${at}] >> ${bit} & ${(1 << bits) - 1};
            COUNTER_AT((int) (digit & ${half - 1}) * ${lanes} + lane) += 1u << digit / ${half} * 16;
        }
        ${barriers.group_barrier()}
        {
            uint sum = 0, earlier, all;
            for (int c = 0; c < ${half}; ++c) sum += COUNTER_AT(lane * ${half} + c);
            ${group.sums_exclusive(lanes, columns, "lane", "sum", "earlier", "all", lowerings)}
            earlier += all << 16; /* the larger digits, in the upper halves, come after all smaller ones */
            for (int c = 0; c < ${half}; ++c) {
                const uint counter = COUNTER_AT(lane * ${half} + c);
                COUNTER_AT(lane * ${half} + c) = earlier;
                earlier += counter;
            }
        }
        ${barriers.group_barrier()}
        for (int i = lane * ${items}; i < end; ++i) {
            const int from = ${at};
            const uint digit = (uint) digits[from] >> ${bit} & ${(1 << bits) - 1}, side = digit / ${half} * 16;
            const int c = (int) (digit & ${half - 1}) * ${lanes} + lane;
            const uint counter = COUNTER_AT(c);
            ${after}[counter >> side & 0xffffu] = (ushort) from;
            COUNTER_AT(c) = counter + (1u << side);
        }
        ${barriers.group_barrier()}
</%def>
