"""Loads, stores and atomic updates of strips: whole vectors where lanes are neighbours in memory, else lane by lane.

Local and private arrays are the work-item's own memory. Lanes that are switched off may carry any index: their
addresses are clamped into the array for loads, and stores skip them.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from pydp import dtypes
from pydp.errors import UnsupportedOnDevice
from pydp.lang import ir
from pydp.lang.c_body import fill_text
from pydp.lang.c_scalar import member_dtype, member_text
from pydp.lang.c_text import from_memory, identifier, private_type, to_memory
from pydp.lang.strip_expr import Expressions, Path
from pydp.lang.strip_text import BOOL
from pydp.lang.strip_values import Text, Value

INT, LONG = np.dtype(np.int32), np.dtype(np.int64)
_WORDS = {"float": "uint", "double": "ulong"}


class Address(NamedTuple):
    """form: "same" (one element for all lanes), "unit" (neighbours), "strided" (`step` apart) or "vector"."""

    form: str
    place: Value
    step: str = "0"


class Place(NamedTuple):
    """Where an array's elements (their members) lie: C pointers by row, address space and types."""

    pointers: tuple[str, ...]
    space: str
    element: str
    member: str
    dtype: np.dtype
    total: int | None

    def pointer(self, row: int) -> str:
        return self.pointers[row if len(self.pointers) > 1 else 0]


