## Macros that pyopencl gives to the C text of callers, for the kernels of pydp.compat.pyopencl. Parameters:
## double_support (whether all devices have float64).
##
## Macros of scans. pyopencl's templates put psc_ before those that its callers' text could define.
<%def name="definitions(double_support)">
#define local_barrier() barrier(CLK_LOCAL_MEM_FENCE);
#define WITHIN_KERNEL /* empty */
#define KERNEL __kernel
#define GLOBAL_MEM __global
#define LOCAL_MEM __local
#define LOCAL_MEM_ARG __local
#define REQD_WG_SIZE(X, Y, Z) __attribute__((reqd_work_group_size(X, Y, Z)))
% for name, function in (("LID", "local_id"), ("GID", "group_id"), ("LDIM", "local_size"), ("GDIM", "num_groups")):
%   for axis in range(3):
#define psc_${name}_${axis} ((ptrdiff_t) get_${function}(${axis}))
%   endfor
% endfor
${double(double_support)}
</%def>
##
<%def name="double(double_support)">
% if double_support:
#if __OPENCL_C_VERSION__ < 120
#pragma OPENCL EXTENSION cl_khr_fp64: enable
#endif
% endif
</%def>
