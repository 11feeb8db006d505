"""Reference results from NumPy for public functions; tuned candidates are checked against them.

If NumPy has no such function (user operators, segments), the untuned result is the reference.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from pydp.runtime.field.field import Field
from pydp.runtime.placement import Array

_DEPTH = 1 << 17  # sequential additions that may round a result; longer sums are split
UFUNCS: dict[str, Any] = {
    "+": np.add, "min": np.minimum, "max": np.maximum, "&": np.bitwise_and, "|": np.bitwise_or, "^": np.bitwise_xor,
}  # fmt: skip
"""NumPy's functions of the operators that references know."""
_WIDER = {"float16": np.float64, "float32": np.float64, "complex64": np.complex128}


@dataclass(frozen=True)
class Expected:
    """Reference values and the absolute tolerance: 0 for exact comparison, a number, or an array per element.

    wrong: if several results are right, a function of a result: the mask of its wrong elements.
    """

    values: np.ndarray
    tolerance: Any = 0
    wrong: Callable[[np.ndarray], np.ndarray] | None = None


def placed(value: Any) -> Any:
    """A pyopencl Array as a Field on its memory; any other value unchanged.

    `get` and `set` of a pyopencl Array accept only contiguous elements.
    """
    return Field.wrap(value) if isinstance(value, Array) else value


def host(value: Any) -> np.ndarray:
    """A copy on the host of a NumPy array, a Field, a pyopencl Array or a scalar."""
    return np.array(placed(value).get() if hasattr(value, "get") else value)


def hosts(result: Any) -> list[np.ndarray]:
    """Copies on the host of a function's result, of one array or of several."""
    return [host(one) for one in (result if isinstance(result, tuple) else (result,))]


def checked_by(fn: Callable[..., Any], reference: Callable[..., list[Expected] | None]) -> None:
    """Declare the reference of a public function.

    The reference takes the arguments of a call, without the device, the queue and `out`. It raises TypeError,
    ValueError or LookupError for arguments that NumPy's function does not accept.
    """
    fn.__dict__["__pydp_reference__"] = reference


def expected(fn: Callable[..., Any], args: tuple[Any, ...], kw: dict[str, Any]) -> list[Expected] | None:
    """NumPy's result of ``fn(*args, **kw)``; None if NumPy has no such function.

    The arguments are read before the call, because the call may overwrite them.
    """
    maker = getattr(fn, "__pydp_reference__", None)
    plain = {key: value for key, value in kw.items() if key not in ("out", "device", "queue", "wait_for", "strategy")}
    if maker is None:
        return None
    try:
        with np.errstate(all="ignore"):  # overflow is part of the result
            return maker(*args, **plain)
    except (TypeError, ValueError, LookupError):  # arguments that NumPy does not accept
        return None


def alike(values: list[np.ndarray]) -> list[Expected]:
    """The values of another run as the reference: integers exactly, floats within the rounding of long sums."""
    found = []
    for one in values:
        if one.dtype.kind in "fc" and one.size:
            with np.errstate(all="ignore"):
                finite = np.abs(one[np.isfinite(one)])
            found.append(Expected(one, _DEPTH * eps(one.dtype) * float(finite.max(initial=0))))
        else:
            found.append(Expected(one))
    return found


def unlike(values: np.ndarray) -> np.ndarray:
    """Values of the same shape and dtype that all differ from the given ones.

    Floats become NaN (NaN and infinities become 0), because a tolerance applies to them. Other types change every
    byte, also as booleans: zero bytes become nonzero and the others become zero.
    """
    if values.dtype.kind in "fc":
        return np.where(np.isfinite(values), values.dtype.type(np.nan), values.dtype.type(0))
    others = (np.frombuffer(values.tobytes(), np.uint8) == 0).view(np.uint8)
    others *= 85
    return others.view(values.dtype).reshape(values.shape)


def difference(got: list[np.ndarray], want: list[Expected]) -> str | None:
    """One sentence on how a result differs from the expected one; None if it does not."""
    if len(got) != len(want):
        return f"{len(got)} arrays instead of {len(want)}"
    for values, right in zip(got, want, strict=True):
        if (values.shape, values.dtype) != (right.values.shape, right.values.dtype):
            return f"{values.dtype} {values.shape} instead of {right.values.dtype} {right.values.shape}"
        wrong = _wrong(values, right)
        if wrong is not None and wrong.any():
            at = np.unravel_index(int(np.argmax(wrong)), values.shape)
            return (
                f"{int(np.count_nonzero(wrong))} of {values.size} elements are wrong, the first at "
                f"{tuple(int(place) for place in at)}: {values[at]} instead of {right.values[at]}"
            )
    return None


def _wrong(got: np.ndarray, right: Expected) -> np.ndarray | None:
    """A mask of wrong elements; None if all bytes are equal.

    The tolerance applies to finite values only, because it is infinite for infinite ones. Which part of a complex
    number is NaN after a product with infinities depends on how it was multiplied, so non-finite complex numbers match
    one another, as NaN matches NaN.
    """
    want = right.values
    if right.wrong is not None:
        return right.wrong(got)
    if got.tobytes() == want.tobytes():
        return None
    wrong = np.asarray(got != want)
    if got.dtype.kind in "fc":
        with np.errstate(all="ignore"):
            near = (np.abs(wide(got) - wide(want)) <= right.tolerance) & np.isfinite(got) & np.isfinite(want)
        no_number = [np.isnan(one) if one.dtype.kind == "f" else ~np.isfinite(one) for one in (got, want)]
        wrong &= ~(near | (no_number[0] & no_number[1]))
    return wrong


def wide(x: np.ndarray) -> np.ndarray:
    """The array in the type in which references are computed."""
    return x.astype(_WIDER.get(x.dtype.name, x.dtype), copy=False)


def eps(dtype: np.dtype) -> float:
    """The machine epsilon of a float or complex type."""
    return float(np.finfo(dtype).eps)


def identity(op: str, dtype: np.dtype) -> Any:
    """The result of an operator of `UFUNCS` for no elements."""
    if op in ("min", "max"):
        if dtype.kind == "f":
            return np.inf if op == "min" else -np.inf
        least, most = (False, True) if dtype.kind == "b" else (np.iinfo(dtype).min, np.iinfo(dtype).max)
        return most if op == "min" else least
    return dtype.type(-1 if dtype.kind == "i" else np.iinfo(dtype).max if dtype.kind == "u" else 1) if op == "&" else 0


def rounding(x: np.ndarray) -> np.ndarray:
    """A bound of the rounding error of the running sums along the last axis, for any order of additions.

    Each addition rounds relative to its sum. The sum of a run of elements is the difference of two running sums; the
    sum of every n-th element is about as large as the norm; no sum is larger than the sum of magnitudes. The sum of
    magnitudes alone would be too weak a bound for numbers of both signs. Integers add up exactly while the type can
    represent them.
    """
    values = wide(x)
    with np.errstate(all="ignore"):  # in place: arrays may fill much of the host's memory
        most: np.ndarray = np.abs(values)
        norm = most * most
        np.add.accumulate(most, axis=-1, out=most)
        if x.size and most.max() * eps(x.dtype) <= 2 and np.array_equal(values, np.rint(values)):
            return np.zeros_like(most)
        np.sqrt(np.add.accumulate(norm, axis=-1, out=norm), out=norm)
        near = np.abs(np.add.accumulate(values, axis=-1))
        np.maximum.accumulate(near, axis=-1, out=near)
        near += 4 * norm
        np.minimum(most, 2 * near, out=most)
        most *= (2 * min(x.shape[-1], _DEPTH) + 2) * eps(x.dtype)
    return most
