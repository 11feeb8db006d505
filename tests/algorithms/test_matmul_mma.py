"""The method "mma" of matmul: its kernel with emulated tensor cores against NumPy, as PTX offline, and its policy."""

from __future__ import annotations

import dataclasses
import importlib
import itertools
import re
import shutil
import subprocess
from collections.abc import Iterator
from typing import Any

import needs
import numpy as np
import pytest
from tensor_cores import tensor_cores

import pydp
from pydp.algorithms.matmul import plan as matmul_plan
from pydp.algorithms.matmul.mma import is_copied, mma_phase, params
from pydp.algorithms.matmul.policy import FAMILY
from pydp.algorithms.matmul.problem import Matrix, arithmetic
from pydp.algorithms.matmul.spec import MatmulProblem, MatmulSpec
from pydp.errors import BuildFailed, InvalidArgument
from pydp.groups.barrier_plan import build_kernel
from pydp.model.architectures import by_name, by_target
from pydp.model.ranking import rank
from pydp.offline.compilers import toolchain
from pydp.offline.study import target_of
from pydp.offline.target import dry_run
from pydp.tuning.choose import Choice

TOOLS = toolchain("sm_90")
_offline = pytest.mark.skipif(isinstance(TOOLS, str), reason=str(TOOLS))


def _spec(tile_m: int, tile_n: int, tile_k: int, warps_m: int, warps_n: int, buffers: int, parts: int = 1) -> Any:
    lanes_m, lanes_n = 8 * warps_m, 4 * warps_n
    return {
        "mapping": "simt", "method": "mma", "tile_m": tile_m, "tile_n": tile_n, "tile_k": tile_k, "lanes_m": lanes_m,
        "lanes_n": lanes_n, "rows": tile_m // lanes_m, "columns": tile_n // lanes_n, "buffers": buffers, "width": 2,
        "unroll": tile_k, "pad": 0, "parts": parts,
    }  # fmt: skip


SPECS = {"f2": _spec(32, 16, 16, 2, 1, 3), "f8": _spec(32, 16, 8, 1, 1, 2)}
LARGER = {"f2": _spec(32, 32, 64, 1, 2, 2), "f8": _spec(32, 32, 16, 2, 2, 3)}


@pytest.fixture(params=[("f2", 80), ("f8", 80), ("f8", 90)], ids=["half", "double, 8 x 8 x 4", "double, 16 x 8 x 8"])
def dtype(request: pytest.FixtureRequest, device: Any) -> Iterator[str]:
    """A dtype. The device is as if it had tensor cores of some compute capability; only NVIDIA's are not emulated."""
    name, capability = request.param
    if name == "f8":  # halves are loaded and stored only
        needs.dtype(device, name)
    with tensor_cores(device, capability):
        yield name


@pytest.fixture
def emulated(device: Any) -> Iterator[Any]:
    """The device as if it had tensor cores."""
    with tensor_cores(device, 80):
        yield device


def _integers(shape: tuple[int, ...], dtype: Any, seed: int = 0) -> np.ndarray:
    return np.random.default_rng(seed).integers(-4, 5, shape).astype(dtype)


def _layouts(x: np.ndarray) -> list[np.ndarray]:
    """x with contiguous rows, with contiguous columns, and with neither."""
    wide = np.zeros((2 * x.shape[0] + 1, 3 * x.shape[1] + 1), x.dtype)
    apart = wide[1::2, 1::3][: x.shape[0], : x.shape[1]]
    apart[...] = x
    return [x, np.asfortranarray(x), apart]


@pytest.mark.emulated
def test_layouts_and_edges(dtype: str) -> None:
    for m, n, k in ((64, 64, 64), (33, 71, 45)):
        a, b = _integers((m, k), dtype), _integers((k, n), dtype, 1)
        expected = a.astype("f8") @ b.astype("f8")
        rows, columns, apart = zip(_layouts(a), _layouts(b), strict=True)
        mixed = [(rows[0], columns[1]), (columns[0], rows[1])]
        for left, right in (rows, columns, apart, *mixed):
            got = pydp.matmul(left, right, spec=SPECS[dtype])
            assert got.dtype == dtype and np.array_equal(got, expected), (m, n, k, left.strides, right.strides)


