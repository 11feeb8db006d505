## Sums weights in global memory (GPU mapping): each work-group has its own set of bins. No atomics: weights are added in a
## fixed order, so that sums of floats have the same bits in each run.
## Phases: the lanes clear the bins. For each tile of `lanes` elements, every lane finds the bin of one element and stores
## bin and weight in local memory (two alternating buffers); barrier; the first lane of each bin adds the weights of the
## tile's later elements of this bin, in order, to its own, and then to the bin. Bins of one tile differ between these
## lanes; the next barrier separates the tiles.
## Launch: one work-group of `lanes` per part. Results are stored as (parts, bins).
## Parameters: clears (False: the bins are already zero, for drivers that limit loops), declarations, source, weights (C
## types), value (C type of a sum), weight (C expression of x, a weight as a sum), lanes, direct, how (see
## histogram_parts).
<%namespace name="find" file="histogram_bins.mako"/>
${declarations}
% if not direct:
${find.find(how, source)}
% endif
static ${value} weighed(const ${weights} x) { return ${weight}; }

kernel __attribute__((reqd_work_group_size(${lanes}, 1, 1)))
void histogram_weights(global const ${source}* restrict x, const ulong offset, const long step, const ulong n,
                       const ulong part, global ${value}* sums, const ulong bins,
                       global const ${weights}* restrict w, const ulong w_offset, const long w_step
% if not direct:
                       , ${find.parameters(how)}
% endif
                      ) {
    local long all_bins[${2 * lanes}];
    local ${value} all_weights[${2 * lanes}];
    const int lane = (int) get_local_id(0);
    const ulong start = get_group_id(0) * part;
    const long count = (long) min(part, n - start);
    x += (long) offset + (long) start * step;
    w += (long) w_offset + (long) start * w_step;
    sums += get_group_id(0) * bins;
% if clears:
    for (ulong b = (ulong) lane; b < bins; b += ${lanes}) sums[b] = 0;
% endif
    const long tiles = (count + ${lanes - 1}) / ${lanes};
    for (long tile = 0; tile < tiles; ++tile) {
        local long* const tile_bins = all_bins + (tile & 1) * ${lanes};
        local ${value}* const tile_weights = all_weights + (tile & 1) * ${lanes};
        const long i = tile * ${lanes} + lane;
        long bin = -1;
        ${value} sum = 0;
        if (i < count) {
% if direct:
            bin = (long) x[i * step];
% else:
            bin = find_bin(x[i * step], ${find.arguments(how)});
% endif
            bin = (ulong) bin < bins ? bin : -1;
            sum = weighed(w[i * w_step]);
        }
        tile_bins[lane] = bin;
        tile_weights[lane] = sum;
        barrier(CLK_LOCAL_MEM_FENCE | CLK_GLOBAL_MEM_FENCE);
        int first = bin >= 0;
        for (int other = 0; other < ${lanes}; ++other) {
            const int same = tile_bins[other] == bin;
            first &= !(same & (other < lane));
            if (same & (other > lane)) sum += tile_weights[other];
        }
        if (first) sums[bin] += sum;
    }
}
