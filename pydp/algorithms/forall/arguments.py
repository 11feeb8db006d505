"""The arguments of a forall, sorted into arrays and numbers and described by their types.

The description (`Arguments.parts`) is hashable and holds everything that the kernel source depends on. Each call
passes its own arrays and numbers to the cached kernel.
"""

from __future__ import annotations

import functools
import math
import reprlib
from collections.abc import Collection, Mapping, Sequence
from typing import Any

import numpy as np

from pydp.dtypes import c_name
from pydp.errors import InvalidArgument, number_text, shown
from pydp.lang import ir
from pydp.lang.compile import FieldType, NumberType, TupleType
from pydp.runtime.arrays.operand import Operand
from pydp.runtime.call import Call
from pydp.runtime.field.field import Field
from pydp.runtime.field.views import describe
from pydp.runtime.memory.host_memory import check_dtype
from pydp.runtime.placement import Array

# The largest extent of an axis, and the largest span of an array in elements, for 32-bit indexes. The upper half of
# the range stays free, because an index may exceed an extent by a whole tile.
_NARROW_EXTENT, _NARROW_SPAN = 1 << 30, 1 << 31
_ACCEPTED = "arrays (NumPy, Field, pyopencl), their tiles and views, numbers and tuples of numbers are accepted"


@functools.lru_cache(maxsize=4096)
def layout_facts(shape: tuple[int, ...], strides: tuple[int, ...]) -> tuple[int, bool]:
    """(last axis with a stride of 1 element, or -1; whether 64-bit indexes are needed)."""
    unit = max((axis for axis, stride in enumerate(strides) if stride == 1), default=-1)
    reach = sum(abs(stride) * max(size - 1, 0) for size, stride in zip(shape, strides, strict=True))
    return unit, reach >= _NARROW_SPAN or any(size > _NARROW_EXTENT for size in shape)


