"""Recordings of calls with outputs, queues, specializations, grids, tiles and NumPy scalars."""

from __future__ import annotations

from dataclasses import replace
from functools import partial

import needs
import numpy as np
import pyopencl as cl
import pytest
import repeated_calls
from threads import together

import pydp
from pydp.algorithms.scan import ScanSpec
from pydp.space import Grid

counted, given, host = repeated_calls.counted, repeated_calls.given, repeated_calls.host
CALLS = 6


def are_repeated(device, kind):
    return kind != "numpy" or device.profile.shares_host_memory


OUTPUTS = {
    "scan": (pydp.scan, lambda x: np.cumsum(x, -1, dtype=x.dtype)),
    "scan of columns": (lambda x, **out: pydp.scan(x, axis=0, **out), lambda x: np.cumsum(x, 0, dtype=x.dtype)),
    "reduce": (lambda x, **out: pydp.reduce(x, dtype="int32", **out), lambda x: np.asarray(x.sum(dtype=np.int32))),
    "reduce rows": (lambda x, **out: pydp.reduce(x, "max", axis=1, **out), lambda x: x.max(1)),
    "sort": (pydp.sort, np.sort),
    "argsort": (pydp.argsort, lambda x: np.argsort(x, kind="stable")),
    "transpose": (pydp.transpose, lambda x: x.T.copy()),
    "matmul": (lambda x, **out: pydp.matmul(x, x, **out), lambda x: x @ x),
    "matmul that reads out": (lambda x, **out: pydp.matmul(x, x, beta=2, **out), lambda x: x @ x + 2),
}


@pytest.mark.parametrize("kind", ["field", "array", "numpy"])
@pytest.mark.parametrize("name", list(OUTPUTS))
def test_a_given_output_is_written_and_returned(device, counted, name, kind):
    function, reference = OUTPUTS[name]
    rng = np.random.default_rng(0)
    for turn in range(CALLS):
        x = rng.integers(0, 400, (40, 40)).astype(np.int32)
        want = reference(x)
        out = given(np.ones(want.shape, want.dtype), kind, device)
        assert function(given(x, kind, device), out=out, device=device) is out
        np.testing.assert_array_equal(host(out), want, err_msg=f"call {turn}")
    if are_repeated(device, kind):
        assert len(counted) == CALLS - 2, "the second call is recorded, the later ones run from it"


@pytest.mark.parametrize("kind", ["field", "array", "numpy"])
def test_the_returned_array_is_the_output_and_not_another_view(device, counted, kind):
    for first in (False, True):
        device.recordings.clear()
        for x in ("itself", "a view") if first else ("a view", "itself"):
            for _ in range(4):
                out = given(np.arange(30, dtype=np.int32), kind, device)
                got = pydp.scan(out if x == "itself" else out[:], out=out, device=device)
                assert got is out
                np.testing.assert_array_equal(host(out), np.cumsum(np.arange(30)))
    other = given(np.arange(30, dtype=np.int32), kind, device)
    for _ in range(4):
        out = other[:]
        pydp.scan(out, out=other, device=device)
        assert pydp.scan(other, out=out, device=device) is out
    assert counted or not are_repeated(device, kind)


@pytest.mark.parametrize("kind", ["field", "array", "numpy"])
def test_outputs_that_overlap_inputs(device, counted, kind):
    """Disjoint and overlapping arrays have the same shapes and strides."""
    start = np.arange(60, dtype=np.int32)
    for shift in (30, 30, 30, 0, 0, 0, 10, 10, 10, 1, 1, 1, -5, 30, 0, 10):
        base = given(start, kind, device)
        x, out = base[20:40], base[20 + shift : 40 + shift] if shift < 30 else given(start[:20], kind, device)
        want = np.cumsum(start[20:40])
        assert pydp.scan(x, out=out, device=device) is out
        np.testing.assert_array_equal(host(out), want, err_msg=str(shift))
        base = given(start, kind, device)
        x, out = base[20:40], base[20 + shift : 40 + shift] if shift < 30 else given(start[:20], kind, device)
        pydp.sort(x, descending=True, out=out, device=device)
        np.testing.assert_array_equal(host(out), start[20:40][::-1], err_msg=str(shift))
    assert counted or not are_repeated(device, kind)


@pytest.mark.parametrize("kind", ["field", "array", "numpy"])
def test_two_inputs_of_one_memory_and_an_output(device, counted, kind):
    rng = np.random.default_rng(1)
    for alike in (True, True, True, False, False, False, True, False):
        a, b = (rng.integers(0, 9, (8, 8)).astype(np.int32) for _ in range(2))
        b = a if alike else b
        left = given(a, kind, device)
        right = left[:] if alike else given(b, kind, device)
        out = given(np.zeros((8, 8), np.int32), kind, device)
        pydp.matmul(left, right, out=out, device=device)
        np.testing.assert_array_equal(host(out), a @ b)


