"""Making fields: `field`, `empty`, `zeros`, `full`."""

from __future__ import annotations

from typing import Any

import numpy as np

from pydp.errors import InvalidArgument
from pydp.runtime.drivers.devices import device as find_device
from pydp.runtime.field.field import Field
from pydp.runtime.memory.host_memory import check_dtype
from pydp.runtime.placement import home_of
from pydp.space import Extent


def _dtype(dtype: Any) -> np.dtype:
    try:
        return check_dtype(np.dtype(dtype), "a field")
    except TypeError:
        raise InvalidArgument(f"{dtype!r} is not a dtype; NumPy's dtypes and their names are accepted") from None


def field(array_like: Any, dtype: Any = None, device: Any = None) -> Field:
    """A new Field with a copy of `array_like`: a NumPy array or anything it is made from, a Field or pyopencl Array.

    dtype: convert to it. device: as in `pydp.device`; None is where device data already lies, else the default.
    Raises InvalidArgument for what is no array, for dtypes that no device holds and for ranks beyond 6.

    >>> import pydp
    >>> pydp.field([[1, 2], [3, 4]], dtype="float32").T.get()
    array([[1., 3.],
           [2., 4.]], dtype=float32)
    """
    home = home_of(array_like)
    if home is not None:
        if device is None or find_device(device) is home:
            source = array_like if isinstance(array_like, Field) else Field.wrap(array_like)
            return source.copy() if dtype is None else source.astype(_dtype(dtype))
        array_like = array_like.get()
    if isinstance(array_like, np.ma.MaskedArray):
        raise InvalidArgument("a masked array's mask would be lost; give a plain array")
    kind = None if dtype is None else _dtype(dtype)
    try:
        values = np.asarray(array_like)
        if kind is not None and not hasattr(array_like, "dtype") and (kind.names or values.dtype.kind in "iu"):
            values = np.asarray(array_like, kind)  # tuples are records, and Python's integers must fit, as NumPy has it
    except (TypeError, ValueError, OverflowError) as error:
        raise InvalidArgument(f"this is no array{'' if kind is None else f' of {kind}'}: {error}") from None
    kind = kind or check_dtype(values.dtype, "the array")
    made = empty(values.shape, kind, device)
    made.set(values)
    return made


def empty(shape: Any, dtype: Any = np.float32, device: Any = None) -> Field:
    """A new Field of `shape` (an int, a tuple, an extent) whose elements are anything.

    Raises InvalidArgument for a negative size, more than 6 axes, or a dtype that no device holds.
    """
    return Field.fresh(find_device(device), tuple(Extent(shape)), _dtype(dtype))


def zeros(shape: Any, dtype: Any = np.float32, device: Any = None) -> Field:
    """A new Field of `shape` filled with zeros (records: with zero bytes)."""
    made = empty(shape, dtype, device)
    made[...] = np.zeros((), made.dtype)
    return made


def full(shape: Any, fill_value: Any, dtype: Any = None, device: Any = None) -> Field:
    """A new Field of `shape` filled with `fill_value`; dtype None is the value's own, as in NumPy."""
    made = empty(shape, np.asarray(fill_value).dtype if dtype is None else dtype, device)
    made[...] = fill_value
    return made
