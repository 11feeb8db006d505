"""Devices and elements unlike the usual ones: what is chosen can run there, for every family, and is found in time."""

from __future__ import annotations

import dataclasses
import importlib
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

import pydp
from pydp.algorithms.histogram.policy import HistogramProblem
from pydp.algorithms.matmul.spec import MatmulProblem
from pydp.algorithms.reduce.policy import ReduceProblem
from pydp.algorithms.scan.policy import ScanProblem
from pydp.algorithms.sort.policy import SortProblem
from pydp.algorithms.transpose.policy import TransposeProblem
from pydp.model import calibration
from pydp.model.architectures import by_target
from pydp.model.family import Family, Problem
from pydp.model.modelled import untuned
from pydp.model.ranking import rejected
from pydp.offline.study import target_of
from pydp.offline.target import Target, dry_run

pytestmark = pytest.mark.host

MATMUL, SCAN, REDUCE, SORT, HISTOGRAM, TRANSPOSE = FAMILIES = [
    importlib.import_module(f"pydp.algorithms.{name}").FAMILY
    for name in ("matmul.policy", "scan.policy", "reduce.policy", "sort.policy", "histogram.policy", "transpose")
]
PAIR = "[('a', '<f4'), ('b', '<i4')]"
PROBLEMS: list[tuple[Family, Problem]] = [
    *((MATMUL, MatmulProblem(name, 1, 256, 256, 256)) for name in ("float16", "float32", "complex128")),
    (MATMUL, MatmulProblem("int64", 1, 3, 131072, 2, mapping="vector")),
    *((SCAN, ScanProblem("float32", 0, 20, size, 0, record=True)) for size in (4, 100, 1000, 5000)),
    *((SCAN, ScanProblem("uint8", 4, 20, 1, columns, vectors=True)) for columns in (0, 100)),
    *((REDUCE, ReduceProblem(name, 1 << 20, 1, None, commutes=True)) for name in ("int8", "float64")),
    *((REDUCE, ReduceProblem(PAIR, 1 << 20, 3, size)) for size in (8, 100, 1000, 100_000)),
    *((SORT, SortProblem("int32", 1 << 20, 1, size)) for size in (4, 24, 404, 1004, 100_000)),
    *((HISTOGRAM, HistogramProblem("float32", 1 << 20, bins)) for bins in (1, 10, 32, 1000, 1 << 20)),
    *((TRANSPOSE, TransposeProblem(f"V{size}", 1024, 333)) for size in (1, 2, 4, 8, 16)),
]
ODD: list[dict[str, Any]] = [
    {},
    {"max_group_size": 64, "subgroup_sizes": ()},
    {"max_group_size": 100},
    {"max_group_size": 384, "banks": 16},
    {"local_bytes": 16 << 10, "l2_bytes": 0},
    {"compute_units": 1, "group_progress": False, "int64_atomics": False},
    {"kind": "cpu", "mapping": "vector", "max_group_size": 1, "l1_bytes": 16 << 10, "simd_bytes": 4},
    {"kind": "cpu", "mapping": "vector", "loop_limit": 65535, "local_bytes": 32 << 10},
]


def _device(name: str = "sm_80", **changes: Any) -> Any:
    profile = dataclasses.replace(by_target(name)[0], **changes)
    return SimpleNamespace(name="made up", uid="made-up", profile=profile, facts={calibration._KEY: (None,)}, cl=None)


@pytest.mark.parametrize("changes", ODD, ids=str)
def test_what_is_chosen_can_run(changes: dict[str, Any]) -> None:
    device = _device(**changes)
    for family, problem in PROBLEMS:
        spec = untuned(family, device, problem).spec
        assert family.check(device.profile, problem, spec) is None
        assert family.counts is not None and family.counts(device.profile, problem, spec).phases
        assert all(
            family.check(device.profile, problem, one) is None for one in family.candidates(device.profile, problem)
        )


@pytest.mark.parametrize("most", [16, 60])
def test_every_launch_of_a_product_in_parts_fits_small_groups(most: int) -> None:
    profile = dataclasses.replace(by_target("gfx90a")[0], max_group_size=most)
    a, b = np.zeros((8, 8192), np.float32), np.zeros((8192, 8), np.float32)
    launches = dry_run(Target("gfx90a", "amd", profile), pydp.matmul, a, b)
    assert [one.kernel.name for one in launches] == ["matmul_simt", "matmul_combine"]
    assert max(one.group for one in launches) <= most


