"""Values of the strips of a block while C text is written: conversion to vectors, temporaries and masks."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any, NamedTuple

import numpy as np

from pydp.lang import ir
from pydp.lang.analysis import regions
from pydp.lang.ir import member_dtype
from pydp.lang.ir.visit import Visitor
from pydp.lang.opencl.c_text import Block, identifier, private_type
from pydp.lang.opencl.helpers import Atomic
from pydp.lang.opencl.lowered import argument_names
from pydp.lang.opencl.scalar import Helper, ScalarC, scalar_paths
from pydp.lang.opencl.vector.arrange import arrange
from pydp.lang.opencl.vector.families import Families
from pydp.lang.opencl.vector.layout import StripLayout
from pydp.lang.opencl.vector.variance import Variances, has_step
from pydp.lang.opencl.vector_text import BOOL, StripText
from pydp.runtime.device.profile import Profile

Path = tuple[str, ...]  # the members of a record on the way to a scalar
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
    """The state that all parts of one lowering share: the function, its layout, its analyses, the text writers.

    For the simulator, local memory is initialized with zeros, because it reports reads by masked lanes, and no vectors
    are built from parts of others, because it crashes on partly undefined vectors.
    streamable: the arrays whose strips are stored past the caches if the array has more than `nontemporal_bytes` bytes
    and does not start where an array that is loaded starts: stores past the caches to lines that have just been read
    are slow.
    """

    def __init__(
        self,
        function: ir.Function,
        nodes: list[regions.Node],
        layout: StripLayout,
        unit_strides: frozenset[tuple[str, int]],
        profile: Profile,
    ) -> None:
        self.function, self.layout, self.unit_strides = function, layout, unit_strides
        simulated, line = profile.is_simulator, profile.cache_line
        self.nontemporal_bytes = profile.nontemporal_bytes or 0
        self.streamable = _stored_once(function, line // layout.width) if self.nontemporal_bytes else []
        self.initial = " = {0}" if simulated else ""
        self.pieces = (1,) if simulated else (8, 4, 2, 1)  # sizes of the swizzles that a vector is built from
        self.names = argument_names(function)
        self.variables = {variable.name: variable for variable in function.variables}
        self.variances = Variances(nodes, layout)
        self.arrangements = arrange(function, self.variances, layout)
        self.families = Families(self.variances, unit_strides)
        self.siblings = self.families.loads(function.body)
        self.helpers: set[Helper] = set()
        self.strips = StripText(layout.width, self.helpers)
        self.accesses: dict[str, dict[str, object]] = {}
        self.in_memory: set[tuple[str, int]] = set()  # the types of vectors in memory: (C type of an element, width)
        self.streams: dict[str, tuple[str, int]] = {}  # likewise, of the arrays that are stored past the caches
        self.atomics: set[Atomic] = set()

    def variable(self, variable: ir.Variable, path: Path = ()) -> StripValue:
        """The C names of a variable (or of its member at `path`): one for each row if rows differ."""
        variance = self.variances.variables[variable.name]
        name = identifier("v_", "_m_".join((variable.name, *path)))
        rows = self.layout.rows if variance.varies_by_row else 1
        dtype = member_dtype(variable.dtype, path)
        step = variance.step if variance.step in (0, None) or has_step(dtype) else None
        return StripValue(tuple(f"{name}_r{row}" for row in range(rows)) if rows > 1 else (name,), step, dtype)

    def members(self, variable: ir.Variable) -> list[StripValue]:
        """The C names of all scalars of a variable."""
        return [self.variable(variable, path) for path in scalar_paths(variable.dtype)]

    def c_type(self, value: StripValue) -> str:
        """The C type of a value's texts."""
        return self.strips.type(value.dtype) if value.vector else private_type(value.dtype)

    def declare(self, block: Block, variable: ir.Variable) -> None:
        """Declare the C variables of a vector function's variable, initialized with zeros."""
        for value in self.members(variable):
            zero = self.strips.splat("0", value.dtype) if value.vector else "0"
            for name in value.texts:
                block.line(f"{self.c_type(value)} {name} = {zero};")


