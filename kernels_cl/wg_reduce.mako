## Folds one value of each lane of a work-group, in lane order, with any associative operator `combine`.
## Parameters of the call: values (local array of `lanes` elements), lane (int expression), count (number of the first
## lanes that hold a value), lanes (constant), ways (for pydp.groups.barrier_plan.tree: the barrier before the tree, and
## the barriers of its levels by step). The result is values[0]; any lane may read it after the call. With `shared`
## false, only lane 0 may read it, and lanes must not store to `values` before the next barrier: the last barrier is
## omitted. Every wavefront of a work-group may fold separately (relative addressing): `lane`, `count` and `lanes` are
## then within the wavefront, `values` is its own part, and `group` is the number of lanes of the whole work-group.
<%namespace name="barriers" file="wg_barrier.mako"/>
<%def name="reduce(values, lane, count, lanes, ways, shared=True, group=None)">
    ${barriers.meet("first", ways, group or lanes)}
    for (int step_ = 1; step_ < ${lanes if shared else lanes // 2}; step_ *= 2) {
        if (${lane} % (2 * step_) == 0 && ${lane} + step_ < ${count})
            ${values}[${lane}] = combine(${values}[${lane}], ${values}[${lane} + step_]);
        ${barriers.meet("turns", ways, group or lanes, "step_")}
    }
% if not shared and lanes > 1:
    if (${lane} == 0 && ${lanes // 2} < ${count}) ${values}[0] = combine(${values}[0], ${values}[${lanes // 2}]);
% endif
</%def>
