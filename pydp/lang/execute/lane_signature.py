"""Signatures: lanes with equal signatures certainly have equal values, although the values depend on data.

A signature is a hash for each lane of the expression, the argument elements that it reads (only arrays that the
function never writes) and the known index values. It shows, for example, that lanes that clamp their indexes at an edge
write the same value to the same element.
"""

from __future__ import annotations

import zlib
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from pydp.lang import ir
from pydp.lang.execute.symbolic_values import OptionalValue, SymbolicValue

FACTOR = np.int64(-7046029254386353131)  # odd multiplier of the hash: 2**64 divided by the golden ratio

Signature = Any  # an array of int64 with one element per lane, or a scalar for all lanes; None if unknown


def reads_changing(expression: ir.Expr, written: set[str]) -> bool:
    """Whether an expression reads an array that may change; it has no signature then. written: as for `signature`."""
    return any(isinstance(part, ir.Load) and _may_change(part.array, written) for part in ir.walk(expression))


def _may_change(array: ir.Array, written: set[str]) -> bool:
    return not isinstance(array, ir.GlobalArray) or array.name in written


def signature(
    expression: ir.Expr,
    evaluate: Callable[[ir.Expr], OptionalValue],
    variables: Mapping[str, Signature],
    written: set[str],
) -> Signature:
    """The signature of an expression; None if it reads an array that may change, or an unknown value.

    evaluate: returns the symbolic value of an expression without loads. variables: the signatures of variables whose
    values are unknown. written: the names of arrays that may change.
    """
    if isinstance(expression, ir.Load):
        if _may_change(expression.array, written):
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


def _of_known(value: SymbolicValue) -> Signature:
    lanes = np.asarray(value.lanes)
    if lanes.dtype.kind not in "biuf":
        return None
    bits = lanes.astype(np.float64).view(np.int64) if lanes.dtype.kind == "f" else lanes.astype(np.int64)
    return bits * FACTOR + np.int64(zlib.crc32(repr(value.symbols).encode()))
