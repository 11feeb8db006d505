"""Compile kernels for GPUs that are not present: clang with libclc makes machine code or PTX; ptxas reads the PTX.

    resources_of("gfx90a", source, ["-cl-std=CL1.2"])["scan"].registers

The results are cached on disk, keyed by the source, the options and the compilers.
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
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar, cast

from pydp.errors import BuildFailed, InvalidArgument, UnsupportedOnDevice
from pydp.offline.reports import Resources, of_assembly, of_ptx, of_ptxas
from pydp.runtime.bounded import BoundedCache
from pydp.runtime.programs import disk_bound
from pydp.runtime.programs.files import atomic_write, cache_dir, log_once, read
from pydp.runtime.programs.template import render

# Supported versions of clang; the offline tests pass with 19 and 22. They fail up to 16: 64-bit atomics of NVIDIA GPUs
# become library calls, some targets are unknown, and kernels spill registers that today's drivers do not spill.
VERSIONS = range(19, 23)
PACKAGES = "clang-19 libclc-15"  # apt packages that work together (libclc-19 removes Mesa's OpenCL on Debian 12)
_SECONDS = 120  # time limit of one compiler run
_FORMAT = 4  # format version of the cached results
_FOLDERS = ("/usr/lib/clc", "/usr/lib64/clc", "/usr/share/clc", "/usr/local/share/clc", "/usr/local/lib/clc")
_TRIPLES = {"nvidia": "nvptx64-nvidia-nvcl", "amd": "amdgcn-amd-amdhsa"}
_CAPTURED: dict[str, Any] = {"capture_output": True, "text": True, "errors": "replace", "timeout": _SECONDS}
_answers = BoundedCache(256)  # found compilers; a missing one is not cached, because it may be installed later
_Function = TypeVar("_Function", bound=Callable[..., Any])
_LIBRARIES = {"nvidia": ("nvptx64--nvidiacl.bc",), "amd": ("amdgcn--amdhsa.bc", "amdgcn-amd-amdhsa.bc")}


class Reason(str):
    """A sentence on why no compiler works for a target."""

    __slots__ = ()


def _remembered(look: _Function) -> _Function:
    """Decorator: cache the results of a function, except empty ones and a `Reason`."""

    @functools.wraps(look)
    def found_or_looked(*arguments: Any) -> Any:
        found = _answers.find((look, *arguments))
        if found is None:
            found = look(*arguments)
            if found and not isinstance(found, Reason):
                _answers.put((look, *arguments), found)
        return found

    return cast(_Function, found_or_looked)


@dataclass(frozen=True)
class Toolchain:
    """A clang and the library file of OpenCL C functions (libclc) that work together for a target."""

    clang: str
    libclc: str

    def __str__(self) -> str:
        return f"{Path(self.clang).name} with {self.libclc}"

    @functools.cached_property
    def identity(self) -> tuple[str, ...]:
        """A key that differs for other versions at the same paths."""
        try:
            file = os.stat(self.libclc)
            stamp = f"{file.st_size} {file.st_mtime_ns}"
        except OSError:
            stamp = "gone"
        return _first_line(self.clang), self.libclc, stamp


def vendor_of(target: str) -> str:
    """The vendor of a target: "nvidia" for names like sm_90, "amd" for names like gfx90a, else ""."""
    if re.fullmatch(r"sm_\d+[a-z]?", target):
        return "nvidia"
    return "amd" if re.fullmatch(r"gfx[0-9a-f]+", target) else ""


def clangs() -> tuple[tuple[int, str], ...]:
    """(version, path) of every clang on the PATH, newest first, supported or not."""
    named = {version: shutil.which(f"clang-{version}") for version in range(VERSIONS.stop + 20, 2, -1)}
    found = [(version, path) for version, path in named.items() if path]
    plain = shutil.which("clang")
    version = re.search(r"clang version (\d+)", _first_line(plain)) if plain else None
    if plain and version and int(version.group(1)) not in dict(found):
        found.append((int(version.group(1)), plain))
    return tuple(sorted(found, reverse=True))


def libraries(vendor: str) -> tuple[str, ...]:
    """The libclc files for a vendor's GPUs; empty if libclc is not installed."""
    folders = (*_FOLDERS, *sorted(glob.glob("/usr/lib/llvm-*/share/clc"), reverse=True))
    paths = [Path(folder) / name for folder in folders for name in _LIBRARIES[vendor]]
    return tuple(dict.fromkeys(os.path.realpath(path) for path in paths if path.exists()))


@_remembered
def assemblers() -> tuple[str, ...]:
    """Every ptxas found: in NVIDIA's Python packages, on the PATH, in CUDA's folders.

    A new ptxas does not support the oldest GPUs, so each of them may be needed.
    """
    packages = [found for folder in sys.path for found in glob.glob(f"{folder}/nvidia/*/bin/ptxas")]
    tools = [shutil.which("ptxas"), f"{os.environ.get('CUDA_HOME', '/usr/local/cuda')}/bin/ptxas"]
    found = [*packages, *tools, *sorted(glob.glob("/usr/local/cuda-*/bin/ptxas"), reverse=True)]
    usable = (os.path.realpath(path) for path in found if path and os.access(path, os.X_OK))
    return tuple(dict.fromkeys(usable))


