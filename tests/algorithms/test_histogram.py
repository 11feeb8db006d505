"""pydp.histogram and pydp.bincount against NumPy's."""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np
import pytest
from banked import banked
from hypothesis import assume, given
from hypothesis import strategies as st
from made_up import profile

import pydp
from pydp.algorithms.histogram.edges import Search, binning, reached, search, thresholds
from pydp.algorithms.histogram.policy import FAMILY, HistogramProblem, divide
from pydp.local_memory import GPU, degree

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


@pytest.mark.parametrize("spec", EDGES.values(), ids=EDGES)
def test_edges_of_more_digits_than_the_values(device: Any, spec: Any) -> None:
    """float32(0.7) lies below 0.7, float32(0.1) above 0.1: values are compared with the edges themselves."""
    x = np.array([0.7, 0.1, 0.3, 0.2, 0.9, np.inf, -np.inf, np.nan], np.float32)
    for edges in (
        [0, 0.7, 1],
        [0, 0.1],
        [0.1, 0.7],
        [0.3, 0.2**0.5, 0.9],
        [-1e300, 0.2, 1e300],
        [-np.inf, 0.7, np.inf],
    ):
        assert np.array_equal(pydp.histogram(x, edges, spec=spec)[0], np.histogram(x, edges)[0]), edges
    ends = (np.float64(0.1), np.float64(0.7))
    assert np.array_equal(pydp.histogram(x, 3, ends, spec=spec)[0], np.histogram(x, 3, ends)[0])


def test_edges_beyond_the_values_type(device: Any) -> None:
    """Whole numbers of 64 bits, with edges that are none: infinite ones, and such that no value reaches."""
    most, largest = 2**63 - 1, 2**64 - 1
    cases: list[tuple[Any, Any, list[int]]] = [
        (np.uint64([0, 1]), [-5, -1], [0]),
        (np.uint64([0, 1, largest]), [-5, -1, 1], [0, 2]),
        (np.uint64([0, 1, 2**63, largest]), [-9, -5, -3, -1], [0, 0, 0]),
        (np.int64([0, most]), [1e19, 2e19], [0]),
        (np.int64([0, most]), [0, 5, 1e19, 2e19, 3e19], [1, 1, 0, 0]),
        (np.int64([0, most, -most]), [-np.inf, 2, np.inf], [2, 1]),
        (np.uint64([0, 9, largest]), [-np.inf, 5, 1e30, np.inf], [1, 2, 0]),
        (np.int64([-most, 0]), [-np.inf, -1e19, -1e19], [0, 0]),
        (np.int64([2**53, 2**53 + 1]), np.array([0, 2**53 + 1, 2**60]), [1, 1]),
        (np.int32([3, 4]), [-np.inf, 3.5, 1e30], [1, 1]),
    ]
    for x, edges, expected in cases:
        assert pydp.histogram(x, edges)[0].tolist() == expected, edges
        counts = pydp.histogram(x, edges, weights=np.full(x.size, 2, np.float32))[0]
        assert counts.tolist() == [2 * count for count in expected]
    assert pydp.histogram(np.int32([3, 4]), [3])[0].shape == (0,)
    on_device = pydp.histogram(pydp.field(cases[3][0]), cases[3][1])[0]
    assert isinstance(on_device, pydp.Field) and on_device.get().tolist() == cases[3][2]


