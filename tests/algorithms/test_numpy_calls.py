"""Calls with positional arguments, and with NumPy's keywords, mean the same in pydp and in NumPy."""

from __future__ import annotations

import numpy as np
import pytest

import pydp

X = np.array([[3, -1, 4], [0, 5, -2]], np.int32)
FLAGS = X > 0
CALLS = {
    "sum": (X, 0, np.float32, None, True, 2, FLAGS),
    "prod": (X, 1, np.int64, None, True, 1, FLAGS),
    "nansum": (X, 0, np.int32, None, True),
    "mean": (X, 1, np.float32, None, True),
    "var": (X.astype(np.float32), 1, np.float32, None, 1, True),
    "nanstd": (X.astype(np.float32), 0, np.float32, None, 1, True),
    "max": (X, 0, None, True, -9, FLAGS),
    "nanmin": (X, 1, None, True),
    "any": (X, 0, None, True),
    "all": (X, 1, None, True),
    "argmax": (X, 1, None),
    "argmin": (X, 0, None),
    "sort": (X, 0, "stable"),
    "argsort": (X, 0, "stable"),
    "partition": (X, 1, 0),
    "take": (X, [1, 0], 1, None, "clip"),
    "histogram": (X.astype(np.float32), 4, (-2.0, 6.0), None, np.ones((2, 3), np.float32)),
    "concatenate": (X,),
    "stack": (X, 1),
}


@pytest.mark.parametrize("name", CALLS)
def test_positional_arguments(device, name):
    want, got = getattr(np, name)(*CALLS[name]), getattr(pydp, name)(*CALLS[name])
    if isinstance(want, tuple):
        want, got = want[0], got[0]
    if name == "partition":
        want, got = np.sort(want, axis=0), np.sort(got, axis=0)
    np.testing.assert_allclose(got, want, rtol=1e-6)
    assert got.shape == want.shape and (got.dtype == want.dtype or name == "histogram")


def test_results_without_axes_are_scalars(device):
    vector, out = X[0], np.zeros((), np.int32)
    for name, args in (("matmul", (vector, vector)), ("take", (vector, 1)), ("dot", (vector, vector)), ("max", (X,))):
        got, want = getattr(pydp, name)(*args), getattr(np, name)(*args)
        assert type(got) is type(want) and got == want, name
        assert getattr(pydp, name)(*args, out=out) is out and out == want
        field = getattr(pydp, name)(*(pydp.field(one) if isinstance(one, np.ndarray) else one for one in args))
        assert isinstance(field, pydp.Field) and field.shape == ()


def test_kinds_and_axes_that_are_refused(device):
    for function in (pydp.sort, pydp.argsort):
        for wrong in ({"kind": "zz"}, {"kind": np.array(["stable", "x"])}, {"kind": pydp.field(X)}, {"stable": 5}):
            for call in (function, lambda *args, f=function, **named: pydp.explain(f, *args, **named)):
                with pytest.raises(pydp.InvalidArgument, match=f"{next(iter(wrong))} is "):
                    call(X, **wrong)
    for axis in (0, None, FLAGS):
        with pytest.raises(pydp.InvalidArgument, match="axis is "):
            pydp.partition(X[0], "x > 2", axis)


def test_outputs_by_position(device):
    out = np.zeros(3, np.int32)
    assert pydp.max(X, 0, out) is out and np.array_equal(out, X.max(0))
    indexes = np.zeros(2, np.int64)
    assert pydp.argmin(X, 1, indexes) is indexes and np.array_equal(indexes, X.argmin(1))
    taken = np.zeros((2, 2), np.int32)
    assert pydp.take(X, [2, 0], 1, taken) is taken and np.array_equal(taken, X[:, [2, 0]])


def test_keywords_of_numpy(device):
    row = np.array([5, 1, 4, 1], np.int32)
    for named in ({"kind": "mergesort"}, {"stable": True}, {"stable": False}):
        assert np.array_equal(pydp.sort(row, **named), np.sort(row))
        assert np.array_equal(pydp.argsort(row, **named), np.argsort(row, kind="stable"))
        assert pydp.explain(pydp.argsort, row, **named).sources
    assert pydp.partition(row, kth=2)[2] == 4 and pydp.explain(pydp.partition, row, kth=2).sources
    counts, _ = pydp.histogram(row, 2, density=None)
    assert np.array_equal(counts, np.histogram(row, 2)[0])
    assert np.array_equal(pydp.concatenate(pydp.field(X)).get(), X.reshape(-1))


def test_a_length_and_a_positional_mask(device):
    values = np.arange(6, dtype=np.int32)
    assert pydp.sum(values, None, None, None, False, 0, values > 1, length=4) == 5
    field = pydp.field(values)
    mask = pydp.select(pydp.field(np.array([0, 0, 1, 1, 0, 1], bool)), "x < 2")  # its length is on the device
    assert pydp.sum(field, None, None, None, False, 0, mask, length=4) == 5
    assert pydp.mean_var(field, None, np.float32, None, 0, False, where=mask, length=4)[0] == 2.5


BAD = {
    "kind": (lambda: pydp.sort(X, 0, "radix"), "kind is 'radix'; quicksort, mergesort, heapsort, stable and None"),
    "stable": (lambda: pydp.argsort(X, stable=2), "stable is 2"),
    "both": (lambda: pydp.partition(X, "x > 0", kth=1), "given the predicate 'x > 0' and kth=1"),
    "kth": (lambda: pydp.partition(X, kth="x > 0"), "kth is 'x > 0'; an integer or a sequence of integers"),
    "rank 0": (lambda: pydp.concatenate(np.array(1)), "a list, a tuple or an array is accepted"),
}


@pytest.mark.parametrize("name", BAD)
def test_mistakes(device, name):
    call, message = BAD[name]
    with pytest.raises(pydp.InvalidArgument, match=message):
        call()
