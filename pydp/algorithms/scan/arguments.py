"""Interpretation of a scan's arguments: computation dtype, segments and init."""

from __future__ import annotations

from typing import Any

import numpy as np

from pydp.algorithms.operators import outgrows
from pydp.dtypes import native
from pydp.errors import InvalidArgument, shown
from pydp.runtime.field.field import Field
from pydp.runtime.placement import normal_input

_BY_VALUE = frozenset("b1 i1 u1 i2 u2 i4 u4 i8 u8 f4 f8".split())


def value_dtype(source: np.dtype, dtype: Any, op: Any) -> np.dtype:
    """The dtype of the scan and its result: `dtype`, or the input's dtype, or int64 for sums and products of bools."""
    if dtype is not None:
        return native(dtype)
    if source.kind == "b" and outgrows(op):
        return np.dtype(np.int64)
    return source


def segments_of(segments: Any) -> tuple[str, Any]:
    """Returns ("none" | "flags" | "keys", array). Bool and uint8 arrays are head flags, other integers are keys."""
    if segments is None:
        return "none", None
    if isinstance(segments, tuple) and len(segments) == 2 and isinstance(segments[0], str):
        kind, array = segments
        if kind not in ("flags", "keys"):
            raise InvalidArgument(f"segments={shown(kind)} is invalid; 'flags' and 'keys' are accepted")
    else:
        kind, array = "", segments
    if not hasattr(array, "dtype"):
        array = normal_input("segments", array)
    found = array.dtype
    if found.kind not in "biu":
        raise InvalidArgument(f"segments has dtype {found}; bool or uint8 flags and integer keys are accepted")
    if not kind:
        kind = "flags" if found.kind == "b" or found == np.uint8 else "keys"
    return kind, array


def host_init(init: Any, dtype: np.dtype, name: str = "init") -> np.ndarray:
    """A host value as a 0-d array of `dtype`; InvalidArgument if it is not a single value of that dtype.

    name: of the parameter, for messages."""
    try:
        given = np.asarray(init, dtype if dtype.names else None)
    except (TypeError, ValueError, OverflowError):
        raise InvalidArgument(f"{name}={shown(init)} is not a value; one value of dtype {dtype} is accepted") from None
    if given.dtype.kind == "c" and dtype.kind != "c":  # NumPy would only warn and drop the imaginary part
        raise InvalidArgument(f"{name}={shown(init)} is complex; one value of dtype {dtype} is accepted")
    try:
        with np.errstate(all="ignore"):
            value = given.astype(dtype) if not given.ndim else given
    except OverflowError:
        raise InvalidArgument(f"{name}={shown(init)} is out of range; one value of dtype {dtype} is accepted") from None
    except (TypeError, ValueError):
        raise InvalidArgument(f"{name}={shown(init)} is not a number; one value of dtype {dtype} is accepted") from None
    if value.ndim:
        raise InvalidArgument(f"{name} has shape {value.shape}; one value of dtype {dtype} is accepted")
    if dtype.kind in "biu" and not (given.dtype.kind in "biuf" and given == value):
        raise InvalidArgument(
            f"{name}={shown(init)} is not a value of dtype {dtype}; integers in its range are accepted"
        )
    if dtype.kind == "f" and given.dtype.kind not in "biuf":
        raise InvalidArgument(f"{name}={shown(init)} is not a real number; dtype {dtype} requires one")
    return value


def is_device_init(init: Any) -> bool:
    """Whether init is a Field or a pyopencl Array. The device reads its value when the scan runs."""
    import pyopencl.array

    return isinstance(init, (Field, pyopencl.array.Array))


def check_device_init(init: Any, dtype: np.dtype, name: str = "init") -> None:
    """Raises InvalidArgument if a device init is not a single value of `dtype`."""
    if init.dtype != dtype or int(np.prod(init.shape)) != 1:
        raise InvalidArgument(
            f"{name} has shape {init.shape} and dtype {init.dtype}; one value of dtype {dtype} is accepted"
        )


def by_value(dtype: np.dtype) -> bool:
    """Whether an init of this dtype is a scalar kernel argument, not a buffer."""
    return f"{dtype.kind}{dtype.itemsize}" in _BY_VALUE


def as_argument(value: np.ndarray) -> Any:
    """A 0-d array as a scalar kernel argument for pyopencl."""
    return np.uint8(value) if value.dtype.kind == "b" else value[()]
