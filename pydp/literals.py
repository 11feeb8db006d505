"""Exact literals: OpenCL C text of a value, of any dtype that devices hold."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from pydp.dtypes import c_member, c_name, is_record, native, record_members, vector_parts
from pydp.errors import InvalidArgument


def c_literal(value: Any, dtype: Any) -> str:
    """OpenCL C text of exactly `value` as an element of `dtype` (an int, float, tuple for vectors and records).

    Floats are written in hexadecimal, so that no bit is lost; raises InvalidArgument where the value does
    not fit.

    >>> c_literal(-128, "int8"), c_literal(1.5, "float32"), c_literal(7, "uint64")
    ('((char)-128)', '0x1.8000000000000p+0f', '7UL')
    """
    dtype = native(dtype)
    name = c_name(dtype)
    vector = vector_parts(dtype)
    if vector is not None:
        parts = list(_sequence(value, dtype, vector[1]))
        return f"(({name})({', '.join(c_literal(part, vector[0]) for part in parts)}))"
    if dtype.names is not None:
        return f"(({name}){_initializer(value, dtype)})"
    if dtype.kind == "c":
        number = complex(value)
        half = np.dtype(f"f{dtype.itemsize // 2}")
        return f"(({name})({c_literal(number.real, half)}, {c_literal(number.imag, half)}))"
    if dtype.kind == "f":
        return _float_literal(value, dtype)
    return _integer_literal(value, dtype, name)


def _sequence(value: Any, dtype: np.dtype, count: int) -> list[Any]:
    if isinstance(value, np.ndarray) and value.shape == () and value.dtype.names is not None:
        value = value[()]
    parts = list(value.tolist() if isinstance(value, np.ndarray) else value)
    if len(parts) < count:
        raise InvalidArgument(f"{value!r} has {len(parts)} parts; {dtype} needs {count}")
    return parts[:count]


def _initializer(value: Any, dtype: np.dtype) -> str:
    assert dtype.names is not None and dtype.fields is not None
    if isinstance(value, dict):
        given = dict(value)
    else:
        given = dict(zip(dtype.names, _sequence(value, dtype, len(dtype.names)), strict=True))
    parts = []
    for member, base, shape, _ in record_members(dtype):
        if member not in given:
            raise InvalidArgument(f"{value!r} has no field {member!r}; {dtype} needs one")
        parts.append(f".{c_member(member)} = {_nested(given[member], base, shape)}")
    return "{" + ", ".join(parts) + "}"


def _nested(value: Any, base: np.dtype, shape: tuple[int, ...]) -> str:
    if shape:
        return "{" + ", ".join(_nested(part, base, shape[1:]) for part in _sequence(value, base, shape[0])) + "}"
    return _initializer(value, base) if is_record(base) else c_literal(value, base)


def _float_literal(value: Any, dtype: np.dtype) -> str:
    try:
        if value is None:
            raise TypeError("None is no number")
        with np.errstate(over="ignore"):
            number = float(dtype.type(value))
    except (TypeError, ValueError, OverflowError) as error:
        raise InvalidArgument(f"{value!r} is not a {dtype}; real numbers are accepted") from error
    cast = {"f2": "half", "f8": "double"}.get(f"f{dtype.itemsize}", "float")
    if math.isnan(number):
        text = "NAN" if cast == "float" else f"(({cast})NAN)"
        return f"(-{text})" if math.copysign(1.0, number) < 0 else text
    if math.isinf(number):
        text = "INFINITY" if cast == "float" else f"(({cast})INFINITY)"
        return f"(-{text})" if number < 0 else text
    text = number.hex() + ("" if cast == "double" else "f")
    if cast == "half":
        return f"((half){text})"
    return f"({text})" if text.startswith("-") else text


def _integer_literal(value: Any, dtype: np.dtype, name: str) -> str:
    try:
        number = int(value)
        exact = number == value
    except (TypeError, ValueError, OverflowError):
        exact = False
    low, high = (0, 1) if dtype.kind == "b" else (int(np.iinfo(dtype).min), int(np.iinfo(dtype).max))
    if not exact or not low <= number <= high:
        raise InvalidArgument(f"{value!r} is not a {dtype}; integers from {low} to {high} are accepted")
    if dtype.itemsize < 4:
        return f"(({name}){number})"
    suffix = {"int": "", "uint": "u", "long": "L", "ulong": "UL"}[name]
    if number == low < 0:  # the magnitude of the smallest integer has no literal of its own type
        return f"(-{high}{suffix} - 1)"
    return f"({number}{suffix})" if number < 0 else f"{number}{suffix}"
