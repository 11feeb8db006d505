"""Compiling kernels for GPUs that are not there: clang with libclc makes machine code or PTX, ptxas reads the latter.

    resources_of("gfx90a", source, ["-cl-std=CL1.2"])["scan"].registers

The answers are kept on disk by the content of the source, the options and the compilers.
"""

from __future__ import annotations

import dataclasses
import functools
import glob
import hashlib
import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from pydp.errors import BuildFailed, InvalidArgument, UnsupportedOnDevice
from pydp.runtime.cache import atomic_write, cache_dir, log_once, read
from pydp.runtime.offline_reports import Resources, of_assembly, of_ptx, of_ptxas
from pydp.runtime.template import render

_SECONDS = 120  # after which a compiler is given up
_FORMAT = 2  # of the kept answers
_FOLDERS = ("/usr/lib/clc", "/usr/lib64/clc", "/usr/share/clc", "/usr/local/share/clc", "/usr/local/lib/clc")
_TRIPLES = {"nvidia": "nvptx64-nvidia-nvcl", "amd": "amdgcn-amd-amdhsa"}
_LIBRARIES = {"nvidia": "nvptx64--nvidiacl.bc", "amd": "amdgcn--amdhsa.bc"}


def vendor_of(target: str) -> str:
    """ "nvidia" for sm_90 and its like, "amd" for gfx90a and its like, "" for other names."""
    if re.fullmatch(r"sm_\d+[a-z]?", target):
        return "nvidia"
    return "amd" if re.fullmatch(r"gfx[0-9a-f]+", target) else ""


@functools.cache
def clang() -> str | None:
    """The newest clang by name, None without one."""
    names = [f"clang-{version}" for version in range(25, 13, -1)] + ["clang"]
    return next((path for path in map(shutil.which, names) if path), None)


@functools.cache
def libclc(vendor: str) -> str | None:
    """The file of OpenCL C's functions for a vendor's GPUs, None where libclc is not installed."""
    folders = (*_FOLDERS, *sorted(glob.glob("/usr/lib/llvm-*/share/clc"), reverse=True))
    paths = (Path(folder) / _LIBRARIES[vendor] for folder in folders)
    return next((str(path) for path in paths if path.exists()), None)


@functools.cache
def assemblers() -> tuple[str, ...]:
    """Every ptxas that is here: of NVIDIA's Python packages, on the path, of CUDA's folders. A newer one does not know
    the oldest GPUs any more, so each may be needed."""
    packages = [found for folder in sys.path for found in glob.glob(f"{folder}/nvidia/*/bin/ptxas")]
    tools = [shutil.which("ptxas"), f"{os.environ.get('CUDA_HOME', '/usr/local/cuda')}/bin/ptxas"]
    found = [*packages, *tools, *sorted(glob.glob("/usr/local/cuda-*/bin/ptxas"), reverse=True)]
    usable = (os.path.realpath(path) for path in found if path and os.access(path, os.X_OK))
    return tuple(dict.fromkeys(usable))


def missing(target: str) -> str | None:
    """Why nothing can be compiled for `target` here, in one sentence; None where it can."""
    vendor = vendor_of(target)
    if not vendor:
        return f"there is no compiler for {target} here; names such as sm_90 and gfx90a are accepted"
    if clang() is None:
        return f"clang is not installed, so nothing is compiled for {target} (apt: clang-19 libclc-15)"
    if libclc(vendor) is None:
        return f"libclc is not installed, so nothing is compiled for {target} (apt: libclc-15)"
    return None


def resources_of(
    target: str, source: str, options: Sequence[str] = (), extensions: Sequence[str] = ()
) -> dict[str, Resources]:
    """Compile OpenCL C for a GPU that need not be here: the resources of each kernel, by name.

    target: "sm_90", "gfx90a" and so on. options: the compiler's, as OpenCL drivers take them. extensions: OpenCL
    extensions that the target's driver has beyond those that clang knows of. Raises BuildFailed with the compiler's
    words, UnsupportedOnDevice where clang, libclc or the target is not known.
    """
    reason = missing(target)
    if reason is not None:
        raise UnsupportedOnDevice(reason)
    command = _command(target, options, extensions)
    tools = (*command, *_versions(), *(assemblers() if vendor_of(target) == "nvidia" else ()))
    given = render("offline_functions.mako", {"vendor": vendor_of(target)})
    content = "\0".join((str(_FORMAT), target, *tools, given, source))
    path = cache_dir() / "offline" / f"{hashlib.sha256(content.encode()).hexdigest()}.json"
    kept = _kept(path)
    if kept is None:
        kept = _compile(target, given if re.search(r"\batom_|\bsub_group_barrier", source) else "", source, command)
        atomic_write(path, json.dumps([dataclasses.asdict(one) for one in kept.values()]).encode())
    return kept


