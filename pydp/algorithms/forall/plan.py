"""From a described forall to a compiled kernel with prepared arguments. All results are cached.

translation(fn, key, rank, group, parts, wide)     the checked typed form, the same on every device
Translation.plan(device, spec, extent)             the kernel for a device, and how to fill its arguments
"""

from __future__ import annotations

import contextlib
import logging
import math
import sys
import threading
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from pydp import dtypes
from pydp.algorithms.arguments import by_key
from pydp.algorithms.forall.arguments import differently_typed, language_type, unit_axis
from pydp.algorithms.forall.policy import (
    ForallSpec,
    aliasing_spec,
    check_group,
    chosen_spec,
    fallbacks,
    pick_group,
)
from pydp.errors import BuildFailed, InvalidArgument, UnsupportedOnDevice
from pydp.lang import ir
from pydp.lang.analysis import static_checks
from pydp.lang.analysis.integer_widths import widened
from pydp.lang.analysis.launch_check import LaunchCheck
from pydp.lang.analysis.launch_integers import LaunchRanges, PromotedNumbers
from pydp.lang.analysis.trip_counts import LoopBound
from pydp.lang.compile import translate
from pydp.lang.opencl import lowerings, registry_version
from pydp.lang.opencl.lowered import Lowered, Slot, dtypes_of, group_counts, launch_shape
from pydp.model.family import Keyed
from pydp.runtime.arrays.operand import Operand
from pydp.runtime.bounded import BoundedCache
from pydp.runtime.drivers.devices import Device
from pydp.runtime.forks import fork_safe
from pydp.runtime.programs import program

_MOST_KEPT = 512
_MOST_ARGUMENTS = 128  # launch shapes, and sets of scalar arguments, that a plan keeps
_SURELY_FINITE = 6e4  # finite in every float type; a larger value may become infinite, and NumPy would warn
_lock = fork_safe(threading.RLock())  # guards Translation._wide
_log = logging.getLogger("pydp")
_translations = BoundedCache(_MOST_KEPT)


def translation(
    fn: Callable[..., Any],
    key: Any,
    rank: int,
    group: tuple[int, ...] | None,
    parts: tuple[Any, ...],
    wide: bool,
) -> Translation:
    """The typed form of `fn` for these arguments; `key` identifies the content of the function."""
    full = (key, rank, group, parts, wide)
    found: Translation | None = _translations.get(full) or _translations.find(full)
    if found is None:
        # Translate outside the cache's lock: translation may read a property of a user object, which may call pydp.
        index_dtype = np.dtype(np.int64 if wide else np.int32)
        try:
            function = translate(fn, rank, group, [language_type(part) for part in parts], index_dtype)
            made = Translation(function, parts)
        except RecursionError:
            raise too_deep(getattr(fn, "__name__", "the function")) from None
        found = _translations.make(full, lambda: made)
    return found


def too_deep(name: str) -> InvalidArgument:
    """The error for a RecursionError while processing the expressions of the function `name`."""
    return InvalidArgument(
        f"{name} is nested too deeply for Python's recursion limit of {sys.getrecursionlimit()} frames; "
        "split its expressions and conditions"
    )


