## The barriers of all kernels: `${barriers.group_barrier()}` for all work-items of the work-group, or
## `${barriers.synchronize(name, lowerings, size)}` for a barrier whose width the algorithm sets
## (pydp/groups/barrier_plan.py). Both use `${barriers.barrier(kind, width)}` for runs of `width` lanes
## (pydp/groups/barrier.py chooses the kind).
## Parameters of the calls: memory "local" (default), "global" or "both": the memory that is ordered between the lanes;
## size: lanes of the work-group. lane_id() is the lane's index within it.
<%!
    FLAGS = {"local": "CLK_LOCAL_MEM_FENCE", "global": "CLK_GLOBAL_MEM_FENCE",
             "both": "CLK_LOCAL_MEM_FENCE | CLK_GLOBAL_MEM_FENCE"}
%>
<%def name="group_barrier(memory='local')">barrier(${FLAGS[memory]});</%def>

<%def name="lane_id()">\
((int)((get_local_id(2) * get_local_size(1) + get_local_id(1)) * get_local_size(0) + get_local_id(0)))\
</%def>

## kind "none" (lanes in lockstep: only keeps the compiler from moving accesses), "subgroup", "warp" (NVIDIA),
## "named" (NVIDIA: `width` lanes, whole warps; each number of runs has its own ids), "group".
<%def name="barrier(kind, width=1, size=1, memory='local')">\
% if kind == "group":
${group_barrier(memory)}\
% elif kind == "subgroup":
sub_group_barrier(${FLAGS[memory]});\
% elif kind == "warp":
__asm__ volatile("bar.warp.sync 0xffffffff;" : : : "memory");\
% elif kind == "named":
__asm__ volatile("barrier.sync %0, ${width};" : : "r"(${size // width} + ${lane_id()} / ${width}) : "memory");\
% elif width > 1:
mem_fence(${FLAGS[memory]});\
% endif
</%def>

## Enables the extension for subgroup barriers; not needed from OpenCL C 3.0.
<%def name="enable_subgroups()">
#pragma OPENCL EXTENSION cl_khr_subgroups : enable
</%def>

## Selects a barrier by the number `by`: the first of `cases` with by < below.
<%def name="by_cases(by, cases, size, memory='local')">\
% for case in cases:
${"" if loop.first else "else "}${"" if case["below"] is None else f"if ({by} < {case['below']}) "}\
{ ${barrier(case["kind"], case["width"], size, memory).strip()} } \
% endfor
</%def>

## The barrier `name` of a template, as planned by pydp/groups/barrier_plan.py, for the number `by` if it depends on
## one.
<%def name="synchronize(name, lowerings, size, by='0', memory='local')">\
/* barrier: ${name} */ ${by_cases(by, lowerings[name], size, memory)}\
</%def>

## One macro for each barrier of a vector function, in source order: `LANE_BARRIER_<n>(by)`.
## Parameters of the call: lowered, a list of {number, memory, size, cases}; cases: a list of {below, kind, width},
## tested in order for the number `by` (a loop iteration, or a width known at run time); below None: every number.
<%def name="barrier_macros(lowered)">
% for one in lowered:
#define LANE_BARRIER_${one["number"]}(by) ${by_cases("(by)", one["cases"], one["size"], one["memory"])}
% endfor
</%def>
