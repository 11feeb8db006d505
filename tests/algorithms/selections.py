"""References and inputs of the tests of select and of runs."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyopencl as cl
import pytest

import pydp

VECTOR = {"mapping": "vector", "part": 96}
SIMT = {"mapping": "simt", "lanes": 8, "columns": 4, "items": 3, "window": 4}
ALONE = SIMT | {"window": 1}  # one lane looks back
MAPPINGS = pytest.mark.parametrize("mapping", [VECTOR, SIMT], ids=["vector", "simt"])
LOOKING = pytest.mark.parametrize("mapping", [VECTOR, SIMT, ALONE], ids=["vector", "together", "alone"])
STRATEGIES = pytest.mark.parametrize("strategy", ["lookback", "chained", "reduce_then_scan"])
LENGTHS = [0, 1, 2, 15, 16, 17, 23, 24, 25, 47, 48, 49, 63, 64, 65, 95, 96, 97, 191, 192, 193, 500]
DTYPES = "bool int8 uint8 int16 uint16 int32 uint32 int64 uint64 float16 float32 float64 complex64 complex128".split()


def mapping_of(dtype: Any) -> dict[str, Any]:
    """VECTOR for half of DTYPES, SIMT for the others: both mappings meet every size of elements."""
    place = DTYPES.index(np.dtype(dtype).name)
    return VECTOR if (place + place // 4) % 2 else SIMT


def lengths(device: Any) -> list[int]:
    """LENGTHS; in the simulator, which is slow, one of each case only."""
    return [0, 1, 17, 24, 25, 96, 97, 193] if device.profile.is_simulator else LENGTHS


def integers(n: int, seed: int = 0, low: int = -4, high: int = 5, dtype: Any = np.int32) -> np.ndarray:
    return np.random.default_rng(seed).integers(low, high, n).astype(dtype)


def in_runs(n: int, seed: int = 0, dtype: Any = np.int32) -> np.ndarray:
    """Runs of 1 to 40 equal elements."""
    rng = np.random.default_rng(seed)
    return np.repeat(rng.integers(0, 5, n), rng.integers(1, 41, n))[:n].astype(dtype)


def heads_of(x: np.ndarray) -> np.ndarray:
    """The indexes of the elements that differ from their predecessor."""
    different = np.ones(len(x), bool)
    different[1:] = x[1:] != x[:-1]
    return np.flatnonzero(different)


def skip_where_refused(device: Any, strategy: str, mapping: dict[str, Any]) -> None:
    """Skip a test of a strategy that waits in loops where the driver ends them, once it has been refused."""
    if device.profile.loop_limit is None or strategy == "reduce_then_scan":
        return
    with pytest.raises(pydp.InvalidArgument, match="waits in loops"):
        pydp.select(np.ones(100, np.int32), "x > 0", spec={**mapping, "strategy": strategy})
    pytest.skip("the driver ends long loops: strategies that wait are refused")


class Guarded:
    """Replaces the memory of results and scratch memory: it starts as bytes of 165, and so do 4096 more bytes behind
    it, and in front of results on the host."""

    SIDE = 64 * 64

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        from pydp.runtime import call
        from pydp.runtime.memory import host_memory, storage

        self.made: list[tuple[np.ndarray, int, int]] = []
        self.buffers: list[tuple[cl.CommandQueue, cl.Buffer, int]] = []
        monkeypatch.setattr(host_memory, "fresh", self._fresh)
        monkeypatch.setattr(call, "take", self._take)
        monkeypatch.setattr(storage, "take", self._take)

    def _fresh(self, shape: tuple[int, ...], dtype: np.dtype) -> np.ndarray:
        nbytes = int(np.prod(shape, dtype=np.int64)) * dtype.itemsize
        raw = np.full(nbytes + 2 * self.SIDE + 64, 165, np.uint8)
        start = self.SIDE + -(raw.__array_interface__["data"][0] + self.SIDE) % 64
        self.made.append((raw, start, start + nbytes))
        return raw[start : start + nbytes].view(dtype).reshape(shape)

    def _take(self, device: Any, queue: cl.CommandQueue, nbytes: int) -> cl.Buffer:
        """A buffer that no pool takes back."""
        old = np.full(nbytes + self.SIDE, 165, np.uint8)
        flags = cl.mem_flags.READ_WRITE | cl.mem_flags.COPY_HOST_PTR
        self.buffers.append((queue, cl.Buffer(device.context, flags, hostbuf=old), nbytes))
        return self.buffers[-1][1]

    def check(self, required: bool = True) -> None:
        """Assert that nothing was written outside of memory, and, if required, that there are results."""
        assert self.made or not required
        for raw, low, high in self.made:
            assert (raw[:low] == 165).all() and (raw[high:] == 165).all()
        for queue, buffer, nbytes in self.buffers:
            behind = np.empty(self.SIDE, np.uint8)
            cl.enqueue_copy(queue, behind, buffer, src_offset=nbytes)
            assert (behind == 165).all(), f"scratch memory of {nbytes} bytes"

    def written(self, at: int) -> int:
        """The number of bytes of result `at` up to the last one that was written."""
        raw, low, high = self.made[at]
        changed = np.flatnonzero(raw[low:high] != 165)
        return int(changed[-1]) + 1 if len(changed) else 0