def test_every_family_declares_its_space_with_what_cannot_run_there() -> None:
    device = _device(max_group_size=64, local_bytes=16 << 10)
    told: dict[str, list[str]] = {family.name: [] for family in FAMILIES}
    for family, problem in PROBLEMS:
        told[family.name] += [why for _, why in rejected(family, device.profile, problem)]
    for name, reasons in told.items():
        assert reasons and all(any(letter.isdigit() for letter in reason) for reason in reasons), name


@pytest.mark.parametrize("target", ["sm_70", "gfx90a"])
@pytest.mark.parametrize("count", [25, 100, 250, 3000])
def test_large_records_fit_a_groups_local_memory(target: str, count: int) -> None:
    record = np.dtype([(f"f{i}", np.float32) for i in range(count)])
    room = by_target(target)[0].local_bytes
    if count < 1000:
        launches = dry_run(
            target_of(target),
            pydp.reduce,
            np.zeros(10_000, record),
            {f"f{i}": f"a.f{i} + b.f{i}" for i in range(count)},
        )
        params = launches[0].kernel.params
        lanes: Any = params["lanes"] if not params["commutes"] else 0
        assert 0 < lanes == launches[0].group and 2 * lanes * record.itemsize <= room
    tile, *_ = dry_run(target_of(target), pydp.sort_by_key, np.zeros(5000, np.int32), np.zeros(5000, record))
    assert tile.group * (tile.kernel.params.get("items") or 0) * (record.itemsize + 4) <= room


def test_choosing_how_to_transpose_looks_for_few_placements(monkeypatch: pytest.MonkeyPatch) -> None:
    """Computing the padding takes long; the check nearly always finds without it which blocks fit."""
    asked: list[Any] = []

    def placement(profile: Any, spec: Any, item_bytes: int) -> Any:
        asked.append(spec)
        return before(profile, spec, item_bytes)

    module: Any = importlib.import_module("pydp.algorithms.transpose.policy")
    before = module.placement
    monkeypatch.setattr(module, "placement", placement)
    for size in (1, 2, 4, 16):
        untuned(TRANSPOSE, _device("sm_90"), TransposeProblem(f"V{size}", 4096, 4096))
    assert not asked
    # The padding is computed if it decides: blocks of 64 x 64 longs take 32 KiB and the unused padding.
    check, profile = TRANSPOSE.check, by_target("sm_90")[0]
    large = dataclasses.replace(TRANSPOSE.default(profile, TransposeProblem("V8", 4096, 4096)), block=64, rows=8)
    assert check(profile, TransposeProblem("V8", 4096, 4096), large) is None
    tight = dataclasses.replace(profile, local_bytes=64 * 64 * 8)
    assert "local memory" in str(check(tight, TransposeProblem("V8", 4096, 4096), large))
    assert asked == [large, large]


def test_trees_of_operators_that_do_not_commute() -> None:
    """Every tile of a part is folded: with a group of 256, eight turns and the barrier before them; two buffers spare
    the last."""
    profile, problem = by_target("sm_80")[0], ReduceProblem("float32", 1 << 20, 1, None)
    assert REDUCE.counts is not None
    for buffers, each in ((1, 9), (2, 8)):
        spec = dataclasses.replace(REDUCE.default(profile, problem), lanes=256, items=4, waves=1, buffers=buffers)
        part = -(-(1 << 20) // min(spec.busy, (1 << 20) // spec.part))
        found = REDUCE.counts(profile, problem, spec).phases[0]
        assert found.barriers == -(-part // 1024) * each
        assert found.local_bytes == 256 * 4 * buffers
    commuting = ReduceProblem("float32", 1 << 20, 1, None, commutes=True)
    found = REDUCE.counts(
        profile, commuting, dataclasses.replace(REDUCE.default(profile, commuting), lanes=256)
    ).phases[0]
    assert (found.barriers, found.local_bytes) == (9, 1024)
