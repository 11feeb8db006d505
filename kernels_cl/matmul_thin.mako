## Matrix product of a few rows with a matrix ("vector" mapping): C = beta C + alpha A B. Reading B once is the limit.
##
## Purpose: up to `rows` rows of A. There is no packing: B is streamed through the accumulators.
## Phases, per block of tile_n columns and per part of k: `sweep` (rows of B contiguous): the block's results stay in
##   L1, and `unroll` rows of B at a time are added; or `dots` (columns of B contiguous): inner products of
##   `together` columns at a time; then alpha, beta, store.
## Launch shape: (groups, 1, 1) x (1, 1, 1); each work-group computes adjacent blocks of first ... end - 1.
## Parameters: types, work, width, rows, span (maximum tile_n of sweep, a multiple of width), unroll, together,
##   is_complex, fused, logical, scaled (alpha is not 1), epilogue (see matmul_epilogue.mako, or None),
##   read_ahead (the next rows or columns of B are prefetched: bytes of an element of B; 0: not), columns_ahead (a block
##   has more than `together` columns). Requires b_col == 1, or b_row == 1 and a_col == 1.
<%namespace name="element" file="matmul_element.mako"/>\
<%namespace name="epilogues" file="matmul_epilogue.mako"/>\
<%namespace name="memory" file="prefetch.mako"/>\
<%
    planes = ["re", "im"] if is_complex else ["re"]
%>\
${epilogues.functions(epilogue)}\
${element.declare(types, work, width, is_complex, fused, logical)}
${epilogues.declare(epilogue, work)}\
<%def name="multiply(re, im, x_re, x_im, y_re, y_im)">\
${re} = MADD(${x_re}, ${y_re}, ${re});
% if is_complex:
${im} = MADD(${x_re}, ${y_im}, ${im});
${re} = NMADD(${x_im}, ${y_im}, ${re});
${im} = MADD(${x_im}, ${y_re}, ${im});
% endif
</%def>
<%def name="sweep_step(count)">\
% for r in range(rows):
% for u in range(count):
% for plane in planes:
      const WORK a_${plane}_${r}_${u} = ${"LOAD" if plane == "re" else "IMAG"}_a(a + min(${r}L, m - 1) * a_row, (k + ${u}) * a_col);
% endfor
% endfor
% endfor
% if read_ahead and count == unroll:
      const __global TYPE_b *next = b + (k + ${2 * count} <= depth ? k + ${count} : k) * b_row;
% endif
      int j = 0;
      for (; j + ${width} <= wide; j += ${width}) {
% if read_ahead and count == unroll:
%   for u in range(count):
        ${memory.lines(f"next + {u} * b_row + j", width * read_ahead)}
%   endfor
% endif
% for r in range(rows):
% for plane in planes:
        VEC ${plane}_${r} = vload${width}(0, ${plane} + ${r * span} + j);
% endfor
% endfor
% for u in range(count):
        {
          const VEC b_re = VLOAD_b(b, (k + ${u}) * b_row + j), b_im = VIMAG_b(b, (k + ${u}) * b_row + j);
% for r in range(rows):
          ${multiply(f"re_{r}", f"im_{r}", f"(VEC)(a_re_{r}_{u})", f"(VEC)(a_im_{r}_{u})", "b_re", "b_im")}
% endfor
        }
% endfor
% for r in range(rows):
% for plane in planes:
        vstore${width}(${plane}_${r}, 0, ${plane} + ${r * span} + j);
% endfor
% endfor
      }
      for (; j < wide; j++) {
% for u in range(count):
        {
          const WORK b_re = LOAD_b(b, (k + ${u}) * b_row + j), b_im = IMAG_b(b, (k + ${u}) * b_row + j);
% for r in range(rows):
          ${multiply(f"re[{r * span} + j]", f"im[{r * span} + j]", f"a_re_{r}_{u}", f"a_im_{r}_{u}", "b_re", "b_im")}
% endfor
        }
% endfor
      }