def test_in_place_operators(device, counted):
    x = pydp.field(np.arange(20, dtype=np.float32), device=device)
    y = pydp.full(20, 2, np.float32, device=device)
    before, want = x, np.arange(20, dtype=np.float32)
    for turn in range(CALLS):
        x += y
        x *= np.float32(turn)
        x -= 0.5
        want = (want + 2) * turn - np.float32(0.5)
        assert x is before
        np.testing.assert_array_equal(x.get(), want)
    assert len(counted) == 2 * (CALLS - 2)


@pytest.mark.parametrize("kind", ["field", "numpy"])
def test_wrong_outputs_are_refused_after_recorded_calls(device, kind):
    x = given(np.arange(20, dtype=np.int32), kind, device)
    for _ in range(4):
        pydp.scan(x, out=given(np.zeros(20, np.int32), kind, device), device=device)
    fixed = given(np.zeros(20, np.int32), kind, device)
    if kind == "numpy":
        fixed.flags.writeable = False
    else:
        fixed = fixed.read_only
    same = np.lib.stride_tricks.as_strided(np.zeros(20, np.int32), (20,), (0,))
    wrong = {"shape": np.zeros(21, np.int32), "dtype": np.zeros(20, np.int64), "share memory": same}
    for reason, out in wrong.items():
        out = out if reason == "share memory" else given(out, kind, device)
        with pytest.raises(pydp.InvalidArgument, match=reason):
            pydp.scan(x, out=out, device=device)
    with pytest.raises(pydp.InvalidArgument, match="read-only"):
        pydp.scan(x, out=fixed, device=device)
    with pytest.raises(pydp.InvalidArgument, match="list"):
        pydp.scan(x, out=[0] * 20, device=device)


def test_misaligned_outputs(device, counted):
    x = np.arange(20, dtype=np.int32)
    for odd in (0, 0, 0, 1, 2):
        out = np.zeros(20 * 4 + odd, np.uint8)[odd:].view(np.int32)
        assert pydp.scan(x, out=out, device=device) is out
        np.testing.assert_array_equal(out, np.cumsum(x))
    assert len(counted) == (1 if device.profile.shares_host_memory else 0)


def test_calls_that_copy_numpy_arrays_are_not_repeated(device, counted, monkeypatch):
    """A recording uses NumPy memory in place, so a device with its own memory must copy the arrays in each call."""
    monkeypatch.setattr(device, "_profile", replace(device.profile, shares_host_memory=False))
    for turn in range(4):
        x, out = np.arange(20, dtype=np.int32) + turn, np.zeros(20, np.int32)
        np.testing.assert_array_equal(pydp.scan(x, device=device), np.cumsum(x))
        np.testing.assert_array_equal(pydp.scan(x, out=out, device=device), np.cumsum(x))
        pydp.forall(20, scaled, out, x, 3, device=device)
        np.testing.assert_array_equal(out, 3 * x)
    assert not counted


def test_fields_and_numpy_arrays_together(device):
    x = np.arange(20, dtype=np.int32)
    field, out = pydp.field(x, device=device), pydp.zeros(20, np.int32, device=device)
    memory = np.zeros(20, np.int32)
    for turn in range(4):
        pydp.scan(x + turn, out=out)
        np.testing.assert_array_equal(out.get(), np.cumsum(x + turn))
        pydp.scan(field, out=memory)
        np.testing.assert_array_equal(memory, np.cumsum(x))


def test_outputs_on_another_device_are_refused(device):
    other = needs.another_device(device)
    x, out = pydp.field(np.arange(9), device=device), pydp.zeros(9, np.int64, device=device)
    for _ in range(4):
        pydp.scan(x, out=out)
    with pytest.raises(pydp.InvalidArgument, match="copy it there"):
        pydp.scan(x, out=pydp.zeros(9, np.int64, device=other))
    with pytest.raises(pydp.InvalidArgument):
        pydp.scan(x, out=out, queue=other.queue)


def scaled(idx, out, x, k):
    out[idx] = k * x[idx]


def test_numpy_scalars_are_part_of_the_call(device):
    x = pydp.field(np.arange(1, 10, dtype=np.float32), device=device)
    zeros = [np.float32(0.0), np.float32(-0.0), np.float32(0.0)]
    one = np.float32(1)
    alike = [one, one.view(np.int32), one.view(np.uint32), np.int8(-1), np.uint8(255), 2, True, np.bool_(True)]
    for k in [*zeros, *alike, np.float32(np.nan), *zeros] * 3:
        out = pydp.zeros(9, np.float32, device=device)
        pydp.forall(9, scaled, out, x, k)
        want = np.float32(k) * x.get()
        np.testing.assert_array_equal(out.get(), want, err_msg=repr(k))
        np.testing.assert_array_equal(np.signbit(out.get()), np.signbit(want))


