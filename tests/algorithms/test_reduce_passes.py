"""The passes of a reduction, played through in plain Python: every element once, in C order."""

from __future__ import annotations

import itertools
import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from pydp.algorithms.reduce.passes import Pass, collapse, passes
from pydp.algorithms.reduce.policy import ReduceSpec

pytestmark = pytest.mark.host


def _play(step: Pass, memory: list[str]) -> list[str]:
    """What a pass writes, folding by joining strings."""
    result = []
    columns, column_step = step.columns or (1, 0)
    for part in range(step.parts):
        for row in itertools.product(*(range(size) for size, _ in step.outer)):
            start = sum(i * s for i, (_, s) in zip(row, step.outer, strict=True))
            for column in range(columns):
                first = part * step.part
                elements = range(first, min(first + step.part, step.n))
                result.append("".join(memory[start + column * column_step + i * step.step] for i in elements))
    assert len(result) == step.results
    return result


@given(st.data())
def test_every_element_is_folded_once_and_in_order(data: st.DataObject) -> None:
    shape = tuple(data.draw(st.lists(st.integers(1, 5), max_size=5)))
    axes = [axis for axis in range(len(shape)) if data.draw(st.booleans())]
    array = np.arange(math.prod(shape)).reshape(shape)
    order = data.draw(st.permutations(range(len(shape))))
    memory = array.transpose(order).ravel()
    strides = [0] * len(shape)
    for place, axis in enumerate(order):
        strides[axis] = math.prod(shape[later] for later in order[place + 1 :])
    spec = ReduceSpec(
        "vector",
        0,
        1,
        1,
        1,
        data.draw(st.integers(1, 3)),
        data.draw(st.integers(2, 3)),
        data.draw(st.integers(2, 9)),
        data.draw(st.integers(1, 20)),
    )
    kept = [(shape[a], strides[a]) for a in range(len(shape)) if a not in axes]
    reduced = [(shape[a], strides[a]) for a in range(len(shape)) if a in axes]
    values = [f"<{v}>" for v in memory]
    played = list(passes(kept, reduced, spec))
    for step in played:
        values = _play(step, values)
    moved = array.transpose([a for a in range(len(shape)) if a not in axes] + axes)
    expected = moved.reshape(math.prod(size for size, _ in kept), -1)
    assert values == ["".join(f"<{v}>" for v in row) for row in expected]
    assert [step.last for step in played] == [False] * (len(played) - 1) + [True]


def test_axes_that_lie_together_are_one() -> None:
    assert collapse([(3, 20), (4, 5), (1, 7), (5, 1)]) == [(60, 1)]
    assert collapse([(3, 40), (4, 5)]) == [(3, 40), (4, 5)]


def test_columns_of_lanes_are_cut_until_there_are_enough_groups() -> None:
    spec = ReduceSpec("simt", 0, 1, 128, 1, 1, 1024, 2**30, 880)
    first, second = passes([(4096, 1)], [(4096, 4096)], spec)
    groups = -(-4096 // 128)
    assert first.kernel == second.kernel == "reduce_columns"
    assert (first.parts, first.part, second.n, second.parts) == (28, 147, 28, 1)
    assert first.parts * groups >= 880 > (first.parts - 1) * groups
    few = list(passes([(100, 1)], [(100, 100)], spec))
    assert [one.parts for one in few] == [1], "parts of less than 64 elements are not worth another pass"
    memory = [f"<{i}>" for i in range(300 * 3)]
    played = list(passes([(3, 1)], [(300, 3)], ReduceSpec("simt", 0, 1, 2, 1, 1, 16, 2**30, 20)))
    values = memory
    for step in played:
        values = _play(step, values)
    assert len(played) == 2 and values == ["".join(f"<{i * 3 + column}>" for i in range(300)) for column in range(3)]
