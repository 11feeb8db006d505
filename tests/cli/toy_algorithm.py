"""A whole algorithm in one file, as small as one can be: it negates float32 arrays."""

from __future__ import annotations

import math
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
from pydp.bench.measure import Row, alternating

import pydp
from pydp.algorithms.registry import Algorithm
from pydp.model.counts import Counts, Phase
from pydp.model.explanation import Explanation, Given
from pydp.model.family import Family, Problem
from pydp.runtime.arrays.operand import Operand
from pydp.runtime.call import Call
from pydp.runtime.device.profile import Profile
from pydp.runtime.programs.program import Kernel, kernel
from pydp.runtime.programs.template import add_folder
from pydp.tuning.choose import Choice, choose
from pydp.tuning.reference import Expected, host

add_folder(Path(__file__).parent)

WRONG_ITEMS = 0  # a test makes the specialization with so many items compute something else


@dataclass(frozen=True)
class NegateProblem(Problem):
    """n: number of elements."""

    family: ClassVar[str] = "negate"
    n: int


@dataclass(frozen=True)
class NegateSpec:
    """items: elements that one work-item computes."""

    items: int = 1


def space(profile: Profile, problem: NegateProblem) -> list[NegateSpec]:
    return [NegateSpec(items) for items in (1, 4, 16)]


def check(profile: Profile, problem: NegateProblem, spec: NegateSpec) -> str | None:
    return None if spec.items >= 1 else f"items is {spec.items}; 1 or more is accepted"


def counts(profile: Profile, problem: NegateProblem, spec: NegateSpec) -> Counts:
    n = problem.n
    groups = max(1, n // spec.items // 64)
    return Counts("float32", (Phase("all", groups=groups, operations=float(n), read=4.0 * n, written=4.0 * n),))


FAMILY = Family("negate", NegateSpec, lambda profile, problem: NegateSpec(), space, check, counts)


def negate(
    x: Any, *, out: Any = None, device: Any = None, queue: Any = None, wait_for: Any = None, spec: Any = None
) -> Any:
    """The negative of each element of a contiguous float32 array."""
    call, source, choice, ready = _plan(x, out, device, queue, wait_for, spec)
    target = call.output(source.shape, np.float32)
    arguments = [source.buffer, target.buffer, np.int64(source.size)]
    call.launch(ready, (math.ceil(source.size / choice.spec.items),), None, *arguments)
    return call.finish(target)


def _plan(x: Any, out: Any, device: Any, queue: Any, wait_for: Any, spec: Any) -> tuple[Call, Operand, Choice, Kernel]:
    call = Call.begin({"x": x}, out=out, device=device, queue=queue, wait_for=wait_for)
    source = call.input("x")
    choice = choose(FAMILY, call.device, NegateProblem("float32", source.size), spec)
    parameters = {"items": choice.spec.items, "wrong": int(choice.spec.items == WRONG_ITEMS)}
    return call, source, choice, kernel(call.device, "negate.mako", "negate", parameters)


def _explain(given: Given) -> Explanation:
    call, source, choice, ready = _plan(given.x, given.out, given.device, given.queue, given.wait_for, given.spec)
    facts = {"device": call.device.name, "specialization": choice.spec}
    return Explanation(f"negate of {source.shape} float32", facts, [choice.reason], {"negate": ready.source})


def _reference(x: Any) -> list[Expected]:
    return [Expected(-host(x))]


def run(device: Any, quick: bool = False) -> list[Row]:
    """The benchmark."""
    x = pydp.field(np.ones(1 << 16, np.float32), device=device)
    seconds = alternating({"negate": lambda: negate(x).get(), "copy": lambda: x.copy().get()}, budget=0.01)
    rate = x.size / seconds["negate"] / 1e9
    ratios = {"copy": seconds["copy"] / seconds["negate"]}
    return [Row("negate", "65536 float32", device.name, seconds["negate"], rate, "Gitem/s", ratios)]


DECLARATION = Algorithm(negate, _explain, _reference, sizes=("65536",), dtypes="f", benchmark=__name__)
