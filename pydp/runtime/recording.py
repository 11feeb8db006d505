"""Recordings: repeat the launches of an earlier call, without its checks and its planning.

    @recorded
    def scan(x, op="+", *, axis=-1, ...):

The second call with the same array layouts and the same other arguments records what it enqueues: kernels, buffers,
scratch memory. Later such calls repeat this with their own arrays. A recording holds no arrays of the caller.

A call is recorded if its arrays are Fields and pyopencl Arrays of one device, or NumPy arrays that kernels use in
place, and its other arguments are Python and NumPy numbers, strings, dtypes, grids, functions of NumPy and Python,
specializations, and tuples, lists and dicts of these.
out=, device= and queue= may be given, but not the name of a device, an out-of-order queue or events in wait_for=.
Without queue=, all arrays must have the same queue; the queue of a Field is the device's.
`forall` also takes vector functions and tiles, `histogram` its edges. Calls that enqueue more than kernels are not
recorded, and neither are calls with an array that is not an argument of kernels (``axis=np.array(0)``). Do not use the
decorator for functions that read elements or results on the host.
"""

from __future__ import annotations

import contextlib
import dataclasses
import functools
import inspect
import threading
from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from types import BuiltinFunctionType
from typing import TYPE_CHECKING, Any

import numpy as np
import pyopencl as cl
import pyopencl.array as cl_array

from pydp.errors import InvalidArgument
from pydp.runtime.arrays.data import Array, FieldData, WrappedArray
from pydp.runtime.arrays.operand import Operand
from pydp.runtime.drivers.devices import Device, from_queue
from pydp.runtime.drivers.devices import device as find_device
from pydp.runtime.forks import raise_if_lost
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
from pydp.runtime.memory.scratch import pool_of, size_class
from pydp.runtime.memory.storage import Storage, check_alive, is_in_order, memory_of
from pydp.runtime.programs.program import PreparedLaunch
from pydp.space import Extent, Grid, Index

if TYPE_CHECKING:
    from pydp.runtime.programs.program import Kernel

__all__ = ["Recorder", "claim", "recorded", "seen_before"]

_PLAIN = frozenset((str, int, bool, type(None), BuiltinFunctionType, np.ufunc))
_SEQUENCES = frozenset((tuple, list, Extent, Index))
_PLACES = frozenset(("device", "queue", "wait_for"))  # arguments that select where and when a call runs
_NEVER = "cannot be recorded"
_MOST_SEEN = 512  # hashes of calls that a device remembers; such a call is recorded when it occurs again
_MOST_ITEMS = 16  # items of a sequence in a key, at most; longer sequences may be data
_MOST_VALUES = 256  # values in a key, at most, with the items of nested sequences; a list may contain itself
# The kinds of results of a call:
_ONE, _SEVERAL, _SCALAR, _SCALARS, _EVENT, _NOTHING = "one", "several", "scalar", "scalars", "event", "nothing"
_FIXED = (np.generic, cl.LocalMemory)  # arguments of kernels that a recording may hold
_Content = tuple[Hashable, Iterable[Any]]
_Provider = Callable[[Device, Any], tuple[Any, Any]]


class _Local(threading.local):
    recorder: Recorder | None = None


_current = _Local()


