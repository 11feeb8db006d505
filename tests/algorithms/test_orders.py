"""key=, less= and descending= mean the same order in sort, merge, searchsorted, segmented_sort and top_k.

The reference is Python's stable sort and `bisect`, which compare the values of the same key.
"""

from __future__ import annotations

import bisect
import functools

import needs
import numpy as np
import pytest

import pydp


def last_digit(x):
    return x % 10, -x


def with_a_loop(x):
    total = x * 0
    for i in range(7):
        total = total + (x + i) % 4
    return total


def farther(a, b):
    return a * a > b * b


def positive_first(a, b):
    return (a > 3) > (b > 3)


def remainder(x: int) -> int:
    return int(np.fmod(x, 10))


# Each order: the arguments, and the key that Python sorts by.
ORDERS = {
    "descending": ({"descending": True}, lambda x: -x),
    "function": ({"key": last_digit}, lambda x: (x % 10, -x)),
    "function descending": ({"key": last_digit, "descending": True}, lambda x: (-(x % 10), x)),
    "loop": ({"key": with_a_loop}, lambda x: sum((x + i) % 4 for i in range(7))),
    "expression": ({"key": "x % 10"}, remainder),
    "less": ({"less": farther}, lambda x: -x * x),
    "less as text": ({"less": "a > b"}, lambda x: -x),
    "condition": ({"key": "x > 3"}, lambda x: x > 3),
    "less of conditions": ({"less": positive_first}, lambda x: x <= 3),
    "key and less": ({"key": "x % 10", "less": "a > b"}, lambda x: -remainder(x)),
}
order = pytest.mark.parametrize("how, key", ORDERS.values(), ids=ORDERS)
simulated = pytest.mark.parametrize(  # some of them in Oclgrind, too
    "how, key",
    [
        pytest.param(*one, id=name, marks=[pytest.mark.oclgrind] if name in ("loop", "key and less") else [])
        for name, one in ORDERS.items()
    ],
)
SPECS = {"default": {}, "simt": {"mapping": "simt"}}
specs = pytest.mark.parametrize("spec", SPECS.values(), ids=SPECS)


def numbers(n: int, seed: int) -> np.ndarray:
    return np.random.default_rng(seed).integers(-40, 40, n).astype(np.int32)


def ordered(x: np.ndarray, key) -> np.ndarray:
    return np.array(sorted(x.tolist(), key=key), x.dtype)


@simulated
@specs
def test_merge(device, how, key, spec):
    for left, right in ((0, 5), (40, 0), (33, 90)):
        a, b = ordered(numbers(left, 1), key), ordered(numbers(right, 2), key)
        both = np.concatenate([a, b])
        places = np.array(sorted(range(both.size), key=lambda at: key(int(both[at]))))
        assert np.array_equal(pydp.merge(a, b, **how, spec=spec), both[places])
        found = pydp.merge_by_key(a, np.arange(left), b, np.arange(left, left + right), **how, spec=spec)
        assert np.array_equal(found[0], both[places]) and np.array_equal(found[1], places)


@simulated
@specs
@pytest.mark.parametrize("side", ["left", "right"])
def test_searchsorted(device, how, key, spec, side):
    position = bisect.bisect_left if side == "left" else bisect.bisect_right
    x, values = numbers(77, 3), numbers(50, 4)
    a = ordered(x, key)
    want = [position([key(one) for one in a.tolist()], key(one)) for one in values.tolist()]
    spec = {**spec, "part": 4 * spec["chains"]} if "chains" in spec else spec
    assert pydp.searchsorted(a, values, side, **how, spec=spec).tolist() == want
    sorter = pydp.argsort(x, **how)
    assert pydp.searchsorted(x, values, side, sorter, **how, spec=spec).tolist() == want
    assert pydp.searchsorted(a[:0], values, side, **how).tolist() == [0] * values.size


@pytest.mark.parametrize("side", ["left", "right"])
@pytest.mark.parametrize("dtype", ["float32", "uint8"])
def test_searchsorted_descending(device, dtype, side):
    x, values = numbers(200, 3).astype(dtype), numbers(90, 4).astype(dtype)
    if dtype == "float32":
        x[:9], x[9:12], values[:3] = np.nan, [0.0, -0.0, np.inf], [np.nan, -0.0, -np.inf]
    ascending = np.sort(x)
    want = x.size - np.searchsorted(ascending, values, "right" if side == "left" else "left")
    for spec in ({}, {"mapping": "simt"}, {"mapping": "vector", "chains": 2, "part": 8}):
        assert np.array_equal(pydp.searchsorted(ascending[::-1], values, side, descending=True, spec=spec), want)


