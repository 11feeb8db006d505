## Functions of one lane's value (or of a vector of lanes) that the language needs and OpenCL C does not have.
## No kernel here: the text precedes the kernel or function that calls `lane_KIND_TYPE`.
## Parameters: helpers, a list of {kind, type, base, width, bits, wide, unsigned, signed}: KIND and TYPE of the
##   function. TYPE is base and width (1: a scalar); bits is the base's width; wide is the type of the arithmetic (int
##   for narrower types: one driver divides bytes incorrectly); unsigned is its unsigned form; signed is the signed
##   integer type of the base's width.
## `?:` selects by component for vectors. Comparisons are combined by | and &, which mean the same for both.
<%
    longs = sorted({h["type"] for h in helpers if h["base"] == "long"})
    narrow = sorted({h["type"] for h in helpers if h["kind"] == "wide"})
    order = lambda T: f"lane_order_{T}" if T.startswith("long") else ""
%>\
% if longs:
// lane_order_TYPE: a value with the same order as long. One driver compares a widened int with a constant incorrectly,
// but not if both are unsigned.
#ifdef ORDER_UNSIGNED
% for T in longs:
#define lane_order_${T}(a) (as_u${T}(a) ^ (u${T})(0x8000000000000000UL))
% endfor
#else
% for T in longs:
#define lane_order_${T}(a) (a)
% endfor
#endif
% endif
% if narrow:
// lane_wide_TYPE: a value that will be converted to a wider type, or from long to floating point. One driver selects
// incorrectly between a constant and a byte or short that its own conversion widened, and compares a widened int
// incorrectly that became a float.
#ifdef WIDEN_BY_ARITHMETIC
% for T in narrow:
% if T.startswith("long"):
#define lane_wide_${T}(a) as_${T}((as_u${T}(a) ^ (u${T})(0x8000000000000000UL)) - (u${T})(0x8000000000000000UL))
% elif T.startswith("u"):
#define lane_wide_${T}(a) ((int)(a))
% else:
#define lane_wide_${T}(a) ((int)((u${T})(a) ^ (u${T})${128 if T == "char" else 32768}) - ${128 if T == "char" else 32768})
% endif
% endfor
#else
% for T in narrow:
#define lane_wide_${T}(a) (a)
% endfor
#endif
% endif
% if any("real" in h["kind"] or h["base"] == "real" for h in helpers):
// real: the type of literals without a suffix.
#ifdef cl_khr_fp64
typedef double real;
#else
typedef float real;
#endif
% endif
% for h in helpers:
<%
    kind, T, base, W, U, width = h["kind"], h["type"], h["base"], h["wide"], h["unsigned"], h["width"]
    v = "" if width == 1 else str(width)
    floating, plain = base in ("half", "float", "double", "real"), base[0] == "u"
%>\
% if kind == "floordiv" and floating:
<%
    F = ("double" if base == "double" else "float") + v  # half as NumPy: computed in float, rounded once
%>\
${T} lane_floordiv_${T}(${T} first, ${T} second) {
    const ${F} a = convert_${F}(first), b = convert_${F}(second), zero = (${F})0, one = (${F})1;
    const ${F} rest = fmod(a, b);
    ${F} quotient = (a - rest) / b;
    quotient = ((rest != zero) & ((b < zero) ^ (rest < zero))) ? quotient - one : quotient;
    ${F} down = floor(quotient);
    down = (quotient - down > (${F})0.5f) ? down + one : down;
    down = (quotient != zero) ? down : copysign(zero, a / b);
    return convert_${T}((b == zero) ? a / b : down);
}
% elif kind == "mod" and floating:
<%
    F = ("double" if base == "double" else "float") + v
