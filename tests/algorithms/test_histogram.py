"""pydp.histogram and pydp.bincount against NumPy's."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from banked import banked
from made_up import profile

import pydp
from pydp.algorithms._histogram_spec import FAMILY
from pydp.lds import GPU, degree
from pydp.specialize.family import Problem

SIMT = {"mapping": "simt", "parts": 3, "lanes": 16, "sets": 4, "pad": 1, "copies": 1, "waves": 2}
VECTOR = {"mapping": "vector", "parts": 3, "copies": 4, "lanes": 1, "sets": 1, "pad": 0}
OWN = {**SIMT, "counters": "own", "waves": 1}
REGISTERS = {**SIMT, "counters": "registers", "constants": True, "waves": 3}
NAMES = ["simt", "vector", "own", "registers"]


@pytest.mark.oclgrind
@pytest.mark.parametrize("spec", [SIMT, VECTOR, OWN, REGISTERS], ids=NAMES)
def test_small(device: Any, spec: Any) -> None:
    rng = np.random.default_rng(0)
    for n in (0, 1, 7, 801):
        x = rng.integers(0, 9, n).astype(np.int32)
        assert np.array_equal(pydp.bincount(x, spec=spec), np.bincount(x))
    x = rng.random(300, dtype=np.float32)
    counts, edges = pydp.histogram(x, bins=7, spec=spec)
    expected, expected_edges = np.histogram(x, bins=7)
    assert np.array_equal(counts, expected) and np.array_equal(edges, expected_edges)


def test_bincount(device: Any) -> None:
    rng = np.random.default_rng(1)
    for dtype in (np.uint8, np.bool_, np.int16, np.uint32, np.int64):
        x = rng.integers(0, 2 if dtype is np.bool_ else 100, 100_003).astype(dtype)
        expected = np.bincount(x.astype(np.int64))
        for view in (np.s_[:], np.s_[::-3]):
            result = pydp.bincount(x[view])
            assert result.dtype == np.int64 and np.array_equal(result, np.bincount(x[view].astype(np.int64)))
        assert np.array_equal(pydp.bincount(x, minlength=300), np.bincount(x.astype(np.int64), minlength=300))
        field = pydp.bincount(pydp.field(x))
        assert isinstance(field, pydp.Field) and np.array_equal(field.get(), expected)
    sparse = rng.integers(0, 100_000, 5000).astype(np.int32)
    assert np.array_equal(pydp.bincount(sparse), np.bincount(sparse))


def test_histogram_types_and_bins(device: Any) -> None:
    rng = np.random.default_rng(2)
    for dtype in (np.float32, np.int8, np.uint16, np.int32, np.uint64):
        x = (rng.standard_normal((50, 401)) * 30).astype(np.int64).clip(-120, 120)
        x = (np.abs(x) if np.dtype(dtype).kind == "u" else x).astype(dtype)
        cases: list[tuple[Any, Any]] = [
            (10, None),
            (37, (-20, 20)),
            (3, (5, 5)),
            ([-50, -3, 0, 4, 50], None),
            ([0.5, 1.5, 30], None),
        ]
        for bins, limits in cases:
            counts, edges = pydp.histogram(x, bins, limits)
            expected, expected_edges = np.histogram(x, bins, limits)
            assert np.array_equal(counts, expected) and np.array_equal(edges, expected_edges), (dtype, bins, limits)
    x = rng.random(1000, dtype=np.float32)
    x[::10] = np.nan
    assert np.array_equal(pydp.histogram(x, 5, (0, 1))[0], np.histogram(x, 5, (0, 1))[0])


EDGES = {"default": None, "constants": {**SIMT, "constants": True}, "own": OWN, "registers": REGISTERS}


@pytest.mark.parametrize("spec", EDGES.values(), ids=EDGES)
def test_edges_are_met_exactly(device: Any, spec: Any) -> None:
    for bins in (31, 13) if spec else (37, 13):
        edges = np.linspace(-1, 1, bins + 1, dtype=np.float32)
        x = np.concatenate([edges, np.nextafter(edges, np.float32(9)), np.nextafter(edges, np.float32(-9)), [np.nan]])
        x = x.astype(np.float32)
        assert np.array_equal(pydp.histogram(x, bins, (-1, 1), spec=spec)[0], np.histogram(x, bins, (-1, 1))[0])
        assert np.array_equal(pydp.histogram(x, edges, spec=spec)[0], np.histogram(x, edges)[0])


def test_every_way_of_counting_for_banks(device: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """As on a device with 32 banks of 4 bytes: slots of the lanes' own in rows of 32 lanes."""
    with banked(device, monkeypatch):
        x = np.random.default_rng(5).integers(0, 40, 5003).astype(np.uint8)
        for spec in ({**OWN, "lanes": 64}, {**SIMT, "lanes": 64, "waves": 4}):
            assert np.array_equal(pydp.bincount(x, spec=spec), np.bincount(x))
            counts = pydp.histogram(x, 20, (0, 40), spec=spec)[0]
            assert np.array_equal(counts, np.histogram(x, 20, (0, 40))[0])
        told = str(pydp.explain(pydp.histogram, x, 20, spec={**OWN, "lanes": 64}))
        assert "slots of its own" in told and "barrier 'counted'" in told


