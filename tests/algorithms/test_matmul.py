"""matmul against NumPy and against plain sums: sizes, strides, batches, factors, dtypes, errors."""

from __future__ import annotations

import itertools
from dataclasses import replace
from itertools import product
from typing import Any

import needs
import numpy as np
import pytest
from banked import banked

import pydp
from pydp.algorithms.matmul import MatmulSpec

# Kernels with large register tiles and blocks take seconds to build: test_all_sizes runs them with float32. Small ones
# make many tiles, and several blocks of k, of small matrices.
LARGE = [None, {"mapping": "vector", "method": "packed"}, {"mapping": "simt"}]
SMALL = {"mapping": "vector", "method": "packed", "rows": 2, "columns": 16, "tile_m": 24, "tile_n": 32, "tile_k": 32}
SMALL_SIMT = {"mapping": "simt", "method": "staged", "tile_m": 16, "tile_n": 16, "tile_k": 8, "rows": 2, "columns": 2}
SMALL_SIMT |= {"lanes_m": 8, "lanes_n": 8, "width": 1, "unroll": 1, "pad": 0, "parts": 1, "buffers": 1}
MAPPINGS = [None, SMALL, SMALL_SIMT]
LIGHT = [{"mapping": "vector"}, SMALL, SMALL_SIMT]
SIZES_M, SIZES_N, SIZES_K = (1, 2, 7, 64, 130), (1, 3, 64, 131), (0, 1, 17, 64, 200)


def _integers(shape: tuple[int, ...], dtype: Any, seed: int = 0) -> np.ndarray:
    return np.random.default_rng(seed).integers(-9, 10, shape).astype(dtype)


