"""The types of vector functions, in one place.

A number has a NumPy dtype and is either *typed* (it came from an array, a NumPy scalar, a cast) or *plain* (a
Python number: a literal, a loop counter, an index, a plain argument, and what is computed of these alone).

1. Typed with typed: NumPy's promotion, except that an integer with a float gives the float's type
   (int32 * float32 is float32). uint64 with a signed integer has no integer type: an error that asks for a cast.
2. Plain with typed (NEP 50): a plain number takes the typed one's type. Two exceptions that lose nothing: a plain
   float with an integer stays a plain float (float64 with 64-bit typed integers), and a plain integer that is
   known at run time only (a counter, an index) never gets narrower than the index type: uint8 + counter is a plain
   integer. A literal, and a number that the call gives, must fit the type that it takes. Comparisons are by value,
   whatever the types, and so are the divisions, minima and maxima of typed integers of 32 bits with plain ones. A
   conditional, minimum or maximum of both has the typed one's type, and so has a variable that both are assigned to,
   but the value is not converted: arithmetic with typed integers wraps, a wider destination takes it as it is.
3. Plain integers are integers of 64 bits: nothing wraps before that, and a type that they are stored or cast to keeps
   their low bits. Where rule 2 compares widths, they count as the index type (int32, int64 for large arrays), whatever
   their values. Three exceptions: int(x) of a uint32 or of a 64-bit integer counts as int64, a literal of 2**63 or more
   as uint64, and in a function of values (an operator, a key) a literal beyond int32 as int64. Kernels compute them in
   32 bits where only the low bits are needed, or where a launch's numbers and extents show that 32 bits hold the values
   (see `lang.analysis.integer_ranges`): the results are the same, and one or two kernels serve all values of an
   argument. int(x) of a float is exact where it fits the index type.
   Plain floats are float32, and float64 where they meet float64: a variable that only ever holds plain floats is
   stored as float64 as soon as some use of it needs that.
4. Booleans with numbers count as plain integers; bool & bool is bool, bool + bool is an integer.
5. ``/`` of two integers is a plain float where both are plain, else float32, or float64 where one is a 64-bit
   typed integer. Functions such as sqrt take integers in the same way.
6. A variable has one type, joined over all its assignments by the same rules: integer with float is the float's,
   bool with a number the number's. A record joins only with the same record.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

BOOL = np.dtype(np.bool_)
INT32 = np.dtype(np.int32)
INT64 = np.dtype(np.int64)
UINT64 = np.dtype(np.uint64)
FLOAT32 = np.dtype(np.float32)
FLOAT64 = np.dtype(np.float64)


class NoCommonType(Exception):
    """Two types that no rule joins; the message is what to write instead."""


@dataclass(frozen=True)
class Type:
    """A number's type: see the module's docstring. `literal`: plain, and its value is known."""

    dtype: np.dtype[Any]
    plain: bool = False
    literal: bool = False

    def __str__(self) -> str:
        if self.plain:
            return "plain integer" if self.dtype.kind in "iu" else "plain float"
        return "record" if self.dtype.names else str(self.dtype)


def is_integer(dtype: np.dtype[Any]) -> bool:
    """True for signed and unsigned integers, False for bool."""
    return dtype.kind in "iu"


def common(left: Type, right: Type) -> Type:
    """The type of two numbers' sum (rules 1, 2 and 4; booleans count as numbers here)."""
    if left.dtype.names or right.dtype.names:
        if left.dtype == right.dtype:
            return left
        raise NoCommonType(f"a record goes with the same record only, not {left} with {right}")
    if BOOL in (left.dtype, right.dtype):
        other = right if left.dtype == BOOL else left
        return Type(other.dtype, other.plain)
    if left.plain and right.plain:
        return _both_plain(left, right)
    if left.plain or right.plain:
        return _plain_with_typed(*((left, right) if left.plain else (right, left)))
    return Type(_both_typed(left.dtype, right.dtype))


def _both_plain(left: Type, right: Type) -> Type:
    if left.dtype.kind == right.dtype.kind:
        wide = max(left.dtype, right.dtype, key=lambda dtype: dtype.itemsize)
    else:  # a float, else uint64: a literal of 2**63 or more
        wide = max(left.dtype, right.dtype, key=lambda dtype: "iuf".index(dtype.kind))
    return Type(wide, True, left.literal and right.literal)


def _plain_with_typed(plain: Type, typed: Type) -> Type:
    if plain.dtype.kind == "f":
        if typed.dtype.kind == "f":
            return typed
        return Type(FLOAT64) if typed.dtype.itemsize == 8 else Type(plain.dtype, True)
    if typed.dtype.kind == "f" or plain.literal or typed.dtype.itemsize >= plain.dtype.itemsize:
        return typed
    return Type(plain.dtype, True)


def _both_typed(left: np.dtype[Any], right: np.dtype[Any]) -> np.dtype[Any]:
    if left == right:
        return left
    if left.kind == "f" and right.kind == "f":
        return left if left.itemsize > right.itemsize else right
    if "f" in (left.kind, right.kind):
        return left if left.kind == "f" else right
    result = np.promote_types(left, right)
    if result.kind == "f":
        signed = left if left.kind == "i" else right
        raise NoCommonType(
            f"uint64 with {signed} has no integer type that holds both; cast one: np.int64(...) or np.uint64(...)"
        )
    return result


def join(left: Type, right: Type) -> Type:
    """The type of a variable that is assigned both (rule 6)."""
    if left.dtype == BOOL and right.dtype == BOOL:
        return Type(BOOL)
    result = common(left, right)
    return Type(result.dtype, result.plain)


def quotient(left: Type, right: Type) -> Type:
    """The type of left / right, and of functions with real results (rule 5)."""
    types = [as_real(left), as_real(right)]
    if left.dtype.kind == "f" or right.dtype.kind == "f":
        return common(left, right) if is_number(left) and is_number(right) else common(*types)
    return common(*types)


def is_number(kind: Type) -> bool:
    """True for integers and floats, False for booleans and records."""
    return kind.dtype.kind in "iuf"


def as_real(kind: Type) -> Type:
    """The floating type that a number has where a real one is needed (rule 5)."""
    if kind.dtype.kind == "f":
        return kind
    if kind.dtype == BOOL or kind.plain:
        return Type(FLOAT32, True, kind.literal)
    return Type(FLOAT64 if kind.dtype.itemsize == 8 else FLOAT32)
