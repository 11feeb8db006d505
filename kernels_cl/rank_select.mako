## The rank of the k-th best element of each row (radix select), and how many elements are before it. An element's rank
## is an unsigned integer that orders it (see sort_radix_elements): smaller ranks come first.
## Each pass finds one more digit of the rank, from the top: `rank_count` counts this digit of the elements whose higher
## digits are those found so far, the candidates; `rank_choose` finds the bin that contains the k-th best element. Once
## few candidates are left, a pass stores their ranks, and the later passes read these instead of all elements.
## The host reads nothing back: `limits` has four words for each row: the digits found so far; the number of elements
## before the candidates; the number of candidates; how the next pass reads: 0: the elements, 1: the elements, and stores
## the candidates, 2: the stored candidates. In the end, the first three are the rank of the k-th best element, the
## number of elements with smaller ranks, and of those with this rank.
## Launch: rank_count: `groups` work-groups of `lanes` for each row; rank_choose: one for each row. In mapping "vector",
## lanes is 1, and a work-item reads whole vectors. bins: the counts of the digits of all rows, then the number of stored
## candidates of each row; all are 0 at the start, and rank_choose clears the counts.
## Parameters: declarations, key, kind, key_bits, descending (see sort_radix_elements), lanes, columns (lanes of a row of
## the work-group's scan), items (elements that a lane reads at once), digit (bits of a digit), first (rank_count: the
## first pass), name (of the kernel), one_lane, lowerings, attribute and subgroups (see pydp.groups.barrier_plan).
<%namespace name="elements" file="sort_radix_elements.mako"/>
<%namespace name="group" file="wg_scan.mako"/>
<%namespace name="barriers" file="wg_barrier.mako"/>
<%
    wide = "ulong" if key_bits == 64 else "uint"
    vector = lanes == 1
    bins = 1 << digit
    block = 64 if key_bits < 64 else 32 # elements that are compared with the digits at once (vector)
%>
% if subgroups:
${barriers.enable_subgroups()}
% endif
typedef ${wide} RANK;
typedef uint VALUE;
#define BINS ${bins}
#define LANE ((int) get_local_id(0))
${elements.order("encoded", "rank_of", key, "RANK", "RANK")}
% if vector:
typedef ${wide}16 RANK16;
${elements.order("encoded_many", "ranks_of", f"{key}16", "RANK16", "RANK16", f"convert_{wide}16")}
% endif
##
<%def name="digit_of(rank)">((uint) ((${rank}) >> shift) & mask)</%def>

% if name == "rank_count":
% if vector and not first:
#define LISTED 256
typedef ${"long" if key_bits == 64 else "int"}16 MASK16;
${elements.any_of("MASK16", 16 if key_bits == 64 else 8)}
/* Counts the digits of the listed candidates and stores their ranks if `to` is not null. */
static void flush(const RANK* listed, const int count, const int shift, const uint mask, private uint* counts,
                  global RANK* to, volatile global uint* stored) {
    for (int i = 0; i < count; ++i) ++counts[${digit_of("listed[i]")}];
    if (to && count > 0) {
        to += atomic_add(stored, (uint) count);
        for (int i = 0; i < count; ++i) to[i] = listed[i];
    }
}
% endif

