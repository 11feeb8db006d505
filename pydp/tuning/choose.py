"""Choose a specialization: the caller's, else a provider's (tuned, modelled), else the default.

Choices are cached per device and problem, so the second call with the same description costs one look-up. A call that
chooses also checks, every few seconds, whether the stores of measured specializations have changed.
"""

from __future__ import annotations

import dataclasses
import time
from collections.abc import Mapping
from typing import Any

from pydp.errors import InvalidArgument, shown
from pydp.model.family import Choice, Family, Problem, ProblemFound, SpecProbe, cached_plan, check_spec, forget
from pydp.model.modelled import Provider, by_model, of_providers, untuned
from pydp.runtime.drivers.devices import Device
from pydp.tuning.tuned import changed, mistyped, provide

__all__ = ["Choice", "ProblemFound", "SpecProbe", "cached_plan", "choose", "forget", "untuned"]

_LOOK_SECONDS = 2.0  # between two checks for changed measurements


def _tuned(family: Family, device: Device, problem: Problem) -> Choice | None:
    if not isinstance(device, Device):  # a profile alone has no measurements
        return None
    found = provide(family, device, problem)
    return None if found is None else Choice(found[0], "tuned", found[1])


_BUILT_IN: tuple[Provider, ...] = (_tuned, by_model)
_next_look = 0.0


def choose(family: Family, device: Device, problem: Problem, spec: Any = None) -> Choice:
    """The specialization of `family` for `problem` on `device`.

    spec: None; an instance of the family's spec type; or a mapping of field names to values. A mapping replaces
    fields of the specialization that is chosen without it. If the result cannot run, it replaces fields of the
    default. If it asks for the other mapping ("vector", "simt"), it replaces fields of that mapping's default.

    Raises InvalidArgument for unknown names and for a spec that cannot run on the device; UnsupportedOnDevice if no
    specialization can run; ProblemFound for a `SpecProbe`.
    """
    if spec is not None:
        if isinstance(spec, SpecProbe):
            raise ProblemFound(family, device, problem)
        return _of_caller(family, device, problem, spec)
    if time.monotonic() >= _next_look:
        _look()
    key = (family.name, problem)
    found: Choice | None = device.choices.get(key)
    if found is None:
        found = device.choices.make(key, of_providers, family, device, problem, *_BUILT_IN)
    return found


def _look() -> None:
    """Drop the cached choices if stored measurements have changed, for example because another process tuned."""
    global _next_look
    _next_look = time.monotonic() + _LOOK_SECONDS
    if changed():
        forget()


def _of_caller(family: Family, device: Device, problem: Problem, spec: Any) -> Choice:
    check_spec(family.name, family.spec_type, spec)
    if isinstance(spec, Mapping):
        return Choice(_replaced(family, device, problem, spec), "caller", "given as spec=")
    why = _why_not(family, device, problem, spec)
    if why is not None:
        raise _cannot_run(device, spec, why)
    return Choice(spec, "caller", "given as spec=")


def _cannot_run(device: Device, spec: Any, why: str | None) -> InvalidArgument:
    return InvalidArgument(f"spec: {why} (on {device.name!r}, with {shown(spec)})")


def _why_not(family: Family, device: Device, problem: Problem, spec: Any) -> str | None:
    """Why a caller's specialization cannot run. Types are checked first, because families compare the values."""
    return mistyped(spec) or family.check(device.profile, problem, spec)


def _replaced(family: Family, device: Device, problem: Problem, fields: Mapping[str, Any]) -> Any:
    """The chosen spec with some fields replaced; if that cannot run, the default with these fields replaced.

    If `fields` asks for the other mapping, that mapping's default is tried first: the same field means different
    things in the two mappings.
    """
    profile = device.profile
    bases = [choose(family, device, problem).spec, family.default(profile, problem)]
    wanted = fields.get("mapping")
    if isinstance(wanted, str) and wanted in ("vector", "simt") and wanted != getattr(bases[0], "mapping", wanted):
        bases.insert(0, family.default(dataclasses.replace(profile, mapping=wanted), problem))
    why: str | None = ""
    for base in bases:
        try:
            spec = dataclasses.replace(base, **fields)
        except (TypeError, ValueError) as error:
            raise InvalidArgument(f"spec={dict(fields)!r} is not a specialization of {family.name}: {error}") from error
        why = _why_not(family, device, problem, spec)
        if why is None:
            return spec
    raise _cannot_run(device, spec, why)
