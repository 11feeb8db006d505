"""From a described forall to a kernel that is ready to be given its arguments; everything here is kept.

translation(fn, rank, group, index dtype, parts)   the typed form, checked; the same on every device
Translation.plan(device, spec, extent)             its kernel there, and how to fill its arguments
"""

from __future__ import annotations

import logging
import math
import sys
import threading
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from typing import Any

import numpy as np

from pydp import dtypes
from pydp.algorithms.forall.arguments import differently_typed, language_type, unit_axis
from pydp.errors import BuildFailed, InvalidArgument, UnsupportedOnDevice
from pydp.groups.barrier import CHOICES
from pydp.lang import ir
from pydp.lang.analysis import static_checks
from pydp.lang.analysis.bounds_check import LaunchPlaces
from pydp.lang.analysis.integer_widths import widened
from pydp.lang.analysis.launch_integers import LaunchRanges, MetNumbers
from pydp.lang.analysis.trip_counts import LoopBound
from pydp.lang.barriers.barrier_check import LaunchWidths, control_inputs
from pydp.lang.compile import translate
from pydp.lang.opencl import simt as simt_lowering
from pydp.lang.opencl import vector as vector_lowering
from pydp.lang.opencl.lowered import Lowered, Slot, dtypes_of, group_counts, launch_shape
from pydp.lang.opencl.vector import shape as strip_shape
from pydp.runtime.arrays.operand import Operand
from pydp.runtime.bounded import BoundedCache
from pydp.runtime.drivers.devices import Device
from pydp.runtime.forks import fork_safe
from pydp.runtime.programs import program

_MOST_KEPT = 512
_MOST_ARGUMENTS = 128  # of a plan
_MOST_LANES = 1 << 20  # of a group: far more than devices take
_SURELY_FINITE = 6e4  # in every float type; what is larger may become an infinity, without a warning
_MAPPINGS = ("simt", "vector")
_lock = fork_safe(threading.RLock())  # of the forms with weak integers of 64 bits
_log = logging.getLogger("pydp")
_translations = BoundedCache(_MOST_KEPT)


@dataclass(frozen=True)
class ForallSpec:
    """How a forall is run.

    mapping: "simt" (a work-item for each lane) or "vector" (a work-item for each group, lanes in vector registers).
    group: extents of the group where the call gives none and the function uses none; None lets the lowering pick.
    barriers: "auto" (each as narrow as the accesses around it allow, the cheapest way first), or one way beside the
    whole group: "group" (that alone), "none" (left out where that is right), "subgroup", "named" (NVIDIA).
    subgroup: the lanes of a subgroup to compile for; None picks. Both are of the mapping "simt" only.
    """

    mapping: str
    group: tuple[int, ...] | None = None
    barriers: str = "auto"
    subgroup: int | None = None


def chosen_spec(given: ForallSpec | Mapping[str, Any] | None, device: Device) -> tuple[ForallSpec, str]:
    """(the specialization, the reason for its mapping)."""
    profile = device.profile
    if profile.loop_limit is not None:
        policy = ForallSpec("simt"), "this driver ends loops early, and a lane's are shorter than a group's"
    else:
        policy = ForallSpec(profile.mapping), f"the default on a {profile.kind}"
    if given is None:
        return policy
    check_spec(given)
    if isinstance(given, Mapping):
        base = policy[0]
        if given.get("barriers", "auto") != "auto" or given.get("subgroup") is not None:
            base = replace(base, mapping="simt")  # work-items that meet
        spec = replace(base, **given)
    else:
        spec = given
    if spec.mapping not in _MAPPINGS:
        raise InvalidArgument(f"spec mapping is {spec.mapping!r}; 'simt' and 'vector' are accepted")
    if spec.mapping == "vector" and (spec.barriers != "auto" or spec.subgroup is not None):
        raise InvalidArgument("spec mapping is 'vector'; only 'simt' has barriers= and subgroup=")
    if spec.barriers not in CHOICES:
        raise InvalidArgument(f"spec barriers is {spec.barriers!r}; {', '.join(map(repr, CHOICES))} are accepted")
    return spec, "asked for by spec="


def check_spec(given: Any) -> None:
    """Refuse what is neither None, a ForallSpec nor a dict of its fields."""
    names = [item.name for item in fields(ForallSpec)]
    if isinstance(given, Mapping):
        unknown = [name for name in given if name not in names]
        if unknown:
            raise InvalidArgument(f"spec has no {unknown[0]!r}; {', '.join(names)} are accepted")
    elif given is not None and not isinstance(given, ForallSpec):
        raise InvalidArgument(f"spec is {given!r}; a ForallSpec or a dict of {', '.join(names)} is accepted")


