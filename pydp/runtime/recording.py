"""Recordings: a call that was made before is repeated from its launches, without the checks and the planning.

    @recorded
    def scan(x, op="+", *, axis=-1, ...):

The second call with the same layouts of arrays and the same other arguments records what it enqueues: kernels,
buffers, scratch memory. Later such calls repeat this with their own arrays. A recording holds no arrays.

A call is recorded if its arrays are Fields of one device or NumPy arrays, its other arguments are Python numbers,
strings, dtypes, tuples of integers, and functions of NumPy and Python, and out=, queue=, wait_for= and spec= are not
given. `forall` also takes vector functions. Calls that enqueue more than kernels are not recorded, and neither are
calls with an array that is not an input of kernels (``axis=np.array(0)``). Do not use the decorator for functions that
read elements or results on the host.
"""

from __future__ import annotations

import contextlib
import functools
import itertools
import threading
from collections.abc import Callable, Hashable, Mapping, Sequence
from types import BuiltinFunctionType
from typing import TYPE_CHECKING, Any

import numpy as np
import pyopencl as cl

from pydp.runtime.arrays.data import FieldData
from pydp.runtime.arrays.operand import Operand
from pydp.runtime.drivers.devices import Device
from pydp.runtime.drivers.devices import device as find_device
from pydp.runtime.memory.deferred_release import release_pending
from pydp.runtime.memory.host_memory import (
    IN_PLACE,
    alignment,
    buffer_over,
    byte_range,
    create,
    fits_in_place,
    fresh,
    make_visible,
)
from pydp.runtime.memory.scratch import give, take
from pydp.runtime.programs.program import OPEN, OPEN_VALUE, PreparedLaunch

if TYPE_CHECKING:
    from pydp.runtime.programs.program import Kernel

__all__ = ["Recorder", "claim", "recorded"]

_PLAIN = (str, int, bool, type(None), BuiltinFunctionType, np.ufunc)
_SEEN, _NEVER = "seen once", "cannot be recorded"
_ONE, _SEVERAL, _SCALAR, _EVENT, _NOTHING = "one", "several", "scalar", "event", "nothing"  # results of a call
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
        self._written: set[int] = set()
        self._event: Any = None
        self._scratch: list[tuple[int, int]] = []
        self._launches: list[PreparedLaunch] = []
        self._count = 0
        self._others = [id(one) for one in arrays]  # arguments that are not inputs yet

    def _slot(self, buffer: Any) -> int:
        self._kept.append(buffer)
        self._slots[id(buffer)] = self._count
        self._count += 1
        return self._count - 1

    def input(self, value: Any, operand: Operand, written: bool = False) -> None:
        """Note the buffer of an argument."""
        at = next((at for at, one in enumerate(self._arrays) if one is value), None)
        if at is None or (isinstance(value, np.ndarray) and not _lies_in_place(value, operand)):
            self.valid = False
            return
        if id(value) in self._others:
            self._others.remove(id(value))
        if written:
            self._written.add(at)
        if id(operand.buffer) not in self._slots:
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
            self._launches.append(PreparedLaunch(kernel, global_size, local_size, fixed, slots))

    def uses_layouts(self) -> None:
        """Note that the host reads no elements of arrays; arrays need not be inputs then."""
        self._others = []

    def finish(self, result: Any, event: Any) -> None:
        """Note the call's result and its last event."""
        self._result, self._event = result, event

    def recording(self, returned: Any) -> Recording | None:
        """The recording, if `returned` is the result or the event of the recorded call; else None."""
        if not self.valid or not self._launches or self._others:
            return None
        results = self._result if type(self._result) is tuple else () if self._result is None else (self._result,)
        made = [operand.result for operand, _ in self._outputs]
        if len(results) != len(made) or any(one is not other for one, other in zip(results, made, strict=True)):
            return None
        if returned is self._result:
            kind = _NOTHING if returned is None else _SEVERAL if type(returned) is tuple else _ONE
        elif isinstance(returned, np.generic) and isinstance(self._result, np.ndarray) and not self._result.ndim:
            kind = _SCALAR
        elif returned is self._event and not made:
            kind = _EVENT
        else:
            return None
        outputs = [(one.shape, one.strides, one.result.dtype, one.nbytes, slot) for one, slot in self._outputs]
        written = [at in self._written for at in range(len(self._arrays))]
        once = {id(one): at for at, one in reversed(list(enumerate(self._arrays))) if type(one) is np.ndarray}
        spans = [(at, *_span(self._arrays[at])) for at in once.values()]
        found = Recording(outputs, written, self._scratch, self._providers, self._launches, self._count, kind, spans)
        return found if found.ranges(self._arrays) is not None else None


def _lies_in_place(array: np.ndarray, operand: Operand) -> bool:
    """Whether the operand is the array's own memory, from its lowest to its highest address."""
    low, high = byte_range(array)
    first = array.__array_interface__["data"][0] - low
    whole = array.size > 0 and operand.owner is array and operand.buffer.size == high - low
    return bool(whole) and fits_in_place(array) and operand.offset * array.itemsize == first


