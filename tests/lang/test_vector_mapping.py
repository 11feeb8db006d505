"""The lowering for CPUs (a group to a work-item, lanes in vectors) against NumPy, plain Python and the host."""

from __future__ import annotations

import re
from dataclasses import replace

import device_run
import numpy as np
import pytest
from builder import (
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
    mod,
    mul,
    op,
    place,
    private,
    read,
    shared,
    store,
    var,
    when,
)
from lowering_cases import cases, device_and_host, lowering_for, unit
from programs import random_program

import pydp
from pydp.errors import UnsupportedOnDevice
from pydp.lang import ir
from pydp.lang.analysis.regions import split
from pydp.lang.compile import translate
from pydp.lang.execute import host
from pydp.lang.opencl import vector as vector_lowering
from pydp.lang.opencl.unroll import unroll
from pydp.lang.opencl.vector.layout import StripLayout, pick_rows, pick_width
from pydp.lang.opencl.vector.variance import Variance, Variances
from pydp.runtime.device.profile import Profile

BOOL, F64, I64 = np.dtype(np.bool_), np.dtype(np.float64), np.dtype(np.int64)
CASES = cases()


@pytest.fixture
def lower(device):
    return lowering_for(device)


def check_case(device, lower, case, launches=None, **options):
    made = translate(case.function, len(case.launches[0][0]), case.group, case.types)
    if options.get("unit_strides"):
        options["unit_strides"] = unit(made)
    lowered = lower(made, **options)
    for extent, arrays, parameters, expected in case.launches[:launches]:
        got = [a.copy() for a in arrays]
        device_run.run(device, lowered, got, parameters, extent)
        for one, want in zip(got, expected, strict=True):
            np.testing.assert_array_equal(one, want)


@pytest.mark.parametrize("case", CASES, ids=[case.name for case in CASES])
def test_cases(device, lower, case):
    check_case(device, lower, case, unit_strides=True)


@pytest.mark.parametrize("name", ["mxm_naive", "mxm_tiled", "mxm_blocked", "stencil"])
def test_cases_with_unknown_strides(device, lower, name):
    check_case(device, lower, next(case for case in CASES if case.name == name))


@pytest.mark.oclgrind
@pytest.mark.parametrize("name", ["tree_sum", "histogram", "prefix", "jumps"])
def test_small_cases(device, lower, name):
    check_case(device, lower, next(case for case in CASES if case.name == name), launches=1)


def compare(device, made, lowered):
    ours, theirs = made.fresh(), made.fresh()
    device_run.run(device, lowered, ours, made.parameters, made.extent, made.offset)
    host.run(made.function, made.extent, made.offset, theirs, made.parameters)
    for one, other in zip(ours, theirs, strict=True):
        np.testing.assert_array_equal(one, other)


@pytest.mark.parametrize("seed", range(100, 107))
def test_random_programs(device, lower, seed):
    made = random_program(seed)
    compare(device, made, lower(made.function, unit_strides=unit(made.function)))


def test_random_programs_with_rows_side_by_side(device, lower, monkeypatch):
    def rows(nodes, layout, profile):
        return replace(layout, rows=pick_rows(layout.row_extent, 4))

    monkeypatch.setattr(vector_lowering, "pick_layout_rows", rows)
    for seed in (207, 229, 331):
        made = random_program(seed)
        assert len(made.extent) == 2
        compare(device, made, lower(made.function))


@pytest.mark.huge
@pytest.mark.parametrize("seed", range(1000, 1200))
def test_many_random_programs(device, lower, seed, monkeypatch):
    made = random_program(seed)
    compare(device, made, lower(made.function, unit_strides=unit(made.function)))
    monkeypatch.setattr(
        vector_lowering, "pick_layout_rows", lambda nodes, layout, profile: replace(layout, rows=layout.row_extent)
    )
    compare(device, made, lower(made.function))


@pytest.mark.parametrize("rank", range(7))
def test_every_rank(device, lower, rank):
    a = array("a", I32, rank, 0)
    value: ir.Expr = c(1)
    for axis in range(rank):
        value = add(mul(value, 10), place(axis))
    made = function([store(a, tuple(place(axis) for axis in range(rank)), value)], rank=rank, arrays=[a])
    shape = (3, 2, 4, 2, 3, 5)[:rank]
    want = np.ones(shape, np.int64)
    for axis in range(rank):
        want = want * 10 + np.arange(shape[axis]).reshape((-1,) + (1,) * (rank - 1 - axis))
    grouped = replace(made, group=vector_lowering.LOWERING.pick_group(rank, shape, device.profile))
    ways = [(grouped, {"unit_strides": unit(made)}), *([(made, {"flat": True})] if rank % 3 == 0 else [])]
    for one, options in ways:
        out = np.zeros(shape, np.int32)
        device_run.run(device, lower(one, **options), [out], (), shape)
        np.testing.assert_array_equal(out, want)


