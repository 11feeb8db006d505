## Element access for the matmul kernels. Loads widen storage types to one working type, and stores narrow it. Mixed
## inputs, halves, small integers, booleans and complex numbers therefore share one kernel.
##
## Purpose: defines, for each operand letter x of a, b, c,
##   LOAD_x(p, i)  IMAG_x(p, i)          element i as `work` (IMAG: the imaginary part, if the problem is complex)
##   STORE_c(p, i, re, im)               element i of the result
##   VLOAD_x / VIMAG_x, VSTORE_c         the same for `width` adjacent elements (if width > 0)
##   MADD(x, y, z)                       z + x * y in the working arithmetic, for scalars and vectors
##   NMADD(x, y, z)                      z - x * y
## Phases: none (definitions only).   Launch shape: none.
## Parameters: types: letter -> {type, kind}, kind one of real, half, bool, complex; work: C scalar;
##   width: lanes of one vector (0 = scalars only); is_complex; fused: use fma(); logical: booleans.
<%def name="declare(types, work, width, is_complex, fused, logical)">
#pragma OPENCL FP_CONTRACT ${"ON" if fused else "OFF"}
#define WORK ${work}
% if work == "double":
#ifdef cl_khr_fp64
#pragma OPENCL EXTENSION cl_khr_fp64 : enable
#endif
% endif
% if width:
#define VEC ${work}${width}
% endif
% if logical:
#define MADD(x, y, z) ((z) | ((x) & (y)))
% elif fused:
#define MADD(x, y, z) fma(x, y, z)
#define NMADD(x, y, z) fma(-(x), y, z)
% else:
#define MADD(x, y, z) ((z) + (x) * (y))
#define NMADD(x, y, z) ((z) - (x) * (y))
% endif
% for letter, entry in types.items():
<% kind = entry["kind"] %>\
#define TYPE_${letter} ${entry["type"]}
% if kind == "half":
#define LOAD_${letter}(p, i) ((WORK)vload_half(i, p))
% elif kind == "bool":
#define LOAD_${letter}(p, i) ((WORK)((p)[i] != 0))
% elif kind == "complex":
#define LOAD_${letter}(p, i) ((WORK)(p)[i].x)
#define IMAG_${letter}(p, i) ((WORK)(p)[i].y)
% else:
#define LOAD_${letter}(p, i) ((WORK)(p)[i])
% endif
% if kind != "complex":
#define IMAG_${letter}(p, i) ((WORK)0)
% endif
% if width:
${_vector_load(letter, kind, entry["type"], work, width)}
% endif
% endfor
% if "c" in types:
<% kind = types["c"]["kind"] %>\
% if kind == "half":
#define STORE_c(p, i, re, im) vstore_half_rte((float)(re), i, p)
% elif kind == "bool":
#define STORE_c(p, i, re, im) ((p)[i] = (uchar)((re) != 0))
% elif kind == "complex":
#define STORE_c(p, i, re, im) ((p)[i] = (${types["c"]["type"]})((re), (im)))
% else:
#define STORE_c(p, i, re, im) ((p)[i] = (${types["c"]["type"]})(re))
% endif
% if width:
${_vector_store(kind, types["c"]["type"], work, width)}
% endif
% endif
</%def>

## ADJACENT_x_re(p), ADJACENT_x_im(p): the parts of `width` adjacent elements of operand `letter` as `work`, from p on.
## entry: its type and kind; aligned: p is a multiple of their size.
<%def name="adjacent(letter, entry, work, width, aligned)">\
<%
    type, kind = entry["type"], entry["kind"]
    part, count = (type[:-1], 2 * width) if kind == "complex" else (type, width)
    wide = f"(*(const __global {part}{count} *)(p))" if aligned else f"vload{count}(0, (const __global {part} *)(p))"
    if kind == "half":
        wide = f"vload{'a' if aligned else ''}_half{width}(0, p)"
    elif kind == "bool":
        wide = f"min({wide}, (uchar{width})(1))"
    convert = "" if part == work or kind == "half" and work == "float" else f"convert_{work}{width}"
