"""The files of pydp: built kernels, probe results, tuned parameters.

No problem with these files makes a calculation fail. If a folder is not writable, pydp logs one line (logger ``pydp``)
and continues without the file.

The files determine which code runs, so pydp reads a file only if no other user could have written it. The file, its
folder and the folders up to the cache folder must belong to this user or to root, and neither group nor others may have
write permission. pydp makes folders with mode 0700 and files with mode 0600. On Windows, which lacks these modes,
nothing is checked.
"""

from __future__ import annotations

import contextlib
import errno
import functools
import itertools
import logging
import os
import stat
import tempfile
from collections.abc import Iterator, Sequence
from pathlib import Path

from pydp.runtime.bounded import BoundedCache

NOWHERE = Path(os.devnull) / "pydp"  # a folder that does not exist and cannot be made
_MOST_LINKS = 40  # symbolic links in a path, as in Linux
_log = logging.getLogger("pydp")
_said = BoundedCache(1024)


def cache_dir() -> Path:
    """The cache folder. It need not exist, and cannot be made if no path is known (a user without a home folder).

    It is :func:`chosen_dir` if only this user and root can write there, else its subfolder ``private-UID``. Several
    users can therefore share a folder. pydp does not follow a symbolic link of another user; it then keeps no files.
    """
    chosen = chosen_dir()
    why = why_untrusted_folder(chosen)
    if why is None:
        return chosen
    if _why_untrusted_link(chosen):
        log_once(f"the cache folder {chosen} is not used: it is another user's symbolic link; continuing without files")
        return NOWHERE
    own = chosen / f"private-{os.geteuid()}"
    log_once(f"the cache folder {chosen} is not used: {why}; files are kept in {own}")
    return own


def chosen_dir() -> Path:
    """The folder that PYDP_CACHE_DIR names, else pydp's folder in the user's cache folder of the platform."""
    chosen = os.environ.get("PYDP_CACHE_DIR")
    try:
        if chosen:
            return Path(chosen).expanduser().absolute()
        import platformdirs

        return Path(platformdirs.user_cache_dir("pydp", appauthor=False))
    except (OSError, RuntimeError) as error:
        log_once(f"no cache folder is known (PYDP_CACHE_DIR is {chosen!r}): {error}; continuing without files")
        return NOWHERE


def log_once(message: str, *, level: int = logging.WARNING) -> None:
    """Log `message` once per process; again after 1024 other messages."""
    this = object()
    if _said.make(message, lambda: this) is this:
        _log.log(level, message)


def make_folder(folder: Path) -> bool:
    """Make a folder of the cache, with access for this user only, if it does not exist. Returns False, with one log
    line, if that fails or if other users can write to the existing folder."""
    missing = itertools.takewhile(lambda one: not os.path.lexists(one), (folder, *folder.parents))
    try:
        for one in reversed(list(missing)):
            with contextlib.suppress(FileExistsError):  # another process may have made it
                one.mkdir(0o700)
        if not folder.is_dir():
            raise NotADirectoryError(errno.ENOTDIR, os.strerror(errno.ENOTDIR))
    except OSError as error:
        _cannot_keep(folder, error)
        return False
    return not _is_untrusted(folder)


