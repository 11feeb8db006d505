"""Values and arguments of forall: powers, whole records, grids, indexes, truth values, and messages with advice."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import pydp


def power(idx: Any, x: Any, n: Any, out: Any) -> None:
    out[idx] = x[idx] ** n[idx]


@pytest.mark.parametrize("dtype", ["i4", "i8", "i1"])
def test_integers_to_negative_powers_are_one_everywhere(device: Any, dtype: str) -> None:
    x, n = (grid.ravel() for grid in np.meshgrid(np.arange(-5, 6, dtype=dtype), np.arange(-5, 4, dtype=dtype)))
    expected = np.power(x, np.maximum(n, 0))
    result = np.zeros(x.shape, dtype)
    pydp.forall(x.shape, power, x, n, result, device="host")
    assert np.array_equal(result, expected)
    for spec in _specs(device):
        result[:] = 0
        pydp.forall(x.shape, power, x, n, result, device=device, spec=spec)
        assert np.array_equal(result, expected)


def _specs(device: Any) -> list[dict[str, str]]:
    """Both mappings, where the device has both."""
    mappings = ["simt"] if device.profile.loop_limit is not None else ["simt", "vector"]
    return [{"mapping": mapping} for mapping in mappings]


def reciprocal_root(idx: Any, out: Any, x: Any) -> None:
    out[idx] = pydp.math.rsqrt(x[idx])


@pytest.mark.parametrize("dtype", ["f4", "f8"])
def test_reciprocal_square_roots_of_all_magnitudes(device: Any, dtype: str) -> None:
    """Within the 2 ULP of OpenCL. Vectors of PoCL compute them from an estimate of the processor."""
    if dtype == "f8" and not device.profile.fp64:
        pytest.skip("the device has no float64")
    info, bits = np.finfo(dtype), dtype.replace("f", "u")
    x = np.random.default_rng(0).integers(0, np.iinfo(bits).max, 20_000, bits, endpoint=True).view(dtype)
    special = [0, -0.0, np.inf, -np.inf, np.nan, -1, 0.25, 1, 2, 4, info.tiny, info.max, -info.tiny]
    x = np.concatenate([x, np.array(special, dtype)])
    subnormal = (np.abs(x) < info.tiny) & (x != 0)
    x = x if device.profile.denormals else x[~subnormal]
    if device.profile.denormals:
        x = np.concatenate([x, np.array([info.smallest_subnormal, info.tiny / 3], dtype)])
    with np.errstate(invalid="ignore", divide="ignore"):
        exact = 1 / np.sqrt(x.astype(np.longdouble))
    want = exact.astype(dtype)
    for spec in _specs(device):
        found = np.zeros_like(x)
        pydp.forall(x.shape, reciprocal_root, found, x, device=device, spec=spec)
        number = np.isfinite(want)
        np.testing.assert_array_equal(found[~number], want[~number])
        assert np.all(np.abs(found[number] - exact[number]) <= 2 * np.spacing(want[number]))


SMALL = np.dtype([("x", "f4"), ("padding0", "f4")])
ROWS = np.dtype([("p", "f4", (2, 3)), ("inner", [("q", "i2", (2,))], (2,)), ("m", "i4")])


def swapped(idx: Any, x: Any, out: Any) -> None:
    one = x[idx]
    if one.m > 2:
        one = x[3 - idx[0]]
    one.m += 1
    out[idx] = one


def copied(idx: Any, x: Any, out: Any) -> None:
    out[idx] = x[idx]


def test_records_are_copied_whole(device: Any) -> None:
    """Members of any name, and members that are arrays."""
    for dtype, function in ((SMALL, copied), (ROWS, swapped)):
        x = np.zeros(4, dtype)
        x.view("u1")[:] = np.arange(x.nbytes) % 50
        if dtype is ROWS:
            x["m"] = [1, 5, 2, 9]
        for spec in _specs(device):
            results = [np.zeros(4, dtype) for _ in range(2)]
            pydp.forall(4, function, x, results[0], device="host")
            pydp.forall(4, function, x, results[1], device=device, spec=spec)
            assert results[1].tobytes() == results[0].tobytes()
            assert (results[0].tobytes() == x.tobytes()) == (function is copied)


def _two(a: Any, i: Any, j: Any) -> Any:
    return a[i, j]


def starred(idx: Any, a: Any) -> None:
    a[idx] = _two(a, *idx)


def summed(idx: Any, a: Any) -> None:
    a[idx] = sum((a[idx], 1))


def lonely(idx: Any, a: Any) -> None:
    here = pydp.local_field(np.int32, 4)
    here[0] = a[idx]


@pytest.mark.parametrize(
    ("function", "message"),
    [
        (starred, "starred arguments cannot be used"),
        (summed, "^sum is not supported in a vector function; write it"),
        (lonely, r"group=\(16, 16\)\n"),
    ],
)
def test_messages_say_what_to_write_instead(function: Any, message: str) -> None:
    with pytest.raises(pydp.InvalidArgument, match=message):
        pydp.forall((2, 2), function, np.zeros((2, 2), np.int32), device="host")


def ones(idx: Any, a: Any) -> None:
    a[idx] = 1


def test_grids_that_are_numpy_integers(device: Any) -> None:
    for where in (device, "host"):
        a = np.zeros(5, np.int32)
        pydp.forall(np.int64(3), ones, a, device=where)
        assert a.tolist() == [1, 1, 1, 0, 0]
    with pytest.raises(pydp.InvalidArgument):
        pydp.forall(np.float32(3), ones, a, device=device)


def test_the_wrong_number_of_indexes(device: Any) -> None:
    with pytest.raises(pydp.InvalidArgument, match="the array 'a' of rank 2 needs 2 indexes, not 1"):
        pydp.forall(3, ones, np.zeros((3, 3)), device=device)


def truths(idx: Any, a: Any, out: Any) -> None:
    x = a[idx]
    n = 0
    if x and x - 1:
        n = 1
    while not (n or x) and n < 3:
        n += 2
    out[idx] = n + (10 if x or n else 0) + (x > 1 and not (x and n - 1))


def either(idx: Any, a: Any) -> None:
    a[idx] = a[idx] or 7


def both(idx: Any, a: Any) -> None:
    a[idx] = a[idx] > 1 and a[idx]


def test_and_and_or_of_numbers_are_truths_in_conditions_alone(device: Any) -> None:
    a = np.array([0, 1, 2, 3], np.int32)
    for where in (device, "host"):
        out = np.zeros(4, np.int32)
        pydp.forall(4, truths, a, out, device=where)
        expected = np.zeros(4, np.int32)
        for k in range(4):
            truths((k,), {(k,): int(a[k])}, expected)
        assert np.array_equal(out, expected)
    for function, advice in ((either, "x if x else y"), (both, "y if x else x")):
        with pytest.raises(pydp.InvalidArgument, match=f"needs boolean operands here; for numbers write {advice}"):
            pydp.forall(4, function, a, device=device)
