"""The trust probe: a listed device is used only after it ran a small kernel right."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pydp.runtime.device import Device


def verdict(device: Device) -> str | None:
    """Why `device` cannot be trusted, or None."""
    return None