class Translation:
    """A vector function in its typed form, for given argument types. Each device caches the plans of it.

    widened: weak integers have 64 bits because a launch needs them.
    ranges: decides which launches need 64-bit weak integers (see `for_launch`); None if this form has them already."""

    def __init__(self, function: ir.Function, parts: tuple[Any, ...], widened: bool = False) -> None:
        self.function, self.widened = function, widened
        exact, narrow = function.weak_form, function.index_dtype == np.int32
        self.ranges = LaunchRanges(exact) if exact is not None and narrow else None
        self.promoted = PromotedNumbers(exact) if exact is not None else None
        self._wide: Translation | None = None
        self.launch_check = LaunchCheck(function, *static_checks.check(function))
        written = self.launch_check.written
        self.arrays = [(array.position, array.name) for array in function.arrays]
        self.written = tuple(name for _, name in self.arrays if name in written)
        self.differently_typed = differently_typed(function.arrays, written)
        self.parts = parts
        self.loops = LoopBound(function)

    def for_launch(
        self, values: Sequence[Any], arrays: Sequence[int], extent: Sequence[int], offset: Sequence[int]
    ) -> Translation:
        """The form for this launch: `self`, or the form with 64-bit weak integers.

        Raises InvalidArgument if a Python integer does not fit the type that it is combined with."""
        if self.promoted is not None and self.promoted.any:
            self.promoted.check(values)
        if self.ranges is None or self.ranges.fits(values, arrays, extent, offset):
            return self
        if self._wide is None:
            with _lock:
                if self._wide is None:
                    assert self.function.weak_form is not None
                    self._wide = Translation(
                        ir.passed(widened(self.function.weak_form, large=False)), self.parts, widened=True
                    )
        return self._wide

    def plan(
        self, device: Device, spec: Any, extent: tuple[int, ...], shared: bool = False, loop_guarded: bool = False
    ) -> Plan:
        """The plan for a device, the caller's `spec` (or None) and a grid extent.

        shared: arrays of different types share memory. loop_guarded: loops may exceed the driver's iteration limit."""
        keyed = by_key(spec)
        given = keyed.key if type(keyed) is Keyed else keyed
        key = (self, given, extent, shared, loop_guarded, registry_version())
        found: Plan | None = device.plans.get(key)
        if found is None:
            found = device.plans.make(key, self._planned, device, spec, extent, shared, loop_guarded)
        return found

    def _planned(self, device: Device, given: Any, extent: tuple[int, ...], shared: bool, loop_guarded: bool) -> Plan:
        """The plan for the caller's specialization or the default one, or for a fallback of the default one."""
        for dtype in set(dtypes_of(self.function)):
            dtypes.check_supported(dtype, device, self.function.name)
            dtypes.check_kept_whole(dtype, device)
        held: list[ir.LocalArray | ir.PrivateArray] = [*self.function.locals, *self.function.privates]
        for array in held:
            if dtypes.lost_in_arrays(array.dtype, device):
                kind = "private" if isinstance(array, ir.PrivateArray) else "local"
                raise UnsupportedOnDevice(
                    f"{self.function.name}: the driver of {device.name!r} does not store {kind} arrays of "
                    f"{array.dtype} correctly; make the dtype with align=True and a size that is a multiple of 4 bytes"
                )
        for parameter in self.function.parameters:
            dtypes.check_parameter(parameter.dtype, device, f"{self.function.name}: {parameter.name!r}")
        spec, reason = chosen_spec(given, device.profile)
        if spec.group is not None and self.function.group is None:
            spec = replace(spec, group=check_group(spec.group, self.function.grid_rank))
        if shared:
            spec, why = aliasing_spec(spec)
            try:
                return self._kept(device, spec, why, extent, shared, loop_guarded)
            except (InvalidArgument, UnsupportedOnDevice) as error:
                refusal = UnsupportedOnDevice if isinstance(error, UnsupportedOnDevice) else InvalidArgument
                raise refusal(f"{why}, and that is not possible: {error}. Pass a copy of one of the arrays") from None
        try:
            return self._kept(device, spec, reason, extent, loop_guarded=loop_guarded)
        except UnsupportedOnDevice as error:
            if given is not None:
                raise
            why = f"the mapping {spec.mapping!r} cannot run it: {error}"
            for other in fallbacks(spec):
                with contextlib.suppress(UnsupportedOnDevice):
                    return self._kept(device, other, why, extent, loop_guarded=loop_guarded)
            raise

    def _kept(
        self,
        device: Device,
        spec: ForallSpec,
        reason: str,
        extent: tuple[int, ...],
        shared: bool = False,
        loop_guarded: bool = False,
    ) -> Plan:
        """The cached plan for this extent; all extents with the same group share one kernel."""
        lowering = lowerings()[spec.mapping]
        group = self.function.group or spec.group
        if group is None:
            group = pick_group(lowering, self.function.grid_rank, extent, device.profile)
        many = device.kind == "gpu" and any(count > program.MOST_GROUPS for count in group_counts(extent, group)[:-1])
        key = (self, lowering, group, many, spec.barriers, spec.subgroup, shared, loop_guarded)
        chosen = replace(spec, group=group)
        made: Plan = device.plans.make(key, Plan, self, device, chosen, reason, many, shared, loop_guarded)
        return made


