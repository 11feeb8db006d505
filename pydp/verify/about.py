"""The description of the device in a report, and how the worker finds the device.

A process of its own looks for the device and ends: a context that stayed open here would take memory, and on a GPU in
the mode EXCLUSIVE_PROCESS no worker could open another.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import pydp
from pydp import errors
from pydp.errors import NoUsableDevice
from pydp.runtime.drivers.devices import all_devices
from pydp.runtime.drivers.interpreter import answers, say
from pydp.verify.pack.cuda import cuda_library

_NO_OPENCL = (
    "NVIDIA's CUDA driver is installed but its OpenCL library shows no GPU; make a folder of compiled kernels with "
    "`pydp verify --pack DIR` on a machine with clang, and run `pydp verify --use-pack DIR` here"
)


_COMMAND = "from pydp.verify.about import main; main()"
_EVIDENCE = "from pydp.verify.about import gather; gather()"
_SECONDS = 180.0  # maximum seconds to import pydp, list the devices and probe one
_LEAST_SECONDS = 30.0  # seconds for the same, and for `evidence`, even if the run has fewer left


def about(which: str | None, pack: Path | None, seconds: float) -> tuple[dict[str, Any], dict[str, Any]]:
    """The result of :func:`found`, from another process. Raises the errors of `found`. seconds: of the run that
    are left."""
    limit = min(_SECONDS, max(_LEAST_SECONDS, seconds - _LEAST_SECONDS))
    given = json.dumps([which, str(pack.absolute()) if pack is not None else None])
    said, fault = answers(limit, _COMMAND, given)
    if not said:
        raise NoUsableDevice(f"the process that looks for the device {fault}")
    kind, *content = said[0]
    if kind != "found":
        raise getattr(errors, kind)(*content)
    arguments, head = content
    return arguments, head


def evidence(seconds: float) -> dict[str, Any]:
    """The facts from another process if no device is usable: versions, OpenCL's devices, the lines of `pydp doctor`.

    seconds: the time that the run has left.
    """
    said, fault = answers(min(_SECONDS, max(_LEAST_SECONDS, seconds)), _EVIDENCE)
    found = dict(said)
    return found if "doctor" in found else {**found, "doctor": [f"fail: its process {fault}"]}


def gather() -> None:
    """Print the parts of :func:`evidence`, the certain ones first."""
    from pydp.runtime.drivers.find import raw_devices
    from pydp.verify.stages.facts import doctor, properties, versions

    say(("versions", versions()))
    try:
        say(("OpenCL", [properties(one) for one in raw_devices()]))
    except Exception as error:  # without a loader or a driver
        say(("OpenCL", f"{type(error).__name__}: {error}"))
    say(("doctor", doctor()))


def main() -> None:
    """Print the result of :func:`found` for the first argument, or its error."""
    which, pack = json.loads(sys.argv[1])
    try:
        answer = ["found", *found(which, Path(pack) if pack is not None else None)]
    except (NoUsableDevice, errors.InvalidArgument) as error:
        answer = [type(error).__name__, str(error)]
    say(answer)


def found(which: str | None, pack: Path | None) -> tuple[dict[str, Any], dict[str, Any]]:
    """(the arguments of the worker, the head of the report) for a device, or for the GPU that a pack runs on.

    Raises NoUsableDevice. If CUDA's driver is here without OpenCL, its message or the head's "note" says what to do.
    """
    if pack is not None:
        from pydp.verify.pack.launch import Gpu

        gpu = Gpu.first(str(pack))
        head = {"device": gpu.name, "platform": "CUDA", "driver": gpu.driver, "interface": gpu.interface}
        return {"uid": "", "number": 0, "pack": str(pack.absolute())}, {**head, "pydp": pydp.__version__}
    try:
        device = pydp.device(which)
    except NoUsableDevice as error:
        if has_cuda():
            raise NoUsableDevice(f"{error}; {_NO_OPENCL}") from error
        raise
    head = {"device": device.name, "platform": device.platform, "driver": device.driver_version, "interface": "OpenCL"}
    equal = [one for one in all_devices() if one.uid == device.uid]  # several GPUs of one kind
    number = equal.index(device)
    if len(equal) > 1:
        head["device"] += f", number {number + 1} of {len(equal)}"
    if device.kind != "gpu" and which is None and has_cuda():
        head["note"] = _NO_OPENCL
    return {"uid": device.uid, "number": number, "pack": None}, {**head, "pydp": pydp.__version__}


def has_cuda() -> bool:
    """Whether NVIDIA's driver library can be loaded."""
    try:
        cuda_library()
    except OSError:
        return False
    return True
