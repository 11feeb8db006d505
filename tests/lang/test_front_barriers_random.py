"""Random functions with barriers: accepted functions never leave lanes waiting, in any order of lanes."""

from __future__ import annotations

import interpreter
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import pydp
from pydp.lang.compile import FieldType, NumberType, translate
from pydp.lang.ir.diagnostics import VectorError

pytestmark = pytest.mark.host

I32 = np.dtype(np.int32)
NAMES = ("u", "v", "w")
# the same for all lanes of a group, unless a variable has become divergent; the last few never are
VALUES = st.sampled_from((*NAMES, *NAMES, "n", "1", "2", "a[0]", "a[n]", "idx.group[0]", "a[u]", "s[0]", "t", "a[t]"))


@st.composite
def lines(draw, depth, loops):
    found = []
    for _ in range(draw(st.integers(1, 4))):
        kind = draw(st.integers(0, 4 if depth > 2 else 9))
        name, value, other = draw(st.sampled_from(NAMES)), draw(VALUES), draw(VALUES)
        inner = [f"    {line}" for line in draw(lines(depth + 1, loops + (kind > 7)))] if kind > 4 else []
        if kind == 0:
            found.append(f"{name} = ({value} + {other}) % 4")
        elif kind == 1:
            found.append(f"out[idx] += {value}")
        elif kind <= 3:
            found.append(draw(st.sampled_from(("pydp.group_barrier()", "pydp.group_barrier(4)"))))
        elif kind == 4:
            leave = draw(st.sampled_from(("break", "continue", "return") if loops else ("return",)))
            found += [f"if {value} > {other}:", f"    {leave}"]
        elif kind <= 7:
            found += [f"if {value} < {other}:", *inner]
            if draw(st.booleans()):
                found += ["else:", f"    {name} = {other}", "    pydp.group_barrier(4)"]
        elif kind == 8:
            found += [f"for k in range({value} % 3):", *inner]
        else:
            # a counter for each depth: an inner loop that is left must not set the outer one back
            found += [f"m{depth} = 0", f"while m{depth} < {value} % 3:", f"    m{depth} += 1", *inner]
    return found


@settings(max_examples=60)
@given(st.data())
def test_all_lanes_reach_accepted_barriers(tmp_path_factory, data):
    body = ["s = pydp.local_field(np.int32, 4)", "t = idx.local[0]", "s[t] = 1", "pydp.group_barrier()"]
    body += ["u = n", "v = 1", "w = 2"]
    body += data.draw(lines(0, 0))
    source = "def f(idx, out, a, n):\n" + "\n".join(f"    {line}" for line in body) + "\n"
    path = tmp_path_factory.mktemp("barriers") / "module.py"
    path.write_text(source)
    space = {"pydp": pydp, "np": np}
    exec(compile(source, str(path), "exec"), space)
    types = [FieldType(I32, 1), FieldType(I32, 1, (), False), NumberType(I32, True)]
    try:
        made = translate(space["f"], 1, (4,), types)
    except VectorError as error:
        assert "not reach this barrier" in error.message, source
    else:
        a = np.array([2, 0, 3, 1, 1, 2, 0, 3], np.int32)
        for n, seed in ((1, None), (2, 1), (3, 2)):
            interpreter.run(made, (8,), None, [np.zeros(8, np.int32), a], {2: n}, seed)
