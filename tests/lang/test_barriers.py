"""Barriers of every width and lowering on the device: known examples, forced lowerings, and their explanations."""

from __future__ import annotations

import math
import re
from pathlib import Path

import needs
import numpy as np
import pytest
from barrier_examples import EXAMPLES, SIMT, neighbouring_rows, pairs_and_rows, sum_of_eight
from made_up import profile

import pydp
from pydp.errors import UnsupportedOnDevice
from pydp.groups.barrier import is_nvidia, subgroup_sizes
from pydp.lang.compile import FieldType, translate
from pydp.lang.opencl import simt as simt_lowering
from pydp.runtime.arrays.self_overlap import overlaps_itself
from pydp.runtime.programs import template

HERE = Path(__file__).parent


def specs(profile, group):
    """Every lowering and subgroup size of the device, and the automatic choice."""
    sizes = sorted({*subgroup_sizes(profile, group[-1]), *subgroup_sizes(profile, math.prod(group))})
    found = [SIMT, {"barriers": "group"}, {"barriers": "none"}]
    if sizes:
        found += [{"barriers": "subgroup"}, *({"subgroup": size} for size in sizes)]
    return found


@pytest.mark.sweep
@pytest.mark.parametrize("name", EXAMPLES)
def test_all_lowerings_give_equal_results(device, name):
    extent, group, fn, args, want = EXAMPLES[name](np.random.default_rng(7))
    for spec in specs(device.profile, group):
        args[0][...] = 0
        pydp.forall(extent, fn, *args, group=group, spec=spec)
        np.testing.assert_array_equal(args[0], want, err_msg=f"{name} {spec}")


@pytest.mark.oclgrind
@pytest.mark.parametrize(
    "name",
    ["eight", "four", "argument 8", "released", "every other", "three", "mirrored", "counted", "updated", "halves"],
)
def test_examples_in_the_chosen_lowering(device, name):
    extent, group, fn, args, want = EXAMPLES[name](np.random.default_rng(8))
    pydp.forall(extent, fn, *args, group=group, spec=SIMT)
    np.testing.assert_array_equal(args[0], want)


def test_the_host_and_the_vector_mapping_agree(device):
    for name in EXAMPLES:
        extent, group, fn, args, want = EXAMPLES[name](np.random.default_rng(9))
        loops_are_cut = device.profile.loop_limit is not None  # the vector mapping is refused there
        for options in ({"device": "host"}, {} if loops_are_cut else {"spec": {"mapping": "vector"}}):
            args[0][...] = 0
            pydp.forall(extent, fn, *args, group=group, **options)
            np.testing.assert_array_equal(args[0], want, err_msg=f"{name} {options}")


def test_uniform_break_and_continue(device):
    def left(idx, out, x, u):
        s = pydp.local_field(np.int32, 128)
        i = idx.local[0]
        for k in range(2):
            s[i] = x[idx] + k
            pydp.group_barrier()
            if u[0] > 0:
                break
            pydp.group_barrier()
        out[idx] = s[127 - i]

    def gone_on(idx, out, x, u):
        s = pydp.local_field(np.int32, 128)
        i = idx.local[0]
        v = 0
        for k in range(2):
            if k == 0:
                s[i] = x[idx]
            else:
                v = s[127 - i]
            pydp.group_barrier()
            if u[0] > 0:
                continue
            pydp.group_barrier()
        out[idx] = v

    x, u = np.arange(1, 257, dtype=np.int32), np.ones(1, np.int32)
    several = specs(device.profile, (128,)) if device.profile.barriers_under_conditions else [None]
    for fn in (left, gone_on):
        for spec in several:
            out = np.zeros_like(x)
            pydp.forall(256, fn, out, x, u, group=128, spec=spec)
            np.testing.assert_array_equal(out, x.reshape(2, 128)[:, ::-1].ravel(), err_msg=f"{fn.__name__} {spec}")


# --- the choice and its explanation --------------------------------------------------------------------------


