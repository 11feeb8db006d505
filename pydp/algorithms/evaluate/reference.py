"""The reference of ``evaluate``: NumPy computes the text, without pydp's parser and types of operators.

Literals and Python's numbers stay Python's numbers, so NumPy itself finds the dtypes. A value carries a bound of the
error that a device may make: each operation rounds, and passes on the errors of its operands.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from pydp.tuning.reference import Expected, eps, host, wide

_TOKEN = re.compile(
    r"\s*(?:(?P<number>0[xX][0-9a-fA-F]+[uUlL]*|(?:\d+\.?\d*|\.\d+)(?:[eE][+-]?\d+)?[uUlLfF]*)|(?P<name>[^\W\d]\w*)"
    r"|(?P<sign><<|>>|<=|>=|==|!=|&&|\|\||[-+*/%<>&^|!~?:(),]))"
)
_LEVELS = ("||", "&&", "|", "^", "&", "== !=", "< > <= >=", "<< >>", "+ -", "* / %")  # the loosest first
_LEVEL = {sign: level for level, signs in enumerate(_LEVELS) for sign in signs.split()}
_BINARY: dict[str, Any] = {
    "||": np.logical_or, "&&": np.logical_and, "|": np.bitwise_or, "^": np.bitwise_xor, "&": np.bitwise_and,
    "==": np.equal, "!=": np.not_equal, "<": np.less, ">": np.greater, "<=": np.less_equal, ">=": np.greater_equal,
    "<<": np.left_shift, ">>": np.right_shift, "+": np.add, "-": np.subtract, "*": np.multiply, "/": np.true_divide,
    "%": np.remainder,
}  # fmt: skip
_UNARY: dict[str, Any] = {"+": np.positive, "-": np.negative, "!": np.logical_not, "~": np.invert}
_TRUTHS = [_BINARY[sign] for level in (0, 1, 5, 6) for sign in _LEVELS[level].split()] + [np.logical_not]
_SAME = """
    sin cos tan arcsin arccos arctan sinh cosh tanh arcsinh arccosh arctanh exp exp2 expm1 log log2 log10 log1p sqrt
    cbrt rint fabs hypot arctan2 copysign nextafter isnan isinf isfinite signbit absolute maximum minimum power clip
    remainder mod fmod sign
""".split()
_FUNCTIONS: dict[str, Any] = {name: getattr(np, name) for name in _SAME}
_FUNCTIONS |= {f"a{name[3:]}": _FUNCTIONS[name] for name in _SAME if name.startswith("arc")}
_FUNCTIONS |= {"abs": np.absolute, "max": np.maximum, "min": np.minimum, "pow": np.power}
_FUNCTIONS["floor_divide"] = np.floor_divide
_EXACT = {
    np.positive, np.negative, np.absolute, np.fabs, np.floor, np.ceil, np.trunc, np.rint, np.maximum, np.minimum,
    np.clip, np.copysign, np.sign,
}  # fmt: skip
_CASTS = {
    "char": "i1", "uchar": "u1", "short": "i2", "ushort": "u2", "int": "i4", "uint": "u4", "long": "i8", "ulong": "u8",
    "half": "f2", "float": "f4", "double": "f8",
}  # fmt: skip
_SUFFIXES = {"f": np.float32, "u": np.uint32, "l": np.int64, "ul": np.uint64, "lu": np.uint64}
_ROUNDINGS = 16  # units in the last place that OpenCL allows most functions


@dataclass(frozen=True)
class _Value:
    """A Python number or an array, and a bound of its error in each element."""

    data: Any
    error: Any = 0.0

    @property
    def weak(self) -> bool:
        return isinstance(self.data, (int, float)) and not isinstance(self.data, np.generic)

    def moved(self, sign: int) -> Any:
        """The data with the largest error."""
        if np.asarray(self.data).dtype == bool:
            return np.logical_xor(self.data, self.error)
        return (wide(self.data) + sign * self.error).astype(self.data.dtype)


def reference(expression: str, /, **values: Any) -> list[Expected]:
    """NumPy's result. Raises LookupError for expressions that need a function that NumPy lacks."""
    try:
        found = _Reader(expression, {name: _Value(_given(one)) for name, one in values.items()}).result()
    except (OverflowError, ZeroDivisionError) as error:
        raise ValueError(str(error)) from None
    if found.weak:
        raise LookupError("the dtype of Python's numbers depends on the device")
    right = np.asarray(found.data)
    return [Expected(right, wrong=lambda got: ~_near(got, right, found.error))]


def _given(value: Any) -> Any:
    if isinstance(value, bool):
        return np.bool_(value)
    return value if isinstance(value, (int, float, np.generic)) else host(value)


def _near(got: np.ndarray, right: np.ndarray, error: Any) -> np.ndarray:
    with np.errstate(all="ignore"):
        return np.asarray((_distance(got, right) <= error) | np.isinf(error))


def _distance(one: Any, other: Any) -> Any:
    """The distance of two values of the same dtype: 0 between NaNs, infinite between NaN and numbers."""
    one, other = (wide(np.asarray(x)) for x in (one, other))
    if one.dtype.kind != "f":
        return np.where(one == other, 0.0, np.abs(one.astype(np.float64) - other.astype(np.float64)))
    same = (one == other) | (np.isnan(one) & np.isnan(other))
    return np.where(same, 0.0, np.nan_to_num(np.abs(one - other), nan=np.inf, posinf=np.inf))