def test_lanes_outside_the_grid(device, lower):
    """They fetch for others; their stores and atomic updates are dropped."""
    a, b, count = array("a", I32, 2, 0, writable=False, fill=-7), array("b", I32, 2, 1), array("count", I32, 1, 2)
    slots = shared("slots", 4, 8)
    body = [
        store(slots, (local(0), local(1)), load(a, place(0), place(1))),
        barrier(),
        store(b, (place(0), place(1)), load(slots, op("sub", 3, local(0)), op("sub", 7, local(1)))),
        ir.Atomic(ir.NOWHERE, "add", count, (c(0),), c(1)),
        ir.Atomic(ir.NOWHERE, "max", slots, (c(0), c(0)), c(5)),
    ]
    made = function(body, group=(4, 8), rank=2, arrays=[a, b, count], locals=[slots])
    given = np.random.default_rng(1).integers(0, 99, (9, 17)).astype(np.int32)
    for extent, offset in (((4, 8), None), ((5, 9), None), ((3, 7), (2, 1)), ((9, 17), (0, 0))):
        arrays = [given, np.full((9, 17), -1, np.int32), np.zeros(1, np.int32)]
        out = device_and_host(device, lower(made, unit_strides=unit(made)), made, arrays, extent, offset)
        assert out[2][0] == np.prod(extent)


def test_bounds_of_a_choice_between_a_local_and_a_global_index(device, lower):
    """All C text of bounds has type long, because OpenCL C has no `min` of an int and a long."""
    a, out = array("a", I32, 1, 0, writable=False), array("out", I32, 1, 1)
    chosen = ir.Select(I32, cmp("lt", ir.GridExtent(I32, 0), 30), local(0), place(0))
    made = function([store(out, (place(),), load(a, chosen))], group=(8,), arrays=[a, out])
    given = np.arange(50, 90, dtype=np.int32)
    for size in (21, 40):
        ours = device_and_host(device, lower(made), made, [given, np.zeros(40, np.int32)], (size,))[1]
        np.testing.assert_array_equal(ours[:size], np.resize(given[:8], size) if size < 30 else given)


@pytest.mark.oclgrind
def test_private_arrays_that_live_across_barriers(device, lower):
    """One indexed by lanes' own values, one by constants of a written-out loop; kept for several blocks of a group."""
    a, out = array("a", I32, 1, 0, writable=False), array("out", I32, 1, 1)
    loose, fixed, slots = private("loose", 5), private("fixed", 3), shared("slots", 16)
    k, t, total = var("k"), var("t"), var("total")
    body = [
        loop(k, 0, 5, [store(loose, (read(k),), mul(read(k), local()))]),
        loop(k, 0, 3, [store(fixed, (read(k),), add(read(k), load(a, place())))]),
        loop(
            t,
            0,
            2,
            [
                store(slots, (local(),), load(loose, mod(add(local(), read(t)), 5))),
                barrier(),
                store(loose, (mod(local(), 5),), load(slots, op("sub", 15, local()))),
                loop(k, 0, 3, [store(fixed, (read(k),), add(load(fixed, read(k)), load(slots, read(k))))]),
                barrier(),
            ],
        ),
        assign(total, load(loose, mod(local(), 5))),
        loop(k, 0, 3, [assign(total, add(mul(read(total), 31), load(fixed, read(k))))]),
        store(out, (place(),), add(read(total), read(k))),
    ]
    made = function(
        body, group=(16,), arrays=[a, out], locals=[slots], privates=[loose, fixed], variables=[k, t, total]
    )
    given = np.random.default_rng(6).integers(-9, 9, 40).astype(np.int32)
    for profile in (device.profile, replace(device.profile, simd_bytes=16)):
        lowered = vector_lowering.LOWERING.lower(made, profile)
        device_and_host(device, lowered, made, [given, np.zeros(40, np.int32)], (40,))


