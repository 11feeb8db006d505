"""Chooses how each barrier of a vector function is executed on a device, and gives the reason.

Two sets of widths are correct: the inferred ones, and the ones that the function gives (the group's size by default). A
set is correct only as a whole, so the cheaper set is used for all barriers. If a width differs between the iterations
of a loop, or is known only at run time, the kernel selects the lowering at run time.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

from pydp.errors import UnsupportedOnDevice
from pydp.groups.barrier import WORDS, Barriers, Case, Need, build, check_choice, merged, rules_for, texts, whole_groups
from pydp.lang import ir
from pydp.lang.barriers.widths import Width, infer
from pydp.lang.ir.text import expr_text
from pydp.runtime.device.profile import Profile

_MAX_INTERVALS = 40  # intervals with different accesses; comparing all pairs of more takes longer than the compiler
_MAX_CASES = 8  # more cases for the iterations of a loop cost more than the wider barriers that they avoid


@dataclass(frozen=True)
class BarrierPlan:
    """The lowerings of a function's barriers.

    lowered: parameters of wg_barrier.mako for each barrier in source order: {number, memory, size, cases, by, period}.
    by: "" (one case), "iteration" (the case depends on the iteration modulo `period`) or "width" (on the run-time
    width). reasons: one sentence for each barrier. build: template parameters that give the kernel the required
    subgroups. assumes_no_alias: the widths and the ordered memory are correct only if written elements are not aliased
    by other arguments or by strides. uses_ptx: some barriers are PTX instructions. row: the group's extent along
    dimension 0. summary: the number of barrier executions with each lowering.
    """

    lowered: list[dict[str, object]] = field(default_factory=list)
    reasons: list[str] = field(default_factory=list)
    build: dict[str, object] = field(default_factory=dict)
    assumes_no_alias: bool = False
    uses_ptx: bool = False
    row: int = 1
    summary: str = ""


@dataclass(frozen=True)
class _Needed:
    """The width of a barrier: one for each iteration (or one for all), or an expression known at run time."""

    per_iteration: tuple[int, ...]
    given: ir.Expr | None
    source: str

    def __str__(self) -> str:
        if self.given is not None:
            return f"{expr_text(self.given)}, known at run time"
        return str(Width(self.per_iteration))


def plan_barriers(
    function: ir.Function,
    profile: Profile,
    rows: Sequence[int] = (1,),
    *,
    choice: str = "auto",
    subgroup: int | None = None,
    widths: Mapping[int, Width] | None = None,
) -> BarrierPlan:
    """The lowering of every barrier. Raises UnsupportedOnDevice if the driver would miscompile a barrier.

    rows: the possible extents of the group along dimension 0, in order of preference; the plan takes the first one with
    the fewest whole-group barriers. choice, subgroup: see :class:`pydp.algorithms.forall.ForallSpec`. widths: replaces
    the inferred widths, for tests of widths that are too narrow.
    """
    barriers = ir.barriers(function.body)
    size = max(1, math.prod(function.group or (1,)))
    needed = _needed(function, size, widths)
    rules = _rules(needed, profile, size, rows, choice, subgroup)
    no_alias = choice != "group"  # forall requests "group" if arguments share memory
    memory = "both" if _orders_global_memory(function.body, no_alias) else "local"
    more_if_aliased = memory == "local" and _orders_global_memory(function.body, no_alias=False)
    lowered: list[dict[str, object]] = []
    reasons: list[str] = []
    counts: Counter[str] = Counter()
    executed: set[int] = set()
    for number, (barrier, need) in enumerate(zip(barriers, needed, strict=True)):
        by, period, cases = _cases(need, rules)
        if by and not profile.barriers_under_conditions:
            widest = max((one for _, one in cases), key=lambda one: one.width)
            by, period, cases = "", 1, [(None, widest)]
        if any(one.kind != "none" for _, one in cases):
            executed.add(barrier.uid)
        counts.update(_kinds(need, period, cases))
        shape = {"size": size, "memory": memory, "by": by, "period": period}
        lowered.append({"number": number, "cases": texts(cases), **shape})
        reasons.append(_reason(barrier, need, _describe(by, cases), memory))
    if not profile.barriers_under_conditions:
        _refuse_conditional(function.body, "", executed)
    kinds = set(counts)
    lanes = rules.subgroup if "subgroup" in kinds or subgroup is not None else 0
    narrow = kinds - {"group"} and any(need.source == "inferred" for need in needed)
    return BarrierPlan(
        lowered,
        reasons,
        build=build(replace(rules, subgroup=lanes)),
        row=rules.row,
        summary=_summary(counts),
        assumes_no_alias=more_if_aliased or bool(narrow and _global_accesses(function.body)[1]),
        uses_ptx=bool(kinds & {"warp", "named"}),
    )


def _reason(barrier: ir.Barrier, need: _Needed, description: str, memory: str) -> str:
    requested = "" if barrier.width is None else f", {expr_text(barrier.width)} requested"
    split = "; the condition around it was split, so all lanes reach it" if barrier.from_condition else ""
    return f"{barrier.where}: width {need} ({need.source}{requested}): {description}; {memory} memory ordered{split}"


def _needed(function: ir.Function, size: int, widths: Mapping[int, Width] | None) -> list[_Needed]:
    """The width of every barrier: the inferred or the given widths, whichever set is cheaper."""
    barriers = ir.barriers(function.body)
    whole = Width((size,), inferred=False)
    if widths is None:
        numbered = len({barrier.number for barrier in barriers}) == len(barriers)
        widths = infer(function, max_intervals=_MAX_INTERVALS) if barriers and numbered else {}
    inferred = [_inferred(widths.get(barrier.number, whole)) for barrier in barriers]
    if all(barrier.width is None for barrier in barriers):
        return inferred
    given = [_given(barrier, size) for barrier in barriers]
    return given if sum(map(_cost, given)) < sum(map(_cost, inferred)) else inferred


def _inferred(width: Width) -> _Needed:
    source = "inferred" if width.inferred else "all lanes, because not all accesses were compared"
    return _Needed(width.per_iteration, None, source)


def _given(barrier: ir.Barrier, size: int) -> _Needed:
    if barrier.width is None:
        return _Needed((size,), None, "none given")
    if barrier.from_condition:  # the given number of lanes need not be an aligned run
        return _Needed((size,), None, "all lanes")
    if isinstance(barrier.width, ir.Const):
        width = int(barrier.width.value)
        return _Needed((width if width > 0 and size % width == 0 else size,), None, "given")
    return _Needed((size,), barrier.width, "given")


def _cost(need: _Needed) -> float:
    return sum(need.per_iteration) / len(need.per_iteration) - (0.5 if need.given is not None else 0)


def _kinds(need: _Needed, period: int, cases: Sequence[Case]) -> Counter[str]:
    """The number of iterations of a barrier with each kind of lowering; for run-time widths, the number of cases."""
    if need.given is not None:
        return Counter(lowering.kind for _, lowering in cases)
    numbers = [number % period for number in range(len(need.per_iteration))]
    return Counter(next(one.kind for below, one in cases if below is None or number < below) for number in numbers)


def _summary(counts: Counter[str]) -> str:
    if not counts:
        return ""
    lowerings = ", ".join(f"{counts[kind]} {WORDS[kind]}" for kind in WORDS if counts[kind])
    return f"{counts.total()} barrier execution(s) known before the launch: {lowerings}"


def _rules(
    needed: Sequence[_Needed],
    profile: Profile,
    size: int,
    rows: Sequence[int],
    choice: str,
    subgroup: int | None,
) -> Barriers:
    """The rules for the first of `rows` with the fewest whole-group barriers."""
    needs = [_weighted_widths(need, size) for need in needed]
    found: list[Barriers] = []
    refused: UnsupportedOnDevice | None = None
    for row in rows:
        try:
            if needed or choice != "auto" or subgroup is not None:
                check_choice(profile, choice, subgroup, row, size)
        except UnsupportedOnDevice as error:
            refused = refused or error
            continue
        found.append(rules_for(needs, profile, size, row, choice, subgroup))
    if refused and not found:
        raise refused
    return min(found, key=lambda rules: whole_groups(needs, rules))


def _weighted_widths(need: _Needed, size: int) -> Need:
    """The widths of a barrier and the weight of each: 1 for each iteration; for a run-time width, all possible widths,
    with weights that sum to 1."""
    if need.given is None:
        return need.per_iteration, 1.0
    widths = _divisors(size)
    return widths, 1 / len(widths)


def _divisors(size: int) -> tuple[int, ...]:
    return tuple(width for width in range(1, size + 1) if size % width == 0)


def _cases(need: _Needed, rules: Barriers) -> tuple[str, int, list[Case]]:
    """The (by, period, cases) of a barrier; see :class:`BarrierPlan`."""
    if need.given is not None:
        cases = _cases_by_width(rules)
        return ("width" if len(cases) > 1 else ""), 1, cases
    lowerings = [rules.lowering(width) for width in need.per_iteration]
    period = next(p for p in range(1, len(lowerings) + 1) if _repeats([(w.kind, w.width) for w in lowerings], p))
    cases = merged([(number + 1, lowering) for number, lowering in enumerate(lowerings[:period])])
    if len(cases) > _MAX_CASES:
        cases = [(None, rules.lowering(max(need.per_iteration)))]
    return ("iteration" if len(cases) > 1 else ""), period, cases


def _repeats(lowerings: Sequence[object], period: int) -> bool:
    return all(lowering == lowerings[number % period] for number, lowering in enumerate(lowerings))


def _cases_by_width(rules: Barriers) -> list[Case]:
    """The cases of a width known at run time: one for each divisor of the group's size."""
    size = rules.size
    if size & (size - 1):
        return [(None, rules.lowering(size))]
    lowerings = [(width + 1, rules.lowering(width)) for width in _divisors(size)]
    whole = rules.lowering(size)
    if all(lowering.kind == whole.kind for _, lowering in lowerings):
        return [(None, whole)]
    return merged([(1, whole), *lowerings])


