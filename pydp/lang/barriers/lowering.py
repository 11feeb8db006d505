"""How each barrier of a vector function is run on a device, and why.

Two sets of widths are right: the inferred ones, and the ones that the function gives (where it gives none, the group's
size). A set is only right as a whole, so the cheaper of the two is taken for all barriers. Where the width differs
from turn to turn of loops of known length, or is known at run time only, the kernel picks the way to run it there.
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

_MOST_MEETINGS = 40  # between unlike accesses: comparing every two of more takes longer than the compiler does
_MOST_CASES = 8  # more ways than this, turn by turn, cost more than the wider barriers that they avoid


@dataclass(frozen=True)
class BarrierPlan:
    """lowered: one {number, memory, size, cases, by, period} for each barrier in source order, as wg_barrier.mako takes
    them; by: "" (one way for all turns), "turn" (of `period` turns) or "width". reasons: one sentence for each.
    build: parameters of the template by which the kernel has the subgroups that its barriers are for. assumes_apart:
    widths, and the memory that is ordered, are right only where no written element is another one as well, by
    arguments that share memory or by strides. uses_ptx: some are instructions of NVIDIA's own. row: the group's length
    along dimension 0 for it. summary: how many turns of barriers are run in which way."""

    lowered: list[dict[str, object]] = field(default_factory=list)
    reasons: list[str] = field(default_factory=list)
    build: dict[str, object] = field(default_factory=dict)
    assumes_apart: bool = False
    uses_ptx: bool = False
    row: int = 1
    summary: str = ""


@dataclass(frozen=True)
class _Needed:
    """The widths of a barrier: one for each turn (of which the first `period` are repeated), or an expression."""

    turns: tuple[int, ...]
    given: ir.Expr | None
    source: str

    def __str__(self) -> str:
        return f"{expr_text(self.given)}, known at run time" if self.given is not None else str(Width(self.turns))


def plan_barriers(
    function: ir.Function,
    profile: Profile,
    rows: Sequence[int] = (1,),
    *,
    choice: str = "auto",
    subgroup: int | None = None,
    widths: Mapping[int, Width] | None = None,
) -> BarrierPlan:
    """The lowering of every barrier; raises UnsupportedOnDevice where the driver would miscompile one.

    rows: lengths that the group may have along dimension 0, the best first; the plan's `row` is the first of those with
    the fewest barriers of the whole group. choice and subgroup: see :class:`pydp.algorithms.forall.ForallSpec`.
    widths: taken for the inferred ones (tests of what too narrow ones do).
    """
    found = ir.barriers(function.body)
    size = max(1, math.prod(function.group or (1,)))
    needed = _needed(function, size, widths)
    rules = _rules(needed, profile, size, rows, choice, subgroup)
    apart = choice != "group"  # what is taken where arguments share memory
    memory = "both" if _orders_global_memory(function.body, apart) else "local"
    more_if_shared = memory == "local" and _orders_global_memory(function.body, apart=False)
    lowered: list[dict[str, object]] = []
    reasons: list[str] = []
    counts: Counter[str] = Counter()
    kept: set[int] = set()
    for number, (barrier, need) in enumerate(zip(found, needed, strict=True)):
        by, period, cases = _cases(need, rules)
        if by and not profile.barriers_under_conditions:
            widest = max((one for _, one in cases), key=lambda one: one.width)
            by, period, cases = "", 1, [(None, widest)]
        if any(one.kind != "none" for _, one in cases):
            kept.add(id(barrier))
        counts.update(_kinds(need, period, cases))
        shape = {"size": size, "memory": memory, "by": by, "period": period}
        lowered.append({"number": number, "cases": texts(cases), **shape})
        reasons.append(_reason(barrier, need, _told(by, cases), memory))
    if not profile.barriers_under_conditions:
        _refuse_conditional(function.body, "", kept)
    kinds = set(counts)
    lanes = rules.subgroup if "subgroup" in kinds or subgroup is not None else 0
    narrow = kinds - {"group"} and any(need.source == "inferred" for need in needed)
    return BarrierPlan(
        lowered,
        reasons,
        build=build(replace(rules, subgroup=lanes)),
        row=rules.row,
        summary=_summary(counts),
        assumes_apart=more_if_shared or (bool(narrow) and _writes_arguments(function)),
        uses_ptx=bool(kinds & {"warp", "named"}),
    )


def _reason(barrier: ir.Barrier, need: _Needed, told: str, memory: str) -> str:
    asked = "" if barrier.width is None else f", {expr_text(barrier.width)} requested"
    split = "; the condition around it was split, so all lanes reach it" if barrier.from_condition else ""
    return f"{barrier.where}: width {need} ({need.source}{asked}): {told}; {memory} memory ordered{split}"


def _needed(function: ir.Function, size: int, widths: Mapping[int, Width] | None) -> list[_Needed]:
    """The cheaper of the inferred and the given widths, of all barriers."""
    found = ir.barriers(function.body)
    whole = Width((size,), found=False)
    if widths is None:
        numbered = len({barrier.number for barrier in found}) == len(found)
        widths = infer(function, most=_MOST_MEETINGS) if found and numbered else {}
    inferred = [_inferred(widths.get(barrier.number, whole)) for barrier in found]
    if all(barrier.width is None for barrier in found):
        return inferred
    given = [_given(barrier, size) for barrier in found]
    return given if sum(map(_cost, given)) < sum(map(_cost, inferred)) else inferred


def _inferred(width: Width) -> _Needed:
    return _Needed(width.turns, None, "inferred" if width.found else "all lanes, for not all accesses were compared")


def _given(barrier: ir.Barrier, size: int) -> _Needed:
    if barrier.width is None:
        return _Needed((size,), None, "none given")
    if barrier.from_condition:  # by lanes that need not be a run
        return _Needed((size,), None, "all lanes come")
    if isinstance(barrier.width, ir.Const):
        width = int(barrier.width.value)
        return _Needed((width if width > 0 and size % width == 0 else size,), None, "given")
    return _Needed((size,), barrier.width, "given")


def _cost(need: _Needed) -> float:
    return sum(need.turns) / len(need.turns) - (0.5 if need.given is not None else 0)


def _writes_arguments(function: ir.Function) -> bool:
    return any(
        isinstance(one, (ir.Store, ir.Atomic)) and isinstance(one.array, ir.GlobalArray)
        for one in ir.statements(function.body)
    )


def _kinds(need: _Needed, period: int, cases: Sequence[Case]) -> Counter[str]:
    """The ways that the turns of a barrier are run, as far as they are known."""
    if need.given is not None:
        return Counter(way.kind for _, way in cases)
    turns = [turn % period for turn in range(len(need.turns))]
    return Counter(next(way.kind for below, way in cases if below is None or turn < below) for turn in turns)


def _summary(counts: Counter[str]) -> str:
    if not counts:
        return ""
    ways = ", ".join(f"{counts[kind]} {WORDS[kind]}" for kind in WORDS if counts[kind])
    return f"{counts.total()} turn(s) of barriers known before the run: {ways}"


def _rules(
    needed: Sequence[_Needed],
    profile: Profile,
    size: int,
    rows: Sequence[int],
    choice: str,
    subgroup: int | None,
) -> Barriers:
    """The rules of the first length of rows that leaves the fewest barriers of the whole group."""
    needs = [_counted(need, size) for need in needed]
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


def _counted(need: _Needed, size: int) -> Need:
    """A need's widths, each turn counting 1; all that a width known at run time can be count 1 together."""
    if need.given is None:
        return need.turns, 1.0
    widths = _divisors(size)
    return widths, 1 / len(widths)