def translation(
    fn: Callable[..., Any],
    key: Any,
    rank: int,
    group: tuple[int, ...] | None,
    parts: tuple[Any, ...],
    wide: bool,
) -> Translation:
    """The typed form of `fn` for these arguments; `key` stands for the function's content."""
    full = (key, rank, group, parts, wide)
    found: Translation | None = _translations.get(full) or _translations.find(full)
    if found is None:
        # Made first: a property of the user's object, which is asked meanwhile, may call pydp and must not wait for it.
        index_dtype = np.dtype(np.int64 if wide else np.int32)
        try:
            function = translate(fn, rank, group, [language_type(part) for part in parts], index_dtype)
            made = Translation(function, parts)
        except RecursionError:
            raise too_deep(getattr(fn, "__name__", "the function")) from None
        found = _translations.make(full, lambda: made)
    return found


def too_deep(name: str) -> InvalidArgument:
    """The error for a RecursionError from reading the expressions of the function `name`."""
    return InvalidArgument(
        f"{name} is nested too deeply here for Python's recursion limit, "
        f"{sys.getrecursionlimit()} frames; split its expressions and conditions"
    )


class Translation:
    """A vector function in its typed form, for given argument types; devices keep its plans.

    widened: weak integers have 64 bits here because a launch needs them.
    ranges: tells which launches need weak integers of 64 bits (see `for_launch`); None where this form has them."""

    def __init__(self, function: ir.Function, parts: tuple[Any, ...], widened: bool = False) -> None:
        self.function, self.widened = function, widened
        exact, narrow = function.exact, function.index_dtype == np.int32
        self.ranges = LaunchRanges(exact) if exact is not None and narrow else None
        self.met = MetNumbers(exact) if exact is not None else None
        self._wide: Translation | None = None
        doubtful = static_checks.check(function)
        written = {
            one.array.name
            for one in ir.statements(function.body)
            if isinstance(one, (ir.Store, ir.Atomic)) and isinstance(one.array, ir.GlobalArray)
        }
        self.arrays = [(array.position, array.name) for array in function.arrays]
        self.written = tuple(name for _, name in self.arrays if name in written)
        self.differently_typed = differently_typed(function.arrays, written)
        self.parts = parts
        self.loops = LoopBound(function)
        self.widths = LaunchWidths(function)
        self.places = LaunchPlaces(function, doubtful)
        self.control_inputs = [
            (one.position, one.item) for one in control_inputs(function.body) if isinstance(one, ir.Parameter)
        ]
        self.passed = BoundedCache(_MOST_KEPT)  # calls in which no race was found (see race_check.py)
        self.alike = BoundedCache(_MOST_KEPT)  # kinds of calls, and how many of each were looked at

    def for_launch(
        self, values: Sequence[Any], arrays: Sequence[int], extent: Sequence[int], offset: Sequence[int]
    ) -> Translation:
        """The form for a launch's arguments and grid: this one, or the one with weak integers of 64 bits.

        Raises InvalidArgument for a plain integer that does not fit the type of what it meets."""
        if self.met is not None and self.met.any:
            self.met.check(values)
        if self.ranges is None or self.ranges.fits(values, arrays, extent, offset):
            return self
        if self._wide is None:
            with _lock:
                if self._wide is None:
                    assert self.function.exact is not None
                    self._wide = Translation(widened(self.function.exact), self.parts, widened=True)
        return self._wide

    def plan(
        self, device: Device, spec: Any, extent: tuple[int, ...], shared: bool = False, watched: bool = False
    ) -> Plan:
        """The plan for a device, the caller's `spec` (or None) and a grid's extent; shared: for arrays of several types
        that share memory; watched: for loops that may be longer than the driver allows."""
        key = (self, None if spec is None else _spec_key(spec), extent, shared, watched)
        found: Plan | None = device.plans.get(key)
        if found is None:
            found = device.plans.make(key, self._planned, device, spec, extent, shared, watched)
        return found

    def _planned(self, device: Device, given: Any, extent: tuple[int, ...], shared: bool, watched: bool) -> Plan:
        """The plan of the caller's mapping, or of the policy's, and where that cannot be, of the other one."""
        for dtype in set(dtypes_of(self.function)):
            dtypes.check_supported(dtype, device, self.function.name)
            dtypes.check_kept_whole(dtype, device)
        held: list[ir.LocalArray | ir.PrivateArray] = [*self.function.locals, *self.function.privates]
        for array in held:
            if dtypes.lost_in_arrays(array.dtype, device):
                kind = "private" if isinstance(array, ir.PrivateArray) else "local"
                raise UnsupportedOnDevice(
                    f"{self.function.name}: the driver of {device.name!r} loses {kind} fields of {array.dtype}; "
                    "records made with align=True, of a multiple of four bytes, are accepted"
                )
        for parameter in self.function.parameters:
            dtypes.check_parameter(parameter.dtype, device, f"{self.function.name}: {parameter.name!r}")
        spec, reason = chosen_spec(given, device)
        if spec.group is not None and self.function.group is None:
            spec = replace(spec, group=check_group(spec.group, self.function.grid_rank))
        if shared:
            # In C an element is of one type: compilers keep values across writes as another, and the functions that
            # load and store vectors cannot be told not to.
            why = "arrays of different types share memory, which takes a work-item for each lane"
            try:
                return self._kept(device, replace(spec, mapping="simt", barriers="group"), why, extent, shared, watched)
            except (InvalidArgument, UnsupportedOnDevice) as error:
                refusal = UnsupportedOnDevice if isinstance(error, UnsupportedOnDevice) else InvalidArgument
                raise refusal(f"{why}; copies are accepted, for: {error}") from None
        try:
            return self._kept(device, spec, reason, extent, watched=watched)
        except UnsupportedOnDevice as error:
            if given is not None:
                raise
            other = replace(spec, mapping="simt" if spec.mapping == "vector" else "vector")
            why = f"the mapping {spec.mapping!r} cannot run it: {error}"
            try:
                return self._kept(device, other, why, extent, watched=watched)
            except UnsupportedOnDevice:
                raise error from None

    def _kept(
        self,
        device: Device,
        spec: ForallSpec,
        reason: str,
        extent: tuple[int, ...],
        shared: bool = False,
        watched: bool = False,
    ) -> Plan:
        """A plan for the group of this extent: one kernel serves all extents that get the same group."""
        group = self.function.group or spec.group
        if group is None:
            pick = simt_lowering.pick_group if spec.mapping == "simt" else strip_shape.pick_group
            group = pick(self.function.grid_rank, _coarse(extent), device.profile)
        many = device.kind == "gpu" and any(count > program.MOST_GROUPS for count in group_counts(extent, group)[:-1])
        key = (self, spec.mapping, group, many, spec.barriers, spec.subgroup, shared, watched)
        chosen = replace(spec, group=group)
        made: Plan = device.plans.make(key, Plan, self, device, chosen, reason, many, shared, watched)
        return made


