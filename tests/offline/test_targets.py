"""Every family compiled for seven GPUs that need not be here: defaults without spills, candidates within the limits.

Its lane is `tox -e offline`; it needs clang and libclc, and uses ptxas where that is installed.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Any

import forall_kernels
import numpy as np
import pytest

import pydp
from pydp.algorithms.sort.onesweep_policy import STRATEGIES, sweep_default
from pydp.model.architectures import by_name, by_target
from pydp.model.ranking import rank
from pydp.offline.compilers import missing
from pydp.offline.study import Compiled, compiled_kernels, probed, target_of
from pydp.offline.target import Launch, dry_run
from pydp.tuning.choose import choose

TARGETS = ("sm_70", "sm_80", "sm_90", "gfx906", "gfx90a", "gfx1030", "gfx1100")
TOP = 3  # candidates by the model that are compiled beside what runs and the default

pytestmark = [
    pytest.mark.host,
    pytest.mark.offline,
    pytest.mark.skipif(missing("sm_70") is not None, reason=str(missing("sm_70"))),
]


@dataclass(frozen=True)
class Case:
    """One call: its arguments as (shape, dtype), and whether its best candidates are compiled too."""

    call: Callable[..., Any]
    arrays: tuple[tuple[tuple[int, ...], str], ...]
    options: dict[str, Any] = field(default_factory=dict)
    candidates: bool = False

    def __str__(self) -> str:
        shapes = "-".join("x".join(map(str, shape)) + dtype for shape, dtype in self.arrays)
        return "-".join([self.call.__name__, shapes, *(f"{name}={value}" for name, value in self.options.items())])


def product(m: int, n: int, k: int, dtype: str = "f4", **options: Any) -> Case:
    return Case(pydp.matmul, (((m, k), dtype), ((k, n), dtype)), **options)


def one(
    call: Callable[..., Any], shape: tuple[int, ...], dtype: str = "f4", many: bool = False, **options: Any
) -> Case:
    return Case(call, ((shape, dtype),), options, many)


def sums_of_weights(x: np.ndarray, weights: np.ndarray, **options: Any) -> Any:
    return pydp.histogram(x, weights=weights, **options)


LINE, PLANE = (1 << 24,), (4096, 4096)
BY_KEY = Case(pydp.sort_by_key, ((LINE, "i4"), (LINE, "f8")))
CASES = [
    product(4096, 4096, 4096, candidates=True),
    product(2048, 2048, 2048, "f8", candidates=True),
    product(1000, 1000, 1000),
    product(256, 256, 256),
    product(1000, 1000, 1000, "f8"),
    product(256, 256, 256, "c16"),
    product(100, 70, 1000),
    product(64, 64, 1 << 16),
    product(3, 4096, 4096),
    product(1024, 1024, 1024, "i4"),
    product(1024, 1024, 1024, "i8"),
    product(1024, 1024, 1024, "f2"),
    product(512, 512, 512, "c8"),
    one(pydp.scan, LINE, many=True),
    one(pydp.scan, LINE, "i8"),
    one(pydp.scan, LINE, "f8", exclusive=True),
    one(pydp.scan, LINE, "i4", op="max", reverse=True),
    one(pydp.scan, LINE, "u1"),
    one(pydp.scan, LINE, "f4", strategy="reduce_then_scan"),
    one(pydp.scan, PLANE, axis=0),
    one(pydp.scan, PLANE, axis=1),
    one(pydp.reduce, LINE, many=True),
    one(pydp.reduce, LINE, "f8", op="min"),
    one(pydp.reduce, LINE, "i4"),
    one(pydp.reduce, PLANE, "f2", axis=0),
    one(pydp.reduce, PLANE, axis=1),
    one(pydp.sort, LINE, many=True),
    one(pydp.sort, LINE, "i8"),
    one(pydp.sort, LINE, "f8", descending=True),
    one(pydp.sort, PLANE, "i2"),
    one(pydp.argsort, LINE),
    BY_KEY,
    one(pydp.histogram, LINE, many=True, bins=100, range=(0, 1)),
    one(pydp.histogram, LINE, "i4", bins=[0, 10, 100, 1000]),
    one(pydp.histogram, LINE, "f8", bins=100000, range=(0, 1)),
    Case(sums_of_weights, ((LINE, "f4"), (LINE, "f4")), {"bins": 100, "range": (0, 1)}),
    Case(sums_of_weights, ((LINE, "i8"), (LINE, "c16")), {"bins": 1 << 20, "range": (0, 1 << 30)}),
    one(pydp.bincount, LINE, "u1"),
    Case(pydp.bincount, ((LINE, "u1"), (LINE, "f4"))),
    one(pydp.transpose, PLANE, many=True),
    one(pydp.transpose, PLANE, "f8"),
    one(pydp.transpose, (64, 100, 200), "u1", axes=(2, 0, 1)),
    one(pydp.transpose, PLANE, "c16"),
]


def own(target: Any) -> list[Launch]:
    """The launches of two of the users' own functions."""
    x, y = np.zeros((1024, 512), np.float32), np.zeros((512, 256), np.float32)
    out = np.zeros((1024, 256), np.float32)
    found = dry_run(target, functools.partial(forall_kernels.tiled, out, x, y))
    return found + dry_run(target, functools.partial(forall_kernels.naive, out, x, y))


