## Applies a function of plain values to each element of its argument arrays; for tests of lower_value.
## Launch: one work-item for each element. Parameters: declarations, text (C), name, arguments, result (C types).
${declarations}
${text}
__kernel void apply(${", ".join(f"__global const {c_type}* a{n}" for n, c_type in enumerate(arguments))}, __global ${result}* out)
{
    const int i = get_global_id(0);
    out[i] = ${name}(${", ".join(f"a{n}[i]" for n in range(len(arguments)))});
}
