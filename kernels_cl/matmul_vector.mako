## Matrix product for processors whose work-items are threads ("vector" mapping): C = beta C + alpha A B.
##
## Purpose: one work-item per work-group computes whole blocks of C with explicit vectors, by the layered algorithm of
##   Goto and van de Geijn (Anatomy of High-Performance Matrix Multiplication, 2008).
## Phases, per block of tile_m x tile_n and per block_k of k: pack B into panels of `columns` (they stay in L2); per
##   `rows` of A: pack one panel (it stays in L1), then multiply it by all panels of B with the register tile.
## Launch shape: (groups, 1, 1) x (1, 1, 1); each work-group computes adjacent blocks of first ... end - 1.
##   Each work-group packs into its own `space` elements of scratch memory: work-groups never wait for each other.
## Parameters: types, work, width, rows, vectors (register tile = rows x vectors * width), is_complex, fused, logical,
##   scaled, unroll, prefetch (of C; needs the built-in function), b_prefetch_bytes (see matmul_pack.mako), epilogue (see
##   matmul_epilogue.mako, or None), blocks_of_k (1: there may be several, and C holds the sums between them). Strides are
##   counted in elements. `mode` for the first block of k: 0 overwrite (C is not read), 1 add, 2 multiply by beta and add.
<%namespace name="element" file="matmul_element.mako"/>\
<%namespace name="epilogues" file="matmul_epilogue.mako"/>\
<%namespace name="pack" file="matmul_pack.mako"/>\
<%namespace name="tile" file="matmul_tile.mako"/>\
<%
    columns = vectors * width
    planes = ["re", "im"] if is_complex else ["re"]
    counts = sorted({count for count in (1, 2, 4, 8) if count < vectors} | {vectors})
%>\
${epilogues.functions(epilogue)}\
${element.declare(types, work, width, is_complex, fused, logical)}
${epilogues.declare(epilogue, work)}\
${pack.declare(width, rows, columns, is_complex, b_prefetch_bytes)}
<%def name="step(count, at)">\
% for plane in planes:
% for v in range(count):
      const VEC b_${plane}${v} = *(const __global VEC *)(b${" + b_plane" if plane == "im" else ""} + ${at * columns + v * width});
% endfor
% endfor
% for r in range(rows):
      {
% for plane in planes:
        const VEC a_${plane} = (VEC)(a[${at * rows + r}${" + a_plane" if plane == "im" else ""}]);
% endfor
${tile.multiply(r, count, is_complex)}\
      }
% endfor
</%def>
% for count in counts:
/* The register tile, ${rows} x ${count * width}: `depth` steps of k, then C. */
static void tile_${count}(const __global WORK *restrict a, const __global WORK *restrict b, int depth,
                     __global TYPE_c *restrict c, long c_row, long c_col, int valid_rows, int valid_columns,
                     int mode, WORK alpha_re, WORK alpha_im, WORK beta_re, WORK beta_im${", int last" if epilogue and blocks_of_k else ""}${epilogues.parameters(epilogue)})
{
${tile.zero(rows, count, planes)}\
% if is_complex:
  const long a_plane = (long)depth * ${rows}, b_plane = (long)depth * ${columns};
% endif
% if prefetch:
  /* Cast through an integer: the built-in takes a pointer to the default address space. */
  if (valid_rows == ${rows}) {
% for r in range(rows):
% for v in range(count):
    __builtin_prefetch((const void *)(size_t)(c + ${r} * c_row + ${v * width}), 1);
% endfor
% endfor
  }
% endif
  int k = 0;
  for (; k + ${unroll} <= depth; k += ${unroll}, a += ${rows * unroll}, b += ${columns * unroll}) {
% for u in range(unroll):
    {
${step(count, u)}\
    }
% endfor
  }
% if unroll > 1:
  for (; k < depth; k++, a += ${rows}, b += ${columns}) {
${step(count, 0)}\
  }
% endif
${tile.store(rows, count, width, is_complex, scaled, types, work,
             f"valid_rows == {rows} && valid_columns >= {count * width}", "0", "0", "valid_rows",
             f"min(valid_columns, {count * width})", epilogue, blocks_of_k)}\
}
% endfor

