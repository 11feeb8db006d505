"""Recordings: a call that was made before is repeated from its launches, without the checks and the planning.

    @recorded
    def scan(x, op="+", *, axis=-1, ...):

The second call with the same layouts of arrays and the same other arguments records what it enqueues: kernels,
buffers, scratch memory. Later such calls repeat this with their own arrays. A recording holds no arrays.

Only calls that make their results are recorded: arrays are Fields of one device or NumPy arrays, other arguments are
numbers, strings, dtypes or functions without Python code, and out=, queue=, wait_for= and spec= are not given. Calls
that enqueue more than kernels, or read results on the host, are not recorded.
"""

from __future__ import annotations

import functools
import threading
from collections.abc import Callable, Hashable, Mapping, Sequence
from types import BuiltinFunctionType
from typing import TYPE_CHECKING, Any, TypeVar, cast

import numpy as np
import pyopencl as cl

from pydp.runtime.arrays.data import FieldData
from pydp.runtime.arrays.operand import Operand
from pydp.runtime.drivers.devices import Device
from pydp.runtime.drivers.devices import device as find_device
from pydp.runtime.memory.deferred_release import release_pending
from pydp.runtime.memory.host_memory import alignment, buffer_over, byte_range, fits_in_place, fresh, make_visible
from pydp.runtime.memory.scratch import give, take
from pydp.runtime.programs.program import OPEN, OPEN_VALUE, PreparedLaunch

if TYPE_CHECKING:
    from pydp.runtime.programs.program import Kernel

__all__ = ["Recorder", "claim", "recorded"]

_Function = TypeVar("_Function", bound=Callable[..., Any])
_PLAIN = (str, int, bool, type(None), BuiltinFunctionType, np.ufunc)
_SEEN, _NEVER = "seen once", "cannot be recorded"
_NOT_GIVEN = ("out", "queue", "wait_for", "spec")


class _Local(threading.local):
    recorder: Recorder | None = None


_current = _Local()


class Recorder:
    """What one call enqueues, noted by its Call. `valid` turns False for what a recording cannot repeat."""

    def __init__(self, arrays: Sequence[Any]) -> None:
        self.valid = True
        self._arrays = arrays
        self._result: Any = None
        self._slots: dict[int, int] = {}  # id of a buffer -> its slot; _kept keeps the buffers alive
        self._kept: list[Any] = []
        self._providers: list[tuple[Callable[..., tuple[Any, Any]], int]] = []
        self._tags: dict[int, int] = {}
        self._outputs: list[tuple[Operand, int]] = []
        self._scratch: list[tuple[int, int]] = []
        self._launches: list[tuple[PreparedLaunch, list[int]]] = []
        self._count = 0

    def _slot(self, buffer: Any) -> int:
        self._kept.append(buffer)
        self._slots[id(buffer)] = self._count
        self._count += 1
        return self._count - 1

    def input(self, value: Any, operand: Operand) -> None:
        """Note the buffer of an argument."""
        at = next((at for at, one in enumerate(self._arrays) if one is value), None)
        if at is None or (isinstance(value, np.ndarray) and not _lies_in_place(value, operand)):
            self.valid = False
        elif id(operand.buffer) not in self._slots:
            self._kept.append(operand.buffer)
            self._slots[id(operand.buffer)] = -1 - at

    def output(self, operand: Operand) -> None:
        """Note the buffer of a new result."""
        value = operand.result
        if isinstance(value, np.ndarray) and not _lies_in_place(value, operand):
            self.valid = False
        self._outputs.append((operand, self._slot(operand.buffer)))

    def scratch(self, buffer: Any, nbytes: int) -> None:
        """Note a buffer of scratch memory."""
        self._scratch.append((nbytes, self._slot(buffer)))

    def provided(self, buffer: Any, tag: Any, provider: Callable[[Device, Any], tuple[Any, Any]]) -> None:
        """Note a buffer and a number that every launch gets anew, from `provider`."""
        self._providers.append((provider, self._slot(buffer)))
        self._kept.append(tag)
        self._tags[id(tag)] = self._count
        self._count += 1

    def launch(self, kernel: Kernel, global_size: Any, local_size: Any, args: Sequence[Any]) -> None:
        """Note a launch with its arguments."""
        fixed: list[Any] = []
        slots: list[int] = []
        for arg in args:
            if id(arg) in self._slots:
                fixed.append(OPEN)
                slots.append(self._slots[id(arg)])
            elif id(arg) in self._tags:
                fixed.append(OPEN_VALUE)
                slots.append(self._tags[id(arg)])
            else:
                self.valid = self.valid and (arg is None or isinstance(arg, (np.generic, cl.LocalMemory)))
                fixed.append(arg)
        if 0 in global_size:
            self.valid = False
        if self.valid:
            self._launches.append((PreparedLaunch(kernel, global_size, local_size, fixed), slots))

    def finish(self, result: Any) -> None:
        """Note the call's result."""
        self._result = result

    def recording(self, returned: Any) -> Recording | None:
        """The recording, if `returned` is the result of the recorded call; else None."""
        results = self._result if type(self._result) is tuple else (self._result,)
        scalar = isinstance(returned, np.generic) and isinstance(self._result, np.ndarray) and not self._result.ndim
        made = [operand.result for operand, _ in self._outputs]
        if not self.valid or not self._launches or not (scalar or returned is self._result):
            return None
        if len(results) != len(made) or any(one is not other for one, other in zip(results, made, strict=True)):
            return None
        return Recording(self, scalar, type(self._result) is tuple)

    def order(self) -> tuple[Any, ...]:
        """(outputs, scratch, providers, launches, number of slots) for the recording."""
        outputs = [(operand.shape, operand.result.dtype, slot) for operand, slot in self._outputs]
        return outputs, self._scratch, self._providers, self._launches, self._count


