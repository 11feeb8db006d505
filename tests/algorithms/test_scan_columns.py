"""Scans along an axis with adjacent columns: strips, blocks of rows, and the look-back between blocks."""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np
import pytest
from waiting import skip_where_refused

import pydp
from pydp.algorithms.lookback import STRATEGIES
from pydp.algorithms.operators import operator_text
from pydp.algorithms.scan.layout import layout_of
from pydp.algorithms.scan.plan import Job, down_columns
from pydp.algorithms.scan.policy import ScanSpec, cut_columns
from pydp.model.architectures import by_target
from pydp.runtime.call import Call
from pydp.runtime.programs import program
from pydp.runtime.programs.template import render

SCALAR = {"mapping": "vector", "part": 24, "vector": 0, "width": 8}
VECTOR = {"mapping": "vector", "part": 24, "vector": 4, "width": 8}
SPECS = pytest.mark.parametrize("spec", [SCALAR, VECTOR], ids=["scalar", "vector"])
LAST = "b != 0 ? b : a"
"""Keeps the last element that is not zero: it does not commute."""


def integers(shape: Any, seed: int = 0, low: int = -1000, high: int = 1000, dtype: Any = np.int32) -> np.ndarray:
    return np.random.default_rng(seed).integers(low, high, shape).astype(dtype)


def by_rows(x, combine, exclusive=False, init=None, heads=None):
    """The scan down axis 0 of a matrix by a plain loop; `heads` starts segments."""
    out = np.empty_like(x)
    for c, column in enumerate(x.T):
        before = init
        for k, value in enumerate(column):
            if heads is not None and heads[k, c]:
                before = init
            after = value if before is None else combine(before, value)
            out[k, c] = (0 if before is None else before) if exclusive else after
            before = after
    return out


def add(a, b):
    return a + b


def last(a, b):
    return b if b else a


@pytest.mark.oclgrind
@SPECS
@pytest.mark.parametrize("strategy", STRATEGIES)
def test_every_number_of_columns_and_rows(device, spec, strategy):
    skip_where_refused(device, strategy, spec)
    for columns, n in ((2, 49), (3, 50), (4, 12), (5, 31), (8, 13), (9, 30), (13, 9)):
        x = integers((n, columns), columns)
        want = np.cumsum(x, axis=0, dtype=np.int32)
        assert np.array_equal(pydp.scan(x, axis=0, strategy=strategy, spec=spec), want), (n, columns)
        field = pydp.field(x)
        pydp.scan(field, axis=0, exclusive=True, reverse=True, out=field, strategy=strategy, spec=spec)
        assert np.array_equal(field.get(), want[-1] - want), (n, columns)


@pytest.mark.sweep
@pytest.mark.parametrize("columns", [15, 16, 17, 31, 33, 64, 65, 255, 257, 600])
def test_default_strips_around_their_widths(device, columns):
    for n in (1, 2, 300):
        x = integers((3, n, columns), columns)
        want = np.cumsum(x, axis=1, dtype=np.int32)
        assert np.array_equal(pydp.scan(x, axis=1), want)
        assert np.array_equal(pydp.scan(x, axis=1, spec={"nontemporal": True}), want)


@pytest.mark.parametrize("strategy", STRATEGIES)
def test_slabs_of_columns_have_chains_of_their_own(device, strategy):
    skip_where_refused(device, strategy, SCALAR)
    x = integers((2, 40, 3), 3)
    for view in (x, x[::-1, ::2], np.broadcast_to(x[:, :1], x.shape), integers((40, 2, 3), 4).swapaxes(0, 1)):
        for reverse in (False, True):
            back = np.flip(view, 1) if reverse else view
            want = np.cumsum(back, axis=1, dtype=np.int32)
            got = pydp.scan(view, axis=1, reverse=reverse, strategy=strategy, spec=SCALAR)
            assert np.array_equal(got, np.flip(want, 1) if reverse else want)


@pytest.mark.oclgrind
@pytest.mark.parametrize("strategy", STRATEGIES)
@pytest.mark.parametrize("exclusive", [False, True])
def test_operators_that_do_not_commute(device, strategy, exclusive):
    skip_where_refused(device, strategy, SCALAR)
    x = integers((60, 5), 5, -1, 2)
    want = by_rows(x, last, exclusive, 7)
    got = pydp.scan(x, LAST, axis=0, exclusive=exclusive, init=7, strategy=strategy, spec=SCALAR)
    assert np.array_equal(got, want)
    init = pydp.field(np.array([7], np.int32))
    got = pydp.scan(pydp.field(x), LAST, axis=0, exclusive=exclusive, init=init, strategy=strategy, spec=SCALAR)
    assert np.array_equal(got.get(), want)


