"""pydp.evaluate against NumPy: operators, functions, types, names, broadcasting, mistakes."""

from __future__ import annotations

import needs
import numpy as np
import pyopencl.array
import pytest

import pydp
from pydp.algorithms.operators.expression import expression_of, kind_of, names_in

RNG = np.random.default_rng(0)
X, Y = RNG.standard_normal((2, 40, 50)).astype(np.float32)
N, M = RNG.integers(-9, 10, (2, 40, 50)).astype(np.int32)


def same(got, want):
    got = got.get() if hasattr(got, "get") else got
    want = np.asarray(want)
    assert got.dtype == want.dtype and got.shape == want.shape
    if want.dtype.kind == "f":
        np.testing.assert_allclose(got, want, rtol=16 * np.finfo(want.dtype).eps, atol=1e-6)
    else:
        np.testing.assert_array_equal(got, want)


@pytest.mark.oclgrind
def test_operators(device):
    same(pydp.evaluate("2 * x + y / 3 - 1.5", x=X, y=Y), 2 * X + Y / 3 - np.float32(1.5))
    same(pydp.evaluate("n * m + (n & m) - (n | 3) ^ (m << 2)", n=N, m=M), N * M + (N & M) - (N | 3) ^ (M << 2))
    with np.errstate(divide="ignore"):
        same(pydp.evaluate("n % m", n=N, m=M), N % M)
    same(pydp.evaluate("n % 5 + -n", n=N), N % 5 + -N)
    same(pydp.evaluate("n < m && !(n == 3) || m != n", n=N, m=M), (N < M) & ~(N == 3) | (M != N))
    same(pydp.evaluate("(x > 0) & ~(y > 0)", x=X, y=Y), (X > 0) & ~(Y > 0))
    same(pydp.evaluate("x > y ? x : y - 1", x=X, y=Y), np.where(X > Y, X, Y - 1))
    same(pydp.evaluate("where(n > 0, n, 0)", n=N), np.where(N > 0, N, 0).astype(np.int32))
    same(pydp.evaluate("(int)x + n", x=X, n=N), X.astype(np.int32) + N)


@pytest.mark.oclgrind
def test_functions(device):
    same(pydp.evaluate("sqrt(fabs(x)) + hypot(x, y)", x=X, y=Y), np.sqrt(np.abs(X)) + np.hypot(X, Y))
    got = pydp.evaluate("sin(x) * exp(-y) + arctan2(x, y)", x=X, y=Y)
    np.testing.assert_allclose(got, np.sin(X) * np.exp(-Y) + np.arctan2(X, Y), rtol=1e-5, atol=1e-5)
    same(pydp.evaluate("maximum(x, y) - min(x, 0.5)", x=X, y=Y), np.maximum(X, Y) - np.minimum(X, np.float32(0.5)))
    same(pydp.evaluate("abs(n) + max(n, m)", n=N, m=M), np.abs(N) + np.maximum(N, M))
    same(pydp.evaluate("floor(x) + ceil(y) + floor(n % 2)", x=X, y=Y, n=X), np.floor(X) + np.ceil(Y) + np.floor(X % 2))
    same(pydp.evaluate("isnan(x)", x=np.array([1, np.nan], np.float32)), [False, True])
    same(
        pydp.evaluate("popcount((uint)n)", n=N),
        np.array([[bin(int(v) & 0xFFFFFFFF).count("1") for v in r] for r in N], np.uint32),
    )