@order
def test_segmented_sort(device, how, key):
    x, offsets = numbers(300, 5), np.array([0, 1, 1, 90, 300])
    parts = [ordered(part, key) for part in np.split(x, offsets[1:-1])]
    assert np.array_equal(pydp.segmented_sort(x, offsets, **how), np.concatenate(parts))
    places = pydp.segmented_argsort(x, offsets, **how)
    assert np.array_equal(x[places], np.concatenate(parts)) and np.array_equal(np.sort(places), np.arange(300))


def test_segmented_sort_by_bits(device):
    x, offsets = np.abs(numbers(300, 5)), np.array([0, 90, 300])
    parts = [ordered(part, lambda v: v >> 1 & 7) for part in np.split(x, offsets[1:-1])]
    assert np.array_equal(pydp.segmented_sort(x, offsets, bits=(1, 4)), np.concatenate(parts))


@pytest.mark.parametrize("how, key", [ORDERS[name] for name in ORDERS if "descending" not in name])
@pytest.mark.parametrize("largest", [False, True])
def test_top_k(device, how, key, largest):
    x = numbers(240, 6).reshape(6, 40)
    values, places = pydp.top_k(x, 7, 1, largest, **how)
    for row, found, at in zip(x, values, places, strict=True):
        keys = [key(one) for one in row.tolist()]
        ranks = {one: rank for rank, one in enumerate(sorted(set(keys), reverse=largest))}
        want = sorted(range(40), key=lambda i: ranks[keys[i]])[:7]
        assert at.tolist() == want and np.array_equal(found, row[want])


def test_top_k_of_one_element(device):
    for x in (np.array(-3, np.int32), np.array([[-3]], np.int32)):
        values, places = pydp.top_k(x, 1, axis=None, key="abs(x)")
        assert values.tolist() == [-3] and places.tolist() == [0]
        assert pydp.top_k(x, 0, axis=None, key="abs(x)")[0].shape == (0,)


def test_members_of_records(device):
    needs.endless_loops(device)
    pairs = np.zeros(90, [("a", np.int32), ("b", np.float32)])
    pairs["a"], pairs["b"] = numbers(90, 7) % 5, numbers(90, 8) % 9
    want = np.sort(pairs, order=["b", "a"])
    parts = [np.sort(part, order=["b"]) for part in (pairs[:40], pairs[40:])]
    assert np.array_equal(pydp.merge(*parts, key="b"), want)
    by_member = functools.partial(pydp.searchsorted, want, parts[0], key="b")
    assert np.array_equal(want[by_member()], parts[0]) and (by_member(side="right") > by_member()).all()
    assert np.array_equal(pydp.top_k(pairs, 3, largest=False, key=["b", "a"])[0], want[:3])


def test_a_driver_that_ends_loops_gets_fewer_elements(device):
    needs.ended_loops(device)
    x = ordered(numbers(9, 9), ORDERS["loop"][1])
    for call in (
        lambda spec: pydp.merge(x, x, key=with_a_loop, spec=spec),
        lambda spec: pydp.searchsorted(x, x, key=with_a_loop, spec=spec),
    ):
        with pytest.raises(pydp.InvalidArgument, match="of them in each comparison; this driver ends loops"):
            call({"stretch": 30000} if "merge" in call.__code__.co_names else {"chains": 16, "part": 2048})


def test_wrong_orders_are_refused(device):
    x = np.arange(9, dtype=np.int32)
    field, offsets = pydp.field(x), np.array([0, 9])
    calls = {
        "merge": lambda **how: pydp.merge(field, x, **how),
        "merge_by_key": lambda **how: pydp.merge_by_key(x, x, x, x, **how),
        "searchsorted": lambda **how: pydp.searchsorted(field, x, **how),
        "segmented_sort": lambda **how: pydp.segmented_sort(field, offsets, **how),
        "segmented_argsort": lambda **how: pydp.segmented_argsort(field, offsets, **how),
        "top_k": lambda **how: pydp.top_k(field, 2, **how),
    }
    for name, call in calls.items():
        for how, message in (
            ({"key": 3}, "key is 3"),
            ({"key": "a"}, "key contains 'a'"),
            ({"key": "x +"}, "key 'x \\+', column"),
            ({"less": "a + b"}, "less"),
            ({"less": 3}, "less is 3"),
            *([] if name == "top_k" else [({"descending": "yes"}, "descending is 'yes'")]),
        ):
            with pytest.raises(pydp.InvalidArgument, match=message):
                call(**how)
    for strategy in ("filter", "select"):
        with pytest.raises(pydp.InvalidArgument, match="without key and less"):
            pydp.top_k(x, 2, key="x", spec={"strategy": strategy})


def test_keys_of_types_without_a_dtype_are_refused(device):
    x = np.arange(4, dtype=np.float32)
    for call in (pydp.sort, pydp.argsort):
        with pytest.raises(pydp.InvalidArgument, match="the value is a half2, for which pyopencl has no dtype"):
            call(x, key="(half2)(x)")
