## Kernels for the tests of the program layer. Launch: any. Parameters: T (a C type), add (a number), fail (bool).
% if fail:
#error "asked to fail"
% endif
__kernel void fill(__global ${T} *out, ${T} value, long offset)
{
    out[offset + (long)get_global_id(0)] = value + ${add};
}

__kernel void shift(__global ${T} *out, __local ${T} *shared)
{
    const int lane = (int)get_local_id(0), size = (int)get_local_size(0);
    shared[lane] = out[get_global_id(0)];
    barrier(CLK_LOCAL_MEM_FENCE);
    out[get_global_id(0)] = shared[size - 1 - lane];
}

__kernel void is_null(__global ${T} *out, __global ${T} *maybe)
{
    out[get_global_id(0)] = maybe == 0;
}
