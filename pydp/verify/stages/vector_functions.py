"""Vector functions with known answers: barriers of several widths, tiles, atomics, records."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

import pydp
from pydp.runtime.device.profile import Profile
from pydp.verify.check import NotApplicable


@dataclass(frozen=True)
class Example:
    """A launch. written: positions of the results in `(grid, function, *args)`; want: their expected values."""

    function: Any
    grid: tuple[int, ...]
    group: tuple[int, ...] | None
    args: tuple[Any, ...]
    want: tuple[np.ndarray, ...]
    written: tuple[int, ...] = (2,)


@pydp.vector
def sums_of_256(idx, out, x):  # type: ignore[no-untyped-def]
    s = pydp.local_field(np.int32, 256)
    i = idx.local[0]
    s[i] = x[idx]
    pydp.group_barrier()
    for k in range(8):
        n = 128 >> k
        if i < n:
            s[i] += s[i + n]
        pydp.group_barrier()
    if i == 0:
        out[idx.group[0]] = s[0]


@pydp.vector
def exchanges(idx, out, x, order, turns):  # type: ignore[no-untyped-def]
    s = pydp.local_field(np.int32, 128)
    i = idx.local[0]
    value = x[idx]
    for k in range(turns):
        width = 128 >> k
        s[i] = value
        pydp.group_barrier(width)
        value = s[i // width * width + (order[idx] + k) % width]
        pydp.group_barrier(width)
    out[idx] = value


@pydp.vector
def tiled_product(idx, C, A, B):  # type: ignore[no-untyped-def]
    sA = pydp.local_field(np.float32, 16, 16)
    sB = pydp.local_field(np.float32, 16, 16)
    acc = 0.0
    for i in range(A.extent[1]):
        sA[idx.local] = A[idx.group[0], i][idx.local]
        sB[idx.local] = B[i, idx.group[1]][idx.local]
        pydp.group_barrier()
        for k in range(16):
            acc += sA[idx.local[0], k] * sB[k, idx.local[1]]
        pydp.group_barrier()
    C[idx] = acc


@pydp.vector
def counts(idx, bins, total, x):  # type: ignore[no-untyped-def]
    pydp.atomic_add(bins, x[idx] % 7, 1)
    pydp.atomic_max(total, 0, x[idx])
    pydp.atomic_xor(total, 1, x[idx])


@pydp.vector
def tickets(idx, seen, count):  # type: ignore[no-untyped-def]
    pydp.atomic_add(seen, pydp.atomic_add(count, 0, 1), 1)


@pydp.vector
def wide_counts(idx, bins, x):  # type: ignore[no-untyped-def]
    pydp.atomic_add(bins, idx[0] % 3, x[idx])


@pydp.vector
def float_atomics(idx, sums, least, most, x):  # type: ignore[no-untyped-def]
    pydp.atomic_add(sums, idx[0] % 5, x[idx])
    pydp.atomic_min(least, idx[0] % 5, x[idx])
    pydp.atomic_max(most, idx[0] % 5, x[idx])


@pydp.vector
def integer_atomics(idx, least, every, some, x):  # type: ignore[no-untyped-def]
    pydp.atomic_min(least, idx[0] % 5, x[idx])
    pydp.atomic_and(every, idx[0] % 5, x[idx])
    pydp.atomic_or(some, idx[0] % 5, x[idx])


@pydp.vector
def wide_limits(idx, least, most, x):  # type: ignore[no-untyped-def]
    pydp.atomic_min(least, idx[0] % 5, x[idx])
    pydp.atomic_max(most, idx[0] % 5, x[idx])


@pydp.vector
def moved(idx, p, dt):  # type: ignore[no-untyped-def]
    p[idx].x += dt * p[idx].v[0]
    p[idx].y += dt * p[idx].v[1]


@pydp.vector
def collatz(idx, out, x):  # type: ignore[no-untyped-def]
    n = x[idx]
    steps = 0
    while n != 1:
        n = n // 2 if n % 2 == 0 else 3 * n + 1
        steps += 1
    out[idx] = steps


@pydp.vector
def marked(idx, a, base):  # type: ignore[no-untyped-def]
    a[idx[0] + base] = idx[0] % 251 + 1


def _sums(profile: Profile) -> Example:
    x = np.random.default_rng(1).integers(-999, 999, 256 * 301).astype(np.int32)
    want = x.reshape(-1, 256).sum(1, dtype=np.int32)
    return Example(sums_of_256, x.shape, (256,), (np.zeros_like(want), x), (want,))


def _exchanges(profile: Profile) -> Example:
    rng = np.random.default_rng(2)
    x, order = (rng.integers(0, 999, 128 * 203).astype(np.int32) for _ in range(2))
    want, lane = x, np.arange(x.size)
    for k in range(7):
        width = 128 >> k
        want = want[lane // width * width + (order + k) % width]
    return Example(exchanges, x.shape, (128,), (np.zeros_like(x), x, order, 7), (want,))


def _product(profile: Profile) -> Example:
    rng = np.random.default_rng(3)
    a, b = (rng.integers(-9, 9, shape).astype(np.float32) for shape in ((100, 70), (70, 90)))
    tiles = [pydp.read_only(pydp.tile(one, (16, 16))) for one in (a, b)]
    return Example(tiled_product, (100, 90), (16, 16), (np.zeros((100, 90), np.float32), *tiles), (a @ b,))


def _counts(profile: Profile) -> Example:
    x = np.random.default_rng(4).integers(0, 1 << 30, 50_021).astype(np.int32)
    want = np.bincount(x % 7, minlength=7).astype(np.int32)
    total = np.array([x.max(), np.bitwise_xor.reduce(x)], np.int32)
    args = (np.zeros(7, np.int32), np.zeros(2, np.int32), x)
    return Example(counts, x.shape, None, args, (want, total), (2, 3))


def _tickets(profile: Profile) -> Example:
    n = 20_011
    args = (np.zeros(n, np.int32), np.zeros(1, np.int32))
    return Example(tickets, (n,), None, args, (np.ones(n, np.int32), np.array([n], np.int32)), (2, 3))


def _wide(profile: Profile) -> Example:
    if not profile.int64_atomics:
        raise NotApplicable("the device has no 64-bit atomics")
    x = np.random.default_rng(5).integers(0, 1 << 40, 30_000)
    want = x.reshape(-1, 3).sum(0)
    return Example(wide_counts, x.shape, None, (np.zeros(3, np.int64), x), (want,))


def _updated(function: Any, x: np.ndarray, *updates: tuple[np.ufunc, Any]) -> Example:
    """Atomic updates of five elements each: by a ufunc, from an initial value."""
    rows = x.reshape(-1, 5)
    args = tuple(np.full(5, initial, x.dtype) for _, initial in updates)
    want = tuple(ufunc.reduce(rows, axis=0, dtype=x.dtype) for ufunc, _ in updates)
    return Example(function, x.shape, None, (*args, x), want, tuple(range(2, 2 + len(updates))))


def _floats(profile: Profile) -> Example:
    x = np.random.default_rng(7).integers(-99, 99, 10_000).astype(np.float32)  # sums are exact in any order
    return _updated(float_atomics, x, (np.add, 0), (np.minimum, np.inf), (np.maximum, -np.inf))


def _integers(profile: Profile) -> Example:
    x = np.random.default_rng(8).integers(-(1 << 31), 1 << 31, 10_000) & ~0xF0 | 0x0F  # bits that stay 0, and stay 1
    updates = ((np.minimum, 2**31 - 1), (np.bitwise_and, -1), (np.bitwise_or, 0))
    return _updated(integer_atomics, x.astype(np.int32), *updates)


def _wide_limits(profile: Profile) -> Example:
    if not profile.int64_atomics:
        raise NotApplicable("the device has no 64-bit atomics")
    x = np.random.default_rng(9).integers(-(1 << 62), 1 << 62, 10_000)
    return _updated(wide_limits, x, (np.minimum, 2**63 - 1), (np.maximum, -(2**63)))


def _moved(profile: Profile) -> Example:
    kind = np.dtype([("x", "f4"), ("y", "f4"), ("v", "f4", (2,))])
    p = np.zeros(10_007, kind)
    rng = np.random.default_rng(6)
    p["x"], p["y"], p["v"] = rng.integers(0, 99, p.size), rng.integers(0, 99, p.size), rng.integers(0, 9, (p.size, 2))
    want = p.copy()
    want["x"] += 2 * p["v"][:, 0]
    want["y"] += 2 * p["v"][:, 1]
    return Example(moved, p.shape, None, (p, 2), (want,))


def _collatz(profile: Profile) -> Example:
    x = np.arange(1, 5_001, dtype=np.int32)
    want = np.zeros_like(x)
    for at, n in enumerate(x.tolist()):
        while n != 1:
            n = n // 2 if n % 2 == 0 else 3 * n + 1
            want[at] += 1
    return Example(collatz, x.shape, None, (np.zeros_like(x), x), (want,))


EXAMPLES: dict[str, Callable[[Profile], Example]] = {
    "sums of 256": _sums,
    "exchanges": _exchanges,
    "tiled product": _product,
    "atomics": _counts,
    "tickets": _tickets,
    "float atomics": _floats,
    "integer atomics": _integers,
    "64-bit atomics": _wide,
    "64-bit atomic limits": _wide_limits,
    "records": _moved,
    "divergent loops": _collatz,
}
WITH_BARRIERS = ("sums of 256", "exchanges")