def _coarse(extent: tuple[int, ...]) -> tuple[int, ...]:
    """An extent as the picking of a group sees it: small sizes rounded up, so that few kernels serve all of them."""
    steps = (1, 4, 8, 16, 64, 256)
    last = len(extent) - 1
    return tuple(
        next((step for step in (steps if axis == last else (1, 8)) if size <= step), size)
        for axis, size in enumerate(extent)
    )


def _spec_key(spec: Any) -> Any:
    if not isinstance(spec, Mapping):
        return spec if isinstance(spec, ForallSpec) else repr(spec)
    return tuple(sorted((repr(name), repr(value)) for name, value in spec.items()))


def _is_size(value: Any) -> bool:
    return isinstance(value, (int, np.integer)) and not isinstance(value, bool) and int(value) >= 1


def check_group(group: Any, rank: int) -> tuple[int, ...]:
    """A group's extents as a tuple of `rank` positive integers; InvalidArgument for anything else."""
    sizes = tuple(group) if isinstance(group, (tuple, list)) else (group,)
    if len(sizes) != rank or not all(_is_size(size) for size in sizes):
        raise InvalidArgument(f"group is {group!r}; a positive integer for each of the grid's {rank} axes is accepted")
    if math.prod(int(size) for size in sizes) > _MOST_LANES:
        raise InvalidArgument(f"group is {group!r}; at most {_MOST_LANES:,} work-items in a group are accepted")
    return tuple(int(size) for size in sizes)


