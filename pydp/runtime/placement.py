"""The device and queue of a call, chosen from its arguments, and the checks of `out`."""

from __future__ import annotations

import contextlib
import itertools
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

import numpy as np
import pyopencl as cl

from pydp.errors import InvalidArgument, shown
from pydp.runtime import forks
from pydp.runtime.arrays.data import Array, FieldData, WrappedArray, device_of_array
from pydp.runtime.arrays.self_overlap import overlaps_itself
from pydp.runtime.drivers.devices import Device, from_queue
from pydp.runtime.drivers.devices import device as find_device
from pydp.runtime.memory.host_memory import check_dtype

ARRAYS = "NumPy arrays, Fields and pyopencl Arrays"


_COPIED = (list, tuple, int, float, complex, np.generic)


class Converted(np.ndarray):
    """An array that pydp has made of a list or number: no other code changes its elements."""


def may_change(value: Any) -> bool:
    """Whether a value is a NumPy array of the caller, whose elements may change until the events of the call."""
    return isinstance(value, np.ndarray) and not isinstance(value, Converted)


def normal_input(name: str, value: Any) -> Any:
    """Return an input as a Field, a pyopencl Array or an ndarray; array-likes are converted."""
    if isinstance(value, (FieldData, Array, np.ndarray)):
        if isinstance(value, np.ma.MaskedArray):
            raise InvalidArgument(f"{name} is a masked array and its mask would be lost; pass a plain array")
        return value
    if value is None:
        raise InvalidArgument(f"{name} is None; {ARRAYS} are accepted")
    if type(value).__module__.startswith("pydp."):
        raise InvalidArgument(f"{name} is a {type(value).__name__}; {ARRAYS} are accepted")
    try:
        array = np.asarray(value)
    except (TypeError, ValueError) as error:
        raise InvalidArgument(f"{name} cannot be converted to an array: {error}") from None
    check_dtype(array.dtype, name)
    return array.view(Converted) if isinstance(value, _COPIED) else array  # others may share their memory with it


def place(
    values: Mapping[str, Any], outs: Sequence[Any], device: Any, queue: Any, out_name: str = "out"
) -> tuple[Device, cl.CommandQueue]:
    """(device, queue) of a call with these inputs.

    The device is that of `queue`, else `device`, else that of the first device array (inputs before outputs), else the
    default. The queue is the given one, else that of the first pyopencl Array before the first Field, to preserve the
    order of the user's commands, else the device's. Raises InvalidArgument for arguments on different devices or a
    queue of another device.
    """
    homes = [(name, home_of(value)) for name, value in [*values.items(), *((out_name, one) for one in outs)]]
    first = next((home for _, home in homes if home is not None), None)
    check_queue(queue)
    if queue is not None:
        chosen = from_queue(queue)
        if device is not None and find_device(device).cl != chosen.cl:
            raise InvalidArgument(f"queue belongs to {chosen.name!r}, not to the device {find_device(device).name!r}")
    elif device is not None:
        chosen = find_device(device)
        if first is not None and first.cl == chosen.cl:
            chosen = first  # the same device in the caller's own context
    else:
        chosen = find_device(None) if first is None else first
    for name, home in homes:
        if home is not None and home.context != chosen.context:
            other = "in another context of the same device" if home.cl == chosen.cl else f"on {home.name!r}"
            raise InvalidArgument(f"{name} is {other}, but the call runs on {chosen.name!r}; copy it there first")
    if queue is None:
        on_device = [one for one in (*values.values(), *outs) if isinstance(one, FieldData)]
        arrays = itertools.takewhile(lambda one: isinstance(one, WrappedArray), on_device)
        queue = next((one.command_queue for one in arrays if one.command_queue is not None), None)
    return chosen, chosen.queue if queue is None else queue


def check_queue(queue: Any) -> None:
    """Raise InvalidArgument unless `queue` is None or a queue."""
    if queue is not None and not isinstance(queue, cl.CommandQueue):
        raise InvalidArgument(f"queue is a {type(queue).__name__}; a pyopencl.CommandQueue is accepted")


def first_array(values: Mapping[str, Any]) -> FieldData | None:
    """The first array among the inputs, if it is on a device; None if it is a NumPy array or if all are numbers."""
    for value in values.values():
        if isinstance(value, FieldData):
            return value
        if value.ndim or len(values) == 1:
            return None
    return None