@pytest.mark.emulated
def test_sizes(dtype: str) -> None:
    for m, n, k in itertools.product((1, 32, 40), (2, 33), (0, 1, 8, 50)):
        a, b = _integers((m, k), dtype), _integers((k, n), dtype, 1)
        assert np.array_equal(pydp.matmul(a, b, spec=SPECS[dtype]), a.astype("f8") @ b.astype("f8")), (m, n, k)


@pytest.mark.emulated
def test_chunks_that_end_inside_an_aligned_row(dtype: str) -> None:
    """Operands with aligned rows are copied in chunks of 16 bytes; the last chunk of a row has other elements, too."""
    a, b = _integers((50, 40), dtype)[:, :33].T, _integers((50, 72), dtype, 1)[:, :71]
    expected = a.astype("f8") @ b.astype("f8")
    assert np.array_equal(pydp.matmul(pydp.field(a.T).T, pydp.field(b), spec=SPECS[dtype]).get(), expected)
    whole = [pydp.field(np.ascontiguousarray(one.base)) for one in (a.T, b)]
    got = pydp.matmul(whole[0][:, :33].T, whole[1][:, :71], spec=SPECS[dtype])
    assert np.array_equal(got.get(), expected)


@pytest.mark.emulated
def test_kernels_that_do_not_build(dtype: str, monkeypatch: pytest.MonkeyPatch, caplog: Any) -> None:
    """Multiply-adds take their place, unless the caller asked for tensor cores."""

    def build(device: Any, template: str, *args: Any, **options: Any) -> Any:
        if template == "matmul_mma.mako":
            raise BuildFailed("it does not compile")
        return build_kernel(device, template, *args, **options)

    def choose(device: Any, how: Any, one: Any, spec: Any) -> Any:
        if spec is None:
            return Choice(MatmulSpec(**SPECS[dtype]), "model", "the best")
        return plain(device, how, one, {"mapping": "simt", **spec} if isinstance(spec, dict) else spec)

    matmul = importlib.import_module("pydp.algorithms.matmul")
    plain = matmul._choose
    monkeypatch.setattr(matmul_plan, "build_kernel", build)
    monkeypatch.setattr(matmul, "_choose", choose)
    a, b = _integers((40, 44), dtype), _integers((44, 52), dtype, 1)
    assert np.array_equal(pydp.matmul(a, b), a.astype("f8") @ b.astype("f8"))
    assert "kernels for tensor cores do not build" in caplog.text
    with pytest.raises(BuildFailed, match="does not compile"):
        pydp.matmul(a, b, spec=SPECS[dtype])


@pytest.mark.emulated
def test_larger_tiles(dtype: str) -> None:
    a, b = _integers((72, 136), dtype), _integers((136, 80), dtype, 1)
    expected = a.astype("f8") @ b.astype("f8")
    for left, right in ((a, b), (np.asfortranarray(a), np.asfortranarray(b))):
        assert np.array_equal(pydp.matmul(left, right, spec=LARGER[dtype]), expected)


@pytest.mark.emulated
def test_batches_factors_parts_and_strided_results(dtype: str) -> None:
    spec = SPECS[dtype]
    a, b = _integers((3, 40, 48), dtype), _integers((3, 48, 24), dtype, 1)
    expected = a.astype("f8") @ b.astype("f8")
    assert np.array_equal(pydp.matmul(a, b, spec=spec), expected)
    assert np.array_equal(pydp.matmul(a, b, spec={**spec, "parts": 2}), expected)
    out = _integers(expected.shape, dtype, 2)
    scaled = 0.5 * expected - 2 * out.astype("f8")
    for place in (out.copy(), np.asfortranarray(out), np.repeat(out, 2, axis=2)[..., ::2]):
        got = pydp.matmul(a, b, alpha=0.5, beta=-2, out=place, spec=spec)
        assert got is place and np.array_equal(got, scaled)
    added = pydp.matmul(a, b, beta=1, out=out.copy(), spec=spec)
    assert np.array_equal(added, expected + out)


