"""Specializations whose loops are longer than some drivers let a work-item go round: cut, refused, never wrong."""

from __future__ import annotations

import dataclasses
import functools
from typing import Any

import needs
import numpy as np
import pytest

import pydp
from pydp.algorithms.sort.policy import FAMILY, SortProblem
from pydp.model.architectures import by_target


def test_columns_of_small_elements_and_no_vectors(device: Any) -> None:
    x = np.random.default_rng(0).integers(-100, 100, (63, 8192)).astype(np.int8)
    assert np.array_equal(pydp.reduce(x, "a > b ? a : b", axis=0), x.max(0))
    assert np.array_equal(pydp.reduce(x[:, :4000], "max", axis=0), x[:, :4000].max(0))  # columns that are left over


@pytest.mark.parametrize("spec", [
    {"mapping": "simt", "lanes": 1, "items": 1, "waves": 1, "part": 2**40, "longest": 2**40, "busy": 1},
    {"mapping": "vector", "width": 0, "part": 2**40, "longest": 2**40, "busy": 1, "columns": 2**20},
])  # fmt: skip
def test_long_parts_of_reductions(device: Any, spec: dict[str, Any]) -> None:
    x = np.random.default_rng(3).integers(0, 100, (1 << 10, 1 << 10)).astype(np.int32)
    assert pydp.reduce(x, spec=spec) == x.sum()
    assert np.array_equal(pydp.reduce(x, axis=0, spec=spec), x.sum(0))
    told = pydp.explain(pydp.reduce, x, spec=spec)
    limit = device.profile.loop_limit
    assert (f"limit of {limit} loop iterations" in str(told)) == (limit is not None)
    assert (told.facts["specialization"].longest == 2**40) == (limit is None)


def test_many_parts_of_reductions_in_one_launch(device: Any) -> None:
    x = np.random.default_rng(3).integers(0, 100, 1 << 17).astype(np.int32)
    spec = {"mapping": "vector", "part": 2, "busy": 1 << 24, "joined": 1 << 16}
    assert pydp.reduce(x, spec=spec) == x.sum()


def test_large_partitions_of_scans(device: Any) -> None:
    x = np.random.default_rng(1).integers(0, 100, 1 << 20).astype(np.int32)
    spec = {"mapping": "vector", "part": 1 << 17, "vector": 0}
    assert np.array_equal(pydp.scan(x, spec=spec), np.cumsum(x, dtype=np.int32))


@pytest.mark.parametrize(("m", "k", "method"), [(300, 400, "packed"), (2, 30_000, "thin")])
def test_large_tiles_of_products(device: Any, m: int, k: int, method: str) -> None:
    rng = np.random.default_rng(2)
    a, b = (rng.integers(-4, 5, shape).astype(np.float32) for shape in ((m, k), (k, 500)))
    spec = {"mapping": "vector", "method": method, "tile_n": 512, "columns": 8, "width": 2, "unroll": 1}
    spec |= {"tile_m": 256} if method == "packed" else {"columns": 1024}
    for right in (b, np.asfortranarray(b)):
        assert np.array_equal(pydp.matmul(a, right, spec=spec), a @ b)
    limit = device.profile.loop_limit
    text = f"because the driver ends loops after {limit} iterations"
    assert (text in str(pydp.explain(pydp.matmul, a, b, spec=spec))) == (limit is not None)


def test_many_tiles_of_direct_products(device: Any) -> None:
    rng = np.random.default_rng(2)
    a, b = (rng.integers(-4, 5, shape).astype(np.float32) for shape in ((7, 16_000), (16_000, 31)))
    spec = {"mapping": "vector", "method": "direct", "rows": 4, "columns": 16, "width": 4, "unroll": 1}
    assert np.array_equal(pydp.matmul(a, b, spec=spec), a @ b)


@pytest.mark.parametrize("spec", [{"mapping": "vector"}, {"mapping": "simt", "lanes": 1, "sets": 1}])
def test_weights_of_many_bins(device: Any, spec: dict[str, Any]) -> None:
    """The second call finds the sums of the first in its scratch memory."""
    bins = 200_000
    edges = np.arange(bins + 1, dtype=np.float32)
    for at in (7, 11):
        x = np.array([bins - at, at], np.float32)
        sums, _ = pydp.histogram(x, edges, weights=np.array([2, 3], np.float32), spec=spec)
        assert np.flatnonzero(sums).tolist() == [at, bins - at] and sums.sum() == 5


