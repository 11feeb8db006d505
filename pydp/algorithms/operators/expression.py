"""Expressions of arrays: the grammar of operator expressions, with several names and with NumPy's types.

The parser of `operators.grammar` makes each node by a function of `operators.tree`. Here these functions first convert
the operands to the dtype in which NumPy computes. Literals without suffix and Python numbers are weak, as in NumPy 2:
they take the dtype of the other operand.
"""

from __future__ import annotations

import functools
import keyword
import operator
import re
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from itertools import product
from typing import Any, ClassVar

import numpy as np

from pydp.algorithms.operators import grammar
from pydp.algorithms.operators.calls import CASTS, FUNCTIONS, call
from pydp.algorithms.operators.text import REMAINDER_ITERATIONS, Expressions
from pydp.algorithms.operators.tree import (
    COMPARISONS,
    INT,
    INTEGERS,
    Node,
    Refused,
    Type,
    binary,
    cast,
    conditional,
    fold,
    member,
    quoted,
    type_of,
    unary,
    vector,
    weak_value,
)
from pydp.dtypes import c_declarations, c_name
from pydp.errors import InvalidArgument, shown

Kind = Any
"""The type of a value: a dtype, or int or float for weak numbers, or LARGE or HUGE for given numbers."""
LARGE, HUGE = "large", "huge"
"""The kinds of Python integers that int64 does not hold: from 2**63 to 2**64 - 1, passed as uint64, and all others,
passed as floats. Expressions refuse them where a dtype must hold them."""

_UFUNCS = {
    **{"+": np.add, "-": np.subtract, "*": np.multiply, "/": np.true_divide, "%": np.remainder},
    **{"&": np.bitwise_and, "|": np.bitwise_or, "^": np.bitwise_xor, "<<": np.left_shift, ">>": np.right_shift},
}
_NAMES = {  # NumPy's names of OpenCL C's functions
    **{f"arc{name}": f"a{name}" for name in ("sin", "cos", "tan", "sinh", "cosh", "tanh", "tan2")},
    **{"absolute": "abs", "maximum": "max", "minimum": "min", "power": "pow", "mod": "remainder"},
}
_OF_FLOATS = {  # functions that are computed in the dtype of NumPy's function
    "sin": np.sin, "cos": np.cos, "tan": np.tan, "asin": np.arcsin, "acos": np.arccos, "atan": np.arctan,
    "sinh": np.sinh, "cosh": np.cosh, "tanh": np.tanh, "asinh": np.arcsinh, "acosh": np.arccosh, "atanh": np.arctanh,
    "exp": np.exp, "exp2": np.exp2, "expm1": np.expm1, "log": np.log, "log2": np.log2, "log10": np.log10,
    "log1p": np.log1p, "sqrt": np.sqrt, "cbrt": np.cbrt, "rint": np.rint, "fabs": np.fabs, "hypot": np.hypot,
    "atan2": np.arctan2, "copysign": np.copysign, "nextafter": np.nextafter, "fmax": np.fmax, "fmin": np.fmin,
    "degrees": np.degrees, "radians": np.radians,
}  # fmt: skip
_ROUNDED = ("floor", "ceil", "trunc", "round")  # functions that return integers unchanged
_TESTS = ("isnan", "isinf", "isfinite", "signbit")
_WORD = re.compile(r"(?<![\w.])[^\W\d]\w*")
_ARGUMENTS = re.compile(r"\s*\(")
_BOOL = np.dtype(bool)
_LONG, _ULONG = np.dtype(np.int64), np.dtype(np.uint64)
_OF_ONE: dict[str, Callable[[int], int]] = {"+": operator.pos, "-": operator.neg, "~": operator.invert, "abs": abs}
_OF_TWO: dict[str, Callable[[int, int], int]] = {
    **{"+": operator.add, "-": operator.sub, "*": operator.mul, "max": max, "min": min},
    **{"&": operator.and_, "|": operator.or_, "^": operator.xor},
    "mod": lambda a, b: a % b if b else 0,
    "floordiv": lambda a, b: a // b if b else 0,
    "pow": lambda a, b: a ** min(max(b, 0), _LARGEST_EXPONENT + b % 2),
    "shl": lambda a, count: a << min(count, _LONGEST_SHIFT) if count >= 0 else 0,
    "shr": lambda a, count: a >> (min(count, _LONGEST_SHIFT) if count >= 0 else _LONGEST_SHIFT),
}
_LONGEST_SHIFT = 1024  # counts of shifts are limited to this; longer shifts also give 0, -1, or too large a result
_LARGEST_EXPONENT = 64  # larger exponents also give 0, 1, -1, or too large a result
_SHIFTS = {"<<": "shl", ">>": "shr"}
# NumPy's function, and the name of the helper.
_OF_INTEGERS = {"floor_divide": (np.floor_divide, "floordiv"), "pow": (np.power, "pow")}
_MOST_VALUES = 256  # possible values of an integer whose operands depend on conditions
WIDTH = 16
"""The elements of a vector."""


