"""The traversal functions of the intermediate form."""

from __future__ import annotations

import pytest
from builder import HERE, cmp, loop, place, var, when

from pydp.lang import ir

pytestmark = pytest.mark.host


def test_jumps_belong_to_loops_around_the_body() -> None:
    leave, go_on = ir.Break(HERE), ir.Continue(HERE)
    inner = when(cmp("lt", place(), 3), [leave], [go_on])
    assert list(ir.jumps([inner, leave])) == [leave, go_on, leave]
    assert not list(ir.jumps([loop(var("i"), 0, 3, [inner]), ir.While(HERE, cmp("lt", place(), 3), [leave])]))
    assert list(ir.jumps([when(cmp("lt", place(), 3), [loop(var("i"), 0, 3, [leave]), go_on])])) == [go_on]
