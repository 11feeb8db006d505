## A vector function of scalar values (an operator, predicate or key) as one C function that kernels call.
## No kernel here. Parameters: functions (C text of its helpers), result (C type), name, arguments (C
## declarations), body (C text), value (C text of the result, evaluated after the body).
${functions}
${result} ${name}(${", ".join(arguments)})
{
    #pragma OPENCL FP_CONTRACT OFF
${body}
    return ${value};
}