@dataclass(frozen=True)
class Expression:
    """A parsed expression. source: the C function ``evaluate`` of its names, in their order, with all that it needs.
    vectors: the source of ``evaluate_vectors`` on vectors, if all values are float32 and functions are called. checks:
    integers that depend on given numbers, and the dtypes, one of which must hold them."""

    dtype: np.dtype
    source: str
    iterations: int
    vectors: str = ""
    checks: tuple[tuple[Node, tuple[np.dtype, ...]], ...] = ()

    def check(self, numbers: Sequence[Any]) -> None:
        """Raise InvalidArgument if a dtype does not hold an integer. numbers: the values, None for arrays."""
        known = {_c_name(n): int(one) for n, one in enumerate(numbers) if isinstance(one, (int, np.integer))}
        try:
            for tree, dtypes in self.checks:
                _check_held(_whole_values(tree, known), dtypes)
        except Refused as error:
            raise InvalidArgument(str(error)) from None


def names_in(text: str, given: Collection[str] = ()) -> list[str]:
    """The names of values in an expression, in the order of their first use. given: names that are values even if
    OpenCL C has a constant of that name, or Python a keyword. Raises InvalidArgument for a text that is too long."""
    _check_length(text)
    found, given = dict[str, None](), set(given)
    for match in _WORD.finditer(text):
        word = match[0]
        constant = word in grammar._CONSTANTS or word in grammar._DOUBLES
        known = word in CASTS or ((constant or keyword.iskeyword(word)) and word not in given)
        # Other words, such as superscripts, are not names. The parser refuses them with the column.
        if not known and (word.isidentifier() or word in given) and not _ARGUMENTS.match(text, match.end()):
            found[word] = None
    return list(found)


def _check_length(text: str) -> None:
    if len(text) > grammar.LONGEST:
        raise InvalidArgument(
            f"expression has {len(text)} characters; expressions of at most {grammar.LONGEST} are accepted"
        )


def is_number(value: Any) -> bool:
    """Whether a value is a number, which kernels take by value."""
    return isinstance(value, (bool, int, float, np.bool_, np.integer, np.floating))


def kind_of(number: Any) -> Kind:
    """The kind of a number."""
    if isinstance(number, (np.generic, bool)):
        return np.dtype(bool) if isinstance(number, bool) else number.dtype
    if not isinstance(number, int):
        return float
    return int if _holds(_LONG, number) else LARGE if _holds(_ULONG, number) else HUGE


def number_argument(value: Any, kind: Kind, double: bool) -> Any:
    """A number as an argument of a kernel. double: the device has float64."""
    try:
        if isinstance(kind, np.dtype):
            made: Any = np.asarray(value, kind)[()]
            return made
        if kind is int or kind is LARGE:
            return np.int64(value) if kind is int else np.uint64(value)
        with np.errstate(over="ignore"):
            return np.float64(value) if double else np.float32(float(value))
    except OverflowError:
        raise InvalidArgument(
            f"the number {shown(value)} is too large; numbers that {kind if isinstance(kind, np.dtype) else 'float64'} "
            "holds are accepted"
        ) from None