@_remembered
def toolchain(target: str) -> Toolchain | Reason:
    """The newest supported clang that compiles for `target`, with a libclc that it can read.

    If there is none, a `Reason` that says what to install.
    """
    vendor = vendor_of(target)
    if not vendor:
        return Reason(f"no compiler for {target} is known; names such as sm_90 and gfx90a are accepted")
    install = f"install clang {VERSIONS.start} to {VERSIONS.stop - 1} and a libclc that is no newer (apt: {PACKAGES})"
    here = clangs()
    supported = [path for version, path in here if version in VERSIONS]
    if not supported:
        others = " and ".join(f"clang {version}" for version, _ in here)
        reason = f"{others} cannot be used" if others else "clang is not installed"
        return Reason(f"{reason}, so nothing is compiled for {target}; {install}")
    if not libraries(vendor):
        return Reason(f"libclc is not installed, so nothing is compiled for {target}; {install}")
    reasons = []
    for one in (Toolchain(path, library) for path in supported for library in libraries(vendor)):
        fault = _fault(one, target)
        if fault is None:
            return one
        reasons.append(f"{one} compiles nothing for {target} ({fault})")
    return Reason(f"{reasons[0]}; {install}")


def _fault(tools: Toolchain, target: str) -> str | None:
    """The first compiler error for a small kernel; None if it compiles."""
    params = {"mode": "group", "size": 64, "int64": True, "fp64": True, "sizes": [], "attribute": "", "cl_std": "CL1.2"}
    probe = render("probe.mako", params)
    try:
        command = _command(tools, target, ["-cl-std=CL1.2"], [])
        _assembly(tools, target, _given(target), probe, command)
    except BuildFailed as error:
        return _first_error(error.log)
    except InvalidArgument as error:
        return str(error)
    return None


def missing(target: str) -> str | None:
    """One sentence on why nothing can be compiled for `target` here; None if it can."""
    tools = toolchain(target)
    return tools if isinstance(tools, Reason) else None


def resources_of(
    target: str, source: str, options: Sequence[str] = (), extensions: Sequence[str] = ()
) -> dict[str, Resources]:
    """Compile OpenCL C for a GPU that need not be present; return the resources of each kernel by name.

    target: "sm_90", "gfx90a" and so on. options: compiler options as for OpenCL drivers. extensions: OpenCL extensions
    of the target's driver that clang does not enable by itself. Raises BuildFailed with the compiler's log;
    UnsupportedOnDevice if clang, libclc or the target is missing.
    """
    tools, command = _usable(target, options, extensions)
    given = _given(target)
    words = (*command, *tools.identity, *(assemblers() if vendor_of(target) == "nvidia" else ()))
    content = "\0".join((str(_FORMAT), target, *words, given, source))
    path = cache_dir() / "offline" / f"{hashlib.sha256(content.encode()).hexdigest()}.json"
    kept = _kept(path)
    if kept is None:
        kept = _compile(tools, target, _prelude(target, source), source, command)
        data = json.dumps([dataclasses.asdict(one) for one in kept.values()]).encode()
        if atomic_write(path, data):
            disk_bound.written(path, len(data))
    else:
        disk_bound.used(path)
    return kept


def compiled(
    target: str, source: str, options: Sequence[str] = (), extensions: Sequence[str] = ()
) -> tuple[str, dict[str, Resources]]:
    """The assembly of OpenCL C (for NVIDIA GPUs: PTX) and the resources of its kernels; as `resources_of`, uncached."""
    tools, command = _usable(target, options, extensions)
    assembly = _assembly(tools, target, _prelude(target, source), source, command)
    return assembly, _resources(tools, target, source, assembly)


def _usable(target: str, options: Sequence[str], extensions: Sequence[str]) -> tuple[Toolchain, list[str]]:
    """The compiler for a target and its command. Raises UnsupportedOnDevice if none is installed."""
    tools = toolchain(target)
    if isinstance(tools, Reason):
        raise UnsupportedOnDevice(tools)
    return tools, _command(tools, target, options, extensions)


def _prelude(target: str, source: str) -> str:
    """The functions that libclc lacks, if a source uses them."""
    return _given(target) if re.search(r"\batom_|\bsub_group_barrier", source) else ""


def _kept(path: Path) -> dict[str, Resources] | None:
    """The cached result on disk; None if there is none or it cannot be read."""
    data = read(path)
    if data is None:
        return None
    kinds: dict[str, Any] = {field.name: str if field.type == "str" else int for field in dataclasses.fields(Resources)}
    try:
        found = [Resources(**{name: kind(item[name]) for name, kind in kinds.items()}) for item in json.loads(data)]
    except (ValueError, TypeError, KeyError, OverflowError, RecursionError) as error:
        log_once(f"{path} is damaged ({error}); compiling its kernel again")
        return None
    return {one.kernel: one for one in found}


def _given(target: str) -> str:
    """OpenCL C functions that libclc lacks."""
    return render("offline_functions.mako", {"vendor": vendor_of(target)})


