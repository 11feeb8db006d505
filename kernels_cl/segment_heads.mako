## Head flags of runs of equal keys along one axis: flags[o, i, k] = 1 if i is 0 or key i differs from key i - 1.
## Launch: one work-item for each element (outer x n x inner, contiguous). No local memory, no barrier.
## Parameters: declarations, key (C type), differ (the C function `int differ(key, key)`), reverse (compare with key
## i + 1 instead, and set the flag of the last one).
${declarations}
${differ}
kernel void segment_heads(global const ${key}* restrict keys, const long keys_at, global uchar* restrict flags,
                          const long flags_at, const long n, const long inner, const long count) {
    const long at = (long) get_global_id(0);
    if (at < count) {
        const long i = at / inner % n;
        uchar flag = 1;
% if reverse:
        if (i < n - 1) flag = (uchar) (differ(keys[keys_at + at], keys[keys_at + at + inner]) != 0);
% else:
        if (i > 0) flag = (uchar) (differ(keys[keys_at + at - inner], keys[keys_at + at]) != 0);
% endif
        flags[flags_at + at] = flag;
    }
}
