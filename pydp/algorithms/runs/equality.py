"""When two adjacent elements belong to different runs, as OpenCL C."""

from __future__ import annotations

import numpy as np

from pydp.algorithms.sort.order import comparisons
from pydp.dtypes import c_name, is_record, vector_parts


def differ_vector(dtype: np.dtype, equal_nan: bool) -> str:
    """The expression of `differ` for vectors a and b, or "" if the dtype has no vector form.

    >>> differ_vector(np.dtype("float32"), True)
    '(a != b) & ((a == a) | (b == b))'
    """
    if dtype.kind == "f" and dtype.itemsize > 2 and equal_nan:
        return "(a != b) & ((a == a) | (b == b))"
    return "a != b" if dtype.kind in "iu" or (dtype.kind == "f" and dtype.itemsize > 2) else ""


def differ(dtype: np.dtype, equal_nan: bool) -> str:
    """The C source of ``int differ(a, b)``: whether the elements are not equal. Records and vectors are compared member
    by member.

    equal_nan: two NaNs are equal, if `dtype` is a float or complex number (with a NaN in any part), as in
    ``numpy.unique``.

    >>> differ(np.dtype("float32"), False)
    'static int differ(const float a, const float b) { return a != b; }\\n'
    """
    name = c_name(dtype)
    if dtype.kind == "c":
        body = "return a.x != b.x || a.y != b.y;"
        if equal_nan:
            body = (
                "const int a_nan = a.x != a.x || a.y != a.y, b_nan = b.x != b.x || b.y != b.y; "
                "return a_nan || b_nan ? a_nan != b_nan : a.x != b.x || a.y != b.y;"
            )
    elif is_record(dtype) or vector_parts(dtype):
        parts = [expression for expression, _ in comparisons("@", dtype)]
        pairs = [f"{part.replace('@', 'a')} != {part.replace('@', 'b')}" for part in parts]
        body = f"return {' || '.join(pairs)};"
    elif dtype.kind == "f" and equal_nan:
        body = "return a != b && (a == a || b == b);"
    else:
        body = "return a != b;"
    return f"static int differ(const {name} a, const {name} b) {{ {body} }}\n"
