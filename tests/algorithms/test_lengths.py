"""``length=``: how many leading elements count, read on the device; the calls do not wait for it."""

from __future__ import annotations

from typing import Any

import needs
import numpy as np
import pyopencl.array
import pytest

import pydp
from pydp.runtime.arrays.deferred import DeferredShape

N = 700
X = np.random.default_rng(0).integers(-3, 4, N).astype(np.int32)
V = np.random.default_rng(1).integers(0, 9, N).astype(np.int32)
LENGTHS = (0, 1, 255, 256, 300, N, N + 7, -3)
SPECS = {
    "default": None,
    "two passes": {"strategy": "reduce_then_scan"},
    "lanes": {"mapping": "simt", "lanes": 64, "items": 4, "strategy": "reduce_then_scan"},
}
SPECIALIZATIONS = pytest.mark.parametrize("how", SPECS)


def heads_of(x: np.ndarray) -> np.ndarray:
    return np.flatnonzero(np.append(True, x[1:] != x[:-1]))[: x.size]


def small(spec: dict[str, Any] | None, mapping: str) -> dict[str, Any] | None:
    """The specialization with several partitions."""
    vector = mapping == "vector" and (spec is None or "lanes" not in spec)
    return {**(spec or {}), **({"mapping": "vector", "part": 128} if vector else {})} or None


@pytest.mark.oclgrind
@SPECIALIZATIONS
def test_selections_and_runs(device: Any, how: str) -> None:
    spec = small(SPECS[how], device.profile.mapping)
    x, v, count = pydp.field(X), pydp.field(V), pydp.zeros((), np.int64)
    for n in LENGTHS:
        y, w = X[: min(max(n, 0), N)], V[: min(max(n, 0), N)]
        length = pydp.full((), n, np.int64) if n % 2 else pydp.full(1, n, np.int32)
        kept, heads = y[y > 0], heads_of(y)
        np.testing.assert_array_equal(pydp.select(x, "x > 0", length=length, count=count, spec=spec).get(), kept)
        assert count.get() == kept.size
        made, first = pydp.partition(x, "x > 0", length=length, spec=spec)
        np.testing.assert_array_equal(made.get()[: y.size], np.concatenate([kept, y[y <= 0]]))
        assert first.get() == kept.size
        found = pydp.run_length_encode(x, starts=True, length=length, spec=spec)
        right = y[heads], np.diff(heads, append=y.size), heads
        for one, other in zip(found, right, strict=True):
            np.testing.assert_array_equal(one.get(), other)
        keys, sums = pydp.reduce_by_key(x, v, length=length, spec=spec)
        np.testing.assert_array_equal(keys.get(), y[heads])
        np.testing.assert_array_equal(sums.get(), np.add.reduceat(w, heads) if y.size else w)


@pytest.mark.oclgrind
@SPECIALIZATIONS
def test_scans(device: Any, how: str) -> None:
    spec = small(SPECS[how], device.profile.mapping)
    x = pydp.field(X)
    for n in LENGTHS:
        m = min(max(n, 0), N)
        length = pydp.full((), n, np.int64)
        sums = np.cumsum(X[:m], dtype=np.int32)
        np.testing.assert_array_equal(pydp.scan(x, length=length, spec=spec).get(), sums)
        out = pydp.full(N, 77, np.int32)
        assert pydp.scan(x, exclusive=True, init=5, length=length, spec=spec, out=out) is out
        np.testing.assert_array_equal(out.get()[:m], sums - X[:m] + 5)
        assert (out.get()[m:] == 77).all()


@pytest.mark.parametrize(
    "how",
    ["parts", "joined", *(pytest.param(one, marks=pytest.mark.oclgrind) for one in ("default", "lanes"))],
)  # Oclgrind reports uninitialized values for small parts, with and without a length
def test_reductions(device: Any, how: str) -> None:
    if how in ("parts", "joined"):
        needs.vector_mapping(device, "vector")
        spec: Any = {"mapping": "vector", "part": 64, "joined": 0 if how == "parts" else 4096}
    else:
        spec = None if how == "default" else {"mapping": "simt", "lanes": 32, "items": 2, "part": 128}
    x = pydp.field(X)
    for n in LENGTHS:
        y, length = X[: min(max(n, 0), N)], pydp.full((), n, np.int64)
        assert pydp.reduce(x, length=length, spec=spec).get() == y.sum()
        assert pydp.reduce(x, "max", init=-9, length=length, spec=spec).get() == y.max(initial=-9)


