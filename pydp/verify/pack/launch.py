"""Run or check the launches of a pack."""

from __future__ import annotations

import contextlib
import json
import re
import statistics
import time
from collections.abc import Callable, Iterator
from math import prod
from pathlib import Path
from typing import Any

import numpy as np

import pydp
from pydp.errors import InvalidArgument, NoUsableDevice
from pydp.model.architectures import by_target
from pydp.tuning.reference import Expected
from pydp.verify.check import NOT_IN_PACK, Context, NotApplicable, Wrong
from pydp.verify.pack.cuda import Driver
from pydp.verify.pack.make import CASES, SCHEMA, STRIDES, file_name
from pydp.verify.stages.speeds import GpuUnderTest, Speed, compare, measured, operands

# CUDA's limits: work-items of a group, and the sizes of groups and grids by axis.
_MOST_ITEMS, _MOST_GROUP, _MOST_GRID = 1024, (1024, 1024, 64), (2**31 - 1, 65535, 65535)
_MOST_STATIC = 48 << 10
_REPEATS, _TOGETHER = 16, 8
_FIRST_STEPS = 1 / 64  # share of the steps of a limit in the first launch, which measures the time of a step
_LAUNCH_SECONDS, _LIMIT_SECONDS = 0.05, 3.0  # seconds of one launch, and of the measurement of one limit


def load(folder: str) -> dict[str, dict[str, Any]]:
    """The lists of launches of a folder, by target.

    Raises InvalidArgument if a file or all are missing or damaged, or if another version of pydp made them: its cases
    may differ.
    """
    found = {}
    for path in sorted(Path(folder).glob("sm_*.json")):
        try:
            record = json.loads(path.read_bytes())
            made_by = (record["schema"], record.get("pydp"))
            if made_by != (SCHEMA, pydp.__version__):
                raise InvalidArgument(
                    f"{path} was made by {made_by[1] or 'an older pydp'} in the form {made_by[0]}, not by "
                    f"{pydp.__version__} in the form {SCHEMA}; make the folder again with `pydp verify --pack`"
                )
            sizes = _files_of(record)
            found[str(record["target"])] = record
        except (ValueError, LookupError, TypeError, AttributeError) as error:
            if isinstance(error, InvalidArgument):
                raise
            raise InvalidArgument(
                f"{path} is damaged: it is no list of launches of the form {SCHEMA}; copy the folder again"
            ) from error
        _check_files(Path(folder), str(record["target"]), sizes)
    if not found:
        raise InvalidArgument(f"{folder} has no list of launches; a folder made by `pydp verify --pack` is accepted")
    return found


def _files_of(record: dict[str, Any]) -> dict[str, int | None]:
    """The files that a list names, with their sizes where it has them. Raises LookupError, TypeError, AttributeError or
    ValueError if it is not a whole list with at least one launch."""
    sizes: dict[str, int | None] = {one["ptx"]: None for one in record["kernels"].values()}
    record["skipped"].items()
    launches = 0
    for call in record["calls"].values():
        sizes |= {one["file"]: int(one["bytes"]) for one in call["buffers"] if "file" in one}
        list(call["results"])
        for one in call["launches"]:
            record["kernels"][one["kernel"]]["name"], one["args"], shape_of(one)  # raises if one is missing
            launches += 1
    if not launches:
        raise ValueError("no launches")
    return sizes


def _check_files(folder: Path, target: str, sizes: dict[str, int | None]) -> None:
    """Raise InvalidArgument for files that are missing or damaged. The name of a file is a digest of its content."""
    absent = sorted(name for name in sizes if not (folder / name).exists())
    if absent:
        raise InvalidArgument(
            f"{folder} is incomplete: {len(absent)} of {len(sizes)} files of {target} are missing, such as "
            f"{absent[0]}; copy the whole folder"
        )
    for name, size in sorted(sizes.items()):
        data = (folder / name).read_bytes()
        if name != file_name(data, Path(name).suffix) or size not in (None, len(data)):
            raise InvalidArgument(
                f"{folder / name} is damaged: its content differs from what was written; copy the folder again"
            )


# --- a check without a GPU ----------------------------------------------------------------------------------------


