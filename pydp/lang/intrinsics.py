"""The operators and functions of vector functions: one table row for each.

The front end takes names, argument counts and type rules from a row; the host runs its NumPy form; the lowerings write
its OpenCL C; :mod:`pydp.math` gives it to Python code, with its documentation. To add a function, add a row.
"""

from __future__ import annotations

import builtins
import inspect
import math
import operator
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from pydp.errors import InvalidArgument
from pydp.lang import numpy_math

# --- operators ------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Operator:
    """An operator. `symbol`: in Python; `c`: in OpenCL C, "" if C has no operator with the same results.

    spellings: the functions of numpy and operator that are this operator."""

    name: str
    symbol: str
    numpy: Callable[..., Any]
    python: Callable[..., Any]
    c: str = ""
    spellings: str = ""


def _power(left: Any, right: Any) -> Any:
    if np.asarray(left).dtype.kind in "iu":
        right = np.maximum(right, np.zeros((), np.asarray(right).dtype))  # lanes that are not active may hold any
    return np.power(left, right)


def _by_name(*rows: Operator) -> dict[str, Operator]:
    return {row.name: row for row in rows}


BINARY = _by_name(
    Operator("add", "+", np.add, operator.add, "+", "add"),
    Operator("sub", "-", np.subtract, operator.sub, "-", "subtract sub"),
    Operator("mul", "*", np.multiply, operator.mul, "*", "multiply mul"),
    Operator("truediv", "/", np.true_divide, operator.truediv, "/", "true_divide divide truediv"),
    Operator("floordiv", "//", np.floor_divide, operator.floordiv, "", "floor_divide floordiv"),
    Operator("mod", "%", np.remainder, operator.mod, "", "remainder mod"),
    Operator("pow", "**", _power, operator.pow, "", "power pow"),
    Operator("shl", "<<", np.left_shift, operator.lshift, "", "left_shift lshift"),
    Operator("shr", ">>", np.right_shift, operator.rshift, "", "right_shift rshift"),
    Operator("and", "&", np.bitwise_and, operator.and_, "&", "bitwise_and and_"),
    Operator("or", "|", np.bitwise_or, operator.or_, "|", "bitwise_or or_"),
    Operator("xor", "^", np.bitwise_xor, operator.xor, "^", "bitwise_xor xor"),
)
COMPARISONS = _by_name(
    Operator("lt", "<", np.less, operator.lt, "<", "less lt"),
    Operator("le", "<=", np.less_equal, operator.le, "<=", "less_equal le"),
    Operator("gt", ">", np.greater, operator.gt, ">", "greater gt"),
    Operator("ge", ">=", np.greater_equal, operator.ge, ">=", "greater_equal ge"),
    Operator("eq", "==", np.equal, operator.eq, "==", "equal eq"),
    Operator("ne", "!=", np.not_equal, operator.ne, "!=", "not_equal ne"),
)
UNARY = _by_name(
    Operator("neg", "-", np.negative, operator.neg, "-", "negative neg"),
    Operator("pos", "+", np.positive, operator.pos, "", "positive pos"),
    Operator("invert", "~", np.invert, operator.invert, "~", "invert bitwise_not inv"),
    Operator("not", "not ", np.logical_not, operator.not_, "!", "logical_not not_"),
)
SYMBOLS = {row.name: row.symbol for table in (BINARY, COMPARISONS) for row in table.values()}
BITWISE = ("and", "or", "xor")
SHIFTS = ("shl", "shr")
ATOMIC = {
    "add": np.add, "min": np.minimum, "max": np.maximum,
    "and": np.bitwise_and, "or": np.bitwise_or, "xor": np.bitwise_xor,
}  # fmt: skip