def test_shared_control_flow_around_barriers(device, lower):
    """Conditions, and while loops with break and continue, that hold barriers; values of the group that change."""
    a, out = array("a", I32, 1, 0, writable=False), array("out", I32, 1, 1)
    slots, n, total = shared("slots", 8), var("n"), var("total")
    iteration = [
        assign(n, add(read(n), 1)),
        when(cmp("eq", mod(read(n), 3), 1), [ir.Continue(ir.NOWHERE)]),
        barrier(),
        store(slots, (local(),), add(read(total), read(n))),
        barrier(),
        assign(total, add(read(total), load(slots, mod(add(local(), read(n)), 8)))),
        when(cmp("gt", mul(read(n), read(n)), ir.Parameter(I32, "p", 2)), [barrier(), ir.Break(ir.NOWHERE)]),
    ]
    body = [
        assign(n, c(0)),
        assign(total, load(a, place())),
        ir.While(ir.NOWHERE, cmp("lt", read(n), 9), iteration),
        ir.If(
            ir.NOWHERE,
            cmp("gt", read(n), 5),
            [barrier(), assign(total, mul(read(total), 2))],
            [assign(total, op("sub", read(total), read(n)))],
        ),
        store(out, (place(),), add(mul(read(total), 10), read(n))),
    ]
    parameter = ir.Parameter(I32, "p", 2)
    made = function(body, group=(8,), arrays=[a, out], locals=[slots], variables=[n, total], parameters=[parameter])
    given = np.random.default_rng(8).integers(-9, 9, 21).astype(np.int32)
    for profile in (device.profile, replace(device.profile, simd_bytes=16)):
        lowered = vector_lowering.LOWERING.lower(made, profile)
        for p in (0, 20, 1000):
            device_and_host(device, lowered, made, [given, np.zeros(21, np.int32)], (21,), None, {2: p})


def test_loops_count_as_python_does(device, lower):
    """Every start, stop and step by lane; the counter apart from the variable; break and continue."""
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
    steps = [
        (0, 4, 1),
        (0, 20, 1),
        (3, -9, -2),
        (5, 5, 1),
        (2, 1, 1),
        (1, 2, -1),
        (-7, 8, 3),
        (2**31 - 3, 2**31 - 1, 2),
    ]
    arrays = [np.full((8, 9), -1, np.int32), np.array(steps, np.int32)]
    got, _ = device_and_host(device, lower(made), made, arrays, (8,))
    for row, (start, stop, step) in zip(got, steps, strict=True):
        want = [value for value in range(start, stop, step) if value != 5][:7]
        assert list(row[: len(want)]) == want and (row[len(want) :] == -1).all()


# --- without a device ------------------------------------------------------------------------------------------------


@pytest.mark.host
def test_shapes():
    assert [pick_width(n, 16) for n in (16, 64, 24, 20, 5, 1, 17)] == [16, 16, 8, 4, 8, 4, 16]
    assert [pick_width(n, 8) for n in (16, 20, 5, 9)] == [8, 4, 8, 8]
    assert [pick_rows(16, n) for n in (16, 12, 3, 1)] == [16, 8, 2, 1] and pick_rows(13, 8) == 1
    layout = StripLayout((3, 8, 20), 16, 4, False)
    assert (layout.strips, layout.blocks, layout.whole, layout.row_axis) == (2, 12, False, 1)
    assert StripLayout((), 4, 1, True).blocks == 1 and StripLayout((16, 16), 16, 16, False).single


class _Profile:
    compute_units, vector_registers, simd_bytes = 2, 32, 64


@pytest.mark.host
def test_picked_groups():
    pick = vector_lowering.LOWERING.pick_group
    assert pick(0, (), _Profile) == ()
    assert pick(1, (10**7,), _Profile) == (2048,) and pick(1, (3,), _Profile) == (4,)
    assert pick(2, (4000, 4000), _Profile) == (8, 256) and pick(3, (50, 50, 50), _Profile) == (1, 8, 64)
    assert pick(2, (10**6, 3), _Profile)[1] == 4


@pytest.mark.host
def test_variances():
    """Indexes are scalars with a step; a variable set under a divergent condition is a vector if it is read outside."""
    layout = StripLayout((8, 32), 16, 4, False)
    x, y, z, s = (var(n) for n in "xyzs")
    body = [
        assign(x, add(mul(local(1), 3), local(0))),
        assign(s, c(0)),
        when(
            cmp("gt", local(1), 4),
            [assign(y, add(local(1), 1)), assign(z, read(y)), assign(s, add(read(s), 1))],
        ),
    ]
    nodes = split(body)
    found = Variances(nodes, layout).variables
    assert found["x"] == Variance(3, True, True) and found["y"].step == 1 and found["z"].step == 1
    assert found["s"].step is None and not found["s"].varies_by_row


@pytest.mark.host
def test_small_loops_are_written_out():
    mine, k, n = private("mine", 4), var("k"), var("n")
    inner = loop(k, 0, 4, [store(mine, (add(mul(read(k), 1), 0),), read(n))])
    flat = unroll([loop(n, 0, 100, [inner]), assign(var("last"), read(k))])
    stores = [s for s in ir.statements(flat) if isinstance(s, ir.Store)]
    assert [s.indices[0].value for s in stores] == [0, 1, 2, 3]
    assert isinstance(flat[0], ir.For) and isinstance(flat[0].body[-1], ir.Assign)
    assert isinstance(unroll([loop(k, 0, 17, inner.body)])[0], ir.For)


def _profile(**changes):
    from types import SimpleNamespace

    given = {"compute_units": 2, "vector_registers": 32, "simd_bytes": 64, "loop_limit": None, "int64_atomics": True}
    given["is_simulator"] = False
    given |= {"cache_line": 64, "nontemporal_bytes": None}
    return SimpleNamespace(**(given | changes))


