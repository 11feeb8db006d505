"""Stage (e): results are compared, rates are compared with limits, and peers on other GPUs are left out."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import numpy as np
import pyopencl as cl
import pytest
from pydp.bench.limits import Probe

import pydp
from pydp.tuning.reference import expected
from pydp.verify.check import Context, Wrong
from pydp.verify.stages import limits, speeds
from pydp.verify.stages.speeds import (
    SPEEDS,
    GpuUnderTest,
    Speed,
    above_limits,
    compare,
    gpu_under_test,
    measured,
    operands,
)

pytestmark = pytest.mark.host
BY_NAME = {one.name: one for one in SPEEDS}


def right(speed: Speed, arrays: list[np.ndarray]) -> np.ndarray:
    """The result of a correct library."""
    if speed.function is pydp.matmul:
        a, b = (one.astype(np.float32 if one.dtype == np.float16 else one.dtype) for one in arrays)
        return (a @ b).astype(speed.dtype)
    if speed.function is pydp.field:
        return arrays[0].copy()
    return (expected(speed.function, tuple(arrays), dict(speed.options)) or [])[0].values.copy()


@pytest.mark.parametrize("name", BY_NAME)
def test_a_wrong_result_is_found(name: str) -> None:
    speed = BY_NAME[name]
    arrays = operands(speed, False)
    result = right(speed, arrays)
    compare(speed, arrays, lambda want: [result])
    with pytest.raises(Wrong, match="elements are wrong"):
        compare(speed, arrays, lambda want: [np.zeros_like(result)])
    last = result.reshape(-1)[-1:]  # a view
    last += 9
    with pytest.raises(Wrong, match=r"1 of [0-9]+ elements are wrong"):
        compare(speed, arrays, lambda want: [result])


def test_rates_above_the_limits_are_noted() -> None:
    rates = {"d f32 multiply-adds": 100.0, "d copy kernel": 100.0, "d read kernel": 120.0}
    for name, rate, said in (
        ("sgemm", 109.0, ""),
        ("sgemm", 150.0, "f32 multiply-adds): 1.50"),
        ("dgemm", 150.0, ""),  # its limit was not measured
        ("copy", 130.0, ""),
        ("copy", 180.0, "read kernel): 1.50"),
        ("scan", 16.0, ""),
        ("scan", 30.0, "read kernel): 2.00"),
    ):
        found = above_limits(BY_NAME[name], rate, rates).get("above a limit", "")
        end = "; the data was in a cache or a time is wrong"
        assert found == (f"rate / measured limit ({said}{end}" if said else "")
    assert not above_limits(BY_NAME["sgemm"], 1e9, {})


def test_streams_have_the_bytes_of_the_limits() -> None:
    """Else one of them may find its data in a cache, and the other not."""
    for name in ("copy", "scan", "reduce", "select", "histogram", "transpose"):
        for on_gpu, size in ((True, limits.GPU_BYTES), (False, limits.BYTES)):
            assert 4 * np.prod(BY_NAME[name].shapes(on_gpu)[0]) == size


def test_a_limit_is_the_best_rate() -> None:
    probe = Probe(lambda: None, 2e9, "GB/s")
    probe.least = 0.5
    assert limits._best(probe) == {"rate": 4.0, "unit": "GB/s", "seconds": 0.5}


def fake_torch(*listed: tuple[str, int | None]) -> Any:
    """PyTorch with GPUs of these names and PCI buses, as far as it is used. `used`: where operands were copied."""
    used: list[str] = []

    def properties(at: int) -> Any:
        name, bus = listed[at]
        return SimpleNamespace(name=name, **({} if bus is None else {"pci_bus_id": bus}))

    cuda = SimpleNamespace(
        is_available=lambda: bool(listed), device_count=lambda: len(listed), get_device_properties=properties,
        synchronize=lambda where: used.append(f"waited for {where}"),
    )  # fmt: skip
    return SimpleNamespace(
        __version__="2", version=SimpleNamespace(hip=None), cuda=cuda, sort=np.sort, used=used,
        set_float32_matmul_precision=lambda precision: used.append(precision),
        from_numpy=lambda one: SimpleNamespace(to=lambda where: used.append(where) or one),
    )  # fmt: skip


def test_peers_run_on_the_gpu_under_test_or_are_left_out(monkeypatch: pytest.MonkeyPatch) -> None:
    speed = BY_NAME["sort"]
    arrays = [np.arange(9)]
    torch = fake_torch(("another", 1), ("a toy", 2), ("a toy", 3))
    cupy = SimpleNamespace(
        __version__="13", is_available=lambda: True,
        cuda=SimpleNamespace(
            runtime=SimpleNamespace(
                getDeviceCount=lambda: 1, getDeviceProperties=lambda at: {"name": b"another", "pciBusID": 1}
            ),
        ),
    )  # fmt: skip
    monkeypatch.setattr(speeds, "_installed", {"torch": torch, "cupy": cupy}.__getitem__)
    gpu = GpuUnderTest(("a toy", "a board"), bus=3)
    found = measured(speed, lambda: None, arrays, gpu, Context(None, 0.1))
    assert set(found["ratios"]) == {"PyTorch 2 (CUDA)"}
    assert found["devices of peers"] == {"PyTorch 2 (CUDA)": "a toy"}
    assert torch.used[:3] == ["highest", "cuda:2", "waited for cuda:2"]
    assert found["peers left out"] == {"CuPy 13": "it lists another, not a toy"}
    assert found["remark"] == "torch.sort returns the indexes too"
    found = measured(speed, lambda: None, arrays, GpuUnderTest(("a third",)), Context(None, 0.1))
    assert not found["ratios"] and "remark" not in found


def test_peers_that_find_no_gpu_are_left_out(monkeypatch: pytest.MonkeyPatch) -> None:
    def outdated() -> bool:
        raise RuntimeError("cudaErrorInsufficientDriver")

    cupy = SimpleNamespace(__version__="13", is_available=outdated)
    monkeypatch.setattr(speeds, "_installed", {"torch": fake_torch(), "cupy": cupy}.__getitem__)
    found = measured(BY_NAME["sort"], lambda: None, [np.arange(9)], GpuUnderTest(("a toy",)), Context(None, 0.1))
    assert found["peers left out"] == {
        "PyTorch 2 (CUDA)": "it finds no GPU", "CuPy 13": "RuntimeError: cudaErrorInsufficientDriver"
    }  # fmt: skip


@pytest.mark.parametrize(
    ("gpu", "listed", "want"),
    [
        (GpuUnderTest(("a toy",)), [("a toy", None)], (0, "a toy")),
        (GpuUnderTest(("a toy",)), [("another", 1), ("a toy ", 2)], (1, "a toy ")),
        (GpuUnderTest(("a toy",), bus=2), [("a toy", 1), ("a toy", 2)], (1, "a toy")),
        (GpuUnderTest(("gfx", "a board"), bus=2), [("a toy", 1), ("its name", 2)], (1, "its name")),
        (GpuUnderTest(("a toy",)), [("a toy", 1), ("a toy", 2)], (0, "a toy, the first of 2 equal GPUs")),
        (GpuUnderTest(("a toy",), bus=2), [("a toy", None)] * 2, (0, "a toy, the first of 2 equal GPUs")),
        (GpuUnderTest(("a toy",), number=1), [("a toy", 1), ("a toy", 2)], (1, "a toy")),
    ],
)
def test_the_gpu_under_test_in_the_list_of_a_peer(gpu: GpuUnderTest, listed: Any, want: tuple[int, str]) -> None:
    assert gpu.among(listed) == want


class Amd:
    """A device of AMD's driver, as pyopencl shows it."""

    board_name_amd = "AMD Instinct MI300X\0"
    topology_amd = SimpleNamespace(bus=-59)  # a signed byte

    @property
    def pci_bus_id_nv(self) -> int:
        raise cl.LogicError("clGetDeviceInfo failed: INVALID_VALUE")


class Nvidia:
    """A device of NVIDIA's driver."""

    pci_bus_id_nv = 65

    @property
    def board_name_amd(self) -> str:
        raise cl.LogicError("clGetDeviceInfo failed: INVALID_VALUE")


def test_properties_that_only_one_vendor_has() -> None:
    """Other drivers answer such a query with an error."""
    assert gpu_under_test(SimpleNamespace(kind="cpu")) is None
    assert gpu_under_test(SimpleNamespace(kind="gpu", name="NVIDIA H100", cl=Nvidia())) == GpuUnderTest(
        ("NVIDIA H100",), 65
    )
    found = gpu_under_test(SimpleNamespace(kind="gpu", name="gfx942", cl=Amd()))
    assert found == GpuUnderTest(("gfx942", "AMD Instinct MI300X"), 197)
    device = SimpleNamespace(kind="gpu", name="a toy", cl=SimpleNamespace())  # pyopencl without these constants
    assert gpu_under_test(device) == GpuUnderTest(("a toy",))
