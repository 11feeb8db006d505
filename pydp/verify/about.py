"""What a report says about its device, and how the worker finds the device.

A process of its own looks for the device and ends: a context that stayed open here would take memory, and on a GPU in
the mode EXCLUSIVE_PROCESS no worker could open another.
"""

from __future__ import annotations

import ctypes
import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pydp
from pydp import errors
from pydp.errors import NoUsableDevice
from pydp.runtime.drivers.devices import all_devices
from pydp.runtime.drivers.interpreter import python_process

_NO_OPENCL = (
    "NVIDIA's CUDA driver is installed but its OpenCL library shows no GPU; make a folder of compiled kernels with "
    "`pydp verify --pack DIR` on a machine with clang, and run `pydp verify --use-pack DIR` here"
)


_COMMAND = "from pydp.verify.about import main; main()"
_MARK = "pydp-verify-about:"
_SECONDS = 180.0  # to import, list the devices and probe one


def about(which: str | None, pack: Path | None) -> tuple[dict[str, Any], dict[str, Any]]:
    """The result of :func:`found`, from another process. Raises what `found` raises."""
    given = json.dumps([which, str(pack.absolute()) if pack is not None else None])
    words, environment = python_process(_COMMAND, given)
    try:
        done = subprocess.run(
            words, env=environment, capture_output=True, text=True, errors="replace", timeout=_SECONDS
        )
    except subprocess.TimeoutExpired:
        raise NoUsableDevice(f"the process that looks for the device did not end within {_SECONDS:.0f} s") from None
    answers = [line.removeprefix(_MARK) for line in done.stdout.splitlines() if line.startswith(_MARK)]
    if not answers:
        said = (done.stderr.strip().splitlines() or ["no output"])[-1]
        raise NoUsableDevice(f"the process that looks for the device ended with status {done.returncode}: {said}")
    kind, *content = json.loads(answers[0])
    if kind != "found":
        raise getattr(errors, kind)(*content)
    arguments, head = content
    return arguments, head


def main() -> None:
    """Print the result of :func:`found` for the first argument, or its error."""
    which, pack = json.loads(sys.argv[1])
    try:
        answer = ["found", *found(which, Path(pack) if pack is not None else None)]
    except (NoUsableDevice, errors.InvalidArgument) as error:
        answer = [type(error).__name__, str(error)]
    print(f"\n{_MARK}{json.dumps(answer)}", flush=True)


def found(which: str | None, pack: Path | None) -> tuple[dict[str, Any], dict[str, Any]]:
    """(what the worker gets, the head of the report) for a device, or for the GPU that a pack runs on.

    Raises NoUsableDevice. If CUDA's driver is here without OpenCL, its message or the head's "note" says what to do.
    """
    if pack is not None:
        from pydp.verify.pack.launch import Gpu

        gpu = Gpu.first(str(pack))
        head = {"device": gpu.name, "platform": "CUDA", "driver": gpu.driver, "way": gpu.way}
        return {"uid": "", "number": 0, "pack": str(pack.absolute())}, {**head, "pydp": pydp.__version__}
    try:
        device = pydp.device(which)
    except NoUsableDevice as error:
        if has_cuda():
            raise NoUsableDevice(f"{error}; {_NO_OPENCL}") from error
        raise
    head = {"device": device.name, "platform": device.platform, "driver": device.driver_version, "way": "OpenCL"}
    equal = [one for one in all_devices() if one.uid == device.uid]  # several GPUs of one kind
    number = equal.index(device)
    if len(equal) > 1:
        head["device"] += f", number {number + 1} of {len(equal)}"
    if device.kind != "gpu" and which is None and has_cuda():
        head["note"] = _NO_OPENCL
    return {"uid": device.uid, "number": number, "pack": None}, {**head, "pydp": pydp.__version__}


def has_cuda() -> bool:
    """Whether NVIDIA's driver library can be loaded."""
    for name in ("libcuda.so.1", "nvcuda.dll"):
        try:
            ctypes.CDLL(name)
            return True
        except OSError:
            continue
    return False
