## One pass of a radix sort for GPUs: moves the elements of all rows to the places of their digit, stably. A work-group
## takes tiles of lanes * items elements (a tile is a part of a row), and a run of RUN lanes takes adjacent elements.
## Phases of a tile: load it with coalesced reads; rank the elements of each run; find the first place of each digit for
## each run, in the tile and in the row; sort the keys by their digit in local memory; store them, so that adjacent lanes
## store adjacent elements. Values follow the keys in the same way and use the same local memory.
## Ranks: a run has a counter for each digit. Step i takes element i of each lane. The lanes of a run that have the same
## digit, the peers, find one another; the rank is the counter plus the number of earlier peers, and the last peer stores
## the new counter. Peers are found by votes on NVIDIA GPUs (inline PTX), else by a mask for each digit in local memory.
## Elements after the end of the row have the last digit and the last ranks, so they come after all others.
## lookback: one tile for each work-group; the elements of each digit in earlier tiles of the row come from decoupled
## look-back (wg_lookback.mako), with a slot for each digit of a tile. Otherwise (reduce-then-scan): a work-group walks
## over the tiles of a part, whose first places are in `counts`.
## A pass that does not move a row's elements (see sort_onesweep_keys) walks over no tile: all barriers are in the loop
## over tiles, whose trip count is uniform.
## Launch: one work-group of `lanes` for each tile (lookback) or part, `per_row` for each row.
## Parameters: see sort_onesweep_keys and wg_lookback; declarations, lanes, items, run (lanes of a run, a divisor of
## lanes, at most 32), columns (lanes of a row of the work-group's scan), unroll (a pragma before loops over private
## arrays, or nothing; GPUs keep such arrays in registers only if the loops are unrolled), unroll_some (the same, for
## loops with a few loads in flight), lookback, predecessors (tiles that a lane polls at once), carried, value, keys_out
## (see sort_radix_elements), held (C type of carried values between passes), lowerings (of the barriers `matched`, of
## the lanes of a run, and `summed`), attribute and subgroups (see pydp.groups.barrier_plan).
<%namespace name="keys" file="sort_onesweep_keys.mako"/>
<%namespace name="group" file="wg_scan.mako"/>
<%namespace name="look" file="wg_lookback.mako"/>
<%namespace name="barriers" file="wg_barrier.mako"/>
<%
    tile, bins = lanes * items, 1 << width
    runs, each = lanes // run, -(-bins // lanes)
    votes = lowerings["matched"][0]["kind"] == "warp"
    guard = lambda digit: f"if ({digit} < BINS) " if each * lanes > bins else ""
%>
% if subgroups:
${barriers.enable_subgroups()}
% endif
${declarations}
${keys.types()}
${keys.moves()}
#define RUN ${run}
#define RUNS ${runs}
#define combine(a, b) ((a) + (b))
% if votes:

/* The lanes of the warp whose digit is the same, as bits. All lanes of the warp call it. */
static uint peers_of(const uint digit) {
    uint peers = 0xffffffffu, others;
%   for bit in range(width):
    __asm__ volatile("{ .reg .pred one; .reg .b32 bit; and.b32 bit, %1, ${1 << bit}; setp.ne.b32 one, bit, 0;"
                     " vote.sync.ballot.b32 %0, one, 0xffffffff; @one not.b32 %0, %0; }" : "=r"(others) : "r"(digit));
    peers &= ~others;
%   endfor
    return peers;
}
% endif
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
            uint counters[RUNS * BINS];
% if not votes:
            uint masks[RUNS * BINS]; /* bit k: lane k of the run has the digit */
% endif
        } ranks;
        KEY keys[${tile}];
% if carried:
        ${held} held[${tile}];