class Memory(Expressions):
    """Writes accesses to arrays. `mask`: lanes that run, None for all; `inside_grid`: lanes whose stores count."""

    mask: Value | None = None
    inside_grid: Value | None = None

    def proven(self, array: ir.GlobalArray, axis: int, index: ir.Expr) -> bool:
        """The index is known to be inside of the array's extent."""
        return False

    @property
    def quiet(self) -> bool:
        """Every lane's value is meant."""
        return self.mask is None and self.idle == 0

    # -- places and addresses -------------------------------------------------------------------------------

    def place(self, array: ir.Array, path: Path) -> Place:
        dtype = member_dtype(array.dtype, path)
        if isinstance(array, ir.GlobalArray):
            name = self.kernel.names[array.name, -1]
            return Place((name,), "__global", dtypes.c_name(array.dtype), member_text(path), dtype, None)
        total = math.prod(array.shape)
        suffix = "_m_".join((array.name, *path))
        if isinstance(array, ir.LocalArray):
            return Place((identifier("s_", suffix),), "__private", dtypes.c_name(dtype), "", dtype, total)
        rows = self.layout.rows
        names = [identifier("p_", suffix) + (f"_r{row}" if rows > 1 else "") for row in range(rows)]
        return Place(tuple(names), "__private", private_type(dtype), "", dtype, total)

    def indices(self, array: ir.Array, exprs: Sequence[ir.Expr]) -> list[Value]:
        """The indexes' values, all of one type that holds each of them."""
        values = [self.expr(expr) for expr in exprs]
        wide = any(v.dtype.itemsize == 8 or v.dtype == np.uint32 for v in values)
        target = LONG if wide or self.kernel.function.index_dtype == LONG else INT
        return [self.temporary(self._convert(value, target)) for value in values]

    def _convert(self, value: Value, target: np.dtype) -> Value:
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
        return [str(math.prod(array.shape[axis + 1 :])) for axis in range(len(array.shape))]

    def address(self, array: ir.Array, values: list[Value]) -> Address:
        """The element number of an access, relative to the array's first element."""
        dtype = values[0].dtype if values else INT
        strides = self._strides(array)
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

    def _sum(self, terms: list[tuple[Value, str]], dtype: np.dtype) -> Value:
        """The sum of scalars times strides."""
        if not terms:
            return self.single("0", dtype)
        strides = [stride for _, stride in terms]

        def write(*texts: str) -> str:
            parts = [text if s == "1" else f"{text} * {s}" for text, s in zip(texts, strides, strict=True)]
            return f"({' + '.join(parts)})"

        return self.each([value for value, _ in terms], write, dtype, 0)

    def _scattered(self, values: list[Value], strides: list[str], dtype: np.dtype) -> Value:
        """An address for each lane."""
        fixed = self._sum([(v, s) for v, s in zip(values, strides, strict=True) if v.step == 0], dtype)
        moving = [(self.vector(v), s) for v, s in zip(values, strides, strict=True) if v.step != 0]

        def write(first: str, *texts: str) -> str:
            parts = [] if first == "0" else [self.text.splat(first, dtype)]
            for text, (_, stride) in zip(texts, moving, strict=True):
                parts.append(text if stride == "1" else f"{text} * {self.text.splat(stride, dtype)}")
            return f"({' + '.join(parts)})"

        return self.temporary(self.each([fixed, *(value for value, _ in moving)], write, dtype, None))

    def clamped(self, address: Address, total: int) -> Address:
        """The address kept inside the (padded) array, for lanes whose index means nothing."""
        form, place = address.form, address.place
        if form == "unit":
            low, high = -self.layout.width, total
        elif form == "same":
            low, high = 0, total - 1
        else:
            low, high, form = 0, total - 1, "vector"
            if not place.vector:
                splat, kind = self.text.splat, place.dtype
                iota = self.text.iota if kind == INT else f"convert_{self.text.type(kind)}({self.text.iota})"
                place = self.each(
                    [place], lambda t: f"({splat(t, kind)} + {iota} * {splat(address.step, kind)})", kind, None
                )
        suffix = "L" if place.dtype == LONG else ""
        bounds = [f"{low}{suffix}", f"{high}{suffix}"]
        if form == "vector":  # the form with scalar bounds is wrong on one driver
            bounds = [self.text.splat(bound, place.dtype) for bound in bounds]
        step = None if form == "vector" else 0
        return Address(
            form, self.each([place], lambda t: f"clamp({t}, {bounds[0]}, {bounds[1]})", place.dtype, step), "1"
        )

    # -- guards ------------------------------------------------------------------------------------------------

    def guards(
        self, array: ir.Array, exprs: Sequence[ir.Expr], values: list[Value]
    ) -> tuple[Value | None, Value | None]:
        """Conditions under which the access is inside of the array: by row (scalars), by lane (a mask)."""
        scalars: Value | None = None
        lanes: Value | None = None
        if not isinstance(array, ir.GlobalArray):
            return None, None
        name = self.kernel.names[array.name, -1]
        for axis, (expr, value) in enumerate(zip(exprs, values, strict=True)):
            if self.proven(array, axis, expr):
                continue
            extent = f"{name}_e{axis}"
            if value.step == 0:
                kind = "ulong" if value.dtype == LONG else "uint"
                test = self.each([value], lambda t, k=kind, e=extent: f"(({k}){t} < ({k}){e})", BOOL, 0)
                scalars = self.both(scalars, test)
            else:
                lanes = self.both(lanes, self._lane_guard(value, extent))
        return (
            None if scalars is None else self.temporary(scalars),
            None if lanes is None else self.temporary(lanes),
        )

    def _lane_guard(self, value: Value, extent: str) -> Value:
        vector, dtype = self.temporary(self.vector(value)), value.dtype
        zero, end = self.text.splat("0", dtype), self.text.splat(extent, dtype)

        def write(text: str) -> str:
            return self.text.to_mask(f"(({text} >= {zero}) & ({text} < {end}))", dtype.itemsize)

        return self.each([vector], write, BOOL, None)

    # -- loads ---------------------------------------------------------------------------------------------------

    def load(self, expr: ir.Load, path: Path) -> Value:
        array = expr.array
        place = self.place(array, path)
        values = self.indices(array, expr.indices)
        address = self.address(array, values)
        if isinstance(array, ir.PrivateArray):
            return self._load_private(place, address)
        if place.total is not None and not self.quiet:
            address = self.clamped(address, place.total)
        scalars, lanes = self.guards(array, expr.indices, values)
        fill = "0"
        if isinstance(array, ir.GlobalArray):
            fill = fill_text(array, path)
        rows = self.rows([address.place, scalars, lanes])
        vector = address.form != "same" or lanes is not None
        names = []
        for row in range(rows):
            condition = None if scalars is None else scalars.row(row)
            mask = None if lanes is None else lanes.row(row)
            names.append(self._load_row(place, address, row, condition, mask, fill))
        return Value(tuple(names), None if vector else 0, place.dtype)

    def _load_row(
        self, place: Place, address: Address, row: int, condition: str | None, mask: str | None, fill: str
    ) -> str:
        """One row's load as a temporary; its name."""
        dtype = place.dtype
        if address.form == "same" and mask is None:
            text = from_memory(f"{place.pointer(row)}[{address.place.row(row)}]{place.member}", dtype)
            if condition is not None:
                text = f"({condition} ? {text} : {fill})"
            return self.block.temporary(private_type(dtype), text)
        text = self.text.load(self._vector_load(place, address, row, mask, fill), dtype)
        if condition is None:
            return self.block.temporary(self.text.type(dtype), text)
        name = self.block.fresh()
        self.block.line(f"{self.text.type(dtype)} {name} = {self.text.splat(fill, dtype)};")
        self.block.line(f"if ({condition}) {name} = {text};")
        return name

    def _vector_load(self, place: Place, address: Address, row: int, mask: str | None, fill: str) -> str:
        pointer, at = place.pointer(row), address.place.row(row)
        if address.form == "unit" and mask is None and not place.member:
            return f"vload{self.layout.width}(0, {pointer} + {at})"
        if address.step in ("(2)", "(4)") and address.form == "strided" and mask is None and not place.member:
            function = self.access("load", place, address._replace(form=f"comb{address.step[1]}"), False)
            return f"{function}({pointer}, {at})"
        function = self.access("load", place, address, mask is not None)
        where = at if address.form == "vector" else f"{at}, {address.step}"
        rest = "" if mask is None else f", {mask}, {fill}"
        return f"{function}({pointer}, {where}{rest})"

    def _load_private(self, place: Place, address: Address) -> Value:
        assert place.total is not None
        if not self.quiet and not _literal(address.place):
            address = self.clamped(address, place.total)
        if address.form == "same":
            names = [
                self.block.temporary(self.text.type(place.dtype), f"{place.pointer(row)}[{address.place.row(row)}]")
                for row in range(self.layout.rows)
            ]
            return Value(tuple(names), None, place.dtype)
        cells = self._cells(address)
        cell = place._replace(element=private_type(place.dtype))
        function = self.access("load", cell, cells, False, private=True)
        names = [
            self.block.temporary(
                self.text.type(place.dtype),
                f"{function}((const {cell.element}*){place.pointer(row)}, {cells.place.row(row)})",
            )
            for row in range(self.layout.rows)
        ]
        return Value(tuple(names), None, place.dtype)

    def _cells(self, address: Address) -> Address:
        """The scalars' numbers in a private array of vectors, for indexes that differ from lane to lane."""
        if not address.place.vector:
            dtype = address.place.dtype
            scale = f" * {self.text.splat(address.step, dtype)}"
            iota = self.text.iota if dtype == INT else f"convert_{self.text.type(dtype)}({self.text.iota})"
            vector = self.each([address.place], lambda t: f"({self.text.splat(t, dtype)} + {iota}{scale})", dtype, None)
        else:
            vector = address.place
        dtype, width = vector.dtype, str(self.layout.width)
        iota = self.text.iota if dtype == INT else f"convert_{self.text.type(dtype)}({self.text.iota})"
        splat = self.text.splat(width, dtype)
        return Address("vector", self.each([vector], lambda t: f"({t} * {splat} + {iota})", dtype, None))

    # -- stores --------------------------------------------------------------------------------------------------

    def store(self, array: ir.Array, exprs: Sequence[ir.Expr], parts: Sequence[tuple[Path, Value]]) -> None:
        """array[indices].path = value for each of `parts`, by the lanes that run."""
        values = self.indices(array, exprs)
        address = self.address(array, values)
        address = address._replace(place=self.temporary(address.place))
        if isinstance(array, ir.PrivateArray):
            for path, value in parts:
                self._store_private(self.place(array, path), address, value)
            return
        scalars, lanes = self.guards(array, exprs, values)
        mask = self.both(self.mask, lanes)
        if isinstance(array, ir.GlobalArray):
            mask = self.both(mask, self.inside_grid)
        mask = None if mask is None else self.temporary(self.vector(mask))
        for path, value in parts:
            value = self.temporary(value if value.step == 0 and address.form == "same" else self.vector(value))
            for row in range(self.rows([address.place, scalars, mask, value])):
                on = None if mask is None else mask.row(row)
                line = self._store_row(self.place(array, path), address, row, on, value)
                self.block.line(line if scalars is None else f"if ({scalars.row(row)}) {line}")

    def _store_row(self, place: Place, address: Address, row: int, mask: str | None, value: Value) -> str:
        pointer, at, text = place.pointer(row), address.place.row(row), value.row(row)
        if address.form == "same" and (mask is None or not value.vector):
            last = f"{text}.s{self.layout.width - 1:x}" if value.vector else text
            if value.vector and place.dtype == BOOL:
                last = f"(-{last})"
            line = f"{pointer}[{at}]{place.member} = {to_memory(last, place.dtype)};"
            return line if mask is None else f"if (any({mask})) {line}"
        stored = self.text.store(text, place.dtype)
        if address.form == "unit" and mask is None and not place.member:
            return f"vstore{self.layout.width}({stored}, 0, {pointer} + {at});"
        function = self.access("store", place, address, mask is not None)
        where = at if address.form == "vector" else f"{at}, {address.step}"
        return f"{function}({pointer}, {where}, {stored}{'' if mask is None else ', ' + mask});"

    def _store_private(self, place: Place, address: Address, value: Value) -> None:
        assert place.total is not None
        value, mask = self.temporary(self.vector(value)), self.mask
        if mask is not None and not _literal(address.place):
            address = self.clamped(address, place.total)
        if address.form == "same":
            for row in range(self.layout.rows):
                cell = f"{place.pointer(row)}[{address.place.row(row)}]"
                new = value.row(row)
                text = new if mask is None else self.text.blend(mask.row(row), new, cell, place.dtype)
                self.block.line(f"{cell} = {text};")
            return
        cells = self._cells(address)
        function = self.access("store", place, cells, mask is not None, private=True)
        for row in range(self.layout.rows):
            rest = "" if mask is None else f", {mask.row(row)}"
            pointer = f"({place.element}*){place.pointer(row)}"
            self.block.line(f"{function}({pointer}, {cells.place.row(row)}, {value.row(row)}{rest});")

    # -- atomics and the functions behind them --------------------------------------------------------------------

    def atomic(self, statement: ir.Atomic) -> None:
        """An indivisible update by each lane that runs; in a group's own memory any update is indivisible."""
        array = statement.array
        place = self.place(array, ())
        values = self.indices(array, statement.indices)
        address = self.address(array, values)
        value = self.temporary(self.vector(self.expr(statement.value)))
        scalars, lanes = self.guards(array, statement.indices, values)
        mask = self.both(self.both(self.mask, lanes), self.inside_grid)
        mask = self.both(mask, scalars)
        mask = None if mask is None else self.temporary(self.vector(mask))
        if address.form == "same":
            address = address._replace(step="0")
        update = self._update(statement.op, place)
        function = self.access(f"atomic_{statement.op}", place, address, mask is not None, update=update)
        for row in range(self.layout.rows):
            at = address.place.row(row)
            where = at if address.form == "vector" else f"{at}, {address.step}"
            rest = "" if mask is None else f", {mask.row(row)}"
            self.block.line(f"{function}({place.pointer(row)}, {where}, {value.row(row)}{rest});")

    def _update(self, op: str, place: Place) -> str:
        if place.element not in ("int", "uint", "long", "ulong", "float", "double"):
            raise UnsupportedOnDevice(
                f"atomic_{op} of {place.dtype} is not there; 32 and 64-bit integers and floats are accepted"
            )
        if place.space == "__global":
            self.kernel.atomics.add((op, "global", place.element, _WORDS.get(place.element, place.element)))
            return f"lane_atomic_{op}_global_{place.element}(PLACE, VALUE);"
        name = {"min": "minimum", "max": "maximum"}.get(op, op)
        pair = (Text(place.dtype, "*PLACE"), Text(place.dtype, "VALUE"))
        if name in ("minimum", "maximum"):
            text = self.scalar.expr(ir.Math(place.dtype, name, pair))
        else:
            text = self.scalar.expr(ir.Binary(place.dtype, name, *pair))
        return f"*PLACE = {text};"

    def access(
        self, kind: str, place: Place, address: Address, masked: bool, *, private: bool = False, update: str = ""
    ) -> str:
        """The name of the function that moves a strip's lanes one by one; it is noted as needed."""
        value = private_type(place.dtype) if private else dtypes.c_name(place.dtype)
        form = "strided" if address.form in ("same", "unit") else address.form
        member = place.member.replace(".", "_").replace("[", "_").replace("]", "")
        space = place.space.strip("_")
        index = "long" if address.place.dtype == LONG else "int"
        name = "_".join(["strip", kind, form, space, place.element, value + member, index])
        name += "_masked" if masked else ""
        self.kernel.accesses.setdefault(
            name,
            {
                "name": name,
                "kind": kind,
                "space": place.space,
                "element": place.element,
                "member": place.member,
                "value": value,
                "width": self.layout.width,
                "address": index,
                "form": form,
                "masked": masked,
                "update": update,
            },
        )
        return name


def _literal(value: Value) -> bool:
    return all(text.strip("()").isdigit() for text in value.texts)