@SPECS
@pytest.mark.parametrize("strategy", STRATEGIES)
def test_init_is_added_once(device, spec, strategy):
    skip_where_refused(device, strategy, spec)
    x = integers((50, 6), 6)
    got = pydp.scan(x, axis=0, init=11, strategy=strategy, spec=spec)
    assert np.array_equal(got, np.cumsum(x, axis=0, dtype=np.int32) + 11)


@pytest.mark.parametrize("strategy", STRATEGIES)
def test_operators_see_real_elements_only(device, strategy):
    skip_where_refused(device, strategy, SCALAR)
    x = integers((50, 5), 7, 1, 1000)
    got = pydp.scan(x, "(a <= 0 || b <= 0) ? -1 : max(a, b)", axis=0, strategy=strategy, spec=SCALAR)
    assert np.array_equal(got, np.maximum.accumulate(x, axis=0))


@pytest.mark.oclgrind
@pytest.mark.parametrize("strategy", STRATEGIES)
@pytest.mark.parametrize("init", [None, 9])
def test_segments_of_each_column(device, strategy, init):
    skip_where_refused(device, strategy, SCALAR)
    x = integers((60, 3), 8)
    for rate, exclusive in ((0.05, False), (0.5, True)):
        flags = np.random.default_rng(9).random(x.shape) < rate
        keys = np.cumsum(flags, axis=0) * 7 % 5
        changes = np.concatenate([np.zeros((1, 3), bool), keys[1:] != keys[:-1]])
        options = {"axis": 0, "exclusive": exclusive, "init": init, "strategy": strategy, "spec": SCALAR}
        assert np.array_equal(pydp.scan(x, segments=flags, **options), by_rows(x, add, exclusive, init, flags))
        assert np.array_equal(pydp.scan(x, segments=keys, **options), by_rows(x, add, exclusive, init, changes))


def test_records_and_other_dtypes(device):
    spec = SCALAR if device.profile.loop_limit is None else SCALAR | {"strategy": "reduce_then_scan"}
    x = np.zeros((50, 3), [("a", "<i4"), ("b", "<f4")])
    x["a"], x["b"] = integers((50, 3), 10), integers((50, 3), 11, 0, 9)
    got = pydp.scan(x, {"a": "a.a + b.a", "b": "max(a.b, b.b)"}, axis=0, spec=spec)
    assert np.array_equal(got["a"], np.cumsum(x["a"], axis=0, dtype=np.int32))
    assert np.array_equal(got["b"], np.maximum.accumulate(x["b"], axis=0))
    small = integers((200, 6), 12, 0, 255, np.uint8)
    for dtype in (np.int32, np.uint8, np.float32, np.int16):
        want = np.cumsum(small, axis=0, dtype=dtype)
        assert np.array_equal(pydp.scan(small, axis=0, dtype=dtype, spec={"part": 60}), want), dtype


TROUBLES = [{"order": "reversed"}, {"order": "permuted"}, {"suppress": 1}, {"suppress": 3}]


@pytest.mark.oclgrind
@SPECS
@pytest.mark.parametrize("trouble", TROUBLES)
def test_blocks_whose_predecessors_do_not_answer(device, spec, trouble):
    skip_where_refused(device, "lookback", spec)
    x = integers((60, 5), 13)
    spec = spec | trouble | {"polls": 2}
    want = np.cumsum(x, axis=0, dtype=np.int32)
    for strategy in ("lookback", "chained"):
        assert np.array_equal(pydp.scan(x, axis=0, strategy=strategy, spec=spec), want)


