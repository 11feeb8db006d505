"""Finding the OpenCL drivers: one process sees the system's, the pip-installed ones and, on request, the simulator.

The ICD loader reads a folder of ``.icd`` files, by default /etc/OpenCL/vendors. Drivers installed by pip are
not in it, so a folder that names all of them is given to the loader for its first query, which is the only time it
looks. The folder is made for that query and removed after it: the loader runs the libraries that it names, so it must
never be one that another user could have written to. A user's own ``OCL_ICD_VENDORS``, ``OPENCL_VENDOR_PATH`` or
``OCL_ICD_FILENAMES`` is left alone.
"""

from __future__ import annotations

import contextlib
import os
import site
import stat
import sys
import tempfile
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from pydp.runtime import forks
from pydp.runtime.programs.files import cache_dir, listed, log_once, make_folder

_SYSTEM = Path("/etc/OpenCL/vendors")
_LOADER_VARIABLES = ("OCL_ICD_VENDORS", "OPENCL_VENDOR_PATH", "OCL_ICD_FILENAMES")
_OCLGRIND = (
    "/usr/lib/oclgrind/liboclgrind-rt-icd.so",
    "/usr/local/lib/oclgrind/liboclgrind-rt-icd.so",
    "/usr/local/lib/liboclgrind-rt-icd.so",
)
_NVIDIA = "libnvidia-opencl.so.1"
_lock = threading.RLock()  # a finalizer or a signal handler may ask while its thread holds it
_found: list[tuple[Any, Any]] | None = None


def raw_devices() -> list[tuple[Any, Any]]:
    """All (pyopencl.Platform, pyopencl.Device) pairs, in the loader's order; found once per process."""
    global _found
    forks.note_use()
    with _lock:
        if _found is None:
            found = _query()
            if _found is None:
                _found = found
        return list(_found)


def vendor_files() -> dict[str, str]:
    """The ``.icd`` files that pydp shows the loader: name -> content (one library)."""
    files: dict[str, str] = {}
    for folder in (_SYSTEM, Path(sys.prefix) / "etc" / "OpenCL" / "vendors"):
        for path in listed(folder, "*.icd"):
            library = _library_of(path)
            # The dynamic loader searches for a bare name; a path must exist (the pip package's own does not).
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
    """The library that an ``.icd`` file names; empty where the file is empty, damaged or unreadable."""
    try:
        return path.read_text().strip()
    except (OSError, UnicodeDecodeError):
        return ""


def loader_variable() -> str | None:
    """The variable by which the user has chosen what the loader sees, if any."""
    return next((name for name in _LOADER_VARIABLES if name in os.environ), None)


def _pip_drivers() -> dict[str, str]:
    """Drivers that pip installed: Intel's CPU runtime beside the interpreter, PoCL inside a package."""
    files = {}
    for root in dict.fromkeys((sys.prefix, sys.base_prefix, site.getuserbase())):
        library = Path(root) / "lib" / "libintelocl.so"
        if os.path.exists(library):
            files["intel-pip.icd"] = str(library)
            break
    for folder in [*site.getsitepackages(), site.getusersitepackages()]:
        for icd in listed(Path(folder), "pyopencl/.libs/*.icd"):  # where pocl-binary-distribution puts its own
            name = _library_of(icd)
            beside = icd.parent / name
            if name:
                files[f"pip-{icd.name}"] = str(beside) if beside.exists() else name
    return files


def _oclgrind_library() -> str | None:
    """The simulator's library, only where it is asked for: it carries an LLVM of its own, and is never a default."""
    asked = "oclgrind" in os.environ.get("PYDP_DEVICE", "").lower() or any(
        name.startswith("OCLGRIND_") for name in os.environ
    )
    if not asked or "oclgrind" in os.environ.get("LD_PRELOAD", ""):
        return None
    return next((path for path in _OCLGRIND if os.path.exists(path)), None)


@contextlib.contextmanager
def _icd_folder(files: dict[str, str]) -> Iterator[str | None]:
    """A folder that holds `files` (name -> library) and nothing else while the block runs; None, with one line in the
    log, if none can be made. Only this user and root can write to the folder. Its path goes through its descriptor, so
    another user cannot put a different folder in its place."""
    made = _made(files, None) or _made(files, cache_dir())
    if made is None:
        log_once("no folder for .icd files can be made; only the drivers that the system lists are seen")
        yield None
        return
    folder, handle = made
    try:
        named = f"/proc/self/fd/{handle}"
        yield named if os.path.isdir(named) else folder
    finally:
        _remove(folder, handle)


def _made(files: dict[str, str], parent: Path | None) -> tuple[str, int] | None:
    """A new folder of mode 0700 that holds `files`, and its descriptor. It lies among the temporary files, or in
    `parent`; None where it cannot be made there."""
    folder = handle = None
    if parent is not None and not make_folder(parent):
        return None
    try:
        folder = tempfile.mkdtemp(prefix="pydp-icd-", dir=parent)
        handle = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW)
        state = os.fstat(handle)
        others_write = state.st_mode & (stat.S_IWGRP | stat.S_IWOTH)
        if state.st_uid != os.geteuid() or others_write or os.listdir(handle):
            raise PermissionError(f"{folder} was replaced while it was made")
        for name, library in files.items():
            with os.fdopen(os.open(name, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600, dir_fd=handle), "w") as file:
                file.write(f"{library}\n")
    except OSError as error:
        log_once(f"no folder for .icd files can be made in {parent or 'the temporary folder'}: {error}", level=20)
        if folder is not None:
            _remove(folder, handle)
        return None
    return folder, handle


def _remove(folder: str, handle: int | None) -> None:
    """Remove a folder of `_made`: its files by its descriptor, then the folder if it is empty."""
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
        os.environ["RUSTICL_ENABLE"] = "llvmpipe"  # rusticl shows no device without
    files = vendor_files() if sys.platform.startswith("linux") and loader_variable() is None else {}
    if not files:
        return _enumerate()
    with _icd_folder(files) as folder:
        if folder is None:
            return _enumerate()
        os.environ["OCL_ICD_VENDORS"] = folder
        try:
            return _enumerate()
        finally:  # the loader has read it; programs that this one starts keep their own choice
            os.environ.pop("OCL_ICD_VENDORS", None)


def _enumerate() -> list[tuple[Any, Any]]:
    import pyopencl as cl

    _without_files(cl)
    try:
        platforms = cl.get_platforms()
    except cl.Error as error:  # no platform at all is an error to the loader
        log_once(f"the OpenCL loader finds no platform: {error}")
        return []
    found = []
    for platform in platforms:
        try:
            devices = platform.get_devices()
        except cl.Error as error:  # a platform without devices may be an error too
            log_once(f"platform {platform.name.strip()} lists no devices: {error}", level=20)
            continue
        found += [(platform, device) for device in devices]
    return found


def _without_files(cl: Any) -> None:
    """pyopencl's kernels need a folder for a cache of its own, and none can be had where there is nowhere to write, or
    no home: then it goes without."""
    import platformdirs

    try:
        folder = Path(platformdirs.user_cache_dir("pytools", "pytools"))  # of the package that keeps it
        folder.mkdir(parents=True, exist_ok=True)
        able = os.access(folder, os.W_OK | os.X_OK)
    except (OSError, RuntimeError):
        able = False
    if not able and hasattr(cl, "_PYOPENCL_NO_CACHE"):
        cl._PYOPENCL_NO_CACHE = True