# --- functions ------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Function:
    """A function of numbers, the same for every lane.

    rule: the types that it takes and gives, a key of RULES.
    numpy: the function for arrays and NumPy scalars of one type.
    c: how OpenCL C computes it, for operands of a kind (b, i, u, f) or of a kind and size (i8): "name" is a function
        of OpenCL C, "lane name" one of lane_functions.mako, "each name" one that vectors call for each component;
        "" is the operand itself, "0" and "1" are constants. A kind without an entry is refused.
    spellings: names of the function in numpy and math.
    exact: the kinds (or kind and size) for which all devices and NumPy have the same result, bit for bit, apart from
        subnormal floats on devices that take them as 0.
    differs: for a function that is not exact and does not round: the values for which devices differ.
    """

    name: str
    arity: int
    rule: str
    numpy: Callable[..., Any]
    c: Mapping[str, str]
    doc: str
    spellings: str = ""
    exact: str = ""
    differs: str = ""

    def c_form(self, dtype: np.dtype[Any]) -> str | None:
        """The entry of `c` for operands of `dtype`; None if there is none."""
        own = self.c.get(f"{dtype.kind}{dtype.itemsize}")
        return self.c.get(dtype.kind) if own is None else own

    def refusal(self, dtype: np.dtype[Any]) -> str:
        """Why the function does not take operands of `dtype`; "" if it does."""
        if self.c_form(dtype) is not None:
            return ""
        accepted = [one for one in map(np.dtype, _DTYPES) if self.c_form(one) is not None]
        names = [str(one) for one in accepted]
        if {one.kind for one in accepted} <= {"i", "u"} and len(names) == 8:
            names = ["integers"]
        elif {one.kind for one in accepted} == {"f"} and len(names) == 3:
            names = ["floats"]
        verb = "is" if len(accepted) == 1 else "are"
        return f"{self.name} of {dtype} is not defined; {', '.join(names)} {verb} accepted"

    def is_exact(self, dtype: np.dtype[Any]) -> bool:
        """Whether all devices compute the same for operands of `dtype`."""
        return dtype.kind in self.exact.split() or f"{dtype.kind}{dtype.itemsize}" in self.exact.split()


_DTYPES = "bool int8 int16 int32 int64 uint8 uint16 uint32 uint64 float16 float32 float64".split()
RULES = {
    "real": "Takes floats of one type; integers become float32, float64 if they have 64 bits. Returns the same type.",
    "test": "Takes floats; integers become floats. Returns a bool.",
    "integer": "Takes integers of one type; Python integers take the type of the others, or int64. Returns the same "
    "type.",
    "unsigned": "Takes integers of one type; Python integers take the type of the others, or int64. Returns the "
    "unsigned type of the same size.",
    "double": "Takes an integer of at most 32 bits and the unsigned integer of the same size. Returns twice the bits.",
    "number": "Takes integers or floats of one type. Returns the same type.",
}


def _real(names: str, doc: str, numpy_form: Callable[..., Any], arity: int = 1, **more: Any) -> Function:
    """A function of floats: its name, then its spellings in numpy and math."""
    name, *spellings = names.split()
    forms = more.pop("c", {"f": name})
    return Function(name, arity, more.pop("rule", "real"), numpy_form, forms, doc, " ".join(spellings), **more)


def _integer(name: str, arity: int, doc: str, numpy_form: Callable[..., Any], **more: Any) -> Function:
    form = more.pop("c", name)
    forms = form if isinstance(form, dict) else {"i": form, "u": form}
    return Function(name, arity, more.pop("rule", "integer"), numpy_form, forms, doc, exact="i u", **more)