class Recorder:
    """The commands that one call enqueues, noted by its Call. `valid` turns False if a recording cannot repeat them.

    A repeated call has a list of all buffers and numbers that its launches need: first the buffers of its arrays, then
    those of new results, scratch memory and providers. A slot is a position in this list.
    """

    def __init__(self, arrays: Sequence[Any]) -> None:
        self.valid = True
        self._arrays = arrays
        self._result: Any = None
        self._like = 0
        self._slots: dict[int, int] = {}  # by the id of a buffer or number; _kept keeps these alive
        self._kept: list[Any] = []
        self._providers: list[tuple[_Provider, int]] = []
        self._constants: set[int] = set()
        self._outputs: list[tuple[Operand, int]] = []
        self._written: set[int] = set()
        self._event: Any = None
        self._scratch: list[tuple[int, int]] = []
        self._launches: list[tuple[Kernel, Any, Any, list[Any]]] = []
        self._count = len(arrays)
        # Arrays that are not arguments of kernels: the host may read their elements, which are not in the key.
        self._unused = [id(one) for one in arrays]

    def _slot(self, buffer: Any) -> int:
        self._kept.append(buffer)
        self._slots[id(buffer)] = self._count
        self._count += 1
        return self._count - 1

    def argument(self, value: Any, operand: Operand, written: bool = False) -> None:
        """Note the buffer of an array that the caller gave."""
        given = value.given if isinstance(value, FieldData) else value
        at = _position(given, self._arrays)
        if at is None or (isinstance(value, np.ndarray) and not _is_used_in_place(value, operand)):
            self.valid = False
            return
        self.uses_layout(given)
        if written:
            self._written.add(at)
        slot = self._slots.setdefault(id(operand.buffer), at)
        self._kept.append(operand.buffer)
        if slot != at and isinstance(value, np.ndarray):  # two NumPy arrays of one buffer; others may not overlap
            self.valid = False

    def output(self, operand: Operand, like: FieldData | None) -> None:
        """Note the buffer of a new result; like: the array whose kind it has, None for a NumPy array."""
        at = 0 if like is None else _position(like.given, self._arrays)
        if at is None or (like is None and not _is_used_in_place(operand.result, operand)):
            self.valid = False
        self._like = at or 0
        self._outputs.append((operand, self._slot(operand.buffer)))

    def scratch(self, buffer: Any, nbytes: int) -> None:
        """Note a buffer of scratch memory."""
        self._scratch.append((size_class(nbytes), self._slot(buffer)))

    def provided(self, buffer: Any, tag: Any, provider: _Provider) -> None:
        """Note a buffer and a number that every launch gets anew, from `provider`."""
        self._providers.append((provider, self._slot(buffer)))
        self._slot(tag)

    def constant(self, buffer: Any) -> None:
        """Note a buffer that no kernel writes; the recording holds it."""
        self._kept.append(buffer)
        self._constants.add(id(buffer))

    def launch(self, kernel: Kernel, global_size: Any, local_size: Any, args: list[Any]) -> None:
        """Note a launch with its arguments."""
        places = {*self._slots, *self._constants, id(None)}
        known = all(id(arg) in places or isinstance(arg, _FIXED) for arg in args)
        self.valid = self.valid and known and 0 not in global_size
        self._launches.append((kernel, global_size, local_size, args))

    def uses_layout(self, array: Any) -> None:
        """Note that the call reads no elements of this array."""
        if id(array) in self._unused:
            self._unused.remove(id(array))

    def finish(self, result: Any, event: Any) -> None:
        """Note the call's result and its last event."""
        self._result, self._event = result, event

    def recording(self, returned: Any, device: Device) -> Recording | None:
        """The recording, if `returned` is the result or the event of the recorded call; else None."""
        if not self.valid or not self._launches or self._unused:
            return None
        results = self._result if type(self._result) is tuple else () if self._result is None else (self._result,)
        made = [operand.result for operand, _ in self._outputs]
        places = {id(one): at for at, one in reversed(list(enumerate([*self._arrays, *made])))}
        if any(id(one) not in places for one in results) or any(all(one is not r for r in results) for one in made):
            return None
        if returned is self._result:
            kind = _NOTHING if returned is None else _SEVERAL if type(returned) is tuple else _ONE
        elif _is_scalar_of(returned, self._result):
            kind = _SCALAR
        elif type(returned) is tuple and len(returned) == len(results) and all(map(_is_scalar_of, returned, results)):
            kind = _SCALARS
        elif returned is self._event and not made:
            kind = _EVENT
        else:
            return None
        outputs = [(one.shape, one.strides, one.result.dtype, one.nbytes, slot) for one, slot in self._outputs]
        written = [at in self._written for at in range(len(self._arrays))]
        once = {id(one): at for at, one in reversed(list(enumerate(self._arrays))) if type(one) is np.ndarray}.values()
        spans = [(at, *_span(self._arrays[at])) for at in once]
        mapped = [(at, nbytes) for at, _, nbytes, *_ in spans if written[at]]
        mapped += [(slot, nbytes) for *_, nbytes, slot in outputs]
        return Recording(
            kind,
            [places[id(one)] for one in results],
            [PreparedLaunch(*launch, self._slots_of(launch[-1]), self._count) for launch in self._launches],
            [*[None] * self._count, *range(max(len(args) for *_, args in self._launches))],
            outputs,
            self._like,
            self._scratch,
            self._providers,
            [] if device.profile.direct_host_memory else mapped,
            spans,
            [(at, other) for at in once for other in once if written[at] and (at < other or not written[other])],
        )

    def _slots_of(self, args: list[Any]) -> dict[int, int]:
        return {at: self._slots[id(arg)] for at, arg in enumerate(args) if id(arg) in self._slots}


