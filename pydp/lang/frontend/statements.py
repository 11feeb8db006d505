"""Statements of the language, with structured returns and definite assignment of names."""

from __future__ import annotations

import ast
from abc import abstractmethod
from collections.abc import Sequence
from typing import Any

import numpy as np

from pydp.lang import ir
from pydp.lang.frontend.assignment import Targets
from pydp.lang.frontend.expressions import BINARY
from pydp.lang.frontend.state import Loop
from pydp.lang.frontend.values import Items, Number, Value, describe, map_numbers
from pydp.lang.ir.types import BOOL, INT64, is_integer
from pydp.lang.source.names import look_up
from pydp.lang.source.statics import always_jumps

_REFUSED: dict[str, tuple[str, str]] = {
    "Assert": ("assert", "compute a flag and store it, or test before the call"),
    "Try": ("try", "test the values instead"),
    "TryStar": ("try", "test the values instead"),
    "With": ("with", "remove it"),
    "Raise": ("raise", "store a flag in an array and test it after the call"),
    "Delete": ("del", "remove it"),
    "Import": ("import", "import outside the function"),
    "ImportFrom": ("import", "import outside the function"),
    "Global": ("global", "pass values as arguments and store results in arrays"),
    "Nonlocal": ("nonlocal", "pass values as arguments and store results in arrays"),
    "FunctionDef": ("a function inside a function", "define it outside and call it by its name"),
    "AsyncFunctionDef": ("async", "remove it"),
    "ClassDef": ("a class", "define a record dtype outside"),
    "Match": ("match", "write if and elif"),
    "AsyncFor": ("async", "remove it"),
    "AsyncWith": ("async", "remove it"),
}


MOST_BLOCKS = 80


