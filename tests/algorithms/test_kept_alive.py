"""Kept plans keep none of the user's objects alive: functions, what these close over, specs, dropped contexts."""

from __future__ import annotations

import gc
import weakref
from collections.abc import Callable
from typing import Any

import numpy as np
import pyopencl as cl
import pytest

import pydp
from pydp.algorithms.arguments import by_key
from pydp.model.family import Keyed
from pydp.runtime.bounded import BoundedCache
from pydp.runtime.drivers import devices

N = 100


def key_alone(value: Any) -> Any:
    """The key of `by_key`."""
    found = by_key(value)
    return found.key if isinstance(found, Keyed) else found


RECORD = np.dtype([("a", "f4"), ("b", "f4")])


class Solver:
    """A large object; a user's program may have many of them."""

    def __init__(self, scale: float) -> None:
        self.scale = scale
        self.part: Any = None


def alive(call: Callable[[Solver], Any], count: int = 3) -> int:
    """The number of `count` solvers that stay alive after each was used in a call."""
    gone = []
    for number in range(count):
        solver = Solver(float(number + 1))
        gone.append(weakref.ref(solver))
        call(solver)
        del solver
    gc.collect()
    return sum(one() is not None for one in gone)


def closure(solver: Solver) -> Callable[..., Any]:
    return lambda a, b: a + b + solver.scale * 0


def argument(solver: Solver) -> Callable[..., Any]:
    """The function reads the object itself and its attributes: one is a function that reads it, one a class."""

    class Local:
        owner = solver

    solver.back = lambda: solver  # type: ignore[attr-defined]
    solver.kind = Local  # type: ignore[attr-defined]

    def combine(a: Any, b: Any, by: Any = solver) -> Any:
        return a + b + by.scale * 0

    return combine


def of_class(solver: Solver) -> Callable[..., Any]:
    class Local:
        scale = solver.scale

        def owner(self) -> Solver:
            return solver

    def combine(a: Any, b: Any, by: Any = Local) -> Any:
        return a + b + by.scale * 0

    return combine


def of_instance(solver: Solver) -> Callable[..., Any]:
    class Local:
        def owner(self) -> Solver:
            return solver

    local = Local()
    local.scale = solver.scale  # type: ignore[attr-defined]

    def combine(a: Any, b: Any, by: Any = local) -> Any:
        return a + b + by.scale * 0

    return combine


def _apply(op: Callable[..., Any], x: Any, device: Any = None) -> None:
    def run(i: Any, z: Any) -> None:
        z[i] = op(z[i], z[i])

    pydp.forall(x.shape, run, x, device=device)


CALLS: dict[str, Callable[[Callable[..., Any], Any], Any]] = {
    "reduce": lambda op, x: pydp.reduce(x, op),
    "reduce rows": lambda op, x: pydp.reduce(x.reshape(10, -1), op, axis=0),
    "reduce nothing": lambda op, x: pydp.reduce(x[:0], op, init=np.float32(1)),
    "scan": lambda op, x: pydp.scan(x, op),
    "sort by key": lambda op, x: pydp.sort(x, key=lambda v: op(v, v)),
    "sort by less": lambda op, x: pydp.sort(x, less=lambda v, w: op(v, v) < op(w, w)),
    "argsort": lambda op, x: pydp.argsort(x, key=lambda v: (op(v, v), v)),
    "sort_by_key": lambda op, x: pydp.sort_by_key(x, x, key=lambda v: op(v, v)),
    "sort nothing": lambda op, x: pydp.sort(x[:0], key=lambda v: op(v, v)),
    "forall": lambda op, x: _apply(op, x),
    "forall on the host": lambda op, x: _apply(op, np.ones(3, np.float32), "host"),
}


@pytest.mark.sweep
@pytest.mark.parametrize("make", [closure, argument, of_class, of_instance])
@pytest.mark.parametrize("name", CALLS)
def test_functions_are_let_go(device: Any, name: str, make: Callable[[Solver], Callable[..., Any]]) -> None:
    x = pydp.field(np.arange(N, dtype=np.float32))
    assert alive(lambda solver: CALLS[name](make(solver), x)) == 0