def _is_scalar_of(returned: Any, result: Any) -> bool:
    """Whether a call returned the element of a result without axes."""
    return isinstance(returned, np.generic) and isinstance(result, np.ndarray) and not result.ndim


def _is_used_in_place(array: np.ndarray, operand: Operand) -> bool:
    """Whether the operand is the array's own memory, from its lowest to its highest address, and not a copy of it."""
    if not array.size or operand.owner is not array or not operand.buffer.flags & cl.mem_flags.USE_HOST_PTR:
        return False
    low, high = byte_range(array)
    first = array.__array_interface__["data"][0] - low
    whole = operand.buffer.size == high - low and operand.offset * array.itemsize == first
    return whole and fits_in_place(array)


def _span(array: Any) -> tuple[int, int, int, bool]:
    """(bytes below the first element, bytes in all, alignment, whether the driver can take the array itself) of a NumPy
    array."""
    low, high = byte_range(array)
    flags, step = array.flags, alignment(array.dtype)
    whole = flags.c_contiguous and flags.writeable and array.dtype.alignment >= step
    return array.__array_interface__["data"][0] - low, high - low, step, whole


@dataclasses.dataclass(slots=True, eq=False)
class Recording:
    """The launches of a call; `run` repeats them with other arrays of the same layouts.

    kind: what the call returns. returned: positions of the results in the arrays and new results.
    outputs: (shape, strides, dtype, bytes, slot) of the new results. like: the position of the array whose kind they
    have. scratch: (size class, slot).
    mapped: (slot, bytes) of NumPy memory that kernels write and that must be mapped to be complete. spans: (position in
    the arrays, *`_span`) of each NumPy array, once. disjoint: positions of NumPy arrays that must not overlap, because
    one of them is written.
    template: the list that launches take (see Recorder) without buffers, and the numbers 0, 1, 2, ...
    """

    kind: str
    returned: list[int]
    launches: list[PreparedLaunch]
    template: list[Any]
    outputs: list[tuple[tuple[int, ...], tuple[int, ...], np.dtype, int, int]]
    like: int
    scratch: list[tuple[int, int]]
    providers: list[tuple[_Provider, int]]
    mapped: list[tuple[int, int]]
    spans: list[tuple[int, int, int, int, bool]]
    disjoint: list[tuple[int, int]]

    def run(self, device: Device, queue: Any, arrays: list[Any], fields: list[FieldData]) -> Any:
        """Enqueue the launches; returns the result, or NotImplemented for NumPy memory that kernels cannot use.

        fields: the arrays as FieldData; empty for NumPy arrays."""
        given = self.template.copy()
        waits: list[cl.Event] = []
        if not fields:
            if not self._take_host(device, arrays, given):
                return NotImplemented
        else:
            for at, field in enumerate(fields):
                storage = field._storage
                given[at] = storage.buffer  # first: it may compute a result, which adds events
                if storage.queue is not queue or storage.others is not None or storage.array is not None:
                    waits += storage.waits(queue)
        results: list[Any] = []
        made: list[Storage] = []
        for shape, strides, dtype, nbytes, slot in self.outputs:
            if fields:
                field = fields[self.like].uninitialized(device, queue, shape, strides, dtype, nbytes)
                given[slot] = field._storage.buffer
                made.append(field._storage)
                results.append(field.given)
            else:
                array = fresh(shape, dtype)
                given[slot] = create(device.context, IN_PLACE, nbytes, array)
                results.append(array)
        if self.scratch:
            release_pending()
            pool = pool_of(queue)
            for size, slot in self.scratch:
                given[slot] = pool.take(device, size)
        for provider, slot in self.providers:
            given[slot], given[slot + 1] = provider(device, queue)
        event = None
        try:
            for launch in self.launches:
                event = launch.enqueue(queue, given, waits)
                waits = []
            for size, slot in self.scratch:
                pool.give(given[slot], size, event)
            if fields:
                for field in fields:
                    field._storage.note(event, queue)
                for storage in made:
                    if storage.array is None:
                        storage.event = event
                    else:
                        storage.note(event, queue)
            else:
                self._wait(queue, event, given)
        except BaseException:
            self._cover_launches(queue, fields, event, given)
            raise
        kind = self.kind
        if kind is _EVENT:
            return event
        arrays += results
        if kind is _ONE:
            return arrays[self.returned[0]]
        if kind is _SCALAR:
            return arrays[self.returned[0]][()]
        if kind is _SCALARS:
            return tuple([arrays[at][()] for at in self.returned])
        return tuple([arrays[at] for at in self.returned]) if kind is _SEVERAL else None

    def _cover_launches(self, queue: Any, fields: list[FieldData], event: Any, given: list[Any]) -> None:
        """Keep memory in use until the launches before an error are complete. `event` is the last one that is known;
        Ctrl-C may have lost a later one."""
        with contextlib.suppress(cl.Error):
            marker = cl.enqueue_marker(queue, wait_for=None if event is None else [event])
            if not fields:
                for slot, nbytes in self.mapped:
                    make_visible(queue, given[slot], nbytes)
                marker.wait()
            for field in fields:
                field._storage.note(marker, queue)

    def _take_host(self, device: Device, arrays: Sequence[np.ndarray], given: list[Any]) -> bool:
        """Make the buffers over the arrays' memory; False if kernels cannot use it."""
        for at, other in self.disjoint:
            if np.may_share_memory(arrays[at], arrays[other]):  # compares the bounds only
                return False
        context = device.context
        for at, below, nbytes, step, whole in self.spans:
            array = arrays[at]
            if whole:
                if not array.flags.aligned:
                    return False
                given[at] = create(context, IN_PLACE, nbytes, array)
            else:
                address = array.__array_interface__["data"][0]
                if address % step:
                    return False
                given[at] = buffer_over(context, address - below, address - below + nbytes, array)
        return True

    def _wait(self, queue: Any, event: Any, given: list[Any]) -> None:
        """Wait until the written NumPy arrays are complete."""
        for slot, nbytes in self.mapped:
            make_visible(queue, given[slot], nbytes)
        if not self.mapped:
            event.wait()


