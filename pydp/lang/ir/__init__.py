"""The typed intermediate form of vector functions. The front end produces it; every lowering reads it.

A function's body is structured (no goto, no early return), its expressions are pure, and every conversion is an
explicit `Cast`. Indexes are coordinates of the argument's view: the front end resolves a tile's index to
``t * T + local``. Strides, offsets and extents are run-time values of the launch.

Types are NumPy dtypes; booleans are ``np.bool_``. Integers wrap. Reads outside an array's extent give its fill value,
and writes outside are dropped. A lowering may omit the bounds check if it can prove that the index is in bounds.

`weak` marks integers of weak type: they are computed only from Python integers (indexes, extents, loop counters,
literals, Python int arguments) and have the semantics of 64-bit integers. The front end gives them the index dtype, and
emits a cast to the same dtype where a weak integer becomes a typed one. `lang.analysis.integer_widths` creates versions
that compute them in 32 or 64 bits, and :mod:`pydp.lang.analysis.integer_ranges` decides which version a launch needs.
"""

from __future__ import annotations

import functools
import itertools
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field, fields
from operator import attrgetter
from typing import Any, TypeVar

import numpy as np

from pydp.lang.ir.data import NOWHERE, Array, GlobalArray, LocalArray, PrivateArray, Variable, Where
from pydp.lang.ir.data import Item as Item
from pydp.lang.ir.data import member_dtype as member_dtype
from pydp.lang.ir.data import member_of as member_of


class _Uid:
    """The attribute `uid`: a number that no other node has. A node gets it when it is first read, so nodes that need
    none cost nothing. A node made by `dataclasses.replace` gets its own."""

    _numbers = itertools.count()

    def __get__(self, node: Expr | Stmt, kind: type) -> int:
        number: int = node.__dict__.setdefault("uid", next(self._numbers))  # atomic: all threads read the same number
        return number


# --- expressions (pure; `dtype` is the type of the value) -------------------------------------------------


@dataclass(frozen=True)
class Expr:
    """An expression. uid: identifies this node; facts about nodes are kept by it. Equal nodes have different ones."""

    dtype: np.dtype[Any]
    uid = _Uid()


@dataclass(frozen=True)
class Const(Expr):
    """A constant, known at translation time."""

    value: Any


@dataclass(frozen=True)
class Read(Expr):
    """The value of a variable."""

    variable: Variable


@dataclass(frozen=True)
class Parameter(Expr):
    """A number or record argument of the call: uniform over all lanes. `position` as in GlobalArray; `item` selects a
    number if the argument is a tuple of numbers, else None."""

    name: str
    position: int
    item: int | None = None
    weak: bool = field(default=False, compare=False)


@dataclass(frozen=True)
class GroupIndex(Expr):
    """The group's index in the grid of groups along an axis."""

    axis: int


@dataclass(frozen=True)
class LocalIndex(Expr):
    """The lane's index in its group along an axis."""

    axis: int


@dataclass(frozen=True)
class GlobalIndex(Expr):
    """The lane's index in the launch grid along an axis, including the grid's offset: offset + GroupIndex * group +
    LocalIndex. It is `idx` without .group or .local, and the only index of a lane if Function.group is None, because
    the lowering then chooses the group. A lane is in the grid if offset <= GlobalIndex < offset + GridExtent on every
    axis."""

    axis: int


@dataclass(frozen=True)
class GridExtent(Expr):
    """The launch grid's extent along an axis, in lanes (not groups)."""

    axis: int


@dataclass(frozen=True)
class ArrayExtent(Expr):
    """The extent of an array argument along an axis, in elements (not tiles)."""

    array: GlobalArray
    axis: int


INDEXES = (GroupIndex, LocalIndex, GlobalIndex, GridExtent, ArrayExtent)
"""The expressions of the index type, which are weak integers."""


@dataclass(frozen=True)
class Unary(Expr):
    """op: 'neg' (numbers), 'invert' (integers), 'not' (bool)."""

    op: str
    value: Expr
    weak: bool = field(default=False, compare=False)


@dataclass(frozen=True)
class Binary(Expr):
    """op: add sub mul truediv floordiv mod pow shl shr and or xor. Both operands have the result's dtype, including the
    shift count. Integer floordiv and mod round down as in Python, and give 0 for a divisor of 0; float floordiv and mod
    are NumPy's. Shifts by the number of bits or more give 0 (or -1). Integer pow wraps; its exponent is not negative.
    and, or and xor also accept bool."""

    op: str
    left: Expr
    right: Expr
    weak: bool = field(default=False, compare=False)


@dataclass(frozen=True)
class Compare(Expr):
    """op: lt le gt ge eq ne. Both operands have the same dtype; records have only eq and ne."""

    op: str
    left: Expr
    right: Expr


@dataclass(frozen=True)
class Logical(Expr):
    """op: 'and' or 'or' of bools. The right operand is evaluated only if the left one does not decide the result."""

    op: str
    left: Expr
    right: Expr


