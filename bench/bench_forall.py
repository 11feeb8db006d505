"""forall: the tiled product of the source and register-blocked products against the textbook kernel, NumPy and the
peak; a stencil on the host against NumPy; the overhead of a call."""

from __future__ import annotations

import time
from collections.abc import Sequence
from typing import Any

import numpy as np
from pydp.bench.limits import Limits
from pydp.bench.measure import Row, alternating

import pydp
from pydp.algorithms.forall.arguments import Arguments
from pydp.algorithms.forall.plan import translation
from pydp.lang.source.fingerprint import fingerprint
from pydp.runtime.programs.program import kernel

_TILE = 16


@pydp.vector
def mxm_tiled(idx: Any, C: Any, A: Any, B: Any) -> None:
    """The product of the source: one result for each lane, tiles staged in local memory."""
    sA = pydp.local_field(np.float32, 16, 16)
    sB = pydp.local_field(np.float32, 16, 16)
    acc = 0.0
    for i in range(A.extent(1)):
        sA[idx.local] = A(idx.group[0], i)[idx.local]
        sB[idx.local] = B(i, idx.group[1])[idx.local]
        pydp.group_barrier()
        for k in range(16):
            acc += sA(idx.local[0], k) * sB(k, idx.local[1])
        pydp.group_barrier()
    C[idx] = acc


@pydp.vector
def mxm_two_level(idx: Any, C: Any, A: Any, B: Any) -> None:
    """64x64 results for each group of 16x16 lanes, 4x4 for each lane; C, A and B are tiled by 64x64, 64x16, 16x64."""
    sA = pydp.local_field(np.float32, 64, 16)
    sB = pydp.local_field(np.float32, 16, 64)
    acc = pydp.private_field(np.float32, 4, 4)
    i, j = idx.local
    for r in range(4):
        for c in range(4):
            acc[r, c] = 0.0
    for step in range(A.extent(1)):
        a = A(idx.group[0], step)
        b = B(step, idx.group[1])
        for r in range(4):
            sA[i + 16 * r, j] = a[i + 16 * r, j]
            sB[i, j + 16 * r] = b[i, j + 16 * r]
        pydp.group_barrier()
        for k in range(16):
            for r in range(4):
                for c in range(4):
                    acc[r, c] = pydp.fma(sA[i + 16 * r, k], sB[k, j + 16 * c], acc[r, c])
        pydp.group_barrier()
    tile = C[idx.group]
    for r in range(4):
        for c in range(4):
            tile[i + 16 * r, j + 16 * c] = acc[r, c]


@pydp.vector
def mxm_neighbours(idx: Any, C: Any, A: Any, B: Any) -> None:
    """As :func:`mxm_two_level`, with four neighbouring rows and columns for each lane: i * 4 + r, j * 4 + c."""
    sA = pydp.local_field(np.float32, 64, 16)
    sB = pydp.local_field(np.float32, 16, 64)
    acc = pydp.private_field(np.float32, 4, 4)
    i, j = idx.local
    for r in range(4):
        for c in range(4):
            acc[r, c] = 0.0
    for step in range(A.extent(1)):
        a = A(idx.group[0], step)
        b = B(step, idx.group[1])
        for r in range(4):
            sA[i * 4 + r, j] = a[i * 4 + r, j]
            sB[i, j * 4 + r] = b[i, j * 4 + r]
        pydp.group_barrier()
        for k in range(16):
            for r in range(4):
                for c in range(4):
                    acc[r, c] = pydp.fma(sA[i * 4 + r, k], sB[k, j * 4 + c], acc[r, c])
        pydp.group_barrier()
    tile = C[idx.group]
    for r in range(4):
        for c in range(4):
            tile[i * 4 + r, j * 4 + c] = acc[r, c]


@pydp.vector
def stencil(idx: Any, out: Any, a: Any) -> None:
    """A five-point stencil; elements outside read as 0."""
    i, j = idx
    out[idx] = 0.25 * (a[i - 1, j] + a[i + 1, j] + a[i, j - 1] + a[i, j + 1])


@pydp.vector
def scaled(idx: Any, c: Any, a: Any, b: Any, factor: Any) -> None:
    """c = a * factor + b; on small fields, a call is only overhead."""
    c[idx] = a[idx] * factor + b[idx]


def tiled(c: Any, a: Any, b: Any) -> Any:
    """Launch :func:`mxm_tiled`."""
    return pydp.forall(c.grid, mxm_tiled, c, pydp.tile(a, (16, 16)), pydp.tile(b, (16, 16)), group=(16, 16))


def two_level(c: Any, a: Any, b: Any, function: Any = mxm_two_level) -> Any:
    """Launch :func:`mxm_two_level` or another function of the same form."""
    tiles = pydp.tile(c, (64, 64))
    lanes = tuple(16 * count for count in tiles.extent)
    return pydp.forall(lanes, function, tiles, pydp.tile(a, (64, 16)), pydp.tile(b, (16, 64)), group=(16, 16))


