"""Packs: compiled kernels and their launches, checked without a GPU, and run through OpenCL in CUDA's place."""

from __future__ import annotations

import contextlib
import ctypes
import dataclasses
import json
import sys
from collections.abc import Sequence
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from click.testing import CliRunner
from opencl_driver import OpenCL, not_compiled

import pydp
from pydp.cli import main
from pydp.errors import InvalidArgument, NoUsableDevice, PydpError
from pydp.offline.compilers import missing
from pydp.offline.study import target_of
from pydp.verify import about, worker
from pydp.verify.check import Check, Context, NotApplicable, Wrong, outcome
from pydp.verify.pack import cuda, launch, make
from pydp.verify.stages import STAGES, speeds

needs_clang = pytest.mark.skipif(missing("sm_80") is not None, reason=str(missing("sm_80")))
SOME = ("scan int32", "reduce float32", "sort int32", "matmul float32", "histogram float32", "forall exchanges",
        "forall float atomics", "forall 64-bit atomic limits",
        "barriers named: exchanges", "look-back", "fallback, some publications suppressed, in place")  # fmt: skip

SKIPPED = {
    "union1d": "not in the pack: the call is made of several calls, which only a device that is present can run",
    "take": "not in the pack: the host reads results between its kernels",  # the limits of the indexes
    "put": "not in the pack: the host reads results between its kernels",
}


def few(monkeypatch: pytest.MonkeyPatch, *names: str) -> None:
    """Leave these cases and no speeds in the pack."""
    monkeypatch.setattr(make, "CASES", {name: make.CASES[name] for name in names})
    monkeypatch.setattr(make, "SPEEDS", [one for one in make.SPEEDS if one.name == "transpose"])


