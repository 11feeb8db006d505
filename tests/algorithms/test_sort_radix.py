"""The radix sort against NumPy's stable sort, bit for bit, with limits so small that short arrays take every path."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any

import needs
import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from made_up import profile
from sort_samples import KINDS, TYPES, indices, made

import pydp
from pydp.algorithms.sort.policy import FAMILY
from pydp.algorithms.sort.radix_policy import RADIX_ELEMENTS, radix_default, rounds, whole_rows
from pydp.algorithms.sort.spec import SortProblem

# Rows of up to 512 elements are sorted whole; above 4096 elements in all, large buckets are distributed again.
SMALL = {"mapping": "vector", "strategy": "radix", "run": 256, "digit": 4, "bins": 6, "chunk": 64}
LENGTHS = [0, 1, 2, 15, 16, 17, 63, 64, 65, 127, 128, 129, 300, 511, 512, 513, 2047, 2048, 4095, 4096, 4097, 5000]


@pytest.fixture
def radix(device: Any) -> Any:
    """The device, if it can run a radix sort."""
    needs.vector_mapping(device)
    if device.kind == "gpu":
        with pytest.raises(pydp.InvalidArgument, match="is for CPUs"):
            pydp.sort(np.zeros(9, np.int32), spec=SMALL)
        pytest.skip("the radix sort by single work-items is for CPUs")
    return device


def _check(x: np.ndarray, spec: Any, descending: bool = False, axis: int = -1, values: Any = None) -> None:
    wanted = indices(x, descending, axis)
    keys = np.take_along_axis(x, wanted, axis)
    named: dict[str, Any] = {"spec": spec, "descending": descending, "axis": axis}
    assert np.array_equal(pydp.argsort(x, **named), wanted)
    got = pydp.sort(x, **named)
    assert got.dtype == x.dtype and got.tobytes() == keys.tobytes()
    if values is not None:
        got_keys, got_values = pydp.sort_by_key(x, values, **named)
        assert got_keys.tobytes() == keys.tobytes()
        assert got_values.tobytes() == np.take_along_axis(values, wanted, axis).tobytes()


def _types(device: Any) -> list[tuple[str, bool]]:
    """The types, and whether tests sort them in descending order: few different kernels are built."""
    every = [(one, bool(place % 2)) for place, one in enumerate(TYPES)]
    return [(one, descending) for one, descending in every if needs.has(device, np.dtype(one))]


CARRIED = {"u1": "f8", "i2": "i1", "i4": "i4,u1", "f4": "i1", "u8": "i4,u1", "f8": "f8"}
"""The types of the drawn keys, and the type of the values that are sorted by them."""


@pytest.mark.sweep
@settings(max_examples=40, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(data=st.data())
def test_equals_numpy(radix: Any, data: Any) -> None:
    dtype, descending = data.draw(st.sampled_from([one for one in _types(radix) if one[0] in CARRIED]))
    n = data.draw(st.one_of(st.sampled_from(LENGTHS), st.integers(0, 5000)))
    kind = data.draw(st.sampled_from(KINDS))
    x = made(dtype, n, kind, data.draw(st.integers(0, 1 << 32)))
    values = np.arange(n).astype(CARRIED[dtype]) if data.draw(st.booleans()) else None
    _check(x, SMALL, descending, values=values)


@pytest.mark.sweep
@pytest.mark.parametrize("kind", KINDS)
def test_all_types_at_every_limit(radix: Any, kind: str) -> None:
    for place, (dtype, descending) in enumerate(_types(radix)):
        for n in LENGTHS[place % 3 :: 3] + LENGTHS[-1:]:
            x = made(dtype, n, kind, n + place)
            if dtype in CARRIED:
                _check(x, SMALL, descending)
            else:
                keys = x[indices(x, descending)]
                assert pydp.sort(x, spec=SMALL, descending=descending).tobytes() == keys.tobytes(), (dtype, n)


@settings(max_examples=15, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(data=st.data())
def test_axes_and_strides(radix: Any, data: Any) -> None:
    shape = data.draw(st.lists(st.integers(1, 40), min_size=1, max_size=3))
    axis = data.draw(st.integers(0, len(shape) - 1))
    shape[axis] = data.draw(st.sampled_from([1, 7, 40, 129, 300]))
    steps = [data.draw(st.sampled_from([1, -1, 2, -3])) for _ in shape]
    whole = [size * abs(step) for size, step in zip(shape, steps, strict=True)]
    dtype = data.draw(st.sampled_from(["i1", "i4", "f4", "u8"]))
    x = made(dtype, math.prod(whole), data.draw(st.sampled_from(KINDS)), 5).reshape(whole)
    x = x[tuple(slice(None, None, step) for step in steps)]
    values = np.arange(x.size, dtype=np.int32).reshape(x.shape)
    _check(x, SMALL, data.draw(st.booleans()), axis, values)


@pytest.mark.oclgrind
@pytest.mark.parametrize("dtype", ["u1", "f4"])
def test_every_phase(radix: Any, dtype: str) -> None:
    """Whole rows, one round, two rounds; carried values of all kinds; filled, copied, inserted and large buckets."""
    needs.dtype(radix, dtype)
    for run, n, kind in (
        (16, 20, "random"),
        (16, 32, "few"),
        (16, 100, "random"),
        (16, 300, "few"),
        (16, 600, "skew99"),
        (16, 600, "near"),
        (128, 150, "random"),
        (128, 250, "reversed"),
        (128, 300, "random"),
    ):
        x = made(dtype, n, kind, n)
        _check(x, {**SMALL, "run": run, "chunk": 32}, values=np.arange(n, dtype=np.int16))
    spec = {**SMALL, "run": 16, "chunk": 32}
    rows = made(dtype, 90, "special", 2).reshape(3, 30)
    _check(rows, spec, descending=True, axis=0, values=np.arange(90).reshape(3, 30).astype("i4,u1"))


@pytest.mark.sweep
@pytest.mark.parametrize(("dtype", "low", "end"), [("i1", 3, 8), ("u4", 16, 16), ("i4", 5, 29), ("i8", 32, 64)])
def test_windows_of_bits(radix: Any, dtype: str, low: int, end: int) -> None:
    width, descending = 8 * np.dtype(dtype).itemsize, dtype == "i8"
    named: dict[str, Any] = {"bits": (low, end), "descending": descending, "spec": SMALL}
    for n in (64, 129, 512, 513, 3000, 4097):
        for kind in ("random", "sorted", "skew99", "special"):
            x = made(dtype, n, kind, n)
            flip = (dtype[0] == "i") << width - 1
            keys = np.array([((one % (1 << width)) ^ flip) % (1 << end) >> low for one in x.tolist()], np.uint64)
            wanted = indices(keys, descending)
            assert pydp.sort(x, **named).tobytes() == x[wanted].tobytes(), (n, kind)
            assert np.array_equal(pydp.argsort(x, **named), wanted), (n, kind)


def test_more_buckets_than_lines(radix: Any) -> None:
    """Buckets are joined until their lines fit into the cache, also where each would hold one element."""
    for run in (1, 2):
        spec = {**SMALL, "run": run, "bins": 12, "chunk": 1 << 12}
        for kind in ("random", "sorted", "skew99"):
            _check(made("u4", 9000, kind, 3), spec)


def test_long_keys_with_equal_high_bits(radix: Any) -> None:
    """Keys of 64 bits that differ in their lowest bits only, next to one far away: insertion gives up."""
    for n in (100, 1000, 3000):
        x = np.random.default_rng(n).integers(0, 1 << 16, n).astype(np.uint64)
        x[n // 2] = 1 << 63
        _check(x, SMALL)
        _check(x, {**SMALL, "run": 1 << 12, "digit": 8})


@pytest.mark.sweep
def test_rows_in_order(radix: Any) -> None:
    """Rows in order are copied: with equal keys, ends of chunks and blocks, and one exception."""
    for dtype in ("i4", "f4"):
        for n in (513, 5000):
            for high in (3, 10 * n):
                x = np.sort(np.random.default_rng(n).integers(-high, high, n)).astype(dtype)
                for at in (None, 15, 16, 32, 300, n - 18, n - 17, n - 16, n - 1):
                    y = x.copy()
                    if at is not None:
                        y[at] = y[at - 1] - 1
                    for z in (y, y[::-1].copy()):
                        _check(z, SMALL, descending=dtype == "f4", values=np.arange(n).astype(CARRIED[dtype]))
    for at in (1023, 1024, 1025, 2048):  # between blocks
        y = np.arange(5000, dtype=np.int32)
        y[[at, at + 1]] = y[[at + 1, at]]
        _check(y, SMALL)
        _check(y[::-1].copy(), SMALL)
    rows = np.stack([x, x[::-1], np.roll(x, 1)])
    _check(rows, SMALL, descending=True, values=np.arange(rows.size).astype("i1").reshape(rows.shape))
    for y in (x, x[::-1].copy()):
        field = pydp.field(y)
        assert np.array_equal(pydp.sort(field, out=field, spec=SMALL).get(), np.sort(y))
        whole = np.concatenate([y, y])
        pydp.sort(whole[:5000], out=whole[1000:6000], spec=SMALL)
        assert np.array_equal(whole[1000:6000], np.sort(y))


@pytest.mark.sweep
def test_first_elements_in_order_on_both_sides_of_zero(radix: Any) -> None:
    """The first bins of 64-bit floats leave out the gap around zero, which elements in order bound, too."""
    needs.dtype(radix, np.float64)
    rest = 10.0 ** np.random.default_rng(0).uniform(-300, 300, 300_000 - 32768)
    x = np.concatenate([-np.geomspace(1e300, 1e-300, 32768), rest])
    for y in (x, -x, x[::-1].copy()):
        for descending in (False, True):
            _check(y, {"mapping": "vector", "strategy": "radix"}, descending)


def test_in_place_and_out(radix: Any) -> None:
    x = made("i4", 3000, "random", 4)
    wanted = np.sort(x)
    for n in (100, 3000):
        field = pydp.field(x[:n])
        assert pydp.sort(field, out=field, spec=SMALL) is field
        assert np.array_equal(field.get(), np.sort(x[:n]))
    shifted = np.zeros(3001, np.int32)
    pydp.sort(x, out=shifted[1:], spec=SMALL)
    assert shifted[0] == 0 and np.array_equal(shifted[1:], wanted)
    half = np.concatenate([x, x])
    pydp.sort(half[:3000], out=half[1000:4000], spec=SMALL)
    assert np.array_equal(half[1000:4000], wanted) and np.array_equal(half[4000:], x[1000:])


@pytest.mark.sweep
@pytest.mark.parametrize("dtype", ["i4", "f4", "i2", "u8"])
def test_default_limits(radix: Any, dtype: str) -> None:
    every = (2047, 2048, (1 << 16) - 1, (1 << 16) + 1, (1 << 17) + 1, 300_007, (1 << 19) + 3)
    for n in every if dtype == "i4" else (2048, 300_007):
        for kind in ("random", "skew99"):
            x = made(dtype, n, kind, n)
            wanted = indices(x, False)
            assert pydp.sort(x).tobytes() == x[wanted].tobytes()
            if dtype == "i4":
                assert np.array_equal(pydp.argsort(x), wanted)


def test_repeated_calls_with_other_contents(radix: Any) -> None:
    """A recorded call clears its counters again, and no scratch memory is taken for zero."""
    for kind in [*KINDS, *reversed(KINDS)]:
        x = made("i4", 5000, kind, 9)
        assert np.array_equal(pydp.sort(pydp.field(x), spec=SMALL).get(), np.sort(x)), kind


def test_keys_that_only_a_merge_sort_takes(radix: Any) -> None:
    records = np.zeros(50, [("a", "i4"), ("b", "f4")])
    for call in (
        lambda spec: pydp.sort(np.arange(9), less=lambda a, b: a < b, spec=spec),
        lambda spec: pydp.sort(np.arange(9), key=lambda a: -a, spec=spec),
        lambda spec: pydp.sort(records, spec=spec),
        lambda spec: pydp.sort(np.zeros(9, np.complex64), spec=spec),
    ):
        with pytest.raises(pydp.InvalidArgument, match="need 'merge'"):
            call({"mapping": "vector", "strategy": "radix"})
        call(None)


def test_explanations(radix: Any) -> None:
    x = np.zeros((2, 3000), np.int32)
    told = str(pydp.explain(pydp.sort, x, spec=SMALL))
    assert "distributed to buckets by a digit of 6 bits; buckets of more than 512 are distributed again" in told
    assert "each row is sorted by one work-item" in str(pydp.explain(pydp.argsort, x[:, :100], spec=SMALL))


CPU = profile(kind="cpu", mapping="vector", compute_units=8, l2_bytes=1 << 20, l1_bytes=48 << 10)


@pytest.mark.host
def test_default_by_device() -> None:
    problem = SortProblem("int32", 1 << 24, 1, 4, element_bytes=4)
    assert FAMILY.default(CPU, problem).strategy == "radix"
    assert FAMILY.default(CPU, replace(problem, element_bytes=0)).strategy == "merge"
    assert FAMILY.default(replace(CPU, loop_limit=65535), problem).strategy == "merge"
    assert FAMILY.default(replace(CPU, mapping="simt"), problem).strategy == "merge"
    spec = radix_default(CPU, problem)
    for name, other, says in (
        ("loop_limit", replace(CPU, loop_limit=65535), "loops are longer"),
        ("mapping", CPU, "with mapping 'simt'"),
        ("lanes", CPU, "both must be 1"),
    ):
        wrong = (
            replace(spec, mapping="simt") if name == "mapping" else replace(spec, lanes=2) if name == "lanes" else spec
        )
        assert says in str(FAMILY.check(other, problem, wrong))


@pytest.mark.host
@pytest.mark.parametrize("n", [1 << 17, 1 << 20, 1 << 24, 1 << 28, RADIX_ELEMENTS - 1])
@pytest.mark.parametrize("rows", [1, 3, 100])
def test_sizes(n: int, rows: int) -> None:
    """Chunks cover each row; counts take a small part of the elements' memory; buckets fit into the caches."""
    n //= rows
    spec = radix_default(CPU, SortProblem("int32", n, rows, 4, element_bytes=4))
    if whole_rows(CPU, spec, n, rows):
        pytest.skip("rows of this length are sorted whole")
    sizes = rounds(CPU, spec, n, rows)
    assert sizes.per_row * sizes.chunk >= n > (sizes.per_row - 1) * sizes.chunk
    counts = max((rows * sizes.per_row) << sizes.bins, sizes.chunks << sizes.again)
    assert counts <= max(n * rows // 4, 1 << 16)
    assert sizes.target <= spec.run and 2 * sizes.limit * 4 <= CPU.l2_bytes
    assert sizes.segments * sizes.limit <= max(n * rows, sizes.limit)
