"""The typed intermediate form of vector functions: what the front end makes, what every lowering reads.

A function's body is structured (no goto, no early return), its expressions are pure, and every conversion
is an explicit `Cast`. An index is written in the coordinates of the argument's own view (tiles are resolved
to ``t * T + local`` by the front end); strides, offsets and extents are run-time values of the launch.

Types are NumPy dtypes; booleans are ``np.bool_``. Integers wrap. Reads outside an array's extent give its
fill value, writes outside are dropped: a lowering may leave the test out where it can prove it needless.

`weak` marks integers that are made of Python's integers alone (indexes, extents, counters, literals, plain arguments).
They mean 64-bit integers. The front end writes them with the index type, and conversions of them to that same type
where they become a typed integer; `lang.analysis.integer_widths` makes forms of it that are computed in 32 or in 64
bits, and :mod:`pydp.lang.analysis.integer_ranges` says which one a launch needs.
"""

from __future__ import annotations

import functools
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field, fields
from typing import Any

import numpy as np

from pydp.lang.ir.data import NOWHERE, Array, GlobalArray, LocalArray, PrivateArray, Variable, Where
from pydp.lang.ir.data import Item as Item
from pydp.lang.ir.data import member_dtype as member_dtype
from pydp.lang.ir.data import member_of as member_of

# --- expressions (pure; `dtype` is the type of the value) -------------------------------------------------


@dataclass(frozen=True)
class Expr:
    """An expression."""

    dtype: np.dtype[Any]


@dataclass(frozen=True)
class Const(Expr):
    """A value known now."""

    value: Any


@dataclass(frozen=True)
class Read(Expr):
    """The value of a variable."""

    variable: Variable


@dataclass(frozen=True)
class Parameter(Expr):
    """A number (or record) given to the call: the same for all lanes. `position` as in GlobalArray;
    `item` picks one of a tuple of numbers, None where the argument is one number."""

    name: str
    position: int
    item: int | None = None
    weak: bool = field(default=False, compare=False)


@dataclass(frozen=True)
class GroupIndex(Expr):
    """The group's place in the grid of groups, along an axis."""

    axis: int


@dataclass(frozen=True)
class LocalIndex(Expr):
    """The lane's place in its group, along an axis."""

    axis: int


@dataclass(frozen=True)
class GlobalIndex(Expr):
    """The lane's place in the launch grid, the grid's offset included: offset + GroupIndex * group + LocalIndex
    (what `idx` is without .group or .local). The only index of a lane where Function.group is None: the lowering
    picks the group then. A lane is in the grid where offset <= GlobalIndex < offset + GridExtent on every axis."""

    axis: int


@dataclass(frozen=True)
class GridExtent(Expr):
    """The launch grid's extent along an axis, in lanes (not groups)."""

    axis: int


@dataclass(frozen=True)
class ArrayExtent(Expr):
    """The extent of an argument's array (of its data, not of its tiles) along an axis."""

    array: GlobalArray
    axis: int


@dataclass(frozen=True)
class Unary(Expr):
    """op: 'neg' (numbers), 'invert' (integers), 'not' (bool)."""

    op: str
    value: Expr
    weak: bool = field(default=False, compare=False)


@dataclass(frozen=True)
class Binary(Expr):
    """op: add sub mul truediv floordiv mod pow shl shr and or xor. Both operands have the result's dtype
    (the shift count too). Integer floordiv and mod round down as Python's do and give 0 for a divisor of 0;
    float floordiv and mod as NumPy's. Shifts by >= the width give 0 (or -1); 'pow' of integers wraps and
    has a non-negative exponent. and/or/xor also take bool."""

    op: str
    left: Expr
    right: Expr
    weak: bool = field(default=False, compare=False)


@dataclass(frozen=True)
class Compare(Expr):
    """op: lt le gt ge eq ne; both operands of one dtype (records: eq and ne only)."""

    op: str
    left: Expr
    right: Expr


@dataclass(frozen=True)
class Logical(Expr):
    """op: 'and' | 'or' of bools. The right operand is read only where the left one does not decide."""

    op: str
    left: Expr
    right: Expr