def _stored_once(function: ir.Function, itemsize: int) -> list[ir.GlobalArray]:
    """The arrays of `itemsize` that one statement outside of loops stores to and nothing loads from."""
    everything = list(ir.statements(function.body))
    loops = [one for one in everything if isinstance(one, ir.For | ir.While)]
    touched = Counter(one.array.name for one in ir.accesses(everything))
    touched.update(one.array.name for loop in loops for one in ir.accesses(ir.statements(loop.body)))
    stored = {one.array.name for one in everything if isinstance(one, ir.Store) and touched[one.array.name] == 1}
    return [one for one in function.arrays if one.name in stored and one.rank and one.dtype.itemsize == itemsize]


class Values(Visitor):
    """Makes values: temporaries, vectors, one text for each row. The base of the writers of expressions."""

    def __init__(self, kernel: KernelContext, block: Block) -> None:
        self.kernel = kernel
        self.layout = kernel.layout
        self.text = kernel.strips
        self.block = block
        self.scalar = ScalarC(block, kernel.helpers)
        self.scalar.indexes = True

    def single(self, text: str, dtype: np.dtype[Any]) -> StripValue:
        """A uniform value of one text for all rows."""
        return StripValue((text,), 0, dtype)

    def rows(self, values: Sequence[StripValue | None]) -> int:
        """The number of texts of a value computed from these."""
        return max((len(value.texts) for value in values if value is not None), default=1)

    def vector(self, value: StripValue) -> StripValue:
        """The value with vectors as texts."""
        if value.step is None:
            return value
        step, dtype = value.step, value.dtype
        write = partial(self.text.ramp, step=step, dtype=dtype) if step else partial(self.text.splat, dtype=dtype)
        return StripValue(tuple(map(write, value.texts)), None, dtype)

    def temporary(self, value: StripValue) -> StripValue:
        """The value in temporaries, for several uses."""
        return value if all(_ATOM.match(text) for text in value.texts) else self._copied(value)

    def snapshot(self, value: StripValue) -> StripValue:
        """The value in temporaries that do not change; a variable is copied, because it may be assigned later."""
        changes = any(text.startswith("v_") for text in value.texts)
        return self._copied(value) if changes else self.temporary(value)

    def _copied(self, value: StripValue) -> StripValue:
        c_type = self.kernel.c_type(value)
        return value._replace(texts=tuple(self.block.temporary(c_type, text) for text in value.texts))

    def each(
        self, values: Sequence[StripValue], write: Callable[..., str], dtype: np.dtype[Any], step: int | None
    ) -> StripValue:
        """`write` applied to the operands' texts of each row; operands that all rows share are computed once."""
        rows = self.rows(values)
        if rows > 1:
            values = [value if len(value.texts) > 1 else self.temporary(value) for value in values]
        by_row = (value.texts if len(value.texts) > 1 else value.texts * rows for value in values)
        return StripValue(tuple(map(write, *by_row)), step, dtype)

    def operation(
        self, values: Sequence[StripValue], write: Callable[..., str], dtype: np.dtype[Any], step: int | None
    ) -> StripValue:
        """``write(writer, *texts)`` for each row, with the writer of scalars if the result has a step. Without one, the
        operands become vectors."""
        if step is not None:
            return self.each(values, partial(write, self.scalar), dtype, step)
        return self.each([self.vector(value) for value in values], partial(write, self.text), dtype, None)

    def uniform(self, operands: Sequence[StripValue]) -> bool:
        """Whether none of the values varies by lane."""
        return all(value.step == 0 for value in operands)

    def mask_and(self, first: StripValue | None, second: StripValue | None) -> StripValue | None:
        """The conjunction of two masks or scalar conditions; None stands for all lanes."""
        if first is None or second is None:
            return first if second is None else second
        step = 0 if self.uniform([first, second]) else None
        return self.operation([first, second], lambda writer, a, b: writer.logical("and", a, b), BOOL, step)

    def any(self, mask: StripValue) -> str:
        """The C condition that some lane of some row is set."""
        return f"any({' | '.join(mask.texts)})"