@pytest.mark.emulated
def test_epilogues(dtype: str) -> None:
    a, b, bias = _integers((40, 24), dtype), _integers((24, 36), dtype, 1), _integers((36,), dtype, 2)
    expected = np.maximum(a.astype("f8") @ b.astype("f8") + bias, 0)
    for parts in (1, 2):
        spec = {**SPECS[dtype], "parts": parts}
        assert np.array_equal(pydp.matmul(a, b, epilogue=("max(x + bias, 0)", {"bias": bias}), spec=spec), expected)


@pytest.mark.emulated
def test_operands_of_other_types_are_converted(emulated: Any) -> None:
    half, byte = _integers((40, 24), "f2"), _integers((24, 36), "i1", 1)
    assert np.array_equal(pydp.matmul(half, byte, spec=SPECS["f2"]), half.astype("f8") @ byte)
    if emulated.profile.fp64:
        wide, single = _integers((40, 24), "f8"), _integers((24, 36), "f4", 1)
        assert np.array_equal(pydp.matmul(wide, single, spec=SPECS["f8"]), wide @ single)


@pytest.mark.emulated
def test_float16_is_added_in_float32_and_rounded_once(emulated: Any) -> None:
    a, b = np.ones((3, 4097), "f2"), np.ones((4097, 5), "f2")
    assert np.all(pydp.matmul(a, b, spec=SPECS["f2"]) == np.float16(4097.0))  # adding in float16 ends at 2048
    with np.errstate(over="ignore"):
        assert np.all(np.isinf(pydp.matmul(a[:, :2] * np.float16(300), b[:2] * np.float16(300), spec=SPECS["f2"])))
    random = np.random.default_rng(0)
    a, b = (random.standard_normal(shape).astype("f2") for shape in ((33, 100), (100, 40)))
    exact = a.astype("f8") @ b.astype("f8")
    got = pydp.matmul(a, b, spec=SPECS["f2"])
    near = np.abs(a.astype("f8")) @ np.abs(b.astype("f8")) * 100 * 2.0**-23
    assert np.all(np.abs(got - exact) <= near + np.abs(exact) * 2.0**-11 + 2.0**-25)
    assert got.tobytes() == pydp.matmul(a, b, spec=SPECS["f2"]).tobytes()


@pytest.mark.oclgrind
def test_a_small_product(dtype: str) -> None:
    a, b = _integers((17, 40), dtype), _integers((40, 18), dtype, 1)
    for left, right in ((a, b), (np.asfortranarray(a), np.asfortranarray(b))):
        assert np.array_equal(pydp.matmul(left, right, spec=SPECS[dtype]), a.astype("f8") @ b.astype("f8"))


@pytest.mark.emulated
def test_explain(emulated: Any) -> None:
    a, b = _integers((40, 24), "f2"), _integers((24, 35), "f2", 1)
    told = str(pydp.explain(pydp.matmul, a, b, spec=SPECS["f2"]))
    assert "a is staged 16 bytes at a time" in told and "b is staged element by element" in told
    assert "2 x 1 warps multiply blocks of 16 x 8 x 16 by" in told and "tensor cores" in told


# --- without a device ------------------------------------------------------------------------------------------