</%def>
static void finish(__global TYPE_c *restrict c, long at, WORK re, WORK im, int mode,
                   WORK alpha_re, WORK alpha_im, WORK beta_re, WORK beta_im${epilogues.parameters(epilogue)})
{
% if scaled and is_complex:
  const WORK product = re * alpha_re - im * alpha_im;
  im = re * alpha_im + im * alpha_re;
  re = product;
% elif scaled:
  re *= alpha_re;
% endif
  if (mode != 0) {
    const WORK old_re = LOAD_c(c, at), old_im = IMAG_c(c, at);
    re += mode == 1 ? old_re : beta_re * old_re${" - beta_im * old_im" if is_complex else ""};
    im += mode == 1 ? old_im : beta_re * old_im + beta_im * old_re;
  }
% if epilogue:
  EPILOGUE(re, im, c, at, 0, 0)
% endif
  STORE_c(c, at, re, im);
}

static void sweep(const __global TYPE_a *restrict a, long a_row, long a_col, const __global TYPE_b *restrict b,
                  long b_row, __global TYPE_c *restrict c, long c_row, long c_col, long m, long depth, int wide,
                  int mode, WORK alpha_re, WORK alpha_im, WORK beta_re, WORK beta_im${epilogues.parameters(epilogue)})
{
% for plane in planes:
  WORK ${plane}[${rows * span}];
% endfor
  for (int r = 0; r < ${rows}; r++)
    for (int j = 0; j < wide; j++) {
% for plane in planes:
      ${plane}[r * ${span} + j] = 0;
% endfor
    }
  long k = 0;
  for (; k + ${unroll} <= depth; k += ${unroll}) {
${sweep_step(unroll)}\
  }
  for (; k < depth; k++) {
${sweep_step(1)}\
  }
  for (int r = 0; r < ${rows} && r < m; r++)
    for (int j = 0; j < wide; j++)
      finish(c, r * c_row + j * c_col, re[r * ${span} + j], ${f"im[r * {span} + j]" if is_complex else "0"}, mode,
             alpha_re, alpha_im, beta_re, beta_im${epilogues.arguments(epilogue, "r", "j")});
}

