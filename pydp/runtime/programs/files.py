"""Where pydp keeps files: built kernels, probe results, tuned parameters.

Nothing here may fail a calculation: a folder that cannot be written costs one line in the log of the
logger ``pydp``, and work goes on without the file.

The files decide which code runs, so a file is read only if no other user could have written it: the file, its folder
and the folders up to the cache folder belong to this user or to root, and neither their group nor others may write to
them. pydp makes its folders with mode 0700 and its files with mode 0600. Windows has no such modes; nothing is checked
there.
"""

from __future__ import annotations

import contextlib
import errno
import itertools
import logging
import os
import stat
import tempfile
from collections.abc import Iterator
from pathlib import Path

from pydp.runtime.bounded import BoundedCache

_NOWHERE = Path(os.devnull) / "pydp"  # a folder that does not exist and cannot be made
_log = logging.getLogger("pydp")
_said = BoundedCache(1024)


def cache_dir() -> Path:
    """The folder of pydp's files. It need not exist; it cannot be made if no path is known (a user without a home).

    It is :func:`chosen_dir` if only this user and root can write there, else the subfolder ``private-UID`` of it, so
    users can share a folder. A symbolic link of another user is not followed; pydp keeps no files then.
    """
    chosen = chosen_dir()
    why = _why_untrusted_folder(chosen)
    if why is None:
        return chosen
    if _why_untrusted_link(chosen):
        log_once(f"the cache folder {chosen} is not used: it is a symbolic link of another user; going on without")
        return _NOWHERE
    own = chosen / f"private-{os.geteuid()}"
    log_once(f"the cache folder {chosen} is not used: {why}; files are kept in {own}")
    return own


def chosen_dir() -> Path:
    """The folder that PYDP_CACHE_DIR names, else the user's cache folder of the platform."""
    chosen = os.environ.get("PYDP_CACHE_DIR")
    try:
        if chosen:
            return Path(chosen).expanduser().absolute()
        import platformdirs

        return Path(platformdirs.user_cache_dir("pydp", appauthor=False))
    except (OSError, RuntimeError) as error:
        log_once(f"no folder for files (PYDP_CACHE_DIR is {chosen!r}): {error}; going on without")
        return _NOWHERE


def log_once(message: str, *, level: int = logging.WARNING) -> None:
    """Log `message` the first time that this process says it."""
    this = object()
    if _said.make(message, lambda: this) is this:
        _log.log(level, message)


def make_folder(folder: Path) -> bool:
    """Make a folder of the cache where it does not exist, for this user alone. False, with a line in the log, where
    that is not possible, or where other users could have put files into the folder that is there."""
    missing = itertools.takewhile(lambda one: not os.path.lexists(one), (folder, *folder.parents))
    try:
        for one in reversed(list(missing)):
            with contextlib.suppress(FileExistsError):  # another process may have been faster
                one.mkdir(0o700)
        if not folder.is_dir():
            raise NotADirectoryError(errno.ENOTDIR, os.strerror(errno.ENOTDIR))
    except OSError as error:
        _cannot_keep(folder, error)
        return False
    return not _is_untrusted(folder)


def atomic_write(path: str | os.PathLike[str], data: bytes) -> bool:
    """Write `data` to `path` so that a reader sees the old file or the new one, never a part. Makes the folder.

    False, with one line in the log, if the file cannot be written or if others can write to the folder.
    """
    path = Path(path)
    if not make_folder(path.parent):
        return False
    temporary = None
    try:
        handle, temporary = tempfile.mkstemp(dir=path.parent, prefix=".writing-")
        with os.fdopen(handle, "wb") as file:
            file.write(data)
        os.replace(temporary, path)
    except OSError as error:
        if temporary is not None:
            with contextlib.suppress(OSError):
                os.unlink(temporary)
        _cannot_keep(path.parent, error)
        return False
    return True


def _cannot_keep(folder: Path, error: OSError) -> None:
    log_once(f"cannot keep files in {folder}: {error.strerror or error}; going on without")


def read(path: str | os.PathLike[str], *, of_package: bool = False) -> bytes | None:
    """The bytes of `path`; None if there is no such file, or, with one line in the log, if it cannot be read or other
    users could have written it.

    of_package: the file belongs to pydp's installation and is not checked. A user who can change it can change pydp.
    """
    path = Path(path)
    if not of_package and _is_untrusted(path.parent):
        return None
    try:
        with path.open("rb") as file:
            why = None if of_package else _why_untrusted(os.fstat(file.fileno()))
            if why is None:
                return file.read()
    except (FileNotFoundError, NotADirectoryError):
        return None
    except OSError as error:
        why = error.strerror or str(error)
    log_once(f"cannot read {path}: {why}; going on without")
    return None


def listed(folder: Path, pattern: str) -> list[Path]:
    """The files of a folder whose names fit, in order; none where it cannot be looked into (which is logged)."""
    try:
        return sorted(folder.glob(pattern))
    except OSError as error:
        log_once(f"cannot look into {folder}: {error.strerror or error}; going on without")
        return []


# --- what other users can write ---------------------------------------------------------------------------


def _why_untrusted(state: os.stat_result, *, modes: bool = True) -> str | None:
    """Why another user could have written a file or folder of this state; None where only this user or root could."""
    if not hasattr(os, "geteuid"):
        return None
    if state.st_uid not in (0, os.geteuid()):
        return f"it belongs to user {state.st_uid}"
    if modes and state.st_mode & (stat.S_IWGRP | stat.S_IWOTH):
        return f"other users may write to it (mode {stat.S_IMODE(state.st_mode):04o}; `chmod go-w` ends that)"
    return None


def _why_untrusted_file(path: Path) -> str | None:
    try:
        return _why_untrusted(path.stat())
    except OSError:
        return None


def _why_untrusted_folder(folder: Path) -> str | None:
    """`_why_untrusted` of a folder; of a symbolic link and of the folder that it names."""
    try:
        return _why_untrusted_link(folder) or _why_untrusted(folder.stat())
    except OSError:  # there is none, or it cannot be reached: nothing can be read from it
        return None


def _why_untrusted_link(path: Path) -> str | None:
    """`_why_untrusted` of a symbolic link, whose mode says nothing; None of anything else."""
    try:
        state = path.lstat()
    except OSError:
        return None
    return _why_untrusted(state, modes=False) if stat.S_ISLNK(state.st_mode) else None


def _is_untrusted(folder: Path) -> bool:
    """Whether another user could have put files into `folder`, which one line in the log says then.

    In the cache folder, all folders from `folder` up to it are checked; elsewhere, `folder` alone.
    """
    top = cache_dir()
    inside = folder.is_relative_to(top)
    for one in (folder, *folder.parents):
        why = _why_untrusted_folder(one)
        if why is not None:
            log_once(f"files in {one} are neither read nor written: {why}; going on without")
            return True
        if not inside or one == top:
            break
    return False


def untrusted() -> Iterator[tuple[Path, str]]:
    """(path, reason) of the files and folders that are not read: :func:`chosen_dir` and what the cache folder contains.
    The contents of a folder that is not read are left out."""
    chosen, top = chosen_dir(), cache_dir()
    why = _why_untrusted_folder(chosen)
    if why is not None:
        yield chosen, why
    for place, folders, files in os.walk(top):
        why = _why_untrusted_folder(Path(place))
        if why is not None:
            yield Path(place), why
            folders.clear()
            continue
        for path in (Path(place, name) for name in sorted(files)):
            why = _why_untrusted_file(path)
            if why is not None:
                yield path, why