def _ptx(arch: str, kernel: Any, folder: Any) -> str:
    """The PTX of a kernel; it must pass ptxas without spills, if ptxas is installed."""
    (folder / "kernel.cl").write_text(kernel.source)
    command = [TOOLS.clang, "-x", "cl", "-cl-std=CL1.2", "-target", "nvptx64-nvidia-nvcl", f"-march={arch}", "-O2"]
    command += ["-S", "-nogpulib", "-Wno-linker-warnings", "-Xclang", "-finclude-default-header"]
    command += ["-Xclang", "-mlink-builtin-bitcode", "-Xclang", TOOLS.libclc]
    done = subprocess.run(
        [*command, "-o", str(folder / "kernel.ptx"), str(folder / "kernel.cl")],
        capture_output=True, text=True, timeout=500, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    if shutil.which("ptxas"):  # part of NVIDIA's toolkit; the offline lane brings it
        command = ["ptxas", f"-arch={arch}", "-v", str(folder / "kernel.ptx"), "-o", str(folder / "kernel.cubin")]
        done = subprocess.run(command, capture_output=True, text=True, timeout=500, check=False)
        assert done.returncode == 0, done.stderr
        assert " 0 bytes spill stores" in done.stderr, done.stderr
    return (folder / "kernel.ptx").read_text()


@_offline
@pytest.mark.host
@pytest.mark.parametrize("arch", ["sm_80", "sm_90"])
@pytest.mark.parametrize("dtype", ["f2", "f8"])
def test_the_default_kernel_as_ptx(arch: str, dtype: str, tmp_path: Any) -> None:
    a = np.zeros((4096, 4096), dtype)
    (launch,) = dry_run(target_of(arch), pydp.matmul, a, a)
    assert launch.kernel.name == "matmul_mma"
    found = _ptx(arch, launch.kernel, tmp_path)
    given = launch.kernel.params
    m, k = (16, 16) if dtype == "f2" else given["shape"]
    warps = given["warps_m"] * given["warps_n"]
    products = given["tile_m"] * given["tile_n"] * given["tile_k"] // (m * 8 * k) // warps
    assert len(re.findall(rf"\tmma\.sync\.aligned\.m{m}n8k{k}\.row\.col", found)) == products
    loads = (given["tile_m"] // given["warps_m"] + given["tile_n"] // given["warps_n"]) * given["tile_k"] // 256
    assert len(re.findall(r"\tldmatrix\.sync", found)) == (loads if dtype == "f2" else 0)
    item = np.dtype(dtype).itemsize
    copies = (given["tile_m"] + given["tile_n"]) * given["tile_k"] * item // 16 // (32 * warps)
    # Copies to all buffers but one before the loop, and to one in it; each with edges and without.
    assert len(re.findall(r"\tcp\.async\.cg", found)) == given["buffers"] * 2 * copies
    assert f"cp.async.wait_group {given['buffers'] - 2};" in found


@_offline
@pytest.mark.host
@pytest.mark.parametrize("dtype", ["f2", "f8"])
def test_operands_that_are_not_aligned_as_ptx(dtype: str, tmp_path: Any) -> None:
    a, b = np.zeros((515, 517), dtype), np.zeros((517, 520), dtype).T.copy().T
    found = dry_run(
        target_of("sm_90"), pydp.matmul, a, b, spec=LARGER[dtype], alpha=2, beta=0.5, out=np.zeros((515, 520), dtype)
    )
    text = _ptx("sm_90", found[0].kernel, tmp_path)
    assert "mma.sync" in text and "st.shared.v" in text


@pytest.mark.host
def test_the_choice_of_targets() -> None:
    def method(target: str, dtype: str, *sizes: int, **options: Any) -> str:
        profile = by_target(target)[0]
        problem = MatmulProblem(dtype, *sizes, **options)
        best = rank(FAMILY, profile, problem, entry=by_name(target))[0].spec
        assert FAMILY.default(profile, problem).method == best.method
        return str(best.method)

    large = (1, 4096, 4096, 4096)
    for target in ("sm_80", "sm_86", "sm_90", "sm_100", "sm_120"):
        assert method(target, "float16", *large) == "mma"
        assert method(target, "float32", *large) == method(target, "complex64", *large) == "staged"
    assert method("sm_80", "float64", *large) == method("sm_90", "float64", *large) == "mma"
    assert method("sm_86", "float64", *large) == method("sm_120", "float64", *large) == "staged"
    assert method("sm_75", "float16", *large) == method("gfx90a", "float16", *large) == "staged"
    assert method("sm_90", "float16", 512, 64, 64, 64) == method("sm_90", "float16", 1, 64, 64, 1 << 16) == "mma"
    assert method("sm_90", "float16", *large, method="staged") == "staged"


@pytest.mark.host
def test_limits() -> None:
    profile, half = by_target("sm_90")[0], MatmulProblem("float16", 1, 4096, 4096, 4096)
    spec = FAMILY.default(profile, half)
    assert FAMILY.check(profile, half, spec) is None

    def why(problem: MatmulProblem = half, **fields: Any) -> str:
        return str(FAMILY.check(profile, problem, dataclasses.replace(spec, **fields)))

    assert "float32; it is accepted for float16 and float64" in why(dataclasses.replace(half, dtype="float32"))
    assert "the staged tiles need 65536 bytes" in why(buffers=4)
    assert "buffers is 1; 2 to 4 are accepted" in why(buffers=1)
    assert "powers of two are accepted, tile_k from 16" in why(tile_k=8)
    assert "multiples of 8 and 4 are accepted" in why(lanes_m=4, rows=32)
    assert "at most 128 are accepted" in why(tile_k=16, tile_m=256, rows=16)
    assert "multiples of 2 and 4" in why(tile_n=16, columns=2)
    assert "1 and 2 are accepted" in why(MatmulProblem("float32", 1, 9, 9, 9), method="staged", buffers=3)


@pytest.mark.host
def test_a_device_without_tensor_cores_refuses() -> None:
    x = np.zeros((64, 64), "f2")
    with pytest.raises(InvalidArgument, match="method is 'mma' and the result float16; it is accepted for"):
        dry_run(target_of("sm_75"), pydp.matmul, x, x, spec=SPECS["f2"])


@pytest.mark.host
def test_chunks_are_copied_if_they_are_aligned() -> None:
    assert is_copied(Matrix(8, 64, 1, (128,)), 64, 1, 2)
    assert is_copied(Matrix(0, 1, 64, ()), 1, 64, 2)
    for other in (Matrix(4, 64, 1, ()), Matrix(0, 68, 1, ()), Matrix(0, 64, 1, (4,)), Matrix(0, 64, 2, ())):
        assert not is_copied(other, other.row, other.col, 2)
    assert is_copied(Matrix(2, 66, 1, ()), 66, 1, 8)


@pytest.mark.host
def test_memory_of_the_host_may_begin_anywhere() -> None:
    profile = by_target("sm_87")[0]
    spec = FAMILY.default(profile, MatmulProblem("float16", 1, 64, 64, 64))
    square = Matrix(0, 64, 1, ())
    for shared in (False, True):
        device = dataclasses.replace(profile, shares_host_memory=shared)
        found = params(device, arithmetic(np.dtype("f2")), spec, (square, square, square), 0, (True, True))
        assert found["pairs"] is found["copied"]["a"] is found["copied"]["b"] is (not shared)


@pytest.mark.host
def test_counts() -> None:
    profile, problem = by_target("sm_90")[0], MatmulProblem("float16", 1, 4096, 4096, 4096)
    spec = FAMILY.default(profile, problem)
    assert (spec.tile_m, spec.tile_n, spec.tile_k, spec.lanes_m, spec.lanes_n, spec.buffers) == (128, 128, 32, 16, 8, 3)
    phase = mma_phase(profile, problem, spec, 4096, 1)
    assert (phase.groups, phase.lanes, phase.barriers, phase.local_bytes) == (1024, 128, 128, 48 << 10)
    assert phase.operations == 2 * 4096**3 / 10
    assert phase.registers == 8 * 16 + 2 * 8 + 16 + 64
