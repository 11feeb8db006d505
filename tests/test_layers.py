"""The structure that ARCHITECTURE.md shows: imports go down the layers, without circles, and folders stay small."""

from __future__ import annotations

import ast
import functools
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

pytestmark = pytest.mark.host

ROOT = Path(__file__).parent.parent / "pydp"

# A module imports from its own line or from lines below it.
LAYERS = {
    "pydp": ["cli", "verify", "compat", "random", "algorithms", "math", "lang", "offline", "tuning", "model", "groups",
             "runtime", "local_memory", "space", "dtypes", "errors"],
    "pydp.algorithms": ["discovery explain", "sets", "merge segments top_k", "partition", "search", "compress runs",
                        "moves evaluate lexsort cumulative",
                        "forall histogram reductions select sort transpose", "matmul reduce", "scan",
                        "composed dry_explanation registry", "lengths lookback pieces", "operators",
                        "arguments iteration_budget"],
    "pydp.lang": ["operator", "compile", "opencl", "analysis", "barriers", "execute", "frontend", "vector", "source",
                  "ir", "intrinsics", "numpy_math"],
    "pydp.runtime": ["field", "call", "recording", "placement", "arrays", "drivers", "memory", "programs", "device",
                     "bounded", "environment", "forks"],
}  # fmt: skip
MOST_FILES = 14


def name_of(path: Path) -> str:
    parts = path.relative_to(ROOT.parent).with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


PATHS = {name_of(path): path for path in sorted(ROOT.rglob("*.py"))}


def is_type_checking(node: ast.AST) -> bool:
    return isinstance(node, ast.If) and ast.unparse(node.test) == "TYPE_CHECKING"


def imports(tree: ast.AST) -> Iterator[tuple[str, bool]]:
    """The modules of pydp that a module imports, and whether it does so when it is imported itself."""
    pending: list[tuple[ast.AST, bool]] = [(tree, True)]
    while pending:
        node, now = pending.pop()
        for child in ast.iter_child_nodes(node):
            if is_type_checking(child):
                continue
            if isinstance(child, ast.ImportFrom):
                assert not child.level, "imports are absolute"
                module = child.module or ""
                for alias in child.names:
                    inner = f"{module}.{alias.name}"
                    yield (inner if inner in PATHS else module), now
            elif isinstance(child, ast.Import):
                yield from ((alias.name, now) for alias in child.names)
            later = isinstance(child, (ast.FunctionDef, ast.AsyncFunctionDef, ast.Lambda))
            pending.append((child, now and not later))


@functools.cache
def all_imports() -> dict[str, list[tuple[str, bool]]]:
    """By module: what it imports."""
    return {
        name: [(one, now) for one, now in imports(ast.parse(path.read_text())) if one in PATHS and one != name]
        for name, path in PATHS.items()
    }


def units(one: str, other: str) -> tuple[str, str, str]:
    """The package in which two modules part, and the part of it that each belongs to."""
    ours, theirs = one.split("."), other.split(".")
    same = next((at for at, pair in enumerate(zip(ours, theirs, strict=False)) if len(set(pair)) > 1), None)
    if same is None:  # one is the package of the other
        return "", "", ""
    return ".".join(ours[:same]), ours[same], theirs[same]


def circle(graph: dict[str, set[str]]) -> list[str]:
    """The nodes of a circle, in order; empty if there is none."""
    done: set[str] = set()
    for start in graph:
        path: list[str] = []
        pending = [(start, iter(sorted(graph[start])))]
        while pending:
            node, following = pending[-1]
            if node not in path:
                path.append(node)
            found = next((one for one in following if one not in done), None)
            if found is None:
                done.add(node)
                path.pop()
                pending.pop()
            elif found in path:
                return [*path[path.index(found) :], found]
            else:
                pending.append((found, iter(sorted(graph.get(found, ())))))
    return []


def test_a_circle_is_found() -> None:
    assert circle({"a": {"b"}, "b": {"c"}, "c": {"b"}}) == ["b", "c", "b"]
    assert not circle({"a": {"b", "c"}, "b": {"c"}, "c": set()})


def test_modules_import_in_no_circle() -> None:
    assert not circle({name: {one for one, now in found if now} for name, found in all_imports().items()})


@pytest.mark.parametrize("package", LAYERS)
def test_imports_go_down_the_layers(package: str) -> None:
    level = {name: at for at, names in enumerate(LAYERS[package]) for name in names.split()}
    upward = []
    for name, found in all_imports().items():
        for other, _ in found:
            parent, ours, theirs = units(name, other)
            if parent == package:
                assert {ours, theirs} <= set(level), f"put {ours} and {theirs} into a layer of LAYERS"
                if level[theirs] < level[ours]:
                    upward.append(f"{name} imports {other}")
    assert not upward


def test_folders_depend_on_each_other_in_no_circle() -> None:
    graphs: dict[str, dict[str, set[str]]] = {}
    for name, found in all_imports().items():
        for other, _ in found:
            parent, ours, theirs = units(name, other)
            if parent:
                graphs.setdefault(parent, {}).setdefault(ours, set()).add(theirs)
                graphs[parent].setdefault(theirs, set())
    for parent, graph in graphs.items():
        assert not circle(graph), parent


def test_folders_are_small() -> None:
    sizes = {folder: len(list(folder.glob("*.py"))) for folder in {path.parent for path in PATHS.values()}}
    assert not {str(folder): size for folder, size in sizes.items() if size > MOST_FILES}


def test_contributing_names_places_that_exist() -> None:
    """The table "Where would I change ...?": files or folders, and names in them."""
    text = (ROOT.parent / "CONTRIBUTING.md").read_text()
    rows = [line for line in text.partition("## Where would I change")[2].splitlines() if line.startswith("| ")][1:]
    assert len(rows) >= 20
    for row in rows:
        words = re.findall("`([^`]+)`", row.split(" | ")[1])
        given = [Path(word) for word in words if "/" in word or (ROOT / word).exists()]
        found = [ROOT.parent / path if path.parts[0] == "kernels_cl" else ROOT / path for path in given]
        assert found and all(path.exists() for path in found), row
        for word in words:
            if "/" not in word:  # a name in one of the files, or a file beside one of them
                places = [path for path in found if path.is_file()]
                assert any(word in path.read_text() or (path.parent / word).is_file() for path in places), row
