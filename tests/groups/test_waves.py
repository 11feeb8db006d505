"""Virtual wavefronts, their shared registers and lane constants, and parity buffers, against NumPy."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from test_exchange import blocks, launch

from pydp.dtypes import c_name
from pydp.groups.barrier import subgroup_sizes
from pydp.groups.barrier_plan import barrier_params, tree


def _made(device: Any, name: str, test: str, lanes: int, needs: Any, choice: str = "group", **given: Any) -> Any:
    params = barrier_params(device.profile, lanes, needs, choice)
    return blocks(device, name, test, lanes=lanes, **params, **given)


FOLDS = {"sum": ("a + b", np.add), "min": ("min(a, b)", np.minimum), "max": ("max(a, b)", np.maximum)}


@pytest.mark.oclgrind
@pytest.mark.parametrize("op", FOLDS)
@pytest.mark.parametrize("waves", [1, 4])
def test_folds(device: Any, op: str, waves: int) -> None:
    text, ufunc = FOLDS[op]
    operator = f"int combine(int a, int b) {{ return {text}; }}"
    made = _made(device, "folded", "folds", 16, tree(16), type="int", waves=waves, operator=operator)
    for count in (1, 9, 16, 17, 64, 201):
        x = np.random.default_rng(count).integers(-500, 500, (2, count)).astype(np.int32)
        got = launch(device, made, 32, 16, [x, np.int32(count)], (2,), np.int32)
        np.testing.assert_array_equal(got, ufunc.reduce(x, axis=1))


@pytest.mark.oclgrind
def test_folds_of_each_run_by_itself(device: Any) -> None:
    """Relative addressing: the registers of a run of lanes are folded, also where it is a subgroup that meets alone."""
    operator = "int combine(int a, int b) { return a + b; }"
    for runs, subgroup in ((8, None), *((size, size) for size in subgroup_sizes(device.profile, 32))):
        lanes = 2 * runs
        params = barrier_params(device.profile, lanes, tree(runs), subgroup=subgroup)
        given = {"type": "int", "waves": 2, "runs": runs, "operator": operator}
        made = blocks(device, "folded", "folds", lanes=lanes, **params, **given)
        for count in (5, 2 * runs, 6 * runs + 3):
            x = np.random.default_rng(count).integers(-500, 500, (3, count)).astype(np.int32)
            got = launch(device, made, 3 * lanes, lanes, [x, np.int32(count)], (3, 2), np.int32)
            expected = [[row[np.arange(count) // runs % 2 == run].sum() for run in range(2)] for row in x]
            np.testing.assert_array_equal(got, expected)


@pytest.mark.oclgrind
@pytest.mark.parametrize("waves", [1, 3])
def test_counters(device: Any, waves: int) -> None:
    made = _made(device, "counted", "counters", 16, {}, type="uchar", waves=waves, bins=5)
    x = np.random.default_rng(waves).integers(0, 7, (2, 333)).astype(np.uint8)
    got = launch(device, made, 32, 16, [x, np.int32(333)], (2, 5), np.uint32)
    np.testing.assert_array_equal(got, [np.bincount(row, minlength=7)[:5] for row in x])


@pytest.mark.oclgrind
@pytest.mark.parametrize("count", [1, 4])
def test_lane_constants(device: Any, count: int) -> None:
    lanes, waves = 16, 3
    made = _made(device, "placed", "constants", lanes, {}, type=c_name(np.dtype(np.int32)), waves=waves, count=count)
    rng = np.random.default_rng(count)
    thresholds = np.sort(rng.integers(0, 100, (count, lanes)), axis=0).astype(np.int32)
    x = rng.integers(0, 100, (2, waves, lanes)).astype(np.int32)
    got = launch(device, made, 2 * lanes, lanes, [thresholds, x], x.shape, np.int32)
    np.testing.assert_array_equal(got, (x[None] >= thresholds[:, None, None]).sum(0) + thresholds[0])


@pytest.mark.oclgrind
def test_parity_buffers(device: Any) -> None:
    lanes, steps = 16, 5
    x = np.arange(2 * lanes, dtype=np.int32).reshape(2, lanes)
    expected = x
    for step in range(steps):
        expected = expected + np.roll(expected, -(step + 1), axis=1)
    barriers = {}
    for buffers in (1, 2):
        needs = {"reads_end": lanes, "stores_end": lanes}
        made = _made(device, "rotated", "parity", lanes, needs, type="int", buffers=buffers)
        got = launch(device, made, 2 * lanes, lanes, [x, np.int32(steps)], x.shape, np.int32)
        np.testing.assert_array_equal(got, expected)
        barriers[buffers] = made.source.count("barrier(CLK_LOCAL_MEM_FENCE)")
    assert barriers == {1: 2, 2: 1}
