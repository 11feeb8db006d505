## Folds one value of each lane of a group, in the lanes' order, with any associative operator `combine`.
## Parameters of the call: values (local array of `lanes` elements), lane (int expression), count (how many of the
## first lanes hold a value), lanes (constant), ways (of the needs of pydp.groups.barrier_plan.tree: the barrier before
## the tree, and those of its turns by the step). The result is values[0], to be read after the call by any lane; with
## `shared` false by lane 0 only, and before a barrier the lanes store to other arrays only: the last barrier is left out.
## Every wavefront of a group may fold by itself (relative addressing): `lane`, `count` and `lanes` are then within it,
## `values` is its own part, and `group` the lanes of the whole group.
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
