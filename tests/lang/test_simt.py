"""The work-item-a-lane lowering against the host lowering and NumPy."""

from __future__ import annotations

from dataclasses import replace

import device_run
import numpy as np
import pytest
from builder import (
    F32,
    I32,
    add,
    array,
    assign,
    barrier,
    c,
    cmp,
    function,
    load,
    local,
    loop,
    mul,
    op,
    place,
    read,
    shared,
    store,
    var,
    when,
)
from programs import random_program

from pydp.errors import UnsupportedOnDevice
from pydp.lang import ir
from pydp.lang.execute import host
from pydp.lang.opencl.lowered import group_counts, launch_shape
from pydp.lang.opencl.simt import LOWERING

BOOL = np.dtype(np.bool_)


def device_and_host(device, made, arrays, extent, offset=None, parameters=(), **options):
    ours, theirs = [a.copy() for a in arrays], [a.copy() for a in arrays]
    device_run.run(device, LOWERING.lower(made, device.profile, **options), ours, parameters, extent, offset)
    host.run(made, extent, offset, theirs, parameters)
    for one, other in zip(ours, theirs, strict=True):
        np.testing.assert_array_equal(one, other)
    return ours


def staged_sum():
    """Each row of a group's local field is summed by every lane of it."""
    a, b = array("a", F32, 2, 0, writable=False, fill=-2.5), array("b", F32, 2, 1)
    slots, total, k = shared("slots", 4, 8, dtype=F32), var("total", F32), var("k")
    body = [
        store(slots, (local(0), local(1)), load(a, place(0), place(1))),
        barrier(),
        assign(total, c(0.0, F32)),
        loop(k, 0, 8, [assign(total, op("add", read(total), load(slots, local(0), read(k))))]),
        store(b, (place(0), place(1)), read(total)),
    ]
    return function(body, group=(4, 8), rank=2, arrays=[a, b], locals=[slots], variables=[total, k])


@pytest.mark.oclgrind
def test_local_field_and_barrier_with_partial_groups(device):
    made = staged_sum()
    rng = np.random.default_rng(1)
    for extent in ((4, 8), (5, 9), (3, 7), (9, 17)):
        a = rng.random((9, 17)).astype(np.float32)
        b = np.full((9, 17), -1, np.float32)
        _, out = device_and_host(device, made, [a, b], extent)
        assert (out[extent[0] :] == -1).all() and (out[:, extent[1] :] == -1).all()


def test_fill_outside_and_grid_offset(device):
    a, b = array("a", I32, 1, 0, writable=False, fill=7), array("b", I32, 1, 1)
    made = function([store(b, (place(),), add(load(a, add(place(), -3)), mul(place(), 100)))], arrays=[a, b])
    values, out = np.arange(10, dtype=np.int32), np.full(30, -1, np.int32)
    _, got = device_and_host(device, made, [values, out], (9,), (5,))
    want = np.full(30, -1)
    for i in range(5, 14):
        want[i] = (values[i - 3] if 0 <= i - 3 < 10 else 7) + 100 * i
    np.testing.assert_array_equal(got, want)


@pytest.mark.parametrize("rank", range(7))
def test_every_rank(device, rank):
    a = array("a", I32, rank, 0)
    index = tuple(place(axis) for axis in range(rank))
    value: ir.Expr = c(1)
    for axis in range(rank):
        value = add(mul(value, 10), place(axis))
    made = function([store(a, index, value)], rank=rank, arrays=[a])
    shape = (3, 2, 4, 2, 3, 5)[:rank]
    want = np.ones(shape, np.int64)
    for axis in range(rank):
        want = want * 10 + np.arange(shape[axis]).reshape((-1,) + (1,) * (rank - 1 - axis))
    for flat in (False, True):
        out = np.zeros(shape, np.int32)
        grouped = replace(made, group=LOWERING.pick_group(rank, shape, device.profile))
        device_run.run(device, LOWERING.lower(grouped, device.profile, flat=flat), [out], (), shape)
        np.testing.assert_array_equal(out, want)