def compiled(target: Any, case: Case, **more: Any) -> tuple[Compiled, ...]:
    arrays = [np.zeros(shape, dtype) for shape, dtype in case.arrays]
    launches = dry_run(target, case.call, *arrays, **case.options, **more)
    assert launches
    return compiled_kernels(launches, target.profile, by_name(target.name), by_target(target.name)[1])


def faults(kernels: tuple[Compiled, ...]) -> list[str]:
    return [f"{one.name}: {fault}" for one in kernels for fault in one.faults]


@pytest.mark.parametrize("name", TARGETS)
@pytest.mark.parametrize("case", CASES, ids=str)
def test_what_runs_and_the_default_fit_the_target(case: Case, name: str) -> None:
    target = target_of(name)
    assert not faults(compiled(target, case))
    arrays = [np.zeros(shape, dtype) for shape, dtype in case.arrays]
    found = probed(target, case.call, *arrays, **case.options)
    if found is not None:
        family, problem = found
        default = family.default(target.profile, problem)
        if default != choose(family, target, problem).spec:
            assert not faults(compiled(target, case, spec=default)), default


@pytest.mark.parametrize("name", TARGETS)
@pytest.mark.parametrize("strategy", STRATEGIES)
def test_radix_sorts_fit_the_target(strategy: str, name: str) -> None:
    """Whether or not the model chooses them."""
    target = target_of(name)
    for case in (one(pydp.sort, LINE, "f8"), one(pydp.argsort, PLANE, "u2"), BY_KEY):
        found = probed(target, case.call, *[np.zeros(shape, dtype) for shape, dtype in case.arrays])
        assert found is not None
        spec = replace(sweep_default(target.profile, found[1]), strategy=strategy)
        kernels = compiled(target, case, spec=spec)
        assert {one.name for one in kernels} >= {"sort_count", "sort_places", "sort_pass"}
        assert not faults(kernels), case


@pytest.mark.parametrize("name", TARGETS)
def test_radix_sorts_rank_by_votes_on_nvidia_gpus(name: str) -> None:
    target, x = target_of(name), np.zeros(LINE, "i4")
    found = probed(target, pydp.sort, x)
    assert found is not None
    launches = dry_run(target, pydp.sort, x, spec=sweep_default(target.profile, found[1]))
    (source,) = {one.kernel.source for one in launches if one.kernel.name == "sort_pass"}
    assert ("vote.sync" in source) == name.startswith("sm_") == ("masks[" not in source)


@pytest.mark.parametrize("name", TARGETS)
def test_vector_functions_fit_the_target(name: str) -> None:
    target = target_of(name)
    kernels = compiled_kernels(own(target), target.profile, by_name(name), by_target(name)[1])
    assert {one.name for one in kernels} == {"forall_mxm_tiled", "forall_mxm_naive"} and not faults(kernels)


@pytest.mark.parametrize("name", TARGETS)
@pytest.mark.parametrize("case", [case for case in CASES if case.candidates], ids=str)
def test_the_best_candidates_keep_to_the_limits(case: Case, name: str) -> None:
    """They compile, and take no more than there is; a spill is the model's to know and the tuner's to measure."""
    target = target_of(name)
    arrays = [np.zeros(shape, dtype) for shape, dtype in case.arrays]
    found = probed(target, case.call, *arrays, **case.options)
    assert found is not None
    family, problem = found
    specs = family.candidates(target.profile, problem)
    if family.counts is not None:
        specs = [one.spec for one in rank(family, target.profile, problem, entry=by_name(name))]
    for spec in specs[:TOP]:
        for kernel in compiled(target, case, spec=spec):
            over = [fault for fault in kernel.faults if "spill" not in fault and "private arrays" not in fault]
            assert not over, spec
