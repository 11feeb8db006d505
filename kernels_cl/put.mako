## Scatter: target[index(j)] = values[j % period] for all j in order, so that the last one of equal indexes wins.
##
## "vector": put_elements. The target is cut into as many ranges as there are work-groups (of one work-item). Each
## work-item reads all indexes, and stores the elements that fall into its range, in order.
## "simt": three kernels with an int32 owner for each element of the target. put_reset, with a work-item per element, sets
## the owners to -1. put_claim and put_elements, with a work-item per index, find the largest j of each element and store
## its value.
##
## Parameters: word (C type of the words that elements are copied by) · words (per element) · index (C type of the
## indexes) · mode (see take.mako) · mapping · period (values are repeated).
/* The position of index i. Negative indexes are negated in their own type: one driver assumes that a long converted from
   an int is not negative. */
static long place_of(const ${index} i, const long size)
{
% if mode == "plain":
    return i;
% elif mode == "clip":
    return i < 0 ? 0 : i >= size ? size - 1 : i;
% else:
    if (i < 0) {
        const ulong below = (u${index}) ((u${index}) 0 - (u${index}) i); /* 2^63 for the least long */
%   if mode == "negative":
        return size - (long) below;
%   else:
        const long rest = (long) (below % (ulong) size);
        return rest ? size - rest : 0;
%   endif
    }
    return ${"i" if mode == "negative" else "i < size ? i : i % size"};
% endif
}
<% value = "(j + first) % period" if period else "j + first" %>\
% if mapping == "vector":
kernel void put_elements(global ${word}* target, const long target_at, const long size,
                         global const ${index}* indexes, const long indexes_at, const long count,
                         global const ${word}* values, const long values_at, const long period, const long first)
{
    const long each = (size + (long) get_num_groups(0) - 1) / (long) get_num_groups(0);
    const long low = (long) get_group_id(0) * each, high = min(low + each, size);
    for (long j = 0; j < count; ++j) {
        const long to = place_of(indexes[indexes_at + j], size);
        if (to >= low && to < high)
            for (int w = 0; w < ${words}; ++w)
                target[target_at + to * ${words} + w] = values[values_at + (${value}) * ${words} + w];
    }
}
% else:
kernel void put_reset(global int* owners, const long size)
{
    const long k = get_global_id(0);
    if (k < size) owners[k] = -1;
}

kernel void put_claim(global int* owners, global const ${index}* indexes, const long indexes_at, const long count,
                      const long size)
{
    const long j = get_global_id(0);
    if (j < count) atomic_max(owners + place_of(indexes[indexes_at + j], size), (int) j);
}

kernel void put_elements(global ${word}* target, const long target_at, const long size,
                         global const ${index}* indexes, const long indexes_at, const long count,
                         global const ${word}* values, const long values_at, const long period, const long first,
                         global const int* owners)
{
    const long j = get_global_id(0);
    if (j >= count) return;
    const long to = place_of(indexes[indexes_at + j], size);
    if (owners[to] != (int) j) return;
    for (int w = 0; w < ${words}; ++w)
        target[target_at + to * ${words} + w] = values[values_at + (${value}) * ${words} + w];
}
% endif
