"""Facts about a function's syntax tree that need no types: names and their uses, returns, blocks that end in a jump."""

from __future__ import annotations

import ast
from collections import Counter, defaultdict
from collections.abc import Sequence

Tree = ast.FunctionDef | ast.Lambda
_BLOCKS = (ast.If, ast.For, ast.While)


class TreeFacts:
    """The names that a function uses, and the statements of it that return.

    local_names: the arguments and all names that the function assigns. free_chains: the other names that it reads, each
    with its chain of attributes: ``("np", "float32")``. store_counts: the number of assignments to each name, including
    augmented and member assignments. returns_value: whether a return has a value.
    """

    def __init__(self, tree: Tree) -> None:
        arguments = {item.arg for item in (*tree.args.posonlyargs, *tree.args.args, *tree.args.kwonlyargs)}
        self.local_names = arguments.copy()
        self.store_counts: Counter[str] = Counter()
        self.returns_value = False
        self._loads: Counter[str] = Counter()
        self._loads_inside: defaultdict[ast.For, Counter[str]] = defaultdict(Counter)  # in the loop's body
        self._returning: set[ast.stmt] = set()
        self._returning_in_loops: set[ast.stmt] = set()
        self._loops: defaultdict[str, list[ast.For]] = defaultdict(list)  # by the name of the counter
        self._nested: set[str] = set()  # counters of a loop inside another loop with the same counter
        chains: set[tuple[str, ...]] = set()
        # The stack is explicit, because a sum is as deep as it has terms.
        pending: list[tuple[ast.AST, tuple[ast.stmt, ...]]]
        pending = [(node, ()) for node in ([tree.body] if isinstance(tree, ast.Lambda) else tree.body)]
        while pending:
            node, around = pending.pop()
            if isinstance(node, ast.Attribute | ast.Subscript) and isinstance(node.ctx, ast.Store):
                self._store_to_part(node)
            attributes: tuple[str, ...] = ()
            while isinstance(node, ast.Attribute):
                attributes, node = (node.attr, *attributes), node.value
            if isinstance(node, ast.Name):
                chains.add((node.id, *attributes))
                self._name(node, around)
                continue
            if isinstance(node, ast.AugAssign) and isinstance(node.target, ast.Name):
                self.store_counts[node.target.id] += 1
            elif isinstance(node, ast.Return):
                self._return(node, around)
            elif isinstance(node, ast.For) and isinstance(node.target, ast.Name):
                self._counted_loop(node, node.target.id, around)
            inside = (*around, node) if isinstance(node, _BLOCKS) else around
            for field in node._fields:
                value = getattr(node, field, None)
                outer = around if isinstance(node, ast.For) and field != "body" else inside
                if isinstance(value, list):
                    pending += [(item, outer) for item in value if isinstance(item, ast.AST)]
                elif isinstance(value, ast.AST) and value._fields:  # operators and contexts have none
                    pending.append((value, outer))
        self.free_chains = tuple(sorted(chain for chain in chains if chain[0] not in self.local_names))
        self._counters = {name for name in self._loops if name not in arguments and self._is_only_counter(name)}

    def _name(self, node: ast.Name, around: tuple[ast.stmt, ...]) -> None:
        if isinstance(node.ctx, ast.Store):
            self.local_names.add(node.id)
            self.store_counts[node.id] += 1
        elif isinstance(node.ctx, ast.Load):
            self._loads[node.id] += 1
            for statement in around:
                if isinstance(statement, ast.For):
                    self._loads_inside[statement][node.id] += 1

    def _store_to_part(self, node: ast.Attribute | ast.Subscript) -> None:
        """Count the assignment to a record: ``r`` for ``r.x``, ``r["x"]``, ``r.v[1]``; not to an array's element."""
        while isinstance(node.value, ast.Attribute | ast.Subscript):
            node = node.value
        if isinstance(node, ast.Attribute):
            member = node.attr != "T"
        else:
            member = isinstance(node.slice, ast.Constant) and isinstance(node.slice.value, str)
        if member and isinstance(node.value, ast.Name):
            self.store_counts[node.value.id] += 1

    def _return(self, node: ast.Return, around: tuple[ast.stmt, ...]) -> None:
        self.returns_value |= node.value is not None
        self._returning.update(around, (node,))
        loops = [number for number, statement in enumerate(around) if isinstance(statement, ast.For | ast.While)]
        if loops:
            self._returning_in_loops.update(around[: loops[-1] + 1])

    def _counted_loop(self, node: ast.For, name: str, around: tuple[ast.stmt, ...]) -> None:
        self._loops[name].append(node)
        outer = (one.target for one in around if isinstance(one, ast.For))
        if any(isinstance(target, ast.Name) and target.id == name for target in outer):
            self._nested.add(name)

    def _is_only_counter(self, name: str) -> bool:
        """Whether only its loops assign `name`, no such loop contains another one, and only their bodies read it."""
        loops = self._loops[name]
        if self.store_counts[name] != len(loops) or name in self._nested:
            return False
        return sum(self._loads_inside[loop][name] for loop in loops) == self._loads[name]

    def is_counter(self, name: str) -> bool:
        """Whether `name` is used only as the counter of its loop or loops."""
        return name in self._counters

    def all_uses_inside(self, name: str, loop: ast.For) -> bool:
        """Whether `name` is read only in the loop's body."""
        return self._loads_inside[loop][name] == self._loads[name]

    def has_return(self, statement: ast.stmt) -> bool:
        """Whether the statement contains a return."""
        return statement in self._returning

    def returns_in_loop(self, statement: ast.stmt) -> bool:
        """Whether a loop in the statement, or the statement itself as a loop, contains a return."""
        return statement in self._returning_in_loops


def always_jumps(body: Sequence[ast.stmt]) -> bool:
    """Whether every path through a list of statements ends in return, break or continue."""
    return any(_always_jumps(statement) for statement in body)


def _always_jumps(statement: ast.stmt) -> bool:
    if isinstance(statement, ast.Return | ast.Break | ast.Continue):
        return True
    if isinstance(statement, ast.If):
        return always_jumps(statement.body) and always_jumps(statement.orelse)
    return False
