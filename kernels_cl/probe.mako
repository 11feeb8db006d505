## The probe: does the device run work-groups, barriers, local memory and atomics correctly?
##
## mode "group": kernel probe(rows, ticket, wide, real)
##   Each work-group takes a ticket (32-bit atomic), mirrors values through local memory (barrier), sums them in a
##   tree (barriers in a uniform loop), and writes its row at the index of its ticket. Row: group id, its sum, then the
##   mirrored values. With int64, every work-group adds to a 64-bit counter; with fp64, it writes one quotient.
##   Launch: any number of whole work-groups of `size` work-items.
##   rows: int[groups * (size + 2)], ticket: int[1], wide: ulong[1] or int[1], real: double[groups] or int[1].
##   kernel held(out): each work-item reads a value from local memory; the value is overwritten after a barrier; the
##   work-item writes the value that it read. Launch as probe. out: int[groups * size].
##   kernel alone(counts, steps, groups): work-groups of one work-item; the first `groups` of them skip a loop. Each
##   adds to its count; code that runs twice adds twice. Launch: work-groups of 1. counts: int[number of work-groups].
##   kernel complements(values, others): values[i] = max(values[i], ~others[i]). Launch: work-groups of 1.
## mode "subgroup": kernels layout_N(out, wrong), one for each N of `sizes`: wrong[0] counts the work-items whose
##   subgroup and lane differ from local id / size and local id % size; out[0] is the subgroup size. One work-group of
##   `size` work-items.
##
## Parameters: mode, size (power of two), int64, fp64, sizes (list), attribute (text with N for the size, or ""),
##   cl_std ("CL1.2", "CL3.0": the OpenCL C version).
<%namespace name="barriers" file="wg_barrier.mako"/>\
% if int64:
#pragma OPENCL EXTENSION cl_khr_int64_base_atomics : enable
% endif
% if fp64:
#pragma OPENCL EXTENSION cl_khr_fp64 : enable
% endif
% if mode == "group":
__kernel __attribute__((reqd_work_group_size(${size}, 1, 1)))
void probe(__global int *rows, __global int *ticket,
           __global ${"ulong" if int64 else "int"} *wide, __global ${"double" if fp64 else "int"} *real)
{
    __local int number;
    __local int mirror[${size}];
    __local int tree[${size}];
    const int lane = (int)get_local_id(0);
    const int group = (int)get_group_id(0);

    if (lane == 0)
        number = atomic_inc(ticket);
    mirror[lane] = group * ${size} + lane;
    tree[lane] = group + lane;
    ${barriers.group_barrier()}
    const int row = number * ${size + 2};
    rows[row + 2 + lane] = mirror[${size - 1} - lane];
    for (int step = ${size // 2}; step > 0; step /= 2) {
        if (lane < step)
            tree[lane] += tree[lane + step];
        ${barriers.group_barrier()}
    }
    if (lane == 0) {
        rows[row] = group;
        rows[row + 1] = tree[0];
% if int64:
        atom_add(wide, ((ulong)1 << 33) + (ulong)group);
% endif
% if fp64:
        real[group] = 1.0 / (double)(group + 3);
% endif
    }
}

__kernel __attribute__((reqd_work_group_size(${size}, 1, 1)))
void held(__global int *out)
{
    __local int slots[${size}];
    const int lane = (int)get_local_id(0);
    const int group = (int)get_group_id(0);

    slots[lane] = group + lane;
    ${barriers.group_barrier()}
    const int value = slots[${size - 1} - lane];
    ${barriers.group_barrier()}
    slots[lane] = -1;
    ${barriers.group_barrier()}
    out[group * ${size} + lane] = value;
}

__kernel __attribute__((reqd_work_group_size(1, 1, 1)))
void alone(__global int *counts, const int steps, const int groups)
{
    const int group = (int)get_group_id(0);
    if (group < groups) {
        counts[group] += 1;
    } else {
        int value = group;
        for (int step = 0; step < steps; step++)
            value = value % 7 * 3 + step;
        counts[group] += value;
    }
    counts[group] += 2;
}

__kernel __attribute__((reqd_work_group_size(1, 1, 1)))
void complements(__global int *values, __global const int *others)
{
    const int group = (int)get_group_id(0);
    values[group] = max(values[group], ~others[group]);
}
% else:
% if not cl_std.startswith("CL3"):
#pragma OPENCL EXTENSION cl_khr_subgroups : enable
% endif
% for n in sizes:
__kernel __attribute__((reqd_work_group_size(${size}, 1, 1))) ${attribute.replace("N", str(n))}
void layout_${n}(__global int *out, __global int *wrong)
{
    const int lane = (int)get_local_id(0);
    const int width = (int)get_max_sub_group_size();
    if (lane == 0)
        out[0] = width;
    if ((int)get_sub_group_id() != lane / width || (int)get_sub_group_local_id() != lane % width)
        atomic_inc(wrong);
}
% endfor
% endif
