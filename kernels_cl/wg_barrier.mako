## The one vocabulary of barriers for every kernel: `${barriers.group_barrier()}`.
## Parameters of the call: memory "local" (default), "global" or "both": which memory is ordered among the lanes.
<%def name="group_barrier(memory='local')"><%
    flags = {"local": "CLK_LOCAL_MEM_FENCE", "global": "CLK_GLOBAL_MEM_FENCE",
             "both": "CLK_LOCAL_MEM_FENCE | CLK_GLOBAL_MEM_FENCE"}
%>barrier(${flags[memory]});</%def>

## One macro for each barrier of a vector function, in source order: `LANE_BARRIER_<n>()`.
## Parameters of the call: lowered, a list of {number, lowering, memory}; lowering "group": all work-items of the group.
<%def name="barrier_macros(lowered)">
% for one in lowered:
#define LANE_BARRIER_${one["number"]}() ${group_barrier(one["memory"])}
% endfor
</%def>
