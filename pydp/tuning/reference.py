"""What the result of a public function must be, by NumPy: tuned candidates are checked against it.

Where NumPy has no such function (user operators, segments), the result without tuning is the reference.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from pydp.runtime.field.field import Field
from pydp.runtime.placement import Array

_DEPTH = 1 << 17  # additions in a row that a result may be rounded by; longer sums are cut into parts
UFUNCS: dict[str, Any] = {
    "+": np.add, "min": np.minimum, "max": np.maximum, "&": np.bitwise_and, "|": np.bitwise_or, "^": np.bitwise_xor,
}  # fmt: skip
_WIDER = {"float16": np.float64, "float32": np.float64, "complex64": np.complex128}


@dataclass(frozen=True)
class Expected:
    """Right values, and how far from them each element may lie: 0 for exact ones, an array or a number."""

    values: np.ndarray
    tolerance: Any = 0


def placed(value: Any) -> Any:
    """A pyopencl Array as a Field on its memory, for its own `get` and `set` take contiguous elements alone; anything
    else as it is."""
    return Field.wrap(value) if isinstance(value, Array) else value


def host(value: Any) -> np.ndarray:
    """A copy on the host of a NumPy array, a Field, a pyopencl Array or a scalar."""
    return np.array(placed(value).get() if hasattr(value, "get") else value)


def hosts(result: Any) -> list[np.ndarray]:
    """Copies on the host of a function's result, of one array or of several."""
    return [host(one) for one in (result if isinstance(result, tuple) else (result,))]


def checked_by(fn: Callable[..., Any], reference: Callable[..., list[Expected] | None]) -> None:
    """Declare the reference of a public function. It takes the arguments of a call, without those that only say where
    the call runs and where its result goes, and raises TypeError, ValueError or LookupError for those that NumPy's
    function does not take."""
    fn.__dict__["__pydp_reference__"] = reference


def expected(fn: Callable[..., Any], args: tuple[Any, ...], kw: dict[str, Any]) -> list[Expected] | None:
    """NumPy's result of ``fn(*args, **kw)``; None if NumPy has no such function.

    The arguments are read before the call, which may write over them.
    """
    maker = getattr(fn, "__pydp_reference__", None)
    plain = {key: value for key, value in kw.items() if key not in ("out", "device", "queue", "wait_for", "strategy")}
    if maker is None:
        return None
    try:
        with np.errstate(all="ignore"):  # what overflows is as it is
            return maker(*args, **plain)
    except (TypeError, ValueError, LookupError):  # arguments that it does not take
        return None


def alike(values: list[np.ndarray]) -> list[Expected]:
    """The values of another run as the reference: equal integers, floats within the rounding of long sums."""
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
    """Values of the same shape and dtype none of which passes for the one in its place: other bytes where those of an
    element are compared (a byte that is not 0 is True), no number where a tolerance counts."""
    if values.dtype.kind in "fc":
        return np.where(np.isfinite(values), values.dtype.type(np.nan), values.dtype.type(0))
    others = (np.frombuffer(values.tobytes(), np.uint8) == 0).view(np.uint8)
    others *= 85
    return others.view(values.dtype).reshape(values.shape)


def difference(got: list[np.ndarray], want: list[Expected]) -> str | None:
    """In one sentence, how a result differs from what is expected; None where it does not."""
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
    """Where elements are wrong; None where all bytes are the same. Where there is an infinite value the tolerance is
    infinite too, so that only finite ones are compared by it; which parts of a complex number infinities leave no
    number depends on how it was multiplied."""
    want = right.values
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
    """The array in the type that a reference is computed in."""
    return x.astype(_WIDER.get(x.dtype.name, x.dtype), copy=False)


def eps(dtype: np.dtype) -> float:
    """The relative rounding of a float or complex type."""
    return float(np.finfo(dtype).eps)


def rounding(x: np.ndarray) -> np.ndarray:
    """How far the running sums along the last axis may lie off by rounding, in whatever order they are added up.

    Each addition rounds by the size of its sum. Sums of neighbours are differences of two running sums, sums of every
    few elements lie about as far off as the norm, and none is larger than the magnitudes' sum: that one alone would
    let sums of numbers of both signs be anything. Whole numbers are added up exactly as long as the type holds them.
    """
    values = wide(x)
    with np.errstate(all="ignore"):  # in place: arrays may take a good part of the host's memory
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
