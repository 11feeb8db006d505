## The epilogue of a matrix product: a function of each result and of operands, applied when the result is stored.
##
## Purpose: defines the C functions of the epilogue, and parameters and arguments for its operands. All defs are empty
##   if `epilogue` is None.
##   functions     the functions; before matmul_element's declarations, which allow contraction
##   declare       EPILOGUE(re, im, c, at, i, j): a statement that replaces the result at element `at` of c, in row i and
##                 column j; VEPILOGUE(re, c, at, i, j): the same for `width` adjacent results
##   kernel_parameters, parameters, arguments
##                 for kernels; for functions of a part of the result; of a call of one for the part at row i, column j
##   corner, shift the operands at row i and column j of matrix (inner, outer): as new variables for `arguments`; in the
##                 kernel's own parameters
## Phases: none (parts of kernels).   Launch shape: none.
## Parameters: epilogue: {declarations, functions (C text), name and vector (of the C functions; vector may be ""),
##   width, value {type, kind: real, bool or complex}, result (C type), pair (the names of both members of a complex
##   result, or None), operands}; an operand is {name, type, kind: real, bool or half (or complex, of an old result),
##   source: "array", "number" or "result" (the old element of c), column: the C text of the column stride, splat: the
##   vector function takes the number as a vector}.
<%!
    def arrays(epilogue):
        return [one for one in epilogue["operands"] if one["source"] == "array"] if epilogue else []

    def numbers(epilogue):
        return [one for one in epilogue["operands"] if one["source"] == "number"] if epilogue else []

    def element(one):
        """The C text of the value of an operand at row i_ and column j_, or of the old result."""
        if one["source"] == "number":
            return one["name"]
        array = "c_" if one["source"] == "result" else one["name"]
        at = "at_" if one["source"] == "result" else f"(i_) * {one['name']}_row + (j_) * {one['column']}"
        if one["kind"] == "half":
            return f"vload_half({at}, {array})"
        if one["source"] == "result" and one["kind"] == "complex":
            return f"((const __global {one['type']} *)c_)[{at}]"
        return f"({array}[{at}] != 0)" if one["kind"] == "bool" else f"{array}[{at}]"

    def lanes(one, width):
        """The C text of a vector of values: from column j_ on."""
        of = "float" if one["kind"] == "half" else one["type"]
        if one["source"] == "number":
            return f"({of}{width})({one['name']})" if one["splat"] else one["name"]
        load = f"vload_half{width}" if one["kind"] == "half" else f"vload{width}"
        if one["source"] == "result":
            return f"{load}(0, c_ + at_)"
        if one["column"] == "1":
            return f"{load}(0, {one['name']} + (i_) * {one['name']}_row + (j_))"
        if one["column"] == "0":
            return f"({of}{width})({element(one)})"
        places = [element(one).replace("(j_)", f"((j_) + {lane})") for lane in range(width)]
        return f"({of}{width})({', '.join(places)})"
%>
<%def name="functions(epilogue)">
% if epilogue:
#pragma OPENCL FP_CONTRACT OFF
${epilogue["declarations"]}
${epilogue["functions"]}
% endif
</%def>
<%def name="declare(epilogue, work)">
% if epilogue:
<%
    value, pair = epilogue["value"], epilogue["pair"]
    listed = ", ".join(["value_", *map(element, epilogue["operands"])])
    W = epilogue["width"]
%>\
% if value["kind"] == "complex":
#define EPILOGUE_VALUE(re_, im_) ${value["type"]} value_; value_.real = re_; value_.imag = im_;
% elif value["kind"] == "bool":
#define EPILOGUE_VALUE(re_, im_) const int value_ = (re_) != 0;
% else:
#define EPILOGUE_VALUE(re_, im_) const ${value["type"]} value_ = (${value["type"]})(re_);
% endif
% if pair:
#define EPILOGUE(re_, im_, c_, at_, i_, j_) { EPILOGUE_VALUE(re_, im_) const ${epilogue["result"]} new_ = ${epilogue["name"]}(${listed}); re_ = (WORK)new_.${pair[0]}; im_ = (WORK)new_.${pair[1]}; }
% else:
#define EPILOGUE(re_, im_, c_, at_, i_, j_) { EPILOGUE_VALUE(re_, im_) re_ = (WORK)${epilogue["name"]}(${listed}); im_ = 0; }
% endif
% if epilogue["vector"]:
<% listed = ", ".join([f"as_{value['type']}{W}(re_)", *(lanes(one, W) for one in epilogue["operands"])]) %>\
#define VEPILOGUE(re_, c_, at_, i_, j_) re_ = as_${work}${W}(${epilogue["vector"]}(${listed}))
% endif
% endif
</%def>
<%def name="kernel_parameters(epilogue)">\
% for one in arrays(epilogue):
,
    const __global ${one["type"]} *${one["name"]}, long ${one["name"]}_offset, long ${one["name"]}_row, long ${one["name"]}_col, long ${one["name"]}_inner, long ${one["name"]}_outer\
% endfor
% for one in numbers(epilogue):
,
    ${one["type"]} ${one["name"]}\
% endfor
</%def>
<%def name="parameters(epilogue)">\
% for one in arrays(epilogue):
, const __global ${one["type"]} *${one["name"]}, long ${one["name"]}_row, long ${one["name"]}_col\
% endfor
% for one in numbers(epilogue):
, ${one["type"]} ${one["name"]}\
% endfor
</%def>
<%def name="arguments(epilogue, i, j, prefix='')">\
% for one in arrays(epilogue):
, ${prefix}${one["name"]} + (${i}) * ${one["name"]}_row + (${j}) * ${one["column"]}, ${one["name"]}_row, ${one["name"]}_col\
% endfor
% for one in numbers(epilogue):
, ${one["name"]}\
% endfor
</%def>
<%def name="corner(epilogue, i, j)">\
% for one in arrays(epilogue):
    const __global ${one["type"]} *corner_${one["name"]} = ${one["name"]} + ${one["name"]}_offset + inner * ${one["name"]}_inner + outer * ${one["name"]}_outer + ${i} * ${one["name"]}_row + ${j} * ${one["column"]};
% endfor
</%def>
<%def name="shift(epilogue, i, j)">\
% for one in arrays(epilogue):
  ${one["name"]} += ${one["name"]}_offset + inner * ${one["name"]}_inner + outer * ${one["name"]}_outer + ${i} * ${one["name"]}_row + ${j} * ${one["column"]};
% endfor
</%def>