def claim() -> Recorder | None:
    """The recorder of this thread for the call that begins; each recorder serves one call."""
    recorder = _current.recorder
    if recorder is not None:
        _current.recorder = None
    return recorder


def recorded(
    function: Callable[..., Any] | None = None, *, content: Callable[[Any], _Content | None] | None = None
) -> Any:
    """Decorator: repeat calls of an algorithm from recordings.

    content: returns a key for an argument of another type and the arguments that it contains, or None if a call with
    this argument is not recorded.
    """
    if function is None:
        return functools.partial(recorded, content=content)

    @functools.wraps(function)
    def repeated(*args: Any, **named: Any) -> Any:
        found = _signature(function, content, args, named)
        if found is not None:
            device, queue, key, arrays, fields = found
            known = device.recordings.get(key) or device.recordings.find(key)
            if type(known) is Recording:
                result = known.run(device, queue, arrays, fields)
                if result is not NotImplemented:
                    return result
            elif known is None and seen_before(device, key):
                return _record(functools.partial(function, *args, **named), device, key, arrays)
        check_memory({**dict(enumerate(args)), **named}, functools.partial(_name_of, function))
        if _current.recorder is None:
            return function(*args, **named)
        # This call runs in a finalizer or a signal handler that interrupts a call which is about to begin; the recorder
        # belongs to the interrupted call.
        outer = claim()
        try:
            return function(*args, **named)
        finally:
            _current.recorder = outer

    return repeated


