"""A device as if it had tensor cores: kernels emulate them, unless NVIDIA's driver compiles them."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest

from pydp.tuning.choose import forget


@contextmanager
def tensor_cores(device: Any, capability: int) -> Iterator[None]:
    """Inside the block, `device` has the tensor cores of NVIDIA's compute capability `capability` / 10. Choices made
    before are forgotten, and those made inside are forgotten at its end."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(device, "_profile", dataclasses.replace(device.profile, tensor_cores=capability))
        forget()
        yield
    forget()