def runs_here(device, made):
    """Whether the driver runs the function's barriers rightly, as the lowering sees it."""
    try:
        LOWERING.lower(made, device.profile)
    except UnsupportedOnDevice:
        return False
    return True


@pytest.mark.sweep
def test_random_programs(device):
    assert sum(runs_like_the_host(device, seed) for seed in range(30)) >= 10


@pytest.mark.parametrize("seed", [82, 189, 204, 336, 568, 621])
def test_private_arrays_of_lanes_that_go_different_ways(device, seed):
    """One driver read them at places that no lane asked for, which ended the process."""
    runs_like_the_host(device, seed)


def runs_like_the_host(device, seed):
    """Whether the device runs a random program; its results must then equal the host's."""
    made = random_program(seed)
    if not runs_here(device, made.function):
        return False
    ours, theirs = made.fresh(), made.fresh()
    device_run.run(
        device, LOWERING.lower(made.function, device.profile), ours, made.parameters, made.extent, made.offset
    )
    host.run(made.function, made.extent, made.offset, theirs, made.parameters)
    for one, other in zip(ours, theirs, strict=True):
        np.testing.assert_array_equal(one, other, err_msg=f"seed {seed}")
    return True


def test_loops_count_as_python_does(device):
    """Every start, stop and step; the counter apart from the variable; break and continue."""
    a, limits, k, n = array("a", I32, 2, 0), array("limits", I32, 2, 1, writable=False), var("k"), var("n")
    bounds = [load(limits, place(0), c(axis)) for axis in range(3)]
    body = [
        assign(n, 0),
        loop(
            k,
            bounds[0],
            bounds[1],
            [
                when(cmp("eq", read(k), 5), [ir.Continue(ir.NOWHERE)]),
                when(cmp("gt", read(n), 6), [ir.Break(ir.NOWHERE)]),
                store(a, (place(0), read(n)), read(k)),
                assign(n, add(read(n), 1)),
                assign(k, 100),
            ],
            step=bounds[2],
        ),
    ]
    made = function(body, arrays=[a, limits], variables=[k, n])
    cases = [(0, 4, 1), (0, 20, 1), (3, -9, -2), (5, 5, 1), (2, 1, 1), (1, 2, -1), (-7, 8, 3)]
    cases.append((2**31 - 3, 2**31 - 1, 2))
    got, _ = device_and_host(device, made, [np.full((8, 9), -1, np.int32), np.array(cases, np.int32)], (8,))
    for row, (start, stop, step) in zip(got, cases, strict=True):
        want = [value for value in range(start, stop, step) if value != 5][:7]
        assert list(row[: len(want)]) == want and (row[len(want) :] == -1).all()


@pytest.mark.oclgrind
def test_atomics(device):
    data = array("data", I32, 1, 0, writable=False)
    counts, extremes, sums = array("counts", I32, 1, 1), array("extremes", I32, 1, 2), array("sums", F32, 1, 3)
    bins = shared("bins", 4)
    value = load(data, place())
    body = [
        when(cmp("lt", local(), 4), [store(bins, (local(),), 0)]),
        barrier(),
        ir.Atomic(ir.NOWHERE, "add", bins, (op("mod", value, 4),), c(1)),
        barrier(),
        when(cmp("lt", local(), 4), [ir.Atomic(ir.NOWHERE, "add", counts, (local(),), load(bins, local()))]),
        ir.Atomic(ir.NOWHERE, "max", extremes, (c(0),), value),
        ir.Atomic(ir.NOWHERE, "min", extremes, (c(1),), value),
        ir.Atomic(ir.NOWHERE, "add", sums, (c(0),), ir.Cast(F32, value)),
    ]
    made = function(body, group=(8,), arrays=[data, counts, extremes, sums], locals=[bins])
    given = np.random.default_rng(2).integers(-50, 50, 21).astype(np.int32)
    empty = [np.zeros(4, np.int32), np.zeros(2, np.int32), np.zeros(1, np.float32)]
    _, got, reach, total = device_and_host(device, made, [given, *empty], (21,))
    np.testing.assert_array_equal(got, np.bincount(given % 4, minlength=4))
    assert list(reach) == [given.max(), given.min()] and total[0] == given.sum()


