"""The references of the methods of `Generator`: Philox4x32-10 and the distributions in NumPy, bit by bit.

They compute from the state of the generator before the call.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

import numpy as np

from pydp.tuning.reference import Expected, host

_WORD = np.uint64(0xFFFFFFFF)


def blocks_of(state: Mapping[str, Any], count: int, tag: int = 0) -> np.ndarray:
    """The words of the next blocks, shape (count, 4). tag: the number of the further try of integers."""
    counter = state["counter"]
    block = np.uint64(counter % 2**64) + np.arange(count, dtype=np.uint64)
    high = (counter >> 64) ^ (tag << 48)
    c = [block & _WORD, block >> np.uint64(32), *(np.full(count, high >> s & 0xFFFFFFFF, np.uint64) for s in (0, 32))]
    k0, k1 = state["key"]
    for _ in range(10):
        p0, p1 = np.uint64(0xD2511F53) * c[0], np.uint64(0xCD9E8D57) * c[2]
        upper = np.uint64(32)
        c = [(p1 >> upper) ^ c[1] ^ np.uint64(k0), p1 & _WORD, (p0 >> upper) ^ c[3] ^ np.uint64(k1), p0 & _WORD]
        k0, k1 = (k0 + 0x9E3779B9) & 0xFFFFFFFF, (k1 + 0xBB67AE85) & 0xFFFFFFFF
    return np.stack(c, axis=1)


def longs(words: np.ndarray) -> np.ndarray:
    """Pairs of words as 64-bit integers."""
    pairs: np.ndarray = words.reshape(-1, 2)
    return pairs[:, 0] | pairs[:, 1] << np.uint64(32)


def random_of(state: Mapping[str, Any], n: int, dtype: Any) -> np.ndarray:
    """n uniform numbers."""
    if dtype == np.float32:
        words = blocks_of(state, -(-n // 4)).reshape(-1)[:n]
        return (words >> np.uint64(8)).astype(np.float32) * np.float32(2.0**-24)
    return (longs(blocks_of(state, -(-n // 2)))[:n] >> np.uint64(11)).astype(np.float64) * 2.0**-53


def _horner(x: np.ndarray, *coefficients: Any) -> np.ndarray:
    found = coefficients[-1]
    for one in coefficients[-2::-1]:
        found = one + x * found
    return found


def _turned(
    length: np.ndarray, sine: np.ndarray, cosine: np.ndarray, quarter: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    swap = quarter & 1 == 1
    along, across = np.where(swap, sine, cosine), np.where(swap, cosine, sine)
    along, across = np.where((quarter + 1) & 2, -along, along), np.where(quarter & 2, -across, across)
    return length * along, length * across


def normal32(words: np.ndarray) -> np.ndarray:
    """Box-Muller as in random_fill.mako, operation by operation."""
    f = np.float32
    radius, angle = (words.reshape(-1, 2)[:, k].astype(np.uint32) for k in (0, 1))
    v = ((radius >> 1) | 1).astype(np.int32).astype(f)
    e = (v.view(np.int32) - np.int32(0x3F3504F3)) >> 23
    m = (v.view(np.int32) - (e << 23)).view(f) - f(1)
    k, square = (e - 31).astype(f), m * m
    series = [3.3333331174e-1, -2.4999993993e-1, 2.0000714765e-1, -1.6668057665e-1, 1.4249322787e-1]
    series += [-1.2420140846e-1, 1.1676998740e-1, -1.1514610310e-1, 7.0376836292e-2]
    tail = m * square * _horner(m, *map(f, series)) + k * f(-2.12194440e-4) - f(0.5) * square
    s = f(-2) * ((m + tail) + k * f(0.693359375))
    root = (np.int32(0x5F375A86) - (s.view(np.int32) >> 1)).view(f)
    for _ in range(3):
        root = root * (f(1.5) - f(0.5) * s * root * root)
    a = (angle << np.uint32(2)).view(np.int32).astype(f) * f(3.6572951981e-10)
    q = a * a
    sine = a + q * a * _horner(q, f(-1.6666654611e-1), f(8.3321608736e-3), f(-1.9515295891e-4))
    cosine = f(1) - f(0.5) * q
    cosine += q * q * _horner(q, f(4.166664568298827e-2), f(-1.388731625493765e-3), f(2.443315711809948e-5))
    return np.stack(_turned(s * root, sine, cosine, (angle >> 30).astype(np.int32)), axis=1).reshape(-1)


def normal64(words: np.ndarray) -> np.ndarray:
    """As normal32, for float64."""
    both = longs(words).reshape(-1, 2)
    radius, angle = both[:, 0], both[:, 1]
    one = np.uint64(0x3FF0000000000000)
    u = ((radius >> np.uint64(12)) | one).view(np.float64) - 1.0 + 2.0**-53
    e = (u.view(np.int64) - 0x3FE6A09E667F3BCD) >> 52
    f = (u.view(np.int64) - (e << 52)).view(np.float64) - 1.0
    k, s = e.astype(np.float64), f / (2.0 + f)
    z = s * s
    w, half = z * z, 0.5 * f * f
    odd = (6.666666666666735130e-01, 2.857142874366239149e-01, 1.818357216161805012e-01, 1.479819860511658591e-01)
    r = z * _horner(w, *odd)
    r += w * _horner(w, 3.999999999940941908e-01, 2.222219843214978396e-01, 1.531383769920937332e-01)
    log = k * 6.93147180369123816490e-01 - ((half - (s * (half + r) + k * 1.90821492927058770002e-10)) - f)
    a = (((angle << np.uint64(2)) >> np.uint64(12) | one).view(np.float64) - 1.5) * 1.57079632679489661923
    q = a * a
    sines = [-1.66666666666666324348e-01, 8.33333333332248946124e-03, -1.98412698298579493134e-04]
    sines += [2.75573137070700676789e-06, -2.50507602534068634195e-08, 1.58969099521155010221e-10]
    sine = a + q * a * _horner(q, *sines)
    cosines = [4.16666666666666019037e-02, -1.38888888888741095749e-03, 2.48015872894767294178e-05]
    cosines += [-2.75573143513906633035e-07, 2.08757232129817482790e-09, -1.13596475577881948265e-11]
    cosine = 1.0 - (0.5 * q - q * (q * _horner(q, *cosines)))
    length = np.sqrt(-2.0 * log)
    return np.stack(_turned(length, sine, cosine, (angle >> np.uint64(62)).astype(np.int64)), axis=1).reshape(-1)


def normal_of(state: Mapping[str, Any], n: int, dtype: Any) -> np.ndarray:
    """n normal numbers."""
    if dtype == np.float32:
        return normal32(blocks_of(state, -(-n // 4)))[:n]
    return normal64(blocks_of(state, -(-n // 2)))[:n]


def integers_of(state: Mapping[str, Any], n: int, low: int, high: int, dtype: Any) -> np.ndarray:
    """Lemire's method, with Python's integers."""
    count = high - low
    wide = count > 1 << 32
    bits, per = (64, 2) if wide else (32, 4)

    def draws(tag: int) -> list[int]:
        words = blocks_of(state, -(-n // per), tag)
        return [int(one) for one in (longs(words) if wide else words.reshape(-1))[:n]]

    found = [one * count for one in draws(0)]
    limit, tag = (1 << bits) % count, 0
    while any(one % (1 << bits) < limit for one in found):
        tag += 1
        again = draws(tag)
        found = [a * count if one % (1 << bits) < limit else one for one, a in zip(found, again, strict=True)]
    return np.array([low + (one >> bits) for one in found], dtype)


# --- methods -------------------------------------------------------------------------------------------------------


def random(generator: Any, size: Any = None, dtype: Any = np.float32) -> list[Expected]:
    """The reference of `Generator.random`."""
    return _shaped(size, lambda n: random_of(generator.state, n, np.dtype(dtype)))


def uniform(
    generator: Any, low: float = 0.0, high: float = 1.0, size: Any = None, dtype: Any = np.float32
) -> list[Expected]:
    """The reference of `Generator.uniform`."""
    kind = np.dtype(dtype).type
    first, width = kind(low), kind(high) - kind(low)
    return _shaped(size, lambda n: random_of(generator.state, n, np.dtype(dtype)) * width + first)


def normal(
    generator: Any, loc: float = 0.0, scale: float = 1.0, size: Any = None, dtype: Any = np.float32
) -> list[Expected]:
    """The reference of `Generator.normal`."""
    kind = np.dtype(dtype).type
    return _shaped(size, lambda n: normal_of(generator.state, n, np.dtype(dtype)) * kind(scale) + kind(loc))


def standard_normal(generator: Any, size: Any = None, dtype: Any = np.float32) -> list[Expected]:
    """The reference of `Generator.standard_normal`."""
    return normal(generator, size=size, dtype=dtype)


def integers(
    generator: Any, low: int, high: int | None = None, size: Any = None, dtype: Any = np.int64, endpoint: bool = False
) -> list[Expected]:
    """The reference of `Generator.integers`."""
    first, end = (0, int(low)) if high is None else (int(low), int(high))
    return _shaped(size, lambda n: integers_of(generator.state, n, first, end + endpoint, np.dtype(dtype)))


def permutation(generator: Any, x: Any, axis: int = 0) -> list[Expected]:
    """The reference of `Generator.permutation`, and of `Generator.shuffle` for the array after the call."""
    given = host(x)
    n = given.shape[axis] if given.ndim else int(x)
    order = np.argsort(longs(blocks_of(generator.state, -(-n // 2)))[:n], kind="stable")
    return [Expected(np.take(given, order, axis) if given.ndim else order.astype(np.int64))]


def _shaped(size: Any, numbers: Any) -> list[Expected]:
    if size is None:
        raise LookupError("the shape is that of out, or there is one number")
    shape = tuple(int(one) for one in size) if np.iterable(size) else (int(size),)
    return [Expected(numbers(math.prod(shape)).reshape(shape))]
