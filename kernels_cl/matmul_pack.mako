## Packs blocks for the "vector" matmul: strided operands into panels that the register tile reads sequentially.
##
## Purpose: pack_a: `rows` x depth of a into one panel, k-major; pack_b: depth x columns of b into
##   panels of `columns`. Elements are widened to `work`; elements outside the matrix are written as zero.
##   pack_a may overwrite up to one vector beyond the panel. Unit strides use vector loads; the transposing case
##   interleaves vectors in registers; any stride works.
## Phases: none (device functions).   Launch shape: called by one work-item.
## Parameters: width, rows, columns (a multiple of width), is_complex, b_prefetch_bytes (size of an element of b; 0: no
##   prefetches).
<%namespace name="memory" file="prefetch.mako"/>\
<%!
    def interleaving(count, name):
        """The steps (low, high, one, two) that transpose `count` vectors, and the names of the result in order."""
        rows, steps = [[f"{name}{i}"] for i in range(count)], []
        while len(rows) > 1:
            half, merged = len(rows) // 2, []
            for i in range(half):
                joined = []
                for one, two in zip(rows[i], rows[i + half]):
                    low, high = f"{name}_{2 * len(steps)}", f"{name}_{2 * len(steps) + 1}"
                    steps.append((low, high, one, two))
                    joined += [low, high]
                merged.append(joined)
            rows = merged
        return steps, rows[0]

    def lanes(piece, j, count, width):
        """Lanes j * count .. of a vector."""
        return piece if count == width else piece + ".s" + "".join("0123456789abcdef"[j * count : (j + 1) * count])

    LOADS = {"re": "LOAD", "im": "IMAG"}
    # Rows of b between a prefetch and its use. A processor's own prefetching does not go on to the next row. The last
    # prefetches of a block reach into the next block of k, which is packed next, or past the end of b, which is allowed.
    ROWS_AHEAD = 8
%>
<%def name="transpose(count, name)">\
% for low, high, one, two in interleaving(count, name)[0]:
        VEC ${low}, ${high};
        ${low}.even = ${one}.lo; ${low}.odd = ${two}.lo; ${high}.even = ${one}.hi; ${high}.odd = ${two}.hi;
% endfor
</%def>
<%def name="declare(width, rows, columns, is_complex, b_prefetch_bytes)">
<%
    planes = ["re", "im"] if is_complex else ["re"]
    padded = 1 << (rows - 1).bit_length()
%>\
static void pack_a(const __global TYPE_a *restrict a, long a_row, long a_col, int valid, int depth,
                   __global WORK *restrict panel)
{
% for plane in planes:
<% load = LOADS[plane] %>\
  {
    __global WORK *to = panel${f" + (long)depth * {rows}" if plane == "im" else ""};
    int k = 0;
% if padded <= width:
    if (valid == ${rows} && a_col == 1) {
      for (; k + ${width} <= depth; k += ${width}, to += ${rows * width}) {
% for r in range(padded):
        VEC v${r} = ${f"V{load}_a(a, {r} * a_row + k)" if r < rows else "(VEC)(0)"};
% endfor
${transpose(padded, "v")}\
% for i, piece in enumerate(interleaving(padded, "v")[1]):
% if padded == rows:
        vstore${width}(${piece}, 0, to + ${i * width});
% else:
## A step of k has `padded` lanes, `rows` of them used: each store overwrites the surplus lanes of the previous store.
% for j in range(width // padded):
        vstore${padded}(${lanes(piece, j, padded, width)}, 0, to + ${(i * (width // padded) + j) * rows});
% endfor
% endif
% endfor
      }
    } else
% endif
    if (valid == ${rows} && a_row == 1) {
      for (; k < depth; k++, to += ${rows}) {
% for r in range(rows):
        to[${r}] = ${load}_a(a, ${r} + k * a_col);
% endfor
      }
    }
    for (; k < depth; k++, to += ${rows}) {
% for r in range(rows):
      to[${r}] = ${r} < valid ? ${load}_a(a, ${r} * a_row + k * a_col) : (WORK)0;
% endfor
    }
  }
% endfor
}

/* One panel of b whose columns are contiguous along k: blocks of width x width are transposed in registers. */
static void pack_b_turned(const __global TYPE_b *restrict b, long b_col, int valid, int depth,
                          __global WORK *restrict panel)
{
% for plane in planes:
<% load = LOADS[plane] %>\
  {
    __global WORK *plane = panel${f" + (long)depth * {columns}" if plane == "im" else ""};
    for (int j = 0; j < ${columns}; j += ${width}) {
      int k = 0;
      const __global TYPE_b *from = b + j * b_col;
      if (j + ${width} <= valid)
        for (; k + ${width} <= depth; k += ${width}) {
% for r in range(width):
          VEC v${r} = V${load}_b(from, ${r} * b_col + k);
% endfor
${transpose(width, "v")}\
% for i, piece in enumerate(interleaving(width, "v")[1]):
          *(__global VEC *)(plane + (k + ${i}) * ${columns} + j) = ${piece};
% endfor
        }
      if (j < valid)
        for (; k < depth; k++)
          for (int i = 0; i < ${width}; i++)
            plane[k * ${columns} + j + i] = j + i < valid ? ${load}_b(from, i * b_col + k) : (WORK)0;
    }
  }
% endfor
}

/* One row of all panels. Vectors entirely outside the matrix are neither written nor read by the register tile. */
static void pack_b_row(const __global TYPE_b *restrict b, long b_row, long b_col, int valid, int depth,
                       __global WORK *restrict to)
{
  const long panel = ${len(planes)}L * depth * ${columns};
  for (int j = 0; j < valid; j += ${columns}, to += panel) {
% if b_prefetch_bytes:
    if (b_col == 1) {
${memory.lines(f"b + {ROWS_AHEAD} * b_row + j", columns * b_prefetch_bytes)}\
    }
% endif
% for v in range(columns // width):
% for plane in planes:
<% load = LOADS[plane]; plane_at = f" + (long)depth * {columns}" if plane == "im" else "" %>\
    if (b_col == 1 && j + ${(v + 1) * width} <= valid)
      *(__global VEC *)(to + ${v * width}${plane_at}) = V${load}_b(b, j + ${v * width});
    else if (j + ${v * width} < valid)
      for (int i = ${v * width}; i < ${(v + 1) * width}; i++)
        (to${plane_at})[i] = j + i < valid ? ${load}_b(b, (j + i) * b_col) : (WORK)0;
% endfor
% endfor
  }
}

static void pack_b(const __global TYPE_b *restrict b, long b_row, long b_col, int valid, int depth,
                   __global WORK *restrict to)
{
  if (b_row == 1 && b_col != 1) {
    for (int j = 0; j < valid; j += ${columns})
      pack_b_turned(b + j * b_col, b_col, min(${columns}, valid - j), depth,
                    to + (long)j * depth * ${len(planes)});
  } else {
    for (int k = 0; k < depth; k++)
      pack_b_row(b + k * b_row, b_row, b_col, valid, depth, to + (long)k * ${columns});
  }
}
</%def>
