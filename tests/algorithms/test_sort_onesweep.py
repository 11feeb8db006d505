"""The radix sort of GPUs against NumPy's stable sort, bit for bit, with tiles so small that short arrays have many."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any

import needs
import numpy as np
import pyopencl as cl
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from made_up import profile
from sort_samples import KINDS, TYPES, indices, made

import pydp
from pydp.algorithms.sort.onesweep_policy import STRATEGIES, sweep, sweep_default
from pydp.algorithms.sort.policy import FAMILY
from pydp.algorithms.sort.spec import SortProblem
from pydp.model.architectures import by_target
from pydp.model.ranking import rank
from pydp.tuning.choose import forget

# Tiles of 48 elements; digits of 6 bits.
TILE = {"mapping": "simt", "lanes": 16, "items": 3, "run": 48, "small": 1, "stretch": 1, "digit": 6}
LENGTHS = [1, 2, 15, 16, 17, 47, 48, 49, 95, 96, 97, 1000, 2500]


@pytest.fixture(params=STRATEGIES)
def tiled(request: Any, device: Any) -> dict[str, Any]:
    """The specialization of each strategy that the device can run."""
    if request.param == "onesweep":
        needs.endless_loops(device)
    return {**TILE, "strategy": request.param}


@pytest.fixture
def swept(device: Any) -> dict[str, Any]:
    """The specialization with look-back."""
    needs.endless_loops(device)
    return {**TILE, "strategy": "onesweep"}


def _check(x: np.ndarray, spec: Any, descending: bool = False, axis: int = -1, values: Any = None) -> None:
    """Check sort_by_key with `values`, or else argsort."""
    wanted = indices(x, descending, axis)
    named: dict[str, Any] = {"spec": spec, "descending": descending, "axis": axis}
    if values is None:
        assert np.array_equal(pydp.argsort(x, **named), wanted)
        return
    got_keys, got_values = pydp.sort_by_key(x, values, **named)
    assert got_keys.tobytes() == np.take_along_axis(x, wanted, axis).tobytes()
    assert got_values.tobytes() == np.take_along_axis(values, wanted, axis).tobytes()


def _check_sort(x: np.ndarray, spec: Any, descending: bool = False) -> None:
    got = pydp.sort(x, spec=spec, descending=descending)
    assert got.dtype == x.dtype and got.tobytes() == x[indices(x, descending)].tobytes()


@pytest.mark.sweep
@pytest.mark.parametrize("dtype", TYPES)
def test_all_types(device: Any, swept: Any, dtype: str) -> None:
    needs.dtype(device, dtype)
    descending = TYPES.index(dtype) % 2 == 1
    for place, n in enumerate(LENGTHS):
        kinds = KINDS[place % 5 :: 5] if n > 1 else ["random"]
        for kind in kinds:
            x = made(dtype, n, kind, n + place)
            _check_sort(x, swept, descending)
    for kind in KINDS:
        _check_sort(made(dtype, 500, kind, 3), swept, descending)


@pytest.mark.parametrize("dtype", ["u1", "f4"])
def test_order_of_equal_keys(tiled: Any, dtype: str) -> None:
    for place, kind in enumerate(KINDS):
        for n in (LENGTHS[place % len(LENGTHS)], 700):
            _check(made(dtype, n, kind, n), tiled)


@pytest.mark.sweep
@settings(max_examples=40, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(data=st.data())
def test_equals_numpy(device: Any, tiled: Any, data: Any) -> None:
    dtype = data.draw(st.sampled_from(["i4", "f4"]))
    n = data.draw(st.one_of(st.sampled_from(LENGTHS), st.integers(0, 3000)))
    x = made(dtype, n, data.draw(st.sampled_from(KINDS)), data.draw(st.integers(0, 1 << 32)))
    values = None
    if data.draw(st.booleans()):
        values = np.arange(n).astype(data.draw(st.sampled_from(["i4", "i4,u1"])))
    _check(x, tiled, values=values)


@pytest.mark.sweep
@pytest.mark.parametrize("value", ["i1", "f8", "c16", "i4,u1"])
def test_values_of_all_sizes(swept: Any, value: str) -> None:
    x = made("i2", 500, "few", 1)
    values = np.frombuffer(np.random.default_rng(2).bytes(500 * np.dtype(value).itemsize), value)
    _check(x, swept, values=values)


@pytest.mark.parametrize("shape, axis", [((7, 100), 1), ((100, 5), 0), ((3, 49, 2), 1), ((60, 3), 1), ((2, 2000), 1)])
def test_rows(tiled: Any, shape: tuple[int, ...], axis: int) -> None:
    """Rows that skip different passes, in tiles of their own; rows that are not adjacent are copied."""
    x = made("i4", math.prod(shape), "random", 3).reshape(shape)
    rows = np.moveaxis(x, axis, -1)
    rows[..., 0:1, :] &= 63 << 12
    rows[..., 1:2, :] = 7
    values = np.arange(x.size, dtype=np.int32).reshape(shape)
    _check(x, tiled, axis=axis, values=values)
    wide = np.zeros((shape[0], *(2 * size for size in shape[1:])), np.int32)
    view = wide[tuple(slice(None, None, 1 if k == 0 else 2) for k in range(len(shape)))]
    view[...] = x
    _check(view, tiled, axis=axis, values=values)


@pytest.mark.sweep
@pytest.mark.parametrize("lanes, items, digit", [(32, 15, 8), (64, 4, 5), (96, 5, 7), (512, 3, 1)])
def test_sizes_of_tiles_and_digits(device: Any, tiled: Any, lanes: int, items: int, digit: int) -> None:
    if lanes > device.profile.max_group_size:
        pytest.skip("the device has smaller work-groups")
    spec = {**tiled, "lanes": lanes, "items": items, "run": lanes * items, "digit": digit}
    for n in (lanes * items - 1, lanes * items, lanes * items + 1, 7 * lanes * items + 5):
        for kind in ("random", "few", "skew99"):
            _check(made("u2", n, kind, n), spec)


@pytest.mark.oclgrind
@pytest.mark.parametrize("dtype", ["u1", "f4"])
def test_every_phase(tiled: Any, dtype: str) -> None:
    """All kinds of carried values; one tile, and several; rows; passes that move nothing."""
    for n, kind in ((30, "random"), (150, "few"), (150, "near"), (100, "equal")):
        _check(made(dtype, n, kind, n), tiled, values=np.arange(n, dtype=np.int16))
    _check(made(dtype, 130, "special", 1), tiled, descending=True)
    rows = made(dtype, 180, "special", 2).reshape(3, 60)
    _check(rows, tiled, axis=1, values=np.arange(180).reshape(3, 60).astype("i4,u1"))


@pytest.mark.parametrize(
    "order, suppress, plain",
    [
        pytest.param("ticket", 1, False, marks=pytest.mark.oclgrind),
        pytest.param("reversed", 0, False, marks=pytest.mark.oclgrind),
        ("permuted", 3, True),  # the simulator reports plain loads of words that others publish
        ("reversed", 2, True),
    ],
)
def test_tiles_that_do_not_publish(swept: Any, order: str, suppress: int, plain: bool) -> None:
    """A work-group counts the digits of earlier tiles itself if they are not published, in any order of the groups."""
    spec = {**swept, "order": order, "suppress": suppress, "polls": 2, "plain_polls": plain}
    for kind, n in (("random", 300), ("few", 250)):
        _check(made("u2", n, kind, n), spec)
    rows = made("u2", 300, "random", 7).reshape(3, 100)
    _check(rows, spec)


def test_slots_without_64_bit_atomics(device: Any, swept: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """A slot has two words of 32 bits. The queue is new, because its slots have no words of other sizes."""
    queue = cl.CommandQueue(device.context, device.cl)
    x = made("u2", 500, "random", 1)
    with monkeypatch.context() as patch:
        patch.setattr(device, "_profile", replace(device.profile, int64_atomics=False))
        forget()
        for keys in (x, x // 9):
            assert np.array_equal(pydp.argsort(keys, spec=swept, queue=queue), indices(keys))
    forget()


def test_more_work_groups_than_run_at_once(tiled: Any) -> None:
    for kind, predecessors in (("random", 1), ("skew99", 7)):
        _check(made("u4", 60_000, kind, 1), {**tiled, "digit": 8, "predecessors": predecessors})


@pytest.mark.parametrize("bits", [(0, 6), (0, 24), (26, 32)])
def test_in_place_with_any_number_of_passes(tiled: Any, bits: tuple[int, int]) -> None:
    """The result overwrites the source in the last pass that moves elements, so at least two passes move them."""
    mask = (1 << bits[1]) - (1 << bits[0])
    x = made("u4", 700, "random", 4) & np.uint32(mask)
    for keys in (x, x & np.uint32(0), np.repeat(x[:1], 700)):
        field = pydp.field(keys)
        assert pydp.sort(field, out=field, spec=tiled) is field
        assert np.array_equal(field.get(), np.sort(keys))
        assert np.array_equal(pydp.sort(keys, spec=tiled), np.sort(keys))


@pytest.mark.sweep
def test_out(tiled: Any) -> None:
    x = made("i4", 700, "random", 4)
    shifted = np.zeros(701, np.int32)
    pydp.sort(x, out=shifted[1:], spec=tiled)
    assert shifted[0] == 0 and np.array_equal(shifted[1:], np.sort(x))
    half = np.concatenate([x, x])
    pydp.sort(half[:700], out=half[300:1000], spec=tiled)
    assert np.array_equal(half[300:1000], np.sort(x)) and np.array_equal(half[1000:], x[300:])
    for kind in ("random", "near", "equal"):
        positions = pydp.field(made("i8", 300, kind, 5))
        wanted = np.argsort(positions.get(), kind="stable")
        pydp.argsort(positions, out=positions, spec={**tiled, "digit": 8})
        assert np.array_equal(positions.get(), wanted)
    small = pydp.field(made("u1", 300, "random", 5))  # a single pass
    wanted = np.sort(small.get())
    pydp.sort(small, out=small, spec={**tiled, "digit": 8})
    assert np.array_equal(small.get(), wanted)


def test_repeated_calls_with_other_contents(tiled: Any) -> None:
    """A recorded call skips the passes of its own keys."""
    for kind in [*KINDS, *reversed(KINDS)]:
        x = made("i4", 700, kind, 9)
        assert np.array_equal(pydp.argsort(pydp.field(x), spec=tiled).get(), indices(x)), kind


@pytest.mark.sweep
@pytest.mark.parametrize("bits", [(3, 12), (5, 16), (7, 7)])
def test_a_window_of_bits(swept: Any, bits: tuple[int, int]) -> None:
    x = made("u2", 500, "random", 6)
    wanted = indices(x >> np.uint32(bits[0]) & ((1 << bits[1] - bits[0]) - 1))
    assert np.array_equal(pydp.argsort(x, bits=bits, spec=swept), wanted)
    assert np.array_equal(pydp.sort(x, bits=bits, spec=swept), x[wanted])
    signed = x.view(np.int16)
    wanted = indices(-((x ^ 0x8000) >> np.uint32(bits[0]) & ((1 << bits[1] - bits[0]) - 1)).astype(np.int64))
    assert np.array_equal(pydp.argsort(signed, bits=bits, descending=True, spec=swept), wanted)


def test_keys_that_only_a_merge_sort_takes(tiled: Any) -> None:
    for call in (
        lambda: pydp.sort(np.arange(9), less=lambda a, b: a < b, spec=tiled),
        lambda: pydp.sort(np.zeros(9, [("a", "i4"), ("b", "f4")]), spec=tiled),
        lambda: pydp.sort(np.zeros(9, np.complex64), spec=tiled),
    ):
        with pytest.raises(pydp.InvalidArgument, match="need 'merge'"):
            call()


def test_a_driver_that_ends_loops(device: Any) -> None:
    needs.ended_loops(device)
    with pytest.raises(pydp.InvalidArgument, match="'reduce_then_scan' is accepted"):
        pydp.sort(np.arange(9), spec={**TILE, "strategy": "onesweep"})
    x = made("i4", 300_000, "random", 1)
    _check(x, {**TILE, "strategy": "reduce_then_scan", "digit": 8, "lanes": 64, "run": 192})


def test_explanation(tiled: Any) -> None:
    told = str(pydp.explain(pydp.sort, np.zeros((2, 3000), np.int32), spec=tiled))
    assert "6 pass(es) by digits of 6 bits" in told and "126 tile(s) of 48 elements" in told
    assert ("look-back" in told) == (tiled["strategy"] == "onesweep")
    assert "sort_pass" in told or "sort_count" in told


GPU = profile(compute_units=16, l2_bytes=1 << 22, max_allocation=1 << 32, group_progress=True)
NUMBERS = SortProblem("int32", 1 << 24, 1, 4, element_bytes=4)


@pytest.mark.host
def test_default_by_device() -> None:
    assert FAMILY.default(GPU, NUMBERS).strategy == "onesweep"
    assert FAMILY.default(replace(GPU, group_progress=False), NUMBERS).strategy == "reduce_then_scan"
    assert FAMILY.default(GPU, replace(NUMBERS, element_bytes=0)).strategy == "merge"
    assert FAMILY.default(GPU, replace(NUMBERS, n=1000)).strategy == "merge"
    assert FAMILY.default(replace(GPU, kind="cpu", l1_bytes=1 << 15), NUMBERS).strategy == "merge"
    wide = replace(NUMBERS, dtype="int64", item_bytes=16, element_bytes=16)
    assert FAMILY.default(replace(GPU, local_bytes=32768), wide).items < FAMILY.default(GPU, NUMBERS).items
    kinds = {spec.strategy for spec in FAMILY.candidates(GPU, NUMBERS)}
    assert kinds == {"onesweep", "reduce_then_scan", "merge"}


@pytest.mark.host
@pytest.mark.parametrize("n", [1 << 20, 1 << 24, 1 << 27])
@pytest.mark.parametrize("dtype, carried", [("int32", 0), ("float32", 4), ("int64", 0), ("float64", 8), ("uint64", 4)])
def test_the_model_sorts_long_rows_by_radix(dtype: str, carried: int, n: int) -> None:
    """On an H200, 2^24 int64 took 13 ms by a merge sort."""
    gpu = by_target("sm_90")[0]
    key = int(dtype[-2:]) // 8
    problem = SortProblem(dtype, n, 1, key + carried, element_bytes=2 * key if carried else key)
    best = rank(FAMILY, gpu, problem)[0].spec
    assert best.strategy == "onesweep" and best.run >= 3840 * 4 // (key + carried)


@pytest.mark.host
@pytest.mark.parametrize(
    "fields, says",
    [
        ({"mapping": "vector"}, "'simt' is accepted"),
        ({"lanes": 48, "run": 1104}, "16 and multiples of 32 are accepted"),
        ({"predecessors": 0}, "predecessors is 0"),
        ({"digit": 9}, "1 to 8 are accepted"),
        ({"lanes": 8, "run": 184}, "16 to 1024 are accepted"),
        ({"run": 1000}, "5888, is accepted"),
        ({"items": 100, "run": 25600}, "bytes of local memory"),
        ({"items": 255, "run": 65280}, "up to 32768"),
        ({"suppress": 2, "polls": 0}, "at least 1"),
        ({"order": "sorted"}, "'ticket', 'reversed' and 'permuted' are accepted"),
    ],
)
def test_refused(fields: dict[str, Any], says: str) -> None:
    spec = sweep_default(GPU, NUMBERS)
    assert FAMILY.check(GPU, NUMBERS, spec) is None
    assert says in str(FAMILY.check(GPU, NUMBERS, replace(spec, **fields)))


@pytest.mark.host
def test_too_many_slots() -> None:
    many = replace(NUMBERS, n=1 << 31)
    small = replace(sweep_default(GPU, many), lanes=16, items=3, run=48)
    assert "must be below 2**31" in str(FAMILY.check(GPU, many, small))
    assert FAMILY.check(GPU, many, sweep_default(GPU, many)) is None
    for n, accepted in (((1 << 32) - (1 << 24), True), ((1 << 32) - 1000, False), (5 * 10**9, False)):
        long = replace(NUMBERS, n=n)
        why = FAMILY.check(GPU, long, sweep_default(GPU, long))
        assert why is None if accepted else "'merge' is accepted" in str(why)
        assert accepted or FAMILY.default(GPU, long).strategy == "merge"
    short = replace(GPU, loop_limit=65535)
    assert "need larger tiles" in str(FAMILY.check(short, many, replace(small, strategy="reduce_then_scan")))
    assert FAMILY.check(short, many, sweep_default(short, many)) is None


@pytest.mark.host
@pytest.mark.parametrize("n", [1, 100, 5888, 5889, 1 << 20, (1 << 28) + 7])
@pytest.mark.parametrize("rows", [1, 3, 1000])
@pytest.mark.parametrize("limit", [None, 65535])
def test_sizes(n: int, rows: int, limit: int | None) -> None:
    """Tiles, parts and walks cover each row, and no more work-groups than that are launched."""
    spec = sweep_default(GPU, NUMBERS)
    for bits in (8, 16, 32, 64, 5):
        sizes = sweep(replace(GPU, loop_limit=limit), spec, n, rows, bits)
        assert sizes.passes * sizes.width >= bits > (sizes.passes - 1) * sizes.width and sizes.width <= spec.digit
        assert sizes.per_row * sizes.tile >= n > (sizes.per_row - 1) * sizes.tile
        assert sizes.parts * sizes.part >= n > (sizes.parts - 1) * sizes.part and sizes.part % spec.lanes == 0
        assert sizes.walks * sizes.walk >= sizes.per_row > (sizes.walks - 1) * sizes.walk


@pytest.mark.host
def test_counts_for_the_model() -> None:
    spec = sweep_default(GPU, NUMBERS)
    assert FAMILY.counts is not None
    counts, _, passes = FAMILY.counts(GPU, NUMBERS, spec).phases
    assert counts.read == 4 << 24 and passes.launches == 4
    assert 4 * 8 << 24 < passes.bytes < 4 * 13 << 24  # every pass reads and writes each key, and its slots
    twice = FAMILY.counts(GPU, NUMBERS, replace(spec, strategy="reduce_then_scan"))
    assert sum(one.read for one in twice.phases) > counts.read + passes.read
