"""Templates become kernels once, kernels take every kind of argument, and failures are explained."""

from __future__ import annotations

import gc
import re
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np
import pyopencl as cl
import pytest

import pydp
from pydp.errors import BuildFailed, OutOfResources
from pydp.runtime.device import core as device_core
from pydp.runtime.drivers.devices import Device
from pydp.runtime.programs import binaries, program, template
from pydp.runtime.programs.program import kernel, render

PARAMS = {"T": "int", "add": 3, "fail": False}


@pytest.fixture(autouse=True, scope="module")
def _templates() -> None:
    template.add_folder(Path(__file__).parent)


@pytest.fixture
def own_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    monkeypatch.setenv("PYDP_CACHE_DIR", str(tmp_path))
    yield tmp_path


def _buffer(device: Device, array: np.ndarray) -> cl.Buffer:
    return cl.Buffer(device.context, cl.mem_flags.READ_WRITE | cl.mem_flags.COPY_HOST_PTR, hostbuf=array)


def _read(device: Device, buffer: cl.Buffer, like: np.ndarray) -> np.ndarray:
    result = np.empty_like(like)
    cl.enqueue_copy(device.queue, result, buffer)
    return result


@pytest.mark.oclgrind
def test_a_kernel_runs_with_buffers_scalars_and_offsets(device: Device) -> None:
    before = np.zeros(40, np.int32)
    buffer = _buffer(device, before)
    fill = kernel(device, "program.mako", "fill", PARAMS)
    event = fill.enqueue(device.queue, (32,), (8,), [buffer, np.int32(4), np.int64(8)])
    assert isinstance(event, cl.Event)
    assert _read(device, buffer, before).tolist() == [0] * 8 + [7] * 32


@pytest.mark.oclgrind
def test_local_memory_and_null_pointers_are_arguments(device: Device) -> None:
    before = np.arange(32, dtype=np.int32)
    buffer = _buffer(device, before)
    shift = kernel(device, "program.mako", "shift", PARAMS)
    shift.enqueue(device.queue, (32,), (8,), [buffer, cl.LocalMemory(8 * 4)])
    assert (_read(device, buffer, before) == before.reshape(4, 8)[:, ::-1].ravel()).all()
    is_null = kernel(device, "program.mako", "is_null", PARAMS)
    is_null.enqueue(device.queue, (32,), (8,), [buffer, None])
    assert (_read(device, buffer, before) == 1).all()


def test_no_work_items_is_a_marker(device: Device) -> None:
    fill = kernel(device, "program.mako", "fill", PARAMS)
    event = fill.enqueue(device.queue, (0,), (8,), [None, np.int32(4), np.int64(0)])
    event.wait()
    assert event.command_type == cl.command_type.MARKER


def test_the_same_description_gives_the_same_kernel(device: Device) -> None:
    first = kernel(device, "program.mako", "fill", PARAMS)
    assert kernel(device, "program.mako", "fill", dict(reversed(PARAMS.items()))) is first
    other = kernel(device, "program.mako", "fill", {**PARAMS, "add": 3.0})  # 3 and 3.0 are equal and not the same
    assert other is not first
    assert "3.0" in other.source
    assert kernel(device, "program.mako", "fill", PARAMS, ("-DUNUSED=1",)) is not first
    assert first.source == render("program.mako", PARAMS)
    assert first.params == PARAMS


def test_threads_share_one_build_and_do_not_mix_arguments(device: Device, monkeypatch: pytest.MonkeyPatch) -> None:
    builds = []
    build = program._build
    monkeypatch.setattr(program, "_build", lambda *args: builds.append(args[1]) or build(*args))
    barrier = threading.Barrier(8)

    def work(number: int) -> bool:
        barrier.wait()
        fill = kernel(device, "program.mako", "fill", {**PARAMS, "add": 12345})
        right = True
        for _ in range(50):
            like = np.zeros(64, np.int32)
            buffer = _buffer(device, like)
            fill.enqueue(device.queue, (64,), (8,), [buffer, np.int32(number), np.int64(0)])
            right &= bool((_read(device, buffer, like) == number + 12345).all())
        return right

    with ThreadPoolExecutor(8) as pool:
        assert all(pool.map(work, range(8)))
    assert len(builds) == 1


