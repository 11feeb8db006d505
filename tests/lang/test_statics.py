"""Facts about syntax trees: names and their uses, returns."""

from __future__ import annotations

import ast
from typing import Any

import pytest

from pydp.lang import compile as translation
from pydp.lang.source.statics import TreeFacts

pytestmark = pytest.mark.host


def tree_of(source: str) -> ast.FunctionDef:
    (tree,) = ast.parse(source).body
    assert isinstance(tree, ast.FunctionDef)
    return tree


def facts_of(*lines: str) -> TreeFacts:
    return TreeFacts(tree_of("\n    ".join(["def f(i, a, r):", *lines])))


def test_names_are_local_if_the_function_assigns_them() -> None:
    facts = facts_of("x = np.float32(c) + y.z[k].w + i", "for k in range(3): x += helper(a)", "(p, q) = 1, 2")
    assert facts.local_names == {"i", "a", "r", "x", "k", "p", "q"}
    assert facts.free_chains == (("c",), ("helper",), ("np", "float32"), ("range",), ("y", "z"))
    assert TreeFacts(ast.parse("lambda a: a + b.c", mode="eval").body).free_chains == (("b", "c"),)


def test_assignments_to_members_count_for_the_record() -> None:
    facts = facts_of("r.x = 1", "r['y'] = 2", "r.v[1] = 3", "a[i] = 4", "a.T[i] = 5", "x = 6", "x += 7")
    assert facts.store_counts == {"r": 3, "x": 3}


@pytest.mark.parametrize(
    ("lines", "counter"),
    [
        (["for k in range(3): a[k] = k"], True),
        (["for k in range(3): a[k] = k", "for k in range(4): a[k] = k"], True),
        (["for k in range(3): a[k] = k", "a[i] = k"], False),
        (["for k in range(3): k = k + 1"], False),
        (["for k in range(3):", "    for k in range(4): a[k] = k"], False),
        (["for i in range(3): a[i] = i"], False),
    ],
)
def test_only_counters(lines: list[str], counter: bool) -> None:
    facts = facts_of(*lines)
    assert facts.is_counter("k") == counter


def test_uses_inside_a_loop() -> None:
    tree = tree_of("def f(a, n):\n for k in range(n):\n  x = k\n  a[x] = x\n a[0] = n")
    loop = tree.body[0]
    assert isinstance(loop, ast.For)
    facts = TreeFacts(tree)
    assert facts.all_uses_inside("x", loop) and facts.all_uses_inside("k", loop)
    assert not facts.all_uses_inside("n", loop) and not facts.all_uses_inside("a", loop)


def test_returns() -> None:
    tree = tree_of(
        "def f(a, n):\n if n:\n  while n:\n   if a: return\n for k in range(n): a[k] = 1\n if a: return 3\n return None"
    )
    facts = TreeFacts(tree)
    assert [facts.has_return(one) for one in tree.body] == [True, False, True, True]
    assert [facts.returns_in_loop(one) for one in tree.body] == [True, False, False, False]
    assert facts.returns_value and not facts_of("return").returns_value


def unchanging(i, o, a):
    x = a[i] + 1
    for k in range(4):
        x = x * 2 + k
    o[i] = x


def changing(i, o, a):
    x = 0.0
    for k in range(4):
        x = x + a[k]
    o[i] = x


@pytest.mark.parametrize(("fn", "passes"), [(unchanging, 1), (changing, 2)])
def test_a_pass_that_changes_no_type_is_the_last_one(fn: object, passes: int, monkeypatch: pytest.MonkeyPatch) -> None:
    made: list[object] = []

    class Counted(translation.Translator):
        def __init__(self, *arguments: Any) -> None:
            made.append(self)
            super().__init__(*arguments)

    monkeypatch.setattr(translation, "Translator", Counted)
    translation.translate(fn, 1, None, [translation.FieldType("f4", 1), translation.FieldType("f4", 1)])
    assert len(made) == passes
