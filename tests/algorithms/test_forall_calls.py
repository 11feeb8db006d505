"""forall's call site: kinds of arguments, memory, queues, kept kernels, errors, explanations."""

from __future__ import annotations

import threading
from functools import partial

import numpy as np
import pyopencl as cl
import pyopencl.array
import pytest
from forall_kernels import copy, mxm_tiled, stencil
from hypothesis import given, settings
from hypothesis import strategies as st
from threads import together

import pydp
from pydp.algorithms.forall import plan as forall_plan
from pydp.errors import InvalidArgument, UnsupportedOnDevice
from pydp.lang.ir.diagnostics import VectorError


@pydp.vector
def scale(idx, a, factor):
    a[idx] = a[idx] * factor


@pydp.vector
def add_shifted(idx, out, a):
    out[idx] = out[idx] + a[idx]


@pydp.vector
def lift(idx, a, out):
    out[idx] = a[idx] + 1


# --- views of views ----------------------------------------------------------------------------------------


def test_views_of_views(device):
    """NumPy's own views give the expected result of every composition, also for device data."""

    @settings(max_examples=30)
    @given(st.integers(0, 2**31))
    def check(seed):
        base = np.arange(11 * 13, dtype=np.int32).reshape(11, 13)
        views = []
        for start in (base, pydp.field(base)):
            rng = np.random.default_rng(seed)
            view = start
            for _ in range(int(rng.integers(1, 5))):
                view = random_step(rng, view)
            views.append(view)
        shape = views[0].shape
        spec = {"group": (4, 8)[2 - len(shape) :]}  # one group for all sizes: few kernels, many data
        ours, theirs = np.zeros(shape, np.int32), pydp.zeros(shape, np.int32)
        pydp.forall(shape, copy, ours, views[0], spec=spec)
        np.testing.assert_array_equal(ours, views[0])
        pydp.forall(shape, copy, theirs, views[1], spec=spec)
        np.testing.assert_array_equal(theirs.get(), views[0])
        pydp.forall(shape, copy, views[1], theirs * 2, spec=spec)
        np.testing.assert_array_equal(views[1].get(), np.asarray(views[0]) * 2)

    check()


def random_step(rng, view):
    rank = len(view.shape)
    choice = rng.choice(["section", "T", "flip", "project" if rank == 2 and view.shape[0] else "step"])
    if choice == "T" or rank == 0:
        return view.T
    if choice in ("flip", "step"):
        return view[:: -1 if choice == "flip" else int(rng.integers(1, 4))]
    if choice == "project":
        return pydp.project(view, 0, int(rng.integers(0, view.shape[0])))
    start = [int(rng.integers(0, size + 1)) for size in view.shape]
    sizes = [int(rng.integers(0, size - low + 1)) for size, low in zip(view.shape, start, strict=True)]
    return pydp.section(view, start, sizes)


# --- memory ------------------------------------------------------------------------------------------------


def test_kinds_of_arrays(device):
    a = np.arange(12, dtype=np.int32).reshape(3, 4)
    assert pydp.forall(a.shape, scale, a, 2) is None
    field = pydp.field(a)
    event = pydp.forall(field, scale, field, 3)
    assert isinstance(event, cl.Event)
    np.testing.assert_array_equal(field.get(), np.arange(12).reshape(3, 4) * 6)
    array = cl.array.to_device(device.queue, a)
    assert isinstance(pydp.forall(array.shape, scale, array, 5), cl.Event)
    np.testing.assert_array_equal(array.get(), a * 5)
    mixed = np.zeros((3, 4), np.int32)
    pydp.forall(mixed.shape, copy, mixed, field)
    np.testing.assert_array_equal(mixed, field.get())
    pydp.forall(field, copy, field, a[::-1])
    np.testing.assert_array_equal(field.get(), a[::-1])


def test_strange_numpy_arrays_are_written_too(device):
    for start in (
        np.arange(10, dtype=">i4"),
        np.arange(20, dtype=np.int32)[::-2],
        np.frombuffer(bytearray(b"\1" + np.arange(10, dtype=np.int32).tobytes()), np.int32, 10, 1),
        np.asfortranarray(np.arange(12, dtype=np.int32).reshape(3, 4)),
    ):
        want = start * 3
        pydp.forall(start.shape, scale, start, 3)
        np.testing.assert_array_equal(start, want)


def test_one_array_twice_and_overlapping_ones(device):
    for make in (np.array, pydp.field):
        a = make(np.arange(10, dtype=np.int32))
        pydp.forall((10,), add_shifted, a, a)
        np.testing.assert_array_equal(np.asarray(a), np.arange(10) * 2)
        pydp.forall((5,), add_shifted, a[:5], a[5:])
        np.testing.assert_array_equal(np.asarray(a)[:5], np.arange(5) * 2 + np.arange(5, 10) * 2)
        pydp.forall((5,), add_shifted, a[:5], a[5:], device="host")
        np.testing.assert_array_equal(np.asarray(a)[:5], np.arange(5) * 2 + np.arange(5, 10) * 4)