@_remembered
def _first_line(clang: str) -> str:
    """The first line of a compiler's version text; empty if it cannot be run."""
    try:
        done = subprocess.run([clang, "--version"], **_CAPTURED)
    except (OSError, subprocess.TimeoutExpired):
        return ""
    return (done.stdout.splitlines() or [""])[0]


def _command(tools: Toolchain, target: str, options: Sequence[str], extensions: Sequence[str]) -> list[str]:
    vendor = vendor_of(target)
    architecture = f"-march={_known(tools.clang, target)}" if vendor == "nvidia" else f"-mcpu={target}"
    command = [tools.clang, "-x", "cl", "-target", _TRIPLES[vendor], architecture, "-O3", "-S", "-w", "-nogpulib"]
    internal = ["-finclude-default-header", "-mlink-builtin-bitcode", tools.libclc]
    # Else a libclc with another code object version cannot be linked.
    internal += ["-mcode-object-version=none"] if vendor == "amd" else []
    internal += [f"-cl-ext={','.join('+' + name for name in extensions)}"] if extensions else []
    for word in internal:
        command += ["-Xclang", word]
    return [*command, *options]


@_remembered
def _known(clang: str, target: str) -> str:
    """The target; if clang is too old for an NVIDIA target, the newest one it knows: PTX also runs on later GPUs."""
    command = [clang, "-x", "cl", "-target", _TRIPLES["nvidia"], f"-march={target}", "-nogpulib", "-S", "-o", "-", "-"]
    done = _run(command, "", clang, target, "")
    if "unknown target CPU" not in done.stderr:
        return target
    asked = int(re.sub(r"\D", "", target))
    known = [int(number) for number in re.findall(r"\bsm_(\d+)\b(?!')", done.stderr) if int(number) < asked]
    return f"sm_{max(known)}" if known else target


def _compile(tools: Toolchain, target: str, given: str, source: str, command: list[str]) -> dict[str, Resources]:
    return _resources(tools, target, source, _assembly(tools, target, given, source, command))


def _resources(tools: Toolchain, target: str, source: str, assembly: str) -> dict[str, Resources]:
    if vendor_of(target) == "amd":
        return of_assembly(assembly)
    return _assembled(tools, target, source, assembly) or of_ptx(assembly)


def _assembly(tools: Toolchain, target: str, given: str, source: str, command: list[str]) -> str:
    """The assembly or PTX of a source. Raises BuildFailed."""
    done = _run([*command, "-o", "-", "-"], given + source, tools, target, source)
    if done.returncode:
        raise _failed(tools, target, source, done.stderr)
    unknown = sorted(set(_unresolved(done.stdout)))
    if unknown:
        raise _failed(tools, target, source, f"error: libclc has no function {', '.join(unknown)}")
    return done.stdout


def _assembled(tools: Toolchain, target: str, source: str, ptx: str) -> dict[str, Resources] | None:
    """The report of ptxas; None if no installed ptxas supports the target or this PTX version."""
    with tempfile.TemporaryDirectory(prefix="pydp-") as folder:
        path = Path(folder) / "kernel.ptx"
        path.write_text(ptx)
        for assembler in assemblers():
            done = _run([assembler, "-v", f"-arch={target}", str(path), "-o", os.devnull], "", tools, target, source)
            if not done.returncode:
                return of_ptxas(done.stderr + done.stdout)
            if "gpu-name" not in done.stderr and "Unsupported .version" not in done.stderr:
                raise _failed(tools, target, source, done.stderr)
    return None


def _unresolved(assembly: str) -> Iterator[str]:
    """Functions that are called but not defined."""
    defined = set(re.findall(r"\.type\s+(\S+?),@", assembly))
    named = re.findall(r"\.func\s*(?:\([^)]*\))?\s*([\w$]+)\s*(?:\([^)]*\))?[^;{]*([;{])", assembly)
    bodies = {name for name, end in named if end == "{"}  # large functions are not inlined; they are declared first
    yield from (name for name, end in named if end == ";" and name not in bodies)
    called = re.findall(r"([\w$.]+)@(?:gotpcrel|rel)32", assembly)
    yield from (name for name in called if name not in defined)


def _run(
    command: list[str], given: str, tools: Toolchain | str, target: str, source: str
) -> subprocess.CompletedProcess[str]:
    try:
        return subprocess.run(command, input=given, **_CAPTURED)
    except subprocess.TimeoutExpired:
        raise _failed(tools, target, source, f"error: {command[0]} took more than {_SECONDS} seconds") from None
    except OSError as error:
        raise InvalidArgument(f"{command[0]} cannot be run: {error.strerror}") from error


def _failed(tools: Toolchain | str, target: str, source: str, log: str) -> BuildFailed:
    message = f"the kernel does not compile for {target} by {tools}: {_first_error(log)}"
    return BuildFailed(f"{message}\n{log[:4000]}", device=target, driver=str(tools), log=log, source=source)


def _first_error(log: str) -> str:
    lines = log.strip().splitlines()
    return next((line for line in lines if "error" in line or "fatal" in line), lines[0] if lines else "no log")
