"""Make a pack: record the launches of every case for a target, and compile their kernels to PTX."""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Callable, Iterator
from dataclasses import asdict
from functools import partial
from math import prod
from pathlib import Path
from typing import Any

import numpy as np

import pydp
from pydp.errors import BuildFailed, DeviceNotPresent, InvalidArgument, UnsupportedOnDevice
from pydp.local_memory import banks_of, degree
from pydp.model.architectures import by_name, by_target
from pydp.offline.compilers import compiled, missing, vendor_of
from pydp.offline.reports import Resources
from pydp.offline.study import faults_of, target_of
from pydp.offline.target import Absent, Launch, Target, dry_run
from pydp.runtime.programs.program import kernel
from pydp.verify.check import NOT_IN_PACK, NotApplicable, first_line
from pydp.verify.report import write_whole
from pydp.verify.stages.cases import ALGORITHMS, FUNCTIONS, PROGRESS, Case, needs
from pydp.verify.stages.speeds import SPEEDS, Speed, specialization

SCHEMA = "pydp-pack-4"
CASES = {**ALGORITHMS, **FUNCTIONS, **PROGRESS}
_GROUP = 128
_COPIED = 256 << 20  # bytes of the copy and read kernels
_STEPS = 20000
STRIDES = (1, 2, 4, 8, 16, 32, 33)
_READS = 512
_COMPOSED = f"{NOT_IN_PACK}the call is made of several calls, which only a device that is present can run"
_COMMANDS = f"{NOT_IN_PACK}the call does more on the device than launch kernels"
_READ = f"{NOT_IN_PACK}the host reads results between its kernels"
_ON_HOST = f"{NOT_IN_PACK}the host computes a part of the results"


def make(folder: Path, name: str) -> Iterator[tuple[str, str, str]]:
    """Compile all launches for the target `name` into a folder; yields (case, "passed", "skipped" or "failed", note).

    The list of launches is written at the end. Raises InvalidArgument for a target that is not NVIDIA's, and
    UnsupportedOnDevice if the compiler is missing.
    """
    if vendor_of(name) != "nvidia":
        raise InvalidArgument(f"target is {name!r}; NVIDIA's targets, such as sm_90, are accepted")
    why = missing(name)
    if why is not None:
        raise UnsupportedOnDevice(why)
    pack = _Pack(folder, target_of(name))
    for title, entry in pack.entries():
        try:
            pack.add(title, entry())
            yield title, *pack.faults(title)
        except NotApplicable as error:
            pack.skipped[title] = first_line(error)
            yield title, "skipped", first_line(error)
        except (BuildFailed, UnsupportedOnDevice) as error:
            yield title, "failed", first_line(error)
    pack.write()


def file_name(data: bytes, ending: str) -> str:
    """The name of a file of a pack, which shows later whether the file is damaged."""
    return f"{hashlib.sha256(data).hexdigest()[:20]}{ending}"


def _required_group(source: str, name: str) -> int:
    """The work-items of a group that a kernel requires, 0 if any number is accepted. PTX for OpenCL does not say it."""
    words = re.search(rf"reqd_work_group_size\(([\d, ]+)\)\)\)\s*(?:__kernel\s|kernel\s)?\s*void\s+{name}\s*\(", source)
    return prod(map(int, words.group(1).split(","))) if words else 0


def _ptx_version(target: str) -> tuple[str, ...]:
    """The compiler's option for the oldest PTX that has the target: older drivers accept it too."""
    number = int(re.sub(r"\D", "", target))
    return (f"--cuda-feature=+ptx{70 if number <= 80 else 78}",) if number <= 90 else ()


