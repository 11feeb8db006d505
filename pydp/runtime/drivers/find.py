"""Discovery of OpenCL drivers: system drivers, drivers installed by pip and, on request, the Oclgrind simulator.

The ICD loader reads a folder of ``.icd`` files once, at its first query; the default is /etc/OpenCL/vendors. Drivers
installed by pip are not listed there. pydp therefore makes a temporary folder that lists all drivers and gives it to
the loader for that query. The loader runs the libraries that the folder names, so no other user may be able to write to
it. ``OCL_ICD_VENDORS``, ``OPENCL_VENDOR_PATH`` and ``OCL_ICD_FILENAMES`` are respected if the user has set them.
"""

from __future__ import annotations

import atexit
import contextlib
import logging
import os
import shutil
import site
import stat
import sys
import tempfile
import threading
from collections.abc import Collection, Iterator
from pathlib import Path
from typing import Any

from pydp.runtime import forks
from pydp.runtime.device.quirks import state_before_use
from pydp.runtime.forks import LOADER_VARIABLES, VENDORS
from pydp.runtime.programs.files import NOWHERE, cache_dir, listed, log_once, make_folder, why_untrusted_tree

_OCLGRIND = (
    "/usr/lib/oclgrind/liboclgrind-rt-icd.so",
    "/usr/local/lib/oclgrind/liboclgrind-rt-icd.so",
    "/usr/local/lib/liboclgrind-rt-icd.so",
)
_NVIDIA = "libnvidia-opencl.so.1"
# Limit PoCL's threads; the name depends on PoCL's version.
_POCL_THREADS = ("POCL_MAX_PTHREAD_COUNT", "POCL_CPU_MAX_CU_COUNT", "POCL_MAX_COMPUTE_UNITS")
_lock = threading.RLock()  # reentrant for finalizers and signal handlers
_found: list[tuple[Any, Any]] | None = None


def raw_devices() -> list[tuple[Any, Any]]:
    """All (pyopencl.Platform, pyopencl.Device) pairs, in the loader's order; found once per process."""
    global _found
    forks.note_use()
    state_before_use()  # before the drivers are loaded, see Quirks.with_late_variables
    with _lock:
        if _found is None:
            found = _query()
            if _found is None:
                _found = found
        return list(_found)


def vendor_files() -> dict[str, str]:
    """The ``.icd`` files for the loader: name -> content (one library)."""
    files: dict[str, str] = {}
    for folder in (VENDORS, Path(sys.prefix) / "etc" / "OpenCL" / "vendors"):
        for path in listed(folder, "*.icd"):
            library = _library_of(path)
            # The dynamic loader searches for a bare name. A path must exist; that of the pip package does not.
            if library and (not library.startswith("/") or os.path.exists(library)):
                files.setdefault(path.name, library)
    files.update(_pip_drivers())
    if os.path.exists("/dev/nvidiactl") and not any("nvidia" in library for library in files.values()):
        files["nvidia-container.icd"] = _NVIDIA  # containers often carry the library without its .icd file
    oclgrind = _oclgrind_library()
    if oclgrind is not None:
        files["oclgrind.icd"] = oclgrind
    return files


def _library_of(path: Path) -> str:
    """The library that an ``.icd`` file names; empty if the file is empty, damaged or unreadable."""
    try:
        return path.read_text().strip()
    except (OSError, UnicodeDecodeError):
        return ""


def loader_variable() -> str | None:
    """The environment variable by which the user has configured the loader, if any."""
    return next((name for name in LOADER_VARIABLES if name in os.environ), None)


def _pip_drivers() -> dict[str, str]:
    """Drivers installed by pip: Intel's CPU runtime in the environment, PoCL inside a package."""
    files = {}
    for root in dict.fromkeys((sys.prefix, sys.base_prefix, site.getuserbase())):
        library = Path(root) / "lib" / "libintelocl.so"
        if os.path.exists(library):
            files["intel-pip.icd"] = str(library)
            break
    for folder in [*site.getsitepackages(), site.getusersitepackages()]:
        for icd in listed(Path(folder), "pyopencl/.libs/*.icd"):  # location of pocl-binary-distribution
            name = _library_of(icd)
            beside = icd.parent / name
            if name:
                files[f"pip-{icd.name}"] = str(beside) if beside.exists() else name
    return files