% endif
    } stage;
    local uint places[BINS]; /* places[d] + i: the place of element i of the sorted tile, if its digit is d */
    local VALUE lane_value[${lanes + lanes // columns}], row_value[${lanes // columns}];
    const int lane = (int) get_local_id(0);
    const int own = lane % RUN, own_bins = lane / RUN * BINS; /* of the lane in its run, and of the run's counters */
    const int own_first = lane / RUN * (RUN * ${items}) + own; /* the lane's first element; the others follow by RUN */
    KEY my_key[${items}];
    uint my_place[${items}]; /* in the lower half, a place in the tile; in the upper half, what the next phase looks up */
% if carried:
    ${held} my_held[${items}];
% endif
% if lookback:
    local int taken;
    if (lane == 0) taken = take_partition(state, parts);
    ${barriers.group_barrier()}
    const int p = taken;
    const uint row = (uint) p / per_row, first = (uint) p % per_row;
    uint last = first + 1;
% else:
    uint next[${each}];
    const uint row = (uint) get_group_id(0) / per_row, first = (uint) get_group_id(0) % per_row * tiles;
    uint last = min(first + tiles, (n + ${tile - 1}) / ${tile});
    counts += get_group_id(0) * (ulong) BINS;
    ${unroll}
    for (int k = 0; k < ${each}; ++k) {
        const int d = lane * ${each} + k;
        ${guard("d")}next[k] = counts[d];
    }
% endif
    const MOVE move = move_of(varies + (ulong) row * PASSES, pass, least);
    if (!move.active) last = first;
    global const KEY* source = x + (long) x_offset + (long) row * row_stride;
    if (move.from != SOURCE) source = (move.from == FIRST ? keys_first : keys_second) + (ulong) row * n;
    for (uint t = first; t < last; ++t) {
        const uint begin = t * ${tile};
        const int count = (int) min((uint) ${tile}, n - begin);
        const int own_count = count - own_first; /* lane has element i if i * RUN is less */
        global const KEY* own_source = source + (ulong) begin + own_first;
        ${unroll}
        for (int i = 0; i < ${items}; ++i) my_key[i] = i * RUN < own_count ? own_source[i * RUN] : (KEY) 0;
        for (int d = own; d < BINS; d += RUN) {
            stage.ranks.counters[own_bins + d] = 0;
% if not votes:
            stage.ranks.masks[own_bins + d] = 0;
% endif
        }
        ${barriers.synchronize("matched", lowerings, lanes)}
        ${unroll}
        for (int i = 0; i < ${items}; ++i) {
            const uint d = i * RUN < own_count ? digit_of(my_key[i], pass) : BINS - 1;
            const int bin = own_bins + (int) d;
% if votes:
            const uint peers = peers_of(d);
% else:
            atomic_or(stage.ranks.masks + bin, 1u << own);
            ${barriers.synchronize("matched", lowerings, lanes)}
            const uint peers = stage.ranks.masks[bin];
% endif
            const uint rank = stage.ranks.counters[bin] + popcount(peers & ((1u << own) - 1));
            uint both = (uint) bin << 16 | rank;
% if votes:
            __asm__("" : "+r"(both)); /* or the compiler keeps the halves in two registers */
% endif
            my_place[i] = both;
            ${barriers.synchronize("matched", lowerings, lanes)}
            if (peers >> own == 1) {
                stage.ranks.counters[bin] = rank + 1;
% if not votes:
                stage.ranks.masks[bin] = 0;
% endif
            }
            ${barriers.synchronize("matched", lowerings, lanes)}
        }
        ${barriers.group_barrier()}
        /* Each lane adds up the runs' counters of `each` digits: `here` elements of the tile have the digit. */
        uint column[${each * runs}];
        VALUE here[${each}], base[${each}], sum = 0, before, all;
        ${unroll}
        for (int k = 0; k < ${each}; ++k) {
            const int d = lane * ${each} + k;
            here[k] = 0;
            ${unroll}
            for (int r = 0; r < RUNS; ++r) {
                column[k * RUNS + r] = 0;
                ${guard("d")}column[k * RUNS + r] = stage.ranks.counters[r * BINS + d];
                here[k] += column[k * RUNS + r];
            }
            sum += here[k];
            if (d == BINS - 1) here[k] -= (VALUE) (${tile} - count); /* elements after the end of the row */
% if lookback:
            ${guard("d")}{
                if (t + 1 < per_row) {
                    ${look.announce("p * BINS + d", "t ? AGGREGATE : PREFIX", "here[k]")}
                }
                base[k] = bases[((ulong) row * PASSES + (ulong) pass) * BINS + (ulong) d];
            }
% endif
        }
        ${group.sums_exclusive(lanes, columns, "lane", "sum", "before", "all", lowerings)}
        ${unroll}
        for (int k = 0; k < ${each}; ++k) {
            const int d = lane * ${each} + k;
            ${guard("d")}places[d] = before;
            ${unroll}
            for (int r = 0; r < RUNS; ++r) {
                ${guard("d")}stage.ranks.counters[r * BINS + d] = before;
                before += column[k * RUNS + r];
            }
        }
        ${barriers.group_barrier()}
        ${unroll}
        for (int i = 0; i < ${items}; ++i) my_place[i] = (my_place[i] & 0xffffu) + stage.ranks.counters[my_place[i] >> 16];
        ${barriers.group_barrier()}
        ${unroll}
        for (int i = 0; i < ${items}; ++i) stage.keys[my_place[i]] = my_key[i];
% if carried:
        /* The values are on their way during the look-back. */
        const ulong row_start = (ulong) row * n;
        global const ${held}* from_held = (move.from == FIRST ? held_first : held_second) + row_start + (ulong) begin + own_first;
        ${unroll}
        for (int i = 0; i < ${items}; ++i) {
            my_held[i] = 0;
            if (i * RUN < own_count) {
                my_held[i] = move.from == SOURCE ? ${"values[values_offset + row_start + (ulong) begin + (ulong) (own_first + i * RUN)]" if carried == "value" else f"({held}) begin + ({held}) (own_first + i * RUN)"} : from_held[i * RUN];
            }
        }
% endif
        ${unroll}
        for (int k = 0; k < ${each}; ++k) {
            const int d = lane * ${each} + k;
            ${guard("d")}{
% if lookback:
                VALUE earlier = 0;
                if (t > 0) {
                    ${look.look_back_sums("p", "earlier", "recount(source, n, back - (p - (int) t), pass, (uint) d, &found)", "$P * BINS + d", predecessors)}
                    if (t + 1 < per_row) {
                        ${look.announce("p * BINS + d", "PREFIX", "earlier + here[k]")}
                    }
                }
                places[d] = base[k] + earlier - places[d];
% else:
                places[d] = next[k] - places[d];
                next[k] += here[k];
% endif
            }
        }
        ${barriers.group_barrier()}
        global KEY* target = ${"move.to == RESULT ? sorted_keys : " if keys_out else ""}move.to == FIRST ? keys_first : keys_second;
        target += (ulong) row * n;
% if carried:
        ${unroll}
        for (int i = 0; i < ${items}; ++i) {
            const int at = i * ${lanes} + lane;
            if (at < count) {
                const KEY one = stage.keys[at];
                const uint d = digit_of(one, pass);
                my_place[i] |= d << 16;
                ${"" if keys_out else "if (move.to != RESULT) "}target[places[d] + (uint) at] = one;
            }
        }
        ${barriers.group_barrier()}
        ${unroll}
        for (int i = 0; i < ${items}; ++i) stage.held[my_place[i] & 0xffffu] = my_held[i];
        ${barriers.group_barrier()}
        global ${held}* to_held = (move.to == FIRST ? held_first : held_second) + row_start;
        ${unroll}
        for (int i = 0; i < ${items}; ++i) {
            const int at = i * ${lanes} + lane;
            if (at < count) {
                const ${held} one = stage.held[at];
                const uint place = places[my_place[i] >> 16] + (uint) at;
                if (move.to == RESULT) sorted_values[row_start + place] = ${{"value": "one", "index": "(long) one", "gather": "values[values_offset + row_start + one]"}[carried]};
                else to_held[place] = one;
            }
        }
% else:
        ${unroll_some}
        for (int at = lane; at < count; at += ${lanes}) {
            const KEY one = stage.keys[at];
            ${"" if keys_out else "if (move.to != RESULT) "}target[places[digit_of(one, pass)] + (uint) at] = one;
        }
% endif
% if not lookback:
        ${barriers.group_barrier()}
% endif
    }
}
