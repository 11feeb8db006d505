"""Wrong barriers and impossible lowerings are rejected; seeded faults are found."""

from __future__ import annotations

import dataclasses
import os
import shutil
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from barrier_examples import EXAMPLES, SIMT

import pydp
from pydp.algorithms.forall import plan as forall_plan
from pydp.errors import BuildFailed, InvalidArgument, UnsupportedOnDevice
from pydp.lang.ir.diagnostics import VectorError

HERE = Path(__file__).parent


# --- rejected barriers ---------------------------------------------------------------------------------------


def test_a_width_that_is_too_narrow_names_the_lanes(device):
    def narrow(idx, out, x):
        s = pydp.local_field(np.int32, 16)
        i = idx.local[0]
        s[i] = x[idx]
        pydp.group_barrier(4)
        out[idx] = s[i ^ 4]

    x = np.zeros(16, np.int32)
    with pytest.raises(VectorError, match=r"width 4 is too narrow: lane \[\d+\] writes s .* lane \[\d+\] reads"):
        pydp.forall((16,), narrow, x.copy(), x, group=16)


@pytest.mark.parametrize(
    ("spec", "error", "words"),
    [
        ({"barriers": "warp"}, InvalidArgument, "'warp'; 'auto', 'group', 'none', 'subgroup', 'named'"),
        ({"barriers": "group", "mapping": "vector"}, InvalidArgument, "'vector'"),
        ({"subgroup": 16, "mapping": "vector"}, InvalidArgument, "'vector'"),
        ({"subgroup": 12}, UnsupportedOnDevice, "subgroup is 12"),
        ({"subgroup": 0}, InvalidArgument, "subgroup is 0"),
        ({"barriers": "named"}, UnsupportedOnDevice, "NVIDIA"),
    ],
)
def test_impossible_lowerings(device, spec, error, words):
    extent, group, fn, args, _ = EXAMPLES["sums"](np.random.default_rng(0))
    if "NVIDIA" in words and "NVIDIA" in device.platform:
        pytest.skip("NVIDIA's devices have named barriers, which the others refuse")
    with pytest.raises(error, match=words):
        pydp.forall(extent, fn, *args, group=group, spec=spec)


def test_rows_that_do_not_consist_of_whole_subgroups(device):
    extent, group, fn, args, _ = EXAMPLES["eight"](np.random.default_rng(0))
    with pytest.raises(UnsupportedOnDevice, match="subgroup"):
        pydp.forall(extent, fn, *args, group=group, spec={"barriers": "subgroup"})


def test_whole_group_barriers_are_used_if_warp_barriers_do_not_build(device, monkeypatch, caplog):
    def mirrored(idx, out, x):
        s = pydp.local_field(np.int32, 64)
        i = idx.local[0]
        s[i] = x[idx]
        pydp.group_barrier()
        out[idx] = s[i ^ 31]

    build = forall_plan.program.kernel

    def kernel(device, template, name, params, options=()):
        if "warp" in str(params["barriers"]):
            raise BuildFailed("inline PTX is not known")
        return build(device, template, name, params, options)

    extensions = frozenset({"cl_nv_made_up"})
    monkeypatch.setattr(device, "_profile", dataclasses.replace(device.profile, extensions=extensions))
    monkeypatch.setattr(forall_plan.program, "kernel", kernel)
    x, out = np.arange(64, dtype=np.int32), np.zeros(64, np.int32)
    pydp.forall((64,), mirrored, out, x, group=64, spec=SIMT)
    np.testing.assert_array_equal(out, np.arange(64) ^ 31)
    assert "warp barriers do not build" in caplog.text
    with pytest.raises(BuildFailed):
        pydp.forall((64,), mirrored, out, x, group=64, spec={"barriers": "subgroup"})


# --- seeded faults -------------------------------------------------------------------------------------------


@pytest.mark.host
@pytest.mark.skipif(shutil.which("oclgrind") is None, reason="Oclgrind is not installed (apt install oclgrind)")
@pytest.mark.parametrize("fault", ["none", "narrow", "lockstep"])
def test_one_step_too_narrow_is_a_race_under_the_simulator(fault, tmp_path):
    """A missing barrier in the last iteration that needs one is found; the inferred widths have no race."""
    lane, log = HERE.parent / "drivers" / "lane.py", HERE.parent / "oclgrind_log.py"
    command = [sys.executable, str(lane), "oclgrind", sys.executable, str(log), str(tmp_path / "log")]
    command += [sys.executable, str(HERE / "run_narrow.py"), fault]
    environment = {name: value for name, value in os.environ.items() if not name.startswith(("OCLGRIND_", "OCL_ICD"))}
    done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=500, check=False)
    assert done.returncode == (0 if fault == "none" else 1), done.stdout + done.stderr
    assert ("data race" in done.stdout) == (fault != "none"), done.stdout


@pytest.mark.host
def test_no_profile_claims_lockstep():
    from pydp.runtime.device.profile import Profile

    assert "lockstep" in {item.name for item in dataclasses.fields(Profile)}
    assert all(one.profile.lockstep == 1 for one in pydp.devices() if one.reason is None)