class Plan:
    """A kernel on a device, with a description of its arguments."""

    def __init__(
        self,
        made_from: Translation,
        device: Device,
        spec: ForallSpec,
        reason: str,
        flat: bool,
        shared: bool = False,
        loop_guarded: bool = False,
    ) -> None:
        self.translation, self.spec, self.reason = made_from, spec, reason
        self.lowered = lowered = lower(made_from, device, spec, flat, shared, loop_guarded)
        try:
            self.kernel = program.kernel(device, lowered.template, lowered.kernel_name, lowered.params)
        except BuildFailed:
            if not lowered.uses_ptx or spec.barriers != "auto":
                raise
            _log.warning("warp barriers do not build on %s; whole-group barriers are used", device.name)
            self.lowered = lowered = lower(
                made_from, device, replace(spec, barriers="group"), flat, shared, loop_guarded
            )
            self.kernel = program.kernel(device, lowered.template, lowered.kernel_name, lowered.params)
        self.runs = _runs(lowered.arguments)
        self.loop_guarded = loop_guarded
        self._shapes = BoundedCache(_MOST_ARGUMENTS)
        self._device_name, self._most_groups = device.name, device.quirks.most_groups

    def launch_shape(self, extent: tuple[int, ...]) -> Any:
        """(global size, local size) for a grid extent. Raises UnsupportedOnDevice if it is too large for a launch."""
        shape = self._shapes.get(extent)
        return self._shapes.make(extent, self._launch_shape, extent) if shape is None else shape

    def _launch_shape(self, extent: tuple[int, ...]) -> Any:
        shape, local = launch_shape(self.lowered, extent)
        work_items = math.prod(shape)
        groups = work_items // math.prod(local)
        if work_items >= 1 << 63 or groups > self._most_groups:
            raise UnsupportedOnDevice(
                f"the grid {extent} has {groups} work-groups of {math.prod(local)} work-items; on "
                f"{self._device_name!r}, at most {self._most_groups} work-groups and 2**63 - 1 work-items are accepted"
            )
        return shape, local

    def arguments(
        self, operands: Mapping[int, Operand], values: Sequence[Any], extent: tuple[int, ...], offset: tuple[int, ...]
    ) -> list[Any]:
        """The kernel's arguments for these arrays (by position), numbers and grid."""
        found: list[Any] = []
        for run in self.runs:
            if run.kind == "overran":
                found.append(None)  # forall replaces it with the buffer of the call
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
    made_from: Translation,
    device: Device,
    spec: ForallSpec,
    flat: bool,
    shared: bool = False,
    loop_guarded: bool = False,
) -> Lowered:
    """Lower the function with the mapping and the group of `spec`."""
    function = made_from.function
    if function.group != spec.group:
        function = replace(function, group=spec.group)
    units = frozenset(
        (array.name, unit_axis(made_from.parts[array.position]))
        for array in function.arrays
        if unit_axis(made_from.parts[array.position]) >= 0
    )
    return lowerings()[spec.mapping].lower(
        function,
        device.profile,
        units,
        flat=flat,
        barriers=spec.barriers,
        subgroup=spec.subgroup,
        shared=shared,
        loop_guarded=loop_guarded,
    )


@dataclass
class _Run:
    """Adjacent slots that are filled together: a buffer, the sizes of one array or of the grid, or parameters."""

    kind: str
    position: int
    slots: list[Slot] = field(default_factory=list)
    kept: BoundedCache = field(default_factory=lambda: BoundedCache(_MOST_ARGUMENTS))

    def scalars(self, offset: int, first: tuple[int, ...], second: tuple[int, ...]) -> list[Any]:
        """NumPy scalars for the slots: extents from `first`, strides (for the grid: offsets) from `second`."""
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
    """A number argument of the call, converted to the kernel argument."""
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
        return np.int64(value).astype(dtype)  # the kernel uses the low bits only (see Translation.for_launch)
    return dtype.type(value)