@pytest.mark.parametrize("step", ["set_objects", "set_values", "enqueue"])
def test_a_launch_may_be_interrupted_by_one_of_the_same_kernel(
    device: Device, monkeypatch: pytest.MonkeyPatch, step: str
) -> None:
    """As a finalizer or a signal handler does, which runs in the same thread."""
    like = np.zeros(16, np.int32)
    inner, outer = _buffer(device, like), _buffer(device, like)
    fill = kernel(device, "program.mako", "fill", PARAMS)
    owner = fill._idle[-1]
    before, nested = getattr(owner, step), []

    def interrupted(*args: Any) -> Any:
        monkeypatch.setattr(owner, step, before)
        nested.append(fill.enqueue(device.queue, (8,), (8,), [inner, np.int32(20), np.int64(4)]))
        return before(*args)

    monkeypatch.setattr(owner, step, interrupted)
    fill.enqueue(device.queue, (16,), (8,), [outer, np.int32(10), np.int64(0)])
    assert len(nested) == 1
    assert _read(device, inner, like).tolist() == [0] * 4 + [23] * 8 + [0] * 4
    assert _read(device, outer, like).tolist() == [13] * 16
    fill.enqueue(device.queue, (16,), (8,), [outer, np.int32(30), np.int64(0)])  # by its own object again
    assert _read(device, outer, like).tolist() == [33] * 16


def test_a_launch_that_fails_leaves_the_kernel_to_the_next(device: Device, monkeypatch: pytest.MonkeyPatch) -> None:
    like = np.zeros(16, np.int32)
    buffer = _buffer(device, like)
    fill = kernel(device, "program.mako", "fill", PARAMS)
    with pytest.raises(cl.LogicError):
        fill.enqueue(device.queue, (16,), (8,), [buffer, np.int32(4), np.int8(0)])  # 8 bytes are expected
    monkeypatch.setattr(program.Kernel, "_another", None)
    fill.enqueue(device.queue, (16,), (8,), [buffer, np.int32(4), np.int64(0)])
    assert _read(device, buffer, like).tolist() == [7] * 16


def test_a_call_may_be_interrupted_by_the_same_call(device: Device, monkeypatch: pytest.MonkeyPatch) -> None:
    first, second = (pydp.field(np.full(1000, value, np.float32), device=device) for value in (3, 5))
    first + 1
    enqueue, nested = program.Kernel.enqueue, []

    def watched(self: program.Kernel, *args: Any) -> cl.Event:
        launcher = self._idle[-1]
        set_objects = launcher.set_objects

        def interrupted(pairs: tuple[object, ...]) -> None:
            set_objects(pairs)
            monkeypatch.undo()
            launcher.set_objects = set_objects
            nested.append(second + 1)

        launcher.set_objects = interrupted
        return enqueue(self, *args)

    monkeypatch.setattr(program.Kernel, "enqueue", watched)
    result = first + 1
    assert (result.get() == 4).all() and (nested[0].get() == 6).all() and len(nested) == 1


def test_launches_that_interrupt_each_other_crosswise(device: Device) -> None:
    """As finalizers do in two threads: each launch of one kernel is interrupted by one of the other kernel."""
    like = np.zeros(16, np.int32)
    fills = [kernel(device, "program.mako", "fill", {**PARAMS, "add": add}) for add in (100, 200)]
    inside, ended = threading.Barrier(2), []

    def launch(fill: program.Kernel) -> list[int]:
        buffer = _buffer(device, like)
        fill.enqueue(device.queue, (16,), (8,), [buffer, np.int32(5), np.int64(0)])
        return _read(device, buffer, like).tolist()

    def work(own: program.Kernel, other: program.Kernel) -> None:
        launcher = own._idle[-1]
        set_objects = launcher.set_objects

        def interrupted(pairs: tuple[object, ...]) -> None:
            launcher.set_objects = set_objects
            set_objects(pairs)
            inside.wait()
            ended.append((other, launch(other)))

        launcher.set_objects = interrupted
        ended.append((own, launch(own)))

    threads = [threading.Thread(target=work, args=pair, daemon=True) for pair in (fills, fills[::-1])]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    expected = {fills[0]: [105] * 16, fills[1]: [205] * 16}
    assert len(ended) == 4 and all(expected[fill] == values for fill, values in ended)