def check_memory(named: Mapping[Any, Any], name_of: Callable[[Any], str] = str) -> None:
    """Raise InvalidArgument if a pyopencl Array among the arguments of a call has been released, whatever the argument:
    comparing such an array with an option, or printing it, would use its memory. Raises NoUsableDevice in a child
    process that must not use its driver. name_of: returns the name of an argument for its key in `named`."""
    for key, value in named.items():
        inner = value.values() if isinstance(value, dict) else value if isinstance(value, (list, tuple)) else (value,)
        for one in inner if len(inner) <= _MOST_ITEMS else ():  # longer sequences are data
            if isinstance(one, cl_array.Array):
                raise_if_lost()
                try:
                    check_alive(one.base_data, one.context, "a pyopencl Array")
                except InvalidArgument as error:
                    raise InvalidArgument(f"{name_of(key)}: {error}") from None


def _name_of(function: Callable[..., Any], key: int | str) -> str:
    """The name of an argument, by its position or keyword."""
    if isinstance(key, str):
        return key
    for at, parameter in enumerate(inspect.signature(function).parameters.values()):
        if parameter.kind == parameter.VAR_POSITIONAL:
            return f"argument {key - at}"
        if at == key:
            return parameter.name
    return f"argument {key}"


def seen_before(device: Device, key: Hashable) -> bool:
    """Whether a call with this key was made before. Numbers may differ in every call, so this keeps no keys: they must
    not evict recordings, and the garbage collector would visit them. Two keys may have the same hash; the first call
    with the second one is then recorded, too."""
    seen, hashed = device.seen_calls, hash(key)
    if hashed in seen:
        return True
    if len(seen) >= _MOST_SEEN:
        seen.clear()
    seen.add(hashed)
    return False


def _record(call: Callable[[], Any], device: Device, key: Hashable, arrays: Sequence[Any]) -> Any:
    epoch, outer, recorder = device.recordings.epoch, _current.recorder, Recorder(arrays)
    _current.recorder = recorder
    try:
        result = call()
    finally:
        _current.recorder = outer
    device.recordings.put(key, recorder.recording(result, device) or _NEVER, epoch)
    return result


