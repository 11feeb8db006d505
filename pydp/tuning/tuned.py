"""Look up measured specializations: first in the user's stores, then in the stores shipped with pydp.

A measurement applies to its own shape class and to near ones, on its own device and on devices of about the same size
with the same driver and architecture. The files are read at the first choice, and again when one of them has changed.
"""

from __future__ import annotations

import dataclasses
import functools
import json
import math
import threading
import types
import typing
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pydp.errors import InvalidArgument, PydpError, shown
from pydp.model.architectures import architecture_of
from pydp.model.family import Family, Problem, forget
from pydp.model.modelled import predicted, untuned
from pydp.runtime.bounded import BoundedCache
from pydp.runtime.forks import fork_safe
from pydp.runtime.programs.files import cache_dir, listed
from pydp.tuning import store as stores
from pydp.tuning.shape_class import ShapeClass, shape_class
from pydp.tuning.store import SEARCHES, TUNED, Store, Trial

if TYPE_CHECKING:
    from pydp.runtime.drivers.devices import Device

EXPORT = "pydp-tuned-export-1"
STARTER = Path(__file__).parent / "starter"
_SLOWER = 1.1  # a result of another class or device is rejected if the model predicts more times its own pick
_SHARE, _SMALL = 0.55, 64  # the model also checks a smaller size: lengths above _SMALL, times _SHARE
_USERS, _SHIPPED = 0, 1  # ranks of stores: the user's first
_ALIKE = ("driver", "kind", "architecture")  # two devices must share these; sizes may differ by a factor of two
_SIZES = ("units", "l2_bytes", "local_bytes")


def provide(family: Family, device: Device, problem: Problem) -> tuple[Any, str] | None:
    """(spec, reason) of the nearest measurement that can run.

    None if nothing near was measured, or if no measurement was faster than the untuned choice.
    """
    here = shape_class(problem)
    for found in _nearest(device, here):
        trial, exact = found.trial, found.own and found.trial.shape == here
        assert trial.ratio is not None
        if trial.ratio >= 1.0:
            if not exact:
                return None
            choice = untuned(family, device, problem)
            return choice.spec, f"{found.source}: nothing beats the {choice.source}'s choice; {choice.reason}"
        spec = rebuild(family.spec_type, trial.spec)
        if spec is None or family.check(device.profile, problem, spec) is not None:
            continue
        if exact or _plausible(family, device, problem, spec):
            return spec, f"{found.source}: {trial.ratio:.2f} of the time without tuning"
    return None


def _plausible(family: Family, device: Device, problem: Problem, spec: Any) -> bool:
    """Whether the model accepts a measurement of another class or device. True if the family has no model."""
    if predicted(family, device, problem, spec) is None:
        return True
    ours = untuned(family, device, problem).spec
    if spec == ours:
        return True
    # Blocks for the largest size of a class may leave units idle at others.
    for one in dict.fromkeys((problem, problem.smaller(_SHARE, _SMALL))):
        theirs, best = (predicted(family, device, one, which) for which in (spec, ours))
        if theirs is not None and best is not None and theirs > _SLOWER * best:
            return False
    return True


# --- known measurements -----------------------------------------------------------------------------------


@dataclasses.dataclass(frozen=True)
class _Found:
    """A measurement and its origin."""

    trial: Trial
    device_info: Mapping[str, str]
    own: bool  # of this device, or of one with the same name, driver version and number of units
    shipped: bool
    order: tuple[float, ...]

    @property
    def source(self) -> str:
        """The origin of the measurement, in a few words."""
        device = f"{self.device_info.get('device')!r}{'' if self.own else ', a device like this one'}"
        if self.shipped:
            return f"shipped with pydp for {device}, measured for {self.trial.shape}"
        if self.trial.imported:
            return f"imported from {self.trial.imported!r} for {device}, measured for {self.trial.shape}"
        return f"measured on {'this device' if self.own else device} for {self.trial.shape}"