def _over(context: cl.Context, array: np.ndarray, low: int, nbytes: int) -> cl.Buffer:
    """A buffer on the memory of an array."""
    if array.flags.c_contiguous and array.flags.writeable:
        return create(context, IN_PLACE, nbytes, array)
    return buffer_over(context, low, low + nbytes, array)


def _span(array: Any) -> tuple[int, int, int, bool]:
    """(bytes below the first element, bytes in all, alignment, whether the driver can take the array itself) of a NumPy
    array."""
    low, high = byte_range(array)
    flags, step = array.flags, alignment(array.dtype)
    whole = flags.c_contiguous and flags.writeable and array.dtype.alignment >= step
    return array.__array_interface__["data"][0] - low, high - low, step, whole


class Recording:
    """The launches of a call; `run` repeats them with other arrays of the same layouts."""

    __slots__ = (
        "_count", "_kind", "_launches", "_needs_addresses", "_outputs", "_providers", "_scratch", "_spans", "_written",
    )  # fmt: skip

    def __init__(
        self,
        outputs: list[tuple[tuple[int, ...], tuple[int, ...], np.dtype, int, int]],
        written: list[bool],
        scratch: list[tuple[int, int]],
        providers: list[tuple[Callable[..., tuple[Any, Any]], int]],
        launches: list[PreparedLaunch],
        count: int,
        kind: str,
        spans: list[tuple[int, int, int, int, bool]],
    ) -> None:
        self._spans = spans
        # Only written arrays that may overlap others need addresses, and arrays that are not whole and aligned.
        self._needs_addresses = (any(written) and len(spans) > 1) or not all(span[-1] for span in spans)
        self._outputs, self._written, self._scratch, self._providers = outputs, written, scratch, providers
        self._launches, self._count, self._kind = launches, count, kind

    def run(self, device: Device, arrays: list[Any], host: bool) -> Any:
        """Enqueue the launches; returns the result, or NotImplemented for NumPy memory that kernels cannot use."""
        queue, like = device.queue, arrays[0]
        # The buffers of results, scratch memory and providers from the front; those of arguments from the back.
        buffers: list[Any] = [None] * (self._count + len(arrays))
        waits: list[cl.Event] = []
        if host:
            if not self._take_host(device, arrays, buffers):
                return NotImplemented
        else:
            at = 0
            for value in arrays:
                at -= 1
                storage = value._storage
                if storage.queue is not queue or storage.others is not None or storage.array is not None:
                    waits += storage.waits(queue)
                buffers[at] = storage.buffer
        results: list[Any] = []
        for shape, strides, dtype, nbytes, slot in self._outputs:
            if host:
                made = fresh(shape, dtype)
                buffers[slot] = create(device.context, IN_PLACE, nbytes, made)
            else:
                made = like.uninitialized(device, shape, strides, dtype, nbytes)
                buffers[slot] = made._storage.buffer
            results.append(made)
        if self._scratch:
            release_pending()
            for nbytes, slot in self._scratch:
                buffers[slot] = take(device, queue, nbytes)
        for provider, slot in self._providers:
            buffers[slot], buffers[slot + 1] = provider(device, queue)
        event = None
        try:
            for launch in self._launches:
                event = launch.enqueue(queue, buffers, waits)
                waits = []
            for _, slot in self._scratch:
                give(buffers[slot], event)
            if host:
                self._wait(queue, event, buffers)
            else:
                for field, written in zip(arrays, self._written, strict=True):
                    field._storage.note(event, queue, written)
                for field in results:
                    field._storage.note(event, queue, True)
        except BaseException:
            self._cover_launches(queue, arrays, host, event, buffers)
            raise
        if self._kind is _ONE:
            return results[0]
        if self._kind is _SCALAR:
            return results[0][()]
        return event if self._kind is _EVENT else tuple(results) if self._kind is _SEVERAL else None

    def _cover_launches(self, queue: Any, arrays: list[Any], host: bool, event: Any, buffers: list[Any]) -> None:
        """Keep memory in use until the launches before an error are complete. `event` is the last one that is known;
        Ctrl-C may have lost a later one."""
        with contextlib.suppress(cl.Error):
            marker = cl.enqueue_marker(queue, wait_for=None if event is None else [event])
            if host:
                self._wait(queue, marker, buffers)
                marker.wait()
                return
            for field, written in zip(arrays, self._written, strict=True):
                field._storage.note(marker, queue, written)

    def ranges(self, arrays: Sequence[Any]) -> list[tuple[int, int]] | None:
        """(address, bytes) of each NumPy array, once; None if kernels cannot use the memory, or if written arrays
        overlap."""
        found = []
        for at, below, nbytes, step, _ in self._spans:
            address = arrays[at].__array_interface__["data"][0]
            if address % step:
                return None
            found.append((address - below, nbytes))
        if any(self._written) and len(found) > 1:
            ordered = sorted(found)
            if any(low + nbytes > after for (low, nbytes), (after, _) in itertools.pairwise(ordered)):
                return None
        return found

    def _take_host(self, device: Device, arrays: Sequence[np.ndarray], buffers: list[Any]) -> bool:
        """Make the buffers over the arrays' memory; False if kernels cannot use it."""
        if not self._needs_addresses:
            for at, _, nbytes, _, _ in self._spans:
                array = arrays[at]
                if not array.flags.aligned:
                    return False
                buffers[-1 - at] = create(device.context, IN_PLACE, nbytes, array)
            return True
        ranges = self.ranges(arrays)
        if ranges is None:
            return False
        for (at, *_), (low, nbytes) in zip(self._spans, ranges, strict=True):
            buffers[-1 - at] = _over(device.context, arrays[at], low, nbytes)
        return True

    def _wait(self, queue: Any, event: Any, buffers: list[Any]) -> None:
        """Wait until the written NumPy arrays are complete."""
        visible = [buffers[slot] for *_, slot in self._outputs]
        visible += [buffers[-1 - at] for at, written in enumerate(self._written) if written]
        for buffer in visible:
            make_visible(queue, buffer, buffer.size)
        if not visible:
            event.wait()