def parameters_of(ptx: str) -> dict[str, tuple[int, ...]]:
    """The kernels of a PTX text: the sizes of their parameters in bytes.

    >>> parameters_of(".entry f(.param .u64 .ptr .global .align 4 f_0, .param .u32 f_1) {")
    {'f': (8, 4)}
    """
    found = {}
    for name, parameters in re.findall(r"\.entry\s+([\w$]+)\s*\(([^)]*)\)", ptx):
        sizes = []
        for one in filter(None, (text.strip() for text in parameters.split(","))):
            kind = re.search(r"\.[usbf](\d+)", one)
            count = re.search(r"\[(\d+)\]", one)
            assert kind is not None, one
            sizes.append(int(kind.group(1)) // 8 * (int(count.group(1)) if count else 1))
        found[name] = tuple(sizes)
    return found


def dry_run(folder: str) -> Iterator[tuple[str, int, list[str]]]:
    """(target, number of launches, faults) of each list in a folder: arguments and sizes, compared with the PTX."""
    for target, record in load(folder).items():
        texts = {key: (Path(folder) / one["ptx"]).read_text() for key, one in record["kernels"].items()}
        count, faults = 0, []
        for title, call in record["calls"].items():
            for launch in call["launches"]:
                count += 1
                kernel = record["kernels"][launch["kernel"]]
                for fault in _faults(texts[launch["kernel"]], kernel, launch, call["buffers"]):
                    faults.append(f"{title}: {launch['kernel']}: {fault}")
        yield target, count, faults


def _faults(ptx: str, kernel: dict[str, Any], launch: dict[str, Any], buffers: list[dict[str, Any]]) -> Iterator[str]:
    wanted = parameters_of(ptx).get(kernel["name"])
    if wanted is None:
        yield f"the PTX has no kernel {kernel['name']}"
        return
    sizes = tuple(8 if "buffer" in one else len(one["bytes"]) // 2 for one in launch["args"])
    if sizes != wanted:
        yield f"arguments of {sizes} bytes, the kernel takes {wanted}"
    for one in launch["args"]:
        if "buffer" in one and not 0 <= one["buffer"] < len(buffers):
            yield f"there is no buffer {one['buffer']}"
    if any(one["bytes"] < 1 for one in buffers):
        yield "a buffer is empty"
    grid, group = shape_of(launch)
    if kernel["group"] not in (0, prod(group)):
        yield f"groups of {prod(group)}, the kernel requires {kernel['group']}"
    if any(all_ % own for all_, own in zip(launch["global"], launch["local"], strict=True)):
        yield f"{launch['global']} work-items are not whole groups of {launch['local']}"
    sizes_and_limits = zip((*grid, *group), (*_MOST_GRID, *_MOST_GROUP), strict=True)
    if prod(group) > _MOST_ITEMS or any(one > most for one, most in sizes_and_limits):
        yield f"{grid} groups of {group} exceed CUDA's limits"
    shared = re.findall(r"\.shared[^;]*?\.b(\d+)\s+[\w$]+(?:\[(\d+)\])?;", ptx)
    if sum(int(bits) // 8 * int(count or 1) for bits, count in shared) > _MOST_STATIC:
        yield f"more than {_MOST_STATIC} bytes of static shared memory"
    if "%envreg" in ptx:
        yield "the kernel reads registers that only OpenCL sets"


def shape_of(launch: dict[str, Any]) -> tuple[tuple[int, ...], tuple[int, ...]]:
    """(groups of the grid, work-items of a group), on three axes."""
    group = tuple(launch["local"]) + (1,) * (3 - len(launch["local"]))
    whole = tuple(launch["global"]) + (1,) * (3 - len(launch["global"]))
    return tuple(all_ // own for all_, own in zip(whole, group, strict=True)), group


# --- a GPU ----------------------------------------------------------------------------------------------------------


class Gpu:
    """A GPU that runs the launches of a pack."""

    def __init__(self, folder: str, driver: Driver) -> None:
        self.folder, self._driver = Path(folder), driver
        lists = load(folder)
        able = [name for name in lists if int(re.sub(r"\D", "", name)) <= driver.capability]
        if not able:
            raise NoUsableDevice(
                f"{driver.name} is sm_{driver.capability}; {folder} has kernels for {', '.join(lists)}: make it with "
                f"--target sm_{driver.capability}"
            )
        self.target = max(able, key=lambda name: int(re.sub(r"\D", "", name)))
        self._record = lists[self.target]
        self.name, self.driver = driver.name, f"CUDA {driver.version}"
        self.interface = f"kernels for {self.target} through CUDA's driver"
        self._functions: dict[str, Any] = {}

    @classmethod
    def first(cls, folder: str) -> Gpu:
        """The first GPU that CUDA lists. Raises InvalidArgument for the folder, NoUsableDevice."""
        load(folder)  # first: a wrong folder is named on machines without a GPU too
        return cls(folder, Driver())

    def facts(self) -> dict[str, Any]:
        """The GPU and the interface that launches kernels."""
        return {
            "name": self.name,
            "driver": self.driver,
            "capability": self._driver.capability,
            "interface": self.interface,
        }

    def run_case(self, name: str) -> dict[str, Any]:
        """Run a case and compare its results. Raises Wrong, NotApplicable."""
        recorded = self._call(name)
        call = CASES[name](by_target(self.target)[0])
        inputs = [one for one in call.args if isinstance(one, np.ndarray)]
        with _Memory(self._driver, self.folder, recorded, inputs) as memory:
            self._prepared(recorded, memory)()
            self._driver.wait()
            got = self._results(recorded, memory, call.want)
        call.compare(got)
        return {}

    def limit(self, name: str) -> dict[str, Any]:
        """Measure one limit of stage (d)."""
        if name == "local memory banks":
            rows = {stride: self._limit(f"stride {stride}") for stride in STRIDES}
            first = rows[1]["rate"]  # not the times: slow strides may take fewer steps
            found = {
                str(stride): {**one, "time": first / one["rate"], "degree": self._call(f"stride {stride}")["degree"]}
                for stride, one in rows.items()
            }
            return {"by stride": found}
        if name == "launch":
            return self._launches()
        return self._limit(name)

    def speed(self, speed: Speed, context: Context) -> dict[str, Any]:
        """Compare the result of an operation of stage (e), and measure it beside the installed libraries."""
        recorded = self._call(f"speed of {speed.name}")
        arrays = operands(speed, True)
        with _Memory(self._driver, self.folder, recorded, arrays) as memory:
            launches = self._prepared(recorded, memory)

            def ours() -> None:
                memory.clear()
                launches()
                self._driver.wait()

            ours()
            compare(speed, arrays, lambda want: self._results(recorded, memory, want))
            spec = recorded.get("specialization", {})
            return spec | measured(speed, ours, arrays, GpuUnderTest((self.name,), number=0), context)

    def _results(self, recorded: dict[str, Any], memory: _Memory, want: list[Expected]) -> list[np.ndarray]:
        """The results of a call on the host, with the shapes of the expected ones. Raises Wrong for a wrong number of
        elements."""
        if "count" in recorded:
            count = np.empty((), np.int64)
            self._driver.download(memory.places[recorded["count"]], count)
            if count != len(want[0].values):
                raise Wrong(f"{count} elements instead of {len(want[0].values)}")
        got = []
        for place, one in zip(recorded["results"], want, strict=False):
            values = np.empty(one.values.shape, one.values.dtype)
            self._driver.download(memory.places[place], values)
            got.append(values)
        return got

    def _limit(self, name: str) -> dict[str, Any]:
        recorded = self._shortened(self._call(name))
        seconds = min(self._seconds(recorded, _TOGETHER))
        return {"rate": recorded["work"] / seconds / 1e9, "unit": recorded["unit"], "seconds": seconds}

    def _shortened(self, recorded: dict[str, Any]) -> dict[str, Any]:
        """A limit with as many steps as a launch of _LAUNCH_SECONDS has, at most those of the pack.

        float64 can be 64 times slower than float32, and a system may end a long launch.
        """
        if "steps" not in recorded:
            return recorded
        steps = int(recorded["steps"]["value"])
        few = max(1, int(steps * _FIRST_STEPS))
        seconds = min(self._seconds(_with_steps(recorded, few), 1, repeats=2))
        return _with_steps(recorded, max(1, min(steps, int(few * _LAUNCH_SECONDS / seconds))))

    def _launches(self) -> dict[str, Any]:
        recorded = self._call("launch")
        one, together = (1e6 * statistics.median(self._seconds(recorded, count)) for count in (1, 10 * _TOGETHER))
        return {"one at a time (us)": one, "back to back (us)": together}

    def _seconds(self, recorded: dict[str, Any], count: int, repeats: int = _REPEATS) -> list[float]:
        """Times of a call, each of `count` calls back to back, without the first, which loads the kernel."""
        with _Memory(self._driver, self.folder, recorded, []) as memory:
            launches = self._prepared(recorded, memory)
            found: list[float] = []
            while len(found) < 2 or (len(found) < repeats and sum(found) < _LIMIT_SECONDS):
                began = time.perf_counter()
                for _ in range(count):
                    launches()
                self._driver.wait()
                found.append(time.perf_counter() - began)
        return [one / count for one in found[1:]]

    def _call(self, name: str) -> dict[str, Any]:
        found = self._record["calls"].get(name)
        if found is None:
            raise NotApplicable(self._record["skipped"].get(name, f"{NOT_IN_PACK}it has no kernels there"))
        return dict(found)

    def _prepared(self, recorded: dict[str, Any], memory: _Memory) -> Callable[[], None]:
        """A function that makes the launches of a call."""
        prepared = []
        for launch in recorded["launches"]:
            values = [
                memory.places[one["buffer"]] if "buffer" in one else bytes.fromhex(one["bytes"])
                for one in launch["args"]
            ]
            prepared.append((self._function(launch["kernel"]), *shape_of(launch), values))

        def launches() -> None:
            for one in prepared:
                self._driver.launch(*one)

        return launches

    def _function(self, key: str) -> Any:
        if key not in self._functions:
            one = self._record["kernels"][key]
            image = (self.folder / one["ptx"]).read_bytes()
            self._functions[key] = self._driver.function(image, one["name"])
        return self._functions[key]


def _with_steps(recorded: dict[str, Any], steps: int) -> dict[str, Any]:
    """A limit's call with another number of steps."""
    at, whole = recorded["steps"]["argument"], recorded["steps"]["value"]
    (launch,) = recorded["launches"]
    args = list(launch["args"])
    args[at] = {**args[at], "bytes": np.int32(steps).tobytes().hex()}
    return {**recorded, "launches": [{**launch, "args": args}], "work": recorded["work"] * steps / whole}


class _Memory:
    """The buffers of a call: inputs are uploaded, everything else is zeros at the start."""

    def __init__(self, driver: Driver, folder: Path, recorded: dict[str, Any], inputs: list[np.ndarray]) -> None:
        self._driver, self._folder, self._buffers, self._inputs = driver, folder, recorded["buffers"], inputs
        self.places: list[int] = []

    def __enter__(self) -> _Memory:
        try:
            self._fill()
        except BaseException:
            self._free()
            raise
        return self

    def _fill(self) -> None:
        for one in self._buffers:
            place = self._driver.allocate(one["bytes"])
            self.places.append(place)
            if "input" in one:
                values = np.ascontiguousarray(self._inputs[one["input"]])
            elif "file" in one:
                values = np.frombuffer((self._folder / one["file"]).read_bytes(), np.uint8)
            else:
                self._driver.clear(place, one["bytes"])
                continue
            if values.nbytes != one["bytes"]:
                raise InvalidArgument(
                    f"a buffer of the pack has {one['bytes']} bytes, its values have {values.nbytes}; make the folder "
                    "again with `pydp verify --pack`"
                )
            self._driver.upload(place, values)

    def clear(self) -> None:
        """Clear what each run needs as zeros."""
        for place, one in zip(self.places, self._buffers, strict=True):
            if one.get("cleared"):
                self._driver.clear(place, one["bytes"])

    def __exit__(self, kind: object, *_: object) -> None:
        self._free(quietly=kind is not None)

    def _free(self, quietly: bool = True) -> None:
        """quietly: after an error of the GPU every call fails, and the first error is the one to report."""
        for place in self.places:
            with contextlib.suppress(Exception) if quietly else contextlib.nullcontext():
                self._driver.free(place)
