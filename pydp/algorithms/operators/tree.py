"""The typed tree of an operator expression: C types, nodes and type rules.

The rules of OpenCL C apply: small integers are promoted to int, operands of different types follow the usual
arithmetic conversions, scalars are widened to vectors. Functions that make nodes raise :class:`Refused` without a
column; the parser adds it.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TypeVar

import numpy as np

from pydp.dtypes import c_name, is_record, vector_parts
from pydp.errors import shown

SIZES = {
    "char": 1,
    "uchar": 1,
    "short": 2,
    "ushort": 2,
    "int": 4,
    "uint": 4,
    "long": 8,
    "ulong": 8,
    "half": 2,
    "float": 4,
    "real": 8,
    "double": 8,
}
INTEGERS = frozenset(list(SIZES)[:8])
UNSIGNED = frozenset(list(SIZES)[1:8:2])
FLOATS = frozenset(list(SIZES)[8:])  # "real": literals without suffix; double if the device has it, else float
WIDTHS = (2, 3, 4, 8, 16)
_FLOAT_ORDER = ("half", "float", "real", "double")
_SIGNED = {1: "char", 2: "short", 4: "int", 8: "long"}

POSTFIX, PREFIX, CONDITIONAL = 0, 1, 13
LEVELS = {
    **dict.fromkeys(("*", "/", "%"), 3),
    **dict.fromkeys(("+", "-"), 4),
    **dict.fromkeys(("<<", ">>"), 5),
    **dict.fromkeys(("<", ">", "<=", ">="), 6),
    **dict.fromkeys(("==", "!="), 7),
    **{"&": 8, "^": 9, "|": 10, "&&": 11, "||": 12},
}
"""The precedence of each binary operator; a larger number binds more loosely."""
COMPARISONS = ("<", ">", "<=", ">=", "==", "!=")
LOGIC = ("&&", "||")
_OF_INTEGERS = ("%", "<<", ">>", "&", "^", "|")
# Left-associative operators that chain without brackets.
_CHAINS = (("+", "-"), ("*", "/", "%"), ("&",), ("^",), ("|",), ("&&",), ("||",))


_MOST_NAMES = 5  # names that an error message lists


class Refused(Exception):
    """The expression is invalid or not accepted; the message says what is accepted."""


def quoted(word: str) -> str:
    """A word of the expression for an error message, shortened if it is long."""
    return repr(word if len(word) <= 40 else word[:40] + "...")


def listed(names: Sequence[object]) -> str:
    """The first names for an error message, each shortened if it is long, and the number of the others."""
    texts = [name if isinstance(name, str) else shown(name) for name in names[:_MOST_NAMES]]
    more = len(names) - len(texts)
    return ", ".join(text if len(text) <= 40 else text[:40] + "..." for text in texts) + f" and {more} more" * (
        more > 0
    )


def record_text(record: np.dtype) -> str:
    return f"a record with the fields {listed(record.names or ())}"


@dataclass(frozen=True)
class Type:
    """A C type: a scalar name and a vector width, or a record."""

    name: str
    width: int = 1
    record: np.dtype | None = None

    def __str__(self) -> str:
        if self.record is not None:
            return record_text(self.record)
        return ("double" if self.name == "real" else self.name) + (str(self.width) if self.width > 1 else "")

    @property
    def scalar(self) -> Type:
        return Type(self.name)

    @property
    def size(self) -> int:
        """Bytes of one scalar."""
        return SIZES[self.name]

    @property
    def is_integer(self) -> bool:
        return self.name in INTEGERS

    @property
    def is_signed(self) -> bool:
        return self.is_integer and self.name not in UNSIGNED

    def of(self, name: str) -> Type:
        """The type with the same width and another scalar."""
        return Type(name, self.width)

    @property
    def unsigned(self) -> Type:
        return self.of("u" + _SIGNED[self.size])

    @property
    def truth(self) -> Type:
        """The type of comparisons: int for scalars, signed integers of the same size for vectors."""
        return self.of(_SIGNED[self.size]) if self.width > 1 else INT


INT = Type("int")


@dataclass(frozen=True)
class Node:
    """An operation or a leaf. `takes`: the types that a call converts its arguments to.

    Kinds: literal (symbol: its C source), constant (of OpenCL C), name (of a value), member,
    unary, binary, conditional, cast, vector (of its parts), call.
    """

    kind: str
    symbol: str
    children: tuple[Node, ...]
    type: Type
    takes: tuple[Type, ...] = ()


_Result = TypeVar("_Result")


def fold(tree: Node, function: Callable[[Node, Sequence[_Result]], _Result]) -> _Result:
    """Apply `function` to each node and the results of its children, from the leaves up, without recursion."""
    waiting, results = [(tree, False)], list[_Result]()
    while waiting:
        node, ready = waiting.pop()
        if not ready:
            waiting.append((node, True))
            waiting += [(child, False) for child in reversed(node.children)]
            continue
        start = len(results) - len(node.children)
        results[start:] = [function(node, results[start:])]
    return results[0]


def type_of(dtype: np.dtype) -> Type:
    """The type of elements of `dtype`: uchar for bool, a vector of two for complex numbers."""
    if is_record(dtype):
        return Type(c_name(dtype), record=dtype)
    parts = vector_parts(dtype)
    if parts:
        return Type(c_name(parts[0]), parts[1])
    return Type(c_name(dtype).removesuffix("2"), 2) if dtype.kind == "c" else Type(c_name(dtype))


# --- the types that operands give ---------------------------------------------------------------------------


def promoted(scalar: Type) -> Type:
    return INT if scalar.is_integer and scalar.size < 4 else scalar


def usual(first: Type, second: Type) -> Type:
    """The common type of two scalars by C's usual arithmetic conversions."""
    for one, other in ((first, second), (second, first)):
        if not one.is_integer:
            if other.is_integer:
                return one
            return max(one, other, key=lambda kind: _FLOAT_ORDER.index(kind.name))
    first, second = promoted(first), promoted(second)
    return max(first, second, key=lambda kind: (kind.size, not kind.is_signed))