# lane: drivers' own functions return no value, or a wrong one, for some constants; lane_functions.mako says which.
_ROUNDING = {"i": "", "u": "", "b": ""}
_NEVER = {"i": "0", "u": "0", "b": "0"}
_ROWS = (
    _real("sqrt sqrt", "The square root.", np.sqrt, exact="f8"),
    _real("rsqrt", "1 / sqrt(x).", numpy_math.rsqrt, c={"f": "rsqrt", "f4": "lane rsqrt", "f8": "lane rsqrt"}),
    _real("cbrt cbrt", "The cube root.", np.cbrt),
    _real("exp exp", "e to the power of x.", np.exp, c={"f": "lane number_exp"}),
    _real("exp2 exp2", "2 to the power of x.", np.exp2, c={"f": "lane number_exp2"}),
    _real("exp10", "10 to the power of x.", numpy_math.exp10, c={"f": "lane number_exp10"}),
    _real("expm1 expm1", "exp(x) - 1, precise near 0.", np.expm1, c={"f": "lane number_expm1"}),
    _real("log log", "The natural logarithm.", np.log),
    _real("log2 log2", "The logarithm to base 2.", np.log2),
    _real("log10 log10", "The logarithm to base 10.", np.log10),
    _real("log1p log1p", "log(1 + x), precise near 0.", np.log1p),
    _real("sin sin", "The sine of an angle in radians.", np.sin),
    _real("cos cos", "The cosine of an angle in radians.", np.cos),
    _real("tan tan", "The tangent of an angle in radians.", np.tan),
    _real("asin arcsin asin", "The arc sine, in radians.", np.arcsin),
    _real("acos arccos acos", "The arc cosine, in radians.", np.arccos),
    _real("atan arctan atan", "The arc tangent, in radians.", np.arctan),
    _real("atan2 arctan2 atan2", "atan2(y, x): the angle of the point (x, y), in radians.", np.arctan2, 2),
    _real("sinh sinh", "The hyperbolic sine.", np.sinh, c={"f": "lane number_sinh"}),
    _real("cosh cosh", "The hyperbolic cosine.", np.cosh, c={"f": "lane number_cosh"}),
    _real("tanh tanh", "The hyperbolic tangent.", np.tanh, c={"f": "lane number_tanh"}),
    _real("asinh arcsinh asinh", "The inverse hyperbolic sine.", np.arcsinh),
    _real("acosh arccosh acosh", "The inverse hyperbolic cosine.", np.arccosh),
    _real("atanh arctanh atanh", "The inverse hyperbolic tangent.", np.arctanh),
    _real("hypot hypot", "sqrt(x*x + y*y) without overflow.", np.hypot, 2),
    _real("erf erf", "The error function.", numpy_math.erf),
    _real("erfc erfc", "1 - erf(x), precise for large x.", numpy_math.erfc),
    _real("fma fma", "a * b + c, rounded once.", numpy_math.fma, 3, exact="f"),
    _real("fmod fmod", "The remainder with the sign of x, as in C.", np.fmod, 2, c={"f": "each fmod"}, exact="f"),
    _real("copysign copysign", "The magnitude of x with the sign of y.", np.copysign, 2, exact="f"),
    _real("fmin fmin", "The minimum; ignores NaN.", np.fmin, 2, differs="NaN and signs of zeros"),
    _real("fmax fmax", "The maximum; ignores NaN.", np.fmax, 2, differs="NaN and signs of zeros"),
    _real("fdim", "x - y, or 0 if x <= y.", numpy_math.fdim, 2, c={"f": "lane fdim"},
          differs="subnormal numbers"),
    _real("nextafter nextafter", "The next float from x in the direction of y.", np.nextafter, 2,
          differs="subnormal numbers"),
    _real("floor floor", "The largest integer that is at most x.", np.floor, c={"f": "floor", **_ROUNDING}, exact="f"),
    _real("ceil ceil", "The smallest integer that is at least x.", np.ceil, c={"f": "ceil", **_ROUNDING}, exact="f"),
    _real("trunc trunc", "x rounded toward zero.", np.trunc, c={"f": "trunc", **_ROUNDING}, exact="f"),
    _real("rint rint", "x rounded to the nearest integer, halves to even.", np.rint,
          c={"f": "lane rint", **_ROUNDING}, exact="f"),
    _real("isnan isnan", "Whether x is NaN.", np.isnan, rule="test", c={"f": "isnan", **_NEVER}, exact="f"),
    _real("isinf isinf", "Whether x is infinite.", np.isinf, rule="test", c={"f": "isinf", **_NEVER}, exact="f"),
    _real("isfinite isfinite", "Whether x is neither infinite nor NaN.", np.isfinite, rule="test",
          c={"f": "isfinite", "i": "1", "u": "1", "b": "1"}, exact="f"),
    _real("isnormal", "Whether x is neither 0, subnormal, infinite nor NaN.", numpy_math.isnormal, rule="test",
          differs="subnormal numbers"),
    _real("signbit signbit", "Whether the sign of x is negative, also for -0.0 and NaN.", np.signbit, rule="test",
          differs="NaN"),
    Function("abs", 1, "number", np.absolute, {"f": "fabs", "i": "lane abs", "u": "", "b": ""}, "The absolute value.",
             "fabs", "f i u b"),
    Function("minimum", 2, "number", np.minimum, dict.fromkeys("fiub", "lane minimum"),
             "The minimum; NaN if one of the two is NaN.", "", "f i u b"),
    Function("maximum", 2, "number", np.maximum, dict.fromkeys("fiub", "lane maximum"),
             "The maximum; NaN if one of the two is NaN.", "", "f i u b"),
    _integer("popcount", 1, "The number of bits that are 1.", numpy_math.popcount),
    _integer("clz", 1, "The number of zero bits before the highest 1; the number of bits for 0.", numpy_math.clz),
    _integer("ctz", 1, "The number of zero bits below the lowest 1; the number of bits for 0.", numpy_math.ctz,
             c="lane ctz"),
    _integer("rotate", 2, "x rotated to the left by y bits, modulo its number of bits.", numpy_math.rotate,
             c="lane rotate"),
    _integer("hadd", 2, "(x + y) >> 1 without overflow.", lambda x, y: (x & y) + ((x ^ y) >> 1)),
    _integer("rhadd", 2, "(x + y + 1) >> 1 without overflow.", lambda x, y: (x | y) - ((x ^ y) >> 1)),
    _integer("add_sat", 2, "x + y, at most the largest and at least the smallest value of the type.",
             numpy_math.add_sat, c={"i": "lane add_sat", "u": "add_sat"}),
    _integer("sub_sat", 2, "x - y, at most the largest and at least the smallest value of the type.",
             numpy_math.sub_sat, c={"i": "lane sub_sat", "u": "sub_sat"}),
    _integer("mul_hi", 2, "The upper half of the bits of x * y.", numpy_math.mul_hi),
    _integer("mad_hi", 3, "mul_hi(a, b) + c.", lambda a, b, c: numpy_math.mul_hi(a, b) + c),
    _integer("mad_sat", 3, "a * b + c, at most the largest and at least the smallest value of the type.",
             numpy_math.mad_sat, c="lane mad_sat"),
    _integer("abs_diff", 2, "abs(x - y) without overflow.", numpy_math.abs_diff, rule="unsigned",
             c={"i": "lane difference", "u": "abs_diff"}),
    _integer("bitselect", 3, "The bits of b where c has a 1, else those of a.", lambda a, b, c: (a & ~c) | (b & c)),
    _integer("upsample", 2, "(x << bits) | y with twice the bits; bits is the number of bits of x.",
             numpy_math.upsample, rule="double",
             c=dict.fromkeys("i1 i2 i4 u1 u2 u4".split(), "upsample")),
)  # fmt: skip
FUNCTIONS = {row.name: row for row in _ROWS}


