"""Forked processes: after a fork of a process that has used OpenCL, calls in the child raise an error.

The threads of the driver do not exist in the child, and a driver lock that a thread held at the fork is never released.
On PoCL and rusticl, every command hangs in the child, even in a new context. Intel's runtime works in the child unless
commands were running at the fork, which no query reports. The child therefore uses no driver, except for
kernels of pydp.compat.pyopencl on Intel's runtime. A fork before the first use of OpenCL has no effect. A fork is
detected if Python makes it, not C code, and if pydp was imported before.

    raise_if_lost()                 call before using a driver; warm calls rely on `Device.queue`, which raises
    on_loss(function)               `function` runs in such a child right after the fork
    fork_safe(threading.Lock())     a lock that is free in every child, even if another thread held it at the fork

The child does not release pydp's OpenCL objects. A release takes locks of the driver (children hung in clReleaseEvent
on PoCL) and may join threads (children crashed on rusticl). Finalizers keep the objects instead. pyopencl objects that
only the caller holds are kept when the child's interpreter ends; before that, nothing prevents their release.
"""

from __future__ import annotations

import atexit
import contextlib
import ctypes
import functools
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
    """Whether finalizers must keep their objects instead of releasing them, and the list that holds these objects.

    Finalizers take this object as a default argument, because globals may be gone when the interpreter ends.
    """

    __slots__ = ("forbidden", "kept")

    def __init__(self) -> None:
        self.forbidden: list[None] = []  # an entry per fork in progress; never empty in a child without a driver
        self.kept: list[Any] = []


LOADER_VARIABLES = ("OCL_ICD_VENDORS", "OPENCL_VENDOR_PATH", "OCL_ICD_FILENAMES")  # choose drivers for a loader
VENDORS = Path("/etc/OpenCL/vendors")  # where loaders look without them
releases = Releases()
_used = False  # whether this process has used a driver
_lost = False  # whether it was forked from a process that had used a driver
_on_loss: list[Callable[[], None]] = []
_locks: WeakSet[Any] = WeakSet()


def is_lost() -> bool:
    """Whether this process was forked after OpenCL was used."""
    return _lost


def raise_if_lost() -> None:
    """Raise NoUsableDevice in a process that was forked after OpenCL was used."""
    if _lost:
        raise NoUsableDevice(
            "this process was forked (os.fork, or multiprocessing's start method 'fork') after its parent had used "
            "OpenCL, so OpenCL does not work in it; start processes by multiprocessing.get_context('spawn'), or use "
            "pydp only in the child processes"
        )


def note_use() -> None:
    """Call this before the first query of a driver. Raises like `raise_if_lost`."""
    global _used
    raise_if_lost()
    _used = True


def on_loss(function: Callable[[], None]) -> Callable[[], None]:
    """Register `function` to be called in a child that has lost its driver; usable as a decorator."""
    _on_loss.append(function)
    return function


def fork_safe(lock: _Lock) -> _Lock:
    """Register a lock to be free in a forked child, even if another thread held it at the fork; returns the lock.

    Accepts any object with the method `_at_fork_reinit` of Python's locks.
    """
    _locks.add(lock)
    return lock


def reset(lock: Any) -> None:
    """Free a lock in a forked child, unless it is a reentrant lock that this thread holds and will release."""
    if not (hasattr(lock, "_is_owned") and lock._is_owned()):
        lock._at_fork_reinit()


def _in_parent() -> None:
    if not releases.forbidden:
        kept, releases.kept = releases.kept, []
        for one in kept:
            with contextlib.suppress(Exception):  # as Python does; the remaining objects must still be released
                one.__del__()  # Python calls it only once


def _in_child() -> None:
    global _lost
    for lock in list(_locks):
        reset(lock)
    if _lost:
        return
    _lost = _used or _driver_is_loaded()
    if not _lost:
        releases.forbidden.clear()
        return
    ctypes.pythonapi.Py_IncRef(ctypes.py_object(releases.kept))  # outlives the interpreter
    for function in _on_loss:
        function()
    atexit.register(_keep_all)
    _skip_exit_handlers()


def _driver_is_loaded() -> bool:
    """Whether pyopencl has loaded a driver in a process in which pydp has not used one; False if unknown.

    At the first query of platforms, the loader loads the libraries that the .icd files name. Their files may have other
    version numbers: libnvidia-opencl.so.1 is a link to the file of the driver's version.
    """
    if "pyopencl" not in sys.modules:
        return False
    libraries = {"".join(one.partition(".so")[:2]) for one in _libraries_of_loader()}
    mapped = proc_text("maps").splitlines()
    names = {os.path.basename(line.split(maxsplit=5)[5]) for line in mapped if line.count("/")}
    return any(one and name.startswith(one) for one in libraries for name in names)


def proc_text(name: str) -> str:
    """The text of a file of /proc/self, such as "maps"; "" where it cannot be read."""
    try:
        return Path("/proc/self", name).read_text(errors="replace")
    except OSError:
        return ""


def _libraries_of_loader() -> set[str]:
    """The file names of the libraries that a loader may load. A variable holds folders, .icd files or libraries."""
    given = [value for name in LOADER_VARIABLES for value in os.environ.get(name, "").split(os.pathsep) if value]
    libraries = set()
    for place in (*map(Path, given), VENDORS):
        files = [place] if place.suffix == ".icd" else list(place.glob("*.icd"))
        for path in files:
            with contextlib.suppress(OSError, ValueError):
                libraries.add(os.path.basename(path.read_text().strip()))
        if not files:
            libraries.add(place.name)
    return libraries


def _keep_all() -> None:
    """Keep all pyopencl objects in the process alive when the child ends, including those of the caller."""
    import pyopencl

    gc.unfreeze()  # gc.get_objects() does not list frozen objects
    found = gc.get_referents(*gc.get_objects())
    bases = {kind for kind in vars(pyopencl._cl).values() if isinstance(kind, type)}
    kinds = {kind for kind in set(map(type, found)) if not bases.isdisjoint(kind.__mro__)}
    releases.kept += [one for one in found if type(one) in kinds]


def _skip_exit_handlers() -> None:
    """Skip the exit handlers of drivers when the child ends, because Intel's handler waits for threads that do not
    exist.

    Children of multiprocessing skip exit handlers too. Handlers run in reverse order of registration: these two flush
    the C streams, then end the process with its status. Only glibc passes the status to a handler.
    """
    libc = ctypes.CDLL(None)
    on_exit = getattr(libc, "on_exit", None)
    if on_exit is not None:
        for name in ("_exit", "fcloseall"):
            on_exit(ctypes.cast(getattr(libc, name), ctypes.c_void_p), None)


if hasattr(os, "register_at_fork"):
    # In the child, thread-local data of other threads is dropped before `_in_child` runs. Another thread may use OpenCL
    # for the first time during the fork, so this does not depend on `_used`. Ctrl-C cannot interrupt these C functions;
    # a fork that is counted only before or only after would make finalizers keep everything.
    os.register_at_fork(before=functools.partial(releases.forbidden.append, None))
    os.register_at_fork(after_in_parent=releases.forbidden.pop)
    os.register_at_fork(after_in_parent=_in_parent, after_in_child=_in_child)