def _applied(function: Callable[..., Any], *operands: _Value) -> _Value:
    """The function of values. Its error: that of each operand alone, and the rounding of the result."""
    if all(one.weak for one in operands):
        found = function(*(np.asarray(one.data, object) for one in operands))  # by Python's operators
        return _Value(np.bool_(found) if function in _TRUTHS else found)
    data = function(*(one.data for one in operands))
    error: Any = 0.0
    for one in operands:
        if np.any(one.error):
            moved = [function(*(x.moved(sign) if x is one else x.data for x in operands)) for sign in (1, -1)]
            error = error + np.maximum(*(_distance(other, data) for other in moved))
    if data.dtype.kind == "f" and function not in _EXACT:
        rounding = _ROUNDINGS * eps(data.dtype) * np.abs(wide(data)) + float(np.finfo(data.dtype).tiny)
        error = error + np.where(np.isfinite(data) & (data != 0), rounding, 0.0)
    return _Value(data, error)


def _choice(condition: _Value, yes: _Value, no: _Value) -> _Value:
    if yes.weak and no.weak:
        raise LookupError("NumPy has no arrays of Python's numbers")
    dtype = np.result_type(yes.data, no.data)
    yes, no = (_Value(np.asarray(one.data, dtype), one.error) for one in (yes, no))
    chosen = np.asarray(condition.data, bool)
    error = np.where(chosen, yes.error, no.error)
    doubtful = np.asarray(condition.error) > 0
    return _Value(np.where(chosen, yes.data, no.data), np.where(doubtful, np.inf, error))


def _cast(name: str, operand: _Value) -> _Value:
    return _applied(lambda x: np.asarray(x).astype(_CASTS[name]), _strong(operand))


def _strong(value: _Value) -> _Value:
    return _Value(np.asarray(value.data)) if value.weak else value


def _call(name: str, operands: list[_Value]) -> _Value:
    if name == "where":
        return _choice(*operands)
    if name in ("floor", "ceil", "trunc"):
        (one,) = operands
        if one.weak:
            raise LookupError(f"Python's {name} of a float is an integer")
        return _applied(getattr(np, name), one) if np.asarray(one.data).dtype.kind == "f" else one
    if all(one.weak for one in operands):
        raise LookupError(f"NumPy's {name} of Python's numbers has a dtype of its own")
    return _applied(_FUNCTIONS[name], *operands)


class _Reader:
    """Reads an expression and computes it at once."""

    def __init__(self, text: str, values: dict[str, _Value]) -> None:
        self.values, self.at = values, 0
        self.tokens: list[tuple[str, str]] = []
        position = 0
        while text[position:].strip():
            match = _TOKEN.match(text, position)
            if match is None:
                raise LookupError(f"{text[position:]!r} is not known here")
            kind = str(match.lastgroup)
            self.tokens.append((kind, match[kind]))
            position = match.end()

    def result(self) -> _Value:
        found = self._value()
        if self.at != len(self.tokens):
            raise LookupError(f"{self.tokens[self.at][1]!r} is not known here")
        return found

    def _next(self, ahead: int = 0) -> str:
        place = self.at + ahead
        return self.tokens[place][1] if place < len(self.tokens) else ""

    def _skip(self, *signs: str) -> str:
        """Skip one of these signs; return it, or "" if none of them follows."""
        found = self._next()
        if found not in signs:
            return ""
        self.at += 1
        return found

    def _needed(self, sign: str) -> None:
        if not self._skip(sign):
            raise LookupError(f"{sign!r} is missing")

    def _value(self) -> _Value:
        found = self._operators(0)
        if not self._skip("?"):
            return found
        yes = self._value()
        self._needed(":")
        return _choice(found, yes, self._value())

    def _operators(self, level: int) -> _Value:
        found = self._operand()
        while _LEVEL.get(self._next(), -1) >= level:
            sign = self._next()
            self.at += 1
            found = _applied(_BINARY[sign], found, self._operators(_LEVEL[sign] + 1))
        return found

    def _operand(self) -> _Value:
        sign = self._skip("+", "-", "!", "~", "(")
        if sign == "(" and self._next() in _CASTS and self._next(1) == ")":
            name = self._next()
            self.at += 2
            return _cast(name, self._operand())
        if sign == "(":
            found = self._value()
            self._needed(")")
            return found
        if sign:
            return _applied(_UNARY[sign], self._operand())
        kind, word = self.tokens[self.at]
        self.at += 1
        if kind == "number":
            return _Value(_literal(word))
        if not self._skip("("):
            return self.values[word]
        operands = [self._value()]
        while self._skip(","):
            operands.append(self._value())
        self._needed(")")
        return _call(word, operands)


def _literal(word: str) -> Any:
    hexadecimal = word[:2].lower() == "0x"
    digits = word.rstrip("uUlL") if hexadecimal else word.rstrip("uUlLfF")
    suffix = word[len(digits) :].lower()
    if hexadecimal or digits.isdigit():
        number: Any = int(digits, 16 if hexadecimal else 8 if digits.startswith("0") and digits != "0" else 10)
    else:
        number = float(digits)
    return _SUFFIXES[suffix](number) if suffix else number
