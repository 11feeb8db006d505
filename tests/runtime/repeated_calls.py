"""A fixture of the tests of recordings."""

from __future__ import annotations

import pytest

from pydp.runtime.recording import Recording


@pytest.fixture
def counted(device, monkeypatch):
    """The recordings that calls ran from, in order."""
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