%>\
${T} lane_mod_${T}(${T} first, ${T} second) {
    const ${F} a = convert_${F}(first), b = convert_${F}(second), zero = (${F})0;
    const ${F} rest = fmod(a, b);
    const ${F} moved = ((rest != zero) & ((b < zero) ^ (rest < zero))) ? rest + b : rest;
    return convert_${T}((rest == zero) ? copysign(zero, b) : moved);
}
% elif kind == "sign":
// NumPy's sign: that of NaN is NaN.
${T} lane_sign_${T}(${T} a) {
% if floating:
<% F = ("double" if base == "double" else "float") + v %>\
    const ${F} x = convert_${F}(a), zero = (${F})0, one = (${F})1;
    return convert_${T}((x > zero) ? one : ((x < zero) ? -one : ((x == zero) ? zero : x)));
% elif plain:
    return convert_${T}(${"a != 0" if width == 1 else f"-(a != ({T})0)"});
% else:
<% above, below = (f"({order(T)}(a) {sign} {order(T)}(({T})0))" for sign in "><") %>\
    return convert_${T}(${f"{above} - {below}" if width == 1 else f"{below} - {above}"});  // true is -1 in vectors
% endif
}
% elif kind == "rsqrt":
% if (base, width) in (("float", 16), ("double", 8)):
<% function, bits = ("rsqrt14ps512", "ushort") if base == "float" else ("rsqrt14pd512", "uchar") %>\
#ifdef __AVX512F__
#if __has_builtin(__builtin_ia32_${function}_mask)
#define ESTIMATE_${T}(a) as_${T}(__builtin_ia32_${function}_mask(a, a, (${bits})-1))
#endif
#endif
// An estimate to 14 bits and ${"one step" if base == "float" else "two steps"} of Newton's method, within 1.1 ULP: a
// third of the time of a square root and a division. The rest of 0 and infinity is NaN, and their estimates are exact.
#ifdef ESTIMATE_${T}
${T} lane_rsqrt_${T}(const ${T} a) {
    const ${T} estimate = ESTIMATE_${T}(a);
    const ${T} rest = fma(-(a * estimate), estimate, (${T})1);
% if base == "float":
    const ${T} result = fma(rest * (${T})0.5f, estimate, estimate);
% else:
    const ${T} better = fma(fma(rest, (${T})0.375, (${T})0.5) * rest, estimate, estimate);
    const ${T} last = fma(-(a * better), better, (${T})1);
    const ${T} result = fma(last * (${T})0.5, better, better);
% endif
    return select(estimate, result, rest == rest);
}
#else
#define lane_rsqrt_${T}(a) rsqrt(a)
#endif
% else:
#define lane_rsqrt_${T}(a) rsqrt(a)
% endif
% elif kind in ("kept", "quotient"):
% if kind == "kept":
// The value, hidden from the optimizer. One driver vectorizes loop iterations, and then reads wrong elements if the
// index is a loop counter that was multiplied and masked.
#ifdef KEEP_MASKED_INTEGERS
% else:
// The same for another driver: its compiler crashes when it vectorizes work-items in nested loops whose trip count
// depends on a quotient.
#ifdef KEEP_QUOTIENTS
% endif
${T} lane_${kind}_${T}(${T} a) {
% if kind == "kept":
    ${W} kept = a;
    __asm__("" : "+r"(kept));
% else:
    volatile ${W} kept = a;  // inline assembly lost the lanes' values
% endif
    return (${T})kept;
}
#else
#define lane_${kind}_${T}(a) (a)
#endif
% elif kind == "complement":
// ~a for scalars of 32 and 64 bits. One driver loses it in scalar code with a minimum, a maximum or a selection. The
// number of dimensions is less than 256, but that driver's compiler does not know it.
#ifdef HIDE_COMPLEMENT
${T} lane_complement_${T}(${T} a) {
    return a ^ (${T})((${T})-1 + (${T})(get_work_dim() >> 8));
}
#else
#define lane_complement_${T}(a) (~(${T})(a))
#endif
% elif kind in ("floordiv", "mod"):
${T} lane_${kind}_${T}(${T} first, ${T} second) {
    const ${W} a = convert_${W}(first), b = convert_${W}(second), zero = (${W})0, one = (${W})1;
% if plain:
    const ${W} safe = (b == zero) ? one : b;
    return convert_${T}((b == zero) ? zero : a ${"/" if kind == "floordiv" else "%"} safe);
% else:
    const ${W} safe = ((b == zero) | (b == -one)) ? one : b;
    const ${W} rest = a % safe;
% if kind == "mod":
    return convert_${T}(((rest != zero) & ((rest ^ b) < zero)) ? rest + b : rest);
% else:
    const ${W} toward_zero = a / safe;
    const ${W} down = ((rest != zero) & ((rest ^ safe) < zero)) ? toward_zero - one : toward_zero;
    const ${W} opposite = as_${W}((${U})0 - as_${U}(a));
    return convert_${T}((b == zero) ? zero : ((b == -one) ? opposite : down));
% endif
% endif
}
% elif kind in ("truncdiv", "truncmod"):
// C's quotient and remainder where C defines them; 0 for division by zero.
${T} lane_${kind}_${T}(${T} first, ${T} second) {
    const ${W} a = convert_${W}(first), b = convert_${W}(second), zero = (${W})0, one = (${W})1;
% if plain:
    const ${W} safe = (b == zero) ? one : b;
    return convert_${T}((b == zero) ? zero : a ${"/" if kind == "truncdiv" else "%"} safe);
% else:
    const ${W} safe = ((b == zero) | (b == -one)) ? one : b;
% if kind == "truncmod":
    return convert_${T}(a % safe);  // 0 by one
% else:
    const ${W} opposite = as_${W}((${U})0 - as_${U}(a));
    return convert_${T}((b == zero) ? zero : ((b == -one) ? opposite : a / safe));
% endif
% endif
}
% elif kind == "to_real":
real lane_to_real_${T}(${T} a) {
    return a;
}
% elif kind == "rint":
// rint: one driver's own functions return no defined value for a constant NaN. Numbers of at least `limit` have no
// fraction.
${T} lane_rint_${T}(${T} a) {
    const ${T} limit = (${T})(${"0x1p10f" if h["bits"] == 16 else "0x1p23f" if base == "float" else "sizeof(real) == 8 ? 0x1p52 : 0x1p23" if base == "real" else "0x1p52"});
    const ${T} size = (fabs(a) < limit) ? fabs(a) : (${T})0, down = floor(size), half_down = down * (${T})0.5f;
    const ${T} rest = size - down, even = down + (half_down - floor(half_down)) * (${T})2;
    const ${T} nearest = (rest > (${T})0.5f) ? down + (${T})1 : ((rest == (${T})0.5f) ? even : down);
    return (fabs(a) < limit) ? copysign(nearest, a) : a;
}
% elif kind == "ctz":
// OpenCL C 1.2 has no ctz.
${T} lane_ctz_${T}(${T} a) {
    return popcount((${T})(~a & (a - (${T})1)));
}
% elif kind == "rotate":
${T} lane_rotate_${T}(${T} a, ${T} count) {
    return rotate(a, (${T})(count & (${T})${h["bits"] - 1}));
}
% elif kind in ("magnitude", "difference"):
// abs and abs_diff: one driver's own functions are undefined for the smallest integer and for differences that
// overflow.
<%
    V = f"(u{T})" if width == 1 else f"as_u{T}"
