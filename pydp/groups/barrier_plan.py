"""The barriers of a template's kernel: the width that each needs, its implementation, and its description (SPEC S4).

A template calls ``synchronize`` of wg_barrier.mako with a name for each barrier. Its algorithm gives the width of each:
one number, or several that depend on a number in the kernel (the step of a loop).
"""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from pydp.errors import BuildFailed
from pydp.groups.barrier import WORDS, BarrierLowering, Case, build, check_choice, is_nvidia, merged, rules_for
from pydp.runtime.device.profile import Profile
from pydp.runtime.programs.program import Kernel, kernel

_log = logging.getLogger("pydp")

Widths = int | Sequence[tuple[int, int]]
"""A barrier's width, or (number, width) pairs: the first pair whose number is not below the kernel's number applies."""


def barrier_params(
    profile: Profile,
    lanes: int,
    needs: Mapping[str, Widths],
    choice: str = "auto",
    subgroup: int | None = None,
    row: int | None = None,
) -> dict[str, object]:
    """Template parameters for a group of `lanes`: the result of `build`, and "lowerings", the cases of each barrier by
    name.

    needs: the widths of each barrier by name. row: lanes along dimension 0; by default all. choice, subgroup: see
    :class:`pydp.groups.barrier.Barriers`; raises InvalidArgument or UnsupportedOnDevice if they are impossible.

    >>> barrier_params(profile, 64, {"staged": 64, "merged": [(1, 2), (2, 4)]})["lowerings"]      # doctest: +SKIP
    """
    row = lanes if row is None else row
    check_choice(profile, choice, subgroup, row, lanes)
    numbered = {name: [(0, need)] if isinstance(need, int) else list(need) for name, need in needs.items()}
    weighted = [([width for _, width in pairs], 1.0) for pairs in numbered.values()]
    rules = rules_for(weighted, profile, lanes, row, choice, subgroup)
    lowerings: dict[str, list[dict[str, object]]] = {}
    kinds: set[str] = set()
    for name, pairs in numbered.items():
        found = [(width, rules.lowering(width)) for _, width in pairs]
        cases = merged([(number + 1, one) for (number, _), (_, one) in zip(pairs, found, strict=True)])
        if len(cases) > 1 and not profile.barriers_under_conditions:
            cases = [(None, max((one for _, one in cases), key=lambda one: one.width))]
        single = len(cases) == 1
        lowerings[name] = [
            _text(case, [width for width, one in found if single or _same(one, case[1])]) for case in cases
        ]
        kinds.update(one.kind for _, one in cases)
    used = rules.subgroup if "subgroup" in kinds or subgroup is not None else 0
    return {"lowerings": lowerings, **build(replace(rules, subgroup=used))}


def _same(one: BarrierLowering, other: BarrierLowering) -> bool:
    return (one.kind, one.width) == (other.kind, other.width)


def _text(case: Case, widths: list[int]) -> dict[str, object]:
    """A case as parameters of wg_barrier.mako, with the needed widths and the reason for :func:`describe_barriers`."""
    below, lowering = case
    needs = ", ".join(map(str, dict.fromkeys(widths)))
    return {"below": below, "kind": lowering.kind, "width": lowering.width, "needs": needs, "reason": lowering.reason}


def build_kernel(
    device: Any,
    template: str,
    name: str,
    params: Mapping[str, object],
    needs: Mapping[str, Widths],
    *,
    lanes: int,
    choice: str = "auto",
    subgroup: int | None = None,
    row: int | None = None,
    options: Sequence[str] = (),
) -> Kernel:
    """Build the kernel of a template with these barriers and compiler options, with `runtime.programs.program.kernel`.

    If NVIDIA's own barriers do not build and the caller did not choose them, whole-group barriers are used, with one
    line in the log.
    """
    found = barrier_params(device.profile, lanes, needs, choice, subgroup, row)
    try:
        return kernel(device, template, name, {**params, **found}, options)
    except BuildFailed:
        if choice != "auto" or not is_nvidia(device.profile):
            raise
        _log.warning("warp barriers do not build on %s; whole-group barriers are used", device.name)
        found = barrier_params(device.profile, lanes, needs, "group", None, row)
        return kernel(device, template, name, {**params, **found}, options)


def describe_barriers(ready: Kernel) -> list[str]:
    """A sentence for each barrier of a kernel: its source line, its width, its implementation and the reason."""
    lowerings = ready.params.get("lowerings")
    if not isinstance(lowerings, Mapping):
        return []
    lines = ready.source.splitlines()
    return [f"{ready.name}, {_where(lines, name)}: {_how(cases)}" for name, cases in lowerings.items()]


def _where(lines: Sequence[str], name: str) -> str:
    found = [str(number) for number, line in enumerate(lines, 1) if f"/* barrier: {name} */" in line]
    return f"barrier {name!r} (line {', '.join(found)})" if found else f"barrier {name!r}"


def _how(cases: Sequence[Mapping[str, Any]]) -> str:
    return "; ".join(f"width {case['needs']}: {WORDS[case['kind']]} ({case['reason']})" for case in cases)


def tree(lanes: int) -> dict[str, Widths]:
    """The widths of the barriers of wg_reduce.mako over `lanes` (a power of two).

    In the iteration with step s, lane k reads the value of lane k + s, so runs of 2 s lanes must synchronize before it.
    After the last iteration, all lanes must.
    """
    steps = [1 << power for power in range(lanes.bit_length() - 1)]
    widths = [(step, min(4 * step, lanes) if 2 * step < lanes else lanes) for step in steps]
    return {"first": min(2, lanes), "steps": widths or lanes}
