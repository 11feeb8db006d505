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
_UFUNCS: dict[str, Any] = {
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


def expected(name: str, args: tuple[Any, ...], kw: dict[str, Any]) -> list[Expected] | None:
    """What NumPy says that ``pydp.<name>(*args, **kw)`` is; None where it has no function for it.

    The arguments are read before the call, which may write over them.
    """
    maker = _BY_NAME.get(name)
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
            found.append(Expected(one, _DEPTH * _eps(one.dtype) * float(finite.max(initial=0))))
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
            near = (np.abs(_wide(got) - _wide(want)) <= right.tolerance) & np.isfinite(got) & np.isfinite(want)
        no_number = [np.isnan(one) if one.dtype.kind == "f" else ~np.isfinite(one) for one in (got, want)]
        wrong &= ~(near | (no_number[0] & no_number[1]))
    return wrong


def _wide(x: np.ndarray) -> np.ndarray:
    return x.astype(_WIDER.get(x.dtype.name, x.dtype), copy=False)


def _eps(dtype: np.dtype) -> float:
    return float(np.finfo(dtype).eps)


def _matmul(a: Any, b: Any, *, alpha: Any = 1, beta: Any = 0) -> list[Expected] | None:
    if alpha != 1 or beta != 0:
        return None
    a, b = host(a), host(b)
    dtype = np.result_type(a, b)
    right = np.asarray(np.matmul(_wide(a), _wide(b)))
    if dtype.kind not in "fc":
        return [Expected(right.astype(dtype))]
    left_norms = np.sqrt(np.sum(np.abs(_wide(a)) ** 2, axis=-1))
    right_norms = np.sqrt(np.sum(np.abs(_wide(b)) ** 2, axis=-2 if b.ndim > 1 else -1))
    scale = left_norms[..., None] * right_norms[..., None, :] if a.ndim > 1 and b.ndim > 1 else left_norms * right_norms
    return [Expected(right.astype(dtype), (a.shape[-1] + 2) * _eps(dtype) * scale)]


def _scan(x: Any, op: Any = "+", *, axis: Any = -1) -> list[Expected] | None:
    ufunc = _UFUNCS[op]
    x = host(x)
    x, axis = (x.reshape(-1), 0) if axis is None else (x, axis)
    dtype = np.dtype(np.int64) if x.dtype.kind == "b" and op == "+" else x.dtype
    right = ufunc.accumulate(_wide(x), axis=axis, dtype=_wide(np.zeros(0, dtype)).dtype)
    if dtype.kind not in "fc" or op != "+":
        return [Expected(right.astype(dtype))]
    return [Expected(right.astype(dtype), np.moveaxis(_rounding(np.moveaxis(x, axis, -1)), -1, axis))]


def _rounding(x: np.ndarray) -> np.ndarray:
    """How far the running sums along the last axis may lie off by rounding, in whatever order they are added up.

    Each addition rounds by the size of its sum. Sums of neighbours are differences of two running sums, sums of every
    few elements lie about as far off as the norm, and none is larger than the magnitudes' sum: that one alone would
    let sums of numbers of both signs be anything. Whole numbers are added up exactly as long as the type holds them.
    """
    wide = _wide(x)
    with np.errstate(all="ignore"):  # in place: arrays may take a good part of the host's memory
        most: np.ndarray = np.abs(wide)
        norm = most * most
        np.add.accumulate(most, axis=-1, out=most)
        if x.size and most.max() * _eps(x.dtype) <= 2 and np.array_equal(wide, np.rint(wide)):
            return np.zeros_like(most)
        np.sqrt(np.add.accumulate(norm, axis=-1, out=norm), out=norm)
        near = np.abs(np.add.accumulate(wide, axis=-1))
        np.maximum.accumulate(near, axis=-1, out=near)
        near += 4 * norm
        np.minimum(most, 2 * near, out=most)
        most *= (2 * min(x.shape[-1], _DEPTH) + 2) * _eps(x.dtype)
    return most


def _reduce(x: Any, op: Any = "+", *, axis: Any = None, keepdims: bool = False) -> list[Expected] | None:
    ufunc = _UFUNCS[op]
    x = host(x)
    axes = tuple(range(x.ndim)) if axis is None else axis
    right = np.asarray(ufunc.reduce(_wide(x), axis=axes, keepdims=keepdims))
    dtype = right.dtype if x.dtype.kind not in "fc" else x.dtype
    if dtype.kind not in "fc" or op != "+":
        return [Expected(right.astype(dtype))]
    axes = axes if isinstance(axes, tuple) else (axes,)
    rows = np.moveaxis(x, axes, range(-len(axes), 0)).reshape(right.size, -1) if x.size else np.zeros((right.size, 1))
    return [Expected(right.astype(dtype), _rounding(rows)[:, -1].reshape(right.shape))]


def _sort(x: Any, *, axis: Any = -1) -> list[Expected]:
    return [Expected(np.sort(host(x), axis=axis, kind="stable"))]


def _argsort(x: Any, *, axis: Any = -1) -> list[Expected]:
    return [Expected(np.argsort(host(x), axis=axis, kind="stable").astype(np.int64))]


def _sort_by_key(keys: Any, values: Any, *, axis: Any = -1) -> list[Expected]:
    keys, values = host(keys), host(values)
    if axis is None:
        keys, values, axis = keys.reshape(-1), values.reshape(-1), 0
    order = np.argsort(keys, axis=axis, kind="stable")
    return [Expected(np.take_along_axis(one, order, axis)) for one in (keys, values)]


def _histogram(x: Any, bins: Any = 10, range: Any = None) -> list[Expected] | None:
    x = host(x)
    if x.dtype in (np.int64, np.uint64) and x.size and max(-int(x.min()), int(x.max())) > 2**53:
        return None  # NumPy rounds such values before it compares them with the edges
    counts, edges = np.histogram(x.view(np.uint8) if x.dtype.kind == "b" else x, bins, range)  # of bools NumPy warns
    return [Expected(counts.astype(np.int64)), Expected(edges)]


def _bincount(x: Any, *, minlength: int = 0) -> list[Expected]:
    return [Expected(np.bincount(host(x), minlength=minlength).astype(np.int64))]


def _transpose(x: Any, axes: Any = None) -> list[Expected]:
    return [Expected(np.ascontiguousarray(np.transpose(host(x), axes)))]


_BY_NAME: dict[str, Callable[..., list[Expected] | None]] = {
    "matmul": _matmul,
    "scan": _scan,
    "reduce": _reduce,
    "sort": _sort,
    "argsort": _argsort,
    "sort_by_key": _sort_by_key,
    "histogram": _histogram,
    "bincount": _bincount,
    "transpose": _transpose,
}