def _lies_in_place(array: np.ndarray, operand: Operand) -> bool:
    """Whether the operand is the array's own memory, from its lowest to its highest address."""
    low, high = byte_range(array)
    first = array.__array_interface__["data"][0] - low
    whole = array.size > 0 and operand.owner is array and operand.buffer.size == high - low
    return bool(whole) and fits_in_place(array) and operand.offset * array.itemsize == first


class Recording:
    """The launches of a call; `run` repeats them with other arrays of the same layouts."""

    __slots__ = ("_count", "_launches", "_outputs", "_providers", "_scalar", "_scratch", "_several", "_slots")

    def __init__(self, recorder: Recorder, scalar: bool, several: bool) -> None:
        self._outputs, self._scratch, self._providers, self._launches, self._count = recorder.order()
        self._scalar, self._several = scalar, several

    def run(self, device: Device, arrays: Sequence[Any], host: bool) -> Any:
        """Enqueue the launches; returns new results, or NotImplemented for NumPy memory that kernels cannot use."""
        queue = device.queue
        buffers: list[Any] = [None] * (self._count + len(arrays))  # a result's slot from the front, an argument's from
        waits: list[cl.Event] = []  # the back: Python's negative indexes
        at = 0
        for value in arrays:
            at -= 1
            if host:
                address = value.__array_interface__["data"][0]
                if address % alignment(value.dtype):
                    return NotImplemented
                buffers[at] = buffer_over(device.context, *byte_range(value), value)
            else:
                storage = value._storage
                if storage.queue is not queue or storage.others is not None or storage.array is not None:
                    waits += storage.waits(queue)
                buffers[at] = storage.buffer
        results = []
        for shape, dtype, slot in self._outputs:
            if host:
                made = fresh(shape, dtype)
                buffers[slot] = buffer_over(device.context, *byte_range(made), made)
            else:
                made = arrays[0].fresh(device, shape, dtype)
                buffers[slot] = made._storage.buffer
            results.append(made)
        if self._scratch:
            release_pending()
            for nbytes, slot in self._scratch:
                buffers[slot] = take(device, queue, nbytes)
        for provider, slot in self._providers:
            buffers[slot], buffers[slot + 1] = provider(device, queue)
        event = None
        for launch, slots in self._launches:
            event = launch.enqueue(queue, [buffers[one] for one in slots], waits)
            waits = []
        return self._finished(queue, event, arrays, results, buffers, host)

    def _finished(
        self, queue: Any, event: Any, arrays: Sequence[Any], results: list[Any], buffers: list[Any], host: bool
    ) -> Any:
        for _, slot in self._scratch:
            give(buffers[slot], event)
        if host:
            for (_, _, slot), made in zip(self._outputs, results, strict=True):
                make_visible(queue, buffers[slot], made.nbytes)
        else:
            for value in arrays:
                value._storage.note(event, queue, False)
            for value in results:
                value._storage.note(event, queue, True)
        if self._several:
            return tuple(results)
        return results[0][()] if self._scalar else results[0]


