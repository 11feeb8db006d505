## The register tile of the "vector" matrix products: rows x (count * width) results in vector registers.
##
## Purpose: zero (declare the results), multiply (add one product to a result), store (scale the results by alpha and
##   write them, with beta * C). The results are named re_<row>_<vector> and im_<row>_<vector>.
## Phases: none (parts of functions).   Launch shape: none; one work-item.
## Parameters: rows, count (vectors of a row), width; is_complex, scaled; types (see matmul_element.mako), work.
##   store needs `c`, c_row, c_col, mode, alpha_* and beta_* in scope. whole: a C expression that is true if all results
##   are stored; else those from row `top` and column `left` up to `rows_end` and `columns_end` are. epilogue: see
##   matmul_epilogue.mako; with blocks_of_k, it is applied if `last` is not 0.
<%def name="zero(rows, count, planes)">\
% for r in range(rows):
  VEC ${", ".join(f"{plane}_{r}_{v} = (VEC)(0)" for plane in planes for v in range(count))};
% endfor
</%def>
<%def name="multiply(r, count, is_complex)">\
% for v in range(count):
        re_${r}_${v} = MADD(a_re, b_re${v}, re_${r}_${v});
% if is_complex:
        im_${r}_${v} = MADD(a_re, b_im${v}, im_${r}_${v});
        re_${r}_${v} = NMADD(a_im, b_im${v}, re_${r}_${v});
        im_${r}_${v} = MADD(a_im, b_re${v}, im_${r}_${v});
% endif
% endfor
</%def>
<%def name="store(rows, count, width, is_complex, scaled, types, work, whole, top, left, rows_end, columns_end, epilogue=None, blocks_of_k=False)">\
<%
    planes = ["re", "im"] if is_complex else ["re"]
    # Results of the same size as the working type are stored from registers. Others are converted in a short loop:
    # drivers compile a long sequence of narrowing stores slowly.
    plain = is_complex or types["c"]["type"].lstrip("u") == work.lstrip("u")
%>\
% if scaled:
  /* Scale the results, not the elements of A: alpha * (a @ b) may be finite when (alpha * a) @ b is not. */
% for r in range(rows):
% for v in range(count):
% if is_complex:
  {
    const VEC product = re_${r}_${v} * alpha_re - im_${r}_${v} * alpha_im;
    im_${r}_${v} = re_${r}_${v} * alpha_im + im_${r}_${v} * alpha_re;
    re_${r}_${v} = product;
  }
% else:
  re_${r}_${v} *= alpha_re;
% endif
% endfor
% endfor
% endif
% if epilogue:
  ${"if (last)" if blocks_of_k else ""}
  {
% for plane in planes:
    WORK done_${plane}[${rows * count * width}];
% for r in range(rows):
% for v in range(count):
    vstore${width}(${plane}_${r}_${v}, ${r * count + v}, done_${plane});
% endfor
% endfor
% endfor
    for (int r = ${top}; r < ${rows_end}; r++) {
      int j = ${left};
% if epilogue["vector"]:
      if (c_col == 1)
        for (; j + ${width} <= ${columns_end}; j += ${width}) {
          const long at = r * c_row + j;
          VEC re = vload${width}(0, done_re + r * ${count * width} + j);
          if (mode != 0)
            re += beta_re * VLOAD_c(c, at);
          VEPILOGUE(re, c, at, r, j);
          VSTORE_c(c, at, re, 0);
        }
% endif
      for (; j < ${columns_end}; j++) {
        const long at = r * c_row + j * c_col;
        WORK re = done_re[r * ${count * width} + j], im = ${f"done_im[r * {count * width} + j]" if is_complex else "0"};
        if (mode != 0) {
          const WORK old_re = LOAD_c(c, at), old_im = IMAG_c(c, at);
          re += ${"mode == 1 ? old_re : beta_re * old_re - beta_im * old_im" if is_complex else "beta_re * old_re"};
          im += mode == 1 ? old_im : beta_re * old_im + beta_im * old_re;
        }
        EPILOGUE(re, im, c, at, r, j)
        STORE_c(c, at, re, im);
      }
    }
    return;
  }
% endif
% if not epilogue or blocks_of_k:
% if plain:
  if (${whole} && c_col == 1${" && mode < 2" if is_complex else ""}) {
    if (mode == 0) {
% for r in range(rows):
% for v in range(count):
      VSTORE_c(c, ${r} * c_row + ${v * width}, re_${r}_${v}, ${f"im_{r}_{v}" if is_complex else "0"});
% endfor
% endfor
    } else {
% for r in range(rows):
% for v in range(count):
<% at = f"{r} * c_row + {v * width}" %>\
% if is_complex:
      VSTORE_c(c, ${at}, re_${r}_${v} + VLOAD_c(c, ${at}), im_${r}_${v} + VIMAG_c(c, ${at}));
% else:
      VSTORE_c(c, ${at}, re_${r}_${v} + beta_re * VLOAD_c(c, ${at}), 0);
% endif
% endfor
% endfor
    }
    return;
  }
% endif
% for plane in planes:
  WORK out_${plane}[${rows * count * width}];
% for r in range(rows):
% for v in range(count):
  vstore${width}(${plane}_${r}_${v}, ${r * count + v}, out_${plane});
% endfor
% endfor
% endfor
  for (int r = ${top}; r < ${rows_end}; r++) {
    int j = ${left};
% if not plain:
    if (c_col == 1 && mode == 0)
      for (; j + ${width} <= ${columns_end}; j += ${width})
        VSTORE_c(c, r * c_row + j, vload${width}(0, out_re + r * ${count * width} + j), 0);
% endif
    for (; j < ${columns_end}; j++) {
      const long at = r * c_row + j * c_col;
      WORK re = out_re[r * ${count * width} + j], im = ${f"out_im[r * {count * width} + j]" if is_complex else "0"};
      if (mode != 0) {
        const WORK old_re = LOAD_c(c, at), old_im = IMAG_c(c, at);
        re += ${"mode == 1 ? old_re : beta_re * old_re - beta_im * old_im" if is_complex else "beta_re * old_re"};
        im += mode == 1 ? old_im : beta_re * old_im + beta_im * old_re;
      }
      STORE_c(c, at, re, im);
    }
  }
% endif
</%def>