def _oclgrind_library() -> str | None:
    """The library of Oclgrind if it is requested. It contains its own LLVM, so it is never loaded by default."""
    asked = "oclgrind" in os.environ.get("PYDP_DEVICE", "").lower() or any(
        name.startswith("OCLGRIND_") for name in os.environ
    )
    if not asked or "oclgrind" in os.environ.get("LD_PRELOAD", ""):
        return None
    return next((path for path in _OCLGRIND if os.path.exists(path)), None)


@contextlib.contextmanager
def _icd_folder(files: dict[str, str]) -> Iterator[str | None]:
    """A temporary folder that contains only `files` (name -> library); None, with one log line, if it cannot be made.
    Only this user and root can write to the folder. Its path uses the folder's descriptor, so another user cannot
    replace the folder."""
    made = _made(files, None) or _made(files, cache_dir())
    if made is None:
        log_once("cannot make a folder for .icd files; only the drivers that the system lists are used")
        yield None
        return
    folder, handle = made
    try:
        named = f"/proc/self/fd/{handle}"
        yield named if os.path.isdir(named) else folder
    finally:
        _remove(folder, handle)


def _made(files: dict[str, str], parent: Path | None) -> tuple[str, int] | None:
    """Make a folder of mode 0700 with `files` in `parent` (None: the temporary folder). Returns its path and its
    descriptor, or None if it cannot be made."""
    folder = handle = None
    if parent is not None and not make_folder(parent):
        return None
    try:
        folder = tempfile.mkdtemp(prefix="pydp-icd-", dir=parent)
        handle = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW)
        state = os.fstat(handle)
        others_write = state.st_mode & (stat.S_IWGRP | stat.S_IWOTH)
        if state.st_uid != os.geteuid() or others_write or os.listdir(handle):
            raise PermissionError(f"{folder} was replaced during its creation")
        for name, library in files.items():
            with os.fdopen(os.open(name, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600, dir_fd=handle), "w") as file:
                file.write(f"{library}\n")
    except OSError as error:
        log_once(f"cannot make a folder for .icd files in {parent or 'the temporary folder'}: {error}", level=20)
        if folder is not None:
            _remove(folder, handle)
        return None
    return folder, handle


def _remove(folder: str, handle: int | None) -> None:
    """Remove a folder that `_made` made: its files by the descriptor, then the folder if it is empty."""
    if handle is not None:
        with contextlib.suppress(OSError):
            for name in os.listdir(handle):
                os.unlink(name, dir_fd=handle)
        os.close(handle)
    with contextlib.suppress(OSError):
        os.rmdir(folder)


def _query() -> list[tuple[Any, Any]]:
    asked = os.environ.get("PYDP_DEVICE", "").lower()
    if ("rusticl" in asked or "llvmpipe" in asked) and "RUSTICL_ENABLE" not in os.environ:
        os.environ["RUSTICL_ENABLE"] = "llvmpipe"  # without it, rusticl shows no device
    files = vendor_files() if sys.platform.startswith("linux") and loader_variable() is None else {}
    with _icd_folder(files) if files else contextlib.nullcontext() as folder:
        variables = {"OCL_ICD_VENDORS": folder} if folder else {}
        if _one_thread_a_processor():
            variables["POCL_AFFINITY"] = "1"
        own = _own_pocl_cache(files.values())
        if own is not None:
            variables["POCL_CACHE_DIR"] = str(own)
        before = {name: os.environ.get(name) for name in variables}
        os.environ.update(variables)
        try:
            return _enumerate()
        finally:  # the loader and the drivers have read them; child processes must not inherit them
            for name, value in before.items():
                os.environ.pop(name, None)
                if value is not None:
                    os.environ[name] = value


