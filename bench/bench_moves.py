"""Data movement beside NumPy, PyTorch and a copy kernel, in items per second."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from pydp.bench import peers
from pydp.bench.limits import Limits
from pydp.bench.measure import Row, alternating, cases_of

import pydp

_Case = tuple[str, Callable[[], Any], Callable[[], Any], Callable[..., Any] | None, tuple[np.ndarray, ...]]


def _cases(device: pydp.Device, n: int) -> list[_Case]:
    """(name, pydp's call on Fields, NumPy's, a call of PyTorch, its arrays)."""
    rng = np.random.default_rng(0)
    x = rng.standard_normal(n, np.float32)
    y = x[::-1].copy()
    indexes, mask = rng.integers(0, n, n), x > 0
    side = 1 << (n.bit_length() // 2)
    square = x[: side * side].reshape(side, -1)
    fields = {name: pydp.field(one, device=device) for name, one in
              {"x": x, "y": y, "i": indexes, "m": mask, "s": square, "t": x}.items()}  # fmt: skip
    f = fields
    target = x.copy()
    rows = indexes[: side // 2] % side
    row_field = pydp.field(rows, device=device)
    return [
        ("take of random elements", lambda: pydp.take(f["x"], f["i"]), lambda: np.take(x, indexes),
         lambda torch, a, i: torch.take(a, i), (x, indexes)),
        ("take of random elements, clip", lambda: pydp.take(f["x"], f["i"], mode="clip"),
         lambda: np.take(x, indexes, mode="clip"), lambda torch, a, i: torch.take(a, i), (x, indexes)),
        ("take of rows", lambda: pydp.take(f["s"], row_field, 0), lambda: np.take(square, rows, 0),
         lambda torch, a, i: torch.index_select(a, 0, i), (square, rows)),
        ("put of random elements", lambda: pydp.put(f["t"], f["i"], f["y"]), lambda: np.put(target, indexes, y),
         lambda torch, a, i, v: a.put_(i, v), (target, indexes, y)),
        ("where", lambda: pydp.where(f["m"], f["x"], f["y"]), lambda: np.where(mask, x, y),
         lambda torch, m, a, b: torch.where(m, a, b), (mask, x, y)),
        ("diff", lambda: pydp.diff(f["x"]), lambda: np.diff(x), lambda torch, a: torch.diff(a), (x,)),
        ("adjacent_difference", lambda: pydp.adjacent_difference(f["x"]), lambda: np.diff(x, prepend=np.float32(0)),
         lambda torch, a: torch.diff(a, prepend=torch.zeros(1)), (x,)),
        ("roll", lambda: pydp.roll(f["x"], 1000), lambda: np.roll(x, 1000), lambda torch, a: torch.roll(a, 1000), (x,)),
        ("flip", lambda: pydp.flip(f["x"]), lambda: np.flip(x).copy(), lambda torch, a: torch.flip(a, (0,)), (x,)),
        ("concatenate", lambda: pydp.concatenate([f["x"], f["y"]]), lambda: np.concatenate([x, y]),
         lambda torch, a, b: torch.cat([a, b]), (x, y)),
        ("stack, last axis", lambda: pydp.stack([f["x"], f["y"]], -1), lambda: np.stack([x, y], -1),
         lambda torch, a, b: torch.stack([a, b], -1), (x, y)),
        ("tile_array", lambda: pydp.tile_array(f["s"], (1, 2)), lambda: np.tile(square, (1, 2)),
         lambda torch, a: torch.tile(a, (1, 2)), (square,)),
        ("pad, reflect", lambda: pydp.pad(f["s"], 3, "reflect"), lambda: np.pad(square, 3, "reflect"),
         lambda torch, a: torch.nn.functional.pad(a[None], (3, 3, 3, 3), "reflect"), (square,)),
    ]  # fmt: skip


def run(device: pydp.Device, quick: bool = False, only: str = "") -> list[Row]:
    """2^24 float32 in Fields: gathers, scatters and block copies."""
    n = 1 << (18 if quick else 24)
    rows = []
    for case, ours, theirs, torchs, arrays in cases_of(_cases(device, n), only):
        made = ours()
        moved = n
        if made is not None:
            np.testing.assert_array_equal(made.get(), theirs())
            moved = made.size
        copy = Limits(device).copy(4 * moved)

        def on_device(ours: Any = ours) -> None:
            ours()
            device.queue.finish()

        calls: peers.Candidates = {"pydp": on_device, "copy kernel": copy, "NumPy": theirs}
        calls |= peers.torch(device, torchs, *arrays) if torchs is not None else {}
        seconds = alternating(calls, repeats=5, budget=4.0, warm=2)
        seconds["copy kernel"] *= 8 * moved / copy.work
        spent = seconds["pydp"]
        ratios = {peer: took / spent for peer, took in seconds.items() if peer != "pydp"}
        rows.append(Row("moves", f"{case} of {n}", device.name, spent, moved / spent / 1e9, "Gitem/s", ratios))
    return rows
