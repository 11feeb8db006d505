## Measures the cost of barriers: each work-item adds to its slot of local memory, with a barrier after each addition,
## and reads the slot of another lane within the width of the barrier.
## Kernel bench_barriers(out, repeats): any number of work-groups.
## Parameters: lanes (of the work-group, on dimension 0), kind, width, synchronized (lanes that the barrier synchronizes),
##   attribute, subgroups (enable the extension).
<%namespace name="barriers" file="wg_barrier.mako"/>\
% if subgroups:
${barriers.enable_subgroups()}
% endif
__kernel __attribute__((reqd_work_group_size(${lanes}, 1, 1))) ${attribute}
void bench_barriers(__global int *out, const int repeats)
{
    __local int slots[2][${lanes}];
    const int lane = (int)get_local_id(0);
    const int other = lane ^ ${width // 2};
    int value = lane;
    for (int repeat = 0; repeat < repeats; ++repeat) {
        slots[repeat & 1][lane] = value;
        ${barriers.barrier(kind, synchronized, lanes)}
        value += slots[repeat & 1][other];
    }
    out[get_global_id(0)] = value;
}
