"""Predicates on vectors of 16 elements, as OpenCL C, for drivers that do not vectorize a loop over a predicate well.

The text of the predicate is parsed twice, for x as an element and as a vector. The trees are compared, because the
rules differ: vectors are not promoted to int, and comparisons of vectors give -1 instead of 1.
"""

from __future__ import annotations

import numpy as np

from pydp.algorithms.operators.grammar import parse
from pydp.algorithms.operators.text import Expressions
from pydp.algorithms.operators.tree import FLOATS, Node, Type, fold, in_range, type_of, usual, weak_value
from pydp.dtypes import c_name, is_record, vector_parts
from pydp.errors import InvalidArgument

_MOST_NODES = 64
_COMPARISONS = ("<", ">", "<=", ">=", "==", "!=")
_LOGIC = ("&&", "||")
_ARITHMETIC = ("+", "-", "*")
_BITS = ("&", "|", "^")


def vector_predicate(text: str, dtype: np.dtype) -> tuple[str, str]:
    """The predicate `text` as an expression of a vector x that gives -1 or 0, and the functions that it calls. Both are
    "" if pydp cannot prove that each lane has the value that the predicate has for one element.

    >>> vector_predicate("x > 0 && x < 9.5", np.dtype("float32"))[0]
    '(x > (float16)((float)0) && x < (float16)((float)9.5))'
    """
    import pyopencl.cltypes as cltypes

    if is_record(dtype) or vector_parts(dtype) or dtype.kind == "c" or dtype == np.float16:
        return "", ""
    try:
        one = parse(text, dtype, "predicate", ("x",))
        many = parse(text, np.dtype(getattr(cltypes, f"{c_name(dtype)}16")), "predicate", ("x",))
    except InvalidArgument:
        return "", ""
    if fold(one, lambda node, parts: 1 + sum(parts)) > _MOST_NODES or not _alike(one, many, type_of(dtype)):
        return "", ""
    expressions = Expressions()
    source = expressions.value(many)
    if not _is_condition(many):
        source = f"({source} != ({many.type})(0))"
    if not expressions.helpers:
        return source, ""
    from pydp.lang.opencl.helpers import text as helpers_text  # loaded only by predicates that need it

    return source, helpers_text(expressions.helpers)


def _is_condition(node: Node) -> bool:
    return node.symbol == "!" or (node.kind == "binary" and node.symbol in (*_COMPARISONS, *_LOGIC))


def _alike(one: Node, many: Node, element: Type) -> bool:
    """Whether each lane of `many` has the value of `one`; a condition's lanes are -1 where `one` is 1."""
    if (one.kind, one.symbol, len(one.children)) != (many.kind, many.symbol, len(many.children)):
        return False
    if many.type.width == 1:
        return False  # without x
    if one.kind == "name":
        return True
    pairs = list(zip(one.children, many.children, strict=True))
    conditions = [_is_condition(child) for child in many.children]
    if one.symbol == "!" or (one.kind == "binary" and one.symbol in _LOGIC):
        return all(conditions) and all(_alike(*pair, element) for pair in pairs)
    if any(conditions):
        return False
    if one.kind == "unary":
        return one.symbol == "-" and one.type == element and _alike(*pairs[0], element)
    if one.kind != "binary":
        return False
    allowed = _ARITHMETIC + (("/",) if element.name in FLOATS else _BITS)
    if one.symbol in _COMPARISONS:
        met = usual(one.children[0].type, one.children[1].type)
    elif one.symbol in allowed:
        met = one.type
    else:
        return False
    exact = one.symbol in _COMPARISONS
    return all(
        _alike(child, lanes, element) and (met == element or (exact and child.kind == "name"))
        if lanes.type.width > 1
        else met == element or (exact and _is_exact(child, element))
        for child, lanes in pairs
    )


def _is_exact(node: Node, element: Type) -> bool:
    """Whether a literal has the same value in the type of the elements."""
    number = weak_value(node)
    if number is not None and element.is_integer:
        return in_range(number, element.name)
    if node.kind != "literal" or node.type.name not in ("real", "double") or element.name != "float":
        return False
    return float(np.float32(node.symbol)) == float(node.symbol)