%>\
% if kind == "magnitude":
u${T} lane_magnitude_${T}(${T} a) {
    const u${T} opposite = (u${T})((u${T})0 - ${V}(a));
    return (${order(T)}(a) < ${order(T)}((${T})0)) ? opposite : ${V}(a);
}
% else:
u${T} lane_difference_${T}(${T} a, ${T} b) {
    const u${T} up = (u${T})(${V}(b) - ${V}(a)), down = (u${T})(${V}(a) - ${V}(b));
    return (${order(T)}(a) < ${order(T)}(b)) ? up : down;
}
% endif
% elif kind in ("add_sat", "sub_sat"):
// For signed integers: one driver wraps the result of its own functions if the arguments are constants.
<%
    V = f"(u{T})" if width == 1 else f"as_u{T}"
    largest = f"{(1 << h['bits'] - 1) - 1}{'L' if base == 'long' else ''}"
%>\
${T} lane_${kind}_${T}(${T} a, ${T} b) {
    const ${T} whole = as_${T}((u${T})(${V}(a) ${"+" if kind == "add_sat" else "-"} ${V}(b)));
    const ${T} wrapped = (${T})((a ^ whole) & ${"(b ^ whole)" if kind == "add_sat" else "(a ^ b)"});
    const ${T} limit = (${T})((a >> (${T})${h["bits"] - 1}) ^ (${T})${largest});
    return (${order(T)}(wrapped) < ${order(T)}((${T})0)) ? limit : whole;
}
% elif kind == "fdim":
// One driver's own function of two constant infinities returns NaN.
${T} lane_fdim_${T}(${T} a, ${T} b) {
    return (a <= b) ? (${T})0 : a - b;
}
% elif kind == "number_pow":
// pow of floats: one driver's own function returns no defined value for the constants 1 and NaN.
${T} lane_${kind}_${T}(${T} a, ${T} b) {
    const ${T} found = pow(a, (b == b) ? b : (${T})1), unknown = (a == (${T})1) ? a : b;
    return (b == b) ? found : unknown;
}
% elif kind.startswith("number_"):
// A function that returns NaN for NaN: one driver's own functions return no defined value for a constant NaN.
${T} lane_${kind}_${T}(${T} a) {
    const ${T} found = ${kind.removeprefix("number_")}((a == a) ? a : (${T})1);
    return (a == a) ? found : a;
}
% elif kind == "mad_sat":
// Two drivers' own functions are wrong for some products.
<%
    N = T if plain else "u" + T  # the unsigned type of the same size
    last = h["bits"] - 1
