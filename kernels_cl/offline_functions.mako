## OpenCL C functions that libclc lacks, for offline compilation: 64-bit atomics and the subgroup barrier.
## No kernel and no launch: the text precedes a kernel. Parameters: vendor, "nvidia" or "amd".
<%def name="inline()">__attribute__((overloadable, gnu_inline, always_inline)) extern inline</%def>
${inline()} void sub_group_barrier(cl_mem_fence_flags flags) {
% if vendor == "nvidia":
    __nvvm_bar_warp_sync(0xffffffffu);
% else:
    __builtin_amdgcn_fence(__ATOMIC_RELEASE, "wavefront");
    __builtin_amdgcn_wave_barrier();
    __builtin_amdgcn_fence(__ATOMIC_ACQUIRE, "wavefront");
% endif
}
% for T in ("long", "ulong"):
% for space in ("__global", "__local"):
% for name in ("add", "sub", "and", "or", "xor", "min", "max"):
${inline()} ${T} atom_${name}(
    volatile ${space} ${T}* place, ${T} value) {
    return __atomic_fetch_${name}(place, value, __ATOMIC_RELAXED);
}
% endfor
${inline()} ${T} atom_xchg(
    volatile ${space} ${T}* place, ${T} value) {
    return __atomic_exchange_n(place, value, __ATOMIC_RELAXED);
}
${inline()} ${T} atom_inc(volatile ${space} ${T}* place) {
    return __atomic_fetch_add(place, (${T})1, __ATOMIC_RELAXED);
}
${inline()} ${T} atom_dec(volatile ${space} ${T}* place) {
    return __atomic_fetch_sub(place, (${T})1, __ATOMIC_RELAXED);
}
${inline()} ${T} atom_cmpxchg(
    volatile ${space} ${T}* place, ${T} expected, ${T} value) {
    __atomic_compare_exchange_n(place, &expected, value, false, __ATOMIC_RELAXED, __ATOMIC_RELAXED);
    return expected;
}
% endfor
% endfor
