"""Vector functions read attributes of objects, functions and classes with their values at the call."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import pydp
from pydp.lang.source.names import attributes_key


class Settings:
    scale = 2


def scaled(x: Any, settings: Any) -> Any:
    return x * settings.scale


class Slot:
    """One slot, declared as a string, and attributes that vector functions cannot use."""

    __slots__ = "scale"


SETTINGS, SLOT = Settings(), Slot()


def by_function(idx: Any, out: Any) -> None:
    out[idx] = by_function.scale * idx[0]


def by_argument(idx: Any, out: Any) -> None:
    out[idx] = scaled(idx[0], SETTINGS)


def by_class(idx: Any, out: Any) -> None:
    out[idx] = scaled(idx[0], Settings)


def by_alias(idx: Any, out: Any) -> None:
    alias = SETTINGS
    out[idx] = alias.scale * idx[0]


def by_default(idx: Any, out: Any, settings: Any = SETTINGS) -> None:
    out[idx] = settings.scale * idx[0]


def by_slot(idx: Any, out: Any) -> None:
    out[idx] = scaled(idx[0], SLOT)


@pytest.mark.parametrize("function", [by_slot, by_function, by_argument, by_class, by_alias, by_default])
def test_attributes_are_as_they_are_at_the_call(device: Any, function: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """Attributes of functions, objects and classes that the function reaches through any name."""
    for scale in (2, 5, 2, 3):
        for holder in (Settings, by_function, SLOT):
            monkeypatch.setattr(holder, "scale", scale, raising=False)
        for place in (device, "host"):
            out = np.zeros(4, np.int32)
            pydp.forall(4, function, out, device=place)
            assert out.tolist() == [0, scale, 2 * scale, 3 * scale]


def test_what_fields_hold_is_no_part_of_a_key(device: Any) -> None:
    """A field stores its last event at every launch; this must not change the key of an object that holds fields."""
    holder = Settings()
    holder.field = pydp.field(np.zeros(4, np.int32), device=device)
    assert attributes_key(holder) == (("scale", (int, Settings.scale)),)
    pydp.forall(4, by_class, holder.field)
    assert attributes_key(holder) == (("scale", (int, Settings.scale)),)


@pytest.mark.host
def test_objects_of_modules_named_like_pyopencl_are_looked_into() -> None:
    alike = type("Settings", (), {"__module__": "pyopencl_settings", "scale": 3})
    assert attributes_key(alike()) == (("scale", (int, 3)),)


def test_an_objects_own_attributes(device: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    for scale in (4, 6):
        monkeypatch.setattr(SETTINGS, "scale", scale, raising=False)
        for function in (by_argument, by_alias, by_default):
            out = np.zeros(2, np.int32)
            pydp.forall(2, function, out, device=device)
            assert out.tolist() == [0, scale]
