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
    """The results of a pass that folds by joining strings. The rows of a work-item (`each`) change nothing here."""
    result = []
    columns, column_step = step.columns or (1, 0)
    for part in range(step.parts):
        for row in itertools.product(*(range(size) for size, _ in step.outer)):
            start = sum(i * s for i, (_, s) in zip(row, step.outer, strict=True))
            for column in range(columns):
                first = part * step.part
                more = first + step.part >= step.n and column < step.ragged
                elements = range(first, min(first + step.part, step.n) + more)
                result.append("".join(memory[start + column * column_step + i * step.step] for i in elements))
    if step.joins:
        rows = len(result) // step.parts
        result = ["".join(result[row::rows]) for row in range(rows)]
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
        data.draw(st.sampled_from([1, 2, 4])),
        data.draw(st.integers(2, 9)),
        joined=data.draw(st.integers(0, 20)),
    )
    kept = [(shape[a], strides[a]) for a in range(len(shape)) if a not in axes]
    reduced = [(shape[a], strides[a]) for a in range(len(shape)) if a in axes]
    values = [f"<{v}>" for v in memory]
    played = list(passes(kept, reduced, spec, commutes=False))
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
    spec = ReduceSpec("simt", 0, 1, 128, 1, 1, 1024, 2**30, 880, 1, 2**40)
    first, second = passes([(4096, 1)], [(4096, 4096)], spec, True)
    groups = -(-4096 // 128)
    assert first.kernel == second.kernel == "reduce_columns"
    assert (first.parts, first.part, second.n, second.parts) == (28, 147, 28, 1)
    assert first.parts * groups >= 880 > (first.parts - 1) * groups
    few = list(passes([(100, 1)], [(100, 100)], spec, True))
    assert [one.parts for one in few] == [1], "parts of less than 64 elements are not worth another pass"
    memory = [f"<{i}>" for i in range(300 * 3)]
    played = list(passes([(3, 1)], [(300, 3)], ReduceSpec("simt", 0, 1, 2, 1, 1, 16, 2**30, 20, 1, 2**40), True))
    values = memory
    for step in played:
        values = _play(step, values)
    assert len(played) == 2 and values == ["".join(f"<{i * 3 + column}>" for i in range(300)) for column in range(3)]


@pytest.mark.parametrize("outer", [1, 3])
@pytest.mark.parametrize(("n", "count"), [(2730, 3), (2889, 3), (4096, 2), (600, 63), (9000, 1), (3000, 50)])
def test_few_columns_are_folded_as_more_columns_of_fewer_rows(n: int, count: int, outer: int) -> None:
    spec = ReduceSpec("vector", 16, 4, 1, 1, 100, 500, 2**40, 8, rows=4, height=7)
    values = [f"<{i}>" for i in range(outer * n * count)]
    played = list(passes([(outer, n * count), (count, 1)], [(n, count)], spec, commutes=True))
    for step in played:
        values = _play(step, values)
    rows = [i for i, step in enumerate(played) if step.last]
    assert rows == [len(played) - 1]
    got = [sorted(map(int, text.strip("<>").split("><"))) for text in values]
    assert got == [[(o * n + i) * count + c for i in range(n)] for o in range(outer) for c in range(count)]
    if count > 1:
        assert played[0].columns == (512 // count * count, 1) and played[0].ragged == n % (512 // count) * count


def test_a_work_item_folds_many_short_rows() -> None:
    spec = ReduceSpec("vector", 16, 8, 1, 1, 4096, 65536, 2**40, 16, 8, 256)
    (rows,) = passes([(1 << 20, 16)], [(16, 1)], spec, True)
    assert (rows.kernel, rows.each) == ("reduce_rows", 4096)
    (few,) = passes([(100, 16)], [(16, 1)], spec, True)
    assert few.each == 6, "there are `busy` work-items"
    (columns,) = passes([(1 << 18, 64), (8, 1)], [(8, 8)], spec, True)
    assert (columns.kernel, columns.each) == ("reduce_columns", 1024)
