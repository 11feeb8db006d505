## Folds one value of each lane of a work-group, in lane order, with any associative operator `combine`.
## Parameters of the call: values (local array of `lanes` elements), lane (int expression), count (number of the first
## lanes that hold a value), lanes (constant), lowerings (of the barriers of pydp.groups.barrier_plan.tree: "first"
## before the tree, "steps" by the step of each level). The result is values[0]; any lane may read it after the call.
## With `shared` false, only lane 0 may read it, and lanes must not store to `values` before the next barrier: the last
## barrier is omitted. Every wavefront of a work-group may fold separately (relative addressing): `lane`, `count` and
## `lanes` are then within the wavefront, `values` is its own part, and `group` is the number of lanes of the whole
## work-group.
<%namespace name="barriers" file="wg_barrier.mako"/>
<%def name="reduce(values, lane, count, lanes, lowerings, shared=True, group=None)">
    ${barriers.synchronize("first", lowerings, group or lanes)}
    for (int step_ = 1; step_ < ${lanes if shared else lanes // 2}; step_ *= 2) {
        if (${lane} % (2 * step_) == 0 && ${lane} + step_ < ${count})
            ${values}[${lane}] = combine(${values}[${lane}], ${values}[${lane} + step_]);
        ${barriers.synchronize("steps", lowerings, group or lanes, "step_")}
    }
% if not shared and lanes > 1:
    if (${lane} == 0 && ${lanes // 2} < ${count}) ${values}[0] = combine(${values}[0], ${values}[${lanes // 2}]);
% endif
</%def>
