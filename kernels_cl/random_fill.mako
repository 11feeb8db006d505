## Random numbers from Philox4x32-10: fills `out` with numbers that depend only on the key, the counter and the position.
##
## Block b of the generator has four words of 32 bits. Element i is made from word i % 4 of block first + i / 4, or from
## the words 2 (i % 2) and 2 (i % 2) + 1 of block first + i / 2 for results that need 64 bits. Normal numbers come in
## pairs from two draws (Box-Muller).
##
## All devices give the same bits: only integer operations and + - * (and / and sqrt of doubles) are used, which are
## exactly rounded everywhere. Built-in functions such as log and sin are not.
##
## Launch: "vector": one work-group of one work-item for each `part` elements. "simt": one work-item per block, padded to
## whole work-groups. No local memory, no barrier.
##
## Parameters: kind ("random", "normal", "integers") · out (C type) · lanes (blocks that a work-item computes at once: 8
## or 1) · wide (an element needs 64 random bits) · part (elements of a work-item; 0: one block) · streams (nontemporal
## stores) · item (bytes of an element) · full (integers: all values of the words are in the range) · real (C type of the
## parameters low and step of "random" and "normal", else None).
<%!
    def polynomial(x, *terms):
        """Horner's form of a polynomial in x."""
        found = terms[-1]
        for one in terms[-2::-1]:
            found = f"({one} + {x} * {found})"
        return found
%>\
<%
    per = lanes * (2 if wide else 4)  # elements at once
    word = "ulong8" if lanes == 8 else "ulong"
    splat = lambda text: f"({word}) ({text})"
    at = lambda name, k, width: name if width == 1 else f"{name}.s{'0123456789abcdef'[k]}"
    unsigned = {1: "uchar", 2: "ushort", 4: "uint", 8: "ulong"}[item]
%>\
#pragma OPENCL FP_CONTRACT OFF
% if real == "double":
#pragma OPENCL EXTENSION cl_khr_fp64 : enable
% endif
typedef ${word} W;
#define LOW(x) ((x) & ${splat("0xffffffffUL")})

/* Block `block` + lane: four words in the low halves of x0 to x3; the upper halves are undefined. A product of two
   numbers below 2^32 gives both halves of a round's multiplication at once. */
static void philox(const ulong block, const ulong stream, const uint key0, const uint key1, W* x0, W* x1, W* x2, W* x3)
{
    W c0 = ${splat("block")}${" + (W) (0, 1, 2, 3, 4, 5, 6, 7)" if lanes == 8 else ""};
    W c1 = c0 >> 32, c2 = ${splat("stream & 0xffffffffUL")}, c3 = ${splat("stream >> 32")}, p0, p1;
% for n in range(10):
    p0 = LOW(c0) * ${splat("0xD2511F53UL")};
    p1 = LOW(c2) * ${splat("0xCD9E8D57UL")};
    c0 = (p1 >> 32) ^ c1 ^ ${splat(f"(ulong) (key0 + {n * 0x9E3779B9 & 0xffffffff}u)")};
    c2 = (p0 >> 32) ^ c3 ^ ${splat(f"(ulong) (key1 + {n * 0xBB67AE85 & 0xffffffff}u)")};
    c1 = p1;
    c3 = p0;
% endfor
    *x0 = c0;
    *x1 = c1;
    *x2 = c2;
    *x3 = c3;
}
% if kind == "normal":
<%
    width = lanes if wide else 2 * lanes
    suffix = "" if width == 1 else str(width)
    F, I, U = (("double", "long", "ulong") if wide else ("float", "int", "uint"))
    F, I, U = F + suffix, I + suffix, U + suffix
