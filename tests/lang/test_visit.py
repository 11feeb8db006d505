"""Methods for each kind of node."""

from __future__ import annotations

import pytest
from builder import HERE, I32, array, c, place

from pydp.lang import ir
from pydp.lang.ir.visit import Visitor

pytestmark = pytest.mark.host


class Named(Visitor):
    def on_const(self, node: ir.Const, *more: int) -> tuple[object, ...]:
        return (node.value, *more)

    def on_array_extent(self, node: ir.ArrayExtent) -> str:
        return f"extent {node.axis}"

    def on_break(self, node: ir.Break) -> str:
        return "break"


class Other(Named):
    def on_const(self, node: ir.Const, *more: int) -> tuple[object, ...]:
        return ("constant",)

    def on_other(self, node: object, *more: int) -> str:
        return "other"


def test_the_method_of_the_kind_gets_the_node_and_the_arguments() -> None:
    visitor = Named()
    assert visitor.visit(c(3)) == (3,) and visitor.visit(c(3), 4, 5) == (3, 4, 5)
    assert visitor.visit(ir.ArrayExtent(I32, array("a"), 1)) == "extent 1" and visitor.visit(ir.Break(HERE)) == "break"


def test_a_subclass_has_its_own_methods() -> None:
    assert Named().visit(c(3)) == (3,)
    assert Other().visit(c(3)) == ("constant",) and Other().visit(ir.Break(HERE)) == "break"
    assert Other().visit(place()) == "other"


def test_a_kind_without_a_method_is_an_error() -> None:
    with pytest.raises(TypeError, match="Named does not know GlobalIndex"):
        Named().visit(place())
