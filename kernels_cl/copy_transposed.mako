## Copies between arrays whose contiguous axes differ: out[o, i, j] = in[o, i, j], where `out` is contiguous along j
## and `in` along i (o: all other axes together).
##
## Reads and writes use whole cache lines: a block of lines is read along i, transposed, and written along j.
## mapping "vector": one work-item per work-group transposes `chunk` blocks of block x block elements, one after the
##   other, in vectors or in private memory. With `lines`, perfect shuffles of line j with line j + block / 2 transpose
##   a block in log2(block) stages. `streams` uses nontemporal stores, for results that do not fit into the caches.
##   Launch: (blocks along i / chunk x blocks along j x others) in work-groups of 1.
## mapping "simt": a work-group of (block, rows) work-items transposes one block in local memory by an owner-write
##   exchange (wg_exchange.mako). Each work-item stores what it read to its own slots. The bank model pads the slots:
##   reads along a column then use all banks. Launch: (blocks along i x blocks along j x others, times block; rows; 1)
##   in work-groups of (block, rows, 1). One barrier, at top level.
## Work-groups are numbered along dimension 0 only, i fastest: GPUs allow few (65,535) along the other dimensions.
##
## Parameters: mapping · type (C type of an element: an unsigned word) · block · chunk, lines, streams ("vector") · rows
## (divides block), placed (Exchange.params()), lowerings (of the barrier `exchange`, or None), attribute, subgroups
## (see pydp.groups.barrier_plan) ("simt") · others (number of further axes, 0 to 6).
<%namespace name="exchange" file="wg_exchange.mako"/>\
<%namespace name="barriers" file="wg_barrier.mako"/>\
% if subgroups:
${barriers.enable_subgroups()}
% endif
<% group = "1, 1, 1" if mapping == "vector" else f"{block}, {rows}, 1" %>\
__kernel __attribute__((reqd_work_group_size(${group}))) ${attribute} void copy_transposed(
    __global ${type}* out, long out_at, __global const ${type}* in, long in_at,
% for axis in range(others):
    long size${axis}, long out_s${axis}, long in_s${axis},
% endfor
    long size_i, long out_si, long size_j, long in_sj)
{
    const long blocks_i = (size_i + ${block * (chunk if mapping == "vector" else 1) - 1}) / ${block * (chunk if mapping == "vector" else 1)};
    const long blocks_j = (size_j + ${block - 1}) / ${block};
    const long block_i = (long)get_group_id(0) % blocks_i, block_j = (long)get_group_id(0) / blocks_i % blocks_j;
    long rest = (long)get_group_id(0) / blocks_i / blocks_j;
% for axis in range(others - 1, -1, -1):
    {
        const long k = rest % size${axis};
        rest /= size${axis};
        out_at += k * out_s${axis};
        in_at += k * in_s${axis};
    }
% endfor
    const long j0 = block_j * ${block};
    const int width_j = (int)min((long)${block}, size_j - j0);
% if mapping == "vector":
    ${type} turned[${block * block}];
% if streams:
    // A nontemporal store of a whole aligned cache line does not read the line first.
    const int streamed = (((ulong)(out + out_at + j0) | (ulong)(out_si * sizeof(${type}))) & 63) == 0;
% endif
    for (int step = 0; step < ${chunk}; ++step) {
        const long i0 = (block_i * ${chunk} + step) * ${block};
        const int width_i = (int)clamp(size_i - i0, 0L, (long)${block});
        __global const ${type}* from = in + in_at + i0 + j0 * in_sj;
        __global ${type}* to = out + out_at + i0 * out_si + j0;
        if (width_i == ${block} && width_j == ${block}) {
% if lines:
            ${type}${block} ${", ".join(f"r{j}, q{j}" for j in range(block))};
% for j in range(block):
            r${j} = vload${block}(0, from + ${j} * in_sj);
% endfor
<%  now, then = "r", "q"  %>\
% for stage in range(block.bit_length() - 1):
% for j in range(block):
<%
    a, c = f"{now}{j // 2}", f"{now}{j // 2 + block // 2}"
    first = j % 2 * block // 2
    pairs = ", ".join(f"{a}.s{first + k:x}, {c}.s{first + k:x}" for k in range(block // 2))
%>\
            ${then}${j} = (${type}${block})(${pairs});
% endfor
<%  now, then = then, now  %>\
% endfor
% if streams:
            if (streamed) {
% for i in range(block):
                __builtin_nontemporal_store(${now}${i}, (__global ${type}${block}*)(to + ${i} * out_si));
% endfor
            } else
% endif
            {
% for i in range(block):
                vstore${block}(${now}${i}, 0, to + ${i} * out_si);
% endfor
            }
% else:
            for (int j = 0; j < ${block}; ++j)
                for (int i = 0; i < ${block}; ++i)
                    turned[j * ${block} + i] = from[j * in_sj + i];
            for (int i = 0; i < ${block}; ++i)
                for (int j = 0; j < ${block}; ++j)
                    to[i * out_si + j] = turned[j * ${block} + i];
% endif
        } else {
            for (int j = 0; j < width_j; ++j)
                for (int i = 0; i < width_i; ++i)
                    turned[j * ${block} + i] = from[j * in_sj + i];
            for (int i = 0; i < width_i; ++i)
                for (int j = 0; j < width_j; ++j)
                    to[i * out_si + j] = turned[j * ${block} + i];
        }
    }
% else:
    ${exchange.declare("turned", type, placed)}
    const long i0 = block_i * ${block};
    const int width_i = (int)min((long)${block}, size_i - i0);
    const int x = (int)get_local_id(0), y = (int)get_local_id(1), lane = y * ${block} + x;
    for (int s = 0; s < ${block // rows}; ++s) {
        const int j = s * ${rows} + y;
        if (x < width_i && j < width_j)
            turned[${exchange.own(placed, "lane", "s")}] = in[in_at + i0 + x + (j0 + j) * in_sj];
    }
    ${exchange.synchronize(placed, lowerings)}
    for (int s = 0; s < ${block // rows}; ++s) {
        const int i = s * ${rows} + y, owner = x % ${rows} * ${block} + i;
        if (i < width_i && x < width_j)
            out[out_at + (i0 + i) * out_si + j0 + x] = turned[${exchange.of(placed, "lane", "owner", f"x / {rows}")}];
    }
% endif
}
