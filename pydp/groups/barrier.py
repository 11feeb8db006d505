"""Choose the cheapest implementation of a barrier of a given width on a device (SPEC S4).

A barrier of width W synchronizes each aligned run of W lanes of a group; lanes are numbered by their linear local id.
The implementations, cheapest first: none, subgroup, warp (NVIDIA's subgroup, through PTX), named (NVIDIA's barrier of
some of a group's warps), group. An implementation may synchronize more lanes than needed, never fewer. Every lane of
the group must reach every barrier.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from pydp.errors import InvalidArgument, UnsupportedOnDevice, shown
from pydp.runtime.device.profile import Profile

KINDS = ("none", "subgroup", "warp", "named", "group")
CHOICES = ("auto", "group", "none", "subgroup", "named")
WARP = 32
_MOST_RUNS = 8  # ids 8 to 15 for 8 runs, 4 to 7 for 4, 2 to 3 for 2; barrier() itself has id 0
WORDS = {
    "none": "no barrier",
    "subgroup": "subgroup barrier",
    "warp": "warp barrier",
    "named": "named barrier",
    "group": "whole-group barrier",
}
_EXTRA = {"none": "none", "subgroup": "subgroup", "warp": "subgroup", "named": "named"}


@dataclass(frozen=True)
class BarrierLowering:
    """kind: one of `KINDS`. width: the number of lanes that it synchronizes. reason: why nothing cheaper is used."""

    kind: str
    width: int
    reason: str


@dataclass(frozen=True)
class Barriers:
    """The choice of barriers in one kernel.

    size: lanes of the group. row: its length along dimension 0. subgroup: lanes of a subgroup if the size is certain
    (the kernel requests it, or the device has no other), else 0. choice: one of `CHOICES`; a choice other than "auto"
    allows only that implementation and the whole group's barrier.

    >>> Barriers(profile, size=64, row=64, subgroup=16).lowering(8).kind      # doctest: +SKIP
    'subgroup'
    """

    profile: Profile
    size: int
    row: int
    subgroup: int = 0
    choice: str = "auto"

    def lowering(self, width: int) -> BarrierLowering:
        """The implementation of a barrier of `width`, which divides the group's size."""
        for kind in KINDS[:-1]:
            if self.choice in ("auto", _EXTRA[kind]):
                found: BarrierLowering | None = getattr(self, f"_{kind}")(width)
                if found is not None:
                    return found
        asked = self.choice not in ("auto", "group")
        reason = "barriers is 'group'" if self.choice == "group" and width < self.size else self._why_group(width)
        return BarrierLowering("group", self.size, f"{reason}; {self.choice!r} is impossible" if asked else reason)

    def _none(self, width: int) -> BarrierLowering | None:
        lockstep = self.profile.lockstep
        if width == 1:
            return BarrierLowering("none", 1, "no lane needs another's memory")
        if width <= lockstep and lockstep % width == 0 and self.size % lockstep == 0:
            return BarrierLowering("none", lockstep, f"the device runs {lockstep} lanes in lockstep")
        return None

    def _subgroup(self, width: int) -> BarrierLowering | None:
        size = self.subgroup
        if is_nvidia(self.profile) or not size or size % width or self.row % size:
            return None
        return BarrierLowering(
            "subgroup", size, f"{width} divides subgroups of {size} lanes, which divide rows of {self.row}"
        )

    def _warp(self, width: int) -> BarrierLowering | None:
        if not is_nvidia(self.profile) or WARP % width or self.size % WARP:
            return None
        return BarrierLowering(
            "warp", WARP, f"{width} divides warps of {WARP} lanes, which divide the group's {self.size}"
        )

    def _named(self, width: int) -> BarrierLowering | None:
        """The barrier ids differ for each number of runs, so barriers of two widths never mix."""
        if not is_nvidia(self.profile):
            return None
        for runs in (_MOST_RUNS, _MOST_RUNS // 2, 2):
            count = self.size // runs
            if self.size % (runs * WARP) == 0 and count % width == 0:
                return BarrierLowering("named", count, f"{runs} hardware barriers of {count} lanes cover width {width}")
        return None

    def _why_group(self, width: int) -> str:
        if width == self.size:
            return "the barrier is as wide as the group"
        if is_nvidia(self.profile):
            return f"{width} lanes divide neither warps nor 2, 4 or 8 runs of whole warps"
        if not self.profile.subgroup_sizes:
            return "the device has no subgroups whose layout is known"
        if not self.subgroup and self.profile.kind == "cpu" and self.choice == "auto":
            return "on a CPU, subgroups pay off only if no barrier of the whole group remains"
        if not self.subgroup:
            return f"rows of {self.row} lanes do not consist of whole subgroups, or no subgroup is wide enough"
        return f"{width} does not divide subgroups of {self.subgroup} lanes"


def is_nvidia(profile: Profile) -> bool:
    """Whether kernels are compiled to PTX and may contain inline PTX."""
    return any(name.startswith("cl_nv_") for name in profile.extensions)


def chooses_subgroup(profile: Profile) -> bool:
    """Whether a kernel can request its subgroup size."""
    return "cl_intel_required_subgroup_size" in profile.extensions


def subgroup_sizes(profile: Profile, row: int) -> tuple[int, ...]:
    """The subgroup sizes for which subgroups are certainly runs of lanes, with rows of `row` lanes."""
    if is_nvidia(profile):
        return ()
    sizes = profile.subgroup_sizes
    if not chooses_subgroup(profile) and len(sizes) != 1:
        return ()
    return tuple(size for size in sizes if row % size == 0)


def why_not(mapping: str, choice: str, subgroup: int | None) -> str | None:
    """Why the fields `mapping`, `barriers` and `subgroup` are wrong on every device, or None."""
    if mapping not in ("vector", "simt"):
        return f"mapping is {shown(mapping)}; 'vector' and 'simt' are accepted"
    if choice not in CHOICES:
        return f"barriers is {shown(choice)}; {', '.join(map(repr, CHOICES))} are accepted"
    if mapping == "vector" and (choice not in ("auto", "group") or subgroup is not None):
        return f"barriers is {shown(choice)} and subgroup is {shown(subgroup)}; these apply only to mapping='simt'"
    return None


def check_choice(profile: Profile, choice: str, subgroup: int | None, row: int, size: int) -> None:
    """Raise InvalidArgument or UnsupportedOnDevice if a requested lowering or subgroup size is impossible."""
    if choice not in CHOICES:
        raise InvalidArgument(f"spec barriers is {shown(choice)}; {', '.join(map(repr, CHOICES))} are accepted")
    sizes = subgroup_sizes(profile, row)
    if subgroup is not None:
        if isinstance(subgroup, bool) or not isinstance(subgroup, int) or subgroup < 1:
            raise InvalidArgument(f"spec subgroup is {shown(subgroup)}; a positive integer is accepted")
        known = (WARP,) if is_nvidia(profile) and size % WARP == 0 else sizes
        if subgroup not in known:
            raise UnsupportedOnDevice(
                f"spec subgroup is {subgroup}; with rows of {row} lanes, this device has subgroups of "
                f"{' or '.join(map(str, known)) or 'no known size'}"
            )
    warps = is_nvidia(profile) and size % WARP == 0
    if choice == "subgroup" and not sizes and not warps:
        raise UnsupportedOnDevice(
            f"spec barriers is 'subgroup'; this device has no subgroups of known layout in rows of {row} lanes"
        )
    if choice == "named" and not is_nvidia(profile):
        raise UnsupportedOnDevice("spec barriers is 'named'; only NVIDIA devices have named barriers")


Case = tuple[int | None, BarrierLowering]
Need = tuple[Sequence[int], float]


def merged(lowerings: Sequence[tuple[int, BarrierLowering]]) -> list[Case]:
    """Merge neighbouring cases with equal lowerings. A case is (upper bound, lowering); the last has no bound."""
    cases: list[Case] = []
    for below, lowering in lowerings:
        if cases and (cases[-1][1].kind, cases[-1][1].width) == (lowering.kind, lowering.width):
            lowering = cases.pop()[1]
        cases.append((below, lowering))
    return [*cases[:-1], (None, cases[-1][1])]


def texts(cases: Sequence[Case]) -> list[dict[str, object]]:
    """Cases as parameters of wg_barrier.mako."""
    return [{"below": below, "kind": lowering.kind, "width": lowering.width} for below, lowering in cases]


def rules_for(
    needs: Sequence[Need], profile: Profile, size: int, row: int, choice: str = "auto", subgroup: int | None = None
) -> Barriers:
    """The rules with the fewest barriers of the whole group; among these, with the largest subgroup.

    needs: (widths, weight) for each barrier. subgroup: the user's, or None. On CPUs, the compiler makes a loop over
    vectors from a subgroup. Subgroups of fewer than four vectors of 32-bit lanes (unless they are the whole group) cost
    at least as much as they save, and so do subgroups if barriers of the whole group remain (bench/bench_barrier.py).
    """
    if subgroup is not None:
        return Barriers(profile, size, row, subgroup, choice)
    best = Barriers(profile, size, row, 0, choice)
    least = whole_groups(needs, best)
    for lanes in sorted(subgroup_sizes(profile, row), reverse=True):
        rules = Barriers(profile, size, row, lanes, choice)
        count = whole_groups(needs, rules)
        if profile.kind == "cpu" and choice == "auto" and (count or lanes < min(profile.simd_bytes, size)):
            continue
        if count < least:
            best, least = rules, count
    return best


def whole_groups(needs: Sequence[Need], rules: Barriers) -> float:
    """The weighted number of barriers that the whole group runs."""
    return sum(each * sum(rules.lowering(width).kind == "group" for width in widths) for widths, each in needs)


def build(rules: Barriers) -> dict[str, object]:
    """Template parameters for barriers that follow `rules`.

    attribute: of the kernel. subgroups: whether to enable the extension. cl_std: if another OpenCL C is needed.
    """
    lanes = rules.subgroup
    modern = bool(lanes) and rules.profile.cl_c_version >= (3, 0)
    asks = bool(lanes) and chooses_subgroup(rules.profile)
    params: dict[str, object] = {
        "attribute": f"__attribute__((intel_reqd_sub_group_size({lanes})))" if asks else "",
        "subgroups": bool(lanes) and not modern,
    }
    return {**params, "cl_std": "CL3.0"} if modern else params
