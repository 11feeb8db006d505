"""Calls a method for each kind of node of the typed form."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any, ClassVar

from pydp.lang.ir import Expr, Stmt


class Visitor:
    """`visit` calls the method of the node's kind: ``on_array_extent`` for an `ArrayExtent`. Without such a method, it
    calls `on_other`."""

    _methods: ClassVar[dict[type, Callable[..., Any]]]

    def __init_subclass__(cls, **options: Any) -> None:
        super().__init_subclass__(**options)
        cls._methods = {}

    def visit(self, node: Expr | Stmt, *arguments: Any) -> Any:
        """The result of the method of the node's kind, which also gets `arguments`."""
        kind = type(node)
        method = self._methods.get(kind)
        if method is None:
            name = re.sub("(?<=[a-z])(?=[A-Z])", "_", kind.__name__).lower()
            method = self._methods[kind] = getattr(type(self), f"on_{name}", type(self).on_other)
        return method(self, node, *arguments)

    def on_other(self, node: Any, *arguments: Any) -> Any:
        raise TypeError(f"{type(self).__name__} does not know {type(node).__name__}")
