## Micro-kernels that measure device properties that no driver reports, for pydp/model/calibration.py (bench_limits.mako
## measures peaks and memory).
##
## Purpose: calibrate_cache: `rounds` reads of `each` vectors that stay in a core's cache. calibrate_empty: work-groups
##   that do almost nothing. calibrate_lanes: multiply-adds in local memory, with barriers between them.
## Phases: one each. Launch shape: cache, empty: work-groups of one work-item; lanes: work-groups of `group` work-items.
## Parameters: width (lanes of a vector), group, steps (multiply-adds between two barriers), fused.
<%namespace name="barriers" file="wg_barrier.mako"/>\
<% VEC = f"float{width}" if width > 1 else "float" %>\
__kernel __attribute__((reqd_work_group_size(1, 1, 1)))
void calibrate_cache(const __global ${VEC} *restrict from, __global ${VEC} *restrict to, int each, int rounds)
{
  const __global ${VEC} *own = from + (long)get_group_id(0) * each;
  ${VEC} ${", ".join(f"s{u} = ({VEC})(0)" for u in range(8))};
  for (int round = 0; round < rounds; round++) {
    for (int i = 0; i + 8 <= each; i += 8) {
% for u in range(8):
      s${u} += own[i + ${u}];
% endfor
    }
  }
  to[get_group_id(0)] = ${" + ".join(f"s{u}" for u in range(8))};
}

__kernel __attribute__((reqd_work_group_size(1, 1, 1)))
void calibrate_empty(__global float *to)
{
  if (get_group_id(0) == 0)
    to[0] = 1.0f;
}

__kernel __attribute__((reqd_work_group_size(${group}, 1, 1)))
void calibrate_lanes(__global float *to, int rounds)
{
  __local float tile[${group}];
  const int lane = (int)get_local_id(0);
  float ${", ".join(f"s{u} = 0.0f" for u in range(4))};
  tile[lane] = (float)lane;
  ${barriers.group_barrier()}
  for (int round = 0; round < rounds; round++) {
    for (int i = 0; i < ${steps}; i++) {
      const float v = tile[(lane + i) % ${group}];
% for u in range(4):
      s${u} = ${f"fma(v, {u + 1}.0f, s{u})" if fused else f"v * {u + 1}.0f + s{u}"};
% endfor
    }
    ${barriers.group_barrier()}
  }
  to[get_global_id(0)] = s0 + s1 + s2 + s3;
}