def _kept(path: Path) -> dict[str, Resources] | None:
    """The answer on disk; None where there is none that can be read."""
    data = read(path)
    if data is None:
        return None
    kinds: dict[str, Any] = {field.name: str if field.type == "str" else int for field in dataclasses.fields(Resources)}
    try:
        found = [Resources(**{name: kind(item[name]) for name, kind in kinds.items()}) for item in json.loads(data)]
    except (ValueError, TypeError, KeyError) as error:
        log_once(f"{path} is damaged ({error}); compiling its kernel again")
        return None
    return {one.kernel: one for one in found}


@functools.cache
def _versions() -> tuple[str, ...]:
    done = subprocess.run([clang() or "clang", "--version"], capture_output=True, text=True, check=False)
    return (done.stdout.splitlines() or [""])[0], str([libclc(vendor) for vendor in _LIBRARIES])


def _command(target: str, options: Sequence[str], extensions: Sequence[str]) -> list[str]:
    vendor = vendor_of(target)
    architecture = f"-march={_known(target)}" if vendor == "nvidia" else f"-mcpu={target}"
    command = [str(clang()), "-x", "cl", "-target", _TRIPLES[vendor], architecture, "-O3", "-S", "-w", "-nogpulib"]
    internal = ["-finclude-default-header", "-mlink-builtin-bitcode", str(libclc(vendor))]
    internal += [f"-cl-ext={','.join('+' + name for name in extensions)}"] if extensions else []
    for word in internal:
        command += ["-Xclang", word]
    return [*command, *options]


@functools.cache
def _known(target: str) -> str:
    """The target, or for one of NVIDIA's that clang is too old for the newest it knows: PTX goes to later GPUs too."""
    command = [str(clang()), "-x", "cl", "-target", _TRIPLES["nvidia"], f"-march={target}", "-nogpulib", "-S"]
    done = subprocess.run([*command, "-o", "-", "-"], input="", capture_output=True, text=True, check=False)
    if "unknown target CPU" not in done.stderr:
        return target
    asked = int(re.sub(r"\D", "", target))
    known = [int(number) for number in re.findall(r"\bsm_(\d+)\b(?!')", done.stderr) if int(number) < asked]
    return f"sm_{max(known)}" if known else target


def _compile(target: str, given: str, source: str, command: list[str]) -> dict[str, Resources]:
    with tempfile.TemporaryDirectory(prefix="pydp-") as folder:
        text, made = Path(folder) / "kernel.cl", Path(folder) / "kernel.s"
        text.write_text(given + source)
        done = _run([*command, "-o", str(made), str(text)], target, source)
        if done.returncode:
            raise _failed(target, source, done.stderr)
        assembly = made.read_text()
        unknown = sorted(set(_unresolved(assembly)))
        if unknown:
            raise _failed(target, source, f"error: libclc has no function {', '.join(unknown)}")
        if vendor_of(target) == "amd":
            return of_assembly(assembly)
        return _assembled(target, source, made) or of_ptx(assembly)


def _assembled(target: str, source: str, ptx: Path) -> dict[str, Resources] | None:
    """What ptxas says; None where none of those that are here knows the target or this PTX."""
    for assembler in assemblers():
        done = _run([assembler, "-v", f"-arch={target}", str(ptx), "-o", os.devnull], target, source)
        if not done.returncode:
            return of_ptxas(done.stderr + done.stdout)
        if "gpu-name" not in done.stderr and "Unsupported .version" not in done.stderr:
            raise _failed(target, source, done.stderr)
    return None


def _unresolved(assembly: str) -> Iterator[str]:
    """Functions that are called and nowhere defined."""
    defined = set(re.findall(r"\.type\s+(\S+?),@", assembly))
    named = re.findall(r"\.func\s*(?:\([^)]*\))?\s*([\w$]+)\s*(?:\([^)]*\))?[^;{]*([;{])", assembly)
    bodies = {name for name, end in named if end == "{"}  # those that are large are declared first, and not inlined
    yield from (name for name, end in named if end == ";" and name not in bodies)
    called = re.findall(r"([\w$.]+)@(?:gotpcrel|rel)32", assembly)
    yield from (name for name in called if name not in defined)


def _run(command: list[str], target: str, source: str) -> subprocess.CompletedProcess[str]:
    try:
        return subprocess.run(command, capture_output=True, text=True, timeout=_SECONDS, check=False)
    except subprocess.TimeoutExpired:
        raise _failed(target, source, f"error: {command[0]} took more than {_SECONDS} seconds") from None
    except OSError as error:
        raise InvalidArgument(f"{command[0]} cannot be run: {error.strerror}") from error


def _failed(target: str, source: str, log: str) -> BuildFailed:
    lines = log.strip().splitlines()
    first = next((line for line in lines if "error" in line or "fatal" in line), lines[0] if lines else "no log")
    driver = f"{Path(str(clang())).name} with libclc"
    message = f"the kernel does not compile for {target} by {driver}: {first}"
    return BuildFailed(f"{message}\n{log[:4000]}", device=target, driver=driver, log=log, source=source)