def test_grids_are_part_of_the_call(device, counted):
    def mark(idx, out):
        out[idx] = out[idx] + 1

    grids = [Grid((3,), (2,)), Grid((3,), (5,)), Grid((4,), (2,)), 3, (3,), [4], pydp.extent(5)]
    out, want = pydp.zeros(12, np.int32, device=device), np.zeros(12, np.int32)
    for grid in grids * 4:
        pydp.forall(grid, mark, out)
        box = grid if isinstance(grid, Grid) else Grid(grid)
        want[box.offset[0] : box.stop[0]] += 1
        np.testing.assert_array_equal(out.get(), want)
    assert len(counted) == 2 * len(grids)


def test_specializations_are_part_of_the_call(device, counted):
    x = pydp.field(np.arange(4000, dtype=np.int32), device=device)
    strategy = "reduce_then_scan"
    default = pydp.explain(pydp.scan, x, strategy=strategy).facts["specialization"]
    assert type(default) is ScanSpec
    kept = [
        {"strategy": strategy},
        {"strategy": strategy, "polls": 1},
        {"strategy": strategy, "suppress": 1},
        {"strategy": strategy, "polls": 2},
        default,
        replace(default, polls=3),
    ]
    for spec in kept * 4:
        np.testing.assert_array_equal(pydp.scan(x, spec=spec).get(), np.cumsum(np.arange(4000)))
    assert len(counted) == 2 * len(kept) and len(set(counted)) == len(kept)
    for number in (True, 1.0, "1"):
        with pytest.raises(pydp.InvalidArgument):
            pydp.scan(x, spec={"strategy": strategy, "polls": number})
    with pytest.raises(pydp.InvalidArgument):
        pydp.scan(x, spec={"strategy": "reduce"})


def test_names_and_types_of_arguments_are_part_of_the_call(device, counted):
    x = pydp.field(np.arange(12, dtype=np.int32).reshape(3, 4), device=device)
    for _ in range(4):
        np.testing.assert_array_equal(pydp.scan(x, axis=1, reverse=True).get()[:, 0], [6, 22, 38])
        np.testing.assert_array_equal(pydp.scan(x, axis=1, exclusive=True).get()[:, 0], [0, 0, 0])
        np.testing.assert_array_equal(pydp.reduce(x, axis=(0, 1)).get(), 66)
    for axis in (True, 1.0, "1", (1,)):
        with pytest.raises(pydp.InvalidArgument):
            pydp.scan(x, axis=axis, reverse=True)
    assert len(counted) == 6


def test_calls_on_a_queue(device, counted):
    queues = [cl.CommandQueue(device.context, device.cl) for _ in range(2)]
    x = pydp.field(np.arange(5000, dtype=np.int32), device=device)
    y = pydp.zeros(5000, np.int32, device=device)
    for turn in range(4):
        for queue in (*queues, device.queue):
            pydp.scan(x, out=y, queue=queue)
            total = pydp.reduce(y, queue=queue)
            assert total.event.command_queue == queue
            x += 1
            assert total.get() == np.cumsum(np.arange(5000) + turn * 3 + queues.index(queue)
                                            if queue in queues else np.arange(5000) + turn * 3 + 2).sum()  # fmt: skip
    x, memory = np.arange(50, dtype=np.int32), np.zeros(50, np.int32)
    for queue in queues * 3:
        assert pydp.scan(x, out=memory, queue=queue) is memory
        np.testing.assert_array_equal(memory, np.cumsum(x))
    assert len(counted) > 20


def test_out_of_order_queues_are_not_repeated(device, counted):
    needs.out_of_order_queues(device)
    order = cl.command_queue_properties.OUT_OF_ORDER_EXEC_MODE_ENABLE
    queue = cl.CommandQueue(device.context, device.cl, order)
    x, y = pydp.field(np.arange(500, dtype=np.int32), device=device), pydp.zeros(500, np.int32, device=device)
    pydp.scan(x, out=y, queue=device.queue)
    for _ in range(4):
        pydp.scan(x, out=y, queue=queue)
        assert pydp.reduce(y, queue=queue).get() == np.cumsum(np.arange(500)).sum()
    assert not counted


def test_queues_of_another_device_are_refused(device):
    other = needs.another_device(device)
    x = pydp.field(np.arange(500, dtype=np.int32), device=device)
    y = pydp.field(np.arange(500, dtype=np.int32), device=other)
    for _ in range(4):
        pydp.scan(x, queue=device.queue)
        pydp.scan(y, queue=other.queue)
    with pytest.raises(pydp.InvalidArgument):
        pydp.scan(x, queue=other.queue)
    with pytest.raises(pydp.InvalidArgument, match="queue belongs to"):
        pydp.scan(y, queue=other.queue, device=device)
    with pytest.raises(pydp.InvalidArgument, match="queue belongs to"):
        pydp.scan(np.arange(500), queue=other.queue, device=device)