def _reference(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    """The product as a sum of outer products, in exact arithmetic for small integers."""
    total = np.zeros((a.shape[0], b.shape[1]), np.int64)
    for k in range(a.shape[1]):
        total += np.multiply.outer(a[:, k].astype(np.int64), b[k].astype(np.int64))
    return total


def _supported(device: Any, dtype: Any) -> bool:
    return device.profile.fp64 or np.dtype(dtype) not in (np.dtype("f8"), np.dtype("c16"))


@pytest.mark.sweep
@pytest.mark.parametrize("number", range(3), ids=["default", "packed", "simt"])
@pytest.mark.parametrize("dtype", ["i4", "f4"])
def test_all_sizes_are_exact_for_integers(device: Any, dtype: str, number: int) -> None:
    spec = (LARGE if dtype == "f4" else MAPPINGS)[number]
    sizes = list(product(SIZES_M, SIZES_N, SIZES_K))
    if spec == LARGE[-1]:  # PoCL builds its tiles for larger matrices in 17 and 35 seconds
        sizes = [one for one in sizes if max(one[:2]) <= 64] + [(130, 131, 200)]
    for m, n, k in sizes:
        a, b = _integers((m, k), dtype, m + k), _integers((k, n), dtype, n * k)
        got = pydp.matmul(a, b, spec=spec)
        assert got.shape == (m, n) and got.dtype == a.dtype
        assert np.array_equal(got, _reference(a, b)), (m, n, k)


@pytest.mark.parametrize("spec", MAPPINGS, ids=["default", "packed", "simt"])
def test_strides(device: Any, spec: Any) -> None:
    for m, n, k in [(70, 67, 65), (1, 80, 33), (80, 1, 33), (3, 50, 40), (50, 3, 40)]:
        a, b = _integers((m, k), "i4"), _integers((k, n), "i4", 1)
        expected = _reference(a, b)
        for left in _layouts(a):
            for right in _layouts(b):
                assert np.array_equal(pydp.matmul(left, right, spec=spec), expected), (
                    m,
                    n,
                    k,
                    left.strides,
                    right.strides,
                )


def _layouts(x: np.ndarray) -> list[np.ndarray]:
    """The same matrix: contiguous, Fortran order, reversed, every other element of a larger one, with an offset."""
    spread = np.full((2 * x.shape[0] + 1, 3 * x.shape[1] + 2), 77, x.dtype)
    spread[1::2, 2::3][: x.shape[0], : x.shape[1]] = x
    shifted = np.full((x.shape[0] + 1, x.shape[1] + 3), 55, x.dtype)
    shifted[1:, 3:] = x
    return [x, np.asfortranarray(x), x[::-1, ::-1].copy()[::-1, ::-1], spread[1::2, 2::3], shifted[1:, 3:]]


def test_stride_of_zero(device: Any) -> None:
    row = _integers((1, 40), "i4")
    a = np.broadcast_to(row, (30, 40))
    b = np.broadcast_to(np.int32(3), (40, 20))
    assert np.array_equal(pydp.matmul(a, b), _reference(a, b))


@pytest.mark.parametrize("spec", MAPPINGS, ids=["default", "packed", "simt"])
@pytest.mark.parametrize(
    ("shape_a", "shape_b"),
    [
        ((5,), (5,)), ((5,), (5, 7)), ((7, 5), (5,)), ((4, 7, 5), (5,)), ((5,), (4, 5, 3)), ((4, 7, 5), (5, 6)),
        ((4, 1, 5), (5, 6)), ((7, 5), (3, 5, 6)), ((2, 3, 7, 5), (3, 5, 6)), ((2, 1, 7, 5), (1, 3, 5, 6)),
        ((2, 1, 2, 1, 7, 5), (3, 1, 2, 5, 6)), ((0, 7, 5), (5, 6)), ((3, 0, 5), (5, 6)), ((3, 7, 0), (0, 6)),
        ((3, 7, 5), (5, 0)), ((1, 1, 7, 5), (1, 5, 6)), ((0,), (0,)),
    ],
)  # fmt: skip
def test_vectors_and_batches(device: Any, shape_a: tuple[int, ...], shape_b: tuple[int, ...], spec: Any) -> None:
    a, b = _integers(shape_a, "i4"), _integers(shape_b, "i4", 1)
    expected = np.matmul(a, b)
    got = pydp.matmul(a, b, spec=spec)
    assert np.shape(got) == np.shape(expected) and np.array_equal(got, expected)


def test_strided_batches(device: Any) -> None:
    a = _integers((3, 4, 6, 9), "i4").transpose(2, 0, 3, 1)  # batch 6, 3; 9 x 4
    b = _integers((6, 1, 5, 4), "i4", 1).swapaxes(-1, -2)
    assert np.array_equal(pydp.matmul(a, b), np.matmul(a, b))
    assert np.array_equal(pydp.matmul(a[::-1, ::2], b[::-1]), np.matmul(a[::-1, ::2], b[::-1]))


@pytest.mark.parametrize(
    ("shape_a", "columns"),
    [((3, 2, 8), 2), ((3, 2, 8), 5), ((2, 3, 2, 44), 3), ((2, 3, 1, 44), 4), ((2, 3, 4, 9), 17), ((2, 3, 5, 20), 2)],
)
def test_thin_batches_that_are_copied_first(device: Any, shape_a: tuple[int, ...], columns: int) -> None:
    """Axes that follow one another in the copy alone are no reason to compute another product than was chosen for."""
    a, b = _integers(shape_a, "i4"), _integers((shape_a[-1], columns), "i4", 1)
    first = np.ascontiguousarray(a.T).T
    several = _integers((shape_a[0], *(1,) * (len(shape_a) - 3), *b.shape), "i4", 2)
    operands = [(first, np.asfortranarray(b)), (first[..., ::-1], b[::-1]), (b.T, first.swapaxes(-1, -2))]
    for left, right in [*operands, (first, np.ascontiguousarray(several.T).T)]:
        assert np.array_equal(pydp.matmul(left, right), np.matmul(left, right)), (left.strides, right.strides)


PACKED, THIN, SIMT = (70, 67, 65), (2, 40, 30), (45, 40, 33)
# Every dtype goes through the packed kernel; the others share its element access, so a few of each kind do.
DTYPES = {
    "?": [PACKED, SIMT], "i1": [PACKED], "u1": [PACKED], "i2": [PACKED], "u2": [PACKED], "u4": [PACKED],
    "i8": [PACKED], "u8": [PACKED, SIMT], "f2": [PACKED, THIN, SIMT], "f8": [PACKED], "c8": [PACKED, THIN, SIMT],
    "c16": [PACKED],
}  # fmt: skip


@pytest.mark.sweep
@pytest.mark.parametrize("dtype", DTYPES)
def test_dtypes(device: Any, dtype: str) -> None:
    if not _supported(device, dtype):
        with pytest.raises(pydp.UnsupportedOnDevice, match="float64"):
            pydp.matmul(np.ones((2, 2), dtype), np.ones((2, 2), dtype), device=device)
        pytest.skip("the device has no float64")
    for m, n, k in DTYPES[dtype]:
        a, b = _integers((m, k), dtype), _integers((k, n), dtype, 1)
        if dtype[0] == "c":
            a, b = a + 1j * _integers((m, k), dtype, 2), b - 1j * _integers((k, n), dtype, 3)
            a, b = a.astype(dtype), b.astype(dtype)
        spec = {SIMT: SMALL_SIMT, THIN: {"mapping": "vector"}, PACKED: SMALL}[m, n, k]
        got = pydp.matmul(a, b, spec=spec)
        expected = np.matmul(a, b)
        assert got.dtype == expected.dtype
        # Small integers are exact in every type, except where sums leave float16's 11 bits: one rounding then.
        wide = np.matmul(a.astype("f4"), b.astype("f4")).astype("f2") if dtype == "f2" else expected
        assert np.array_equal(got, wide), (m, n, k, spec)


def test_wrapping_integers(device: Any) -> None:
    for dtype in ("i1", "i4", "u8"):
        info = np.iinfo(dtype)
        rng = np.random.default_rng(3)
        a = rng.integers(info.min, info.max, (9, 700), dtype, endpoint=True)
        b = rng.integers(info.min, info.max, (700, 70), dtype, endpoint=True)
        assert np.array_equal(pydp.matmul(a, b, spec=SMALL), np.matmul(a, b)), dtype


@pytest.mark.parametrize(("left", "right"), [("i1", "f4"), ("u1", "i4"), ("f4", "c8"), ("f2", "?")])
def test_mixed_dtypes_follow_numpy(device: Any, left: str, right: str) -> None:
    a, b = np.abs(_integers((20, 9), "i4")).astype(left), _integers((9, 21), right, 1)
    expected = np.matmul(a, b)
    got = pydp.matmul(a, b, spec=SMALL)
    assert got.dtype == expected.dtype and np.array_equal(got, expected)


def test_byte_order_and_lists(device: Any) -> None:
    a, b = _integers((6, 5), "i4"), _integers((5, 4), "i4", 1)
    assert np.array_equal(pydp.matmul(a.astype(">i4"), b), _reference(a, b))
    assert np.array_equal(pydp.matmul([[1, 2], [3, 4]], [5, 6]), [17, 39])


@pytest.mark.parametrize("spec", LIGHT, ids=["vector", "packed", "simt"])
@pytest.mark.parametrize(("alpha", "beta"), [(1, 0), (3, 0), (1, 1), (2, 1), (-2, 3), (0, 2)])
def test_factors(device: Any, alpha: int, beta: int, spec: Any) -> None:
    for dtype in ("i4", "c8"):
        for m, n, k in [(70, 67, 65), (2, 80, 30)]:
            a, b, c = _integers((m, k), dtype), _integers((k, n), dtype, 1), _integers((m, n), dtype, 2)
            one, two = (alpha, beta) if dtype == "i4" else (alpha + 1j, beta - 2j if beta else 0)
            expected = one * np.matmul(a, b) + two * c
            got = pydp.matmul(a, b, alpha=one, beta=two, out=c, spec=spec)
            assert got is c and np.array_equal(c, expected), (dtype, m, n, k)


@pytest.mark.parametrize("spec", LIGHT, ids=["vector", "packed", "simt"])
@pytest.mark.parametrize("dtype", ["f4", "c8"])
def test_results_are_scaled_and_not_the_left_matrix(device: Any, dtype: str, spec: Any) -> None:
    """alpha * (a @ b) is finite where (alpha * a) @ b is not."""
    a = np.eye(70, dtype=dtype) * np.array(1e20, dtype)
    b = np.eye(70, dtype=dtype) * np.array(1e-20, dtype)
    got = pydp.matmul(a, b, alpha=1e30, spec=spec)
    assert np.allclose(got, 1e30 * np.eye(70), rtol=1e-5, atol=0)


def test_integer_factors_wrap(device: Any) -> None:
    a, b = _integers((4, 5), "i4"), _integers((5, 6), "i4", 1)
    c = np.full((4, 6), -7, "i4")
    with np.errstate(over="ignore"):
        expected = np.int32(-(2**31)) * np.matmul(a, b) + np.int32(2**31 - 1) * c
    assert np.array_equal(pydp.matmul(a, b, alpha=-(2**31), beta=2**31 - 1, out=c), expected)


@pytest.mark.sweep
@pytest.mark.parametrize("spec", LIGHT, ids=["vector", "packed", "simt"])
def test_float_error_bound(device: Any, spec: Any) -> None:
    rng = np.random.default_rng(5)
    for dtype in [name for name in ("f4", "f8") if _supported(device, name)]:
        eps = np.finfo(dtype).eps
        for m, n, k, alpha, beta in [(130, 131, 200, 1.0, 0.0), (65, 70, 900, -0.3, 0.7), (2, 90, 3000, 1.5, 1.0)]:
            a, b, c = (rng.standard_normal(shape).astype(dtype) for shape in ((m, k), (k, n), (m, n)))
            exact = np.dtype(dtype).type(alpha) * np.matmul(
                a.astype(np.longdouble), b.astype(np.longdouble)
            ) + beta * c.astype(np.longdouble)
            bound = (
                3
                * eps
                * (
                    np.sqrt(k + 2) * abs(alpha) * np.linalg.norm(a) * np.linalg.norm(b)
                    + 2 * abs(beta) * np.linalg.norm(c)
                )
            )
            got = pydp.matmul(a, b, alpha=alpha, beta=beta, out=c, spec=spec)
            assert np.linalg.norm((got - exact).astype(float)) <= bound, (dtype, m, n, k)


def test_float16_adds_in_float32(device: Any) -> None:
    for k in (300, 5000):
        a, b = np.full((3, k), 0.25, "f2"), np.full((k, 9), 0.5, "f2")
        for spec in LIGHT[1:]:
            assert np.array_equal(pydp.matmul(a, b, spec=spec), np.full((3, 9), k / 8, "f2"))


@pytest.mark.parametrize("spec", MAPPINGS, ids=["default", "packed", "simt"])
def test_nan_and_infinity(device: Any, spec: Any) -> None:
    for m, n, k in [(20, 70, 33), (2, 70, 33)]:
        a, b = np.ones((m, k), "f4"), np.ones((k, n), "f4")
        out = np.full((m, n), np.nan, "f4")
        assert np.array_equal(pydp.matmul(a, b, beta=0.0, out=out, spec=spec), np.full((m, n), k, "f4"))
        a[1, 3], b[5, 2] = np.nan, np.inf
        got = pydp.matmul(a, b, spec=spec)
        with np.errstate(invalid="ignore"):
            assert np.array_equal(got, np.matmul(a, b), equal_nan=True)
    inf = np.full((3, 2), np.inf + 0j, "c8")
    assert np.all(np.isnan(pydp.matmul(inf, np.ones((2, 3), "c8"), spec=spec).imag))


@pytest.mark.parametrize("spec", MAPPINGS, ids=["default", "packed", "simt"])
def test_nothing_outside_out_is_written(device: Any, spec: Any) -> None:
    for m, n, k in [(65, 67, 33), (2, 67, 33), (67, 2, 33), (64, 64, 64)]:
        a, b = _integers((m, k), "i4"), _integers((k, n), "i4", 1)
        for transposed in (False, True):
            frame = np.full((m + 6, 2 * n + 7) if not transposed else (n + 7, 2 * m + 6), -99, "i4")
            inside = frame[3 : m + 3, 3 : n + 3] if not transposed else frame[3 : n + 3, 2 : 2 * m + 2 : 2].T
            untouched = frame.copy()
            (untouched[3 : m + 3, 3 : n + 3] if not transposed else untouched[3 : n + 3, 2 : 2 * m + 2 : 2].T)[...] = (
                _reference(a, b)
            )
            assert pydp.matmul(a, b, out=inside, spec=spec) is inside
            assert np.array_equal(frame, untouched), (m, n, k, transposed)


def test_out_may_overlap_inputs(device: Any) -> None:
    a, b = _integers((70, 70), "i4"), _integers((70, 70), "i4", 1)
    for factors in ({}, {"alpha": 2, "beta": 3}):
        left = a.copy()
        expected = factors.get("alpha", 1) * np.matmul(a, b) + factors.get("beta", 0) * a
        assert np.array_equal(pydp.matmul(left, b, out=left, **factors), expected)
        square = a.copy()
        expected = factors.get("alpha", 1) * np.matmul(a, a) + factors.get("beta", 0) * a.T
        pydp.matmul(square, square, out=square.T, **factors)
        assert np.array_equal(square.T, expected)
    field = pydp.field(a, device=device)
    pydp.matmul(field, field, out=field)
    assert np.array_equal(field.get(), np.matmul(a, a))


def test_fields_and_arrays(device: Any) -> None:
    import pyopencl.array

    a, b = _integers((33, 20), "i4"), _integers((20, 35), "i4", 1)
    field = pydp.matmul(pydp.field(a, device=device), pydp.field(b, device=device))
    assert isinstance(field, pydp.Field) and np.array_equal(field.get(), _reference(a, b))
    assert np.array_equal((pydp.field(b, device=device).T @ pydp.field(a, device=device).T).get(), _reference(a, b).T)
    arrays = [pyopencl.array.to_device(device.queue, x) for x in (a, b)]
    array = pydp.matmul(*arrays)
    assert isinstance(array, pyopencl.array.Array) and np.array_equal(array.get(), _reference(a, b))
    part = pydp.matmul(pydp.field(a, device=device)[3:, ::-2], b[::2])
    assert np.array_equal(part.get(), _reference(a[3:, ::-2], b[::2]))


def test_parts_of_k_are_added(device: Any) -> None:
    a, b, c = _integers((5, 4000), "i4"), _integers((4000, 9), "i4", 1), _integers((5, 9), "i4", 2)
    expected = 2 * _reference(a, b) + 3 * c
    for spec in ({"parts": 3}, {**SMALL_SIMT, "parts": 7}, {**SMALL, "parts": 5}):
        out = c.copy()
        assert np.array_equal(pydp.matmul(a, b, alpha=2, beta=3, out=out, spec=spec), expected), spec
    dot = _integers((1 << 18,), "i4")
    assert pydp.matmul(dot, dot) == int((dot.astype(np.int64) ** 2).sum())


def test_same_bits_run_after_run(device: Any) -> None:
    rng = np.random.default_rng(8)
    a, b = rng.standard_normal((70, 900)).astype("f4"), rng.standard_normal((900, 66)).astype("f4")
    first = pydp.matmul(a, b, spec={"parts": 4})
    for _ in range(5):
        assert np.array_equal(first, pydp.matmul(a, b, spec={"parts": 4}))


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"a": np.float32(3)}, "at least one axis"),
        ({"b": np.ones((4, 4), "f4")}, "3 columns"),
        ({"a": np.ones((2, 2, 3), "f4"), "b": np.ones((5, 3, 4), "f4")}, "broadcast"),
        ({"a": np.array([["x"] * 3] * 2)}, "dtype"),
        ({"a": np.ones((2, 3), "M8[s]")}, "dtype"),
        ({"alpha": "two"}, "alpha is 'two'"),
        ({"alpha": 1j}, "real number"),
        ({"beta": 2, "out": None}, "needs out="),
        ({"out": np.zeros((2, 5), "f4")}, r"shape \(2, 5\)"),
        ({"out": np.zeros((2, 4), "f8")}, "float64"),
        ({"out": np.broadcast_to(np.float32(0), (2, 4))}, "read-only"),
        ({"spec": {"tile_q": 3}}, "tile_q"),
        ({"spec": {"mapping": "scalar"}}, "'vector' with 'packed', 'direct' or 'thin'"),
        ({"spec": 5}, "MatmulSpec"),
        ({"spec": {"mapping": "simt", "width": 3}}, "1, 2 or 4"),
        ({"queue": 3}, "CommandQueue"),
        ({"wait_for": "soon"}, "Event"),
    ],
)
def test_errors_name_the_value_and_leave_out_alone(device: Any, change: dict[str, Any], words: str) -> None:
    out = np.full((2, 4), -3, "f4")
    args = {"a": np.ones((2, 3), "f4"), "b": np.ones((3, 4), "f4"), "out": out, **change}
    with pytest.raises(pydp.InvalidArgument, match=words) as caught:
        pydp.matmul(args.pop("a"), args.pop("b"), **args)
    assert "\n" not in str(caught.value)
    assert np.all(out == -3)


