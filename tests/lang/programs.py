"""Random race-free vector functions as intermediate form; all lowerings must give equal results.

A lane writes its own element of the outputs and its own slot of local fields, reads anything that is constant
between two barriers, and adds to a histogram atomically.
"""

from __future__ import annotations

import random
from dataclasses import dataclass, field

import numpy as np
from builder import (
    BOOL,
    F32,
    HERE,
    I32,
    array,
    assign,
    barrier,
    c,
    cmp,
    function,
    load,
    local,
    loop,
    mod,
    op,
    place,
    private,
    read,
    shared,
    store,
    var,
    when,
)

from pydp.lang import ir

INTEGER_OPS = ["add", "sub", "mul", "floordiv", "mod", "and", "or", "xor", "shl", "shr"]
FLOAT_OPS = ["add", "sub", "mul", "truediv"]


@dataclass
class Program:
    """A function with its launch; `arguments(n)` returns new arrays."""

    function: ir.Function
    extent: tuple[int, ...]
    offset: tuple[int, ...]
    arrays: list[np.ndarray]
    parameters: dict[int, object]

    def fresh(self) -> list[np.ndarray]:
        return [a.copy() for a in self.arrays]


@dataclass
class _Maker:
    random: random.Random
    grouped: bool
    group: tuple[int, ...]
    depth: int = 0
    in_loop: int = 0
    variables: list[ir.Variable] = field(default_factory=list)
    known: list[ir.Variable] = field(default_factory=list)
    count: int = 0

    def __post_init__(self) -> None:
        rank = len(self.group)
        self.out = array("out", I32, rank, 0)
        self.outf = array("outf", F32, rank, 1)
        self.data = array("data", I32, rank, 2, writable=False, fill=7)
        self.dataf = array("dataf", F32, rank, 3, writable=False)
        self.counts = array("counts", I32, 1, 4)
        self.slots = shared("slots", *self.group)
        self.mine = private("mine", 3)
        self.parameter = ir.Parameter(I32, "p", 5)

    def variable(self, dtype: np.dtype) -> ir.Variable:
        self.count += 1
        made = var(f"v{self.count}", dtype)
        self.variables.append(made)
        return made

    # --- expressions

    def integer(self, depth: int = 3) -> ir.Expr:
        pick = self.random.randrange(9 if depth else 4)
        if pick == 0:
            return c(self.random.choice([-3, -1, 0, 1, 2, 3, 5, 31, 1000, 2**31 - 1]))
        if pick == 1:
            return self.index()
        if pick in (2, 3):
            known = [v for v in self.known if v.dtype == I32]
            return read(self.random.choice(known)) if known else self.parameter
        if pick in (4, 5):
            return op(self.random.choice(INTEGER_OPS), self.integer(depth - 1), self.integer(depth - 1))
        if pick == 6:
            return ir.Select(I32, self.boolean(depth - 1), self.integer(depth - 1), self.integer(depth - 1))
        if pick == 7:
            return self.a_load(depth)
        name = self.random.choice(["neg", "invert", "minimum", "cast"])
        if name == "minimum":
            return ir.Math(I32, name, (self.integer(depth - 1), self.integer(depth - 1)))
        if name == "cast":
            narrow = np.dtype(self.random.choice([np.int8, np.uint16, np.int64, np.uint32]))
            return ir.Cast(I32, ir.Cast(narrow, self.integer(depth - 1)))
        return ir.Unary(I32, name, self.integer(depth - 1))

    def index(self) -> ir.Expr:
        axis = self.random.randrange(len(self.group))
        kinds = [place(axis), ir.GridExtent(I32, axis), ir.ArrayExtent(I32, self.data, axis)]
        if self.grouped:
            kinds += [local(axis), ir.GroupIndex(I32, axis)]
        return self.random.choice(kinds)

    def a_load(self, depth: int) -> ir.Expr:
        rank = len(self.group)
        pick = self.random.randrange(4 if self.grouped else 3)
        if pick == 3:
            return load(self.slots, *(mod(self.integer(depth - 1), n) for n in self.group))
        if pick == 2:
            return load(self.mine, mod(self.integer(depth - 1), 3))
        if self.random.random() < 0.5:
            return load(self.data, *(op("add", place(k), self.random.randint(-2, 2)) for k in range(rank)))
        return load(self.data, *(self.integer(depth - 1) for _ in range(rank)))

    def boolean(self, depth: int = 2) -> ir.Expr:
        pick = self.random.randrange(4 if depth else 1)
        if pick == 2:
            name = self.random.choice(["and", "or"])
            return ir.Logical(BOOL, name, self.boolean(depth - 1), self.boolean(depth - 1))
        if pick == 3:
            return ir.Unary(BOOL, "not", self.boolean(depth - 1))
        name = self.random.choice(["lt", "le", "gt", "ge", "eq", "ne"])
        if pick == 1:
            return cmp(name, self.real(1), self.real(1))
        return cmp(name, self.integer(depth), self.integer(depth))

    def real(self, depth: int = 2) -> ir.Expr:
        pick = self.random.randrange(6 if depth else 3)
        if pick == 0:
            return c(self.random.choice([-1.5, 0.0, 0.1, 3.0]), F32)
        if pick == 1:
            known = [v for v in self.known if v.dtype == F32]
            return read(self.random.choice(known)) if known else c(2.0, F32)
        if pick == 2:
            return load(self.dataf, *(place(k) for k in range(len(self.group))))
        if pick == 3:
            low = ir.Cast(np.dtype(np.int16), self.integer(depth - 1))
            return ir.Cast(F32, low)
        if pick == 4:
            name = self.random.choice(["minimum", "maximum", "fma", "floor", "sqrt", "abs"])
            number = {"fma": 3, "minimum": 2, "maximum": 2}.get(name, 1)
            return ir.Math(F32, name, tuple(self.real(depth - 1) for _ in range(number)))
        return op(self.random.choice(FLOAT_OPS), self.real(depth - 1), self.real(depth - 1))

    # --- statements

    def block(self, length: int) -> list[ir.Stmt]:
        body: list[ir.Stmt] = []
        for _ in range(length):
            body += self.statement()
        return body

    def statement(self) -> list[ir.Stmt]:
        pick = self.random.randrange(12 if self.depth < 2 else 8)
        if pick < 4 or not self.known:
            return self.assignment()
        if pick == 4:
            return [store(self.mine, [mod(self.integer(1), 3)], self.integer(1))]
        if pick == 5:
            bucket = mod(self.integer(1), 9)
            return [ir.Atomic(HERE, "add", self.counts, (bucket,), c(self.random.randint(1, 3)))]
        if pick == 6:
            return [self.out_store()]
        if pick == 7:
            if self.in_loop:
                kind = self.random.choice([ir.Break, ir.Continue])
                return [when(self.boolean(), [kind(HERE)])]
            return self.assignment()
        return self.nested(pick)

    def nested(self, pick: int) -> list[ir.Stmt]:
        before = list(self.known)
        self.depth += 1
        if pick in (8, 9):
            condition = self.boolean()
            then = self.block(2)
            self.known = list(before)
            made: list[ir.Stmt] = [when(condition, then, self.block(1))]
        else:
            self.in_loop += 1
            counter = self.variable(I32)
            if pick == 10:
                ends = [c(self.random.randint(-1, 1)), self.random.choice([c(3), mod(self.index(), 4)])]
                self.known.append(counter)
                made = [loop(counter, *ends, self.block(2), step=self.random.choice([1, 1, 2]))]
            else:
                start = assign(counter, mod(self.integer(1), 5))
                down = assign(counter, op("sub", read(counter), 1))
                condition = ir.Logical(BOOL, "and", cmp("gt", read(counter), 0), self.boolean(1))
                made = [start, ir.While(HERE, condition, [down, *self.block(2)])]
            self.in_loop -= 1
        self.depth -= 1
        self.known = before
        return made

    def assignment(self) -> list[ir.Stmt]:
        dtype = F32 if self.random.random() < 0.3 else I32
        value = self.real() if dtype == F32 else self.integer()
        known = [v for v in self.known if v.dtype == dtype]
        target = self.random.choice(known) if known and self.random.random() < 0.6 else self.variable(dtype)
        if target not in self.known:
            self.known.append(target)
        return [assign(target, value)]

    def out_store(self) -> ir.Stmt:
        own = [place(k) for k in range(len(self.group))]
        if self.random.random() < 0.4:
            return store(self.outf, own, self.real())
        return store(self.out, own, self.integer())

    def phase(self) -> list[ir.Stmt]:
        """Every lane writes its slot between two barriers."""
        own = [local(k) for k in range(len(self.group))]
        known, self.grouped = self.grouped, False  # no reads of slots here
        value = self.integer()
        self.grouped = known
        return [barrier(), store(self.slots, own, value), barrier()]