def test_records_are_loaded_stored_and_selected(device):
    body_type = np.dtype([("x", np.float32), ("n", np.int16), ("alive", np.bool_)])
    a, b = array("a", body_type, 1, 0, writable=False), array("b", body_type, 1, 1)
    r = ir.Variable("r", body_type)
    whole = ir.Load(body_type, a, (place(),))
    member = ir.Member(F32, ir.Load(body_type, a, (add(place(), 1),)), "x")
    made_record = ir.MakeRecord(body_type, (member, c(3, np.int16), c(True, BOOL)))
    body = [
        assign(r, ir.Select(body_type, ir.Member(BOOL, whole, "alive"), whole, made_record)),
        ir.Assign(ir.NOWHERE, r, ir.Binary(F32, "mul", ir.Member(F32, read(r), "x"), c(2.0, F32)), ("x",)),
        store(b, (place(),), read(r)),
        ir.Store(ir.NOWHERE, b, (place(),), cmp("gt", place(), 2), ("alive",)),
    ]
    made = function(body, arrays=[a, b], variables=[r])
    given = np.zeros(6, body_type)
    given["x"], given["n"], given["alive"] = np.arange(6), np.arange(6) - 3, [1, 0, 1, 0, 0, 1]
    device_and_host(device, made, [given, np.zeros(6, body_type)], (6,))


def test_barriers_that_the_driver_miscompiles_are_refused(device):
    a = array("a", I32, 1, 0)
    slots, v = shared("slots", 4), var("v")
    inside = function(
        [
            assign(v, c(0)),
            store(slots, [local()], local()),
            when(cmp("gt", ir.ArrayExtent(I32, a, 0), 4), [barrier(), assign(v, load(slots, op("sub", 3, local())))]),
            store(a, (place(),), read(v)),
        ],
        group=(4,), arrays=[a], locals=[slots], variables=[v],
    )  # fmt: skip
    if device.profile.barriers_under_conditions:
        device_and_host(device, inside, [np.zeros(8, np.int32)], (8,))
    else:
        with pytest.raises(UnsupportedOnDevice, match="under a condition"):
            LOWERING.lower(inside, device.profile)


@pytest.mark.host
def test_picked_groups_and_launch_shapes():
    from types import SimpleNamespace

    profile = SimpleNamespace(max_group_size=1024)
    assert LOWERING.pick_group(0, (), profile) == ()
    assert LOWERING.pick_group(1, (10**6,), profile) == (256,)
    assert LOWERING.pick_group(1, (3,), profile) == (4,)
    assert LOWERING.pick_group(2, (1000, 1000), profile) == (8, 32)
    assert LOWERING.pick_group(2, (1, 10**6), profile) == (1, 256)
    assert LOWERING.pick_group(2, (10**6, 2), profile) == (128, 2)
    assert LOWERING.pick_group(3, (50, 50, 50), profile) == (1, 8, 32)
    assert group_counts((10, 3), (4, 3)) == (3, 1)
    made = SimpleNamespace(group=(2, 3, 4), work_items=(2, 3, 4), flat=False)
    assert launch_shape(made, (5, 6, 7)) == ((8, 6, 6), (4, 3, 2))
    made.flat = True
    assert launch_shape(made, (5, 6, 7)) == ((24 * 12, 1, 1), (24, 1, 1))
    made.work_items, made.flat = (1, 1, 1), False
    assert launch_shape(made, (5, 6, 7)) == ((2, 2, 3), (1, 1, 1))
