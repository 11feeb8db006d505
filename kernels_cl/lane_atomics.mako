## Atomic updates of one element that return the old value: `lane_atomic_OP_SPACE_TYPE(pointer, value)`.
## No kernel here: the text precedes the kernel. Integers of 32 and 64 bits use the built-in functions. Floats use a
## compare-and-swap loop on their bits; min and max of floats propagate NaN, as NumPy's minimum and maximum.
## Parameters: atomics, a list of {op, space, type, word}: word is the integer type with the value's bits.
% for a in atomics:
<%
    op, space, T, word = a["op"], a["space"], a["type"], a["word"]
    floating = T in ("float", "double"); prefix = "atom_" if word.endswith("long") else "atomic_"
%>\
${T} lane_atomic_${op}_${space}_${T}(volatile __${space} ${T}* place, ${T} value) {
% if not floating:
    return ${prefix}${op}(place, value);
% else:
    volatile __${space} ${word}* bits = (volatile __${space} ${word}*)place;
    ${word} seen = ${prefix}cmpxchg(bits, (${word})0, (${word})0), expected;  // a plain read would race
    do {
        const ${T} old = as_${T}(seen);
        expected = seen;
% if op == "add":
        const ${T} updated = old + value;
% else:
        const ${T} updated = ((old ${"<" if op == "min" else ">"} value) | (old != old)) ? old : value;
% endif
        seen = ${prefix}cmpxchg(bits, expected, as_${word}(updated));
    } while (seen != expected);
    return as_${T}(seen);
% endif
}
% endfor