@functools.lru_cache(maxsize=256)
def expression_of(
    text: str, values: tuple[tuple[str, Kind], ...], double: bool, result: np.dtype | None = None, width: int = 0
) -> Expression:
    """Parse an expression. values: the names and their kinds. double: the device has float64. result: the dtype that
    the value is converted to; None: NumPy's. width: of the vectors; 0: WIDTH, if the expression calls functions."""
    parser = _Parser(text, dict(values), double)
    tree = parser.tree()
    kind = parser.strong(parser.kind(tree)) if result is None else result
    expressions = _Text()
    try:
        body = expressions.assignable(parser.to(tree, kind), kind)
    except Refused as error:
        raise grammar.refused(text, "expression", 1, error) from None
    parameters = ", ".join(f"const {parser.parameter(one)} {_c_name(n)}" for n, (_, one) in enumerate(values))
    vectors = ""
    if kind == np.float32 and (width or any(one.kind == "call" for one in parser.made)):
        vectors = _on_vectors(text, values, double, expressions.helpers, width or WIDTH)
    source = c_declarations(expressions.computes) + expressions.helper_text()
    source += f"static {c_name(kind)} evaluate({parameters}) {{ return {body}; }}"
    return Expression(kind, source, expressions.iterations, vectors, tuple(parser.checks))


def _on_vectors(
    text: str, values: tuple[tuple[str, Kind], ...], double: bool, known: set[tuple[str, str]], width: int
) -> str:
    """The function on vectors of `width` floats: compilers do not vectorize calls of functions such as sin themselves.
    Empty if the expression has other types. known: helper functions that the source has anyway."""
    if any(isinstance(kind, np.dtype) and kind != np.float32 for _, kind in values):
        return ""
    parser = _Parser(text, dict(values), double, width)
    expressions = _Text()
    try:
        tree = parser.tree()
        if tree.type != Type("float", width):
            return ""
        body = expressions.whole(tree)
    except (InvalidArgument, Refused):
        return ""
    parameters = ", ".join(
        f"const {parser.parameter(kind)}{width if isinstance(kind, np.dtype) else ''} {_c_name(n)}"
        for n, (_, kind) in enumerate(values)
    )
    return f"{expressions.helper_text(known)}static float{width} evaluate_vectors({parameters}) {{ return {body}; }}"


def _c_name(n: int) -> str:
    """The C name of a value: the user's names may be words of OpenCL C."""
    return f"v{n}"


def _whole_values(tree: Node, known: Mapping[str, int]) -> frozenset[int] | None:
    """The values that an integer of literals and known numbers has under any conditions; None for other trees. Raises
    Refused if there are too many."""

    def values(node: Node, parts: Sequence[frozenset[int] | None]) -> frozenset[int] | None:
        if node.kind == "literal":
            return frozenset([int(node.symbol.rstrip("uUL"))]) if node.type.is_integer else None
        if node.kind == "name":
            return frozenset([known[node.symbol]]) if node.symbol in known else None
        chosen = [one for one in (parts[1:] if node.kind == "conditional" else parts) if one is not None]
        if len(chosen) < len(parts) - (node.kind == "conditional"):
            return None
        if node.kind in ("conditional", "cast"):
            found = chosen[0].union(*chosen[1:])
        else:
            make: Any = (_OF_ONE if len(chosen) == 1 else _OF_TWO).get(_SHIFTS.get(node.symbol, node.symbol))
            if make is None:
                return None
            found = frozenset(make(*one) for one in product(*chosen))
        if len(found) > _MOST_VALUES:
            raise Refused(
                f"an expression of integer literals and conditions has more than {_MOST_VALUES} possible values, too "
                "many to choose a dtype; cast one operand, for example (long)1"
            )
        return found

    return fold(tree, values)


def _holds(dtype: np.dtype, value: int) -> bool:
    return int(np.iinfo(dtype).min) <= value <= int(np.iinfo(dtype).max)


def _check_held(values: frozenset[int] | None, dtypes: Sequence[np.dtype]) -> None:
    """Raise Refused if none of the dtypes holds one of the values."""
    for value in values or ():
        if not any(_holds(dtype, value) for dtype in dtypes):
            least, most = np.iinfo(dtypes[0]).min, np.iinfo(dtypes[0]).max
            raise Refused(
                f"the integer {shown(value)} is computed in {dtypes[0]}, which holds {least} to {most}; use "
                f"{'a wider dtype' if dtypes[0].itemsize < 8 else 'floating-point numbers'}"
            )


