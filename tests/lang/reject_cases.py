"""Wrong vector functions, each with a line that ends in `# here`, similar right ones, and the checks of both."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import pydp
from pydp.lang.compile import FieldType, NumberType, translate
from pydp.lang.ir.diagnostics import VectorError

F32, I32, U64, F64 = (np.dtype(name) for name in ("f4", "i4", "u8", "f8"))
REC = np.dtype([("x", "f4"), ("n", "i4")])

C = FieldType(F32, 2)
A = FieldType(F32, 2, (), False)
T = FieldType(F32, 2, ((16, 16),))
V = FieldType(I32, 1)
R = FieldType(REC, 1)
L = FieldType(np.dtype("i8"), 1)
INT = NumberType(I32, True)
REAL = NumberType(F64, True)


class Cases:
    """The cases of one file; `helpers` names functions that may hold the wrong line."""

    def __init__(self, *helpers: str) -> None:
        self.refused: list[tuple] = []
        self.accepted: list[tuple] = []
        self.helpers = helpers

    def wrong(self, says: str, *types: Any, rank: int = 2, group: Any = None) -> Callable[[Any], Any]:
        """A function that must be refused with a message that has `says` in it."""
        return lambda fn: self.refused.append((fn, says, types, rank, group)) or fn

    def right(self, *types: Any, rank: int = 2, group: Any = None) -> Callable[[Any], Any]:
        return lambda fn: self.accepted.append((fn, types, rank, group)) or fn

    def check_wrong(self, fn: Any, says: str, types: Any, rank: int, group: Any) -> None:
        with pytest.raises(VectorError) as caught:
            translate(fn, rank, group, types)
        assert says in caught.value.message
        assert caught.value.line in self._lines_of(fn), str(caught.value)
        text = str(caught.value)
        assert "^" in text and inspect.getfile(fn) in text and "# here" in text
        assert isinstance(caught.value, pydp.InvalidArgument) and "\n" not in caught.value.message

    def check_right(self, fn: Any, types: Any, rank: int, group: Any) -> None:
        assert translate(fn, rank, group, types).name == fn.__name__

    def _lines_of(self, fn: Any) -> set[int]:
        """Lines marked `# here` in the function, or in the helper that it calls."""
        called = (fn.__globals__[name] for name in fn.__code__.co_names if name in self.helpers)
        places: set[int] = set()
        for each in (fn, *called):
            lines, first = inspect.getsourcelines(each)
            places |= {first + n for n, line in enumerate(lines) if line.rstrip().endswith("# here")}
        return places


def name_of(item: Any) -> str:
    """A case's name in pytest's listing."""
    return getattr(item, "__name__", "")