def claim() -> Recorder | None:
    """The recorder of this thread for the call that begins; each recorder serves one call."""
    recorder = _current.recorder
    if recorder is not None:
        _current.recorder = None
    return recorder


def recorded(function: Callable[..., Any] | None = None, *, functions: Callable[[Any], Hashable] | None = None) -> Any:
    """Decorator: repeat calls of an algorithm from recordings.

    functions: returns a key for the content of a Python function, or None if a call with this argument is not recorded.
    """
    if function is None:
        return functools.partial(recorded, functions=functions)

    @functools.wraps(function)
    def repeated(*args: Any, **named: Any) -> Any:
        found = _signature(function, functions, args, named)
        if found is None:
            return _unrecorded(function, args, named)
        device, key, arrays, host = found
        known = device.recordings.get(key) or device.recordings.find(key)
        if type(known) is Recording:
            result = known.run(device, arrays, host)
            return _unrecorded(function, args, named) if result is NotImplemented else result
        if known is _SEEN:
            return _record(functools.partial(function, *args, **named), device, key, arrays)
        if known is None:
            device.recordings.put(key, _SEEN)
        return _unrecorded(function, args, named)

    return repeated


def _unrecorded(function: Callable[..., Any], args: tuple[Any, ...], named: Mapping[str, Any]) -> Any:
    """Call a function. If it runs in a finalizer or a signal handler that interrupts a call which is about to begin,
    the recorder stays with the interrupted call."""
    outer = claim()
    try:
        return function(*args, **named)
    finally:
        if outer is not None:
            _current.recorder = outer


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
    function: Callable[..., Any],
    functions: Callable[[Any], Hashable] | None,
    args: tuple[Any, ...],
    named: Mapping[str, Any],
) -> tuple[Device, Hashable, list[Any], bool] | None:
    """(device, key, arrays, whether they are NumPy arrays) of a call; None if it cannot be recorded."""
    parts: list[Any] = [function, *named]
    arrays: list[Any] = []
    owners: list[Any] = []  # of the arrays' memory
    home: Device | None = None
    host = False
    for name in named:
        if named[name] is not None and (
            name in _NOT_GIVEN or (name == "device" and not isinstance(named[name], Device))
        ):
            return None  # a device's name may stand for another device later
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
            same = owners.index(storage) if storage in owners else -1
            owners.append(storage)
            arrays.append(value)
            parts += (kind, value.dtype, value.shape, value.strides, value.offset, value._writable, same)
        elif kind is np.ndarray:
            if (arrays and not host) or value.dtype.names is not None:
                return None
            host = True
            owner = id(value)
            same = owners.index(owner) if owner in owners else -1
            owners.append(owner)
            arrays.append(value)
            parts += (value.dtype, value.shape, value.strides, value.flags.writeable, same)
        elif kind is float:
            parts += (kind, repr(value))
        elif isinstance(value, Device):
            if home is not None and value is not home:
                return None
            home = value
            parts.append(Device)
        elif isinstance(value, np.dtype) or (kind is tuple and all(type(one) is int for one in value)):
            parts += (kind, value)
        elif kind is type and (issubclass(value, np.generic) or value in (int, float, bool)):
            parts.append(value)
        elif functions is not None and (content := functions(value)) is not None:
            parts.append(content)
        else:
            return None
    if not arrays:
        return None
    if home is None:
        where = named.get("device")
        if where == "host":
            return None
        home = find_device(where)
    if home.is_target:
        return None
    return home, tuple(parts), arrays, host
