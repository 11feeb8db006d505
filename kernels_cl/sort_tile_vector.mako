## Sorts runs of a row: the first stage of a stable merge sort with one work-item per run (CPU mapping).
## Phases: read a run (any stride), sort pieces of `small` by insertion, merge the pieces in private memory until the
## run is sorted, write it to contiguous rows.
## Launch: one work-item per run, `per_row` for each row.
## Parameters: declarations, key (C type), ordering (see sort_order), run (elements: a power of two times small), small,
## carried (C type of the carried values, or None), positions (the carried values are the elements' positions), chains,
## scalar (see sort_merging).
<%namespace name="order" file="sort_order.mako"/>
<%namespace name="merging" file="sort_merging.mako"/>
${declarations}
${order.less(key, ordering)}
<%def name="block(name, qualifier='')">${qualifier}${key}* ${name}_key${f', {qualifier}{carried}* {name}_value' if carried else ''}</%def>
<%def name="given(name, at)">${name}_key + ${at}${f', {name}_value + {at}' if carried else ''}</%def>

static void insertion(${block("x")}, int n) {
    for (int i = 1; i < n; ++i) {
        const ${key} moved = x_key[i];
        if (!less(moved, x_key[i - 1])) continue;
% if carried:
        const ${carried} moved_value = x_value[i];
% endif
        int j = i;
        do {
            x_key[j] = x_key[j - 1];
% if carried:
            x_value[j] = x_value[j - 1];
% endif
            --j;
        } while (j > 0 && less(moved, x_key[j - 1]));
        x_key[j] = moved;
% if carried:
        x_value[j] = moved_value;
% endif
    }
}

${merging.merging("merge", "", "int", key, carried, chains, scalar)}

static void merge_all(${block("from", "const ")}, ${block("to")}, int width, int count) {
    for (int left = 0; left < count; left += 2 * width)
        merge(${given("from", 0)}, ${given("to", "left")}, left, min(left + width, count), min(left + 2 * width, count),
              0, min(2 * width, count - left));
}

kernel ${one_lane} void sort_tile(global const ${key}* restrict source, const ulong source_offset, const long stride,
                      const long row_stride, global ${key}* restrict target, const ulong n,
                      const ulong per_row
% if carried:
% if not positions:
                      , global const ${carried}* restrict values, const ulong values_offset
% endif
                      , global ${carried}* restrict target_values
% endif
                      ) {
    const ulong row = get_global_id(0) / per_row;
    const ulong start = get_global_id(0) % per_row * (ulong) ${run};
% if run == 1:
    target[row * n + start] = source[(long) source_offset + (long) row * row_stride + (long) start * stride];
% if carried:
    target_values[row * n + start] = ${'(%s) start' % carried if positions else 'values[values_offset + row * n + start]'};
% endif
% else:
    const int count = (int) min((ulong) ${run}, n - start);
    ${key} one_key[${run}], two_key[${run}];
% if carried:
    ${carried} one_value[${run}], two_value[${run}];
% endif
    source += (long) source_offset + (long) row * row_stride + (long) start * stride;
    for (int i = 0; i < count; ++i) {
        one_key[i] = source[i * stride];
% if carried:
        one_value[i] = ${f'({carried}) (start + (ulong) i)' if positions else 'values[values_offset + row * n + start + (ulong) i]'};
% endif
    }
    for (int i = 0; i < count; i += ${small})
        insertion(${given("one", "i")}, min(${small}, count - i));
    int in_one = 1;
    for (int width = ${small}; width < count; width *= 2) {
        if (in_one)
            merge_all(${given("one", 0)}, ${given("two", 0)}, width, count);
        else
            merge_all(${given("two", 0)}, ${given("one", 0)}, width, count);
        in_one = !in_one;
    }
    target += row * n + start;
% if carried:
    target_values += row * n + start;
% endif
    for (int i = 0; i < count; ++i) {
        target[i] = in_one ? one_key[i] : two_key[i];
% if carried:
        target_values[i] = in_one ? one_value[i] : two_value[i];
% endif
    }
% endif
}
