"""What a Field is to the layers between it and the driver: memory on a device, seen with a shape and strides."""

from __future__ import annotations

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

_POOLED_FROM = 1 << 16  # bytes from which fresh pages cost more than a look into the pool


class FieldData(Strided):
    """The memory, dtype, shape, strides and offset (in elements) of a Field, and the making of others like it.

    Calls, copies and tiles are written in these terms: Field, which users see, is built from them, lies above
    them, and comes back out of them because whatever is made here is of the class that it was made from.
    """

    __slots__ = ("_array", "_storage", "_writable", "dtype", "offset", "shape", "strides")

    __array_ufunc__ = None  # NumPy's arrays leave mixed arithmetic and comparisons to us

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
        self._array: Any = None  # the same memory as a pyopencl Array, once there is one
        self._writable = writable
        self.dtype = dtype
        self.shape = shape
        self.strides = c_strides(shape) if strides is None else strides
        self.offset = offset

    @classmethod
    def fresh(cls, device: Device, shape: tuple[int, ...], dtype: Any) -> Self:
        """Uninitialised C-contiguous data; memory of larger ones is used again when its last view is gone."""
        kind = check_dtype(np.dtype(dtype), "a field")
        storage = Storage(None, device)
        made = cls(storage, kind, shape)
        nbytes = made.nbytes
        if _POOLED_FROM <= nbytes <= device.profile.max_allocation // 8 * 7:
            release_pending()
            storage.buffer = take(device, device.queue, nbytes)
            storage.pooled = True
        else:
            storage.buffer = create(device.context, cl.mem_flags.READ_WRITE, nbytes)
        return made

    @property
    def device(self) -> Device:
        """The device that holds the data."""
        return self._storage.device

    @property
    def writable(self) -> bool:
        """Whether kernels and assignments may write through this view."""
        return self._writable

    @property
    def event(self) -> cl.Event | None:
        """The event of the last command that used the memory, None before the first."""
        raise_if_lost()
        return self._storage.event

    def _view(self, layout: Layout, writable: bool | None = None) -> Self:
        shape, strides, offset = layout
        return type(self)(
            self._storage, self.dtype, shape, strides, offset, self._writable if writable is None else writable
        )

    @property
    def T(self) -> Self:
        """The transposed view: the axes in reversed order."""
        return self._view((self.shape[::-1], self.strides[::-1], self.offset))

    @property
    def read_only(self) -> Self:
        """The same data as a view that refuses to be written."""
        return self._view((self.shape, self.strides, self.offset), writable=False)

    def __getitem__(self, key: Any) -> Self:
        return self._view(index_layout((self.shape, self.strides, self.offset), key))

    def _operand(self, name: str) -> Operand:
        storage = self._storage
        storage.check_alive()
        return Operand(name, storage.buffer, self.offset, self.shape, self.strides, self.dtype, storage)