def weak_value(node: Node) -> int | None:
    """The value of an integer literal without suffix, possibly with a sign; None for other nodes."""
    sign = 1
    while node.kind == "unary" and node.symbol in "+-":
        sign = -sign if node.symbol == "-" else sign
        node = node.children[0]
    return sign * int(node.symbol) if node.kind == "literal" and node.symbol.isdigit() else None


def widens_to(node: Node, element: str) -> bool:
    """Whether a scalar can be widened to vectors of `element`: its type ranks no higher, or it is a plain literal."""
    own = node.type
    if own.record is not None or own.width > 1:
        return False
    if element in FLOATS:
        return own.is_integer or own.name == "real" or usual(own, Type(element)).name == element
    number = weak_value(node)
    return own.is_integer and (own.size <= SIZES[element] or (number is not None and in_range(number, element)))


def in_range(number: int, integer: str) -> bool:
    """Whether a number fits an integer type."""
    bits = 8 * SIZES[integer]
    return 0 <= number < 1 << bits if integer[0] == "u" else -(1 << bits - 1) <= number < 1 << bits - 1


def _numbers(what: str, *nodes: Node) -> None:
    for node in nodes:
        if node.type.record is not None:
            raise Refused(f"{what} is given {node.type}; numbers and vectors are accepted")


def _met(what: str, first: Node, second: Node) -> Type:
    """The common type of two operands, vectors included."""
    _numbers(what, first, second)
    one, other = first.type, second.type
    if one.width == other.width == 1:
        return usual(one, other)
    if one.width > 1 and other.width > 1:
        if one == other:
            return one
    elif widens_to(first if one.width == 1 else second, (one if one.width > 1 else other).name):
        return one if one.width > 1 else other
    raise Refused(
        f"{what} is given {one} and {other}; accepted are two vectors of one type, or a vector and a scalar of a "
        "type no larger than the vector's component type (for floats: any integer); use convert_TYPE"
    )


# --- making nodes -------------------------------------------------------------------------------------------


def unary(symbol: str, operand: Node) -> Node:
    what, own = f"the operator {symbol!r}", operand.type
    _numbers(what, operand)
    if symbol == "~" and not own.is_integer:
        raise Refused(f"{what} is given {own}; integers are accepted")
    if symbol == "!":
        return Node("unary", symbol, (operand,), own.truth)
    return Node("unary", symbol, (operand,), own if own.width > 1 else promoted(own))


def binary(symbol: str, left: Node, right: Node) -> Node:
    what = f"the operator {symbol!r}"
    if symbol in _OF_INTEGERS:
        _numbers(what, left, right)
        for one in (left, right):
            if not one.type.is_integer:
                raise Refused(f"{what} is given {one.type}; integers are accepted")
    if symbol in ("<<", ">>"):
        return Node("binary", symbol, (left, right), _shifted(what, left.type, right.type))
    met = _met(what, left, right)
    if symbol in COMPARISONS or symbol in LOGIC:
        met = met.truth
    return Node("binary", symbol, (left, right), met)