class Plan:
    """A kernel on a device, with the way to fill its arguments."""

    def __init__(
        self,
        made_from: Translation,
        device: Device,
        spec: ForallSpec,
        reason: str,
        flat: bool,
        shared: bool = False,
        watched: bool = False,
    ) -> None:
        self.translation, self.spec, self.reason = made_from, spec, reason
        self.lowered = lowered = lower(made_from, device, spec, flat, shared, watched)
        try:
            self.kernel = program.kernel(device, lowered.template, lowered.kernel_name, lowered.params)
        except BuildFailed:
            if not lowered.uses_ptx or spec.barriers != "auto":
                raise
            _log.warning("barriers of warps do not build on %s; those of whole groups are used", device.name)
            self.lowered = lowered = lower(made_from, device, replace(spec, barriers="group"), flat, shared, watched)
            self.kernel = program.kernel(device, lowered.template, lowered.kernel_name, lowered.params)
        self.runs = _runs(lowered.arguments)
        self.watched = watched
        self._shapes = BoundedCache(_MOST_ARGUMENTS)

    def launch_shape(self, extent: tuple[int, ...]) -> Any:
        """(global size, local size) over a grid."""
        shape = self._shapes.get(extent)
        return self._shapes.make(extent, launch_shape, self.lowered, extent) if shape is None else shape

    def arguments(
        self, operands: Mapping[int, Operand], values: Sequence[Any], extent: tuple[int, ...], offset: tuple[int, ...]
    ) -> list[Any]:
        """The kernel's arguments for these arrays (by position), numbers and grid."""
        found: list[Any] = []
        for run in self.runs:
            if run.kind == "overran":
                found.append(None)  # the call puts its buffer here
            elif run.position < 0:
                found += run.scalars(0, extent, offset)
            elif run.kind == "parameter":
                found += [slot_number(slot, values[slot.position]) for slot in run.slots]
            else:
                operand = operands[run.position]
                if run.kind == "array":
                    found.append(operand.buffer)
                else:
                    found += run.scalars(operand.offset, operand.shape, operand.strides)
        return found


def lower(
    made_from: Translation, device: Device, spec: ForallSpec, flat: bool, shared: bool = False, watched: bool = False
) -> Lowered:
    """The function in the mapping and with the group of `spec`."""
    function = replace(made_from.function, group=spec.group)
    units = frozenset(
        (array.name, unit_axis(made_from.parts[array.position]))
        for array in function.arrays
        if unit_axis(made_from.parts[array.position]) >= 0
    )
    if spec.mapping == "vector":
        return vector_lowering.lower(function, device.profile, units, flat=flat)
    return simt_lowering.lower(
        function,
        device.profile,
        units,
        flat=flat,
        barriers=spec.barriers,
        subgroup=spec.subgroup,
        shared=shared,
        watched=watched,
    )


@dataclass
class _Run:
    """Neighbouring slots that are filled together: a buffer, an array's numbers, the grid's, or parameters."""

    kind: str
    position: int
    slots: list[Slot] = field(default_factory=list)
    kept: BoundedCache = field(default_factory=lambda: BoundedCache(_MOST_ARGUMENTS))

    def scalars(self, offset: int, first: tuple[int, ...], second: tuple[int, ...]) -> list[Any]:
        """NumPy scalars for the slots: extents (or the grid's) from `first`, strides (or offsets) from `second`."""
        key = (offset, first, second)
        found: list[Any] | None = self.kept.get(key)
        return self.kept.make(key, self._all, offset, first, second) if found is None else found

    def _all(self, offset: int, first: tuple[int, ...], second: tuple[int, ...]) -> list[Any]:
        return [self._one(slot, offset, first, second) for slot in self.slots]

    def _one(self, slot: Slot, offset: int, first: tuple[int, ...], second: tuple[int, ...]) -> Any:
        if slot.kind == "offset":
            return slot.dtype.type(offset)
        return slot.dtype.type((first if slot.kind in ("extent", "grid") else second)[slot.axis])


def _runs(slots: Sequence[Slot]) -> list[_Run]:
    runs: list[_Run] = []
    for slot in slots:
        kind = slot.kind if slot.kind in ("array", "parameter", "overran") else "numbers"
        position = -1 if slot.kind in ("grid", "grid_offset") else 0 if kind == "parameter" else slot.position
        if kind == "array" or not runs or (runs[-1].kind, runs[-1].position) != (kind, position):
            runs.append(_Run(kind, position))
        runs[-1].slots.append(slot)
    return runs


def slot_number(slot: Slot, value: Any) -> Any:
    """A number of the call as a kernel's argument."""
    if slot.item is not None:
        value = value[slot.item]
    dtype = slot.dtype
    if dtype.names is not None:
        return np.array(value, dtype)
    if dtype.kind == "b":
        return np.uint8(bool(value))
    if dtype.kind == "f" and not -_SURELY_FINITE < value < _SURELY_FINITE:
        with np.errstate(over="ignore"):
            return dtype.type(value)
    if dtype.kind == "i" and dtype.itemsize == 4 and not -(1 << 31) <= value < 1 << 31:
        return np.int64(value).astype(dtype)  # its low bits alone are used (see Translation.for_launch)
    return dtype.type(value)
