## A vector function with one work-item per work-group (pydp/lang/opencl/vector/__init__.py writes the body).
## Phases: the work-group's indices; then, between each two barriers, loops over the blocks of the work-group. The lanes
##   of a strip are OpenCL vectors. Local arrays are private memory of the work-item; there are no OpenCL barriers.
## Launch: one work-item per work-group. Dimension 0 is the grid's last axis, 1 the one before, 2 all others (flat: 0 is
##   all axes).
## Parameters: name; declarations, functions (C text: record types, helpers); arguments (C declarations), body (C text);
##   in_memory, streams, accesses, maps (see strip_functions.mako); int64_atomics (enable the extension).
<%namespace name="strips" file="strip_functions.mako"/>\
% if int64_atomics:
#pragma OPENCL EXTENSION cl_khr_int64_base_atomics : enable
#pragma OPENCL EXTENSION cl_khr_int64_extended_atomics : enable
% endif
${declarations}
// DIVIDING_LOOP: before a loop with integer divisions by non-constants. One driver's compiler crashes when it
// vectorizes some of these loops. Lanes are vectors already.
#ifdef DIVIDING_LOOPS_AS_WRITTEN
#define DIVIDING_LOOP _Pragma("clang loop vectorize(disable)")
#else
#define DIVIDING_LOOP
#endif
#pragma OPENCL FP_CONTRACT OFF
${functions}
${strips.adjacent(in_memory)}
${strips.streamed(streams)}
${strips.functions(accesses)}
${strips.mapped(maps)}
__kernel ${one_lane} __attribute__((reqd_work_group_size(1, 1, 1)))
void ${name}(${", ".join(arguments)})
{
${body}
}
