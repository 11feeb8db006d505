"""A device as if its local memory had 32 banks of 4 bytes: kernels are laid out for them and run as they are."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest

from pydp.tuning.choose import forget


@contextmanager
def banked(device: Any, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Inside the block, `device` has these banks, and nothing that was planned without them is used."""
    with monkeypatch.context() as patch:
        patch.setattr(device, "_profile", dataclasses.replace(device.profile, banks=32, bank_bytes=4))
        forget()
        yield
    forget()
