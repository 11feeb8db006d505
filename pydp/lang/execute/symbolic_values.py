"""Symbolic values: what is known before a launch about a value in every lane of an arbitrary group.

An integer :class:`SymbolicValue` is ``lanes + sum(coefficient * symbol)``. `lanes` is one number per lane, or a scalar.
Symbols are uniform over a group and unknown before the launch: parameters, extents, the group index, the iteration of a
loop with unknown trip count. None is a completely unknown value.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from pydp.lang import ir
from pydp.lang.execute import host_values
from pydp.lang.intrinsics import FUNCTIONS

Symbols = tuple[tuple[Any, int], ...]


@dataclass(frozen=True, eq=False)
class SymbolicValue:
    """lanes: a NumPy scalar, or an array with one element per lane. symbols: (symbol, coefficient) pairs."""

    lanes: Any
    symbols: Symbols = ()

    @property
    def is_uniform(self) -> bool:
        """Whether all lanes have the same value."""
        return np.ndim(self.lanes) == 0

    @property
    def is_exact(self) -> bool:
        """Whether the value has no symbols, so it is fully known."""
        return not self.symbols

    @property
    def key(self) -> Any:
        """A key of a uniform value: equal values have equal keys."""
        return (self.lanes.dtype.str, self.lanes.item(), self.symbols)


OptionalValue = SymbolicValue | None


def symbol(name: Any, dtype: np.dtype[Any]) -> SymbolicValue:
    """A uniform value that is otherwise unknown."""
    return SymbolicValue(np.zeros((), dtype)[()], ((name, 1),))


def _uniform_symbol(name: Any, values: Sequence[OptionalValue], dtype: np.dtype[Any]) -> OptionalValue:
    """A symbol for an operation on uniform operands, the same for equal operands; None if an operand is not uniform."""
    if all(value is not None and value.is_uniform for value in values):
        return symbol((name, *(value.key for value in values if value is not None)), dtype)
    return None


def same(left: OptionalValue, right: OptionalValue) -> bool:
    """Whether two values are known to be equal in every lane."""
    if left is None or right is None:
        return False
    return left is right or (left.symbols == right.symbols and np.array_equal(left.lanes, right.lanes))


def merge(lanes: np.ndarray, new: OptionalValue, old: OptionalValue) -> OptionalValue:
    """`new` in the lanes of a mask, `old` in the other lanes; None if that has no symbolic value."""
    if new is None or old is None or new.symbols != old.symbols:
        return None
    return SymbolicValue(host_values.merge(lanes, new.lanes, old.lanes), new.symbols)


def select(condition: OptionalValue, yes: OptionalValue, no: OptionalValue) -> OptionalValue:
    """One of two values in each lane."""
    if condition is None or not condition.is_exact:
        return yes if same(yes, no) else None
    return merge(condition.lanes, yes, no)


def logical(op: str, left: OptionalValue, right: OptionalValue) -> OptionalValue:
    """left op right of bools."""
    if left is None or right is None or not (left.is_exact and right.is_exact):
        return None
    return SymbolicValue(host_values.logical(op, left.lanes, right.lanes))


def merge_states(left: dict[str, OptionalValue], right: dict[str, OptionalValue]) -> dict[str, OptionalValue]:
    """The values of variables after one of two branches: known only if equal in both branches."""
    return {
        name: left[name] if name in left and name in right and same(left[name], right[name]) else None
        for name in {*left, *right}
    }


def _add(left: Symbols, right: Symbols, factor: int) -> Symbols:
    total = dict(left)
    for name, coefficient in right:
        total[name] = total.get(name, 0) + factor * coefficient
    return tuple(sorted(((name, n) for name, n in total.items() if n), key=repr))


def _scaled(value: SymbolicValue, factor: int) -> Symbols:
    return tuple((name, n * factor) for name, n in value.symbols) if factor else ()


def binary(op: str, left: OptionalValue, right: OptionalValue, dtype: np.dtype[Any]) -> OptionalValue:
    """left op right (see :class:`pydp.lang.ir.Binary`)."""
    if left is None or right is None:
        return None
    symbols = _symbols_of(op, left, right, dtype)
    if symbols is None:
        return _uniform_symbol(op, (left, right), dtype)
    return SymbolicValue(host_values.binary(op, left.lanes, right.lanes, dtype), symbols)


def _symbols_of(op: str, left: SymbolicValue, right: SymbolicValue, dtype: np.dtype[Any]) -> Symbols | None:
    """The symbols of ``left op right``; None if it is not a sum with the symbols of its operands."""
    if left.is_exact and right.is_exact:
        return None if _is_device_dependent(op, dtype) else ()
    if dtype.kind not in "iu":
        return None
    if op in ("add", "sub"):
        return _add(left.symbols, right.symbols, -1 if op == "sub" else 1)
    if op == "mul" or (op == "shl" and right.is_exact and right.is_uniform and 0 <= int(right.lanes) < 31):
        one, other = (left, right) if not left.is_exact else (right, left)
        if other.is_exact and other.is_uniform:
            return _scaled(one, int(other.lanes) if op == "mul" else 1 << int(other.lanes))
    return None


def _is_device_dependent(op: str, dtype: np.dtype[Any]) -> bool:
    """Whether an operator's result may differ between devices in the last bits."""
    return dtype.kind == "f" and (op == "pow" or (op == "truediv" and dtype.itemsize < 8))