@dataclass(frozen=True)
class Select(Expr):
    """One of two values of one dtype. Only the chosen one is read. `item`: it is part of finding that item."""

    condition: Expr
    yes: Expr
    no: Expr
    item: ItemBound | None = field(default=None, compare=False)
    weak: bool = field(default=False, compare=False)


@dataclass(frozen=True)
class Cast(Expr):
    """Conversion as astype does: float to integer truncates toward zero, to bool tests for non-zero. `met`: a weak
    integer takes the type of the number that it meets."""

    value: Expr
    weak: bool = field(default=False, compare=False)
    met: bool = field(default=False, compare=False)


@dataclass(frozen=True)
class Math(Expr):
    """name: sqrt rsqrt exp exp2 exp10 expm1 log log2 log10 log1p sin cos tan asin acos atan atan2 sinh cosh tanh
    asinh acosh atanh floor ceil trunc rint hypot copysign fmod erf cbrt isnan isinf isfinite abs minimum maximum fma.
    minimum and maximum propagate NaN as NumPy's; rint rounds half to even."""

    name: str
    values: tuple[Expr, ...]
    weak: bool = field(default=False, compare=False)


@dataclass(frozen=True)
class Member(Expr):
    """One member of a record value, or (`name` an :class:`Item`) one item of a member that is an array."""

    record: Expr
    name: str


@dataclass(frozen=True)
class MakeRecord(Expr):
    """A record from its members' values, in the dtype's order."""

    values: tuple[Expr, ...]


@dataclass(frozen=True)
class Bound:
    """A promise for checked mode: 0 <= index < size, where size is a tile's extent along an axis."""

    index: Expr
    size: int


@dataclass(frozen=True)
class ItemBound(Bound):
    """As Bound, of an item of an array member or tuple, `name`, found by a number at run time; kind: read or write."""

    name: str
    kind: str
    where: Where


@dataclass(frozen=True)
class Load(Expr):
    """An element of an array; `bounds` are checked in checked mode only; `exact` says that an index outside a
    GlobalArray is an error of the user's (plain field) and not a partial tile: also checked mode only."""

    array: Array
    indices: tuple[Expr, ...]
    bounds: tuple[Bound, ...] = ()
    exact: bool = False
    where: Where = NOWHERE


# --- statements ------------------------------------------------------------------------------------------


@dataclass
class Stmt:
    """A statement; `where` is its place in the user's source."""

    where: Where


@dataclass
class Assign(Stmt):
    """variable = value, or variable.members[0].members[1] ... = value; a member may be an :class:`Item`."""

    variable: Variable
    value: Expr
    members: tuple[str, ...] = ()


@dataclass
class Store(Stmt):
    """array[indices] = value, or a member of it as in `Assign`; `bounds` and `exact` as in `Load`."""

    array: Array
    indices: tuple[Expr, ...]
    value: Expr
    members: tuple[str, ...] = ()
    bounds: tuple[Bound, ...] = ()
    exact: bool = False


@dataclass
class Atomic(Stmt):
    """array[indices] = op(array[indices], value), indivisibly; op: add min max and or xor.

    old: a private array of one element, which takes the value that was there; it is not touched by lanes whose
    update is dropped."""

    op: str
    array: Array
    indices: tuple[Expr, ...]
    value: Expr
    bounds: tuple[Bound, ...] = ()
    exact: bool = False
    old: PrivateArray | None = None


@dataclass
class If(Stmt):
    """`item`: the condition is part of finding that item."""

    condition: Expr
    then: list[Stmt]
    orelse: list[Stmt] = field(default_factory=list)
    item: ItemBound | None = None


@dataclass
class For(Stmt):
    """Python's for over range: start, stop and step (never 0; a Const wherever the user wrote one) are evaluated
    once; `variable` is only set by the loop (assignments to it inside the body do not steer the loop)."""

    variable: Variable
    start: Expr
    stop: Expr
    step: Expr
    body: list[Stmt]


@dataclass
class While(Stmt):
    """Python's while: the condition is evaluated before every turn."""

    condition: Expr
    body: list[Stmt]