%>\
/* Two independent normal numbers from two words: radius sqrt(-2 log u), u in (0, 1], and an angle. */
static void box_muller(const ${U} radius, const ${U} angle, ${F}* z0, ${F}* z1)
{
% if wide:
    /* u = (k + 1/2) 2^-52. Logarithm as in fdlibm's e_log.c: u = (1 + f) 2^e, sqrt(1/2) <= 1 + f < sqrt(2). */
    const ${F} u = as_${F}(as_${I}((radius >> 12) | 0x3ff0000000000000UL)) - 1.0 + 0x1p-53;
    const ${I} e = (as_${I}(u) - 0x3fe6a09e667f3bcdL) >> 52;
    const ${F} f = as_${F}(as_${I}(u) - (e << 52)) - 1.0;
    const ${F} k = as_${F}(e + 0x4338000000000000L) - 6755399441055744.0; /* e as a float */
    const ${F} s = f / (2.0 + f), z = s * s, w = z * z, half_square = 0.5 * f * f;
    const ${F} r = z * ${polynomial("w", "6.666666666666735130e-01", "2.857142874366239149e-01", "1.818357216161805012e-01", "1.479819860511658591e-01")}
        + w * ${polynomial("w", "3.999999999940941908e-01", "2.222219843214978396e-01", "1.531383769920937332e-01")};
    const ${F} log_u = k * 6.93147180369123816490e-01
        - ((half_square - (s * (half_square + r) + k * 1.90821492927058770002e-10)) - f);
    const ${F} length = sqrt(-2.0 * log_u);
    /* The quarter of the circle, and the angle within it, from -pi/4 to pi/4. */
    const ${I} quarter = as_${I}(angle >> 62);
    const ${F} a = (as_${F}(as_${I}(((angle << 2) >> 12) | 0x3ff0000000000000UL)) - 1.5) * 1.57079632679489661923;
    const ${F} q = a * a;
    const ${F} sine = a + q * a * (-1.66666666666666324348e-01 + q * ${polynomial("q", "8.33333333332248946124e-03", "-1.98412698298579493134e-04", "2.75573137070700676789e-06", "-2.50507602534068634195e-08", "1.58969099521155010221e-10")});
    const ${F} cosine = 1.0 - (0.5 * q - q * (q * ${polynomial("q", "4.16666666666666019037e-02", "-1.38888888888741095749e-03", "2.48015872894767294178e-05", "-2.75573143513906633035e-07", "2.08757232129817482790e-09", "-1.13596475577881948265e-11")}));
% else:
    /* u = v 2^-31 with 1 <= v <= 2^31. Logarithm and sine as in Cephes: v = (1 + f) 2^e, sqrt(1/2) <= 1 + f < sqrt(2). */
    const ${F} v = convert_${F}(as_${I}((radius >> 1) | 1u));
    const ${I} e = (as_${I}(v) - 0x3f3504f3) >> 23;
    const ${F} f = as_${F}(as_${I}(v) - (e << 23)) - 1.0f;
    const ${F} k = convert_${F}(e - 31);
    const ${F} square = f * f;
    const ${F} tail = f * square * ${polynomial("f", "3.3333331174e-1f", "-2.4999993993e-1f", "2.0000714765e-1f", "-1.6668057665e-1f", "1.4249322787e-1f", "-1.2420140846e-1f", "1.1676998740e-1f", "-1.1514610310e-1f", "7.0376836292e-2f")}
        + k * -2.12194440e-4f - 0.5f * square;
    const ${F} s = -2.0f * ((f + tail) + k * 0.693359375f), half_s = 0.5f * s;
    /* Newton's method for 1 / sqrt(s): float's sqrt and / are not exactly rounded on all devices. */
    ${F} root = as_${F}(0x5f375a86 - (as_${I}(s) >> 1));
%   for _ in range(3):
    root = root * (1.5f - half_s * root * root);
%   endfor
    const ${F} length = s * root;
    /* The quarter of the circle, and the angle within it, from -pi/4 to pi/4. */
    const ${I} quarter = as_${I}(angle >> 30);
    const ${F} a = convert_${F}(as_${I}(angle << 2)) * 3.6572951981e-10f;
    const ${F} q = a * a;
    const ${F} sine = a + q * a * ${polynomial("q", "-1.6666654611e-1f", "8.3321608736e-3f", "-1.9515295891e-4f")};
    const ${F} cosine = 1.0f - 0.5f * q + q * q * ${polynomial("q", "4.166664568298827e-2f", "-1.388731625493765e-3f", "2.443315711809948e-5f")};
% endif
    const ${I} swap = -(quarter & 1), from_sine = as_${I}(sine), from_cosine = as_${I}(cosine);
    const ${I} along = ((from_cosine & ~swap) | (from_sine & swap)) ^ (((quarter + 1) & 2) << ${62 if wide else 30});
    const ${I} across = ((from_sine & ~swap) | (from_cosine & swap)) ^ ((quarter & 2) << ${62 if wide else 30});
    *z0 = length * as_${F}(along);
    *z1 = length * as_${F}(across);
}
% endif
% if kind == "integers" and not full:

