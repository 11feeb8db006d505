"""matmul with an epilogue against NumPy: methods, operands, factors, dtypes, memory shared with the result, errors."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import pydp
import pydp.math as pm
from pydp.algorithms import pieces

# Small tiles and vectors are built in a fraction of the time. PACKED has several blocks of k.
PACKED = {"mapping": "vector", "method": "packed", "rows": 2, "columns": 8, "width": 4, "unroll": 1}
PACKED |= {"tile_m": 24, "tile_n": 32, "tile_k": 32}
STAGED = {"mapping": "simt", "method": "staged", "tile_m": 16, "tile_n": 8, "tile_k": 8, "rows": 2, "columns": 1}
STAGED |= {"lanes_m": 8, "lanes_n": 8, "width": 1, "unroll": 1, "pad": 0, "parts": 1, "buffers": 1}
DIRECT = {"mapping": "vector", "method": "direct", "rows": 2, "columns": 8, "width": 4, "unroll": 1}
THIN = {"mapping": "vector", "method": "thin", "rows": 2, "width": 4, "unroll": 1}
SPECS = {"packed": PACKED, "direct": DIRECT, "staged": STAGED, "split-k": {**STAGED, "parts": 3}}
M, N, K = 13, 19, 70


def _integers(shape: tuple[int, ...], dtype: Any = "f4", seed: int = 0) -> np.ndarray:
    """Small integers: sums and products of them are exact in every dtype."""
    return np.random.default_rng(seed).integers(-9, 10, shape).astype(dtype)


def _factors(dtype: Any = "f4", m: int = M, n: int = N, k: int = K) -> tuple[np.ndarray, np.ndarray]:
    return _integers((m, k), dtype), _integers((k, n), dtype, 1)


def _check(expected: np.ndarray, a: Any, b: Any, **options: Any) -> None:
    got = pydp.matmul(a, b, **options)
    assert got.dtype == np.result_type(a, b) and got.shape == np.shape(expected)
    assert np.array_equal(got, expected), options


def bounded(v: Any, row: Any, column: Any, matrix: Any, number: Any) -> Any:
    return max(v * row + column, matrix * number)


def capped(v: Any, other: Any) -> Any:
    if v > 40:
        return other
    return v + other


def _capped(v: np.ndarray, other: np.ndarray) -> np.ndarray:
    return np.where(v > 40, other, v + other)


def scaled(v: Any, scale: Any, bias: Any) -> Any:
    return max(v * scale + bias, -50)


@pytest.mark.oclgrind
@pytest.mark.parametrize(("how", "dtype"), [*((how, "f4") for how in SPECS), ("staged", "i4")])
def test_methods(device: Any, how: str, dtype: str) -> None:
    """Operands of every layout, after alpha and beta."""
    a, b = _factors(dtype)
    row, column = _integers((N,), dtype, 2), _integers((M, 1), dtype, 3)
    matrix, old = np.asfortranarray(_integers((M, N), dtype, 4)), _integers((M, N), dtype, 5)
    operands, spec = (bounded, row, column, matrix, 3), SPECS[how]
    _check(np.maximum(2 * (a @ b) * row + column, matrix * 3), a, b, alpha=2, epilogue=operands, spec=spec)
    want = np.maximum((2 * (a @ b) - 3 * old) * row + column, matrix * 3)
    got = pydp.matmul(a, b, alpha=2, beta=-3, out=old, epilogue=operands, spec=spec)
    assert got is old and np.array_equal(old, want)
    a, b = a[:, :0], b[:0]
    want = np.broadcast_to(np.maximum(column, matrix * 3), (M, N))
    _check(want, a, b, alpha=2, epilogue=operands, spec=spec)
    assert pydp.matmul(a[:0], b, alpha=2, epilogue=(bounded, row, column[:0], matrix[:0], 3)).shape == (0, N)


@pytest.mark.parametrize("how", ["packed", "direct", "staged"])
def test_a_residual_connection(device: Any, how: str) -> None:
    """The operand is `out`: every element is read before it is written."""
    a, b = _factors()
    for field in (False, True):
        memory = _integers((M, N + 1), "f4", 2)
        want = _capped(a @ b, memory[:, 1:])
        left, right, memory = (pydp.field(x, device=device) if field else x for x in (a, b, memory))
        out = memory[:, 1:]
        pydp.matmul(left, right, out=out, epilogue=(capped, out), spec=SPECS[how])
        assert np.array_equal(np.asarray(out), want), field


def test_an_operand_that_overlaps_the_result(device: Any) -> None:
    a, b = _factors()
    for field in (False, True):
        memory = _integers((M, N + 1), "f4", 2)
        want = _capped(a @ b, memory[:, :-1])
        left, right, memory = (pydp.field(x, device=device) if field else x for x in (a, b, memory))
        pydp.matmul(left, right, out=memory[:, 1:], epilogue=(capped, memory[:, :-1]), spec=STAGED)
        assert np.array_equal(np.asarray(memory[:, 1:]), want), field


def test_thin_products_and_vectors(device: Any) -> None:
    """In the transposed product of a matrix with few columns, rows of operands are columns."""
    for shape_a, shape_b in [((2, K), (K, N)), ((K,), (K, N)), ((M, K), (K,)), ((M, K), (K, 2))]:
        a, b = _integers(shape_a), _integers(shape_b, "f4", 1)
        product = np.matmul(a, b)
        bias = _integers(product.shape[-1:], "f4", 2)
        want = np.maximum(product * 2 + bias, -50)
        for right in (b, np.asfortranarray(b)):
            _check(want, a, right, epilogue=(scaled, 2, bias), spec=THIN)


@pytest.mark.parametrize("shape", [(3, 2, 1, N), (3, 1, M, N), (2, M, N), (2, 1, N), (N,)])
def test_batches(device: Any, shape: tuple[int, ...]) -> None:
    a, b = _integers((3, 2, M, 20)), _integers((2, 20, N), "f4", 1)
    other = _integers(shape, "f4", 2)
    for right in (b, b[0]):
        want = np.maximum(np.matmul(a, right) * 2 + other, -50)
        _check(want, a, right, epilogue=(scaled, np.float32(2), other), spec=STAGED)


def test_four_batch_axes(device: Any) -> None:
    a, b = _integers((2, 1, 3, 1, 4, 5)), _integers((2, 1, 2, 5, 6), "f4", 1)
    other = _integers((3, 1, 1, 6), "f4", 2)
    want = np.maximum(np.matmul(a, b) * 2 + other, -50)
    _check(want, a, b, epilogue=(scaled, np.float32(2), other), spec=STAGED)


@pytest.mark.parametrize(("dtype", "how"), [("?", "staged"), ("i1", "staged"), ("u8", "staged"), ("f2", "packed")])
def test_dtypes(device: Any, dtype: str, how: str) -> None:
    """The function computes in the types of its arguments; the result keeps the product's dtype."""
    a, b = (np.abs(_integers(shape, "i4")).astype(dtype) for shape in ((M, K), (K, N)))
    bias = np.abs(_integers((N,), "i1", 2)).astype("u1" if dtype == "u8" else "i1")
    product = a.astype("f4") @ b.astype("f4") if dtype == "f2" else a @ b
    _check((product * bias).astype(dtype), a, b, epilogue=(lambda v, bias: v * bias, bias), spec=SPECS[how])


