## A vector function, a whole group to a work-item (pydp/lang/opencl/vector/__init__.py writes the body).
## Phases: the group's indexes; then, for each stretch between two barriers, loops over the blocks of the group, in which
##   the lanes of a strip are OpenCL vectors. Local arrays are the work-item's own memory; there is no driver barrier.
## Launch: one work-item for each group; dimension 0 is the grid's last axis, 1 the one before, 2 all others (flat: 0 is all).
## Parameters: name; declarations, functions (C text: record types, helpers); arguments (C declarations), body (C text);
##   accesses, maps (see strip_functions.mako); int64_atomics (enable the extension).
<%namespace name="strips" file="strip_functions.mako"/>\
% if int64_atomics:
#pragma OPENCL EXTENSION cl_khr_int64_base_atomics : enable
#pragma OPENCL EXTENSION cl_khr_int64_extended_atomics : enable
% endif
${declarations}
// DIVIDING_LOOP: before a loop that divides integers by others than constants. One driver's compiler ends the process where
// it would make vectors of the rounds of some of them; lanes are vectors already.
#ifdef DIVIDING_LOOPS_AS_WRITTEN
#define DIVIDING_LOOP _Pragma("clang loop vectorize(disable)")
#else
#define DIVIDING_LOOP
#endif
#pragma OPENCL FP_CONTRACT OFF
${functions}
${strips.functions(accesses)}
${strips.mapped(maps)}
__kernel __attribute__((reqd_work_group_size(1, 1, 1)))
void ${name}(${", ".join(arguments)})
{
${body}
}
