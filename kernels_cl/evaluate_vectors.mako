## An expression of contiguous arrays of float32 on vectors, for CPU drivers: they vectorize functions such as sin of a
## vector, but not calls of sin in a loop.
##
## Launch: one work-group of one work-item for each `part` elements.
##
## Parameters: declarations (C text that the types need) · functions (the sources of ``evaluate`` of elements and
## ``evaluate_vectors`` of vectors) · inputs (list of {type: C type, number: passed by value}) · part · width.
#pragma OPENCL FP_CONTRACT OFF
${declarations}
% for one in functions:
${one}
% endfor

kernel ${one_lane} void evaluate_all(global float* out, const long out_at,
% for n, one in enumerate(inputs):
                         ${f"const {one['type']} a{n}" if one["number"] else f"global const {one['type']}* a{n}, const long a{n}_at"},
% endfor
                         const long n)
{
    const long begin = (long) get_group_id(0) * ${part};
    const long end = min(begin + ${part}, n);
    long k = begin;
    for (; k + ${width} <= end; k += ${width})
        vstore${width}(evaluate_vectors(${", ".join(f"a{n}" if one["number"] else f"vload{width}(0, a{n} + a{n}_at + k)" for n, one in enumerate(inputs))}), 0, out + out_at + k);
    for (; k < end; ++k)
        out[out_at + k] = evaluate(${", ".join(f"a{n}" if one["number"] else f"a{n}[a{n}_at + k]" for n, one in enumerate(inputs))});
}
