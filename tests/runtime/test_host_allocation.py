"""Results and copies that the host has no memory for: OutOfResources with the size, before anything is enqueued."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyopencl as cl
import pyopencl.array
import pytest

import pydp
from pydp.errors import OutOfResources, PydpError
from pydp.runtime.memory import host_memory
from pydp.runtime.programs.program import Kernel

_LONG = 1 << 60  # elements: 4 EiB of float32, more than any address space has
_SIDE = 1 << 30
LINE = np.broadcast_to(np.float32(1), _LONG)
FOREIGN = np.broadcast_to(np.array(1, ">f4"), _LONG)
SQUARE = np.broadcast_to(np.float32(1), (_SIDE, _SIDE))
BYTES = np.broadcast_to(np.int8(1), 1 << 62)

_CALLS = {
    "matmul": lambda: pydp.matmul(SQUARE, SQUARE),
    "matmul, vector": lambda: pydp.matmul(np.ones((1, 1), "f4"), LINE.reshape(1, -1)),
    "scan": lambda: pydp.scan(LINE),
    "scan, reversed": lambda: pydp.scan(LINE, reverse=True),
    "scan of columns": lambda: pydp.scan(SQUARE, axis=0),
    "scan, flat": lambda: pydp.scan(SQUARE, axis=None),
    "scan, segments": lambda: pydp.scan(LINE, segments=np.broadcast_to(np.True_, _LONG)),
    "scan, foreign": lambda: pydp.scan(FOREIGN),
    "scan, wider": lambda: pydp.scan(BYTES, dtype=np.int64),
    "reduce": lambda: pydp.reduce(LINE.reshape(1, -1), axis=0),
    "reduce, wider": lambda: pydp.reduce(BYTES.reshape(1, -1), axis=0),
    "sort": lambda: pydp.sort(LINE),
    "sort of columns": lambda: pydp.sort(SQUARE, axis=0),
    "argsort": lambda: pydp.argsort(LINE),
    "sort_by_key": lambda: pydp.sort_by_key(LINE, LINE),
    "transpose": lambda: pydp.transpose(SQUARE),
    "histogram": lambda: pydp.histogram(np.ones(3, "f4"), 1 << 52, (0, 1)),
    "histogram, beyond NumPy": lambda: pydp.histogram(np.ones(3, "f4"), _LONG, (0, 1)),
    "field": lambda: pydp.field(LINE),
    "field, converted": lambda: pydp.field(BYTES, np.int64),
    "empty": lambda: pydp.empty(_LONG, np.complex128),
    "full": lambda: pydp.full(_LONG, 3),
}


@pytest.mark.parametrize("name", _CALLS)
def test_results(device: Any, monkeypatch: pytest.MonkeyPatch, name: str) -> None:
    monkeypatch.setattr(Kernel, "enqueue", lambda *_, **__: pytest.fail("a kernel was enqueued"))
    with pytest.raises(OutOfResources, match=r"\d") as found:
        _CALLS[name]()
    assert isinstance(found.value, MemoryError) and isinstance(found.value, PydpError)


def test_the_error_names_size_and_shape(device: Any) -> None:
    with pytest.raises(OutOfResources, match=r"\(1073741824, 1073741824\) and dtype float32.* 46116860184273879"):
        pydp.scan(SQUARE, axis=0)


def test_bins_that_values_ask_for(device: Any) -> None:
    for values, least in (([_LONG], 0), ([1], _LONG)):
        with pytest.raises(OutOfResources, match=r"115292150460684697[67]"):
            pydp.bincount(np.array(values), minlength=least)


def _wide(device: Any, stride: int) -> Any:
    """A Field of 2**60 elements on the memory of one."""
    buffer = cl.Buffer(device.context, cl.mem_flags.READ_WRITE, 64)
    strides = (4 * stride,)
    return pydp.Field.wrap(cl.array.Array(device.queue, (_LONG,), np.float32, data=buffer, strides=strides))


def test_fields(device: Any) -> None:
    field, one = _wide(device, 0), pydp.zeros(1)
    for call in (
        lambda: field.get(),
        lambda: np.asarray(field),
        lambda: field.copy(),
        lambda: field.astype("f8"),
        lambda: field.reshape(_SIDE, _SIDE),
        lambda: field + one,
        lambda: one * LINE,
        lambda: field == one,
        lambda: one < LINE,
        lambda: pydp.scan(field),
        lambda: pydp.sort(field),
        lambda: pydp.argsort(field),
        lambda: pydp.transpose(field),
        lambda: _wide(device, 1).copy_in(LINE),
        lambda: _wide(device, 1).set(LINE),
        lambda: _wide(device, 1).__setitem__(..., FOREIGN),
    ):
        with pytest.raises(OutOfResources, match=r"\d"):
            call()


def test_memory_of_the_host(device: Any) -> None:
    assert host_memory.fresh((3, 0), np.dtype("f8")).shape == (3, 0)
    for shape in ((1 << 62,), (1 << 40, 1 << 40)):
        with pytest.raises(OutOfResources, match="takes"):
            host_memory.fresh(shape, np.dtype("f8"))
    with pytest.raises(OutOfResources, match=r"out of memory.*shape \(1152921"), host_memory.host_allocation():
        np.ones(_LONG, np.float32)
    with pytest.raises(OutOfResources, match="as it is"), host_memory.host_allocation():
        raise OutOfResources("as it is")


@pytest.mark.parametrize("code", [-4, -5, -6])
def test_a_transfer_that_lacks_memory(device: Any, code: int) -> None:
    """Some drivers allocate a buffer at its first use. Idle memory is freed, then the command is tried once more."""

    class Lacks(cl.Error):
        code = 0

    Lacks.code = code
    tries: list[Any] = []

    def command(queue: Any, *given: Any, **options: Any) -> str:
        tries.append((given, options))
        if len(tries) < most:
            raise Lacks("no memory")
        return "event"

    pydp.scan(np.arange(100_000, dtype=np.int32), device=device)
    most = 2
    assert host_memory.enqueued(command, device.queue, 1, two=2) == "event"
    assert tries == [((1,), {"two": 2})] * 2
    most, tries[:] = 9, []
    with pytest.raises(pydp.OutOfResources, match="not enough memory"):
        host_memory.enqueued(command, device.queue)
    assert len(tries) == 2
    Lacks.code = -30
    with pytest.raises(Lacks):
        host_memory.enqueued(command, device.queue)
