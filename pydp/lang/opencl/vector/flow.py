"""Statements for the strips of a block: divergent control flow uses masks.

A condition or loop that is uniform in the block is a condition or loop of C. A divergent one runs its statements on
vectors with the mask of the active lanes, while any lane is active. An assignment under a mask blends the new value
with the old one if code outside the mask can read the variable.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from pydp.lang import ir
from pydp.lang.analysis import regions
from pydp.lang.opencl.c_text import Block, constant, private_type
from pydp.lang.opencl.scalar import scalar_paths
from pydp.lang.opencl.vector.memory import StripMemory
from pydp.lang.opencl.vector.values import KernelContext, StripValue
from pydp.lang.opencl.vector.variance import Variance
from pydp.lang.opencl.vector_text import BOOL


@dataclass
class _OpenLoop:
    """An open loop. live: the mask of lanes that have not left it; now: of lanes active in this iteration. Both are
    None if break and continue of C are used."""

    live: StripValue | None
    now: StripValue | None


class Flow(StripMemory):
    """Writes the statements of one interval for one block.

    level: the number of the current mask; a variable that was declared under the current mask needs no blending."""

    def __init__(self, kernel: KernelContext, block: Block, scopes: regions.Scopes) -> None:
        super().__init__(kernel, block)
        self.scopes = scopes
        self.level = 0
        self._levels = 0
        self._declared: dict[str, int] = {}
        self._counters: set[str] = set()
        self._loops: list[_OpenLoop] = []

    # -- statements ------------------------------------------------------------------------------------------

    def statements(self, body: list[ir.Stmt]) -> None:
        self.declare(body)
        written_already = 0
        for at, statement in enumerate(body):
            if written_already:
                written_already -= 1
                continue
            family = self.kernel.families.stores(body[at:])
            if family and self.store_family(family):
                written_already = len(family) - 1
                continue
            self.visit(statement)
            if self._loops and self._loops[-1].now is not None and any(ir.jumps([statement])):
                # Lanes that left inside the statement are inactive for the rest of the list, too.
                self.mask = self.temporary(self.vector(_not_none(self.mask_and(self.mask, self._loops[-1].now))))

    def declare(self, body: list[ir.Stmt]) -> None:
        """Declare the variables whose scope is `body`."""
        for name in self.scopes.declared_in(body):
            if name in self._counters:
                continue
            self._declared[name] = self.level
            if name not in self.kernel.variances.carried:
                self.kernel.declare(self.block, self.kernel.variables[name])

    def on_assign(self, statement: ir.Assign) -> None:
        variable, start = statement.variable, statement.members
        paths = [path for path in scalar_paths(variable.dtype) if path[: len(start)] == start]
        values = [self.expr(statement.value, path[len(start) :]) for path in paths]
        if len(paths) > 1:
            values = [self.snapshot(value) for value in values]
        for path, value in zip(paths, values, strict=True):
            self._set(self.kernel.variable(variable, path), value, self._declared[variable.name] != self.level)

    def _set(self, target: StripValue, value: StripValue, blended: bool) -> None:
        """Assign to the C variables of `target`, by row; in active lanes only if `blended`."""
        if target.vector:
            value = self.vector(value)
        assert target.step == value.step and len(target.texts) >= len(value.texts), (target, value)
        for row, name in enumerate(target.texts):
            text = value.row(row)
            if blended and self.mask is not None:
                assert target.vector, target
                text = self.text.select(self.mask.row(row), text, name, target.dtype)
            self.block.line(f"{name} = {text};")

    def on_store(self, statement: ir.Store) -> None:
        dtype, start = statement.array.dtype, statement.members
        paths = [path for path in scalar_paths(dtype) if path[: len(start)] == start]
        values = [self.temporary(self.expr(statement.value, path[len(start) :])) for path in paths]
        self.store(statement.array, statement.indices, list(zip(paths, values, strict=True)))

    # -- conditions --------------------------------------------------------------------------------------------

    def on_if(self, statement: ir.If) -> None:
        test = self.expr(statement.condition)
        if not self.kernel.variances.control[statement.uid].divergent:
            self.block.open(f"if ({test.texts[0]})")
            self._inside(statement.then, self.mask, self.level)
            self.block.close()
            if statement.orelse:
                self.block.open("else")
                self._inside(statement.orelse, self.mask, self.level)
                self.block.close()
            return
        test = self.snapshot(self.vector(test))
        self._branch(statement.then, test)
        if statement.orelse:
            self._branch(statement.orelse, self.each([test], lambda text: f"(~{text})", BOOL, None))

    def _branch(self, body: list[ir.Stmt], test: StripValue) -> None:
        mask = self.temporary(_not_none(self.mask_and(self.mask, test)))
        self.block.open(f"if ({self.any(mask)})")
        self._inside(body, mask, self._new_level())
        self.block.close()

    def _inside(self, body: list[ir.Stmt], mask: StripValue | None, level: int) -> None:
        """Write the statements of `body` under a mask, then restore the old mask."""
        before = self.mask, self.level
        self.mask, self.level = mask, level
        self.statements(body)
        self.mask, self.level = before

    def _new_level(self) -> int:
        self._levels += 1
        return self._levels

    # -- loops ---------------------------------------------------------------------------------------------------

    def on_while(self, statement: ir.While) -> None:
        variance = self.kernel.variances.control[statement.uid]
        if not variance.divergent:
            self._loops.append(_OpenLoop(None, None))
            self.block.open(f"{loop(statement)} (;;)")
            self.block.line(f"if (!({self.expr(statement.condition).texts[0]})) break;")
            self._inside(statement.body, self.mask, self.level)
            self.block.close()
            self._loops.pop()
            return
        live = self._live(variance)
        before = self.mask, self.level
        self.mask, self.level = live, self._new_level()
        self.block.open(f"{loop(statement)} (;;)")
        test = self.vector(self.expr(statement.condition))
        for row, name in enumerate(live.texts):
            self.block.line(f"{name} &= {test.row(row)};")
        self._iterations(statement.body, live)
        self.block.close()
        self.mask, self.level = before

    def _live(self, variance: Variance) -> StripValue:
        """Declare the masks of the lanes that have not left a loop."""
        rows = self.layout.rows if variance.varies_by_row or (self.mask is not None and len(self.mask.texts) > 1) else 1
        names = []
        for row in range(rows):
            names.append(self.block.fresh("live"))
            first = self.text.splat("1", BOOL) if self.mask is None else self.mask.row(row)
            self.block.line(f"{self.text.mask} {names[-1]} = {first};")
        return StripValue(tuple(names), None, BOOL)

    def _iterations(self, body: list[ir.Stmt], live: StripValue, counter: Callable[[], None] | None = None) -> None:
        """Write one iteration with the lanes of `live`; the C loop ends when there are none. Sets the mask."""
        self.block.line(f"if (!{self.any(live)}) break;")
        now = live
        if any(ir.jumps(body)):
            names = [self.block.fresh("now") for _ in live.texts]
            for name, text in zip(names, live.texts, strict=True):
                self.block.line(f"{self.text.mask} {name} = {text};")
            now = StripValue(tuple(names), None, BOOL)
        self._loops.append(_OpenLoop(live, now))
        self.mask = now
        if counter is not None:
            counter()
        self._inside(body, now, self.level)
        self._loops.pop()

    def on_for(self, statement: ir.For) -> None:
        variance = self.kernel.variances.control[statement.uid]
        values = [self.expr(expr) for expr in (statement.start, statement.stop, statement.step)]
        name = statement.variable.name
        loops = {} if self.ranges is None else self.ranges.loops
        outer = loops.get(name)
        loops[name] = statement
        if self.uniform(values) and self.rows(values) == 1:
            self._for_uniform(statement, values, variance)
        else:
            self._for_divergent(statement, values, variance)
        del loops[name]
        if outer is not None:
            loops[name] = outer

    def _for_uniform(self, statement: ir.For, values: list[StripValue], variance: Variance) -> None:
        """A loop with uniform bounds: a C loop, with a mask if some lanes may leave early."""
        before = self.mask, self.level
        live = None
        if variance.divergent:
            live = self._live(variance)
            self.level = self._new_level()
        counter = self.single(self.open_count(statement, values), statement.variable.dtype)
        if live is None:
            self._loops.append(_OpenLoop(None, None))
            self._set_counter(statement, counter)
            self._inside(statement.body, self.mask, self.level)
            self._loops.pop()
        else:
            self.mask = live
            self._iterations(statement.body, live, lambda: self._set_counter(statement, counter))
        self.block.close()
        self.mask, self.level = before
        self._counters.discard(statement.variable.name)

    def _set_counter(self, statement: ir.For, value: StripValue) -> None:
        """Set the loop's variable at the start of an iteration; declare it there if its scope is the body."""
        name = statement.variable.name
        if self.scopes.of[name] is statement.body:
            self.kernel.declare(self.block, statement.variable)
            self._declared[name] = self.level
            self._counters.add(name)
        self._set(self.kernel.variable(statement.variable), value, self._declared[name] != self.level)

    def open_count(self, statement: ir.For, values: list[StripValue]) -> str:
        """Open a C loop with the semantics of range; the counter's text, of the variable's type."""
        dtype = statement.variable.dtype
        c_type = private_type(dtype)
        start, stop, step = (self.snapshot(value).texts[0] for value in values)
        name = self.block.fresh("n")
        known = int(statement.step.value) if isinstance(statement.step, ir.Const) else None
        if known is not None and (abs(known) == 1 or dtype.itemsize < 8):
            kind = c_type if abs(known) == 1 and dtype.itemsize >= 4 else "long"
            sign = "<" if known > 0 else ">"
            iterations = f"{kind} {name} = {start}; {name} {sign} {stop}; {name} += {known}"
            self.block.open(f"{loop(statement)} ({iterations})")
            return name if kind == c_type else f"(({c_type}){name})"
        # The number of iterations is counted down, so no counter overflows.
        wide = "ulong"
        up = f"({start} < {stop} ? ({wide})(({wide}){stop} - ({wide}){start} - 1) / ({wide}){step} + 1 : 0)"
        down = f"({start} > {stop} ? ({wide})(({wide}){start} - ({wide}){stop} - 1) / (0 - ({wide}){step}) + 1 : 0)"
        iterations = f"({step} > 0 ? {up} : {step} < 0 ? {down} : 0)"
        left = self.block.fresh("left")
        self.block.line(f"{wide} {left} = {iterations};")
        first, step = f"{wide} {name} = ({wide}){start}", f"{left}--, {name} += ({wide}){step}"
        self.block.open(f"{loop(statement)} ({first}; {left} > 0; {step})")
        return f"(({c_type}){name})"

    def _for_divergent(self, statement: ir.For, values: list[StripValue], variance: Variance) -> None:
        """A loop with divergent bounds: counter and bounds are vectors; a lane is live until its counter ends."""
        dtype = statement.variable.dtype
        start, stop, step = (self.snapshot(self.vector(value)) for value in values)
        live = self._live(variance)
        counters = StripValue(tuple(self.block.fresh("n") for _ in range(self.rows([start, stop, step]))), None, dtype)
        for row, name in enumerate(counters.texts):
            self.block.line(f"{self.text.type(dtype)} {name} = {start.row(row)};")
        for row, name in enumerate(live.texts):
            self.block.line(f"{name} &= {self._in_range(start.row(row), stop.row(row), step.row(row), statement)};")
        before = self.mask, self.level
        self.mask, self.level = live, self._new_level()
        self.block.open(f"{loop(statement)} (;;)")
        self._iterations(statement.body, live, lambda: self._set_counter(statement, counters))
        for row, name in enumerate(live.texts):
            more = self._has_next(counters.row(row), stop.row(row), step.row(row), statement)
            self.block.line(f"{name} &= {more};")
        for row, name in enumerate(counters.texts):
            self.block.line(f"{name} += {step.row(row)};")
        self.block.close()
        self.mask, self.level = before
        self._counters.discard(statement.variable.name)

    def _in_range(self, counter: str, stop: str, step: str, statement: ir.For) -> str:
        """Mask: the counter is in range. A step of 0 (from an argument or data) runs no iterations."""
        dtype, compare = statement.variable.dtype, self.text.compare
        up, down = compare("lt", counter, stop, dtype), compare("gt", counter, stop, dtype)
        ahead = self._by_direction(up, down, step, statement)
        if isinstance(statement.step, ir.Const):
            return ahead
        return f"({ahead} & {compare('ne', step, self.text.splat(constant(0, dtype), dtype), dtype)})"

    def _has_next(self, counter: str, stop: str, step: str, statement: ir.For) -> str:
        """Mask: there is another iteration. Unsigned distances are compared, because they do not overflow."""
        dtype = statement.variable.dtype
        unsigned = np.dtype(f"u{dtype.itemsize}")
        kind = self.text.type(unsigned)

        def distance(first: str, second: str) -> str:
            return f"(as_{kind}({first}) - as_{kind}({second}))"

        zero = self.text.splat("0", unsigned)
        up = self.text.compare("gt", distance(stop, counter), f"as_{kind}({step})", unsigned)
        down = self.text.compare("gt", distance(counter, stop), f"({zero} - as_{kind}({step}))", unsigned)
        return self._by_direction(up, down, step, statement)

    def _by_direction(self, up: str, down: str, step: str, statement: ir.For) -> str:
        if isinstance(statement.step, ir.Const):
            return up if int(statement.step.value) > 0 else down
        dtype = statement.variable.dtype
        rising = self.text.compare("gt", step, self.text.splat(constant(0, dtype), dtype), dtype)
        return self.text.select(rising, up, down, BOOL)

    def on_break(self, statement: ir.Break) -> None:
        self._leave(True)

    def on_continue(self, statement: ir.Continue) -> None:
        self._leave(False)

    def _leave(self, leaves_loop: bool) -> None:
        loop = self._loops[-1]
        if loop.now is None or loop.live is None:
            self.block.line("break;" if leaves_loop else "continue;")
            return
        assert self.mask is not None
        for names in (loop.live, loop.now) if leaves_loop else (loop.now,):
            for row, name in enumerate(names.texts):
                self.block.line(f"{name} &= ~{self.mask.row(row)};")


def loop(statement: ir.For | ir.While) -> str:
    """The keyword of the C loop; the template defines DIVIDING_LOOP."""
    return "DIVIDING_LOOP for" if any(map(_divides, ir.parts(ir.statements(statement.body)))) else "for"


def _divides(part: ir.Expr) -> bool:
    if not isinstance(part, ir.Binary) or part.op not in ("floordiv", "mod"):
        return False
    return part.dtype.kind in "iu" and not isinstance(part.right, ir.Const)


def _not_none(value: StripValue | None) -> StripValue:
    assert value is not None
    return value
