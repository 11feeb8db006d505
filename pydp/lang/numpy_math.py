"""Functions of vector functions that NumPy lacks, for arrays and NumPy scalars of one type, and conversions."""

from __future__ import annotations

import math
from collections.abc import Callable
from fractions import Fraction
from typing import Any

import numpy as np

SPLITTER = 134217729.0  # 2**27 + 1: halves a float64's fraction for exact products
TINY = float(np.finfo(np.float32).tiny)
EXACT_PRODUCT = (1e-140, 1e140)  # magnitudes whose float64 products and their errors neither overflow nor vanish


def _by_element(function: Callable[[float], float], x: Any) -> Any:
    values = np.asarray(x)
    results = np.array([function(v) for v in values.ravel().tolist()], np.float64)
    return results.reshape(values.shape).astype(values.dtype)[()]


def erf(x: Any) -> Any:
    """The error function."""
    return _by_element(math.erf, x)


def erfc(x: Any) -> Any:
    """1 - erf(x)."""
    return _by_element(math.erfc, x)


def fdim(x: Any, y: Any) -> Any:
    """x - y, 0 where x is not larger, NaN where one of them is."""
    return np.where(np.isnan(x) | np.isnan(y) | (x > y), x - y, np.zeros((), np.asarray(x).dtype))[()]


def isnormal(x: Any) -> Any:
    """Whether x is neither 0, subnormal, infinite nor NaN."""
    return np.isfinite(x) & (np.abs(x) >= np.finfo(np.asarray(x).dtype).tiny)


def exp10(x: Any) -> Any:
    """10 to the power of x."""
    return np.power(np.asarray(10, np.asarray(x).dtype), x)


def rsqrt(x: Any) -> Any:
    """1 / sqrt(x)."""
    return np.true_divide(np.asarray(1, np.asarray(x).dtype), np.sqrt(x))


