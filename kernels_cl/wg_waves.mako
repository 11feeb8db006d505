## Virtual wavefronts and the registers that their lanes share (SPEC S3, shared registers). The work-items of a
## work-group run `waves` virtual wavefronts in a loop: lane i of all wavefronts shares a private variable (a register).
## It accumulates a value of each wavefront. The registers are reduced over the lanes once, at the end.
## Parameters of the calls: waves (constant); name (of the shared registers); type (C type); bins (constant).
<%namespace name="group" file="wg_reduce.mako"/>

## The body for each wavefront; `wave` is its number. Use: <%text><%virtual:each waves="${4}">...</%virtual:each></%text>
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

## One register for each lane. `fold` combines a value from the right with `combine`. If `first` (int expression) is
## true, the value initializes the register. Therefore no identity is needed, for any associative operator.
<%def name="declare(name, type)">${type} ${name};</%def>
<%def name="fold(name, value, first)">\
if (${first}) ${name} = ${value}; else ${name} = combine(${name}, ${value});\
</%def>

## Folds all lanes' registers into values[0] (local array; see wg_reduce.mako). The first `holders` lanes hold a value.
## Absolute addressing: over the work-group's lanes. Relative: over each wavefront separately; `whole` is the number of
## lanes of the work-group.
<%def name="finish(name, values, lane, holders, lanes, lowerings, whole=None)">
    if (${lane} < ${holders}) ${values}[${lane}] = ${name};
    ${group.reduce(values, lane, holders, lanes, lowerings, group=whole)}
</%def>

## A histogram of few bins in registers: one counter for each bin. Every value is compared with every bin: no atomics,
## no addresses, no waiting between lanes. `add_counters` stores a lane's counts in local or global memory.
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