@pytest.mark.host
def test_refusals():
    a = array("a", I32, 1, 0)
    plain = function([store(a, (place(),), 1)], arrays=[a])
    with pytest.raises(UnsupportedOnDevice, match="65535"):
        vector_lowering.LOWERING.lower(plain, _profile(loop_limit=65535))
    wide = array("wide", I64, 1, 0)
    update = function([ir.Atomic(ir.NOWHERE, "add", wide, (c(0),), c(1, I64))], arrays=[wide])
    with pytest.raises(UnsupportedOnDevice, match="64-bit"):
        vector_lowering.LOWERING.lower(update, _profile(int64_atomics=False))
    large = shared("large", 1 << 20)
    greedy = function([store(large, (local(),), 1), barrier()], group=(4,), locals=[large])
    with pytest.raises(UnsupportedOnDevice, match="bytes in each group"):
        vector_lowering.LOWERING.lower(greedy, _profile())


@pytest.mark.host
def test_what_the_fast_version_of_a_product_does():
    """Unrolled rows, whole vectors, no guard inside; both are in the text."""
    case = next(case for case in CASES if case.name == "mxm_tiled")
    made = translate(case.function, 2, case.group, case.types)
    lowered = vector_lowering.LOWERING.lower(made, _profile(), unit(made))
    text = str(lowered.params["body"])
    assert "16 rows unrolled" in " ".join(lowered.notes) and "ADJACENT(float16" in text and "v_acc_r15" in text
    assert len(lowered.barriers) == 2 and lowered.local_bytes == 0


def strip_lanes(explanation: str) -> int:
    (lanes,) = re.findall(r"strips of (\d+) lanes", explanation)
    return int(lanes)


@pytest.mark.parametrize("dtype", ["f4", "i8"])
def test_stores_past_the_caches(device, monkeypatch, dtype):
    if device.profile.nontemporal_bytes is None:
        pytest.skip("the device has no nontemporal stores")
    monkeypatch.setattr(Profile, "nontemporal_bytes", 4000)

    def copies(idx, out, again, summed, a):
        i, j = idx
        out[i, j] = 2 * a[i, j]
        again[i, j] = a[i, j] + again[i, j]
        for k in range(3):
            summed[i, j] = a[i, j] + k

    # The small array is stored through the caches, and so are strips that no cache line holds alone: the rows of 67
    # elements, and the rest of each row.
    for rows, columns, start in ((3, 64, 0), (40, 64, 0), (40, 67, 0), (40, 64, 1)):
        a = np.random.default_rng(0).integers(0, 99, (rows, columns)).astype(dtype)
        around = np.full((3, rows * columns + 40), 7, dtype)
        fields = [pydp.field(row) for row in around]
        out, again, summed = [f[start : start + a.size].reshape(a.shape) for f in fields]
        pydp.forall(a.shape, copies, out, again, summed, pydp.field(a))
        for row, value in zip(around, (2 * a, a + 7, a + 2), strict=True):
            row[start : start + a.size] = value.ravel()
        assert all(np.array_equal(f.get(), row) for f, row in zip(fields, around, strict=True)), (rows, columns, start)
    notes = str(pydp.explain(pydp.forall, a.shape, copies, out, again, summed, pydp.field(a)))
    whole_lines = strip_lanes(notes) * a.itemsize == device.profile.cache_line
    assert ("stores to out do not go through the caches" in notes) == whole_lines


@pytest.mark.usefixtures("nontemporal")
@pytest.mark.parametrize("n", [64, 5000])
def test_arrays_that_are_loaded_are_stored_through_the_caches(device, n):
    """They are known only in the kernel: the same function may be called with one array or with two."""

    def doubled(idx, out, a, factor):
        out[idx] = a[idx] * factor[0]

    a, factor = np.random.default_rng(n).integers(0, 99, n).astype(np.int32), pydp.field(np.full(1, 2, np.int32))
    x, y = pydp.field(a), pydp.zeros(n, np.int32)
    pydp.forall(n, doubled, y, x, factor)
    pydp.forall(n, doubled, x, x, factor)
    assert np.array_equal(y.get(), 2 * a) and np.array_equal(x.get(), 2 * a)
    explanation = pydp.explain(pydp.forall, n, doubled, y, x, factor)
    if strip_lanes(str(explanation)) * a.itemsize < device.profile.cache_line:
        pytest.skip("the device's vectors are shorter than its cache lines: no store goes past the caches")
    source = explanation.sources["forall_vector.mako"]
    (condition,) = re.findall(r"const int a0_out_past_caches = (.*);", source)
    assert "(ulong)a0_out != (ulong)a1_a && (ulong)a0_out != (ulong)a2_factor" in condition
