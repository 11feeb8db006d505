"""Finding the OpenCL drivers: one process sees the system's, the pip-installed ones and, on request, the simulator.

The ICD loader reads a folder of ``.icd`` files, by default /etc/OpenCL/vendors. Drivers installed by pip are
not in it, so a folder that names all of them is written and given to the loader before its first query, which
is the only time it looks. A user's own ``OCL_ICD_VENDORS``, ``OPENCL_VENDOR_PATH`` or ``OCL_ICD_FILENAMES``
is left alone.
"""

from __future__ import annotations

import hashlib
import os
import site
import sys
import tempfile
import threading
from pathlib import Path
from typing import Any

from pydp.runtime.cache import atomic_write, cache_dir, listed, log_once

_SYSTEM = Path("/etc/OpenCL/vendors")
_LOADER_VARIABLES = ("OCL_ICD_VENDORS", "OPENCL_VENDOR_PATH", "OCL_ICD_FILENAMES")
_OCLGRIND = (
    "/usr/lib/oclgrind/liboclgrind-rt-icd.so",
    "/usr/local/lib/oclgrind/liboclgrind-rt-icd.so",
    "/usr/local/lib/liboclgrind-rt-icd.so",
)
_NVIDIA = "libnvidia-opencl.so.1"
_lock = threading.Lock()
_found: list[tuple[Any, Any]] | None = None


def raw_devices() -> list[tuple[Any, Any]]:
    """All (pyopencl.Platform, pyopencl.Device) pairs, in the loader's order; found once per process."""
    global _found
    with _lock:
        if _found is None:
            _found = _query()
        return list(_found)


def vendor_files() -> dict[str, str]:
    """The ``.icd`` files that pydp shows the loader: name -> content (one library)."""
    files: dict[str, str] = {}
    for folder in (_SYSTEM, Path(sys.prefix) / "etc" / "OpenCL" / "vendors"):
        for path in listed(folder, "*.icd"):
            try:
                library = path.read_text().strip()
            except (OSError, UnicodeDecodeError):
                continue
            # A bare name is the dynamic loader's to find; a path must exist (the pip package's own does not).
            if library and (not library.startswith("/") or os.path.exists(library)):
                files.setdefault(path.name, library)
    files.update(_pip_drivers())
    if os.path.exists("/dev/nvidiactl") and not any("nvidia" in library for library in files.values()):
        files["nvidia-container.icd"] = _NVIDIA  # containers often carry the library without its .icd file
    oclgrind = _oclgrind_library()
    if oclgrind is not None:
        files["oclgrind.icd"] = oclgrind
    return files


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
            name = icd.read_text().strip()
            beside = icd.parent / name
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


def _icd_folder(files: dict[str, str]) -> str | None:
    """A folder that holds `files`, named by their content; None if none can be written."""
    content = "\n".join(f"{name}={library}" for name, library in sorted(files.items()))
    name = "icd-" + hashlib.sha256(content.encode()).hexdigest()[:16]
    for parent in (cache_dir(), Path(tempfile.gettempdir()) / f"pydp-{os.getuid() if hasattr(os, 'getuid') else 0}"):
        folder = parent / name
        present = {path.name for path in listed(folder, "*.icd")} == set(files)
        if present or all(atomic_write(folder / file, f"{library}\n".encode()) for file, library in files.items()):
            return str(folder)
    return None


def _query() -> list[tuple[Any, Any]]:
    asked = os.environ.get("PYDP_DEVICE", "").lower()
    if ("rusticl" in asked or "llvmpipe" in asked) and "RUSTICL_ENABLE" not in os.environ:
        os.environ["RUSTICL_ENABLE"] = "llvmpipe"  # rusticl shows no device without
    folder = None
    if sys.platform.startswith("linux") and loader_variable() is None:
        files = vendor_files()
        folder = _icd_folder(files) if files else None
    if folder is not None:
        os.environ["OCL_ICD_VENDORS"] = folder
    try:
        return _enumerate()
    finally:
        if folder is not None:  # the loader has read it; programs that this one starts keep their own choice
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
