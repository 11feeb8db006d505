## A vector function with one work-item per lane (pydp/lang/opencl/simt.py writes the body).
## Phases: the lane's indices, then the user's statements. All lanes of a work-group reach every barrier.
## Launch: whole work-groups. Dimension 0 is the grid's last axis, 1 the one before, 2 all others (flat: 0 is all axes).
## Parameters: name; declarations, functions (C text: record types, helpers); barriers (see wg_barrier.mako);
##   arguments (C declarations), private_fields (whether the body has any), local_arrays (C declarations),
##   shape (of the work-group, by dimension), body (C text);
##   shared_types (types of arrays that share memory with arrays of other types: written as one type, read as another);
##   int64_atomics, subgroups (enable the extension); attribute (of the kernel: the subgroup size, or "").
<%namespace name="wg" file="wg_barrier.mako"/>\
% if int64_atomics:
#pragma OPENCL EXTENSION cl_khr_int64_base_atomics : enable
#pragma OPENCL EXTENSION cl_khr_int64_extended_atomics : enable
% endif
% if subgroups:
${wg.enable_subgroups()}
% endif
${declarations}
% for type in shared_types:
typedef ${type} ${type}_shared __attribute__((may_alias));
% endfor
% if private_fields:
// One driver merges the private arrays of adjacent work-items, and then reads them out of bounds.
#ifdef PRIVATE_FIELDS_APART
#define PRIVATE_FIELD volatile
#else
#define PRIVATE_FIELD
#endif
% endif
#pragma OPENCL FP_CONTRACT OFF
// The work-item's linear index in the launch, dimension 0 fastest.
#define LANE_NUMBER (get_global_id(0) + (long)get_global_size(0) * ((long)get_global_size(1) * get_global_id(2) + get_global_id(1)))
${functions}
${wg.barrier_macros(barriers)}
__kernel __attribute__((reqd_work_group_size(${", ".join(str(size) for size in shape)}))) ${attribute}
void ${name}(${", ".join(arguments)})
{
% for declaration in local_arrays:
    ${declaration};
% endfor
${body}
}
