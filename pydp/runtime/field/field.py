"""Field: N-dimensional data on a device, and strided views of it (SPEC S1)."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any, NoReturn

import numpy as np
import pyopencl as cl
import pyopencl.array

from pydp.errors import InvalidArgument
from pydp.runtime.arrays.operand import Strided
from pydp.runtime.field import transfer
from pydp.runtime.field.operators import FieldOperators
from pydp.runtime.field.tile_range import tiled
from pydp.runtime.memory.host_memory import host_allocation
from pydp.runtime.placement import storage_of_array
from pydp.space import Extent, Grid, integers

if TYPE_CHECKING:
    from pydp.runtime.drivers.devices import Device


class Field(FieldOperators):
    """N-dimensional data in a device's memory, or a strided view of such data.

    Made by `pydp.field`, `pydp.empty`, `zeros`, `full` and by pydp's algorithms. Indexing with integers,
    slices, ``...`` and None gives views that share the memory; assignment to an index writes through.
    Operations are asynchronous and ordered by the device's queue; `get`, `copy_out` and ``np.asarray``
    wait for what they read.

    ``+ - * /`` and the comparisons ``== != < <= > >=`` work element by element, broadcast and typed as NumPy's; a
    comparison gives a field of booleans, which has a truth value where it has one element. So fields have no hash:
    ``f is g`` asks whether two names stand for one field, ``(f == g).get().all()`` whether all elements are equal.

    `strides` and `offset` count elements. Ranks 0 to 6 take part in everything; dtypes are booleans,
    integers, floats, complex numbers, OpenCL vectors and records.

    >>> import numpy as np, pydp
    >>> f = pydp.field(np.arange(6, dtype=np.float32).reshape(2, 3))
    >>> f.T[1].get()
    array([1., 4.], dtype=float32)
    >>> np.where(f == 4, 1, 0)
    array([[0, 0, 0],
           [0, 1, 0]])
    """

    __slots__ = ()

    @classmethod
    def wrap(cls, array: Any, device: Device | None = None) -> Field:
        """A Field on the memory of a pyopencl Array (no copy; its events are kept up to date)."""
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
    def array(self) -> Any:
        """The same memory as a pyopencl Array on the device's queue (a read-only view's is not protected)."""
        storage, itemsize = self._storage, self.dtype.itemsize
        queue = storage.device.queue
        if self._array is None:
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

    def transpose(self, *axes: int) -> Field:
        """The view with its axes in the given order (reversed order when none is given)."""
        order = integers(axes[0] if len(axes) == 1 else axes, "transpose")
        if not order:
            return self.T
        places = [axis + self.rank if axis < 0 else axis for axis in order]
        if sorted(places) != list(range(self.rank)):
            raise InvalidArgument(f"axes {order} are not an order of the {self.rank} axes")
        shape = tuple(self.shape[axis] for axis in places)
        return self._view((shape, tuple(self.strides[axis] for axis in places), self.offset))

    def reshape(self, *shape: Any) -> Field:
        """A view of another shape with as many elements; a copy where strides do not allow a view."""
        sizes = tuple(shape[0]) if len(shape) == 1 and isinstance(shape[0], (tuple, list)) else shape
        return transfer.reshaped(self, sizes)

    def tile(self, *extent: Any, **options: Any) -> Any:
        """`pydp.tile` of this field: ``f.tile(16, 16)`` is ``pydp.tile(f, (16, 16))``."""
        return tiled(self, extent[0] if len(extent) == 1 else extent, **options)

    def __call__(self, *place: Any) -> Field:
        """``f(i, k)`` is ``f[i, k]``, as in vector functions."""
        return self[place[0] if len(place) == 1 else place]

    def __setitem__(self, key: Any, value: Any) -> None:
        transfer.assign(self[key], value)

    # --- data --------------------------------------------------------------------------------------------

    def get(self) -> np.ndarray:
        """The data as a new C-contiguous NumPy array; waits for what is still being computed."""
        return transfer.fetch(self)

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
        return transfer.copy_in(self, values, blocking)

    def copy_out(self, target: Any, blocking: bool = True) -> cl.Event | None:
        """Copy this field into `target`, a writable NumPy array, Field or pyopencl Array of the same shape.

        A synchronisation point (SPEC S1) unless ``blocking=False``: then it returns the event of the copy,
        `target` is complete when that is, and a NumPy target must be C-contiguous. Raises InvalidArgument
        for another shape, another dtype of a NumPy target, or a read-only target.
        """
        return transfer.copy_out(self, target, blocking)

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> np.ndarray:
        if copy is False:
            raise InvalidArgument("a Field's data is on a device: it cannot become a NumPy array without a copy")
        values = self.get()
        with host_allocation():
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

    def __reduce__(self) -> NoReturn:
        raise TypeError("a Field's memory belongs to this process's device and cannot be pickled; use .get() first")

    def __copy__(self) -> Field:
        return self.copy()

    def __deepcopy__(self, memo: object) -> Field:
        return self.copy()

    def __repr__(self) -> str:
        view = "" if self.is_contiguous else f", strides={self.strides}"
        mark = "" if self._writable else ", read-only"
        return f"<Field {self.shape} {self.dtype}{view}{mark} on {self._storage.device.name}>"
