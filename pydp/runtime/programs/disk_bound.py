"""Size limits for folders of the disk cache; the least recently used files are removed first.

The modification time of a file records its last use, to the hour. A process checks a folder at its first write and then
after each sixteenth of the bound, and removes files down to three quarters of the bound. Several processes may do so at
once; a file that another process has used meanwhile stays. If a file is gone, the kernel is built again.
"""

from __future__ import annotations

import contextlib
import os
import threading
import time
from pathlib import Path
from typing import NamedTuple

from pydp.runtime.bounded import BoundedCache
from pydp.runtime.forks import fork_safe
from pydp.runtime.programs.files import log_once

__all__ = ["Bound", "sweep", "used", "written"]


class Bound(NamedTuple):
    """The size limit of a folder. It may be exceeded between two checks."""

    files: int
    nbytes: int


BOUNDS = {"binaries": Bound(4096, 512 << 20), "failed": Bound(256, 16 << 20), "offline": Bound(8192, 32 << 20)}
"""Limits by folder name."""

_EVERY = 16  # a process checks after writing 1/16 of a bound
_SAME = 3600.0  # minimum seconds between two updates of a file's time of use
_LEFT_OVER = 86400.0  # seconds after which the temporary file of an unfinished write is removed
_lock = fork_safe(threading.RLock())  # reentrant for finalizers and signal handlers
_since = BoundedCache(16)  # by folder: amount that this process has written since its last check


def used(path: Path) -> None:
    """Record that a file was read."""
    with contextlib.suppress(OSError):
        if time.time() - path.stat().st_mtime > _SAME:
            os.utime(path)


def written(path: Path, nbytes: int) -> None:
    """Record that a file of `nbytes` was written; from time to time, remove the least recently used files."""
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
    """Remove the least recently used files of a folder that exceeds its bound."""
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
        log_once(f"cannot remove old files in {folder}: {error.strerror or error}")


def _files(folder: Path) -> list[tuple[int, int, Path]]:
    """(modification time, size in bytes, path) of each file in a folder; removes the files of unfinished writes."""
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
