"""Arrays whose memory the user has released: refused with a sentence, before a driver gets a dangling handle."""

from __future__ import annotations

import gc
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pyopencl as cl
import pyopencl.array
import pytest
from pyopencl.tools import ImmediateAllocator, MemoryPool

import pydp
from pydp.algorithms.discovery import algorithms
from pydp.errors import InvalidArgument
from pydp.runtime.memory import released
from pydp.runtime.programs.program import Kernel


def _of_a_part(device: Any, values: np.ndarray) -> Any:
    whole = cl.Buffer(device.context, cl.mem_flags.READ_WRITE, 8192)
    part = whole.get_sub_region(4096, values.nbytes)
    array = cl.array.Array(device.queue, values.shape, values.dtype, data=part)
    array.set(values)
    return array


def _of_a_pool(device: Any, values: np.ndarray) -> Any:
    pool = MemoryPool(ImmediateAllocator(device.queue))
    return cl.array.to_device(device.queue, values, allocator=pool)


def _of_an_allocator(device: Any, values: np.ndarray) -> Any:
    return cl.array.to_device(device.queue, values, allocator=ImmediateAllocator(device.queue))


def _by_its_handle(device: Any, values: np.ndarray) -> Any:
    array = cl.array.to_device(device.queue, values)
    own = cl.Buffer.from_int_ptr(array.data.int_ptr, True)
    found = cl.array.Array(device.queue, values.shape, values.dtype, data=own)
    found.keep = array
    return found


_MADE = {
    "plain": lambda device, values: cl.array.to_device(device.queue, values),
    "part": _of_a_part,
    "pool": _of_a_pool,
    "allocator": _of_an_allocator,
    "handle": _by_its_handle,
}


# Oclgrind reports a part of a buffer as uninitialized even after a copy into it.
@pytest.mark.parametrize("made", [pytest.param(one, marks=[pytest.mark.oclgrind] * (one != "part")) for one in _MADE])
def test_pyopencl_arrays(device: Any, monkeypatch: pytest.MonkeyPatch, made: str) -> None:
    values = np.arange(4, dtype=np.float32)
    array, other = _MADE[made](device, values), pydp.field(values)
    strided = array[1::2]
    np.testing.assert_array_equal(pydp.scan(array).get(), np.cumsum(values))
    np.testing.assert_array_equal(pydp.Field.wrap(strided).get(), values[1::2])
    device.queue.finish()
    array.base_data.release()
    monkeypatch.setattr(Kernel, "enqueue", lambda *_, **__: pytest.fail("a kernel was enqueued"))
    for use in (
        lambda: pydp.scan(array),
        lambda: pydp.sort(strided),
        lambda: pydp.scan(values, out=array),
        lambda: pydp.scan(other, out=array),
        lambda: pydp.forall((2,), _twice, array),
        lambda: pydp.forall((2,), _twice, array, device="host"),
        lambda: pydp.explain(pydp.reduce, array),
        lambda: pydp.Field.wrap(array),
        lambda: pydp.field(array),
        lambda: pydp.tile(array, 2),
        lambda: other + array,
        lambda: other == array,
        lambda: other.__setitem__(..., array),
        lambda: other.copy_in(array),
        lambda: other.copy_out(array),
    ):
        with pytest.raises(InvalidArgument, match="has been released"):
            use()


def _twice(i: Any, x: Any) -> None:
    x[i] = 2 * x[i]


@pytest.mark.oclgrind
@pytest.mark.parametrize("count", [4, 1 << 15])  # without and with the pool of memory that is used again
def test_fields(device: Any, count: int) -> None:
    values = np.arange(count, dtype=np.float32)
    with pytest.MonkeyPatch.context() as patched:
        _released_field_is_refused(values, patched)
    gc.collect()  # the memory does not go back to a pool
    for _ in range(3):
        np.testing.assert_array_equal((pydp.field(values) + 1).get(), values + 1)


def _released_field_is_refused(values: np.ndarray, monkeypatch: pytest.MonkeyPatch) -> None:
    field, other = pydp.field(values), pydp.field(values)
    view = field[1::2]
    field.event.wait()
    view.array.base_data.release()
    monkeypatch.setattr(Kernel, "enqueue", lambda *_, **__: pytest.fail("a kernel was enqueued"))
    for use in (
        lambda: field.get(),
        lambda: view.get(),
        lambda: np.asarray(field),
        lambda: field.set(values),
        lambda: view.set(values[1::2]),
        lambda: field.copy_in(other),
        lambda: field.copy_out(other),
        lambda: field.copy_out(values),
        lambda: other.copy_out(field),
        lambda: field.__setitem__(..., 3),
        lambda: field.__setitem__(slice(1, 2), 3),
        lambda: field.copy(),
        lambda: view + 1,
        lambda: field == 1,
        lambda: pydp.scan(field),
        lambda: pydp.scan(other, out=field),
        lambda: pydp.scan(values, out=field),
        lambda: pydp.forall((2,), _twice, view),
        lambda: pydp.forall((2,), _twice, view, device="host"),
        lambda: pydp.field(field),
    ):
        with pytest.raises(InvalidArgument, match="has been released"):
            use()
    assert "Field" in repr(field) and field.shape == values.shape


def test_another_wrapper_of_the_memory_may_be_released(device: Any) -> None:
    values = np.arange(4, dtype=np.float32)
    array = cl.array.to_device(device.queue, values)
    cl.Buffer.from_int_ptr(array.data.int_ptr, True).release()
    np.testing.assert_array_equal(pydp.scan(array).get(), np.cumsum(values))


def test_where_pyopencl_keeps_it_is_found(device: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """An unknown build of Python or pyopencl switches the check off; it never takes a good array for a released one."""
    array = cl.array.to_device(device.queue, np.arange(4, dtype=np.float32))
    assert released.is_released(array.data, device.context) is False
    assert released.is_released(None, device.context) is False
    assert None not in released._flags.values()
    for owner, name, value in ((released.sys, "byteorder", "big"), (released, "_HEADER", 32)):
        with monkeypatch.context() as patched:
            patched.setattr(released, "_flags", {})
            patched.setattr(released, "_read_word", lambda _: pytest.fail("memory of an unknown form was read"))
            patched.setattr(owner, name, value)
            assert released.is_released(array.data, device.context) is False
            assert released._flags == {cl.MemoryObject: None}
    array.data.release()
    assert released.is_released(array.data, device.context) is True


PROGRAM = Path(__file__).parent.parent / "algorithms" / "run_released.py"


def test_any_argument_of_any_algorithm(device: Any) -> None:
    """Also arguments that are no arrays: comparing a released array with "raise", or printing it, crashes drivers."""
    environment = {**os.environ, "PYDP_DEVICE": device.driver}
    done = subprocess.run([sys.executable, str(PROGRAM)], env=environment, capture_output=True, text=True, check=False)
    lines = done.stdout.splitlines()
    assert done.returncode == 0 and lines[-1] == "done", (lines[-1:], done.stderr)
    assert len(lines) > 400
    # NumPy, too, takes the dtype of an array that is given as dtype=.
    assert {line for line in lines if ": " in line} <= {f"{name} dtype: no error" for name in algorithms()}
