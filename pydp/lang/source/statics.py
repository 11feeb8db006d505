"""Facts about a function's syntax tree that need no types: where names are used, and which blocks end in a jump."""

from __future__ import annotations

import ast
import functools
from collections.abc import Iterable, Sequence

from pydp.lang.source.syntax import Tree

_Loops = ast.For | ast.While


class NameUses:
    """How often and where a function reads and assigns its names."""

    def __init__(self, tree: Tree) -> None:
        self._loads: dict[str, int] = {}
        self._stores: dict[str, int] = {}
        self._inside: dict[ast.For, dict[str, int]] = {}
        loops: dict[str, list[ast.For]] = {}
        for node in ast.walk(tree):
            if isinstance(node, ast.Name):
                table = self._loads if isinstance(node.ctx, ast.Load) else self._stores
                table[node.id] = table.get(node.id, 0) + 1
            elif isinstance(node, ast.AugAssign) and isinstance(node.target, ast.Name):
                self._stores[node.target.id] = self._stores.get(node.target.id, 0) + 1
            elif isinstance(node, ast.For) and isinstance(node.target, ast.Name):
                loops.setdefault(node.target.id, []).append(node)
        arguments = {item.arg for item in (*tree.args.posonlyargs, *tree.args.args, *tree.args.kwonlyargs)}
        candidates = {name: found for name, found in loops.items() if name not in arguments}
        self._counters = {name for name, found in candidates.items() if self._is_only_counter(name, found)}

    def _is_only_counter(self, name: str, loops: list[ast.For]) -> bool:
        """Whether only these loops assign `name`, no loop contains another one, and only their bodies read it."""
        if self._stores.get(name, 0) != len(loops):
            return False
        for loop in loops:
            within = [node for item in loop.body for node in ast.walk(item)]
            if any(other in within for other in loops):
                return False
        return sum(self._loads_in(loop, name) for loop in loops) == self._loads.get(name, 0)

    def _loads_in(self, loop: ast.For, name: str) -> int:
        table = self._inside.get(loop)
        if table is None:
            table = self._inside[loop] = {}
            for item in loop.body:
                for node in ast.walk(item):
                    if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Load):
                        table[node.id] = table.get(node.id, 0) + 1
        return table.get(name, 0)

    def is_counter(self, name: str) -> bool:
        """Whether `name` is used only as the counter of its loop or loops."""
        return name in self._counters

    def all_uses_inside(self, name: str, loop: ast.For) -> bool:
        """Whether `name` is read only in the loop's body."""
        return self._loads_in(loop, name) == self._loads.get(name, 0)


@functools.lru_cache(maxsize=512)
def name_uses_of(tree: Tree) -> NameUses:
    """The uses of a function's names, cached by the syntax tree."""
    return NameUses(tree)


def has_return(node: ast.AST) -> bool:
    """Whether the node contains a return."""
    return any(isinstance(item, ast.Return) for item in ast.walk(node))


def returns_in_loop(body: Iterable[ast.AST]) -> bool:
    """Whether a return is inside a loop."""
    loops = (node for item in body for node in ast.walk(item) if isinstance(node, _Loops))
    return any(has_return(loop) for loop in loops)


def always_jumps(body: Sequence[ast.stmt]) -> bool:
    """Whether every path through a list of statements ends in return, break or continue."""
    return any(_always_jumps(statement) for statement in body)


def _always_jumps(statement: ast.stmt) -> bool:
    if isinstance(statement, ast.Return | ast.Break | ast.Continue):
        return True
    if isinstance(statement, ast.If):
        return always_jumps(statement.body) and always_jumps(statement.orelse)
    return False


def returns(body: Sequence[ast.stmt]) -> bool:
    """Whether every path through a list of statements ends in a return. Returns inside loops do not count."""
    for statement in body:
        if isinstance(statement, ast.Return):
            return True
        if isinstance(statement, ast.If) and returns(statement.body) and returns(statement.orelse):
            return True
    return False
