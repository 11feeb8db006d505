"""Choosing a specialization: the caller's, else what a provider knows (tuned, modelled), else the default.

Choices are kept per device and problem, so that the second call with the same description costs one look-up. Every
few seconds, and only when something is chosen, the stores of measured specializations are looked at again.
"""

from __future__ import annotations

import dataclasses
import time
from collections.abc import Mapping
from typing import Any

from pydp.errors import InvalidArgument
from pydp.model.family import Choice, Family, Problem, ProblemFound, SpecProbe, forget, kept_plan
from pydp.model.modelled import Provider, add_provider, by_model, of_providers, untuned
from pydp.runtime.drivers.devices import Device
from pydp.tuning.tuned import changed, mistyped, provide

__all__ = ["Choice", "ProblemFound", "SpecProbe", "add_provider", "choose", "forget", "kept_plan", "untuned"]

_LOOK_SECONDS = 2.0  # between two looks at whether stored measurements have changed


def _tuned(family: Family, device: Device, problem: Problem) -> Choice | None:
    if not isinstance(device, Device):  # a profile alone has no measurements
        return None
    found = provide(family, device, problem)
    return None if found is None else Choice(found[0], "tuned", found[1])


_BUILT_IN: tuple[Provider, ...] = (_tuned, by_model)
_next_look = 0.0


def choose(family: Family, device: Device, problem: Problem, spec: Any = None) -> Choice:
    """The specialization of `family` for `problem` on `device`.

    spec: None; an instance of the family's spec type; or a mapping of names to values that replace those of the
    choice without it, of the default where they do not go with that; where the other mapping is asked for, those of
    that mapping's default.
    Raises InvalidArgument for unknown names and for a spec that cannot run there, naming what is accepted;
    UnsupportedOnDevice where no specialization can; Asked for an `SpecProbe`.
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
        found = device.choices.make(key, of_providers, family, device, problem, _BUILT_IN)
    return found


def _look() -> None:
    """Forgets the choices where stored measurements have changed, of another process's tuning for example."""
    global _next_look
    _next_look = time.monotonic() + _LOOK_SECONDS
    if changed():
        forget()


def _of_caller(family: Family, device: Device, problem: Problem, spec: Any) -> Choice:
    if isinstance(spec, Mapping):
        names = [field.name for field in dataclasses.fields(family.spec_type) if field.init]
        unknown = [name for name in spec if name not in names]
        if unknown:
            raise InvalidArgument(f"spec= of {family.name} has no {unknown[0]!r}; {', '.join(names)} are accepted")
        return Choice(_replaced(family, device, problem, spec), "caller", "given as spec=")
    if not isinstance(spec, family.spec_type):
        raise InvalidArgument(
            f"spec={spec!r} is not accepted; None, a {family.spec_type.__name__} or a mapping of its fields is"
        )
    why = _why_not(family, device, problem, spec)
    if why is not None:
        raise InvalidArgument(f"spec={spec!r} cannot run on {device.name!r}: {why}")
    return Choice(spec, "caller", "given as spec=")


def _why_not(family: Family, device: Device, problem: Problem, spec: Any) -> str | None:
    """Why a caller's specialization cannot run; families compare its values, so their types come first."""
    return mistyped(spec) or family.check(device.profile, problem, spec)


def _replaced(family: Family, device: Device, problem: Problem, fields: Mapping[str, Any]) -> Any:
    """The chosen spec with some of its fields replaced; the default's where they do not go with the chosen one's.

    Where the other mapping is asked for, its default's come first: fields of both mean different things in each.
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
    raise InvalidArgument(f"spec={spec!r} cannot run on {device.name!r}: {why}")
