"""The specialization of a forall: mapping, group and barriers (pure functions of the call and the device profile)."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from pydp.errors import InvalidArgument, shown
from pydp.groups.barrier import CHOICES
from pydp.lang.opencl import Lowering, lowerings
from pydp.model.family import check_spec
from pydp.runtime.device.profile import Profile

_MOST_LANES = 1 << 20  # lanes of a group: far more than any device accepts


@dataclass(frozen=True)
class ForallSpec:
    """How a forall is run.

    mapping: "simt" (one work-item per lane), "vector" (one work-item per group, lanes in vector registers), or the name
    of another registered lowering.
    group: the group's extents if the call gives no group and the function uses none; None lets the lowering choose.
    barriers: "auto" gives each barrier the narrowest width that the accesses around it allow, in the cheapest way.
    "group" uses whole-group barriers only. "none" (omit barriers where correct), "subgroup" and "named" (NVIDIA) allow
    that one way besides whole-group barriers.
    subgroup: the subgroup size to compile for; None chooses it. barriers and subgroup apply to mapping "simt" only.
    """

    mapping: str
    group: tuple[int, ...] | None = None
    barriers: str = "auto"
    subgroup: int | None = None


def chosen_spec(given: ForallSpec | Mapping[str, Any] | None, profile: Profile) -> tuple[ForallSpec, str]:
    """(the specialization, the reason for its mapping)."""
    if given is None:
        return _default(profile)
    check_spec("forall", ForallSpec, given)
    known = list(lowerings())
    with_barriers = [name for name, one in lowerings().items() if one.takes_barriers]
    if isinstance(given, Mapping):
        base, _ = _default(profile)
        if _sets_barriers(replace(base, **given)) and base.mapping not in with_barriers:
            base = replace(base, mapping=with_barriers[0])
        spec = replace(base, **given)
    else:
        spec = given
    if spec.mapping not in known:
        raise InvalidArgument(f"spec mapping is {spec.mapping!r}; {_names(known)} are accepted")
    if _sets_barriers(spec) and spec.mapping not in with_barriers:
        raise InvalidArgument(
            f"spec mapping is {spec.mapping!r}; barriers= and subgroup= apply only to mapping {_names(with_barriers)}"
        )
    if spec.barriers not in CHOICES:
        raise InvalidArgument(f"spec barriers is {spec.barriers!r}; {', '.join(map(repr, CHOICES))} are accepted")
    return spec, "requested by spec="


def _default(profile: Profile) -> tuple[ForallSpec, str]:
    """The specialization of the first lowering that is the default on this device, and its reason."""
    reasons = ((name, one.default_reason(profile)) for name, one in lowerings().items())
    return next((ForallSpec(name), reason) for name, reason in reasons if reason is not None)


def fallbacks(spec: ForallSpec) -> Iterator[ForallSpec]:
    """The default specialization with each of the other mappings."""
    return (replace(spec, mapping=name) for name in lowerings() if name != spec.mapping)


def aliasing_spec(spec: ForallSpec) -> tuple[ForallSpec, str]:
    """`spec` for arrays of different types that share memory, and the reason.

    Strict aliasing: a C compiler may keep a value in a register across a write through another type. The functions that
    load and store vectors always assume this, so not every lowering allows aliasing.
    """
    able = [name for name, one in lowerings().items() if one.allows_aliasing]
    mapping = spec.mapping if spec.mapping in able else able[0]
    why = f"arrays of different types share memory, which needs mapping {mapping!r}"
    return replace(spec, mapping=mapping, barriers="group"), why


def check_group(group: Any, rank: int) -> tuple[int, ...]:
    """The group's extents as a tuple of `rank` positive integers. Raises InvalidArgument for other values."""
    sizes = tuple(group) if isinstance(group, (tuple, list)) else (group,)
    if len(sizes) != rank or not all(_is_size(size) for size in sizes):
        raise InvalidArgument(
            f"group is {shown(group)}; one positive integer per axis of the grid ({rank}) is accepted"
        )
    if math.prod(int(size) for size in sizes) > _MOST_LANES:
        raise InvalidArgument(f"group is {shown(group)}; at most {_MOST_LANES:,} work-items in a group are accepted")
    return tuple(int(size) for size in sizes)


def pick_group(lowering: Lowering, rank: int, extent: tuple[int, ...], profile: Profile) -> tuple[int, ...]:
    """The lowering's group for a grid. Small extents are rounded up, so small grids share a few groups and kernels."""
    steps = (1, 4, 8, 16, 64, 256)
    last = len(extent) - 1
    rounded = tuple(
        next((step for step in (steps if axis == last else (1, 8)) if size <= step), size)
        for axis, size in enumerate(extent)
    )
    return lowering.pick_group(rank, rounded, profile)


def _sets_barriers(spec: ForallSpec) -> bool:
    return spec.barriers != "auto" or spec.subgroup is not None


def _names(names: list[str]) -> str:
    *first, last = map(repr, names)
    return f"{', '.join(first)} and {last}" if first else last


def _is_size(value: Any) -> bool:
    return isinstance(value, (int, np.integer)) and not isinstance(value, bool) and int(value) >= 1