# --- the functions for Python -----------------------------------------------------------------------------------------


def result_dtype(rule: str, dtype: np.dtype[Any]) -> np.dtype[Any]:
    """The type of a function's result, by its rule and the common type of its arguments."""
    if rule == "test":
        return np.dtype(np.bool_)
    if rule == "unsigned":
        return np.dtype(f"u{dtype.itemsize}")
    return np.dtype(f"{dtype.kind}{2 * dtype.itemsize}") if rule == "double" else dtype


def _common(row: Function, values: tuple[Any, ...]) -> np.dtype[Any]:
    """The type that a call from Python computes in."""
    for value in values:
        wrong = np.asarray(value).dtype
        if wrong.kind not in "biuf":
            raise InvalidArgument(f"{row.name} is given {wrong}; bools, integers and floats are accepted")
    if row.rule in ("real", "test"):
        found = np.result_type(*map(_real_type, values))
        found = found if found.kind == "f" else np.dtype(np.float64)
    else:
        found = np.result_type(*(values[:1] if row.rule == "double" else values))
        found = np.dtype(np.int64) if found.kind == "b" else found
    if row.refusal(found):
        raise InvalidArgument(row.refusal(found))
    return found


def _real_type(value: Any) -> Any:
    """A value's type for functions of floats, where integers of arrays become floats; a Python number itself."""
    if not isinstance(value, _TYPED):
        return value
    if value.dtype.kind in "iu":
        return np.dtype(np.float64 if value.dtype.itemsize == 8 else np.float32)
    return np.dtype(np.float64) if value.dtype.kind == "b" else value.dtype


def _converted(row: Function, value: Any, dtype: np.dtype[Any]) -> np.ndarray:
    """An argument of a call from Python, in the type that the call computes in."""
    if isinstance(value, int) and dtype.kind in "iu" and not np.iinfo(dtype).min <= value <= np.iinfo(dtype).max:
        raise InvalidArgument(f"{row.name} is given {value}, which does not fit {dtype}")
    return np.asarray(value).astype(dtype)


