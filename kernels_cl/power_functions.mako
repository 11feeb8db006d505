## pow for drivers that compute it wrongly for 8 and 16 doubles: in parts of 4. The text precedes a kernel; no kernel here.
<% define = "__attribute__((overloadable))" %>\
#pragma OPENCL EXTENSION cl_khr_fp64 : enable
% for kind, widths in (("float", ("", 2, 3, 4, 8, 16)), ("double", ("", 2, 3, 4))):
% for width in widths:
${kind}${width} ${define} pow_in_parts(${kind}${width} a, ${kind}${width} b) { return pow(a, b); }
% endfor
% endfor
% for width in (8, 16):
double${width} ${define} pow_in_parts(double${width} a, double${width} b) {
    return (double${width})(pow_in_parts(a.lo, b.lo), pow_in_parts(a.hi, b.hi));
}
% endfor
#define pow pow_in_parts