def _two_sum(a: np.ndarray, b: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """The rounded sum and its exact error (Knuth)."""
    total = a + b
    back = total - a
    return total, (a - (total - back)) + (b - back)


def _two_product(a: np.ndarray, b: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """The rounded product and its exact error (Veltkamp and Dekker)."""
    product = a * b
    a_high = SPLITTER * a - (SPLITTER * a - a)
    b_high = SPLITTER * b - (SPLITTER * b - b)
    a_low, b_low = a - a_high, b - b_high
    return product, a_low * b_low - (((product - a_high * b_high) - a_low * b_high) - a_high * b_low)


def _odd(total: np.ndarray, error: np.ndarray) -> np.ndarray:
    """A sum and its error as one float64, rounded to odd: rounding it again then rounds as if once."""
    bits = np.ascontiguousarray(total).view(np.int64)
    even = ((bits & 1) == 0) & (error != 0) & np.isfinite(total)
    away = (error > 0) == (total > 0)
    return np.where(even, bits + np.where(away, 1, -1), bits).view(np.float64)


def _fma_exact(a: float, b: float, c: float) -> float:
    """a * b + c rounded once, by rational arithmetic."""
    if not (math.isfinite(a) and math.isfinite(b) and math.isfinite(c)):
        return a * b + c
    exact = Fraction(a) * Fraction(b) + Fraction(c)
    if not exact:
        return a * b + c  # the sign of a zero
    try:
        return float(exact)
    except OverflowError:
        return math.inf if exact > 0 else -math.inf


def _is_doubtful(near: np.ndarray) -> bool:
    """Whether any float64 lies midway between two float32, or would round to a subnormal one: there rounding twice
    can differ from rounding once."""
    midway = (near.view(np.int64) & 0x1FFFFFFF) == 0x10000000
    return bool(midway.any() or ((np.abs(near) < TINY) & (near != 0)).any())


def fma(a: Any, b: Any, c: Any) -> Any:
    """a * b + c with one rounding (Boldo and Melquiond, "Emulation of FMA and correctly rounded sums", 2008)."""
    dtype = np.asarray(a).dtype
    if dtype == np.float32:
        near = np.asarray(np.multiply(a, b, dtype=np.float64) + c)
        if not _is_doubtful(near):
            return near.astype(dtype)[()]
    x, y, z = np.broadcast_arrays(*(np.atleast_1d(np.asarray(v, np.float64)) for v in (a, b, c)))
    scalar = max(np.ndim(a), np.ndim(b), np.ndim(c)) == 0
    if dtype != np.float64:
        total, error = _two_sum(x * y, z)  # the product of two float32 is exact
        result = np.where(total == 0, total, _odd(total, error)).astype(dtype)
        return result[0] if scalar else result
    product, low = _two_product(x, y)
    high_sum, high_error = _two_sum(z, low)
    total, error = _two_sum(product, high_sum)
    result = total + _odd(*_two_sum(high_error, error))
    sizes = np.abs(product)
    smallest, largest = EXACT_PRODUCT
    safe = (sizes > smallest) & (result != 0)
    for size in (sizes, np.abs(x), np.abs(y), np.abs(z)):
        safe &= size < largest
    zero = (product == 0) & ((x == 0) | (y == 0))
    result = np.where(zero, product + z, result)
    risky = ~(safe | zero)
    for at in zip(*np.nonzero(risky), strict=True):
        result[at] = _fma_exact(float(x[at]), float(y[at]), float(z[at]))
    return result[0] if scalar else result


def cast(value: Any, dtype: np.dtype[Any]) -> Any:
    """astype, with the integers of the devices where a float is outside of `dtype` or is no number.

    What NumPy's astype gives there depends on the processor. Here (and in lane_functions.mako) the value becomes an
    int32, or an int64 for types that this cannot hold, the smallest one where it does not fit; its low bits are kept.
    """
    if value.dtype.kind != "f" or dtype.kind not in "iu":
        return value.astype(dtype)
    middle: np.dtype[Any] = np.dtype(np.int32 if dtype == np.int32 or dtype.itemsize < 4 else np.int64)
    end = value.dtype.type(2.0 ** (8 * middle.itemsize - 1)) if value.dtype.itemsize > 2 else np.float32(np.inf)
    fits = (value >= -end) & (value < end) & np.isfinite(value)
    whole = np.where(fits, value, value.dtype.type(0)).astype(middle)
    result = np.where(fits, whole, np.iinfo(middle).min).astype(dtype)
    if dtype == np.uint64:
        large = (value >= end) & (value < 2 * end) & np.isfinite(value)
        result = np.where(large, np.where(large, value, value.dtype.type(0)).astype(dtype), result)
    return result if np.ndim(value) else result[()]


# --- integers -------------------------------------------------------------------------------------------------------


def _bits(x: Any) -> int:
    return 8 * np.asarray(x).dtype.itemsize


def _unsigned(x: Any) -> Any:
    """The same bits as an unsigned integer."""
    return np.asarray(x).view(f"u{np.asarray(x).dtype.itemsize}")


def popcount(x: Any) -> Any:
    """The number of bits that are 1."""
    bits = _unsigned(x).astype(np.uint64)
    for shift, mask in ((1, 0x5555555555555555), (2, 0x3333333333333333), (4, 0x0F0F0F0F0F0F0F0F)):
        bits = (bits & np.uint64(mask)) + ((bits >> np.uint64(shift)) & np.uint64(mask))
    for shift in (8, 16, 32):
        bits = bits + (bits >> np.uint64(shift))
    return (bits & np.uint64(127)).astype(np.asarray(x).dtype)[()]


def clz(x: Any) -> Any:
    """The number of zero bits before the highest 1."""
    bits = _unsigned(x)
    shift = 1
    while shift < _bits(x):
        bits = bits | (bits >> bits.dtype.type(shift))
        shift *= 2
    return (_bits(x) - popcount(bits)).astype(np.asarray(x).dtype)[()]


def ctz(x: Any) -> Any:
    """The number of zero bits below the lowest 1."""
    bits = _unsigned(x)
    return popcount(~bits & (bits - bits.dtype.type(1))).astype(np.asarray(x).dtype)[()]


def rotate(x: Any, n: Any) -> Any:
    """x rotated to the left by n bits, modulo its number of bits."""
    bits, size = _unsigned(x), _bits(x)
    left = _unsigned(n) & bits.dtype.type(size - 1)
    right = (bits.dtype.type(size) - left) & bits.dtype.type(size - 1)
    return ((bits << left) | (bits >> right)).astype(np.asarray(x).dtype)[()]


def _saturated(result: Any, over: Any, down: Any) -> Any:
    """A wrapped result, and the ends of its type where it went over: the smallest value where `down`."""
    limits = np.iinfo(result.dtype)
    ends = np.where(down, result.dtype.type(limits.min), result.dtype.type(limits.max))
    return np.where(over, ends, result)[()]


def add_sat(x: Any, y: Any) -> Any:
    """x + y, saturated."""
    x, y = np.asarray(x), np.asarray(y)
    result = x + y
    over = result < x if x.dtype.kind == "u" else ((x ^ result) & (y ^ result)) < 0
    return _saturated(result, over, x < 0)


def sub_sat(x: Any, y: Any) -> Any:
    """x - y, saturated."""
    x, y = np.asarray(x), np.asarray(y)
    result = x - y
    if x.dtype.kind == "u":
        return _saturated(result, x < y, True)
    return _saturated(result, ((x ^ y) & (x ^ result)) < 0, x < 0)


def mul_hi(x: Any, y: Any) -> Any:
    """The upper half of the bits of x * y."""
    x, y = np.asarray(x), np.asarray(y)
    exact = (x.astype(object) * y.astype(object)) >> _bits(x)
    return np.asarray(exact, object).astype(x.dtype)[()]


def mad_sat(a: Any, b: Any, c: Any) -> Any:
    """a * b + c, saturated."""
    a, b, c = np.asarray(a), np.asarray(b), np.asarray(c)
    exact = np.asarray(a.astype(object) * b.astype(object) + c.astype(object), object)
    low, high = (np.asarray(int(end), object) for end in (np.iinfo(a.dtype).min, np.iinfo(a.dtype).max))
    return np.asarray(np.minimum(np.maximum(exact, low), high)).astype(a.dtype)[()]


def abs_diff(x: Any, y: Any) -> Any:
    """abs(x - y), unsigned."""
    first, second = _unsigned(x), _unsigned(y)
    return np.where(x > y, first - second, second - first)[()]


def upsample(high: Any, low: Any) -> Any:
    """(high << bits) | low, of twice the bits."""
    bits, high = _bits(high), np.asarray(high)
    wide = np.dtype(f"{high.dtype.kind}{2 * high.dtype.itemsize}")
    return ((high.astype(wide) << wide.type(bits)) | np.asarray(low).astype(wide))[()]
