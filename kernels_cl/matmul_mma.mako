## Matrix product with tensor cores: C = beta C + alpha A B, for float16 (sums in float32) and float64.
##
## Purpose: a work-group computes tile_m x tile_n of C. It stages tile_k of A and B at a time in local memory, several
##   steps ahead; its warps_m x warps_n warps multiply fragments of the tiles (see mma.mako).
## Phases, per tile_k of k: wait for the copies of this step, which began buffers - 1 steps before; a barrier; begin the
##   copies of a later step, to the buffer that all warps have read; multiply. The barrier is in a loop with a uniform
##   trip count. The last step is followed by no barrier: results are stored from registers.
## Layout: a tile has rows of chunks of 16 bytes: a row for each step of k, with the elements along m or n ("along" is
##   False), or a row for each m or n, with the elements along k (True: k is contiguous). Chunk c of row y is stored at
##   place c ^ swizzle(y), so that the accesses of a warp to one chunk of several rows use all banks.
## Launch shape: (groups * 32 * warps_m * warps_n, 1, 1); the work-group's index gives its tile, part of k and batch.
##   Work-groups that run together compute adjacent tiles, `span` rows of tiles high, and find what they share in the L2
##   cache.
## Parameters: types, work, kind ("f16" or "f64"), ptx, shape ((m, k) of an f64 product of a warp), tile_m, tile_n,
##   tile_k, warps_m, warps_n, buffers, span, along and copied (dicts by operand; copied: chunks are copied as they are, else
##   element by element), pairs (pairs of results of a row are aligned), scaled, epilogue (see matmul_epilogue.mako, or
##   None); lowerings, attribute, subgroups (see pydp/groups/barrier_plan.py).
##   Strides are counted in elements; mode: 0 overwrite, 1 add, 2 beta C.
<%namespace name="element" file="matmul_element.mako"/>\
<%namespace name="epilogues" file="matmul_epilogue.mako"/>\
<%namespace name="barriers" file="wg_barrier.mako"/>\
<%namespace name="mma" file="mma.mako"/>\
<%
    group = 32 * warps_m * warps_n
    item = 2 if kind == "f16" else 8
    E = 16 // item  # elements of a chunk
    REGISTER = "uint" if kind == "f16" else "double"
    M, K = (16, 16) if kind == "f16" else shape
    tile, warps = {"a": tile_m, "b": tile_n}, {"a": "warp_m", "b": "warp_n"}
    part = {"a": tile_m // warps_m, "b": tile_n // warps_n}  # of a warp
    chunks = {x: tile[x] * tile_k // E for x in "ab"}
    line = {x: (tile_k if along[x] else tile[x]) // E for x in "ab"}  # chunks of a row
    first = {"a": 0, "b": 16 * chunks["a"]}  # byte of a buffer
    whole = 16 * (chunks["a"] + chunks["b"])  # bytes of a buffer
    stride = {"a": ("a_row", "a_col"), "b": ("b_col", "b_row")}  # along m or n, along k
    fragments = {"a": part["a"] // M, "b": part["b"] // 8}
    halves = M // 8

    def swizzle(letter, y):
        """The C text of what the index of a chunk in row `y` is combined with."""
        near = min(line[letter], 8)  # chunks of one row of banks
        y = f"({y})" if near == 8 else f"({y}) / {8 // near}"
        return f"({y} & {near - 1})" if kind == "f16" else f"(({y} & {near // 2 - 1}) * 2)"
%>\
% if subgroups:
${barriers.enable_subgroups()}
% endif
${epilogues.functions(epilogue)}\
${element.declare(types, work, 0, False, False, False)}
${epilogues.declare(epilogue, work)}\
% if kind == "f16":
% for letter in "ab":
% if not copied[letter]:
<% converted = types[letter]["kind"] != "half" %>\
static uint bits_${letter}(const __global TYPE_${letter} *p, long at)
{
% if converted:
  ushort bits;
  vstore_half_rte((float)LOAD_${letter}(p, at), 0, (half *)&bits);
  return bits;
% else:
  return ((const __global ushort *)p)[at];
% endif
}
% endif
% endfor
% if types["c"]["kind"] == "half":
static uint pair_of(float low, float high)
{
% if ptx:
  uint both;
  __asm__("cvt.rn.f16x2.f32 %0, %1, %2;" : "=r"(both) : "f"(high), "f"(low));
  return both;
% else:
  ushort bits[2];
  vstore_half_rte(low, 0, (half *)bits);
  vstore_half_rte(high, 1, (half *)bits);
  return bits[0] | (uint)bits[1] << 16;
% endif
}
% endif
% endif

## Begins the copies of one step to buffer `to`.
<%def name="stage(to, edges)">\
% for letter in "ab":
<% across, down = stride[letter] %>\
% for s in range(-(-chunks[letter] // group)):
<%
    row, chunk = s * group // line[letter], s * group % line[letter]
    y, c = f"row_{letter} + {row}", f"(chunk_{letter} + {chunk})"
    at = f"{to} + {first[letter]} + (({y}) * {line[letter]} + ({c} ^ {swizzle(letter, y)})) * 16"
    source = f"from_{letter} + {row} * {across if along[letter] else down} + {chunk * E} * {down if along[letter] else across}"
    x_left, k_left = (f"x_left_{letter}", "k_left")
    outer, inner = (x_left, k_left) if along[letter] else (k_left, x_left)
    left = f"({y} < {outer} ? clamp({inner} - {c} * {E}, 0, {E}) : 0)"
%>\
% if chunks[letter] % group:
      if (lane + ${s * group} < ${chunks[letter]})
% endif
      {
% if copied[letter]:
${mma.copy(ptx, "staged", at, source, f"{left} * {item}" if edges else None)}\
% else:
        const __global TYPE_${letter} *source = ${source};
        const int left = ${left if edges else E};
        const long step = ${down if along[letter] else across};
% if kind == "f16":
        uint ${", ".join(f"e{n} = 0" for n in range(E))};
% for n in range(E):
        if (${n} < left) e${n} = bits_${letter}(source, ${n} * step);
% endfor
        staged[(${at}) / 16] = (uint4)(${", ".join(f"e{n} | e{n + 1} << 16" for n in range(0, E, 2))});
% else:
        double2 both = (double2)(0, 0);
        if (0 < left) both.x = LOAD_${letter}(source, 0);
        if (1 < left) both.y = LOAD_${letter}(source, step);
        *(__local double2 *)(staged + (${at}) / 16) = both;
% endif
% endif
      }
% endfor
% endfor
</%def>
<%def name="stage_step(to)">\
    {
      const int k_left = (int)clamp(k1 - k0, 0L, ${tile_k}L);
      if (inside && k_left == ${tile_k}) {
${stage(to, False)}\
      } else {
${stage(to, True)}\
      }
      k0 += ${tile_k};
% for letter in "ab":
      from_${letter} += ${tile_k} * ${stride[letter][1]};
% endfor
    }
${mma.commit_copies(ptx)}\
</%def>
__kernel __attribute__((reqd_work_group_size(${group}, 1, 1))) ${attribute}
void matmul_mma(
    const __global TYPE_a *restrict a, long a_offset, long a_row, long a_col, long a_inner, long a_outer,
    const __global TYPE_b *restrict b, long b_offset, long b_row, long b_col, long b_inner, long b_outer,
    __global TYPE_c *restrict c, long c_offset, long c_row, long c_col, long c_inner, long c_outer, long c_part,
    long m, long n, long k, long batch_inner, long parts, long part_k, long blocks_m, long blocks_n, int steps,
    WORK alpha_re, WORK alpha_im, WORK beta_re, WORK beta_im, int mode${epilogues.kernel_parameters(epilogue)})
{
  __local uint4 staged[${buffers * whole // 16}] __attribute__((aligned(128)));
${mma.declare(ptx, kind, group)}\
  const int lane = (int)get_local_id(0), l = lane % 32, g = l / 4, t = l % 4;
  const int warp_m = lane / 32 % ${warps_m}, warp_n = lane / ${32 * warps_m};
  const long blocks = blocks_m * blocks_n, number = (long)get_group_id(0) % blocks;
  const long top = number / (${span} * blocks_n) * ${span}, high = min(${span}L, blocks_m - top);
  const long inside_span = number - top * blocks_n;
  const long i0 = (top + inside_span % high) * ${tile_m}, j0 = inside_span / high * ${tile_n};
  const long rest = (long)get_group_id(0) / blocks, part = rest % parts, batch = rest / parts;
  const long inner = batch % batch_inner, outer = batch / batch_inner;
  __global TYPE_c *c0 = c + c_offset + inner * c_inner + outer * c_outer + part * c_part + i0 * c_row + j0 * c_col;
${epilogues.shift(epilogue, "i0", "j0")}\
  const int x_left_a = (int)min(m - i0, ${tile_m}L), x_left_b = (int)min(n - j0, ${tile_n}L);
  const int inside = x_left_a == ${tile_m} && x_left_b == ${tile_n};
  const long k1 = min(k, (part + 1) * part_k);
  long k0 = part * part_k;
% for letter in "ab":
<%
    across, down = stride[letter]
    one, other = (across, down) if along[letter] else (down, across)
%>\
  const int row_${letter} = lane / ${line[letter]}, chunk_${letter} = lane % ${line[letter]};
  const __global TYPE_${letter} *from_${letter} = ${letter} + ${letter}_offset + inner * ${letter}_inner + outer * ${letter}_outer
    + ${"i0" if letter == "a" else "j0"} * ${across} + k0 * ${down} + row_${letter} * ${one} + chunk_${letter} * ${E} * ${other};
% endfor
## The offset of the lane's part of the first fragment, as bytes (f16) or elements (f64) of a buffer.
% if kind == "f16":
% for letter in "ab":
<%
    low, high = ("l % 16", "l / 16"), ("l % 8 + l / 16 * 8", "l / 8 % 2")
    y, half = low if (letter == "a") == along[letter] else high
    w0 = f"{warps[letter]} * {part[letter]}"
%>\
% if along[letter]:
  const uint first_${letter} = ${first[letter]} + (${w0} + ${y}) * ${tile_k * 2};
% for kk in range(tile_k // 16):
  const uint at_${letter}${kk} = first_${letter} + ((${2 * kk} + ${half}) ^ ${swizzle(letter, y)}) * 16;
% endfor
% else:
  const uint first_${letter} = ${first[letter]} + (${y}) * ${tile[letter] * 2};
% for i in range(part[letter] // 16):
  const uint at_${letter}${i} = first_${letter} + ((${w0} / 8 + ${2 * i} + ${half}) ^ ${swizzle(letter, y)}) * 16;
% endfor
% endif
% endfor
% else:
% for letter in "ab":
<% w0 = f"{warps[letter]} * {part[letter]}" %>\
% if along[letter]:
  const int first_${letter} = ${first[letter] // 8} + (${w0} + g) * ${tile_k} + t;
% for q in range(tile_k // 4):
  const int at_${letter}${q} = first_${letter} + (${2 * q} ^ ${swizzle(letter, "g")}) * 2;
% endfor
% else:
  const int first_${letter} = ${first[letter] // 8} + t * ${tile[letter]} + ${w0} + g % 2;
% for h in range(2):
  const int at_${letter}${h} = first_${letter} + ((${4 * h} + g / 2) ^ ${swizzle(letter, "t")}) * 2;
% endfor
% endif
% endfor
% endif
% for i in range(fragments["a"]):
% for j in range(fragments["b"]):
  WORK ${", ".join(f"c{i}_{j}_{x} = 0" for x in range(2 * halves))};
% endfor
% endfor
% for s in range(buffers - 1):
  if (${s} < steps)
${stage_step(str(s * whole))}\
% endfor
  int to = ${(buffers - 1) * whole}, at = 0;
  for (int step = 0; step < steps; step++) {
${mma.wait_copies(ptx, buffers - 2)}\
    ${barriers.synchronize("staged", lowerings, group)}
    if (step + ${buffers - 1} < steps)
${stage_step("to")}\
% for kk in range(tile_k // K):
    {
% for letter in "ab":
<% count = fragments[letter] * (halves if letter == "a" else 1) * (K // (8 if kind == "f16" else 4)) %>\
      ${REGISTER} ${", ".join(f"{letter}{n}" for n in range(count))};
% if kind == "f16":
% for i in range(part[letter] // 16):
<%
    place = f"at_{letter}{kk} + {i * 16 * tile_k * 2}" if along[letter] else f"at_{letter}{i} + {kk * 16 * tile[letter] * 2}"
    registers = [f"{letter}{4 * i + n}" for n in range(4)]
%>\
${mma.load_matrices(ptx, registers, "staged", f"at + {place}", not along[letter])}\
% endfor
% else:
% for u in range(part[letter] // 8):
% for q in range(K // 4):
<%
    Q, per = kk * (K // 4) + q, halves if letter == "a" else 1
    register = f"{letter}{u // per * per * (K // 4) + q * per + u % per}"
    place = f"at_{letter}{Q} + {8 * u * tile_k}" if along[letter] else f"at_{letter}{u % 2} + {4 * Q * tile[letter] + u // 2 * 16}"
%>\
      ${register} = ((const __local double *)staged)[at / 8 + ${place}];
% endfor
% endfor
% endif
% endfor
<% per_a, per_b = halves * (K // (8 if kind == "f16" else 4)), K // (8 if kind == "f16" else 4) %>\
% for i in range(fragments["a"]):
% for j in range(fragments["b"]):
<%
    results = [f"c{i}_{j}_{x}" for x in range(2 * halves)]
    left, right = [f"a{per_a * i + n}" for n in range(per_a)], [f"b{per_b * j + n}" for n in range(per_b)]
%>\
% if kind == "f16":
${mma.multiply_f16(ptx, results, left, right)}\
% else:
${mma.multiply_f64(ptx, results, left, right)}\
% endif
% endfor
% endfor
    }
% endfor
    at = at == ${(buffers - 1) * whole} ? 0 : at + ${whole};
    to = to == ${(buffers - 1) * whole} ? 0 : to + ${whole};
  }
% for i in range(fragments["a"]):
% for h in range(halves):
  {
    const int i = warp_m * ${part["a"]} + ${M * i + 8 * h} + g;
    if (i < x_left_a) {
      const long row = i * c_row;
% for j in range(fragments["b"]):
      {
        const int j = warp_n * ${part["b"]} + ${8 * j} + 2 * t;
% for x in range(2):
        WORK re${x} = c${i}_${j}_${2 * h + x};
        if (j + ${x} < x_left_b) {
          WORK re = re${x}, im = 0;
% if scaled:
          re *= alpha_re;
% endif
          if (mode != 0) {
            const WORK old = LOAD_c(c0, row + (j + ${x}) * c_col);
            re += mode == 1 ? old : beta_re * old;
          }
% if epilogue:
          EPILOGUE(re, im, c0, row + (j + ${x}) * c_col, i, j + ${x})
% endif
          re${x} = re;
        }
% endfor
% if pairs:
        if (j + 1 < x_left_b) {
% if types["c"]["kind"] == "half":
          *(__global uint *)((__global ushort *)c0 + row + j) = pair_of(re0, re1);
% else:
<% two = types["c"]["type"] + "2" %>\
% if ptx:
          *(__global ${two} *)(c0 + row + j) = (${two})(re0, re1);
% else:
          vstore2((${two})(re0, re1), 0, c0 + row + j);
% endif
% endif
        } else
% endif
        {
          if (j < x_left_b) STORE_c(c0, row + j * c_col, re0, 0);
          if (j + 1 < x_left_b) STORE_c(c0, row + (j + 1) * c_col, re1, 0);
        }
      }
% endfor
    }
  }
% endfor
% endfor
}