@pytest.mark.sweep
@SPECS
@pytest.mark.parametrize("strategy, trouble", [*(("lookback", one) for one in TROUBLES), ("chained", {"suppress": 3})])
def test_in_place_when_predecessors_do_not_answer(device, monkeypatch, spec, strategy, trouble):
    """Not for the simulator: work-groups read elements that others overwrite, which it reports as a race."""
    skip_where_refused(device, strategy, spec)
    monkeypatch.setattr(Call, "copy", lambda *_: pytest.fail("a copy was made"))
    spec = spec | trouble | {"polls": 1}
    for n, (reverse, exclusive) in itertools.product((20, 60, 1500), ((False, False), (True, True))):
        x = integers((n, 5), 14)
        field = pydp.field(x)
        pydp.scan(field, axis=0, reverse=reverse, exclusive=exclusive, out=field, strategy=strategy, spec=spec)
        line = x[::-1] if reverse else x
        want = np.cumsum(line, axis=0, dtype=np.int32) - (line if exclusive else 0)
        assert np.array_equal(field.get(), want[::-1] if reverse else want), (n, reverse)
    x = integers((60, 3), 15)
    flags = np.random.default_rng(16).random(x.shape) < 0.1
    field = pydp.field(x)
    options = {"spec": spec | {"vector": 0}, "strategy": strategy, "init": 3}
    pydp.scan(field, axis=0, segments=pydp.field(flags), out=field, **options)
    assert np.array_equal(field.get(), by_rows(x, add, False, 3, flags))


@pytest.mark.parametrize("in_place", [False, True], ids=["apart", "in place"])
def test_looks_that_never_see_what_is_published(device, monkeypatch, in_place):
    skip_where_refused(device, "lookback", VECTOR)
    marker = "static int recompute("
    rendered = []

    def blind(template, params):
        source = render(template, params)
        assert source.count(marker) == 1
        rendered.append(template)
        return source.replace(marker, f"#define peek(state, tag, p, kind, v) 0\n{marker}")

    monkeypatch.setattr(program, "render", blind)
    x = integers((700, 4), 17)
    field = pydp.field(x)
    spec = VECTOR | {"plain_polls": True, "polls": 43 + in_place}  # kernels are cached: no other test has these
    got = pydp.scan(field, axis=0, out=field if in_place else None, strategy="lookback", spec=spec)
    assert np.array_equal(got.get(), np.cumsum(x, axis=0, dtype=np.int32))
    assert rendered == ["scan_columns.mako"]


def test_float_sums_are_the_same_bits_whatever_the_timing(device):
    skip_where_refused(device, "lookback", VECTOR)
    x = np.random.default_rng(18).standard_normal((2000, 6)).astype(np.float32)
    spec = VECTOR | {"part": 200}
    want = pydp.scan(x, axis=0, strategy="lookback", spec=spec)
    for trouble in (
        {},
        {"order": "reversed", "polls": 1},
        {"order": "permuted", "polls": 3},
        {"suppress": 2, "polls": 1},
    ):
        for _ in range(5):
            assert pydp.scan(x, axis=0, strategy="lookback", spec=spec | trouble).tobytes() == want.tobytes()
            field = pydp.field(x)
            pydp.scan(field, axis=0, out=field, strategy="lookback", spec=spec | trouble)
            assert field.get().tobytes() == want.tobytes()
    np.testing.assert_allclose(want, np.cumsum(x.astype(np.float64), axis=0), atol=1e-3)


def test_many_short_columns_share_work_items(device):
    x = integers((3000, 3, 5), 19)
    assert np.array_equal(pydp.scan(x, axis=1), np.cumsum(x, axis=1, dtype=np.int32))


def test_explain_describes_strips_and_blocks(device):
    skip_where_refused(device, "lookback", VECTOR)
    x = pydp.field(integers((60, 5), 20))
    told = pydp.explain(pydp.scan, x, axis=0, strategy="lookback", spec=VECTOR)
    assert "1 strip(s) of up to 8 of 5 adjacent columns, in 20 partition(s) of up to 3 of 60 rows" in str(told)
    assert "in a single pass (lookback)" in str(told) and told.facts["groups"] == 20
    told = pydp.explain(pydp.scan, x, axis=0, strategy="reduce_then_scan", spec=VECTOR)
    assert "prefixes: 1 strip(s)" in str(told)


def added_late(a: Any, b: Any) -> Any:
    t = a
    for k in range(50):
        t = (t * 1664525 + k) ^ b
    return a + b + (1 if t == 12345 and b == 99999 else 0)


@pytest.mark.parametrize(("n", "columns", "op", "spec"), [
    (1100, 128, "+", {"mapping": "simt", "width": 64}),
    (250, 128, added_late, {"mapping": "simt", "width": 16}),
    (4, 8192, added_late, {"mapping": "vector", "width": 8192, "vector": 0}),
])  # fmt: skip
def test_wide_strips_within_the_iterations_that_a_driver_allows(device, n, columns, op, spec):
    x = integers((n, columns), 21)
    assert np.array_equal(pydp.scan(x, op, axis=0, spec=spec), np.cumsum(x, axis=0, dtype=np.int32))


