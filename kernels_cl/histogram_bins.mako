## The bin of a value, or of eight values side by side: the b with edges[b] <= v < edges[b + 1], the last bin with its right edge; -1 outside and for NaN.
## Parameters of the call: source (C type of v), edge (C type of the edges), guess (C type of a first guess for evenly
## spaced edges, mended by comparisons, or None: binary search). It defines `find_bin`. A guess is (v - first) * scale; of
## whole numbers (`edge` is long or ulong) it is (v - edges[0] - first) * scale, whose first difference loses no digits.
<%! whole = lambda edge: edge in ("long", "ulong") %>\
<%def name="find(source, edge, guess)">
static long find_bin(const ${source} value, global const ${edge}* restrict edges, const long bins
                     ${f", const {guess} first, const {guess} scale" if guess else ""}) {
    const ${edge} v = (${edge}) value;
    if (!(v >= edges[0] && v <= edges[bins])) return -1;
% if guess:
    const ${guess} above = (${guess}) ${"((ulong) v - (ulong) edges[0])" if whole(edge) else "v"} - first;
    long b = clamp((long) (above * scale), 0L, bins - 1);
    while (b > 0 && v < edges[b]) --b;
    while (b < bins - 1 && v >= edges[b + 1]) ++b;
    return b;
% else:
    // As many turns for every value, and no branch on it: the bin is one of `length` from `low` on.
    long low = 0, half_;
    for (long length = bins; length > 1; length -= half_) {
        half_ = length / 2;
        low += v >= edges[low + half_] ? half_ : 0;
    }
    return low;
% endif
}
</%def>

## found_0 ... found_7 (int) become the bins of x[0 .. 7], by the same rules; values are looked up side by side, so that
## none waits for another's loads. Parameters as above; edges, bins (fewer than 2^31), first and scale are at hand.
<%def name="find_eight(source, edge, guess, x)">
        const ${edge}8 v = convert_${edge}8(vload8(0, ${x}));
% if guess:
% if whole(edge):
        // Outsiders are taken for the nearest that is not: their guess is as near.
        const ${guess}8 above = convert_${guess}8(as_ulong8(min(max(v, edges[0]), edges[bins])) - (ulong) edges[0]) - first;
% else:
        const ${guess}8 above = convert_${guess}8(v) - first;
% endif
        // fmax takes NaN for 0; the comparisons sort it out.
        const int8 guessed = convert_int8(fmin(fmax(above * scale, (${guess}) 0), (${guess}) (bins - 1)));
% for k in range(8):
        int found_${k} = min(guessed.s${k}, (int) bins - 1);
        while (found_${k} > 0 && v.s${k} < edges[found_${k}]) --found_${k};
        while (found_${k} < (int) bins - 1 && v.s${k} >= edges[found_${k} + 1]) ++found_${k};
% endfor
% else:
        // Masks of whole vectors: compilers make branches of selects, which values at random mispredict. Few edges are all
        // compared, which costs less than loads from eight places.
        int8 found_ = 0;
        if (bins <= 96) {
            for (int e = 1; e < (int) bins; ++e) found_ -= convert_int8(v >= (${edge}8) edges[e]);
        } else for (int length = (int) bins; length > 1; ) {
            const int half_ = length / 2;
            const ${edge}8 middles = (${edge}8)(${", ".join(f"edges[found_.s{k} + half_]" for k in range(8))});
            found_ += convert_int8(v >= middles) & half_;
            length -= half_;
        }
% for k in range(8):
        int found_${k} = found_.s${k};
% endfor
% endif
% for k in range(8):
        if (!(v.s${k} >= edges[0] && v.s${k} <= edges[bins])) found_${k} = -1;
% endfor
</%def>
