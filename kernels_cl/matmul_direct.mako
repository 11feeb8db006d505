## Matrix product without packing, for small products and batches of them ("vector" mapping): C = beta C + alpha A B.
##
## Purpose: the register tile reads A and B where they are. B must fit the caches, because each tile reads its columns
##   of B again.
## Phases, per block of tile_m x tile_n: per tile of `rows` x up to `vectors` vectors: all products of a part of k, then
##   C. Tiles at the last rows and columns of a block overlap those before, so that each tile is whole.
## Launch shape: (groups, 1, 1) x (1, 1, 1); work-group g computes the blocks first + g * each ... up to end.
## Parameters: types, work, width, rows, vectors, unroll, a_unit (1: a_col is 1), is_complex, fused, logical, scaled,
##   epilogue (see matmul_epilogue.mako, or None).
##   Requires b_col == 1 and blocks of at least rows x width: the last block of an axis has the remaining rows or columns
##   too. Strides are counted in elements; mode: 0 overwrite, 1 add, 2 beta C.
<%namespace name="element" file="matmul_element.mako"/>\
<%namespace name="epilogues" file="matmul_epilogue.mako"/>\
<%namespace name="tile" file="matmul_tile.mako"/>\
<%
    planes = ["re", "im"] if is_complex else ["re"]
    counts = sorted({count for count in (1, 2, 4, 8) if count < vectors} | {vectors})
    load = {"re": "LOAD", "im": "IMAG"}
    step = "" if a_unit else " * a_col"
%>\
${epilogues.functions(epilogue)}\
${element.declare(types, work, width, is_complex, fused, logical)}
${epilogues.declare(epilogue, work)}\
<%def name="products(count, at)">\
% for plane in planes:
% for v in range(count):
      const VEC b_${plane}${v} = V${load[plane]}_b(b, ${at} * b_row + ${v * width});
% endfor
% endfor
% for r in range(rows):
      {
% for plane in planes:
        const VEC a_${plane} = (VEC)(${load[plane]}_a(a, ${r} * a_row + ${at}${step}));
% endfor
${tile.multiply(r, count, is_complex)}\
      }
% endfor
</%def>
% for count in counts:
/* ${rows} x ${count * width} results. The first `top` rows and `left` columns are stored already. */
static void tile_${count}(const __global TYPE_a *a, long a_row, long a_col, const __global TYPE_b *b, long b_row,
                     long depth, __global TYPE_c *restrict c, long c_row, long c_col, int top, int left,
                     int mode, WORK alpha_re, WORK alpha_im, WORK beta_re, WORK beta_im${epilogues.parameters(epilogue)})
{
${tile.zero(rows, count, planes)}\
  long k = 0;
  for (; k + ${unroll} <= depth; k += ${unroll}, a += ${unroll}${step}, b += ${unroll} * b_row) {
% for u in range(unroll):
    {
${products(count, u)}\
    }
% endfor
  }
% if unroll > 1:
  for (; k < depth; k++, a += 1${step}, b += b_row) {
${products(count, 0)}\
  }
% endif
${tile.store(rows, count, width, is_complex, scaled, types, work, "(mode == 0 || top + left == 0)", "top", "left",
             rows, count * width, epilogue)}\
}
% endfor

__kernel ${one_lane} __attribute__((reqd_work_group_size(1, 1, 1)))
void matmul_direct(
    const __global TYPE_a *restrict a, long a_offset, long a_row, long a_col, long a_inner, long a_outer,
    const __global TYPE_b *restrict b, long b_offset, long b_row, long b_col, long b_inner, long b_outer,
    __global TYPE_c *restrict c, long c_offset, long c_row, long c_col, long c_inner, long c_outer, long c_part,
    long m, long n, long k, long batch_inner, long parts, long part_k, long blocks_m, long blocks_n, long first, long end,
    long each, int tile_m, int tile_n, WORK alpha_re, WORK alpha_im, WORK beta_re, WORK beta_im, int mode${epilogues.kernel_parameters(epilogue)})
{
  long block = first + (long)get_group_id(0) * each;
  const long stop = min(end, block + each);
  /* Counted up from block to block: a division takes as long as many multiply-adds. */
  long block_m = block % blocks_m, block_n = block / blocks_m % blocks_n;
  long part = block / (blocks_m * blocks_n), inner = part / parts, outer = inner / batch_inner;
  part %= parts;
  inner %= batch_inner;
  for (; block < stop; block++) {
    const long i0 = block_m * tile_m, j0 = block_n * tile_n, k0 = part * part_k;
    const long depth = max(0L, min(part_k, k - k0));
    const int high = block_m + 1 == blocks_m ? (int)(m - i0) : tile_m;
    const int wide = block_n + 1 == blocks_n ? (int)(n - j0) : tile_n;
    const __global TYPE_a *a0 = a + a_offset + inner * a_inner + outer * a_outer + i0 * a_row + k0 * a_col;
    const __global TYPE_b *b0 = b + b_offset + inner * b_inner + outer * b_outer + k0 * b_row + j0;
    __global TYPE_c *c0 = c + c_offset + inner * c_inner + outer * c_outer + part * c_part + i0 * c_row + j0 * c_col;
${epilogues.corner(epilogue, "i0", "j0")}\
    for (int i = 0; i < high; i += ${rows}) {
      const int top = max(0, i + ${rows} - high);
      const __global TYPE_a *rows = a0 + (i - top) * a_row;
      __global TYPE_c *to = c0 + (i - top) * c_row;
      int j = 0;
% for count in reversed(counts):
      for (; j + ${count * width} <= wide; j += ${count * width})
        tile_${count}(rows, a_row, a_col, b0 + j, b_row, depth, to + j * c_col, c_row, c_col, top, 0,
                mode, alpha_re, alpha_im, beta_re, beta_im${epilogues.arguments(epilogue, "i - top", "j", "corner_")});
% endfor
      if (j < wide)
        tile_1(rows, a_row, a_col, b0 + wide - ${width}, b_row, depth, to + (wide - ${width}) * c_col, c_row, c_col,
               top, ${width} - (wide - j), mode, alpha_re, alpha_im, beta_re, beta_im${epilogues.arguments(epilogue, "i - top", f"wide - {width}", "corner_")});
    }
    if (++block_m == blocks_m) {
      block_m = 0;
      if (++block_n == blocks_n) {
        block_n = 0;
        if (++part == parts) {
          part = 0;
          if (++inner == batch_inner) {
            inner = 0;
            outer++;
          }
        }
      }
    }
  }
}
