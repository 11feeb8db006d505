## Matrix product for processors that run lanes in lockstep ("simt" mapping): C = beta C + alpha A B.
##
## Purpose: a work-group computes tile_m x tile_n of C. It stages tile_k of A and B at a time in local memory: global
##   accesses are coalesced for all strides of the operands. A work-item holds (tile_m / lanes_m) x (tile_n / lanes_n)
##   results in registers, in blocks of `block` x `block` adjacent results.
## Phases, per tile_k of k: read the next tiles into registers; multiply the staged tiles; store the read tiles into the
##   other one of two buffers (wg_parity.mako: one barrier per step, not two), or into the same buffer after a second
##   barrier. The barriers are in a loop with a uniform trip count.
## Launch shape: (groups * lanes_m * lanes_n, 1, 1) x (lanes_m * lanes_n, 1, 1); the work-group's index gives its tile,
##   part of k and batch.
## Parameters: types, work, tile_m, tile_n, tile_k, lanes_m, lanes_n, block (1, 2 or 4), pad (elements added to a
##   staged row against bank conflicts; a multiple of block), buffers (1 or 2), stretch (of k; divides tile_k),
##   is_complex, fused, logical, scaled, epilogue (see matmul_epilogue.mako, or None); lowerings, attribute, subgroups (see pydp/groups/barrier_plan.py).
##   Strides are counted in elements; mode: 0 overwrite, 1 add, 2 beta C.
<%namespace name="element" file="matmul_element.mako"/>\
<%namespace name="epilogues" file="matmul_epilogue.mako"/>\
<%namespace name="barriers" file="wg_barrier.mako"/>\
<%namespace name="parity" file="wg_parity.mako"/>\
<%
    planes = ["re", "im"] if is_complex else ["re"]
    group = lanes_m * lanes_n
    rows, columns = tile_m // lanes_m, tile_n // lanes_n
    loads_a, loads_b = -(-tile_m * tile_k // group), -(-tile_n * tile_k // group)
    row_of = [(r // block) * block * lanes_m + r % block for r in range(rows)]
    column_of = [(v // block) * block * lanes_n + v % block for v in range(columns)]
    BLOCK = "WORK" if block == 1 else f"{work}{block}"
    load = {"re": "LOAD", "im": "IMAG"}
    # If k is contiguous, adjacent lanes stage `stretch` elements of k, then the next one of `block` rows or columns.
    across_k, along_k = f"e / {tile_k}", f"e % {tile_k}"
    if stretch < tile_k:
        across_k = f"e / {stretch} % {block} + e / {tile_k * block} * {block}"
        along_k = f"e % {stretch} + e / {stretch * block} % {tile_k // stretch} * {stretch}"
%>\
% if subgroups:
${barriers.enable_subgroups()}
% endif
${epilogues.functions(epilogue)}\
${element.declare(types, work, 0, is_complex, fused, logical)}
${epilogues.declare(epilogue, work)}\
#define A_PITCH ${tile_m + pad}
#define B_PITCH ${tile_n + pad}

<%def name="read(letter, tile, loads, base, across, along)">\
% for s in range(loads):
% for plane in planes:
      WORK ${letter}_${plane}${s} = 0;
% endfor
      {
        const int e = lane + ${s * group};
        const int x = ${letter}_along ? ${across_k} : e % ${tile}, y = ${letter}_along ? ${along_k} : e / ${tile};
% if tile * tile_k % group:
        if (y < ${tile_k} && x < ${tile} && x < valid_${letter} && k0 + y < k1) {
% else:
        if (x < valid_${letter} && k0 + y < k1) {
% endif
% for plane in planes:
          ${letter}_${plane}${s} = ${load[plane]}_${letter}(${base}, x * ${across} + (k0 + y) * ${along});
% endfor
        }
      }
% endfor
</%def>
<%def name="stage(letter, tile, loads, pitch)">\
% for s in range(loads):
      {
        const int e = lane + ${s * group};
        const int x = ${letter}_along ? ${across_k} : e % ${tile}, y = ${letter}_along ? ${along_k} : e / ${tile};
% if tile * tile_k % group:
        if (y < ${tile_k} && x < ${tile})
% endif
        {
% for plane in planes:
          local_${letter}_${plane}[to_${letter} + y * ${pitch} + x] = ${letter}_${plane}${s};
% endfor
        }
      }
% endfor
</%def>
__kernel __attribute__((reqd_work_group_size(${group}, 1, 1))) ${attribute}
void matmul_simt(
    const __global TYPE_a *restrict a, long a_offset, long a_row, long a_col, long a_inner, long a_outer,
    const __global TYPE_b *restrict b, long b_offset, long b_row, long b_col, long b_inner, long b_outer,
    __global TYPE_c *restrict c, long c_offset, long c_row, long c_col, long c_inner, long c_outer, long c_part,
    long m, long n, long k, long batch_inner, long parts, long part_k, long blocks_m, long blocks_n, int steps,
    WORK alpha_re, WORK alpha_im, WORK beta_re, WORK beta_im, int mode${epilogues.kernel_parameters(epilogue)})
{
% for plane in planes:
  __local WORK local_a_${plane}[${buffers * tile_k} * A_PITCH] __attribute__((aligned(64)));
  __local WORK local_b_${plane}[${buffers * tile_k} * B_PITCH] __attribute__((aligned(64)));
% endfor
  const long number = (long)get_group_id(0);
  const int lane = (int)get_local_id(0), lane_n = lane % ${lanes_n}, lane_m = lane / ${lanes_n};
  const long i0 = (number % blocks_m) * ${tile_m}, j0 = (number / blocks_m % blocks_n) * ${tile_n};
  const long rest = number / (blocks_m * blocks_n), part = rest % parts, batch = rest / parts;
  const long inner = batch % batch_inner, outer = batch / batch_inner;
  const __global TYPE_a *a0 = a + a_offset + inner * a_inner + outer * a_outer + i0 * a_row;
  const __global TYPE_b *b0 = b + b_offset + inner * b_inner + outer * b_outer + j0 * b_col;
  __global TYPE_c *c0 = c + c_offset + inner * c_inner + outer * c_outer + part * c_part + i0 * c_row + j0 * c_col;
${epilogues.shift(epilogue, "i0", "j0")}\
  const long valid_a = m - i0, valid_b = n - j0, k1 = min(k, (part + 1) * part_k);
  const int a_along = a_col == 1, b_along = b_row == 1 && b_col != 1;
% for r in range(rows):
  WORK ${", ".join(f"{plane}_{r}_{v} = 0" for plane in planes for v in range(columns))};
% endfor
  for (int step = 0; step <= steps; step++) {
    {
      const long k0 = part * part_k + (long)step * ${tile_k};
      const int to_a = ${parity.half(buffers, "step", f"{tile_k} * A_PITCH")}, to_b = ${parity.half(buffers, "step", f"{tile_k} * B_PITCH")};
${read("a", tile_m, loads_a, "a0", "a_row", "a_col")}\
${read("b", tile_n, loads_b, "b0", "b_col", "b_row")}\
      if (step > 0) {
        const int from_a = ${parity.half(buffers, "step + 1", f"{tile_k} * A_PITCH")}, from_b = ${parity.half(buffers, "step + 1", f"{tile_k} * B_PITCH")};
        for (int y = 0; y < ${tile_k}; y++) {
% for plane in planes:
% for r in range(0, rows, block):
          const ${BLOCK} x_${plane}${r} = *(const __local ${BLOCK} *)(local_a_${plane} + from_a + y * A_PITCH + lane_m * ${block} + ${row_of[r]});
% endfor
% for v in range(0, columns, block):
          const ${BLOCK} y_${plane}${v} = *(const __local ${BLOCK} *)(local_b_${plane} + from_b + y * B_PITCH + lane_n * ${block} + ${column_of[v]});
% endfor
% endfor
% for r in range(rows):
% for v in range(columns):
<%
    pick = lambda name, i: f"{name}{i // block * block}" + (f".s{i % block}" if block > 1 else "")
    x_re, x_im, y_re, y_im = pick("x_re", r), pick("x_im", r), pick("y_re", v), pick("y_im", v)
%>\
          re_${r}_${v} = MADD(${x_re}, ${y_re}, re_${r}_${v});
% if is_complex:
          im_${r}_${v} = MADD(${x_re}, ${y_im}, im_${r}_${v});
          re_${r}_${v} = NMADD(${x_im}, ${y_im}, re_${r}_${v});
          im_${r}_${v} = MADD(${x_im}, ${y_re}, im_${r}_${v});
% endif
% endfor
% endfor
        }
      }
      ${parity.reads_end(buffers, lowerings, group)}
${stage("a", tile_m, loads_a, "A_PITCH")}\
${stage("b", tile_n, loads_b, "B_PITCH")}\
    }
    ${parity.stores_end(lowerings, group)}
  }
% for r in range(rows):
% for v in range(columns):
  {
    const long i = lane_m * ${block} + ${row_of[r]}, j = lane_n * ${block} + ${column_of[v]};
    if (i < valid_a && j < valid_b) {
      const long at = i * c_row + j * c_col;
      WORK re = re_${r}_${v}, im = ${f"im_{r}_{v}" if is_complex else "0"};
% if scaled and is_complex:
      const WORK product = re * alpha_re - im * alpha_im;
      im = re * alpha_im + im * alpha_re;
      re = product;
% elif scaled:
      re *= alpha_re;
% endif
      if (mode != 0) {
        const WORK old_re = LOAD_c(c0, at), old_im = IMAG_c(c0, at);
        re += mode == 1 ? old_re : beta_re * old_re${" - beta_im * old_im" if is_complex else ""};
        im += mode == 1 ? old_im : beta_re * old_im + beta_im * old_re;
      }
% if epilogue:
      EPILOGUE(re, im, c0, at, i, j)
% endif
      STORE_c(c0, at, re, im);
    }
  }
% endfor
% endfor
}
