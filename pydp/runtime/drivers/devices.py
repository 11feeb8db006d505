"""Devices: finding the best one, naming one, and the default of a block.

Device discovery touches no driver before it is first asked for, and trusts none before its probe passed.
"""

from __future__ import annotations

import contextlib
import os
import threading
from collections.abc import Iterator
from contextvars import ContextVar
from typing import TYPE_CHECKING, Any

from pydp.errors import InvalidArgument, NoUsableDevice
from pydp.runtime import forks
from pydp.runtime.bounded import BoundedCache
from pydp.runtime.device.core import DeviceCore
from pydp.runtime.device.quirks import DRIVER_KEYS
from pydp.runtime.drivers import find as drivers
from pydp.runtime.drivers import probe
from pydp.runtime.memory.queue_state import state_of
from pydp.runtime.programs.program import described

if TYPE_CHECKING:
    import pyopencl as cl

_KINDS = ("gpu", "accelerator", "cpu")
# Devices of the caller's contexts, and sub-devices, live as long as a Field on them, and as a queue that was used with
# them. Beyond that the last ones are kept, so that a program that makes a queue for each call builds nothing anew.
_MOST_DROPPED = 2
_lock = forks.fork_safe(threading.RLock())
_all: list[Device] | None = None
_foreign = BoundedCache(_MOST_DROPPED, weak=True)  # by the addresses of context and device, which the Device keeps
_sub_devices = BoundedCache(_MOST_DROPPED, weak=True)
_defaults = BoundedCache(16)
_current: ContextVar[Device | None] = ContextVar("pydp_device", default=None)
forks.on_loss(_defaults.clear)  # so that `device` raises; the devices are kept by `_all`


class Device(DeviceCore):
    """One OpenCL device, with one context and one in-order queue for the whole process.

    ``name``, ``vendor``, ``platform``, ``driver_version``, ``kind`` ("cpu", "gpu", "accelerator") and ``driver``
    ("pocl", "intel", ...) describe it; ``cl``, ``context`` and ``queue`` are pyopencl's objects; ``profile`` holds
    what choices are made from; ``uid`` is the same in every process; ``reason`` says why it cannot be used
    (None: it passed the trust probe).
    """

    @property
    def reason(self) -> str | None:
        """Why the device cannot be used, in one sentence; None where its trust probe passed."""
        return probe.verdict(self)

    @property
    def usable(self) -> bool:
        """True where the trust probe passed."""
        return self.reason is None

    @property
    def last_launch(self) -> str | None:
        """The last kernel that was enqueued on this device: its template, sizes, parameters and driver; None before the
        first one. If a program hangs, read it from another thread or a debugger."""
        launch = self.launched[0]
        return None if launch is None else described(launch)


def _order(device: Device) -> tuple[Any, ...]:
    profile = device.profile
    integrated = device.kind == "gpu" and profile.shares_host_memory
    return (
        profile.is_simulator,
        _KINDS.index(device.kind),
        integrated,
        device.quirks.rank,
        tuple(-part for part in device.quirks.version),  # of two of a driver, the newer
        -profile.compute_units,
        -profile.global_bytes,
    )


def all_devices() -> list[Device]:
    """Every device that a driver lists, usable or not, in the order of preference."""
    global _all
    forks.raise_if_lost()
    with _lock:
        if _all is None:
            made = sorted((Device(cl_device) for _, cl_device in drivers.raw_devices()), key=_order)
            if _all is None:  # else a finalizer has asked meanwhile, and works with those devices
                _all = made
        return list(_all)


def devices() -> list[Device]:
    """The usable devices, best first: GPUs, then CPUs; a simulator comes last.

    A device is usable when a small kernel with a barrier, local memory and atomics gave the right answer on it;
    the others are shown, with the reason, by the command ``pydp devices``.
    """
    return [device for device in all_devices() if device.usable]


def device(which: object = None) -> Device:
    """One usable device.

    which: None for the default (of ``using``, of the environment variables PYDP_DEVICE or PYOPENCL_CTX, else the
    best); an index into :func:`devices`; "cpu" or "gpu"; a driver's short name ("pocl", "intel", "nvidia",
    "rusticl", ...); a part of the device's name, platform or vendor; a ``pyopencl.Device``; a :class:`Device`.
    Raises NoUsableDevice where nothing matches or what matches failed its probe, InvalidArgument for other types.

    >>> pydp.device("cpu").kind          # doctest: +SKIP
    'cpu'
    """
    if which is None:
        return _current.get() or default_device()
    if isinstance(which, Device):
        return which
    if isinstance(which, bool):
        raise InvalidArgument(f"{which!r} is not a device; an index, a name, a kind or a device is accepted")
    if isinstance(which, int):
        return _by_index(which)
    if isinstance(which, str):
        return _by_index(int(which)) if which.isdecimal() else _by_name(which)
    import pyopencl as cl

    if isinstance(which, cl.Device):
        return _by_cl(which)
    raise InvalidArgument(f"{which!r} is not a device; an index, a name, a kind or a device is accepted")