def _signature(
    function: Callable[..., Any],
    content: Callable[[Any], _Content | None] | None,
    args: tuple[Any, ...],
    named: dict[str, Any],
) -> tuple[Device, Any, Hashable, list[Any], list[FieldData]] | None:
    """(device, queue, key, arrays, arrays on a device as FieldData) of a call; None if it cannot be recorded."""
    parts: list[Any] = [function, *named]
    values: list[Any] = [*args]  # sequences among them append their items
    for name, value in named.items():
        if name not in _PLACES:
            values.append(value)
        elif value is not None and not _may_be_recorded(name, value):
            return None
    device, queue = named.get("device"), named.get("queue")
    arrays: list[Any] = []
    fields: list[FieldData] = []
    owners: list[Any] = []  # of the memory of the fields
    queues: list[Any] = []  # of pyopencl Arrays
    for value in values:
        kind = type(value)
        if kind in _PLAIN:
            parts += (kind, value)
        elif isinstance(value, FieldData) or kind is Array:
            field = value
            try:
                if kind is Array:
                    field = WrappedArray.wrap(value)
                    queues.append(value.queue)
                elif value._storage.array is not None:
                    value._storage.check_alive()
            except InvalidArgument:
                return None  # the call itself reports it and names the argument
            storage, owner, start = field._storage, field._storage, 0
            if storage.array is not None:
                owner, start = memory_of(storage.buffer)  # Arrays may be views of one buffer, and of its parts
            if device is None:
                device = storage.device
            if len(arrays) > len(fields) or storage.device is not device or _is_special(field.dtype):
                return None
            same: tuple[int | None, ...] | None = None
            if owner in owners:  # a part of a buffer may start like the buffer, so the memory alone does not suffice
                buffer_at = _position(storage.buffer, [one._storage.buffer for one in fields])
                same = (owners.index(owner), buffer_at, _position(value, arrays))
            owners.append(owner)
            arrays.append(value)
            fields.append(field)
            parts += (kind, field.dtype, field.shape, field.strides, field.offset, field._writable, start, same)
        elif kind is np.ndarray:
            if fields or _is_special(value.dtype):
                return None
            parts += (value.dtype, value.shape, value.strides, value.flags.writeable, _position(value, arrays))
            arrays.append(value)
        else:
            found = None if content is None else content(value)
            found = found or _content_of(value, kind)
            if found is None or len(values) > _MOST_VALUES:
                return None
            parts.append(found[0])
            values.extend(found[1])  # not +=, which calls __radd__ of an Extent
    if not arrays:
        return None
    home = from_queue(queue) if queue is not None else find_device(None) if device is None else device
    if home.is_target or (device is not None and device is not home):
        return None
    own = home.queue  # raises an error in a forked process
    if queue is None:
        queue = own
        if queues:
            used = {one or own for one in queues} | ({own} if len(queues) < len(arrays) else set())
            queue = used.pop()
            if used or not is_in_order(queue):
                return None
    return home, queue, tuple(parts), arrays, fields


def _may_be_recorded(name: str, value: Any) -> bool:
    """Whether a call with this device=, queue= or wait_for= may be recorded. A device's name may stand for another
    device later."""
    if name == "device":
        return isinstance(value, Device)
    if name == "queue":
        return type(value) is cl.CommandQueue and is_in_order(value)
    return type(value) in _SEQUENCES and not value


def _is_special(dtype: np.dtype) -> bool:
    """Whether an array is not in keys by its dtype: records, and dtypes that metadata distinguishes from equal ones."""
    return dtype.names is not None or dtype.metadata is not None


def _position(value: Any, arrays: Sequence[Any]) -> int | None:
    """The position of an array that is given twice."""
    for at, one in enumerate(arrays):
        if one is value:
            return at
    return None


def _content_of(value: Any, kind: type) -> _Content | None:
    """A key for an argument of another type, and the arguments that it contains; None if it has none."""
    if kind is float or kind is complex:
        return (kind, repr(value)), ()  # different for 0.0 and -0.0, and the same for all NaNs
    if kind is Grid:
        return (kind, value.extent, value.offset), ()
    if kind in _SEQUENCES:
        return ((kind, len(value)), value) if len(value) <= _MOST_ITEMS else None
    if isinstance(value, (np.number, np.bool_)):
        return (kind, value.tobytes()), ()
    if isinstance(value, np.dtype):
        return None if value.metadata else ((kind, value), ())
    if kind is type and (issubclass(value, np.generic) or value in (int, float, bool)):
        return (kind, value), ()
    if kind is dict:
        return ((kind, *value), value.values()) if all(type(name) is str for name in value) else None
    if dataclasses.is_dataclass(kind) and kind.__module__.startswith("pydp."):
        return (kind,), [getattr(value, field.name) for field in dataclasses.fields(value)]
    return None
