## Parity buffers (SPEC S3, clause temporaries for even and odd wavefronts): the steps of a staging loop alternate
## between two halves of a scratch array. The stores of a step then cannot conflict with reads of the previous step: one
## barrier per step, not two. With `buffers` 1 there is one array and both barriers; the results are the same.
## Parameters of the calls: buffers (1 or 2), step (int expression, uniform), size (elements of a half), lowerings
## (see pydp/groups/barrier_plan.py: barriers named "reads_end" and "stores_end"), lanes of the work-group.
## A step: [reads_end] stores, stores_end, reads. All lanes must reach each barrier; use uniform loops only.
<%namespace name="barriers" file="wg_barrier.mako"/>

## The start of the step's half in elements, as text.
<%def name="half(buffers, step, size)" buffered="True" filter="trim">
${"0" if buffers == 1 else f"(((({step})) & 1) * ({size}))"}
</%def>

## Before the stores of a step: the reads of the previous step are complete.
<%def name="reads_end(buffers, lowerings, lanes)">\
% if buffers == 1:
${barriers.synchronize("reads_end", lowerings, lanes)}\
% endif
</%def>

## After the stores of a step: all lanes may read all stored values.
<%def name="stores_end(lowerings, lanes)">${barriers.synchronize("stores_end", lowerings, lanes)}</%def>
