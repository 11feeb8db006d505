"""Explanations as text, and the arguments of the calls that they explain."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from pydp.errors import InvalidArgument
from pydp.model.explanation import Explanation, Given, explained_by, given, sources_of

pytestmark = pytest.mark.host


def test_text() -> None:
    found = Explanation("scan", {"device": "cpu", "n": 8}, ["one pass: it is short"], {"scan": "a\nb\n", "end": "c"})
    lines = [
        "scan",
        "----",
        "device  cpu",
        "n       8",
        "",
        "why",
        "  - one pass: it is short",
        "",
        "kernels (the text of each is in .sources)",
        "  scan: 2 lines",
        "  end: 1 lines",
    ]
    assert str(found).split("\n") == lines


def test_parts_that_are_empty_have_no_heading() -> None:
    assert str(Explanation("copy")) == "copy\n----"


def test_sources_of_one_name_are_numbered() -> None:
    pairs = [("scan", "a"), ("sort", "b"), ("scan", "c"), ("scan", "a"), ("scan", "d"), ("scans", "e")]
    found = sources_of(SimpleNamespace(name=name, source=text) for name, text in pairs)
    assert found == {"scan": "a", "sort": "b", "scan #2": "c", "scan #3": "d", "scans": "e"}


def _call(x: Any, op: str = "+", *, axis: int = 0, out: Any = None) -> None:
    pass


def test_arguments_by_name() -> None:
    found = given(_call, (1, "max"), {"axis": 2})
    assert vars(found) == {"x": 1, "op": "max", "axis": 2, "out": None}
    other = found.but(op="min")
    assert isinstance(other, Given) and vars(other) == {"x": 1, "op": "min", "axis": 2, "out": None}
    assert found.op == "max"
    for args, kw in (((), {}), ((1,), {"axes": 2}), ((1, "+", 0), {})):
        with pytest.raises(InvalidArgument, match="are accepted"):
            given(_call, args, kw)


def test_a_registered_description_explains() -> None:
    def fn() -> None:
        pass

    explained_by(fn, lambda call: Explanation(f"of {sorted(vars(call))}"))
    assert str(fn.__dict__["__pydp_explain__"](Given(b=1, a=2)).title) == "of ['a', 'b']"