_TYPED = (np.ndarray, np.generic)


def _for_python(row: Function) -> Callable[..., Any]:
    """The function as Python code calls it, with numbers or arrays."""
    names = "x" if row.arity == 1 else "xy" if row.arity == 2 else "abc"

    def function(*values: Any) -> Any:
        if len(values) != row.arity:
            raise InvalidArgument(f"{row.name} is given {len(values)} arguments; {row.arity} are accepted")
        values = tuple(one if isinstance(one, (int, float, *_TYPED)) else np.asarray(one) for one in values)
        dtype = _common(row, values)
        dtypes = [dtype] * row.arity if row.rule != "double" else [dtype, np.dtype(f"u{dtype.itemsize}")]
        with np.errstate(all="ignore"):
            arrays = [_converted(row, value, one) for value, one in zip(values, dtypes, strict=True)]
            return np.asarray(row.numpy(*arrays)).astype(result_dtype(row.rule, dtype), copy=False)[()]

    kinds = [inspect.Parameter(name, inspect.Parameter.POSITIONAL_ONLY) for name in names[: row.arity]]
    function.__name__ = function.__qualname__ = row.name
    function.__module__ = "pydp.math"
    function.__signature__ = inspect.Signature(kinds)  # type: ignore[attr-defined]
    function.__doc__ = f"{row.doc}\n\n{RULES[row.rule]} {_precision(row)}\n"
    return function


def _precision(row: Function) -> str:
    """A sentence on the results of different devices."""
    if not row.exact:
        return f"Results may differ between devices {f'for {row.differs}' if row.differs else 'in the last bits'}."
    kinds = row.exact.split()
    same = f"Results{'' if 'f8' not in kinds else ' of float64'} are the same on all devices"
    others = ", other results may differ in the last bits" if "f8" in kinds else ""
    return same + others + (", except that some devices flush subnormal floats to zero." if "f" in kinds else ".")


FOR_PYTHON = {name: _for_python(row) for name, row in FUNCTIONS.items()}
"""The functions by name, for Python code (:mod:`pydp.math`)."""


# --- the functions that Python code calls, as the front end finds them ---------------------------------------------


def _by_id() -> dict[int, tuple[str, str]]:
    """id of a Python function -> (kind of function, its name in a table or of a method of the front end)."""
    found: dict[int, tuple[str, str]] = {}

    def add(kind: str, names: Mapping[str, str], *modules: Any) -> None:
        for target, spellings in names.items():
            for module in modules:
                for spelling in spellings.split():
                    function = getattr(module, spelling, None)
                    if function is not None:
                        found[id(function)] = (kind, target)

    rounding = {"floor": "floor", "ceil": "ceil", "trunc": "trunc"}
    add("function", {row.name: row.spellings for row in FUNCTIONS.values()}, np, math)
    add("to_integer", rounding, math)
    add("operator", {row.name: row.spellings for row in BINARY.values()}, np, operator)
    add("comparison", {row.name: row.spellings for row in COMPARISONS.values()}, np, operator)
    add("unary", {row.name: row.spellings for row in UNARY.values() if row.name != "not"}, np, operator)
    add("not", {"not": UNARY["not"].spellings}, np, operator)
    add("round", {"rint": "round"}, builtins, np)
    add("absolute", {"abs": "abs absolute"}, builtins, np, operator)
    add("minimax", {"minimum": "min", "maximum": "max"}, builtins)
    add("minimax", {"minimum": "minimum", "maximum": "maximum"}, np)
    add("logical", {"and": "logical_and", "or": "logical_or", "xor": "logical_xor"}, np)
    add("special", {name: name for name in "divmod len pow int float bool".split()}, builtins)
    add("special", {"where": "where", "square": "square", "reciprocal": "reciprocal", "sign": "sign"}, np)
    add("special", {"clip": "clip", "divmod": "divmod"}, np)
    add("special", {"degrees": "degrees rad2deg", "radians": "radians deg2rad"}, np, math)
    add("special", {"fpow": "pow"}, math)
    own = {"abs": "absolute", "minimum": "minimax", "maximum": "minimax"}
    found.update((id(function), (own.get(name, "function"), name)) for name, function in FOR_PYTHON.items())
    return found


BY_ID = _by_id()