@pytest.mark.parametrize("dtype", ["i1", "u1", "i2", "i4", "u4", "i8", "f4", "f8"])
def test_remainders_and_signs_are_numpys(device, dtype):
    """OpenCL C's remainder rounds the quotient, its fmod takes no integers, and its sign of NaN is 0."""
    dtype = np.dtype(dtype)
    needs.dtype(device, dtype)
    if dtype.kind == "f":
        special = [np.nan, np.inf, -np.inf, 0.0, -0.0, 7.5, -7.5]
    else:
        special = [np.iinfo(dtype).min, np.iinfo(dtype).max, 0]
    values = np.array([*special, *range(-9 if dtype.kind != "u" else 0, 10)]).astype(dtype)
    a, b = (one.ravel() for one in np.meshgrid(values, values))
    with np.errstate(all="ignore"):
        for text, want in {
            "remainder(a, b)": np.remainder(a, b),
            "mod(a, 3)": np.mod(a, 3),
            "fmod(a, b)": np.fmod(a, b),
            "sign(a)": np.sign(a),
            "fmax(a, b)": np.fmax(a, b),
            "fmin(a, 3)": np.fmin(a, 3),
        }.items():
            got = pydp.evaluate(text, a=a, b=b)
            assert got.dtype == want.dtype, text
            np.testing.assert_array_equal(got, want, err_msg=text)
    with pytest.raises(pydp.InvalidArgument, match="not defined for bool"):
        pydp.evaluate("sign(a)", a=a > 0)


@pytest.mark.parametrize("left", "? i1 u1 i2 u2 i4 u4 i8 u8 f4 f8".split())
def test_functions_of_mixed_types_are_numpys(device, left):
    rng = np.random.default_rng(3)
    x = rng.integers(-99, 99, 40).astype(left)
    limits = {"i4": 2**31 - 1, "i8": 2**62 + 1, "u4": 2**32 - 1}
    x[7] = limits.get(left, x[7])
    calls = [("fmax(x, -0.5)", np.fmax(x, -0.5)), ("fmin(2, x)", np.fmin(2, x)), ("radians(x)", np.radians(x))]
    calls += [("degrees(x)", np.degrees(x))] + ([("round(x)", np.round(x))] if left != "?" else [])
    for right in "? i1 u2 i4 u8 f4 f8".split():
        y = rng.integers(-99, 99, 40).astype(right)
        y[5] = limits.get(right, y[5])
        with np.errstate(all="ignore"):
            calls += [(f"{name}(x, y)", getattr(np, name)(x, y), y) for name in ("fmax", "fmin")]
            calls += [("fmod(x, y)", np.fmod(x, y), y)] if "?" not in (left, right) else []
    for text, want, *others in calls:
        given = {"x": x, **({"y": others[0]} if others else {})}
        if all(needs.has(device, one.dtype) for one in (want, *given.values())):
            same(pydp.evaluate(text, **given), want)


def test_nested_functions_do_not_repeat_their_operands(device):
    """The text of six nested calls took 3 s to compile, that of eight minutes."""
    n = np.array([7, -7, 100, 0], np.int32)
    for text in ("sign({})", "fmod({}, 90)", "mod({}, 90)", "fmax({}, -50)", "clip({}, -90, 90)", "abs({})"):
        nested = "n"
        for _ in range(30):
            nested = text.format(nested)
        once, many = (expression_of(one, (("n", n.dtype),), True).source for one in (text.format("n"), nested))
        assert len(many) < 30 * len(once), text
        same(pydp.evaluate(nested, n=n), pydp.evaluate(text.format("n"), n=n))


