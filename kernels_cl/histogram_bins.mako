## The bin of a value, or of eight adjacent values: b with edges[b] <= v < edges[b + 1]. The last bin includes its right
## edge. -1 for values outside and for NaN.
## Parameters of the call: source (C type of v), edge (C type of the edges), guess (C type of a first guess for equal
## bins, which comparisons then correct; None: binary search). Defines `find_bin`. A guess is (v - first) * scale. For
## integers (`edge` is long or ulong) it is (v - edges[0] - first) * scale: the first difference is exact.
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
    // The same trip count for every value, and no branch on it: the bin is one of `length` bins from `low`.
    long low = 0, half_;
    for (long length = bins; length > 1; length -= half_) {
        half_ = length / 2;
        low += v >= edges[low + half_] ? half_ : 0;
    }
    return low;
% endif
}
</%def>

## Sets found_0 ... found_7 (int) to the bins of x[0 .. 7], with the same rules. The eight searches are independent:
## none waits for the loads of another. Parameters as above. Uses edges, bins (fewer than 2^31), first and scale.
<%def name="find_eight(source, edge, guess, x)">
        const ${edge}8 v = convert_${edge}8(vload8(0, ${x}));
% if guess:
% if whole(edge):
        // Clamp values outside to the range: the guess stays close.
        const ${guess}8 above = convert_${guess}8(as_ulong8(min(max(v, edges[0]), edges[bins])) - (ulong) edges[0]) - first;
% else:
        const ${guess}8 above = convert_${guess}8(v) - first;
% endif
        // fmax turns NaN into 0; the comparisons below still exclude NaN.
        const int8 guessed = convert_int8(fmin(fmax(above * scale, (${guess}) 0), (${guess}) (bins - 1)));
% for k in range(8):
        int found_${k} = min(guessed.s${k}, (int) bins - 1);
        while (found_${k} > 0 && v.s${k} < edges[found_${k}]) --found_${k};
        while (found_${k} < (int) bins - 1 && v.s${k} >= edges[found_${k} + 1]) ++found_${k};
% endfor
% else:
        // Vector masks: compilers turn selects into branches, which random values mispredict. Few edges are all
        // compared: this costs less than eight gathered loads.
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
