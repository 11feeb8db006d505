"""Functions that create fields: `field`, `empty`, `zeros`, `full`."""

from __future__ import annotations

import math
import sys
from typing import Any

import numpy as np

from pydp.errors import InvalidArgument, OutOfResources, shown
from pydp.runtime.drivers.devices import device as find_device
from pydp.runtime.field.field import Field
from pydp.runtime.memory.host_memory import check_dtype
from pydp.runtime.placement import home_of
from pydp.space import Extent


def _dtype(dtype: Any) -> np.dtype:
    try:
        return check_dtype(np.dtype(dtype), "a field")
    except TypeError:
        raise InvalidArgument(f"{shown(dtype)} is not a dtype; NumPy dtypes and their names are accepted") from None


def field(array_like: Any, dtype: Any = None, device: Any = None) -> Field:
    """Copy `array_like` (a Field, a pyopencl Array, or anything that `np.asarray` accepts) into a new Field.

    dtype: the dtype of the new Field; None keeps that of the data. device: as in `pydp.device`; None is the device
    that holds the data, or the default device for host data. Raises InvalidArgument if `array_like` is not an array,
    if its dtype has no OpenCL type, or if its rank is above 6.

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
        raise InvalidArgument("masked arrays are not accepted because the mask would be lost; pass a plain array")
    kind = None if dtype is None else _dtype(dtype)
    try:
        values = np.asarray(array_like)
        if kind is not None and not hasattr(array_like, "dtype") and (kind.names or values.dtype.kind in "iu"):
            values = np.asarray(array_like, kind)  # tuples are records; Python integers must fit, as in NumPy
    except (TypeError, ValueError, OverflowError) as error:
        raise InvalidArgument(
            f"the value cannot be converted to an array{'' if kind is None else f' of dtype {kind}'}: {error}"
        ) from None
    kind = kind or check_dtype(values.dtype, "the array")
    made = empty(values.shape, kind, device)
    made.set(values)
    return made


def empty(shape: Any, dtype: Any = np.float32, device: Any = None) -> Field:
    """A new uninitialized Field.

    shape: an integer, a tuple of integers or an extent; rank 0 to 6. dtype: the default is float32 (NumPy's is
    float64). device: as in `pydp.device`; None is the default device. Raises InvalidArgument for a negative size, more
    than 6 axes, or a dtype without an OpenCL type, and OutOfResources if the device has too little memory.

    >>> pydp.empty((2, 3)).dtype
    dtype('float32')
    """
    sizes, kind = tuple(Extent(shape)), _dtype(dtype)
    if math.prod(max(size, 1) for size in sizes) * kind.itemsize > sys.maxsize:  # NumPy counts empty axes as 1, too
        raise OutOfResources(f"shape {sizes} with dtype {kind} is too large for any array")
    return Field.fresh(find_device(device), sizes, kind)


def zeros(shape: Any, dtype: Any = np.float32, device: Any = None) -> Field:
    """A new Field filled with zeros (zero bytes for records). Arguments and errors: see `empty`."""
    made = empty(shape, dtype, device)
    made[...] = np.zeros((), made.dtype)
    return made


def full(shape: Any, fill_value: Any, dtype: Any = None, device: Any = None) -> Field:
    """A new Field filled with `fill_value`. dtype: None takes the dtype of `fill_value`, as in NumPy. Other arguments
    and errors: see `empty`."""
    made = empty(shape, np.asarray(fill_value).dtype if dtype is None else dtype, device)
    made[...] = fill_value
    return made
