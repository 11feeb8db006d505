"""Arrays of every type and random indexes for the tests of fields."""

from __future__ import annotations

from typing import Any

import numpy as np
from hypothesis import strategies as st

RECORD = np.dtype([("place", "f4", (3,)), ("kind", "u1"), ("count", "i8")])
DTYPES = ["?", "i1", "u1", "i2", "u2", "i4", "u4", "i8", "u8", "f2", "f4", "f8", "c8", "c16", RECORD]


def sample(shape: tuple[int, ...], dtype: Any, seed: int = 0) -> np.ndarray:
    """Arbitrary values of a dtype; floats are whole numbers, so that arithmetic is exact."""
    rng = np.random.default_rng(seed)
    dtype = np.dtype(dtype)
    if dtype.names is not None:
        values = np.zeros(shape, dtype)
        for name in dtype.names:
            values[name] = rng.integers(0, 100, values[name].shape)
        return values
    values = rng.integers(0 if dtype.kind in "?bu" else -40, 2 if dtype.kind == "b" else 40, shape).astype(dtype)
    return values + 1j * rng.integers(-40, 40, shape).astype(dtype) if dtype.kind == "c" else values


def equal(field: Any, expected: np.ndarray) -> None:
    got = field.get()
    assert got.dtype == expected.dtype and got.shape == expected.shape
    np.testing.assert_array_equal(got, expected)


@st.composite
def keys(draw: st.DrawFn, shape: tuple[int, ...]) -> Any:
    """A basic index that NumPy accepts for this shape."""
    front = draw(st.integers(0, len(shape)))
    back = draw(st.integers(front, len(shape)))

    room = 6 - len(shape)

    def items(sizes: tuple[int, ...]) -> list[Any]:
        nonlocal room
        found: list[Any] = []
        for size in sizes:
            if room > 0 and draw(st.integers(0, 4)) == 0:
                found.append(None)
                room -= 1
            is_number = size > 0 and draw(st.integers(0, 3)) == 0
            found.append(draw(st.integers(-size, size - 1)) if is_number else draw(st.slices(size)))
        return found

    return tuple(items(shape[:front]) + ([Ellipsis, *items(shape[back:])] if draw(st.booleans()) else []))
