"""Which lanes surely have equal values, where the values themselves depend on data.

A signature is one number for each lane, made from the expression, from the arguments' elements that it reads (of
arrays that the function never writes) and from what is known of indexes: lanes with equal signatures have equal
values. Staging code that clamps its indexes at an edge writes one element from several lanes, with one value.
"""

from __future__ import annotations

import zlib
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from pydp.lang import ir
from pydp.lang.execute.symbolic_values import Known, Value

FACTOR = np.int64(-7046029254386353131)  # an odd number with bits everywhere (2**64 over the golden ratio)

Signature = Any  # an array of int64, one for each lane or one for all; None where nothing is known


def signature(
    expression: ir.Expr,
    evaluate: Callable[[ir.Expr], Value],
    variables: Mapping[str, Signature],
    written: set[str],
) -> Signature:
    """The signature of an expression, None where it reads what may change or what nothing is known of.

    evaluate: the known value of an expression without loads. variables: signatures of variables whose value is
    not known. written: names of arrays that may change.
    """
    if isinstance(expression, ir.Load):
        if not isinstance(expression.array, ir.GlobalArray) or expression.array.name in written:
            return None
        name, parts = expression.array.name, expression.indices
    else:
        if not any(isinstance(part, ir.Load) for part in ir.walk(expression)):
            value = evaluate(expression)
            if value is not None:
                return _of_known(value)
        if isinstance(expression, ir.Read):
            return variables.get(expression.variable.name)
        parts = tuple(ir.children(expression))
        if not parts:
            return None
        details = [getattr(expression, key, "") for key in ("op", "name")]
        name = f"{type(expression).__name__} {expression.dtype} {details}"
    total: Signature = np.asarray(zlib.crc32(name.encode()), np.int64)
    for part in parts:
        inner = signature(part, evaluate, variables, written)
        if inner is None:
            return None
        total = (total ^ (total >> np.int64(29))) * FACTOR + inner
    return total


def _of_known(value: Known) -> Signature:
    lanes = np.asarray(value.lanes)
    if lanes.dtype.kind not in "biuf":
        return None
    bits = lanes.astype(np.float64).view(np.int64) if lanes.dtype.kind == "f" else lanes.astype(np.int64)
    return bits * FACTOR + np.int64(zlib.crc32(repr(value.symbols).encode()))
