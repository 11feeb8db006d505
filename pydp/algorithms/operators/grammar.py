"""The parser of operator expressions: OpenCL C source to a typed tree, or an error with its column.

    conditional: binary [? conditional : conditional]
    binary:      prefix {operator prefix}           * / % + - << >> < > <= >= == != & ^ | && ||, with C's precedence
    prefix:      {+ | - | ! | ~ | (type)} postfix
    postfix:     primary {. member}
    primary:     literal | name | function(conditional, ...) | (conditional) | (vector type)(conditional, ...)

Neither the parser nor the readers of the tree use recursion, so the depth of the caller's stack does not matter.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import ClassVar, NoReturn

import numpy as np

from pydp.algorithms.operators.calls import CASTS, FUNCTIONS, call
from pydp.algorithms.operators.text import DEEPEST
from pydp.algorithms.operators.tree import (
    COMPARISONS,
    CONDITIONAL,
    INT,
    LEVELS,
    Node,
    Refused,
    Type,
    binary,
    cast,
    conditional,
    in_range,
    listed,
    member,
    quoted,
    type_of,
    unary,
    vector,
)
from pydp.errors import InvalidArgument

LONGEST = 4096
"""The largest number of characters in an expression."""
MOST_NODES = 1000
"""The largest number of operands and operators: some compilers end the process at 4,000 and more."""

_TOKEN = re.compile(
    r"(?P<space>[ \t]+)"
    r"|(?P<number>0[xX](?:[pP][+-]|[0-9A-Za-z_.])*|\.?[0-9](?:[eE][+-]|[0-9A-Za-z_.])*)"
    r"|(?P<name>[^\W\d]\w*)"
    r"|(?P<wrong><<=|>>=|[-+*/%&|^]=|\+\+|--|->|//|/\*)"
    r"|(?P<sign><<|>>|[<>=!]=|&&|\|\||[-+*/%&|^~!<>?:.,()])"
)
_INTEGER = re.compile(r"(?P<digits>0[xX][0-9a-fA-F]+|[0-9]+)(?P<suffix>[uU]?(?:l|L|ll|LL)?|(?:l|L|ll|LL)[uU])\Z")
_FLOAT = re.compile(
    r"(?P<digits>(?:[0-9]+\.[0-9]*|\.[0-9]+)(?:[eE][+-]?[0-9]+)?|[0-9]+[eE][+-]?[0-9]+"
    r"|0[xX](?:[0-9a-fA-F]+\.?[0-9a-fA-F]*|\.[0-9a-fA-F]+)[pP][+-]?[0-9]+)(?P<suffix>[fFhH]?)\Z"
)
_FLOAT_TYPES: dict[str, tuple[str, type[np.floating]]] = {
    "": ("real", np.float64),
    "f": ("float", np.float32),
    "h": ("half", np.float16),
}
_CONSTANTS = {
    **dict.fromkeys(("INFINITY", "NAN", "MAXFLOAT", "M_PI_F", "M_E_F"), "float"),
    **{"INT_MAX": "int", "INT_MIN": "int", "UINT_MAX": "uint", "LONG_MAX": "long", "LONG_MIN": "long"},
}
_DOUBLES = {"M_PI": "3.141592653589793", "M_E": "2.718281828459045"}  # some devices do not define these names
_WHY = {
    **dict.fromkeys(("[", "]"), "a subscript"),
    **dict.fromkeys(("//", "/*"), "a comment"),
    **dict.fromkeys(("\n", "\r"), "a line break"),
    "=": "an assignment",
    "++": "an increment",
    "--": "a decrement",
    "->": "a pointer",
    ";": "the end of a statement",
}
_SHOWN = 100  # characters of an expression that an error message shows


def parse(text: str, dtype: np.dtype, what: str, names: tuple[str, ...] = ("a", "b")) -> Node:
    """Parse an expression in values of `dtype` with these names. Raises InvalidArgument, which names it `what`."""
    if len(text) > LONGEST:
        raise InvalidArgument(f"{what} has {len(text)} characters; expressions of at most {LONGEST} are accepted")
    return _Parser(text, what, dict.fromkeys(names, type_of(dtype))).tree()


def refused(text: str, what: str, column: int | None, message: object) -> InvalidArgument:
    """The error for a fault at a column (from 1) of an expression; a long expression is shown in part."""
    shown = text
    if len(text) > _SHOWN:
        start = max(0, min((column or 1) - _SHOWN // 2, len(text) - _SHOWN))
        shown = "..." * (start > 0) + text[start : start + _SHOWN] + "..." * (start + _SHOWN < len(text))
    return InvalidArgument(f"{what} {shown!r}{f', column {column}' if column else ''}: {message}")


@dataclass
class _Open:
    """An incomplete item on the stack: it waits for its last operand or its closing bracket.

    Kinds: unary, cast, binary, ? (a condition), : (a condition and its first value); brackets: (, call, vector.
    """

    kind: str
    symbol: str
    column: int
    nodes: list[Node] = field(default_factory=list)
    type: Type = INT


class _Parser:
    operations = "members of values, operators on values, casts and OpenCL C functions of values"
    for_python: ClassVar = {  # what is accepted instead of Python's operators
        "and": "x && y",
        "or": "x || y",
        "not": "!x",
        "if": "condition ? x : y",
        "else": "condition ? x : y",
        "**": "pow(x, y), of floats,",
    }
    chains = True  # whether a < b < c is accepted, as (a < b) < c

    def __init__(self, text: str, what: str, values: dict[str, Type]) -> None:
        self.text, self.what, self.values = text, what, values
        names = [listed(list(values))] if values else []
        self.accepted = f"{', '.join(['numbers', *names, self.operations])} are accepted"
        self.open: list[_Open] = []
        self.node: Node | None = None  # the operand just read; None while an operand is expected
        self.nodes = self.at = self.brackets = 0
        self.vector_end = -1  # the token after the last closed vector
        self.used = False
        self.tokens = self._tokens()

    def tree(self) -> Node:
        while self.at < len(self.tokens):
            token = self.tokens[self.at]
            self.at += 1
            if self.node is None:
                self._operand(token)
            else:
                self._operator(token, self.node)
        end = len(self.text) + 1
        if self.node is None:
            self._refuse(end, f"the expression ends where a value is expected; {self.accepted}")
        found = self._reduced(CONDITIONAL, self.node)
        if self.open:
            pair = "'?' has no ':'" if self.open[-1].kind == "?" else "the bracket is not closed"
            self._refuse(self.open[-1].column, f"{pair}; brackets in pairs and condition ? value : value are accepted")
        if not self.used:
            names = ", ".join(self.values)
            raise refused(self.text, self.what, None, f"it uses none of {names}; an expression in them is accepted")
        return found

    def _tokens(self) -> list[re.Match[str]]:
        found, position = [], 0
        while position < len(self.text):
            match = _TOKEN.match(self.text, position)
            if match is None or match["wrong"]:
                word = match[0] if match else self.text[position]
                self._check_python(word, position + 1)
                why = _WHY.get(word[-1] if word[-1] == "=" else word)
                self._refuse(
                    position + 1, f"{quoted(word)}{f' ({why})' if why else ''} is not accepted; {self.accepted}"
                )
            if match.lastgroup != "space":
                found.append(match)
            position = match.end()
        return found

    def _refuse(self, column: int, message: object) -> NoReturn:
        raise refused(self.text, self.what, column, message) from None

    def _check_python(self, word: str, column: int) -> None:
        if word in self.for_python:
            self._refuse(column, f"{quoted(word)} is not accepted; {self.for_python[word]} is accepted")

    def _next(self, ahead: int = 0) -> str:
        place = self.at + ahead
        return self.tokens[place][0] if place < len(self.tokens) else ""

    def _made(self, column: int, make: Callable[..., Node], *given: object) -> Node:
        """Make a node and count it; a type error gets the column."""
        self.nodes += 1
        if self.nodes > MOST_NODES:
            self._refuse(column, f"more than {MOST_NODES} operands and operators; at most {MOST_NODES} are accepted")
        try:
            return make(*given)
        except Refused as error:
            self._refuse(column, error)

    # --- an operand is expected

    def _operand(self, token: re.Match[str]) -> None:
        word, column = token[0], token.start() + 1
        if token["number"]:
            self.node = self._made(column, _literal, word)
        elif token["name"]:
            self._name(word, column)
        elif word in ("+", "-", "!", "~"):
            self.open.append(_Open("unary", word, column))
        elif word == "(":
            self._bracket(column)
        else:
            if self.text[column - 2 : column] == "**":
                self._check_python("**", column - 1)
            why = " (a pointer)" if word in ("*", "&") else ""
            self._refuse(column, f"{quoted(word)}{why} is not accepted where a value is expected; {self.accepted}")

    def _name(self, word: str, column: int) -> None:
        if word not in self.values:
            self._check_python(word, column)
        if word in CASTS:
            self._refuse(column, f"the type {word} has no brackets; ({word})value is accepted")
        if self._next() == "(":
            self.at += 1
            self._push(_Open("call", word, column))
        elif word in self.values:
            self.used = True
            self.node = self._made(column, Node, "name", word, (), self.values[word])
        elif word in _CONSTANTS:
            self.node = self._made(column, Node, "constant", word, (), Type(_CONSTANTS[word]))
        elif word in _DOUBLES:
            self.node = self._made(column, _literal, _DOUBLES[word])
        elif word in FUNCTIONS:
            self._refuse(column, f"the function {word!r} has no arguments; {word}(...) is accepted")
        else:
            self._refuse(column, f"the name {quoted(word)} is unknown; {self.accepted}")

    def _bracket(self, column: int) -> None:
        """A cast, the components of a vector, or an expression in brackets."""
        target = CASTS.get(self._next())
        if target is None:
            self._push(_Open("(", "(", column))
        elif self._next(1) != ")":
            self._refuse(column, f"'({target}' is not followed by ')'; ({target})value is accepted")
        elif target.width > 1 and self._next(2) == "(":
            self.at += 3
            self._push(_Open("vector", str(target), column, [], target))
        else:
            self.at += 2
            self.open.append(_Open("cast", str(target), column, [], target))

    def _push(self, bracket: _Open) -> None:
        self.open.append(bracket)
        self.brackets += 1
        if self.brackets > DEEPEST:
            self._refuse(bracket.column, f"more than {DEEPEST} brackets are open; at most {DEEPEST} are accepted")

    # --- an operator is expected

    def _operator(self, token: re.Match[str], node: Node) -> None:
        word, column = token[0], token.start() + 1
        if word == ".":
            self._member(column, node)
        elif word in LEVELS:
            if word in COMPARISONS and not self.chains:
                self._check_no_chain(column)
            left = self._reduced(LEVELS[word], node)
            self.open.append(_Open("binary", word, column, [left]))
            self.node = None
        elif word == "?":
            asked = self._reduced(CONDITIONAL - 1, node)
            self.open.append(_Open("?", word, column, [asked]))
            self.node = None
        elif word in (":", ",", ")"):
            self._after_value(word, column, self._reduced(CONDITIONAL, node))
        else:
            if word != "not":
                self._check_python(word, column)
            self._refuse(column, f"{quoted(word)} is not accepted where an operator is expected; {self.accepted}")

    def _check_no_chain(self, column: int) -> None:
        for one in reversed(self.open):
            if one.kind == "binary" and one.symbol in COMPARISONS:
                instead = "x < y && y < z, or (x < y) < z with brackets, is accepted"
                self._refuse(column, f"comparisons in a row, as in x < y < z, are not accepted; {instead}")
            if one.kind not in ("unary", "cast") and LEVELS.get(one.symbol, CONDITIONAL) > LEVELS["<"]:
                break  # a bracket, or an operator that binds more loosely

    def _member(self, column: int, node: Node) -> None:
        if self.vector_end == self.at - 1:  # in C, the member would belong to the last bracket only
            self._refuse(
                column, f"a member of ({node.type})(...) needs brackets; (({node.type})(...)).member is accepted"
            )
        name = self.tokens[self.at] if self.at < len(self.tokens) else None
        place = (name.start() if name else len(self.text)) + 1
        if name is None or not name["name"]:
            self._refuse(place, f"'.' is not followed by a member name; {self.accepted}")
        self.at += 1
        self.node = self._made(place, member, node, name[0])

    def _after_value(self, word: str, column: int, node: Node) -> None:
        """A sign that ends a value: ``:`` of a condition, ``,`` and ``)`` of a bracket."""
        top = self.open[-1] if self.open else _Open("", "", 0)
        if word == ":":
            if top.kind != "?":
                self._refuse(column, "':' has no '?' before it; condition ? value : value is accepted")
            top.kind = ":"
            top.nodes.append(node)
            self.node = None
        elif top.kind == "?":
            self._refuse(top.column, "'?' has no ':'; condition ? value : value is accepted")
        elif word == ",":
            if top.kind not in ("call", "vector"):
                self._refuse(column, f"',' is not accepted outside the arguments of a function; {self.accepted}")
            top.nodes.append(node)
            self.node = None
        elif not top.kind:
            self._refuse(column, "')' has no open bracket before it; brackets in pairs are accepted")
        else:
            self._closed(self.open.pop(), node)

    def _closed(self, bracket: _Open, node: Node) -> None:
        self.brackets -= 1
        self.node = node
        if bracket.kind == "call":
            self.node = self._made(bracket.column, call, bracket.symbol, [*bracket.nodes, node])
        elif bracket.kind == "vector":
            self.node = self._made(bracket.column, vector, bracket.type, [*bracket.nodes, node])
            self.vector_end = self.at

    def _reduced(self, level: int, node: Node) -> Node:
        """Complete all open operators that bind at least as tightly as `level`, with `node` as their last operand."""
        while self.open:
            top = self.open[-1]
            if top.kind == "unary":
                node = self._made(top.column, unary, top.symbol, node)
            elif top.kind == "cast":
                node = self._made(top.column, cast, top.type, node)
            elif top.kind == "binary" and LEVELS[top.symbol] <= level:
                node = self._made(top.column, binary, top.symbol, *top.nodes, node)
            elif top.kind == ":" and level >= CONDITIONAL:
                node = self._made(top.column, conditional, *top.nodes, node)
            else:
                break
            self.open.pop()
        return node


def _literal(word: str) -> Node:
    integer, number = _INTEGER.match(word), _FLOAT.match(word)
    if integer:
        return _integer(word, integer["digits"].lower(), integer["suffix"].lower())
    if not number:
        raise Refused(f"{quoted(word)} is not a number in C; numbers such as 10, 0x1F, 7u, 1.5, 2e-3f are accepted")
    digits, suffix = number["digits"].lower(), number["suffix"].lower()
    name, kind = _FLOAT_TYPES[suffix]
    try:
        value = float.fromhex(digits) if digits.startswith("0x") else float(digits)
    except OverflowError:
        value = float("inf")
    with np.errstate(over="ignore"):
        too_large = np.isinf(kind(value))
    if too_large:
        raise Refused(f"{quoted(word)} is too large; numbers up to {np.finfo(kind).max!s} are accepted as {Type(name)}")
    return Node("literal", digits + suffix, (), Type(name))


def _integer(word: str, digits: str, suffix: str) -> Node:
    base = 16 if digits.startswith("0x") else 8 if digits.startswith("0") else 10
    kept = digits.removeprefix("0x").lstrip("0") or "0"
    if base == 8 and not set(kept) <= set("01234567"):
        raise Refused(f"{quoted(word)} is not a number in C: a first 0 means octal; digits from 0 to 7 are accepted")
    value = int(kept, base) if len(kept) <= 22 else 1 << 64  # Python limits the digits that it converts
    for name, written in (("int", ""), ("uint", "u"), ("long", "L"), ("ulong", "UL")):
        fits = in_range(value, name) and ("u" not in suffix or name[0] == "u") and ("l" not in suffix or "long" in name)
        if fits and not (base == 10 and name[0] == "u" and "u" not in suffix):
            return Node("literal", f"{value}{written if suffix or name != 'long' else ''}", (), Type(name))
    raise Refused(f"{quoted(word)} is too large; integers that fit a long, or with the suffix u a ulong, are accepted")