@pytest.mark.parametrize("first", [2**53 - 30, -(2**53) - 90, 2**62 - 50, 2**63 + 2**11])
def test_integers_that_float64_rounds_are_compared_exactly(device: Any, first: int) -> None:
    """NumPy's edges, but counts that are right where NumPy's are of rounded values: Python compares by value."""
    dtype, apart = np.dtype(np.uint64 if first > 2**62 else np.int64), int(np.spacing(float(abs(first))))
    whole = [first + step * (apart // 2 + 1) for step in range(200)]
    x = np.array(whole, dtype)
    given = [float(first) + 8 * apart * place for place in range(-1, 9)]
    equal: Any = 3
    bins_of_call = [equal, given]
    if 0 < first < 2**63:
        bins_of_call += [np.array(given, "i8"), np.array(given, "u8")]
    for bins in bins_of_call:
        counts, edges = pydp.histogram(x, bins, device=device)
        np.testing.assert_array_equal(edges, np.histogram_bin_edges(x, bins))
        limits = edges.tolist()
        if bins is equal:
            limits[0], limits[-1] = whole[0], whole[-1]  # equal bins hold all values, whatever their edges round to
        inside = [value for value in whole if limits[0] <= value <= limits[-1]]
        expected = [sum(low <= value < high for value in inside) for low, high in itertools.pairwise(limits)]
        expected[-1] += sum(value == limits[-1] for value in inside)
        assert counts.tolist() == expected, bins


@pytest.mark.parametrize("spec", [None, SIMT], ids=["default", "simt"])
def test_a_narrow_range_far_from_zero(device: Any, spec: Any) -> None:
    """Seconds of a clock: the first guess of a bin, in float, is of the distance from the first edge."""
    step = np.random.default_rng(9).integers(-50, 1050, 5001)
    for first, dtype in ((1_700_000_000, np.int32), (1_700_000_000_000_000, np.int64), (2**63 + 1024, np.uint64)):
        x, edges = ((whole.astype(object) + first).astype(dtype) for whole in (step, np.arange(1001)))
        counts = pydp.histogram(x, edges, spec=spec)[0]
        expected = np.bincount(step[(step >= 0) & (step < 1000)], minlength=1000)
        expected[-1] += np.count_nonzero(step == 1000)
        assert np.array_equal(counts, expected)
        if first < 2**53:
            assert np.array_equal(pydp.histogram(x, 1000, (first, first + 1000), spec=spec)[0], expected)
    for ends in ((-(2.0**62), 2.0**62), (0.25, 2.0**40 + 0.5)):
        x = np.random.default_rng(10).integers(-(2**63), 2**63 - 1, 4001)
        x[::3] >>= 23
        edges = np.histogram_bin_edges(x, 37, ends)
        assert np.array_equal(pydp.histogram(x, 37, ends, spec=spec)[0], pydp.histogram(x, edges, spec=spec)[0])


@pytest.mark.host
@given(st.lists(st.floats(allow_nan=False), min_size=2, max_size=5), st.sampled_from("fdlL"))
def test_thresholds(given_edges: list[float], kind: str) -> None:
    dtype = np.dtype(kind)
    edges = reached(dtype, np.sort(given_edges))
    assume(len(edges) >= 2)
    found = thresholds(edges, dtype)
    with np.errstate(over="ignore"):
        near = np.concatenate([edges, np.nextafter(edges, -np.inf), np.nextafter(edges, np.inf)])
        if dtype.kind == "f":
            values = near.astype(dtype)
            values = np.concatenate([values, np.nextafter(values, dtype.type(np.inf))])
        else:
            least, most = np.iinfo(dtype).min, np.iinfo(dtype).max
            whole = [int(value) + d for value in near if np.isfinite(value) for d in (-1, 0, 1)]
            values = np.array([min(max(value, least), most) for value in [*whole, 0, least, most]], dtype)
    for value in values:
        exact, limits = value.item(), [edge.item() for edge in edges]  # Python compares numbers of both kinds exactly
        assert (found[0] <= value <= found[-1]) == (limits[0] <= exact <= limits[-1])
        if limits[0] <= exact <= limits[-1]:
            assert [bool(value >= edge) for edge in found[1:-1]] == [exact >= edge for edge in limits[1:-1]]


def test_every_way_of_counting_for_banks(device: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """As on a device with 32 banks of 4 bytes: slots of the lanes' own in rows of 32 lanes."""
    with banked(device, monkeypatch):
        x = np.random.default_rng(5).integers(0, 40, 5003).astype(np.uint16)
        for spec in ({**OWN, "lanes": 64}, {**SIMT, "lanes": 64, "waves": 4}):
            assert np.array_equal(pydp.bincount(x, spec=spec), np.bincount(x))
            counts = pydp.histogram(x, 20, (0, 40), spec=spec)[0]
            assert np.array_equal(counts, np.histogram(x, 20, (0, 40))[0])
        told = str(pydp.explain(pydp.histogram, x, 20, spec={**OWN, "lanes": 64}))
        assert "its own bins" in told and "barrier 'counted'" in told


@pytest.mark.host
def test_sets_lie_in_different_banks() -> None:
    """One bin of the sets that lanes ask together: with 31 bins it is no entry between the sets that does it."""
    made_up = profile(compute_units=8, loop_limit=None)
    for bins in (1, 15, 16, 31, 32, 33, 63, 64, 100, 256):
        for spec in FAMILY.candidates(made_up, HistogramProblem("uint32", 1 << 20, bins)):
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


@pytest.mark.oclgrind
@pytest.mark.parametrize("spec", [VECTOR, {**SIMT, "lanes": 32}], ids=["vector", "simt"])
def test_weights_of_every_dtype(device: Any, spec: Any) -> None:
    """Also equal bins next to each other, in one tile of lanes and in several; and bins without elements."""
    rng = np.random.default_rng(16)
    kinds = "bBhHiIqfQF" + "dD" * device.profile.fp64
    for n in (0, 1, 31, 33, 700):
        x = rng.integers(0, 12, n).astype(np.float32)
        x[n // 3 : n // 2] = 5
        for place, kind in enumerate(kinds):
            weights = rng.integers(0, 9, n).astype(kind)
            if kind in "FD":
                weights = (weights + 1j * rng.integers(-9, 9, n)).astype(kind)
            bins, limits = ((10, (0, 11)), ([0, 0.5, 3, 3, 7, 12], None))[place % 2]
            got, _ = pydp.histogram(x, bins, limits, weights=weights, spec=spec)
            wanted, _ = np.histogram(x, bins, limits, weights=weights)
            assert got.dtype == wanted.dtype
            np.testing.assert_array_equal(got, wanted, err_msg=f"{kind} {n} {bins}")
        for wrong in (np.zeros(n, bool), np.zeros(n, "S3"), np.zeros(n + 1)):
            with pytest.raises(pydp.InvalidArgument):
                pydp.histogram(x, 3, (0, 1), wrong, spec=spec)


def test_densities_of_complex_weights(device: Any) -> None:
    x, weights = np.arange(9, dtype=np.float32), (np.arange(9) + 1j * np.arange(9)[::-1]).astype(np.complex64)
    got, _ = pydp.histogram(x, 4, (0, 8), weights=weights, density=True)
    np.testing.assert_allclose(got, np.histogram(x, 4, (0, 8), weights=weights, density=True)[0], rtol=1e-6)


def test_sums_of_many_small_weights_are_accurate(device: Any) -> None:
    x = np.zeros(3_000_000, np.float32)
    weights = np.full(x.size, 0.1, np.float32)
    got = float(pydp.histogram(x, 2, (0, 1), weights=weights)[0][0])
    exact = weights.sum(dtype=np.float64)
    assert abs(got - exact) / exact <= (1e-6 if device.profile.fp64 else 1e-4)


def test_weights_of_half_precision(device: Any) -> None:
    """They are added in a wider type; devices without float16 refuse them."""
    n = 64 * 3000
    x, weights = np.arange(n) % 64, np.ones(n, np.float16)
    spec = {"mapping": "simt", "parts": 1, "lanes": 64, "sets": 1}
    for call in (
        lambda: pydp.histogram(x, np.arange(65), weights=weights, spec=spec)[0],
        lambda: pydp.bincount(x, weights, spec=spec),
    ):
        if device.profile.fp16 and device.profile.fp64:
            assert np.array_equal(call(), np.full(64, 3000))
        else:
            with pytest.raises(pydp.UnsupportedOnDevice, match="float"):
                call()


def test_a_bin_for_each_value_of_the_type(device: Any) -> None:
    """The 256 bins of an image's bytes are counted as bincount does; 255 or 256 of other sizes are not."""
    image = np.random.default_rng(5).integers(0, 256, (61, 67)).astype(np.uint8)
    share = np.random.default_rng(6).integers(1, 9, image.shape).astype(np.float32)
    for bins, limits in ((256, (0, 256)), (np.arange(257), None), (255, (0, 256)), (256, (0, 255)), (256, (1, 257))):
        for weights in (None, share):
            got, edges = pydp.histogram(image, bins, limits, weights=weights, device=device)
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
    with pytest.raises(pydp.InvalidArgument, match="lanes is 64 and sets 128; at most"):
        pydp.bincount(x, spec={"mapping": "simt", "lanes": 64, "sets": 128})
    for words in ({"counters": "registers"}, {"constants": True}):
        with pytest.raises(pydp.InvalidArgument, match=r"with 33 bins; .* at most 32 bins"):
            pydp.histogram(x, 33, spec=words)
    for named in (
        {"minlength": -1},
        {"minlength": True},
        {"weights": x[:3]},
        {"spec": {"copies": 3}},
        {"spec": {"nonsense": 1}},
    ):
        with pytest.raises(pydp.InvalidArgument):
            pydp.bincount(x, **named)
    for named in (
        {"bins": "auto"},
        {"bins": 0},
        {"density": "no"},
        {"bins": [3, 1]},
        {"range": (2, 1)},
        {"weights": x[:3]},
    ):
        with pytest.raises(pydp.InvalidArgument):
            pydp.histogram(x, **named)
    with pytest.raises(pydp.InvalidArgument):
        pydp.histogram(np.array([1, np.nan], np.float32))
    with pytest.raises(pydp.OutOfResources, match="the edges of bins=1000000000000000 need more memory than there is"):
        pydp.histogram(x, 10**15)
    for edges in ([0, np.nan, 3], [1j, 2], ["a", "b"], []):
        with pytest.raises(pydp.InvalidArgument, match="bins="):
            pydp.histogram(x, edges)
    for most in (2**40, 2**62):
        with pytest.raises(pydp.OutOfResources, match="bins"):
            pydp.bincount(np.array([most]))
        with pytest.raises(pydp.OutOfResources, match="bins"):
            pydp.bincount(x, minlength=most)


def test_explain(device: Any) -> None:
    x = np.zeros(1000, np.uint8)
    assert "bins" in str(pydp.explain(pydp.histogram, x)) and "bins" in str(pydp.explain(pydp.bincount, x))
    weights = x.astype(np.float32)
    for spec, name in (({"mapping": "vector"}, "histogram_parts"), ({"mapping": "simt"}, "histogram_weights")):
        ((kernel, text),) = pydp.explain(pydp.histogram, x, weights=weights, spec=spec).sources.items()
        assert "w_step" in text and kernel == name  # sums of weights are no counts in local memory
    assert pydp.explain(pydp.bincount, x, None, 300).facts["bins"] == 300
    many = np.zeros(100_000, np.int32)
    for spec, words in (({"mapping": "vector"}, "no atomics"), ({"mapping": "simt"}, "virtual wavefront(s)")):
        said = str(pydp.explain(pydp.histogram, many, 20, (0, 9), spec=spec))
        assert words in said and "a reduction adds their bins" in said and "no range given" not in said
    said = str(pydp.explain(pydp.histogram, many, 20, (0, 9), spec={"parts": 3, "mapping": "vector"}))
    shorter = device.profile.loop_limit is not None  # than parts that are asked for
    assert ("3 part(s) of at most 33334 elements" in said) is not shorter
    assert "no range given" in str(pydp.explain(pydp.histogram, many))
    assert "first finds the maximum" in str(pydp.explain(pydp.bincount, many))
    empty = pydp.explain(pydp.histogram, many[:0], 20, (0, 9))
    assert "nothing to count: all bins are 0" in empty.choices and not empty.sources
    for ends in ((300, 400), (-9, -1), (250, 300)):
        assert pydp.explain(pydp.histogram, x, 5, ends).facts["bins"] == 5, ends
        assert pydp.histogram(x, 5, ends)[0].sum() == 0
    assert pydp.explain(pydp.histogram, np.zeros(9, np.uint64), 5, (2.0**65, 2.0**66)).facts["elements"] == 9
    for fn, wrong in ((pydp.histogram, ("auto",)), (pydp.histogram, ([3, 1],)), (pydp.bincount, (x[:3],))):
        with pytest.raises(pydp.InvalidArgument):
            pydp.explain(fn, x, *wrong)


def test_the_upper_half_of_the_largest_integers(device: Any) -> None:
    x = np.array([1, 2**62, 2**63 + 2048, 2**64 - 4096, 2**64 - 1], np.uint64)
    edges = np.array([0, 2**62, 2**63, 2**64 - 4096, 2**64 - 1], np.uint64)
    np.testing.assert_array_equal(pydp.histogram(x, edges)[0], [1, 1, 1, 2])


def test_equal_bins_hold_the_least_and_the_greatest_integer(device: Any) -> None:
    """Edges are floats, which have fewer digits than times in nanoseconds; the ends of range are still counted."""
    x = np.random.default_rng(4).permutation(np.arange(40) * 997 + 1_600_000_000_000_000_001)
    ordered = np.sort(x)
    for values in (x, x.astype(np.uint64), -x, x * 5 + 3):
        assert pydp.histogram(values, 1)[0].tolist() == np.histogram(values, 1)[0].tolist() == [40]
        assert pydp.histogram(values, 7)[0].sum() == np.histogram(values, 7)[0].sum() == 40
    inside = (int(ordered[3]), int(ordered[30]))
    assert pydp.histogram(x, 7, inside)[0].sum() == np.histogram(x, 7, inside)[0].sum() == 28
    assert pydp.histogram(np.arange(5, dtype=np.uint64), [False, True])[0].tolist() == [2]
    least = np.arange(3, dtype=np.uint64)
    for bins, below in ((5, (-10, -5)), (1, (-3, -1))):  # no value is as small
        assert pydp.histogram(least, bins, below)[0].sum() == 0
    assert pydp.histogram(least, 5, (-10, 0))[0].tolist() == [0, 0, 0, 0, 1]


def test_bincount_takes_what_numpy_takes(device: Any) -> None:
    empty = pydp.bincount([])
    assert empty.shape == (0,) and empty.dtype == np.int64 and pydp.bincount([], minlength=3).tolist() == [0, 0, 0]
    assert "bincount" in str(pydp.explain(pydp.bincount, []))
    if device.profile.fp64:
        weighed = pydp.bincount([1, 2, 1, 1], [True, False, True, False])
        assert weighed.dtype == np.float64 and weighed.tolist() == [0, 2, 0]
    else:
        with pytest.raises(pydp.UnsupportedOnDevice):
            pydp.bincount([1, 2, 1, 1], [True, False, True, False])


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


def test_greatest_values_that_differ_a_little_share_a_kernel(device: Any) -> None:
    rng = np.random.default_rng(15)
    for spec in (SIMT, None):
        built: list[int] = []
        for most in (501, 500, 499, 511):
            x = np.append(rng.integers(0, most, 5000), most).astype(np.int32)
            for least in (0, 3):
                assert np.array_equal(pydp.bincount(x, minlength=least, spec=spec), np.bincount(x, minlength=least))
            field = pydp.bincount(pydp.field(x), spec=spec)
            assert field.extent == (most + 1,) and np.array_equal(field.get(), np.bincount(x))
            built.append(device.kernels.count_alive())
        assert len(set(built[1:])) == 1
    held = device.profile.local_bytes // 2 // 4 // SIMT["sets"] - SIMT["pad"]  # bins: none more have room
    x = np.arange(held, dtype=np.int32)
    assert np.array_equal(pydp.bincount(x, spec=SIMT), np.bincount(x))


def exact(x: np.ndarray, edges: np.ndarray) -> np.ndarray:
    """Counts by comparisons of values with edges; values and edges must be exact as float64."""
    values, edges = x.ravel().astype(np.float64), edges.astype(np.float64)
    values = values[(values >= edges[0]) & (values <= edges[-1])]
    return np.bincount(
        np.minimum(np.searchsorted(edges, values, "right") - 1, len(edges) - 2), minlength=len(edges) - 1
    )


def beside(edges: np.ndarray, dtype: np.dtype) -> np.ndarray:
    """The edges as values of `dtype`, the values beside them, and values that are special."""
    if dtype.kind != "f":
        limits = np.iinfo(dtype)
        around = [int(edge) + step for edge in edges[np.isfinite(edges)] for step in (-1, 0, 1)]
        return np.clip(np.array([0, limits.min, limits.max, *around], object), limits.min, limits.max).astype(dtype)
    with np.errstate(over="ignore"):
        near = edges.astype(dtype)
        beyond = [np.nextafter(near, dtype.type(side)) for side in (-np.inf, np.inf)]
    return np.concatenate([near, *beyond, np.array([0.0, -0.0, np.nan, np.inf, -np.inf], dtype)])


LOWERINGS = {"vector": {"mapping": "vector"}, "simt": {"mapping": "simt", "lanes": 16, "sets": 1, "pad": 0}}


@pytest.mark.sweep
@pytest.mark.parametrize("spec", LOWERINGS.values(), ids=LOWERINGS)
@pytest.mark.parametrize("kind", ["f4", "f8", "i1", "u2", "i4", "u4", "i8", "u8"])
def test_values_beside_edges(device: Any, kind: str, spec: Any) -> None:
    """For guesses that are right, guesses that a table improves, and edges that no guess separates."""
    dtype, rng = np.dtype(kind), np.random.default_rng(3)
    if kind == "f8" and not device.profile.fp64:
        pytest.skip("the device has no float64")
    cases: list[tuple[Any, Any]] = [
        (100, (0, 100)),
        (100, (-7.3, 90.1)),
        (256, (0, 1e-3)),
        (3, (-1e9, 1e9)),
        (200, (np.float64(1e6), np.float64(1e6 + 3))),  # narrower than the distance of adjacent float32 values
        (np.sort(rng.standard_normal(65)) * 60, None),
        (np.logspace(-6, 2, 65), None),
        (np.concatenate([[-1e4], 50 + np.arange(80) * 1e-5, [1e4]]), None),  # all but two edges in one cell
        ([-np.inf, 0.0, 1.5, np.inf], None),
        ([2, 2, 3, 3], None),
    ]
    for bins, limits in cases:
        edges = np.histogram_bin_edges(np.zeros(0, dtype), bins, limits)
        if kind == "u8" and edges[0] < 0:
            continue  # see test_edges_beyond_the_values_type
        x = beside(edges, dtype)
        if dtype.itemsize == 8 and dtype.kind != "f":
            x = x[(x < 2**53) & (x.astype(np.float64) > -(2.0**53))]
        x = np.tile(x, -(-700 // x.size))
        counts, found = pydp.histogram(x, bins, limits, spec=spec, device=device)
        np.testing.assert_array_equal(found, edges)
        np.testing.assert_array_equal(counts, exact(x, edges), err_msg=str((bins, limits)))


def test_sizes_beside_the_limits(device: Any) -> None:
    """Of the blocks of elements, of vectors, and of the sets of bins; of one part, with another stride."""
    rng = np.random.default_rng(4)
    one_part = {"mapping": "vector", "parts": 1}
    edges = np.array([0, 0.1, 0.15, 0.9, 1])
    for n in (1, 7, 8, 9, 15, 16, 17, 255, 256, 257, 263, 264, 265, 272, 511, 512, 513):
        base = rng.random(2 * n, dtype=np.float32)
        for x in (base[:n], base[::2], base[::-2]):
            weights = rng.integers(0, 9, n).astype(np.float32)
            for bins, limits in ((10, (0, 1)), (edges, None)):
                counts = pydp.histogram(x, bins, limits, spec=one_part, device=device)[0]
                np.testing.assert_array_equal(counts, np.histogram(x, bins, limits)[0])
                sums = pydp.histogram(x, bins, limits, weights=weights, spec=one_part, device=device)[0]
                np.testing.assert_array_equal(sums, np.histogram(x, bins, limits, weights=weights)[0])
        small = rng.integers(0, 50, n).astype(np.int32)
        np.testing.assert_array_equal(pydp.bincount(small, spec=one_part, device=device), np.bincount(small))
    x = rng.random(20_000, dtype=np.float32)
    for bins in (1, 2, 4095, 4096, 4097):
        for copies in (1, 8):
            spec = {"mapping": "vector", "copies": copies, "parts": 3}
            counts = pydp.histogram(x, bins, (0.1, 0.9), spec=spec, device=device)[0]
            np.testing.assert_array_equal(counts, np.histogram(x, bins, (0.1, 0.9))[0])


@pytest.mark.oclgrind
@pytest.mark.parametrize("lanes", [4, 32])
def test_bins_in_global_memory(device: Any, lanes: int) -> None:
    """On GPUs: weights, and more bins than local memory holds. Work-groups of lanes, with sums in a fixed order."""
    spec = {"mapping": "simt", "lanes": lanes, "sets": 1, "pad": 0, "parts": 3}
    many = device.profile.local_bytes // 8 + 1
    rng = np.random.default_rng(5)
    x = rng.integers(0, many, 500).astype(np.int32)
    np.testing.assert_array_equal(pydp.bincount(x, minlength=many, spec=spec), np.bincount(x, minlength=many))
    counts = pydp.histogram(x, many, (-3, many + 3), spec=spec)[0]
    np.testing.assert_array_equal(counts, np.histogram(x, many, (-3, many + 3))[0])
    assert "counted with atomics" in str(pydp.explain(pydp.bincount, x, minlength=many, spec=spec))
    x, weights = rng.random(1500, dtype=np.float32), rng.random(1500, dtype=np.float32)
    weights[::2] = rng.integers(-9, 9, 750)
    whole = np.round(weights)
    for bins in (1, 9, np.array([0, 0.2, 0.25, 1])):
        limits = (0.1, 0.9) if np.ndim(bins) == 0 else None
        got = pydp.histogram(x, bins, limits, weights=whole, spec=spec)[0]
        np.testing.assert_array_equal(got, np.histogram(x, bins, limits, weights=whole)[0])
        runs = {pydp.histogram(x, bins, limits, weights=weights, spec=spec)[0].tobytes() for _ in range(3)}
        assert len(runs) == 1
    text = str(pydp.explain(pydp.histogram, x, 9, (0, 1), weights=weights, spec=spec))
    assert f"each work-group has its own bins in global memory; {lanes} lanes add the weights of equal bins" in text


@pytest.mark.host
def test_divisions() -> None:
    """All elements are in a part, sets fit into memory, and counters of 32 bits suffice."""
    profile_of = {"items": "vector", "local": "simt", "shared": "simt", "tiles": "simt"}
    for place, mapping in profile_of.items():
        base = FAMILY.default(
            profile(mapping=mapping, compute_units=8, loop_limit=None), HistogramProblem("float32", 1 << 20, 100)
        )
        for n in (1, 31, 1000, 1 << 20, (1 << 33) + 5):
            for bins in (1, 100, 5000, 1 << 22, 1 << 25):
                for longest in (1 << 31, 1000):
                    found = divide(base, place, n, bins, 4, longest)
                    assert (found.parts - 1) * found.part < n <= found.parts * found.part
                    assert found.part <= longest * found.lanes
                    assert found.sets >= (1 if place == "shared" else found.parts)
                    assert place != "shared" or found.sets << 31 >= n
                    rows = max(1, 2**26 // (4 * bins))
                    assert found.sets <= max(rows, -(-n // longest) * (found.sets // found.parts or 1))
    for bins in (100, 1 << 16, 1 << 20):
        for place in ("tiles", "shared"):
            found = divide(base, place, 1 << 24, bins, 4)
            assert found.lanes * found.parts >= min(1024, 64 * (1 << 24) // bins), "there is work for all compute units"


def slots(given: Search, values: np.ndarray, dtype: np.dtype, error: float) -> np.ndarray:
    """The slots that histogram_bins.mako finds with guesses that are wrong by a relative error."""
    real = type(given.scale)
    with np.errstate(over="ignore", invalid="ignore"):
        if dtype.kind == "f":
            above = values.astype(given.first.dtype).astype(real) - given.first
        else:
            above = np.array([real(max(int(value), int(given.first)) - int(given.first)) for value in values], real)
        guess = (above * given.scale + given.shift) * real(1 + error)
        guess = np.minimum(np.where(guess > 0, guess, 0), given.cells).astype(np.int64)
    t, found = given.thresholds, []
    for value, start in zip(values, guess, strict=True):
        slot = int(start if given.least is None else given.least[start])
        length = given.most + 1
        while length > 1:
            half = length // 2
            slot += half * bool(value >= t[slot + half - 1])
            length -= half
        found.append(min(slot, given.top))
    return np.array(found)


@pytest.mark.host
@given(st.lists(st.floats(allow_nan=False), min_size=2, max_size=12), st.sampled_from(["e", *"fdilL"]))
def test_searches(given_edges: list[float], kind: str) -> None:
    """A search finds the slot of every value, also if a device rounds guesses in another way."""
    dtype = np.dtype(kind)
    edges = reached(dtype, np.sort(given_edges))
    assume(len(edges) >= 2)
    evenly = np.linspace(*np.clip(edges[[0, -1]].astype(np.float64), -1e300, 1e300), 8)
    for equal, used in ((False, edges), (True, reached(dtype, evenly))):
        if len(used) < 2:
            continue
        values = beside(used, dtype)
        found = search(used, dtype, equal)
        low, high = used[0].item(), used[-1].item()
        inner = [edge.item() for edge in used[1:-1]]
        for error in (0, 1e-7, -1e-7):
            for value, slot in zip(values, slots(found, values, dtype, error), strict=True):
                one = value.item()
                bin_ = slot - 1 if 1 <= slot < len(used) else None
                expected = sum(one >= edge for edge in inner) if low <= one <= high else None
                assert bin_ == expected, (used, one, equal)


@pytest.mark.host
def test_equal_bins_need_no_table() -> None:
    for dtype, bins, limits, table in (
        ("f4", 100, (0, 1), False),
        ("f4", 100_000, (-4, 4), False),
        ("i4", 1000, (1_700_000_000, 1_700_001_000), False),
        ("i8", 7, (-(2**62), 2**62), False),
        ("f8", 100, (1e6, 1e6 + 1e-3), False),
        ("f4", 1 << 20, (0, 1), True),
        ("f4", 5, (0, 1e-38), True),
    ):
        found = binning(np.zeros(0, dtype), bins, limits)
        assert found.even is not table, (dtype, bins, limits)
        assert found is binning(np.zeros(0, dtype), bins, list(limits)) or bins > 4096
    first = binning(np.zeros(0, "f4"), 100, (0, 1))
    assert first.key != binning(np.zeros(0, "f4"), 100, (0, np.float64(1))).key  # the edges are float64
    assert first.key != binning(np.zeros(0, "f4"), [0, 1], None).key


def test_edges_are_the_callers_own(device: Any) -> None:
    """A changed array of edges neither changes later calls nor is missed by them."""
    x, given_edges = np.arange(10, dtype=np.float32), np.array([0.0, 5.0, 9.0])
    for turn in range(4):
        counts, edges = pydp.histogram(x, given_edges, device=device)
        np.testing.assert_array_equal(counts, np.histogram(x, given_edges)[0])
        edges[:] = 0
        _, edges = pydp.histogram(x, 3, (0, 9), device=device)
        np.testing.assert_array_equal(edges, [0, 3, 6, 9])
        edges[:] = 0
        given_edges[1] = 4 - turn
        np.testing.assert_array_equal(pydp.histogram(x, [0.0, 5.0, 9.0], device=device)[1], [0, 5, 9])