@pytest.mark.host
@pytest.mark.parametrize(("columns", "expected"), [(1 << 30, True), (1 << 31, False), (1 << 40, False)])
def test_strips_are_numbered_with_32_bits(columns: int, expected: bool) -> None:
    kind, profile = np.dtype(np.uint8), by_target("sm_90")[0]
    layout = layout_of((2, columns), [(columns, 1)] * 2, 0, False)
    assert layout is not None
    job = Job(kind, operator_text("+", kind), layout, "none", None, False, "none", False, "none", False, False)
    assert down_columns(profile, job, ScanSpec("simt", "lookback", width=1)) == expected


@pytest.mark.host
def test_lanes_share_the_rows_of_few_columns() -> None:
    spec = ScanSpec("simt", "lookback", width=1)
    for n, columns, slabs, rows in (
        (8192, 8192, 1, 512),
        (1 << 20, 64, 1, 497),
        (100, 64, 1, 34),
        (63, 64, 1, 63),
        (1 << 20, 1 << 20, 1, 1 << 20),
        (1000, 40, 5, 33),
    ):
        cut = cut_columns(spec, 132, n, columns, slabs)
        assert (cut.rows, cut.chains) == (rows, columns * slabs)
        assert cut.rows == n or cut.chains * -(-n // cut.rows) <= 132 * 1024


@pytest.mark.oclgrind
@pytest.mark.parametrize("exclusive", [False, True])
@pytest.mark.parametrize("width", [1, 3])
def test_blocks_by_lanes(device, exclusive, width):
    """Lanes reduce blocks of rows and scan them; four rows at once, and the rest."""
    spec = {"mapping": "simt", "lanes": 8, "columns": 4, "items": 3, "vector": 0, "width": width}
    for n, columns in ((64, 9), (71, 9), (200, 33)):
        x, flags = integers((2, n, columns), n), integers((2, n, columns), 3, 0, 9) == 0
        found = pydp.scan(x, axis=1, exclusive=exclusive, init=5, spec=spec)
        want = 5 + np.cumsum(x, axis=1, dtype=np.int32)
        assert np.array_equal(found, want - x if exclusive else want)
        segmented = pydp.scan(x, axis=1, segments=flags, spec=spec)
        assert np.array_equal(segmented, pydp.scan(x, axis=1, segments=flags, spec={"mapping": "vector"}))
        told = str(pydp.explain(pydp.scan, x, axis=1, spec=spec))
        assert device.profile.loop_limit is not None or "reduced first" in told
    field = pydp.field(x)
    assert np.array_equal(pydp.scan(field, axis=1, out=field, spec=spec).get(), np.cumsum(x, axis=1, dtype=np.int32))


@pytest.mark.host
@pytest.mark.parametrize("units", [1, 2, 8, 64])
def test_every_core_has_work(units: int) -> None:
    spec = ScanSpec("vector", "lookback", vector=16, width=256)
    for n, columns, slabs in (
        (10_000_000, 8, 1),
        (1_000_000, 64, 1),
        (4096, 4096, 1),
        (1_000_000, 2, 3),
        (9, 1 << 24, 1),
    ):
        for vectors, most in ((True, None), (False, None), (True, 30_000), (False, 30_000), (False, 53)):
            cut = cut_columns(spec, units, n, columns, slabs, vectors, most)
            assert cut.width == cut.pieces * (cut.vector or 1) and cut.vector <= columns
            assert cut.chains == -(-columns // cut.width) * slabs
            assert -(-cut.chains // cut.share) * -(-n // cut.rows) >= 2 * units
            assert cut.rows == n or 2 <= cut.rows < n
            assert most is None or cut.rows * (cut.width + cut.pieces) <= most


@pytest.mark.host
def test_strips_have_whole_vectors() -> None:
    spec = ScanSpec("vector", "lookback", vector=8, width=8)
    for columns in range(2, 70):
        cut = cut_columns(spec, 2, 10, columns, 1)
        strips = -(-columns // cut.width)
        firsts = [min(s * cut.width, columns - cut.vector) for s in range(strips)] + [columns]
        assert all(b - a >= cut.vector for a, b in itertools.pairwise(firsts)), columns
        assert all(b - a <= cut.width for a, b in itertools.pairwise(firsts)), columns
