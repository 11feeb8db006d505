"""The syntax tree of a Python function, with the user's file and line numbers."""

from __future__ import annotations

import ast
import inspect
import linecache
import sys
from dataclasses import dataclass, field
from functools import cached_property
from types import CodeType, FunctionType
from typing import Any

from pydp.lang.ir import Where
from pydp.lang.ir.diagnostics import VectorError
from pydp.lang.source.statics import Tree, TreeFacts
from pydp.runtime.bounded import BoundedCache
from pydp.runtime.programs.template import parsing


@dataclass(eq=False)
class Source:
    """A function's syntax tree and the lines of its file."""

    file: str
    name: str
    tree: Tree
    lines: list[str] = field(repr=False)

    @cached_property
    def facts(self) -> TreeFacts:
        """The uses of names and the returns of the function."""
        return TreeFacts(self.tree)

    def where(self, node: ast.AST) -> Where:
        """The source location of a node of the tree."""
        line = getattr(node, "lineno", self.tree.lineno)
        text = self.lines[line - 1].rstrip("\n") if 0 < line <= len(self.lines) else ""
        column = min(getattr(node, "col_offset", 0), len(text))
        if not text.isascii():  # the tree's columns count bytes of UTF-8
            column = len(text.encode()[: getattr(node, "col_offset", 0)].decode(errors="ignore"))
        return Where(self.file, line, column, text, self.name)


_parsed = BoundedCache(64)  # (lines, functions) by file name
_sources = BoundedCache(1024)


def source_of(function: FunctionType) -> Source:
    """The source of a Python function or lambda, cached by its code.

    Raises VectorError if there is no source text (functions made by ``exec`` or typed at a prompt without history), if
    the file has changed since the import, or if two lambdas on one line cannot be distinguished.
    """
    key = (function.__code__.co_filename, function.__code__)
    source: Source | None = _sources.get(key)
    return _sources.make(key, _find, function) if source is None else source


def _find(function: FunctionType) -> Source:
    code = function.__code__
    linecache.checkcache(code.co_filename)
    lines = linecache.getlines(code.co_filename, function.__globals__)
    where = Where(code.co_filename, code.co_firstlineno, 0, "", function.__name__)
    if not lines:
        raise VectorError(
            f"Python cannot give the source of {function.__name__} (defined by exec or at a prompt?). "
            "Define it in a file",
            where,
        )
    cached = _parsed.find(code.co_filename)
    if cached is None or cached[0] != lines:
        cached = (lines, _functions(lines, where))
        _parsed.put(code.co_filename, cached)
    found = [tree for tree in cached[1].get(code.co_firstlineno, ()) if _is_of(tree, code)]
    if len(found) > 1:
        found = _select_lambda(found, code)
    if code.co_flags & inspect.CO_COROUTINE or code.co_flags & inspect.CO_ASYNC_GENERATOR:
        raise VectorError(f"{function.__name__} is an async function; a vector function must be a plain def", where)
    if not found:
        raise VectorError(f"the file of {function.__name__} has changed since it was imported; restart Python", where)
    if len(found) > 1:
        raise VectorError("several lambdas on one line cannot be distinguished; put each on its own line", where)
    return Source(code.co_filename, function.__name__, found[0], lines)


def _functions(lines: list[str], where: Where) -> dict[int, list[Tree]]:
    """The functions and lambdas of a file, by their first line."""
    try:
        with parsing:
            module = ast.parse("".join(lines))
    except SyntaxError as error:
        raise VectorError(f"the source of {where.function} cannot be parsed: {error.msg}", where) from error
    except (RecursionError, MemoryError) as error:
        limit = sys.getrecursionlimit()
        raise VectorError(
            f"the file of {where.function} is nested too deeply for Python's parser ({error}; the recursion limit is "
            f"{limit}). Split its longest expression",
            where,
        ) from error
    found: dict[int, list[Tree]] = {}
    for node in ast.walk(module):
        if isinstance(node, ast.FunctionDef | ast.Lambda):
            decorators = node.decorator_list if isinstance(node, ast.FunctionDef) else []
            found.setdefault(min([node.lineno, *(one.lineno for one in decorators)]), []).append(node)
    return found


def _is_of(tree: Tree, code: CodeType) -> bool:
    """Whether name and arguments of `tree` match `code`."""
    name = "<lambda>" if isinstance(tree, ast.Lambda) else tree.name
    arguments = [argument.arg for argument in (*tree.args.posonlyargs, *tree.args.args, *tree.args.kwonlyargs)]
    known = code.co_varnames[: code.co_argcount + code.co_kwonlyargcount]
    return name == code.co_name and tuple(arguments) == known


def _select_lambda(trees: list[Tree], code: CodeType) -> list[Tree]:
    """Select from several lambdas on one line by column; without columns, by compiled code."""
    columns = _columns(code)
    if columns is not None:
        inside = [tree for tree in trees if isinstance(tree, ast.Lambda) and _covers(tree.body, columns)]
        if inside:
            # Take the innermost lambda: the column range of a body never includes its own `lambda` keyword.
            return [max(inside, key=lambda tree: (tree.lineno, tree.col_offset))]
    same = [tree for tree in trees if isinstance(tree, ast.Lambda) and _compiled(tree, code) == _content(code)]
    return list(same[:1]) if len({ast.dump(tree) for tree in same}) == 1 else list(same)


def _columns(code: CodeType) -> tuple[tuple[int, int], tuple[int, int]] | None:
    """First and last position of the code in the source (Python 3.11 and later)."""
    positions: Any = getattr(code, "co_positions", None)
    if positions is None:
        return None
    spans = [item for item in positions() if None not in item and item[3] > item[2]]
    if not spans:
        return None
    return min((item[0], item[2]) for item in spans), max((item[1], item[3]) for item in spans)


def _covers(node: ast.expr, columns: tuple[tuple[int, int], tuple[int, int]]) -> bool:
    end = (node.end_lineno or node.lineno, node.end_col_offset or 0)
    return (node.lineno, node.col_offset) <= columns[0] and columns[1] <= end


def _compiled(tree: ast.Lambda, like: CodeType) -> object:
    """The compiled content of `tree`, compiled inside a function that has the free variables of `like`."""
    around = [ast.arg(name) for name in like.co_freevars]
    arguments = ast.arguments([], around, None, [], [], None, [])
    whole = ast.fix_missing_locations(ast.Expression(ast.Lambda(arguments, tree)))
    outer = [item for item in compile(whole, "<lambda>", "eval").co_consts if isinstance(item, CodeType)]
    inner = [item for item in outer[0].co_consts if isinstance(item, CodeType)]
    return _content(inner[0])


def _content(code: CodeType) -> object:
    """The content of a code object, without its position."""
    constants = [_content(item) if isinstance(item, CodeType) else (type(item), item) for item in code.co_consts]
    return (code.co_code, code.co_names, code.co_varnames, code.co_freevars, constants)