def test_types_are_numpys(device):
    values = {
        "b": N > 0, "i1": N.astype(np.int8), "u1": M.astype(np.uint8), "i2": M.astype(np.int16), "i4": N,
        "u4": M.astype(np.uint32), "i8": N.astype(np.int64), "f4": X,
    }  # fmt: skip
    if device.profile.fp64:
        values["f8"] = Y.astype(np.float64)
    pairs = [
        ("b", "i1"),
        ("i1", "u1"),
        ("i1", "i1"),
        ("i2", "f4"),
        ("i4", "u4"),
        ("u1", "f4"),
        ("i4", "i8"),
        ("f4", "f8"),
    ]
    pairs += [("i4", "f4")]
    for one, other in pairs:
        if other not in values:
            continue
        a, b = values[one], values[other]
        want = a * b + 3
        if want.dtype == np.float64 and not device.profile.fp64:
            with pytest.raises(pydp.UnsupportedOnDevice):
                pydp.evaluate("a * b + 3", a=a, b=b)
            continue
        same(pydp.evaluate("a * b + 3", a=a, b=b), want)
    same(pydp.evaluate("a + b", a=N > 0, b=M > 0), (N > 0) + (M > 0))
    same(pydp.evaluate("a * 2", a=values["i1"]), values["i1"] * 2)
    same(pydp.evaluate("a * c", a=X, c=2.5), X * np.float32(2.5))
    same(pydp.evaluate("a * c", a=N, c=3), N * 3)
    same(pydp.evaluate("a * c", a=values["i1"], c=np.int32(3)), values["i1"] * np.int32(3))
    same(pydp.evaluate("x * k + (n + 1)", x=X, k=2, n=values["i1"]), X * 2 + (values["i1"] + np.int8(1)))
    needs.dtype(device, np.float64)
    same(pydp.evaluate("a / b", a=N, b=np.int32(4)), N / 4)
    same(pydp.evaluate("sqrt(n * n)", n=N), np.sqrt(N * N))
    same(pydp.evaluate("a * 1.5", a=N), N * 1.5)


def test_names_broadcasting_and_kinds(device):
    a, x = np.float32(3), X[0]
    same(pydp.evaluate("a * x + Y"), a * x + Y)
    same(pydp.evaluate("x - y", x=X[:, :1], y=Y[::-1, ::-1]), X[:, :1] - Y[::-1, ::-1])
    same(pydp.evaluate("x * y", x=X.T[::2], y=Y.T[::2]), X.T[::2] * Y.T[::2])
    field = pydp.evaluate("x + 1", x=pydp.field(X))
    assert isinstance(field, pydp.Field)
    same(field, X + 1)
    array = pydp.evaluate("x + 1", x=pyopencl.array.to_device(device.queue, X))
    assert isinstance(array, pyopencl.array.Array)
    out = X.copy()
    assert pydp.evaluate("2 * x", x=out, out=out) is out
    same(out, 2 * X)
    same(pydp.evaluate("x + x[0]".replace("[0]", ""), x=X[:0]), X[:0])
    fields = [pydp.field(X), pydp.field(Y)]
    for n in range(4):
        same(pydp.evaluate("a * x + y", a=float(n), x=fields[0], y=fields[1]), np.float32(n) * X + Y)
    assert "evaluate" in str(pydp.explain(pydp.evaluate, "x + 1", x=X))


@pytest.mark.oclgrind
def test_integers_without_dtype(device):
    x, u = np.array([-5, 0, 127], np.int8), np.array([0, 5, 2**64 - 1], np.uint64)
    n = x.astype(np.int64)
    same(pydp.evaluate("n + (1 << 40) - 100000 * 100000 + (2147483647 + 1)", n=n), n + (2**40 - 10**10 + 2**31))
    got = pydp.evaluate("(x < 200) + 2 * (x > c) + 4 * (-129 != x) + 8 * (x == 128)", x=x, c=-1000)
    same(got, np.array([7, 7, 7]))
    same(pydp.evaluate("(u > c) + 2 * (c <= u) + 4 * (u == c) + 8 * (c > u)", u=u, c=-1), np.array([3, 3, 3]))
    same(pydp.evaluate("(u > c) + 2 * (c <= u) + 4 * (u == c) + 8 * (c > u)", u=u, c=5), np.array([8, 6, 3]))
    same(pydp.evaluate("(u > -1) + 2 * (u < 5)", u=u), np.array([3, 1, 1]))
    same(pydp.evaluate("x + c * 2", x=x, c=-64), x - np.int8(127) - np.int8(1))
    for text in (
        "x + 128",
        "max(x, -129)",
        "x > 0 ? x : 300",
        "x + c * 2",
        "where(x > 0, c * 2, x)",
        "(x & 1) + c * 2",
    ):
        with pytest.raises(pydp.InvalidArgument, match="int8"):
            pydp.evaluate(text, x=x, c=64)
    with pytest.raises(pydp.InvalidArgument, match="uint64"):
        pydp.evaluate("u + -1", u=u)


