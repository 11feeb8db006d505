"""The type rules of vector functions.

A number has a NumPy dtype and is either *typed* or *weak*. It is typed if it comes from an array, a NumPy scalar or a
cast. It is weak if it is a Python number (a literal, a loop counter, an index, a Python int or float argument) or is
computed only from weak numbers.

1. Typed with typed: NumPy's promotion, except that an integer with a float gives the float's type
   (int32 * float32 is float32). uint64 with a signed integer has no common integer type: the error asks for a cast.
2. Weak with typed (NEP 50): the weak number takes the typed number's type. There are two exceptions, which lose no
   information. A weak float with an integer remains a weak float (float64 with 64-bit typed integers). A weak integer
   whose value is known only at run time (a counter, an index) never becomes narrower than the index type: uint8 +
   counter is a weak integer. A literal or a number argument must fit the type that it takes. Comparisons compare the
   values, whatever the types; so do division, minimum and maximum of a 32-bit typed integer and a weak integer. A
   conditional, minimum or maximum of weak and typed has the typed number's type, and so has a variable to which both
   are assigned. The value itself is not converted: arithmetic with typed integers wraps it, and a store to a wider
   type keeps it.
3. Weak integers have 64 bits and wrap only beyond that; a store or cast to a narrower type keeps their low bits. If
   rule 2 compares widths, they have the width of the index type (int32, or int64 for large arrays), whatever their
   values. There are three exceptions: int(x) of a uint32 or of a 64-bit integer counts as int64, a literal of 2**63 or
   more as uint64, and in a function of values (an operator, a key) a literal beyond int32 as int64. Kernels compute
   weak integers in 32 bits if only the low bits are needed, or if the arguments and extents of a launch prove that the
   values fit into 32 bits (see `lang.analysis.integer_ranges`). The results are the same, so one or two kernels serve
   all values of an argument. int(x) of a float is exact if the result fits the index type, and
   if a 64-bit integer or a float64 is made of it: by a store, or in arithmetic with one.
   Weak floats are float32, or float64 together with float64. A variable that holds only weak floats is stored as
   float64 if any use of it needs float64.
4. A boolean with a number counts as a weak integer; bool & bool is bool, bool + bool is an integer.
5. ``/`` of two integers is a weak float if both are weak, else float32, or float64 if one is a 64-bit typed integer.
   Functions such as sqrt convert integers in the same way.
6. A variable has one type, joined over all its assignments by the same rules: an integer with a float gives the float's
   type, a bool with a number the number's type. A record type joins only with the same record type.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

BOOL = np.dtype(np.bool_)
INT32 = np.dtype(np.int32)
INT64 = np.dtype(np.int64)
UINT64 = np.dtype(np.uint64)
FLOAT32 = np.dtype(np.float32)
FLOAT64 = np.dtype(np.float64)
MIRRORED = {"lt": "gt", "le": "ge", "gt": "lt", "ge": "le", "eq": "eq", "ne": "ne"}  # comparisons with swapped operands


class NoCommonType(Exception):
    """Two types have no common type. The message says how to change the source."""


class Type(NamedTuple):
    """The type of a number; see the module's docstring. literal: the type is weak and the value is known."""

    dtype: np.dtype[Any]
    weak: bool = False
    literal: bool = False

    def __str__(self) -> str:
        if self.weak:
            return "Python integer" if self.dtype.kind in "iu" else "Python float"
        return "record" if self.dtype.names else str(self.dtype)


def is_integer(dtype: np.dtype[Any]) -> bool:
    """True for signed and unsigned integers, False for bool."""
    return dtype.kind in "iu"


def common(left: Type, right: Type) -> Type:
    """The type of the sum of two numbers (rules 1, 2 and 4). Booleans count as numbers."""
    if left.dtype.names or right.dtype.names:
        if left.dtype == right.dtype:
            return left
        raise NoCommonType(f"{left} and {right} have no common type; a record combines only with the same record type")
    if BOOL in (left.dtype, right.dtype):
        other = right if left.dtype == BOOL else left
        return Type(other.dtype, other.weak)
    if left.weak and right.weak:
        return _both_weak(left, right)
    if left.weak or right.weak:
        return _weak_with_typed(*((left, right) if left.weak else (right, left)))
    return Type(_both_typed(left.dtype, right.dtype))


def _both_weak(left: Type, right: Type) -> Type:
    if left.dtype.kind == right.dtype.kind:
        wide = max(left.dtype, right.dtype, key=lambda dtype: dtype.itemsize)
    else:  # a float, else uint64: a literal of 2**63 or more
        wide = max(left.dtype, right.dtype, key=lambda dtype: "iuf".index(dtype.kind))
    return Type(wide, True, left.literal and right.literal)


def _weak_with_typed(weak: Type, typed: Type) -> Type:
    if weak.dtype.kind == "f":
        if typed.dtype.kind == "f":
            return typed
        return Type(FLOAT64) if typed.dtype.itemsize == 8 else Type(weak.dtype, True)
    if typed.dtype.kind == "f" or weak.literal or typed.dtype.itemsize >= weak.dtype.itemsize:
        return typed
    return Type(weak.dtype, True)


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
            f"uint64 and {signed} have no common integer type; cast one of them with np.int64(...) or np.uint64(...)"
        )
    return result


def join(left: Type, right: Type) -> Type:
    """The type of a variable to which values of both types are assigned (rule 6)."""
    if left.dtype == BOOL and right.dtype == BOOL:
        return Type(BOOL)
    result = common(left, right)
    return Type(result.dtype, result.weak)


def quotient(left: Type, right: Type) -> Type:
    """The type of left / right, and of functions with floating-point results (rule 5)."""
    types = [as_real(left), as_real(right)]
    if left.dtype.kind == "f" or right.dtype.kind == "f":
        return common(left, right) if is_number(left) and is_number(right) else common(*types)
    return common(*types)


def is_number(kind: Type) -> bool:
    """True for integers and floats, False for booleans and records."""
    return kind.dtype.kind in "iuf"


def as_real(kind: Type) -> Type:
    """The floating-point type to which a number is converted if a real number is needed (rule 5)."""
    if kind.dtype.kind == "f":
        return kind
    if kind.dtype == BOOL or kind.weak:
        return Type(FLOAT32, True, kind.literal)
    return Type(FLOAT64 if kind.dtype.itemsize == 8 else FLOAT32)
