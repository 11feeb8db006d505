"""The calls whose specializations are all measured: each with its data, its reference and a tolerance."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np

import pydp

MATMUL = {  # (m, n, k)
    "square 256": (256, 256, 256),
    "square 512": (512, 512, 512),
    "square 1024": (1024, 1024, 1024),
    "square 2048": (2048, 2048, 2048),
    "tall": (4096, 64, 1024),
    "wide": (64, 4096, 1024),
    "deep": (128, 128, 16384),
    "odd": (777, 1001, 333),
}
SCAN = (1 << 12, 1 << 16, 1 << 20, 1 << 23, 1 << 26)
_QUICK = ("matmul float32 square 256", "scan int32 2^16")


@dataclass(frozen=True)
class Case:
    """One call. name: family, dtype and size. call(spec): make the call and wait. wrong(): why the result
    differs from the reference, or None. clear(): erase the result before a call."""

    name: str
    call: Callable[[Any], None]
    wrong: Callable[[], str | None]
    clear: Callable[[], None]


def wanted(device: Any, families: tuple[str, ...] = (), quick: bool = False) -> list[tuple[str, Callable[[str], Case]]]:
    """(name, builder) of the cases that the device can run, of some families or all; with `quick`, small cases only."""
    found = _builders(device)
    return [
        (name, build)
        for name, build in found
        if (not families or name.split()[0] in families) and (not quick or name in _QUICK)
    ]


def _builders(device: Any) -> Iterator[tuple[str, Callable[[str], Case]]]:
    for dtype in ("float32", "float64") if device.profile.fp64 else ("float32",):
        for label, size in MATMUL.items():
            yield f"matmul {dtype} {label}", _later(_matmul, device, dtype, size)
    for dtype in ("int32", "float32"):
        for n in SCAN:
            yield f"scan {dtype} 2^{n.bit_length() - 1}", _later(_scan, device, dtype, n)
    for n in (1 << 16, 1 << 20, 1 << 24):
        yield f"reduce float32 2^{n.bit_length() - 1}", _later(_reduce, device, n)
        yield f"histogram float32 2^{n.bit_length() - 1}", _later(_histogram, device, n)
    for n in (1 << 16, 1 << 20):
        yield f"sort int32 2^{n.bit_length() - 1}", _later(_sort, device, n)
    for side in (512, 2048):
        yield f"transpose float32 {side}", _later(_transpose, device, side)


def _later(make: Callable[..., Case], *args: Any) -> Callable[[str], Case]:
    return lambda name: make(name, *args)


def _matmul(name: str, device: Any, dtype: str, size: tuple[int, int, int]) -> Case:
    m, n, k = size
    rng = np.random.default_rng(0)
    a, b = (rng.standard_normal(shape).astype(dtype) for shape in ((m, k), (k, n)))
    left, right = pydp.field(a, device=device), pydp.field(b, device=device)
    out = pydp.zeros((m, n), dtype, device=device)
    expected = a.astype(np.float64) @ b.astype(np.float64)
    tolerance = 4 * np.finfo(dtype).eps * k

    def call(spec: Any) -> None:
        pydp.matmul(left, right, out=out, spec=spec)
        device.queue.finish()

    def wrong() -> str | None:
        error = float(np.max(np.abs(out.get() - expected)))
        return None if error <= tolerance else f"off by {error:.2g}"

    return Case(name, call, wrong, lambda: out.set(np.zeros((m, n), dtype)))


def _scan(name: str, device: Any, dtype: str, n: int) -> Case:
    x = np.random.default_rng(0).integers(0, 100, n).astype(dtype)
    field, out = pydp.field(x, device=device), pydp.zeros((n,), dtype, device=device)
    expected = np.cumsum(x, dtype=np.float64 if dtype == "float32" else dtype)
    scale = max(1.0, float(np.abs(expected).max()))

    def call(spec: Any) -> None:
        pydp.scan(field, out=out, spec=spec)
        device.queue.finish()

    def wrong() -> str | None:
        got = out.get()
        if dtype == "int32":
            return None if np.array_equal(got, expected) else "integers differ"
        error = float(np.max(np.abs(got - expected))) / scale
        return None if error <= 8 * np.finfo(np.float32).eps * n**0.5 else f"off by {error:.2g}"

    return Case(name, call, wrong, lambda: out.set(np.zeros(n, dtype)))


def _exact(device: Any, name: str, run: Callable[[Any], Any], out: Any, expected: np.ndarray) -> Case:
    """A case whose result is written to the field `out` (None: returned) and equals `expected` in every bit."""
    got: list[Any] = [None]

    def call(spec: Any) -> None:
        got[0] = run(spec)
        device.queue.finish()

    def clear() -> None:
        got[0] = None
        if out is not None:
            out.set(np.zeros(expected.shape, expected.dtype))

    def wrong() -> str | None:
        return None if np.array_equal(np.asarray(got[0]), expected) else "elements differ"

    return Case(name, call, wrong, clear)


def _reduce(name: str, device: Any, n: int) -> Case:
    x = np.random.default_rng(0).integers(0, 2, n).astype(np.float32)  # sums of at most 2^24: exact in any order
    field, out = pydp.field(x, device=device), pydp.zeros((), np.float32, device=device)
    expected = np.asarray(x.sum(dtype=np.float64).astype(np.float32))
    return _exact(device, name, lambda spec: pydp.reduce(field, "+", out=out, spec=spec), out, expected)


def _sort(name: str, device: Any, n: int) -> Case:
    x = np.random.default_rng(0).integers(-(1 << 31), 1 << 31, n).astype(np.int32)
    field = pydp.field(x, device=device)
    return _exact(device, name, lambda spec: pydp.sort(field, spec=spec), None, np.sort(x))


def _histogram(name: str, device: Any, n: int) -> Case:
    x = np.random.default_rng(0).random(n, np.float32)
    field = pydp.field(x, device=device)
    expected = np.histogram(x, 100, (0.0, 1.0))[0]

    def run(spec: Any) -> Any:
        return pydp.histogram(field, 100, (0.0, 1.0), spec=spec)[0]

    return _exact(device, name, run, None, expected)


def _transpose(name: str, device: Any, side: int) -> Case:
    x = np.random.default_rng(0).random((side, side), np.float32)
    field, out = pydp.field(x, device=device), pydp.zeros((side, side), np.float32, device=device)
    return _exact(device, name, lambda spec: pydp.transpose(field, out=out, spec=spec), out, x.T.copy())
