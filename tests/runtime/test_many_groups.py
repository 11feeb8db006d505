"""Copies whose groups are more than GPUs take along dimensions 1 and 2 of a launch (65,535)."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import pydp
from pydp.runtime.arrays import copy_transposed, elementwise
from pydp.runtime.programs import program


@pytest.fixture
def launches(monkeypatch: pytest.MonkeyPatch) -> list[tuple[Any, Any]]:
    """(global size, local size) of everything that is launched."""
    enqueue, found = program.Kernel.enqueue, []

    def noted(self: Any, queue: Any, global_size: Any, local_size: Any, *args: Any, **kw: Any) -> Any:
        found.append((global_size, local_size))
        return enqueue(self, queue, global_size, local_size, *args, **kw)

    monkeypatch.setattr(program.Kernel, "enqueue", noted)
    return found


def _most(launches: list[tuple[Any, Any]]) -> int:
    """The most groups along dimensions 1 and 2."""
    assert launches
    return max(whole // part for one in launches for whole, part in zip(one[0][1:], one[1][1:], strict=True))


@pytest.mark.oclgrind
@pytest.mark.parametrize("most", [1, 2, 5, 64])
def test_rows_in_shares(device: Any, launches: Any, monkeypatch: pytest.MonkeyPatch, most: int) -> None:
    monkeypatch.setattr(elementwise, "MOST_GROUPS", most)
    x = np.arange(2 * 131 * 9, dtype=np.int32).reshape(2, 131, 9)
    for rows in (1, 16, 17, 131):
        out = pydp.zeros((2, rows, 5), np.int32, device=device)
        device.plans.clear()
        device.recordings.clear()
        out[...] = pydp.field(x, device=device)[:, :rows, 1:6]
        assert np.array_equal(out.get(), x[:, :rows, 1:6])
    assert max(whole[1] // part[1] for whole, part in launches) <= most


def test_many_rows(device: Any, launches: Any) -> None:
    x = np.arange(3 * 1_200_000, dtype=np.uint8).reshape(-1, 3)
    out = pydp.zeros((*x.shape[:1], 2), np.uint8, device=device)
    out[...] = pydp.field(x, device=device)[:, :2]
    assert np.array_equal(out.get(), x[:, :2])
    assert _most(launches) <= 65535


@pytest.mark.parametrize(
    "how", [None, copy_transposed.TransposeTiling("simt", 4, 2), copy_transposed.TransposeTiling("vector", 4)]
)
@pytest.mark.parametrize("shape", [(70_000, 9, 8), (5, 9, 300_001), (5, 300_001, 9)])
def test_many_turned_blocks(device: Any, launches: Any, shape: tuple[int, ...], how: Any) -> None:
    x = np.arange(np.prod(shape), dtype=np.uint32).reshape(shape)
    spec = None if how is None else {"mapping": how.mapping, "block": how.block, "rows": how.rows, "chunk": how.chunk}
    got = pydp.transpose(pydp.field(x, device=device), (0, 2, 1), spec=spec)
    assert np.array_equal(got.get(), x.transpose(0, 2, 1))
    assert _most(launches) <= 65535
