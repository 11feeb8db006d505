## Merges two sorted arrays, a (`left` elements) and b (`right` elements). For equal keys, the elements of a are first.
## Phases: each work-item ("vector") or work-group ("simt") finds its stretch of the result in both arrays by binary
## search (merge path: Green, McColl, Bader 2012) and merges it. A work-group copies the keys of its stretch to local
## memory, where each lane merges `items` of them; it then stores the results in order.
## Launch: vector: one work-item for `stretch` results, in work-groups of 1. simt: one work-group for lanes * items.
## Parameters: mapping, declarations, key, ordering (see sort_order), carried (C type of the values, or None), chains,
## scalar (see sort_merging); lanes, items, lowerings (of the barriers `split`, `loaded`, `placed`), attribute and
## subgroups (see pydp.groups.barrier_plan; simt).
<%namespace name="order" file="sort_order.mako"/>
<%namespace name="merging" file="sort_merging.mako"/>
<%namespace name="barriers" file="wg_barrier.mako"/>
% if subgroups:
${barriers.enable_subgroups()}
% endif
${declarations}
${order.less(key, ordering)}
${merging.merging("merge", "global", "long", key, carried, chains, scalar, True)}
<% tile = lanes * items %>
kernel ${one_lane if mapping == "vector" else attribute} void merge_sorted(
    global const ${key}* restrict a, const long a_at, global const ${key}* restrict b, const long b_at,
    global ${key}* restrict out, const long out_at,
% if carried:
    global const ${carried}* restrict a_values, const long a_values_at,
    global const ${carried}* restrict b_values, const long b_values_at,
    global ${carried}* restrict out_values, const long out_values_at,
% endif
    const long left, const long right, const long stretch) {
    a += a_at;
    b += b_at;
% if carried:
    a_values += a_values_at;
    b_values += b_values_at;
% endif
% if mapping == "vector":
    const long start = (long) get_global_id(0) * stretch;
    if (start < left + right)
        merge(a, b, ${"a_values, b_values," if carried else ""} out + out_at + start,
              ${"out_values + out_values_at + start," if carried else ""}
              0, left, left + right, start, min(stretch, left + right - start));
% else:
    local ${key} keys[${tile}];
    local ushort places[${tile}];
    local long splits[2];
    const int lane = (int) get_local_id(0);
    const long start = (long) get_group_id(0) * ${tile};
    const int count = (int) min((long) ${tile}, left + right - start);
    if (lane < 2) splits[lane] = merge_split(a, b, 0, left, left + right, start + (lane ? count : 0));
    ${barriers.synchronize("split", lowerings, lanes)}
    const long a_from = splits[0], b_from = start - a_from;
    const int of_a = (int) (splits[1] - a_from);
    for (int i = lane; i < count; i += ${lanes}) keys[i] = i < of_a ? a[a_from + i] : b[b_from + (i - of_a)];
    ${barriers.synchronize("loaded", lowerings, lanes)}
    const int diagonal = min(lane * ${items}, count);
    int low = max(0, diagonal - (count - of_a)), high = min(diagonal, of_a);
    while (low < high) {
        const int probe = (low + high) / 2;
        if (less(keys[of_a + diagonal - 1 - probe], keys[probe]))
            high = probe;
        else
            low = probe + 1;
    }
    int i_a = low, i_b = of_a + diagonal - low;
    for (int i = diagonal; i < min(diagonal + ${items}, count); ++i) {
        int second = i_a >= of_a;
        if (!second && i_b < count) second = less(keys[i_b], keys[i_a]);
        places[i] = (ushort) (second ? i_b : i_a);
        i_b += second;
        i_a += 1 - second;
    }
    ${barriers.synchronize("placed", lowerings, lanes)}
    for (int i = lane; i < count; i += ${lanes}) {
        const int place = places[i];
        out[out_at + start + i] = keys[place];
% if carried:
        out_values[out_values_at + start + i] =
            place < of_a ? a_values[a_from + place] : b_values[b_from + (place - of_a)];
% endif
    }
% endif
}
