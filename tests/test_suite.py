"""Rules for the tests themselves: every skip gives a reason, and no test measures seconds."""

from __future__ import annotations

import ast
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

pytestmark = pytest.mark.host

HERE = Path(__file__).parent
FILES = sorted(HERE.rglob("*.py"))
CLOCKS = {"perf_counter", "perf_counter_ns", "monotonic", "monotonic_ns", "process_time", "thread_time", "timeit"}

WATCHDOGS = {HERE / "run_record.py", HERE / "drivers" / "watch.py"}  # they end what hangs, and need a clock for it


def own(node: ast.AST) -> Iterator[ast.AST]:
    """The nodes of a function itself, without those of functions that it defines."""
    for child in ast.iter_child_nodes(node):
        if not isinstance(child, (ast.FunctionDef, ast.AsyncFunctionDef, ast.Lambda, ast.ClassDef)):
            yield child
            yield from own(child)


def returns(tree: ast.AST) -> list[str]:
    """The tests that return early: the rest of such a test would count as passed."""
    found = []
    for function in ast.walk(tree):
        if isinstance(function, (ast.FunctionDef, ast.AsyncFunctionDef)) and function.name.startswith("test"):
            lines = [one.lineno for one in own(function) if isinstance(one, ast.Return)]
            found += [f"{function.name}, line {line}" for line in lines]
    return found


def silent_skips(tree: ast.AST) -> list[str]:
    """The skips without a reason; a lane's summary could not say which tests are missing."""
    found = []
    for node in ast.walk(tree):
        name, given = (ast.unparse(node.func), node) if isinstance(node, ast.Call) else ("", None)
        if name in ("pytest.skip", "pytest.xfail") and not (given.args or given.keywords):
            found.append(f"{name}, line {node.lineno}")
        reasoned = given is not None and any(one.arg == "reason" for one in given.keywords)
        if name in ("pytest.mark.skip", "pytest.mark.skipif", "pytest.mark.xfail") and not reasoned:
            found.append(f"{name}, line {node.lineno}")
    bare = {"pytest.mark.skip", "pytest.mark.xfail"}
    marks = [one for node in ast.walk(tree) for one in getattr(node, "decorator_list", ()) if ast.unparse(one) in bare]
    return found + [f"{ast.unparse(one)}, line {one.lineno}" for one in marks]


def test_silent_skips_are_seen() -> None:
    text = "@pytest.mark.skip\ndef test_a():\n    pytest.skip()\n@pytest.mark.skipif(True)\ndef test_b(): pass\n"
    assert len(silent_skips(ast.parse(text))) == 3
    text = "@pytest.mark.skipif(True, reason='x')\ndef test_a():\n    pytest.skip('y')\n"
    assert not silent_skips(ast.parse(text))


def clocks(tree: ast.AST) -> list[str]:
    """The calls that read a clock."""
    called = (one.func for one in ast.walk(tree) if isinstance(one, ast.Call))
    names = ((one, one.attr if isinstance(one, ast.Attribute) else getattr(one, "id", "")) for one in called)
    return [f"{name}, line {one.lineno}" for one, name in names if name in CLOCKS]


@pytest.mark.parametrize(
    ("body", "count"),
    [
        ("if x:\n        return", 1),
        ("try:\n        f()\n    except E:\n        return", 1),
        ("with f():\n        for k in x:\n            return 3", 1),
        ("if x:\n        pytest.skip('no x')", 0),
        ("def inner():\n        return 1\n    assert inner() == (lambda: 1)()", 0),
    ],
)
def test_returns_are_seen(body: str, count: int) -> None:
    assert len(returns(ast.parse(f"def test(x):\n    {body}\n    assert x\n"))) == count
    assert not returns(ast.parse(f"def helper(x):\n    {body}\n    assert x\n"))


def test_clocks_are_seen() -> None:
    found = clocks(ast.parse("from time import monotonic\nx = time.perf_counter() + monotonic()"))
    assert found == ["perf_counter, line 2", "monotonic, line 2"]
    assert not clocks(ast.parse("fake(perf_counter=lambda: now, sleep=time.sleep(1))"))


@pytest.mark.parametrize("path", FILES, ids=lambda path: str(path.relative_to(HERE)))
def test_tests_skip_and_count(path: Path) -> None:
    tree = ast.parse(path.read_text())
    told = "is skipped with pytest.skip and a reason where it does not apply, and goes on to its end elsewhere"
    assert not returns(tree), f"a test {told}"
    assert not silent_skips(tree), "a skip has a reason"
    read = [] if path in WATCHDOGS else clocks(tree)
    assert not read, "a test that depends on time fails on a busy machine; count work, or give it a clock"


@pytest.mark.parametrize(
    ("package", "folder"), [("lang/analysis", "lang"), ("lang/ir", "lang"), ("model", "model")], ids=lambda one: one
)
def test_every_module_has_a_test_file(package: str, folder: str) -> None:
    """tests/FOLDER/test_MODULE.py; a package's __init__ has the package's name, and needs none if it holds no code."""
    modules = sorted((HERE.parent / "pydp" / package).glob("*.py"))
    assert len(modules) > 3
    names = {path.parent.name if path.stem == "__init__" else path.stem for path in modules if has_code(path)}
    tests = {path for path in (HERE / folder).glob("test_*.py") if "def test_" in path.read_text()}
    assert {f"test_{name}.py" for name in names} <= {path.name for path in tests}


def has_code(path: Path) -> bool:
    """Whether a file holds more than its docstring."""
    return any(not isinstance(node, ast.Expr) for node in ast.parse(path.read_text()).body)


def test_a_run_ends_with_the_reasons_of_its_skips(tmp_path: Path) -> None:
    program = """
    import pytest

    pytestmark = pytest.mark.host

    @pytest.mark.parametrize("k", range(5))
    def test_some(k):
        if k:
            pytest.skip("the device has no\\nsuch thing" if k > 2 else "another reason")

    @pytest.mark.skipif(True, reason="another reason")
    def test_all():
        raise AssertionError
    """
    (tmp_path / "test_toy.py").write_text(re.sub("(?m)^    ", "", program))
    (tmp_path / "conftest.py").write_text((HERE / "conftest.py").read_text())
    setup = HERE.parent / "setup.cfg"
    command = [sys.executable, "-m", "pytest", "-p", "no:cacheprovider", "-c", str(setup), "--rootdir", str(tmp_path)]
    done = subprocess.run([*command, str(tmp_path)], capture_output=True, text=True, timeout=500, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    lines = [line for line in done.stdout.splitlines() if "skipped" in line or "reason" in line]
    assert lines[:2] == ["skipped 3: another reason", "skipped 2: the device has no such thing"]
    assert re.fullmatch(r"=* ?1 passed, 5 skipped in .*", lines[2]) and len(lines) == 3
