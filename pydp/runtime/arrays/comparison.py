"""Rules for elementwise comparisons: NumPy's comparison dtypes, out-of-range integers, records."""

from __future__ import annotations

from typing import Any

import numpy as np

from pydp.dtypes import c_member, c_name, native, record_members, vector_parts
from pydp.errors import InvalidArgument

UFUNCS = {
    "eq": np.equal,
    "ne": np.not_equal,
    "lt": np.less,
    "le": np.less_equal,
    "gt": np.greater,
    "ge": np.greater_equal,
}
SIGNS = {"eq": "==", "ne": "!=", "lt": "<", "le": "<=", "gt": ">", "ge": ">="}


def compared_dtypes(op: str, left: Any, right: Any) -> tuple[np.dtype, np.dtype]:
    """The dtypes to which NumPy converts the two sides of ``left op right`` before it compares them.

    `left` and `right` are dtypes or types of Python numbers. Both results are the same dtype, with two exceptions:
    int64 and uint64 have no common integer type and are compared by value; records are compared member by member.
    Raises InvalidArgument for types that NumPy does not compare.

    >>> compared_dtypes("lt", np.dtype("int32"), np.dtype("uint64"))
    (dtype('int64'), dtype('uint64'))
    """
    records = [isinstance(one, np.dtype) and one.names is not None for one in (left, right)]
    try:
        if not any(records):
            found = UFUNCS[op].resolve_dtypes((left, right, None))
            return found[0], found[1]
        if all(records) and op in ("eq", "ne"):
            np.result_type(left, right)  # NumPy compares records that have a common dtype
            return native(left), native(right)
    except TypeError:
        pass
    names = [getattr(one, "__name__", str(one)) for one in (left, right)]
    raise InvalidArgument(
        f"{names[0]} {SIGNS[op]} {names[1]} is not defined; booleans and numbers can be compared, and records of the "
        "same members by == and !="
    )


def known_result(op: str, number: Any, dtype: np.dtype) -> np.bool_ | None:
    """The result of ``x op number`` if `number` is an integer outside the range of the integer `dtype`, else None."""
    if type(number) is not int or dtype.kind not in "iu":
        return None
    limits = np.iinfo(dtype)
    if limits.min <= number <= limits.max:
        return None
    return np.bool_(op == "ne" or op in (("lt", "le") if number > limits.max else ("gt", "ge")))


def pair(left: np.dtype, right: np.dtype) -> dict[str, Any]:
    """The template parameters that compare a stored value of `left` with one of `right`.

    Scalars: the C types and the kinds ("real", "complex", "bool") before and after the conversion, and the signed side
    if only one is signed ("left", "right" or ""). Records and vectors: the C names of each member on both sides, the
    shape of an array member, and the pair of its elements.
    """
    if left.names is None:
        kinds = compared_dtypes("eq", left, right)
        signed = [kind.kind == "i" for kind in kinds]
        sides = [
            {"type": c_name(own), "lane": lane(own), "to": c_name(kind), "to_lane": lane(kind), "part": part(kind)}
            for own, kind in zip((left, right), kinds, strict=True)
        ]
        return {"sides": sides, "signed": "" if signed[0] == signed[1] else "left" if signed[0] else "right"}
    members = zip(_members(left), _members(right), strict=True)
    return {
        "members": [
            {"names": (c_member(name), c_member(other)), "shape": shape, "pair": pair(one, another)}
            for (name, one, shape), (other, another, _) in members
        ]
    }


def dtypes_within(left: np.dtype, right: np.dtype) -> set[np.dtype]:
    """The dtypes in which :func:`pair` compares; the device must support them."""
    if left.names is None:
        return set(compared_dtypes("eq", left, right))
    members = zip(_members(left), _members(right), strict=True)
    return {kind for (_, one, _), (_, other, _) in members for kind in dtypes_within(one, other)}


def _members(dtype: np.dtype) -> list[tuple[str, np.dtype, tuple[int, ...]]]:
    """(name, element dtype, array shape) of a record's members, or of a vector's components, in the dtype's order."""
    vector = vector_parts(dtype)
    if vector is not None:  # leaves out the unused fourth component of a 3-component vector
        return [(f"s{place:x}", vector[0], ()) for place in range(vector[1])]
    assert dtype.names is not None
    found = {name: (name, base, shape) for name, base, shape, _ in record_members(dtype)}
    return [found[name] for name in dtype.names]


def lane(dtype: np.dtype) -> str:
    """The conversion kind of a dtype, which the template needs besides its C type."""
    return {"c": "complex", "b": "bool", "V": "opaque"}.get(dtype.kind, "real")


def part(dtype: np.dtype) -> str:
    """The C type of the parts of a complex dtype; for other dtypes, their C type."""
    return c_name(np.dtype(f"f{dtype.itemsize // 2}")) if dtype.kind == "c" else c_name(dtype)
