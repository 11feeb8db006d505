"""Random operator expressions: their text, and their values by C's rules in NumPy and Python integers.

Written from the rules of OpenCL C alone: the types, the brackets and the values here know nothing of the parser. Where
C leaves a value undefined, the rules are the ones that pydp.algorithms.operators states: integers wrap, division by
zero gives 0, floats that an integer type does not hold become what NumPy makes of them on x86-64.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from random import Random
from typing import Any

import numpy as np
import pyopencl.cltypes as cltypes

from pydp.algorithms.operators.tree import Node, fold, in_brackets

INTS = ("char", "uchar", "short", "ushort", "int", "uint", "long", "ulong")
NUMPY = dict(zip(INTS, ("i1", "u1", "i2", "u2", "i4", "u4", "i8", "u8"), strict=True)) | {"float": "f4", "double": "f8"}
SIGNED = {1: "char", 2: "short", 4: "int", 8: "long"}
LEVELS = [row.split() for row in ("||", "&&", "|", "^", "&", "== !=", "< > <= >=", "<< >>", "+ -", "* / %")]
"""Binary operators, from the loosest."""
INTEGERS = (*range(10), 31, 127, 128, 255, 65535, 2**31 - 1, 2**31, 2**32 - 1, 2**63 - 1, 2**64 - 1)
FLOATS = {"1.5": 1.5, ".25": 0.25, "2.": 2.0, "1e2": 100.0, "0x1p-3": 0.125, "0.0": 0.0, "4.E+0": 4.0}
CONSTANTS: dict[str, tuple[str, Any]] = {
    "INT_MIN": ("int", -(2**31)),
    "INT_MAX": ("int", 2**31 - 1),
    "UINT_MAX": ("uint", 2**32 - 1),
    "LONG_MIN": ("long", -(2**63)),
    "LONG_MAX": ("long", 2**63 - 1),
    "NAN": ("float", np.nan),
    "INFINITY": ("float", np.inf),
    "MAXFLOAT": ("float", np.finfo("f4").max),
}
COMPONENTS = {"x": 0, "w": 3, "s2": 2, "lo.y": 1, "odd.s0": 1, "hi.odd": 3, "wzyx.s0": 3, "even.hi": 2, "s0123.s1": 1}
_EDGES = [0, 1, -1, 2, 3, 5, 7, 31, 33, 100, -128, 127, 32767, -32768, 2**31 - 1, -(2**31), 2**63 - 1, -(2**63)]
_FLOAT_EDGES = [0, -0.0, 1, -1, 0.5, -0.25, 2, 3, 100, -7, 255, 3e9, 2.0**31, -(2.0**31), 1e10, np.inf, -np.inf, np.nan]


@dataclass
class Value:
    """Text with how closely it binds (0: a conditional, 11: a prefix, 12: a postfix), C type, and values of all rows.

    known: where the language says what the value is, to the last bit.
    """

    text: str
    level: int
    name: str
    data: np.ndarray  # (rows, width)
    known: np.ndarray  # (rows, width)
    weak: bool = False

    @property
    def width(self) -> int:
        return self.data.shape[1]

    @property
    def is_int(self) -> bool:
        return self.name in INTS

    @property
    def size(self) -> int:
        return np.dtype(NUMPY[self.name]).itemsize


def record_dtype(fp64: bool) -> np.dtype:
    members: list[Any] = [(name, NUMPY[name]) for name in reversed(INTS)]
    fields = [(f"m_{name}", kind) for name, kind in members] + [("f", "f4"), ("flag", "?")]
    fields += [("v", cltypes.int4), ("w", cltypes.float2), ("t", cltypes.uchar4), ("n", [("p", "i4"), ("q", "f4")])]
    return np.dtype(fields + [("d", "f8")] * fp64, align=True)


def fill(array: np.ndarray, random: Random) -> None:
    """Random values of every member, the awkward ones often."""
    if array.dtype.names:
        for name in array.dtype.names:
            fill(array[name], random)
    elif array.dtype.kind in "iu":
        numbers = [random.choice(_EDGES) & ((1 << 8 * array.dtype.itemsize) - 1) for _ in range(array.size)]
        array[...] = np.array(numbers, "u8").astype(array.dtype).reshape(array.shape)
    else:
        array[...] = np.array([random.choice(_FLOAT_EDGES) for _ in range(array.size)]).reshape(array.shape)


# --- conversions --------------------------------------------------------------------------------------------


def wrapped(number: int, name: str) -> int:
    bits = 8 * np.dtype(NUMPY[name]).itemsize
    number &= (1 << bits) - 1
    return number - (1 << bits) if name[0] != "u" and number >> bits - 1 else number


def _to_int(number: float, name: str) -> int:
    wide = 64 if name in ("uint", "long", "ulong") else 32
    if name == "ulong" and 2.0**63 <= number < 2.0**64:
        return int(number)
    fits = -(2.0 ** (wide - 1)) <= number < 2.0 ** (wide - 1)
    return wrapped(int(number) if fits else -(1 << wide - 1), name)


def saturated(number: float, name: str) -> int:
    """A float without fraction as an integer type has it, or the limit that is nearest; of NaN 0."""
    if math.isnan(number):
        return 0
    limits = np.iinfo(NUMPY[name])
    if math.isinf(number):
        return int(limits.max if number > 0 else limits.min)
    return _bounded(int(number), name)


def converted(data: np.ndarray, name: str) -> np.ndarray:
    if name in INTS:
        change = _to_int if data.dtype.kind == "f" else wrapped
        return mapped(lambda number: change(number, name), NUMPY[name], data)
    with np.errstate(all="ignore"):
        return data.astype(NUMPY[name])


def mapped(function: Any, dtype: Any, *data: np.ndarray) -> np.ndarray:
    """`function` of Python numbers, element by element."""
    rows = zip(*(one.ravel().tolist() for one in np.broadcast_arrays(*data)), strict=True)
    found = [function(*row) for row in rows]
    return np.array(found, dtype).reshape(np.broadcast_shapes(*(one.shape for one in data)))


def usual(*names: str) -> str:
    floats = [name for name in names if name not in INTS]
    if floats:
        return "double" if "double" in floats else "float"
    grown = [name if np.dtype(NUMPY[name]).itemsize >= 4 else "int" for name in names]
    size = max(np.dtype(NUMPY[name]).itemsize for name in grown)
    widest = [name for name in grown if np.dtype(NUMPY[name]).itemsize == size]
    return next((name for name in widest if name[0] == "u"), widest[0])


def _exact(function: Any, result: np.ndarray, *data: np.ndarray) -> np.ndarray:
    """A mask of the exact float results, which contraction and the rounding of quotients do not change."""

    def one(got: float, *given: float) -> bool:
        if not all(map(math.isfinite, (got, *given))):  # one driver folds products with 0 whatever the other operand
            return math.isinf(got) or any(map(math.isnan, given))
        try:
            return Fraction(got) == function(*map(Fraction, given)) and (got == 0 or abs(got) > 1e-30)
        except ZeroDivisionError:
            return False

    return mapped(one, bool, result, *data)


# --- expressions --------------------------------------------------------------------------------------------


class Expressions:
    """Makes random expressions of the members of records `a` and `b`, arrays of one record dtype."""

    def __init__(self, random: Random, a: np.ndarray, b: np.ndarray, *, fp64: bool, loops: bool) -> None:
        self.random, self.records, self.fp64, self.loops = random, {"a": a, "b": b}, fp64, loops
        self.rows = a.size

    def pick(self, *choices: Any) -> Any:
        return self.random.choice(choices)

    def inside(self, value: Value, level: int) -> str:
        """The text, in brackets where it binds more loosely than `level`, and sometimes where it does not."""
        more = value.level < level or self.random.randrange(10) == 0
        return f"({value.text})" if more else value.text

    def made(self, text: str, level: int, name: str, data: np.ndarray, *used: Value, known: Any = True) -> Value:
        for one in used:
            known = known & one.known
        return Value(text, level, name, data.astype(NUMPY[name]), np.broadcast_to(known, data.shape))

    # --- leaves

    def leaf(self, width: int = 1, kind: str = "any") -> Value:
        if width > 1:
            name = {4: self.pick("v", "t"), 2: "w"}[width]
            return self.member(name)
        if kind != "float" and self.random.randrange(4) == 0:
            return self.integer() if self.random.randrange(4) else self.constant()
        if kind != "int" and self.random.randrange(6) == 0:
            return self.number() if self.random.randrange(4) else self.constant("float")
        ints = [f"m_{name}" for name in INTS] + ["flag", "n.p", "v.x", "t.s3"]
        floats = ["f", "n.q", "w.y", *["d"] * self.fp64]
        return self.member(self.pick(*(ints * (kind != "float") + floats * (kind != "int"))))

    def member(self, path: str) -> Value:
        of = self.pick("a", "b")
        data, name = self.records[of], ""
        for part in path.split("."):
            if data.dtype.names and part not in data.dtype.names:
                part = {"x": "s0", "y": "s1", "s3": "s3"}[part]
            data = data[part]
        if data.dtype.names:
            name = {"v": "int", "w": "float", "t": "uchar"}[path]
            data = np.stack([data[one] for one in data.dtype.names if one.startswith("s")], 1)
        else:
            data = data.reshape(-1, 1)
            name = next((n for n, kind in NUMPY.items() if np.dtype(kind) == data.dtype), "uchar")
        return self.made(f"{of}.{path}", 12, name, data)

    def integer(self) -> Value:
        number = self.pick(*INTEGERS)
        suffix = self.pick("", "", "u", "L", "uL", "lU") if number < 2**63 else self.pick("u", "uL", "lU")
        base = self.pick("", "0x", "0")
        low = suffix.lower()
        names = ["long", "ulong"] if "l" in low else ["int", "uint", "long", "ulong"]
        names = [n for n in names if n[0] == "u" or "u" not in low]
        names = [n for n in names if "u" in low or base or n[0] != "u"]
        name = next(n for n in names if wrapped(number, n) == number)
        text = {"": str(number), "0x": hex(number), "0": f"0{number:o}"}[base] + suffix
        value = self.made(text, 12, name, np.full((self.rows, 1), number, NUMPY[name]))
        value.weak = not suffix
        return value

    def literal_of(self, element: str) -> Value:
        """An integer literal that may stand beside a vector of `element`: of no more bits, or weak and in its range."""
        while True:
            found = self.integer()
            number = int(found.data[0, 0])
            if found.size <= np.dtype(NUMPY[element]).itemsize or (found.weak and wrapped(number, element) == number):
                return found

    def constant(self, kind: str = "int") -> Value:
        text = self.pick(*(one for one, (name, _) in CONSTANTS.items() if (name in INTS) == (kind == "int")))
        name, number = CONSTANTS[text]
        return self.made(text, 12, name, np.full((self.rows, 1), number, NUMPY[name]))

    def number(self) -> Value:
        text = self.pick(*FLOATS)
        suffix = self.pick("f", "F", "")
        name = "float" if suffix or not self.fp64 else "double"
        return self.made(text + suffix, 12, name, np.full((self.rows, 1), FLOATS[text]))

    def member_value(self, name: str, depth: int) -> Value | None:
        """An expression for a member of the records, converted to its type; None where none came of `a` or `b`."""
        if name == "n":
            return None
        width, own = {"v": (4, "int"), "w": (2, "float"), "t": (4, "uchar")}.get(name, (1, ""))
        value = self.any(depth, width)
        if width > 1 and value.name != own:
            value = self.member(name)
        if "a." not in value.text and "b." not in value.text:
            return None
        data = self.records["a"][name]
        if name == "flag":
            value.data = value.data != 0
        elif width == 1:
            value.data = converted(value.data, next(n for n, kind in NUMPY.items() if np.dtype(kind) == data.dtype))
        return value

    # --- operations

    def any(self, depth: int, width: int = 1, kind: str = "any") -> Value:
        """A random expression; kind: "any", "int" or "float"."""
        if depth <= 0:
            value = self.leaf(width, kind)
        elif width > 1:
            value = self.pick(self.arithmetic, self.vector, self.choice_by_lane, self.of_vectors, self.extreme)(
                depth - 1, width
            )
        else:
            makers = [self.arithmetic, self.arithmetic, self.bits, self.shift, self.comparison, self.logic, self.unary]
            makers += [self.choice, self.cast, self.conversion, self.whole_call, self.float_call, self.classification]
            makers += [self.component, self.extreme]
            value = self.pick(*makers)(depth - 1, 1)
        if kind != "any" and value.is_int != (kind == "int"):
            return self.cast_of(value, self.pick("int", "uchar", "long") if kind == "int" else "float")
        return value

    def pair(self, depth: int, width: int, kind: str = "any") -> tuple[Value, Value, str]:
        """Two operands and the type in which they meet."""
        left = self.any(depth, width, kind)
        if width == 1:
            right = self.any(depth, 1, kind)
            return left, right, usual(left.name, right.name)
        choice = self.pick("vector", "cast", "literal")
        if choice == "vector":
            right = self.any(depth, width, kind)
            if right.name != left.name:
                right = left
        elif choice == "literal" and left.is_int:
            right = self.literal_of(left.name)
        else:
            right = self.cast_of(self.any(depth), left.name)
        pair = (left, right) if self.random.random() < 0.5 else (right, left)
        return *pair, left.name

    def operands(self, symbol: str, left: Value, right: Value) -> tuple[str, int]:
        level = next(place for place, symbols in enumerate(LEVELS, 1) if symbol in symbols)
        space = self.pick(" ", "", "  ", "\t")
        left_text, right_text = self.inside(left, level), self.inside(right, level + 1)
        after = " " if right_text[0] in "+-" else space
        return f"{left_text}{space}{symbol}{after}{right_text}", level

    def arithmetic(self, depth: int, width: int) -> Value:
        symbol = self.pick("+", "-", "*", "/", "%")
        left, right, name = self.pair(depth, width, "int" if symbol == "%" and width == 1 else "any")
        if symbol == "%" and name not in INTS:
            symbol = "+"
        text, level = self.operands(symbol, left, right)
        x, y = converted(left.data, name), converted(right.data, name)
        if name in INTS:
            data = mapped(lambda p, q: wrapped(_integer(symbol, p, q), name), NUMPY[name], x, y)
            return self.made(text, level, name, data, left, right)
        with np.errstate(all="ignore"):
            data = {"+": np.add, "-": np.subtract, "*": np.multiply, "/": np.divide}[symbol](x, y)
        known: Any = True
        if symbol in "*/":
            known = _exact(lambda p, q: p * q if symbol == "*" else p / q, data, *np.broadcast_arrays(x, y))
        return self.made(text, level, name, data, left, right, known=known & ~_tiny(data))

    def extreme(self, depth: int, width: int) -> Value:
        """The smallest integer divided by a constant that may be -1: a quotient that C leaves undefined."""
        if width == 2:
            return self.any(0, 2)
        left = self.constant()
        if width > 1:
            left = self.vector_of("int", left, width)
        right = self.literal_of(left.name) if width > 1 else self.pick(self.integer, self.constant)()
        if self.random.random() < 0.5:
            number = (1 << 8 * right.size) - 1
            suffix = "u" if right.size == 4 else "ul"
            name = "uint" if right.size == 4 else "ulong"
            right = self.made(f"{number}{suffix}", 12, name, np.full((self.rows, 1), number, NUMPY[name]))
        if width == 1 and self.random.random() < 0.5:
            right = self.cast_of(right, self.pick("int", "long"))
        symbol = self.pick("/", "%")
        name = left.name if width > 1 else usual(left.name, right.name)
        text, level = self.operands(symbol, left, right)
        x, y = converted(left.data, name), converted(right.data, name)
        data = mapped(lambda p, q: wrapped(_integer(symbol, p, q), name), NUMPY[name], x, y)
        value = self.made(text, level, name, data)
        if self.random.random() < 0.5:
            return value
        other = self.member("v" if width > 1 else "m_int")  # so that the whole expression has one of the values
        text, level = self.operands("^" if width == 1 else "+", value, other)
        met = name if width > 1 else usual(name, other.name)
        x, y = converted(value.data, met), converted(other.data, met)
        if width == 1:
            return self.made(text, level, met, x ^ y)
        return self.made(text, level, met, mapped(lambda p, q: wrapped(p + q, met), NUMPY[met], x, y))

    def bits(self, depth: int, width: int) -> Value:
        symbol = self.pick("&", "|", "^")
        left, right, name = self.pair(depth, 1, "int")
        text, level = self.operands(symbol, left, right)
        x, y = converted(left.data, name), converted(right.data, name)
        return self.made(text, level, name, {"&": x & y, "|": x | y, "^": x ^ y}[symbol], left, right)

    def shift(self, depth: int, width: int) -> Value:
        symbol = self.pick("<<", ">>")
        left, right = self.any(depth, 1, "int"), self.any(depth, 1, "int")
        name = usual(left.name)
        text, level = self.operands(symbol, left, right)
        bits = 8 * np.dtype(NUMPY[name]).itemsize

        def moved(number: int, count: int) -> int:
            count &= bits - 1
            return wrapped(number << count if symbol == "<<" else number >> count, name)

        data = mapped(moved, NUMPY[name], converted(left.data, name), right.data)
        return self.made(text, level, name, data, left, right)

    def comparison(self, depth: int, width: int) -> Value:
        symbol = self.pick("<", ">", "<=", ">=", "==", "!=")
        left, right, name = self.pair(depth, width)
        text, level = self.operands(symbol, left, right)
        function = {"<": np.less, ">": np.greater, "<=": np.less_equal, ">=": np.greater_equal, "==": np.equal}
        data = function.get(symbol, np.not_equal)(converted(left.data, name), converted(right.data, name))
        if width > 1:
            return self.made(text, level, SIGNED[np.dtype(NUMPY[name]).itemsize], -data.astype("i4"), left, right)
        return self.made(text, level, "int", data, left, right)

    def logic(self, depth: int, width: int) -> Value:
        symbol = self.pick("&&", "||")
        left, right = self.any(depth), self.any(depth)
        text, level = self.operands(symbol, left, right)
        x, y = left.data != 0, right.data != 0
        return self.made(text, level, "int", x & y if symbol == "&&" else x | y, left, right)

    def unary(self, depth: int, width: int) -> Value:
        symbol = self.pick("-", "+", "~", "!")
        inner = self.any(depth, 1, "int" if symbol == "~" else "any")
        name = "int" if symbol == "!" else usual(inner.name)
        inside = self.inside(inner, 11)
        text = symbol + (" " if inside[0] in "+-" else "") + inside
        data = converted(inner.data, name)
        if symbol == "!":
            data = inner.data == 0
        elif symbol == "~":
            data = ~data
        elif symbol == "-":
            data = mapped(lambda n: wrapped(-n, name), NUMPY[name], data) if name in INTS else -data
        found = self.made(text, 11, name, data, inner)
        found.weak = inner.weak and symbol in "+-"
        return found

    def choice(self, depth: int, width: int) -> Value:
        asked, yes, no = self.any(depth), self.any(depth), self.any(depth)
        name = usual(yes.name, no.name)
        where = asked.data != 0
        text = f"{self.inside(asked, 1)} ? {self.inside(yes, 0)} : {self.inside(no, 0)}"
        known = asked.known & np.where(where, yes.known, no.known)
        data = np.where(where, converted(yes.data, name), converted(no.data, name))
        return self.made(text, 0, name, data, known=known)

    def cast_of(self, value: Value, name: str) -> Value:
        return self.made(f"({name}){self.inside(value, 11)}", 11, name, converted(value.data, name), value)

    def cast(self, depth: int, width: int) -> Value:
        return self.cast_of(self.any(depth), self.pick(*INTS, "float", *["double"] * self.fp64))

    def conversion(self, depth: int, width: int) -> Value:
        inner = self.any(depth)
        if self.random.random() < 0.5 and (inner.is_int or inner.name == "float"):  # the type of the same size
            if inner.name == "float" and not self.fp64:  # literals without suffix have the device's size
                inner = self.cast_of(inner, "float")
            pairs = {1: ("char", "uchar"), 2: ("short", "ushort"), 4: ("int", "uint", "float"), 8: ("long", "ulong")}
            name = self.pick(*pairs[inner.size])
            data = np.ascontiguousarray(inner.data).view(NUMPY[name])
            known = ~np.isnan(inner.data) if not inner.is_int else True
            return self.made(f"as_{name}({inner.text})", 12, name, data, inner, known=known)
        name = self.pick(*INTS)
        if inner.is_int:
            saturate = self.random.random() < 0.5
            low, high = np.iinfo(NUMPY[name]).min, np.iinfo(NUMPY[name]).max
            data = mapped(lambda n: min(max(n, low), high) if saturate else wrapped(n, name), NUMPY[name], inner.data)
            return self.made(f"convert_{name}{'_sat' * saturate}({inner.text})", 12, name, data, inner)
        mode = self.pick("", "_rtz", "_rte", "_rtp", "_rtn")
        rounded = {"": np.trunc, "_rtz": np.trunc, "_rte": np.rint, "_rtp": np.ceil, "_rtn": np.floor}[mode](inner.data)
        if self.random.random() < 0.5:
            data = mapped(lambda n: saturated(n, name), NUMPY[name], rounded)
            return self.made(f"convert_{name}_sat{mode}({inner.text})", 12, name, data, inner)
        return self.made(f"convert_{name}{mode}({inner.text})", 12, name, converted(rounded, name), inner)

    def whole_call(self, depth: int, width: int) -> Value:
        """A function of integers, all cast to one type."""
        name = self.pick(*INTS)
        function = self.pick(*_OF_INTEGERS)
        count, compute = _OF_INTEGERS[function]
        given = [self.cast_of(self.any(depth), name) for _ in range(count)]
        text = f"{function}({', '.join(one.text for one in given)})"
        bits = 8 * np.dtype(NUMPY[name]).itemsize
        result = "u" + SIGNED[bits // 8] if function in ("abs", "abs_diff") else name
        data = mapped(lambda *n: wrapped(compute(name, bits, *n), result), NUMPY[result], *(one.data for one in given))
        return self.made(text, 12, result, data, *given)

    def float_call(self, depth: int, width: int) -> Value:
        """A function of floats whose result is exact, or not compared."""
        names = "fabs floor ceil trunc rint fmin fmax copysign fma sign min max clamp".split() + ["fmod"] * self.loops
        function = self.pick(*names)
        two, three = ("fmin", "fmax", "copysign", "fmod", "min", "max"), ("fma", "clamp")
        count = 2 if function in two else 3 if function in three else 1
        name = self.pick("float", *["double"] * self.fp64)
        given = [self.cast_of(self.any(depth), name) for _ in range(count)]
        if count > 1 and self.random.random() < 0.5:
            given[1] = self.integer()  # meets the others in their type
        text = f"{function}({', '.join(one.text for one in given)})"
        values = [converted(one.data, name) for one in given]
        known: Any = True
        with np.errstate(all="ignore"):
            if function == "fma":
                data = values[0] * values[1] + values[2]
                known = _exact(lambda p, q, r: p * q + r, data, *values)
            elif function == "clamp":
                data = np.minimum(np.maximum(values[0], values[1]), values[2])
            else:
                data = getattr(np, {"min": "minimum", "max": "maximum"}.get(function, function))(*values)
        if function in ("min", "max", "clamp"):
            known = data != 0
        if function in ("fmin", "fmax", "sign", "fmod"):
            known = ~np.isnan(data) & (data != 0)
        if function == "fmod":
            known &= np.isfinite(values[0]) & np.isfinite(values[1])
        return self.made(text, 12, name, data, *given, known=known & ~_tiny(data))

    def classification(self, depth: int, width: int) -> Value:
        function = self.pick("isnan", "isinf", "isfinite", "isless", "isgreaterequal", "isequal", "any", "all")
        if function in ("any", "all"):
            inner = self.comparison(depth, 4)
            data = getattr(np, function)(inner.data < 0, axis=1, keepdims=True)
            known = inner.known.all(axis=1, keepdims=True)
            return self.made(f"{function}({inner.text})", 12, "int", data, known=known)
        count = 1 if function in ("isnan", "isinf", "isfinite") else 2
        given = [self.cast_of(self.any(depth), "float") for _ in range(count)]
        compute = {"isless": np.less, "isgreaterequal": np.greater_equal, "isequal": np.equal}
        data = compute.get(function, getattr(np, function, None))(*(one.data for one in given))
        return self.made(f"{function}({', '.join(one.text for one in given)})", 12, "int", data, *given)

    def component(self, depth: int, width: int) -> Value:
        """One component of a vector, also through halves and swizzles."""
        inner = self.any(depth, 4)
        name = self.pick(*COMPONENTS)
        place = COMPONENTS[name]
        text = f"({inner.text})" if inner.text.startswith("(") or inner.level < 12 else inner.text
        value = self.made(f"{text}.{name}", 12, inner.name, inner.data[:, place : place + 1])
        value.known = inner.known[:, place : place + 1]
        return value

    def vector(self, depth: int, width: int) -> Value:
        name = {4: self.pick("int", "uchar", "float"), 2: "float"}[width]
        count = self.pick(1, width)
        given = [self.cast_of(self.any(depth), name) for _ in range(count)]
        text = f"({name}{width})({', '.join(one.text for one in given)})"
        data = np.concatenate([one.data for one in given] * (width // count), 1)
        value = self.made(text, 11, name, data)
        value.known = np.concatenate([one.known for one in given] * (width // count), 1)
        return value

    def choice_by_lane(self, depth: int, width: int) -> Value:
        asked = self.comparison(depth, width)
        name = {"char": "uchar", "int": "int"}[asked.name]
        if asked.width != width:
            return self.any(0, width)
        yes, no = (self.vector_of(name, self.any(depth), width) for _ in range(2))
        where = asked.data < 0
        text = f"{self.inside(asked, 1)} ? {yes.text} : {no.text}"
        known = asked.known & np.where(where, yes.known, no.known)
        return self.made(text, 0, name, np.where(where, yes.data, no.data), known=known)

    def vector_of(self, name: str, value: Value, width: int) -> Value:
        data = np.repeat(converted(value.data, name), width, 1)
        return self.made(f"({name}{width})({value.text})", 11, name, data, value)

    def of_vectors(self, depth: int, width: int) -> Value:
        left, right, name = self.pair(depth, width)
        function = self.pick("min", "max")
        x, y = converted(left.data, name), converted(right.data, name)
        known: Any = True
        if name not in INTS:
            known = (x != y) | (x != 0)  # NaN is known, the sign of 0 is not
        data = np.minimum(x, y) if function == "min" else np.maximum(x, y)
        return self.made(f"{function}({left.text}, {right.text})", 12, name, data, left, right, known=known)


def _tiny(data: np.ndarray) -> np.ndarray:
    """A mask of the values that a device may have flushed to 0."""
    with np.errstate(all="ignore"):
        return (data != 0) & (np.abs(data) < 1e-30) if data.dtype.kind == "f" else np.zeros(data.shape, bool)


def _integer(symbol: str, x: int, y: int) -> int:
    if symbol in "+-*":
        return {"+": x + y, "-": x - y, "*": x * y}[symbol]
    if y == 0:
        return 0
    quotient = abs(x) // abs(y) * (1 if (x < 0) == (y < 0) else -1)
    return quotient if symbol == "/" else x - quotient * y


def _bounded(number: int, name: str) -> int:
    limits = np.iinfo(NUMPY[name])
    return min(max(number, int(limits.min)), int(limits.max))


def _rotated(name: str, bits: int, number: int, count: int) -> int:
    number &= (1 << bits) - 1
    return number << count % bits | number >> (bits - count % bits)


_OF_INTEGERS: dict[str, tuple[int, Any]] = {
    "min": (2, lambda name, bits, x, y: min(x, y)),
    "max": (2, lambda name, bits, x, y: max(x, y)),
    "clamp": (3, lambda name, bits, x, low, high: min(max(x, low), high)),
    "abs": (1, lambda name, bits, x: abs(x)),
    "abs_diff": (2, lambda name, bits, x, y: abs(x - y)),
    "add_sat": (2, lambda name, bits, x, y: _bounded(x + y, name)),
    "sub_sat": (2, lambda name, bits, x, y: _bounded(x - y, name)),
    "hadd": (2, lambda name, bits, x, y: (x + y) >> 1),
    "rhadd": (2, lambda name, bits, x, y: (x + y + 1) >> 1),
    "mul_hi": (2, lambda name, bits, x, y: (x * y) >> bits),
    "mad_hi": (3, lambda name, bits, x, y, z: ((x * y) >> bits) + z),
    "mad_sat": (3, lambda name, bits, x, y, z: _bounded(x * y + z, name)),
    "clz": (1, lambda name, bits, x: bits - (x & (1 << bits) - 1).bit_length()),
    "popcount": (1, lambda name, bits, x: (x & (1 << bits) - 1).bit_count()),
    "rotate": (2, _rotated),
    "bitselect": (3, lambda name, bits, x, y, z: (x & ~z) | (y & z)),
}


# --- parsed expressions as text ----------------------------------------------------------------------------


def operator_of(node: Node) -> str:
    """The operator of a node for `in_brackets`."""
    return node.symbol if node.kind in ("binary", "conditional") else ""


def source_text(tree: Node) -> str:
    """The tree as an operator expression; parsing it gives the same tree.

    It shows how the expression was parsed; :mod:`pydp.algorithms.operators.text` writes the C source to compile.
    """
    return fold(tree, _source)


def _source(node: Node, parts: Sequence[str]) -> str:
    if node.kind in ("literal", "constant", "name"):
        return node.symbol
    if node.kind == "call":
        return f"{node.symbol}({', '.join(parts)})"
    if node.kind == "vector":
        return f"({node.symbol})({', '.join(parts)})"
    if node.kind == "binary":
        kept = [
            f"({part})" if in_brackets(operator_of(child), node.symbol, left=not place) else part
            for place, (child, part) in enumerate(zip(node.children, parts, strict=True))
        ]
        return f" {node.symbol} ".join(kept)
    if node.kind == "conditional":
        nested = [child.kind == "conditional" for child in node.children]
        asked, yes = (f"({part})" if inner else part for inner, part in zip(nested[:2], parts, strict=False))
        return f"{asked} ? {yes} : {parts[2]}"
    operand = node.children[0]
    if node.kind == "member":
        return (parts[0] if operand.kind in ("name", "member", "call") else f"({parts[0]})") + f".{node.symbol}"
    inner = f"({parts[0]})" if operand.kind in ("binary", "conditional") else parts[0]
    if node.kind == "cast":
        return f"({node.symbol}){inner}"
    return node.symbol + (" " if inner[0] in "+-" else "") + inner
