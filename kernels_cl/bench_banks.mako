## Measures the cost of bank conflicts: each lane reads words of local memory at a distance of `stride`. The address of
## a read depends on the previous read.
## Kernel bench_banks(out, repeats): any number of work-groups of `lanes` work-items.
## Parameters: lanes, stride (in words), words (of local memory; a power of two).
<%namespace name="barriers" file="wg_barrier.mako"/>\
__kernel __attribute__((reqd_work_group_size(${lanes}, 1, 1)))
void bench_banks(__global int *out, const int repeats)
{
    __local int memory[${words}];
    const int lane = (int)get_local_id(0);
    for (int i = lane; i < ${words}; i += ${lanes}) memory[i] = 0;
    ${barriers.group_barrier()}
    int at = lane * ${stride} & ${words - 1}, sum = 0;
    for (int repeat = 0; repeat < repeats; ++repeat) {
        const int value = memory[at];
        sum += value;
        at = (at + value + ${stride * lanes + 32}) & ${words - 1};
    }
    out[get_global_id(0)] = sum;
}
