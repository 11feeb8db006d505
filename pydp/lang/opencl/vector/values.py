"""Values of the strips of a block while C text is written: conversion to vectors, temporaries and masks."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np

from pydp.lang.ir import Function
from pydp.lang.ir.visit import Visitor
from pydp.lang.opencl.c_text import Block, private_type
from pydp.lang.opencl.helpers import Atomic
from pydp.lang.opencl.scalar import Helper, ScalarC
from pydp.lang.opencl.vector.arrange import Arrangement
from pydp.lang.opencl.vector.families import Families, Sibling
from pydp.lang.opencl.vector.layout import StripLayout
from pydp.lang.opencl.vector.variance import Variances
from pydp.lang.opencl.vector_text import BOOL, StripText

_ATOM = re.compile(r"[A-Za-z_0-9.]+\Z|\(-?[0-9]+\)\Z")


class StripValue(NamedTuple):
    """texts: one for all rows, or one for each row of the block. step: None if the texts are vectors. Otherwise they
    are scalars, the value of lane 0; the value of lane n is that plus n * `step`."""

    texts: tuple[str, ...]
    step: int | None
    dtype: np.dtype[Any]

    @property
    def vector(self) -> bool:
        """Whether the texts are vectors."""
        return self.step is None

    def row(self, row: int) -> str:
        """The text for a row of the block."""
        return self.texts[row if len(self.texts) > 1 else 0]


class KernelContext:
    """The state that all parts of one lowering share: the function, its layout, its variances, the text writers."""

    def __init__(
        self,
        function: Function,
        layout: StripLayout,
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
        self.pieces: tuple[int, ...] = (8, 4, 2, 1)  # sizes of the swizzles that a vector is built from
        self.helpers: set[Helper] = set()
        self.strips = StripText(layout.width, self.helpers)
        self.accesses: dict[str, dict[str, object]] = {}
        self.atomics: set[Atomic] = set()
        self.names = names
        self.variables = {variable.name: variable for variable in function.variables}


class Values(Visitor):
    """Makes values: temporaries, vectors, one text for each row. The base of the writers of expressions."""

    def __init__(self, kernel: KernelContext, block: Block) -> None:
        self.kernel = kernel
        self.layout = kernel.layout
        self.text = kernel.strips
        self.block = block
        self.scalar = ScalarC(block, kernel.helpers)
        self.scalar.indexes = True

    def single(self, text: str, dtype: np.dtype[Any], step: int | None = 0) -> StripValue:
        """A value of one text for all rows."""
        return StripValue((text,), step, dtype)

    def c_type(self, value: StripValue) -> str:
        """The C type of a value's texts."""
        return self.text.type(value.dtype) if value.vector else private_type(value.dtype)

    def rows(self, values: Sequence[StripValue | None]) -> int:
        """The number of texts of a value computed from these."""
        return max((len(value.texts) for value in values if value is not None), default=1)

    def vector(self, value: StripValue) -> StripValue:
        """The value with vectors as texts."""
        if value.step is None:
            return value
        step = value.step
        if step == 0:
            return StripValue(tuple(self.text.splat(text, value.dtype) for text in value.texts), None, value.dtype)
        return StripValue(tuple(self.text.ramp(text, step, value.dtype) for text in value.texts), None, value.dtype)

    def temporary(self, value: StripValue) -> StripValue:
        """The value in temporaries, for several uses."""
        if all(_ATOM.match(text) for text in value.texts):
            return value
        c_type = self.c_type(value)
        return StripValue(tuple(self.block.temporary(c_type, text) for text in value.texts), value.step, value.dtype)

    def snapshot(self, value: StripValue) -> StripValue:
        """The value in temporaries that do not change; a variable is copied, because it may be assigned later."""
        if not any(text.startswith("v_") for text in value.texts):
            return self.temporary(value)
        c_type = self.c_type(value)
        return StripValue(tuple(self.block.temporary(c_type, text) for text in value.texts), value.step, value.dtype)

    def each(
        self, values: Sequence[StripValue], write: Callable[..., str], dtype: np.dtype[Any], step: int | None
    ) -> StripValue:
        """`write` applied to the operands' texts of each row; operands that all rows share are computed once."""
        rows = self.rows(values)
        if rows > 1:
            values = [value if len(value.texts) > 1 else self.temporary(value) for value in values]
        by_row = (value.texts if len(value.texts) > 1 else value.texts * rows for value in values)
        return StripValue(tuple(map(write, *by_row)), step, dtype)

    def uniform(self, operands: Sequence[StripValue]) -> bool:
        """Whether none of the values varies by lane."""
        return all(value.step == 0 for value in operands)

    def mask_and(self, first: StripValue | None, second: StripValue | None) -> StripValue | None:
        """The conjunction of two masks or scalar conditions; None stands for all lanes."""
        if first is None or second is None:
            return first if second is None else second
        if first.vector or second.vector:
            pair = [self.vector(first), self.vector(second)]
            return self.each(pair, lambda a, b: f"({a} & {b})", BOOL, None)
        return self.each([first, second], lambda a, b: f"({a} && {b})", BOOL, 0)

    def any(self, mask: StripValue) -> str:
        """The C condition that some lane of some row is set."""
        return f"any({' | '.join(mask.texts)})"
