"""Conversion of an element to another dtype in OpenCL C, for accumulators of a different type."""

from __future__ import annotations

import numpy as np

from pydp.dtypes import c_name, is_record, vector_parts
from pydp.errors import InvalidArgument


def conversion(source: np.dtype, value: np.dtype, what: str = "x") -> tuple[str, str]:
    """C expressions that convert ``x`` and the vector ``$X`` from dtype `source` to dtype `value`, like astype.

    ``$N`` in the second is the vector width; it is "" if a convert_ function is not enough. Raises InvalidArgument if
    an imaginary part would be lost, and for different records and vectors of different lengths.

    >>> conversion(np.dtype("int8"), np.dtype("float32"))
    ('(float) x', 'convert_float$N($X)')
    """
    if source == value:
        return "x", "$X"
    name = c_name(value)
    parts, target = vector_parts(source), vector_parts(value)
    if parts and target and parts[1] == target[1]:
        return f"convert_{name}(x)", ""
    plain = not (parts or target or is_record(source) or is_record(value))
    if plain and value.kind == "b":
        return ("(uchar) (x.x != 0 || x.y != 0)" if source.kind == "c" else "(uchar) (x != 0)"), ""
    if plain and value.kind == "c":
        if source.kind == "c":
            return f"convert_{name}(x)", ""
        return f"({name}) (({name[:-1]}) x, 0)", ""
    if plain and source.kind != "c":
        return f"({name}) x", f"convert_{name}$N($X)"
    raise InvalidArgument(f"{what} of dtype {source} cannot be converted to {value}; use dtype={source} or convert it")