def _by_index(index: int) -> Device:
    usable = devices()
    if not 0 <= index < len(usable):
        raise NoUsableDevice(f"there is no device {index}; {len(usable)} usable ones are there: {_names(usable)}")
    return usable[index]


def _by_name(name: str) -> Device:
    wanted = name.strip().lower()
    known = all_devices()
    if wanted in _KINDS:
        matching = [one for one in known if one.kind == wanted]
    elif wanted in DRIVER_KEYS:  # a PoCL device may carry "Intel" in its name; a driver's name means the driver
        matching = [one for one in known if one.driver == wanted]
    else:
        matching = [one for one in known if wanted in one._texts()]
    return _first_usable(matching, f"no OpenCL device matches {name!r}; these are there: {_names(known)}")


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
    # A sub-device, or one of a platform that came later.
    return _first_usable([_sub_devices.make(cl_device.int_ptr, Device, cl_device)], "")


def default_device() -> Device:
    """The device of calls that name none, outside of :func:`using`; NoUsableDevice where there is none."""
    asked = (os.environ.get("PYDP_DEVICE") or None, os.environ.get("PYOPENCL_CTX") or None)
    found: Device | None = _defaults.get(asked)
    return _defaults.make(asked, _find_default, *asked) if found is None else found


def _find_default(name: str | None, choice: str | None) -> Device:
    if name is not None:
        return device(name)
    if choice is not None:
        return _by_pyopencl_choice(choice)
    return _first_usable(
        all_devices(),
        "no OpenCL device is there; install a driver, for example pocl-opencl-icd, or intel-opencl-rt by pip "
        "(`pydp doctor` says more)",
    )


def _by_pyopencl_choice(choice: str) -> Device:
    """PYOPENCL_CTX as pyopencl reads it: PLATFORM[:DEVICE], each an index or a part of a name."""
    parts = choice.split(":")
    pairs = drivers.raw_devices()
    platforms = list(dict.fromkeys(platform for platform, _ in pairs))
    chosen = _pick(platforms, parts[0])
    candidates = [one for platform, one in pairs if platform in chosen]
    if len(parts) > 1 and parts[1]:
        candidates = _pick(candidates, parts[1].split(",")[0])
    matching = [one for one in all_devices() if one.cl in candidates]
    return _first_usable(matching, f"PYOPENCL_CTX={choice!r} names no device; these are there: {_names(all_devices())}")


def _pick(things: list[Any], choice: str) -> list[Any]:
    if choice.strip().isdecimal():
        index = int(choice)
        return things[index : index + 1]
    return [thing for thing in things if choice.strip().lower() in thing.name.lower()]


def from_queue(queue: cl.CommandQueue) -> Device:
    """The Device behind a pyopencl queue: this process's own where the queue is of its context, else one of the
    queue's context, so that a caller's own contexts, queues and arrays work as they are."""
    state = state_of(queue)
    found = state.device
    if found is None:
        forks.raise_if_lost()
        found = from_context(queue.context, queue.device)
        state.keep_device(found, own=found._queue is queue)
    return found


def from_context(context: cl.Context, cl_device: cl.Device) -> Device:
    """The Device whose ``context`` is `context`: see :func:`from_queue`."""
    own = _by_cl(cl_device)
    if own._context is not None and own._context == context:
        return own
    key = (context.int_ptr, cl_device.int_ptr)
    found: Device | None = _foreign.get(key)
    return _foreign.make(key, _of_context, cl_device, context, own) if found is None else found


def _of_context(cl_device: cl.Device, context: cl.Context, own: Device) -> Device:
    made = Device(cl_device, context)
    made._profile = own.profile  # without what the probe did not find
    return made


@contextlib.contextmanager
def using(which: object) -> Iterator[Device]:
    """Make a device the default of a block, in this thread.

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
    """Every Device object of this process, those of callers' own contexts included."""
    with _lock:
        return [*(_all or []), *_sub_devices.alive(), *_foreign.alive()]