def test_explanations_let_functions_go(device: Any) -> None:
    x = np.arange(N, dtype=np.float32)
    for call in (
        lambda solver: pydp.explain(pydp.reduce, x, closure(solver)),
        lambda solver: pydp.explain(pydp.sort, x, key=lambda v: v + solver.scale),
    ):
        assert alive(call) == 0


class Fields(dict[str, Any]):
    """A spec of the user's own type."""

    solver: Solver


SPECS: dict[str, Callable[[Any, Any], Any]] = {
    "reduce": lambda spec, x: pydp.reduce(x, spec=spec),
    "scan": lambda spec, x: pydp.scan(x, spec=spec),
    "sort": lambda spec, x: pydp.sort(x, spec=spec),
    "transpose": lambda spec, x: pydp.transpose(x.reshape(10, -1), spec=spec),
    "matmul": lambda spec, x: pydp.matmul(x.reshape(10, -1), x.reshape(-1, 10), spec=spec),
    "histogram": lambda spec, x: pydp.histogram(x, spec=spec),
    "bincount": lambda spec, x: pydp.bincount(x.astype(np.int32), spec=spec),
    "forall": lambda spec, x: pydp.forall(x.shape, _double, x, spec=spec),
}


def _double(i: Any, z: Any) -> None:
    z[i] = z[i] * 2


@pytest.mark.parametrize("name", SPECS)
def test_specs_are_let_go(device: Any, name: str) -> None:
    def call(solver: Solver) -> None:
        spec = Fields()
        spec.solver = solver
        SPECS[name](spec, np.arange(N, dtype=np.float32))

    assert alive(call) == 0


def test_operators_of_fields_are_let_go(device: Any) -> None:
    def call(solver: Solver) -> None:
        op = Fields(a="a.a + b.a", b="a.b * b.b")
        op.solver = solver
        pydp.reduce(np.ones(N, RECORD), op)

    assert alive(call) == 0


def test_contexts_that_are_dropped_with_their_function_are_let_go(device: Any) -> None:
    x = np.arange(N, dtype=np.float32)

    def call(solver: Solver) -> None:
        context = cl.Context([device.cl])
        queue = cl.CommandQueue(context, device.cl)
        solver.part = queue, pydp.scan(np.ones(10, np.float32), queue=queue)
        pydp.reduce(x, closure(solver))
        pydp.sort(x, key=lambda v: v + solver.scale)

    gc.collect()
    before = devices._foreign.count_alive()
    assert alive(call, 2 * devices._MOST_DROPPED + 2) == 0
    assert devices._foreign.count_alive() <= max(before, devices._MOST_DROPPED)


def test_plans_are_found_again_by_functions_of_equal_content(device: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    x = np.arange(N, dtype=np.float32)
    made = []
    make = BoundedCache.make

    def counted(self: BoundedCache, key: Any, maker: Any, *arguments: Any) -> Any:
        def noted(*given: Any) -> Any:
            if self is device.plans:
                made.append(key)
            return maker(*given)

        return make(self, key, noted, *arguments)

    def calls(scale: float) -> list[Any]:
        return [
            pydp.reduce(x, lambda a, b: a + b + scale * 0, spec={}),
            pydp.sort(x, key=lambda v: -v * scale, less=lambda v, w: v < w + 0 * scale),
            pydp.sort(x, key=lambda v: v * scale),
        ]

    calls(2.0)
    monkeypatch.setattr(BoundedCache, "make", counted)
    total, down, up = calls(2.0)
    assert not made and total == x.sum() and np.array_equal(down, x[::-1]) and np.array_equal(up, x)
    total, down, up = calls(-2.0)
    assert made and total == x.sum() and np.array_equal(down, x) and np.array_equal(up, x[::-1])


@pytest.mark.host
def test_keys_tell_values_apart_and_are_no_plain_values() -> None:
    spec = {"lanes": 64}
    assert key_alone(spec) == key_alone(dict(spec)) != key_alone({"lanes": 32})
    assert hash(key_alone(spec)) == hash(key_alone(dict(spec)))
    assert key_alone(spec) != (("lanes", "64"),) and key_alone([1]) == key_alone([1]) != key_alone([2])
    assert key_alone(closure) != key_alone(argument) and key_alone("+") == "+"
    with pytest.raises(TypeError, match="unhashable"):  # a key that holds its value would be found by no other call
        hash(by_key(spec))
