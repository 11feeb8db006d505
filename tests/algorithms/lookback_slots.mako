## A slot of the look-back, read and written by one work-item: `got` becomes what `peek` found, `result` the value.
## Launch: one work-item. Parameters: type (C type of the value); those of wg_lookback.mako.
<%namespace name="lookback" file="wg_lookback.mako"/>
typedef ${type} VALUE;
${lookback.functions("VALUE")}
kernel void look(volatile global uint* state, const uint tag, const int p, const int kind, const int writes,
                 global VALUE* result, global int* got)
{
    VALUE v = result[0];
    if (writes) publish(state, tag, p, kind, v);
    got[0] = peek(state, tag, p, kind, &v);
    result[0] = v;
}
