## Products of small matrices by a warp: PTX's mma.sync for NVIDIA's tensor cores, and an emulation for other devices.
##
## Purpose: the calls below, each made by all work-items with the same control flow. A warp is 32 work-items with
##   consecutive local ids; g = its lane / 4, t = its lane % 4. Fragments (PTX ISA, "Matrix Fragments for mma"):
##   f16  a 16 x 16 (k), b 16 (k) x 8, c 16 x 8 of float. A register of a or b has two halves that are adjacent in k.
##        a0: row g, k 2t; a1: row g + 8; a2, a3: the same, k + 8.  b0: k 2t, column g; b1: k + 8.
##   f64  a m x k, b k x 8, c m x 8; m 8 and k 4, or m 16 and k 8. a0: row g, k t; with m 16, a1: row g + 8; then the
##        same for k + 4.  b0: k t, column g; b1: k + 4.
##   both c0, c1: row g, columns 2t and 2t + 1; c2, c3: row g + 8.
## Phases: none (parts of kernels).   Launch shape: work-groups of whole warps, along dimension 0.
## Parameters of the calls: ptx: use PTX (the device is NVIDIA's), else exchange the
##   fragments through local memory, for tests. Registers are names of variables.
<%!
    def constrained(letter, names):
        return ", ".join(f'"{letter}"({name})' for name in names)

    def places(first, count):
        return ", ".join(f"%{number}" for number in range(first, first + count))
%>
## Variables in local memory for the emulation; at the start of the kernel. kind: "f16" or "f64".
<%def name="declare(ptx, kind, group)">\
% if not ptx:
<% type = "uint" if kind == "f16" else "double" %>\
  __local uint given_at[${group}];
  __local ${type} given_a[${group * 4}], given_b[${group * 2}];
  const int this_warp = (int)get_local_id(0) / 32 * 32, g_ = (int)get_local_id(0) % 32 / 4, t_ = (int)get_local_id(0) % 4;
% endif
</%def>

## Loads four 8 x 8 matrices of halves to `registers`: lane l gives, as `at`, the byte in the local array `base` of row
## l % 8 (16 bytes) of matrix l / 8. A lane gets elements 2t, 2t + 1 of row g; trans: of column g.
<%def name="load_matrices(ptx, registers, base, at, trans)">\
% if ptx:
  __asm__ volatile("ldmatrix.sync.aligned.m8n8.x4${".trans" if trans else ""}.shared.b16 {%0, %1, %2, %3}, [%4];" : ${constrained("=r", registers)} : "r"((uint)(size_t)${base} + (${at})) : "memory");
% else:
  given_at[get_local_id(0)] = ${at};
  barrier(CLK_LOCAL_MEM_FENCE);
% for number, name in enumerate(registers):
% if trans:
  ${name} = *(const __local ushort *)((const __local uchar *)${base} + given_at[this_warp + ${8 * number} + 2 * t_] + 2 * g_)
    | (uint)*(const __local ushort *)((const __local uchar *)${base} + given_at[this_warp + ${8 * number} + 2 * t_ + 1] + 2 * g_) << 16;
% else:
  ${name} = *(const __local uint *)((const __local uchar *)${base} + given_at[this_warp + ${8 * number} + g_] + 4 * t_);
% endif
% endfor
  barrier(CLK_LOCAL_MEM_FENCE);
% endif
</%def>

## c += a b.
<%def name="multiply_f16(ptx, c, a, b)">\
% if ptx:
  __asm__ volatile("mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 {${places(0, 4)}}, {${places(4, 4)}}, {${places(8, 2)}}, {${places(0, 4)}};" : ${constrained("+f", c)} : ${constrained("r", [*a, *b])});
% else:
${give(a, b)}\
  for (int k_ = 0; k_ < 16; k_++) {
    const int of_ = this_warp + k_ % 8 / 2, high_ = k_ / 8;
% for number, name in enumerate(c):
    ${name} = fma(vload_half(2 * (4 * (of_ + 4 * g_) + ${number // 2} + 2 * high_) + k_ % 2, (const __local half *)given_a),
      vload_half(2 * (2 * (of_ + 4 * (2 * t_ + ${number % 2})) + high_) + k_ % 2, (const __local half *)given_b), ${name});
% endfor
  }
  barrier(CLK_LOCAL_MEM_FENCE);
% endif
</%def>

## c += a b, with 2 (m 8, k 4) or 4 registers of c.
<%def name="multiply_f64(ptx, c, a, b)">\
<% m, k = 4 * len(c), 4 * len(b) %>\
% if ptx:
  __asm__ volatile("mma.sync.aligned.m${m}n8k${k}.row.col.f64.f64.f64.f64 {${places(0, len(c))}}, {${places(len(c), len(a))}}, {${places(len(c) + len(a), len(b))}}, {${places(0, len(c))}};" : ${constrained("+d", c)} : ${constrained("d", [*a, *b])});
% else:
${give(a, b)}\
  for (int k_ = 0; k_ < ${k}; k_++) {
    const int of_ = this_warp + k_ % 4, high_ = k_ / 4;
% for number, name in enumerate(c):
    ${name} = fma(given_a[4 * (of_ + 4 * g_) + ${number // 2} + ${m // 8} * high_], given_b[2 * (of_ + 4 * (2 * t_ + ${number % 2})) + high_], ${name});
% endfor
  }
  barrier(CLK_LOCAL_MEM_FENCE);
% endif
</%def>

<%def name="give(a, b)">\
% for letter, names, most in (("a", a, 4), ("b", b, 2)):
% for number, name in enumerate(names):
  given_${letter}[${most} * get_local_id(0) + ${number}] = ${name};
% endfor
% endfor
  barrier(CLK_LOCAL_MEM_FENCE);
</%def>

## Copies 16 bytes from the aligned address `source` in global memory to byte `at` of the local array `base`. With PTX, the
## copy ends with `wait_copies`. count: only so many bytes are read, the others are zero; None: all.
<%def name="copy(ptx, base, at, source, count=None)">\
% if ptx:
  __asm__ volatile("cp.async.cg.shared.global [%0], [%1], 16${"" if count is None else ", %2"};" : : "r"((uint)(size_t)${base} + (${at})), "l"((ulong)(${source}))${"" if count is None else f', "r"({count})'} : "memory");
% elif count is None:
  *(__local uint4 *)((__local uchar *)${base} + (${at})) = as_uint4(vload8(0, (const __global ushort *)(${source})));
% else:
  for (int w_ = 0; w_ < 8; w_++)
    *(__local ushort *)((__local uchar *)${base} + (${at}) + 2 * w_) = 2 * w_ < (${count}) ? *((const __global ushort *)(${source}) + w_) : (ushort)0;
% endif
</%def>

## Ends a set of copies.
<%def name="commit_copies(ptx)">\
% if ptx:
  __asm__ volatile("cp.async.commit_group;" : : : "memory");
% endif
</%def>

## Waits until at most `pending` of the last sets of this work-item's copies are not complete. A barrier must follow.
<%def name="wait_copies(ptx, pending)">\
% if ptx:
  __asm__ volatile("cp.async.wait_group ${pending};" : : : "memory");
% endif
</%def>
