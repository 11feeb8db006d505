"""Local fields laid out for banks: the paddings, what explain says of them, and the same results."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

import pydp
from pydp.algorithms.forall.plan import _translations
from pydp.tuning.choose import forget

SIMT = {"mapping": "simt"}


def turned(idx, out, x):
    s = pydp.local_field(np.float32, 32, 32)
    i, j = idx.local
    s[i, j] = x[idx]
    pydp.group_barrier()
    out[idx.group[1] * 32 + i, idx.group[0] * 32 + j] = s[j, i]


def tiled(idx, c, a, b):
    sa, sb = pydp.local_field(np.int32, 16, 16), pydp.local_field(np.int32, 16, 16)
    i, j = idx.local
    total = 0
    for t in range(a.extent[1] // 16):
        sa[i, j] = a[idx[0], t * 16 + j]
        sb[j, i] = b[t * 16 + j, idx[1] - j + i]
        pydp.group_barrier()
        for k in range(16):
            total += sa[i, k] * sb[k, j]
        pydp.group_barrier()
    c[idx] = total


def by_data(idx, out, x):
    s = pydp.local_field(np.int32, 8, 8)
    i, j = idx.local
    s[x[idx] & 7, j] = j
    pydp.group_barrier()
    out[idx] = s[i, j]


def deep(idx, out, x):
    s = pydp.local_field(np.uint8, 4, 8, 32)
    i, j = idx.local
    s[j % 4, i, j] = x[idx]
    pydp.group_barrier()
    out[idx] = s[i % 4, j % 8, (i // 4 * 4 + j // 8)] if i < 0 else s[j % 4, i, j]


class _Forced:
    """The device's profile with these banks, for the time of a test."""

    def __init__(self, device: Any, monkeypatch: pytest.MonkeyPatch, banks: int) -> None:
        monkeypatch.setattr(device, "_profile", replace(device.profile, banks=banks, bank_bytes=4))
        forget()
        _translations.clear()


@pytest.fixture
def banks(device: Any, monkeypatch: pytest.MonkeyPatch) -> Any:
    yield lambda count: _Forced(device, monkeypatch, count)
    _translations.clear()
    monkeypatch.undo()
    forget()


def test_turned_tiles_are_padded_by_one(device: Any, banks: Any) -> None:
    x = np.random.default_rng(0).random((64, 96), np.float32)
    results = []
    for count in (1, 32):
        banks(count)
        out = np.zeros((96, 64), np.float32)
        pydp.forall((64, 96), turned, out, x, group=(32, 32), spec=SIMT)
        results.append(out)
        told = str(pydp.explain(pydp.forall, (64, 96), turned, out, x, group=(32, 32), spec=SIMT))
        padded = "rows 1 element(s) longer, bank conflict degree 1 at worst, 32 without (32 banks)"
        assert (padded in told) == (count == 32)
        assert f"{4 * 32 * (33 if count == 32 else 32)} bytes per group" in told
    assert np.array_equal(results[0], x.T) and np.array_equal(results[1], x.T)


@pytest.mark.oclgrind
@pytest.mark.parametrize("fn", [tiled, by_data, deep])
def test_the_same_results(device: Any, banks: Any, fn: Any) -> None:
    rng = np.random.default_rng(1)
    extent, group = {tiled: ((16, 32), (16, 16)), by_data: ((8, 16), (8, 8)), deep: ((8, 32), (8, 32))}[fn]
    if fn is tiled:
        args = [rng.integers(-9, 9, (16, 48)).astype(np.int32), rng.integers(-9, 9, (48, 32)).astype(np.int32)]
    elif fn is by_data:
        args = [np.broadcast_to(np.arange(8, dtype=np.int32)[:, None], extent).copy()]
    else:
        args = [rng.integers(0, 255, extent).astype(np.uint8)]
    found = []
    for count in (1, 32):
        banks(count)
        out = np.zeros(extent, args[0].dtype)
        pydp.forall(extent, fn, out, *args, group=group, spec=SIMT)
        found.append(out)
    assert np.array_equal(found[0], found[1])
    notes = str(pydp.explain(pydp.forall, extent, fn, out, *args, group=group, spec=SIMT))
    assert fn is not tiled or notes.count("bank conflict degree 1 at worst") == 2, notes
    expected = args[0] @ args[1] if fn is tiled else None if fn is by_data else args[0]
    assert expected is None or np.array_equal(found[1], expected)
