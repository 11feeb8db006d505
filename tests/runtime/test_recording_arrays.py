"""Recordings of calls with pyopencl Arrays."""

from __future__ import annotations

import needs
import numpy as np
import pyopencl as cl
import pyopencl.array
import pyopencl.tools
import pytest
import repeated_calls

import pydp

counted = repeated_calls.counted


def shift(idx, out, x):
    out[idx] = x[idx] + 1


def test_results_are_arrays_of_the_queue_and_the_allocator(device, counted):
    queue = cl.CommandQueue(device.context, device.cl)
    pool = cl.tools.MemoryPool(cl.tools.ImmediateAllocator(queue))
    for turn in range(5):
        x = cl.array.to_device(queue, np.arange(40, dtype=np.int32) + turn, allocator=pool)
        y = pydp.scan(x)
        assert type(y) is cl.array.Array and y.queue is queue and y.allocator is pool
        assert [event.command_queue == queue for event in y.events]
        np.testing.assert_array_equal((y + x).get(), np.cumsum(x.get()) + x.get())
    assert len(counted) == 3


def test_arrays_and_fields_together(device, counted):
    a, b = (np.arange(16, dtype=np.float32).reshape(4, 4) + shift for shift in range(2))
    field, array = pydp.field(a, device=device), cl.array.to_device(device.queue, b)
    out = cl.array.zeros(device.queue, (4, 4), np.float32)
    for _ in range(4):
        assert type(pydp.matmul(field, array)) is pydp.Field
        assert type(pydp.matmul(array, field)) is cl.array.Array
        assert pydp.matmul(field, pydp.Field.wrap(array), out=out) is out
        np.testing.assert_array_equal(out.get(), a @ b)
        np.testing.assert_array_equal(pydp.matmul(array, field).get(), b @ a)
    assert len(counted) >= 8


def test_arrays_of_several_queues(device, counted):
    """Each call waits for the other queue, whose commands write the elements that the call reads."""
    first, second = (cl.CommandQueue(device.context, device.cl) for _ in range(2))
    x = cl.array.zeros(first, 1000, np.int32)
    y = cl.array.zeros(second, 1000, np.int32)
    for _ in range(6):
        pydp.forall(1000, shift, x, y, queue=first)
        pydp.forall(1000, shift, y, x, queue=second)
        pydp.forall(1000, shift, x, y)
        pydp.forall(1000, shift, y, x)
    np.testing.assert_array_equal(y.get(), np.full(1000, 24))


def test_out_of_order_queues_of_arrays(device, counted):
    needs.out_of_order_queues(device)
    order = cl.command_queue_properties.OUT_OF_ORDER_EXEC_MODE_ENABLE
    x = cl.array.to_device(cl.CommandQueue(device.context, device.cl, order), np.arange(50, dtype=np.int32))
    for _ in range(4):
        np.testing.assert_array_equal(pydp.scan(x).get(), np.cumsum(np.arange(50)))
    assert not counted


def test_parts_of_one_buffer(device, counted):
    """Arrays over one buffer, over two sub-buffers, and over two objects of one buffer may overlap."""
    step = max(device.cl.mem_base_addr_align // 8, 4) // 4
    start = np.arange(4 * step, dtype=np.int32)
    flags = cl.mem_flags.READ_WRITE | cl.mem_flags.COPY_HOST_PTR
    for at in (2, 2, 2, 1, 1, 1, 0, 0, 0, 2, 1, 0):
        whole = cl.Buffer(device.context, flags, hostbuf=start)
        again = cl.Buffer.from_int_ptr(whole.int_ptr, True)
        parts = [whole.get_sub_region(one * step * 4, 2 * step * 4) for one in (0, at)]
        for low, high, first in ((whole, whole, at * step), (whole, again, at * step), (*parts, 0)):
            cl.enqueue_copy(device.queue, whole, start)
            x = cl.array.Array(device.queue, 2 * step, np.int32, data=low)
            out = cl.array.Array(device.queue, 2 * step, np.int32, data=high, offset=first * 4)
            assert pydp.scan(x, "+", reverse=True, out=out) is out
            np.testing.assert_array_equal(out.get(), np.cumsum(start[: 2 * step][::-1])[::-1], err_msg=str(at))
    assert counted


def test_a_part_and_its_whole_buffer(device, counted):
    """A recording of two Arrays on one buffer is not repeated if the first is on a shorter part with the same start."""
    step = max(device.cl.mem_base_addr_align // 8, 4) // 4
    whole = cl.array.to_device(device.queue, np.arange(2 * step, dtype=np.int32)).base_data
    first = cl.array.Array(device.queue, step, np.int32, data=whole)
    part = cl.array.Array(device.queue, step, np.int32, data=whole.get_sub_region(0, step * 4))
    out = cl.array.Array(device.queue, step, np.int32, data=whole, offset=step * 4)
    for x, repeated in ((first, 1), (part, 1), (part, 1), (part, 2), (first, 3)):
        while True:
            pydp.scan(x, out=out)
            np.testing.assert_array_equal(out.get(), np.cumsum(np.arange(step)))
            if x is not first or counted:
                break
        assert len(counted) == repeated


@pytest.mark.parametrize("wrapped", [False, True])
def test_released_arrays_are_refused(device, counted, wrapped):
    for _ in range(4):
        x = cl.array.to_device(device.queue, np.arange(50, dtype=np.int32))
        given = pydp.Field.wrap(x) if wrapped else x
        np.testing.assert_array_equal(pydp.scan(given).get(), np.cumsum(np.arange(50)))
    x.base_data.release()
    with pytest.raises(pydp.InvalidArgument, match="released"):
        pydp.scan(given)
    assert len(counted) == 2


def test_errors_name_the_argument_and_its_strides_in_bytes(device):
    """Errors of an Array are found before the call is recorded, but the call itself reports them."""
    buffer = cl.Buffer(device.context, cl.mem_flags.READ_WRITE, 1024)
    x = pydp.field(np.zeros((8, 8), np.int32), device=device)
    misaligned = cl.array.Array(device.queue, 64, np.int32, data=buffer, offset=2)
    released = cl.array.zeros(device.queue, 64, np.int32)
    released.base_data.release()
    for given, wrong in ((misaligned, "has offset 2"), (released, "released")):
        with pytest.raises(pydp.InvalidArgument, match=f"argument 0: .* {wrong}"):
            pydp.forall(64, shift, given, given)
    overlapping = cl.array.Array(device.queue, (8, 8), np.int32, data=buffer, strides=(4, 4))
    with pytest.raises(pydp.InvalidArgument, match=r"out has shape \(8, 8\) and strides \(4, 4\)"):
        pydp.transpose(x, out=overlapping)


def test_a_race_between_a_field_and_an_array_of_one_buffer_is_reported(device):
    x = cl.array.zeros(device.queue, 65, np.int32)
    with pytest.raises(pydp.VectorError, match="race:"):
        pydp.forall(64, shift, pydp.Field.wrap(x)[1:], x[:64])
