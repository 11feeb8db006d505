"""Addresses of strips: where an array's elements lie, and how the lanes of a strip are spread over them.

Local and private arrays are the work-item's own memory, local ones in the order that strip_arrange picks. Lanes that
are switched off may carry any index: their addresses are clamped into the array for loads, and stores skip them.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from pydp import dtypes
from pydp.lang import ir
from pydp.lang.ir import member_dtype
from pydp.lang.opencl.c_text import identifier, private_type
from pydp.lang.opencl.scalar import member_text
from pydp.lang.opencl.vector.arrange import Arrangement
from pydp.lang.opencl.vector.expressions import Expressions, Path
from pydp.lang.opencl.vector.values import Text, Value

INT, LONG = np.dtype(np.int32), np.dtype(np.int64)


class Address(NamedTuple):
    """form: "same" (one element for all lanes), "unit" (neighbours), "strided" (`step` apart), "vector" (a number for
    each lane) or "dealt": neighbours along an axis that is stored in piles, from element `first` of it. number: the
    address is that of a family's first access, this one is so many elements further."""

    form: str
    place: Value
    step: str = "0"
    first: Value | None = None
    number: int | None = None


class Place(NamedTuple):
    """Where an array's elements (their members) lie: C pointers by row, address space and types."""

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


class Addresses(Expressions):
    """Writes addresses. `mask`: lanes that run, None for all."""

    mask: Value | None = None

    @property
    def quiet(self) -> bool:
        """Every lane's value is meant."""
        return self.mask is None and self.idle == 0

    def place(self, array: ir.Array, path: Path) -> Place:
        """Where the array's members at `path` lie."""
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

    def indices(self, array: ir.Array, exprs: Sequence[ir.Expr]) -> list[Value]:
        """The indexes' values, all of one type that holds each of them."""
        values = [self.expr(expr) for expr in exprs]
        wide = any(v.dtype.itemsize == 8 or v.dtype == np.uint32 for v in values)
        target = LONG if wide or self.kernel.function.index_dtype == LONG else INT
        return [self.temporary(self._convert(value, target)) for value in values]

    def _convert(self, value: Value, target: np.dtype[Any]) -> Value:
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

    def address(self, array: ir.Array, values: list[Value]) -> Address:
        """The element number of an access, relative to the array's first element."""
        strides = self._strides(array)
        if isinstance(array, ir.LocalArray):
            order = self.kernel.arrangements[array.name]
            if order.deal > 1:
                return self._dealt(values, strides, order)
        return self._linear(values, strides)

    def _linear(self, values: list[Value], strides: list[str]) -> Address:
        """The sum of indexes times strides."""
        dtype = values[0].dtype if values else INT
        scalars = [(v, s) for v, s in zip(values, strides, strict=True) if not v.vector]
        base = self._sum([(Value(v.texts, 0, dtype), s) for v, s in scalars], dtype)
        if len(scalars) < len(values):
            return Address("vector", self._scattered(values, strides, dtype))
        moving = [(stride, value.step) for value, stride in scalars if value.step]
        if all(stride.isdigit() for stride, _ in moving):
            step = sum(int(stride) * (each or 0) for stride, each in moving)
            return Address({0: "same", 1: "unit"}.get(step, "strided"), base, f"({step})")
        step_text = " + ".join(f"{stride} * ({each})" for stride, each in moving)
        return Address("strided", base, f"({step_text})")

    def _dealt(self, values: list[Value], strides: list[str], order: Arrangement) -> Address:
        """An address in an array whose fastest axis is stored in piles: an index becomes its place there."""
        along, rest = values[order.axis], [v for axis, v in enumerate(values) if axis != order.axis]
        if along.step is not None and along.step % order.deal == 0:
            inside = self.each([along], lambda t: self._pile_place(t, along.dtype, order), along.dtype, 0)
            found = Value(self.temporary(inside).texts, along.step // order.deal, along.dtype)
        elif along.step == 1 and self.layout.width % order.deal == 0 and self.uniform(rest):
            none = Value(("0",), 0, along.dtype)
            base = self._linear([none if axis == order.axis else v for axis, v in enumerate(values)], strides)
            return Address("dealt", base.place, first=self.temporary(Value(along.texts, 0, along.dtype)))
        else:
            found = self.temporary(self._pile_places(self.vector(along), order))
        return self._linear([found if axis == order.axis else v for axis, v in enumerate(values)], strides)

    def _pile_place(self, text: str, dtype: np.dtype[Any], order: Arrangement) -> str:
        """The place of one element along a dealt axis."""
        one, deal = Text(dtype, text), ir.Const(dtype, order.deal)
        pile, inside = (self.scalar.expr(ir.Binary(dtype, op, one, deal)) for op in ("mod", "floordiv"))
        return f"({pile} * {order.pile} + {inside})"

    def _pile_places(self, vector: Value, order: Arrangement) -> Value:
        """The places of each lane's element along a dealt axis."""
        dtype, deal = vector.dtype, self.text.splat(str(order.deal), vector.dtype)

        def write(text: str) -> str:
            pile, inside = (self.text.binary(op, text, deal, dtype, order.deal) for op in ("mod", "floordiv"))
            return f"({pile} * {self.text.splat(str(order.pile), dtype)} + {inside})"

        return self.each([self.temporary(vector)], write, dtype, None)

    def spread(self, address: Address, place: Place) -> Address:
        """A number for each lane, whatever the form was."""
        if address.place.vector:
            return address
        if address.first is None:
            step = {"same": "0", "unit": "1"}.get(address.form, address.step)
            return Address("vector", self._ramp(address.place, step))
        assert place.order is not None
        along, dtype = self._pile_places(self._ramp(address.first, "1"), place.order), address.place.dtype
        return Address(
            "vector", self.each([along, self.vector(address.place)], lambda a, b: f"({a} + {b})", dtype, None)
        )

    def _ramp(self, value: Value, step: str) -> Value:
        """A scalar at lane 0, and `step` more in each further lane."""
        kind, splat = value.dtype, self.text.splat
        iota = self.text.iota if kind == INT else f"convert_{self.text.type(kind)}({self.text.iota})"
        return self.each([value], lambda t: f"({splat(t, kind)} + {iota} * {splat(step, kind)})", kind, None)

    def _sum(self, terms: list[tuple[Value, str]], dtype: np.dtype[Any]) -> Value:
        """The sum of scalars times strides."""
        if not terms:
            return self.single("0", dtype)
        strides = [stride for _, stride in terms]

        def write(*texts: str) -> str:
            parts = [text if s == "1" else f"{text} * {s}" for text, s in zip(texts, strides, strict=True)]
            return f"({' + '.join(parts)})"

        return self.each([value for value, _ in terms], write, dtype, 0)

    def _scattered(self, values: list[Value], strides: list[str], dtype: np.dtype[Any]) -> Value:
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
        """The address kept inside the (padded) array, for lanes whose index means nothing."""
        assert place.total is not None
        if address.form == "unit":
            low, high = -self.layout.width, place.total
        else:
            low, high = 0, place.total - 1
            if address.form != "same":
                address = self.spread(address, place)
        dtype = address.place.dtype
        suffix = "L" if dtype == LONG else ""
        bounds = [f"{low}{suffix}", f"{high}{suffix}"]
        if address.form == "vector":  # the form with scalar bounds is wrong on one driver
            bounds = [self.text.splat(bound, dtype) for bound in bounds]
        step = None if address.form == "vector" else 0
        inside = self.each([address.place], lambda t: f"clamp({t}, {bounds[0]}, {bounds[1]})", dtype, step)
        return Address(address.form, inside, "1")

    def cells(self, address: Address, place: Place) -> Address:
        """The scalars' numbers in a private array of vectors, for indexes that differ from lane to lane."""
        vector = self.spread(address, place).place
        dtype, width = vector.dtype, str(self.layout.width)
        iota = self.text.iota if dtype == INT else f"convert_{self.text.type(dtype)}({self.text.iota})"
        splat = self.text.splat(width, dtype)
        return Address("vector", self.each([vector], lambda t: f"({t} * {splat} + {iota})", dtype, None))
