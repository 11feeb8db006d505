"""Run a command in the lane of one driver: lane.py NAME [VARIABLE=VALUE]... COMMAND [ARGUMENT]...

NAME is pocl, intel, rusticl, oclgrind, offline, pocl7 or gpu. The lane's environment makes that driver the default
device of pydp; offline needs a compiler for GPUs and no driver. What is missing is installed (apt as root; pip in a
virtual environment). If it is still missing, one line says what to install; the status is then 1 in CI, for root, and
if an installation was tried, else 0: a developer's machine need not have every driver. watch.py ends a command that
hangs.

pocl7 is for a PoCL that distributions do not have yet. The variable POCL7 names the folder that it is installed in (see
build_pocl.py), and the lane sees no other driver. Where POCL7 is not set, nothing runs and the status is 0; where it
names a folder without a driver, or one that pydp cannot use, the status is 1.

gpu is for people who have a GPU: its tests run on the best one that pydp can use. Elsewhere nothing runs, one line says
why, and the status is 0.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from dataclasses import dataclass, field
from pathlib import Path


@dataclass(frozen=True)
class Lane:
    """One driver or compiler: how to ask whether it is there, what brings it, and the environment of its tests.

    question: Python that prints "missing: REASON" where it cannot be used. It asks pydp, so that a lane runs where pydp
    finds what the lane needs, and nowhere else; a driver that is listed and fails pydp's probe is as good as none.
    device: pydp's name of the driver, "" for a compiler. installation: the variable that names the folder that the
    driver is installed in, where a user brings it. optional: nothing runs, and nothing fails, where it is missing.
    """

    question: str
    device: str = ""
    apt: tuple[str, ...] = ()
    pip: tuple[str, ...] = ()
    environment: dict[str, str] = field(default_factory=dict)
    installation: str = ""
    optional: bool = False


def _usable(driver: str) -> str:
    return f"""
from pydp.runtime.drivers.devices import all_devices
found = [one for one in all_devices() if one.driver == {driver!r}]
if not any(one.usable for one in found):
    print("missing:", *[f"{{one.name}} cannot be used: {{one.reason}}" for one in found] or ["no device of {driver}"])
"""


_GPU = """
from pydp.runtime.drivers.devices import all_devices
found = [one for one in all_devices() if one.kind == "gpu"]
if not any(one.usable for one in found):
    reasons = [f"{one.name} cannot be used: {one.reason}" for one in found]
    print("missing:", *reasons or ["no OpenCL driver lists a GPU"])
"""

# A simulator is not probed: that takes long, and its command looks at a log of its own.
_LISTED = """
from pydp.runtime.drivers.find import raw_devices
from pydp.runtime.device.quirks import driver_key
if not any(driver_key(platform.name) == "oclgrind" for platform, _ in raw_devices()):
    print("missing: no device of oclgrind")
"""
_COMPILES = """
from pydp.offline.compilers import missing
for reason in filter(None, map(missing, ("sm_70", "gfx906"))):
    print("missing:", reason)
"""

LANES = {
    "pocl": Lane(_usable("pocl"), "pocl", apt=("pocl-opencl-icd",)),
    "intel": Lane(_usable("intel"), "intel", pip=("intel-opencl-rt", "intel-cmplr-lib-rt")),
    "rusticl": Lane(
        _usable("rusticl"), "rusticl", apt=("mesa-opencl-icd",), environment={"RUSTICL_ENABLE": "llvmpipe"}
    ),
    "oclgrind": Lane(
        _LISTED,
        "oclgrind",
        apt=("oclgrind",),
        environment={
            "OCLGRIND_DATA_RACES": "1",
            "OCLGRIND_UNIFORM_WRITES": "1",
            "OCLGRIND_UNINITIALIZED": "1",
            "OCLGRIND_MAX_ERRORS": "100",
        },
    ),
    "offline": Lane(_COMPILES, apt=("clang-19", "libclc-15")),
    "pocl7": Lane(_usable("pocl"), "pocl", installation="POCL7"),
    "gpu": Lane(_GPU, "gpu", optional=True),
}


def _vendors(lane: Lane) -> Path:
    """The folder of .icd files of an installation that a user brings."""
    return Path(os.environ[lane.installation]).absolute() / "etc" / "OpenCL" / "vendors"


def _environment(lane: Lane) -> dict[str, str]:
    """The environment variables that a lane's commands get in addition to those of this process."""
    own = {"OCL_ICD_VENDORS": str(_vendors(lane))} if lane.installation else {}
    return {**lane.environment, **own, **({"PYDP_DEVICE": lane.device} if lane.device else {})}