def _describe(by: str, cases: Sequence[Case]) -> str:
    parts = []
    for below, lowering in cases:
        when = f"{by} < {below}: " if by and below is not None else f"other {by}s: " if by else ""
        parts.append(f"{when}{WORDS[lowering.kind]} ({lowering.reason})")
    return ", ".join(parts)


def _refuse_conditional(body: Sequence[ir.Stmt], inside: str, executed: set[int]) -> None:
    for statement in body:
        if isinstance(statement, ir.Barrier) and inside and statement.uid in executed:
            raise UnsupportedOnDevice(
                f"{statement.where}: with mapping='simt', this driver miscompiles a barrier {inside}; "
                "use mapping='vector'"
            )
        within = inside or _danger(statement)
        for block in ir.blocks(statement):
            _refuse_conditional(block, within, executed)


def _danger(statement: ir.Stmt) -> str:
    """The reason why some drivers miscompile barriers inside `statement`; "" if they do not."""
    if isinstance(statement, ir.If):
        return "under a condition"
    if isinstance(statement, ir.While):
        return "in a while loop"
    if isinstance(statement, ir.For) and any(ir.jumps(statement.body)):
        return "in a loop with break or continue"
    return ""


def _orders_global_memory(body: Sequence[ir.Stmt], no_alias: bool) -> bool:
    """Whether a barrier separates two accesses to an argument, one of them a write, in source order or across loop
    iterations. no_alias: different arguments share no memory."""
    read: set[str] = set()
    written: set[str] = set()
    for number, statement in enumerate(body):
        inside = _global_accesses([statement])
        read, written = read | inside[0], written | inside[1]
        if not ir.barriers([statement]):
            continue
        later_read, later_written = _global_accesses([statement, *body[number + 1 :]])
        if written and (later_read | later_written):
            return True
        if read & later_written or (not no_alias and read and later_written):
            return True
    return False


def _global_accesses(body: Sequence[ir.Stmt]) -> tuple[set[str], set[str]]:
    """The names of the arguments that statements read, and of those that they write."""
    found: dict[bool, set[str]] = {True: set(), False: set()}
    for access in ir.accesses(ir.statements(list(body))):
        if isinstance(access.array, ir.GlobalArray):
            found[isinstance(access, ir.Load)].add(access.array.name)
    return found[True], found[False]
