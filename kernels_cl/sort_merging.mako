## Merges two adjacent sorted runs, [pair, middle) and [middle, end) of `from`: the `count` results from position
## `diagonal` of the pair. Merge path (Green, McColl, Bader 2012) finds the start of the stretch in both runs. The
## stretch is cut into `chains` that are interleaved: comparisons of one chain do not wait for another chain.
## Parameters of the call: name (of the function), space (address space), index (int or ulong), key, carried (C types,
## carried or None), chains, scalar (the key is no struct: select by value, not by position), two_arrays (the second run
## is another array, `other`, from its first element on; then pair is 0).
## Defines  static void name(space const key* from, [space const key* other,] [space const carried* from_value,
## [space const carried* other_value,]] space key* to, [space carried* to_value,] index pair, index middle, index end,
## index diagonal, index count): to[0 .. count).
<%def name="merging(name, space, index, key, carried, chains, scalar, two_arrays=False)">
<%
    def of_second(at, kind=""):
        return f"other{kind}[{at} - middle]" if two_arrays else f"from{kind}[{at}]"
%>
static ${index} ${name}_split(${space} const ${key}* from,${f" {space} const {key}* other," if two_arrays else ""} const ${index} pair, const ${index} middle,
                              const ${index} end, const ${index} diagonal) {
    const ${index} left = middle - pair, right = end - middle;
    ${index} low = diagonal > right ? diagonal - right : 0;
    ${index} high = min(diagonal, left);
    while (low < high) {
        const ${index} probe = (low + high) / 2;
        if (less(${of_second("middle + diagonal - 1 - probe")}, from[pair + probe]))
            high = probe;
        else
            low = probe + 1;
    }
    return low;
}

<%def name="step(c, at)">
                {
                    const int second = less(${of_second(f"b{c}")}, from[a${c}]);
                    ${take(c, at)}
                }
</%def>
<%def name="take(c, at)">
% if scalar or two_arrays:
                    to[${at}] = second ? ${of_second(f"b{c}")} : from[a${c}];
% else:
                    to[${at}] = from[second ? b${c} : a${c}];
% endif
% if carried and two_arrays:
                    to_value[${at}] = second ? ${of_second(f"b{c}", "_value")} : from_value[a${c}];
% elif carried:
                    to_value[${at}] = from_value[second ? b${c} : a${c}];
% endif
                    a${c} += (${index}) (1 - second);
                    b${c} += (${index}) second;
</%def>
static void ${name}(${space} const ${key}* restrict from, ${f'{space} const {key}* restrict other,' if two_arrays else ''}
                    ${f'{space} const {carried}* restrict from_value,' if carried else ''}
                    ${f'{space} const {carried}* restrict other_value,' if carried and two_arrays else ''}
                    ${space} ${key}* restrict to, ${f'{space} {carried}* restrict to_value,' if carried else ''}
                    const ${index} pair, const ${index} middle, const ${index} end, const ${index} diagonal,
                    const ${index} count) {
    const ${index} share = count / ${chains};
% for c in range(chains):
    ${index} a${c} = pair + ${name}_split(from, ${"other, " if two_arrays else ""}pair, middle, end, diagonal + ${c} * share);
    ${index} b${c} = middle + diagonal + ${c} * share - (a${c} - pair);
% endfor
    ${index} done = 0;
    while (done < share && ${" & ".join(f"(a{c} < middle) & (b{c} < end)" for c in range(chains))}) {
% for c in range(chains):
        ${step(c, f"done + {c} * share")}
% endfor
        ++done;
    }
% for c in range(chains):
    for (${index} i = ${c} * share + done; i < ${"count" if c == chains - 1 else f"{c + 1} * share"}; ++i) {
        int second = a${c} >= middle;
        if (!second && b${c} < end) second = less(${of_second(f"b{c}")}, from[a${c}]);
        if (second) {
            to[i] = ${of_second(f"b{c}")};
% if carried:
            to_value[i] = ${of_second(f"b{c}", "_value")};
% endif
            ++b${c};
        } else {
            to[i] = from[a${c}];
% if carried:
            to_value[i] = from_value[a${c}];
% endif
            ++a${c};
        }
    }
% endfor
}
</%def>
