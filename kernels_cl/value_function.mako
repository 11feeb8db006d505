## A vector function of plain values (an operator, predicate or key) as one C function, for kernels to call.
## No kernel here. Parameters: functions (C text: helpers that it calls), result (C type), name, arguments (C
## declarations), body (C text), value (C text of the result, read after the body).
${functions}
${result} ${name}(${", ".join(arguments)})
{
    #pragma OPENCL FP_CONTRACT OFF
${body}
    return ${value};
}