def explained(name, spec=SIMT):
    extent, group, fn, args, _ = EXAMPLES[name](np.random.default_rng(0))
    found = pydp.explain(pydp.forall, extent, fn, *args, group=group, spec=spec)
    return [line for line in found.choices if re.match(r"barrier \d+: ", line)], found.sources["forall_simt.mako"]


def test_explain_names_line_width_lowering_and_reason(device):
    lines, source = explained("eight")
    first = sum_of_eight.__wrapped__.__code__.co_firstlineno if hasattr(sum_of_eight, "__wrapped__") else None
    assert len(lines) == 2 and "barrier_examples.py:" in lines[0] and "in sum_of_eight" in lines[0]
    assert first is None or f":{first + 7} " in lines[0]
    assert "width none (inferred): no barrier (no lane needs another's memory)" in lines[0]
    assert "width 4, 2, none (inferred)" in lines[1]
    if device.profile.barriers_under_conditions:
        assert "iteration < 2: whole-group barrier" in lines[1] and "other iterations: no barrier" in lines[1]
        assert "iteration_1 = (iteration_1 + 1) % 3" in source
    else:
        assert "whole-group barrier" in lines[1] and "iteration_1" not in source
    assert source.count("barrier(CLK_LOCAL_MEM_FENCE)") == 1


def test_explain_counts_barrier_executions_by_lowering(device):
    extent, group, fn, args, _ = EXAMPLES["eight"](np.random.default_rng(0))
    found = pydp.explain(pydp.forall, extent, fn, *args, group=group, spec={"barriers": "none"})
    told = next(line for line in found.choices if "barrier execution(s)" in line)
    if device.profile.barriers_under_conditions:
        assert told == "4 barrier execution(s) known before the launch: 2 no barrier, 2 whole-group barrier"
    else:
        assert told == "4 barrier execution(s) known before the launch: 1 no barrier, 3 whole-group barrier"


def test_the_width_of_an_index_modulo_32(device):
    lines, _ = explained("mirrored")
    assert "width 32 (inferred)" in lines[0]


def test_given_widths_are_used_if_elements_are_unknown(device):
    assert "width 4 (given, 4 requested)" in explained("four")[0][0]
    assert "width width, known at run time (given, width requested)" in explained("argument 8")[0][0]


def test_a_barrier_with_a_width_is_moved_out_of_its_condition(device):
    for name in ("released", "every other", "three"):
        lines, _ = explained(name)
        assert "all lanes reach it" in lines[-1], lines
    assert "width 16 (inferred, 8 requested)" in explained("every other")[0][-1]


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
    """No lane needs another lane's memory unless out and x share memory."""
    value = x[63 - idx.local[0]]
    pydp.group_barrier()
    out[idx.local[0]] = value


@pytest.mark.oclgrind
def test_arguments_that_share_memory_use_whole_group_barriers(device):
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


def reversed_in_place(idx, x):
    value = x[idx.group[0] * 16 + 15 - idx.local[0]]
    pydp.group_barrier()
    x[idx] = value


def staged(idx, out, x):
    s = pydp.local_field(np.int32, 16)
    s[idx.local[0]] = x[idx]
    pydp.group_barrier()
    out[idx] = s[15 - idx.local[0]]


def writes_behind_its_barrier(idx, x, turns):
    for _ in range(turns):
        value = x[idx.group[0] * 16 + (idx.local[0] + 1) % 16]
        pydp.group_barrier()
        x[idx] = value


@pytest.mark.oclgrind
def test_a_barrier_orders_writes_of_the_previous_iteration(device):
    x = np.arange(32, dtype=np.int32)
    found = pydp.explain(pydp.forall, (32,), writes_behind_its_barrier, x, 1, group=16, spec=SIMT)
    assert any("; both memory ordered" in line for line in found.choices)
    assert "barrier(CLK_LOCAL_MEM_FENCE | CLK_GLOBAL_MEM_FENCE)" in found.sources["forall_simt.mako"]


