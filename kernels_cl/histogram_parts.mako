## Counts bins (or sums weights); each part of the input has its own bins: no atomics, bitwise reproducible.
## Phases: a work-item clears its bins, walks over its part, and adds. Consecutive elements use different sets of the
## `copies` sets: equal adjacent elements then do not wait for each other's store. Slots are found for a block of
## elements before the block is counted: vectors guess them, and the counting loop has no long chain of operations.
## `copies` (a power of two of at most 8) is no constant, because compilers then gather thresholds, which is slower.
## Launch: one work-item per part. Results are stored as (parts, copies, slots); see histogram_bins.mako for slots. With
## `direct`, slots are the bins.
## Parameters: clears (False: the bins are already zero, for drivers that limit loops), declarations, source (C type),
## value (C type of a bin: uint, or the type of the weights' sum), weights (C type or None), weight (C expression of x, a
## weight as a sum), direct (the bin is the value itself), bytes (direct, and the elements are contiguous unsigned bytes: eight are
## read at once), lanes (of the vectors that guess; 1: no vectors), how (see histogram_bins; None with `direct`).
<%namespace name="bins" file="histogram_bins.mako"/>
<%
    block = 256
    add = lambda i: f"weighed(w[({i}) * w_step])" if weights else "1"
%>
${declarations}
% if weights:
static ${value} weighed(const ${weights} x) { return ${weight}; }
% endif

kernel void histogram_parts(global const ${source}* restrict x, const ulong offset, const long step, const ulong n,
                            const ulong part, global ${value}* restrict sums, const ulong slots, const ulong copies
% if weights:
                            , global const ${weights}* restrict w, const ulong w_offset, const long w_step
% endif
% if not direct:
                            , ${bins.parameters(how)}
% endif
                            ) {
    const ulong start = get_global_id(0) * part;
    const long count = (long) min(part, n - start);
    x += (long) offset + (long) start * step;
% if weights:
    w += (long) w_offset + (long) start * w_step;
% endif
    sums += get_global_id(0) * slots * copies;
% if clears:
    for (ulong b = 0; b < slots * copies; ++b) sums[b] = 0;
% endif
% for c in range(8):
    global ${value}* const set_${c} = sums + (${c} & (copies - 1)) * slots;
% endfor
% if direct:
    long i = 0;
    for (; i + 8 <= count; i += 8) {
% if bytes and not weights:
        const uchar8 v = vload8(0, x + i);
% endif
% for k in range(8):
        set_${k}[${f"v.s{k}" if bytes and not weights else f"(ulong) x[(i + {k}) * step]"}] += ${add(f"i + {k}")};
% endfor
    }
    for (; i < count; ++i) set_0[(ulong) x[i * step]] += ${add("i")};
% else:
    ${how["wide"]} value[${block}];
    int at[${block}];
    for (long begin = 0; begin < count; begin += ${block}) {
        const int size = (int) min(${block}L, count - begin);
        int i = 0;
% if lanes > 1:
        if (step == 1)
            for (; i + ${lanes} <= size; i += ${lanes}) {
                const ${how["wide"]}${lanes} v = convert_${how["wide"]}${lanes}(vload${lanes}(0, x + begin + i));
                vstore${lanes}(v, 0, value + i);
                ${bins.guess(how, "v", "guessed", lanes)}
                vstore${lanes}(guessed, 0, at + i);
            }
% endif
        for (; i < size; ++i) {
            const ${how["wide"]} v = (${how["wide"]}) x[(begin + i) * step];
            ${bins.guess(how, "v", "guessed")}
            value[i] = v;
            at[i] = guessed;
        }
% if how["table"]:
        for (i = 0; i < size; ++i) at[i] = least[at[i]];
        for (int length = most + 1, half_; length > 2; length -= half_) {
            half_ = length / 2;
            for (i = 0; i < size; ++i) { ${bins.narrow("at[i]", "value[i]", "half_")} }
        }
% endif
        for (i = 0; i + 8 <= size; i += 8) {
% for k in range(8):
            { int slot = at[i + ${k}]; ${bins.settle(how, "slot", f"value[i + {k}]")} set_${k}[slot] += ${add(f"begin + i + {k}")}; }
% endfor
        }
        for (; i < size; ++i) { int slot = at[i]; ${bins.settle(how, "slot", "value[i]")} set_0[slot] += ${add("begin + i")}; }
    }
% endif
}
