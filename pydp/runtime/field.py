"""Field: N-dimensional data on a device, and strided views of it (SPEC S1)."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import numpy as np
import pyopencl as cl
import pyopencl.array

from ..errors import InvalidArgument
from ..space import Extent, Grid
from .field_operators import FieldOperators
from .host_memory import check_dtype, create
from .indexing import Layout, index_layout
from .operand import Operand, Strided, c_strides
from .returns import bring_back
from .scratch import take
from .storage import Storage

if TYPE_CHECKING:
    from .device import Device

_POOLED_FROM = 1 << 16  # bytes from which fresh pages cost more than a look into the pool


class Field(FieldOperators, Strided):
    """N-dimensional data in a device's memory, or a strided view of such data.

    Made by `pydp.field`, `pydp.empty`, `zeros`, `full` and by pydp's algorithms. Indexing with integers,
    slices, ``...`` and None gives views that share the memory; assignment to an index writes through.
    Operations are asynchronous and ordered by the device's queue; `get`, `copy_out` and ``np.asarray``
    wait for what they read.

    `strides` and `offset` count elements. Ranks 0 to 6 take part in everything; dtypes are booleans,
    integers, floats, complex numbers, OpenCL vectors and records.

    >>> import numpy as np, pydp
    >>> f = pydp.field(np.arange(6, dtype=np.float32).reshape(2, 3))
    >>> f.T[1].get()
    array([1., 4.], dtype=float32)
    """

    __slots__ = ("_array", "_storage", "_writable", "dtype", "offset", "shape", "strides")

    __array_ufunc__ = None  # NumPy's arrays leave mixed arithmetic to us
    __hash__ = object.__hash__

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
        self._array: Any = None
        self._writable = writable
        self.dtype = dtype
        self.shape = shape
        self.strides = c_strides(shape) if strides is None else strides
        self.offset = offset

    @classmethod
    def wrap(cls, array: Any, device: Device | None = None) -> Field:
        """A Field on the memory of a pyopencl Array (no copy; its events are kept up to date)."""
        from .placement import storage_of_array

        storage, dtype, shape, strides, offset = storage_of_array(array, device)
        wrapped = cls(storage, dtype, shape, strides, offset)
        wrapped._array = array
        return wrapped

    # --- what it is --------------------------------------------------------------------------------------

    ndim = Strided.rank

    @property
    def extent(self) -> Extent:
        """The sizes along the axes."""
        return Extent(self.shape)

    @property
    def grid(self) -> Grid:
        """The shape as a grid that starts at 0."""
        return Grid(self.extent)

    @property
    def element_type(self) -> np.dtype:
        """The type of an element: the dtype."""
        return self.dtype

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
        return self._storage.event

    @property
    def array(self) -> Any:
        """The same memory as a pyopencl Array on the device's queue (a read-only view's is not protected)."""
        if self._array is None:
            storage, itemsize = self._storage, self.dtype.itemsize
            queue = storage.device.queue
            self._array = cl.array.Array(
                queue,
                self.shape,
                self.dtype,
                data=storage.buffer,
                offset=self.offset * itemsize,
                strides=tuple(stride * itemsize for stride in self.strides),
                events=storage.waits(queue) if storage.array is None else storage.array.events,
            )
            if storage.array is None:
                storage.array = self._array
        return self._array

    # --- views -------------------------------------------------------------------------------------------

    def _view(self, layout: Layout, writable: bool | None = None) -> Field:
        shape, strides, offset = layout
        return Field(
            self._storage, self.dtype, shape, strides, offset, self._writable if writable is None else writable
        )

    @property
    def T(self) -> Field:
        """The transposed view: the axes in reversed order."""
        return self._view((self.shape[::-1], self.strides[::-1], self.offset))

    @property
    def read_only(self) -> Field:
        """The same data as a view that refuses to be written."""
        return self._view((self.shape, self.strides, self.offset), writable=False)

    def transpose(self, *axes: int) -> Field:
        """The view with its axes in the given order (reversed order when none is given)."""
        order = tuple(axes[0]) if len(axes) == 1 and isinstance(axes[0], (tuple, list)) else axes
        if not order:
            return self.T
        places = [axis + self.rank if axis < 0 else axis for axis in order]
        if sorted(places) != list(range(self.rank)):
            raise InvalidArgument(f"axes {order} are not an order of the {self.rank} axes")
        shape = tuple(self.shape[axis] for axis in places)
        return self._view((shape, tuple(self.strides[axis] for axis in places), self.offset))

    def reshape(self, *shape: Any) -> Field:
        """A view of another shape with as many elements; a copy where strides do not allow a view."""
        from .transfer import reshaped

        return reshaped(self, tuple(shape[0]) if len(shape) == 1 and isinstance(shape[0], (tuple, list)) else shape)

    def tile(self, *extent: Any, **options: Any) -> Any:
        """`pydp.tile` of this field: ``f.tile(16, 16)`` is ``pydp.tile(f, (16, 16))``."""
        from .views import tile

        return tile(self, extent[0] if len(extent) == 1 else extent, **options)

    def __getitem__(self, key: Any) -> Field:
        return self._view(index_layout((self.shape, self.strides, self.offset), key))

    def __call__(self, *place: Any) -> Field:
        """``f(i, k)`` is ``f[i, k]``, as in vector functions."""
        return self[place[0] if len(place) == 1 else place]

    def __setitem__(self, key: Any, value: Any) -> None:
        from .transfer import assign

        assign(self[key], value)

    # --- data --------------------------------------------------------------------------------------------

    def get(self) -> np.ndarray:
        """The data as a new C-contiguous NumPy array; waits for what is still being computed."""
        from .transfer import fetch

        return fetch(self)

    def set(self, values: Any) -> None:
        """Replace all elements: `values` is array-like of the same shape and is converted to the dtype."""
        self.copy_in(values)

    def copy_in(self, values: Any, blocking: bool = True) -> cl.Event | None:
        """Copy `values` (NumPy array, Field or pyopencl Array of the same shape) into this field.

        A synchronisation point (SPEC S1): when it returns, the data is there and `values` may change. With
        ``blocking=False`` it returns at once, with the event of the copy (None where there was nothing to
        copy), and `values` must stay unchanged until then. Raises InvalidArgument for another shape or a
        read-only field.
        """
        from .transfer import copy_in

        return copy_in(self, values, blocking)

    def copy_out(self, target: Any, blocking: bool = True) -> cl.Event | None:
        """Copy this field into `target`, a writable NumPy array, Field or pyopencl Array of the same shape.

        A synchronisation point (SPEC S1) unless ``blocking=False``: then it returns the event of the copy,
        `target` is complete when that is, and a NumPy target must be C-contiguous. Raises InvalidArgument
        for another shape, another dtype of a NumPy target, or a read-only target.
        """
        from .transfer import copy_out

        return copy_out(self, target, blocking)

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> np.ndarray:
        if copy is False:
            raise InvalidArgument("a Field's data is on a device: it cannot become a NumPy array without a copy")
        values = self.get()
        return values if dtype is None else values.astype(dtype, copy=False)

    def item(self) -> Any:
        """The only element, as a Python value; waits for it."""
        if self.size != 1:
            raise InvalidArgument(f"a field of shape {self.shape} has {self.size} elements; item() takes one")
        return self.get().item()

    def __float__(self) -> float:
        return float(self.item())

    def __int__(self) -> int:
        return int(self.item())

    def __index__(self) -> int:
        if self.rank or self.dtype.kind not in "iu":
            raise TypeError("only a field of rank 0 and an integer dtype is an index")
        return int(self.item())

    def __complex__(self) -> complex:
        return complex(self.item())

    def __bool__(self) -> bool:
        if self.size != 1:
            raise InvalidArgument(f"the truth of a field of shape {self.shape} is ambiguous; it needs one element")
        return bool(self.item())

    def __len__(self) -> int:
        if not self.shape:
            raise TypeError("a field of rank 0 has no length")
        return self.shape[0]

    def __iter__(self) -> Iterator[Any]:
        raise TypeError("a Field is not iterated over, every step would wait for the device; use .get() first")

    def __contains__(self, value: object) -> bool:
        raise TypeError("a Field is not searched from the host; use .get() first")

    def __repr__(self) -> str:
        view = "" if self.is_contiguous else f", strides={self.strides}"
        mark = "" if self._writable else ", read-only"
        return f"<Field {self.shape} {self.dtype}{view}{mark} on {self._storage.device.name}>"

    # --- for the layers above -----------------------------------------------------------------------------

    def _operand(self, name: str) -> Operand:
        storage = self._storage
        return Operand(name, storage.buffer, self.offset, self.shape, self.strides, self.dtype, storage)


def new_field(device: Device, shape: tuple[int, ...], dtype: Any) -> Field:
    """An uninitialised C-contiguous field; memory of larger ones is used again when a field is gone."""
    kind = check_dtype(np.dtype(dtype), "a field")
    storage = Storage(None, device)
    made = Field(storage, kind, shape)
    nbytes = made.nbytes
    if _POOLED_FROM <= nbytes <= device.profile.max_allocation // 8 * 7:
        bring_back()
        storage.buffer = take(device, device.queue, nbytes)
        storage.pooled = True
    else:
        storage.buffer = create(device.context, cl.mem_flags.READ_WRITE, nbytes)
    return made