@pytest.mark.oclgrind
def test_a_barrier_orders_reads_before_later_writes(device):
    want = np.arange(32).reshape(2, 16)[:, ::-1].ravel()
    for fn, arrays, memory in ((reversed_in_place, 1, "both"), (staged, 2, "local")):
        fields = [np.arange(32, dtype=np.int32) for _ in range(arrays)]
        found = pydp.explain(pydp.forall, (32,), fn, *fields, group=16, spec=SIMT)
        assert any(f"; {memory} memory ordered" in line for line in found.choices), fn
        pydp.forall((32,), fn, *fields, group=16, spec=SIMT)
        np.testing.assert_array_equal(fields[0], want)


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
def test_elements_of_one_array_that_alias(shape, strides, apart):
    """Written arrays must not alias elements, because the inferred widths assume it."""
    assert overlaps_itself(shape, strides, 1) is not apart


def test_groups_are_one_dimensional_if_that_makes_barriers_cheaper(device):
    """Rows of 16 lanes cannot hold runs of 32 lanes; in a one-dimensional group, subgroups are runs of lanes."""
    extent, group, fn, args, want = EXAMPLES["rows of 16"](np.random.default_rng(3))
    found = pydp.explain(pydp.forall, extent, fn, *args, group=group, spec={"barriers": "group"})
    assert not any("dimension 0 only" in line for line in found.choices)
    assert "reqd_work_group_size(16, 16, 1)" in found.sources["forall_simt.mako"]
    sizes = [size for size in needs.subgroups(device, 256) if size >= 32]
    if not sizes:
        pytest.skip("the device has no subgroups of 32 lanes or more")
    for spec in [*({"subgroup": size} for size in sizes), {"barriers": "subgroup"}]:
        found = pydp.explain(pydp.forall, extent, fn, *args, group=group, spec=spec)
        assert any("dimension 0 only, so subgroups are runs of lanes" in line for line in found.choices), spec
        assert "subgroup barrier (32 divides subgroups" in str(found)
        assert "reqd_work_group_size(256, 1, 1)" in found.sources["forall_simt.mako"]
        args[0][...] = 0
        pydp.forall(extent, fn, *args, group=group, spec=spec)
        np.testing.assert_array_equal(args[0], want)


def test_a_subgroup_size_is_requested_if_a_barrier_uses_it(device):
    assert "sub_group" not in explained("pairs", {"barriers": "group"})[1]
    if not subgroup_sizes(device.profile, 64) and not is_nvidia(device.profile):  # NVIDIA's are reached by PTX
        with pytest.raises(UnsupportedOnDevice, match="no subgroups of known layout"):
            explained("pairs", {"barriers": "subgroup"})
    for size in needs.subgroups(device, 64):
        lines, source = explained("pairs", {"subgroup": size})
        assert f"sub_group_size({size})" in source and "sub_group_barrier(" in source
        assert f"subgroups of {size} lanes" in lines[0]


def test_subgroups_are_runs_of_lanes(device):
    """The lowering assumes that a subgroup is a run of linear local ids if rows consist of whole subgroups."""
    profile = device.profile
    import pyopencl as cl

    from pydp.runtime.programs.program import kernel

    needs.subgroups(device, 64)
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


@pytest.mark.host
def test_groups_are_one_dimensional_on_devices_with_wide_subgroups():
    """On a made-up GPU with subgroups of 64 lanes, the group is one-dimensional if 32 lanes of two rows synchronize,
    but not if one row suffices."""
    waves = profile("cl_khr_subgroups", sizes=(64,))
    int2 = FieldType(np.dtype(np.int32), 2)
    for fn, group, shape, kind in (
        (neighbouring_rows, (16, 16), [256, 1, 1], "subgroup"),
        (pairs_and_rows, (2, 64), [64, 2, 1], "subgroup"),
        (neighbouring_rows, (2, 16), [16, 2, 1], "group"),
    ):
        function = translate(fn, 2, group, [int2, int2], np.dtype(np.int32))
        found = simt_lowering.LOWERING.lower(function, waves)
        assert found.params["shape"] == shape and found.flat == (shape[1] == 1)
        assert kind in str(found.params["barriers"])