def test_integers_without_dtype_never_wrap(device):
    """They are exact; expressions that cannot be computed exactly are refused, with literals and with given numbers."""
    big, x, i, u = 2**40, X[0], np.array([1, -3], np.int8), np.array([5, 2**63 + 7, 2**64 - 1], np.uint64)
    for text, values in [
        ("x * (4000000000 * 4000000000)", {}),
        ("x + n * n", {}),
        ("sqrt(n * n) + x", {}),
        ("n * n / n + x", {}),
        ("-(n * n) ? x : -x", {}),
        ("(float)(n * n) + x", {}),
        ("(int)(n * n) + i", {"i": i}),
        ("rotate(n * n, 3) + i", {"i": i}),
        ("(x > 0 ? n : 1) * n + x", {}),
        ("u < n * n", {"u": u}),
        ("u < 1099511627776 * 1099511627776", {"u": u}),
        ("u > -(n * n)", {"u": u}),
        ("(n * n > m) + 0 * i", {"i": i}),
        ("n * n && i", {"i": i}),
        ("((n * n) >> 70) + i", {"i": i}),
        ("((n * n) % 7) + i", {"i": i}),
        ("max(n * n, m) + i", {"i": i}),
        ("i + (1 << (n * n))", {"i": i}),
        ("1 << 70", {}),
        ("i + abs(m)", {"i": i}),
        ("i + max(m, 3) - min(m, 300)", {"i": i}),
        ("i + (i > 0 ? 1 : m) * 2", {"i": i}),
    ]:
        with pytest.raises(pydp.InvalidArgument, match=r"the integer .* is computed in int"):
            pydp.evaluate(text, **{"x": x, "n": big, "m": -300, **values})
    with pytest.raises(pydp.InvalidArgument, match="more than 256 possible values"):
        pydp.evaluate("+".join(f"(i > {k} ? {2**k} : 0)" for k in range(10)), i=i)
    same(pydp.evaluate("i + (i > 0 ? 1 : m) * 2 + abs(m) + max(m, -9)", i=i, m=-5), np.array([3, -13], np.int8))


@pytest.mark.oclgrind
def test_integers_beyond_int64(device):
    u, i, x = np.array([5, 2**63 + 7, 2**64 - 1], np.uint64), np.array([2**63 - 1, -(2**63)]), X[0]
    n, c = 2**64 - 1, 2**63
    got = pydp.evaluate("(u == n) + 2 * (c <= u) + 4 * (u < 18446744073709551615) + 8 * (c > u - 6)", u=u, n=n, c=c)
    same(got, (u == n) + 2 * (c <= u) + 4 * (u < n) + 8 * (c > u - np.uint64(6)))
    text = "(i < n) + 2 * (9223372036854775808 > i) + 4 * (n == i) + 8 * (i >= -9223372036854775808)"
    got = pydp.evaluate(text, i=i, n=n)
    same(got, np.array([11, 11]))
    for k in (n, 2**70, -(2**70)):  # the same text with numbers of three kinds
        same(pydp.evaluate("x * k", x=x, k=k), x * np.float32(k))
    for text in ("i + n", "i > k", "u + k", "k + 0 * i", "(int)k + i", "~n + u", "(n >> 1) + u", "abs(n) + u"):
        with pytest.raises(pydp.InvalidArgument, match="is computed in"):
            pydp.evaluate(text, u=u, i=i, n=n, k=2**70)
    with pytest.raises(pydp.InvalidArgument, match="too large; numbers that float64 holds"):
        pydp.evaluate("x + k", x=x, k=10**400)
    with pytest.raises(pydp.InvalidArgument, match=r"column 5: '18446744073709551616' is too large; .* below 2\*\*64"):
        pydp.evaluate("u + 18446744073709551616", u=u)
    k, m = 2**70 + 5, 2**70  # passed as floats, which do not hold them exactly
    for text in ("i + (k - m)", "x * (k - m)", "i + (k & 255)", "u + (k ^ m)", "u < k - m", "i + (k - m > 3)",
                 "(k - m) ? i : -i", "i + ~(k - m)", "x + (i > 0 ? k : m)"):  # fmt: skip
        with pytest.raises(pydp.InvalidArgument, match="is computed in"):
            pydp.evaluate(text, u=u, i=i, x=X[0, : i.size], k=k, m=m)
    with pytest.raises(pydp.InvalidArgument, match="-9223372036854775809 is computed in"):
        pydp.evaluate("i + (k + m)", i=i, k=-(2**63) - 1, m=255)