@pytest.mark.host
@needs_clang
@pytest.mark.parametrize("target", ["sm_80", "sm_90"])
def test_kernels_compile_without_spills_and_their_launches_fit(
    target: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    few(monkeypatch, *SOME, *SKIPPED, "argmax", "random.random float32")
    done = CliRunner().invoke(main, ["verify", "--pack", str(tmp_path), "--target", target])
    assert done.exit_code == 0 and f"{target}: compiled into {tmp_path}, 0 fault(s)" in done.output, done.output
    for name, why in SKIPPED.items():
        assert f"{target} {name}: skipped: {why}" in done.output
    record = json.loads((tmp_path / f"{target}.json").read_text())
    assert set(record["calls"]) > {*SOME, "copy kernel", "f32 multiply-adds", "stride 33", "speed of transpose"}
    assert "random.random float32" in record["calls"]
    assert all(one["resources"]["spilled_bytes"] == 0 for one in record["kernels"].values())
    named = record["calls"]["barriers named: exchanges"]["launches"][0]["kernel"]
    assert "barrier.sync" in (tmp_path / record["kernels"][named]["ptx"]).read_text()
    done = CliRunner().invoke(main, ["verify", "--use-pack", str(tmp_path), "--dry-run"])
    assert done.exit_code == 0 and "launches checked, 0 fault(s)" in done.output, done.output
    for alter, fault in FAULTS:
        changed = json.loads(json.dumps(record))
        alter(changed["calls"]["scan int32"]["launches"][0], changed)
        (tmp_path / f"{target}.json").write_text(json.dumps(changed))
        ((_, _, faults),) = launch.dry_run(str(tmp_path))
        assert any(fault in one for one in faults), fault


FAULTS: list[tuple[Any, str]] = [
    (lambda one, record: one["args"].pop(), "bytes, the kernel takes"),
    (lambda one, record: one["args"][1].update(bytes="00" * 4), "bytes, the kernel takes"),
    (lambda one, record: one["args"][0].update(buffer=99), "there is no buffer 99"),
    (lambda one, record: record["calls"]["copy kernel"]["launches"][0].update(local=[64]), "the kernel requires"),
    (lambda one, record: one.update({"global": [129]}), "are not whole groups"),
    (lambda one, record: record["kernels"][one["kernel"]].update(name="other"), "the PTX has no kernel other"),
    (lambda one, record: record["calls"]["scan int32"]["buffers"][0].update(bytes=0), "a buffer is empty"),
]


@pytest.mark.host
def test_limits_of_a_launch() -> None:
    text = ".entry f(.param .u64 .ptr .global .align 4 f_0, .param .align 4 .b8 f_1[12]) {{ {} }}"
    kernel = {"name": "f", "group": 0}
    given: dict[str, Any] = {"global": [1 << 40], "local": [1], "args": [{"buffer": 0}, {"bytes": "00" * 12}]}
    found = list(launch._faults(text.format("%envreg3 .shared .align 4 .b8 s[49156];"), kernel, given, [{"bytes": 4}]))
    assert len(found) == 3 and "CUDA's limits" in found[0]
    assert "static shared memory" in found[1] and "only OpenCL sets" in found[2]
    given["global"] = [1 << 20]
    assert not list(launch._faults(text.format(""), kernel, given, [{"bytes": 4}]))
    given.update({"global": [1, 1, 128], "local": [1, 1, 128]})
    (found,) = launch._faults(text.format(""), kernel, given, [{"bytes": 4}])
    assert found == "(1, 1, 1) groups of (1, 1, 128) exceed CUDA's limits"


@pytest.mark.host
def test_other_targets_and_folders_are_refused(tmp_path: Path) -> None:
    with pytest.raises(InvalidArgument, match="target is 'gfx90a'; NVIDIA's targets, such as sm_90, are accepted"):
        list(make.make(tmp_path, "gfx90a"))
    for use in (launch.load, launch.Gpu.first):  # the folder is named first, also without a GPU
        with pytest.raises(InvalidArgument, match="has no list of launches; a folder made by"):
            use(str(tmp_path))


@pytest.fixture
def replayed(device: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> launch.Gpu:
    """A pack of some cases and one speed."""
    transpose = [one for one in speeds.SPEEDS if one.name == "transpose"]
    return packed(device, tmp_path, monkeypatch, SOME, transpose)


def packed(
    device: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, names: Sequence[str], rows: Sequence[speeds.Speed]
) -> launch.Gpu:
    """A pack of kernels for the lane's device, and CUDA's stand-in that runs them there."""
    profile = dataclasses.replace(device.profile, kind="gpu", mapping="simt")

    def here(name: str) -> Any:
        target = target_of(name)
        target._profile = profile
        return target

    monkeypatch.setattr(make, "target_of", here)
    monkeypatch.setattr(make, "missing", lambda name: None)
    monkeypatch.setattr(make, "compiled", not_compiled)
    few(monkeypatch, *names)
    monkeypatch.setattr(make, "SPEEDS", rows)
    monkeypatch.setattr(make, "_COPIED", 1 << 20)
    monkeypatch.setattr(make, "_STEPS", 16)
    found = {name: result for name, result, _ in make.make(tmp_path, "sm_90")}
    assert all(result != "failed" for name, result in found.items() if name not in names), found
    assert "scan int32" not in names or found["scan int32"] == "passed", found
    return launch.Gpu(str(tmp_path), OpenCL(device))


@pytest.mark.sweep
@pytest.mark.parametrize("name", SOME)
def test_recorded_launches_give_the_known_answers(device: Any, replayed: launch.Gpu, name: str) -> None:
    if device.profile.is_simulator:
        pytest.skip("a simulator is slow")
    try:
        replayed.run_case(name)
    except NotApplicable as error:
        pytest.skip(str(error))
    driver = replayed._driver
    assert isinstance(driver, OpenCL) and driver.launches


COUNTED = ("select", "compress", "flatnonzero", "nonzero", "argwhere", "unique", "run_length_encode", "reduce_by_key")
IN_STEPS = ("random.permutation float32", "random.shuffle float32")
REPLAYED = ("select", "argwhere", "unique", "run_length_encode", "random.shuffle float32")  # the others are alike


def test_results_with_a_count_and_of_several_steps(
    device: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Only the device knows how many elements are kept: the first ones and their number are compared."""
    if device.profile.is_simulator:
        pytest.skip("a simulator is slow")
    gpu = packed(device, tmp_path, monkeypatch, (*COUNTED, *IN_STEPS), ())
    for name in (*COUNTED, *IN_STEPS):
        assert ("count" in gpu._call(name)) == (name in COUNTED)
    for name in REPLAYED:
        gpu.run_case(name)
    case = make.CASES["select"]

    def one_more(profile: Any) -> Any:
        call = case(profile)
        want = [dataclasses.replace(one, values=one.values[:-1]) for one in call.want]
        return dataclasses.replace(call, want=want)

    monkeypatch.setitem(launch.CASES, "select", one_more)
    with pytest.raises(Wrong, match="4467 elements instead of 4466"):
        gpu.run_case("select")
    gpu._record["calls"]["unique"]["launches"].pop()
    with pytest.raises(Wrong, match="0 elements instead of 9"):
        gpu.run_case("unique")


def test_a_faulty_launch_is_wrong(device: Any, replayed: launch.Gpu) -> None:
    replayed._record["calls"]["reduce float32"]["launches"].pop()
    with pytest.raises(Wrong):
        replayed.run_case("reduce float32")


@pytest.mark.sweep
def test_every_stage_runs_on_a_pack(device: Any, replayed: launch.Gpu, monkeypatch: pytest.MonkeyPatch) -> None:
    """Checks that the pack lacks are skipped with a reason; nothing fails."""
    if device.profile.is_simulator:
        pytest.skip("a simulator is slow")
    context = Context(replayed, 60.0, "folder")
    monkeypatch.setattr(launch, "_REPEATS", 3)
    monkeypatch.setattr(launch, "operands", lambda speed, on_gpu: [np.ones(speed.shapes(True)[0], np.float32)])
    monkeypatch.setattr(launch, "measured", lambda speed, ours, *_: {"done": ours()})
    compared: list[str] = []
    compare = launch.compare
    monkeypatch.setattr(launch, "compare", lambda speed, *given: compared.append(speed.name) or compare(speed, *given))
    names = {*SOME, "versions", "driver", "copy kernel", "launch", "local memory banks", "f32 multiply-adds"}
    results = {}
    for stage in STAGES:
        for check in stage.checks:
            found = results[check.name] = outcome(check, context)
            assert found["status"] != "failed", (check.name, found)
            assert found["status"] == "skipped" or check.name in names or stage.letter in "de", check.name
    assert compared == ["transpose"]
    assert results["copy kernel"]["figures"]["rate"] > 0
    assert results["local memory banks"]["figures"]["by stride"]["1"]["time"] == 1
    assert results["driver copy"]["note"] == "not in the pack: it has no kernels there"
    assert results["versions"]["figures"]["versions"]["numpy"] == np.__version__
    assert results["doctor"]["status"] == "skipped"
    assert results["driver"]["figures"]["interface"] == "kernels for sm_90 through CUDA's driver"


SIZES = {"sgemm": ((192, 192), (192, 192)), "scan": ((30_011,),), "reduce": ((30_011,),), "select": ((30_011,),),
         "transpose": ((97, 130),)}  # fmt: skip


@pytest.mark.parametrize("name", SIZES)
def test_speeds_of_a_pack_are_right_and_beside_a_peer(
    name: str, device: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The whole check of stage (e), on small sizes; a launch that is missing is wrong."""
    if device.profile.is_simulator:
        pytest.skip("a simulator is slow")
    speed = next(one for one in speeds.SPEEDS if one.name == name)
    speed = dataclasses.replace(speed, shapes=lambda on_gpu: SIZES[name])
    gpu = packed(device, tmp_path, monkeypatch, (), (speed,))
    runtime = SimpleNamespace(getDeviceCount=lambda: 2, getDeviceProperties=lambda at: {"name": b"a stand-in"})
    peer = SimpleNamespace(
        __version__="13", is_available=lambda: True, asarray=np.array, matmul=np.matmul, cumsum=np.cumsum, sum=np.sum,
        ascontiguousarray=np.ascontiguousarray, cuda=SimpleNamespace(runtime=runtime, Device=Number),
    )  # fmt: skip
    monkeypatch.setattr(speeds, "_installed", {"torch": None, "cupy": peer}.__getitem__)
    found = outcome(speeds._check_of(speed), Context(gpu, 1.0, str(tmp_path)))
    assert found["status"] == "passed", found
    figures = found["figures"]
    assert figures["rate"] > 0 and figures["ratios"]["CuPy 13"] > 0
    assert figures["devices of peers"] == {"CuPy 13": "a stand-in"}
    gpu._record["calls"][f"speed of {name}"]["launches"].pop()
    found = outcome(speeds._check_of(speed), Context(gpu, 1.0, str(tmp_path)))
    assert found["status"] == "failed" and "elements" in found["note"]


class Number(contextlib.nullcontext[None]):
    """A device of CuPy: the first of two."""

    def __init__(self, number: int) -> None:
        assert number == 0
        super().__init__()

    def synchronize(self) -> None:
        """Nothing is left to do."""


def test_a_slow_limit_takes_fewer_steps(replayed: launch.Gpu, monkeypatch: pytest.MonkeyPatch) -> None:
    """The work counts the launched steps; no launch is long, and the measurement ends."""
    slept: list[float] = []
    driver = replayed._driver

    def slow(function: Any, grid: Any, group: Any, values: Any) -> None:
        slept.append(np.frombuffer(values[1], np.int32)[0] * 1e-3)

    monkeypatch.setattr(driver, "launch", slow)
    monkeypatch.setattr(driver, "wait", lambda: None)
    seconds = iter(lambda: sum(slept), None)
    monkeypatch.setattr(launch.time, "perf_counter", lambda: next(seconds))
    recorded = replayed._record["calls"]["f32 multiply-adds"]
    recorded["steps"]["value"] = 20000
    recorded["work"] = 20000e9
    found = replayed.limit("f32 multiply-adds")
    assert max(slept) <= launch._FIRST_STEPS * 20
    assert found["rate"] == pytest.approx(1000.0)  # 1e9 operations a step, 1 ms a step
    assert sum(slept) < 2 * launch._LIMIT_SECONDS


def listed(target: str, folder: Path) -> dict[str, Any]:
    """Write a list of one launch with its files; return it."""
    names = {}
    for ending, data in ((".ptx", b"a kernel"), (".bin", b"1234")):
        names[ending] = make.file_name(data, ending)
        (folder / names[ending]).write_bytes(data)
    record = {
        "schema": make.SCHEMA, "pydp": pydp.__version__, "target": target,
        "kernels": {"f": {"name": "f", "ptx": names[".ptx"]}}, "skipped": {"x": "why"},
        "calls": {"y": {
            "buffers": [{"bytes": 4, "file": names[".bin"]}, {"bytes": 4}], "results": [1],
            "launches": [{"kernel": "f", "global": [1], "local": [1], "args": []}],
        }},
    }  # fmt: skip
    (folder / f"{target}.json").write_text(json.dumps(record))
    return record


@pytest.mark.host
def test_an_incomplete_folder_is_named(tmp_path: Path) -> None:
    ptx = listed("sm_90", tmp_path)["kernels"]["f"]["ptx"]
    launch.load(str(tmp_path))
    (tmp_path / ptx).unlink()
    with pytest.raises(InvalidArgument, match=rf"is incomplete: 1 of 2 files of sm_90 are missing, such as {ptx}"):
        launch.load(str(tmp_path))


@pytest.mark.host
@pytest.mark.parametrize("ending", [".ptx", ".bin"])
def test_a_damaged_file_is_named(ending: str, tmp_path: Path) -> None:
    listed("sm_90", tmp_path)
    (path,) = tmp_path.glob(f"*{ending}")
    path.write_bytes(b"4321")
    with pytest.raises(InvalidArgument, match=rf"{path.name} is damaged: its content differs from what was written"):
        launch.load(str(tmp_path))


@pytest.mark.host
def test_a_damaged_list_is_named_beside_a_whole_one(tmp_path: Path) -> None:
    """Cut off, without a part, without a launch, with a file of another size."""
    record = listed("sm_90", tmp_path)
    whole = json.dumps({**record, "target": "sm_100"})
    parts = [{key: value for key, value in record.items() if key != part} for part in ("calls", "kernels", "skipped")]
    unknown = json.loads(whole)
    unknown["calls"]["y"]["launches"][0]["kernel"] = "g"
    for text in (whole[:-40], "{}", "[]", *map(json.dumps, [*parts, unknown, {**record, "calls": {}}])):
        (tmp_path / "sm_100.json").write_text(text)
        with pytest.raises(InvalidArgument, match=rf"sm_100.json is damaged: it is no list .* {make.SCHEMA}; copy the"):
            launch.load(str(tmp_path))
    (tmp_path / "sm_100.json").unlink()
    record["calls"]["y"]["buffers"][0]["bytes"] = 8
    (tmp_path / "sm_90.json").write_text(json.dumps(record))
    with pytest.raises(InvalidArgument, match=r"\.bin is damaged"):
        launch.load(str(tmp_path))


@pytest.mark.host
def test_values_of_another_size_are_not_uploaded() -> None:
    gpu = Memory()
    driver: Any = SimpleNamespace(allocate=gpu.allocate, free=gpu.held.pop)
    recorded = {"buffers": [{"bytes": 8, "input": 0}]}
    with (
        pytest.raises(InvalidArgument, match="a buffer of the pack has 8 bytes, its values have 12; make the folder"),
        launch._Memory(driver, Path(), recorded, [np.zeros(3, np.float32)]),
    ):
        pass
    assert not gpu.held


@pytest.mark.host
def test_a_folder_of_another_version_is_refused(tmp_path: Path) -> None:
    for schema, version, said in (
        ("pydp-pack-1", None, "by an older pydp in the form pydp-pack-1, not by "),
        (make.SCHEMA, "0.0.1", f"by 0.0.1 in the form {make.SCHEMA}, not by {pydp.__version__}"),
    ):
        record = {"schema": schema, "target": "sm_90", "calls": {}, "kernels": {}, "skipped": {}}
        (tmp_path / "sm_90.json").write_text(json.dumps({**record, **({"pydp": version} if version else {})}))
        with pytest.raises(InvalidArgument, match=f"sm_90.json was made {said}.*; make the folder again with"):
            launch.load(str(tmp_path))


@pytest.mark.host
def test_the_newest_list_that_the_gpu_can_run(tmp_path: Path) -> None:
    for name in ("sm_80", "sm_90"):
        listed(name, tmp_path)
    driver = OpenCL(SimpleNamespace(queue=None))
    for capability, target in ((80, "sm_80"), (89, "sm_80"), (90, "sm_90"), (120, "sm_90")):
        driver.capability = capability
        assert launch.Gpu(str(tmp_path), driver).target == target
    driver.capability = 75
    with pytest.raises(NoUsableDevice, match="has kernels for sm_80, sm_90: make it with --target sm_75"):
        launch.Gpu(str(tmp_path), driver)
    driver.capability = 90
    assert outcome(Check("x", lambda context: launch.Gpu(str(tmp_path), driver).run_case("x")), None) == {
        "status": "skipped", "note": "why",
    }  # fmt: skip


# --- CUDA's driver ------------------------------------------------------------------------------------------------


class Memory:
    """A GPU of host memory: allocations by address, and the launches with the arguments that their pointers lead to."""

    def __init__(self) -> None:
        self.held: dict[int, Any] = {}
        self.launched: list[tuple[Any, ...]] = []

    def allocate(self, size: int) -> int:
        made = ctypes.create_string_buffer(size)
        self.held[ctypes.addressof(made)] = made
        return ctypes.addressof(made)

    def launch(self, function: Any, *given: Any) -> None:
        sizes, (shared, stream, pointers, extra) = given[:6], given[6:]
        first, second = (ctypes.c_void_p * 2).from_address(pointers)
        assert not shared and not stream and not extra
        self.launched.append((function, sizes, ctypes.c_uint64.from_address(first).value, ctypes.string_at(second, 12)))


def fake_library(gpu: Memory) -> Any:
    """The driver's library: functions of C, which store their result through their first argument."""
    loaded: dict[int, Any] = {}

    def result(made: Any, value: Any) -> int:
        made._obj.value = value
        return 0

    def load(made: Any, value: Any) -> int:
        loaded[len(loaded) + 1] = value
        return result(made, len(loaded))

    def name_of(text: Any, size: int, device: int) -> int:
        text.value = b"a toy"
        return 0

    def move(to: Any, source: Any, size: Any) -> int:
        ctypes.memmove(to.value, source.value, size.value)
        return 0

    def fill(place: Any, value: Any, size: Any) -> int:
        ctypes.memset(place.value, value.value, size.value)
        return 0

    def launch(function: Any, *given: Any) -> int:
        gpu.launch(loaded[function.value], *(one.value or 0 for one in given))
        return 0

    attributes = {cuda._MAJOR: 9, cuda._MINOR: 0}
    return SimpleNamespace(
        cuInit=lambda flags: 0,
        cuDeviceGet=lambda made, which: result(made, 5),
        cuDevicePrimaryCtxRetain=lambda made, device: result(made, 7),
        cuCtxSetCurrent=lambda context: context.value != 7,
        cuDriverGetVersion=lambda made: result(made, 12040),
        cuDeviceGetName=name_of,
        cuDeviceGetAttribute=lambda made, which, device: result(made, attributes[which]),
        cuModuleLoadDataEx=lambda made, image, count, options, values: load(made, image.value),
        cuModuleGetFunction=lambda made, module, name: load(made, (loaded[module.value], name.value.decode())),
        cuMemAlloc_v2=lambda made, size: result(made, gpu.allocate(size.value)),
        cuMemFree_v2=lambda place: gpu.held.pop(place.value, None) is None,
        cuMemcpyHtoD_v2=move,
        cuMemcpyDtoH_v2=move,
        cuMemsetD8_v2=fill,
        cuLaunchKernel=launch,
        cuCtxSynchronize=lambda: 0,
    )


@pytest.mark.host
def test_the_calls_of_the_driver() -> None:
    gpu = Memory()
    driver = cuda.Driver(fake_library(gpu))
    assert (driver.name, driver.capability, driver.version) == ("a toy", 90, "12.4")
    found = driver.function(b"PTX", "f")
    place = driver.allocate(16)
    driver.upload(place, np.arange(4, dtype=np.int32))
    values = np.empty(4, np.int32)
    driver.download(place, values)
    assert values.tolist() == [0, 1, 2, 3]
    driver.clear(place, 16)
    driver.download(place, values)
    assert not values.any()
    driver.launch(found, (5, 4, 1), (64, 2, 1), [place, b"twelve bytes"])
    assert gpu.launched == [((b"PTX", "f"), (5, 4, 1, 64, 2, 1), place, b"twelve bytes")]
    driver.wait()
    driver.free(place)
    assert not gpu.held


@pytest.mark.host
def test_a_failed_call_is_named() -> None:
    library = fake_library(Memory())
    driver = cuda.Driver(library)
    library.cuCtxSynchronize = lambda: 700
    library.cuGetErrorName = lambda status, text: setattr(text._obj, "value", b"CUDA_ERROR_ILLEGAL_ADDRESS")
    with pytest.raises(cuda.CudaFailed, match=r"cuCtxSynchronize failed: CUDA_ERROR_ILLEGAL_ADDRESS \(700\)"):
        driver.wait()
    library.cuGetErrorName = None
    with pytest.raises(cuda.CudaFailed, match=r"cuCtxSynchronize failed: an unknown status \(700\)"):
        driver.wait()


@pytest.mark.host
@pytest.mark.parametrize("said", [b"ptxas application ptx input, line 7; fatal: unsupported\n", b""])
def test_a_refused_kernel_has_the_log_of_the_compiler(said: bytes) -> None:
    library = fake_library(Memory())
    driver = cuda.Driver(library)

    def load(module: Any, image: Any, count: Any, options: Any, values: Any) -> int:
        assert (image.value, count.value) == (b"PTX", 2)
        assert list((ctypes.c_int * 2).from_address(options.value)) == [5, 6]
        buffer, size = (ctypes.c_void_p * 2).from_address(values.value)
        assert len(said) < size
        ctypes.memmove(buffer, said, len(said))
        return 218

    library.cuModuleLoadDataEx = load
    found = outcome(Check("x", lambda context: driver.function(b"PTX", "f")), Context(None, 1.0))
    assert found["status"] == "failed"
    assert found["note"] == "CudaFailed: cuModuleLoadDataEx failed: an unknown status (218)"
    assert said.decode().strip() in found["log"]
    with pytest.raises(cuda.CudaFailed) as error:
        driver.function(b"PTX", "f")
    assert str(error.value).splitlines()[1:] == said.decode().splitlines()


@pytest.mark.host
@pytest.mark.parametrize("name", ["libcuda.so.1", "nvcuda.dll"])
def test_the_library_of_the_driver_on_each_system(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    def load(given: str) -> str:
        if given != name:
            raise OSError(f"{given} is missing")
        return given

    monkeypatch.setattr(cuda.ctypes, "CDLL", load)
    assert cuda.cuda_library() == name and about.has_cuda()


@pytest.mark.host
def test_without_a_gpu_the_reason_is_named(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    def fail(*_: object) -> Any:
        raise OSError("there is none")

    monkeypatch.setattr(cuda.ctypes, "CDLL", fail)
    with pytest.raises(NoUsableDevice, match=r"CUDA \(OSError: .* cannot be loaded\); NVIDIA's driver is"):
        cuda.Driver()
    assert not about.has_cuda()
    monkeypatch.setattr(about, "has_cuda", lambda: True)
    monkeypatch.setattr(about.pydp, "device", lambda which: (_ for _ in ()).throw(NoUsableDevice("none")))
    with pytest.raises(NoUsableDevice, match="none; NVIDIA's CUDA driver is installed but its OpenCL library shows no"):
        about.found(None, None)


@pytest.mark.host
def test_the_device_is_found_by_another_process(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """On a GPU for one process at a time, a context of this process would keep the worker out."""
    monkeypatch.setattr(about, "found", None)  # of this process
    for which, pack in (("no such device", None), (None, tmp_path)):
        with pytest.raises(PydpError, match=r"no such device|has no list of launches"):
            about.about(which, pack, 9.0)
    monkeypatch.setattr(about, "_COMMAND", "import sys; sys.exit('lost')")
    with pytest.raises(NoUsableDevice, match="ended with status 1: lost"):
        about.about(None, None, 9.0)
    monkeypatch.setattr(about, "_COMMAND", "import time; time.sleep(9)")
    monkeypatch.setattr(about, "_SECONDS", 0.2)
    with pytest.raises(NoUsableDevice, match="did not end within 0 s"):
        about.about(None, None, 9.0)
    monkeypatch.setattr(about, "_SECONDS", 180.0)
    monkeypatch.setattr(about, "_LEAST_SECONDS", 0.2)  # a run without time
    monkeypatch.setattr(about, "_EVIDENCE", about._COMMAND)
    with pytest.raises(NoUsableDevice, match="did not end within 0 s"):
        about.about(None, None, 0.3)
    assert about.evidence(0.1) == {"doctor": ["fail: its process did not end within 0 s"]}


@pytest.mark.host
def test_the_worker_uses_the_pack(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(launch.Gpu, "first", lambda folder: folder)
    assert worker._device("", 0, str(tmp_path)) == str(tmp_path)
    assert "pydp.verify.pack.launch" in sys.modules


@pytest.mark.host
def test_the_second_of_two_equal_gpus(monkeypatch: pytest.MonkeyPatch) -> None:
    """They have the same uid; the report and the worker distinguish them."""

    class Toy:
        name, platform, driver_version, kind = "a toy", "P", "1", "gpu"

        def __init__(self, uid: str) -> None:
            self.uid = uid

    listed = [Toy(uid) for uid in ("other", "equal", "equal")]
    monkeypatch.setattr(about, "all_devices", lambda: listed)
    monkeypatch.setattr("pydp.runtime.drivers.devices.all_devices", lambda: listed)
    heads = []
    for one in listed:
        monkeypatch.setattr(about.pydp, "device", lambda which, one=one: one)
        arguments, head = about.found(None, None)
        assert worker._device(**arguments) is one
        heads.append(head["device"])
    assert heads == ["a toy", "a toy, number 1 of 2", "a toy, number 2 of 2"]
    with pytest.raises(InvalidArgument, match="the process of the checks does not find the device 'equal'"):
        worker._device("equal", 2, None)
