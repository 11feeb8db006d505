"""An interpreter of the intermediate form for tests: one lane at a time, in simple Python.

Each lane is a generator that yields at barriers; the lanes of a group take turns from barrier to barrier, in an
order that `seed` shuffles. Integers are Python integers wrapped by hand; floats are NumPy scalars.
"""

from __future__ import annotations

import itertools
import math
import operator
import random
from collections.abc import Iterator
from fractions import Fraction
from typing import Any

import numpy as np

from pydp.lang import ir


class BrokenBarrier(Exception):
    """Some lanes of a group ended while others wait at a barrier."""


class _Break(Exception):
    pass


def step(name):
    """A member's name, or the index of an item of an array member."""
    return int(name) if isinstance(name, ir.Item) else name


def put(record, members, value):
    """Assign a value to the member at the path `members` of a record (a view)."""
    for name in members[:-1]:
        record = record[step(name)]
    record[step(members[-1])] = value


class _Continue(Exception):
    pass


def run(function, grid_extent, grid_offset, arrays, parameters=(), seed=None, log=None, barriers_reached=None):
    """Run a function; arguments as of `lang.execute.host.run`. seed: of the order of lanes. log: a list that receives
    the accesses to arrays: (array, element, group, interval, lane, kind, statement or expression, value).
    barriers_reached: a list that receives the barriers that the first lane of each group reaches."""
    extent = tuple(grid_extent)
    group = function.group or (1,) * len(extent)
    shuffle = random.Random(seed) if seed is not None else None
    counts = [-(-n // g) for n, g in zip(extent, group, strict=True)]
    groups = list(itertools.product(*(range(n) for n in counts)))
    if shuffle:
        shuffle.shuffle(groups)
    launch = {
        "memory": {a.name: data for a, data in zip(function.arrays, arrays, strict=True)},
        "parameters": parameters,
        "extent": extent,
        "offset": tuple(grid_offset or (0,) * len(extent)),
        "group": group,
        "log": log,
        "barriers_reached": barriers_reached,
        "runs_outside": bool(function.locals or ir.barriers(function.body)),
    }
    with np.errstate(all="ignore"):
        for place in groups:
            _run_group(function, place, launch, shuffle)


def races(log):
    """The pairs of logged accesses that race: (first, second, whether both are in one group)."""
    places = {}
    for entry in log:
        name, at, place = entry[:3]
        key = (name, at, place) if name.startswith("local ") else (name, at)
        places.setdefault(key, []).append(entry)
    for entries in places.values():
        for one, other in itertools.combinations(entries, 2):
            if one[2] == other[2] and (one[3] != other[3] or one[4] == other[4]):
                continue
            kinds = {one[5], other[5]}
            if kinds in ({"read"}, {"atomic"}):
                continue
            same = kinds == {"write"} and one[6] is other[6] and np.array_equal(one[7], other[7])
            if not same:
                yield one, other, one[2] == other[2]


def run_value(function, *values):
    """The result of a value function for one set of arguments."""
    with np.errstate(all="ignore"):
        launch = {"group": (), "extent": (), "offset": (), "memory": {}, "parameters": ()}
        launch |= {"log": None, "barriers_reached": None}
        lane = _Lane(function, (), (), launch, {})
        for variable, value in zip(function.arguments, values, strict=True):
            lane.variables[variable.name] = np.asarray(value, variable.dtype)[()]
        for _ in lane.block(function.body):
            raise BrokenBarrier
        return lane.value(function.result)


def _run_group(function, place, launch, shuffle):
    shared = {a.name: np.zeros(a.shape, a.dtype) for a in function.locals}
    lanes = []
    for local in itertools.product(*(range(n) for n in launch["group"])):
        lane = _Lane(function, place, local, launch, shared)
        if lane.in_grid or launch["runs_outside"]:
            lanes.append(lane.block(function.body))
    waiting = lanes
    while waiting:
        if shuffle:
            shuffle.shuffle(waiting)
        arrived = [lane for lane in waiting if _goes_on(lane)]
        if arrived and len(arrived) != len(waiting):
            raise BrokenBarrier
        waiting = arrived


def _goes_on(lane: Iterator[None]) -> bool:
    return next(lane, "end") is None


def wrap(value, dtype):
    """A Python integer as a value of an integer dtype."""
    bits = dtype.itemsize * 8
    value &= (1 << bits) - 1
    if dtype.kind == "i" and value >> (bits - 1):
        value -= 1 << bits
    return dtype.type(value)


def fma(a, b, c):
    """a * b + c rounded once, ties to even, by rational arithmetic."""
    dtype = a.dtype
    if not all(np.isfinite(v) for v in (a, b, c)):
        return dtype.type(a * b + c)
    exact = Fraction(float(a)) * Fraction(float(b)) + Fraction(float(c))
    if exact == 0:
        return dtype.type(a * b + c)
    try:
        near = dtype.type(float(exact))
    except OverflowError:
        near = dtype.type(math.inf if exact > 0 else -math.inf)
    if not np.isfinite(near):
        return near
    around = [v for v in (near, np.nextafter(near, -dtype.type(np.inf)), np.nextafter(near, dtype.type(np.inf)))]
    last_bit = {v: int(v.view(f"u{dtype.itemsize}")) & 1 for v in around}
    return min((v for v in around if np.isfinite(v)), key=lambda v: (abs(Fraction(float(v)) - exact), last_bit[v]))


class _Lane:
    def __init__(self, function, place, local, launch, shared):
        self.place, self.local, self.launch = place, local, launch
        self.group = launch["group"]
        spot = [p * g + i for p, g, i in zip(place, self.group, local, strict=True)]
        self.in_grid = all(s < n for s, n in zip(spot, launch["extent"], strict=True))
        self.spot = [s + o for s, o in zip(spot, launch["offset"], strict=True)]
        self.variables: dict[str, Any] = {}
        self.interval = 0
        self.memory = {**launch["memory"], **shared}
        for private in function.privates:
            self.memory[private.name] = np.zeros(private.shape, private.dtype)

    # --- statements

    def block(self, body):
        for statement in body:
            yield from getattr(self, "do_" + type(statement).__name__)(statement)

    def do_Assign(self, s):
        value = self.value(s.value)
        name = s.variable.name
        if s.members:
            record = np.array(self.variables.get(name, np.zeros((), s.variable.dtype)))
            put(record, s.members, value)
            value = record[()]
        self.variables[name] = value.copy() if isinstance(value, np.void) else value
        yield from ()

    def do_Store(self, s):
        value = self.value(s.value)
        at = self.element(s)
        if at is not None and (self.in_grid or not isinstance(s.array, ir.GlobalArray)):
            memory = self.memory[s.array.name]
            if s.members:
                put(memory[at], s.members, value)
            else:
                memory[at] = value
            self.note(s, at, "write", value)
        yield from ()

    def do_Atomic(self, s):
        value = self.value(s.value)
        at = self.element(s)
        if at is not None and self.in_grid:
            memory = self.memory[s.array.name]
            if s.old is not None:
                self.memory[s.old.name][0] = memory[at]
            memory[at] = self.binary(s.op, memory[at], value, s.value.dtype)
            self.note(s, at, "atomic")
        yield from ()

    def do_If(self, s):
        yield from self.block(s.then if self.value(s.condition) else s.orelse)

    def do_For(self, s):
        bounds = [int(self.value(e)) for e in (s.start, s.stop, s.step)]
        for counter in range(*bounds):
            self.variables[s.variable.name] = s.variable.dtype.type(counter)
            try:
                yield from self.block(s.body)
            except _Continue:
                pass
            except _Break:
                break

    def do_While(self, s):
        while self.value(s.condition):
            try:
                yield from self.block(s.body)
            except _Continue:
                pass
            except _Break:
                break

    def do_Break(self, s):
        raise _Break
        yield

    def do_Continue(self, s):
        raise _Continue
        yield

    def do_Barrier(self, s):
        self.interval += 1
        if self.launch["barriers_reached"] is not None and not any(self.local):
            self.launch["barriers_reached"].append(s)
        yield

    def note(self, access, at, kind, value=None):
        if self.launch["log"] is not None and not isinstance(access.array, ir.PrivateArray):
            about = (self.place, self.interval, self.local, kind, access, value)
            local = "local " if isinstance(access.array, ir.LocalArray) else ""
            self.launch["log"].append((local + access.array.name, at, *about))

    # --- expressions

    def element(self, access):
        at = tuple(int(self.value(index)) for index in access.indices)
        shape = self.memory[access.array.name].shape
        return at if all(0 <= i < n for i, n in zip(at, shape, strict=True)) else None

    def value(self, e):
        return getattr(self, "of_" + type(e).__name__)(e)

    def of_Const(self, e):
        return np.array(e.value).astype(e.dtype)[()]

    def of_Read(self, e):
        return self.variables[e.variable.name]

    def of_Parameter(self, e):
        value = self.launch["parameters"][e.position]
        return np.asarray(value if e.item is None else value[e.item]).astype(e.dtype)[()]

    def of_GroupIndex(self, e):
        return e.dtype.type(self.place[e.axis])

    def of_LocalIndex(self, e):
        return e.dtype.type(self.local[e.axis])

    def of_GlobalIndex(self, e):
        return e.dtype.type(self.spot[e.axis])

    def of_GridExtent(self, e):
        return e.dtype.type(self.launch["extent"][e.axis])

    def of_ArrayExtent(self, e):
        return e.dtype.type(self.memory[e.array.name].shape[e.axis])

    def of_Unary(self, e):
        value = self.value(e.value)
        if e.op == "not":
            return np.bool_(not value)
        if e.dtype.kind in "iu":
            return wrap(-int(value) if e.op == "neg" else ~int(value), e.dtype)
        return -value

    def of_Binary(self, e):
        return self.binary(e.op, self.value(e.left), self.value(e.right), e.dtype)

    def binary(self, op, left, right, dtype):
        if op in ("min", "max"):
            return {"min": min, "max": max}[op](left, right)
        if dtype.kind == "b":
            return np.bool_(getattr(operator, op + "_" * (op != "xor"))(bool(left), bool(right)))
        if dtype.kind in "iu":
            return wrap(_integer(op, int(left), int(right), dtype.itemsize * 8), dtype)
        plain = {"add": operator.add, "sub": operator.sub, "mul": operator.mul, "truediv": operator.truediv}
        other = {"floordiv": np.floor_divide, "mod": np.remainder, "pow": np.power}
        return (plain.get(op) or other[op])(left, right)

    def of_Compare(self, e):
        return np.bool_(getattr(operator, e.op)(self.value(e.left), self.value(e.right)))

    def of_Logical(self, e):
        left = bool(self.value(e.left))
        if left == (e.op == "or"):
            return np.bool_(left)
        return np.bool_(self.value(e.right))

    def of_Select(self, e):
        return self.value(e.yes if self.value(e.condition) else e.no)

    def of_Cast(self, e):
        value = self.value(e.value)
        if e.dtype.kind in "iu" and np.asarray(value).dtype.kind in "iub":
            return wrap(int(value), e.dtype)
        return np.asarray(value).astype(e.dtype)[()]

    def of_Math(self, e):
        values = [self.value(v) for v in e.values]
        if e.name == "fma":
            return fma(*values)
        if e.name == "rsqrt":
            return e.dtype.type(1) / np.sqrt(values[0])
        if e.name == "erf":
            return e.dtype.type(math.erf(float(values[0])))
        names = {"asin": "arcsin", "acos": "arccos", "atan": "arctan", "atan2": "arctan2"}
        names |= {"asinh": "arcsinh", "acosh": "arccosh", "atanh": "arctanh"}
        return getattr(np, names.get(e.name, e.name))(*values).astype(e.dtype)

    def of_Member(self, e):
        return self.value(e.record)[step(e.name)]

    def of_MakeRecord(self, e):
        record = np.zeros((), e.dtype)
        for name, value in zip(e.dtype.names, e.values, strict=True):
            record[name] = self.value(value)
        return record[()]

    def of_Load(self, e):
        at = self.element(e)
        if at is None:
            fill = np.zeros((), e.dtype)
            if e.dtype.names is None and isinstance(e.array, ir.GlobalArray):
                fill[()] = e.array.fill
            return fill[()]
        value = self.memory[e.array.name][at]
        self.note(e, at, "read")
        return value.copy() if isinstance(value, np.void) else value


def _integer(op, left, right, bits):
    if op in ("floordiv", "mod"):
        return 0 if right == 0 else (left // right if op == "floordiv" else left % right)
    if op in ("shl", "shr"):
        if not 0 <= right < bits:
            return 0 if op == "shl" or left >= 0 else -1
        return left << right if op == "shl" else left >> right
    if op == "pow":
        return pow(left, max(0, right), 1 << bits)
    plain = {"add": operator.add, "sub": operator.sub, "mul": operator.mul}
    return {**plain, "and": operator.and_, "or": operator.or_, "xor": operator.xor}[op](left, right)
