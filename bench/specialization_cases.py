"""The calls whose specializations are measured one by one: each with its problem, its reference and a tolerance."""

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
    """One call. name: family, dtype and size. call(spec) starts it and waits; wrong()
    says why what was written is not the reference's, or None; clear() wipes it out before."""

    name: str
    call: Callable[[Any], None]
    wrong: Callable[[], str | None]
    clear: Callable[[], None]


def cases(device: Any, families: tuple[str, ...] = (), quick: bool = False) -> Iterator[Case]:
    """The cases of the families (default: all) that the device can run; small ones only with `quick`."""
    for name, build in _builders(device):
        if (families and name.split()[0] not in families) or (quick and name not in _QUICK):
            continue
        yield build(name)


def _builders(device: Any) -> Iterator[tuple[str, Callable[[str], Case]]]:
    for dtype in ("float32", "float64") if device.profile.fp64 else ("float32",):
        for label, size in MATMUL.items():
            yield f"matmul {dtype} {label}", _later(_matmul, device, dtype, size)
    for dtype in ("int32", "float32"):
        for n in SCAN:
            yield f"scan {dtype} 2^{n.bit_length() - 1}", _later(_scan, device, dtype, n)


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
        return None if error <= 1e-4 else f"off by {error:.2g}"

    return Case(name, call, wrong, lambda: out.set(np.zeros(n, dtype)))
