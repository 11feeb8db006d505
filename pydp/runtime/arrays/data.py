"""FieldData: device memory with a shape and strides, the base of Field; pyopencl Arrays in this form."""

from __future__ import annotations

from math import prod
from typing import TYPE_CHECKING, Any, Self

import numpy as np
import pyopencl as cl
import pyopencl.array

from pydp.errors import InvalidArgument
from pydp.runtime.arrays.deferred import DeferredShape
from pydp.runtime.arrays.indexing import Layout, index_layout
from pydp.runtime.arrays.operand import Operand, Strided, c_strides
from pydp.runtime.drivers.devices import from_context, from_queue
from pydp.runtime.forks import raise_if_lost
from pydp.runtime.memory.host_memory import check_aligned, check_dtype, create
from pydp.runtime.memory.storage import Storage, check_alive

if TYPE_CHECKING:
    from pydp.runtime.drivers.devices import Device

Array = cl.array.Array


class FieldData(Strided):
    """The memory, dtype, shape, strides and offset (in elements) of a Field.

    Calls, copies and tiles use this class, because Field is in a higher layer. Methods return the class of `self`, so
    users get Fields back.
    """

    __slots__ = ("_array", "_shape", "_storage", "_writable", "dtype", "offset", "strides")

    _shape: tuple[int, ...] | DeferredShape

    __array_ufunc__ = None  # NumPy then leaves mixed arithmetic and comparisons to this class

    def __init__(
        self,
        storage: Storage,
        dtype: np.dtype,
        shape: tuple[int, ...],
        strides: tuple[int, ...] | None = None,
        offset: int = 0,
        writable: bool = True,
    ) -> None:
        self._storage = storage
        self._array: Any = None  # a pyopencl Array on the same memory, if one was made
        self._writable = writable
        self.dtype = dtype
        self._shape = shape
        self.strides = c_strides(shape) if strides is None else strides
        self.offset = offset

    @classmethod
    def fresh(cls, device: Device, shape: tuple[int, ...], dtype: Any) -> Self:
        """Internal: new uninitialized C-contiguous data; see :func:`pydp.empty`."""
        kind = check_dtype(np.dtype(dtype), "a field")
        return cls(Storage.allocated(device, device.queue, prod(shape) * kind.itemsize), kind, shape)

    def uninitialized(
        self,
        device: Device,
        queue: cl.CommandQueue,
        shape: tuple[int, ...],
        strides: tuple[int, ...],
        dtype: np.dtype,
        nbytes: int,
    ) -> Self:
        """Internal: new C-contiguous data of the class of this, for a first use on `queue`."""
        return type(self)(Storage.allocated(device, queue, nbytes), dtype, shape, strides)

    @classmethod
    def wrap(cls, array: Any, device: Device | None = None) -> Self:
        """Internal: the memory of a pyopencl Array, whose events are kept up to date. Raises InvalidArgument if the
        memory has been released, and for an unsupported dtype, offset, strides or address of host memory."""
        home = device_of_array(array) if device is None else device
        dtype = check_dtype(array.dtype, "the pyopencl Array")
        size = dtype.itemsize
        if array.offset % size or any([stride % size for stride in array.strides]):
            raise InvalidArgument(
                f"a pyopencl Array of dtype {dtype} has offset {array.offset} and strides {array.strides} bytes; "
                f"multiples of {size} are accepted"
            )
        buffer = array.base_data
        if buffer is None:  # pyopencl represents an empty array this way
            buffer = cl.Buffer(home.context, cl.mem_flags.READ_WRITE, 1)
        elif array.size and home.profile.shares_host_memory:
            check_aligned(buffer, dtype)
        shape = tuple(map(int, array.shape))
        strides = c_strides(shape) if array.size == 0 else tuple([int(stride) // size for stride in array.strides])
        made = cls(Storage(buffer, home, array=array), dtype, shape, strides, int(array.offset) // size)
        made._array = array
        return made

    @property
    def shape(self) -> tuple[int, ...]:  # type: ignore[override]
        """The lengths of the axes. Waits for the length of a result that only the device knows (`deferred`)."""
        shape = self._shape
        if not isinstance(shape, tuple):
            shape = self._shape = shape.wait()
        return shape

    @shape.setter
    def shape(self, shape: tuple[int, ...]) -> None:
        self._shape = shape

    def deferred(self, shape: DeferredShape) -> Self:
        """Internal: a view whose first axis has a length that a kernel stores; see
        :class:`pydp.runtime.arrays.deferred.DeferredShape`. The strides stay as they are."""
        made = self._view((self.shape, self.strides, self.offset))
        made._shape = shape
        return made

    @property
    def whole(self) -> Self:
        """Internal: this data; if only the device knows its length, with all its space. Does not wait."""
        shape = self._shape
        return self if isinstance(shape, tuple) else self._view((shape.whole, self.strides, self.offset))

    @property
    def given(self) -> Any:
        """Internal: the array that users see: this Field, or the pyopencl Array that it wraps."""
        return self

    @property
    def command_queue(self) -> cl.CommandQueue | None:
        """The queue of calls without ``queue=`` with this data; None for the device's queue."""
        return None

    @property
    def device(self) -> Device:
        """The device that holds the data."""
        return self._storage.device

    @property
    def writable(self) -> bool:
        """Whether kernels and assignments can write through this view."""
        return self._writable

    @property
    def event(self) -> cl.Event | None:
        """The event of the last command that used the memory; None before the first."""
        raise_if_lost()
        return self._storage.last_event()

    def _view(self, layout: Layout, writable: bool | None = None) -> Self:
        shape, strides, offset = layout
        return type(self)(
            self._storage, self.dtype, shape, strides, offset, self._writable if writable is None else writable
        )

    @property
    def T(self) -> Self:
        """The transposed view (reversed axes)."""
        return self._view((self.shape[::-1], self.strides[::-1], self.offset))

    @property
    def read_only(self) -> Self:
        """A read-only view of the same data."""
        return self._view((self.shape, self.strides, self.offset), writable=False)

    def __getitem__(self, key: Any) -> Self:
        return self._view(index_layout((self.shape, self.strides, self.offset), key))

    def _operand(self, name: str) -> Operand:
        storage = self._storage
        storage.check_alive()
        return Operand(name, storage.buffer, self.offset, self.shape, self.strides, self.dtype, storage)


class WrappedArray(FieldData):
    """A pyopencl Array as an argument or result of a call."""

    __slots__ = ()

    def uninitialized(
        self,
        device: Device,
        queue: cl.CommandQueue,
        shape: tuple[int, ...],
        strides: tuple[int, ...],
        dtype: np.dtype,
        nbytes: int,
    ) -> Self:
        """A new pyopencl Array on `queue`, from the allocator of this one."""
        if self._array.allocator is not None and nbytes:
            array = Array(queue, shape, dtype, allocator=self._array.allocator)
        else:
            array = Array(queue, shape, dtype, data=create(device.context, cl.mem_flags.READ_WRITE, nbytes))
        made = type(self)(Storage(array.base_data, device, array=array), dtype, shape, strides)
        made._array = array
        return made

    @property
    def given(self) -> Any:
        """The pyopencl Array."""
        return self._array

    @property
    def command_queue(self) -> cl.CommandQueue | None:
        """The queue of the Array."""
        return self._array.queue


def device_of_array(array: Any) -> Device:
    """The device that holds a pyopencl Array; raises InvalidArgument if its memory has been released."""
    check_alive(array.base_data, array.context, "a pyopencl Array")
    queue = array.queue
    if queue is not None:
        return from_queue(queue)
    raise_if_lost()
    return from_context(array.context, array.context.devices[0])
