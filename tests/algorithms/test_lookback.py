"""The slots of decoupled look-back: a value is there once every one of its words carries the launch's tag."""

from __future__ import annotations

import itertools
from functools import reduce
from pathlib import Path
from typing import Any

import needs
import numpy as np
import pyopencl as cl
import pytest

import pydp
from pydp.algorithms import lookback
from pydp.dtypes import c_name
from pydp.errors import OutOfResources
from pydp.runtime.call import Call
from pydp.runtime.memory import large_pages, scratch
from pydp.runtime.programs.program import kernel
from pydp.runtime.programs.template import add_folder

add_folder(Path(__file__).parent)
WORDS = {"uint4": np.dtype(cl.cltypes.uint4), "double16": np.dtype(cl.cltypes.double16), "int": np.dtype(np.int32)}
WORDS["long16"] = np.dtype(cl.cltypes.long16)


def _look(device: Any, made: Any, state: np.ndarray, tag: int, place: tuple[int, int], value: np.ndarray) -> Any:
    """(the result of `peek`, the value, the slots) after `value` was published there (not for a tag below 0)."""
    flags = cl.mem_flags.READ_WRITE | cl.mem_flags.COPY_HOST_PTR
    buffers = [cl.Buffer(device.context, flags, hostbuf=one) for one in (state, value, np.zeros(1, np.int32))]
    writes = np.int32(tag > 0)
    rest = [np.uint32(abs(tag)), *map(np.int32, place), writes]
    made.enqueue(device.queue, (1,), (1,), [buffers[0], *rest, *buffers[1:]])
    got, found, left = np.zeros(1, np.int32), np.zeros_like(value), np.zeros_like(state)
    for host, buffer in ((got, buffers[2]), (found, buffers[1]), (left, buffers[0])):
        cl.enqueue_copy(device.queue, host, buffer, is_blocking=True)
    return int(got[0]), found, left


@pytest.mark.oclgrind
@pytest.mark.parametrize("name, wide", [("int", False), ("uint4", False), ("uint4", True), ("double16", True)])
def test_a_slot_whose_words_are_not_all_there_is_none(device: Any, name: str, wide: bool) -> None:
    dtype = WORDS[name]
    if wide:
        needs.int64_atomics(device)
    if name == "double16":
        needs.dtype(device, "float64")
    words = dtype.itemsize // (4 if wide else 2)
    params = {"type": c_name(dtype), "wide_words": wide, "words": words, "order": "ticket", "polls": 0}
    params |= {"chained": False, "suppress": 0, "plain_polls": False}
    made = kernel(device, "lookback_slots.mako", "look", params)
    word = np.dtype(np.uint64 if wide else np.uint32)
    value = np.random.default_rng(words).integers(1, 255, dtype.itemsize).astype(np.uint8).view(dtype)[:1]
    empty = np.zeros(64 + 4 * 2 * words * word.itemsize, np.uint8)
    got, found, state = _look(device, made, empty, 7, (2, 1), value)
    assert got == 1 and found.tobytes() == value.tobytes()
    slots = state[64:].view(word).reshape(4, 2, words)
    assert (slots[2, 1] >> word.type(32 if wide else 16) == 7).all() and not slots[:2].any() and not slots[3].any()
    assert not slots[2, 0].any()
    other = np.zeros(1, dtype)
    got, found, _ = _look(device, made, state, -7, (2, 1), other)
    assert got == 1 and found.tobytes() == value.tobytes()
    for missing in range(words):
        torn = state.copy()
        torn[64:].view(word).reshape(4, 2, words)[2, 1, missing] -= word.type(1 << (32 if wide else 16))
        got, found, _ = _look(device, made, torn, -7, (2, 1), other)
        assert got == 0 and found.tobytes() == other.tobytes(), missing
    for place in ((2, 0), (1, 1), (3, 1)):
        assert _look(device, made, state, -7, place, other)[0] == 0


