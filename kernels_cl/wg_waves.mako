## Virtual wavefronts and what their lanes share (SPEC S3, shared registers): the work-items of a group run `waves`
## virtual wavefronts in a loop, so that a private variable is the register that lane i of all of them shares. It takes
## in a value of each wavefront and is reduced over the lanes once, at the end.
## Parameters of the calls: waves (constant); name (of the shared registers); type (C type); bins (constant).
<%namespace name="group" file="wg_reduce.mako"/>

## The body for every wavefront, in order; `wave` is its number. Use: <%text><%virtual:each waves="${4}">...</%virtual:each></%text>
<%def name="each(waves, wave='wave')">
% if waves == 1:
    {
        const int ${wave} = 0;
% else:
    for (int ${wave} = 0; ${wave} < ${waves}; ++${wave}) {
% endif
        ${caller.body()}
    }
</%def>

## One register for each lane. `fold` takes a value in from the right with `combine`; where `first` (int expression) holds,
## the value is the lane's first, so that no identity is needed: sums, least, greatest, any associative operator.
<%def name="declare(name, type)">${type} ${name};</%def>
<%def name="fold(name, value, first)">\
if (${first}) ${name} = ${value}; else ${name} = combine(${name}, ${value});\
</%def>

## The fold of all lanes' registers into values[0] (local array; see wg_reduce.mako): the first `holders` lanes have one.
## Absolute addressing: of the group's lanes. Relative: of each of its wavefronts' by itself; `whole` are the group's lanes.
<%def name="finish(name, values, lane, holders, lanes, ways, whole=None)">
    if (${lane} < ${holders}) ${values}[${lane}] = ${name};
    ${group.reduce(values, lane, holders, lanes, ways, group=whole)}
</%def>

## A histogram of few bins in registers: a counter for each bin. Every value is compared with every bin: no atomics, no
## addresses, no two lanes that wait for one another. `add_counters` leaves a lane's counts in local or global memory.
<%def name="counters(name, bins)">uint ${", ".join(f"{name}_{b} = 0" for b in range(bins))};</%def>
<%def name="count(name, bins, bin)">
% for b in range(bins):
            ${name}_${b} += (uint) ((${bin}) == ${b});
% endfor
</%def>
<%def name="add_counters(name, bins, sums)">
% for b in range(bins):
    if (${name}_${b}) atomic_add(${sums} + ${b}, ${name}_${b});
% endfor
</%def>