def home_of(value: Any) -> Device | None:
    """The device that holds a Field or pyopencl Array; None for other values."""
    if isinstance(value, FieldData):
        value._storage.check_alive()
        return value._storage.device
    return device_of_array(value) if isinstance(value, Array) else None


def check_events(wait_for: Any) -> list[cl.Event]:
    """Return `wait_for` as a list of events, after flushing their queues."""
    if wait_for is None:
        return []
    forks.raise_if_lost()
    events = [wait_for] if isinstance(wait_for, cl.Event) else wait_for
    if not isinstance(events, (list, tuple)) or not all(isinstance(event, cl.Event) for event in events):
        raise InvalidArgument(f"wait_for is {shown(wait_for)}; a pyopencl.Event or a list of them is accepted")
    for event in events:
        status = event.command_execution_status
        if status < 0:
            raise InvalidArgument(
                f"wait_for has an event of a command that failed with status {status}; pass events of other commands"
            )
        with contextlib.suppress(cl.Error):  # Intel's runtime raises one if the program has released the queue
            queue = event.get_info(cl.event_info.COMMAND_QUEUE)
            if queue is not None:  # None for a user event
                queue.flush()
    return list(events)


def wait_on_host(wait_for: Any, *given: Any) -> None:
    """Wait for the events of a call if the caller may change one of these arguments until then: NumPy arrays, also in
    lists and tuples, and in lists and tuples among their items."""
    if wait_for is not None and any(may_change(one) for one in _items(_items(given))):
        wait_for_all(check_events(wait_for))


def wait_for_all(events: Iterable[cl.Event]) -> None:
    """Wait for events, which may be of several contexts."""
    for event in events:
        try:
            event.wait()
        except cl.Error as error:
            raise InvalidArgument(f"wait_for has an event that failed: {error}") from error


def of_context(context: cl.Context, events: list[cl.Event]) -> list[cl.Event]:
    """The events that commands in a context can wait for. The host waits for the others."""
    own = [event for event in events if _is_of(context, event)]
    if len(own) < len(events):
        wait_for_all(event for event in events if event not in own)
    return own


def _is_of(context: cl.Context, event: cl.Event) -> bool:
    try:
        return bool(event.context == context)
    except cl.Error:  # Intel's runtime, if the program has released that context
        return False


def _items(values: Iterable[Any]) -> Iterator[Any]:
    """The values, and the items of lists and tuples in their place."""
    for value in values:
        yield from value if isinstance(value, (list, tuple)) else (value,)


def check_out(out: Any, shape: tuple[int, ...], dtype: np.dtype, name: str) -> None:
    """Raise InvalidArgument unless `out` is a writable array of exactly this shape and dtype."""
    if not isinstance(out, (np.ndarray, FieldData, Array)) or isinstance(out, np.ma.MaskedArray):
        raise InvalidArgument(f"{name} is a {type(out).__name__}; {ARRAYS} are accepted")
    if tuple(out.shape) != shape:
        raise InvalidArgument(f"{name} has shape {tuple(out.shape)}; {shape} is needed")
    if out.dtype != dtype:
        raise InvalidArgument(f"{name} has dtype {out.dtype}; {dtype} is needed")
    check_writable(out, name)


def check_writable(out: Any, name: str) -> None:
    """Raise InvalidArgument for a read-only array and for one whose elements share memory."""
    if isinstance(out, WrappedArray):
        out = out.given
    if isinstance(out, np.ndarray):
        flags = out.flags
        writable, item = flags.writeable, 0 if flags.forc else out.itemsize
    elif isinstance(out, FieldData):
        writable, item = out._writable, 1  # the strides of a field count elements
    else:
        writable, item = True, out.dtype.itemsize
    if not writable:
        raise InvalidArgument(f"{name} is read-only; a writable array is needed")
    if item and overlaps_itself(tuple(out.shape), tuple(out.strides), item):
        raise InvalidArgument(
            f"{name} has shape {tuple(out.shape)} and strides {tuple(out.strides)}, so its elements share memory; "
            "only an array without overlapping elements can be written"
        )
