## Kernels for the tests of the group-level blocks. Launch: groups of `lanes`, all on dimension 0.
## Parameters: test ("exchange", "folds", "counters", "constants", "parity"), type, lanes, attribute, subgroups, lowerings, and
## those of the test: x (Exchange.params()); waves, runs, items, bins; count; buffers.
<%namespace name="barriers" file="wg_barrier.mako"/>\
<%namespace name="exchange" file="wg_exchange.mako"/>\
<%namespace name="virtual" file="wg_waves.mako"/>\
<%namespace name="constants" file="wg_lane_constants.mako"/>\
<%namespace name="parity" file="wg_parity.mako"/>\
% if subgroups:
${barriers.enable_subgroups()}
% endif
% if test == "exchange":
// Every lane stores its values, slot by slot, then reads slot (s + 1) % slots of the lane that `from` names.
kernel ${attribute} void exchanged(global const ${type}* values, global const int* from, global ${type}* out) {
    ${exchange.declare("own", type, x)}
    const int lane = (int) get_local_id(0);
    const long first = (long) get_group_id(0) * ${lanes * x["slots"]};
    for (int s = 0; s < ${x["slots"]}; ++s)
        own[${exchange.own(x, "lane", "s")}] = values[first + lane * ${x["slots"]} + s];
    ${exchange.synchronize(x, lowerings)}
    const int other = from[lane];
    for (int s = 0; s < ${x["slots"]}; ++s)
        out[first + lane * ${x["slots"]} + s] = own[${exchange.of(x, "lane", "other", f"(s + 1) % {x['slots']}")}];
}
% elif test == "folds":
${operator}
// The fold of a group's share of x: `waves` wavefronts of one element for each lane, until `count` are read. With `runs`
// each run of so many lanes folds by itself, and out has a place for each.
kernel ${attribute} void folded(global const ${type}* x, const int count, global ${type}* out) {
    local ${type} values[${lanes}];
    const int lane = (int) get_local_id(0);
    x += (long) get_group_id(0) * count;
    ${virtual.declare("sum", type)}
    for (int begin = 0; begin < count; begin += ${waves * lanes}) {
<%virtual:each waves="${waves}">
        const int i = begin + wave * ${lanes} + lane;
        if (i < count) {
            ${virtual.fold("sum", "x[i]", "begin == 0 && wave == 0")}
        }
</%virtual:each>
    }
% if runs:
    const int own = lane % ${runs}, first = lane - own;
    local ${type}* const part = values + first;
    const int holders = clamp(count - first, 0, ${runs});
    ${virtual.finish("sum", "part", "own", "holders", runs, lowerings, lanes)}
    if (own == 0 && holders) out[get_global_id(0) / ${runs}] = part[0];
% else:
    const int holders = min(${lanes}, count);
    ${virtual.finish("sum", "values", "lane", "holders", lanes, lowerings)}
    if (lane == 0) out[get_group_id(0)] = values[0];
% endif
}
% elif test == "counters":
kernel ${attribute} void counted(global const ${type}* x, const int count, global uint* out) {
    const int lane = (int) get_local_id(0);
    x += (long) get_group_id(0) * count;
    ${virtual.counters("seen", bins)}
    for (int begin = 0; begin < count; begin += ${waves * lanes}) {
<%virtual:each waves="${waves}">
        const int i = begin + wave * ${lanes} + lane;
        const int bin = i < count ? (int) x[i] : -1;
        ${virtual.count("seen", bins, "bin")}
</%virtual:each>
    }
    ${virtual.add_counters("seen", bins, f"out + get_group_id(0) * {bins}")}
}
% elif test == "constants":
// out = how many of the lane's own sorted thresholds a value reaches, plus the lane's first threshold, for every wave.
kernel ${attribute} void placed(global const ${type}* thresholds, global const ${type}* x, global ${type}* out) {
    const int lane = (int) get_local_id(0);
    ${constants.load("t", type, count, "thresholds + lane", lanes)}
<%virtual:each waves="${waves}">
    const long i = (long) get_group_id(0) * ${waves * lanes} + wave * ${lanes} + lane;
    out[i] = (${type}) ${constants.reached("t", 0, count, "x[i]")} + t_0;
</%virtual:each>
}
% elif test == "parity":
// Each step every lane stores, and adds what the lane that many places on stored.
kernel ${attribute} void rotated(global const ${type}* x, const int steps, global ${type}* out) {
    local ${type} scratch[${buffers * lanes}];
    const int lane = (int) get_local_id(0);
    ${type} sum = x[get_global_id(0)];
    for (int step = 0; step < steps; ++step) {
        ${parity.reads_end(buffers, lowerings, lanes)}
        scratch[${parity.half(buffers, "step", lanes)} + lane] = sum;
        ${parity.stores_end(lowerings, lanes)}
        sum += scratch[${parity.half(buffers, "step", lanes)} + (lane + step + 1) % ${lanes}];
    }
    out[get_global_id(0)] = sum;
}
% endif
