"""Folders of the cache that grow as pydp is used, bounded on disk: the files that were used last stay.

A file's time of modification says when it was used (to the hour). A process looks through a folder at its first write,
then after some hundred more, and removes files down to three quarters of the bound. Several processes may do so at
once: what another one has removed is gone, and what it has used meanwhile is left. A reader whose file goes builds the
kernel again.
"""

from __future__ import annotations

import contextlib
import os
import threading
import time
from pathlib import Path
from typing import NamedTuple

from pydp.runtime.bounded import BoundedCache
from pydp.runtime.programs.files import log_once

__all__ = ["Bound", "sweep", "used", "written"]


class Bound(NamedTuple):
    """The most that a folder holds, but for what is written between two looks."""

    files: int
    nbytes: int


BOUNDS = {"binaries": Bound(4096, 512 << 20), "failed": Bound(256, 16 << 20), "offline": Bound(8192, 32 << 20)}
"""By the folders' names."""

_EVERY = 16  # part of a bound that a process writes between two looks
_SAME = 3600.0  # seconds between two notes that a file is used
_LEFT_OVER = 86400.0  # seconds after which the file of a write that never ended is removed
_lock = threading.RLock()  # a finalizer or a signal handler may ask while its thread holds it
_since = BoundedCache(16)  # by folder: what this process has written since it looked


def used(path: Path) -> None:
    """Note that a file was read."""
    with contextlib.suppress(OSError):
        if time.time() - path.stat().st_mtime > _SAME:
            os.utime(path)


def written(path: Path, nbytes: int) -> None:
    """Note that a file of `nbytes` was written; now and then, remove those that were not used for longest."""
    folder = path.parent
    bound = BOUNDS[folder.name]
    with _lock:
        before: Bound | None = _since.find(folder)
        after = Bound(1, nbytes) if before is None else Bound(before.files + 1, before.nbytes + nbytes)
        due = before is None or after.files * _EVERY >= bound.files or after.nbytes * _EVERY >= bound.nbytes
        _since.put(folder, Bound(0, 0) if due else after)
    if due:
        sweep(folder, bound)


def sweep(folder: Path, bound: Bound) -> None:
    """Remove the files of a folder that were not used for longest, where there are more than its bound."""
    try:
        found = _files(folder)
        files, nbytes = len(found), sum(size for _, size, _ in found)
        if files <= bound.files and nbytes <= bound.nbytes:
            return
        for changed, size, path in sorted(found):
            if files <= bound.files * 3 // 4 and nbytes <= bound.nbytes * 3 // 4:
                return
            with contextlib.suppress(FileNotFoundError):
                if path.stat().st_mtime_ns != changed:  # another process has used it meanwhile
                    continue
                path.unlink()
            files, nbytes = files - 1, nbytes - size
    except OSError as error:
        log_once(f"cannot remove old files of {folder}: {error.strerror or error}; going on without")


def _files(folder: Path) -> list[tuple[int, int, Path]]:
    """(time of modification, bytes, path) of a folder's files; removes what writes that never ended have left."""
    found = []
    with os.scandir(folder) as entries:
        for entry in entries:
            with contextlib.suppress(FileNotFoundError):
                if not entry.is_file(follow_symlinks=False):
                    continue
                state = entry.stat(follow_symlinks=False)
                if not entry.name.startswith("."):
                    found.append((state.st_mtime_ns, state.st_size, Path(entry.path)))
                elif time.time() - state.st_mtime > _LEFT_OVER:
                    os.unlink(entry.path)
    return found
