## Sorts the tiles of a row by work-groups: the first stage of a stable merge sort (GPU mapping).
## Phases: each lane reads `items` adjacent elements and sorts them in registers by an odd-even transposition sort. It
## keeps equal elements in order, and its loops have a constant length (a variable index would move a private array to
## memory). Then the work-group merges runs in local memory, doubling their width; every lane writes `items` results,
## found by merge path. The tile is written to contiguous rows.
## Only the lanes of a pair of runs exchange elements: 2 * width / items lanes synchronize for a run length of `width`.
## Launch: one work-group per tile, `per_row` for each row.
## Parameters: declarations, key, ordering (see sort_order), lanes, items (powers of two),
## carried (C type of the carried values, or None), positions (the carried values are the elements' positions),
## key_skew, carried_skew (one unused element of local memory after each so many, against bank conflicts; 0: none),
## lowerings (of the barriers `loaded`, `merged`, `placed`), attribute and subgroups (see pydp.groups.barrier_plan).
<%namespace name="order" file="sort_order.mako"/>
<%namespace name="barriers" file="wg_barrier.mako"/>
<%
    tile = lanes * items
    skewed = lambda every: f"((i) + (i) / {every})" if every else "(i)"
    size = lambda every: tile + (tile // every if every else 0)
%>
% if subgroups:
${barriers.enable_subgroups()}
% endif
${declarations}
${order.less(key, ordering)}
#define KEY_AT(i) keys[${skewed(key_skew)}]
#define HELD_AT(i) held[${skewed(carried_skew)}]

kernel ${attribute} void sort_tile(global const ${key}* restrict source, const ulong source_offset, const long stride,
                      const long row_stride, global ${key}* restrict target, const ulong n,
                      const ulong per_row
% if carried:
% if not positions:
                      , global const ${carried}* restrict values, const ulong values_offset
% endif
                      , global ${carried}* restrict target_values
% endif
                      ) {
    local ${key} keys[${size(key_skew)}];
    ${key} mine[${items}];
% if carried:
    local ${carried} held[${size(carried_skew)}];
    ${carried} my_value[${items}];
% endif
    const ulong row = get_group_id(0) / per_row;
    const ulong start = get_group_id(0) % per_row * (ulong) ${tile};
    const int count = (int) min((ulong) ${tile}, n - start);
    const int lane = (int) get_local_id(0);
    const int first = lane * ${items};
    source += (long) source_offset + (long) row * row_stride + (long) start * stride;
    for (int i = lane; i < count; i += ${lanes}) {
        KEY_AT(i) = source[i * stride];
% if carried:
        HELD_AT(i) = ${f'({carried}) (start + (ulong) i)' if positions else 'values[values_offset + row * n + start + (ulong) i]'};
% endif
    }
    ${barriers.synchronize("loaded", lowerings, lanes)}
    const int own = clamp(count - first, 0, ${items});
    for (int i = 0; i < ${items}; ++i)
        if (i < own) {
            mine[i] = KEY_AT(first + i);
% if carried:
            my_value[i] = HELD_AT(first + i);
% endif
        }
% for turn in range(items):
    for (int i = ${turn % 2}; i + 1 < ${items}; i += 2)
        if (i + 1 < own && less(mine[i + 1], mine[i])) {
            const ${key} moved = mine[i];
            mine[i] = mine[i + 1];
            mine[i + 1] = moved;
% if carried:
            const ${carried} moved_value = my_value[i];
            my_value[i] = my_value[i + 1];
            my_value[i + 1] = moved_value;
% endif
        }
% endfor
    for (int width = ${items}; width < ${tile}; width *= 2) {
        ${barriers.synchronize("merged", lowerings, lanes, "width")}
        for (int i = 0; i < ${items}; ++i)
            if (i < own) {
                KEY_AT(first + i) = mine[i];
% if carried:
                HELD_AT(first + i) = my_value[i];
% endif
            }
        ${barriers.synchronize("placed", lowerings, lanes, "width")}
        const int pair = first / (2 * width) * (2 * width);
        const int middle = min(pair + width, count), end = min(pair + 2 * width, count);
        const int diagonal = first - pair;
        int low = max(0, diagonal - (end - middle)), high = min(diagonal, middle - pair);
        while (low < high) {
            const int probe = (low + high) / 2;
            if (less(KEY_AT(middle + diagonal - 1 - probe), KEY_AT(pair + probe)))
                high = probe;
            else
                low = probe + 1;
        }
        int a = pair + low, b = middle + diagonal - low;
        for (int i = 0; i < ${items}; ++i)
            if (i < own) {
                int second = a >= middle;
                if (!second && b < end) second = less(KEY_AT(b), KEY_AT(a));
                const int chosen = second ? b : a;
                mine[i] = KEY_AT(chosen);
% if carried:
                my_value[i] = HELD_AT(chosen);
% endif
                b += second;
                a += 1 - second;
            }
    }
    target += row * n + start;
% if carried:
    target_values += row * n + start;
% endif
    for (int i = 0; i < ${items}; ++i)
        if (i < own) {
            target[first + i] = mine[i];
% if carried:
            target_values[first + i] = my_value[i];
% endif
        }
}