def test_operands_wider_than_the_result(device: Any) -> None:
    a, b = _factors()
    thirds = np.full(N, 1 / 3)
    if not device.profile.fp64:
        with pytest.raises(pydp.UnsupportedOnDevice, match="float64"):
            pydp.matmul(a, b, epilogue=(lambda v, w: v * w, thirds), device=device)
        pytest.skip("the device has no float64")
    _check((a @ b * thirds).astype("f4"), a, b, epilogue=(lambda v, w: v * w, thirds), spec=STAGED)


def conjugate(v: Any, w: Any, s: Any) -> Any:
    return v.real + w.real * s, -(v.imag + w.imag * s)


def test_complex_numbers_are_pairs(device: Any) -> None:
    a, b = ((x + 1j * x[::-1, ::-1]).astype("c8") for x in _factors())
    bias = (_integers((N,), "f4", 2) * (1 + 2j)).astype("c8")
    _check(np.conj(a @ b + bias * 3), a, b, epilogue=(conjugate, bias, 3), spec=PACKED)
    out = (_integers((M, N), "f4", 3) * 1j).astype("c8")
    want = np.conj(a @ b + 2 * out + out * 3)
    pydp.matmul(a, b, beta=2, out=out, epilogue=(conjugate, out, 3), spec=STAGED)
    assert np.array_equal(out, want)
    _check((a @ b).real + 7, a, b, epilogue=(lambda v, w: v.real + w.imag, 7j), spec=STAGED)


def test_expressions(device: Any) -> None:
    a, b = _factors()
    bias, flags = _integers((N,), "f4", 2), _integers((M, 1), "i4", 3) > 0
    _check(np.maximum(a @ b + bias, 0), a, b, epilogue=("max(x + bias, 0)", {"bias": bias}), spec=PACKED)
    _check(np.where(flags, a @ b, 2), a, b, epilogue=("on ? x : c", {"on": flags, "c": 2}), spec=STAGED)
    a, b = _factors("i4")
    if device.profile.fp64:
        _check((a @ b * 0.5).astype("i4"), a, b, epilogue="x * 0.5", spec=STAGED)
    else:  # int32 and a float give float64, as in NumPy
        with pytest.raises(pydp.UnsupportedOnDevice, match=r"epilogue 'x \* s' computes with double"):
            pydp.matmul(a, b, epilogue=("x * s", {"s": np.float32(0.5)}))


