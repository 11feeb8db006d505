## Parity buffers (SPEC S3, clause temporaries for even and odd wavefronts): the steps of a staging loop use two halves of
## a scratch array in turn, so that a step's stores meet no reads of the step before: one barrier a step, not two.
## With `buffers` 1 there is one array and both barriers; the results are the same.
## Parameters of the calls: buffers (1 or 2), step (int expression, the same in all lanes), size (elements of a half), ways
## (see pydp/groups/barrier_plan.py: barriers named "reads_end" and "stores_end"), lanes of the group.
## A step: [reads_end] stores, stores_end, reads. All lanes come to each; place them in loops with uniform counts only.
<%namespace name="barriers" file="wg_barrier.mako"/>

## Where the step's half begins, in elements, as text.
<%def name="half(buffers, step, size)" buffered="True" filter="trim">
${"0" if buffers == 1 else f"(((({step})) & 1) * ({size}))"}
</%def>

## Before a step's stores: the reads of the step before are over.
<%def name="reads_end(buffers, ways, lanes)">\
% if buffers == 1:
${barriers.meet("reads_end", ways, lanes)}\
% endif
</%def>

## After a step's stores: all lanes may read what any stored.
<%def name="stores_end(ways, lanes)">${barriers.meet("stores_end", ways, lanes)}</%def>
