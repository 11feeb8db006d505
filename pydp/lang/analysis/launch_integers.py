"""Checks of weak integers with the values of a launch: whether 32 bits are enough, and which numbers do not fit."""

from __future__ import annotations

import operator
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

import numpy as np

from pydp.errors import InvalidArgument
from pydp.lang import ir
from pydp.lang.analysis import regions
from pydp.lang.analysis.exact_choices import is_promoted
from pydp.lang.analysis.integer_ranges import InputRange
from pydp.lang.analysis.integer_widths import fits_32_bits
from pydp.lang.analysis.intervals import Range, limits
from pydp.lang.ir.text import expr_text
from pydp.runtime.bounded import BoundedCache

_OPERATIONS: dict[str, Callable[[int, int], int]] = {"add": operator.add, "sub": operator.sub, "mul": operator.mul}
_MANY = 64
_BUCKETS = (8, 16, 24, 31, 40, 63, 64)  # the bits of the numbers of a bucket, if there are many different numbers


class _Bucket:
    """Whether all numbers of a bucket fit 32 bits; the number of analyzed parts of it, and whether one of them fits."""

    def __init__(self, fits: bool) -> None:
        self.fits, self.some_fit, self.asked = fits, False, 0


class LaunchRanges:
    """Whether a launch needs 64 bits for a function's weak integers. The answers are cached by the launch's numbers;
    numbers of about the same size share one analysis.

    After `_MANY` analyses, a wider bucket of numbers is analyzed first. Its answer is used if 32 bits are enough for
    all of it, or if none of `_MANY` parts of it fit 32 bits. So numbers that change on each call cost few analyses."""

    def __init__(self, function: ir.Function) -> None:
        self.function = function
        extents = (0, 1 << 30)
        every = self._input_range(lambda _: extents, lambda one: limits(_true_type(one)))
        self.always_fits = fits_32_bits(function, every)
        self.numbers: list[ir.Parameter] = [one for one in function.parameters if one.dtype.kind in "iu"]
        self._exact = BoundedCache(512)
        self._coarse = BoundedCache(512)
        self._buckets = BoundedCache(512)
        self._analyses = 0

    def fits(self, values: Sequence[Any], arrays: Sequence[int], extent: Sequence[int], offset: Sequence[int]) -> bool:
        """Whether 32 bits are enough for a launch; arrays: the positions of arrays among `values`.

        If Python's stack is too deep for the analysis, the answer is False and is not cached: 64 bits are always
        correct."""
        if self.always_fits and not any(offset):
            return True
        shapes = tuple([values[position].shape for position in arrays])
        key = (tuple(extent), tuple(offset), shapes, tuple([_number(values, one) for one in self.numbers]))
        found = self._exact.get(key)
        if found is None:
            try:
                found = self._exact.make(key, self._found, shapes, arrays, key)
            except RecursionError:
                return False
        return found

    def _found(self, shapes: Any, arrays: Sequence[int], key: Any) -> bool:
        extent, offset, _, numbers = key
        sizes = tuple(map(_rounded_up, extent))
        starts = tuple((min(0, -_rounded_up(-one)), max(0, _rounded_up(one))) for one in offset)
        known = {position: tuple(map(_rounded_up, shape)) for position, shape in zip(arrays, shapes, strict=True)}
        places = tuple(known.items())

        def extents(expr: ir.Expr) -> Range:
            if isinstance(expr, ir.ArrayExtent):
                return 0, known[expr.array.position][expr.axis]
            return 0, sizes[expr.axis]  # type: ignore[attr-defined]

        def ranges(about: Callable[[int, Range], Range]) -> dict[Any, Range]:
            found = zip(self.numbers, numbers, strict=True)
            return {(one.position, one.item): about(value, limits(_true_type(one))) for one, value in found}

        def fits(given: dict[Any, Range]) -> bool:
            inputs = self._input_range(extents, lambda one: given[one.position, one.item], starts)
            return fits_32_bits(self.function, inputs)

        given = ranges(_about)
        coarse = (sizes, starts, places, tuple(given.items()))
        answer: bool | None = self._coarse.find(coarse)
        if answer is not None:
            return answer
        bucket = None
        if self._analyses >= _MANY:
            wide = ranges(_wide_bucket)
            key = (sizes, starts, places, tuple(wide.items()))
            bucket = self._buckets.make(key, lambda: _Bucket(fits(wide)))
            if bucket.fits or (bucket.asked >= _MANY and not bucket.some_fit):
                return bool(bucket.fits)
        answer = bool(self._coarse.make(coarse, fits, given))
        self._analyses += 1
        if bucket is not None:
            bucket.asked += 1
            bucket.some_fit = bucket.some_fit or answer
        return answer

    def _input_range(
        self,
        extents: Callable[[ir.Expr], Range],
        number: Callable[[ir.Parameter], Range],
        starts: Sequence[Range] | None = None,
    ) -> InputRange:
        group = self.function.group

        def input_range(expr: ir.Expr) -> Range:
            if isinstance(expr, ir.Parameter):
                return number(expr)
            if isinstance(expr, ir.LocalIndex) and group is not None:
                return 0, group[expr.axis] - 1
            if isinstance(expr, ir.GridExtent | ir.ArrayExtent):
                return extents(expr)
            if isinstance(expr, ir.GlobalIndex | ir.GroupIndex):
                high = max(0, extents(ir.GridExtent(expr.dtype, expr.axis))[1] - 1)
                size = group[expr.axis] if group is not None else 1
                if isinstance(expr, ir.GroupIndex):
                    return 0, high // size
                # Lanes of the last group may lie outside of the grid.
                low, more = (0, 0) if starts is None else starts[expr.axis]
                return low, more + high // size * size + size - 1
            return limits(expr.dtype)

        return input_range