def gelu(v: Any, bias: Any) -> Any:
    x = v * 0.01 + bias
    return 0.5 * x * (1 + pm.tanh(0.7978845608 * (x + 0.044715 * x * x * x)))


def test_functions_on_vectors(device: Any) -> None:
    """The packed method calls a function such as tanh with vectors."""
    a, b = _factors()
    bias = _integers((N,), "f4", 2)
    x = (a @ b).astype("f8") * 0.01 + bias
    want = 0.5 * x * (1 + np.tanh(0.7978845608 * (x + 0.044715 * x**3)))
    np.testing.assert_allclose(pydp.matmul(a, b, epilogue=(gelu, bias), spec=PACKED), want, rtol=2e-5, atol=2e-5)
    whole = PACKED | {"parts": 1}  # else the kernel that adds parts of k computes the epilogue
    sources = pydp.explain(pydp.matmul, a, b, epilogue=(gelu, bias), spec=whole).sources
    assert "VEPILOGUE(" in next(iter(sources.values()))


def test_records(device: Any) -> None:
    a, b = _factors()
    columns = np.zeros(N, [("scale", "f4"), ("shift", "i4")])
    columns["scale"], columns["shift"] = _integers((N,), "f4", 2), _integers((N,), "i4", 3)
    want = (a @ b) * columns["scale"] + columns["shift"].astype("f4")
    _check(want, a, b, epilogue=(lambda v, c: v * c.scale + c.shift, columns), spec=STAGED)


def test_repeated_calls_see_new_values(device: Any) -> None:
    """Recorded calls and cached plans: operands, numbers and free names may change between calls."""
    a, b = (pydp.field(x, device=device) for x in _factors())
    product = np.asarray(a) @ np.asarray(b)
    for number in range(5):
        bias = _integers((N,), "f4", number)
        got = pydp.matmul(a, b, epilogue=(scaled, number, pydp.field(bias, device=device)), spec=STAGED)
        assert np.array_equal(np.asarray(got), np.maximum(product * number + bias, -50))
    for number in range(5):
        bias = pydp.field(_integers((N,), "f4", number), device=device)
        got = pydp.matmul(a, b, epilogue=(scaled, np.float32(2), bias), spec=STAGED)
        assert np.array_equal(np.asarray(got), np.maximum(product * 2 + np.asarray(bias), -50))
        bias[...] = bias + 1
    total = pydp.field(product, device=device)
    for _ in range(4):  # every call reads the result of the one before
        pydp.matmul(a, b, out=total, epilogue=(scaled, 1, total), spec=STAGED)
    want = product
    for _ in range(4):
        want = np.maximum(product + want, -50)
    assert np.array_equal(np.asarray(total), want)
    plans = len(device.plans)
    shift = 1

    def shifted(v: Any) -> Any:
        return v + shift

    for shift in (1, 1, 1, 2):
        got = pydp.matmul(a, b, epilogue=shifted, spec=STAGED)
        assert np.array_equal(np.asarray(got), product + shift)
    assert len(device.plans) - plans <= 2


def test_arrays_larger_than_a_buffer(device: Any, monkeypatch: Any) -> None:
    """Operands are cut into blocks like the result; blocks along k are added before the epilogue is applied."""
    monkeypatch.setattr(pieces, "ALWAYS_FITS", 0)
    monkeypatch.setattr(pieces, "limit_of", lambda device: 1 << 13)
    a, b = _factors("f4", 60, 70, 150)
    bias, matrix = _integers((70,), "f4", 2), _integers((60, 70), "f8" if device.profile.fp64 else "f4", 3)
    want = _capped(a @ b, bias)
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
        ("max(x + bias, 0)", r"the epilogue uses bias, but its names are x \(the result\); pass .*'bias'"),
        (("x + y", np.zeros(3)), r"one dict of operands by their names"),
        (("x", {"y": 1}), r"the epilogue has the operand y, which the expression 'x' does not use"),
        (("x + n * n", {"n": 2**40}), r"the integer [0-9]* is computed in int64"),
        (("x + 4000000000 * 4000000000", {}), r"the integer 16000000000000000000 is computed in int64"),
        (("x + x2", {"x": 1, "x2": 1}), r"has an operand named x; x is the result, choose another name"),
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
    a, b = _factors()
    bias = _integers((N,), "f4", 2)
    text = str(pydp.explain(pydp.matmul, a, b, epilogue=(capped, bias), spec=STAGED))
    assert "capped of the result, float32 (19,)" in text
    assert "the epilogue capped is applied in the store of the product's kernel, once for each result" in text
    text = str(pydp.explain(pydp.matmul, a, b, epilogue=(capped, bias), spec=SPECS["split-k"]))
    assert "applied in the kernel that writes C from scratch memory" in text