def test_factors_that_print_alike_are_told_apart(device: Any) -> None:
    needs.dtype(device, "float64")
    one, c = np.eye(2), np.ones((2, 2))
    for value in (0.123456789012, 0.123456789999):  # an array of one prints 8 digits
        assert pydp.matmul(one, one, alpha=np.array(value))[0, 0] == value
        assert pydp.matmul(one, one, beta=np.array(value), out=c.copy())[0, 1] == value
    assert pydp.matmul(one, one, alpha=10**30)[1, 1] == 1e30
    for wrong in (10**400, [1, [2]]):
        with pytest.raises(pydp.InvalidArgument, match="alpha is"):
            pydp.matmul(one, one, alpha=wrong)


def test_integer_factors_must_be_integers(device: Any) -> None:
    a = np.ones((2, 2), "i2")
    for alpha in (0.5, float("nan"), float("inf"), 1 << 20):
        with pytest.raises(pydp.InvalidArgument, match="an integer from -32768 to 32767"):
            pydp.matmul(a, a, alpha=alpha)
    assert np.array_equal(pydp.matmul(a, a, alpha=2.0), [[4, 4], [4, 4]])


def test_a_given_specialization_runs(device: Any) -> None:
    a, b = _integers((100, 90), "i4"), _integers((90, 110), "i4", 1)
    spec = MatmulSpec("vector", "packed", 12, 32, 32, 4, 16, width=8, unroll=2)
    assert np.array_equal(pydp.matmul(a, b, spec=spec), _reference(a, b))
    spec = MatmulSpec("simt", "staged", 12, 20, 5, 3, 5, 4, 4, width=1, pad=1)
    assert np.array_equal(pydp.matmul(a, b, spec=spec), _reference(a, b))