def _divisors(size: int) -> tuple[int, ...]:
    return tuple(width for width in range(1, size + 1) if size % width == 0)


def _cases(need: _Needed, rules: Barriers) -> tuple[str, int, list[Case]]:
    """(by, period, cases) of a barrier."""
    if need.given is not None:
        cases = _cases_by_width(rules)
        return ("width" if len(cases) > 1 else ""), 1, cases
    ways = [rules.lowering(width) for width in need.turns]
    period = next(p for p in range(1, len(ways) + 1) if _repeats([(w.kind, w.width) for w in ways], p))
    cases = merged([(turn + 1, way) for turn, way in enumerate(ways[:period])])
    if len(cases) > _MOST_CASES:
        cases = [(None, rules.lowering(max(need.turns)))]
    return ("turn" if len(cases) > 1 else ""), period, cases


def _repeats(ways: Sequence[object], period: int) -> bool:
    return all(way == ways[turn % period] for turn, way in enumerate(ways))


def _cases_by_width(rules: Barriers) -> list[Case]:
    """Ways for widths known at run time: the numbers that divide the group's size, and no others."""
    size = rules.size
    if size & (size - 1):
        return [(None, rules.lowering(size))]
    ways = [(width + 1, rules.lowering(width)) for width in _divisors(size)]
    whole = rules.lowering(size)
    return merged([(1, whole), *ways]) if any(way.kind != whole.kind for _, way in ways) else [(None, whole)]


def _told(by: str, cases: Sequence[Case]) -> str:
    parts = []
    for below, way in cases:
        when = f"{by} below {below}: " if by and below is not None else f"{by} from there: " if by else ""
        parts.append(f"{when}{WORDS[way.kind]} ({way.reason})")
    return ", ".join(parts)


def _refuse_conditional(body: Sequence[ir.Stmt], inside: str, kept: set[int]) -> None:
    for statement in body:
        if isinstance(statement, ir.Barrier) and inside and id(statement) in kept:
            raise UnsupportedOnDevice(
                f"{statement.where}: a barrier {inside} is not run rightly by this driver where lanes are work-items; "
                "the mapping 'vector' runs it"
            )
        within = inside or _danger(statement)
        for block in ir.blocks(statement):
            _refuse_conditional(block, within, kept)


def _danger(statement: ir.Stmt) -> str:
    """What makes barriers inside `statement` unsafe on drivers that miscompile them, or ""."""
    if isinstance(statement, ir.If):
        return "under a condition"
    if isinstance(statement, ir.While):
        return "in a while loop"
    if isinstance(statement, ir.For) and any(ir.jumps(statement.body)):
        return "in a loop with break or continue"
    return ""


def _orders_global_memory(body: Sequence[ir.Stmt], apart: bool) -> bool:
    """Whether a barrier stands between two accesses of an argument, one of them a write: in source order, or round a
    loop. apart: arguments of different names share no memory."""
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
        if read & later_written or (not apart and read and later_written):
            return True
    return False


def _global_accesses(body: Sequence[ir.Stmt]) -> tuple[set[str], set[str]]:
    """Names of the arguments that statements read, and of those that they write."""
    read: set[str] = set()
    written: set[str] = set()
    for one in ir.statements(list(body)):
        if isinstance(one, ir.Store | ir.Atomic) and isinstance(one.array, ir.GlobalArray):
            written.add(one.array.name)
        for expr in ir.expressions(one):
            for part in ir.walk(expr):
                if isinstance(part, ir.Load) and isinstance(part.array, ir.GlobalArray):
                    read.add(part.array.name)
    return read, written