<%def name="dots(name, count)">\
static void ${name}(const __global TYPE_a *restrict a, long a_row, const __global TYPE_b *restrict b, long b_col, long next,
                  __global TYPE_c *restrict c, long c_row, long c_col, long m, long depth,
                  int mode, WORK alpha_re, WORK alpha_im, WORK beta_re, WORK beta_im${epilogues.parameters(epilogue)})
{
% for r in range(rows):
  VEC ${", ".join(f"{plane}_{r}_{v} = (VEC)(0)" for plane in planes for v in range(count))};
% endfor
  long k = 0;
  for (; k + ${width} <= depth; k += ${width}) {
% for r in range(rows):
    const VEC a_re_${r} = VLOAD_a(a + min(${r}L, m - 1) * a_row, k), a_im_${r} = VIMAG_a(a + min(${r}L, m - 1) * a_row, k);
% endfor
% for v in range(count):
% if read_ahead and columns_ahead and count == together:
    ${memory.lines(f"b + (next + {v}) * b_col + k", width * read_ahead)}
% endif
    {
      const VEC b_re = VLOAD_b(b + ${v} * b_col, k), b_im = VIMAG_b(b + ${v} * b_col, k);
% for r in range(rows):
      ${multiply(f"re_{r}_{v}", f"im_{r}_{v}", f"a_re_{r}", f"a_im_{r}", "b_re", "b_im")}
% endfor
    }
% endfor
  }
% for r in range(rows):
% for v in range(count):
  if (${r} < m) {
% for plane in planes:
    WORK lanes_${plane}[${width}];
    vstore${width}(${plane}_${r}_${v}, 0, lanes_${plane});
% endfor
    WORK re = 0, im = 0;
    for (int i = 0; i < ${width}; i++) {
% for plane in planes:
      ${plane} ${"|=" if logical else "+="} lanes_${plane}[i];
% endfor
    }
    for (long i = k; i < depth; i++) {
      const WORK x_re = LOAD_a(a + ${r} * a_row, i), x_im = IMAG_a(a + ${r} * a_row, i);
      const WORK y_re = LOAD_b(b + ${v} * b_col, i), y_im = IMAG_b(b + ${v} * b_col, i);
      ${multiply("re", "im", "x_re", "x_im", "y_re", "y_im")}
    }
    finish(c, ${r} * c_row + ${v} * c_col, re, im, mode, alpha_re, alpha_im, beta_re, beta_im${epilogues.arguments(epilogue, r, v)});
  }
% endfor
% endfor
}
</%def>
${dots("dots_together", together)}
${dots("dots_one", 1)}
__kernel ${one_lane} __attribute__((reqd_work_group_size(1, 1, 1)))
void matmul_thin(
    const __global TYPE_a *restrict a, long a_offset, long a_row, long a_col, long a_inner, long a_outer,
    const __global TYPE_b *restrict b, long b_offset, long b_row, long b_col, long b_inner, long b_outer,
    __global TYPE_c *restrict c, long c_offset, long c_row, long c_col, long c_inner, long c_outer, long c_part,
    long m, long n, long k, long batch_inner, long parts, long part_k, long blocks_n, long first, long end, int tile_n,
    WORK alpha_re, WORK alpha_im, WORK beta_re, WORK beta_im, int mode${epilogues.kernel_parameters(epilogue)})
{
  /* A work-group computes adjacent blocks, and every run of adjacent work-groups has its even share of the blocks:
     CPU drivers give each thread such a run. */
  const long group = (long)get_group_id(0), groups = (long)get_num_groups(0);
  const long each = (end - first) / groups, more = (end - first) % groups;
  const long stop = first + each * (group + 1) + more * (group + 1) / groups;
  for (long block = first + each * group + more * group / groups; block < stop; block++) {
    const long j0 = (block % blocks_n) * tile_n, rest = block / blocks_n;
    const long part = rest % parts, batch = rest / parts;
    const long inner = batch % batch_inner, outer = batch / batch_inner;
    const long k0 = part * part_k, depth = max(0L, min(part_k, k - k0));
    const int wide = (int)min((long)tile_n, n - j0);
    const __global TYPE_a *a0 = a + a_offset + inner * a_inner + outer * a_outer + k0 * a_col;
    const __global TYPE_b *b0 = b + b_offset + inner * b_inner + outer * b_outer + k0 * b_row + j0 * b_col;
    __global TYPE_c *c0 = c + c_offset + inner * c_inner + outer * c_outer + part * c_part + j0 * c_col;
${epilogues.corner(epilogue, "0", "j0")}\
    if (b_col == 1) {
      sweep(a0, a_row, a_col, b0, b_row, c0, c_row, c_col, m, depth, wide, mode, alpha_re, alpha_im, beta_re, beta_im${epilogues.arguments(epilogue, "0", "0", "corner_")});
    } else {
      int j = 0;
      for (; j + ${together} <= wide; j += ${together})
        dots_together(a0, a_row, b0 + j * b_col, b_col, j + ${2 * together} <= wide ? ${together} : 0, c0 + j * c_col, c_row, c_col, m, depth, mode,
                      alpha_re, alpha_im, beta_re, beta_im${epilogues.arguments(epilogue, "0", "j", "corner_")});
      for (; j < wide; j++)
        dots_one(a0, a_row, b0 + j * b_col, b_col, 0, c0 + j * c_col, c_row, c_col, m, depth, mode,
                 alpha_re, alpha_im, beta_re, beta_im${epilogues.arguments(epilogue, "0", "j", "corner_")});
    }
  }
}
