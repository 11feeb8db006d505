## The last step of a matrix product with split-k: C = beta C + the sum of the partial products.
##
## Purpose: adds the partial products in a fixed order (bitwise reproducible), and converts to C's type.
## Phases: one.   Launch shape: (elements rounded up to whole work-groups) x (group); surplus work-items store nothing.
## Parameters: types (a: the partial product, c: the result), work, is_complex, logical, group, epilogue (see
##   matmul_epilogue.mako, or None). The partial products are contiguous, each batch x m x n in C order. C has any strides. mode: 0 overwrite, 1 add, 2 beta C.
<%namespace name="element" file="matmul_element.mako"/>\
<%namespace name="epilogues" file="matmul_epilogue.mako"/>\
${epilogues.functions(epilogue)}\
${element.declare(types, work, 0, is_complex, False, logical)}
${epilogues.declare(epilogue, work)}\
__kernel __attribute__((reqd_work_group_size(${group}, 1, 1)))
void matmul_combine(const __global TYPE_a *restrict partial, long partial_offset, __global TYPE_c *restrict c,
                    long c_offset, long c_row, long c_col, long c_inner, long c_outer, long m, long n,
                    long batch_inner, long parts, long count, WORK beta_re, WORK beta_im, int mode${epilogues.kernel_parameters(epilogue)})
{
  const long at = (long)get_global_id(0);
  if (at < count) {
    WORK re = 0, im = 0;
    for (long part = 0; part < parts; part++) {
      re ${"|=" if logical else "+="} LOAD_a(partial + partial_offset, part * count + at);
      im += IMAG_a(partial + partial_offset, part * count + at);
    }
    const long j = at % n, row = at / n, i = row % m, batch = row / m;
    const long inner = batch % batch_inner, outer = batch / batch_inner;
    const long to = c_offset + i * c_row + j * c_col + inner * c_inner + outer * c_outer;
${epilogues.shift(epilogue, "i", "j")}\
    if (mode != 0) {
      const WORK old_re = LOAD_c(c, to), old_im = IMAG_c(c, to);
      re += mode == 1 ? old_re : beta_re * old_re${" - beta_im * old_im" if is_complex else ""};
      im += mode == 1 ? old_im : beta_re * old_im + beta_im * old_re;
    }
% if epilogue:
    EPILOGUE(re, im, c, to, 0, 0)
% endif
    STORE_c(c, to, re, im);
  }
}
