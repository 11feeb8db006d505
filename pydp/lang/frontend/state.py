"""The state of a translation: frames, variables and their types, emitted statements, conversions.

Translation repeats in passes and keeps the types of variables from pass to pass, until no assignment changes a type.
The last pass gives the result.
"""

from __future__ import annotations

import ast
import itertools
import math
from abc import ABC, abstractmethod
from collections.abc import Collection, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from types import CodeType, FunctionType
from typing import Any, NoReturn

import numpy as np

from pydp.lang import ir
from pydp.lang.frontend.values import Number, Value, describe, map_numbers, same_shape
from pydp.lang.ir.data import wrap
from pydp.lang.ir.diagnostics import VectorError
from pydp.lang.ir.types import BOOL, FLOAT32, FLOAT64, INT64, UINT64, NoCommonType, Type, is_integer, join
from pydp.lang.source.syntax import Source

_STABLE = (ir.Const, ir.Parameter, ir.GroupIndex, ir.LocalIndex, ir.GlobalIndex, ir.GridExtent, ir.ArrayExtent)
_STABLE_INSIDE = (*_STABLE, ir.Unary, ir.Binary, ir.Cast, ir.Compare)
_STABLE_NODES = 12
# Deeper expressions are split into variables, because the passes and OpenCL C compilers recurse into expressions. A
# compiler ends the process if the recursion is too deep.
_MOST_DEPTH = 40


@dataclass
class Shared:
    """State shared by all passes: types of variables, names, and the functions that need a `done` flag."""

    types: dict[str, tuple[Type, ir.Where]] = field(default_factory=dict)
    names: dict[str, str] = field(default_factory=dict)
    flags: set[str] = field(default_factory=set)
    changed: bool = False


@dataclass
class Loop:
    """A loop being translated: the names assigned at each break and continue."""

    breaks: list[set[str]] = field(default_factory=list)
    continues: list[set[str]] = field(default_factory=list)
    unrolled: bool = False


@dataclass
class Frame:
    """A function being translated: the kernel, or a function inlined into it."""

    source: Source
    function: FunctionType
    prefix: str
    codes: tuple[CodeType, ...]
    kernel: bool
    bindings: dict[str, Value] = field(default_factory=dict)
    loops: list[Loop] = field(default_factory=list)
    arguments: frozenset[str] = frozenset()
    result: Value | None = None


