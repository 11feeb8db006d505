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
from pydp.lang.opencl.scalar import ScalarC, member_text
from pydp.lang.opencl.vector.arrange import Arrangement
from pydp.lang.opencl.vector.expressions import StripExpressions
from pydp.lang.opencl.vector.values import Path, StripValue
from pydp.lang.opencl.vector_text import StripText

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

    def arguments(self, row: int) -> str:
        """The arguments of an access function for a row."""
        at = self.place.row(row)
        if self.form in ("vector", "deinterleave", "interleave"):
            return at
        return f"{at}, {self.step if self.first is None else self.first.row(row)}"


class Place(NamedTuple):
    """The memory of an array (or of one member of its elements): C pointers by row, address space and types. value: the
    C type of an element's scalars. total: the number of elements that exist, if it is known."""

    pointers: tuple[str, ...]
    space: str
    element: str
    value: str
    member: str
    dtype: np.dtype[Any]
    total: int | None = None
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
        value = dtypes.c_name(dtype)
        if isinstance(array, ir.GlobalArray):
            name = self.kernel.names[array.name, None]
            return Place((name,), "__global", dtypes.c_name(array.dtype), value, member_text(path), dtype)
        suffix = "_m_".join((array.name, *path))
        if isinstance(array, ir.LocalArray):
            order = self.kernel.arrangements[array.name]
            return Place((identifier("s_", suffix),), "__private", value, value, "", dtype, order.total, order)
        value, rows = private_type(dtype), self.layout.rows
        names = [identifier("p_", suffix) + (f"_r{row}" if rows > 1 else "") for row in range(rows)]
        return Place(tuple(names), "__private", value, value, "", dtype, math.prod(array.shape))

    def indices(self, array: ir.Array, exprs: Sequence[ir.Expr]) -> list[StripValue]:
        """The values of the indexes, converted to one type that can hold all of them."""
        values = [self.expr(expr) for expr in exprs]
        wide = any(v.dtype.itemsize == 8 or v.dtype == np.uint32 for v in values)
        target = LONG if wide or self.kernel.function.index_dtype == LONG else INT
        return [self.temporary(self._convert(value, target)) for value in values]

    def _convert(self, value: StripValue, target: np.dtype[Any]) -> StripValue:
        source = value.dtype
        if source == target:
            return value
        if value.step == 0:
            return self.each([value], lambda text: f"(({dtypes.c_name(target)}){text})", target, 0)
        return self.operation([value], lambda writer, text: writer.cast(text, source, target), target, None)

    def _strides(self, array: ir.Array) -> list[str]:
        if isinstance(array, ir.GlobalArray):
            name, units = self.kernel.names[array.name, None], self.kernel.unit_strides
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
        terms = list(zip(values, strides, strict=True))
        base = self._sum([term for term in terms if not term[0].vector], dtype)
        if any(value.vector for value in values):
            return Address("vector", self._scattered(terms, dtype))
        moving = [(stride, value.step) for value, stride in terms if value.step]
        if all(stride.isdigit() for stride, _ in moving):
            step = sum(int(stride) * (each or 0) for stride, each in moving)
            return Address({0: "same", 1: "unit"}.get(step, "strided"), base, f"({step})")
        step_text = " + ".join(f"{stride} * ({each})" for stride, each in moving)
        return Address("strided", base, f"({step_text})")

    def _in_planes(self, values: list[StripValue], strides: list[str], order: Arrangement) -> Address:
        """An address in an array whose fastest axis is stored as planes: converts the index along that axis."""
        along, factor = values[order.axis], order.interleave_factor
        rest = [value for axis, value in enumerate(values) if axis != order.axis]
        first = None
        if along.step is not None and along.step % factor == 0:
            found = self.temporary(self._plane_place(along, order))._replace(step=along.step // factor)
        elif along.step == 1 and self.layout.width % factor == 0 and self.uniform(rest):
            found, first = self.single("0", along.dtype), self.temporary(along._replace(step=0))
        else:
            found = self.temporary(self._plane_place(self.vector(along), order))
        address = self._linear([found if axis == order.axis else v for axis, v in enumerate(values)], strides)
        return address if first is None else Address("planes", address.place, first=first)

    def _plane_place(self, value: StripValue, order: Arrangement) -> StripValue:
        """The position of elements along an axis stored as planes, as scalars (of lane 0) or vectors like `value`."""
        dtype, by = value.dtype, order.interleave_factor
        factor, size = constant(by, dtype), str(order.plane_size)
        writer: ScalarC | StripText = self.scalar
        if value.vector:
            factor, size = self.text.splat(str(by), dtype), self.text.splat(size, dtype)
            writer, value = self.text, self.temporary(value)

        def write(text: str) -> str:
            plane, inside = (writer.binary(op, text, factor, dtype, by) for op in ("mod", "floordiv"))
            return f"({plane} * {size} + {inside})"

        return self.each([value], write, dtype, None if value.vector else 0)

    def element_of_each_lane(self, address: Address, place: Place) -> Address:
        """The address in the form "vector"."""
        if address.place.vector:
            return address
        if address.first is None:
            step = {"same": "0", "unit": "1"}.get(address.form, address.step)
            return Address("vector", self._ramp(address.place, step))
        assert place.order is not None
        along, dtype = self._plane_place(self._ramp(address.first, "1"), place.order), address.place.dtype
        return Address(
            "vector", self.each([along, self.vector(address.place)], lambda a, b: f"({a} + {b})", dtype, None)
        )

    def _ramp(self, value: StripValue, step: str) -> StripValue:
        """A vector of value + lane * step."""
        kind, splat = value.dtype, self.text.splat
        iota = self.text.iota_of(kind)
        return self.each([value], lambda t: f"({splat(t, kind)} + {iota} * {splat(step, kind)})", kind, None)

    def _sum(self, terms: Sequence[tuple[StripValue, str]], dtype: np.dtype[Any]) -> StripValue:
        """The sum of scalars times strides."""
        if not terms:
            return self.single("0", dtype)

        def write(*texts: str) -> str:
            parts = [text if s == "1" else f"{text} * {s}" for text, (_, s) in zip(texts, terms, strict=True)]
            return f"({' + '.join(parts)})"

        return self.each([value for value, _ in terms], write, dtype, 0)

    def _scattered(self, terms: Sequence[tuple[StripValue, str]], dtype: np.dtype[Any]) -> StripValue:
        """An address for each lane."""
        fixed = self._sum([term for term in terms if term[0].step == 0], dtype)
        moving = [(self.vector(value), stride) for value, stride in terms if value.step != 0]

        def write(first: str, *texts: str) -> str:
            parts = [] if first == "0" else [self.text.splat(first, dtype)]
            for text, (_, stride) in zip(texts, moving, strict=True):
                parts.append(text if stride == "1" else f"{text} * {self.text.splat(stride, dtype)}")
            return f"({' + '.join(parts)})"

        return self.temporary(self.each([fixed, *(value for value, _ in moving)], write, dtype, None))

    def clamped(self, address: Address, place: Place) -> Address:
        """The address clamped into the (padded) array, for lanes whose index is meaningless."""
        assert place.total is not None
        low, high = 0, place.total - 1
        if address.form == "unit":
            low, high = -self.layout.width, place.total
        elif address.form != "same":
            address = self.element_of_each_lane(address, place)
        dtype, vector = address.place.dtype, address.form == "vector"
        bounds = [f"{bound}{'L' if dtype == LONG else ''}" for bound in (low, high)]
        if vector:  # clamp with scalar bounds is wrong on one driver
            bounds = [self.text.splat(bound, dtype) for bound in bounds]
        step = None if vector else 0
        inside = self.each([address.place], lambda t: f"clamp({t}, {bounds[0]}, {bounds[1]})", dtype, step)
        return Address(address.form, inside, "1")

    def cells(self, address: Address, place: Place) -> Address:
        """The numbers of the scalars in a private array of vectors, for indexes that vary by lane."""
        vector = self.element_of_each_lane(address, place).place
        dtype = vector.dtype
        splat, iota = self.text.splat(str(self.layout.width), dtype), self.text.iota_of(dtype)
        return Address("vector", self.each([vector], lambda t: f"({t} * {splat} + {iota})", dtype, None))