class PromotedNumbers:
    """Checks Python integers that are combined with a typed number: they must fit its type, as in NumPy."""

    def __init__(self, function: ir.Function) -> None:
        self.name = function.name
        definitions = regions.definitions(function.body)
        given: dict[str, int] = {}  # variables that depend only on Python integers of the call, with a value of 0
        found: dict[Any, tuple[ir.Expr, np.dtype[Any]]] = {}
        self.assignments: list[ir.Assign] = []  # the assignments that the checks need, in order
        for statement in ir.statements(function.body):
            for one in ir.expressions(statement):
                for part in _promoted_in(one):
                    if _value(part.value, None, given) is not None:
                        found[expr_text(part.value), part.dtype] = part.value, part.dtype
            if not isinstance(statement, ir.Assign) or not statement.variable.weak:
                continue
            if statement.variable.name in definitions and _value(statement.value, None, given) is not None:
                given[statement.variable.name] = 0
                self.assignments.append(statement)
        self.checks = [(expr, dtype, limits(dtype)) for expr, dtype in found.values()]
        needed = {name for expr, _, _ in self.checks for name in _names_in(expr)}
        for assignment in reversed(self.assignments):
            if assignment.variable.name in needed:
                needed |= _names_in(assignment.value)
        self.assignments = [one for one in self.assignments if one.variable.name in needed]
        self.any = bool(self.checks)

    def check(self, values: Sequence[Any]) -> None:
        """Raise InvalidArgument for a number that does not fit."""
        known: dict[str, int] = {}
        for assignment in self.assignments:
            value = _value(assignment.value, values, known)
            if value is not None:
                known[assignment.variable.name] = value
        for expr, dtype, (low, high) in self.checks:
            value = _value(expr, values, known)
            if value is not None and not low <= value <= high:
                raise InvalidArgument(
                    f"{self.name}: {expr_text(expr)} is {value}, which does not fit {dtype}, the type of the number "
                    f"that it is combined with; {low} to {high} are accepted, or a NumPy number of a wider type"
                )


def _names_in(expr: ir.Expr) -> set[str]:
    return {variable.name for variable in regions.reads(expr)}


def _promoted_in(expr: ir.Expr) -> Iterator[ir.Cast]:
    """The promotions of weak integers to the type of a typed operand, but not in comparisons: these compare values."""
    for inner in ir.children(expr):
        if isinstance(expr, ir.Compare) and isinstance(inner, ir.Cast):
            inner = inner.value
        yield from _promoted_in(inner)
    if is_promoted(expr):
        yield expr


def _value(expr: ir.Expr, values: Sequence[Any] | None, known: Mapping[str, int]) -> int | None:
    """The value of a sum, difference or product of plain integers of the call and of `known` variables; None for other
    expressions. If `values` is None, the call's integers are 0."""
    if isinstance(expr, ir.Const):
        return int(expr.value)
    if isinstance(expr, ir.Parameter):
        return None if not expr.weak else 0 if values is None else _number(values, expr)
    if isinstance(expr, ir.Read):
        return known.get(expr.variable.name)
    if isinstance(expr, ir.Unary) and expr.op == "neg":
        inner = _value(expr.value, values, known)
        return None if inner is None else -inner
    if isinstance(expr, ir.Binary) and expr.op in _OPERATIONS:
        left, right = _value(expr.left, values, known), _value(expr.right, values, known)
        if left is None or right is None:
            return None
        return _OPERATIONS[expr.op](left, right)
    return None


def _true_type(one: ir.Parameter) -> np.dtype[Any]:
    return np.dtype(np.int64) if one.weak else one.dtype


def _number(values: Sequence[Any], one: ir.Parameter) -> int:
    value = values[one.position]
    return int(value if one.item is None else value[one.item])


def _rounded_up(size: int) -> int:
    """The next number with three significant binary digits: sizes that are about the same share an answer."""
    if size <= 8:
        return max(size, 0)
    step = 1 << (size - 1).bit_length() - 3
    return -(-size // step) * step


def _about(value: int, ends: Range) -> Range:
    """A range of numbers about as large as `value`, which is in it; ends: the range of its type."""
    if -8 <= value <= 8:
        return value, value
    size = abs(value)
    largest = _rounded_up(size)
    low = largest - (1 << (size - 1).bit_length() - 3) + 1
    return (low, min(largest, ends[1])) if value > 0 else (max(-largest, ends[0]), -low)


def _wide_bucket(value: int, ends: Range) -> Range:
    """The bucket of a number: all that have its sign and at most as many bits; ends: the range of its type."""
    if value < 0:
        return max(ends[0], next(-(1 << k) for k in _BUCKETS if value >= -(1 << k))), -1
    return 0, min(ends[1], next((1 << k) - 1 for k in _BUCKETS if value < 1 << k))
