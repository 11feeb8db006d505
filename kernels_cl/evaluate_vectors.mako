## An expression of arrays of float32 on vectors, for CPU drivers: they vectorize functions such as sin of a vector, but
## not calls of sin in a loop. The arrays have rows; the elements of a row are adjacent, or a row has one element, which
## is repeated.
##
## Launch: one work-group of one work-item for each `part` elements of `each` rows; parts of a row vary fastest.
##
## Parameters: declarations (C text that the types need) · functions (the sources of ``evaluate`` of elements and
## ``evaluate_vectors`` of vectors) · inputs (list of {type: C type, number: passed by value, repeated: its rows have one
## element, bytes of an element}) · part · width · nontemporal (whole cache lines are stored past the caches; the result
## is no input) · ahead (whether inputs are prefetched whose vectors are whole cache lines).
<%namespace name="memory" file="prefetch.mako"/>\
#pragma OPENCL FP_CONTRACT OFF
${declarations}
% for one in functions:
${one}
% endfor
<%
def vector(n, one):
    if one["number"]:
        return f"a{n}"
    return f"(float{width}) (r{n}[0])" if one["repeated"] else f"vload{width}(0, r{n} + k)"

def vectors():
    return f"evaluate_vectors({', '.join(vector(n, one) for n, one in enumerate(inputs))})"

def element(n, one):
    return f"a{n}" if one["number"] else f"r{n}[{0 if one['repeated'] else 'k'}]"
%>\

kernel ${one_lane} void evaluate_all(global float* out, const long out_at, const long out_row,
% for n, one in enumerate(inputs):
                         ${f"const {one['type']} a{n}" if one["number"] else f"global const {one['type']}* a{n}, const long a{n}_at, const long a{n}_row"},
% endfor
                         const long rows, const long columns, const long each)
{
    const long parts = (columns + ${part - 1}) / ${part};
    const long first = (long) get_group_id(0) / parts * each;
    const long begin = (long) get_group_id(0) % parts * ${part};
    const long end = min(begin + ${part}, columns);
    for (long row = first; row < min(first + each, rows); ++row) {
        global float* const to = out + out_at + row * out_row;
% for n, one in enumerate(inputs):
% if not one["number"]:
        global const ${one["type"]}* const r${n} = a${n} + a${n}_at + row * a${n}_row;
% endif
% endfor
        long k = begin;
% if nontemporal:
        const int into_line = (int)((ulong)(to + begin) & ${4 * width - 1});
        if (into_line && k + ${width} <= end) { /* a vector that ends in the first whole line */
            vstore${width}(${vectors()}, 0, to + k);
            k += ${width} - into_line / 4;
        }
% endif
        for (; k + ${width} <= end; k += ${width}) {
% for n, one in enumerate(inputs):
% if ahead and not (one["number"] or one["repeated"]) and width * one["bytes"] >= 64:
            ${memory.ahead(f"r{n} + k", width * one["bytes"])}
% endif
% endfor
            const float${width} result = ${vectors()};
% if nontemporal:
            __builtin_nontemporal_store(result, (global float${width}*)(to + k));
% else:
            vstore${width}(result, 0, to + k);
% endif
        }
        for (; k < end; ++k)
            to[k] = evaluate(${", ".join(element(n, one) for n, one in enumerate(inputs))});
    }
}
