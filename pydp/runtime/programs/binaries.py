"""Program binaries on disk, for drivers without their own cache.

There is one file per source, options, device and driver; it contains a checksum and the driver's binary. A file that is
damaged or that the driver rejects is a cache miss with one log line, never an error.
"""

from __future__ import annotations

import hashlib
import warnings
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pydp.runtime.programs import disk_bound
from pydp.runtime.programs.files import atomic_write, cache_dir, log_once, read

if TYPE_CHECKING:
    from pydp.runtime.device.core import DeviceCore

_MAGIC = b"pydp-binary-2\n"


def compile_program(program: Any, device: DeviceCore, options: Sequence[str]) -> None:
    """Build a pyopencl inner program; raises pyopencl.Error. Compiler warnings stay in the build log.

    pyopencl's public ``build`` issues a Python warning for each of them, which a caller may have turned into an error.
    """
    text = " ".join(options).encode()
    quiet = getattr(program, "_build", None)
    if quiet is not None:
        quiet(options=text, devices=[device.cl])
        return
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        program.build(text, [device.cl])


def _kept_here(device: DeviceCore) -> bool:
    return device.quirks.binaries_usable and not device.quirks.keeps_own_binaries


def _path(device: DeviceCore, source: str, options: Sequence[str]) -> Path:
    content = "\0".join((_MAGIC.decode(), device.uid, *options, source))
    return cache_dir() / "binaries" / f"{hashlib.sha256(content.encode()).hexdigest()}.bin"


def _checksum(path: Path, binary: bytes) -> bytes:
    """The checksum of the binary and the file's name: a renamed file is not used for another program."""
    return hashlib.sha256(path.name.encode() + binary).digest()


def load(device: DeviceCore, source: str, options: Sequence[str]) -> Any | None:
    """Load the built program of `source` from disk; None if there is no usable file."""
    if not _kept_here(device):
        return None
    import pyopencl as cl

    path = _path(device, source, options)
    data = read(path)
    if data is None:
        return None
    checksum, binary = data[len(_MAGIC) : len(_MAGIC) + 32], data[len(_MAGIC) + 32 :]
    if not data.startswith(_MAGIC) or _checksum(path, binary) != checksum:
        log_once(f"{path} is damaged; its kernel is built again")
        return None
    try:
        program = cl._cl._Program(device.context, [device.cl], [binary])
        compile_program(program, device, options)
    except cl.Error as error:
        log_once(f"the driver rejects {path}; its kernel is built again ({error})")
        return None
    disk_bound.used(path)
    return program


def store(device: DeviceCore, source: str, options: Sequence[str], program: Any) -> None:
    """Store a built program on disk."""
    if not _kept_here(device):
        return
    import pyopencl as cl

    try:
        kept = program.get_info(cl.program_info.BINARIES)
    except cl.Error as error:
        log_once(f"{device.platform} does not return program binaries: {error}")
        return
    if len(kept) == 1 and kept[0]:
        binary = bytes(kept[0])
        path = _path(device, source, options)
        data = _MAGIC + _checksum(path, binary) + binary
        if atomic_write(path, data):
            disk_bound.written(path, len(data))