@pytest.mark.oclgrind
@pytest.mark.parametrize("dtype", ["f4", "c8"])
def test_one_buffer_and_two_give_the_same(device: Any, dtype: str) -> None:
    rng = np.random.default_rng(0)
    a, b = (rng.random(shape, "f4").astype(dtype) for shape in ((21, 30), (30, 17)))
    spec = MatmulSpec("simt", "staged", 8, 8, 4, 2, 2, 4, 4, width=2, pad=2)
    two, one = (pydp.matmul(a, b, spec=replace(spec, buffers=buffers)) for buffers in (2, 1))
    assert two.tobytes() == one.tobytes()
    np.testing.assert_allclose(two, a @ b, rtol=1e-4)
    told = [str(pydp.explain(pydp.matmul, a, b, spec=replace(spec, buffers=buffers))) for buffers in (1, 2)]
    assert "two buffers" in told[1] and "one buffer" in told[0] and "'reads_end'" in told[0]


def test_explain(device: Any) -> None:
    a, b = np.ones((300, 200), "f4"), np.ones((200, 310), "f4")
    told = pydp.explain(pydp.matmul, a, b)
    assert told.facts["result"] == "float32 (300, 310)"
    assert told.sources and all("__kernel" in text for text in told.sources.values())
    assert "matmul" in str(told) and told.choices