%>\
${T} lane_mad_sat_${T}(${T} a, ${T} b, ${T} c) {
    const ${N} low = (${N})(as_${N}(a) * as_${N}(b)), sum = (${N})(low + as_${N}(c));
    const ${N} carry = (sum < low) ? (${N})1 : (${N})0;
% if plain:
    return ((${N})(mul_hi(a, b) + carry) == (${N})0) ? sum : (${T})${(1 << h["bits"]) - 1}${"UL" if base == "ulong" else "u"};
% else:
    const ${T} high = as_${T}((${N})(as_${N}(mul_hi(a, b)) + as_${N}((${T})(c >> (${T})${last})) + carry)), whole = as_${T}(sum);
    const ${T} largest = (${T})${(1 << last) - 1}${"L" if base == "long" else ""}, end = (${order(T)}(high) < ${order(T)}((${T})0)) ? (${T})(-largest - (${T})1) : largest;
    return (high == (${T})(whole >> (${T})${last})) ? whole : end;
% endif
}
% elif kind == "pow":
${T} lane_pow_${T}(${T} base, ${T} exponent) {
    ${U} result = (${U})1, factor = convert_${U}(base);
    // not in bytes: one driver's compiler fails for loops over them; negative exponents count as 0
    ${W} bits = max(convert_${W}(exponent), (${W})0);
% if width == 1:
    for (; bits > 0; bits >>= 1) {
        result = (bits & 1) ? result * factor : result;
        factor *= factor;
    }
% else:
    for (int bit = 0; bit < ${h["bits"]}; bit++) {
        result = ((bits & (${W})1) != (${W})0) ? result * factor : result;
        factor *= factor;
        bits >>= (${W})1;
    }
% endif
    return convert_${T}(result);
}
% elif kind == "shl":
${T} lane_shl_${T}(${T} a, ${T} count) {
    const ${T} inside = count & (${T})${h["bits"] - 1};
    return (inside == count) ? ${f"({T})(({U})a << inside)" if width == 1 else f"a << inside"} : (${T})0;
}
% elif kind == "shr":
${T} lane_shr_${T}(${T} a, ${T} count) {
    const ${T} inside = count & (${T})${h["bits"] - 1};
    const ${T} gone = ${f"({T})0" if plain else f"a >> ({T}){h['bits'] - 1}"};
    return (inside == count) ? (${T})(a >> inside) : gone;
}
% elif kind in ("minimum", "maximum") and width == 1 and h["bits"] < 32 and not floating:
${T} lane_${kind}_${T}(${T} a, ${T} b) {
    // With arithmetic: one driver's compiler fails for the minimum of a byte and a constant.
    return (${T})((int)b + (((int)a - (int)b) & -((int)a ${"<" if kind == "minimum" else ">"} (int)b)));
}
% elif kind in ("minimum", "maximum"):
${T} lane_${kind}_${T}(${T} a, ${T} b) {
    return ((${order(T)}(a) ${"<" if kind == "minimum" else ">"} ${order(T)}(b))${" | (a != a)" if floating else ""}) ? a : b;
}
% elif kind == "trips":
${U} lane_trips_${T}(${T} start, ${T} stop, ${T} step) {
    if (${order(T)}(step) > ${order(T)}((${T})0)) return (${order(T)}(start) < ${order(T)}(stop)) ? ((${U})stop - (${U})start - 1u) / (${U})step + 1u : (${U})0;
    if (${order(T)}(step) < ${order(T)}((${T})0)) return (${order(T)}(start) > ${order(T)}(stop)) ? ((${U})start - (${U})stop - 1u) / ((${U})0 - (${U})step) + 1u : (${U})0;
    return (${U})0;
}
% elif kind == "abs":
${T} lane_abs_${T}(${T} a) {
    return (${order(T)}(a) < ${order(T)}((${T})0)) ? ${f"({T})(0u - ({U})a)" if width == 1 else f"({T})0 - a"} : a;
}
% elif kind.endswith("_to_sat"):
<%
    source = kind.removesuffix("_to_sat").rstrip("0123456789")
    F = "real" if source == "real" else ("double" if source == "double" else "float") + v
    suffix = "" if source in ("double", "real") else "f"
    middle = "int" if h["bits"] < 32 else base
    M = middle + v
    mask = lambda test: f"({M})0 - ({M})({test})" if width == 1 else f"convert_{M}({test})"
    power = h["bits"] - (not plain)
    low, high = "0" if plain else f"-0x1p{power}{suffix}", f"0x1p{power}{suffix}"
    largest = f"{(1 << power) - 1}{'UL' if base == 'ulong' else 'u' if base == 'uint' else ''}"
    smallest = 0 if plain else f"(-{(1 << power) - 1}{'L' if base == 'long' else ''} - 1)"
