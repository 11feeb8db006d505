"""The bank model against a count bank by bank, and layouts for the patterns that kernels use."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pydp import local_memory as lds
from pydp.local_memory import GPU, NONE, Banks

pytestmark = pytest.mark.host


def _turns(banks: Banks, addresses: list[int]) -> int:
    """Played out: every turn, each bank serves one word to all lanes that want it."""
    worst = 1
    for first in range(0, len(addresses), banks.lanes):
        waiting = {address // banks.width for address in addresses[first : first + banks.lanes]}
        turns = 0
        while waiting:
            served = {}
            for word in sorted(waiting):
                served.setdefault(word % banks.count, word)
            waiting -= set(served.values())
            turns += 1
        worst = max(worst, turns)
    return worst


@given(
    st.sampled_from([GPU, Banks(4, 16, 4), Banks(16, 4, 16), Banks(32, 8, 32)]),
    st.lists(st.integers(0, 4096), min_size=1, max_size=64),
)
def test_degree_is_what_playing_it_out_takes(banks: Banks, words: list[int]) -> None:
    addresses = [word * banks.width for word in words]
    assert lds.degree(banks, addresses, banks.width) == _turns(banks, addresses)


@given(st.integers(0, 200), st.integers(0, 64))
def test_affine_patterns(step: int, start: int) -> None:
    addresses = [4 * (start + step * lane) for lane in range(32)]
    assert lds.degree(GPU, addresses) == _turns(GPU, addresses)
    assert lds.degree(NONE, addresses) == 1


def test_wide_elements_are_not_blamed_for_their_width() -> None:
    assert lds.degree(GPU, [8 * lane for lane in range(32)], 8) == 1
    assert lds.degree(GPU, [8 * 16 * lane for lane in range(32)], 8) == 16


@pytest.mark.parametrize("tile", [8, 16, 32, 64])
@pytest.mark.parametrize("element_bytes", [4, 8])
def test_transposes(tile: int, element_bytes: int) -> None:
    # A tile is turned by lanes that write rows of `tile` and read columns of it.
    lanes = min(tile, 32)
    found = lds.layout(GPU, (tile, tile), element_bytes, [lambda n: (0, n), lambda n: (n, 0)], lanes)
    assert found.degree == 1, found


def test_matmul_staging_and_scan() -> None:
    # A tile of A lies as (k, m), is written along k and read along m; a scan's lanes own runs of neighbouring elements.
    staged = lds.layout(GPU, (16, 64), 4, [lambda lane: (lane % 16, lane // 16), lambda lane: (3, lane)])
    assert staged.degree == 1 and staged.pad == 2
    for items in (2, 4, 8, 15, 16):
        runs = lds.layout(GPU, (32, items), 4, [lambda lane: (lane, 0), lambda lane: (lane, 1)])
        assert runs.degree == 1, items


@pytest.mark.parametrize("element_bytes", [1, 2, 4, 8, 16])
@pytest.mark.parametrize("columns", [16, 32, 256])
def test_lines_that_lanes_own_stretches_of(element_bytes: int, columns: int) -> None:
    """The accesses of a scan and a sort: each lane walks its own items, rows of lanes load and store side by side."""
    for items in (1, 2, 3, 7, 8, 15, 16, 32):
        found = lds.skew(GPU, element_bytes, 256, items, columns)
        places = [found.offset(i) for i in range(256 * items)]
        assert len(set(places)) == len(places) and max(places) < found.size(256 * items)
        turns = []
        for item in range(items):
            own = [found.offset(lane * items + item) for lane in range(32)]
            rows = [
                found.offset(lane // columns * columns * items + item * columns + lane % columns) for lane in range(32)
            ]
            turns += [lds.degree(GPU, [element_bytes * i for i in places], element_bytes) for places in (own, rows)]
        assert found.degree == max(turns) and str(found.degree) in found.reason
        free = element_bytes >= 4 and (columns >= 32 or items % 2)  # even items, two rows at a time: a scan's are odd
        assert found.degree <= (1 if free else 2), (items, found)
    assert lds.skew(GPU, 4, 256, 15, 16).every == 0
    assert lds.skew(NONE, element_bytes, 256, 8, columns).every == 0


def test_layouts_without_need_or_without_banks() -> None:
    assert lds.layout(GPU, (32, 32), 4, [lambda lane: (0, lane)]).pad == 0
    assert lds.layout(NONE, (32, 32), 4, [lambda lane: (lane, 0)]).pad == 0
    assert lds.layout(GPU, (32, 32), 4, []).pad == 0
    found = lds.layout(GPU, (4, 32), 4, [lambda lane: (lane % 4, 0)])
    assert found.degree == 1 and found.offset((1, 2)) == found.row + 2 and found.size == 4 * found.row
    hopeless = lds.layout(GPU, (1, 2048), 4, [lambda lane: (0, 32 * lane)])
    assert hopeless.degree == 32 and "conflict degree 32" in hopeless.reason
