"""Values of the strips of a block while C text is written, and how they are made vectors, temporaries and masks."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from pydp.lang.ir import Expr, Function
from pydp.lang.opencl.c_text import Block, private_type
from pydp.lang.opencl.scalar import Helper, ScalarC
from pydp.lang.opencl.vector.arrange import Arrangement
from pydp.lang.opencl.vector.families import Families, Sibling
from pydp.lang.opencl.vector.layout import Layout
from pydp.lang.opencl.vector.variance import Variances
from pydp.lang.opencl.vector_text import BOOL, StripText

_ATOM = re.compile(r"[A-Za-z_0-9.]+\Z|\(-?[0-9]+\)\Z")


@dataclass(frozen=True)
class Value:
    """texts: one for all rows, or one for each row of the block. step: None for vectors; else the texts are scalars,
    the value at lane 0, and each further lane has `step` more."""

    texts: tuple[str, ...]
    step: int | None
    dtype: np.dtype[Any]

    @property
    def vector(self) -> bool:
        """Whether the texts are vectors of lanes."""
        return self.step is None

    def row(self, row: int) -> str:
        """The text for a row of the block."""
        return self.texts[row if len(self.texts) > 1 else 0]


@dataclass(frozen=True)
class Text(Expr):
    """C text in an expression's place, for the writer of scalars."""

    text: str


class _Scalars(ScalarC):
    """The writer of scalars, for operands that are text already."""

    indexes = True

    def leaf(self, expr: Expr) -> str:
        assert isinstance(expr, Text)
        return expr.text


class Kernel:
    """What all parts of one lowering share: the function, its layout and facets, and the text makers."""

    def __init__(
        self,
        function: Function,
        layout: Layout,
        unit_strides: frozenset[tuple[str, int]],
        names: dict[tuple[str, int], str],
    ) -> None:
        self.function = function
        self.layout = layout
        self.unit_strides = unit_strides
        self.variances: Variances
        self.arrangements: dict[str, Arrangement]
        self.families: Families
        self.siblings: dict[int, Sibling]
        self.pieces: tuple[int, ...] = (8, 4, 2, 1)  # of vectors in a vector's literal
        self.helpers: set[Helper] = set()
        self.strips = StripText(layout.width, self.helpers)
        self.accesses: dict[str, dict[str, object]] = {}
        self.atomics: set[tuple[str, str, str, str]] = set()
        self.names = names
        self.variables = {variable.name: variable for variable in function.variables}


class Values:
    """Makes values: temporaries, vectors of scalars, rows side by side. Base of the writers of expressions."""

    def __init__(self, kernel: Kernel, block: Block) -> None:
        self.kernel = kernel
        self.layout = kernel.layout
        self.text = kernel.strips
        self.block = block
        self.scalar = _Scalars(block, kernel.helpers)

    def single(self, text: str, dtype: np.dtype[Any], step: int | None = 0) -> Value:
        """A value of one text for all rows."""
        return Value((text,), step, dtype)

    def c_type(self, value: Value) -> str:
        """The C type of a value's texts."""
        return self.text.type(value.dtype) if value.vector else private_type(value.dtype)

    def rows(self, values: Sequence[Value | None]) -> int:
        """The number of texts that a combination of these values takes."""
        return max((len(value.texts) for value in values if value is not None), default=1)

    def vector(self, value: Value) -> Value:
        """The value with a text for the whole strip."""
        if value.step is None:
            return value
        step = value.step
        if step == 0:
            return Value(tuple(self.text.splat(text, value.dtype) for text in value.texts), None, value.dtype)
        return Value(tuple(self.text.ramp(text, step, value.dtype) for text in value.texts), None, value.dtype)

    def like(self, value: Value, vector: bool) -> Value:
        """The value as a vector where `vector` says so (a scalar's steps must be 0 otherwise)."""
        return self.vector(value) if vector else value

    def temporary(self, value: Value) -> Value:
        """The value under short names, so that it can be used several times."""
        if all(_ATOM.match(text) for text in value.texts):
            return value
        c_type = self.c_type(value)
        return Value(tuple(self.block.temporary(c_type, text) for text in value.texts), value.step, value.dtype)

    def snapshot(self, value: Value) -> Value:
        """The value under names that stay as they are: a variable is copied, for it may be set before the last use."""
        if not any(text.startswith("v_") for text in value.texts):
            return self.temporary(value)
        c_type = self.c_type(value)
        return Value(tuple(self.block.temporary(c_type, text) for text in value.texts), value.step, value.dtype)

    def each(self, values: Sequence[Value], write: Callable[..., str], dtype: np.dtype[Any], step: int | None) -> Value:
        """`write` of the operands' texts, row by row; what all rows share is computed once."""
        rows = self.rows(values)
        if rows > 1:
            values = [value if len(value.texts) > 1 else self.temporary(value) for value in values]
        return Value(tuple(write(*(value.row(row) for value in values)) for row in range(rows)), step, dtype)

    def uniform(self, operands: Sequence[Value]) -> bool:
        """None of them differs from lane to lane."""
        return all(value.step == 0 for value in operands)

    def both(self, first: Value | None, second: Value | None) -> Value | None:
        """Two masks or scalar conditions, None standing for all lanes, joined."""
        if first is None or second is None:
            return first if second is None else second
        if first.vector or second.vector:
            pair = [self.vector(first), self.vector(second)]
            return self.each(pair, lambda a, b: f"({a} & {b})", BOOL, None)
        return self.each([first, second], lambda a, b: f"({a} && {b})", BOOL, 0)

    def any(self, mask: Value) -> str:
        """C condition: some lane of some row is set."""
        return f"any({' | '.join(mask.texts)})"
