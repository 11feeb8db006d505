## The one vocabulary of barriers for every kernel: `${barriers.group_barrier()}`.
## Parameters of the call: memory "local" (default), "global" or "both": which memory is ordered among the lanes.
<%def name="group_barrier(memory='local')"><%
    flags = {"local": "CLK_LOCAL_MEM_FENCE", "global": "CLK_GLOBAL_MEM_FENCE",
             "both": "CLK_LOCAL_MEM_FENCE | CLK_GLOBAL_MEM_FENCE"}
%>barrier(${flags[memory]});</%def>