def atomic_write(path: str | os.PathLike[str], data: bytes) -> bool:
    """Write `data` to `path` atomically: a reader sees the old or the new file. Makes the folder.

    Returns False, with one log line, if the file cannot be written or if others can write to the folder.
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
    except BaseException as error:
        if temporary is not None:
            with contextlib.suppress(OSError):
                os.unlink(temporary)
        if not isinstance(error, OSError):
            raise
        _cannot_keep(path.parent, error)
        return False
    return True


def _cannot_keep(folder: Path, error: OSError) -> None:
    log_once(f"cannot keep files in {folder}: {error.strerror or error}; continuing without files")


def read(path: str | os.PathLike[str], *, of_package: bool = False) -> bytes | None:
    """The bytes of `path`; None if the file does not exist. Also None, with one log line, if it cannot be read or if
    other users could have written it.

    of_package: the file is part of pydp's installation and is not checked. A user who can change it can change pydp.
    """
    path = Path(path)
    if not of_package and _is_untrusted(path.parent):
        return None
    try:
        with open(path, "rb", opener=_open_at_once) as file:
            state = os.fstat(file.fileno())
            why = None if of_package else _why_untrusted(state)
            if why is None and not stat.S_ISREG(state.st_mode):
                why = "it is no regular file"
            if why is None:
                return file.read()
    except (FileNotFoundError, NotADirectoryError):
        return None
    except OSError as error:
        why = error.strerror or str(error)
    log_once(f"cannot read {path}: {why}; continuing without the file")
    return None


def _open_at_once(path: str, flags: int) -> int:
    return os.open(path, flags | getattr(os, "O_NONBLOCK", 0))  # a pipe that nobody writes to would block


def listed(folder: Path, pattern: str) -> list[Path]:
    """The files of a folder that match `pattern`, sorted; none, with one log line, if the folder cannot be read."""
    try:
        return sorted(folder.glob(pattern))
    except OSError as error:
        log_once(f"cannot read the folder {folder}: {error.strerror or error}; continuing without its files")
        return []


# --- trust checks -----------------------------------------------------------------------------------------


def _why_untrusted(
    state: os.stat_result, *, modes: bool = True, name: object = "it", owners: Sequence[int] = ()
) -> str | None:
    """Why another user could have written a file or folder with this state; None if only this user or root could.
    owners: others that count as root."""
    if not hasattr(os, "geteuid"):
        return None
    if state.st_uid not in (0, os.geteuid(), *owners):
        return f"{name} belongs to user {state.st_uid}"
    if modes and state.st_mode & (stat.S_IWGRP | stat.S_IWOTH):
        return f"other users may write to {name} (mode {stat.S_IMODE(state.st_mode):04o}; `chmod go-w` prevents that)"
    return None


def _why_untrusted_file(path: Path) -> str | None:
    try:
        return _why_untrusted(path.stat())
    except OSError:
        return None


def why_untrusted_folder(folder: Path) -> str | None:
    """Why others could have written files in a folder, or None. For a symbolic link, the link and the folder that it
    names are checked."""
    try:
        return _why_untrusted_link(folder) or _why_untrusted(folder.stat())
    except OSError:  # it does not exist or is not accessible, so nothing can be read from it
        return None


def why_untrusted_tree(folder: Path) -> str | None:
    """Why others could have written in a folder or in a folder directly inside it, or could replace it or a folder
    above it; None if they cannot. It need not exist."""
    if not hasattr(os, "geteuid"):
        return None
    try:
        folder = folder if folder.is_absolute() else Path.cwd() / folder
    except OSError:
        return "it is relative, and the working directory is not known"
    reasons = [why_untrusted_folder(folder), *itertools.starmap(_why_replaceable, _entries(folder))]
    with contextlib.suppress(OSError):
        reasons += [why_untrusted_folder(Path(one.path)) for one in os.scandir(folder) if _is_folder(one)]
    return next(filter(None, reasons), None)


def _is_folder(entry: os.DirEntry[str]) -> bool:
    try:
        return entry.is_dir()
    except OSError:  # a circle of links
        return False


def _entries(path: Path) -> Iterator[tuple[Path, Path]]:
    """(entry, the folder that holds it) for each component of an absolute path, in the order in which the system
    resolves it; symbolic links are followed."""
    pending = [*reversed(path.parts)]
    at, links = Path(pending[-1]), 0
    while pending:
        name = pending.pop()
        if name == "..":
            at = at.parent
        elif os.path.isabs(name):  # the root
            at = Path(name)
        else:
            entry = at / name
            yield entry, at
            try:
                target = Path(os.readlink(entry))
            except OSError:  # no link, or it does not exist, or is not accessible
                at = entry
                continue
            links += 1
            if links > _MOST_LINKS:
                return
            pending += reversed(target.parts)


def _why_replaceable(path: Path, parent: Path) -> str | None:
    """Why another user could make, rename or replace `path` in `parent`, or None."""
    try:
        state = parent.stat()
    except PermissionError:
        return f"{parent} is not accessible"
    except OSError:  # it does not exist: the folder above it that exists decides
        return None
    if not os.access(parent, os.X_OK):
        return f"{parent} is not accessible"
    sticky = state.st_mode & stat.S_ISVTX and os.path.lexists(path)  # only its owner may rename it
    private = not state.st_mode & stat.S_IWOTH and _is_private_group(state.st_gid) and not _has_access_list(parent)
    why = _why_untrusted(state, modes=not (sticky or private), name=parent, owners=_unmapped_root())
    return _why_untrusted_link(path, _unmapped_root()) or why


@functools.cache
def _unmapped_root() -> tuple[int, ...]:
    """The owner that the system's files seem to have in a container that does not know the system's root. Files of
    other users outside of the container have the same owner, so a folder of theirs above PoCL's is accepted too."""
    try:
        first, _, count = Path("/proc/self/uid_map").read_text().split()[:3]
        if (int(first), int(count)) == (0, 2**32 - 1):  # not in a container
            return ()
        return (int(Path("/proc/sys/kernel/overflowuid").read_text()),)
    except (OSError, ValueError):
        return ()