def _assumes_no_overflow(dtype: np.dtype[Any]) -> bool:
    """Whether sums of the dtype are assumed not to overflow. Narrow and unsigned integers are assumed to wrap."""
    return dtype.kind == "i" and dtype.itemsize >= 4


def compare(op: str, left: OptionalValue, right: OptionalValue) -> OptionalValue:
    """left op right as a bool (see :class:`pydp.lang.ir.Compare`)."""
    if left is None or right is None:
        return None
    # With equal symbols, the difference is known. Its order is that of the values only if no sum wraps.
    ordered = op in ("eq", "ne") or _assumes_no_overflow(left.lanes.dtype)
    if left.symbols == right.symbols and (left.is_exact or (left.lanes.dtype.kind in "iu" and ordered)):
        if left.lanes.dtype.names is not None:
            return None
        return SymbolicValue(host_values.compare(op, left.lanes, right.lanes))
    return _uniform_symbol(op, (left, right), np.dtype(np.bool_))


def unary(op: str, value: OptionalValue, dtype: np.dtype[Any]) -> OptionalValue:
    """op value (see :class:`pydp.lang.ir.Unary`)."""
    if value is None:
        return None
    if value.is_exact or (op == "neg" and dtype.kind in "iu"):
        return SymbolicValue(host_values.unary(op, value.lanes, dtype), _scaled(value, -1))
    return _uniform_symbol(op, (value,), dtype)


def cast(value: OptionalValue, dtype: np.dtype[Any]) -> OptionalValue:
    """The value converted to `dtype`. Symbols are kept if the conversion cannot change the value, or if both types
    wrap in the same way."""
    if value is None:
        return None
    if value.is_exact:
        return SymbolicValue(host_values.cast(value.lanes, dtype))
    given = value.lanes.dtype
    wraps_alike = given.kind in "iu" and dtype.kind in "iu" and dtype.itemsize == given.itemsize
    if wraps_alike or (dtype.kind in "iu" and dtype.itemsize > given.itemsize and _assumes_no_overflow(given)):
        return SymbolicValue(value.lanes.astype(dtype), value.symbols)
    return _uniform_symbol("cast", (value,), dtype)


def apply(name: str, values: Sequence[OptionalValue], dtype: np.dtype[Any]) -> OptionalValue:
    """The function `name` of values. The value is not known if results differ between devices in the last bits."""
    known = [value.lanes for value in values if value is not None and value.is_exact]
    if len(known) == len(values) and FUNCTIONS[name].is_exact(known[0].dtype):  # on some devices cbrt(27) < 3
        return SymbolicValue(host_values.apply(name, known, dtype))
    return _uniform_symbol(name, values, dtype)


def member(record: OptionalValue, member: ir.Member) -> OptionalValue:
    """The member of a record; unknown if it is an array or one of its items."""
    if member.dtype.subdtype is not None or isinstance(member.name, ir.Item):
        return None
    return _uniform_symbol("." + member.name, [record], member.dtype)


def make_record(values: Sequence[OptionalValue], dtype: np.dtype[Any]) -> OptionalValue:
    """A record; always unknown."""
    return None
