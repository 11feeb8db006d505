"""Predicates on vectors of 16 elements, as OpenCL C, for drivers that do not vectorize a loop over a predicate well.

The text of the predicate is parsed twice, for x as an element and as a vector. The trees are compared, because the
rules differ: vectors are not promoted to int, and comparisons of vectors give -1 instead of 1.
"""

from __future__ import annotations

from collections.abc import Set

import numpy as np

from pydp.algorithms.operators.grammar import parse
from pydp.algorithms.operators.text import Expressions
from pydp.algorithms.operators.tree import COMPARISONS, LOGIC, Node, Type, fold, in_range, type_of, usual, weak_value
from pydp.dtypes import c_name, is_record, vector_parts
from pydp.errors import InvalidArgument

_MOST_NODES = 64
_ARITHMETIC = ("+", "-", "*")  # not "/": some drivers round quotients of vectors differently
_BITS = ("&", "|", "^")


def vector_predicate(text: str, dtype: np.dtype, helpers: Set[tuple[str, str]] = frozenset()) -> tuple[str, str]:
    """The predicate `text` as an expression of a vector x that gives -1 or 0, and the helper functions that it calls.

    helpers: those that are defined already. Both are "" if some lane might have another value than the predicate has
    for one element.

    >>> vector_predicate("x > 0 && x < 9.5", np.dtype("float32"))[0]
    '(x > (float16)((float)0) && x < (float16)((float)9.5))'
    """
    import pyopencl.cltypes as cltypes

    if is_record(dtype) or vector_parts(dtype) or dtype.kind == "c" or dtype == np.float16:
        return "", ""
    try:
        scalar_tree = parse(text, dtype, "predicate", ("x",))
        vector_tree = parse(text, np.dtype(getattr(cltypes, f"{c_name(dtype)}16")), "predicate", ("x",))
    except InvalidArgument:
        return "", ""
    if fold(scalar_tree, lambda node, parts: 1 + sum(parts)) > _MOST_NODES:
        return "", ""
    if not _is_equivalent(scalar_tree, vector_tree, type_of(dtype)):
        return "", ""
    expressions = Expressions()
    source = expressions.value(vector_tree)
    if not _is_truth(vector_tree):
        source = f"({source} != ({vector_tree.type})(0))"
    return source, expressions.helper_text(helpers)


def _is_truth(node: Node) -> bool:
    return node.symbol == "!" or (node.kind == "binary" and node.symbol in (*COMPARISONS, *LOGIC))


def _is_equivalent(scalar: Node, vector: Node, element: Type) -> bool:
    """Whether each lane of `vector` has the value of `scalar`; a condition's lanes are -1 where `scalar` is 1. False
    for a subtree without x."""
    if (scalar.kind, scalar.symbol, len(scalar.children)) != (vector.kind, vector.symbol, len(vector.children)):
        return False
    if vector.type.width == 1:
        return False
    if scalar.kind == "name":
        return True
    pairs = list(zip(scalar.children, vector.children, strict=True))
    conditions = [_is_truth(child) for child in vector.children]
    if scalar.symbol == "!" or (scalar.kind == "binary" and scalar.symbol in LOGIC):
        return all(conditions) and all(_is_equivalent(*pair, element) for pair in pairs)
    if any(conditions):
        return False
    if scalar.kind == "unary":
        return scalar.symbol == "-" and scalar.type == element and _is_equivalent(*pairs[0], element)
    if scalar.kind != "binary":
        return False
    compares = scalar.symbol in COMPARISONS
    if not compares and scalar.symbol not in (*_ARITHMETIC, *_BITS):
        return False
    common = usual(*(child.type for child in scalar.children)) if compares else scalar.type
    return all(
        _is_equivalent(child, lanes, element) and (common == element or (compares and child.kind == "name"))
        if lanes.type.width > 1
        else common == element or (compares and _is_exact(child, element))
        for child, lanes in pairs
    )


def _is_exact(node: Node, element: Type) -> bool:
    """Whether a literal has the same value in the type of the elements."""
    number = weak_value(node)
    if number is not None and element.is_integer:
        return in_range(number, element.name)
    if node.kind != "literal" or node.type.name not in ("real", "double") or element.name != "float":
        return False
    value = float.fromhex(node.symbol) if node.symbol.lower().startswith("0x") else float(node.symbol)
    return abs(value) <= float(np.finfo(np.float32).max) and float(np.float32(value)) == value