def test_results_on_the_host_for_every_kind(device):
    a = np.arange(12, dtype=np.int32)
    for data in (a.copy(), pydp.field(a), cl.array.to_device(device.queue, a), a.astype(">i4")):
        assert pydp.forall((12,), scale, data, -2, device="host") is None
        got = data.get() if hasattr(data, "get") else data
        np.testing.assert_array_equal(got, a * -2)


def test_the_order_of_arguments_does_not_make_a_call_wait(device):
    a, out = np.arange(10, dtype=np.int32), pydp.zeros(10, np.int32)
    gate = cl.UserEvent(device.context)
    cl.enqueue_marker(device.queue, wait_for=[gate])
    event = pydp.forall(10, lift, a, out)
    a[:] = -1  # what the call reads is its own
    gate.set_status(cl.command_execution_status.COMPLETE)
    event.wait()
    np.testing.assert_array_equal(out.get(), np.arange(10) + 1)
    assert pydp.forall(10, lift, out, a) is None
    np.testing.assert_array_equal(a, np.arange(10) + 2)


def test_queues_and_events(device):
    queue = cl.CommandQueue(device.context, device.cl)
    a = pydp.field(np.ones(1000, np.int32))
    gate = cl.UserEvent(device.context)
    threading.Timer(0.05, gate.set_status, (cl.command_execution_status.COMPLETE,)).start()
    event = pydp.forall(a, scale, a, 7, queue=queue, wait_for=[gate])
    pydp.forall(a, scale, a, 3)
    assert (a.get() == 21).all()
    event.wait()


# --- kept kernels ------------------------------------------------------------------------------------------


def test_closures_are_part_of_a_functions_content(device):
    def make(by):
        def work(idx, a):
            a[idx] = a[idx] + by

        return work

    a = np.zeros(3, np.int32)
    for by in (1, 10, 100, 1):
        pydp.forall((3,), make(by), a)
    assert a.tolist() == [112] * 3
    amount = 5

    def again(idx, a):
        a[idx] = a[idx] + amount

    pydp.forall((3,), again, a)
    amount = 1000
    pydp.forall((3,), again, a)
    assert a.tolist() == [1117] * 3


def test_calls_of_one_description_share_a_kernel(device):
    a = pydp.zeros((40, 40), np.float32)
    for size in (17, 25, 33, 40):
        part = a[:size, :size]
        pydp.forall(part, scale, part, float(size))
    made = [one for one in forall_plan._translations.alive() if one.function.name == "scale"]
    plans = [[plan for plan in device.plans.alive() if getattr(plan, "translation", None) is one] for one in made]
    assert any(len(of_one) >= 4 and len({id(plan.kernel) for plan in of_one}) <= 2 for of_one in plans)


def test_large_python_integers_choose_64_bits(device):
    out = np.zeros(2, np.int64)

    def work(idx, out, number):
        out[idx] = number + idx[0]

    for number in (5, -3, 2**31 - 5, 2**40, -(2**62)):
        pydp.forall((2,), work, out, number)
        assert out.tolist() == [number, number + 1]


def test_threads_do_not_mix_their_functions(device):
    def work(amount):
        def add(idx, a):
            a[idx] = a[idx] + amount

        for _ in range(10):
            a = np.zeros(50, np.int32)
            pydp.forall(a.shape, add, a, device=device)
            assert (a == amount).all()

    assert not together(partial(work, amount) for amount in range(4))


