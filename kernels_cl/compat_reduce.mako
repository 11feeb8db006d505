## The kernels of pydp.compat.pyopencl.reduction on CPUs: a reduction of expressions that the caller wrote in OpenCL C.
##  1. NAME_stage1: one work-item for each part of the range. It has `lanes` independent sums, so that their operations
##     overlap or become vector operations: like pyopencl's, the reduction must be commutative. After
##     `block * lanes` elements, they are reduced to one result. Results of equal numbers of blocks are combined in
##     pairs, which keeps sums of floats accurate.
##  2. NAME_stage2: one work-item reduces the results of the parts.
## The caller's text may use the names that pyopencl's kernels declare: i, n, PCL_GROUP_SIZE, pcl_start, pcl_step, pcl_stop,
## pcl_seq_count, pcl_lid, pcl_base_idx, pcl_acc. As in pyopencl's, n is the number of elements if the step is 1.
## Parameters: reduce_expr, map_expr, neutral, preamble: text of the caller; arguments, adjust_offsets; value: C type; name,
## lanes, block, double_support, read_ahead ((name, bytes of an element) of the arrays that map_expr reads at index i
## only, which are prefetched).
<%namespace name="common" file="compat_common.mako"/>
<%namespace name="memory" file="prefetch.mako"/>
#define PCL_GROUP_SIZE 1
#define PCL_READ_AND_MAP(i) (${map_expr})
#define PCL_REDUCE(a, b) (${reduce_expr})
${common.double(double_support)}
% if double_support:
#define PYOPENCL_DEFINE_CDOUBLE
% endif
#include <pyopencl-complex.h>

${preamble}

typedef ${value} pcl_out_type;

kernel __attribute__((reqd_work_group_size(1, 1, 1)))
void ${name}_stage1(global pcl_out_type* pcl_out__base, const long pcl_out__offset, ${arguments}
        long pcl_start, long pcl_step, long pcl_stop, long n, const long pcl_count, const long pcl_part) {
    global pcl_out_type* pcl_out = (global pcl_out_type*) ((global char*) pcl_out__base + pcl_out__offset);
    ${adjust_offsets}
    const long pcl_begin = get_group_id(0) * pcl_part, pcl_end = min(pcl_count, pcl_begin + pcl_part);
    const unsigned int pcl_lid = 0, pcl_seq_count = (unsigned int) pcl_part;
    const long pcl_base_idx = pcl_begin;
    long pcl_at = pcl_start + pcl_begin * pcl_step;
    long i = pcl_at;
    pcl_out_type pcl_acc = ${neutral};  // may be an initializer in braces, which cannot be assigned
    const pcl_out_type pcl_neutral = pcl_acc;
    long pcl_k = pcl_begin;
    pcl_out_type pcl_levels[32];
    long pcl_blocks = 0;
    while (pcl_end - pcl_k >= ${lanes}) {
        const long pcl_block_end = min(pcl_end, pcl_k + ${block * lanes});
        pcl_out_type pcl_sums[${lanes}];
        for (int pcl_l = 0; pcl_l < ${lanes}; ++pcl_l) pcl_sums[pcl_l] = pcl_neutral;
        if (pcl_step == 1)
            for (; pcl_k + ${lanes} <= pcl_block_end; pcl_k += ${lanes}, pcl_at += ${lanes}) {
% for array, size in read_ahead:
                ${memory.ahead(f"{array} + pcl_at", min(lanes * size, 512))}
% endfor
                ${lane_loop("pcl_at + pcl_l")}
            }
        else
            for (; pcl_k + ${lanes} <= pcl_block_end; pcl_k += ${lanes}, pcl_at += ${lanes} * pcl_step) {
                ${lane_loop("pcl_at + pcl_l * pcl_step")}
            }
<% half = lanes // 2 %>
% while half:
        for (int pcl_l = 0; pcl_l < ${half}; ++pcl_l)
            pcl_sums[pcl_l] = PCL_REDUCE(pcl_sums[pcl_l], pcl_sums[pcl_l + ${half}]);
<% half //= 2 %>
% endwhile
        int pcl_level = 0;
        for (; pcl_blocks >> pcl_level & 1; ++pcl_level) pcl_sums[0] = PCL_REDUCE(pcl_levels[pcl_level], pcl_sums[0]);
        pcl_levels[pcl_level] = pcl_sums[0];
        ++pcl_blocks;
    }
    for (int pcl_level = 0; pcl_level < 32; ++pcl_level)
        if (pcl_blocks >> pcl_level & 1) pcl_acc = PCL_REDUCE(pcl_acc, pcl_levels[pcl_level]);
    for (i = pcl_at; pcl_k < pcl_end; ++pcl_k, i += pcl_step) pcl_acc = PCL_REDUCE(pcl_acc, PCL_READ_AND_MAP(i));
    pcl_out[get_group_id(0)] = pcl_acc;
}

kernel __attribute__((reqd_work_group_size(1, 1, 1)))
void ${name}_stage2(global pcl_out_type* pcl_out__base, const long pcl_out__offset, ${arguments}
        global const pcl_out_type* pyopencl_reduction_inp, long n) {
    global pcl_out_type* pcl_out = (global pcl_out_type*) ((global char*) pcl_out__base + pcl_out__offset);
    ${adjust_offsets}
    const unsigned int pcl_lid = 0, pcl_seq_count = (unsigned int) n;
    const long pcl_start = 0, pcl_step = 1, pcl_stop = n, pcl_base_idx = 0;
    long i = 0;
    pcl_out_type pcl_acc = ${neutral};
    for (; i < n; ++i) pcl_acc = PCL_REDUCE(pcl_acc, pyopencl_reduction_inp[i]);
    pcl_out[0] = pcl_acc;
}
##
<%def name="lane_loop(index)">
                for (int pcl_l = 0; pcl_l < ${lanes}; ++pcl_l) {
                    long i = ${index};
                    pcl_sums[pcl_l] = PCL_REDUCE(pcl_sums[pcl_l], PCL_READ_AND_MAP(i));
                }
</%def>
