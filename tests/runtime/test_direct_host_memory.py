"""Results in NumPy memory on devices whose kernels use this memory itself."""

from __future__ import annotations

import numpy as np
import pyopencl as cl
import pytest

import pydp
from pydp.runtime.device.profile import read_profile
from pydp.runtime.memory import host_memory
from pydp.runtime.memory.host_memory import IN_PLACE

SOURCE = """
kernel void add(global const int* x, global int* y, const int a) {
    const size_t i = get_global_id(0);
    y[i] = x[i] + a;
}
"""


@pytest.fixture
def direct(device: pydp.Device) -> pydp.Device:
    if not device.profile.direct_host_memory:
        pytest.skip("results in NumPy memory are mapped on this device, or copied")
    return device


@pytest.mark.parametrize("start", [0, 1, 3, 16])
@pytest.mark.parametrize("size", [1, 5, 1000, 100_000])
def test_results_are_complete_without_a_map(direct: pydp.Device, size: int, start: int) -> None:
    """The host also changes the inputs between the launches, as between two calls with the same arrays."""
    queue = cl.CommandQueue(direct.context)
    kernel = cl.Kernel(cl.Program(direct.context, SOURCE).build(), "add")
    memory = np.arange(2 * size + 40, dtype=np.int32)
    x, y = memory[start : start + size], memory[start + size + 20 : start + 2 * size + 20]
    buffers = [cl.Buffer(direct.context, IN_PLACE, hostbuf=one) for one in (x, y)]
    for turn in range(20):
        x[:] = np.arange(size) + turn
        kernel(queue, (size,), None, *buffers, np.int32(turn)).wait()
        np.testing.assert_array_equal(y, np.arange(size) + 2 * turn)
        np.testing.assert_array_equal(memory[start + size : start + size + 20], np.arange(size, size + 20) + start)


def test_calls_do_not_map(direct: pydp.Device, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: object) -> None:
        raise AssertionError("mapped")

    monkeypatch.setattr(host_memory, "make_visible", refuse)
    monkeypatch.setattr("pydp.runtime.recording.make_visible", refuse)
    x, out = np.arange(100, dtype=np.int32), np.zeros(100, np.int32)
    for turn in range(4):  # the later ones are repeated from a recording
        x += turn
        np.testing.assert_array_equal(pydp.scan(x, device=direct), np.cumsum(x))
        assert pydp.scan(x, out=out, device=direct) is out
        np.testing.assert_array_equal(out, np.cumsum(x))


def test_devices_on_other_machines_are_mapped(direct: pydp.Device) -> None:
    """PoCL's remote devices have the name and kind of the other machine's device, but only coarse-grained memory."""

    class Remote:
        svm_capabilities = cl.device_svm_capabilities.COARSE_GRAIN_BUFFER

        def __getattr__(self, name: str) -> object:
            return getattr(direct.cl, name)

    assert read_profile(direct.cl, "cpu", direct.quirks).direct_host_memory
    assert not read_profile(Remote(), "cpu", direct.quirks).direct_host_memory