@pytest.mark.oclgrind
@pytest.mark.parametrize("spec", MAPPINGS, ids=["default", "packed", "simt"])
def test_small_products_of_every_kernel(device: Any, spec: Any) -> None:
    for m, n, k in [(5, 6, 7), (1, 9, 10), (3, 1, 4)]:
        a, b, c = _integers((m, k), "i4"), _integers((k, n), "i4", 1), _integers((m, n), "i4", 2)
        expected = _reference(a, b) + c
        assert np.array_equal(pydp.matmul(a, b, beta=1, out=c, spec=spec), expected)


DIRECT = {"mapping": "vector", "method": "direct"}
# Blocks of one or two small register tiles: most tiles are at an edge, and work-groups compute runs of blocks.
DIRECT_SPECS = [DIRECT, {**DIRECT, "rows": 3, "columns": 8, "width": 4, "tile_m": 6, "tile_n": 8, "unroll": 2}]


@pytest.mark.sweep
@pytest.mark.parametrize("spec", DIRECT_SPECS, ids=["default", "small"])
def test_direct_products(device: Any, spec: Any) -> None:
    sizes = [(1, 2), (2, 3), *itertools.product((7, 33), (5, 31, 130))]
    for (m, n), k in itertools.product(sizes, (0, 17)):
        a, b, c = _integers((m, k), "i4"), _integers((k, n), "i4", 1), _integers((m, n), "i4", 2)
        expected = _reference(a, b)
        for left in _layouts(a):
            assert np.array_equal(pydp.matmul(left, b, spec=spec), expected), (m, n, k, left.strides)
        for beta in (1, -2):
            out = c.copy()
            pydp.matmul(a, b, alpha=3, beta=beta, out=out, spec=spec)
            assert np.array_equal(out, 3 * expected + beta * c), (m, n, k, beta)