def test_kernels_in_use_outlive_their_eviction(device: Device, monkeypatch: pytest.MonkeyPatch) -> None:
    """More are held than programs may live: all of them stay, are found again, and work; then they go."""
    for cache in (device.recordings, device.plans, device.kernels):
        cache.clear()
    monkeypatch.setattr(device_core, "MOST_PROGRAMS", 3)
    gc.collect()  # cycles of earlier tests would end meanwhile
    before = device.programs.count_alive()
    held = [kernel(device, "program.mako", "fill", {**PARAMS, "add": 1000 + number}) for number in range(8)]
    assert len(device.kernels) <= 3 and device.programs.count_alive() == before + 8
    like = np.zeros(16, np.int32)
    buffer = _buffer(device, like)
    for number, fill in enumerate(held):
        assert kernel(device, "program.mako", "fill", {**PARAMS, "add": 1000 + number}) is fill
        fill.enqueue(device.queue, (16,), (8,), [buffer, np.int32(4), np.int64(0)])
        assert (_read(device, buffer, like) == 1004 + number).all()
    del held, fill
    kernel(device, "program.mako", "fill", {**PARAMS, "add": 2000})
    assert device.programs.count_alive() <= max(before + 1, 3)


def test_a_failed_build_names_device_log_and_kept_source(device: Device, own_cache: Path) -> None:
    with pytest.raises(BuildFailed, match=r"program\.mako does not build on") as caught:
        kernel(device, "program.mako", "fill", {**PARAMS, "fail": True})
    error = caught.value
    assert error.device == device.name
    assert device.driver_version in error.driver
    assert "asked to fail" in error.log
    assert error.params == {**PARAMS, "fail": True}
    assert error.source_path is not None
    assert Path(error.source_path).read_text() == error.source == render("program.mako", {**PARAMS, "fail": True})
    with pytest.raises(BuildFailed):  # it fails again, not by a half-made entry
        kernel(device, "program.mako", "fill", {**PARAMS, "fail": True})


def test_a_failed_build_without_a_writable_cache_still_carries_its_source(
    device: Device, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "file").write_text("")
    monkeypatch.setenv("PYDP_CACHE_DIR", str(tmp_path / "file"))
    with pytest.raises(BuildFailed) as caught:
        kernel(device, "program.mako", "fill", {**PARAMS, "fail": True, "T": "long"})
    assert caught.value.source_path is None
    assert "long" in caught.value.source


def test_a_kernel_that_is_not_in_its_template(device: Device) -> None:
    with pytest.raises(BuildFailed, match="nowhere"):
        kernel(device, "program.mako", "nowhere", PARAMS)


def test_a_wrong_number_of_arguments_is_named(device: Device) -> None:
    with pytest.raises(TypeError, match=r"fill of program\.mako takes 3 arguments, not 1"):
        kernel(device, "program.mako", "fill", PARAMS).enqueue(device.queue, (8,), (8,), [None])


def test_too_large_a_group_is_out_of_resources(device: Device) -> None:
    size = 2 * device.profile.max_group_size
    shift = kernel(device, "program.mako", "shift", PARAMS)
    buffer = _buffer(device, np.zeros(size, np.int32))
    with pytest.raises(OutOfResources, match="has not enough memory or registers"):
        shift.enqueue(device.queue, (size,), (size,), [buffer, cl.LocalMemory(4 * size)])


def test_what_pyopencl_raises_is_told_with_the_kernels_name(device: Device) -> None:
    with pytest.raises(Exception) as raised:
        kernel(device, "program.mako", "fill", PARAMS).enqueue(
            device.queue, (8,), (8,), ["no buffer", np.int32(1), np.int64(0)]
        )
    assert "in kernel fill of program.mako" in raised.value.__notes__
    assert raised.value.__cause__ is not raised.value


def test_what_the_driver_says_of_a_kernel(device: Device) -> None:
    shift = kernel(device, "program.mako", "shift", PARAMS)
    assert 1 <= shift.max_group_size <= device.profile.max_group_size
    assert shift.local_bytes >= 0
    assert shift.private_bytes >= 0
    assert "shift of program.mako" in repr(shift)


@pytest.mark.host
def test_a_missing_value_is_an_error() -> None:
    with pytest.raises(BuildFailed, match="'add' is not defined"):
        render("program.mako", {"T": "int", "fail": False})
    with pytest.raises(BuildFailed, match=r"no template 'nothing\.mako'"):
        render("nothing.mako", {})


@pytest.mark.host
def test_values_are_not_run_as_templates() -> None:
    text = render("program.mako", {**PARAMS, "add": "${1 + 1} <% raise SystemExit %>"})
    assert "${1 + 1} <% raise SystemExit %>" in text