class _Library:
    """The stores of other devices and the shipped stores, as they were when read. `folder` is the user's."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.stamps = _stamps(folder)
        self.stores = [
            (rank, path, *stores.load(path, of_package=rank == _SHIPPED))
            for rank, place in ((_USERS, folder), (_SHIPPED, STARTER))
            for path in listed(place, "*.json")
        ]


_library: _Library | None = None
_stores = BoundedCache(32, weak=True)  # keyed by file
_lock = fork_safe(threading.RLock())  # reentrant: a finalizer or a signal handler may take it again


def store_of(device: Device) -> Store:
    """The user's store of a device. Its name contains the number of units that this process may use."""
    folder = cache_dir() / TUNED
    path = folder / f"{device.uid}-{device.profile.compute_units}.json"
    found: Store = _stores.make(path, Store, path.stem, device_info(device), folder)
    return found


def device_info(device: Device) -> dict[str, str]:
    """The description of a device in a store's file."""
    profile = device.profile
    return {
        "device": device.name,
        "driver": device.driver,
        "driver_version": device.driver_version,
        "kind": device.kind,
        "architecture": architecture_of(device).name,
        "units": str(profile.compute_units),
        "l2_bytes": str(profile.l2_bytes),
        "local_bytes": str(profile.local_bytes),
    }


def changed() -> bool:
    """Whether the files have changed since they were read. If so, the next choice reads them again."""
    global _library
    with _lock:
        library = _library
    if library is None or (library.folder == cache_dir() / TUNED and library.stamps == _stamps(library.folder)):
        return False
    reread()
    return True


def reread() -> None:
    """Let the next choice read the files again."""
    global _library
    with _lock:
        _library = None


def _stamps(folder: Path) -> dict[Path, tuple[int, int, int] | None]:
    return {path: stores.stamp(path) for path in listed(folder, "*.json")}


def _known() -> _Library:
    global _library
    with _lock:
        if _library is None:
            _library = _Library(cache_dir() / TUNED)
        return _library


def _nearest(device: Device, here: ShapeClass) -> list[_Found]:
    """The measurements that may apply to a class, nearest first.

    The user's come before shipped ones, then this device's before others', then its own class before others.
    """
    return sorted(_matching(device, here), key=lambda found: found.order)


def _matching(device: Device, here: ShapeClass) -> Iterator[_Found]:
    own = store_of(device)
    known = [(_USERS, own.path, own.device_info, own.trials())]
    known += [one for one in _known().stores if one[1] != own.path]
    for rank, path, theirs, trials in known:
        from_here = 0.0 if path == own.path else device_distance(own.device_info, theirs)
        for trial in trials if from_here is not None else ():
            distance = trial.shape.distance(here) if trial.ratio is not None else None
            if distance is not None and from_here is not None:
                order = (rank, from_here, distance, trial.ratio or 0.0)
                yield _Found(trial, theirs, path.name == own.path.name, rank == _SHIPPED, order)


def device_distance(mine: Mapping[str, str], theirs: Mapping[str, str]) -> float | None:
    """The distance of two devices, from the descriptions in their stores.

    None if measurements of one must not apply to the other: another driver or architecture, or a size that differs by
    more than a factor of two.
    """
    if any(mine.get(name) != theirs.get(name) for name in _ALIKE):
        return None
    distance = sum(0.25 for name in ("device", "driver_version") if mine.get(name) != theirs.get(name))
    for name in _SIZES:
        try:
            one, other = sorted((int(mine[name]), int(theirs[name])))
        except (KeyError, ValueError):
            return None
        if one == other:
            continue
        if one <= 0 or other > 2 * one:
            return None
        distance += math.log2(other / one)
    return distance


# --- the user's stores as a whole --------------------------------------------------------------------------


def user_stores() -> list[tuple[dict[str, str], list[Trial]]]:
    """(device_info, trials) of all stores of the user."""
    return [stores.load(path) for path in listed(cache_dir() / TUNED, "*.json")]


