## Copies records member by member and adds a literal, to see that a struct's layout is the dtype's.
## Launch: one work-item per record. Parameters: declarations, T, members (list of copies as text), literal (C text, or None).
${declarations}
__kernel void copy(__global ${T} *out, __global const ${T} *in)
{
    const int i = (int)get_global_id(0);
% for member in members:
    out[i].${member} = in[i].${member};
% endfor
}

% if literal:
__kernel void literal(__global ${T} *out)
{
    out[get_global_id(0)] = ${literal};
}
% endif