# --- errors ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("grid", "arguments", "options", "message"),
    [
        ((4,), ([1, 2],), {}, "argument 0"),
        ((4,), ("text",), {}, "argument 0"),
        ((4,), (None,), {}, "argument 0"),
        ((4,), (np.zeros(4, object), 2), {}, "object"),
        ((4,), (np.zeros(4, "U3"), 2), {}, "dtype"),
        ((4,), (np.zeros(4, np.int32), 1 + 2j), {}, "argument 1"),
        ((4,), (np.zeros(4, np.int32), 2**70), {}, "64 bits"),
        ((-4,), (np.zeros(4, np.int32), 2), {}, "-4"),
        ("4", (np.zeros(4, np.int32), 2), {}, "grid"),
        ((1,) * 7, (np.zeros(4, np.int32), 2), {}, "7"),
        ((4,), (np.zeros(4, np.int32), 2), {"group": (2, 2)}, "group"),
        ((4,), (np.zeros(4, np.int32), 2), {"group": 0}, "group"),
        ((4,), (np.zeros(4, np.int32), 2), {"group": 10**9}, "at most 1,048,576 work-items in a group"),
        ((4,), (np.zeros(4, np.int32), 2), {"group": 2.5}, "group"),
        ((4,), (np.zeros(4, np.int32), 2), {"group": True}, "group"),
        ((True,), (np.zeros(4, np.int32), 2), {}, "grid"),
        ((4,), (np.zeros(4, np.int32), 2), {"spec": {"mapping": "warp"}}, "mapping"),
        ((4,), (np.zeros(4, np.int32), 2), {"spec": {"color": 1}}, "color"),
        ((4,), (np.zeros(4, np.int32), 2), {"spec": "simt"}, "spec"),
        ((4,), (np.zeros(4, np.int32), 2), {"spec": {1: "simt", "group": None}}, "spec of forall has no field 1"),
        ((4,), (np.zeros((4, 4), np.int32), 2), {}, "rank|axes|index"),
        ((4,), (np.zeros(4, np.int32),), {}, "argument"),
        ((4,), (pydp.read_only(np.zeros(4, np.int32)), 2), {}, "read"),
        ((4,), (np.broadcast_to(np.int32(1), 4), 2), {}, "read|stride"),
        ((4,), (np.zeros(4, np.int32), 2), {"queue": 3}, "queue"),
        ((4,), (np.zeros(4, np.int32), 2), {"wait_for": 3}, "wait_for"),
    ],
)
def test_wrong_calls(device, grid, arguments, options, message):
    with pytest.raises(InvalidArgument, match=message):
        pydp.forall(grid, scale, *arguments, **options)


@pytest.mark.parametrize(
    ("options", "message"),
    [({"queue": 3}, "queue"), ({"spec": {"color": 1}}, "color"), ({"spec": "simt"}, "spec"), ({"wait_for": 3}, "wait")],
)
def test_wrong_options_are_refused_on_the_host_too(device, options, message):
    a = np.ones(4, np.int32)
    with pytest.raises(InvalidArgument, match=message):
        pydp.forall(4, scale, a, 2, device="host", **options)
    with pydp.checked(), pytest.raises(InvalidArgument, match=message):
        pydp.forall(4, scale, a, 2, **options)
    with pydp.checked(), pytest.raises(pydp.NoUsableDevice, match="nowhere"):
        pydp.forall(4, scale, a, 2, device="nowhere")
    assert (a == 1).all()


@pytest.mark.parametrize("group", [[4], np.array([4])], ids=["list", "array"])
def test_a_spec_may_have_a_group_that_is_not_hashable(device, group):
    if isinstance(group, list):
        out = np.zeros(8, np.int32)
        pydp.forall(
            8, lift, np.arange(8, dtype=np.int32), out, device=device, spec=forall_plan.ForallSpec("simt", group)
        )
        assert out.tolist() == list(range(1, 9))
    else:
        with pytest.raises(InvalidArgument, match=r"group is array\(\[4\]\)"):
            pydp.forall(
                8, scale, np.arange(8, dtype=np.int32), 2, device=device, spec=forall_plan.ForallSpec("simt", group)
            )


def test_a_long_list_is_not_printed_whole(device):
    with pytest.raises(InvalidArgument, match=r"argument 0 is \[0, 1, .*\.\.\.\]; arrays") as caught:
        pydp.forall((4,), scale, list(range(100_000)), 2)
    assert len(str(caught.value)) < 200


def test_groups_and_local_fields_that_do_not_fit(device):
    a = np.zeros(4, np.int32)
    large = 2 * device.profile.max_group_size
    with pytest.raises(InvalidArgument, match=str(large)):
        pydp.forall((4,), scale, a, 2, group=large, spec={"mapping": "simt"})

    def greedy(idx, a):
        room = pydp.local_field(np.int32, 1 << 26)
        room[idx.local] = a[idx]
        pydp.group_barrier()
        a[idx] = room[idx.local]

    with pytest.raises(UnsupportedOnDevice, match=str(4 << 26)):
        pydp.forall((4,), greedy, a, group=4, spec={"mapping": "simt"})


@pydp.vector
def count_rounds(idx, a, rounds):
    """Loops whose length only the lane knows, one inside the other, one with a break."""
    total = 0
    n = 0
    while n < rounds[idx]:
        n += 1
        for k in range(3):
            if k + n % 2 == 2:
                break
            total += 1
    a[idx] = total


@pydp.vector
def sum_all(idx, a, ones):
    total = 0
    for k in range(ones.extent(0)):
        total += ones[k]
    a[idx] = total


