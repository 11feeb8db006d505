## The last of three partitions of `part` elements looks back, in place, at neighbours that publish little. The first
## has published its prefix; what the second does is scripted, by the same work-item.
## Launch: one work-item, which looks; with `again` set nothing else happens. Parameters: type (C type of the value),
## part, owner ("absent": it has not run; "done": it has kept its aggregate and overwritten its elements; "wakes": it
## does so while its aggregate is recomputed; "unseen": it has published its aggregate, which plain loads do not see),
## head (whether a segment begins in the second partition); those of wg_lookback.mako.
<%namespace name="lookback" file="wg_lookback.mako"/>
typedef ${type} VALUE;
static VALUE combine(const VALUE a, const VALUE b) { return a * (VALUE) 3 + b; }
${lookback.functions("VALUE", True)}
% if plain_polls:
#define peek(state, tag, p, kind, v) 0
% endif

static VALUE fold(global VALUE* x, const int begin, const int end) {
    VALUE v = x[begin];
    for (int k = begin + 1; k < end; ++k) v = combine(v, x[k]);
    return v;
}

static void owner(volatile global uint* state, const uint tag, global VALUE* x) {
    keep(state, tag, 1, ${"PREFIX" if head else "AGGREGATE"}, fold(x, ${part}, ${2 * part}));
    for (int k = ${part}; k < ${2 * part}; ++k) x[k] = (VALUE) 77;
}

static int recompute(volatile global uint* state, const uint tag, global VALUE* x, global int* recomputed, VALUE* v) {
    VALUE first = fold(x, ${part}, ${part + 2});
    ++*recomputed;
% if owner == "wakes":
    owner(state, tag, x);
% endif
    for (int k = ${part + 2}; k < ${2 * part}; ++k) first = combine(first, x[k]);
    *v = first;
    return ${int(head)};
}

kernel void wait(volatile global uint* state, const uint tag, const int again, global VALUE* x, global VALUE* result,
                 global int* recomputed)
{
    VALUE prefix;
    if (!again) {
        publish(state, tag, 0, PREFIX, fold(x, 0, ${part}));
% if owner == "done":
        owner(state, tag, x);
% elif owner == "unseen":
        publish(state, tag, 1, ${"PREFIX" if head else "AGGREGATE"}, fold(x, ${part}, ${2 * part}));
        for (int k = ${part}; k < ${2 * part}; ++k) x[k] = (VALUE) 77;
% endif
    }
    ${lookback.look_back("2", "prefix", "recompute(state, tag, x, recomputed, &found)", True)}
    result[again] = prefix;
}