__kernel ${one_lane} __attribute__((reqd_work_group_size(1, 1, 1)))
void matmul_vector(
    const __global TYPE_a *restrict a, long a_offset, long a_row, long a_col, long a_inner, long a_outer,
    const __global TYPE_b *restrict b, long b_offset, long b_row, long b_col, long b_inner, long b_outer,
    __global TYPE_c *restrict c, long c_offset, long c_row, long c_col, long c_inner, long c_outer, long c_part,
    __global WORK *restrict scratch, long space,
    long m, long n, long k, long batch_inner, long parts, long part_k, long blocks_m, long blocks_n, long first, long end,
    int tile_m, int tile_n, int block_k, WORK alpha_re, WORK alpha_im, WORK beta_re, WORK beta_im, int mode${epilogues.kernel_parameters(epilogue)})
{
  __global WORK *panel_a = scratch + (long)get_group_id(0) * space;
  __global WORK *panels_b = panel_a + (long)block_k * ${rows * len(planes)} + ${width};
  /* A work-group computes adjacent blocks, and every run of adjacent work-groups has its even share of the blocks:
     CPU drivers give each thread such a run. */
  const long group = (long)get_group_id(0), groups = (long)get_num_groups(0);
  const long each = (end - first) / groups, more = (end - first) % groups;
  const long stop = first + each * (group + 1) + more * (group + 1) / groups;
  for (long block = first + each * group + more * group / groups; block < stop; block++) {
    const long i0 = (block % blocks_m) * tile_m, j0 = (block / blocks_m % blocks_n) * tile_n;
    const long rest = block / (blocks_m * blocks_n);
    const long part = rest % parts, batch = rest / parts;
    const long inner = batch % batch_inner, outer = batch / batch_inner;
    const __global TYPE_a *a0 = a + a_offset + inner * a_inner + outer * a_outer + i0 * a_row;
    const __global TYPE_b *b0 = b + b_offset + inner * b_inner + outer * b_outer + j0 * b_col;
    __global TYPE_c *c0 = c + c_offset + inner * c_inner + outer * c_outer + part * c_part + i0 * c_row + j0 * c_col;
${epilogues.corner(epilogue, "i0", "j0")}\
    const int high = (int)min((long)tile_m, m - i0), wide = (int)min((long)tile_n, n - j0);
    const long k0 = part * part_k, k1 = min(k, k0 + part_k);
    for (long kb = k0; kb < k1 || kb == k0; kb += block_k) {
      const int use = kb == k0 ? mode : 1;
      const WORK scale = use == 1 ? (WORK)1 : beta_re;
      const int depth = (int)max(0L, min((long)block_k, k1 - kb));
      pack_b(b0 + kb * b_row, b_row, b_col, wide, depth, panels_b);
      for (int i = 0; i < high; i += ${rows}) {
        pack_a(a0 + i * a_row + kb * a_col, a_row, a_col, min(${rows}, high - i), depth, panel_a);
        for (int j = 0; j < wide; j += ${columns}) {
          const __global WORK *panel_b = panels_b + (long)j * depth * ${len(planes)};
          __global TYPE_c *corner = c0 + i * c_row + j * c_col;
          const int left_rows = min(${rows}, high - i), left = min(${columns}, wide - j);
% for count in counts:
          ${"else " if count > 1 else ""}${f"if (left <= {count * width})" if count < vectors else ""}
            tile_${count}(panel_a, panel_b, depth, corner, c_row, c_col, left_rows, left, use, alpha_re, alpha_im, scale, beta_im${", kb + block_k >= k1" if epilogue and blocks_of_k else ""}${epilogues.arguments(epilogue, "i", "j", "corner_")});
% endfor
        }
      }
    }
  }
}
