"""A vector function of plain values (operator, predicate, key) as a C function that kernels call."""

from __future__ import annotations

import hashlib
import re
from dataclasses import dataclass
from typing import Any

import numpy as np

from pydp import dtypes
from pydp.lang import ir
from pydp.lang.analysis.trip_counts import LoopBound, hidden_iterations
from pydp.lang.opencl import helpers
from pydp.lang.opencl.c_text import Block, identifier, private_type
from pydp.lang.opencl.lowered import dtypes_of
from pydp.lang.opencl.statements import BodyC
from pydp.runtime.programs import program

HELPER_CALL = re.compile(r"(?<![\w.])lane_(?=\w+\()")


@dataclass(frozen=True)
class ValueText:
    """A C function.

    name: contains a hash of the text, so equal names are equal functions. arguments, result: dtypes.
    text: its definition, with the helpers that it calls. declarations: record types and extensions, which must precede
    it; :func:`pydp.dtypes.c_declarations` of `dtypes` gives the same text (and can join several functions' types).
    iterations: of all loops of a call, None if they depend on values. operation: the named operator
    that the function applies to its two arguments in either order, such as + or min, if it does nothing else, or "".
    """

    name: str
    arguments: tuple[np.dtype[Any], ...]
    result: np.dtype[Any]
    text: str
    declarations: str
    dtypes: tuple[np.dtype[Any], ...]
    iterations: int | None
    operation: str = ""


_OPERATIONS = {
    **{"add": "+", "mul": "*", "and": "&", "or": "|", "xor": "^"},
    **{"minimum": "min", "maximum": "max"},
}


def _operation(function: ir.ValueFunction) -> str:
    result = function.result
    operands: tuple[ir.Expr, ...]
    if isinstance(result, ir.Binary):
        name, operands = result.op, (result.left, result.right)
    elif isinstance(result, ir.Math):
        name, operands = result.name, result.values
    else:
        return ""
    read = [one.variable if isinstance(one, ir.Read) else None for one in operands]
    both = read in (list(function.arguments), list(function.arguments)[::-1])
    return _OPERATIONS.get(name, "") if not function.body and both else ""


def lower_value(function: ir.ValueFunction) -> ValueText:
    """The C function of `function`; bool arguments and results are ints of 0 and 1."""
    writer = BodyC(Block(1))
    writer.indexes = bool(function.privates)
    arguments = {variable.name for variable in function.arguments}
    writer.declare([one for one in function.variables if one.name not in arguments], function.privates)
    writer.statements(function.body)
    value = writer.expr(function.result)
    params: dict[str, object] = {
        "functions": helpers.text(writer.helpers),
        "result": private_type(function.result.dtype),
        "arguments": [f"{private_type(one.dtype)} {writer.variable(one)}" for one in function.arguments],
        "body": str(writer.block),
        "value": value,
    }
    digest = hashlib.sha1(repr(sorted(params.items())).encode()).hexdigest()[:10]
    name = f"{identifier('f_', function.name if function.name.isidentifier() else 'lambda')}_{digest}"
    # Two functions in one kernel may need the same helper: each has its own copy with its own name.
    text = program.render("value_function.mako", {**params, "name": name})
    text = HELPER_CALL.sub(f"{name}_lane_", text)
    used = tuple(sorted(set(dtypes_of(function)), key=str))
    looped = LoopBound(function).upper_bound(lambda leaf: None)
    return ValueText(
        name=name,
        arguments=tuple(one.dtype for one in function.arguments),
        result=function.result.dtype,
        text=text,
        declarations=dtypes.c_declarations(used),
        dtypes=used,
        iterations=None if looped is None else looped + hidden_iterations([function.result]),
        operation=_operation(function),
    )
