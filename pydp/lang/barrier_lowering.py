"""How each barrier of a vector function is run on a device, and why."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from pydp.errors import UnsupportedOnDevice
from pydp.lang import ir
from pydp.lang.ir_text import expr_text
from pydp.runtime.profile import Profile


@dataclass(frozen=True)
class BarrierPlan:
    """lowered: one {number, lowering, memory} for each barrier in source order, as wg_barrier.mako takes them.
    reasons: one sentence for each."""

    lowered: list[dict[str, object]] = field(default_factory=list)
    reasons: list[str] = field(default_factory=list)


def lowering_of(barrier: ir.Barrier, profile: Profile) -> str:
    """The way a barrier is run: "group", a barrier of the whole group, which any narrower width may be widened to."""
    return "group"


def plan_barriers(function: ir.Function, profile: Profile) -> BarrierPlan:
    """The lowering of every barrier; raises UnsupportedOnDevice where the driver would miscompile one."""
    if not profile.barriers_under_conditions:
        _refuse_conditional(function.body, "", function.name)
    plan = BarrierPlan()
    memory = "both" if _orders_global_memory(function.body) else "local"
    for number, barrier in enumerate(ir.barriers(function.body)):
        lowering = lowering_of(barrier, profile)
        plan.lowered.append({"number": number, "lowering": lowering, "memory": memory})
        asked = "" if barrier.width is None else f" for the width {expr_text(barrier.width)} asked for"
        plan.reasons.append(f"{barrier.where}: whole-group barrier{asked}, {memory} memory ordered")
    return plan


def _refuse_conditional(body: Sequence[ir.Stmt], inside: str, name: str) -> None:
    for statement in body:
        if isinstance(statement, ir.Barrier) and inside:
            raise UnsupportedOnDevice(
                f"{statement.where}: a barrier {inside} is not run rightly by this driver where lanes are work-items; "
                "the mapping 'vector' runs it"
            )
        within = inside or _danger(statement)
        for block in ir.blocks(statement):
            _refuse_conditional(block, within, name)


def _danger(statement: ir.Stmt) -> str:
    """What makes barriers inside `statement` unsafe on drivers that miscompile them, or ""."""
    if isinstance(statement, ir.If):
        return "under a condition"
    if isinstance(statement, ir.While):
        return "in a while loop"
    if isinstance(statement, ir.For) and _leaves_early(statement.body):
        return "in a loop with break or continue"
    return ""


def _leaves_early(body: Sequence[ir.Stmt]) -> bool:
    """Whether a break or continue of the loop itself is in its body (those of inner loops are not its own)."""
    for statement in body:
        if isinstance(statement, (ir.Break, ir.Continue)):
            return True
        if isinstance(statement, ir.If) and any(_leaves_early(block) for block in ir.blocks(statement)):
            return True
    return False


def _orders_global_memory(body: Sequence[ir.Stmt]) -> bool:
    """Whether a write to an argument may come before a barrier: in source order, or round a loop with one."""
    written = False
    for statement in body:
        inner = list(ir.statements([statement]))
        meets = any(isinstance(one, ir.Barrier) for one in inner)
        writes = any(
            isinstance(one, (ir.Store, ir.Atomic)) and isinstance(one.array, ir.GlobalArray) for one in inner
        )
        if meets and (written or writes):
            return True
        written = written or writes
    return False