/* The draw of element word of `block`, whose first word was rejected: the same word of further blocks, in which the
   upper 16 bits of the counter have the number of the try. */
static ulong draw_again(const ulong block, const int word, const ulong stream, const uint key0, const uint key1,
                        const ulong range, const ulong threshold)
{
    for (uint again = 1; again < 0xffffu; ++again) {
        W x0, x1, x2, x3;
        philox(block, stream ^ ((ulong) again << 48), key0, key1, &x0, &x1, &x2, &x3);
<% x = [at(f"x{k}", 0, lanes) for k in range(4)] %>\
% if wide:
        const ulong x = word ? (${x[2]} & 0xffffffffUL) | ${x[3]} << 32 : (${x[0]} & 0xffffffffUL) | ${x[1]} << 32;
        if (x * range >= threshold) return mul_hi(x, range);
% else:
        const ulong x = (word == 0 ? ${x[0]} : word == 1 ? ${x[1]} : word == 2 ? ${x[2]} : ${x[3]}) & 0xffffffffUL;
        if (((x * range) & 0xffffffffUL) >= threshold) return (x * range) >> 32;
% endif
    }
    return 0;
}
% endif
##
## Stores a vector at `to`, an expression of the address.
<%def name="store(value, type_, width, to, streamed)">
% if streamed:
        if (aligned) __builtin_nontemporal_store(${value}, (global ${type_}${width}*) (${to})); else
% endif
        vstore${width}(${value}, 0, ${to});
