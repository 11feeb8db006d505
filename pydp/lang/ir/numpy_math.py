"""NumPy forms of the operators and functions of the typed form, with the same results lane by lane."""

from __future__ import annotations

import math
from collections.abc import Callable
from fractions import Fraction
from typing import Any

import numpy as np

SPLITTER = 134217729.0  # 2**27 + 1: halves a float64's fraction for exact products
TINY = float(np.finfo(np.float32).tiny)
EXACT_PRODUCT = (1e-140, 1e140)  # magnitudes whose float64 products and their errors neither overflow nor vanish


def _power(left: Any, right: Any) -> Any:
    if np.asarray(left).dtype.kind in "iu":
        right = np.maximum(right, np.zeros((), np.asarray(right).dtype))  # lanes that are not active may hold any
    return np.power(left, right)


BINARY: dict[str, Callable[[Any, Any], Any]] = {
    "add": np.add,
    "sub": np.subtract,
    "mul": np.multiply,
    "truediv": np.true_divide,
    "floordiv": np.floor_divide,
    "mod": np.remainder,
    "pow": _power,
    "shl": np.left_shift,
    "shr": np.right_shift,
    "and": np.bitwise_and,
    "or": np.bitwise_or,
    "xor": np.bitwise_xor,
}
COMPARE: dict[str, Callable[[Any, Any], Any]] = {
    "lt": np.less,
    "le": np.less_equal,
    "gt": np.greater,
    "ge": np.greater_equal,
    "eq": np.equal,
    "ne": np.not_equal,
}
UNARY: dict[str, Callable[[Any], Any]] = {"neg": np.negative, "invert": np.invert, "not": np.logical_not}
ATOMIC = {
    "add": np.add,
    "min": np.minimum,
    "max": np.maximum,
    "and": np.bitwise_and,
    "or": np.bitwise_or,
    "xor": np.bitwise_xor,
}


def _erf(x: Any) -> Any:
    values = np.asarray(x)
    results = np.array([math.erf(v) for v in values.ravel().tolist()], np.float64)
    return results.reshape(values.shape).astype(values.dtype)


def _exp10(x: Any) -> Any:
    return np.power(np.asarray(10, np.asarray(x).dtype), x)


def _rsqrt(x: Any) -> Any:
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


MATH: dict[str, Callable[..., Any]] = {
    "rsqrt": _rsqrt,
    "exp10": _exp10,
    "asin": np.arcsin,
    "acos": np.arccos,
    "atan": np.arctan,
    "atan2": np.arctan2,
    "asinh": np.arcsinh,
    "acosh": np.arccosh,
    "atanh": np.arctanh,
    "erf": _erf,
    "fma": fma,
}
_SAME_NAME = """
    sqrt exp exp2 expm1 log log2 log10 log1p sin cos tan sinh cosh tanh floor ceil trunc rint hypot copysign fmod cbrt
    isnan isinf isfinite abs minimum maximum
"""
MATH.update((name, getattr(np, name)) for name in _SAME_NAME.split())