%>\
% if width == 1:
#define ADJACENT_${letter}_re(p) LOAD_${letter}(p, 0)
#define ADJACENT_${letter}_im(p) IMAG_${letter}(p, 0)
% elif kind == "complex":
#define ADJACENT_${letter}_re(p) ${convert}(${wide}.even)
#define ADJACENT_${letter}_im(p) ${convert}(${wide}.odd)
% else:
#define ADJACENT_${letter}_re(p) ${convert}(${wide})
#define ADJACENT_${letter}_im(p) ((${work}${width})(0))
% endif
</%def>

<%def name="_vector_load(letter, kind, type, work, width)">
% if kind == "half":
% if work == "float":
#define VLOAD_${letter}(p, i) vload_half${width}(0, (p) + (i))
% else:
#define VLOAD_${letter}(p, i) convert_${work}${width}(vload_half${width}(0, (p) + (i)))
% endif
% elif kind == "bool":
#define VLOAD_${letter}(p, i) convert_${work}${width}(min(vload${width}(0, (p) + (i)), (uchar${width})(1)))
% elif kind == "complex":
<% part, half = type[:-1], "" if width == 2 else width // 2 %>\
static VEC vload_re_${letter}(const __global ${type} *p) {
  const __global ${part} *s = (const __global ${part} *)p;
  VEC r;
  r.lo = convert_${work}${half}(vload${width}(0, s).even);
  r.hi = convert_${work}${half}(vload${width}(1, s).even);
  return r;
}
static VEC vload_im_${letter}(const __global ${type} *p) {
  const __global ${part} *s = (const __global ${part} *)p;
  VEC r;
  r.lo = convert_${work}${half}(vload${width}(0, s).odd);
  r.hi = convert_${work}${half}(vload${width}(1, s).odd);
  return r;
}
#define VLOAD_${letter}(p, i) vload_re_${letter}((p) + (i))
#define VIMAG_${letter}(p, i) vload_im_${letter}((p) + (i))
% elif type == work:
#define VLOAD_${letter}(p, i) vload${width}(0, (p) + (i))
% elif "u" + type == work:
#define VLOAD_${letter}(p, i) as_${work}${width}(vload${width}(0, (p) + (i)))
% else:
#define VLOAD_${letter}(p, i) convert_${work}${width}(vload${width}(0, (p) + (i)))
% endif
% if kind != "complex":
#define VIMAG_${letter}(p, i) ((VEC)(0))
% endif
</%def>

<%def name="_vector_store(kind, type, work, width)">
% if kind == "half":
#define VSTORE_c(p, i, re, im) vstore_half${width}_rte(re, 0, (p) + (i))
% elif kind == "bool":
#define VSTORE_c(p, i, re, im) vstore${width}(convert_uchar${width}(min(re, (VEC)(1))), 0, (p) + (i))
% elif kind == "complex":
<% part = type[:-1] %>\
static void vstore_pair(__global ${type} *p, VEC re, VEC im) {
  __global ${part} *d = (__global ${part} *)p;
  VEC z;
  z.even = re.lo;
  z.odd = im.lo;
  vstore${width}(z, 0, d);
  z.even = re.hi;
  z.odd = im.hi;
  vstore${width}(z, 1, d);
}
#define VSTORE_c(p, i, re, im) vstore_pair((p) + (i), re, im)
% elif type == work:
#define VSTORE_c(p, i, re, im) vstore${width}(re, 0, (p) + (i))
% elif "u" + type == work:
#define VSTORE_c(p, i, re, im) vstore${width}(as_${type}${width}(re), 0, (p) + (i))
% else:
#define VSTORE_c(p, i, re, im) vstore${width}(convert_${type}${width}(re), 0, (p) + (i))
% endif
</%def>