def test_bins_that_a_kernel_of_their_own_clears(device: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("pydp.algorithms.histogram.plan._CLEARING", 1)
    for at in (70_007, 80_008):
        x = np.array([3, at], np.uint32)
        counts = pydp.bincount(x, minlength=100_000, spec={"mapping": "vector", "copies": 1})
        assert np.flatnonzero(counts).tolist() == [3, at]


def _added_late(a: Any, b: Any) -> Any:
    total = a
    for turn in range(120):
        total += b * (turn == 7)
    return total


def _negated_late(x: Any) -> Any:
    total = x - x
    for turn in range(120):
        total += x * (turn == 7)
    return -total


def _common_divisor(a: Any, b: Any) -> Any:
    while b != 0:
        a, b = b, a % b
    return a


def _power_sum(a: Any, b: Any) -> Any:
    total = a - a
    for _ in range(30):
        total += a**b
    return total


def test_operators_and_keys_that_loop(device: Any) -> None:
    x = np.random.default_rng(4).integers(0, 9, (1 << 9, 1 << 9)).astype(np.int32)
    for axis in (0, 1):
        assert np.array_equal(pydp.scan(x, _added_late, axis=axis), np.cumsum(x, axis, dtype=np.int32))
        assert np.array_equal(pydp.reduce(x, _added_late, axis=axis), x.sum(axis))
    flat = np.arange(1 << 18, dtype=np.int32)[::-1]
    assert np.array_equal(pydp.scan(flat, _added_late, spec={"part": 1 << 17}), np.cumsum(flat, dtype=np.int32))
    assert np.array_equal(pydp.sort(flat[:8192], key=_negated_late), flat[:8192])
    assert np.array_equal(pydp.argsort(flat[:8192], key=_negated_late), np.arange(8192))


def test_loops_of_unknown_length(device: Any) -> None:
    needs.endless_loops(device)
    x, op = np.random.default_rng(5).integers(0, 1000, 999).astype(np.int32), _common_divisor
    assert np.array_equal(pydp.scan(x, op), np.gcd.accumulate(x))
    assert pydp.reduce(x, op) == np.gcd.reduce(x)
    by_divisors = pydp.sort(x, less=lambda a, b: op(a, 30) < op(b, 30))
    assert np.array_equal(by_divisors, x[np.argsort(np.gcd(x, 30), kind="stable")])


@pytest.mark.parametrize("op", [_common_divisor, _power_sum])
def test_loops_that_are_too_long_or_of_unknown_length_are_refused(device: Any, op: Any) -> None:
    needs.ended_loops(device)
    x = np.random.default_rng(5).integers(0, 1000, 999).astype(np.int32)
    calls = [lambda: pydp.scan(x, op), lambda: pydp.reduce(x, op), lambda: pydp.sort(x, less=lambda a, b: op(a, b) > 2)]
    for call in calls:
        with pytest.raises(pydp.UnsupportedOnDevice, match="this driver ends a work-item's loops after 65535"):
            call()


def test_remainders_in_keys_and_operators(device: Any) -> None:
    """Drivers compute them in loops, by the bits of the quotient."""
    x = (np.random.default_rng(6).random(4096) * 1e6).astype(np.float32)
    got = pydp.sort(x, key=lambda v: v % 1)
    assert np.array_equal(got, x[np.argsort(x % np.float32(1), kind="stable")])
    for op in ("fmod(a + b, 8.0f)", lambda a, b: (a + b) % 8):
        whole = np.floor(x / 1000).reshape(64, 64)
        for axis in (0, 1):
            assert np.array_equal(pydp.reduce(whole, op, axis=axis), whole.sum(axis) % 8)
            assert np.array_equal(pydp.scan(whole, op, axis=axis)[1:, 1:], (np.cumsum(whole, axis) % 8)[1:, 1:])


def _both_sides(a: Any, b: Any) -> Any:
    total = a
    if b > 4:
        for turn in range(100):
            total += b * (turn == 99)
    else:
        for turn in range(101):
            total += b * (turn == 98)
    return total


@pytest.mark.parametrize("n", [600, 1843])
def test_columns_of_operators_whose_lanes_part(device: Any, n: int) -> None:
    x = np.random.default_rng(7).integers(0, 9, (n, 64)).astype(np.int32)
    for spec in ({"width": 1, "vector": 0}, {"mapping": "simt", "width": 1, "lanes": 64, "items": 1}):
        assert np.array_equal(pydp.scan(x, _both_sides, axis=0, spec=spec), np.cumsum(x, 0, dtype=np.int32))


def _counted(idx: Any, y: Any, x: Any, n: Any, m: Any) -> None:
    total = 0
    if x[idx] > 0:
        for _ in range(n):
            for _ in range(m):
                total += 1
    else:
        for _ in range(n):
            total += 1
    y[idx] = total


def _summed(idx: Any, y: Any, s: Any, n: Any) -> None:
    turns = 0
    for _ in range(n):
        pydp.atomic_add(s, 0, np.float32(1))
        turns += 1
    y[idx] = turns


@pytest.mark.parametrize(("n", "m"), [(100, 5), (10_000, 5), (40_000, 1), (32_000, 1)])
def test_loops_are_whole_or_refused(device: Any, n: int, m: int) -> None:
    x, y = np.arange(64, dtype=np.int32) % 2, np.zeros(64, np.int32)
    try:
        pydp.forall(64, _counted, y, x, n, m)
    except pydp.UnsupportedOnDevice:
        assert device.profile.loop_limit is not None and n > 100
    else:
        assert np.array_equal(y, np.where(x > 0, n * m, n))


def _summed_but_one(idx: Any, y: Any, s: Any, n: Any) -> None:
    turns = 1
    for _ in range(1, n):
        pydp.atomic_add(s, 0, np.float32(1))
        turns += 1
    pydp.atomic_add(s, 0, np.float32(1))
    y[idx] = turns


def _searched(idx: Any, y: Any, s: Any, n: Any) -> None:
    turns = 0
    for _ in range(n // 2):
        k = 0
        while k < 2 + idx[0] // 64:
            k += 1
            turns += 1
    y[idx] = turns
    pydp.atomic_add(s, 0, np.float32(turns))


def _harmonic(idx: Any, y: Any, n: Any, m: Any) -> None:
    total = 0
    for i in range(1, n):
        for _ in range(m // i):
            total += 1
    y[idx] = total


def _sieve(idx: Any, y: Any, n: Any, m: Any) -> None:
    total = 0
    for i in range(1, n + 1):
        for _ in range(0, m, i):
            total += 1
    y[idx] = total


def _guarded(idx: Any, y: Any, n: Any, k: Any) -> None:
    total = 0
    if k > 0:
        for _ in range(0, n, k):
            total += 1
    y[idx] = total


def _divided(idx: Any, y: Any, n: Any, k: Any) -> None:
    total = 0
    for _ in range(n // k):
        total += 1
    y[idx] = total


def _wrapped(idx: Any, y: Any, n: Any, m: Any) -> None:
    total = 0
    for _ in range(np.uint16(n)):
        for j in range(m):
            total += 1 + (j * total & 1) * 0
    y[idx] = total


def _windows(idx: Any, y: Any, n: Any, m: Any) -> None:
    total = 0
    for i in range(n):
        for _ in range(i, i + m):
            total += 1
    y[idx] = total


def _left_over(idx: Any, y: Any, n: Any, m: Any) -> None:
    total = 0
    for i in range(n):
        for j in range(n - i):
            for _ in range(n - i - j):
                total += 1
    y[idx] = total + m


@pytest.mark.parametrize(("function", "n", "m", "turns"), [
    (_harmonic, 10, 20, 54), (_sieve, 10, 20, 61), (_guarded, 9, 2, 5), (_guarded, 9, 0, 0), (_divided, -10, -2, 5),
    (_wrapped, 100, 2, 200), (_harmonic, 1000, 1000, 7068), (_sieve, 1000, 1000, 8053), (_windows, 3000, 16, 48_000),
    (_left_over, np.uint64(20), 0, 1540), (_left_over, np.uint8(20), 0, 1540), (_left_over, 50, 0, 22_100),
])  # fmt: skip
def test_loops_by_numbers_of_all_kinds(device: Any, function: Any, n: int, m: int, turns: int) -> None:
    y = np.full(64, -1, np.int32)
    # As lanes everywhere: Intel's compiler crashes on the vectors of some loops that hold nothing but a sum.
    pydp.forall(64, function, y, n, m, spec={"mapping": "simt"})
    assert np.array_equal(y, np.full(64, turns))


def _searched_powers(idx: Any, y: Any, x: Any, n: Any, k: Any) -> None:
    turns = 0
    while turns < n:
        turns += 1
    y[idx] = x[idx] ** (k + turns - n)


@pytest.mark.parametrize("n", [65_480, 65_500, 65_520, 65_525, 65_530, 65_532, 65_534])
def test_powers_after_the_last_loop_are_whole_or_refused(device: Any, n: int) -> None:
    """Their bits are gone through in a loop, which the one before may have left nothing."""
    x, y = np.arange(64, dtype=np.int32), np.zeros(64, np.int32)
    try:
        pydp.forall(64, _searched_powers, y, x, n, 5)
    except pydp.UnsupportedOnDevice:
        assert device.profile.loop_limit is not None
    else:
        assert np.array_equal(y, x**5)


def test_what_is_surely_too_long_is_refused_before_it_is_run(device: Any) -> None:
    y = np.full(64, -1, np.int32)
    pydp.forall(0, _windows, y, 70_000, 1)  # no lanes, no loops
    assert np.array_equal(y, np.full(64, -1))
    needs.ended_loops(device)
    for way in (pydp.forall, functools.partial(pydp.explain, pydp.forall)):
        with pytest.raises(pydp.UnsupportedOnDevice, match="_windows runs at least 210001 loop iterations"):
            way(64, _windows, y, 70_000, 1)
    assert np.array_equal(y, np.full(64, -1))


def test_bounds_that_wrap_are_whole_or_refused(device: Any) -> None:
    y = np.zeros(64, np.int32)
    try:
        pydp.forall(64, _wrapped, y, -1, 2)
    except pydp.UnsupportedOnDevice:
        assert device.profile.loop_limit is not None
    else:
        assert np.array_equal(y, np.full(64, 2 * 65535))


def _cubes(idx: Any, y: Any, x: Any, n: Any) -> None:
    total = 0
    for i in range(n):
        total += x[i] ** 3
    y[idx] = total


def test_constant_powers_in_loops(device: Any) -> None:
    x, y = np.arange(3000, dtype=np.int32) % 7, np.zeros(64, np.int32)
    pydp.forall(64, _cubes, y, x, 3000)
    assert np.array_equal(y, np.full(64, (x**3).sum()))


def test_members_that_are_named_like_functions(device: Any) -> None:
    kind = np.dtype([("quotient", np.int32), ("remainder", np.int32)])
    x = np.zeros(1000, kind)
    x["remainder"] = 1
    got = pydp.reduce(x, {"quotient": "a.quotient + b.quotient", "remainder": "a.remainder + b.remainder"})
    assert got["remainder"] == 1000


@pytest.mark.parametrize("function", [_summed, _summed_but_one, _searched])
@pytest.mark.parametrize("n", [100, 10_000, 50_000])
def test_updates_that_try_again_are_whole_or_refused(device: Any, function: Any, n: int) -> None:
    y, s = np.zeros(64, np.int32), np.zeros(1, np.float32)
    try:
        pydp.forall(64, function, y, s, n)
    except pydp.PydpError:
        assert device.profile.loop_limit is not None and n > 100
    else:
        assert np.array_equal(y, np.full(64, n)) and s[0] == 64 * n


@pytest.mark.host
def test_long_sorts_are_refused_where_loops_are_cut() -> None:
    profile, problem = by_target("avx512")[0], SortProblem("int32", 1 << 20, 1, 4)
    cut = dataclasses.replace(profile, loop_limit=65535)
    base = FAMILY.default(cut, problem)
    for fields in ({"run": 1024, "small": 1024}, {"run": 4096, "small": 8}, {"stretch": 1 << 16}):
        spec = dataclasses.replace(base, **fields)
        assert FAMILY.check(profile, problem, spec) is None
        assert "exceed the loop iterations that this driver allows" in str(FAMILY.check(cut, problem, spec))
    assert FAMILY.check(cut, problem, base) is None and len(FAMILY.candidates(cut, problem)) == 81