def random_program(seed: int, grouped: bool | None = None) -> Program:
    """A program and its launch, determined by the seed."""
    dice = random.Random(seed)
    rank = dice.choice([1, 1, 2])
    grouped = dice.random() < 0.6 if grouped is None else grouped
    group = {1: (dice.choice([4, 8, 5]),), 2: dice.choice([(2, 4), (3, 2)])}[rank]
    maker = _Maker(dice, grouped, group)
    body: list[ir.Stmt] = [store(maker.mine, [k], k + 1) for k in range(3)]
    if grouped:
        body += maker.phase()
    body += maker.block(3)
    if grouped and dice.random() < 0.7:
        counter = maker.variable(I32)
        turns = [*maker.phase(), *maker.block(1)]
        body += [loop(counter, 0, dice.randint(1, 3), turns)]
    body += maker.block(2)
    body += [maker.out_store(), maker.out_store()]
    for number, meeting in enumerate(ir.barriers(body)):
        meeting.number = number
    made = function(
        body,
        group=group if grouped else None,
        rank=rank,
        arrays=[maker.out, maker.outf, maker.data, maker.dataf, maker.counts],
        parameters=[maker.parameter],
        locals=[maker.slots] if grouped else [],
        privates=[maker.mine],
        variables=maker.variables,
    )
    extent = tuple(dice.randint(1, 3 * n) for n in group)
    offset = tuple(dice.choice([0, 0, 2]) for _ in group)
    numbers = np.random.default_rng(seed)
    shape = tuple(n + dice.choice([0, 2, -1]) if n > 1 else n for n in extent)
    arrays = [
        numbers.integers(-99, 99, shape, dtype=np.int32),
        numbers.standard_normal(shape).astype(np.float32),
        numbers.integers(-99, 99, shape, dtype=np.int32),
        numbers.standard_normal(shape).astype(np.float32),
        np.zeros(9, np.int32),
    ]
    return Program(made, extent, offset, arrays, {5: dice.randint(-5, 5)})