@pytest.mark.parametrize("spec", DIRECT_SPECS, ids=["default", "small"])
def test_direct_batches(device: Any, spec: Any) -> None:
    a, b = _integers((6, 5, 13, 9), "i4"), _integers((5, 9, 21), "i4", 1)
    expected = np.matmul(a, b)
    assert np.array_equal(pydp.matmul(a, b, spec=spec), expected)
    assert np.array_equal(pydp.matmul(a[::-1, ::2], b[::2], spec=spec), expected[::-1, ::2])
    outer = _integers((3, 2, 2, 9, 8), "i4", 2)  # more batch axes than one launch has
    assert np.array_equal(pydp.matmul(a[0, :2], outer, spec=spec), np.matmul(a[0, :2], outer))
    assert np.array_equal(pydp.matmul(a[0, 0], outer, spec={**spec, "parts": 3}), np.matmul(a[0, 0], outer))


@pytest.mark.sweep
@pytest.mark.parametrize("dtype", DTYPES)
def test_direct_dtypes(device: Any, dtype: str) -> None:
    if not _supported(device, dtype):
        pytest.skip("the device has no float64")
    a, b = _integers((3, 11, 10), dtype), _integers((3, 10, 37), dtype, 1)
    if dtype[0] == "c":
        a, b = (
            (a + 1j * _integers(a.shape, dtype, 2)).astype(dtype),
            (b - 1j * _integers(b.shape, dtype, 3)).astype(dtype),
        )
    for spec in DIRECT_SPECS:
        assert np.array_equal(pydp.matmul(a, b, spec=spec), np.matmul(a, b))
        out = np.full((3, 13, 40), 3).astype(dtype)
        pydp.matmul(a, b, out=out[:, 1:-1, 2:-1], spec=spec)
        assert np.array_equal(out[:, 1:-1, 2:-1], np.matmul(a, b))
        out[:, 1:-1, 2:-1] = 3
        assert np.all(out == np.full(1, 3).astype(dtype))


