"""Forked processes: a child of a process that has used OpenCL gets an error from every call that needs a device.

The driver's threads do not exist in the child, and a lock of the driver that a thread held at the fork is never freed.
On PoCL and rusticl every command waits for ever in the child, in a new context too. Intel's runtime works in the child,
unless commands were running at the fork; no query tells whether they were. So the child uses no driver at all. A fork
before the first use of OpenCL changes nothing. Only forks by Python are seen, not those by C code.

    raise_if_lost()                 before a driver is touched; a warm call need not: `Device.queue` raises in the child
    on_loss(function)               `function` runs in such a child right after the fork
    fork_safe(threading.Lock())     a lock that is free in every child, even if another thread held it at the fork

The child releases none of pydp's OpenCL objects either, since a release takes locks of the driver (children hung in
clReleaseEvent on PoCL) and may join threads (children crashed on rusticl). Finalizers keep the objects instead. Objects
of pyopencl that only the caller holds are kept when the child's interpreter ends; before that, nothing prevents
their release.
"""

from __future__ import annotations

import atexit
import contextlib
import ctypes
import gc
import os
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar
from weakref import WeakSet

from pydp.errors import NoUsableDevice

_Lock = TypeVar("_Lock")


class Releases:
    """Whether finalizers must keep the objects that they would release, and the list that keeps them.

    A finalizer takes this object as a default argument, because globals may be gone when the interpreter ends.
    """

    __slots__ = ("forbidden", "kept")

    def __init__(self) -> None:
        self.forbidden = 0  # how many forks are under way; always more than 0 in a child without a driver
        self.kept: list[Any] = []


releases = Releases()
_used = False  # whether this process has asked a driver for anything
_lost = False  # whether it was forked from one that had
_on_loss: list[Callable[[], None]] = []
_locks: WeakSet[Any] = WeakSet()


def raise_if_lost() -> None:
    """Raise NoUsableDevice in a process that was forked after OpenCL was used."""
    if _lost:
        raise NoUsableDevice(
            "this process was forked (os.fork, or multiprocessing's start method 'fork') after its parent had used "
            "OpenCL, and no driver works in it; start processes by multiprocessing.get_context('spawn'), or use pydp "
            "in the child processes only"
        )


def note_use() -> None:
    """Called before the first query of a driver. Raises as `raise_if_lost` does."""
    global _used
    raise_if_lost()
    _used = True


def on_loss(function: Callable[[], None]) -> Callable[[], None]:
    """Have `function` called in a child that has lost its driver; usable as a decorator."""
    _on_loss.append(function)
    return function


def fork_safe(lock: _Lock) -> _Lock:
    """The same lock, which will be free in a forked child even if another thread held it at the fork.

    Accepts any object with the method `_at_fork_reinit` of Python's locks.
    """
    _locks.add(lock)
    return lock


def reset(lock: Any) -> None:
    """Free a lock in a forked child, unless it is a reentrant one that this thread holds, and will release."""
    if not (hasattr(lock, "_is_owned") and lock._is_owned()):
        lock._at_fork_reinit()


def _before() -> None:
    # In the child, thread-local data of other threads is dropped before `_in_child` runs. Another thread may use OpenCL
    # for the first time during the fork, so this does not depend on `_used`.
    releases.forbidden += 1


def _in_parent() -> None:
    releases.forbidden -= 1
    if not releases.forbidden:
        kept, releases.kept = releases.kept, []
        for one in kept:
            with contextlib.suppress(Exception):  # as Python does; the others still have to be released
                one.__del__()  # Python itself calls it only once


def _in_child() -> None:
    global _lost
    for lock in list(_locks):
        reset(lock)
    if _lost:
        return
    _lost = _used or _driver_is_loaded()
    releases.forbidden = int(_lost)
    if not _lost:
        return
    ctypes.pythonapi.Py_IncRef(ctypes.py_object(releases.kept))  # outlives the interpreter
    for function in _on_loss:
        function()
    atexit.register(_keep_all)
    _skip_exit_handlers()


def _driver_is_loaded() -> bool:
    """Whether pyopencl has loaded a driver, in a process in which pydp has used none; False if that is unknown.

    The loader loads the libraries that the .icd files name when it is first asked for platforms.
    """
    if "pyopencl" not in sys.modules:
        return False
    folder = Path(os.environ.get("OCL_ICD_VENDORS") or "/etc/OpenCL/vendors")
    libraries = set()
    for path in folder.glob("*.icd"):
        with contextlib.suppress(OSError, ValueError):
            libraries.add(os.path.basename(path.read_text().strip()))
    try:
        mapped = Path("/proc/self/maps").read_text(errors="replace").splitlines()
    except OSError:
        return False
    names = {os.path.basename(line.split(maxsplit=5)[5]) for line in mapped if line.count("/")}
    return any(one and name.startswith(one) for one in libraries for name in names)


def _keep_all() -> None:
    """Keep every object of pyopencl in the process, the caller's own included, when the child ends."""
    import pyopencl

    gc.unfreeze()  # else frozen objects are not among those of the garbage collector
    found = gc.get_referents(*gc.get_objects())
    bases = {kind for kind in vars(pyopencl._cl).values() if isinstance(kind, type)}
    kinds = {kind for kind in set(map(type, found)) if not bases.isdisjoint(kind.__mro__)}
    releases.kept += [one for one in found if type(one) in kinds]


def _skip_exit_handlers() -> None:
    """Skip the drivers' exit handlers when the child ends, since Intel's handler waits for threads that do not exist.

    Children of multiprocessing skip exit handlers too. Handlers run in reverse order of their registration: these two
    flush the streams of C, then end the process with its status. Only glibc passes the status to a handler.
    """
    libc = ctypes.CDLL(None)
    on_exit = getattr(libc, "on_exit", None)
    if on_exit is not None:
        for name in ("_exit", "fcloseall"):
            on_exit(ctypes.cast(getattr(libc, name), ctypes.c_void_p), None)


if hasattr(os, "register_at_fork"):
    os.register_at_fork(before=_before, after_in_parent=_in_parent, after_in_child=_in_child)
