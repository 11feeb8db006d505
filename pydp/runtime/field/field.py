"""Field: an N-dimensional array on a device, or a strided view of one (SPEC S1)."""

from __future__ import annotations

import functools
from collections.abc import Iterator
from typing import Any, NoReturn

import numpy as np
import pyopencl as cl
import pyopencl.array

from pydp.errors import InvalidArgument, shown
from pydp.runtime.arrays.indexing import ARRAY_ADVICE
from pydp.runtime.arrays.operand import Strided
from pydp.runtime.field import transfer
from pydp.runtime.field.operators import FieldOperators
from pydp.runtime.field.tile_range import tiled
from pydp.runtime.memory.host_memory import host_allocation
from pydp.space import Extent, Grid, integers


class Field(FieldOperators):
    """An N-dimensional array in device memory, or a strided view of one.

    `pydp.field`, `pydp.empty`, `pydp.zeros`, `pydp.full` and the algorithms create fields. Indexing with integers,
    slices, ``...`` and None returns a view that shares the memory; assignment to an index writes to that memory.
    Operations are asynchronous and run in the order of the device's queue. `get`, `copy_out` and ``np.asarray``
    wait for the data.

    Operators are lazy: ``r = a * x + y * z`` checks its operands and computes nothing. Later, one kernel computes the
    whole expression without temporary arrays. The values are the same as with a kernel for each operator. The kernel
    starts when `r` is used, before an operand changes, at the next call of a function of pydp on the device, or when
    ``r.event`` or the device's `queue` is read. Read ``r.event`` if the host then works on something else. A result
    that is deleted before that is not computed. Errors of the device, such as too little memory, are raised when `r`
    is used. Operators with NumPy or pyopencl arrays, and with Fields whose `array` was read, are computed at once.

    ``+ - * / & | ^ ~``, unary ``-`` and the comparisons ``== != < <= > >=`` work element by element, with the
    broadcasting and type rules of NumPy. So do ``// % ** << >>``, `divmod` and `abs`, but these are computed at
    once, in a kernel of their own. Of these, only ``f ** 2``, ``f ** -1`` and `abs` are defined for complex numbers.
    Powers of floats may differ from NumPy's in the last bits. Integer powers with negative exponents taken from an
    array give 1. ``@`` is :func:`pydp.matmul`. Use :func:`pydp.evaluate` for functions.

    A comparison returns a field of booleans. A field has a truth value only if it has one element, and fields are not
    hashable. ``f is g`` tests identity; ``(f == g).get().all()`` tests whether all elements are equal.

    `strides` and `offset` count elements. All operations accept ranks 0 to 6. The dtype is a boolean, integer, float
    or complex type, an OpenCL vector, or a record.

    >>> import numpy as np, pydp
    >>> f = pydp.field(np.arange(6, dtype=np.float32).reshape(2, 3))
    >>> f.T[1].get()
    array([1., 4.], dtype=float32)
    >>> np.where(f == 4, 1, 0)
    array([[0, 0, 0],
           [0, 1, 0]])
    """

    __slots__ = ()

    # --- properties --------------------------------------------------------------------------------------

    ndim = Strided.rank

    @property
    def extent(self) -> Extent:
        """The shape as an Extent."""
        return Extent(self.shape)

    @property
    def grid(self) -> Grid:
        """The shape as a grid that starts at 0."""
        return Grid(self.extent)

    @property
    def element_type(self) -> np.dtype:
        """The dtype."""
        return self.dtype

    @property
    def array(self) -> Any:
        """A pyopencl Array that shares the memory, on the device's queue. It is writable even if the view is not.

        Its `events` have the last command that used the memory, so that commands on other queues can wait for it."""
        if self._array is None:
            queue = self._storage.device.queue  # may start computations and build kernels, so before any lock
            self._array = self._storage.share(queue, functools.partial(self._new_array, queue))
        return self._array

    def _new_array(self, queue: cl.CommandQueue, buffer: cl.Buffer, events: list[cl.Event]) -> Any:
        itemsize = self.dtype.itemsize
        return cl.array.Array(
            queue,
            self.shape,
            self.dtype,
            data=buffer,
            offset=self.offset * itemsize,
            strides=tuple(stride * itemsize for stride in self.strides),
            events=events,
        )

    # --- views -------------------------------------------------------------------------------------------

    def transpose(self, *axes: int) -> Field:
        """A view with the axes in the given order (reversed by default). Raises InvalidArgument if `axes` is not a
        permutation of the axes."""
        order = integers(axes[0] if len(axes) == 1 else axes, "transpose")
        if not order:
            return self.T
        places = [axis + self.rank if axis < 0 else axis for axis in order]
        if sorted(places) != list(range(self.rank)):
            raise InvalidArgument(
                f"axes={shown(order)} is not a permutation of {self.rank} axes; each axis must occur once"
            )
        shape = tuple(self.shape[axis] for axis in places)
        return self._view((shape, tuple(self.strides[axis] for axis in places), self.offset))

    def reshape(self, *shape: Any) -> Field:
        """A view with another shape and the same number of elements; a copy if the field is not contiguous. One size
        may be -1. Raises InvalidArgument for another number of elements and for more than 6 axes."""
        sizes = tuple(shape[0]) if len(shape) == 1 and isinstance(shape[0], (tuple, list)) else shape
        return transfer.reshaped(self, sizes)

    def tile(self, *extent: Any, **options: Any) -> Any:
        """`pydp.tile` of this field: ``f.tile(16, 16)`` is ``pydp.tile(f, (16, 16))``."""
        return tiled(self, extent[0] if len(extent) == 1 else extent, **options)

    def __call__(self, *place: Any) -> Field:
        """``f(i, k)`` is ``f[i, k]``, as in vector functions."""
        return self[place[0] if len(place) == 1 else place]

    def __setitem__(self, key: Any, value: Any) -> None:
        """Write `value`, an array or a number that broadcasts, to the elements that `key` selects."""
        transfer.assign(self[key], value)

    # --- data --------------------------------------------------------------------------------------------

    def get(self) -> np.ndarray:
        """Copy the data to a new C-contiguous NumPy array; waits for pending operations."""
        return transfer.fetch(self)

    def set(self, values: Any) -> None:
        """Replace all elements by `values`, an array-like of the same shape that is converted to the dtype.

        Raises InvalidArgument for another shape or a read-only field. See `copy_in` for a copy that does not wait.
        """
        self.copy_in(values)

    def copy_in(self, values: Any, blocking: bool = True) -> cl.Event | None:
        """Copy `values` (NumPy array, Field or pyopencl Array of the same shape) into this field.

        A synchronization point: when it returns, the copy is complete and `values` may change. With
        ``blocking=False`` it returns immediately with the event of the copy (None if the field is empty), and
        `values` must not change before that event completes. Raises InvalidArgument for another shape or a read-only
        field.
        """
        return transfer.copy_in(self, values, blocking)

    def copy_out(self, target: Any, blocking: bool = True) -> cl.Event | None:
        """Copy this field into `target`, a writable NumPy array, Field or pyopencl Array of the same shape.

        A synchronization point. With ``blocking=False`` it returns immediately with the event of the copy;
        a NumPy target must then be C-contiguous. Raises InvalidArgument for another shape, another dtype of a NumPy
        target, or a read-only target.
        """
        return transfer.copy_out(self, target, blocking)

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> np.ndarray:
        if copy is False:
            raise InvalidArgument("copy is False; a Field is in device memory and cannot be converted without a copy")
        values = self.get()
        with host_allocation():
            return values if dtype is None else values.astype(dtype, copy=False)

    def item(self) -> Any:
        """The element of a one-element field as a Python value; waits for it. Raises InvalidArgument for others."""
        if self.size != 1:
            raise InvalidArgument(f"item() takes one element; a field of shape {self.shape} has {self.size} elements")
        return self.get().item()

    def __float__(self) -> float:
        return float(self.item())

    def __int__(self) -> int:
        return int(self.item())

    def __index__(self) -> int:
        if self.rank or self.dtype.kind not in "iu":
            raise TypeError(
                f"a Field of shape {self.shape} and dtype {self.dtype} cannot be an index; an integer Field of rank 0 "
                f"is accepted. {ARRAY_ADVICE}"
            )
        return int(self.item())

    def __complex__(self) -> complex:
        return complex(self.item())

    def __bool__(self) -> bool:
        if self.size != 1:
            raise InvalidArgument(f"the truth of a field of shape {self.shape} is ambiguous; one element is needed")
        return bool(self.item())

    def __len__(self) -> int:
        if not self.shape:
            raise TypeError("a field of rank 0 has no length")
        return self.shape[0]

    def __iter__(self) -> Iterator[Any]:
        raise TypeError("a Field is not iterable because each step would wait for the device; use .get() first")

    def __contains__(self, value: object) -> bool:
        raise TypeError("a Field does not support `in`; use .get() first")

    def __reduce__(self) -> NoReturn:
        raise TypeError("a Field cannot be pickled because it is in device memory; use .get() first")

    def __copy__(self) -> Field:
        return self.copy()

    def __deepcopy__(self, memo: object) -> Field:
        return self.copy()

    def __repr__(self) -> str:
        view = "" if self.is_contiguous else f", strides={self.strides}"
        mark = "" if self._writable else ", read-only"
        return f"<Field {self.shape} {self.dtype}{view}{mark} on {self._storage.device.name}>"
