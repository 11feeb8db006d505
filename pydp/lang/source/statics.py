"""What the text of a function says before any type is known: where names are used, which statements leave."""

from __future__ import annotations

import ast
import functools
from collections.abc import Iterable, Sequence

from pydp.lang.source.syntax import Tree

_Loops = ast.For | ast.While


class Scopes:
    """Where the names of a function are read and set."""

    def __init__(self, tree: Tree) -> None:
        self._loads: dict[str, int] = {}
        self._stores: dict[str, int] = {}
        self._inside: dict[int, dict[str, int]] = {}
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
        self._counters = {name for name, found in loops.items() if name not in arguments and self._own(name, found)}

    def _own(self, name: str, loops: list[ast.For]) -> bool:
        """True where `name` is set by these loops alone, none inside another, and read inside them alone."""
        if self._stores.get(name, 0) != len(loops):
            return False
        for loop in loops:
            within = [node for item in loop.body for node in ast.walk(item)]
            if any(other in within for other in loops):
                return False
        return sum(self._loads_in(loop, name) for loop in loops) == self._loads.get(name, 0)

    def _loads_in(self, loop: ast.For, name: str) -> int:
        table = self._inside.get(id(loop))
        if table is None:
            table = self._inside[id(loop)] = {}
            for item in loop.body:
                for node in ast.walk(item):
                    if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Load):
                        table[node.id] = table.get(node.id, 0) + 1
        return table.get(name, 0)

    def is_counter(self, name: str) -> bool:
        """True where a loop's name is used as nothing but that loop's (or those loops') counter."""
        return name in self._counters

    def all_uses_inside(self, name: str, loop: ast.For) -> bool:
        """True where `name` is read in the loop's body alone."""
        return self._loads_in(loop, name) == self._loads.get(name, 0)


@functools.lru_cache(maxsize=512)
def scopes_of(tree: Tree) -> Scopes:
    """Where the names of a function are read and set; kept."""
    return Scopes(tree)


def has_return(node: ast.AST) -> bool:
    """True where a return is anywhere inside."""
    return any(isinstance(item, ast.Return) for item in ast.walk(node))


def returns_in_loop(body: Iterable[ast.AST]) -> bool:
    """True where a return is inside a loop."""
    loops = (node for item in body for node in ast.walk(item) if isinstance(node, _Loops))
    return any(has_return(loop) for loop in loops)


def leaves(body: Sequence[ast.stmt]) -> bool:
    """True where the end of a list of statements cannot be reached."""
    return any(_leaves(statement) for statement in body)


def _leaves(statement: ast.stmt) -> bool:
    if isinstance(statement, ast.Return | ast.Break | ast.Continue):
        return True
    if isinstance(statement, ast.If):
        return leaves(statement.body) and leaves(statement.orelse)
    return False


def returns(body: Sequence[ast.stmt]) -> bool:
    """True where a list of statements surely ends in a return (those inside loops aside)."""
    for statement in body:
        if isinstance(statement, ast.Return):
            return True
        if isinstance(statement, ast.If) and returns(statement.body) and returns(statement.orelse):
            return True
    return False
