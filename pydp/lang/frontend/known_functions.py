"""Built-in functions of the language: numeric functions of Python and NumPy, and functions as operators.

``max``, ``operator.add``, ``float`` and ``np.int64`` have no Python source. This table maps them to operations of the
typed form, for vector functions and for the operators of scan, reduce and sort.
"""

from __future__ import annotations

import builtins
import functools
import linecache
import math
import operator
from collections.abc import Callable
from typing import Any

import numpy as np

# name in ir.Math -> names in numpy and math, if the module has them
_NAMES = {
    "sqrt": "sqrt", "exp": "exp", "exp2": "exp2", "expm1": "expm1", "log": "log", "log2": "log2", "log10": "log10",
    "log1p": "log1p", "sin": "sin", "cos": "cos", "tan": "tan", "asin": "arcsin asin", "acos": "arccos acos",
    "atan": "arctan atan", "atan2": "arctan2 atan2", "sinh": "sinh", "cosh": "cosh", "tanh": "tanh",
    "asinh": "arcsinh asinh", "acosh": "arccosh acosh", "atanh": "arctanh atanh", "hypot": "hypot",
    "copysign": "copysign", "fmod": "fmod", "erf": "erf", "cbrt": "cbrt", "isnan": "isnan", "isinf": "isinf",
    "isfinite": "isfinite", "abs": "fabs",
}  # fmt: skip
_ROUNDING = {"floor": "floor", "ceil": "ceil", "trunc": "trunc"}
_OPERATORS = {
    "add": "add", "sub": "subtract sub", "mul": "multiply mul", "truediv": "true_divide divide truediv",
    "floordiv": "floor_divide floordiv", "mod": "remainder mod", "pow": "power pow", "shl": "left_shift lshift",
    "shr": "right_shift rshift", "and": "bitwise_and and_", "or": "bitwise_or or_", "xor": "bitwise_xor xor",
}  # fmt: skip
_COMPARISONS = {
    "lt": "less lt", "le": "less_equal le", "gt": "greater gt", "ge": "greater_equal ge", "eq": "equal eq",
    "ne": "not_equal ne",
}  # fmt: skip
ARITY = {"atan2": 2, "hypot": 2, "copysign": 2, "fmod": 2, "minimum": 2, "maximum": 2, "fma": 3}
TESTS = ("isnan", "isinf", "isfinite")


def _table() -> dict[int, tuple[str, str]]:
    """id of a Python function -> (kind of function, its name in the intermediate form)."""
    found: dict[int, tuple[str, str]] = {}

    def add(kind: str, names: dict[str, str], *modules: Any) -> None:
        for target, spellings in names.items():
            for module in modules:
                for spelling in spellings.split():
                    function = getattr(module, spelling, None)
                    if function is not None:
                        found[id(function)] = (kind, target)

    add("math", _NAMES, np, math)
    add("math", _ROUNDING, np)
    add("to_integer", _ROUNDING, math)
    add("operator", _OPERATORS, np, operator)
    add("comparison", _COMPARISONS, np, operator)
    add("math", {"rint": "rint"}, np)
    add("round", {"rint": "round"}, builtins, np)
    add("absolute", {"abs": "abs absolute"}, builtins, np, operator)
    add("minimax", {"minimum": "min", "maximum": "max"}, builtins)
    add("minimax", {"minimum": "minimum", "maximum": "maximum"}, np)
    add("logical", {"and": "logical_and", "or": "logical_or", "xor": "logical_xor"}, np)
    add("unary", {"neg": "negative neg", "pos": "positive pos", "invert": "invert bitwise_not inv"}, np, operator)
    add("not", {"not": "logical_not not_"}, np, operator)
    names = "divmod len pow int float bool"
    add("special", {name: name for name in names.split()}, builtins)
    add("special", {"where": "where", "square": "square", "reciprocal": "reciprocal", "sign": "sign"}, np)
    add("special", {"clip": "clip", "divmod": "divmod"}, np)
    add("special", {"degrees": "degrees rad2deg", "radians": "radians deg2rad"}, np, math)
    add("special", {"fpow": "pow"}, math)
    return found


TABLE = _table()


def fold(name: str, values: tuple[float, ...]) -> float | bool | None:
    """The function of constant numbers; None if it has no finite value."""
    function: Callable[..., Any] | None = getattr(math, _spelling(name), None) or getattr(np, name, None)
    if function is None:
        return None
    try:
        result = function(*values)
    except (ValueError, OverflowError, TypeError):
        return None
    if name in TESTS:
        return bool(result)
    return float(result) if math.isfinite(result) else None


def _spelling(name: str) -> str:
    return {"abs": "fabs"}.get(name, name)


def is_known(fn: object) -> bool:
    """Whether `fn` is a function in the table or a NumPy scalar type."""
    return id(fn) in TABLE or (isinstance(fn, type) and issubclass(fn, np.generic))


@functools.lru_cache(maxsize=256)
def as_lambda(fn: Callable[..., Any], count: int) -> Callable[..., Any]:
    """``lambda a0, a1: fn(a0, a1)`` with `count` arguments and translatable source."""
    names = ", ".join(f"a{n}" for n in range(count))
    text = f"lambda {names}: function({names})\n"
    file = f"<a known function of {count} values>"
    linecache.cache[file] = (len(text), None, [text], file)
    made: Callable[..., Any] = eval(compile(text, file, "eval"), {"function": fn})
    return made
