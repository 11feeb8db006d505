## Common parts of the select kernels: types, the load hook (which elements are kept), the state of a partition, and the
## emit hook (what is stored for a kept element, and where).
## Elements are numbered 0 .. n - 1. Array k decides which are kept: those for which `keep` is true, or (heads) those
## that differ from their predecessor, the heads of runs. With `three`, `keep` gives 1 for an element of the first part,
## 2 for one of the second part, which follows the first one, and 0 for the others.
## The state of a partition is what later partitions need: the number of kept elements; with `lengths`, also the number
## of the last kept element; with `sums`, also the sum of the values from the last head on; with `three`, also the number
## of elements of the second part.
## limits: the array consists of rows of n elements. Each row has a limiting rank: its first part is the elements of
## smaller ranks, its second part the elements of this rank (see rank_select). The sizes of both parts are known before
## the kernel starts. Elements, partitions, prefixes and positions are numbered in the row.
## Parameters: declarations, source (C type of k), condition (text of `int keep(SOURCE)` or `int differ(SOURCE,
## SOURCE)`), heads, k_unit, e_unit, s_unit (1 or -1: the stride; 0: the stride is an argument), value (C type of the
## state), combine (text of its operator), state_kind (of the state: "count", "lengths", "sums", "parts"), elements (kept elements are
## stored), word, element_words (C type and number of the words of an element), indexes (their numbers are stored), axes (of the
## array whose indexes these are; 1: flat), rest (the other elements follow the kept ones), ranks (the number of heads
## before the end of each element's run is stored at the index that s has for the element), sums, summand (C type of the
## values s), sum (C type of the sums), convert (of a value x), combine_sums (text of the operator of sums), pads (bytes of
## padding in the state), already_sorted (None, or the index in `counters` of a flag. If the flag is not 0, `unsorted` was
## in order, the sort did not write k, and the kernel reads `unsorted` instead; see sort_radix_rounds), count_type ("" or
## the C type of the caller's count), bounded (n is read on the device: the first n elements of the arrays count; see
## pydp.algorithms.lengths), three, limits, key, kind, key_bits, descending (of the ranks, see sort_radix_elements).
<%namespace name="ranks_of_keys" file="sort_radix_elements.mako"/>
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
% if limits:
${rank_condition()}
% endif
${condition}
${combine}
% if state_kind == "count":
#define COUNT_OF(state) (state)
% elif state_kind == "lengths":
#define COUNT_OF(state) (state).x
#define LAST_OF(state) (state).y
% elif state_kind == "parts":
#define COUNT_OF(state) (state).x
#define SECOND_OF(state) (state).y
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
#define KEEP_LATER(i) keep(k[K_AT(i)]${", limit" if limits else ""})
#define KEEP(i) KEEP_LATER(i)
% endif
</%def>
##
<%def name="rank_condition()">
typedef ${"ulong" if key_bits == 64 else "uint"} RANK;
${ranks_of_keys.order("encoded", "rank_of", key, "RANK", "RANK")}
static int keep(const SOURCE x, const RANK limit) {
    const RANK rank = rank_of(encoded(x));
    return rank < limit ? 1 : rank == limit ? 2 : 0;
}
</%def>
##
<%def name="array(letter, type, unit)">
global const ${type}* ${letter}, ${"const " if already_sorted is None and not limits else ""}long ${letter}_offset${"" if unit else f", const long {letter}_step"}
</%def>
## The input arguments of the functions of the kernel, and their names in calls. The kernel has `kernel_inputs` and
## begins with `begin_kernel`, which defines n and takes the source if that was sorted already.
<%def name="kernel_inputs()">
% if bounded:
${inputs("capacity").strip()}, global const long* length
% else:
${inputs("n", False).strip()}
% endif
% if already_sorted is not None:
, global const SOURCE* unsorted, const long unsorted_offset, global const uint* counters
% endif
% if limits:
, global const ulong* limits, const int per_row
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
##
## Defines p, the number of the partition, from its number in all rows.
<%def name="begin_partition(number, phase)">
% if limits:
    const int number = ${number}, p = number % per_row, slots = number - p;
    const long row = number / per_row;
    const RANK limit = (RANK) limits[${limits} * row];
    k_offset += row * n;
%   if elements:
    e_offset += row * n;
%   endif
%   if phase != "reduce":
    const long first_size = (long) limits[${limits} * row + 1], second_size = (long) limits[${limits} * row + 2];
%     if elements:
    elements_out += row * row_size * ${element_words};
%     endif
%     if indexes:
    indexes_out += row * row_size;
%     endif
%   endif
% else:
    const int p = ${number};
% endif
</%def>
##
## Sets `before` to the state of the earlier partitions of the row, of which there are some: `seeds` has the inclusive
## prefixes over the partitions of all rows.
<%def name="load_seed(before)">
% if limits:
    ${before} = seeds[slots + p - 1];
    if (slots > 0) ${before} -= seeds[slots - 1];
% else:
    ${before} = seeds[p - 1];
% endif
</%def>
##
## Declares `first_size` and `second_size`, the sizes of the parts, where they are not known before. own_first, own_second:
## the counts of the only partition.
<%def name="declare_sizes(phase, own_first, own_second)">
% if (three or rest) and not limits:
    const long first_size = ${own_first if phase == "alone" else "COUNT_OF(seeds[parts - 1])"};
%   if three:
    const long second_size = ${own_second if phase == "alone" else "SECOND_OF(seeds[parts - 1])"};
%   endif
% endif
</%def>
##
<%def name="inputs(n='n', limited=True)">
${array("k", "SOURCE", k_unit).strip()}
% if elements:
, ${array("e", "WORD_OF_ELEMENT", e_unit).strip()}
% endif
% if sums or ranks:
, ${array("s", "SUMMAND", s_unit).strip()}
% endif
, const long ${n}, const int part ${", const RANK limit" if limits and limited else ""}
</%def>
<%def name="names(letter, unit)">${letter}, ${letter}_offset${"" if unit else f", {letter}_step"}</%def>
<%def name="input_names()">
${names("k", k_unit)}
% if elements:
, ${names("e", e_unit)}
% endif
% if sums or ranks:
, ${names("s", s_unit)}
% endif
, n, part${", limit" if limits else ""}
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
% if state_kind == "lengths":
, global long* lengths_out
% elif sums:
, global SUM* sums_out
% endif
% if ranks:
, global long* ranks_out
% endif
% if limits:
, const long row_size
% else:
, global long* total_out
% endif
% if three and not limits:
, global long* second_out
% endif
% if count_type:
, global ${count_type}* count_out, const long count_offset
% endif
% if phase == "single":
, volatile global uint* state, const uint tag, const int parts
% elif phase == "seeded":
, global const VALUE* seeds${", const int parts" if (rest or three) and not limits else ""}
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
<%def name="store_totals(total, second='')">
    total_out[0] = ${total};
% if three:
    second_out[0] = ${second};
% endif
% if count_type:
    count_out[count_offset] = (${count_type}) (${total});
% endif
</%def>