def exported() -> tuple[bytes, int]:
    """(file, number of trials): all stores of the user as one file, for `imported` on another machine."""
    found = [(path.stem, *stores.load(path)) for path in listed(cache_dir() / TUNED, "*.json")]
    plain = {name: (theirs, [_with_source(one, "") for one in trials]) for name, theirs, trials in found if trials}
    documents = {name: stores.document(theirs, trials) for name, (theirs, trials) in plain.items()}
    data = {"schema": EXPORT, "stores": documents}
    return (json.dumps(data, indent=1, sort_keys=True) + "\n").encode(), sum(len(trials) for _, _, trials in found)


def imported(data: bytes, name: str) -> int:
    """Add the trials of a file from `exported` to the user's stores; return their number.

    Each trial gets the name of the file. Raises InvalidArgument for data of another form.
    """
    try:
        found = json.loads(data)
        valid = isinstance(found, dict) and found.get("schema") == EXPORT and isinstance(found["stores"], dict)
    except (ValueError, KeyError, RecursionError):
        valid = False
    if not valid:
        raise InvalidArgument(f"{name} is not of the form {EXPORT}; files written by `pydp tune --export` are accepted")
    count = 0
    for stem, document in found["stores"].items():
        theirs, trials = stores.parse_document(document, f"{name} ({stem})")
        trials = [_with_source(one, Path(name).name) for one in trials]
        if trials and not Store(stem, theirs, cache_dir() / TUNED).add(trials):
            raise PydpError(f"{cache_dir() / TUNED} cannot be written; the import stopped")
        count += len(trials)
    _renewed()
    return count


def _with_source(trial: Trial, name: str) -> Trial:
    """A copy of a trial marked as imported from a file of this name; "" marks it as measured here."""
    return dataclasses.replace(trial, imported=name)


def clear(device: Device | None = None) -> int:
    """Remove the user's results and journals of one device or of all; return the number of files."""
    pattern = f"{device.uid}-*" if device is not None else "*"
    count = 0
    for folder in (TUNED, SEARCHES):
        for path in listed(cache_dir() / folder, f"{pattern}.json"):  # lock files stay: another process may hold one
            try:
                path.unlink()
            except OSError as error:
                raise PydpError(f"{path} cannot be removed: {error.strerror or error}") from None
            count += 1
    _renewed()
    return count


def _renewed() -> None:
    """Drop all caches, so later choices use the files as they are now."""
    _stores.clear()
    reread()
    forget()


# --- specializations as plain values ----------------------------------------------------------------------


def fields_of(spec: Any) -> dict[str, Any]:
    """A specialization's fields as JSON-compatible values; `rebuild` is the inverse."""
    return {field.name: getattr(spec, field.name) for field in dataclasses.fields(spec) if field.init}


def rebuild(spec_type: type, fields: Mapping[str, Any]) -> Any:
    """The specialization with these fields; None if a name is unknown or missing, or a value has the wrong type."""
    hints = _hints(spec_type)
    wanted = {field.name: field for field in dataclasses.fields(spec_type) if field.init}
    if not set(fields) <= set(wanted) or not all(_fits(value, hints[name]) for name, value in fields.items()):
        return None
    try:
        return spec_type(**fields)
    except (TypeError, ValueError):
        return None


def mistyped(spec: Any) -> str | None:
    """One sentence on the first field of a specialization with a value of the wrong type; None if there is none."""
    spec_type: type = type(spec)
    for name, value in fields_of(spec).items():
        hint = _hints(spec_type)[name]
        if not _fits(value, hint):
            return f"{name} is {shown(value)}; {getattr(hint, '__name__', hint)} is accepted"
    return None


@functools.lru_cache(maxsize=64)
def _hints(spec_type: type) -> dict[str, Any]:
    return typing.get_type_hints(spec_type)


def _fits(value: Any, hint: Any) -> bool:
    """Whether a JSON value has an annotated type: int, float, str, bool, None, or a union of these."""
    return type(value) in _types(hint)


@functools.lru_cache(maxsize=64)
def _types(hint: Any) -> tuple[type, ...]:
    if typing.get_origin(hint) in (typing.Union, types.UnionType):
        return tuple(one for of in typing.get_args(hint) for one in _types(of))
    if hint is float:
        return (int, float)
    return (hint,) if hint in (int, str, bool, type(None)) else ()