def test_direct_products_need_rows_of_b(device: Any) -> None:
    for a, b in [((4, 5), (8, 5)), ((4, 5), (1, 5))]:
        with pytest.raises(pydp.InvalidArgument, match="method is 'direct'; it is accepted if the rows of b"):
            pydp.matmul(np.ones(a, "f4"), np.ones(b, "f4").T, spec=DIRECT)


@pytest.mark.oclgrind
@pytest.mark.parametrize("spec", DIRECT_SPECS, ids=["default", "small"])
def test_small_direct_products(device: Any, spec: Any) -> None:
    for m, n, k in [(5, 6, 7), (13, 19, 4), (7, 35, 3)]:
        a, b, c = _integers((2, m, k), "i4"), _integers((2, k, n), "i4", 1), _integers((2, m, n), "i4", 2)
        for beta in (0, 1):
            out = c.copy()
            pydp.matmul(a, b, beta=beta, out=out, spec={**spec, "parts": 1 + beta})
            assert np.array_equal(out, np.matmul(a, b) + beta * c)


@pytest.mark.oclgrind
def test_small_thin_products_and_parts(device: Any) -> None:
    a, b = _integers((2, 40), "i4"), _integers((40, 9), "i4", 1)
    for right in (b, np.asfortranarray(b)):
        got = pydp.matmul(a, right, spec={"mapping": "vector", "parts": 2})
        assert np.array_equal(got, _reference(a, b))


@pytest.mark.huge
def test_more_than_2_to_the_31_results(device: Any) -> None:
    m, n, k = 46400, 46400, 2
    rng = np.random.default_rng(0)
    a, b = rng.integers(0, 5, (m, k)).astype("i1"), rng.integers(0, 5, (k, n)).astype("i1")
    got = pydp.matmul(a, b)
    for rows in (slice(0, 64), slice(m - 64, m)):
        assert np.array_equal(got[rows], np.matmul(a[rows], b))


