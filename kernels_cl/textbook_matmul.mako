## The textbook matrix product, for comparison only: C = A B, one result per work-item, two barriers per step.
##
## Purpose: the baseline for pydp.matmul: tile x tile work-groups, tiles of A and B staged in local memory.
## Phases, per tile of k: stage, barrier, multiply, barrier.
## Launch shape: (n rounded up, m rounded up) x (tile, tile).   Parameters: type (C scalar), tile. C-contiguous only.
<%namespace name="barriers" file="wg_barrier.mako"/>\
__kernel __attribute__((reqd_work_group_size(${tile}, ${tile}, 1)))
void textbook_matmul(const __global ${type} *a, const __global ${type} *b, __global ${type} *c, int m, int n, int k)
{
  __local ${type} tile_a[${tile}][${tile}], tile_b[${tile}][${tile}];
  const int x = (int)get_local_id(0), y = (int)get_local_id(1);
  const int j = (int)get_global_id(0), i = (int)get_global_id(1);
  ${type} sum = 0;
  for (int step = 0; step < (k + ${tile - 1}) / ${tile}; step++) {
    const int ka = step * ${tile} + x, kb = step * ${tile} + y;
    tile_a[y][x] = i < m && ka < k ? a[(long)i * k + ka] : 0;
    tile_b[y][x] = kb < k && j < n ? b[(long)kb * n + j] : 0;
    ${barriers.group_barrier()}
    for (int s = 0; s < ${tile}; s++)
      sum += tile_a[y][s] * tile_b[s][x];
    ${barriers.group_barrier()}
  }
  if (i < m && j < n)
    c[(long)i * n + j] = sum;
}