def claim() -> Recorder | None:
    """The recorder of this thread for the call that begins; each recorder serves one call."""
    recorder = _current.recorder
    if recorder is not None:
        _current.recorder = None
    return recorder


def recorded(function: _Function) -> _Function:
    """Decorator: repeat calls of an algorithm from recordings."""

    @functools.wraps(function)
    def repeated(*args: Any, **named: Any) -> Any:
        found = _signature(function, args, named)
        if found is None:
            return function(*args, **named)
        device, key, arrays, host = found
        known = device.recordings.get(key) or device.recordings.find(key)
        if type(known) is Recording:
            result = known.run(device, arrays, host)
            return function(*args, **named) if result is NotImplemented else result
        if known is _SEEN:
            return _record(functools.partial(function, *args, **named), device, key, arrays)
        if known is None:
            device.recordings.put(key, _SEEN)
        return function(*args, **named)

    return cast(_Function, repeated)


def _record(call: Callable[[], Any], device: Device, key: Hashable, arrays: Sequence[Any]) -> Any:
    epoch, outer, recorder = device.recordings.epoch, _current.recorder, Recorder(arrays)
    _current.recorder = recorder
    try:
        result = call()
    finally:
        _current.recorder = outer
    device.recordings.put(key, recorder.recording(result) or _NEVER, epoch)
    return result


def _signature(
    function: Callable[..., Any], args: tuple[Any, ...], named: Mapping[str, Any]
) -> tuple[Device, Hashable, list[Any], bool] | None:
    """(device, key, arrays, whether they are NumPy arrays) of a call; None if it cannot be recorded."""
    parts: list[Any] = [function, *named]
    arrays: list[Any] = []
    home: Device | None = None
    host = False
    for name in _NOT_GIVEN:
        if named.get(name) is not None:
            return None
    for value in (*args, *named.values()):
        kind = type(value)
        if kind in _PLAIN:
            parts += (kind, value)
        elif isinstance(value, FieldData):
            storage = value._storage
            if host or value.dtype.names is not None or storage.array is not None:
                return None
            if home is None:
                home = storage.device
            elif storage.device is not home:
                return None
            arrays.append(value)
            parts += (kind, value.dtype, value.shape, value.strides, value.offset)
        elif kind is np.ndarray:
            if (arrays and not host) or value.dtype.names is not None:
                return None
            host = True
            arrays.append(value)
            parts += (value.dtype, value.shape, value.strides)
        elif isinstance(value, Device):
            if home is not None and value is not home:
                return None
            home = value
            parts.append(Device)
        elif kind is float:
            parts += (kind, repr(value))
        elif isinstance(value, np.dtype) or (kind is tuple and all(type(one) is int for one in value)):
            parts += (kind, value)
        elif kind is type and (issubclass(value, np.generic) or value in (int, float, bool)):
            parts.append(value)
        else:
            return None
    if not arrays:
        return None
    if home is None:
        home = find_device(None)
    if home.is_target:
        return None
    return home, tuple(parts), arrays, host
