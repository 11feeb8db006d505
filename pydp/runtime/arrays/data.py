"""FieldData: the base of Field for the lower layers, device memory with a shape and strides."""

from __future__ import annotations

from math import prod
from typing import TYPE_CHECKING, Any, Self

import numpy as np
import pyopencl as cl

from pydp.runtime.arrays.indexing import Layout, index_layout
from pydp.runtime.arrays.operand import Operand, Strided, c_strides
from pydp.runtime.forks import raise_if_lost
from pydp.runtime.memory.deferred_release import release_pending
from pydp.runtime.memory.host_memory import check_dtype, create
from pydp.runtime.memory.scratch import take
from pydp.runtime.memory.storage import Storage

if TYPE_CHECKING:
    from pydp.runtime.drivers.devices import Device

_POOLED_FROM = 1 << 16  # bytes; above this, a pool lookup is cheaper than new pages


class FieldData(Strided):
    """The memory, dtype, shape, strides and offset (in elements) of a Field.

    Calls, copies and tiles use this class, because Field is in a higher layer. Methods return the class of `self`, so
    users get Fields back.
    """

    __slots__ = ("_array", "_storage", "_writable", "dtype", "offset", "shape", "strides")

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
        self.shape = shape
        self.strides = c_strides(shape) if strides is None else strides
        self.offset = offset

    @classmethod
    def fresh(cls, device: Device, shape: tuple[int, ...], dtype: Any) -> Self:
        """New uninitialized C-contiguous data. Larger memory returns to a pool after its last view is deleted."""
        kind = check_dtype(np.dtype(dtype), "a field")
        return cls.uninitialized(device, device.queue, shape, c_strides(shape), kind, prod(shape) * kind.itemsize)

    @classmethod
    def uninitialized(
        cls,
        device: Device,
        queue: cl.CommandQueue,
        shape: tuple[int, ...],
        strides: tuple[int, ...],
        dtype: np.dtype,
        nbytes: int,
    ) -> Self:
        """As `fresh`, for a first use on `queue`, with a checked dtype and known strides and size."""
        storage = Storage(None, device, queue)
        made = cls(storage, dtype, shape, strides)
        if _POOLED_FROM <= nbytes <= device.profile.max_allocation // 8 * 7:
            release_pending()
            storage.buffer = take(device, queue, nbytes)
            storage.pool_queue = queue
        else:
            storage.buffer = create(device.context, cl.mem_flags.READ_WRITE, nbytes)
        return made

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
        return self._storage.event

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
