"""What is known of a value in every lane of any group, before a launch: numbers for each lane plus named unknowns.

A :class:`Known` integer is ``lanes + sum(coefficient * symbol)``: `lanes` one number or one for each lane, the
symbols what is the same for all lanes of a group but differs from launch to launch (parameters, extents, the
group's place, the turn of a loop of unknown length). None stands for a value of which nothing is known.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from pydp.lang import numpy_math
from pydp.lang.intrinsics import BINARY, COMPARISONS, UNARY

Symbols = tuple[tuple[Any, int], ...]


@dataclass(frozen=True, eq=False)
class Known:
    """`lanes`: a NumPy scalar or an array with one element for each lane; `symbols`: (symbol, coefficient) pairs."""

    lanes: Any
    symbols: Symbols = ()

    @property
    def is_uniform(self) -> bool:
        """Whether all lanes have the same value."""
        return np.ndim(self.lanes) == 0

    @property
    def is_exact(self) -> bool:
        """Whether nothing in it is unknown."""
        return not self.symbols

    @property
    def key(self) -> Any:
        """Equal for equal uniform values."""
        return (self.lanes.dtype.str, self.lanes.item(), self.symbols)


Value = Known | None


def symbol(name: Any, dtype: np.dtype[Any]) -> Known:
    """A value that is the same for all lanes of a group and otherwise unknown."""
    return Known(np.zeros((), dtype)[()], ((name, 1),))


def _uniform_symbol(name: Any, values: Sequence[Value], dtype: np.dtype[Any]) -> Value:
    """One unknown for each combination of uniform operands; nothing where an operand differs between lanes."""
    if all(value is not None and value.is_uniform for value in values):
        return symbol((name, *(value.key for value in values if value is not None)), dtype)
    return None


def same(left: Value, right: Value) -> bool:
    """Whether two values are provably equal in every lane."""
    if left is None or right is None:
        return False
    return left is right or (left.symbols == right.symbols and np.array_equal(left.lanes, right.lanes))


def merge(lanes: np.ndarray, new: Value, old: Value) -> Value:
    """`new` in the given lanes (a mask), `old` in the others."""
    if new is None or old is None or new.symbols != old.symbols:
        return None
    return Known(np.where(lanes, new.lanes, old.lanes), new.symbols)


def meet(left: dict[str, Value], right: dict[str, Value]) -> dict[str, Value]:
    """What is known of variables after either of two branches."""
    return {
        name: left[name] if name in left and name in right and same(left[name], right[name]) else None
        for name in {*left, *right}
    }


def _add(left: Symbols, right: Symbols, factor: int) -> Symbols:
    total = dict(left)
    for name, coefficient in right:
        total[name] = total.get(name, 0) + factor * coefficient
    return tuple(sorted(((name, n) for name, n in total.items() if n), key=repr))


def _scaled(value: Known, factor: int) -> Symbols:
    return tuple((name, n * factor) for name, n in value.symbols) if factor else ()


def binary(op: str, left: Value, right: Value, dtype: np.dtype[Any]) -> Value:
    """left op right (see :class:`pydp.lang.ir.Binary`)."""
    if left is None or right is None:
        return None
    if left.is_exact and right.is_exact and not _differs(op, dtype):
        return Known(BINARY[op].numpy(left.lanes, right.lanes))
    if dtype.kind in "iu":
        if op in ("add", "sub"):
            factor = -1 if op == "sub" else 1
            return Known(BINARY[op].numpy(left.lanes, right.lanes), _add(left.symbols, right.symbols, factor))
        if op == "mul" or (op == "shl" and right.is_exact and right.is_uniform and 0 <= int(right.lanes) < 31):
            one, other = (left, right) if not left.is_exact else (right, left)
            if other.is_exact and other.is_uniform:
                factor = int(other.lanes) if op == "mul" else 1 << int(other.lanes)
                return Known(BINARY[op].numpy(left.lanes, right.lanes), _scaled(one, factor))
    return _uniform_symbol(op, (left, right), dtype)


def _differs(op: str, dtype: np.dtype[Any]) -> bool:
    """Whether the last digits of an operator's result may differ from device to device."""
    return dtype.kind == "f" and (op == "pow" or (op == "truediv" and dtype.itemsize < 8))


def _keeps_order(dtype: np.dtype[Any]) -> bool:
    """Whether sums of the dtype are taken not to leave its range: those of narrow and of unsigned integers do."""
    return dtype.kind == "i" and dtype.itemsize >= 4


def compare(op: str, left: Value, right: Value) -> Value:
    """left op right as a bool (see :class:`pydp.lang.ir.Compare`)."""
    if left is None or right is None:
        return None
    ordered = op in ("eq", "ne") or _keeps_order(left.lanes.dtype)  # what is added to both may wrap one of them around
    if left.symbols == right.symbols and (left.is_exact or (left.lanes.dtype.kind in "iu" and ordered)):
        if left.lanes.dtype.names is not None:
            return None
        return Known(COMPARISONS[op].numpy(left.lanes, right.lanes))
    return _uniform_symbol(op, (left, right), np.dtype(np.bool_))


def unary(op: str, value: Value, dtype: np.dtype[Any]) -> Value:
    """op value (see :class:`pydp.lang.ir.Unary`)."""
    if value is None:
        return None
    if value.is_exact:
        return Known(UNARY[op].numpy(value.lanes))
    if op == "neg" and dtype.kind in "iu":
        return Known(UNARY[op].numpy(value.lanes), _scaled(value, -1))
    return _uniform_symbol(op, (value,), dtype)


def cast(value: Value, dtype: np.dtype[Any]) -> Value:
    """The value as one of `dtype`; unknowns survive where the type cannot wrap."""
    if value is None:
        return None
    if value.is_exact:
        return Known(numpy_math.cast(value.lanes, dtype))
    given = value.lanes.dtype
    wraps_alike = given.kind in "iu" and dtype.kind in "iu" and dtype.itemsize == given.itemsize
    if wraps_alike or (dtype.kind in "iu" and dtype.itemsize > given.itemsize and _keeps_order(given)):
        return Known(value.lanes.astype(dtype), value.symbols)
    return _uniform_symbol("cast", (value,), dtype)


def apply(name: str, compute: Callable[..., Any] | None, values: Sequence[Value], dtype: np.dtype[Any]) -> Value:
    """A function of values; compute None: one whose last digits differ from device to device."""
    if compute is not None and all(value is not None and value.is_exact for value in values):
        result = compute(*(value.lanes for value in values if value is not None))
        return Known(result if result.dtype == dtype else result.astype(dtype))
    return _uniform_symbol(name, values, dtype)
