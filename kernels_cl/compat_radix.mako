## One pass of the radix sort of pydp.compat.pyopencl.algorithm on CPUs, with a key expression that the caller wrote in
## OpenCL C: stable, least significant digit first.
##  1. psc_count: the elements of each chunk with each digit.
##  2. psc_offsets: turns the counts to the positions of the first elements, digit by digit, chunk by chunk (one work-item).
##  3. psc_scatter: moves the elements. `staged` elements of each digit are collected and stored together: a page of memory
##     is then entered less often.
## Launch: one work-item for each chunk.
## Parameters: key_expr: text of the caller; preamble, arguments, adjust_offsets; sorted (argument name, C type) of the
## arrays that move; key, index: C types; digits: the number of values of a digit; staged: a power of
## two, or 0: elements are stored at once.
<%namespace name="common" file="compat_common.mako"/>
${common.definitions(double_support)}
typedef ${key} key_t;
typedef ${index} index_t;

kernel __attribute__((reqd_work_group_size(1, 1, 1)))
void psc_count(${arguments}, const index_t N, const index_t psc_part, const int base_bit, const uint psc_mask,
               global index_t* psc_counts) {
    ${adjust_offsets}
    ${bounds()}
    index_t psc_mine[${digits}];
    for (uint psc_d = 0; psc_d <= psc_mask; ++psc_d) psc_mine[psc_d] = 0;
    for (index_t psc_i = psc_begin; psc_i < psc_end; ++psc_i) {
        ${digit("psc_d")}
        ++psc_mine[psc_d];
    }
    for (uint psc_d = 0; psc_d <= psc_mask; ++psc_d)
        psc_counts[(size_t) psc_d * get_num_groups(0) + get_group_id(0)] = psc_mine[psc_d];
}

kernel __attribute__((reqd_work_group_size(1, 1, 1)))
void psc_offsets(global index_t* psc_counts, const uint psc_size) {
    index_t psc_sum = 0;
    for (uint psc_i = 0; psc_i < psc_size; ++psc_i) {
        const index_t psc_count = psc_counts[psc_i];
        psc_counts[psc_i] = psc_sum;
        psc_sum += psc_count;
    }
}

kernel __attribute__((reqd_work_group_size(1, 1, 1)))
void psc_scatter(${arguments}, const index_t N, const index_t psc_part, const int base_bit, const uint psc_mask,
                 global const index_t* psc_counts
                 ${"".join(f", global {ctype}* restrict psc_sorted_{name}" for name, ctype in sorted)}) {
    ${adjust_offsets}
    ${bounds()}
    index_t psc_at[${digits}];
    for (uint psc_d = 0; psc_d <= psc_mask; ++psc_d)
        psc_at[psc_d] = psc_counts[(size_t) psc_d * get_num_groups(0) + get_group_id(0)];
% if staged:
    index_t psc_first[${digits}];
    for (uint psc_d = 0; psc_d <= psc_mask; ++psc_d) psc_first[psc_d] = psc_at[psc_d];
%   for name, ctype in sorted:
    ${ctype} psc_staged_${name}[${digits}][${staged}];
%   endfor
% endif
    for (index_t psc_i = psc_begin; psc_i < psc_end; ++psc_i) {
        ${digit("psc_d")}
        const index_t psc_to = psc_at[psc_d]++;
% if staged:
        const uint psc_place = (uint) psc_to & ${staged - 1};
%   for name, ctype in sorted:
        psc_staged_${name}[psc_d][psc_place] = ${name}[psc_i];
%   endfor
        if (psc_place == ${staged - 1}) {
            const index_t psc_start = psc_to - ${staged - 1};
            if (psc_first[psc_d] == psc_start)
                for (uint psc_k = 0; psc_k < ${staged}; ++psc_k) {
%   for name, ctype in sorted:
                    psc_sorted_${name}[psc_start + psc_k] = psc_staged_${name}[psc_d][psc_k];
%   endfor
                }
            else
                for (index_t psc_k = psc_first[psc_d]; psc_k <= psc_to; ++psc_k) {
%   for name, ctype in sorted:
                    psc_sorted_${name}[psc_k] = psc_staged_${name}[psc_d][psc_k - psc_start];
%   endfor
                }
            psc_first[psc_d] = psc_to + 1;
        }
% else:
%   for name, ctype in sorted:
        psc_sorted_${name}[psc_to] = ${name}[psc_i];
%   endfor
% endif
    }
% if staged:
    for (uint psc_d = 0; psc_d <= psc_mask; ++psc_d)
        for (index_t psc_k = psc_first[psc_d]; psc_k < psc_at[psc_d]; ++psc_k) {
%   for name, ctype in sorted:
            psc_sorted_${name}[psc_k] = psc_staged_${name}[psc_d][psc_k & ${staged - 1}];
%   endfor
        }
% endif
}
##
<%def name="bounds()">
    const index_t psc_begin = (index_t) get_group_id(0) * psc_part;
    const index_t psc_end = N - psc_begin < psc_part ? N : psc_begin + psc_part;
</%def>
##
## Declaration: the digit of element psc_i.
<%def name="digit(d)">
        uint ${d};
        {
            index_t i = psc_i;
            key_t key = (${key_expr}
                );
            ${d} = (uint) (key >> base_bit) & psc_mask;
        }
</%def>
