"""The body of a vector function for one lane, as scalar C: indexes, parameters and elements of array arguments."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from types import MappingProxyType

import numpy as np

from pydp import dtypes
from pydp.lang import ir
from pydp.lang.opencl.c_text import Block
from pydp.lang.opencl.lowered import Names
from pydp.lang.opencl.scalar import Helper
from pydp.lang.opencl.statements import BodyC


class LaneC(BodyC):
    """Writes statements for one lane. The kernel declares group_k, and local_k and global_k after `prefix`, for each
    axis k, and in_grid if `masked`: then lanes outside the grid run, too, and their stores have no effect.
    """

    indexes = True
    prefix = ""

    def __init__(
        self,
        block: Block,
        function: ir.Function,
        names: Names,
        unit_strides: frozenset[tuple[str, int]],
        masked: bool,
        helpers: set[Helper] | None = None,
    ) -> None:
        super().__init__(block, helpers)
        self.function, self.names, self.unit_strides, self.masked = function, names, unit_strides, masked
        self.index = dtypes.c_name(function.index_dtype)

    def on_other(self, expr: ir.Expr) -> str:
        if isinstance(expr, ir.GroupIndex):
            return self._index(f"group_{expr.axis}", expr)
        if isinstance(expr, ir.LocalIndex):
            return self._index(f"{self.prefix}local_{expr.axis}", expr)
        if isinstance(expr, ir.GlobalIndex):
            return self._index(f"{self.prefix}global_{expr.axis}", expr)
        if isinstance(expr, ir.GridExtent):
            return self._index(f"grid_e{expr.axis}", expr)
        if isinstance(expr, ir.ArrayExtent):
            return self._index(f"{self.names[expr.array.name, None]}_e{expr.axis}", expr)
        assert isinstance(expr, ir.Parameter), expr
        name = self.names[expr.name, expr.item]
        return f"({name} != 0)" if expr.dtype == np.bool_ else name

    def _index(self, name: str, expr: ir.Expr) -> str:
        return name if expr.dtype == self.function.index_dtype else f"(({dtypes.c_name(expr.dtype)}){name})"

    def global_element(self, array: ir.GlobalArray, indices: Sequence[str]) -> tuple[str, str]:
        tests, terms = self.global_parts(array, dict(enumerate(indices)))
        return " && ".join(tests), f"{self.names[array.name, None]}[{' + '.join(terms) or '0'}]"

    def global_parts(
        self, array: ir.GlobalArray, indices: Mapping[int, str], extents: Mapping[int, str] = MappingProxyType({})
    ) -> tuple[list[str], list[str]]:
        """The conditions that the indexes of some axes are in bounds, and the terms of the element's number.

        extents: C text that replaces the array's extents along some axes."""
        name = self.names[array.name, None]
        tests, terms = [], []
        for axis, index in indices.items():
            tests.append(self._within(index, extents.get(axis, f"{name}_e{axis}")))
            unit = (array.name, axis) in self.unit_strides
            terms.append(index if unit else f"{index} * {name}_s{axis}")
        return tests, terms

    def _within(self, index: str, extent: str) -> str:
        """C condition that an index is in an extent; longs are compared as in the function's own comparisons."""
        if self.index != "long":
            return f"{index} >= 0 && {index} < {extent}"
        place, first, end = (self.helper("order", "long", text) for text in (index, "0L", extent))
        return f"{place} >= {first} && {place} < {end}"

    def store_condition(self, inside: str) -> str:
        if not self.masked:
            return inside
        return f"in_grid && {inside}" if inside else "in_grid"
