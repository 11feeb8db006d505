## The bin of a value: the b with edges[b] <= v < edges[b + 1], the last bin with its right edge; -1 outside and for NaN.
## Parameters of the call: source (C type of v), edge (C type of the edges), guess (C type of a first guess for evenly
## spaced edges, mended by comparisons, or None: binary search). It defines `find_bin`.
<%def name="find(source, edge, guess)">
static long find_bin(const ${source} value, global const ${edge}* restrict edges, const long bins
                     ${f", const {guess} first, const {guess} scale" if guess else ""}) {
    const ${edge} v = (${edge}) value;
    if (!(v >= edges[0] && v <= edges[bins])) return -1;
% if guess:
    long b = clamp((long) (((${guess}) v - first) * scale), 0L, bins - 1);
    while (b > 0 && v < edges[b]) --b;
    while (b < bins - 1 && v >= edges[b + 1]) ++b;
    return b;
% else:
    long low = 0, high = bins;
    while (high - low > 1) {
        const long middle = (low + high) / 2;
        if (v >= edges[middle])
            low = middle;
        else
            high = middle;
    }
    return low;
% endif
}
</%def>
