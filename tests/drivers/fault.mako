## Kernels with one seeded fault each, to see that the simulator's lane finds it; "none" is the same kernel without.
## Launch: two groups of 16. out: int[32], in: int[32], all set. Parameter: fault.
__kernel void fault(__global int *out, __global const int *in)
{
    __local int shared[16];
    __local int half_set[16];
    const int lane = (int)get_local_id(0);
    const int item = (int)get_global_id(0);
    shared[lane] = 0;
    if (lane < 8)
        half_set[lane] = in[item];
    barrier(CLK_LOCAL_MEM_FENCE);
    shared[lane] = in[item];
% if fault != "race":
    barrier(CLK_LOCAL_MEM_FENCE);
% endif
    int value = shared[15 - lane];
% if fault == "uninitialized":
    value += half_set[lane];
% else:
    value += half_set[lane & 7];
% endif
% if fault == "bounds":
    value += in[item + 1];
% elif fault == "divergence":
    if (lane < 8)
        barrier(CLK_LOCAL_MEM_FENCE);
% elif fault == "global race":
    out[0] = item;
% elif fault == "equal values":
    out[0] = 7;
% endif
    if (item > 0)
        out[item] = value;
}