class Base(ABC):
    """Base class of the translator's parts, which inline.Translator combines."""

    def __init__(self, shared: Shared, index_dtype: np.dtype[Any], group: tuple[int, ...] | None, rank: int) -> None:
        self.shared = shared
        self.index_dtype = index_dtype
        self.group = group
        self.grid_rank = rank
        self.double_arrays = False
        self.uses_group = False
        self.block: list[ir.Stmt] = []
        self.assigned: set[str] | None = set()
        self.variables: dict[str, ir.Variable] = {}
        self.locals: dict[str, ir.LocalArray] = {}
        self.privates: dict[str, ir.PrivateArray] = {}
        self.active: dict[str, tuple[Frame, ast.For]] = {}
        self.barriers = 0
        self.naming: str | None = None
        self.discarded: ast.AST | None = None  # the call whose value is unused
        self.values_only = False
        self.nesting, self.blocks = 0, 0  # current nesting levels of expressions and statements
        self.latest: ast.AST | None = None  # the last node translated, for errors without a place
        self.depths: dict[int, int] = {}
        self.frame: Frame

    # --- defined by subclasses

    @abstractmethod
    def value(self, node: ast.expr) -> Value: ...

    @abstractmethod
    def translate_block(self, body: Sequence[ast.stmt]) -> None: ...

    # --- places and errors

    def where(self, node: ast.AST) -> ir.Where:
        return self.frame.source.where(node)

    def fail(self, message: str, node: ast.AST) -> NoReturn:
        raise VectorError(message, self.where(node))

    # --- statements

    def emit(self, statement: ir.Stmt) -> None:
        self.block.append(statement)

    @contextmanager
    def nested(self) -> Iterator[list[ir.Stmt]]:
        """Collect the statements emitted inside in a separate list."""
        outer, self.block = self.block, []
        try:
            yield self.block
        finally:
            self.block = outer

    # --- names and variables

    def unique(self, key: str, hint: str) -> str:
        """A unique name for `key` in the result, the same in every pass."""
        known = self.shared.names.get(key)
        if known is None:
            letters = hint.replace(".", "_")
            base = "".join(letter if letter.isascii() else f"u{ord(letter):x}" for letter in letters) or "value"
            known, taken = base, set(self.shared.names.values())
            number = 1
            while known in taken:
                number += 1
                known = f"{base}_{number}"
            self.shared.names[key] = known
        return known

    def place_key(self, tag: str, node: ast.AST) -> str:
        """A key for the value that a node creates, the same in every pass."""
        # Include the end: in a * b + c, the product and the sum start at the same column.
        place = [getattr(node, name, 0) for name in ("lineno", "col_offset", "end_lineno", "end_col_offset")]
        return f"{self.frame.prefix}{tag}@{place}"

    def variable(self, key: str, hint: str, dtype: np.dtype[Any], weak: bool = False) -> ir.Variable:
        name = self.unique(key, hint)
        made = "%" in key.rsplit("/", 1)[-1]
        variable = self.variables[name] = ir.Variable(name, dtype, made, weak and is_integer(dtype))
        return variable

    def note_type(self, key: str, kind: Type, where: ir.Where, hint: str) -> Type:
        """Join a type into the type of a variable, and give the joined type."""
        stripped = Type(kind.dtype, kind.weak)
        known = self.shared.types.get(key)
        if known is None:
            self.shared.types[key] = (stripped, where)
            return stripped
        try:
            joined = join(known[0], stripped)
        except NoCommonType as error:
            message = f"{hint!r} has type {known[0]} at line {known[1].line} and {stripped} here: {error}"
            raise VectorError(message, where) from None
        if joined != known[0]:
            self.shared.types[key] = (joined, known[1])
            self.shared.changed = True
        return joined

    def assign(self, key: str, hint: str, number: Number, node: ast.AST) -> Number:
        """Emit ``variable = number`` and give a read of the variable."""
        where = self.where(node)
        kind = self.note_type(key, number.type, where, hint)
        variable = self.variable(key, hint, kind.dtype, kind.weak)
        self.emit(ir.Assign(where, variable, self.to_common(number, kind, node)))
        return Number(ir.Read(kind.dtype, variable), kind.weak)

    def temporary(self, number: Number, tag: str, node: ast.AST) -> Number:
        """A number held in its own variable, unless reading it again is free."""
        return number if isinstance(number.expr, ir.Read) else self.copied(number, tag, node)

    def in_parts(self, number: Number, tag: str, node: ast.AST) -> Number:
        """The number, held in a variable if its expression is deep."""
        depth = self._depth(number.expr)
        return number if depth <= _MOST_DEPTH else self.assign(self.place_key(f"%{tag}", node), "part", number, node)

    def _depth(self, expr: ir.Expr) -> int:
        depth = self.depths.get(expr.uid)
        if depth is None:
            depth = 1 + max((self._depth(inner) for inner in ir.children(expr)), default=0)
            self.depths[expr.uid] = depth
        return depth

    def is_stable(self, expr: ir.Expr) -> bool:
        """Whether the expression is cheap and constant for the whole run of a lane."""
        inner = list(itertools.islice(ir.walk(expr), _STABLE_NODES + 1))
        return len(inner) <= _STABLE_NODES and all(isinstance(item, _STABLE_INSIDE) for item in inner)

    def _stable_for(self, name: str, expr: ir.Expr) -> bool:
        """is_stable, but counters of loops that enclose all uses of `name` are allowed too."""
        inner = list(itertools.islice(ir.walk(expr), _STABLE_NODES + 1))
        if len(inner) > _STABLE_NODES:
            return False
        for item in inner:
            if isinstance(item, ir.Read):
                frame, loop = self.active.get(item.variable.name, (None, None))
                if loop is None or (frame is self.frame and not frame.source.facts.all_uses_inside(name, loop)):
                    return False
            elif not isinstance(item, _STABLE_INSIDE):
                return False
        return True

    def bind(self, name: str, value: Value, node: ast.AST) -> None:
        """``name = value``: numbers go to variables, except stable expressions of names that are assigned once."""
        frame = self.frame
        once = frame.source.facts.store_counts[name] <= 1 and name not in frame.arguments
        previous = frame.bindings.get(name)
        if previous is not None and not once and not same_shape(previous, value):
            self.fail(f"{name!r} is {describe(previous)} and cannot become {describe(value)}; use another name", node)

        def held(number: Number, suffix: str) -> Number:
            if once and self._stable_for(name, number.expr):
                return number
            return self.assign(f"{frame.prefix}{name}{suffix}", f"{name}{suffix}", number, node)

        frame.bindings[name] = map_numbers(self._read_first(name, value, node), held)
        if self.assigned is not None:
            self.assigned.add(frame.prefix + name)

    def _read_first(self, name: str, value: Value, node: ast.AST) -> Value:
        """The value, with copies of variables of `name` that are overwritten before use: ``t = (t[1], t[0])``."""
        own = f"{self.frame.prefix}{name}"
        written = {known for key, known in self.shared.names.items() if key.startswith(f"{own}.")}

        def copied(number: Number, suffix: str) -> Number:
            others = written - {self.shared.names.get(own + suffix)}
            return self.copied(number, f"before{suffix}", node) if self.reads_any(number.expr, others) else number

        return map_numbers(value, copied) if written else value

    def reads_any(self, expr: ir.Expr, names: Collection[str]) -> bool:
        """Whether the expression reads one of these variables."""
        return any(isinstance(item, ir.Read) and item.variable.name in names for item in ir.walk(expr))

    def copied(self, number: Number, tag: str, node: ast.AST) -> Number:
        """A copy of a number, unaffected by later assignments to the variables that it reads."""
        if self.is_stable(number.expr):
            return number
        return self.assign(self.place_key(f"%{tag}", node), tag, number, node)

    def copied_all(self, value: Value, tag: str, node: ast.AST) -> Value:
        """The value with a copy of each number in it."""
        return map_numbers(value, lambda number, suffix: self.copied(number, tag + suffix, node))

    # --- numbers

    def literal(self, value: bool | int | float, node: ast.AST) -> Number:
        """A Python number of the source as a literal."""
        if isinstance(value, bool):
            return Number(ir.Const(BOOL, value))
        if isinstance(value, float):
            return Number(ir.Const(FLOAT32, value), True)
        if fits(value, INT64) and not self.values_only:
            return Number(ir.Const(self.index_dtype, value), True)  # the type does not depend on the value
        for dtype in (self.index_dtype, INT64, UINT64):
            if fits(value, dtype):
                return Number(ir.Const(dtype, value), True)
        self.fail(f"the integer {value} does not fit into 64 bits", node)

    def integer(self, value: int) -> ir.Expr:
        """An index constant."""
        return ir.Const(self.index_dtype, value)

    def to_common(self, number: Number, kind: Type, node: ast.AST) -> ir.Expr:
        """Convert the number to the common type `kind`, and mark the cast if a weak integer becomes a typed one."""
        expr = self.convert(number, kind.dtype, node, kind.weak)
        if number.weak and not kind.weak and isinstance(expr, ir.Cast):
            return ir.Cast(expr.dtype, expr.value, expr.weak, promoted=True)
        return expr

    def convert(self, number: Number, dtype: np.dtype[Any], node: ast.AST, weak: bool = False) -> ir.Expr:
        """Convert the number to `dtype`; weak: to a weak type. A cast is emitted between weak and typed integers of the
        same dtype too: typed integers wrap, weak ones do not."""
        expr = number.expr
        if (expr.dtype.names or dtype.names) and expr.dtype != dtype:
            self.fail(f"{number.type} cannot be converted to {'a record' if dtype.names else dtype}", node)
        if isinstance(expr, ir.Const) and not dtype.names:
            return self._convert_constant(number, expr, dtype, node, weak)
        if expr.dtype == dtype:
            return ir.Cast(dtype, expr, weak) if number.weak != weak and is_integer(dtype) else expr
        if number.weak and expr.dtype.kind == "f" and dtype == FLOAT64:
            return self._widened(expr)
        return ir.Cast(dtype, expr, weak)

    def _convert_constant(
        self, number: Number, expr: ir.Const, dtype: np.dtype[Any], node: ast.AST, weak: bool
    ) -> ir.Expr:
        value = expr.value
        if dtype == BOOL:
            return ir.Const(dtype, bool(value))
        if dtype.kind == "f":
            if not number.weak and expr.dtype.kind == "f":
                value = np.asarray(value, expr.dtype)
            try:
                return ir.Const(dtype, float(value))
            except OverflowError:
                self.fail(f"the integer {value} does not fit {dtype}", node)
        if isinstance(value, float):
            if not math.isfinite(value) or not fits(int(value), dtype):
                return ir.Cast(dtype, expr)
            return ir.Const(dtype, int(value))
        value = int(value)
        if fits(value, dtype) or (weak and dtype == expr.dtype):
            return ir.Const(dtype, value)
        if number.weak:
            self.fail(_misfit(value, dtype), node)
        return ir.Const(dtype, int(np.asarray(value, expr.dtype).astype(dtype)))

    def _widened(self, expr: ir.Expr) -> ir.Expr:
        """Convert a weak float to float64; its variables and arguments become float64 too, in the next pass."""
        if expr.dtype != FLOAT32:
            return ir.Cast(FLOAT64, expr)
        if isinstance(expr, ir.Const):
            return ir.Const(FLOAT64, expr.value)
        if isinstance(expr, ir.Read | ir.Parameter):
            self.widen_name(expr.variable.name if isinstance(expr, ir.Read) else f"{expr.name}.{expr.item}")
            return ir.Cast(FLOAT64, expr)
        if isinstance(expr, ir.Binary):
            return ir.Binary(FLOAT64, expr.op, self._widened(expr.left), self._widened(expr.right))
        if isinstance(expr, ir.Unary):
            return ir.Unary(FLOAT64, expr.op, self._widened(expr.value))
        if isinstance(expr, ir.Math):
            return ir.Math(FLOAT64, expr.name, tuple(self._widened(item) for item in expr.values))
        if isinstance(expr, ir.Select):
            return replace(expr, dtype=FLOAT64, yes=self._widened(expr.yes), no=self._widened(expr.no))
        if isinstance(expr, ir.Cast):
            return ir.Cast(FLOAT64, expr.value)
        return ir.Cast(FLOAT64, expr)

    def widen_name(self, name: str) -> None:
        """Make a weak float variable float64 from the next pass on."""
        for key, known in self.shared.names.items():
            if known == name and key in self.shared.types:
                kind, where = self.shared.types[key]
                if kind.weak and kind.dtype == FLOAT32:
                    self.shared.types[key] = (Type(FLOAT64, True), where)
                    self.shared.changed = True

    def truth(self, value: Value, node: ast.AST) -> ir.Expr:
        """The value as a condition."""
        if not isinstance(value, Number) or value.expr.dtype.names:
            self.fail(f"a condition must be a number, not {describe(value)}", node)
        return self.convert(value, BOOL, node)

    def merged(self, states: Iterable[set[str] | None]) -> set[str] | None:
        """The names assigned on all paths; None if no path continues."""
        reached = [state for state in states if state is not None]
        return set.intersection(*reached) if reached else None


def fits(value: int, dtype: np.dtype[Any]) -> bool:
    """Whether an integer is a value of an integer dtype."""
    return wrap(value, dtype) == value


def _misfit(value: int, dtype: np.dtype[Any]) -> str:
    """The message for an integer that does not fit `dtype`, with advice."""
    limits = np.iinfo(dtype)
    said = f"the integer {value} does not fit {dtype} ({limits.min} to {limits.max})"
    wrapped = value % (1 << 8 * dtype.itemsize)
    if value < 0 <= limits.min and value + limits.max >= 0:
        return f"{said}; write {wrapped} for the same bits, or cast the {dtype} value to a signed type"
    if dtype.itemsize == 8:
        return f"{said}; no integer type is wider, use a float"
    return f"{said}; cast the {dtype} value to a wider type"
