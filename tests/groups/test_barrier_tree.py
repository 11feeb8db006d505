"""The tree of wg_reduce.mako by every lowering: pydp's own reduction of rows, and the widths of its turns."""

from __future__ import annotations

import numpy as np
import pytest
from made_up import profile

import pydp
from pydp.errors import InvalidArgument, UnsupportedOnDevice
from pydp.groups.barrier import subgroup_sizes
from pydp.groups.meetings import meetings, tree

LANES = 64


def spec(**given):
    simt = {"mapping": "simt", "lanes": LANES, "items": 2, "part": 256, "longest": 2**30, "columns": 1, "busy": 4}
    return {**simt, **given}


def forced(profile):
    sizes = subgroup_sizes(profile, LANES)
    found = [{"barriers": choice} for choice in ("group", "auto", "none")]
    return found + [{"barriers": "subgroup"}] * bool(sizes) + [{"barriers": "auto", "subgroup": n} for n in sizes]


@pytest.mark.parametrize("op", ["+", "a - 0 + b"])
def test_every_lowering_gives_the_same(device, op):
    x = np.random.default_rng(3).integers(-99, 99, (3, 301)).astype(np.int32)
    for given in forced(device.profile):
        got = pydp.reduce(x, op, axis=1, dtype=np.int32, spec=spec(**given))
        np.testing.assert_array_equal(got, x.sum(1), err_msg=str(given))


@pytest.mark.oclgrind
def test_the_chosen_lowering(device):
    x = np.arange(100, dtype=np.int32)[None]
    got = pydp.reduce(x, axis=1, dtype=np.int32, spec=spec(lanes=16, barriers="auto"))
    np.testing.assert_array_equal(got, x.sum(1))


def test_what_cannot_be_is_refused(device):
    x = np.zeros((2, 100), np.int32)
    with pytest.raises(InvalidArgument, match="barriers is 'all'"):
        pydp.reduce(x, axis=1, spec=spec(barriers="all"))
    with pytest.raises(UnsupportedOnDevice, match="subgroup is 12"):
        pydp.reduce(x, axis=1, spec=spec(subgroup=12))


@pytest.mark.host
@pytest.mark.parametrize("conditions", [True, False])
@pytest.mark.parametrize("lanes", [1, 2, 16, 64, 256, 1024])
def test_the_turns_of_the_tree(lanes, conditions):
    """Lanes k and k + s of each turn, and of all turns that follow, are in one run of the barrier before it."""
    nvidia = profile("cl_nv_x", barriers_under_conditions=conditions)
    lockstep = profile(lockstep=32, barriers_under_conditions=conditions)
    chooses = profile("cl_intel_required_subgroup_size", sizes=(8, 16, 32, 64), barriers_under_conditions=conditions)
    for given in (nvidia, lockstep, chooses):
        ways = meetings(given, lanes, tree(lanes))["ways"]
        met = {0: pick(ways["first"], 0)["width"]}
        steps = [1 << k for k in range(lanes.bit_length() - 1)]
        met.update({step: pick(ways["turns"], step)["width"] for step in steps})
        assert met[steps[-1] if steps else 0] == lanes
        for before, step in zip([0, *steps], steps, strict=False):
            assert met[before] % (2 * step) == 0
        assert conditions or len(ways["turns"]) == 1
    if lanes == 256 and conditions:
        turns = meetings(nvidia, lanes, tree(lanes))["ways"]["turns"]
        assert [way["kind"] for way in turns] == ["warp", "named", "named", "group"]
        assert [way["needs"] for way in turns] == ["4, 8, 16, 32", "64", "128", "256"]


def pick(cases, number):
    return next(case for case in cases if case["below"] is None or number < case["below"])