@pytest.mark.host
def test_sets_lie_in_different_banks() -> None:
    """One bin of the sets that lanes ask together: with 31 bins it is no entry between the sets that does it."""
    given = profile(compute_units=8, loop_limit=None)
    for bins in (1, 15, 16, 31, 32, 33, 63, 64, 100, 256):
        for spec in FAMILY.candidates(given, Problem("histogram", "uint32", (1 << 20, bins))):
            stretch, row = spec.lanes // spec.sets, bins + spec.pad
            asked = [4 * row * (lane // stretch) for lane in range(32)]
            assert degree(GPU, asked) == 1, (bins, spec)


def test_weights_and_density(device: Any) -> None:
    rng = np.random.default_rng(3)
    x = rng.integers(0, 30, 20_000).astype(np.int32)
    weights = rng.integers(-4, 5, x.size).astype(np.float32)
    counts, _ = pydp.histogram(x, 6, weights=weights)
    assert counts.dtype == np.float32 and np.array_equal(counts, np.histogram(x, 6, weights=weights)[0])
    runs = {pydp.histogram(x, 6, weights=np.sqrt(x).astype(np.float32))[0].tobytes() for _ in range(4)}
    assert len(runs) == 1
    assert np.allclose(pydp.histogram(x, 6, density=True)[0], np.histogram(x, 6, density=True)[0])
    if device.profile.fp64:
        assert np.array_equal(pydp.bincount(x, weights), np.bincount(x, weights))
    else:
        with pytest.raises(pydp.UnsupportedOnDevice):
            pydp.bincount(x, weights)


def test_a_bin_for_each_value_of_the_type(device: Any) -> None:
    """The 256 bins of an image's bytes are counted as bincount does; 255 or 256 of other sizes are not."""
    image = np.random.default_rng(5).integers(0, 256, (61, 67)).astype(np.uint8)
    share = np.random.default_rng(6).integers(1, 9, image.shape).astype(np.float32)
    for bins, limits in ((256, (0, 256)), (np.arange(257), None), (255, (0, 256)), (256, (0, 255)), (256, (1, 257))):
        for weights in (None, share):
            got, edges = pydp.histogram(image, bins, limits, weights, device=device)
            wanted, wanted_edges = np.histogram(image, bins, limits, weights=weights)
            assert np.array_equal(got, wanted)
            assert np.array_equal(edges, wanted_edges)
    words = image.astype(np.uint16) * 257
    assert np.array_equal(
        pydp.histogram(words, 65536, (0, 65536), device=device)[0], np.bincount(words.ravel(), minlength=65536)
    )
    text = "found_0"
    assert text not in "".join(pydp.explain(pydp.histogram, image, 256, (0, 256), device=device).sources.values())


def test_wrong_arguments(device: Any) -> None:
    x = np.arange(10, dtype=np.int32)
    for wrong in (-x, x.astype(np.float32), x.reshape(2, 5)):
        with pytest.raises(pydp.InvalidArgument):
            pydp.bincount(wrong)
    for words in ({"waves": 0}, {"counters": "none"}, {"barriers": "all"}, {"sets": 3}):
        with pytest.raises(pydp.InvalidArgument, match=next(iter(words))):
            pydp.bincount(x, spec=words)
    for words in ({"counters": "registers"}, {"constants": True}):
        with pytest.raises(pydp.InvalidArgument, match="at most 32 bins, not of 33"):
            pydp.histogram(x, 33, spec=words)
    for named in ({"minlength": -1}, {"weights": x[:3]}, {"spec": {"copies": 3}}, {"spec": {"nonsense": 1}}):
        with pytest.raises(pydp.InvalidArgument):
            pydp.bincount(x, **named)
    for named in ({"bins": "auto"}, {"bins": 0}, {"bins": [3, 1]}, {"range": (2, 1)}, {"weights": x[:3]}):
        with pytest.raises(pydp.InvalidArgument):
            pydp.histogram(x, **named)
    with pytest.raises(pydp.InvalidArgument):
        pydp.histogram(np.array([1, np.nan], np.float32))


def test_explain(device: Any) -> None:
    x = np.zeros(1000, np.uint8)
    assert "bins" in str(pydp.explain(pydp.histogram, x)) and "bins" in str(pydp.explain(pydp.bincount, x))


def test_many_values_among_uneven_and_even_bins(device: Any) -> None:
    """More values than one work-item's loops take on drivers that end long ones; with NaN, infinities and outsiders."""
    rng = np.random.default_rng(8)
    x = rng.standard_normal(600_001).astype(np.float32)
    x[::1000], x[1::1000], x[2::1000] = np.nan, np.inf, -np.inf
    edges = np.sort(rng.standard_normal(65)).astype(np.float32)
    assert np.array_equal(pydp.histogram(x, edges)[0], np.histogram(x, edges)[0])
    assert np.array_equal(pydp.histogram(x, 100, (-1, 2))[0], np.histogram(x, 100, (-1, 2))[0])
    assert np.array_equal(pydp.histogram(x[::3], 100, (-1, 2))[0], np.histogram(x[::3], 100, (-1, 2))[0])
    whole = rng.integers(-(2**40), 2**40, 50_000)
    for bins in (7, np.array([-(2**39), -5, 0, 2**20, 2**39 + 1])):
        assert np.array_equal(pydp.histogram(whole, bins)[0], np.histogram(whole, bins)[0])