def _own_pocl_cache(libraries: Collection[str] = ()) -> Path | None:
    """A folder for PoCL's binaries, if other users could write to the one that PoCL takes from the environment.

    PoCL loads what it finds there and checks no owner. Without a home folder it takes a folder with a known name in the
    folder for temporary files. If no folder is safe, this one cannot be made, and PoCL then has no devices.
    A relative folder is returned as an absolute one: PoCL would look it up in the working directory of each build.
    libraries: names of the drivers' libraries, empty if they are not known; users without PoCL get no warning.
    """
    given, base = os.environ.get("POCL_CACHE_DIR"), os.environ.get("XDG_CACHE_HOME")
    home = os.environ.get("HOME")
    base = base or (f"{home}/.cache" if home else None)
    chosen = Path(given) if given else Path(base, "pocl", "kcache") if base else None
    why = "no home folder is known" if chosen is None else why_untrusted_tree(chosen)
    if why is None or not hasattr(os, "geteuid"):
        if chosen is not None and not chosen.is_absolute():
            return Path.cwd() / chosen
        return chosen if given == "" else None  # PoCL ends the process if the variable is empty
    own = cache_dir() / "pocl"
    if not make_folder(own) or why_untrusted_tree(own) is not None:
        own = _temporary_folder("pydp-pocl-") or NOWHERE
    kept = f"its files are kept in {own}" if own is not NOWHERE else "no other can be made, so PoCL has no devices"
    absent = libraries and not any("pocl" in library for library in libraries)
    level = logging.INFO if absent else logging.WARNING
    log_once(f"PoCL's cache folder {chosen or 'among the temporary files'} is not used: {why}; {kept}", level=level)
    return own


def _temporary_folder(prefix: str) -> Path | None:
    """A new folder of mode 0700 that is removed when the process ends; None if it cannot be made, or if others could
    replace it."""
    try:
        folder = Path(tempfile.mkdtemp(prefix=prefix))
        if why_untrusted_tree(folder) is not None:
            folder.rmdir()
            return None
    except OSError:
        return None
    made_by = os.getpid()

    def remove() -> None:
        if os.getpid() == made_by:  # a forked child uses the parent's
            shutil.rmtree(folder, ignore_errors=True)

    atexit.register(remove)
    return folder


def _one_thread_a_processor() -> bool:
    """Whether PoCL's worker thread i may be bound to processor i.

    Some systems wake all threads of a process on one processor and leave them there for a second: short calls then take
    twice as long. PoCL has as many threads as the system has processors, unless the user limits them. PoCL ignores the
    affinity mask of the process, so a process that may not use every processor keeps its threads unbound.
    """
    if any(name in os.environ for name in ("POCL_AFFINITY", *_POCL_THREADS)) or not hasattr(os, "sched_getaffinity"):
        return False
    return os.sched_getaffinity(0) == set(range(os.cpu_count() or 0))


def _enumerate() -> list[tuple[Any, Any]]:
    import pyopencl as cl

    _without_files(cl)
    try:
        platforms = cl.get_platforms()
    except cl.Error as error:  # the loader reports an error if there is no platform
        log_once(f"the OpenCL loader finds no platform: {error}")
        return []
    found = []
    for platform in platforms:
        try:
            devices = platform.get_devices()
        except cl.Error as error:  # some drivers report an error if there is no device
            log_once(f"platform {platform.name.strip()} lists no devices: {error}", level=20)
            continue
        found += [(platform, device) for device in devices]
    return found


def _without_files(cl: Any) -> None:
    """Disable pyopencl's own kernel cache if its folder cannot be written, for example without a home folder."""
    import platformdirs

    try:
        folder = Path(platformdirs.user_cache_dir("pytools", "pytools"))  # the package that keeps the cache
        folder.mkdir(parents=True, exist_ok=True)
        able = os.access(folder, os.W_OK | os.X_OK)
    except (OSError, RuntimeError):
        able = False
    if not able and hasattr(cl, "_PYOPENCL_NO_CACHE"):
        cl._PYOPENCL_NO_CACHE = True