def _has_access_list(folder: Path) -> bool:
    """Whether other users may have rights that the mode shows as the group's."""
    try:
        return "system.posix_acl_access" in os.listxattr(folder)
    except (AttributeError, OSError):  # not on this system, or not in this file system
        return False


def _is_private_group(group: int) -> bool:
    """Whether a group is this user's own, without other members: many systems give each user a group with the user's
    name and number."""
    if not hasattr(os, "geteuid") or group != os.geteuid():
        return False
    import grp
    import pwd

    with contextlib.suppress(KeyError):
        name, known = pwd.getpwuid(os.geteuid()).pw_name, grp.getgrgid(group)
        return known.gr_name == name and not set(known.gr_mem) - {name}
    return False


def _why_untrusted_link(path: Path, owners: Sequence[int] = ()) -> str | None:
    """`_why_untrusted` for a symbolic link, whose mode has no meaning; None for other files."""
    try:
        state = path.lstat()
    except OSError:
        return None
    if not stat.S_ISLNK(state.st_mode):
        return None
    return _why_untrusted(state, modes=False, name=f"the symbolic link {path}", owners=owners)


def _is_untrusted(folder: Path) -> bool:
    """Whether another user could have put files into `folder`; if so, one log line tells why.

    Inside the cache folder, all folders from `folder` up to it are checked; elsewhere, only `folder`.
    """
    top = cache_dir()
    inside = folder.is_relative_to(top)
    for one in (folder, *folder.parents):
        why = why_untrusted_folder(one)
        if why is not None:
            log_once(f"files in {one} are neither read nor written: {why}; continuing without them")
            return True
        if not inside or one == top:
            break
    return False


def untrusted() -> Iterator[tuple[Path, str]]:
    """(path, reason) of each file and folder that is not read: :func:`chosen_dir` and the contents of the cache folder.
    The contents of an untrusted folder are left out."""
    chosen, top = chosen_dir(), cache_dir()
    why = why_untrusted_folder(chosen)
    if why is not None:
        yield chosen, why
    for place, folders, files in os.walk(top):
        why = why_untrusted_folder(Path(place))
        if why is not None:
            yield Path(place), why
            folders.clear()
            continue
        for path in (Path(place, name) for name in sorted(files)):
            why = _why_untrusted_file(path)
            if why is not None:
                yield path, why
