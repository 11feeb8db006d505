## Kernels that measure the limits of a device, for bench/limits.py.
##
## Purpose: peak (chains of fused multiply-adds in registers), copy (read + write), read (sum). Phases: one each.
##   Launch shape: (items) x (group). Parameters: type (C scalar), width (lanes of a vector), chains (independent
##   accumulators), group, fused, hints (limit_copy uses nontemporal stores, limit_read prefetches).
##   copy and read: every work-item processes `each` vectors with a stride of `stride` vectors (CPUs: 1, contiguous
##   runs; GPUs: the number of work-items, coalesced).
<%namespace name="memory" file="prefetch.mako"/>
<% VEC = f"{type}{width}" if width > 1 else type %>\
% if type == "double":
#ifdef cl_khr_fp64
#pragma OPENCL EXTENSION cl_khr_fp64 : enable
#endif
% endif
__kernel __attribute__((reqd_work_group_size(${group}, 1, 1)))
void limit_peak(__global ${VEC} *out, int steps, ${type} x)
{
  const ${VEC} y = (${VEC})((${type})0.9999), z = (${VEC})(x);
% for i in range(chains):
  ${VEC} v${i} = (${VEC})(x * (${type})${i} + (${type})get_global_id(0));
% endfor
  for (int i = 0; i < steps; i++) {
% for u in range(4):
% for i in range(chains):
    v${i} = ${"fma(" + f"v{i}, y, z)" if fused else f"v{i} * y + z"};
% endfor
% endfor
  }
  out[get_global_id(0)] = ${" + ".join(f"v{i}" for i in range(chains))};
}

__kernel __attribute__((reqd_work_group_size(${group}, 1, 1)))
void limit_copy(const __global ${VEC} *from, __global ${VEC} *to, int each, long stride) /* may be the same array */
{
  const long first = stride == 1 ? (long)get_global_id(0) * each : (long)get_global_id(0);
  for (int i = 0; i < each; i++)
% if hints:
    __builtin_nontemporal_store(from[first + i * stride], to + first + i * stride);
% else:
    to[first + i * stride] = from[first + i * stride];
% endif
}

__kernel __attribute__((reqd_work_group_size(${group}, 1, 1)))
void limit_read(const __global ${VEC} *restrict from, __global ${VEC} *restrict to, int each, long stride)
{
  const long first = stride == 1 ? (long)get_global_id(0) * each : (long)get_global_id(0);
  ${VEC} ${", ".join(f"s{u} = ({VEC})(0)" for u in range(8))};
  int i = 0;
  for (; i + 8 <= each; i += 8) {
% if hints:
    ${memory.ahead("from + first + i", 8 * width * (8 if type == "double" else 4))}
% endif
% for u in range(8):
    s${u} += from[first + (i + ${u}) * stride];
% endfor
  }
  for (; i < each; i++)
    s0 += from[first + i * stride];
  to[get_global_id(0)] = ${" + ".join(f"s{u}" for u in range(8))};
}
