"""Loads, stores and atomic updates of strips: whole vectors if the lanes' elements are adjacent, shuffled vectors if
they are a few elements apart, else lane by lane.
"""

from __future__ import annotations

from collections.abc import Sequence

from pydp.lang import ir
from pydp.lang.opencl import helpers
from pydp.lang.opencl.c_text import from_memory, private_type, to_memory
from pydp.lang.opencl.statements import fill_text
from pydp.lang.opencl.vector.address import LONG, Address, Addresses, Place
from pydp.lang.opencl.vector.families import with_offset, without_offset
from pydp.lang.opencl.vector.values import Path, StripValue
from pydp.lang.opencl.vector_text import BOOL

_MOST_DEINTERLEAVED = 8  # the largest step of elements that are extracted from whole vectors


class StripMemory(Addresses):
    """Writes accesses to arrays. inside_grid: the lanes whose stores take effect; None for all."""

    inside_grid: StripValue | None = None

    def proven(self, array: ir.GlobalArray, axis: int, index: ir.Expr) -> bool:
        """Whether the index is known to be in bounds."""
        return self.ranges is not None and self.ranges.proves_inside(array, axis, index)

    # -- guards ------------------------------------------------------------------------------------------------

    def guards(
        self, array: ir.Array, exprs: Sequence[ir.Expr], values: list[StripValue]
    ) -> tuple[StripValue | None, StripValue | None]:
        """The conditions under which the access is in bounds: (scalars by row, a mask by lane); None if not needed."""
        scalars: StripValue | None = None
        lanes: StripValue | None = None
        if not isinstance(array, ir.GlobalArray):
            return None, None
        name = self.kernel.names[array.name, None]
        for axis, (expr, value) in enumerate(zip(exprs, values, strict=True)):
            if self.proven(array, axis, expr):
                continue
            extent = f"{name}_e{axis}"
            if value.step == 0:
                kind = "ulong" if value.dtype == LONG else "uint"
                test = self.each([value], lambda t, k=kind, e=extent: f"(({k}){t} < ({k}){e})", BOOL, 0)
                scalars = self.mask_and(scalars, test)
            else:
                lanes = self.mask_and(lanes, self._lane_guard(value, extent))
        return (
            None if scalars is None else self.temporary(scalars),
            None if lanes is None else self.temporary(lanes),
        )

    def _lane_guard(self, value: StripValue, extent: str) -> StripValue:
        vector, dtype = self.temporary(self.vector(value)), value.dtype
        zero, end = self.text.splat("0", dtype), self.text.splat(extent, dtype)

        def write(text: str) -> str:
            return self.text.to_mask(f"(({text} >= {zero}) & ({text} < {end}))", dtype.itemsize)

        return self.each([vector], write, BOOL, None)

    # -- loads ---------------------------------------------------------------------------------------------------

    def on_load(self, expr: ir.Load, path: Path) -> StripValue:
        array = expr.array
        place = self.place(array, path)
        values = self.indices(array, expr.indices)
        address = self.address(array, values)
        if isinstance(array, ir.PrivateArray):
            return self._load_private(place, address)
        if place.total is not None and not self.all_lanes_active:
            address = self.clamped(address, place)
        scalars, lanes = self.guards(array, expr.indices, values)
        if lanes is None and expr.uid in self.kernel.siblings:
            address = self._whole_family(expr, address)
        fill = "0"
        if isinstance(array, ir.GlobalArray):
            fill = fill_text(array, path)
        rows = self.rows([address.place, address.first, scalars, lanes])
        vector = address.form != "same" or lanes is not None
        names = []
        for row in range(rows):
            condition = None if scalars is None else scalars.row(row)
            mask = None if lanes is None else lanes.row(row)
            names.append(self._load_row(place, address, row, condition, mask, fill))
        return StripValue(tuple(names), None if vector else 0, place.dtype)

    def _load_row(
        self, place: Place, address: Address, row: int, condition: str | None, mask: str | None, fill: str
    ) -> str:
        """Write the load of one row; the name of its temporary."""
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

    def _whole_family(self, expr: ir.Load, address: Address) -> Address:
        """The address of the family's first load if the elements of the whole family are in bounds; all loads of the
        family then load the same vectors."""
        number, count, axis = self.kernel.siblings[expr.uid]
        assert isinstance(expr.array, ir.GlobalArray)
        rest, offset = without_offset(expr.indices[axis])
        if rest is None or not _deinterleaves(address):
            return address
        first, last = with_offset(rest, offset - number), with_offset(rest, offset - number + count - 1)
        if not (self.proven(expr.array, axis, first) and self.proven(expr.array, axis, last)):
            return address
        values = self.indices(expr.array, [*expr.indices[:axis], first, *expr.indices[axis + 1 :]])
        return self.address(expr.array, values)._replace(number=number)

    def _vector_load(self, place: Place, address: Address, row: int, mask: str | None, fill: str) -> str:
        if address.form == "unit" and mask is None and not place.member:
            return self._adjacent(place, f"{place.space} const", f"{place.pointer(row)} + {address.place.row(row)}")
        if mask is None and not place.member and _deinterleaves(address):
            address = address._replace(form="deinterleave")
        masked = mask is not None and address.first is None
        rest = f", {mask}, {fill}" if masked else ""
        return f"{self.access('load', place, address, masked)}({place.pointer(row)}, {address.arguments(row)}{rest})"

    def _load_private(self, place: Place, address: Address) -> StripValue:
        if not self.all_lanes_active and not _literal(address.place):
            address = self.clamped(address, place)
        cells = None if address.form == "same" else self.cells(address, place)
        function = "" if cells is None else self.access("load", place, cells, False)
        names = []
        for row in range(self.layout.rows):
            text = f"{place.pointer(row)}[{address.place.row(row)}]"
            if cells is not None:
                text = f"{function}((const {place.element}*){place.pointer(row)}, {cells.arguments(row)})"
            names.append(self.block.temporary(self.text.type(place.dtype), text))
        return StripValue(tuple(names), None, place.dtype)

    # -- stores --------------------------------------------------------------------------------------------------

    def store(self, array: ir.Array, exprs: Sequence[ir.Expr], parts: Sequence[tuple[Path, StripValue]]) -> None:
        """array[indices].path = value for each of `parts`, in the active lanes."""
        values = self.indices(array, exprs)
        address = self.address(array, values)
        address = address._replace(place=self.temporary(address.place))
        if isinstance(array, ir.PrivateArray):
            for path, value in parts:
                self._store_private(self.place(array, path), address, value)
            return
        scalars, lanes = self.guards(array, exprs, values)
        mask = self.mask_and(self.mask, lanes)
        if isinstance(array, ir.GlobalArray):
            mask = self.mask_and(mask, self.inside_grid)
        mask = None if mask is None else self.temporary(self.vector(mask))
        if mask is not None and address.first is not None:
            address = self.element_of_each_lane(address, self.place(array, parts[0][0]))
            address = address._replace(place=self.temporary(address.place))
        for path, value in parts:
            value = self.temporary(value if value.step == 0 and address.form == "same" else self.vector(value))
            place = self.place(array, path)
            for row in range(self.rows([address.place, address.first, scalars, mask, value])):
                on = None if mask is None else mask.row(row)
                if address.form == "unit" and on is None and array in self.kernel.streamable:
                    line = self._stream_row(array, place, address, row, value)
                else:
                    line = self._store_row(place, address, row, on, value)
                self.block.line(line if scalars is None else f"if ({scalars.row(row)}) {line}")

    def store_family(self, stores: Sequence[ir.Store]) -> bool:
        """Write a family of stores as whole vectors; False, and nothing is written, if some lanes may not store."""
        first, last = stores[0], stores[-1]
        if self.mask is not None or self.inside_grid is not None or not isinstance(first.array, ir.GlobalArray):
            return False
        values = self.indices(first.array, first.indices)
        array, axes = first.array, range(first.array.rank)
        if not all(self.proven(array, axis, one.indices[axis]) for axis in axes for one in (first, last)):
            return False
        address = self.address(first.array, values)
        address = address._replace(place=self.temporary(address.place), form="interleave")
        parts = [self.temporary(self.vector(self.expr(store.value))) for store in stores]
        place = self.place(first.array, ())
        function = self.access("store", place, address, False)
        for row in range(self.rows([address.place, *parts])):
            texts = ", ".join(self.text.store(part.row(row), place.dtype) for part in parts)
            self.block.line(f"{function}({place.pointer(row)}, {address.place.row(row)}, {texts});")
        return True

    def _store_row(self, place: Place, address: Address, row: int, mask: str | None, value: StripValue) -> str:
        pointer, at, text = place.pointer(row), address.place.row(row), value.row(row)
        if address.form == "same" and (mask is None or not value.vector):
            last = f"{text}.s{self.layout.width - 1:x}" if value.vector else text
            if value.vector and place.dtype == BOOL:
                last = f"(-{last})"
            line = f"{pointer}[{at}]{place.member} = {to_memory(last, place.dtype)};"
            return line if mask is None else f"if (any({mask})) {line}"
        stored = self.text.store(text, place.dtype)
        if address.form == "unit" and mask is None and not place.member:
            return f"{self._adjacent(place, place.space, f'{pointer} + {at}')} = {stored};"
        if address.form == "unit" and place.space == "__private":  # no other work-item writes to the masked lanes
            cell = self._adjacent(place, place.space, f"{pointer} + {self.clamped(address, place).place.row(row)}")
            assert mask is not None
            blended = self.text.select(mask, text, self.text.load(cell, place.dtype), place.dtype)
            return f"{cell} = {self.text.store(blended, place.dtype)};"
        function = self.access("store", place, address, mask is not None)
        rest = "" if mask is None else f", {mask}"
        return f"{function}({pointer}, {address.arguments(row)}, {stored}{rest});"

    def _stream_row(self, array: ir.Array, place: Place, address: Address, row: int, value: StripValue) -> str:
        """A store of adjacent elements, past the caches if the array is large."""
        self.kernel.streams[array.name] = place.value, self.layout.width
        self.kernel.in_memory.add((place.value, self.layout.width))
        to, text = f"{place.pointer(row)} + {address.place.row(row)}", self.text.store(value.row(row), place.dtype)
        return (
            f"stream_{place.value}{self.layout.width}({to}, {text}, {self.kernel.names[array.name, None]}_past_caches);"
        )

    def _store_private(self, place: Place, address: Address, value: StripValue) -> None:
        value, mask = self.temporary(self.vector(value)), self.mask
        if mask is not None and not _literal(address.place):
            address = self.clamped(address, place)
        if address.form == "same":
            for row in range(self.layout.rows):
                cell = f"{place.pointer(row)}[{address.place.row(row)}]"
                new = value.row(row)
                text = new if mask is None else self.text.select(mask.row(row), new, cell, place.dtype)
                self.block.line(f"{cell} = {text};")
            return
        cells = self.cells(address, place)
        function = self.access("store", place, cells, mask is not None)
        for row in range(self.layout.rows):
            rest = "" if mask is None else f", {mask.row(row)}"
            pointer = f"({place.element}*){place.pointer(row)}"
            self.block.line(f"{function}({pointer}, {cells.arguments(row)}, {value.row(row)}{rest});")

    def _adjacent(self, place: Place, space: str, pointer: str) -> str:
        """The strip's elements from `pointer` on, as a vector in memory."""
        self.kernel.in_memory.add((place.value, self.layout.width))
        return f"ADJACENT({place.value}{self.layout.width}_in_memory, {space}, {pointer})"

    # -- atomics and access functions -----------------------------------------------------------------------------

    def on_atomic(self, statement: ir.Atomic) -> None:
        """An atomic update by each active lane. In private memory, which holds local arrays, every update is atomic."""
        array = statement.array
        place = self.place(array, ())
        values = self.indices(array, statement.indices)
        address = self.address(array, values)
        value = self.temporary(self.vector(self.expr(statement.value)))
        scalars, lanes = self.guards(array, statement.indices, values)
        mask = self.mask_and(self.mask_and(self.mask, lanes), self.inside_grid)
        mask = self.mask_and(mask, scalars)
        mask = None if mask is None else self.temporary(self.vector(mask))
        if address.form == "same":
            address = address._replace(step="0")
        elif address.first is not None:
            address = self.element_of_each_lane(address, place)
            address = address._replace(place=self.temporary(address.place))
        update = self._update(statement, place)
        kind = f"atomic_{statement.op}" if statement.old is None else f"fetch_{statement.op}"
        function, found = self.access(kind, place, address, mask is not None, update=update), []
        for row in range(self.layout.rows):
            rest = "" if mask is None else f", {mask.row(row)}"
            call = f"{function}({place.pointer(row)}, {address.arguments(row)}, {value.row(row)}{rest})"
            if statement.old is None:
                self.block.line(f"{call};")
            else:
                found.append(self.block.temporary(self.text.type(place.dtype), call))
        if statement.old is not None:
            first = ir.Const(self.kernel.function.index_dtype, 0)
            slot = self.address(statement.old, self.indices(statement.old, (first,)))
            self._store_private(self.place(statement.old, ()), slot, StripValue(tuple(found), None, place.dtype))

    def _update(self, statement: ir.Atomic, place: Place) -> str:
        op, fetched = statement.op, statement.old is not None
        if place.element not in ("int", "uint", "long", "ulong", "float", "double"):
            raise helpers.unsupported_atomic(statement, place.dtype)
        if place.space == "__global":
            self.kernel.atomics.add(helpers.atomic(op, "global", place.element))
            call = f"lane_atomic_{op}_global_{place.element}(PLACE, VALUE);"
            return f"VALUE = {call}" if fetched else call
        text = self.scalar.updated(op, "*PLACE", "VALUE", place.dtype)
        if fetched:
            return f"const {place.element} was = *PLACE; *PLACE = {text}; VALUE = was;"
        return f"*PLACE = {text};"

    def access(self, kind: str, place: Place, address: Address, masked: bool, *, update: str = "") -> str:
        """The name of the function of strip_functions.mako for an access; the kernel will contain it."""
        form = "strided" if address.form in ("same", "unit") else address.form
        index = "long" if address.place.dtype == LONG else "int"
        extra = self._shuffle(kind, place, address, masked)
        parts = [str(part) for part in extra.values() if isinstance(part, int)]
        member = place.member.replace(".", "_").replace("[", "_").replace("]", "")
        space = place.space.strip("_")
        name = "_".join(["strip", kind, form, *parts, space, place.element, place.value + member, index])
        name += "_masked" if masked else ""
        made = {
            "name": name,
            "kind": kind,
            "space": place.space,
            "element": place.element,
            "member": place.member,
            "value": place.value,
            "width": self.layout.width,
            "address": index,
            "form": form,
            "masked": masked,
            "update": update,
        }
        self.kernel.accesses.setdefault(name, made | extra)
        width = self.layout.width
        self.kernel.in_memory |= {(place.value, width), (index, width), ("int", width)}
        if address.form == "planes":
            assert place.order is not None
            part = width // place.order.interleave_factor
            if part > 1:
                self.kernel.in_memory.add((place.value, part))
        return name

    def _shuffle(self, kind: str, place: Place, address: Address, masked: bool) -> dict[str, object]:
        """The template parameters of an access by shuffled vectors; empty for other accesses."""
        if address.form in ("deinterleave", "interleave"):
            step = int(address.step.strip("()"))
            number = {} if address.number is None else {"number": address.number}
            return {"step": step, **number, "pieces": self.kernel.pieces}
        if address.form != "planes":
            return {}
        assert place.order is not None
        by_lane = self.access(kind, place, address._replace(form="vector"), masked)
        iota = self.text.ramp("first", 1, address.place.dtype)
        factor, size = place.order.interleave_factor, place.order.plane_size
        return {"interleave_factor": factor, "plane_size": size, "iota": iota, "by_lane": by_lane}


def _deinterleaves(address: Address) -> bool:
    """Whether the lanes' elements are a known small number of elements apart."""
    step = address.step.strip("()")
    return address.form == "strided" and step.isdigit() and 2 <= int(step) <= _MOST_DEINTERLEAVED


def _literal(value: StripValue) -> bool:
    return all(text.strip("()").isdigit() for text in value.texts)