%>\
// Saturating conversion of a number without a fraction, or toward zero; 0 for NaN. Drivers' own functions return no
// defined value for some constants; here, numbers out of range are not converted.
${T} lane_${kind}_${T}(${source}${v} given) {
    const ${F} x = ${"given" if source == "real" else f"convert_{F}(given)"};
    const ${F} inside = ((x > (${F})${low}) & (x < (${F})${high})) ? x : (${F})0;
    // with masks: one driver selects incorrectly by a float comparison that is widened to longs
    const ${M} above = ${mask(f"x >= ({F}){high}")}, below = ${mask(f"x <= ({F}){low}")};
    return convert_${T}(convert_${M}(inside) | (above & (${M})${largest}) | (below & (${M})${smallest}));
}
% elif kind.endswith("_to"):
<%
    source = kind[:-3] if width == 1 else kind[:-3].rstrip("0123456789")
    F = "real" if source == "real" else ("double" if source == "double" else "float") + v
    middle = "int" if base in ("char", "uchar", "short", "ushort", "int") else "long"
    low = "-0x1p31" if middle == "int" else "-0x1p63"
    high = low[1:]
    suffix = "" if source in ("double", "real") else "f"
    smallest = "INT_MIN" if middle == "int" else "LONG_MIN"
    M = middle + v
    C = ("long" if source == "double" and width > 1 else "int") + v  # of comparisons
    outside = "!(fits | large)" if base == "ulong" else "!fits"
%>\
// Converts only numbers in the type's range: for others, a compiler may return no defined value. With masks: one driver
// selects incorrectly by a float comparison that is widened to longs.
${T} lane_${kind}_${T}(${source}${v} given) {
    const ${F} x = ${"given" if source == "real" else f"convert_{F}(given)"}, zero = (${F})0;
    const ${C} fits = (x >= (${F})${low}${suffix}) & (x < (${F})${high}${suffix});
% if base == "ulong":
    const ${C} large = (x >= (${F})0x1p63${suffix}) & (x < (${F})0x1p64${suffix});
% endif
    const ${M} outside = ${f"({M})0 - ({M})({outside})" if width == 1 else f"convert_{M}({outside})"};
    const ${M} whole = convert_${M}(fits ? x : zero) | (outside & (${M})${smallest});
% if base == "ulong":
    return as_${T}(whole) | convert_${T}(large ? x : zero);
% else:
    return convert_${T}(whole);
% endif
}
% endif
% endfor
