"""Device selection: list the devices, select one, set the default of a block.

No driver is loaded before the first query. A device is used only after its probe passed.
"""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Iterator
from contextvars import ContextVar
from typing import TYPE_CHECKING, Any

from pydp.errors import InvalidArgument, NoUsableDevice, shown
from pydp.runtime import forks
from pydp.runtime.bounded import BoundedCache
from pydp.runtime.device.core import DeviceCore
from pydp.runtime.device.quirks import DRIVER_KEYS
from pydp.runtime.drivers import find as drivers
from pydp.runtime.drivers import probe
from pydp.runtime.environment import reader
from pydp.runtime.memory.queue_state import QueueMemory, state_of
from pydp.runtime.programs.program import described

if TYPE_CHECKING:
    import pyopencl as cl

_KINDS = ("gpu", "accelerator", "cpu")
# A Device of a caller's context, or of a sub-device, lives as long as a Field on it or a queue that was used with it.
# The last ones are kept longer: a program that makes a new queue for each call then reuses the built kernels.
_MOST_DROPPED = 2
_lock = forks.fork_safe(threading.RLock())
_all: list[Device] | None = None
_foreign = BoundedCache(_MOST_DROPPED, weak=True)  # keys: addresses of context and device; the Device keeps both alive
_sub_devices = BoundedCache(_MOST_DROPPED, weak=True)
_defaults = BoundedCache(16)
_current: ContextVar[Device | None] = ContextVar("pydp_device", default=None)
forks.on_loss(_defaults.clear)  # `device` then raises; `_all` keeps the devices alive


class Device(DeviceCore):
    """One OpenCL device, with one context and one in-order queue.

    There is one Device per OpenCL device and process. A context that the caller made has its own Device.

    ``name``, ``vendor``, ``platform``, ``driver_version``, ``kind`` ("cpu", "gpu", "accelerator") and ``driver``
    ("pocl", "intel", ...) describe the device. ``cl``, ``context`` and ``queue`` are pyopencl objects. ``profile``
    holds the properties that decide which kernels run. ``uid`` is the same in every process. ``reason`` explains why
    the device cannot be used; it is None if the probe passed.
    """

    @property
    def reason(self) -> str | None:
        """Why the device cannot be used, in one sentence; None if its probe passed."""
        return probe.verdict(self)

    @property
    def usable(self) -> bool:
        """Whether the probe passed."""
        return self.reason is None

    @property
    def last_launch(self) -> str | None:
        """The last kernel enqueued on this device: its template, sizes, parameters and driver; None before the first
        launch. If a program hangs, read this from another thread or a debugger."""
        launch = self.launched[0]
        return None if launch is None else described(launch)

    def free_idle_memory(self) -> None:
        """Free the memory that calls have freed and that pydp keeps for later calls, on all devices, for example before
        another library needs it. Memory that running commands use is freed after them.

        >>> pydp.device().free_idle_memory()
        """
        QueueMemory.drop_all()


def _order(device: Device) -> tuple[Any, ...]:
    profile = device.profile
    integrated = device.kind == "gpu" and profile.shares_host_memory
    return (
        profile.is_simulator,
        _KINDS.index(device.kind),
        integrated,
        device.quirks.rank,
        tuple(-part for part in device.quirks.version),  # newer drivers first
        -profile.compute_units,
        -profile.global_bytes,
    )


def all_devices() -> list[Device]:
    """All devices that the drivers list, usable or not, best first."""
    global _all
    forks.raise_if_lost()
    with _lock:
        if _all is None:
            made = sorted((Device(cl_device) for _, cl_device in drivers.raw_devices()), key=_order)
            if _all is None:  # else a finalizer has filled it meanwhile and uses those devices
                _all = made
        return list(_all)


def devices() -> list[Device]:
    """The usable devices, best first: GPUs, then accelerators, then CPUs. Simulators come last.

    A device is usable if small kernels with barriers, local memory and atomics computed correct results on it. The
    command ``pydp devices`` also shows the other devices, with the reason.
    """
    return [device for device in all_devices() if device.usable]


def device(which: object = None) -> Device:
    """Select one usable device.

    which: an index into :func:`devices`; "cpu", "gpu" or "accelerator"; the short name of a driver ("pocl", "intel",
    "nvidia", "rusticl", ...); a part of the device's name, platform or vendor; a ``pyopencl.Device``; a
    :class:`Device`; or None for the default. The default is set by ``using``, then by the environment variables
    PYDP_DEVICE and PYOPENCL_CTX; otherwise it is the best device. Raises NoUsableDevice if no device matches or if the
    matching devices failed their probes, InvalidArgument for other types.

    >>> pydp.device("cpu").kind          # doctest: +SKIP
    'cpu'
    """
    if which is None:
        return _current.get() or default_device()
    if isinstance(which, Device):
        return which
    if isinstance(which, bool):
        raise InvalidArgument(f"{shown(which)} is not a device; an index, a name, a kind or a device is accepted")
    if isinstance(which, int):
        return _by_index(which)
    if isinstance(which, str):
        return _by_index(int(which)) if which.isdecimal() else _by_name(which)
    import pyopencl as cl

    if isinstance(which, cl.Device):
        return _by_cl(which)
    raise InvalidArgument(f"{shown(which)} is not a device; an index, a name, a kind or a device is accepted")


