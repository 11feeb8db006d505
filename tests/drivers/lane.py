"""Run a command in the lane of one driver: lane.py NAME [VARIABLE=VALUE]... COMMAND [ARGUMENT]...

NAME is pocl, intel, rusticl, oclgrind or offline. The lane's environment makes that driver the default device of pydp;
offline needs a compiler for GPUs and no driver. What is missing is installed (apt as root; pip in a virtual
environment); where it cannot be, one line says what to install, and the status is 1 in CI and for root, else 0: a
developer's machine need not have every driver.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path


@dataclass(frozen=True)
class Lane:
    """One driver: how to see that it is there, what brings it, and the environment of its tests."""

    present: Callable[[], bool]
    apt: tuple[str, ...] = ()
    pip: tuple[str, ...] = ()
    environment: dict[str, str] = field(default_factory=dict)
    is_driver: bool = True


def _vendor(part: str) -> Callable[[], bool]:
    folder = Path("/etc/OpenCL/vendors")
    return lambda: any(part in path.read_text().lower() for path in folder.glob("*.icd"))


def _oclgrind() -> bool:
    return shutil.which("oclgrind") is not None


def _intel() -> bool:
    roots = (sys.prefix, sys.base_prefix)
    return any((Path(root) / "lib" / "libintelocl.so").exists() for root in roots)


def _compiler() -> bool:
    clang = any(shutil.which(name) for name in ("clang", *(f"clang-{version}" for version in range(14, 26))))
    return clang and any(Path(folder, "nvptx64--nvidiacl.bc").exists() for folder in ("/usr/lib/clc", "/usr/share/clc"))


LANES = {
    "pocl": Lane(_vendor("pocl"), apt=("pocl-opencl-icd",)),
    "intel": Lane(_intel, pip=("intel-opencl-rt", "intel-cmplr-lib-rt")),
    "rusticl": Lane(_vendor("rusticl"), apt=("mesa-opencl-icd",), environment={"RUSTICL_ENABLE": "llvmpipe"}),
    "oclgrind": Lane(
        _oclgrind,
        apt=("oclgrind",),
        environment={
            "OCLGRIND_DATA_RACES": "1",
            "OCLGRIND_UNIFORM_WRITES": "1",
            "OCLGRIND_UNINITIALIZED": "1",
            "OCLGRIND_MAX_ERRORS": "100",
        },
    ),
    "offline": Lane(_compiler, apt=("clang-19", "libclc-15"), is_driver=False),
}


def _is_root() -> bool:
    return hasattr(os, "geteuid") and os.geteuid() == 0


def _install(lane: Lane) -> None:
    """Bring the lane's driver where that is this user's to do; the caller looks whether it came."""
    if lane.apt and _is_root() and shutil.which("apt-get"):
        environment = {**os.environ, "DEBIAN_FRONTEND": "noninteractive"}
        wait = ["-o", "DPkg::Lock::Timeout=300"]  # lanes run side by side
        install = ["apt-get", *wait, "install", "-y", "-q", *lane.apt]
        if subprocess.run(install, env=environment, check=False).returncode:
            subprocess.run(["apt-get", *wait, "update", "-q"], env=environment, check=False)
            subprocess.run(install, env=environment, check=False)
    if lane.pip and sys.prefix != sys.base_prefix:
        subprocess.run([sys.executable, "-m", "pip", "install", "--quiet", *lane.pip], check=False)


def main(arguments: list[str]) -> int:
    """Set the lane up, then become the command; returns only where the driver is missing or nothing was asked."""
    if len(arguments) < 2 or arguments[0] not in LANES:
        print(f"usage: lane.py {{{','.join(LANES)}}} [VARIABLE=VALUE]... COMMAND [ARGUMENT]...", file=sys.stderr)
        return 2
    name, *command = arguments
    lane = LANES[name]
    if not lane.present():
        _install(lane)
    if not lane.present():
        how = f"apt install {' '.join(lane.apt)}" if lane.apt else f"pip install {' '.join(lane.pip)}"
        must = bool(os.environ.get("CI")) or _is_root()
        what = "driver" if lane.is_driver else "compiler"
        print(f"lane {name}: the {what} is missing, install it with: {how}" + ("" if must else "; nothing was run"))
        return 1 if must else 0
    os.environ.update(lane.environment, **({"PYDP_DEVICE": name} if lane.is_driver else {}))
    while command and "=" in command[0].split("/")[0]:
        variable, _, value = command.pop(0).partition("=")
        os.environ[variable] = value
    if not command:
        print("lane.py: no command", file=sys.stderr)
        return 2
    sys.stdout.flush()
    os.execvp(command[0], command)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
