## Common parts of the select kernels: types, the load hook (which elements are kept), the state of a partition, and the
## emit hook (what is stored for a kept element, and where).
## Elements are numbered 0 .. n - 1. Array k decides which are kept: those for which `keep` is true, or (heads) those
## that differ from their predecessor, the heads of runs.
## The state of a partition is what later partitions need: the number of kept elements; with `lengths`, also the number
## of the last kept element; with `sums`, also the sum of the values from the last head on.
## Parameters: declarations, source (C type of k), condition (text of `int keep(SOURCE)` or `int differ(SOURCE,
## SOURCE)`), heads, k_unit, e_unit, s_unit (1 or -1: the stride; 0: the stride is an argument), value (C type of the
## state), combine (text of its operator), kind (of the state: "count", "lengths", "sums"), elements (kept elements are
## stored), word, element_words (C type and number of the words of an element), indexes (their numbers are stored), axes (of the
## array whose indexes these are; 1: flat), rest (the other elements follow the kept ones), ranks (the number of heads
## before the end of each element's run is stored at the index that s has for the element), sums, summand (C type of the
## values s), sum (C type of the sums), convert (of a value x), combine_sums (text of the operator of sums), pads (bytes of
## padding in the state), already_sorted (None, or the index in `counters` of a flag. If the flag is not 0, `unsorted` was
## in order, the sort did not write k, and the kernel reads `unsorted` instead; see sort_radix_rounds), count_type ("" or
## the C type of the caller's count), bounded (n is read on the device: the first n elements of the arrays count; see
## pydp.algorithms.lengths).
<%def name="prelude()">
#pragma OPENCL FP_CONTRACT OFF
${declarations}
typedef ${source} SOURCE;
typedef ${value} VALUE;
typedef ${word} WORD_OF_ELEMENT;
% if sums or ranks:
typedef ${summand} SUMMAND;
% endif
% if sums:
typedef ${sum} SUM;
${combine_sums}
static SUM converted(const SUMMAND x) { return ${convert}; }
% endif
${condition}
${combine}
% if kind == "count":
#define COUNT_OF(state) (state)
% elif kind == "lengths":
#define COUNT_OF(state) (state).x
#define LAST_OF(state) (state).y
% else:
#define COUNT_OF(state) (state).count
static VALUE state_of(const long count, const SUM sum) {
    VALUE state;
    state.count = count;
    state.sum = sum;
%   for pad, size in pads:
    for (int i = 0; i < ${size}; ++i) state.${pad}[i] = 0; /* published with the other bytes */
%   endfor
    return state;
}
% endif
% for letter, unit in (("k", k_unit), ("e", e_unit), ("s", s_unit)):
#define ${letter.upper()}_AT(i) ${{1: f"({letter}_offset + (i))", -1: f"({letter}_offset - (i))", 0: f"({letter}_offset + (i) * {letter}_step)"}[unit]}
% endfor
% if heads:
#define KEEP_LATER(i) differ(k[K_AT(i)], k[K_AT((i) - 1)])
#define KEEP(i) ((i) == 0 || KEEP_LATER(i))
% else:
#define KEEP_LATER(i) keep(k[K_AT(i)])
#define KEEP(i) KEEP_LATER(i)
% endif
</%def>
##
<%def name="array(letter, kind, unit)">
global const ${kind}* ${letter}, ${"const " if already_sorted is None else ""}long ${letter}_offset${"" if unit else f", const long {letter}_step"}
</%def>
## The input arguments of the functions of the kernel, and their names in calls. The kernel has `kernel_inputs` and
## begins with `begin_kernel`, which defines n and takes the source if that was sorted already.
<%def name="kernel_inputs()">
% if bounded:
${inputs("capacity").strip()}, global const long* length
% else:
${inputs().strip()}
% endif
% if already_sorted is not None:
, global const SOURCE* unsorted, const long unsorted_offset, global const uint* counters
% endif
</%def>
<%def name="begin_kernel()">
% if bounded:
    const long n = length[0];
% endif
% if already_sorted is not None:
    if (counters[${already_sorted}]) {
        k = unsorted;
        k_offset = unsorted_offset;
%   if elements:
        e = (global const WORD_OF_ELEMENT*) unsorted;
        e_offset = unsorted_offset;
%   endif
    }
% endif
</%def>
<%def name="inputs(n='n')">
${array("k", "SOURCE", k_unit).strip()}
% if elements or rest:
, ${array("e", "WORD_OF_ELEMENT", e_unit).strip()}
% endif
% if sums or ranks:
, ${array("s", "SUMMAND", s_unit).strip()}
% endif
, const long ${n}, const int part
</%def>
<%def name="names(letter, unit)">${letter}, ${letter}_offset${"" if unit else f", {letter}_step"}</%def>
<%def name="input_names()">
${names("k", k_unit)}
% if elements or rest:
, ${names("e", e_unit)}
% endif
% if sums or ranks:
, ${names("s", s_unit)}
% endif
, n, part
</%def>
## The results of the kernel that stores.
<%def name="outputs(phase)">
% if elements:
, global WORD_OF_ELEMENT* elements_out
% endif
% if indexes:
, global long* indexes_out
%   if axes > 1:
, const long index_step, const long axis_step
%     for axis in range(1, axes):
, const long size_${axis}
%     endfor
%   endif
% endif
% if kind == "lengths":
, global long* lengths_out
% elif sums:
, global SUM* sums_out
% endif
% if ranks:
, global long* ranks_out
% endif
, global long* total_out
% if count_type:
, global ${count_type}* count_out, const long count_offset
% endif
% if phase == "single":
, volatile global uint* state, const uint tag, const int parts
% elif phase == "seeded":
, global const VALUE* seeds${", const int parts" if rest else ""}
% endif
</%def>
##
## Stores the number `at` of a kept element at position `to`: the index along each axis.
<%def name="store_index(to, at)">
% if axes > 1:
    {
        long left = ${at};
%   for axis in range(axes - 1, 0, -1):
        indexes_out[(${to}) * index_step + ${axis} * axis_step] = left % size_${axis};
        left /= size_${axis};
%   endfor
        indexes_out[(${to}) * index_step] = left;
    }
% else:
    indexes_out[${to}] = ${at};
% endif
</%def>
##
<%def name="store_totals(total)">
    total_out[0] = ${total};
% if count_type:
    count_out[count_offset] = (${count_type}) (${total});
% endif
</%def>