@pytest.mark.oclgrind
@pytest.mark.parametrize(
    "name, owner, head",
    [
        *itertools.product(["int"], ["absent", "done", "wakes", "unseen"], [False, True]),
        ("uint4", "wakes", False),
        ("long16", "wakes", False),
    ],
)
def test_a_wait_in_place_ends_with_the_right_prefix(device: Any, name: str, owner: str, head: bool) -> None:
    """The predecessor may have changed its elements at any time; a second look finds the published value."""
    if device.profile.loop_limit is not None and name != "int":
        pytest.skip("the driver loses vectors in these loops; look-back is refused there")
    dtype = WORDS[name]
    wide = device.profile.int64_atomics
    words = lookback.words_per_slot(device.profile, dtype.itemsize)
    params = {"type": c_name(dtype), "part": 5, "owner": owner, "head": head, "wide_words": wide, "words": words}
    params |= {"order": "ticket", "polls": 3, "chained": False, "suppress": 0, "plain_polls": owner == "unseen"}
    made = kernel(device, "lookback_waits.mako", "wait", params)
    scalar = np.dtype({"int": np.int32, "uint4": np.uint32, "long16": np.int64}[name])
    x = np.random.default_rng(words).integers(-1000, 1000, (15, dtype.itemsize // scalar.itemsize)).astype(scalar)
    state = np.zeros(64 + 3 * 4 * words * (8 if wide else 4), np.uint8)
    result, recomputed = np.zeros((2, *x.shape[1:]), scalar), np.zeros(1, np.int32)
    flags = cl.mem_flags.READ_WRITE | cl.mem_flags.COPY_HOST_PTR
    buffers = [cl.Buffer(device.context, flags, hostbuf=one) for one in (state, x, result, recomputed)]
    for again in range(2):
        made.enqueue(device.queue, (1,), (1,), [buffers[0], np.uint32(9), np.int32(again), *buffers[1:]])
    for host, buffer in zip((result, recomputed), buffers[2:], strict=True):
        cl.enqueue_copy(device.queue, host, buffer, is_blocking=True)
    folded = reduce(lambda a, b: a * scalar.type(3) + b, x[5:10])
    first = reduce(lambda a, b: a * scalar.type(3) + b, x[:5])
    want = folded if head else first * scalar.type(3) + folded
    assert (result == want).all()
    assert recomputed[0] == (owner in ("absent", "wakes"))


def test_launches_that_may_meet_have_slots_of_their_own(device: Any) -> None:
    loose = cl.command_queue_properties.OUT_OF_ORDER_EXEC_MODE_ENABLE
    needs.out_of_order_queues(device)
    for properties, alone in ((0, False), (loose, True)):
        queue = cl.CommandQueue(device.context, device.cl, properties=properties)
        call = Call.begin({"x": pydp.zeros(3, np.int32)}, queue=queue)
        (one, first), (other, second) = (lookback.descriptors(call, 10, 4) for _ in range(2))
        assert (one is not other) == alone and (first == second) == alone
        call.finish()


def test_slots_may_be_taken_by_what_interrupts_their_taking(device: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """As a finalizer or a signal handler does, which runs in the thread that holds the lock."""
    queue = cl.CommandQueue(device.context, device.cl)
    call = Call.begin({"x": pydp.zeros(3, np.int32)}, queue=queue)
    cleared, nested = lookback._cleared, []

    def interrupted(device: Any, nbytes: int) -> Any:
        monkeypatch.undo()
        nested.append(lookback.descriptors(call, 10, 4))
        lookback._state(queue).drop()
        return cleared(device, nbytes)

    monkeypatch.setattr(lookback, "_cleared", interrupted)
    first, second = (lookback.descriptors(call, 10, 4) for _ in range(2))
    assert nested[0][0] is not first[0] and first[0] is second[0] and first[1] != second[1]
    call.finish()


def test_slots_after_an_allocation_that_failed(device: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    queue = cl.CommandQueue(device.context, device.cl)
    call = Call.begin({"x": pydp.zeros(3, np.int32)}, queue=queue)
    lookback.descriptors(call, 10, 4)

    def failing(device: Any, nbytes: int) -> Any:
        raise OutOfResources(f"{nbytes} bytes")

    with monkeypatch.context() as patched:
        patched.setattr(lookback, "_cleared", failing)
        with pytest.raises(OutOfResources):
            lookback.descriptors(call, 1 << 20, 4)
    assert isinstance(lookback.descriptors(call, 10, 4)[0], cl.Buffer)
    call.finish()


def test_idle_memory_is_released_after_an_allocation_that_failed(device: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """Slots of large sorts take as much memory as their keys: scratch memory takes their place, and the reverse."""
    queue, other = (cl.CommandQueue(device.context, device.cl) for _ in range(2))
    call = Call.begin({"x": pydp.zeros(3, np.int32)}, queue=queue)
    lookback.descriptors(call, 10, 4)
    state, pool = lookback._state(queue), scratch.pool_of(other)
    new_buffer, cleared = large_pages.new_buffer, lookback._cleared

    def without_slots(*given: Any) -> Any:
        if state.buffer is not None:
            raise cl.MemoryError("the device is full")
        return new_buffer(*given)

    def without_scratch(*given: Any) -> Any:
        if pool.idle_bytes:
            raise OutOfResources("the device is full")
        return cleared(*given)

    monkeypatch.setattr(large_pages, "new_buffer", without_slots)
    monkeypatch.setattr(lookback, "_cleared", without_scratch)
    scratch.give(scratch.take(device, other, 5000))
    assert state.buffer is None and pool.idle_bytes
    lookback.descriptors(call, 10, 4)
    assert state.buffer is not None and not pool.idle_bytes
    call.finish()