@dataclass
class Break(Stmt):
    """Leave the innermost loop."""


@dataclass
class Continue(Stmt):
    """Go on with the innermost loop's next turn."""


@dataclass
class Barrier(Stmt):
    """All lanes of the group (or of each run of `width` lanes) meet; local memory is then coherent among them.

    counted: it was taken out of a condition that `width` lanes fulfil, which need not be a run."""

    width: Expr | None = None
    number: int = 0
    counted: bool = False


@dataclass
class Function:
    """A vector function for given argument types.

    exact: the form that the front end wrote, with its weak integers and their conversions.
    group: extents of the group (None where the call gave none and the function uses none: the lowering picks, and
    the body has no GroupIndex or LocalIndex, only GlobalIndex).
    index_dtype: int32, or int64 where extents, addresses or weak integers need it; the type of indexes and of weak
    integers.
    grid_rank: rank of the launch grid. Lanes outside the grid (partial groups) run where the function has
    barriers or local fields, and do not run where it has neither. Those that run read as the others do (they may fetch
    what others need) and store to local and private arrays; their stores to GlobalArrays and all their atomics, on
    local arrays too, are dropped.
    """

    name: str
    grid_rank: int
    group: tuple[int, ...] | None
    index_dtype: np.dtype[Any]
    arrays: list[GlobalArray]
    parameters: list[Parameter]
    variables: list[Variable]
    locals: list[LocalArray]
    privates: list[PrivateArray]
    body: list[Stmt]
    where: Where = NOWHERE
    uses_group: bool = False
    exact: Function | None = field(default=None, compare=False, repr=False)


@dataclass
class ValueFunction:
    """A function of plain values: an operator, predicate or key. `result` is read after `body` has run."""

    name: str
    arguments: list[Variable]
    variables: list[Variable]
    privates: list[PrivateArray]
    body: list[Stmt]
    result: Expr
    where: Where = NOWHERE


# --- walking ---------------------------------------------------------------------------------------------


@functools.cache
def _expression_fields(kind: Any) -> tuple[tuple[str, bool], ...]:
    """(name, whether it holds several) of the fields of a node type that hold expressions."""
    several = {"Expr": False, "Expr | None": False, "tuple[Expr, ...]": True}
    return tuple((item.name, several[str(item.type)]) for item in fields(kind) if str(item.type) in several)


@functools.cache
def _block_fields(kind: Any) -> tuple[str, ...]:
    """The fields of a node type that hold a list of statements."""
    return tuple(item.name for item in fields(kind) if str(item.type) == "list[Stmt]")


def children(node: Expr | Stmt) -> list[Expr]:
    """The expressions directly inside an expression or a statement (those of `bounds` left out), in order."""
    found: list[Expr] = []
    kind: Any = type(node)
    for name, several in _expression_fields(kind):
        value = getattr(node, name)
        if several:
            found += value
        elif value is not None:
            found.append(value)
    return found


def walk(expr: Expr) -> Iterator[Expr]:
    """An expression and everything inside it, outermost first."""
    pending = [expr]
    while pending:
        one = pending.pop()
        yield one
        pending += reversed(children(one))


expressions = children
"""The expressions of one statement, not those of statements nested in it."""


def blocks(statement: Stmt) -> Iterator[list[Stmt]]:
    """The lists of statements directly inside a statement."""
    kind: Any = type(statement)
    for name in _block_fields(kind):
        yield getattr(statement, name)


def statements(body: list[Stmt]) -> Iterator[Stmt]:
    """All statements of a body, nested ones too, in source order."""
    for statement in body:
        yield statement
        for block in blocks(statement):
            yield from statements(block)


def jumps(body: Iterable[Stmt]) -> Iterator[Break | Continue]:
    """The break and continue statements in a body that belong to a loop around it, not to a loop inside it."""
    for statement in body:
        if isinstance(statement, Break | Continue):
            yield statement
        elif isinstance(statement, If):
            yield from jumps((*statement.then, *statement.orelse))


def barriers(body: list[Stmt]) -> list[Barrier]:
    """All barriers of a body in source order."""
    return [statement for statement in statements(body) if isinstance(statement, Barrier)]
