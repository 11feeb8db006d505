"""Choices between bytes or shorts that are widened and constants: one driver's compiler makes them wrongly."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import pydp
from pydp.runtime.drivers.devices import Device


def chosen(idx, out, far, a, x):
    """Conversions to float32 and int64, beside constants that the narrow type does not hold."""
    (i,) = idx
    out[0, i] = np.float32(a[i]) if x[i] >= 3 else 1000.0
    out[1, i] = max(np.float32(a[i]), 142.0)
    out[2, i] = np.minimum(111.0, np.float32(a[i]))
    out[3, i] = (np.float32(a[i]) if x[i] < 5 else -3.0) * 2
    far[0, i] = np.int64(a[i]) if x[i] >= 3 else 5000000000
    far[1, i] = np.int64(np.int8(a[i])) if x[i] >= 3 else 1000
    far[2, i] = max(np.int64(np.int16(a[i])), 70000)


@pytest.mark.oclgrind
@pytest.mark.parametrize("dtype", [np.int8, np.uint8, np.int16, np.uint16])
def test_widened_numbers_and_constants(device: Device, dtype: Any) -> None:
    n = 64
    limits = np.iinfo(dtype)
    a = np.random.default_rng(3).integers(limits.min, limits.max, n, endpoint=True).astype(dtype)
    x = (np.arange(n) / 5).astype(np.float32)
    f, high = a.astype(np.float32), np.float32
    want = [np.where(x >= 3, f, high(1000)), np.maximum(f, high(142)), np.minimum(f, high(111))]
    want.append(np.where(x < 5, f, high(-3)) * 2)
    wide = [np.where(x >= 3, a.astype(np.int64), 5000000000), np.where(x >= 3, a.astype(np.int8), np.int64(1000))]
    wide.append(np.maximum(a.astype(np.int16).astype(np.int64), 70000))
    cut = device.profile.loop_limit is not None  # the vector mapping is refused there
    for way in ("simt", "host") if cut else ("simt", "vector", "host"):
        out, far = np.zeros((4, n), np.float32), np.zeros((3, n), np.int64)
        options: dict[str, Any] = {"device": "host"} if way == "host" else {"device": device, "spec": {"mapping": way}}
        pydp.forall(n, chosen, out, far, a, x, **options)
        np.testing.assert_array_equal(out, want)
        np.testing.assert_array_equal(far, wide)
