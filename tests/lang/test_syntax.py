"""Several threads read Python functions while templates are compiled."""

from __future__ import annotations

import ast
import inspect

import pytest
from threads import together

from pydp.lang.ir import Where
from pydp.lang.opencl.helpers import describe
from pydp.lang.source import syntax as source
from pydp.runtime.programs import template

pytestmark = pytest.mark.host


class _Cycle:
    """An object whose finalizer runs Python code during garbage collection, so threads can switch inside the parser."""

    def __init__(self) -> None:
        self.myself = self

    def __del__(self) -> None:
        for _ in range(10):
            pass


def test_threads_parse_one_after_the_other() -> None:
    helpers = [describe("floordiv", "int"), describe("pow", "int")]
    lines, here = inspect.getsource(ast).splitlines(keepends=True), Where("ast.py", 1, 0, "", "parse")

    def parse() -> None:
        for _ in range(5):
            kept = [_Cycle() for _ in range(2000)]
            del kept
            assert len(source._functions(lines, here)) > 100

    def render() -> None:
        for _ in range(3):
            template._lookup.cache_clear()
            assert template.render("lane_functions.mako", {"helpers": helpers}).strip()

    assert not together((parse, render) * 4)
