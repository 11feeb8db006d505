"""Barriers of every width and lowering on the device: the source's examples, forced lowerings, what explain says."""

from __future__ import annotations

import dataclasses
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

import pydp
from pydp.algorithms import _forall_plan
from pydp.algorithms._forall_arguments import written_apart
from pydp.errors import BuildFailed, InvalidArgument, UnsupportedOnDevice
from pydp.groups.barrier import subgroup_sizes
from pydp.lang.diagnostics import VectorError
from pydp.runtime import template
from pydp.runtime.operand import Operand

HERE = Path(__file__).parent
SIMT = {"mapping": "simt"}


@pydp.vector
def sum_of_eight(idx, out, x):
    """The source's example: 8 elements by 4 lanes need 4, then 2, then none."""
    s = pydp.local_field(np.int32, 8)
    i = idx.local[0]
    s[i] = x[i]
    s[i + 4] = x[i + 4]
    pydp.group_barrier()
    for k in range(3):
        n = 4 >> k
        if i < n:
            s[i] += s[i + n]
        pydp.group_barrier()
    if i == 0:
        out[0] = s[0]


@pydp.vector
def sums_of_64(idx, out, x):
    """A tree for each group of 64."""
    s = pydp.local_field(np.int32, 64)
    i = idx.local[0]
    s[i] = x[idx]
    pydp.group_barrier()
    for k in range(6):
        n = 32 >> k
        if i < n:
            s[i] += s[i + n]
        pydp.group_barrier()
    if i == 0:
        out[idx.group[0]] = s[0]


@pydp.vector
def mirrored_in_32(idx, out, x):
    """What is at ptr[tid % 32] is written by one half of a group after the other, and read by the same half."""
    s = pydp.local_field(np.int32, 2, 32)
    half, i = idx.local[0] // 32, idx.local[0] % 32
    s[half, i] = x[idx]
    pydp.group_barrier()
    out[idx] = s[half, 31 - i]


