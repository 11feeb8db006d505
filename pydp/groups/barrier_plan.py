"""The barriers of a template's kernel: the width that each needs, how it is run, and how that is told (SPEC S4).

A template calls ``meet`` of wg_barrier.mako with a name for each of its barriers; its algorithm says here how many
neighbouring lanes each must have meet: one number, or several by a number that the kernel has at hand (a loop's step).
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
"""A barrier's width, or (number, width) pairs: the width for a number is that of the first pair it is not above."""


def meetings(
    profile: Profile,
    lanes: int,
    needs: Mapping[str, Widths],
    choice: str = "auto",
    subgroup: int | None = None,
    row: int | None = None,
) -> dict[str, object]:
    """Parameters of a template for a group of `lanes`: ways (of each barrier, by its name) and what `build` gives.

    needs: what each barrier needs, by its name. row: lanes along dimension 0, where not all lie there. choice,
    subgroup: see :class:`pydp.groups.barrier.Barriers`; raises InvalidArgument or UnsupportedOnDevice where they
    cannot be.

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
    """A case as wg_barrier.mako takes it, with the widths that were asked for and the reason for `told`."""
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
    """The kernel of a template whose barriers have these needs, as `runtime.programs.program.kernel` builds it.

    Where NVIDIA's own barriers do not build and were not asked for, those of whole groups are used, with a log line.
    """
    ways = meetings(device.profile, lanes, needs, choice, subgroup, row)
    try:
        return kernel(device, template, name, {**params, **ways})
    except BuildFailed:
        if choice != "auto" or not is_nvidia(device.profile):
            raise
        _log.warning("barriers of warps do not build on %s; those of whole groups are used", device.name)
        return kernel(device, template, name, {**params, **meetings(device.profile, lanes, needs, "group", None, row)})


def told(ready: Kernel) -> list[str]:
    """A sentence for each barrier of a kernel: its line in the text, the width asked for, how it is run, and why."""
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
    """What the barriers of wg_reduce.mako need, over `lanes` (a power of two).

    In the turn of step s lane k takes what lane k + s has, so before it runs of 2 s lanes meet; after the last turn
    all do.
    """
    steps = [1 << turn for turn in range(lanes.bit_length() - 1)]
    turns = [(step, min(4 * step, lanes) if 2 * step < lanes else lanes) for step in steps]
    return {"first": min(2, lanes), "turns": turns or lanes}