class _Pack:
    def __init__(self, folder: Path, target: Target) -> None:
        self.folder, self.target = folder, target
        self.calls: dict[str, dict[str, Any]] = {}
        self.kernels: dict[str, dict[str, Any]] = {}
        self.skipped: dict[str, str] = {}

    def entries(self) -> Iterator[tuple[str, Callable[[], dict[str, Any]]]]:
        """(title, function that records) of everything in the pack."""
        for name, case in CASES.items():
            yield name, partial(self._case, case)
        for name in ("f32 multiply-adds", "f64 multiply-adds"):
            yield name, partial(self._peak, "float" if name[1:3] == "32" else "double", _STEPS)
        yield "launch", partial(self._peak, "float", 0, _GROUP)
        yield "copy kernel", partial(self._stream, "limit_copy")
        yield "read kernel", partial(self._stream, "limit_read")
        for stride in STRIDES:
            yield f"stride {stride}", partial(self._banks, stride)
        for speed in SPEEDS:
            yield f"speed of {speed.name}", partial(self._speed, speed)

    def _case(self, case: Case) -> dict[str, Any]:
        call = case(self.target.profile)
        returned: list[Any] = []

        def called(*args: Any, **options: Any) -> None:
            returned.append(call.function(*args, **options))

        with call.refusals():
            launches = self._launches(called, *call.args, **call.options)
        inputs = [one for one in call.args if isinstance(one, np.ndarray)]
        found = self._recorded(launches, inputs, len(call.want))
        written = call.written or ((0,) if returned[0] is None else ())
        if written:
            places = [next(at for at, one in enumerate(inputs) if one is call.args[place]) for place in written]
            found["results"] = [
                next(at for at, one in enumerate(found["buffers"]) if one.get("input") == place) for place in places
            ]
        sizes = [found["buffers"][at]["bytes"] for at in found["results"]]
        wanted = [one.values.nbytes for one in call.want]
        if "count" in found:  # the device decides how many of the elements count
            sizes = [min(pair) for pair in zip(sizes, wanted, strict=False)]
        if sizes != wanted:
            raise NotApplicable(_ON_HOST)
        return found

    def _speed(self, speed: Speed) -> dict[str, Any]:
        if getattr(speed.function, "__pydp_explain__", None) is None:
            raise NotApplicable(_COMMANDS)
        needs(self.target.profile, speed.dtype, speed.stored)
        arrays = [np.empty(shape, speed.dtype) for shape in speed.shapes(True)]
        found = self._recorded(self._launches(speed.function, *arrays, **speed.options), arrays, 1)
        if not found["results"]:
            raise NotApplicable(_ON_HOST)
        return {**found, "specialization": specialization(self.target, speed.function, *arrays, **speed.options)}

    def _launches(self, function: Callable[..., Any], *args: Any, **options: Any) -> list[Launch]:
        """The launches of a call. Raises NotApplicable if it is made of calls on the results of others."""
        try:
            return dry_run(self.target, function, *args, **options)
        except DeviceNotPresent as error:
            raise NotApplicable(_COMPOSED) from error

    def _recorded(self, launches: list[Launch], inputs: list[np.ndarray], results: int) -> dict[str, Any]:
        """Launches as JSON: buffers by index, scalars by their bytes.

        results: the number of arrays that the call returns. They are the last outputs; the ones before them are those
        of its first steps. If the device counts their elements, its "total" comes after them and is the "count". Raises
        NotApplicable for other commands, and for outputs that only the host reads: later launches depend on them, and
        were recorded for zeros.
        """
        if self.target.recorder.commands:
            raise NotApplicable(_COMMANDS)
        places: dict[int, int] = {}
        buffers: list[dict[str, Any]] = []

        def place(memory: Absent) -> int:
            if id(memory) not in places:
                places[id(memory)] = len(buffers)
                buffers.append(self._buffer(memory, inputs))
            return places[id(memory)]

        steps = []
        for one in launches:
            args: list[Any] = []
            for arg in one.args:
                if isinstance(arg, Absent):
                    args.append({"buffer": place(arg)})
                elif arg is None:
                    args.append({"bytes": "00" * 8})
                else:
                    value = np.asarray(arg)
                    args.append({"bytes": value.tobytes().hex(), "type": str(value.dtype), "value": str(value)})
            steps.append(
                {"kernel": self._kernel(one), "global": one.global_size, "local": one.local_size, "args": args}
            )
        outputs = [one for one in self.target.recorder.outputs if id(one.buffer) in places]
        counted = {}
        if len(outputs) > results and outputs[-1].name == "total":
            counted["count"] = place(outputs.pop().buffer)
        first = max(0, len(outputs) - results)
        if not all(one.buffer.reused for one in outputs[:first]):
            raise NotApplicable(_READ)
        found = [place(one.buffer) for one in outputs[first:]]
        return {"launches": steps, "buffers": buffers, "results": found, **counted}

    def _buffer(self, memory: Absent, inputs: list[np.ndarray]) -> dict[str, Any]:
        found: dict[str, Any] = {"bytes": memory.size}
        if memory.cleared:
            found["cleared"] = True
        if memory.values is not None:
            at = [place for place, one in enumerate(inputs) if one is memory.values]
            found |= {"input": at[0]} if at else {"file": self._file(memory.values.tobytes(), "bin")}
        return found

    def _file(self, data: bytes, ending: str) -> str:
        name = file_name(data, f".{ending}")
        self.folder.mkdir(parents=True, exist_ok=True)
        (self.folder / name).write_bytes(data)
        return name

    def _kernel(self, launch: Launch) -> str:
        """Compile a kernel, once; its key in the list of kernels."""
        one = launch.kernel
        content = "\0".join((one.name, one.source, *one.options))
        key = f"{one.name} {hashlib.sha256(content.encode()).hexdigest()[:12]}"
        if key not in self.kernels:
            options = (*one.options, *_ptx_version(self.target.name))
            text, resources = compiled(self.target.name, one.source, options, self.target.extensions)
            text = text.replace(", texmode_independent", "")  # a mode of OpenCL's textures, which no kernel uses
            found: Resources = resources[one.name]
            entry, structure = by_name(self.target.name), by_target(self.target.name)[1]
            faults = faults_of(found, launch.group, self.target.profile, entry, structure)
            self.kernels[key] = {
                "name": one.name,
                "group": _required_group(one.source, one.name),
                "ptx": self._file(text.encode(), "ptx"),
                "source": self._file(one.source.encode(), "cl"),
                "resources": asdict(found),
                "faults": faults,
            }
        return key

    def add(self, title: str, call: dict[str, Any]) -> None:
        """Add a call to the list."""
        self.calls[title] = call

    def faults(self, title: str) -> tuple[str, str]:
        """("failed", the faults of its kernels), or ("passed", "")."""
        keys = dict.fromkeys(one["kernel"] for one in self.calls[title]["launches"])
        faults = [f"{key.split()[0]}: {fault}" for key in keys for fault in self.kernels[key]["faults"]]
        return ("failed", "; ".join(faults)) if faults else ("passed", "")

    def write(self) -> None:
        """Write the list of launches."""
        record = {
            "schema": SCHEMA, "pydp": pydp.__version__, "target": self.target.name, "calls": self.calls,
            "kernels": self.kernels, "skipped": self.skipped,
        }  # fmt: skip
        write_whole(self.folder / f"{self.target.name}.json", json.dumps(record, indent=1))

    # --- limits -----------------------------------------------------------------------------------------------

    def _launched(
        self, made: Any, items: int, group: int, args: list[Any], work: float, unit: str, steps: bool = False
    ) -> dict[str, Any]:
        """A launch of one kernel that is not part of a public function. steps: whether argument 1 scales its work."""
        launches = self.target.recorder.start()
        made.enqueue(self.target.queue, (items,), (group,), args)
        self.target.recorder.launches = None
        scales = {"steps": {"argument": 1, "value": int(args[1])}} if steps else {}
        return {**self._recorded(launches, [], 0), "work": work, "unit": unit, **scales}

    def _limit_kernel(self, name: str, kind: str, width: int) -> Any:
        params = {"type": kind, "width": width, "chains": 12, "group": _GROUP}
        params |= {"fused": True, "hints": False}
        return kernel(self.target, "bench_limits.mako", name, params)

    def _peak(self, kind: str, steps: int, items: int = 0) -> dict[str, Any]:
        needs(self.target.profile, {"float": "float32", "double": "float64"}[kind])
        items = items or self.target.profile.compute_units * 16 * _GROUP
        number: Any = np.float32(0.5) if kind == "float" else np.float64(0.5)
        args = [Absent(items * number.nbytes), np.int32(steps), number]
        made = self._limit_kernel("limit_peak", kind, 1)
        return self._launched(made, items, _GROUP, args, 2.0 * items * 12 * 4 * steps, "GFLOP/s", steps > 0)

    def _stream(self, name: str) -> dict[str, Any]:
        items = self.target.profile.compute_units * 16 * _GROUP
        each = max(1, _COPIED // (16 * items))
        size = 16 * each * items
        args = [Absent(size), Absent(size), np.int32(each), np.int64(items)]
        work = size * (2.0 if name == "limit_copy" else 1.0)
        return self._launched(self._limit_kernel(name, "float", 4), items, _GROUP, args, work, "GB/s")

    def _banks(self, stride: int) -> dict[str, Any]:
        profile = self.target.profile
        lanes, groups = 256, 8 * profile.compute_units
        params = {"lanes": lanes, "stride": stride, "words": 4096}
        made = kernel(self.target, "bench_banks.mako", "bench_banks", params)
        args = [Absent(4 * lanes * groups), np.int32(_READS)]
        found = self._launched(made, lanes * groups, lanes, args, float(lanes * groups * _READS), "Gread/s", True)
        banks = banks_of(profile.banks, profile.bank_bytes)
        return {**found, "degree": degree(banks, [4 * stride * lane for lane in range(banks.lanes)])}
