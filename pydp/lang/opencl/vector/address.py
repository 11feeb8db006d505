"""Addresses of strips: the location of an array's elements, and the element that each lane of a strip accesses.

Local and private arrays are private memory of the work-item; `arrange` chooses the order of local arrays. Masked lanes
may have any index: loads clamp their addresses into the array, and stores skip them.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from pydp import dtypes
from pydp.lang import ir
from pydp.lang.ir import member_dtype
from pydp.lang.opencl.c_text import constant, identifier, private_type
from pydp.lang.opencl.scalar import member_text
from pydp.lang.opencl.vector.arrange import Arrangement
from pydp.lang.opencl.vector.expressions import Path, StripExpressions
from pydp.lang.opencl.vector.values import StripValue

INT, LONG = np.dtype(np.int32), np.dtype(np.int64)


class Address(NamedTuple):
    """The elements that the lanes of a strip access.

    form: "same" (one element for all lanes), "unit" (adjacent elements), "strided" (`step` apart), "vector" (an element
    number for each lane), "planes" (adjacent elements, from index `first`, of an axis stored as planes), "deinterleave"
    and "interleave" (whole vectors, see strip_functions.mako).
    number: the address is that of the first access of a family; this access is so many elements further.
    """

    form: str
    place: StripValue
    step: str = "0"
    first: StripValue | None = None
    number: int | None = None


class Place(NamedTuple):
    """The memory of an array (or of one member of its elements): C pointers by row, address space and types."""

    pointers: tuple[str, ...]
    space: str
    element: str
    member: str
    dtype: np.dtype[Any]
    total: int | None
    order: Arrangement | None = None

    def pointer(self, row: int) -> str:
        """The C pointer to the elements of a row of the block."""
        return self.pointers[row if len(self.pointers) > 1 else 0]


class Addresses(StripExpressions):
    """Writes addresses. `mask`: the active lanes; None if all are active."""

    mask: StripValue | None = None

    @property
    def all_lanes_active(self) -> bool:
        """Whether the values of all lanes are meaningful."""
        return self.mask is None and self.inactive_depth == 0

    def place(self, array: ir.Array, path: Path) -> Place:
        """The memory of the array's members at `path`."""
        dtype = member_dtype(array.dtype, path)
        if isinstance(array, ir.GlobalArray):
            name = self.kernel.names[array.name, -1]
            return Place((name,), "__global", dtypes.c_name(array.dtype), member_text(path), dtype, None)
        suffix = "_m_".join((array.name, *path))
        if isinstance(array, ir.LocalArray):
            order = self.kernel.arrangements[array.name]
            name = identifier("s_", suffix)
            return Place((name,), "__private", dtypes.c_name(dtype), "", dtype, order.total, order)
        rows, total = self.layout.rows, math.prod(array.shape)
        names = [identifier("p_", suffix) + (f"_r{row}" if rows > 1 else "") for row in range(rows)]
        return Place(tuple(names), "__private", private_type(dtype), "", dtype, total)

    def indices(self, array: ir.Array, exprs: Sequence[ir.Expr]) -> list[StripValue]:
        """The values of the indexes, converted to one type that can hold all of them."""
        values = [self.expr(expr) for expr in exprs]
        wide = any(v.dtype.itemsize == 8 or v.dtype == np.uint32 for v in values)
        target = LONG if wide or self.kernel.function.index_dtype == LONG else INT
        return [self.temporary(self._convert(value, target)) for value in values]

    def _convert(self, value: StripValue, target: np.dtype[Any]) -> StripValue:
        if value.dtype == target:
            return value
        if value.step == 0:
            return self.each([value], lambda text: f"(({dtypes.c_name(target)}){text})", target, 0)
        source = value.dtype
        return self.each([self.vector(value)], lambda text: self.text.cast(text, source, target), target, None)

    def _strides(self, array: ir.Array) -> list[str]:
        if isinstance(array, ir.GlobalArray):
            name, units = self.kernel.names[array.name, -1], self.kernel.unit_strides
            return ["1" if (array.name, axis) in units else f"{name}_s{axis}" for axis in range(array.rank)]
        if isinstance(array, ir.LocalArray):
            return [str(stride) for stride in self.kernel.arrangements[array.name].strides]
        return [str(math.prod(array.shape[axis + 1 :])) for axis in range(len(array.shape))]

    def address(self, array: ir.Array, values: list[StripValue]) -> Address:
        """The element number of an access, relative to the array's first element."""
        strides = self._strides(array)
        if isinstance(array, ir.LocalArray):
            order = self.kernel.arrangements[array.name]
            if order.interleave_factor > 1:
                return self._in_planes(values, strides, order)
        return self._linear(values, strides)

    def _linear(self, values: list[StripValue], strides: list[str]) -> Address:
        """The sum of indexes times strides."""
        dtype = values[0].dtype if values else INT
        scalars = [(v, s) for v, s in zip(values, strides, strict=True) if not v.vector]
        base = self._sum([(StripValue(v.texts, 0, dtype), s) for v, s in scalars], dtype)
        if len(scalars) < len(values):
            return Address("vector", self._scattered(values, strides, dtype))
        moving = [(stride, value.step) for value, stride in scalars if value.step]
        if all(stride.isdigit() for stride, _ in moving):
            step = sum(int(stride) * (each or 0) for stride, each in moving)
            return Address({0: "same", 1: "unit"}.get(step, "strided"), base, f"({step})")
        step_text = " + ".join(f"{stride} * ({each})" for stride, each in moving)
        return Address("strided", base, f"({step_text})")

    def _in_planes(self, values: list[StripValue], strides: list[str], order: Arrangement) -> Address:
        """An address in an array whose fastest axis is stored as planes: converts the index along that axis."""
        along, rest = values[order.axis], [v for axis, v in enumerate(values) if axis != order.axis]
        if along.step is not None and along.step % order.interleave_factor == 0:
            inside = self.each([along], lambda t: self._plane_place(t, along.dtype, order), along.dtype, 0)
            found = StripValue(self.temporary(inside).texts, along.step // order.interleave_factor, along.dtype)
        elif along.step == 1 and self.layout.width % order.interleave_factor == 0 and self.uniform(rest):
            none = StripValue(("0",), 0, along.dtype)
            base = self._linear([none if axis == order.axis else v for axis, v in enumerate(values)], strides)
            return Address("planes", base.place, first=self.temporary(StripValue(along.texts, 0, along.dtype)))
        else:
            found = self.temporary(self._plane_places(self.vector(along), order))
        return self._linear([found if axis == order.axis else v for axis, v in enumerate(values)], strides)

    def _plane_place(self, text: str, dtype: np.dtype[Any], order: Arrangement) -> str:
        """The position of one element along an axis stored as planes."""
        by = order.interleave_factor
        plane, inside = (self.scalar.binary(op, text, constant(by, dtype), dtype, by) for op in ("mod", "floordiv"))
        return f"({plane} * {order.plane_size} + {inside})"

    def _plane_places(self, vector: StripValue, order: Arrangement) -> StripValue:
        """The position of each lane's element along an axis stored as planes."""
        dtype, factor = vector.dtype, self.text.splat(str(order.interleave_factor), vector.dtype)

        def write(text: str) -> str:
            plane, inside = (
                self.text.binary(op, text, factor, dtype, order.interleave_factor) for op in ("mod", "floordiv")
            )
            return f"({plane} * {self.text.splat(str(order.plane_size), dtype)} + {inside})"

        return self.each([self.temporary(vector)], write, dtype, None)

    def element_of_each_lane(self, address: Address, place: Place) -> Address:
        """The address in the form "vector"."""
        if address.place.vector:
            return address
        if address.first is None:
            step = {"same": "0", "unit": "1"}.get(address.form, address.step)
            return Address("vector", self._ramp(address.place, step))
        assert place.order is not None
        along, dtype = self._plane_places(self._ramp(address.first, "1"), place.order), address.place.dtype
        return Address(
            "vector", self.each([along, self.vector(address.place)], lambda a, b: f"({a} + {b})", dtype, None)
        )

    def _ramp(self, value: StripValue, step: str) -> StripValue:
        """A vector of value + lane * step."""
        kind, splat = value.dtype, self.text.splat
        iota = self.text.iota if kind == INT else f"convert_{self.text.type(kind)}({self.text.iota})"
        return self.each([value], lambda t: f"({splat(t, kind)} + {iota} * {splat(step, kind)})", kind, None)

    def _sum(self, terms: list[tuple[StripValue, str]], dtype: np.dtype[Any]) -> StripValue:
        """The sum of scalars times strides."""
        if not terms:
            return self.single("0", dtype)
        strides = [stride for _, stride in terms]

        def write(*texts: str) -> str:
            parts = [text if s == "1" else f"{text} * {s}" for text, s in zip(texts, strides, strict=True)]
            return f"({' + '.join(parts)})"

        return self.each([value for value, _ in terms], write, dtype, 0)

    def _scattered(self, values: list[StripValue], strides: list[str], dtype: np.dtype[Any]) -> StripValue:
        """An address for each lane."""
        fixed = self._sum([(v, s) for v, s in zip(values, strides, strict=True) if v.step == 0], dtype)
        moving = [(self.vector(v), s) for v, s in zip(values, strides, strict=True) if v.step != 0]

        def write(first: str, *texts: str) -> str:
            parts = [] if first == "0" else [self.text.splat(first, dtype)]
            for text, (_, stride) in zip(texts, moving, strict=True):
                parts.append(text if stride == "1" else f"{text} * {self.text.splat(stride, dtype)}")
            return f"({' + '.join(parts)})"

        return self.temporary(self.each([fixed, *(value for value, _ in moving)], write, dtype, None))

    def clamped(self, address: Address, place: Place) -> Address:
        """The address clamped into the (padded) array, for lanes whose index is meaningless."""
        assert place.total is not None
        if address.form == "unit":
            low, high = -self.layout.width, place.total
        else:
            low, high = 0, place.total - 1
            if address.form != "same":
                address = self.element_of_each_lane(address, place)
        dtype = address.place.dtype
        suffix = "L" if dtype == LONG else ""
        bounds = [f"{low}{suffix}", f"{high}{suffix}"]
        if address.form == "vector":  # clamp with scalar bounds is wrong on one driver
            bounds = [self.text.splat(bound, dtype) for bound in bounds]
        step = None if address.form == "vector" else 0
        inside = self.each([address.place], lambda t: f"clamp({t}, {bounds[0]}, {bounds[1]})", dtype, step)
        return Address(address.form, inside, "1")

    def cells(self, address: Address, place: Place) -> Address:
        """The numbers of the scalars in a private array of vectors, for indexes that vary by lane."""
        vector = self.element_of_each_lane(address, place).place
        dtype, width = vector.dtype, str(self.layout.width)
        iota = self.text.iota if dtype == INT else f"convert_{self.text.type(dtype)}({self.text.iota})"
        splat = self.text.splat(width, dtype)
        return Address("vector", self.each([vector], lambda t: f"({t} * {splat} + {iota})", dtype, None))