def _shifted(what: str, value: Type, count: Type) -> Type:
    if value.width > 1 and count.width in (1, value.width) and (count.width == 1 or count.size == value.size):
        return value
    if value.width == count.width == 1:
        return promoted(value)
    raise Refused(
        f"{what} is given {value} and {count}; a scalar count, or a vector of counts with the same element size, is "
        "accepted"
    )


def conditional(condition: Node, yes: Node, no: Node) -> Node:
    what, asked = "the operator '?:'", condition.type
    _numbers(f"the condition of {what}", condition)
    children = (condition, yes, no)
    if yes.type.record is not None or no.type.record is not None:
        if yes.type != no.type or asked.width > 1:
            raise Refused(
                f"{what} is given {yes.type} and {no.type}; two of the same type with a scalar condition are accepted"
            )
        return Node("conditional", "?", children, yes.type)
    met = _met(what, yes, no)
    if asked.width == 1:
        return Node("conditional", "?", children, met)
    if met.width == 1:
        met = Type(met.name, asked.width)
    if not asked.is_integer or met.width != asked.width or met.size != asked.size or met.name == "real":
        raise Refused(
            f"{what} is given the condition {asked} for values of {met}; a scalar, or the same number of integers of "
            "the same size, are accepted"
        )
    return Node("conditional", "?", children, met)


def cast(target: Type, operand: Node) -> Node:
    """``(target)operand``; a scalar fills all components of a vector."""
    own = operand.type
    if own.record is not None or (own.width > 1 and own != target):
        raise Refused(
            f"the cast ({target}) is given {own}; numbers are accepted, and convert_{target} converts vectors"
        )
    if target.width > 1:
        return vector(target, [operand])
    return Node("cast", str(target), (operand,), target)


def vector(target: Type, parts: Sequence[Node]) -> Node:
    """``(target)(parts)``: one scalar for all components, or scalars and vectors that add up to its width."""
    _numbers(f"({target})(...)", *parts)
    count = sum(part.type.width for part in parts)
    odd = next((part.type for part in parts if part.type.width > 1 and part.type.name != target.name), None)
    if odd is not None or (count != target.width and (len(parts) > 1 or count > 1)):
        given = ", ".join(str(part.type) for part in parts)
        raise Refused(
            f"({target})(...) is given {given}; one scalar, or scalars and vectors of {target.scalar} with "
            f"{target.width} components together, are accepted"
        )
    return Node("vector", str(target), tuple(parts), target)


def member(operand: Node, name: str) -> Node:
    own = operand.type
    if own.record is not None:
        return Node("member", name, (operand,), _field(own.record, name))
    count = _components(own.width, name) if own.width > 1 else 0
    if not count:
        accepted = "members of records and vectors are accepted"
        if own.width > 1:
            accepted = f"x, y, z, w, s0 to s{own.width - 1:x} (1, 2, 3, 4, 8 or 16), lo, hi, odd, even are accepted"
        raise Refused(f"{quoted(name)} is not a field or component of {own}; {accepted}")
    return Node("member", name, (operand,), Type(own.name, count))


def _field(record: np.dtype, name: str) -> Type:
    if record.fields is None or record.names is None or name not in record.names:
        raise Refused(f"{quoted(name)} is not a field of the record; {listed(record.names or ())} are accepted")
    found = record.fields[name][0]
    if found.subdtype is not None:
        raise Refused(
            f"the field {quoted(name)} of {record_text(record)} is an array; fields that are numbers or records are "
            "accepted"
        )
    return type_of(found)


def _components(width: int, name: str) -> int:
    """The number of components that `name` selects from a vector; 0 if a component does not exist."""
    if name in ("lo", "even"):
        return (width + 1) // 2
    if name in ("hi", "odd"):  # undefined for vectors of three: one component has no value
        return width // 2 if width != 3 else 0
    if name[:1] == "s":
        places = [("0123456789abcdef".find(letter)) for letter in name[1:].lower()]
    else:
        places = ["xyzw".find(letter) for letter in name]
    right = all(0 <= place < width for place in places)
    return len(places) if right and len(places) in (1, *WIDTHS) else 0


# --- the tree as text ---------------------------------------------------------------------------------------


def in_brackets(inner: str, outer: str, *, left: bool) -> bool:
    """Whether an operand of the binary operator `outer` gets brackets, because C needs them or compilers warn.

    inner: the operator of the operand; "?" for a conditional, "" for anything that binds more tightly.
    """
    if inner not in LEVELS:
        return inner == "?"
    if any(inner in chain and outer in chain for chain in _CHAINS):
        return not left
    plain = inner in ("*", "/", "%", "+", "-") or (inner in COMPARISONS and outer in LOGIC)
    return not (plain and LEVELS[inner] < LEVELS[outer])