def why_missing(name: str, lane: Lane) -> str:
    """The reason why a lane's driver or compiler cannot be used, in one line; empty if it can. Raises RuntimeError if
    pydp does not answer. Another process asks pydp: a process lists drivers once, and this one may install some.
    """
    command = [sys.executable, "-c", lane.question]
    environment = {**os.environ, **_environment(lane)}
    done = subprocess.run(command, env=environment, capture_output=True, text=True, errors="replace", check=False)
    if done.returncode:
        last = done.stderr.strip().splitlines()[-1:] or [f"status {done.returncode}"]
        raise RuntimeError(f"lane {name}: pydp cannot be asked for its devices: {last[0]}")
    found = [line.removeprefix("missing: ") for line in done.stdout.splitlines() if line.startswith("missing: ")]
    return found[0] if found else ""


def _is_root() -> bool:
    return hasattr(os, "geteuid") and os.geteuid() == 0


def _install(lane: Lane) -> bool:
    """Try to install the lane's driver if this user may; whether it was tried. The caller checks the result."""
    tried = False
    if lane.apt and _is_root() and shutil.which("apt-get"):
        environment = {**os.environ, "DEBIAN_FRONTEND": "noninteractive"}
        tried = True
        wait = ["-o", "DPkg::Lock::Timeout=300"]  # lanes run side by side
        install = ["apt-get", *wait, "install", "-y", "-q", *lane.apt]
        if subprocess.run(install, env=environment, check=False).returncode:
            subprocess.run(["apt-get", *wait, "update", "-q"], env=environment, check=False)
            subprocess.run(install, env=environment, check=False)
    if lane.pip and sys.prefix != sys.base_prefix:
        tried = True
        subprocess.run([sys.executable, "-m", "pip", "install", "--quiet", *lane.pip], check=False)
    return tried


def main(arguments: list[str]) -> int:
    """Set the lane up, then become the command under watch.py; returns only where there is nothing to run."""
    if len(arguments) < 2 or arguments[0] not in LANES:
        print(f"usage: lane.py {{{','.join(LANES)}}} [VARIABLE=VALUE]... COMMAND [ARGUMENT]...", file=sys.stderr)
        return 2
    name, *command = arguments
    lane = LANES[name]
    if lane.installation and not os.environ.get(lane.installation):
        print(f"lane {name}: {lane.installation} names no installation; nothing was run")
        return 0
    if lane.installation and not list(_vendors(lane).glob("*.icd")):
        prefix = os.environ[lane.installation]
        print(f"lane {name}: {lane.installation}={prefix} is no installation, {_vendors(lane)} has no .icd file")
        return 1
    tried = False
    try:
        reason = why_missing(name, lane)
        if reason and lane.optional:
            print(f"lane {name}: skipped: {reason}; nothing was run")
            return 0
        if reason:
            tried = _install(lane)
            reason = why_missing(name, lane)
    except RuntimeError as error:
        print(error)
        return 1
    if reason and lane.installation:
        print(f"lane {name}: the installation in {os.environ[lane.installation]} cannot be used: {reason}")
        return 1
    if reason:
        how = f"apt install {' '.join(lane.apt)}" if lane.apt else f"pip install {' '.join(lane.pip)}"
        must = tried or bool(os.environ.get("CI")) or _is_root()
        what = "driver" if lane.device else "compiler"
        end = "" if must else "; nothing was run"
        print(f"lane {name}: the {what} is missing ({reason}), install it with: {how}{end}")
        return 1 if must else 0
    os.environ.update(_environment(lane))
    while command and "=" in command[0].split("/")[0]:
        variable, _, value = command.pop(0).partition("=")
        os.environ[variable] = value
    if not command:
        print("lane.py: no command", file=sys.stderr)
        return 2
    sys.stdout.flush()
    watched = [sys.executable, str(Path(__file__).with_name("watch.py")), *command]  # a hang ends, and tells its kernel
    os.execvp(watched[0], watched)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
