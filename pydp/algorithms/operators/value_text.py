"""Keys and comparisons that are OpenCL C expressions, as C functions."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np
from pyopencl import cltypes

from pydp.algorithms.operators.calls import TESTS
from pydp.algorithms.operators.grammar import parse, refused
from pydp.algorithms.operators.text import Expressions
from pydp.algorithms.operators.tree import Node, Refused, Type, quoted
from pydp.dtypes import c_name
from pydp.errors import InvalidArgument

_TRUTHS = ("<", ">", "<=", ">=", "==", "!=", "&&", "||", "!")
_BITWISE = ("&", "|", "^")


@dataclass
class ExpressionFunctions:
    """Collects C functions of expressions; they share their helpers."""

    _expressions: Expressions = field(default_factory=Expressions)
    _functions: list[str] = field(default_factory=list)

    def add(
        self, what: str, text: str, dtype: np.dtype, names: tuple[str, ...], *, condition: bool = False
    ) -> tuple[str, np.dtype]:
        """Add the function of an expression in values of `dtype`; returns its name and the dtype of its result.

        condition: the expression must be true or false. Raises InvalidArgument, which names the expression `what`.
        """
        tree = parse(text, dtype, what, names)
        if condition and not _is_condition(tree):
            raise InvalidArgument(f"{what} {quoted(text)} is not a condition; a comparison such as 'a > b' is accepted")
        try:
            result = np.dtype(np.int32) if condition else _dtype_of(tree.type)
            source = self._expressions.assignable(tree, result)
        except Refused as error:
            raise refused(text, what, 1, error) from None
        name, parameters = f"{what}_of", ", ".join(f"const {c_name(dtype)} {one}" for one in names)
        # Both elements of a comparison must be rounded alike, wherever the compiler inlines the function.
        body = f"#pragma OPENCL FP_CONTRACT OFF\n    return {source};"
        self._functions.append(f"static {c_name(result)} {name}({parameters})\n{{\n    {body}\n}}\n")
        return name, result

    @property
    def iterations(self) -> int:
        """An upper bound of the loop iterations of one comparison, which computes the keys of both elements."""
        return 2 * self._expressions.iterations

    @property
    def computes(self) -> set[np.dtype]:
        """The dtypes that some devices lack and that the functions compute with; the kernel must declare them."""
        return set(self._expressions.computes)

    @property
    def text(self) -> str:
        """The functions with their helpers."""
        return self._expressions.helper_text() + "".join(self._functions)


def _is_condition(tree: Node) -> bool:
    """Whether an expression is a comparison, a test such as isnan, or conditions joined by operators."""
    if tree.kind == "conditional":
        return all(_is_condition(one) for one in tree.children[1:])
    if tree.kind == "binary" and tree.symbol in _BITWISE:
        return all(map(_is_condition, tree.children))
    if tree.kind == "call":
        return tree.symbol in TESTS
    return tree.symbol in _TRUTHS and tree.kind in ("unary", "binary")


def _dtype_of(given: Type) -> np.dtype:
    if given.record is not None:
        return given.record
    name: Any = "double" if given.name == "real" else given.name
    found = getattr(cltypes, f"{name}{given.width}" if given.width > 1 else name, None)
    if found is None:
        raise Refused(f"the value is a {name}{given.width}, for which pyopencl has no dtype; other types are accepted")
    return np.dtype(found)