@dataclass(frozen=True)
class Select(Expr):
    """One of two values of the same dtype. Only the selected one is evaluated. `item`: set if this expression is part
    of the selection of an item by a run-time index."""

    condition: Expr
    yes: Expr
    no: Expr
    item: ItemBound | None = field(default=None, compare=False)
    weak: bool = field(default=False, compare=False)


@dataclass(frozen=True)
class Cast(Expr):
    """Conversion as by ``astype``: float to integer truncates toward zero; to bool tests for non-zero. `promoted`: a
    weak integer is converted to the type of the other, typed operand."""

    value: Expr
    weak: bool = field(default=False, compare=False)
    promoted: bool = field(default=False, compare=False)


@dataclass(frozen=True)
class Math(Expr):
    """A call of a function of :data:`pydp.lang.intrinsics.FUNCTIONS`, by its name there."""

    name: str
    values: tuple[Expr, ...]
    weak: bool = field(default=False, compare=False)


@dataclass(frozen=True)
class Member(Expr):
    """One member of a record value; if `name` is an :class:`Item`, one item of an array member."""

    record: Expr
    name: str


@dataclass(frozen=True)
class MakeRecord(Expr):
    """A record from the values of its members, in the dtype's order."""

    values: tuple[Expr, ...]


@dataclass(frozen=True)
class Bound:
    """A condition that checked mode verifies: 0 <= index < size, where size is a tile's extent along an axis."""

    index: Expr
    size: int


@dataclass(frozen=True)
class ItemBound(Bound):
    """A Bound for a run-time index into the items of `name`, an array member or a tuple. kind: read or write."""

    name: str
    kind: str
    where: Where


@dataclass(frozen=True)
class Load(Expr):
    """An element of an array. Checked mode verifies `bounds`. strict_bounds: checked mode reports an index outside a
    GlobalArray as an error (a field without tiles); without it, such an index belongs to a partial tile."""

    array: Array
    indices: tuple[Expr, ...]
    bounds: tuple[Bound, ...] = ()
    strict_bounds: bool = False
    where: Where = NOWHERE


# --- statements ------------------------------------------------------------------------------------------


@dataclass
class Stmt:
    """A statement; `where` is its location in the user's source. uid: as for expressions."""

    where: Where
    uid = _Uid()


@dataclass
class Assign(Stmt):
    """``variable = value``, or ``variable.members[0].members[1] ... = value``. A member may be an :class:`Item`."""

    variable: Variable
    value: Expr
    members: tuple[str, ...] = ()


@dataclass
class Store(Stmt):
    """``array[indices] = value``, or a store to a member as in `Assign`. `bounds`, `strict_bounds`: as in `Load`."""

    array: Array
    indices: tuple[Expr, ...]
    value: Expr
    members: tuple[str, ...] = ()
    bounds: tuple[Bound, ...] = ()
    strict_bounds: bool = False


@dataclass
class Atomic(Stmt):
    """``array[indices] = op(array[indices], value)`` as one atomic operation; op: add min max and or xor.

    old: a private array of one element that receives the previous value; None if it is not needed. A lane whose update
    is dropped does not write `old`."""

    op: str
    array: Array
    indices: tuple[Expr, ...]
    value: Expr
    bounds: tuple[Bound, ...] = ()
    strict_bounds: bool = False
    old: PrivateArray | None = None


@dataclass
class If(Stmt):
    """A conditional statement. `item`: set if it is part of the selection of an item by a run-time index."""

    condition: Expr
    then: list[Stmt]
    orelse: list[Stmt] = field(default_factory=list)
    item: ItemBound | None = None


@dataclass
class For(Stmt):
    """Python's ``for`` over ``range``. start, stop and step are evaluated once; step is never 0, and a Const if the
    user wrote a literal. Assignments to `variable` in the body do not change the iterations."""

    variable: Variable
    start: Expr
    stop: Expr
    step: Expr
    body: list[Stmt]


@dataclass
class While(Stmt):
    """Python's ``while``: the condition is evaluated before every iteration."""

    condition: Expr
    body: list[Stmt]


@dataclass
class Break(Stmt):
    """Leave the innermost loop."""


@dataclass
class Continue(Stmt):
    """Continue with the next iteration of the innermost loop."""


@dataclass
class Barrier(Stmt):
    """A barrier of all lanes of the group, or of each aligned run of `width` lanes. It orders their memory accesses.

    number: the barrier's number in source order. from_condition: the barrier was moved out of a condition that holds
    for `width` lanes; these lanes need not be an aligned run."""

    width: Expr | None = None
    number: int = 0
    from_condition: bool = False