NONE = {  # the results of no elements
    **dict.fromkeys(("argmin", "argmax", "nanargmin", "nanargmax"), -1),
    "min_max": (np.iinfo(np.int32).max, np.iinfo(np.int32).min),
    **{name: getattr(np, name)(X[:0]) for name in ("any", "all", "count_nonzero", "sum", "prod", "nansum", "nanprod")},
    **dict.fromkeys(("mean", "var", "std", "nanmean", "nanvar", "nanstd"), np.nan),
    "logsumexp": -np.inf,
    "norm": 0.0,
}
MASKED = ("any", "all", "sum", "prod", "nansum", "nanprod", "mean", "var", "std", "nanmean", "nanvar", "nanstd")


SMALL = ("argmax", "min_max", "any", "mean")  # Oclgrind reports uninitialized values for small parts of all reductions
KINDS = (*SMALL, "nansum", "var", "logsumexp")  # each has accumulators of its own


@pytest.mark.parametrize(
    ("name", "how"),
    [
        pytest.param(name, how, marks=pytest.mark.oclgrind if name in SMALL and how != "parts" else ())
        for name in NONE
        for how in (("default", "parts", "lanes") if name in KINDS else ("default",))
    ],
)
def test_reductions_with_numpys_names(device: Any, name: str, how: str) -> None:
    """Equal to the call with the first elements only."""
    if how == "parts":
        needs.vector_mapping(device, "vector")
    lanes = {"mapping": "simt", "lanes": 32, "items": 2, "part": 128}
    spec = {"default": None, "parts": {"mapping": "vector", "part": 64}, "lanes": lanes}[how]
    function = getattr(pydp, name)
    floats = ("mean", "var", "std", "logsumexp", "norm")  # of integers, they are float64, which not all devices have
    dtype = np.float32 if name.startswith("nan") or name in floats else np.int32
    none, values = NONE[name], X.astype(dtype)
    if name.startswith("nan"):
        values[::7] = np.nan
    mask = np.arange(N) % 3 != 1
    x, where = pydp.field(values), pydp.field(mask)
    for n in LENGTHS:
        m = min(max(n, 0), N)
        length = pydp.full((), n, np.int64)
        masks: list[dict[str, Any]] = [{}, {"where": True}] if name in MASKED else [{}]
        for given in masks:
            taken = {"where": mask[:m]} if given else {}
            found = function(x, length=length, spec=spec, **({"where": where} if given else {}))
            want = function(values[:m], spec=spec, **taken) if m else none
            for one, other in zip(
                found if isinstance(found, tuple) else [found], want if isinstance(want, tuple) else [want], strict=True
            ):
                assert one.shape == () and one.dtype == (np.asarray(other).dtype if m else one.dtype)
                rounding = 4 * np.finfo(one.dtype).eps if one.dtype.kind == "f" else 0  # other parts are added
                np.testing.assert_allclose(one.get(), other, rtol=rounding)


def test_lengths_of_reductions_with_numpys_names(device: Any) -> None:
    square, n = X.reshape(20, 35).T, 301
    first = square.reshape(-1)[:n]
    assert pydp.argmax(square, length=n) == np.argmax(first)
    assert pydp.any(square, length=n, keepdims=True).shape == (1, 1)
    assert pydp.sum(square, where=square > 0, length=n) == first[first > 0].sum()
    assert pydp.count_nonzero(square[::2], length=n) == np.count_nonzero(square[::2].reshape(-1)[:n])
    assert pydp.max(X, initial=-9, length=n) == X[:n].max() and pydp.prod(X[:3], length=2) == X[:2].prod()
    row = np.arange(20) % 2 == 0  # broadcast
    rows = np.ascontiguousarray(square)
    assert pydp.sum(rows, where=row, length=30) == rows.reshape(-1)[:30][np.resize(row, 30)].sum()
    assert pydp.any(square, where=row, length=3) == np.any(square.reshape(-1)[:3], where=row[:3])
    floats = X.astype(np.float32)
    assert pydp.norm(floats, -np.inf, length=3) == np.linalg.norm(floats[:3], -np.inf)
    assert pydp.norm(floats, -np.inf, length=0) == np.inf
    out = pydp.full((), 7, np.int64)
    assert pydp.argmin(pydp.field(X), length=0, out=out) is out and out.get() == -1
    assert "folds 700 elements" in str(pydp.explain(pydp.mean, floats, length=9))
    for call, match in (
        (lambda: pydp.any(X, length=N + 1), f"length is {N + 1}; 0 to {N}"),
        (lambda: pydp.argmax(square, axis=0, length=3), "axis is 0, but length= needs a reduction over all axes"),
        (lambda: pydp.nanmin(X, length=3), "nanmin with length= may have no elements; pass initial="),
        (lambda: pydp.norm(square.astype(np.float32), 1, length=3), "None is accepted"),
    ):
        with pytest.raises(pydp.InvalidArgument, match=match):
            call()