def _fresh(device: Device) -> Device:
    """The same device with a context of its own, so that nothing of this process's cache is used."""
    return Device(device.cl, cl.Context([device.cl]))


def test_built_programs_are_kept_on_disk_and_damage_is_a_miss(
    device: Device, own_cache: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    params = {**PARAMS, "add": 77}
    loaded: list[bool] = []
    load = binaries.load
    monkeypatch.setattr(binaries, "load", lambda *args: _note(load(*args), loaded))

    def run() -> list[int]:
        fresh = _fresh(device)
        buffer = _buffer(fresh, np.zeros(8, np.int32))
        kernel(fresh, "program.mako", "fill", params).enqueue(
            fresh.queue, (8,), (8,), [buffer, np.int32(1), np.int64(0)]
        )
        return _read(fresh, buffer, np.zeros(8, np.int32)).tolist()

    assert run() == [78] * 8
    kept = list((own_cache / "binaries").glob("*.bin")) if (own_cache / "binaries").exists() else []
    assert bool(kept) == (device.quirks.binaries_usable and not device.quirks.keeps_own_binaries)
    assert run() == [78] * 8
    assert loaded == [False, bool(kept)]
    for path in kept:
        whole = path.read_bytes()
        for damaged in (b"", whole[:40], whole[:-1], b"x" * len(whole), whole[:-1] + bytes([whole[-1] ^ 1])):
            path.write_bytes(damaged)
            assert run() == [78] * 8
            assert loaded[-1] is False
            assert path.read_bytes() == whole or len(path.read_bytes()) > 100  # it was written anew
    if kept:
        assert "is damaged" in caplog.text
        params["add"] = 79  # a program whose file has the content of the first one
        assert run() == [80] * 8
        (other,) = set((own_cache / "binaries").glob("*.bin")) - set(kept)
        other.write_bytes(kept[0].read_bytes())
        assert run() == [80] * 8
        assert loaded[-1] is False


def _note(found: Any, loaded: list[bool]) -> Any:
    loaded.append(found is not None)
    return found


def test_a_read_only_cache_changes_nothing(device: Device, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "file").write_text("")
    monkeypatch.setenv("PYDP_CACHE_DIR", str(tmp_path / "file"))
    assert kernel(_fresh(device), "program.mako", "fill", {**PARAMS, "add": 78}).name == "fill"


def test_events_of_another_queue_are_waited_for(device: Device) -> None:
    before = np.zeros(64, np.int32)
    buffer = _buffer(device, before)
    other = cl.CommandQueue(device.context, device.cl)
    fill = kernel(device, "program.mako", "fill", PARAMS)
    first = fill.enqueue(other, (64,), (8,), [buffer, np.int32(1), np.int64(0)])
    fill.enqueue(device.queue, (32,), (8,), [buffer, np.int32(2), np.int64(0)], wait_for=[first])
    assert _read(device, buffer, before).tolist() == [5] * 32 + [4] * 32


def test_the_correctly_rounded_division_is_asked_for_where_there_is_one(device: Device) -> None:
    rounds = int(device.cl.single_fp_config) & (1 << 7)
    assert ("-cl-fp32-correctly-rounded-divide-sqrt" in device.profile.build_options) == bool(rounds)
    assert program._options(device, ["-DX", "-cl-std=CL3.0"])[0] == "-cl-std=CL3.0"
    assert program._options(device, [])[0] == "-cl-std=CL1.2"
    assert pydp.device() is device


def test_a_device_tells_its_last_launch(device: Device) -> None:
    fresh = _fresh(device)
    assert fresh.last_launch is None
    before = np.zeros(64, np.int32)
    buffer = _buffer(fresh, before)
    for add in (5, 6):
        kernel(fresh, "program.mako", "fill", {**PARAMS, "add": add}).enqueue(
            fresh.queue, (64,), (8,), [buffer, np.int32(1), np.int64(0)]
        )
    fresh.queue.finish()
    told = fresh.last_launch
    assert told is not None and "fill of program.mako, (64,) work-items in groups of (8,)" in told
    assert "'add': 6" in told and fresh.driver_version in told and fresh.name in told


@pytest.mark.host
def test_kernels_of_the_vector_mapping_say_that_they_are_vectorized():
    for path in template.folder().glob("*_vector.mako"):
        for line in re.findall(r"^(?:__)?kernel .*", path.read_text(), re.MULTILINE):
            assert "${one_lane}" in line, (path.name, line)