def run(device: Any, sizes: Sequence[int] | None = None, quick: bool = False) -> list[Row]:
    """Rows for both products at each size (GFLOP/s), the host stencil (Gpoint/s) and a warm call (calls/s)."""
    chosen = list(sizes) if sizes is not None else [512] if quick else [512, 1024]
    peak = Limits(device).peak("float32")
    rows = [row for size in chosen for row in _products(device, size, peak)]
    return [*rows, _host_stencil(device, 1024 if quick else 2048), _call(device)]


def _products(device: Any, size: int, peak: Any) -> list[Row]:
    rng = np.random.default_rng(0)
    a, b = (rng.standard_normal((size, size), np.float32) for _ in range(2))
    left, right = pydp.field(a, device=device), pydp.field(b, device=device)
    forms = ("tiled", "two-level", "neighbours", "textbook")
    outs = {name: pydp.zeros((size, size), np.float32, device=device) for name in forms}
    host = np.empty_like(a)
    textbook = kernel(device, "textbook_matmul.mako", "textbook_matmul", {"type": "float", "tile": _TILE})
    whole = (-(-size // _TILE) * _TILE,) * 2
    buffers = [one.array.base_data for one in (left, right, outs["textbook"])]
    numbers = [np.int32(size)] * 3
    candidates = {
        "tiled": lambda: tiled(outs["tiled"], left, right).wait(),
        "two-level": lambda: two_level(outs["two-level"], left, right).wait(),
        "neighbours": lambda: two_level(outs["neighbours"], left, right, mxm_neighbours).wait(),
        "numpy": lambda: np.matmul(a, b, out=host),
        "textbook": lambda: textbook.enqueue(device.queue, whole, (_TILE, _TILE), [*buffers, *numbers]).wait(),
        "peak": peak,
    }
    seconds = alternating(candidates)
    rows = []
    for name in forms[:-1]:
        np.testing.assert_allclose(outs[name].get(), host, rtol=0, atol=1e-5 * size)
        rate = 2.0 * size**3 / seconds[name] / 1e9
        peers = ("numpy", "textbook", "two-level") if name == "neighbours" else ("numpy", "textbook")
        ratios = {peer: seconds[peer] / seconds[name] for peer in peers}
        ratios["FMA peak"] = rate / peak.limit
        rows.append(Row("forall", f"{name} product {size}", device.name, seconds[name], rate, "GFLOP/s", ratios))
    return rows


def _host_stencil(device: Any, size: int) -> Row:
    a = np.random.default_rng(0).standard_normal((size, size), np.float32)
    ours, theirs = np.zeros_like(a), np.zeros_like(a)
    padded = np.zeros((size + 2, size + 2), np.float32)

    def numpy() -> None:
        padded[1:-1, 1:-1] = a
        np.multiply(
            padded[:-2, 1:-1] + padded[2:, 1:-1] + padded[1:-1, :-2] + padded[1:-1, 2:], np.float32(0.25), out=theirs
        )

    seconds = alternating({"host": lambda: pydp.forall(a.shape, stencil, ours, a, device="host"), "numpy": numpy})
    np.testing.assert_array_equal(ours, theirs)
    rate = a.size / seconds["host"] / 1e9
    ratios = {"numpy": seconds["numpy"] / seconds["host"]}
    return Row("forall", f"host stencil {size}", "host", seconds["host"], rate, "Gpoint/s", ratios)


def _call(device: Any, calls: int = 50) -> Row:
    """A warm call on small fields against the bare enqueue of the same kernel, in CPU time of this thread only."""
    fields = [pydp.zeros((16, 16), np.float32, device=device) for _ in range(3)]
    given, grid = (*fields, 2.5), fields[0].grid
    made: dict[str, float] = {"forall": float("inf"), "bare": float("inf")}
    plan, args = _prepared(grid, given, device)
    shape = plan.launch_shape((16, 16))
    for _ in range(20):
        for name in made:
            began = time.thread_time()
            for _ in range(calls):
                if name == "forall":
                    pydp.forall(grid, scaled, *given)
                else:
                    plan.kernel.enqueue(device.queue, *shape, args)
            made[name] = min(made[name], (time.thread_time() - began) / calls)
            device.queue.finish()
    own = made["forall"] - made["bare"]
    return Row(
        "forall", "warm call", device.name, made["forall"], 1 / made["forall"] / 1e3, "kcall/s",
        {"bare enqueue": made["bare"] / made["forall"]}, notes=f"{own * 1e6:.0f} us above the bare enqueue",
    )  # fmt: skip


def _prepared(grid: Any, given: tuple[Any, ...], device: Any) -> tuple[Any, list[Any]]:
    """The plan of forall for a call and the kernel's arguments, for the bare enqueue."""
    found = translation(scaled, fingerprint(scaled), grid.rank, None, Arguments(given).parts, False)
    plan = found.plan(device, None, tuple(grid.extent))
    operands = {place: given[place]._operand(name) for place, name in found.arrays}
    return plan, plan.arguments(operands, given, tuple(grid.extent), (0,) * grid.rank)


if __name__ == "__main__":
    from pydp.bench.report import table
    from rich.console import Console

    Console().print(table(run(pydp.device())))
