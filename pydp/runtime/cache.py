"""Where pydp keeps files: built kernels, probe results, tuned parameters.

Nothing here may fail a calculation: a folder that cannot be written costs one line in the log of the
logger ``pydp``, and work goes on without the file.
"""

from __future__ import annotations

import contextlib
import logging
import os
import tempfile
import threading
from pathlib import Path

_log = logging.getLogger("pydp")
_said: set[str] = set()
_lock = threading.Lock()


def cache_dir() -> Path:
    """The folder of pydp's files: PYDP_CACHE_DIR, else the user's cache folder of the platform. May not exist yet, and
    cannot where neither is known: a user without a home, for example."""
    chosen = os.environ.get("PYDP_CACHE_DIR")
    try:
        if chosen:
            return Path(chosen).expanduser().absolute()
        import platformdirs

        return Path(platformdirs.user_cache_dir("pydp", appauthor=False))
    except (OSError, RuntimeError) as error:
        log_once(f"no folder for files (PYDP_CACHE_DIR is {chosen!r}): {error}; going on without")
        return Path(os.devnull) / "pydp"


def log_once(message: str, *, level: int = logging.WARNING) -> None:
    """Log `message` the first time that this process says it."""
    with _lock:
        if message in _said:
            return
        _said.add(message)
    _log.log(level, message)


def atomic_write(path: str | os.PathLike[str], data: bytes) -> bool:
    """Write `data` to `path` so that a reader sees the old file or the new one, never a part; False if it cannot be.

    Makes the folder. A read-only or full disk is one log line and False, not an error.
    """
    path = Path(path)
    temporary = None
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        handle, temporary = tempfile.mkstemp(dir=path.parent, prefix=".writing-")
        with os.fdopen(handle, "wb") as file:
            file.write(data)
        os.replace(temporary, path)
    except OSError as error:
        if temporary is not None:
            with contextlib.suppress(OSError):
                os.unlink(temporary)
        log_once(f"cannot keep files in {path.parent}: {error.strerror or error}; going on without")
        return False
    return True


def read(path: str | os.PathLike[str]) -> bytes | None:
    """The bytes of `path`, or None where there is no such file or it cannot be read (the latter is logged)."""
    try:
        return Path(path).read_bytes()
    except (FileNotFoundError, NotADirectoryError):
        return None
    except OSError as error:
        log_once(f"cannot read {path}: {error.strerror or error}; going on without")
        return None


def listed(folder: Path, pattern: str) -> list[Path]:
    """The files of a folder whose names fit, in order; none where it cannot be looked into (which is logged)."""
    try:
        return sorted(folder.glob(pattern))
    except OSError as error:
        log_once(f"cannot look into {folder}: {error.strerror or error}; going on without")
        return []
