"""An element of one dtype as a value of another, in OpenCL C: what an accumulator of a different type needs."""

from __future__ import annotations

import numpy as np

from pydp.dtypes import c_name, is_record, vector_parts
from pydp.errors import InvalidArgument


def conversion(source: np.dtype, target: np.dtype, name: str = "x") -> str:
    """The C expression of ``x``, of type `source`, as a `target`: what astype does.

    Raises InvalidArgument where NumPy would lose an imaginary part, and for records and vectors of another type.

    >>> conversion(np.dtype("int8"), np.dtype("float32"))
    '(float)(x)'
    """
    if source == target:
        return "x"
    plain = not any(is_record(d) or vector_parts(d) for d in (source, target))
    if not plain or (source.kind == "c" and target.kind != "c"):
        raise InvalidArgument(f"{name} of dtype {source} cannot be folded as {target}; its own dtype is accepted")
    to = c_name(target)
    if target.kind == "b":
        return "(uchar)(x != 0)"
    if target.kind == "c":
        part = c_name(np.dtype(f"f{target.itemsize // 2}"))
        return f"convert_{to}(x)" if source.kind == "c" else f"({to})(({part})(x), ({part})(0))"
    return f"({to})(x)"