@dataclass
class Function:
    """A vector function for given argument types.

    weak_form: the function as the front end wrote it, with weak integers and all their casts.
    group: extents of the group; None if the call gives no group and the function uses none. The lowering then chooses
    the group, and the body has no GroupIndex or LocalIndex, only GlobalIndex.
    index_dtype: the dtype of indexes and weak integers: int32, or int64 if extents, addresses or weak integers need it.
    grid_rank: rank of the launch grid.

    The lanes of a partial group that are outside the grid run only if the function has barriers or local fields. They
    load like other lanes (other lanes may need the elements) and store to local and private arrays. Their stores to
    GlobalArrays are dropped, and so are all their atomics, including those on local arrays.
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
    weak_form: Function | None = field(default=None, compare=False, repr=False)


@dataclass
class ValueFunction:
    """A function from scalars or records to one: an operator, predicate or key. `result` is evaluated after `body`."""

    name: str
    arguments: list[Variable]
    variables: list[Variable]
    privates: list[PrivateArray]
    body: list[Stmt]
    result: Expr
    where: Where = NOWHERE


AFTER_PASS: list[Callable[[Function | ValueFunction], object]] = []
"""Called with the function after every pass. The tests add a verifier."""
_Made = TypeVar("_Made", Function, ValueFunction)


def passed(function: _Made) -> _Made:
    """The function itself, which a pass has made; every pass ends with it."""
    for check in AFTER_PASS:
        check(function)
    return function


# --- traversal -------------------------------------------------------------------------------------------


_Children = Callable[[Any], Sequence[Expr]]


@functools.cache
def _children_of(kind: Any) -> _Children:
    """The function that reads the children of a node type."""
    kinds = {item.name: str(item.type) for item in fields(kind) if "Expr" in str(item.type)}
    names = list(kinds)
    if not names:
        return lambda node: ()
    if all(kinds[name] == "Expr" for name in names):
        read: Callable[[Any], Any] = attrgetter(*names)
        return read if len(names) > 1 else lambda node: (read(node),)
    if len(names) == 1 and kinds[names[0]] == "tuple[Expr, ...]":
        return attrgetter(names[0])

    def mixed(node: Any) -> list[Expr]:
        found: list[Expr] = []
        for name in names:
            value = getattr(node, name)
            found += value if isinstance(value, tuple) else () if value is None else (value,)
        return found

    return mixed


@functools.cache
def _block_fields(kind: Any) -> tuple[str, ...]:
    """The fields of a node type that hold a list of statements."""
    return tuple(item.name for item in fields(kind) if str(item.type) == "list[Stmt]")


def children(node: Expr | Stmt) -> Sequence[Expr]:
    """The expressions directly inside an expression or a statement, in order; without the expressions of `bounds`."""
    kind: Any = type(node)
    return _children_of(kind)(node)


def walk(expr: Expr) -> Iterator[Expr]:
    """An expression and everything inside it, outermost first."""
    pending = [expr]
    while pending:
        one = pending.pop()
        yield one
        inside = children(one)
        if inside:
            pending += inside[::-1]


expressions = children
"""The expressions of one statement, without the expressions of statements nested in it."""


def blocks(statement: Stmt) -> Iterator[list[Stmt]]:
    """The lists of statements directly inside a statement."""
    kind: Any = type(statement)
    for name in _block_fields(kind):
        yield getattr(statement, name)


def statements(body: list[Stmt]) -> Iterator[Stmt]:
    """All statements of a body, including nested ones, in source order."""
    for statement in body:
        yield statement
        for block in blocks(statement):
            yield from statements(block)


def parts(some: Iterable[Stmt]) -> Iterator[Expr]:
    """All expressions of some statements, including nested expressions; `statements` gives the nested statements."""
    for statement in some:
        for expr in children(statement):
            yield from walk(expr)


def loads(some: Iterable[Stmt]) -> Iterator[Load]:
    """All loads in the expressions of some statements."""
    return (part for part in parts(some) if isinstance(part, Load))


def accesses(some: Iterable[Stmt]) -> Iterator[Load | Store | Atomic]:
    """The array accesses of statements, in order. For each statement, its store or atomic comes before its loads."""
    for statement in some:
        if isinstance(statement, Store | Atomic):
            yield statement
        yield from loads([statement])


def constant_range(loop: For) -> range | None:
    """The values of a loop's counter if start, stop and step are constants, else None."""
    bounds = [bound.value for bound in (loop.start, loop.stop, loop.step) if isinstance(bound, Const)]
    return range(*map(int, bounds)) if len(bounds) == 3 else None


def jumps(body: Iterable[Stmt]) -> Iterator[Break | Continue]:
    """The break and continue statements in a body whose loop encloses the body."""
    for statement in body:
        if isinstance(statement, Break | Continue):
            yield statement
        elif isinstance(statement, If):
            yield from jumps((*statement.then, *statement.orelse))


def jump_conditions(body: Iterable[Stmt]) -> Iterator[If]:
    """The conditions around the jumps of a body (see `jumps`): whether a lane leaves the loop depends on them."""
    for statement in body:
        if isinstance(statement, If) and any(jumps([statement])):
            yield statement
            yield from jump_conditions((*statement.then, *statement.orelse))


def barriers(body: list[Stmt]) -> list[Barrier]:
    """All barriers of a body in source order."""
    return [statement for statement in statements(body) if isinstance(statement, Barrier)]
