"""forall on the host with arrays of a device: only what the function writes goes back."""

from __future__ import annotations

import numpy as np
import pyopencl as cl
import pyopencl.array
import pytest

import pydp
from pydp.algorithms.forall import host as forall_host

PARTS = {
    "run": np.s_[3:20],
    "steps": np.s_[1::3],
    "backwards": np.s_[25:4:-2],
    "one": np.s_[7:8],
    "none": np.s_[5:5],
}


def raise_by(idx, out, a):
    out[idx] = out[idx] + a[idx]


@pytest.fixture
def meanwhile(monkeypatch):
    """Lets other work change the device's memory while the host computes."""
    work: list = []

    def run(*arguments):
        original(*arguments)
        for one in work:
            one()

    original = forall_host.host.run
    monkeypatch.setattr(forall_host.host, "run", run)
    return work


@pytest.mark.parametrize("part", PARTS.values(), ids=PARTS)
def test_the_rest_of_the_memory_is_left_alone(device, meanwhile, part):
    start = np.arange(40, dtype=np.int32)
    whole, other = pydp.field(start), pydp.field(start * 100)
    outside = np.ones(40, bool)
    outside[part] = False

    def change():
        new = np.where(outside, -1, whole.get()).astype(np.int32)
        whole.set(new)
        other.set(start * 7)

    meanwhile.append(change)
    pydp.forall(whole[part].shape, raise_by, whole[part], other[part], device="host")
    wanted = np.where(outside, -1, start * 101)
    np.testing.assert_array_equal(whole.get(), wanted)
    np.testing.assert_array_equal(other.get(), start * 7)


def test_views_of_several_axes_and_views_that_meet(device, meanwhile):
    start = np.arange(60, dtype=np.float32).reshape(6, 10)
    whole = pydp.field(start)
    left, right = whole.T[2:7, ::2], whole.T[4:9, ::2]
    wanted = start.copy()
    wanted.T[2:7, ::2] += start.T[4:9, ::2]
    wanted[:, 9] = -5

    def change():
        whole[:, 9] = -5

    meanwhile.append(change)
    pydp.forall(left.shape, raise_by, left, right.get(), device="host")
    np.testing.assert_array_equal(whole.get(), wanted)


def both(idx, a, b):
    a[idx] = a[idx] + 1
    b[idx] = b[idx] * 2


def test_two_written_parts_of_one_array(device, meanwhile):
    start = np.arange(30, dtype=np.int32)
    given = cl.array.to_device(device.queue, start)
    meanwhile.append(lambda: given[28:].fill(9))
    pydp.forall(8, both, given[:8], given[10:18], device="host")
    start[:8] += 1
    start[10:18] *= 2
    start[28:] = 9
    np.testing.assert_array_equal(given.get(), start)
