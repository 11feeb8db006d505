"""Elementwise kernels whose work-items compute several elements each, as on GPUs."""

from __future__ import annotations

from typing import Any

import made_up
import numpy as np
import pytest

import pydp
from pydp.runtime.arrays import elementwise

F4, F8, U1, C16 = (np.dtype(one) for one in ("f4", "f8", "u1", "c16"))
_LARGE = 1 << 26


def test_the_number_of_elements() -> None:
    gpu, cpu = (made_up.profile(mapping=mapping, compute_units=100) for mapping in ("simt", "vector"))
    assert elementwise.items_of(cpu, _LARGE, 1, 256, [F4, F4]) == 1
    for dtypes, items in (([F4, F4], 4), ([U1, F4], 4), ([F8, F4], 2), ([U1, U1], 8), ([C16, C16], 1)):
        assert elementwise.items_of(gpu, _LARGE, 1, 256, dtypes) == items
    # Each compute unit has its work-items first, and a row is not padded to more than twice its length.
    assert elementwise.items_of(gpu, 100 * 2048, 1, 256, [F4]) == 1
    assert elementwise.items_of(gpu, 3 * 100 * 2048, 1, 256, [F4]) == 2
    assert elementwise.items_of(gpu, 256, _LARGE >> 8, 256, [F4]) == 1
    assert elementwise.items_of(gpu, 600, _LARGE >> 8, 256, [F4]) == 2


@pytest.fixture
def several(device: Any, monkeypatch: pytest.MonkeyPatch) -> Any:
    """A function that makes every work-item compute so many elements, in work-groups of 4 along a row."""

    def use(items: int) -> None:
        monkeypatch.setattr(elementwise, "items_of", lambda *_: items)
        monkeypatch.setattr(elementwise, "_group", lambda *_: (4, 1))
        forget()

    def forget() -> None:
        device.plans.clear()
        device.recordings.clear()

    yield use
    forget()


@pytest.mark.oclgrind
@pytest.mark.parametrize("items", [2, 4, 8])
def test_every_length(device: Any, several: Any, items: int) -> None:
    several(items)
    x = np.arange(3 * 4 * items, dtype=np.int32)
    for n in (1, 3, 4, 5, 4 * items - 1, 4 * items, 4 * items + 1, 8 * items + 3, x.size):
        field = pydp.field(x[:n], device=device)
        assert np.array_equal(field.copy().get(), x[:n])
        assert np.array_equal((field + 7).get(), x[:n] + 7)
        field += field  # each element is read before it is written
        assert np.array_equal(field.get(), 2 * x[:n])
        framed = pydp.zeros(n + 8, np.int32, device=device)
        framed[4 : n + 4] = field[::-1]
        assert np.array_equal(framed.get(), np.pad(2 * x[:n][::-1], 4))


@pytest.mark.oclgrind
@pytest.mark.parametrize("items", [2, 4])
def test_kinds_of_kernels(device: Any, several: Any, items: int) -> None:
    several(items)
    x = np.arange(5 * 7 * 11, dtype=np.float32).reshape(5, 7, 11)
    field = pydp.field(x, device=device)
    assert np.array_equal(field.astype(np.int16).get(), x.astype(np.int16))
    assert np.array_equal((field[:, ::2, ::3] * field[:, ::2, 1::3][..., :1]).get(), x[:, ::2, ::3] * x[:, ::2, 1:2])
    assert np.array_equal((field > 50).get(), x > 50)
    assert np.array_equal(pydp.where(field > 50, field, 0.0).get(), np.where(x > 50, x, 0))
    assert np.array_equal(pydp.evaluate("2 * x + y", x=field[0], y=field[1, :1]).get(), 2 * x[0] + x[1, :1])
    assert np.array_equal(((field + 1) * 2 - field).get(), (x + 1) * 2 - x)
    z = (x[0] + 1j * x[1]).astype(np.complex64)
    assert np.array_equal((pydp.field(z, device=device) + 1j).get(), z + np.complex64(1j))