def test_a_chain_does_not_wait(device: Any, monkeypatch: Any) -> None:
    def waited(self: DeferredShape) -> None:
        raise AssertionError("the call waits for a length")

    x, count, runs = pydp.field(X), pydp.zeros((), np.int64), pydp.zeros((), np.int64)
    with monkeypatch.context() as patched:
        patched.setattr(DeferredShape, "wait", waited)
        kept = pydp.select(x, "x > 0", count=count)
        keys, _ = pydp.run_length_encode(kept, count=runs, length=count)
        total, largest = pydp.reduce(kept, length=count), pydp.reduce(keys, "max", init=0, length=runs)
        sums = pydp.scan(kept, length=count)
        low, place = pydp.min_max(kept, length=count)[0], pydp.argmax(keys, length=runs)
    right = X[X > 0]
    assert low.get() == right.min() and keys[int(place)] == 3
    assert total.get() == right.sum() and largest.get() == 3 and len(kept) == right.size
    np.testing.assert_array_equal(sums.get(), np.cumsum(right))
    np.testing.assert_array_equal(pydp.unique(kept, length=pydp.full((), 40, np.int64)).get(), np.unique(right[:40]))


def test_lengths_of_the_host(device: Any) -> None:
    assert pydp.reduce(X.reshape(100, -1)[:, ::2], length=70) == X.reshape(100, -1)[:, ::2].reshape(-1)[:70].sum()
    np.testing.assert_array_equal(pydp.scan(X, length=np.int64(3)), np.cumsum(X[:3]))
    np.testing.assert_array_equal(pydp.flatnonzero(X, length=50), np.flatnonzero(X[:50]))
    np.testing.assert_array_equal(pydp.compress(X > 1, V, length=50), V[:50][X[:50] > 1])
    assert "read the number of elements" in str(pydp.explain(pydp.select, X, "x > 0", length=9))
    for call, match in (
        (lambda: pydp.select(X, "x > 0", length=N + 1), f"length is {N + 1}; 0 to {N}"),
        (lambda: pydp.compress(X[:3] > 1, V, length=5), "length is 5; 0 to 3, the number of elements of mask"),
        (lambda: pydp.scan(X, length=-1), "length is -1"),
        (lambda: pydp.reduce(X, length=2.5), "length is 2.5; an integer"),
        (lambda: pydp.reduce(X, length=np.zeros(2, int)), r"length has shape \(2,\)"),
        (lambda: pydp.reduce(X, "min", length=3), "pass init= to reduce, or initial= to min or max"),
        (lambda: pydp.reduce(X.reshape(2, -1), axis=0, length=3), "axis is 0"),
        (lambda: pydp.scan(X, reverse=True, length=3), "reverse="),
        (lambda: pydp.scan(X.reshape(2, -1), length=3), "rank 1 or axis=None"),
        (lambda: pydp.partition(X, 3, length=3), "length cannot be combined"),
    ):
        with pytest.raises(pydp.InvalidArgument, match=match):
            call()


@pytest.mark.oclgrind
def test_results_of_partition_beyond_a_length(device: Any) -> None:
    """A NumPy array never shows old memory."""
    for x in (X, X[::-1]):
        for length in (50, np.array(60)):
            made, n = pydp.partition(x, "x > 1", length=length)
            kept = x[:length] > 1
            want = [x[:length][kept], x[:length][~kept], x[int(length) :]]
            np.testing.assert_array_equal(made, np.concatenate(want))
            assert n == kept.sum()


def test_unique_with_a_length_of_an_array_that_is_not_contiguous(device: Any) -> None:
    x = pyopencl.array.to_device(device.queue, X.reshape(100, -1)).T
    got = pydp.unique(x, length=7)
    assert isinstance(got, pyopencl.array.Array)
    np.testing.assert_array_equal(got.get(), np.unique(X.reshape(100, -1).T.reshape(-1)[:7]))
    assert "unique of (7,)" in str(pydp.explain(pydp.unique, x, length=7))