@pydp.vector
def turned_in_four(idx, out, x, order):
    """Four runs of four lanes: which of the four is read, only the data say."""
    s = pydp.local_field(np.int32, 16)
    i = idx.local[0]
    s[i] = x[idx]
    pydp.group_barrier(4)
    out[idx] = s[i // 4 * 4 + order[idx] % 4]


@pydp.vector
def turned_in(idx, out, x, order, width):
    """The same with a width that is an argument."""
    s = pydp.local_field(np.int32, 64)
    i = idx.local[0]
    s[i] = x[idx]
    pydp.group_barrier(width)
    out[idx] = s[i // width * width + order[idx] % width]


@pydp.vector
def turned_by_turns(idx, out, x, order, turns):
    """A width that each turn computes anew, in a loop of unknown length, with places that the data give."""
    s = pydp.local_field(np.int32, 64)
    i = idx.local[0]
    value = x[idx]
    for k in range(turns):
        width = 64 >> k
        s[i] = value
        pydp.group_barrier(width)
        value = s[i // width * width + (order[idx] + k) % width]
        pydp.group_barrier(width)
    out[idx] = value


@pydp.vector
def two_released(idx, out, x, n):
    """The source's example: of four lanes, only the n for which the condition holds come to the barrier."""
    s = pydp.local_field(np.int32, 4)
    i = idx.local[0]
    s[i] = 0
    if i < n:
        s[i] = x[i]
        pydp.group_barrier(n)
        out[i] = s[n - 1 - i]


@pydp.vector
def every_other(idx, out, x, order):
    """The lanes that come are not a run; where they read, only the data say."""
    s = pydp.local_field(np.int32, 16)
    i = idx.local[0]
    s[i] = 0
    if i % 2 == 0:
        s[i] = x[idx]
        pydp.group_barrier(8)
        out[idx] = s[order[idx] % 8 * 2]


@pydp.vector
def three_of_sixteen(idx, out, x, n):
    """A count that divides nothing; lanes 6, 7 and 8 are of two runs of eight."""
    s = pydp.local_field(np.int32, 16)
    i = idx.local[0]
    s[i] = 0
    if 6 <= i < 6 + n:
        s[i] = x[idx]
        pydp.group_barrier(n)
        out[idx] = s[14 - i]


@pydp.vector
def pairs_and_rows(idx, out, x):
    """Exchanges at several distances; both axes of a group."""
    s = pydp.local_field(np.int32, 128)
    i = idx.local[0] * 64 + idx.local[1]
    value = x[idx]
    for turn in range(2):
        for k in range(7):
            s[i] = value
            pydp.group_barrier()
            value = value * 3 + s[i ^ (1 << k)] + turn
            pydp.group_barrier()
    out[idx] = value


def _sums(rng):
    x = rng.integers(-999, 999, 250).astype(np.int32)
    want = np.pad(x, (0, 6)).reshape(4, 64).sum(1, dtype=np.int32)
    return (256,), (64,), sums_of_64, [np.zeros(4, np.int32), x], want


def _eight(rng):
    x = rng.integers(-999, 999, 8).astype(np.int32)
    return (4,), (4,), sum_of_eight, [np.zeros(1, np.int32), x], x.sum(keepdims=True)


def _mirrored(rng):
    x = rng.integers(-999, 999, 192).astype(np.int32)
    want = x.reshape(-1, 32)[:, ::-1].ravel()
    return (192,), (64,), mirrored_in_32, [np.zeros_like(x), x], want


def _turned(rng, width, of):
    x, order = (rng.integers(0, 999, 3 * of).astype(np.int32) for _ in range(2))
    run = np.arange(3 * of) // width * width
    return x, order, x[run + order % width]


def _four(rng):
    x, order, want = _turned(rng, 4, 16)
    return (48,), (16,), turned_in_four, [np.zeros_like(x), x, order], want


def _argument(width):
    def made(rng):
        x, order, want = _turned(rng, width, 64)
        return (192,), (64,), turned_in, [np.zeros_like(x), x, order, width], want

    return made


def _by_turns(rng):
    x, order = (rng.integers(0, 999, 128).astype(np.int32) for _ in range(2))
    want, lane = x, np.arange(128)
    for k in range(6):
        width = 64 >> k
        want = want[lane // width * width + (order + k) % width]
    return (128,), (64,), turned_by_turns, [np.zeros_like(x), x, order, 6], want


def _released(rng):
    x = rng.integers(1, 999, 4).astype(np.int32)
    return (4,), (4,), two_released, [np.zeros(4, np.int32), x, 2], np.array([x[1], x[0], 0, 0])


def _other(rng):
    x, order = (rng.integers(1, 999, 48).astype(np.int32) for _ in range(2))
    lane = np.arange(48)
    want = np.where(lane % 2 == 0, x[lane // 16 * 16 + order % 8 * 2], 0)
    return (48,), (16,), every_other, [np.zeros_like(x), x, order], want


def _three(rng):
    x = rng.integers(1, 999, 16).astype(np.int32)
    want = np.zeros_like(x)
    want[6:9] = x[8:5:-1]
    return (16,), (16,), three_of_sixteen, [np.zeros_like(x), x, 3], want


def _pairs(rng):
    x = rng.integers(-9, 9, (4, 128)).astype(np.int32)
    want, lane = x.reshape(2, 2, 2, 64).swapaxes(1, 2).reshape(-1, 128), np.arange(128)
    with np.errstate(over="ignore"):
        for turn in range(2):
            for k in range(7):
                want = want * np.int32(3) + want[:, lane ^ (1 << k)] + np.int32(turn)
    want = want.reshape(2, 2, 2, 64).swapaxes(1, 2).reshape(4, 128)
    return (4, 128), (2, 64), pairs_and_rows, [np.zeros_like(x), x], want


EXAMPLES = {
    "eight": _eight,
    "sums": _sums,
    "mirrored": _mirrored,
    "four": _four,
    "argument 1": _argument(1),
    "argument 8": _argument(8),
    "argument 64": _argument(64),
    "by turns": _by_turns,
    "released": _released,
    "every other": _other,
    "three": _three,
    "pairs": _pairs,
}


def specs(profile, row):
    """Every lowering and subgroup size that the device has, and the choice itself."""
    sizes = subgroup_sizes(profile, row)
    found = [SIMT, {"barriers": "group"}, {"barriers": "none"}]
    if sizes:
        found += [{"barriers": "subgroup"}, *({"subgroup": size} for size in sizes)]
    return found


@pytest.mark.parametrize("name", EXAMPLES)
def test_every_lowering_gives_the_same(device, name):
    extent, group, fn, args, want = EXAMPLES[name](np.random.default_rng(7))
    for spec in specs(device.profile, group[-1]):
        args[0][...] = 0
        pydp.forall(extent, fn, *args, group=group, spec=spec)
        np.testing.assert_array_equal(args[0], want, err_msg=f"{name} {spec}")


@pytest.mark.oclgrind
@pytest.mark.parametrize("name", ["eight", "four", "argument 8", "released", "every other", "three", "mirrored"])
def test_examples_in_the_chosen_lowering(device, name):
    extent, group, fn, args, want = EXAMPLES[name](np.random.default_rng(8))
    pydp.forall(extent, fn, *args, group=group, spec=SIMT)
    np.testing.assert_array_equal(args[0], want)


def test_the_host_and_the_vector_mapping_agree(device):
    for name in ("eight", "four", "argument 8", "released", "every other", "three"):
        extent, group, fn, args, want = EXAMPLES[name](np.random.default_rng(9))
        loops_are_cut = device.profile.loop_limit is not None  # the vector mapping is refused there
        for options in ({"device": "host"}, {} if loops_are_cut else {"spec": {"mapping": "vector"}}):
            args[0][...] = 0
            pydp.forall(extent, fn, *args, group=group, **options)
            np.testing.assert_array_equal(args[0], want, err_msg=f"{name} {options}")


# --- what is chosen, and said --------------------------------------------------------------------------------


def explained(name, spec=SIMT):
    extent, group, fn, args, _ = EXAMPLES[name](np.random.default_rng(0))
    found = pydp.explain(pydp.forall, extent, fn, *args, group=group, spec=spec)
    return [line for line in found.choices if re.match(r"barrier \d+: ", line)], found.sources["forall_simt.mako"]


def test_explain_names_line_width_lowering_and_reason(device):
    lines, source = explained("eight")
    first = sum_of_eight.__wrapped__.__code__.co_firstlineno if hasattr(sum_of_eight, "__wrapped__") else None
    assert len(lines) == 2 and "test_barriers.py:" in lines[0] and "in sum_of_eight" in lines[0]
    assert first is None or f":{first + 7} " in lines[0]
    assert "width none (inferred): no barrier (no lane needs another's memory)" in lines[0]
    assert "width 4, 2, none (inferred)" in lines[1]
    if device.profile.barriers_under_conditions:
        assert "turn below 2: whole-group barrier" in lines[1] and "turn from there: no barrier" in lines[1]
        assert "turn_1 = (turn_1 + 1) % 3" in source
    else:
        assert "whole-group barrier" in lines[1] and "turn_1" not in source
    assert source.count("barrier(CLK_LOCAL_MEM_FENCE)") == 1


def test_the_width_of_an_index_modulo_32(device):
    lines, _ = explained("mirrored")
    assert "width 32 (inferred)" in lines[0]


def test_given_widths_are_taken_where_the_accesses_say_nothing(device):
    assert "width 4 (given, 4 asked for)" in explained("four")[0][0]
    assert "width width, known at run time (given, width asked for)" in explained("argument 8")[0][0]


def test_a_counted_barrier_is_taken_out_of_its_condition(device):
    for name in ("released", "every other", "three"):
        lines, _ = explained(name)
        assert "all lanes come to it" in lines[-1], lines
    assert "width 16 (inferred, 8 asked for)" in explained("every other")[0][-1]


def test_one_barrier_serves_where_two_were_written(device):
    def twice(idx, out, x):
        s = pydp.local_field(np.int32, 16)
        i = idx.local[0]
        s[i] = x[idx]
        pydp.group_barrier()
        pydp.group_barrier()
        out[idx] = s[15 - i]

    x, out = np.arange(32, dtype=np.int32), np.zeros(32, np.int32)
    pydp.forall((32,), twice, out, x, group=16, spec=SIMT)
    np.testing.assert_array_equal(out, x.reshape(2, 16)[:, ::-1].ravel())
    source = pydp.explain(pydp.forall, (32,), twice, out, x, group=16, spec=SIMT).sources["forall_simt.mako"]
    assert source.count("barrier(CLK_") == 1


@pydp.vector
def shifted(idx, out, x):
    """No lane needs another's memory, unless out and x share it."""
    value = x[63 - idx.local[0]]
    pydp.group_barrier()
    out[idx.local[0]] = value


def test_arguments_that_share_memory_are_ordered_by_the_whole_group(device):
    x = np.arange(64, dtype=np.int32)
    out = np.zeros_like(x)
    arguments = dict(group=64, spec=SIMT)
    found = pydp.explain(pydp.forall, (64,), shifted, out, x, **arguments)
    assert any("arguments that share no memory" in line for line in found.choices)
    assert "barrier(CLK" not in found.sources["forall_simt.mako"]
    pydp.forall((64,), shifted, out, x, **arguments)
    np.testing.assert_array_equal(out, x[::-1])
    pydp.forall((64,), shifted, x, x, **arguments)
    np.testing.assert_array_equal(x, np.arange(64)[::-1])
    for make in (np.copy, lambda values: pydp.field(values, device=device)):
        whole = make(np.arange(65, dtype=np.int32))
        pydp.forall((64,), shifted, whole[1:], whole[:-1], **arguments)
        np.testing.assert_array_equal(np.asarray(whole)[1:], np.arange(64)[::-1])


@pytest.mark.host
@pytest.mark.parametrize(
    ("shape", "strides", "apart"),
    [
        ((4, 8), (8, 1), True),
        ((4, 8), (1, 4), True),
        ((4, 8), (-8, 1), True),
        ((4, 8), (0, 1), False),
        ((4, 8), (7, 1), False),
        ((1, 8), (0, 1), True),
        ((2, 2, 2), (1, 2, 3), False),
        ((), (), True),
    ],
)
def test_elements_of_one_array_that_are_one_another(shape, strides, apart):
    operand = Operand("a", None, 0, shape, strides, np.dtype(np.int32))
    assert written_apart(None, {0: operand}, [0]) is apart


def test_subgroups_are_asked_for_where_they_serve(device):
    if not subgroup_sizes(device.profile, 64):
        pytest.skip(f"{device.name} has no subgroups of known layout")
    for size in subgroup_sizes(device.profile, 64):
        lines, source = explained("pairs", {"subgroup": size})
        assert f"sub_group_size({size})" in source and "sub_group_barrier(" in source
        assert f"subgroups of {size} lanes" in lines[0]
    assert "sub_group" not in explained("pairs", {"barriers": "group"})[1]


def test_subgroups_are_runs_of_lanes(device):
    """What the lowering relies on: in rows of whole subgroups, a subgroup is a run of linear local ids."""
    profile = device.profile
    if not subgroup_sizes(profile, 64):
        pytest.skip(f"{device.name} has no subgroups of known layout")
    import pyopencl as cl

    from pydp.runtime.program import kernel

    template.add_folder(HERE)
    for shape in ((64, 1, 1), (64, 4, 1), (32, 2, 4), (16, 3, 2), (8, 8, 1)):
        for size in subgroup_sizes(profile, shape[0]):
            params = {"shape": list(shape), "size": size, "cl_std": "CL3.0"}
            layout = kernel(device, "subgroup_layout.mako", "subgroup_layout", params)
            out = np.zeros((np.prod(shape), 2), np.int32)
            buffer = cl.Buffer(device.context, cl.mem_flags.WRITE_ONLY, out.nbytes)
            layout.enqueue(device.queue, shape, shape, [buffer])
            cl.enqueue_copy(device.queue, out, buffer)
            lane = np.arange(len(out))
            np.testing.assert_array_equal(out[:, 1], lane % size, err_msg=f"{shape} {size}")
            runs = out[:, 0].reshape(-1, size)
            assert (runs == runs[:, :1]).all() and len(set(runs[:, 0])) == len(runs), (shape, size)


# --- what is refused -----------------------------------------------------------------------------------------


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
def test_lowerings_that_cannot_be(device, spec, error, words):
    extent, group, fn, args, _ = _sums(np.random.default_rng(0))
    if "NVIDIA" in words and "NVIDIA" in device.platform:
        pytest.skip("this device has them")
    with pytest.raises(error, match=words):
        pydp.forall(extent, fn, *args, group=group, spec=spec)


def test_subgroups_in_rows_that_hold_no_whole_ones(device):
    extent, group, fn, args, _ = _eight(np.random.default_rng(0))
    with pytest.raises(UnsupportedOnDevice, match="subgroup"):
        pydp.forall(extent, fn, *args, group=group, spec={"barriers": "subgroup"})


def test_where_barriers_of_warps_do_not_build_those_of_whole_groups_are_used(device, monkeypatch, caplog):
    def mirrored(idx, out, x):
        s = pydp.local_field(np.int32, 64)
        i = idx.local[0]
        s[i] = x[idx]
        pydp.group_barrier()
        out[idx] = s[i ^ 31]

    build = _forall_plan.program.kernel

    def kernel(device, template, name, params, options=()):
        if "warp" in str(params["barriers"]):
            raise BuildFailed("inline PTX is not known")
        return build(device, template, name, params, options)

    extensions = frozenset({"cl_nv_made_up"})
    monkeypatch.setattr(device, "_profile", dataclasses.replace(device.profile, extensions=extensions))
    monkeypatch.setattr(_forall_plan.program, "kernel", kernel)
    x, out = np.arange(64, dtype=np.int32), np.zeros(64, np.int32)
    pydp.forall((64,), mirrored, out, x, group=64, spec=SIMT)
    np.testing.assert_array_equal(out, np.arange(64) ^ 31)
    assert "barriers of warps do not build" in caplog.text
    with pytest.raises(BuildFailed):
        pydp.forall((64,), mirrored, out, x, group=64, spec={"barriers": "subgroup"})


# --- seeded faults -------------------------------------------------------------------------------------------


@pytest.mark.host
@pytest.mark.skipif(shutil.which("oclgrind") is None, reason="Oclgrind is not installed (apt install oclgrind)")
@pytest.mark.parametrize("fault", ["none", "narrow", "lockstep"])
def test_one_step_too_narrow_is_a_race_under_the_simulator(fault, tmp_path):
    """Barriers left out of the last turn that needs one are found; the inferred widths have no race."""
    lane, log = HERE.parent / "drivers" / "lane.py", HERE.parent / "oclgrind_log.py"
    command = [sys.executable, str(lane), "oclgrind", sys.executable, str(log), str(tmp_path / "log")]
    command += [sys.executable, str(HERE / "run_narrow.py"), fault]
    environment = {name: value for name, value in os.environ.items() if not name.startswith(("OCLGRIND_", "OCL_ICD"))}
    done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=120, check=False)
    assert done.returncode == (0 if fault == "none" else 1), done.stdout + done.stderr
    assert ("data race" in done.stdout) == (fault != "none"), done.stdout


@pytest.mark.host
def test_the_profile_promises_no_lockstep_of_its_own():
    from pydp.runtime.profile import Profile

    assert "lockstep" in {item.name for item in dataclasses.fields(Profile)}
    assert all(one.profile.lockstep == 1 for one in pydp.devices() if one.reason is None)
