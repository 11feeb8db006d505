"""The OpenCL C source of an operator's tree, without undefined behaviour.

Signed arithmetic uses the unsigned type, so it wraps. Integer division and remainder by zero give 0. Floats convert to
integers as in :mod:`pydp.lang`. This matters: a compiler that proves undefined behaviour may drop the store of the
result, and the caller then reads old memory.
"""

from __future__ import annotations

from collections.abc import Sequence, Set
from dataclasses import dataclass, field, replace

import numpy as np

from pydp.algorithms.operators.tree import (
    CONDITIONAL,
    LEVELS,
    POSTFIX,
    PREFIX,
    Node,
    Refused,
    Type,
    fold,
    in_brackets,
    in_range,
    type_of,
    usual,
)
from pydp.dtypes import c_member

DEEPEST = 128
"""The largest depth of nested brackets; compilers accept 256."""

# as_TYPE, lane_wide_TYPE, lane_order_TYPE and lane_complement_TYPE may be macros that add brackets.
_AS_DEPTH = 2
_MACRO_DEPTH = 3
_ROUNDINGS = {"_rte": "rint", "_rtp": "ceil", "_rtn": "floor", "_rtz": "trunc"}
_OF_SIGNED = {"abs": "magnitude", "abs_diff": "difference", "add_sat": "add_sat", "sub_sat": "sub_sat"}
_EXTREMES = {"min": ["minimum"], "max": ["maximum"], "clamp": ["maximum", "minimum"]}
_HELPERS = {"rint": "rint", "fdim": "fdim"} | {  # these return NaN for NaN; one driver has no value for a constant NaN
    name: f"number_{name}"
    for name in "exp exp2 exp10 expm1 sinh cosh tanh pow native_exp native_log native_sqrt native_rsqrt native_sin "
    "native_cos native_recip".split()
}
_PLAIN = ("<", ">", "<=", ">=", "==", "!=", "&&", "||")
_REMAINDERS = ("fmod", "remainder")
REMAINDER_ITERATIONS = 278
"""Of the loop that some drivers have in fmod: one for each bit of the quotient of two floats."""


@dataclass(frozen=True)
class _C:
    """C source of a node. `operator`: see :func:`in_brackets`. `wrapped`: the unsigned form of a signed result."""

    text: str
    level: int = POSTFIX
    depth: int = 0
    operator: str = ""
    wrapped: _C | None = None
    wide: bool = False  # already the result of `_wide`

    def within(self, level: int) -> _C:
        """The source, in brackets if it binds more loosely than `level`."""
        return self if self.level <= level else _C(f"({self.text})", POSTFIX, self.depth + 1)


