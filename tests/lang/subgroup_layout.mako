## Writes each work-item's subgroup and its number in it, at its linear local id. One group.
## Parameters: shape (of the group), size (of a subgroup), cl_std.
__kernel __attribute__((reqd_work_group_size(${", ".join(str(n) for n in shape)})))
__attribute__((intel_reqd_sub_group_size(${size})))
void subgroup_layout(__global int *out)
{
    const int lane = (int)get_local_linear_id();
    out[2 * lane] = (int)get_sub_group_id();
    out[2 * lane + 1] = (int)get_sub_group_local_id();
}
