## Functions of halves, element by element: by scalars (width 1), or by vectors that are loaded and stored.
## Parameters: width, expressions (in a and b; the results of one lie behind those of another). Launch: (1,).
#pragma OPENCL EXTENSION cl_khr_fp16 : enable
<% n = "" if width == 1 else width %>\
#define INTS(value) ((int${n})(value))
#define HALVES(value) convert_half${n}(value)
__kernel void apply(__global const half *x, __global const half *y, __global half *z, const int n)
{
    for (int i = 0; i < n / ${width}; i++) {
% if width == 1:
        const half a = x[i], b = y[i];
% else:
        const half${width} a = vload${width}(i, x), b = vload${width}(i, y);
% endif
% for number, expression in enumerate(expressions):
% if width == 1:
        z[i + ${number} * n] = ${expression};
% else:
        vstore${width}(${expression}, i, z + ${number} * n);
% endif
% endfor
    }
}