@dataclass
class Expressions:
    """Writes trees as C source, and collects the helpers and types that they need."""

    helpers: set[tuple[str, str]] = field(default_factory=set)
    scalars: set[str] = field(default_factory=set)
    iterations: int = 0

    @property
    def computes(self) -> tuple[np.dtype, ...]:
        """The dtypes that some devices lack and that the expressions compute with; the kernel must declare them."""
        return tuple(np.dtype(kind) for kind, name in (("f2", "half"), ("f8", "double")) if name in self.scalars)

    def helper_text(self, known: Set[tuple[str, str]] = frozenset()) -> str:
        """The C functions that the expressions call, without `known` ones."""
        missing = self.helpers - known
        if not missing:
            return ""
        from pydp.lang.opencl.helpers import text  # most expressions call none

        return text(missing)

    def assignable(self, tree: Node, dtype: np.dtype) -> str:
        """The source of `tree` converted to `dtype`, in brackets. Raises Refused if it cannot be converted."""
        own, wanted = tree.type, type_of(dtype)
        if own != wanted and (own.record is not None or wanted.record is not None or own.width > 1):
            target = "bool" if dtype.kind == "b" else str(wanted)
            accepted = "a value that converts to it is accepted"
            if own.width > 1 and wanted.record is None and wanted.width == 1:
                accepted = (
                    "operators apply to each component of complex numbers and vectors; use one component, such as .x "
                    "(of a complex number, the real part)"
                )
            raise Refused(f"the expression gives {own}, which does not convert to {target}; {accepted}")
        found = fold(tree, self._node)
        if dtype.kind == "b":
            found = _between("!=", found, _C("0"))
        elif own.width < wanted.width or (wanted.is_integer and not own.is_integer):
            found = self._converted(found, own, wanted)
        if found.depth > DEEPEST:
            raise Refused(f"its C source has {found.depth} nested brackets; at most {DEEPEST} are accepted")
        return f"({found.text})"

    def value(self, tree: Node) -> str:
        """The source of `tree` in its own type, in brackets."""
        return f"({fold(tree, self._node).text})"

    def _node(self, node: Node, parts: Sequence[_C]) -> _C:
        self.scalars.add(node.type.name)
        if node.kind in ("literal", "constant", "name"):
            return _C(node.symbol)
        return getattr(self, f"_{node.kind}")(node, parts)  # type: ignore[no-any-return]

    def _member(self, node: Node, parts: Sequence[_C]) -> _C:
        name = c_member(node.symbol) if node.children[0].type.record is not None else node.symbol
        inner = parts[0].within(POSTFIX)
        return _C(f"{inner.text}.{name}", POSTFIX, inner.depth)

    def _unary(self, node: Node, parts: Sequence[_C]) -> _C:
        operand = node.children[0]
        if node.symbol == "-" and node.type.is_signed and operand.kind != "literal":
            return _signed(_before("-", self._unsigned(parts[0], operand, node.type)), node.type)
        part = parts[0] if node.symbol == "!" else self._wide(parts[0], operand.type)
        if node.symbol == "~" and node.type.width == 1:  # one driver loses complements
            return replace(self._helper("complement", str(node.type), [part]), depth=part.depth + _MACRO_DEPTH)
        return _before(node.symbol, part)

    def _binary(self, node: Node, parts: Sequence[_C]) -> _C:
        left, right = node.children
        met = node.type
        if left.type.width != right.type.width:  # use the vector's type, because logical results have another type
            met = left.type if left.type.width > 1 else right.type
            parts = [self._converted(part, child.type, met) for part, child in zip(parts, node.children, strict=True)]
        elif met.width == 1 and node.symbol not in _PLAIN:
            parts = [self._wide(part, child.type) for part, child in zip(parts, node.children, strict=True)]
        if node.symbol in ("+", "-", "*") and met.is_signed:
            kept = [self._unsigned(part, child, met) for part, child in zip(parts, node.children, strict=True)]
            return _signed(_between(node.symbol, *kept), met)
        if node.symbol in ("<", ">", "<=", ">="):
            parts = self._ordered(parts, left.type, right.type)
        if node.symbol in ("/", "%") and met.is_integer and not _is_positive(right, met):
            return self._helper("truncdiv" if node.symbol == "/" else "truncmod", str(met), parts)
        return _between(node.symbol, *parts)

    def _ordered(self, parts: Sequence[_C], left: Type, right: Type) -> Sequence[_C]:
        """Operands of an order comparison; one driver compares longs wrongly and needs another form."""
        met = left if left.width > 1 else right if right.width > 1 else usual(left, right)
        pairs = zip(parts, (left, right), strict=True)
        if not met.is_integer:
            return [self._wide(part, own, to_float=True) if met.width == 1 else part for part, own in pairs]
        if met.name != "long":
            return parts
        self.helpers.add(("order", str(met)))
        longs = [self._converted(part, own, met) if own.width == met.width else part for part, own in pairs]
        return [_C(f"lane_order_{met}({part.text})", POSTFIX, part.depth + _MACRO_DEPTH) for part in longs]

    def _conditional(self, node: Node, parts: Sequence[_C]) -> _C:
        asked, yes, no = (part.within(LEVELS["||"]) if place < 2 else part for place, part in enumerate(parts))
        if not node.children[0].type.is_integer:  # OpenCL C accepts no float condition
            asked = _between("!=", parts[0], _C("0"))
        pairs = zip((yes, no), node.children[1:], strict=True)
        if node.type.width > 1:
            yes, no = (self._converted(part, child.type, node.type) for part, child in pairs)
        elif node.type.record is None:
            yes, no = (self._wide(part, child.type) for part, child in pairs)
        depth = max(asked.depth, yes.depth, no.depth)
        return _C(f"{asked.text} ? {yes.text} : {no.text}", CONDITIONAL, depth, "?")

    def _cast(self, node: Node, parts: Sequence[_C]) -> _C:
        return self._converted(parts[0], node.children[0].type, node.type)

    def _vector(self, node: Node, parts: Sequence[_C]) -> _C:
        if len(parts) == 1:
            return self._converted(parts[0], node.children[0].type, node.type)
        kept = [
            part if child.type.width > 1 else self._converted(part, child.type, node.type.scalar)
            for part, child in zip(parts, node.children, strict=True)
        ]
        return _C(f"({node.symbol})({_listed(kept)})", PREFIX, _depth(kept) + 1)

    def _call(self, node: Node, parts: Sequence[_C]) -> _C:
        name = node.symbol
        if name in _REMAINDERS:
            self.iterations += REMAINDER_ITERATIONS * node.type.width
        if name.startswith("convert_"):
            return self._convert(node, parts[0])
        if name == "nan":
            return self._not_a_number(node, parts[0])
        pairs = zip(parts, node.children, node.takes, strict=True)
        kept = [self._converted(part, child.type, wanted) for part, child, wanted in pairs]
        if name == "mad_sat" or (name in _OF_SIGNED and node.takes[0].is_signed):
            return self._helper(_OF_SIGNED.get(name, name), str(node.takes[0]), kept)
        if name in _EXTREMES:
            found = kept[0]
            for other, kind in zip(kept[1:], _EXTREMES[name], strict=True):
                found = self._helper(kind, _c_type(node.type), [found, other])
            return found
        if name in ("mul24", "mad24"):
            return _product(node.type, kept)
        if name in ("shuffle", "shuffle2"):
            return _shuffled(node, kept)
        if name == "dot" and node.takes[0].width == 1:  # one driver has no dot of halves
            return _between("*", *kept)
        if name in _HELPERS:
            return self._helper(_HELPERS[name], _c_type(node.type), kept)
        depth = _AS_DEPTH if name.startswith("as_") else 1
        return _C(f"{name}({_listed(kept)})", POSTFIX, _depth(kept) + depth)

    def _convert(self, node: Node, part: _C) -> _C:
        own = node.takes[0]
        if own.is_integer or not node.type.is_integer:
            part = self._wide(part, own, to_float=True) if not node.type.is_integer else part
            return _C(f"{node.symbol}({part.text})", POSTFIX, part.depth + 1)
        rounding = _ROUNDINGS.get(node.symbol[-4:])
        if rounding == "rint":
            part = self._helper("rint", _c_type(own), [part])
        elif rounding:
            part = _C(f"{rounding}({part.text})", POSTFIX, part.depth + 1)
        if "_sat" in node.symbol:
            return self._helper(f"{_c_type(own)}_to_sat", str(node.type), [part])
        return self._converted(part, own, node.type)

    def _not_a_number(self, node: Node, part: _C) -> _C:
        """nan by its bits: some drivers have no nan for vectors."""
        own, bits = node.children[0].type, node.takes[0]
        part = _as(bits, part) if own.width > 1 else self._converted(part, own, bits)
        quiet = {2: "0x7e00", 4: "0x7fc00000u", 8: "0x7ff8000000000000UL"}[bits.size]
        return _as(node.type, _between("|", part, _C(f"({bits})({quiet})", PREFIX, 1)))

    def _converted(self, part: _C, own: Type, wanted: Type) -> _C:
        """Convert a value to another type; a scalar fills all components of a vector."""
        if own == wanted:
            return part
        if own.width < wanted.width:
            inner = self._converted(part, own, wanted.scalar)
            return _C(f"({wanted})({inner.text})", PREFIX, inner.depth + 1)
        self.scalars.add(wanted.name)
        if wanted.is_integer and not own.is_integer:
            return self._helper(f"{_c_type(own)}_to", str(wanted), [part])
        if wanted.size > own.size or not wanted.is_integer:
            part = self._wide(part, own, to_float=not wanted.is_integer)
        if wanted.name == "real":
            return self._helper("to_real", "int" if own.is_integer and own.size < 4 else own.name, [part])
        inner = part.within(PREFIX)
        return _C(f"({wanted}){inner.text}", PREFIX, max(inner.depth, 1))

    def _unsigned(self, part: _C, node: Node, signed: Type) -> _C:
        """An operand of signed arithmetic, in the unsigned type."""
        if node.type == signed and part.wrapped is not None:
            return part.wrapped
        wanted = signed.unsigned
        if signed.width == 1:
            part = self._wide(part, node.type)
        if node.kind == "literal" and node.type.width == signed.width:
            return _C(node.symbol.rstrip("uUL") + ("u" if wanted.size == 4 else "UL"))
        if signed.width > 1:  # a scalar is already widened
            return _as(wanted, part)
        inner = part.within(PREFIX)
        return _C(f"({wanted}){inner.text}", PREFIX, max(inner.depth, 1))

    def _wide(self, part: _C, own: Type, to_float: bool = False) -> _C:
        """The form in which an integer is promoted, or converted to floating point, correctly by all drivers."""
        if own.record is not None or own.width > 1 or not own.is_integer or part.wide:
            return part
        if own.size >= 4 and not (to_float and own.name == "long"):
            return part
        found = self._helper("wide", own.name, [part])
        return replace(found, depth=part.depth + _MACRO_DEPTH, wide=True)

    def _helper(self, kind: str, c_type: str, parts: Sequence[_C]) -> _C:
        self.helpers.add((kind, c_type))
        return _C(f"lane_{kind}_{c_type}({_listed(parts)})", POSTFIX, _depth(parts) + 1)