@pytest.mark.oclgrind
def test_random_integers_without_dtype(device):
    """Each has its exact value, or is refused; integers whose parts all fit int64 are not refused."""
    rng = np.random.default_rng(5)
    numbers = {"k": 2**70 + 3, "m": 2**64 - 1, "n": -(2**63), "p": 7, "q": 2**40 + 1, "r": 2**63 + 5}

    def made(depth):
        """(text, value, whether int64 holds all parts)."""
        if depth == 0 or rng.random() < 0.2:
            text = str(rng.choice([*numbers, "3", "255", "4294967296", "9223372036854775807"]))
            value = numbers.get(text) or int(text)
            return text, value, abs(value) < 2**63
        (left, a, holds), (right, b, also) = made(depth - 1), made(depth - 1)
        symbol = str(rng.choice(["+", "-", "*", "&", "|", "^", "<", "max", "~", "?"]))
        text = {"max": f"max({left}, {right})", "~": f"~({left})", "?": f"({left} ? {right} : {left})"}.get(
            symbol, f"(({left}) {symbol} ({right}))"
        )
        value = {
            "+": a + b, "-": a - b, "*": a * b, "&": a & b, "|": a | b, "^": a ^ b, "<": a < b, "max": max(a, b),
            "~": ~a, "?": b if a else a,
        }[symbol]  # fmt: skip
        return text, int(value), holds and (also or symbol == "~") and abs(value) < 2**63

    texts, values = [], []
    while len(texts) < 60:
        text, value, simple = made(3)
        kinds = tuple((name, kind_of(one)) for name, one in numbers.items())
        try:
            expression_of(f"i + ({text})", (("i", np.dtype(np.int64)), *kinds), True).check([None, *numbers.values()])
        except pydp.InvalidArgument:
            assert not simple, text
            continue
        assert -(2**63) <= value < 2**63, text
        texts.append(text)
        values.append(value)
    i = np.arange(len(texts))
    for part in range(0, len(texts), 15):
        text = "".join(f"i == {n} ? 0 * i + ({texts[n]}) : " for n in range(part, part + 15)) + "i"
        given = {name: one for name, one in numbers.items() if name in text}
        same(pydp.evaluate(text, i=i, **given)[part : part + 15], np.array(values[part : part + 15]))


@pytest.mark.oclgrind
def test_shifts(device):
    """Counts that are negative, or not smaller than the width."""
    for dtype in (np.int8, np.uint16, np.int32, np.int64, np.uint64):
        bits = np.dtype(dtype).itemsize * 8
        below = [-1, -bits] if np.iinfo(dtype).min else []
        counts = np.array([0, 1, bits - 1, bits, bits + 1, 100, *below], dtype)
        a = np.repeat(np.array([1, 5, np.iinfo(dtype).min, np.iinfo(dtype).max], dtype)[:, None], counts.size, 1)
        got = pydp.evaluate("(a << c) ^ (a >> c) + (a << 3) - (a >> 70)", a=a, c=counts)
        same(got, (a << counts) ^ (a >> counts) + (a << dtype(3)) - (a >> dtype(70)))


