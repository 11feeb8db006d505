"""Stage (e): headline speeds, beside other libraries that are installed, in the same process and on the same sizes.

Beside a GPU, these are PyTorch and CuPy (cuBLAS and CUB, or their counterparts of ROCm); elsewhere NumPy and PyTorch on
the processor. All candidates alternate, so background load affects them equally. pydp's result is compared with a
reference first, products in some rows; a rate above a limit measured in stage (d) is marked.
"""

from __future__ import annotations

import importlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

import pydp
from pydp.model.explanation import given
from pydp.tuning.choose import ProblemFound, SpecProbe, choose
from pydp.tuning.reference import Expected, eps, expected, hosts
from pydp.verify.check import Check, Context
from pydp.verify.stages.cases import Call, group_of, needs
from pydp.verify.stages.facts import peers
from pydp.verify.stages.limits import BYTES, GPU_BYTES

_ROWS = 8  # rows of a product that are compared
_MOST_RATIO = 1.1  # largest accepted ratio of a rate to a measured limit; both vary
_Run = Callable[[], Any]

_Shapes = tuple[tuple[int, ...], ...]


@dataclass(frozen=True)
class Speed:
    """One operation.

    shapes: of the operands, by whether the device is a GPU. work: operations, bytes or elements of a call. function,
    options: pydp's call. numpy, torch: the same operation of a module with NumPy's functions (NumPy or CuPy) and of
    PyTorch; the first argument is the module. bytes: that a unit of work moves at least. remark: for readers of the
    ratios. stored: whether pydp only loads and stores the operands' type, as in `needs`.
    """

    name: str
    dtype: str
    shapes: Callable[[bool], _Shapes]
    work: Callable[[_Shapes], float]
    unit: str
    function: Callable[..., Any]
    numpy: Callable[..., Any]
    torch: Callable[..., Any]
    options: Mapping[str, Any] = field(default_factory=dict)
    bytes: int = 1
    remark: str = ""
    stored: bool = False


def _square(gpu: int, cpu: int) -> Callable[[bool], _Shapes]:
    return lambda on_gpu: ((gpu if on_gpu else cpu,) * 2,) * 2


def _flat(gpu: int, cpu: int) -> Callable[[bool], _Shapes]:
    return lambda on_gpu: ((gpu if on_gpu else cpu,),)


def _items(shapes: _Shapes) -> float:
    return float(np.prod(shapes[0]))


def _moved(shapes: _Shapes) -> float:
    """Bytes read and written, of elements of 4 bytes."""
    return 8 * _items(shapes)


def _product(name: str, dtype: str, gpu: int, cpu: int) -> Speed:
    return Speed(
        name, dtype, _square(gpu, cpu), lambda shapes: 2.0 * _items(shapes) * shapes[1][1], "GFLOP/s", pydp.matmul,
        lambda module, a, b: module.matmul(a, b), lambda torch, a, b: torch.matmul(a, b), stored=dtype == "float16",
    )  # fmt: skip