class Statements(Targets):
    """Statements of kernels and of functions of values."""

    def translate_block(self, body: Sequence[ast.stmt]) -> None:
        if self.blocks >= MOST_BLOCKS and body:
            self.fail(
                f"statements are nested more than {MOST_BLOCKS} levels deep here; each elif, and the code after a "
                "return, counts as a level. Move parts into functions, or look values up in an array",
                body[0],
            )
        self.blocks += 1
        self._statements(body)
        self.blocks -= 1

    def _statements(self, body: Sequence[ast.stmt]) -> None:
        for n, statement in enumerate(body):
            if self.assigned is None:
                return
            rest = body[n + 1 :]
            if isinstance(statement, ast.If) and self._split(statement, rest):
                return
            self.translate(statement)
            if self.frame.source.facts.has_return(statement) and self._after_return(statement, rest):
                return

    def translate(self, statement: ast.stmt) -> None:
        method = getattr(self, f"_do_{type(statement).__name__}", None)
        if method is None:
            what, advice = _REFUSED.get(type(statement).__name__, (type(statement).__name__, "remove it"))
            self.fail(f"{what} cannot be used in a vector function; {advice}", statement)
        method(statement)

    # --- returns

    def _split(self, statement: ast.If, rest: Sequence[ast.stmt]) -> bool:
        """Move the code after ``if c: ... return`` into the other branch. Returns whether it did."""
        facts = self.frame.source.facts
        if self.frame.loops or not rest or not facts.has_return(statement) or facts.returns_in_loop(statement):
            return False
        ends = always_jumps(statement.body), always_jumps(statement.orelse)
        if ends == (True, False):
            self._if(statement, statement.body, [*statement.orelse, *rest])
        elif ends == (False, True):
            self._if(statement, [*statement.body, *rest], statement.orelse)
        else:
            return False
        return True

    def _flag(self) -> ir.Variable:
        """The flag variable for "the function has returned"; a new flag takes effect in the next pass."""
        key = f"{self.frame.prefix}%done"
        if key not in self.shared.flags:
            self.shared.flags.add(key)
            self.shared.changed = True
        return self.variable(key, "done", BOOL)

    def _after_return(self, statement: ast.stmt, rest: Sequence[ast.stmt]) -> bool:
        """Guard the code after a statement that may return. Returns whether `rest` was translated."""
        if self.frame.loops:
            if self.frame.source.facts.returns_in_loop(statement):
                self._leave_outer(statement)
            return False
        if not rest or self.assigned is None:
            return False
        where = self.where(statement)
        done = self._flag()
        with self.nested() as inner:
            self.translate_block(rest)
        self.emit(ir.If(where, ir.Unary(BOOL, "not", ir.Read(BOOL, done)), inner))
        return True

    def _leave_outer(self, statement: ast.stmt) -> None:
        """Leave this loop if an inner loop executed a return."""
        where = self.where(statement)
        self.emit(ir.If(where, ir.Read(BOOL, self._flag()), [ir.Break(where)]))

    def _do_Return(self, node: ast.Return) -> None:
        frame = self.frame
        if any(loop.unrolled for loop in frame.loops):
            self.fail("return is not supported inside a loop over a tuple; loop over range instead", node)
        none = node.value is None or (isinstance(node.value, ast.Constant) and node.value.value is None)
        if frame.kernel and not none:
            self.fail("a function run by forall cannot return a value; store results in arrays", node)
        if not none:
            assert node.value is not None
            self.take_result(self.value(node.value), node)
        key = f"{frame.prefix}%done"
        if key in self.shared.flags:
            self.emit(ir.Assign(self.where(node), self.variable(key, "done", BOOL), ir.Const(BOOL, True)))
        if frame.loops:
            self.emit(ir.Break(self.where(node)))
        self.assigned = None

    @abstractmethod
    def take_result(self, value: Value, node: ast.AST) -> None: ...

    # --- simple statements

    def _do_Pass(self, node: ast.Pass) -> None:
        pass

    def _do_Expr(self, node: ast.Expr) -> None:
        if isinstance(node.value, ast.Constant):
            return
        self.discarded = node.value
        self.place(node.value)

    def _do_Assign(self, node: ast.Assign) -> None:
        first = node.targets[0]
        value = self._value_for(first, node.value)
        if len(node.targets) > 1:
            value = self.copied_all(value, "given", node)
        for target in node.targets:
            self.give(target, value, node)

    def _do_AnnAssign(self, node: ast.AnnAssign) -> None:
        if node.value is None:
            return
        self.give(node.target, self._value_for(node.target, node.value), node)

    def _value_for(self, target: ast.expr, node: ast.expr) -> Value:
        """The value of an expression; a field that it makes is named after the target."""
        self.naming = target.id if isinstance(target, ast.Name) else None
        value = self.value(node)
        self.naming = None
        return value

    def give(self, target: ast.expr, value: Value, node: ast.stmt) -> None:
        """target = value."""
        if isinstance(target, ast.Name):
            self.bind(target.id, value, target)
        elif isinstance(target, ast.Tuple | ast.List):
            self._unpack(target, value, node)
        elif isinstance(target, ast.Subscript | ast.Attribute):
            self.give_target(target, value)
        else:
            self.fail("a starred target is not supported; name every item", target)

    def _unpack(self, target: ast.Tuple | ast.List, value: Value, node: ast.stmt) -> None:
        if not isinstance(value, Items):
            self.fail(f"only tuples can be unpacked, not {describe(value)}", node)
        for part in target.elts:
            if isinstance(part, ast.Starred):
                self.fail("a starred target is not supported; name every item", part)
        if len(value.items) != len(target.elts):
            held = f"{len(value.items)} value{'s' if len(value.items) != 1 else ''}"
            self.fail(
                f"cannot unpack {held} into {len(target.elts)} names; name every item, or index the tuple", target
            )
        items = value.items
        if self._meet(target, value):
            items = tuple(self.copied_all(item, f"swap{k}", node) for k, item in enumerate(items))
        for part, item in zip(target.elts, items, strict=True):
            self.give(part, item, node)

    def _meet(self, target: ast.expr, value: Items) -> bool:
        """Whether assigning one target may change the value for another target."""
        exprs: list[ir.Expr] = []

        def note(number: Number, suffix: str) -> Number:
            exprs.extend(ir.walk(number.expr))
            return number

        map_numbers(value, note)
        if any(not isinstance(item, ast.Name | ast.Tuple | ast.List | ast.Store) for item in ast.walk(target)):
            return any(isinstance(item, ir.Load | ir.Read) for item in exprs)
        names = {item.id for item in ast.walk(target) if isinstance(item, ast.Name)}
        written = {self.shared.names.get(self.frame.prefix + name, "") for name in names}
        written |= {
            name
            for key, name in self.shared.names.items()
            if key.startswith(self.frame.prefix) and any(key.startswith(f"{self.frame.prefix}{own}.") for own in names)
        }
        return any(isinstance(item, ir.Read) and item.variable.name in written for item in exprs)

    def _do_AugAssign(self, node: ast.AugAssign) -> None:
        op = BINARY.get(type(node.op))
        if op is None:
            self.fail("@= cannot be used in a vector function; write a loop, or call pydp.matmul outside", node)
        if isinstance(node.target, ast.Name):
            name = ast.copy_location(ast.Name(node.target.id, ast.Load()), node.target)
            left, right = self.each([name, node.value])
            self.bind(node.target.id, self.operate(op, left, right, node), node.target)
            return
        target = self.target(node.target)
        old, right = self.with_next([self.read_target(target, node)], node.value)
        self.write_target(target, self.operate(op, old, right, node), node)

    # --- branches and loops

    def _do_If(self, node: ast.If) -> None:
        self._if(node, node.body, node.orelse)

    def _if(self, node: ast.If, body: Sequence[ast.stmt], orelse: Sequence[ast.stmt]) -> None:
        condition = self.condition(node.test)
        if isinstance(condition, ir.Const):
            self.translate_block(body if condition.value else orelse)
            return
        start = self.assigned
        ends = []
        blocks = []
        for part in (body, orelse):
            self.assigned = None if start is None else set(start)
            with self.nested() as inner:
                self.translate_block(part)
            blocks.append(inner)
            ends.append(self.assigned)
        self.assigned = self.merged(ends)
        if blocks[0] or blocks[1]:
            self.emit(ir.If(self.where(node), condition, blocks[0], blocks[1]))

    def _check_no_else(self, node: ast.While | ast.For) -> None:
        if node.orelse:
            self.fail("else of a loop cannot be used in a vector function; set a flag before break", node.orelse[0])

    def _do_While(self, node: ast.While) -> None:
        self._check_no_else(node)
        where = self.where(node)
        loop = Loop()
        with self.nested() as inner:
            condition = self.condition(node.test)
        forever = isinstance(condition, ir.Const) and bool(condition.value)
        if isinstance(condition, ir.Const) and not condition.value:
            return
        start = set(self.assigned or ())
        self.frame.loops.append(loop)
        with self.nested() as body:
            if inner:
                body.extend(inner)
                body.append(ir.If(where, self.negate(condition), [ir.Break(where)]))
                condition = ir.Const(BOOL, True)
            self.translate_block(node.body)
        self.frame.loops.pop()
        self.assigned = self.merged([*loop.breaks, *([] if forever else [start])])
        self.emit(ir.While(where, condition, body))

    def _do_For(self, node: ast.For) -> None:
        self._check_no_else(node)
        call = node.iter
        if isinstance(call, ast.Call) and isinstance(call.func, ast.Name) and self._is_range(call.func):
            if not isinstance(node.target, ast.Name):
                self.fail("the target of a loop over range must be one name", node.target)
            self._for_range(node, node.target, call)
            return
        over = self.value(call)
        if not isinstance(over, Items):
            self.fail(f"a for loop iterates over range(...) or a tuple, not {describe(over)}", call)
        self._unrolled(node, self.copied_all(over, "item", node))

    def _is_range(self, func: ast.Name) -> bool:
        return func.id not in self.frame.source.facts.local_names and look_up(self.frame.function, func.id) is range

    def _unrolled(self, node: ast.For, over: Value) -> None:
        assert isinstance(over, Items)
        self.frame.loops.append(Loop(unrolled=True))
        for item in over.items:
            self.give(node.target, item, node)
            self.translate_block(node.body)
        self.frame.loops.pop()

    def _for_range(self, node: ast.For, target: ast.Name, call: ast.Call) -> None:
        *bounds, dtype = self._range(call)
        start, stop, step = bounds
        frame = self.frame
        where = self.where(node)
        own = frame.source.facts.is_counter(target.id)
        key = self.place_key(target.id if own else f"%{target.id}", node)
        counter = self.variable(key, target.id, dtype, True)
        read = Number(ir.Read(dtype, counter), True)
        before = set(self.assigned or ())
        loop = Loop()
        frame.loops.append(loop)
        with self.nested() as body:
            if own:
                frame.bindings[target.id] = read
                self.active[counter.name] = (frame, node)
                assert self.assigned is not None
                self.assigned.add(frame.prefix + target.id)
            else:
                self.bind(target.id, read, target)
            self.translate_block(node.body)
        frame.loops.pop()
        self.active.pop(counter.name, None)
        ends = [*loop.breaks, *loop.continues, self.assigned]
        once = isinstance(start, ir.Const) and isinstance(stop, ir.Const) and isinstance(step, ir.Const)
        if not (once and len(range(start.value, stop.value, step.value))):
            ends.append(before)
        self.assigned = self.merged(ends)
        changed = {item.variable.name for item in ir.statements(body) if isinstance(item, ir.Assign | ir.For)}
        start, stop, step = (self._before_loop(item, f"bound{n}", changed, call) for n, item in enumerate(bounds))
        self.emit(ir.For(where, counter, start, stop, step, body))

    def _before_loop(self, bound: ir.Expr, tag: str, changed: set[str], node: ast.AST) -> ir.Expr:
        """A bound of a range, copied before the loop if the loop changes a variable that it reads."""
        if not self.reads_any(bound, changed):
            return bound
        return self.copied(Number(bound, True), tag, node).expr

    def _range(self, call: ast.Call) -> tuple[Any, Any, Any, np.dtype[Any]]:
        """Start, stop, step and the counter's type."""
        if call.keywords or not 1 <= len(call.args) <= 3:
            self.fail("range takes 1 to 3 integers", call)
        numbers = [self.as_number(value, call) for value in self.each(call.args)]
        for number in numbers:
            if not is_integer(number.expr.dtype):
                self.fail(f"range takes integers, not {number.type}", call)
        if len(numbers) == 1:
            numbers.insert(0, self.literal(0, call))
        if len(numbers) == 2:
            numbers.append(self.literal(1, call))
        fits = all(np.can_cast(number.expr.dtype, self.index_dtype) for number in numbers)
        dtype = self.index_dtype if fits else INT64
        step = numbers[2].expr
        if isinstance(step, ir.Const) and step.value == 0:
            self.fail("the step of range is 0; another integer is accepted", call)
        exprs = [self.convert(number, dtype, call, True) for number in numbers]
        return exprs[0], exprs[1], exprs[2], dtype

    def _in_loop(self, node: ast.stmt, what: str) -> Loop:
        loop = self.frame.loops[-1]
        if loop.unrolled:
            self.fail(f"{what} is not supported inside a loop over a tuple; loop over range instead", node)
        return loop

    def _do_Break(self, node: ast.Break) -> None:
        self._in_loop(node, "break").breaks.append(set(self.assigned or ()))
        self.emit(ir.Break(self.where(node)))
        self.assigned = None

    def _do_Continue(self, node: ast.Continue) -> None:
        self._in_loop(node, "continue").continues.append(set(self.assigned or ()))
        self.emit(ir.Continue(self.where(node)))
        self.assigned = None