@pytest.mark.oclgrind
def test_powers_and_quotients_of_integers(device):
    for dtype in (np.int8, np.uint16, np.int32, np.uint64):
        small = np.array([0, 1, 2, 3, 7], dtype)
        a, b = (one.ravel() for one in np.meshgrid(np.array([1, 3, np.iinfo(dtype).min, 100], dtype), small))
        same(pydp.evaluate("power(a, b) + pow(b, 2)", a=a, b=b), a**b + b * b)
        with np.errstate(all="ignore"):
            same(pydp.evaluate("floor_divide(a, b)", a=a, b=b), a // b)
    signed = np.array([-7, 7, -128], np.int8)
    same(pydp.evaluate("floor_divide(a, -2) + floor_divide(7, a)", a=signed), signed // -2 + 7 // signed)
    same(pydp.evaluate("a + floor_divide(-7, 2) * pow(3, 2) + pow(2, c)", a=signed[:2], c=-4), signed[:2] - 36 + 1)
    with pytest.raises(pydp.InvalidArgument, match="is computed in int8"):
        pydp.evaluate("a + pow(-1, c) * pow(-2, c)", a=signed, c=999)


@pytest.mark.oclgrind
def test_functions_of_rows(device):
    """Rows of whole vectors and rests; repeated rows, columns and elements; several parts of a long row."""
    rng = np.random.default_rng(3)

    def values(*shape):
        return rng.random(shape, np.float32)

    long = 40 if device.profile.is_simulator else 9000
    shapes = [
        ((3, 37), (3, 1), (37,)),
        ((3, 37), (1, 1), (3, 37)),
        ((2, 15), (2, 1), (15,)),
        ((2, 16), (2, 1), (1, 16)),
    ]
    shapes += [
        ((long,), (1,), (long,)),
        ((2, long), (2, 1), (long,)),
        ((2, 3, 33), (3, 1), (2, 1, 1)),
        ((600, 17), (600, 1), ()),
    ]
    for shape in shapes[:6] if device.profile.is_simulator else shapes:
        x, y, z = (values(*one) for one in shape)
        got = pydp.evaluate("exp(x - y) * z", x=x, y=y, z=z)
        np.testing.assert_allclose(got, np.exp(x - y) * z, rtol=1e-6, err_msg=str(shape))
    x, y = values(6, 40), values(6, 1)
    field = pydp.field(x, device=device)
    pydp.evaluate("exp(x - y)", x=field, y=y, out=field)  # in place
    np.testing.assert_allclose(field.get(), np.exp(x - y), rtol=1e-6)
    framed = pydp.zeros((6, 50), np.float32, device=device)  # rows apart, columns, backwards
    pydp.evaluate("exp(x - y)", x=pydp.field(x, device=device), y=y, out=framed[:, 5:45])
    np.testing.assert_allclose(framed.get(), np.pad(np.exp(x - y), ((0, 0), (5, 5))), rtol=1e-6)
    for view in (x.T, x[:, ::-1], x[::-1], x[:, ::2]):
        np.testing.assert_allclose(pydp.evaluate("exp(x)", x=pydp.field(view)), np.exp(view), rtol=1e-6)


def test_bools_of_vectors(device):
    x, y = X[0], Y[0]  # the calls make vectors of floats, whose comparisons are -1 or 0
    want = np.where((x > 0) > (y > 0), x, -x) + np.abs(x)
    same(pydp.evaluate("((x > 0) > (y > 0) ? x : -x) + fabs(x)", x=x, y=y), want)
    want = np.where((x > 0) == True, x, -x) + np.abs(x)  # noqa: E712
    same(pydp.evaluate("((x > 0) == (c > 1) ? x : -x) + fabs(x)", x=x, c=2), want)
    same(pydp.evaluate("((x > 0) & (c > 1) ? x : -x) + fabs(x)", x=x, c=2), want)


def test_names_of_constants(device):
    x = X[0]
    NAN = np.float32(2)
    same(pydp.evaluate("x + M_E * INT_MAX", x=x, M_E=2.0, INT_MAX=3), x + np.float32(6))
    same(pydp.evaluate("x * NAN"), x * NAN)
    assert np.isnan(pydp.evaluate("x * NAN", x=x)).all()


def test_clip(device):
    x = X.copy()
    x[0, :3] = np.nan, np.inf, -np.inf
    same(pydp.evaluate("clip(x, -0.5, 1)", x=x), np.clip(x, -0.5, 1))
    same(pydp.evaluate("clip(x, y, y + 1)", x=x, y=Y), np.clip(x, Y, Y + 1))
    same(pydp.evaluate("clip(x, 2, -2) * 2", x=x), np.clip(x, 2, -2) * 2)  # the upper limit wins
    same(pydp.evaluate("clip(n, -3, m)", n=N, m=M), np.clip(N, -3, M))
    same(pydp.evaluate("clip(n, 1, 4)", n=N.astype(np.uint8)), np.clip(N.astype(np.uint8), 1, 4))
    if device.profile.fp64:
        same(pydp.evaluate("clip(n, 0.5, x)", n=N, x=x), np.clip(N, 0.5, x))
    with pytest.raises(pydp.InvalidArgument, match="300"):
        pydp.evaluate("clip(n, 0, 300)", n=N.astype(np.uint8))  # as all integers that a dtype does not hold


def test_mistakes(device):
    for text, match in [
        ("x +", "ends where a value"),
        ("x + z", "'?z'?"),
        ("foo(x)", "the function 'foo' is unknown; OpenCL C's functions"),
        ("clip(x, 1)", "clip"),
        ("x[0]", "is not accepted"),
        ("x.y", "members and vectors"),
        ("x & 1", "not defined"),
        ("(float4)(x)", "members and vectors"),
        ("-(x > 0)", "bool"),
        ("x; y", "not accepted"),
        ("x + ²", "column 5: the name '²' is unknown"),
        ("", "numbers, operators on values"),
        ("x > 0 and x < 2", "column 7: 'and' is not accepted; x && y is accepted"),
        ("not x", "column 1: 'not' is not accepted; !x is"),
        ("x if x > 0 else y", "column 3: 'if' is not accepted; condition"),
        ("x ** 2", r"column 3: '\*\*' is not accepted; power\(x, y\) is"),
        ("x // 2", r"column 3: '//' is not accepted; floor_divide\(x, y\) is"),
        ("x + *y", r"column 5: '\*' \(a pointer\) is not"),
        ("0 < x < 2", "column 7: comparisons in a row"),
        ("x == y != y", "column 8: comparisons in a row"),
        ("x < -y + 1 == y", "column 12: comparisons in a row"),
        ("x != y < y", "column 8: comparisons in a row"),
        ("sin(x < y < y)", "column 11: comparisons in a row"),
        ("True", "column 1: the name 'True' is unknown"),
    ]:
        with pytest.raises(pydp.InvalidArgument, match=match):
            pydp.evaluate(text, x=X, y=Y)
    assert np.array_equal(pydp.evaluate("(0 < x) < 2", x=X), (X > 0) < 2)
    assert np.array_equal(pydp.evaluate("0 < x && x < y & y < 2", x=X, y=Y), (X > 0) & (X < Y) & (Y < 2))
    assert np.array_equal(pydp.evaluate("if + 1", **{"if": X}), X + 1)
    with pytest.raises(pydp.InvalidArgument, match="expression has 8193 characters"):
        names_in("a + " * 2048 + "a")  # before it looks for names
    with pytest.raises(pydp.InvalidArgument, match="complex64"):
        pydp.evaluate("x + 1", x=X.astype(np.complex64))
    with pytest.raises(pydp.InvalidArgument, match="shapes"):
        pydp.evaluate("x + y", x=X, y=Y[:3])
    with pytest.raises(pydp.InvalidArgument, match="not a variable"):
        pydp.evaluate("nonesuch + 1")
    with pytest.raises(pydp.InvalidArgument, match="expression uses y, but only x is given; pass y="):
        pydp.evaluate("x + y", x=X)
    with pytest.raises(pydp.InvalidArgument, match="a string is accepted"):
        pydp.evaluate(3)
