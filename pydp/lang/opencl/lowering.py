"""Lowerings: the ways to make an OpenCL kernel from a vector function, and the registry of them.

A lowering is a subclass of :class:`Lowering` in a module that ends with ``LOWERING = register(...)``.
ForallSpec.mapping accepts its name. Callers use the hooks below and never compare names.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence

from pydp.lang import ir
from pydp.lang.opencl.lowered import Lowered
from pydp.runtime.device.profile import Profile


class Lowering(ABC):
    """One way to run a vector function on a device.

    takes_barriers: the fields `barriers` and `subgroup` of a specialization apply.
    allows_aliasing: arrays of different types may share memory (argument `shared` of `lower`).
    """

    name: str
    takes_barriers = False
    allows_aliasing = False

    @abstractmethod
    def lower(
        self,
        function: ir.Function,
        profile: Profile,
        unit_strides: frozenset[tuple[str, int]] = frozenset(),
        *,
        flat: bool = False,
        barriers: str = "auto",
        subgroup: int | None = None,
        shared: bool = False,
        loop_guarded: bool = False,
    ) -> Lowered:
        """The kernel of `function`.

        unit_strides: (array name, axis) pairs whose stride is known to be 1. flat: number groups and lanes along
        dimension 0 only. barriers, subgroup: how barriers are run (see :mod:`pydp.groups.barrier`). shared: arrays of
        different types may share memory. loop_guarded: the kernel records in its last argument whether the driver ended
        a loop early. A lowering ignores the options that it does not support.
        Raises UnsupportedOnDevice, before anything is built, if the device cannot run the function.
        """

    @abstractmethod
    def pick_group(self, rank: int, extent: Sequence[int], profile: Profile) -> tuple[int, ...]:
        """A group for a function without one, for a grid of `extent`; an empty `extent` is an unknown one."""

    def default_reason(self, profile: Profile) -> str | None:
        """Why this lowering is the default on a device; None if it is not."""
        return f"the default on a {profile.kind}" if profile.mapping == self.name else None

    def remarks(self, function: ir.Function) -> list[str]:
        """Sentences for `explain` that take too long to compute at every call."""
        return []


_registered: dict[str, Lowering] = {}
_version = 0


def register(lowering: Lowering) -> Lowering:
    """Register a lowering and return it; a second lowering of the same name replaces the first."""
    global _version
    _registered[lowering.name] = lowering
    _version += 1
    return lowering


def unregister(name: str) -> None:
    """Remove a lowering; specializations that name it are refused from now on."""
    global _version
    del _registered[name]
    _version += 1


def lowerings() -> dict[str, Lowering]:
    """All lowerings by name, in the order of registration."""
    return dict(_registered)


def registry_version() -> int:
    """A number that changes with every registration; part of the keys of cached plans."""
    return _version