</%def>
##
## The elements of blocks block .. block + lanes - 1, stored from `to` on.
<%def name="produce(block, to, streamed)">
    {
        W x0, x1, x2, x3;
        philox(${block}, stream, key0, key1, &x0, &x1, &x2, &x3);
% if kind == "normal":
<%
    width = lanes if wide else 2 * lanes
    tiles = 2 if lanes == 8 else 1
    each = lanes // tiles
    if wide:
        lists = [[at(z, k, lanes) for k in range(each * t, each * t + each) for z in ("z0", "z1")] for t in range(tiles)]
    else:
        lists = [[at(z, k + h, width) for k in range(each * t, each * t + each) for h in (0, lanes) for z in ("z0", "z1")] for t in range(tiles)]
%>\
%   if wide:
        ${out}${lanes if lanes > 1 else ""} z0, z1;
        box_muller(LOW(x0) | x1 << 32, LOW(x2) | x3 << 32, &z0, &z1);
%   else:
        ${out}${width} z0, z1;
        box_muller((uint${width}) (convert_uint${lanes if lanes > 1 else ""}(LOW(x0)), convert_uint${lanes if lanes > 1 else ""}(LOW(x2))),
                   (uint${width}) (convert_uint${lanes if lanes > 1 else ""}(LOW(x1)), convert_uint${lanes if lanes > 1 else ""}(LOW(x3))), &z0, &z1);
%   endif
        z0 = z0 * step + low;
        z1 = z1 * step + low;
%   for t, names in enumerate(lists):
        ${store(f"(({out}{len(names)}) ({', '.join(names)}))", out, len(names), f"{to} + {t * len(names)}", streamed)}
%   endfor
% elif kind == "random" or full:
<%
    widened = kind == "integers" and item == 8 and not wide
    tiles = 1 if lanes == 1 else 4 if widened else 2
    each = lanes // tiles
    pairs = [", ".join(at(n, k, lanes) for k in range(each * t, each * t + each) for n in ("pair0", "pair1")) for t in range(tiles)]
    longs = 2 * each
    words = longs if wide else 2 * longs
    kind_of_word = "ulong" if wide else "uint"
    sum_ = f"convert_ulong{words}(x) + low" if widened else f"convert_{unsigned}{words}(x + ({kind_of_word}) low)"
%>\
        const W pair0 = LOW(x0) | x1 << 32, pair1 = LOW(x2) | x3 << 32;
%   for t, names in enumerate(pairs):
        {
            const ${kind_of_word}${words} x = as_${kind_of_word}${words}((ulong${longs}) (${names}));
%     if kind == "random":
            ${store(f"(convert_{out}{words}({'x >> 11' if wide else f'as_int{words}(x >> 8)'}) * {'0x1p-53' if wide else '0x1p-24f'} * step + low)", out, words, f"{to} + {t * words}", streamed)}
%     else:
            ${store(f"as_{out}{words}({sum_})", out, words, f"{to} + {t * words}", streamed)}
%     endif
        }
%   endfor
% else:
<%
    draws = ["d0", "d1"] if wide else ["d0", "d1", "d2", "d3"]
    tiles = 1 if lanes == 1 else 2 if wide or item < 8 else 4
    each = lanes // tiles
    lists = [[at(d, k, lanes) for k in range(each * t, each * t + each) for d in draws] for t in range(tiles)]
%>\
%   if wide:
        const W pair0 = LOW(x0) | x1 << 32, pair1 = LOW(x2) | x3 << 32;
        W d0 = mul_hi(pair0, ${splat("range")}), d1 = mul_hi(pair1, ${splat("range")});
        const W rest0 = pair0 * range, rest1 = pair1 * range;
%   else:
%     for k in range(4):
        W d${k} = LOW(x${k}) * range;
        const W rest${k} = LOW(d${k});
        d${k} >>= 32;
%     endfor
%   endif
        /* Lemire's method: a draw whose fraction is below 2^bits % range is rejected, so that all values are equally likely. */
        if (${"any(" + " | ".join(f"(rest{k} < threshold)" for k in range(len(draws))) + ")" if lanes > 1 else " || ".join(f"rest{k} < threshold" for k in range(len(draws)))}) {
            ulong again[${len(draws) * lanes}], rest[${len(draws) * lanes}];
%   for k in range(len(draws)):
            ${f"vstore8(d{k}, {k}, again); vstore8(rest{k}, {k}, rest);" if lanes > 1 else f"again[{k}] = d{k}; rest[{k}] = rest{k};"}
%   endfor
            for (int m = 0; m < ${len(draws) * lanes}; ++m)
                if (rest[m] < threshold)
                    again[m] = draw_again(${block} + m % ${lanes}, m / ${lanes}, stream, key0, key1, range, threshold);
%   for k in range(len(draws)):
            d${k} = ${f"vload8({k}, again)" if lanes > 1 else f"again[{k}]"};
%   endfor
        }
%   for t, names in enumerate(lists):
        ${store(f"as_{out}{len(names)}(convert_{unsigned}{len(names)}((ulong{len(names)}) ({', '.join(names)}) + low))", out, len(names), f"{to} + {t * len(names)}", streamed)}
%   endfor
% endif
    }
</%def>

kernel void random_fill(global ${out}* target, const long offset, const long n, const ulong first, const ulong stream,
                        const uint key0, const uint key1,
% if kind == "integers":
                        const ulong range, const ulong threshold, const ulong low)
% else:
                        const ${real} low, const ${real} step)
% endif
{
    global ${out}* const results = target + offset;
% if part:
    const long begin = (long) get_group_id(0) * ${part};
    const long end = min(begin + ${part}, n);
% else:
    const long begin = (long) get_global_id(0) * ${per};
    const long end = min(begin + ${per}, n);
% endif
% if streams:
    const int aligned = ((ulong) (results + begin) & 63) == 0;
% endif
    long at = begin;
% if part:
    for (; at + ${per} <= end; at += ${per})
% else:
    if (at + ${per} <= end)
% endif
    ${produce(f"first + (ulong) (at / {per // lanes})", "results + at", streams)}
% if not part:
    else
% endif
    if (at < end) {
        ${out} last[${per}];
        ${produce(f"first + (ulong) (at / {per // lanes})", "last", False)}
% if part:
        for (int k = 0; at + k < end; ++k) results[at + k] = last[k];
% else:
## Constant indexes, so that GPUs keep `last` in registers.
%   for k in range(per - 1):
        if (at + ${k} < end) results[at + ${k}] = last[${k}];
%   endfor
% endif
    }
}