class Arguments:
    """The arguments of one call.

    values: by position, the base array (ndarray, Field or pyopencl Array) or the number(s).
    arrays: positions of the arrays. parts: the hashable description. wide: whether 64-bit indexes are needed.
    """

    __slots__ = ("arrays", "parts", "values", "wide")

    def __init__(self, given: Sequence[Any]) -> None:
        self.values: list[Any] = list(given)
        self.arrays: list[int] = []
        self.wide = False
        parts: list[Any] = []
        for position, value in enumerate(given):
            kind = type(value)
            if kind is Field:
                unit, wide = layout_facts(value.shape, value.strides)
                part: Any = (value.dtype, len(value.shape), value._writable, unit)
                self.arrays.append(position)
                self.wide = self.wide or wide
            elif kind is float:
                part = "float"
            elif kind is int:
                part = _integer_part(value, position)
            else:
                part = self._other(position, value)
            parts.append(part)
        self.parts = tuple(parts)

    def _other(self, position: int, value: Any) -> Any:
        """The description of a value that is neither a Field, an int nor a float."""
        if isinstance(value, np.generic):
            return ("number", _number_dtype(value.dtype, position))
        if isinstance(value, (bool, int, float)):
            return _weak_part(value, position)
        if isinstance(value, tuple):
            return ("tuple", *(_item_part(item, position) for item in value))
        if isinstance(value, (list, str, bytes, complex)) or value is None:
            raise InvalidArgument(f"argument {position} is {reprlib.repr(value)}; {_ACCEPTED}")
        return self._array(position, value)

    def _array(self, position: int, value: Any) -> Any:
        try:
            view = describe(value)
        except InvalidArgument as error:
            raise InvalidArgument(f"argument {position}: {error}") from None
        # A pyopencl Array is not unwrapped: the call runs on its queue.
        base = self.values[position] = value if isinstance(value, Array) else view.base
        self.arrays.append(position)
        dtype = check_dtype(base.dtype, f"argument {position}")
        if isinstance(base, np.ndarray):
            writable = view.writable and base.flags.writeable
            size = max(1, base.dtype.itemsize)
            shape, strides = base.shape, tuple(stride // size for stride in base.strides)
        else:
            writable, shape = view.writable, tuple(base.shape)
            strides = base.strides
            if isinstance(base, Array):
                strides = tuple(stride // base.dtype.itemsize for stride in base.strides)
        unit, wide = layout_facts(shape, tuple(strides))
        self.wide = self.wide or wide
        if view.tiles or not _is_zero(view.fill):
            return (dtype, len(shape), writable, unit, view.tiles, _frozen(view.fill))
        return (dtype, len(shape), writable, unit)


def _integer_part(value: int, position: int) -> str:
    """The same for all integers: the type does not depend on the value."""
    if -(1 << 63) <= value < 1 << 63:
        return "int"
    advice = "; use np.uint64(...) for integers up to 2**64 - 1" if 0 <= value < 1 << 64 else ""
    accepted = "Python integers of 64 bits (-2**63 to 2**63 - 1) are accepted"
    raise InvalidArgument(f"argument {position} is {number_text(value)}; {accepted}{advice}")


def _weak_part(value: Any, position: int) -> str:
    if isinstance(value, bool):
        return "bool"
    return "float" if isinstance(value, float) else _integer_part(value, position)


def _item_part(item: Any, position: int) -> Any:
    if isinstance(item, np.generic):
        return ("number", _number_dtype(item.dtype, position))
    if isinstance(item, (bool, int, float)):
        return _weak_part(item, position)
    raise InvalidArgument(f"argument {position} holds {shown(item)}; tuples of numbers are accepted")


def _number_dtype(dtype: np.dtype[Any], position: int) -> np.dtype[Any]:
    if dtype.kind not in "biuf" and dtype.names is None:
        raise InvalidArgument(f"argument {position} has dtype {dtype}; {_ACCEPTED}")
    return dtype.newbyteorder("=")


def _is_zero(fill: Any) -> bool:
    return fill is None or (np.isscalar(fill) and fill == 0)


def _frozen(fill: Any) -> Any:
    """A fill value as part of a key. NaN equals NaN here, and -0.0 differs from 0.0."""
    if isinstance(fill, float):
        return ("float", fill.hex())
    if isinstance(fill, np.generic):
        return ("bytes", fill.dtype, fill.tobytes())
    return fill


def thaw(fill: Any) -> Any:
    """The fill value of a key."""
    if isinstance(fill, tuple) and len(fill) == 2 and fill[0] == "float":
        return float.fromhex(fill[1])
    if isinstance(fill, tuple) and len(fill) == 3 and fill[0] == "bytes":
        return np.frombuffer(fill[2], fill[1])[0]
    return 0 if fill is None else fill


_WEAK = {
    "bool": NumberType(np.dtype(np.bool_), True),
    "int": NumberType(np.dtype(np.int32), True),
    "float": NumberType(np.dtype(np.float64), True),
}


def language_type(part: Any) -> FieldType | NumberType | TupleType:
    """The argument type for the front end of the language, from one item of `Arguments.parts`."""
    if isinstance(part, str):
        return _WEAK[part]
    if part[0] == "number":
        return NumberType(part[1], False)
    if part[0] == "tuple":
        items = [language_type(item) for item in part[1:]]
        return TupleType(tuple(item for item in items if isinstance(item, NumberType)))
    dtype, rank, writable, _, *tiled = part
    if tiled:
        return FieldType(dtype, rank, tiled[0], writable, thaw(tiled[1]))
    return FieldType(dtype, rank, (), writable, 0)


def unit_axis(part: Any) -> int:
    """The axis with stride 1 of a described array, or -1."""
    return int(part[3])


def differently_typed(arrays: Sequence[ir.GlobalArray], written: Collection[str]) -> list[tuple[int, int]]:
    """Pairs of positions of arrays with different types, the first of them written.

    C lets bytes alias any type, and signed integers alias unsigned ones; those pairs are left out."""
    names = [(array, c_name(array.dtype).removeprefix("u")) for array in arrays]
    names = [(array, name) for array, name in names if name != "char"]
    return [
        (one.position, other.position)
        for one, name in names
        for other, other_name in names
        if one.name in written and other_name != name
    ]


def differently_typed_overlap(call: Call, operands: Mapping[int, Operand], pairs: Sequence[tuple[int, int]]) -> bool:
    """Whether some pair of arrays may share bytes: their spans overlap, and their strides do not separate them."""
    return any(call.overlaps(operands[p], operands[q]) and not _interleaved(operands[p], operands[q]) for p, q in pairs)


def _interleaved(one: Operand, other: Operand) -> bool:
    """Whether the elements are disjoint within each period of the strides, like the members of records."""
    if one.buffer is not other.buffer:
        return False
    sizes = one.dtype.itemsize, other.dtype.itemsize
    steps = [
        stride * size
        for array, size in zip((one, other), sizes, strict=True)
        for stride, extent in zip(array.strides, array.shape, strict=True)
        if extent > 1
    ]
    period = math.gcd(*steps)
    if not period:
        return False
    ahead = (other.offset * sizes[1] - one.offset * sizes[0]) % period
    return ahead >= sizes[0] and period - ahead >= sizes[1]


def no_written_overlap(call: Call, operands: Mapping[int, Operand], written: Sequence[int]) -> bool:
    """Whether no written array overlaps any other array. (Arrays that overlap themselves are refused earlier.)"""
    for position in written:
        one = operands[position]
        if any(call.overlaps(one, other) for place, other in operands.items() if place != position):
            return False
    return True