/* shift: of the digit; higher: of the digits above it; mask: of the digit. capacity: of the stored candidates of a row. */
kernel ${one_lane if vector else f"__attribute__((reqd_work_group_size({lanes}, 1, 1)))"} ${attribute} void rank_count(
    global const ${key}* x, const long x_offset, const uint n, const int groups, const int shift, const int higher,
    const uint mask, global const ulong* limits, global uint* bins, global RANK* candidates, const uint capacity) {
    const long row = get_group_id(0) / groups;
    const uint g = (uint) (get_group_id(0) % groups);
    x += x_offset + row * n;
% if not first:
    global uint* stored = bins + (long) get_num_groups(0) / groups * BINS + row;
% endif
    bins += row * BINS;
% if first:
    const uint all = n;
% else:
    const int how = (int) limits[row * 4 + 3];
    const RANK found = (RANK) limits[row * 4] >> higher;
    candidates += row * (long) capacity;
    const uint all = how == 2 ? stored[0] : n;
% endif
    const uint each = (all / (uint) groups / ${lanes * items} + 1) * ${lanes * items};
    const uint begin = min(all, g * each), end = min(all, begin + each);
% if vector:
    uint counts[BINS];
    for (int b = 0; b < BINS; ++b) counts[b] = 0;
    uint i = begin;
%   if first:
    uint others[3 * BINS]; /* adjacent elements are often equal: they do not wait for the same counter */
    for (int b = 0; b < 3 * BINS; ++b) others[b] = 0;
    for (; i + 16 <= end; i += 16) {
        uint digits[16];
        const RANK16 ranks = ranks_of(encoded_many(vload16(0, x + i)));
        vstore16(convert_uint16(ranks >> (RANK16) (shift)) & (uint16) (mask), 0, digits);
        for (int j = 0; j < 16; j += 4) {
            ++counts[digits[j]];
            ++others[digits[j + 1]];
            ++others[BINS + digits[j + 2]];
            ++others[2 * BINS + digits[j + 3]];
        }
    }
    for (; i < end; ++i) ++counts[${digit_of("rank_of(encoded(x[i]))")}];
    for (int b = 0; b < BINS; ++b) counts[b] += others[b] + others[BINS + b] + others[2 * BINS + b];
%   else:
    RANK listed[LISTED + ${block}];
    int count = 0;
    if (how == 2) {
        for (; i < end; ++i) {
            const RANK rank = candidates[i];
            if (rank >> higher == found) ++counts[${digit_of("rank")}];
        }
    } else {
        global RANK* to = how == 1 ? candidates : 0;
        for (; i + ${block} <= end; i += ${block}) {
% for v in range(block // 16):
            const RANK16 ranks${v} = ranks_of(encoded_many(vload16(${v}, x + i)));
% endfor
            if (any_of(${" | ".join(f"(ranks{v} >> (RANK16) (higher) == (RANK16) (found))" for v in range(block // 16))})) {
                RANK some[${block}];
% for v in range(block // 16):
                vstore16(ranks${v}, ${v}, some);
% endfor
                for (int j = 0; j < ${block}; ++j) {
                    listed[count] = some[j];
                    count += some[j] >> higher == found;
                }
                if (count >= LISTED) {
                    flush(listed, count, shift, mask, counts, to, stored);
                    count = 0;
                }
            }
        }
        for (; i < end; ++i) {
            const RANK rank = rank_of(encoded(x[i]));
            listed[count] = rank;
            count += rank >> higher == found;
        }
        flush(listed, count, shift, mask, counts, to, stored);
    }
%   endif
    for (int b = 0; b < BINS; ++b) if (counts[b]) atomic_add(bins + b, counts[b]);
% else:
    local uint counts[BINS];
%   if not first:
    local uint matched, place;
%   endif
    for (int b = LANE; b < BINS; b += ${lanes}) counts[b] = 0;
    ${barriers.group_barrier()}
    uint last = 0, run = 0; /* runs of equal digits are counted in a register: lanes that add to one counter wait */
    for (uint tile = begin; tile < end; tile += ${lanes * items}) {
%   if not first:
        RANK mine[${items}];
        uint kept = 0;
        if (LANE == 0) matched = 0;
        ${barriers.group_barrier()}
%   endif
        ${unroll}
        for (int k = 0; k < ${items}; ++k) {
            const uint i = tile + (uint) (k * ${lanes} + LANE);
            if (i < end) {
%   if first:
                const RANK rank = rank_of(encoded(x[i]));
%   else:
                const RANK rank = how == 2 ? candidates[i] : rank_of(encoded(x[i]));
                mine[k] = rank;
                if (rank >> higher != found) continue;
                kept |= 1u << k;
%   endif
                const uint digit = ${digit_of("rank")};
                if (digit != last) {
                    if (run) atomic_add(counts + last, run);
                    last = digit;
                    run = 0;
                }
                ++run;
            }
        }
%   if not first:
        const uint at = kept ? atomic_add(&matched, popcount(kept)) : 0;
        ${barriers.group_barrier()}
        if (LANE == 0 && how == 1 && matched) place = atomic_add(stored, matched);
        ${barriers.group_barrier()}
        if (how == 1) {
            uint to = place + at;
            ${unroll}
            for (int k = 0; k < ${items}; ++k) if (kept >> k & 1) candidates[to++] = mine[k];
        }
%   endif
    }
    if (run) atomic_add(counts + last, run);
    ${barriers.group_barrier()}
    for (int b = LANE; b < BINS; b += ${lanes}) if (counts[b]) atomic_add(bins + b, counts[b]);
% endif
}
% else:

kernel ${one_lane if vector else f"__attribute__((reqd_work_group_size({lanes}, 1, 1)))"} ${attribute} void rank_choose(
    global uint* bins, global ulong* limits, const uint k, const int shift, const int start, const uint capacity) {
    const long row = get_group_id(0);
    bins += row * BINS;
    limits += row * 4;
    const ulong found = start ? 0 : limits[0], before = start ? 0 : limits[1], how = start ? 0 : limits[3];
    const uint wanted = k - (uint) before; /* the k-th best element has so many candidates before it */
% if vector:
    uint sum = 0;
    int bin = 0;
    for (; bin < BINS - 1 && sum + bins[bin] <= wanted; ++bin) sum += bins[bin];
    ${chosen("bin", "sum")}
    for (int b = 0; b < BINS; ++b) bins[b] = 0;
% else:
<% each = -(-bins // lanes) %>
    local VALUE lane_value[${lanes + lanes // columns}], row_value[${lanes // columns}];
    uint sum = 0, earlier, all;
    for (int j = 0; j < ${each}; ++j) {
        const int b = LANE * ${each} + j;
        if (b < BINS) sum += bins[b];
    }
    ${barriers.group_barrier("global")} /* all lanes have read the state before one replaces it */
    ${group.sums_exclusive(lanes, columns, "LANE", "sum", "earlier", "all", lowerings)}
    if (earlier <= wanted && wanted - earlier < sum) {
        int bin = LANE * ${each};
        for (; earlier + bins[bin] <= wanted; ++bin) earlier += bins[bin];
        ${chosen("bin", "earlier")}
    }
    ${barriers.group_barrier("both")}
    for (int b = LANE; b < BINS; b += ${lanes}) bins[b] = 0;
% endif
}
% endif
##
## Stores the state of the row after the choice of a bin.
<%def name="chosen(bin, earlier)">
    {
        const uint count = bins[${bin}];
        limits[0] = found | (ulong) ${bin} << shift;
        limits[1] = before + ${earlier};
        limits[2] = count;
        limits[3] = how ? 2 : count <= capacity ? 1 : 0;
    }
</%def>
