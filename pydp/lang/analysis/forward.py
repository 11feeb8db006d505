"""Forward analyses of structured bodies: the walk, the joins and the fixpoint iteration that analyses share.

There are two kinds. A :class:`Forward` analysis is flow-sensitive: it has a state for each place in the body, and joins
the states of the edges that arrive at a place (:mod:`pydp.lang.analysis.integer_ranges`). `Facts` are flow-insensitive:
one fact holds for all values that a variable ever has (:mod:`pydp.lang.opencl.vector.variance`).

Two other walks over bodies stay on their own, because they do not follow edges. :mod:`pydp.lang.barriers.uniform` keeps
the first reason in source order for its messages, and a jump changes its control flow instead of ending it.
:func:`pydp.lang.analysis.regions.exposed` ignores jumps: lanes that have left a loop stay in their vector.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any, Generic, TypeVar

from pydp.lang import ir

State = TypeVar("State")
Key = TypeVar("Key")
Fact = TypeVar("Fact")

_WIDEN_AFTER = 2  # passes before states at loop heads are widened
_MAX_PASSES, _MAX_NARROWING_PASSES = 40, 4


@dataclass
class _LoopStates(Generic[State]):
    """The states of a loop: at its head, at the end of its body, and at the jumps in its body in this pass."""

    head: State | None = None
    back: State | None = None
    breaks: list[State] = field(default_factory=list)
    continues: list[State] = field(default_factory=list)


class Forward(ABC, Generic[State]):
    """A flow-sensitive analysis. Subclasses give the entry state, `join` and the transfer functions.

    Passes over the body repeat until the states at the loop heads are stable; these states are widened, then narrowed.
    One final pass follows, in which the states are correct at every place.

    state: the state at the current place; None if the place is unreachable. Transfer functions replace it or change it
    in place. pass_number: the number of the pass, before narrowing. final: this is the final pass.
    """

    def __init__(self) -> None:
        self.state: State | None = None
        self.pass_number = 0
        self.final = False
        self._narrowing = False
        self._changed = False
        self._loops: dict[int, _LoopStates[State]] = {}
        self._open: list[_LoopStates[State]] = []

    # --- hooks; states that they return are new objects

    @abstractmethod
    def entry(self) -> State:
        """The state at the start of the body."""

    @abstractmethod
    def join(self, states: Sequence[State]) -> State:
        """A state that includes all of one or more states."""

    @abstractmethod
    def transfer(self, statement: ir.Stmt) -> None:
        """The effect of an assignment, store, atomic or barrier on `state`."""

    def given(self, state: State, condition: ir.Expr, holds: bool) -> State | None:
        """The state, narrowed by the fact that a condition holds or does not hold; None if this fact cannot be true."""
        return self.join([state])

    def read(self, expr: ir.Expr) -> None:
        """Visit a condition, in the state before it."""

    def enter(self, loop: ir.For, head: State) -> State | None:
        """The state at the start of the body of a `for` loop."""
        return self.join([head])

    def widen(self, before: State, now: State) -> State:
        """A state that includes `now`, the state at a loop head, such that repeated widening ends. before: the state of
        the pass before."""
        return now

    def narrow(self, loop: ir.For | ir.While, before: State, now: State) -> State:
        """A state at a loop's head that is included in `before`. now: the join of the edges that arrive."""
        return before

    # --- the walk

    def solve(self, body: Sequence[ir.Stmt]) -> bool:
        """Analyze a body; `state` is then the state at its end. Returns False if the passes do not end."""
        for self.pass_number in range(_MAX_PASSES):
            if not self._pass(body):
                break
        else:
            return False
        self._narrowing = True
        for _ in range(_MAX_NARROWING_PASSES if self._loops else 0):
            if not self._pass(body):
                break
        self.final = True
        self._pass(body)
        return True

    def _pass(self, body: Sequence[ir.Stmt]) -> bool:
        """One pass over the body; returns whether the state at a loop head changed."""
        self.state, self._changed = self.entry(), False
        self.block(body)
        return self._changed

    def block(self, body: Sequence[ir.Stmt]) -> None:
        for statement in body:
            if self.state is None:
                return
            if isinstance(statement, ir.If):
                self._branch(statement, self.state)
            elif isinstance(statement, ir.For | ir.While):
                self.loop(statement, self.state)
            elif isinstance(statement, ir.Break):
                self._open[-1].breaks.append(self.state)
                self.state = None
            elif isinstance(statement, ir.Continue):
                self._open[-1].continues.append(self.state)
                self.state = None
            else:
                self.transfer(statement)

    def _branch(self, statement: ir.If, start: State) -> None:
        self.read(statement.condition)
        ends = []
        for body, holds in ((statement.then, True), (statement.orelse, False)):
            self.state = self.given(start, statement.condition, holds)
            self.block(body)
            ends.append(self.state)
        self.state = self._joined(ends)

    def loop(self, loop: ir.For | ir.While, entry: State) -> None:
        """Walk a loop once, with the state at its head of this pass. entry: the state before the loop."""
        states = self._loops.setdefault(loop.uid, _LoopStates())
        head = self._head(loop, states, entry)
        states.breaks, states.continues = [], []
        self.state = head
        if isinstance(loop, ir.While):
            self.read(loop.condition)
            self.state = self.given(head, loop.condition, True)
        else:
            self.state = self.enter(loop, head)
        self._open.append(states)
        self.block(loop.body)
        self._open.pop()
        states.back = self._joined([self.state, *states.continues])
        ended = self.given(head, loop.condition, False) if isinstance(loop, ir.While) else head
        self.state = self._joined([ended, *states.breaks])
        if not self.final and not self._narrowing and self._joined([head, states.back]) != head:
            self._changed = True

    def _head(self, loop: ir.For | ir.While, states: _LoopStates[State], entry: State) -> State:
        """The state at a loop's head in this pass."""
        before = states.head
        if self.final and before is not None:
            return before
        head = self.join([entry] if states.back is None else [entry, states.back])
        if before is not None and self._narrowing:
            head = self.narrow(loop, before, head)
        elif before is not None:
            head = self.join([before, head])
            if self.pass_number >= _WIDEN_AFTER:
                head = self.widen(before, head)
        if head != before:
            self._changed = True
        states.head = head
        return head

    def _joined(self, states: Sequence[State | None]) -> State | None:
        reached = [state for state in states if state is not None]
        return self.join(reached) if reached else None


class Facts(dict[Key, Fact]):
    """Facts by variable or statement. `add` joins a fact with the earlier one. changes: how often a fact changed."""

    def __init__(self, join: Callable[[Fact, Fact], Fact]) -> None:
        super().__init__()
        self._join = join
        self.changes = 0

    def add(self, key: Key, fact: Fact) -> Fact:
        """Join a fact with the known one; returns the result."""
        before = self.get(key)
        if before is not None:
            fact = self._join(before, fact)
        if fact != before:
            self[key] = fact
            self.changes += 1
        return fact


def until_stable(visit: Callable[[], None], *tables: Facts[Any, Any]) -> None:
    """Repeat `visit`, which adds facts, until none of the tables changes."""
    changes = -1
    while changes < sum(table.changes for table in tables):
        changes = sum(table.changes for table in tables)
        visit()
