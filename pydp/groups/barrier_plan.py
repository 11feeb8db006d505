"""The barriers of a template's kernel: the width that each needs, its implementation, and its description (SPEC S4).

A template calls ``meet`` of wg_barrier.mako with a name for each barrier. Its algorithm gives the width of each: one
number, or several that depend on a number in the kernel (the step of a loop).
"""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from pydp.errors import BuildFailed
from pydp.groups.barrier import WORDS, Case, Lowering, build, check_choice, is_nvidia, merged, rules_for
from pydp.runtime.device.profile import Profile
from pydp.runtime.programs.program import Kernel, kernel

_log = logging.getLogger("pydp")

Widths = int | Sequence[tuple[int, int]]
"""A barrier's width, or (number, width) pairs: the first pair whose number is not below the kernel's number applies."""


def meetings(
    profile: Profile,
    lanes: int,
    needs: Mapping[str, Widths],
    choice: str = "auto",
    subgroup: int | None = None,
    row: int | None = None,
) -> dict[str, object]:
    """Template parameters for a group of `lanes`: "ways" (the cases of each barrier by name) and the result of `build`.

    needs: the widths of each barrier by name. row: lanes along dimension 0; by default all. choice, subgroup: see
    :class:`pydp.groups.barrier.Barriers`; raises InvalidArgument or UnsupportedOnDevice if they are impossible.

    >>> meetings(profile, 64, {"staged": 64, "merged": [(1, 2), (2, 4)]})["ways"]      # doctest: +SKIP
    """
    row = lanes if row is None else row
    check_choice(profile, choice, subgroup, row, lanes)
    steps = {name: [(0, need)] if isinstance(need, int) else list(need) for name, need in needs.items()}
    counted = [([width for _, width in turns], 1.0) for turns in steps.values()]
    rules = rules_for(counted, profile, lanes, row, choice, subgroup)
    ways: dict[str, list[dict[str, object]]] = {}
    kinds: set[str] = set()
    for name, turns in steps.items():
        found = [(width, rules.lowering(width)) for _, width in turns]
        cases = merged([(number + 1, way) for (number, _), (_, way) in zip(turns, found, strict=True)])
        if len(cases) > 1 and not profile.barriers_under_conditions:
            cases = [(None, max((way for _, way in cases), key=lambda way: way.width))]
        alone = len(cases) == 1
        ways[name] = [_text(case, [width for width, way in found if alone or _same(way, case[1])]) for case in cases]
        kinds.update(way.kind for _, way in cases)
    used = rules.subgroup if "subgroup" in kinds or subgroup is not None else 0
    return {"ways": ways, **build(replace(rules, subgroup=used))}


def _same(one: Lowering, other: Lowering) -> bool:
    return (one.kind, one.width) == (other.kind, other.width)


def _text(case: Case, widths: list[int]) -> dict[str, object]:
    """A case as parameters of wg_barrier.mako, with the needed widths and the reason for `told`."""
    below, way = case
    needs = ", ".join(map(str, dict.fromkeys(widths)))
    return {"below": below, "kind": way.kind, "width": way.width, "needs": needs, "reason": way.reason}


def built(
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
) -> Kernel:
    """Build the kernel of a template with these barriers, with `runtime.programs.program.kernel`.

    If NVIDIA's own barriers do not build and the caller did not choose them, whole-group barriers are used, with one
    line in the log.
    """
    ways = meetings(device.profile, lanes, needs, choice, subgroup, row)
    try:
        return kernel(device, template, name, {**params, **ways})
    except BuildFailed:
        if choice != "auto" or not is_nvidia(device.profile):
            raise
        _log.warning("warp barriers do not build on %s; whole-group barriers are used", device.name)
        return kernel(device, template, name, {**params, **meetings(device.profile, lanes, needs, "group", None, row)})


def told(ready: Kernel) -> list[str]:
    """A sentence for each barrier of a kernel: its source line, its width, its implementation and the reason."""
    ways = ready.params.get("ways")
    if not isinstance(ways, Mapping):
        return []
    lines = ready.source.splitlines()
    return [f"{ready.name}, {_where(lines, name)}: {_how(cases)}" for name, cases in ways.items()]


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
    steps = [1 << turn for turn in range(lanes.bit_length() - 1)]
    turns = [(step, min(4 * step, lanes) if 2 * step < lanes else lanes) for step in steps]
    return {"first": min(2, lanes), "turns": turns or lanes}
