## Matrix product for processors that run lanes in lockstep ("simt" mapping): C = beta C + alpha A B.
##
## Purpose: a work-group computes tile_m x tile_n of C. It stages tile_k of A and B at a time in local memory: global
##   accesses are coalesced for all strides of the operands. A work-item holds (tile_m / lanes_m) x (tile_n / lanes_n)
##   results in registers, in blocks of `block` x `block` adjacent results. If the group allows it, 32 adjacent lanes are
##   4 x 8 work-items, which load few different elements from local memory: lanes that differ in bit 0 load the same
##   elements of B, lanes that differ in bit 1 (to 3) the same elements of A. NVIDIA GPUs load 16 bytes per lane in half
##   the time if each lane shares the address with one of these two neighbours.
## Phases, per tile_k of k: read the next tiles into registers; multiply the staged tiles; store the read tiles into the
##   other one of two buffers (wg_parity.mako: one barrier per step, not two), or into the same buffer after a second
##   barrier. The barriers are in a loop with a uniform trip count. Only the reads of the last tile of k have conditions:
##   beyond the last row or column of C, lanes read the last one again, and the results are not stored.
## Launch shape: (groups * lanes_m * lanes_n, 1, 1) x (lanes_m * lanes_n, 1, 1); the work-group's index gives its tile,
##   part of k and batch.
## Parameters: types, work, tile_m, tile_n, tile_k, lanes_m, lanes_n, block (1, 2 or 4), pad (elements added to a
##   staged row against bank conflicts; a multiple of block), buffers (1 or 2), unroll (steps of k per iteration),
##   reads_a, reads_b (see Reads.params in pydp/algorithms/matmul/staging.py), is_complex, fused, logical, scaled,
##   epilogue (see matmul_epilogue.mako, or None); lowerings, attribute, subgroups (see pydp/groups/barrier_plan.py).
##   Strides are counted in elements; mode: 0 overwrite, 1 add, 2 beta C.
<%namespace name="element" file="matmul_element.mako"/>\
<%namespace name="epilogues" file="matmul_epilogue.mako"/>\
<%namespace name="barriers" file="wg_barrier.mako"/>\
<%namespace name="parity" file="wg_parity.mako"/>\
<%
    planes = ["re", "im"] if is_complex else ["re"]
    group = lanes_m * lanes_n
    rows, columns = tile_m // lanes_m, tile_n // lanes_n
    row_of = [(r // block) * block * lanes_m + r % block for r in range(rows)]
    column_of = [(v // block) * block * lanes_n + v % block for v in range(columns)]
    BLOCK = "WORK" if block == 1 else f"{work}{block}"
    lane_m, lane_n = f"lane / {lanes_n}", f"lane % {lanes_n}"
    if lanes_m % 4 == 0 and lanes_n % 8 == 0:
        lane_m = f"lane % 2 + lane / 16 % 2 * 2 + lane / {4 * lanes_n} * 4"
        lane_n = f"lane / 2 % 8 + lane / 32 % {lanes_n // 8} * 8"
%>\
% if subgroups:
${barriers.enable_subgroups()}
% endif
${epilogues.functions(epilogue)}\
${element.declare(types, work, 0, is_complex, fused, logical)}
${element.adjacent("a", types["a"], work, reads_a["width"], reads_a["aligned"])}\
${element.adjacent("b", types["b"], work, reads_b["width"], reads_b["aligned"])}\
${epilogues.declare(epilogue, work)}\
#define A_PITCH ${tile_m + pad}
#define B_PITCH ${tile_n + pad}

<%!
    def row(letter, one, s):
        """The C text of the row or column, in the tile, of a lane's read number s."""
        return f"{letter}_x{s}" if s == 0 or one["next_x"] is None else f"{letter}_x0 + {s * one['next_x']}"

    def depth(letter, one, s):
        """The C text of its k in the tile."""
        return f"{letter}_y{s}" if s == 0 or one["next_y"] is None else f"{letter}_y0 + {s * one['next_y']}"

    def one_pointer(one):
        """Whether one pointer serves all reads of a lane: they differ in k only."""
        return one["next_x"] == 0
%>\
<%def name="start(letter, one, base, across, along)">
<% V, run, lines, deep = one["width"], one["run"], one["rows"], tile_k // one["width"] %>\
% for s in range(one["count"] if one["next_x"] is None else 1):
  const int ${letter}_e${s} = lane + ${s * group};
<% e = f"{letter}_e{s}" %>\
% if one["along_k"]:
  const int ${letter}_x${s} = ${e} / ${run} % ${lines} + ${e} / ${deep * lines} * ${lines};
  const int ${letter}_y${s} = (${e} % ${run} + ${e} / ${run * lines} % ${deep // run} * ${run}) * ${V};
% else:
  const int ${letter}_x${s} = ${e} % ${one["size"] // V} * ${V}, ${letter}_y${s} = ${e} / ${one["size"] // V};
% endif
% endfor
% for s in range(1 if one_pointer(one) else one["count"]):
  const __global TYPE_${letter} *${letter}_from${s} = ${base} + min(${row(letter, one, s)}, valid_${letter} - ${1 if one["along_k"] else V}) * ${across} + (first_k + ${depth(letter, one, s)}) * ${along};
% endfor
</%def>
<%def name="read(letter, one, along, conditions)">
% for s in range(one["count"]):
<%
    pointer = f"{letter}_from{s}"
    if one_pointer(one):
        pointer = f"{letter}_from0" + (f" + {s * one['next_y']} * {along}" if s else "")
    tests = [f"{depth(letter, one, s)} < left"]
    if one["ragged"]:
        tests.append(f"{row(letter, one, s)} < {one['size']} && {depth(letter, one, s)} < {tile_k}")
%>\
% if conditions:
        if (${" && ".join(tests)}) {
% endif
% for plane in planes:
          ${letter}_${plane}${s} = ADJACENT_${letter}_${plane}(${pointer});
% endfor
% if conditions:
        }
% endif
% endfor
</%def>
<%def name="stage(letter, one, pitch)">
<% V = one["width"] %>\
% for s in range(one["count"]):
% if one["ragged"]:
      if (${row(letter, one, s)} < ${one["size"]} && ${depth(letter, one, s)} < ${tile_k})
% endif
      {
% for plane in planes:
<% to, value = f"local_{letter}_{plane} + to_{letter} + ({depth(letter, one, s)}) * {pitch} + {row(letter, one, s)}", f"{letter}_{plane}{s}" %>\
% if V == 1:
        *(${to}) = ${value};
% elif one["along_k"]:
% for j in range(V):
        *(${to} + ${j} * ${pitch}) = ${value}.s${j};
% endfor
% else:
        *(__local ${work}${V} *)(${to}) = ${value};
% endif
% endfor
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
  const int lane = (int)get_local_id(0);
  const int lane_m = ${lane_m}, lane_n = ${lane_n};
  const int block_m = (int)(number % blocks_m), block_n = (int)(number / blocks_m % blocks_n);
  const long others = number / (blocks_m * blocks_n), batch = others / parts;
  const int part = (int)(others % parts);
  const long i0 = (long)block_m * ${tile_m}, j0 = (long)block_n * ${tile_n};
  const long inner = batch % batch_inner, outer = batch / batch_inner;
  const __global TYPE_a *a0 = a + a_offset + inner * a_inner + outer * a_outer + i0 * a_row;
  const __global TYPE_b *b0 = b + b_offset + inner * b_inner + outer * b_outer + j0 * b_col;
  const int valid_a = (int)min(m - i0, (long)${tile_m}), valid_b = (int)min(n - j0, (long)${tile_n});
  const long first_k = part * part_k, k1 = min(k, first_k + part_k);
  const int whole = (int)((k1 - first_k) / ${tile_k}), last = (int)((k1 - first_k) % ${tile_k});
${start("a", reads_a, "a0", "a_row", "a_col")}\
${start("b", reads_b, "b0", "b_col", "b_row")}\
% for r in range(rows):
  WORK ${", ".join(f"{plane}_{r}_{v} = 0" for plane in planes for v in range(columns))};
% endfor
  for (int step = 0; step <= steps; step++) {
    {
      const int to_a = ${parity.half(buffers, "step", f"{tile_k} * A_PITCH")}, to_b = ${parity.half(buffers, "step", f"{tile_k} * B_PITCH")};
% for letter, one in (("a", reads_a), ("b", reads_b)):
% for plane in planes:
      ${work}${one["width"] if one["width"] > 1 else ""} ${", ".join(f"{letter}_{plane}{s} = 0" for s in range(one["count"]))};
% endfor
% endfor
% for condition, limited in ([("", True)] if reads_a["ragged"] or reads_b["ragged"] else [("if (step < whole)", False), ("else", True)]):
      ${condition} {
% if limited:
        const int left = step < whole ? ${tile_k} : step == whole ? last : 0;
% endif
${read("a", reads_a, "a_col", limited)}\
${read("b", reads_b, "b_row", limited)}\
      }
% endfor
% for letter, one, along in (("a", reads_a, "a_col"), ("b", reads_b, "b_row")):
% for s in range(1 if one_pointer(one) else one["count"]):
      ${letter}_from${s} += ${tile_k} * ${along};
% endfor
% endfor
      if (step > 0) {
        const int from_a = ${parity.half(buffers, "step + 1", f"{tile_k} * A_PITCH")}, from_b = ${parity.half(buffers, "step + 1", f"{tile_k} * B_PITCH")};
% if unroll > 1:
        #pragma unroll ${unroll}
% endif
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
${stage("a", reads_a, "A_PITCH")}\
${stage("b", reads_b, "B_PITCH")}\
    }
    ${parity.stores_end(lowerings, group)}
  }
  __global TYPE_c *c0 = c + c_offset + inner * c_inner + outer * c_outer + part * c_part + i0 * c_row + j0 * c_col;
${epilogues.shift(epilogue, "i0", "j0")}\
% for r in range(rows):
% for v in range(columns):
  {
    const int i = lane_m * ${block} + ${row_of[r]}, j = lane_n * ${block} + ${column_of[v]};
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
