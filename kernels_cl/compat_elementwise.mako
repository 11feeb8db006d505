## The kernel of pydp.compat.pyopencl.elementwise on CPUs: an operation that the caller wrote in OpenCL C, for each index.
## A work-item takes adjacent indexes, so that compilers make vector operations of its loop.
## Launch: any number of work-groups of one work-item.
## Parameters: operation, loop_prep, after_loop, preamble: text of the caller; arguments; name; use_range (arguments are
## start, stop and step, not n).
${preamble}

#define PYOPENCL_ELWISE_CONTINUE continue

__kernel __attribute__((reqd_work_group_size(1, 1, 1)))
void ${name}(${arguments}) {
    int lid = 0;
    int gsize = get_global_size(0);
    int work_group_start = get_group_id(0);
    long i;

    ${loop_prep};
% if use_range:
    const long psc_n = step > 0 ? (stop - start + step - 1) / step : (start - stop - step - 1) / -step;
% else:
    const long psc_n = n;
% endif
    const long psc_part = ((psc_n + gsize - 1) / gsize + 15) / 16 * 16;
    const long psc_begin = work_group_start * psc_part, psc_end = min(psc_n, psc_begin + psc_part);
% if use_range:
    if (step != 1) {
        long psc_k = psc_begin;
        for (i = start + psc_begin * step; psc_k < psc_end; ++psc_k, i += step) {
            ${operation};
        }
    } else {
        for (i = start + psc_begin; i < start + psc_end; ++i) {
            ${operation};
        }
    }
% else:
    for (i = psc_begin; i < psc_end; ++i) {
        ${operation};
    }
% endif
    ${after_loop};
}