def _as(wanted: Type, part: _C) -> _C:
    return _C(f"as_{wanted}({part.text})", POSTFIX, part.depth + _AS_DEPTH)


def _signed(wrapped: _C, signed: Type) -> _C:
    return replace(_as(signed, wrapped), wrapped=wrapped)


def _product(own: Type, parts: Sequence[_C]) -> _C:
    """mul24 and mad24 in unsigned arithmetic: for one driver, an overflow of its own functions is undefined."""
    left, right, *added = [_as(own.unsigned, part) if own.is_signed else part for part in parts]
    found = _between("*", left, right)
    for one in added:
        found = _between("+", found, one)
    return _signed(found, own) if own.is_signed else found


def _shuffled(node: Node, parts: Sequence[_C]) -> _C:
    """shuffle and shuffle2: one driver does not ignore the high bits of a constant mask, and has none for halves."""
    *values, mask = parts
    own, by = node.takes[0], node.takes[-1]
    mask = _between("&", mask, _C(f"({by})({own.width * len(values) - 1})", PREFIX, 1))
    if own.name == "half":
        values = [_as(own.of("ushort"), value) for value in values]
    found = _C(f"{node.symbol}({_listed([*values, mask])})", POSTFIX, _depth([*values, mask]) + 1)
    return _as(node.type, found) if own.name == "half" else found


def _before(symbol: str, part: _C) -> _C:
    inner = part.within(PREFIX)
    return _C(symbol + (" " if inner.text[0] in "+-" else "") + inner.text, PREFIX, inner.depth)


def _between(symbol: str, left: _C, right: _C) -> _C:
    kept = [
        _C(f"({part.text})", POSTFIX, part.depth + 1) if in_brackets(part.operator, symbol, left=part is left) else part
        for part in (left, right)
    ]
    return _C(f"{kept[0].text} {symbol} {kept[1].text}", LEVELS[symbol], _depth(kept), symbol)


def _c_type(own: Type) -> str:
    return "real" if own.name == "real" else str(own)


def _is_positive(node: Node, met: Type) -> bool:
    """Whether an integer literal is positive as an element of `met`: for int4, 4294967295u becomes -1."""
    if node.kind != "literal":
        return False
    number = int(node.symbol.rstrip("uUL"))
    return number > 0 and in_range(number, met.name)


def _listed(parts: Sequence[_C]) -> str:
    return ", ".join(part.text for part in parts)


def _depth(parts: Sequence[_C]) -> int:
    return max(part.depth for part in parts)