@pytest.mark.huge
def test_more_than_2_to_the_31_terms(device: Any) -> None:
    k = (1 << 31) + 12345
    a = np.ones(k, "u1")
    a[-5:] = 3
    assert int(pydp.matmul(a, a)) == (k - 5 + 45) % 256


@pytest.mark.parametrize("dtype", ["f4", "c8"])
def test_staging_for_banks(device: Any, dtype: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """As a device with 32 banks stages its tiles: neighbouring lanes along k and across it, rows padded."""
    a, b = _integers((70, 90), dtype), _integers((90, 50), dtype, 1)
    with banked(device, monkeypatch):
        for left, right in ((a, b), (np.asfortranarray(a), np.asfortranarray(b))):
            assert np.array_equal(pydp.matmul(left, right, spec={"mapping": "simt"}), a @ b)
        told = str(pydp.explain(pydp.matmul, a, b, spec={"mapping": "simt"}))
        assert "conflict degree 1," in told or device.kind == "gpu"  # GPUs choose among all specializations


# Small groups whose lanes read vectors: of 4 or 2 elements, one or several per lane and tile, two lane layouts.
_READING = {"mapping": "simt", "method": "staged", "tile_m": 16, "tile_n": 16, "tile_k": 8, "rows": 4, "columns": 2}
READING = [
    {**_READING, "lanes_m": 4, "lanes_n": 8, "width": 2, "pad": 2, "unroll": 8, "buffers": 2},
    {**_READING, "tile_k": 16, "columns": 4, "lanes_m": 4, "lanes_n": 4, "width": 4, "pad": 4, "unroll": 1,
     "buffers": 1},
]  # fmt: skip


@pytest.mark.sweep
@pytest.mark.parametrize("dtypes", ["f4 f4", "i1 u1", "? ?", "c8 f2", "c16 f8"])
@pytest.mark.parametrize("number", range(2))
def test_lanes_read_vectors(device: Any, dtypes: str, number: int, monkeypatch: pytest.MonkeyPatch) -> None:
    left, right = dtypes.split()
    if not _supported(device, np.result_type(left, right)):
        pytest.skip("the device has no float64")
    for m, n, k in [(36, 20, 44), (18, 18, 26)]:
        a, b = _integers((m, k), "i1").astype(left), _integers((k, n), "i1", 1).astype(right)
        if left[0] == "c":
            a = (a + 1j * _integers((m, k), "i1", 2)).astype(left)
        expected = np.matmul(a, b)
        for parts, (x, y) in enumerate(zip(_layouts(a), [*_layouts(b)[1:], b], strict=True), 1):
            got = pydp.matmul(x, y, spec={**READING[number], "parts": parts % 3 + 1})
            assert np.array_equal(got, expected), (m, n, k, x.strides, y.strides)
        with banked(device, monkeypatch):
            assert np.array_equal(pydp.matmul(a, b, spec=READING[number]), expected), (m, n, k)
        # Copies begin at aligned addresses, so lanes read them as vectors of C.
        with monkeypatch.context() as patched:
            patched.setattr(device, "_profile", replace(device.profile, shares_host_memory=False))
            assert np.array_equal(pydp.matmul(a, b, spec=READING[number]), expected), (m, n, k)


@pytest.mark.oclgrind
@pytest.mark.parametrize("number", range(2))
def test_reads_of_vectors_stay_inside(device: Any, number: int) -> None:
    for m, n, k in [(20, 12, 12), (18, 10, 6), (17, 9, 5)]:
        a, b = _integers((m, k), "f4"), _integers((k, n), "f4", 1)
        for x, y in ((a, b), (np.asfortranarray(a), np.asfortranarray(b))):
            assert np.array_equal(pydp.matmul(x, y, spec=READING[number]), a @ b)


@pytest.mark.parametrize("method", ["packed", "direct", "thin"])
def test_vectors_of_two_complex_numbers(device: Any, method: str) -> None:
    """The default for complex128 on CPUs whose vectors have 16 bytes."""
    a, b = (_integers(shape, "c8", 1) + 1j * _integers(shape, "c8", 2) for shape in ((3, 8), (8, 9)))
    spec = {"mapping": "vector", "method": method, "rows": 3, "width": 2, "columns": 4, "tile_n": 4, "unroll": 1}
    assert np.array_equal(pydp.matmul(a, b, spec=spec), a @ b)
