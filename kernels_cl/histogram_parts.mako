## Counts bins (or sums weights); each part of the input has its own bins: no atomics, bitwise reproducible.
## Phases: a work-item clears its bins, walks over its part, and adds. Consecutive elements use different sets of the
## `copies` sets: equal adjacent elements then do not wait for each other's store.
## Launch: one work-item per part. Results are stored as (parts, copies, bins).
## Parameters: clears (False: the bins are already zero, for drivers that limit loops), declarations, source (C type),
## value (C type of a bin: uint, or the type of the weights' sum), weights (C type or None), copies (a power of two),
## direct (the bin is the value itself), bytes (direct, and the elements are contiguous unsigned bytes: eight are read
## at once), eight (find the bins of eight values at once), edge (C type of the thresholds), guess (C type of a first
## guess, or None: binary search).
<%namespace name="bins" file="histogram_bins.mako"/>
${declarations}
% if not direct:
${bins.find(source, edge, guess)}
% endif

kernel void histogram_parts(global const ${source}* restrict x, const ulong offset, const long step, const ulong n,
                            const ulong part, global ${value}* restrict sums, const ulong bins
% if weights:
                            , global const ${weights}* restrict w, const ulong w_offset, const long w_step
% endif
% if not direct:
                            , global const ${edge}* restrict edges${f", const {guess} first, const {guess} scale" if guess else ""}
% endif
                            ) {
    const ulong start = get_global_id(0) * part;
    const long count = (long) min(part, n - start);
    x += (long) offset + (long) start * step;
% if weights:
    w += (long) w_offset + (long) start * w_step;
% endif
    sums += get_global_id(0) * bins * ${copies};
% if clears:
    for (ulong b = 0; b < bins * ${copies}; ++b) sums[b] = 0;
% endif
    long i = 0;
% if bytes and not weights:
    for (; i + 8 <= count; i += 8) {
        const uchar8 v = vload8(0, x + i);
% for k in range(8):
        sums[${k % copies} * bins + v.s${k}] += 1;
% endfor
    }
% elif eight:
    if (step == 1) {
        for (; i + 8 <= count; i += 8) {
            ${bins.find_eight(source, edge, guess, "x + i")}
% for k in range(8):
            if (found_${k} >= 0) sums[${k % copies} * bins + (ulong) found_${k}] += ${f"({value}) w[(i + {k}) * w_step]" if weights else "1"};
% endfor
        }
    }
% endif
    for (; i < count; ++i) {
        const ${source} v = x[i * step];
% if direct:
        const ulong bin = (ulong) v;
% else:
        const long found = find_bin(v, edges, (long) bins${", first, scale" if guess else ""});
        if (found < 0) continue;
        const ulong bin = (ulong) found;
% endif
        sums[(ulong) (i % ${copies}) * bins + bin] += ${f"({value}) w[i * w_step]" if weights else "1"};
    }
}
