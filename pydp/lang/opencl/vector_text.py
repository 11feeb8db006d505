"""C text of operations on strips: OpenCL vectors of `width` lanes; bools are int vectors of -1 and 0 (masks).

Signed vector arithmetic wraps (in OpenCL C, overflow is undefined for scalars only). Narrow vectors stay narrow.
Comparisons give vectors of integers of their operands' width, which are converted to int.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from pydp import dtypes
from pydp.errors import InvalidArgument
from pydp.lang.intrinsics import BINARY, COMPARISONS, FUNCTIONS
from pydp.lang.opencl.c_text import constant, private_type
from pydp.lang.opencl.scalar import Helper

BOOL = np.dtype(np.bool_)
_INTEGERS = {1: "char", 2: "short", 4: "int", 8: "long"}


class StripText:
    """Writes operations on vectors of `width` lanes; collects the functions of lane_functions.mako that they call."""

    def __init__(self, width: int, helpers: set[Helper]) -> None:
        self.width = width
        self.helpers = helpers
        self.maps: dict[str, dict[str, object]] = {}
        self.mask = f"int{width}"
        self.iota = f"(({self.mask})({', '.join(str(lane) for lane in range(width))}))"

    def type(self, dtype: np.dtype[Any]) -> str:
        """The vector type of a private value."""
        return f"{private_type(dtype)}{self.width}"

    def memory_type(self, dtype: np.dtype[Any]) -> str:
        """The vector type of stored elements (bool is a byte)."""
        return f"{dtypes.c_name(dtype)}{self.width}"

    def splat(self, text: str, dtype: np.dtype[Any]) -> str:
        """A vector with a scalar in all lanes."""
        return f"(({self.mask})(-({text})))" if dtype == BOOL else f"(({self.type(dtype)})({text}))"

    def iota_of(self, dtype: np.dtype[Any]) -> str:
        """A vector of the lane numbers."""
        return self.iota if dtype == np.int32 else f"convert_{self.type(dtype)}({self.iota})"

    def ramp(self, text: str, step: int, dtype: np.dtype[Any]) -> str:
        """A vector of scalar + lane * step."""
        iota = self.iota_of(dtype)
        scaled = iota if step == 1 else f"{iota} * ({self.type(dtype)})({constant(step, dtype)})"
        return f"({self.splat(text, dtype)} + {scaled})"

    def widen(self, mask: str, itemsize: int) -> str:
        """A mask as a vector of integers of `itemsize` bytes."""
        return mask if itemsize == 4 else f"convert_{_INTEGERS[itemsize]}{self.width}({mask})"

    def to_mask(self, text: str, itemsize: int) -> str:
        """A vector of integers of `itemsize` bytes, all -1 or 0, as a mask."""
        return f"({text})" if itemsize == 4 else f"convert_{self.mask}({text})"

    def select(self, mask: str, yes: str, no: str, dtype: np.dtype[Any]) -> str:
        """For each lane, `yes` if the mask is set, else `no`."""
        size = 4 if dtype == BOOL else dtype.itemsize
        return f"({self.widen(mask, size)} ? {yes} : {no})"

    def helper(self, kind: str, dtype: np.dtype[Any], *values: str) -> str:
        c_type = self.type(dtype)
        self.helpers.add((kind, c_type))
        return f"lane_{kind}_{c_type}({', '.join(values)})"

    def by_lane(self, function: str, dtype: np.dtype[Any], *values: str) -> str:
        """A call of a scalar function of two floats for each lane."""
        scalar = private_type(dtype)
        name = f"strip_{function}_{self.type(dtype)}"
        self.maps[name] = {"name": name, "function": function, "value": scalar, "width": self.width}
        return f"{name}({', '.join(values)})"

    # -- operations ------------------------------------------------------------------------------------------

    def unary(self, op: str, value: str, dtype: np.dtype[Any]) -> str:
        return f"(-{value})" if op == "neg" and dtype != BOOL else f"(~{value})"

    def binary(self, op: str, left: str, right: str, dtype: np.dtype[Any], by: int | None = None) -> str:
        """Binary(op); `by` is the right operand if it is a constant integer."""
        if BINARY[op].c:
            return f"({left} {BINARY[op].c} {right})"
        if by is not None:
            short = self._by_constant(op, left, by, dtype)
            if short is not None:
                return short
        if op == "pow" and dtype.kind == "f":
            return f"pow({left}, {right})"
        if dtype.kind == "f":  # floordiv and mod, which use fmod
            scalar = private_type(dtype)
            self.helpers.add((op, scalar))
            return self.by_lane(f"lane_{op}_{scalar}", dtype, left, right)
        return self.helper(op, dtype, left, right)

    def _by_constant(self, op: str, left: str, right: int, dtype: np.dtype[Any]) -> str | None:
        def splat(number: int) -> str:
            return f"(({self.type(dtype)})({constant(number, dtype)}))"

        if op in ("shl", "shr"):
            inside = 0 <= right < 8 * dtype.itemsize
            return f"({left} {'<<' if op == 'shl' else '>>'} {splat(right)})" if inside else None
        if op not in ("floordiv", "mod") or right <= 0 or right & (right - 1):
            return None
        if op == "mod":
            return f"({left} & {splat(right - 1)})"
        return f"({left} >> {splat(right.bit_length() - 1)})"

    def compare(self, op: str, left: str, right: str, dtype: np.dtype[Any]) -> str:
        """Compare(op) of operands of `dtype`, as a mask."""
        size = 4 if dtype == BOOL else dtype.itemsize
        if dtype == np.int64 and op not in ("eq", "ne"):
            left, right = self.helper("order", dtype, left), self.helper("order", dtype, right)
        return self.to_mask(f"{left} {COMPARISONS[op].c} {right}", size)

    def logical(self, op: str, left: str, right: str) -> str:
        """The conjunction or disjunction of two masks."""
        return f"({left} {'&' if op == 'and' else '|'} {right})"

    def cast(self, value: str, source: np.dtype[Any], target: np.dtype[Any]) -> str:
        if source == target:
            return value
        if target == BOOL:
            return self.to_mask(f"{value} != {self.splat('0', source)}", source.itemsize)
        if source == BOOL:
            return f"convert_{self.type(target)}(-{value})"
        if source.kind == "f" and target.kind in "iu":
            return self.helper(f"{dtypes.c_name(source)}_to", target, value)
        if source == np.int64 and target.kind == "f":
            value = self.helper("wide", source, value)
        return f"convert_{self.type(target)}({value})"

    def function_of(self, name: str, values: Sequence[str], dtype: np.dtype[Any]) -> str:
        """Math(name) of operands of `dtype`."""
        form = FUNCTIONS[name].c_form(dtype)
        if form is None:
            raise InvalidArgument(FUNCTIONS[name].refusal(dtype))
        kind, _, function = form.rpartition(" ")
        if form in ("0", "1"):
            return self.splat(form, BOOL)
        if not form:
            return values[0]
        if kind == "lane":
            return self.helper(function, dtype, *values)
        if kind == "each":
            return self.by_lane(function, dtype, *values)
        text = f"{function}({', '.join(values)})"
        return self.to_mask(text, dtype.itemsize) if FUNCTIONS[name].rule == "test" else text

    def load(self, text: str, dtype: np.dtype[Any]) -> str:
        """Elements in memory as private values."""
        if dtype != BOOL:
            return text
        return f"convert_{self.mask}({text} != ({self.memory_type(dtype)})(0))"

    def store(self, text: str, dtype: np.dtype[Any]) -> str:
        """Private values as elements in memory."""
        return f"convert_{self.memory_type(dtype)}(-{text})" if dtype == BOOL else text
