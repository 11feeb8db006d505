## The start of the group of each key in sorted keys (KeyValueSorter of pydp.compat.pyopencl.algorithm). Element j of
## `starts` is the number of keys below j.
## On CPUs ("vector"), a work-item for each chunk of keys fills the elements between adjacent keys. On GPUs ("simt"), a
## work-item for each element searches the keys.
## Parameters: mapping; key, start: C types.
% if mapping == "vector":
kernel __attribute__((reqd_work_group_size(1, 1, 1)))
void psc_starts(global ${start}* restrict starts, const long starts_offset, global const ${key}* restrict keys,
                const long keys_offset, const long n, const long nkeys, const long part) {
    starts = (global ${start}*) ((global char*) starts + starts_offset);
    keys = (global const ${key}*) ((global const char*) keys + keys_offset);
    const long begin = get_group_id(0) * part, end = min(n, begin + part);
    long before = begin ? (long) keys[begin - 1] : -1;
    for (long i = begin; i < end; ++i) {
        const long mine = (long) keys[i];
        for (; before < mine; ++before) starts[before + 1] = (${start}) i;
    }
    if (end == n)
        for (; before < nkeys; ++before) starts[before + 1] = (${start}) n;
}
% else:
kernel void psc_starts(global ${start}* restrict starts, const long starts_offset, global const ${key}* restrict keys,
                       const long keys_offset, const long n, const long nkeys, const long part) {
    starts = (global ${start}*) ((global char*) starts + starts_offset);
    keys = (global const ${key}*) ((global const char*) keys + keys_offset);
    const long j = get_global_id(0);
    if (j > nkeys) return;
    long low = 0, high = n;
    while (low < high) {
        const long middle = low + (high - low) / 2;
        if ((long) keys[middle] < j) low = middle + 1;
        else high = middle;
    }
    starts[j] = (${start}) low;
}
% endif
