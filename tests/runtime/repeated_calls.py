"""A fixture and helpers of the tests of recordings."""

from __future__ import annotations

import math

import pyopencl as cl
import pyopencl.array
import pytest

import pydp
from pydp.runtime.device import core
from pydp.runtime.recording import Recording
from pydp.tuning import choose


@pytest.fixture
def counted(device, monkeypatch):
    """The recordings that calls ran from, in order."""
    # Every two seconds, a choice looks at the stored measurements. Where a test has used another folder, it then drops
    # all recordings.
    monkeypatch.setattr(choose, "_next_look", math.inf)
    # A build evicts recordings if the tests before have left many programs.
    monkeypatch.setattr(core, "MOST_PROGRAMS", 1 << 20)
    device.recordings.clear()
    device.seen_calls.clear()
    count = []
    run = Recording.run

    def counting(self, *args):
        result = run(self, *args)
        if result is not NotImplemented:
            count.append(self)
        return result

    monkeypatch.setattr(Recording, "run", counting)
    return count


def given(x, kind, device):
    """A copy of a NumPy array, of one kind."""
    if kind == "array":
        return cl.array.to_device(device.queue, x)
    return pydp.field(x, device=device) if kind == "field" else x.copy()


def host(x):
    """The elements of an array of any kind."""
    return x.get() if hasattr(x, "get") else x
