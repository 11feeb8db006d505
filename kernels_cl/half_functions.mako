## Functions of half that some drivers lack although they report fp16. The text precedes a kernel; no kernel here.
## Each is the float function, rounded once; nextafter steps through the bit patterns.
## Parameters: words, the identifiers in the kernel's text: only these functions are defined.
<%
    one = """acosh acospi asinh asinpi atanh atanpi cbrt cospi degrees erf erfc expm1 lgamma log1p logb radians sinpi tanpi
        tgamma""".split()
    two = "atan2 atan2pi fdim hypot powr remainder".split()
    with_int = "ldexp pown rootn".split()
    widths = ("", 2, 3, 4, 8, 16)
    used = lambda names: [name for name in names if name in words]
    define = "__attribute__((overloadable))"
%>\
#pragma OPENCL EXTENSION cl_khr_fp16 : enable
% for width in widths:
<% half, wide, whole, narrow = f"half{width}", f"convert_float{width}", f"int{width}", f"convert_half{width}" %>\
% for name in used(one):
${half} ${define} ${name}(${half} a) { return ${narrow}(${name}(${wide}(a))); }
% endfor
% for name in used(two):
${half} ${define} ${name}(${half} a, ${half} b) { return ${narrow}(${name}(${wide}(a), ${wide}(b))); }
% endfor
% for name in used(with_int):
${half} ${define} ${name}(${half} a, ${whole} b) { return ${narrow}(${name}(${wide}(a), b)); }
% endfor
% if "ilogb" in words:
${whole} ${define} ilogb(${half} a) { return ilogb(${wide}(a)); }
% endif
% if width in ("", 2, 3, 4):
% for name in used(["length"]):
half ${define} length(${half} a) { return convert_half(length(${wide}(a))); }
% endfor
% for name in used(["normalize"]):
${half} ${define} normalize(${half} a) { return ${narrow}(normalize(${wide}(a))); }
% endfor
% for name in used(["dot", "distance"]):
half ${define} ${name}(${half} a, ${half} b) { return convert_half(${name}(${wide}(a), ${wide}(b))); }
% endfor
% endif
% if width in (3, 4) and "cross" in words:
${half} ${define} cross(${half} a, ${half} b) { return ${narrow}(cross(${wide}(a), ${wide}(b))); }
% endif
% if "nextafter" in words:
% if width:
${half} ${define} nextafter(${half} a, ${half} b) {
    return (${half})(${", ".join(f"nextafter(a.s{lane:x}, b.s{lane:x})" for lane in range(width))});
}
% else:
half ${define} nextafter(half a, half b) {
    if (isnan(a) || isnan(b)) return a + b;
    if (a == b) return b;
    if (a == 0) return as_half((ushort)(b > 0 ? 1 : 0x8001));
    return as_half((ushort)(as_ushort(a) + ((a < b) == (a > 0) ? 1 : -1)));
}
% endif
% endif
% if width and f"vstore{width}" in words:
% for space in ("__global", "__local", "__private"):
void ${define} vstore${width}(${half} value, size_t offset, ${space} half *p) {
    vstore${width}(as_short${width}(value), offset, (${space} short *)p);
}
% endfor
% endif
% endfor