def _literal_value(node: Node) -> int:
    """The value of an integer literal without suffix; -1 for other nodes."""
    found = weak_value(node)
    return -1 if found is None else found


class _Text(Expressions):
    """C source, with functions of lane_functions.mako."""

    def whole(self, tree: Node) -> str:
        """The source of a tree as it is."""
        return str(fold(tree, self._node).text)

    def _node(self, node: Node, parts: Sequence[Any]) -> Any:
        if node.kind == "literal" and node.type.name == "long" and node.symbol.isdigit():
            node = Node(node.kind, f"{node.symbol}L", (), node.type)
        return super()._node(node, parts)

    def _helped(self, node: Node, parts: Sequence[Any]) -> Any:
        if node.symbol == "pow":
            self.iterations += 1 + 8 * node.type.size  # it has a loop over the bits of the exponent
        elif node.symbol in ("mod", "floordiv") and not node.type.is_integer:
            self.iterations += REMAINDER_ITERATIONS * node.type.width
        return self._helper(node.symbol, str(node.type), parts)


class _Parser(grammar._Parser):
    """The parser, with NumPy's types. `kinds`: the kind of each node, by its id; `made` keeps the nodes. `checks`:
    see Expression."""

    operations = "operators on values, casts, and OpenCL C's and NumPy's functions of numbers"
    for_python: ClassVar = {**grammar._Parser.for_python, "**": "power(x, y)", "//": "floor_divide(x, y)"}
    chains = False  # in Python, a < b < c is a < b && b < c

    def __init__(self, text: str, values: dict[str, Kind], double: bool, width: int = 1) -> None:
        _check_length(text)
        self.double = double
        self.given = values
        self.kinds: dict[int, Kind] = {}
        self.made: list[Node] = []
        self.checks: list[tuple[Node, tuple[np.dtype, ...]]] = []
        types = {
            name: Type(type_of(kind).name, width) if isinstance(kind, np.dtype) else self._weak(kind)
            for name, kind in values.items()
        }
        super().__init__(text, "expression", types)
        self.used = True  # an expression of literals is accepted

    def _weak(self, kind: Kind) -> Type:
        return Type("long" if kind is int else "ulong" if kind is LARGE else "double" if self.double else "float")

    def parameter(self, kind: Kind) -> str:
        """The C type of a parameter."""
        return c_name(kind) if isinstance(kind, np.dtype) else str(self._weak(kind))

    def strong(self, kind: Kind) -> np.dtype:
        """The dtype of a result."""
        if isinstance(kind, np.dtype):
            return kind
        return np.dtype(np.int64) if kind is int else np.dtype(np.float64 if self.double else np.float32)

    # --- kinds

    def kind(self, node: Node) -> Kind:
        """The kind of a node."""
        return self.kinds[id(node)]

    def _is(self, node: Node, kind: Kind) -> Node:
        self.made.append(node)
        self.kinds[id(node)] = kind
        return node

    def to(self, node: Node, kind: Kind) -> Node:
        """A node converted to a kind. Vectors are not converted."""
        own = self.kind(node)
        if own is int and kind is not int:
            if isinstance(kind, np.dtype) and kind.kind in "iu":
                self._must_hold(node, kind)
            elif self._is_wide(node):
                return self.to(node.children[0], kind)
            else:
                self._must_hold(node, *((_LONG, _ULONG) if kind == _BOOL else (_LONG,)))
        if own == kind:
            return node
        if node.type.width > 1:
            raise Refused(f"a {node.type} does not convert to {self._name_of(kind)}; vectors of one type are accepted")
        if kind == _BOOL:
            zero = Node("literal", "0", (), Type("int"))
            return self._is(cast(Type("uchar"), binary("!=", node, zero)), _BOOL)
        return self._narrow(self._short(node), kind)

    def _must_hold(self, node: Node, *dtypes: np.dtype) -> None:
        """Refuse a weak integer that none of the dtypes holds, or check it when the given numbers are known.

        Weak integers are computed in 64 bits. Conversions to integers of 64 bits are right even after an overflow, if
        64 bits hold the operands; before others, int64 must hold the value."""
        values = _whole_values(node, {})
        if values is None:
            self.checks.append((node, dtypes))
        _check_held(values, dtypes)

    def _check_operands(self, kind: Kind, *operands: Node) -> None:
        """Raise Refused if an integer that 64 bits do not hold is an operand of an integer operation. Such numbers are
        passed as floats and are not exact."""
        for one in operands:
            if kind is int and self._is_wide(one) and not one.children[0].type.is_integer:
                self._must_hold(one, _LONG, _ULONG)

    def _wide(self, node: Node, dtype: Kind) -> Node:
        """A literal or given number that int64 does not hold, as a weak integer."""
        return self._is(cast(Type("long"), self._is(node, dtype)), int)

    @staticmethod
    def _is_wide(node: Node) -> bool:
        child = node.children[0] if node.kind == "cast" else node
        return child is not node and child.kind in ("literal", "name") and not child.type.is_signed

    def _short(self, node: Node) -> Node:
        """A weak literal as an int if it is one; other nodes as they are."""
        value = weak_value(node) if self.kind(node) is int else None
        if value is None or abs(value) > np.iinfo(np.int32).max:
            return node
        found = self._is(Node("literal", str(abs(value)), (), INT), int)
        return found if value >= 0 else self._is(unary("-", found), int)

    def _resolved(self, ufunc: np.ufunc, what: str, *nodes: Node) -> tuple[Kind, ...]:
        """The dtypes of the arguments and the result of a NumPy function; weak kinds for weak arguments alone."""
        kinds = [self.kind(one) for one in nodes]
        weak = [one for one in kinds if not isinstance(one, np.dtype)]
        try:
            found = ufunc.resolve_dtypes((*(self._for_numpy(one, kinds) for one in kinds), None))
        except TypeError:
            raise Refused(f"{what} is not defined for {', '.join(map(self._name_of, kinds))}") from None
        if len(weak) == len(kinds):
            own = tuple({"i": int, "u": int}.get(one.kind, _BOOL if one.kind == "b" else float) for one in found)
            return own
        return tuple(found)

    def _for_numpy(self, kind: Kind, kinds: list[Kind]) -> Any:
        """A kind as resolve_dtypes takes it; weak kinds alone stand for their default dtypes."""
        if isinstance(kind, np.dtype) or any(isinstance(one, np.dtype) for one in kinds):
            return kind
        return self.strong(kind) if kind is int else np.dtype(np.float64)

    @staticmethod
    def _name_of(kind: Kind) -> str:
        return str(kind) if isinstance(kind, np.dtype) else kind.__name__

    def common(self, *nodes: Node) -> Kind:
        """NumPy's common kind."""
        kinds = [self.kind(one) for one in nodes]
        if not any(isinstance(one, np.dtype) for one in kinds):
            return float if float in kinds else int
        samples = [one if isinstance(one, np.dtype) else one(0) for one in kinds]
        return np.result_type(*samples)

    # --- the functions that make nodes

    def _made(self, column: int, make: Callable[..., Node], *given: object) -> Node:
        return super()._made(column, self._rules.get(make, make) if make is not Node else self._leaf, *given)

    @property
    def _rules(self) -> dict[Any, Callable[..., Node]]:
        return {
            grammar._literal: self._number, binary: self._binary, unary: self._unary, conditional: self._choice,
            call: self._call, cast: self._cast, member: self._refused, vector: self._refused,
        }  # fmt: skip

    def _leaf(self, kind: str, symbol: str, children: tuple[Node, ...], type_: Type) -> Node:
        if kind == "name":
            own = self.given[symbol]
            node = Node(kind, _c_name(list(self.given).index(symbol)), children, type_)
            if own is LARGE or own is HUGE:
                return self._wide(node, _ULONG if own is LARGE else float)
            return self._is(node, own)
        node = Node(kind, symbol, children, type_)
        return self._is(
            node, float if type_.name == "float" else np.dtype({"uint": "u4", "long": "i8"}.get(type_.name, "i4"))
        )

    def _number(self, word: str) -> Node:
        if word.isascii() and word.isdigit() and word[0] != "0" and (len(word) > 20 or int(word) >= 1 << 63):
            if len(word) > 20 or int(word) >= 1 << 64:
                raise Refused(f"{quoted(word)} is too large; integers below 2**64 are accepted")
            return self._wide(grammar._literal(f"{word}UL"), _ULONG)
        node = grammar._literal(word)
        if node.type.name == "real":
            return self._is(node, float)
        if node.type.name in ("float", "half"):
            return self._is(node, np.dtype(f"f{node.type.size}"))
        if node.symbol.isdigit():
            return self._is(Node("literal", node.symbol, (), Type("long")), int)
        return self._is(node, np.dtype(f"{'u' if node.type.name[0] == 'u' else 'i'}{node.type.size}"))

    def _refused(self, *given: object) -> Node:
        raise Refused("members and vectors are not accepted in an expression of arrays")

    def _binary(self, symbol: str, left: Node, right: Node) -> Node:
        if symbol in ("&&", "||"):
            return self._is(binary(symbol, self.to(left, _BOOL), self.to(right, _BOOL)), _BOOL)
        if symbol in COMPARISONS:
            return self._is(self._compared(symbol, left, right), _BOOL)
        first, second, result = self._resolved(_UFUNCS[symbol], f"the operator {symbol!r}", left, right)
        self._check_operands(result, left, right)
        one, other = self.to(left, first), self.to(right, second)
        if result is int and symbol in ("%", "<<", ">>"):
            for operand in (left, right) if symbol != "<<" else (right,):
                self._must_hold(operand, _LONG)
        if result == _BOOL:  # + is "or", * is "and"
            if one.type.width != other.type.width:  # true is -1 in the bool of a vector, and 1 in that of a number
                raise Refused(
                    f"the operator {symbol!r} is given bools of {one.type.width} and {other.type.width} components; "
                    "equal numbers of components are accepted"
                )
            made = binary({"+": "|", "*": "&"}.get(symbol, symbol), one, other)
        elif symbol == "%":
            made = self._helped("mod", result, one, other)
        elif symbol in _SHIFTS and not 0 <= _literal_value(other) < 8 * self.strong(result).itemsize:
            made = self._helped(_SHIFTS[symbol], result, one, other)
        else:
            made = binary(symbol, one, other)
        return self._narrow(made, result)

    def _helped(self, name: str, kind: Kind, *arguments: Node) -> Node:
        """A call of a function of lane_functions.mako, on vectors if an argument is one."""
        width = max(one.type.width for one in arguments)
        wanted = Type(c_name(self.strong(kind)), width)
        return Node(
            "helped", name, tuple(one if one.type.width == width else cast(wanted, one) for one in arguments), wanted
        )

    def _compared(self, symbol: str, left: Node, right: Node) -> Node:
        """A comparison. Weak integers are compared with other integers exactly."""
        kinds = [self.kind(left), self.kind(right)]
        if (
            all(isinstance(one, np.dtype) and one == _BOOL for one in kinds)
            and max(left.type.width, right.type.width) > 1
        ):  # true is -1 in the bool of a vector, and 1 in that of a number
            raise Refused(
                f"the operator {symbol!r} is given bools of {left.type.width} and {right.type.width} components; bools "
                "of one component are accepted"
            )
        if kinds[0] is not int and kinds[1] is not int:
            return self._compared_in(self.common(left, right), symbol, left, right)
        weak, other, dtype = (left, right, kinds[1]) if kinds[0] is int else (right, left, kinds[0])
        if not isinstance(dtype, np.dtype) or dtype.kind not in "iu":
            return self._compared_in(self.common(left, right), symbol, left, right)
        values, is_wide = _whole_values(weak, {}), self._is_wide(weak)
        if (values is not None and all(_holds(dtype, one) for one in values)) or (dtype == _ULONG and is_wide):
            return self._compared_in(dtype, symbol, left, right)
        if is_wide and weak.children[0].type.is_integer:  # greater than all values of `dtype`
            met = symbol in (("<", "<=", "!=") if weak is right else (">", ">=", "!="))
            return Node("literal", str(int(met)), (), INT)
        if dtype != _ULONG:
            return self._compared_in(_LONG, symbol, left, right)
        self._must_hold(weak, _LONG)
        if other.type.width > 1:
            raise Refused(f"a Python integer is compared with {other.type}; ulong is accepted, so compare components")
        wide = self._is(cast(Type("ulong"), weak), dtype)
        pair = (wide, other) if weak is left else (other, wide)
        below = symbol in (("<", "<=", "!=") if weak is left else (">", ">=", "!="))  # for a negative number
        negative = binary("<", weak, Node("literal", "0", (), Type("long")))
        return conditional(negative, Node("literal", str(int(below)), (), INT), binary(symbol, *pair))

    def _compared_in(self, kind: Kind, symbol: str, left: Node, right: Node) -> Node:
        if kind is int:
            self._must_hold(left, _LONG)
            self._must_hold(right, _LONG)
        return binary(symbol, self.to(left, kind), self.to(right, kind))

    def _narrow(self, made: Node, kind: Kind) -> Node:
        """A node in the C type of its kind: C computes small integers as int, for example."""
        wanted = Type(c_name(self.strong(kind)))
        if made.type.width > 1:
            if made.type.name != wanted.name:
                raise Refused(
                    f"the operation gives {made.type}, but NumPy's type rules give {wanted.name}; vectors of one type "
                    "are accepted"
                )
            return self._is(made, kind)
        return self._is(made if made.type == wanted else cast(wanted, made), kind)

    def _unary(self, symbol: str, operand: Node) -> Node:
        kind = self.kind(operand)
        if symbol == "!" or (symbol == "~" and kind == _BOOL):
            return self._is(unary("!", self.to(operand, _BOOL)), _BOOL)
        if kind == _BOOL:
            raise Refused(f"the operator {symbol!r} is not defined for bool; '!' and '~' are accepted")
        self._check_operands(kind, operand)
        return self._narrow(unary(symbol, operand), kind)

    def _choice(self, condition: Node, yes: Node, no: Node) -> Node:
        met = self.common(yes, no)
        self._check_operands(met, yes, no)
        return self._narrow(conditional(self.to(condition, _BOOL), self.to(yes, met), self.to(no, met)), met)

    def _cast(self, target: Type, operand: Node) -> Node:
        if target.width > 1:
            return self._refused()
        letter = "f" if not target.is_integer else "u" if target.name[0] == "u" else "i"
        if self.kind(operand) is int:
            if self._is_wide(operand) and not target.is_integer:
                operand = operand.children[0]
            else:
                self._must_hold(operand, *((_LONG, _ULONG) if target.is_integer else (_LONG,)))
        return self._is(cast(target, operand), np.dtype(f"{letter}{target.size}"))

    def _call(self, name: str, arguments: Sequence[Node]) -> Node:
        own = _NAMES.get(name, name)
        if own == "where" and len(arguments) == 3:
            return self._choice(*arguments)
        if own in _ROUNDED and len(arguments) == 1 and self._is_whole(arguments[0]):
            return arguments[0]
        if own == "abs" and len(arguments) == 1:
            return self._magnitude(arguments[0])
        if own == "clip" and len(arguments) == 3:
            return self._clipped(*arguments)
        if own in _TESTS:
            return self._is(call(own, [self._as_float(one) for one in arguments]), _BOOL)
        if own in ("fmax", "fmin") and all(self._is_whole(one) for one in arguments):
            own = own[1:]  # integers have no NaN
        if own in ("max", "min"):
            met = self.common(*arguments)
            if met is int:
                self._must_hold_all(arguments)
            return self._narrow(call(own, [self.to(one, met) for one in arguments]), met)
        if own == "floor_divide" and len(arguments) == 2:
            return self._of_integers(own, *arguments)
        if own == "remainder" and len(arguments) == 2:
            return self._binary("%", *arguments)
        if own == "fmod" and len(arguments) == 2:
            return self._fmod(*arguments)
        if own == "sign" and len(arguments) == 1:
            return self._sign(*arguments)
        if own == "pow" and len(arguments) == 2:
            return self._power(*arguments)
        ufunc = _OF_FLOATS.get(own)
        if ufunc is not None and len(arguments) == ufunc.nin:
            *kinds, result = self._resolved(ufunc, name, *arguments)
            return self._narrow(
                call(own, [self.to(one, kind) for one, kind in zip(arguments, kinds, strict=True)]), result
            )
        if own not in FUNCTIONS:
            raise Refused(
                f"the function {quoted(name)} is unknown; OpenCL C's functions of numbers, also by NumPy's "
                "names, where and clip are accepted"
            )
        self._must_hold_all([one for one in arguments if self.kind(one) is int])
        try:
            made = call(own, [self._short(one) for one in arguments])
        except Refused:
            made = call(own, [self._as_float(one) for one in arguments])
        if made.type.width > 1 or made.type.record is not None:
            return self._refused()
        letter = "i" if made.type.is_signed else "u" if made.type.name in INTEGERS else "f"
        return self._is(made, float if made.type.name == "real" else np.dtype(f"{letter}{made.type.size}"))

    def _must_hold_all(self, nodes: Sequence[Node]) -> None:
        for one in nodes:
            self._must_hold(one, _LONG)

    def _is_whole(self, node: Node) -> bool:
        kind = self.kind(node)
        return kind is int or (isinstance(kind, np.dtype) and kind.kind in "iub")

    def _as_float(self, node: Node) -> Node:
        return self.to(node, self.strong(float)) if self._is_whole(node) else node

    def _magnitude(self, node: Node) -> Node:
        kind = self.kind(node)
        if kind == _BOOL:
            return node
        if kind is int:
            self._must_hold(node, _LONG)
        return self._narrow(call("abs" if self._is_whole(node) else "fabs", [node]), kind)

    def _clipped(self, x: Node, low: Node, high: Node) -> Node:
        """NumPy's clip: the minimum of `high` and the maximum of the others; NaN stays NaN, and `high` wins."""
        met = self.common(x, low, high)
        if met is int:
            self._must_hold_all((x, low, high))
        x, low, high = (self.to(one, met) for one in (x, low, high))
        above = self._narrow(call("max", [x, low]), met)
        return self._narrow(call("min", [above, high]), met)

    def _fmod(self, left: Node, right: Node) -> Node:
        """NumPy's fmod: the remainder with the sign of the dividend; 0 for integers and a divisor of 0."""
        *kinds, result = self._resolved(np.fmod, "fmod", left, right)
        if not (result is int or (isinstance(result, np.dtype) and result.kind in "iu")):
            left, right = (self.to(one, kind) for one, kind in zip((left, right), kinds, strict=True))
            return self._narrow(call("fmod", [left, right]), result)
        self._check_operands(result, left, right)
        if result is int:
            self._must_hold_all((left, right))
        return self._narrow(self._helped("truncmod", result, self.to(left, result), self.to(right, result)), result)

    def _sign(self, x: Node) -> Node:
        """NumPy's sign; that of NaN is NaN."""
        if self.kind(x) == _BOOL:
            raise Refused("the function 'sign' is not defined for bool")
        kind = self.kind(x)
        if kind is int:
            self._must_hold(x, _LONG)
        return self._narrow(self._helped("sign", kind, self.to(x, kind)), kind)

    def _power(self, base: Node, exponent: Node) -> Node:
        *_, result = self._resolved(np.power, "pow", base, exponent)
        if result is int or (isinstance(result, np.dtype) and result.kind in "iu"):
            return self._of_integers("pow", base, exponent)
        return self._narrow(call("pow", [self.to(base, result), self.to(exponent, result)]), result)

    def _of_integers(self, name: str, left: Node, right: Node) -> Node:
        """Functions of two numbers that have a result of the same dtype."""
        ufunc, helper = _OF_INTEGERS[name]
        *_, result = self._resolved(ufunc, name, left, right)
        self._check_operands(result, left, right)
        if result is int:
            self._must_hold_all((left, right))
        return self._narrow(self._helped(helper, result, self.to(left, result), self.to(right, result)), result)
