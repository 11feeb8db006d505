"""The text of errors in vector functions."""

from __future__ import annotations

import pytest

from pydp.errors import InvalidArgument
from pydp.lang.ir import Where
from pydp.lang.ir.diagnostics import VectorError

pytestmark = pytest.mark.host


def test_the_line_has_a_caret_under_its_column() -> None:
    found = VectorError("'y' is not defined", Where("k.py", 7, 12, "        x = y + 1  \n", "f"))
    lines = ["'y' is not defined", '  File "k.py", line 7, in f', "    x = y + 1", "        ^"]
    assert str(found).split("\n") == lines
    assert (found.message, found.line) == ("'y' is not defined", 7)
    assert isinstance(found, InvalidArgument)


def test_a_column_before_the_text_is_its_start() -> None:
    found = VectorError("no", Where("k.py", 7, 2, "        x = 1", "f"))
    assert str(found).split("\n")[-2:] == ["    x = 1", "    ^"]


def test_a_place_without_text() -> None:
    assert str(VectorError("no", Where("k.py", 7, 2, "", "f"))).split("\n") == ["no", '  File "k.py", line 7, in f']
    bare = VectorError("no")
    assert (str(bare), bare.line, bare.where) == ("no", 0, None)


def test_calls_are_listed_innermost_first() -> None:
    found = VectorError("no")
    found.called_at(Where("k.py", 8, 0, "", "inner"))
    found.called_at(Where("m.py", 9, 0, "", "outer"))
    calls = ['  called at "k.py", line 8, in inner', '  called at "m.py", line 9, in outer']
    assert str(found).split("\n") == ["no", *calls]