_STREAMED = _flat(GPU_BYTES // 4, BYTES // 4)  # elements of 4 bytes
_BINS: dict[str, Any] = {"bins": 256, "range": (-4.0, 4.0)}
SPEEDS = (
    _product("sgemm", "float32", 4096, 1024),
    _product("dgemm", "float64", 2048, 512),
    _product("hgemm", "float16", 4096, 256),
    Speed("scan", "float32", _STREAMED, _items, "Gitem/s", pydp.scan,
          lambda module, x: module.cumsum(x), lambda torch, x: torch.cumsum(x, 0), bytes=8),
    Speed("reduce", "float32", _STREAMED, _items, "Gitem/s", pydp.reduce,
          lambda module, x: module.sum(x), lambda torch, x: torch.sum(x), bytes=4),
    Speed("sort", "int32", _flat(1 << 24, 1 << 18), _items, "Gitem/s", pydp.sort,
          lambda module, x: module.sort(x), lambda torch, x: torch.sort(x), bytes=8,
          remark="torch.sort returns the indexes too"),
    Speed("select", "float32", _STREAMED, _items, "Gitem/s", pydp.select,
          lambda module, x: x[x > 0], lambda torch, x: torch.masked_select(x, x > 0), {"predicate": "x > 0"}, bytes=6),
    Speed("histogram", "float32", _STREAMED, _items, "Gitem/s", pydp.histogram,
          lambda module, x: module.histogram(x, **_BINS), lambda torch, x: torch.histc(x, 256, -4.0, 4.0), _BINS,
          bytes=4),
    Speed("transpose", "float32", lambda on_gpu: ((8192 if on_gpu else 2048,) * 2,), _moved, "GB/s", pydp.transpose,
          lambda module, x: module.ascontiguousarray(x.T), lambda torch, x: x.t().contiguous()),
    Speed("copy", "float32", _STREAMED, _moved, "GB/s", pydp.field,
          lambda module, x: x.copy(), lambda torch, x: x.clone()),
)  # fmt: skip


def arrays_of(speed: Speed, device: Any) -> list[np.ndarray]:
    """The operands of an operation on a device. Raises NotApplicable if the device lacks their type."""
    needs(device.profile, speed.dtype, speed.stored)
    return operands(speed, device.kind == "gpu")


def operands(speed: Speed, on_gpu: bool) -> list[np.ndarray]:
    """Random operands: normally distributed floats, or integers of the whole range.

    Those of sums are whole numbers: every order of additions gives the same result, and one missing element shows.
    """
    rng = np.random.default_rng(9)
    kind = np.dtype(speed.dtype)
    shapes = speed.shapes(on_gpu)
    if speed.name in ("scan", "reduce"):
        return [rng.integers(-9, 10, shape, np.int8).astype(kind) for shape in shapes]
    if kind.kind == "f":
        return [rng.standard_normal(shape, np.float32).astype(kind) for shape in shapes]
    return [rng.integers(-(1 << 31), 1 << 31, shape).astype(kind) for shape in shapes]


def compare(speed: Speed, arrays: list[np.ndarray], fetch: Callable[[list[Expected]], list[np.ndarray]]) -> None:
    """Raise Wrong if the results of pydp's call differ from the reference. Products are compared in some rows.

    fetch: the results on the host, for expected results of the same shapes and types.
    """
    if speed.function is pydp.matmul:
        a, b = arrays
        rows = np.linspace(0, len(a) - 1, _ROWS).astype(int)
        want = [_product_of(a[rows], b)]
        got = [one[rows] for one in fetch([Expected(np.empty((len(a), b.shape[1]), a.dtype))])]
    else:
        if speed.function is pydp.field:
            want = [Expected(arrays[0])]
        else:
            found = expected(speed.function, tuple(arrays), dict(speed.options)) or []
            want = [Expected(one.values) for one in found[:1]]  # exact; without the edges of bins
        got = fetch(want)
    Call(speed.function, (), want).compare(got)


def _product_of(a: np.ndarray, b: np.ndarray) -> Expected:
    """The reference of a product. That of float16 is accumulated in float32 and rounded once."""
    half = a.dtype == np.float16
    given = (a.astype(np.float32), b.astype(np.float32)) if half else (a, b)
    found = expected(pydp.matmul, given, {})
    assert found is not None
    want = found[0]
    if not half:
        return want
    return Expected(want.values.astype(a.dtype), want.tolerance + eps(a.dtype) * np.abs(want.values))


def above_limits(speed: Speed, rate: float, rates: Mapping[str, float]) -> dict[str, Any]:
    """A figure that marks a rate above what stage (d) measured: the data was in a cache, or a time is wrong."""
    if speed.unit == "GFLOP/s":
        names = [f"d {name} multiply-adds" for name, kind in (("f32", "float32"), ("f64", "float64"))
                 if kind == speed.dtype]  # fmt: skip
    else:
        names = ["d copy kernel", "d read kernel", "d driver copy"]
    known = {name: rates[name] for name in names if name in rates}
    if not known:
        return {}
    most = max(known, key=lambda name: known[name])
    ratio = rate * speed.bytes / known[most]
    said = f"rate / measured limit ({most[2:]}): {ratio:.2f}; the data was in a cache or a time is wrong"
    return {"above a limit": said} if ratio > _MOST_RATIO else {}


@dataclass(frozen=True)
class GpuUnderTest:
    """The GPU under test, as other libraries may list it.

    names: the library's name is one of them. bus: its PCI bus, if the driver reports it. number: its number among
    CUDA's devices, if it was opened by that number.
    """

    names: tuple[str, ...]
    bus: int | None = None
    number: int | None = None

    def among(self, listed: Sequence[tuple[str, int | None]]) -> tuple[int, str]:
        """(the number of this GPU in a library's list of names and PCI buses, its name there). Raises _Elsewhere.

        The name says so if equal GPUs cannot be distinguished.
        """
        named = [at for at, (name, _) in enumerate(listed) if name.strip() in self.names]
        if self.number is not None and self.number in named:
            return self.number, listed[self.number][0]
        on_bus = [at for at, (_, bus) in enumerate(listed) if bus is not None and bus == self.bus]
        found = [at for at in named if at in on_bus] or named or on_bus
        if not found:
            raise _Elsewhere(f"it lists {', '.join(name for name, _ in listed)}, not {self.names[0]}")
        name = listed[found[0]][0]
        return found[0], name if len(found) == 1 else f"{name}, the first of {len(found)} equal GPUs"


_NO_GPU = "it finds no GPU"


class _Elsewhere(Exception):
    """A library does not list the GPU under test."""


def _peers(
    speed: Speed, arrays: list[np.ndarray], gpu: GpuUnderTest | None
) -> Iterator[tuple[str, Callable[[], tuple[_Run, str]]]]:
    """(name, function that copies the operands and returns a blocking call and the name of its device).

    Of each library that is installed. gpu: None if a processor is under test.
    """
    if gpu is None and speed.dtype != "float16":  # NumPy's products of float16 take minutes
        yield "NumPy", lambda: (lambda: speed.numpy(np, *arrays), "the processor")
    torch = _installed("torch")
    if torch is not None:
        platform = "CPU" if gpu is None else "ROCm" if getattr(torch.version, "hip", None) else "CUDA"
        yield f"PyTorch {torch.__version__} ({platform})", lambda: _by_torch(torch, speed, arrays, gpu)
    cupy = _installed("cupy") if gpu is not None else None
    if cupy is not None:
        assert gpu is not None
        yield f"CuPy {cupy.__version__}", lambda: _by_cupy(cupy, speed, arrays, gpu)


def _by_torch(torch: Any, speed: Speed, arrays: list[np.ndarray], gpu: GpuUnderTest | None) -> tuple[_Run, str]:
    where, name = "cpu", "the processor"
    if gpu is not None:
        if not torch.cuda.is_available():
            raise _Elsewhere(_NO_GPU)
        known = [torch.cuda.get_device_properties(at) for at in range(torch.cuda.device_count())]
        number, name = gpu.among([(one.name, getattr(one, "pci_bus_id", None)) for one in known])
        where = f"cuda:{number}"
    torch.set_float32_matmul_precision("highest")  # some containers select TF32 by an environment variable
    held = [torch.from_numpy(one).to(where) for one in arrays]

    def call() -> None:
        speed.torch(torch, *held)
        if gpu is not None:
            torch.cuda.synchronize(where)

    return call, name


def _by_cupy(cupy: Any, speed: Speed, arrays: list[np.ndarray], gpu: GpuUnderTest) -> tuple[_Run, str]:
    if not cupy.is_available():  # raises if the driver is older than this CuPy needs
        raise _Elsewhere(_NO_GPU)
    runtime = cupy.cuda.runtime
    known = [runtime.getDeviceProperties(at) for at in range(runtime.getDeviceCount())]
    number, name = gpu.among([(_text(one["name"]), one.get("pciBusID")) for one in known])
    device = cupy.cuda.Device(number)
    with device:
        held = [cupy.asarray(one) for one in arrays]

    def call() -> None:
        with device:
            speed.numpy(cupy, *held)
            device.synchronize()

    return call, name


def _text(name: bytes | str) -> str:
    return name.decode() if isinstance(name, bytes) else name


def gpu_under_test(device: Any) -> GpuUnderTest | None:
    """The GPU behind an OpenCL device; None for other devices."""
    if device.kind != "gpu":
        return None
    names = (device.name, str(_asked(device, "board_name_amd") or "").strip(" \0"))
    bus = _asked(device, "pci_bus_id_nv")
    if bus is None:
        bus = getattr(_asked(device, "topology_amd"), "bus", None)
    return GpuUnderTest(tuple(filter(None, names)), None if bus is None else int(bus) & 0xFF)


def _asked(device: Any, name: str) -> Any:
    """A property of an OpenCL device that only some vendors' drivers have; None from the others."""
    import pyopencl as cl

    try:
        return getattr(device.cl, name, None)
    except cl.Error:
        return None


def _installed(name: str) -> Any:
    """A library, or None if it is missing or broken: pydp needs none of them."""
    try:
        return importlib.import_module(name)
    except Exception:
        return None


def measured(
    speed: Speed, ours: _Run, arrays: list[np.ndarray], gpu: GpuUnderTest | None, context: Context
) -> dict[str, Any]:
    """The figures of an operation: pydp's seconds and rate, and the ratio to each peer (above 1: pydp is faster)."""
    from pydp.bench.measure import alternating

    calls: dict[str, _Run] = {"pydp": ours}
    left_out, devices = {}, {}
    for name, prepare in _peers(speed, arrays, gpu):
        try:
            call, where = prepare()
            call()
            calls[name], devices[name] = call, where
        except _Elsewhere as error:
            left_out[name] = str(error)
        except Exception as error:  # a peer that fails must not hide pydp's figure
            left_out[name] = f"{type(error).__name__}: {error}"[:200]
    spent = alternating(calls, repeats=11, budget=min(3.0, context.seconds / 4))
    size = speed.shapes(gpu is not None)
    rate = speed.work(size) / spent["pydp"] / 1e9
    ratios = {name: one / spent["pydp"] for name, one in spent.items() if name != "pydp"}
    found = {"rate": rate, "unit": speed.unit, "size": str(size), "seconds": spent, "ratios": ratios,
             "devices of peers": devices}  # fmt: skip
    remark = {"remark": speed.remark} if speed.remark and any("PyTorch" in name for name in ratios) else {}
    return {
        **found, **({"peers left out": left_out} if left_out else {}), **remark,
        **above_limits(speed, rate, context.rates),
    }  # fmt: skip


def specialization(device: Any, function: Callable[..., Any], *args: Any, **options: Any) -> dict[str, Any]:
    """The specialization that a call uses and its origin, as pydp.explain gives them; {} if the function has none."""
    describe = getattr(function, "__pydp_explain__", None)
    if describe is None:
        return {}
    try:
        describe(given(function, args, {**options, "device": device, "spec": SpecProbe()}))
    except ProblemFound as probed:
        choice = choose(probed.family, probed.device, probed.problem)
        return {"spec": str(choice.spec), "spec from": f"{choice.source}: {choice.reason}"}
    return {}


def _check_of(speed: Speed) -> Check:
    def run(context: Context) -> dict[str, Any]:
        if context.pack is not None:
            return dict(context.device.speed(speed, context))
        device = context.device
        arrays = arrays_of(speed, device)
        fields = [pydp.field(one, device=device) for one in arrays]

        def ours() -> Any:
            result = speed.function(*fields, **speed.options)
            device.queue.finish()
            return result

        compare(speed, arrays, lambda want: hosts(ours()))
        return specialization(device, speed.function, *fields, **speed.options) | measured(
            speed, ours, arrays, gpu_under_test(device), context
        )

    return Check(speed.name, run, group=group_of(speed.name), depends_on=peers)


CHECKS = tuple(_check_of(speed) for speed in SPEEDS)
