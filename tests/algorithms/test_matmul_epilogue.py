"""matmul with an epilogue against NumPy: methods, operands, factors, dtypes, memory shared with the result, errors."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import pydp
import pydp.math as pm
from pydp.algorithms import pieces

PACKED = {"mapping": "vector", "method": "packed", "rows": 2, "columns": 16, "tile_m": 24, "tile_n": 32, "tile_k": 32}
STAGED = {"mapping": "simt", "method": "staged", "tile_m": 16, "tile_n": 16, "tile_k": 8, "rows": 2, "columns": 2}
STAGED |= {"lanes_m": 8, "lanes_n": 8, "width": 1, "unroll": 1, "pad": 0, "parts": 1, "buffers": 1}
DIRECT = {"mapping": "vector", "method": "direct"}
SPECS = {"packed": PACKED, "direct": DIRECT, "staged": STAGED, "split-k": {**STAGED, "parts": 3}}


def _integers(shape: tuple[int, ...], dtype: Any = "f4", seed: int = 0) -> np.ndarray:
    """Small integers: sums and products of them are exact in every dtype."""
    return np.random.default_rng(seed).integers(-9, 10, shape).astype(dtype)


def _factors(dtype: Any, m: int = 37, n: int = 35, k: int = 70) -> tuple[np.ndarray, np.ndarray]:
    a, b = _integers((m, k), dtype), _integers((k, n), dtype, 1)
    return (a + 1j * b[:1, :1], b - 2j * a[:1, :1]) if np.dtype(dtype).kind == "c" else (a, b)


def _check(expected: np.ndarray, a: Any, b: Any, **options: Any) -> np.ndarray:
    got = pydp.matmul(a, b, **options)
    assert got.dtype == np.result_type(a, b) and got.shape == np.shape(expected)
    assert np.array_equal(got, expected), options
    return got


def scaled(v: Any, scale: Any, bias: Any) -> Any:
    return max(v * scale + bias, -50)


def capped(v: Any, other: Any) -> Any:
    if v > 40:
        return other
    return v + other


@pytest.mark.parametrize("how", SPECS)
@pytest.mark.parametrize("dtype", ["f4", "i4"])
def test_methods(device: Any, dtype: str, how: str) -> None:
    """Rows, columns, matrices and numbers as operands, in every layout; one kernel for each layout of columns."""
    a, b = _factors(dtype)
    matrix, row, column = _integers((37, 35), dtype, 2), _integers((35,), dtype, 3), _integers((37, 1), dtype, 4)
    for scale, bias in [(row, column), (3, matrix), (matrix[::-1], np.asfortranarray(matrix))]:
        _check(np.maximum(a @ b * scale + bias, -50), a, b, epilogue=(scaled, scale, bias), spec=SPECS[how])


@pytest.mark.oclgrind
@pytest.mark.parametrize("how", SPECS)
def test_small_products(device: Any, how: str) -> None:
    a, b = _factors("f4", 5, 19, 17)
    spec = {**SPECS[how], **({"rows": 2, "columns": 8, "width": 8, "unroll": 1} if how == "direct" else {})}
    bias, product = _integers((19,), "f4", 2), a @ b
    want = np.where(product > 40, bias, product + bias)
    _check(want, a, b, epilogue=(capped, bias), spec=spec)


@pytest.mark.parametrize("how", ["packed", "staged", "split-k"])
def test_factors_come_before_the_epilogue(device: Any, how: str) -> None:
    """With packed, k has several blocks: the epilogue follows the last one."""
    a, b = _factors("f4")
    out, bias = _integers((37, 35), "f4", 2), _integers((37, 1), "f4", 3)
    product = 2 * (a @ b) - 3 * out
    want = np.where(product > 40, bias, product + bias)
    got = pydp.matmul(a, b, alpha=2, beta=-3, out=out, epilogue=(capped, bias), spec=SPECS[how])
    assert got is out and np.array_equal(out, want)


@pytest.mark.parametrize("how", ["packed", "direct", "staged", "split-k"])
def test_operands_that_share_memory_with_the_result(device: Any, how: str) -> None:
    a, b = _factors("f4")
    for field in (False, True):
        whole = _integers((37, 36), "f4", 2)
        out, near = whole[:, 1:], whole[:, :-1]
        product = a @ b
        want = np.where(product > 40, out, product + out), np.where(product > 40, near, product + near)
        for operand_at, expected in zip((1, 0), want, strict=True):
            memory = pydp.field(whole, device=device) if field else whole.copy()
            place = memory[:, 1:]
            operand = place if operand_at else memory[:, :-1]
            left, right = (pydp.field(x, device=device) for x in (a, b)) if field else (a, b)
            pydp.matmul(left, right, out=place, epilogue=(capped, operand), spec=SPECS[how])
            assert np.array_equal(np.asarray(place), expected), (field, operand_at)


def test_thin_products_and_vectors(device: Any) -> None:
    for shape_a, shape_b in [((2, 70), (70, 45)), ((45, 70), (70, 2)), ((70,), (70, 45)), ((45, 70), (70,)), ((9,), (9,))]:
        a, b = _integers(shape_a), _integers(shape_b, "f4", 1)
        product = np.matmul(a, b)
        bias = _integers(product.shape[-1:], "f4", 2)
        for right in (b, np.asfortranarray(b)):
            _check(np.maximum(product * 2 + bias, -50), a, right, epilogue=(scaled, 2, bias), spec={"mapping": "vector"})


@pytest.mark.parametrize("shape", [(3, 2, 1, 35), (2, 37, 1), (3, 1, 37, 35), (), (3, 2, 37, 35)])
def test_batches(device: Any, shape: tuple[int, ...]) -> None:
    a, b = _integers((3, 2, 37, 20)), _integers((2, 20, 35), "f4", 1)
    other = _integers(shape, "f4", 2)
    _check(np.maximum(a @ b * 2 + other, -50), a, b, epilogue=(scaled, np.float32(2), other), spec=STAGED)
    _check(np.maximum(a @ b[0] * 2 + other, -50), a, b[0], epilogue=(scaled, np.float32(2), other), spec=STAGED)


def test_four_batch_axes(device: Any) -> None:
    a, b = _integers((2, 1, 3, 1, 4, 5)), _integers((2, 1, 2, 5, 6), "f4", 1)
    other = _integers((3, 1, 1, 6), "f4", 2)
    _check(np.maximum(a @ b * 2 + other, -50), a, b, epilogue=(scaled, np.float32(2), other), spec=STAGED)


@pytest.mark.parametrize("spec", [PACKED, STAGED], ids=["packed", "staged"])
@pytest.mark.parametrize("dtype", ["?", "i1", "u8", "f2", "f8"])
def test_dtypes(device: Any, dtype: str, spec: Any) -> None:
    if dtype == "f8" and not device.profile.fp64:
        pytest.skip("the device has no float64")
    a, b = np.abs(_factors(dtype)) if dtype != "?" else _factors(dtype)
    bias = _integers((35,), "i1", 2)
    product = (a.astype("f4") @ b.astype("f4")) if dtype == "f2" else a @ b
    # The function computes in the types of its arguments; the result keeps the product's dtype.
    wide = product.astype("f4" if dtype == "f2" else np.result_type(product, bias))
    _check((wide - bias).astype(dtype), a, b, epilogue=(lambda v, bias: v - bias, bias), spec=spec)


@pytest.mark.parametrize("spec", [PACKED, STAGED], ids=["packed", "staged"])
def test_complex_numbers_are_pairs(device: Any, spec: Any) -> None:
    a, b = _factors("c8")
    a, b = a.astype("c8"), b.astype("c8")
    bias = (_integers((35,), "c8", 2) * (1 + 2j)).astype("c8")
    function = lambda v, w, s: (v.real + w.real * s, -(v.imag + w.imag * s))
    _check(np.conj(a @ b + bias * 3), a, b, epilogue=(function, bias, 3), spec=spec)
    out = (_integers((37, 35), "c8", 3) * 1j).astype("c8")
    want = np.conj(a @ b + 2 * out + out * 3)
    pydp.matmul(a, b, beta=2, out=out, epilogue=(function, out, 3), spec=spec)
    assert np.array_equal(out, want)
    _check((a @ b).real + 7, a, b, epilogue=(lambda v, w: v.real + w.imag, 7j), spec=spec)


def test_expressions(device: Any) -> None:
    a, b = _factors("f4")
    bias, flags = _integers((35,), "f4", 2), _integers((37, 1), "i4", 3) > 0
    for spec in (PACKED, STAGED):
        _check(np.maximum(a @ b + bias, 0), a, b, epilogue=("max(x + bias, 0)", {"bias": bias}), spec=spec)
        _check(np.where(flags, a @ b, 2), a, b, epilogue=("on ? x : c", {"on": flags, "c": 2}), spec=spec)
    i, j = _factors("i4")
    _check((i @ j * 0.5).astype("i4"), i, j, epilogue="x * 0.5", spec=STAGED) if device.profile.fp64 else None
    _check(abs(a @ b), a, b, epilogue="abs(x)", spec=STAGED)


@pytest.mark.parametrize("spec", [PACKED, STAGED], ids=["packed", "staged"])
def test_functions_on_vectors(device: Any, spec: Any) -> None:
    """The packed method calls a function such as tanh with vectors."""

    def gelu(v: Any, bias: Any) -> Any:
        x = v * 0.01 + bias
        return 0.5 * x * (1 + pm.tanh(0.7978845608 * (x + 0.044715 * x * x * x)))

    a, b = _factors("f4")
    bias = _integers((35,), "f4", 2)
    x = (a @ b).astype("f8") * 0.01 + bias
    want = 0.5 * x * (1 + np.tanh(0.7978845608 * (x + 0.044715 * x**3)))
    np.testing.assert_allclose(pydp.matmul(a, b, epilogue=(gelu, bias), spec=spec), want, rtol=2e-5, atol=2e-5)
    if spec is PACKED:
        sources = pydp.explain(pydp.matmul, a, b, epilogue=(gelu, bias), spec=spec).sources
        assert "VEPILOGUE(" in next(iter(sources.values()))


def test_records_and_wide_operands(device: Any) -> None:
    a, b = _factors("f4")
    columns = np.zeros(35, [("scale", "f4"), ("shift", "i4")])
    columns["scale"], columns["shift"] = _integers((35,), "f4", 2), _integers((35,), "i4", 3)
    function = lambda v, c: v * c.scale + c.shift
    _check((a @ b) * columns["scale"] + columns["shift"].astype("f4"), a, b, epilogue=(function, columns), spec=PACKED)
    if device.profile.fp64:
        wide = np.full(35, 1 / 3)
        want = (a @ b * wide).astype("f4")
        _check(want, a, b, epilogue=(lambda v, w: v * w, wide), spec=STAGED)


def test_empty_sums(device: Any) -> None:
    bias = _integers((35,), "f4", 2)
    a, b = np.zeros((37, 0), "f4"), np.zeros((0, 35), "f4")
    _check(np.broadcast_to(np.maximum(bias, -50), (37, 35)), a, b, epilogue=(scaled, 2, bias), spec=PACKED)
    assert pydp.matmul(a[:0], b, epilogue=(scaled, 2, bias)).shape == (0, 35)


def test_repeated_calls_see_new_values(device: Any) -> None:
    """Recorded calls and cached plans: operands, numbers and free names may change between calls."""
    a, b = (pydp.field(x, device=device) for x in _factors("f4"))
    product = np.asarray(a) @ np.asarray(b)
    for number in range(5):
        bias = _integers((35,), "f4", number)
        got = pydp.matmul(a, b, epilogue=(scaled, number, pydp.field(bias, device=device)), spec=STAGED)
        assert np.array_equal(np.asarray(got), np.maximum(product * number + bias, -50))
    for number in range(5):
        bias = pydp.field(_integers((35,), "f4", number), device=device)
        got = pydp.matmul(a, b, epilogue=(scaled, np.float32(2), bias), spec=STAGED)
        assert np.array_equal(np.asarray(got), np.maximum(product * 2 + np.asarray(bias), -50))
        bias[...] = bias + 1
    plans = len(device.plans)
    shift = 1
    function = lambda v: v + shift
    for shift in (1, 1, 1, 2):
        got = pydp.matmul(a, b, epilogue=function, spec=STAGED)
        assert np.array_equal(np.asarray(got), product + shift)
    assert len(device.plans) - plans <= 2


def test_arrays_larger_than_a_buffer(device: Any, monkeypatch: Any) -> None:
    """Blocks of the operands follow those of the result; blocks along k are added before the epilogue."""
    monkeypatch.setattr(pieces, "ALWAYS_FITS", 0)
    monkeypatch.setattr(pieces, "limit_of", lambda device: 1 << 13)
    a, b = _factors("f4", 60, 70, 150)
    bias, matrix = _integers((70,), "f4", 2), _integers((60, 70), "f8" if device.profile.fp64 else "f4", 3)
    want = np.where(a @ b > 40, bias, a @ b + bias)
    _check(want, a, b, epilogue=(capped, bias), spec=STAGED)
    _check((a @ b + matrix).astype("f4"), a, b, epilogue=("x + m", {"m": matrix}), spec=STAGED)
    text = str(pydp.explain(pydp.matmul, a, b, epilogue=(capped, bias), spec=STAGED))
    assert "this describes a piece" in text
    half = a.astype("f2"), b.astype("f2")
    _check(want.astype("f2"), *half, epilogue=(capped, bias), spec=STAGED)
    with pytest.raises(pydp.InvalidArgument, match=r"epilogue\[1\] is a Field, .* a NumPy array is needed"):
        pydp.matmul(a, b, epilogue=(capped, pydp.field(bias, device=device)))


@pytest.mark.parametrize(
    ("epilogue", "message"),
    [
        (3, r"epilogue is 3; a function of the result, an expression in x, and tuples"),
        ((), r"epilogue is \(\)"),
        ([abs], r"epilogue is \[<built-in function abs>\]"),
        ((capped, np.zeros(4, "f4")), r"epilogue\[1\] has shape \(4,\); a shape that broadcasts to .* \(2, 3\)"),
        ((capped, np.zeros((1, 2, 3), "f4")), r"epilogue\[1\] has shape \(1, 2, 3\)"),
        ((capped,), r"capped takes 2 arguments"),
        ((capped, 1, 2), r"capped takes 2 arguments"),
        ((capped, None), r"epilogue\[1\] is None"),
        ((capped, "three"), r"epilogue\[1\]"),
        ((capped, 1j), r"epilogue\[1\] is 1j, but the result is float32; a real number is accepted"),
        ("max(x + bias, 0)", r"the epilogue uses bias, which has no value; x \(the result\) and values of no other"),
        (("x + y", np.zeros(3)), r"one dict of operands by their names"),
        (("x", {"y": 1}), r"the epilogue has the operand y, which the expression 'x' does not use"),
        (("x + x2", {"x": 1, "x2": 1}), r"the epilogue has the operand x, which"),
        ("x +", r"expression 'x \+'"),
        ((lambda v: (v, v),), r"float32"),
        ((lambda v: v.real,), r"real"),
    ],
)  # fmt: skip
def test_wrong_epilogues(device: Any, epilogue: Any, message: str) -> None:
    out = np.full((2, 3), 7, "f4")
    with pytest.raises(pydp.InvalidArgument, match=message):
        pydp.matmul(np.ones((2, 4), "f4"), np.ones((4, 3), "f4"), epilogue=epilogue, out=out)
    assert np.all(out == 7)


def test_wrong_epilogues_of_other_products(device: Any) -> None:
    one = np.ones((2, 2), "c8")
    with pytest.raises(pydp.InvalidArgument, match="the result is a complex number in an expression"):
        pydp.matmul(one, one, epilogue="x + 1")
    with pytest.raises(pydp.InvalidArgument, match="a pair of its real and imaginary part"):
        pydp.matmul(one, one, epilogue=lambda v: (v.real, v.imag, v.real))
    with pytest.raises(pydp.InvalidArgument, match=r"epilogue\[1\] is 300, which the result's dtype int8 cannot hold"):
        pydp.matmul(one.real.astype("i1"), one.real.astype("i1"), epilogue=(lambda v, s: v + s, 300))
    if not device.profile.fp64:
        with pytest.raises(pydp.UnsupportedOnDevice, match="float64"):
            pydp.matmul(one.real, one.real, epilogue=(lambda v, s: v + s, np.ones(2)))


def test_explain_says_where_the_epilogue_is_applied(device: Any) -> None:
    a, b = _factors("f4")
    bias = _integers((35,), "f4", 2)
    text = str(pydp.explain(pydp.matmul, a, b, epilogue=(capped, bias), spec=STAGED))
    assert "capped of the result, float32 (35,)" in text
    assert "the epilogue capped is applied in the store of the product's kernel, once for each result" in text
    text = str(pydp.explain(pydp.matmul, a, b, epilogue=(capped, bias), spec=SPECS["split-k"]))
    assert "applied in the kernel that writes C from scratch memory" in text