def test_tiles_are_part_of_the_call(device, counted):
    def beyond(idx, out, tiles):
        out[idx] = tiles[1][idx]

    x = pydp.field(np.arange(6, dtype=np.float32), device=device)
    out = pydp.zeros(4, np.float32, device=device)
    cases = [({"tail": "pad", "fill": 7.0}, 7), ({"tail": "pad", "fill": -0.0}, 0), ({"tail": "pad", "fill": 8}, 8)]
    for options, fill in cases * 4:
        pydp.forall(4, beyond, out, pydp.tile(x, 4, **options))
        np.testing.assert_array_equal(out.get(), [4, 5, fill, fill])
        pydp.forall(2, beyond, out, pydp.tile(x, 2))
        np.testing.assert_array_equal(out.get(), [2, 3, fill, fill])
    assert len(counted) == 2 * len(cases) + 4 * len(cases) - 2


def test_elements_that_the_host_reads_are_not_repeated(device):
    def place(idx, out):
        out[idx] = idx.local[0]

    for size in (4, 4, 4, 2, 8):
        count = np.array(size)
        out = np.full(8, -1, np.int32)
        pydp.forall((count,), place, out, group=2, device=device)
        np.testing.assert_array_equal(out, np.where(np.arange(8) < size, np.arange(8) % 2, -1))
        x = np.arange(3, dtype=np.int32)
        np.testing.assert_array_equal(pydp.scan(x, init=count.astype(np.int32), device=device), np.cumsum(x) + size)


def test_arrays_as_grids(device, counted):
    def count(idx, out):
        out[idx] = out[idx] + 1

    for turn in range(1, 6):
        out = np.zeros((3, 4), np.int32)
        pydp.forall(np.full((3, 4), turn), count, out, device=device)
        pydp.forall(out, count, out, device=device)
        np.testing.assert_array_equal(out, np.full((3, 4), 2))
    assert len(counted) == (6 if device.profile.shares_host_memory else 0)


def test_numbers_that_change_do_not_evict_recordings(device, counted):
    x, out = (pydp.zeros(9, np.float32, device=device) for _ in range(2))
    for _ in range(3):
        pydp.scan(x)
    kept = len(device.recordings)
    for k in range(3 * device.recordings.bound):
        pydp.forall(9, scaled, out, x, k)
    assert len(device.recordings) == kept
    ran = len(counted)
    pydp.scan(x)
    assert len(counted) == ran + 1


def test_long_sequences_are_not_keys(device):
    x = pydp.field(np.zeros(1000, np.int32), device=device)
    values = [0] * 1000
    for turn in (0, 0, 0, 1):
        values[turn] = 1
        np.testing.assert_array_equal((x == values).get(), np.array(values) == 0)
    assert max((len(key) for key in device.recordings), default=0) < 100
    axes = [1, 0, 2]
    y = np.arange(24).reshape(2, 3, 4)
    for order in ([1, 0, 2], [1, 0, 2], [1, 0, 2], [2, 1, 0]):
        axes[:] = order
        np.testing.assert_array_equal(pydp.transpose(y, axes, device=device), np.transpose(y, order))


def test_threads_share_recordings_with_outputs_and_queues(device):
    wrong = []

    def work(seed):
        queue = cl.CommandQueue(device.context, device.cl)
        x = pydp.field(np.full(300, seed, np.int32), device=device)
        out = pydp.zeros(300, np.int32, device=device)
        for _ in range(20):
            pydp.scan(x, out=out, queue=queue)
            if not np.array_equal(out.get(), np.cumsum(np.full(300, seed))):
                wrong.append(seed)

    assert not together(partial(work, seed) for seed in range(1, 5))
    assert not wrong


def test_a_list_that_contains_itself_is_not_a_key(device):
    x = pydp.field(np.arange(12).reshape(3, 4), device=device)
    axis = [0]
    axis.append(axis)
    with pytest.raises(pydp.InvalidArgument, match="is not an axis"):
        pydp.scan(x, axis=axis)


def test_dtypes_with_metadata_are_not_recorded(device):
    """Dtypes that differ in their metadata only are equal, and so would be the keys of the calls."""
    x = pydp.field(np.arange(5, dtype=np.int32), device=device)
    for dtype in [np.dtype("f4", metadata={"a": 1})] * 3 + [np.dtype("f4")] * 2:
        assert x.astype(dtype).dtype.metadata == dtype.metadata