def test_long_loops_are_right_or_refused(device):
    """One driver ends all loops of a work-item after so many rounds, and says nothing."""
    a, small, large = np.zeros(5, np.int32), np.array([3, 0, 200, 77, 1], np.int32), np.full(5, 100000, np.int32)
    pydp.forall((5,), count_rounds, a, small)
    np.testing.assert_array_equal(a, [sum(1 + (n % 2 == 0) for n in range(1, rounds + 1)) for rounds in small])
    many = np.ones(70000, np.int32)
    if device.profile.loop_limit is None:
        pydp.forall((5,), count_rounds, a, large)
        assert (a == 150000).all()
        pydp.forall((5,), sum_all, a, many)
        assert (a == 70000).all()
    else:
        with pytest.raises(UnsupportedOnDevice, match=str(device.profile.loop_limit)):
            pydp.forall((5,), count_rounds, a, large)
        with pytest.raises(UnsupportedOnDevice, match="70001"):
            pydp.forall((5,), sum_all, a, many)


def test_static_checks_run_before_anything_else(device):
    def racing(idx, a):
        s = pydp.local_field(np.int32, 4)
        s[idx.local] = a[idx]
        a[idx] = s[3 - idx.local[0]]

    with pytest.raises(VectorError, match=r"[Rr]ace"):
        pydp.forall((4,), racing, np.zeros(4, np.int32), group=4)

    def overwriting(idx, a):
        a[0] = idx[0]

    for where in (None, "host"):
        with pytest.raises(VectorError, match="race: lane") as told:
            pydp.forall((4,), overwriting, np.zeros(4, np.int32), device=where)
        with pytest.raises(VectorError, match="race: lane") as explained:
            pydp.explain(pydp.forall, (4,), overwriting, np.zeros(4, np.int32), device=where)
        assert str(explained.value) == str(told.value)


def test_checked_mode_watches_what_static_checks_cannot(device):
    def scatter(idx, out, where):
        out[where[idx]] = idx[0]

    out, where = pydp.zeros(4, np.int32), np.array([0, 1, 1, 3], np.int32)
    pydp.forall((4,), scatter, out, where)
    with pydp.checked(), pytest.raises(VectorError, match=r"[Rr]ace"):
        pydp.forall((4,), scatter, out, where)


# --- explanations ------------------------------------------------------------------------------------------


def test_explanations(device):
    a, c = (pydp.zeros((40, 24), np.float32) for _ in range(2))
    tiles = pydp.tile(a, (16, 16))
    for found in (
        pydp.explain(pydp.forall, c.grid, mxm_tiled, c, tiles, tiles, group=(16, 16)),
        pydp.explain(mxm_tiled, c.grid, c, tiles, tiles, group=(16, 16)),
    ):
        text = str(found)
        assert found.facts["group"] == (16, 16) and found.facts["barriers"] == 2
        assert "barrier 0" in text and "barrier 1" in text and "mapping" in text
        assert any("__kernel" in source for source in found.sources.values())
        assert "for i in range" in found.sources["typed form"]
    # A plain function is explained as forall would run it, and as the same function with the decorator.
    plain = pydp.explain(
        mxm_tiled.function if hasattr(mxm_tiled, "function") else mxm_tiled, c.grid, c, tiles, tiles, group=(16, 16)
    )
    decorated = pydp.explain(pydp.vector(mxm_tiled), c.grid, c, tiles, tiles, group=(16, 16))
    assert plain.sources == decorated.sources == found.sources and plain.facts == decorated.facts
    on_host = pydp.explain(stencil, c.grid, c, a, device="host")
    assert "stencil" in str(on_host) and on_host.facts["barriers"] == 0
    tiled_on_host = pydp.explain(mxm_tiled, c.grid, c, tiles, tiles, group=(16, 16), device="host")
    for name, value in (("group", (16, 16)), ("barriers", 2), ("local fields", "2048 bytes per group")):
        assert plain.facts[name] == tiled_on_host.facts[name] == value
    with pytest.raises(InvalidArgument):
        pydp.explain(stencil, c.grid, c, "no")
    with pytest.raises(InvalidArgument, match="stencil is explained without a grid"):
        pydp.explain(stencil)
    for wrong in (len, pydp.field, 3):
        with pytest.raises(InvalidArgument, match="cannot be explained; an algorithm of pydp or a function for"):
            pydp.explain(wrong, c)


@pytest.mark.parametrize("mapping", ["simt", "vector"])
def test_atomic_updates_of_small_integers_name_the_line(device, mapping):
    def count(idx, c):
        pydp.atomic_add(c, 0, 1)

    said = r"atomic_add does not support int16; integers and floats of 32 and 64 bits are accepted\n  File .*, in count"
    with pytest.raises(pydp.UnsupportedOnDevice, match=said):
        pydp.forall(4, count, np.zeros(1, np.int16), device=device, spec={"mapping": mapping})