def _by_index(index: int) -> Device:
    usable = devices()
    if not 0 <= index < len(usable):
        raise NoUsableDevice(f"there is no device {index}; there are {len(usable)} usable devices: {_names(usable)}")
    return usable[index]


def _by_name(name: str) -> Device:
    wanted = name.strip().lower()
    known = all_devices()
    if wanted in _KINDS:
        matching = [one for one in known if one.kind == wanted]
    elif wanted in DRIVER_KEYS:  # the name of a PoCL device may contain "Intel"; "intel" selects the driver
        matching = [one for one in known if one.driver == wanted]
    else:
        matching = [one for one in known if wanted in one._texts()]
    return _first_usable(matching, f"no OpenCL device matches {name!r}; available devices: {_names(known)}")


def _first_usable(matching: list[Device], otherwise: str) -> Device:
    for one in matching:
        if one.usable:
            return one
    if matching:
        raise NoUsableDevice(f"{matching[0].name!r} on {matching[0].platform!r} cannot be used: {matching[0].reason}")
    raise NoUsableDevice(otherwise)


def _names(known: list[Device]) -> str:
    return "; ".join(f"{one.name} ({one.platform})" for one in known) or "none"


def _by_cl(cl_device: cl.Device) -> Device:
    for one in all_devices():
        if one.cl == cl_device:
            return _first_usable([one], "")
    # A sub-device, or a device of a platform that was added later.
    return _first_usable([_sub_devices.make(cl_device.int_ptr, Device, cl_device)], "")


_name, _choice = reader("PYDP_DEVICE"), reader("PYOPENCL_CTX")


def default_device() -> Device:
    """The default device outside of :func:`using`; raises NoUsableDevice if there is none."""
    asked = (_name() or None, _choice() or None)
    found: Device | None = _defaults.get(asked)
    return _defaults.make(asked, _find_default, *asked) if found is None else found


def _find_default(name: str | None, choice: str | None) -> Device:
    if name is not None:
        return device(name)
    if choice is not None:
        return _by_pyopencl_choice(choice)
    return _first_usable(
        all_devices(),
        "no OpenCL device was found; install a driver, for example pocl-opencl-icd, or intel-opencl-rt with pip "
        "(see `pydp doctor`)",
    )


def _by_pyopencl_choice(choice: str) -> Device:
    """Parse PYOPENCL_CTX as pyopencl does: PLATFORM[:DEVICE], each an index or a part of a name."""
    parts = choice.split(":")
    pairs = drivers.raw_devices()
    platforms = list(dict.fromkeys(platform for platform, _ in pairs))
    chosen = _pick(platforms, parts[0])
    candidates = [one for platform, one in pairs if platform in chosen]
    if len(parts) > 1 and parts[1]:
        candidates = _pick(candidates, parts[1].split(",")[0])
    matching = [one for one in all_devices() if one.cl in candidates]
    return _first_usable(
        matching, f"no device matches PYOPENCL_CTX={choice!r}; available devices: {_names(all_devices())}"
    )


def _pick(things: list[Any], choice: str) -> list[Any]:
    if choice.strip().isdecimal():
        index = int(choice)
        return things[index : index + 1]
    return [thing for thing in things if choice.strip().lower() in thing.name.lower()]


def from_queue(queue: cl.CommandQueue) -> Device:
    """The Device of a pyopencl queue. It is pydp's own Device if the queue belongs to its context, else one made for
    the queue's context. Callers can therefore pass their own contexts, queues and arrays."""
    state = state_of(queue)
    found = state.device
    if found is None:
        forks.raise_if_lost()
        found = from_context(queue.context, queue.device)
        state.keep_device(found, own=found._queue is queue)
    return found


def from_context(context: cl.Context, cl_device: cl.Device) -> Device:
    """The Device for a context; see :func:`from_queue`."""
    own = _by_cl(cl_device)
    if own._context is not None and own._context == context:
        return own
    key = (context.int_ptr, cl_device.int_ptr)
    found: Device | None = _foreign.get(key)
    return _foreign.make(key, _of_context, cl_device, context, own) if found is None else found


def _of_context(cl_device: cl.Device, context: cl.Context, own: Device) -> Device:
    made = Device(cl_device, context)
    made._profile = own.profile  # without the features that failed the probe
    return made


@contextlib.contextmanager
def using(which: object) -> Iterator[Device]:
    """Set the default device for a block in this thread, and return it. which, errors: as for :func:`device`.

    >>> with pydp.using("pocl"):         # doctest: +SKIP
    ...     pydp.reduce(x)
    """
    chosen = device(which)
    token = _current.set(chosen)
    try:
        yield chosen
    finally:
        _current.reset(token)


def known_devices() -> list[Device]:
    """All Device objects of this process, including those of callers' contexts."""
    with _lock:
        return [*(_all or []), *_sub_devices.alive(), *_foreign.alive()]
