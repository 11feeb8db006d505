"""The result of an atomic operation is the element's previous value, in every lowering."""

from __future__ import annotations

import needs
import numpy as np
import pytest

import pydp
from pydp.errors import UnsupportedOnDevice
from pydp.lang.compile import FieldType, translate
from pydp.lang.execute import checked, host_memory
from pydp.lang.intrinsics import ATOMIC

WAYS = ("default", "simt", "vector", "host")


def run(device, way, grid, fn, *args, group=None):
    if way == "host":
        options = {"device": "host"}
    else:
        options = {"device": device} | ({} if way == "default" else {"spec": {"mapping": way}})
    needs.vector_mapping(device, way)
    pydp.forall(grid, fn, *args, group=group, **options)


def keep(idx, kept, count, x):
    if x[idx] > 0:
        kept[pydp.atomic_add(count, 0, 1)] = x[idx]


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("n", [0, 1, 37, 5000])
def test_compaction(device, way, n):
    x = np.random.default_rng(n).integers(-5, 6, n).astype(np.int32)
    kept, count = np.zeros(n + 1, np.int32), np.zeros(1, np.int32)
    run(device, way, n, keep, kept, count, x)
    assert count[0] == (x > 0).sum()
    np.testing.assert_array_equal(np.sort(kept[: count[0]]), np.sort(x[x > 0]))
    assert not kept[count[0] :].any()


def chain(idx, found, bins, x):
    found[idx] = pydp.atomic_add(bins, idx[0] % 3, x[idx])


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("dtype", [np.int32, np.uint32, np.float32, np.int64, np.float64])
def test_every_lane_finds_what_another_left(device, way, dtype):
    needs.dtype(device, dtype)
    if np.dtype(dtype).itemsize == 8:
        needs.int64_atomics(device)
    x = np.random.default_rng(3).integers(1, 50, 300).astype(dtype)
    found, bins = np.zeros(300, dtype), np.array([5, 0, 7], dtype)
    first = bins.copy()
    run(device, way, 300, chain, found, bins, x)
    for k in range(3):
        order = np.argsort(found[k::3])
        before, added = found[k::3][order], x[k::3][order]
        np.testing.assert_array_equal(np.append(before, bins[k]), first[k] + np.append(0, np.cumsum(added)))


def one_of_each(idx, out, a, b, c, d, e, f, x):
    i = idx[0]
    out[i, 0] = pydp.atomic_sub(a, i, x[i])
    out[i, 1] = pydp.atomic_min(b[i], x[i])
    out[i, 2] = pydp.atomic_max(c, i, x[i])
    out[i, 3] = pydp.atomic_and(d, i, x[i])
    out[i, 4] = pydp.atomic_or(e, i, x[i])
    out[i, 5] = pydp.atomic_xor(f, i, x[i])


@pytest.mark.oclgrind
@pytest.mark.parametrize("way", WAYS)
def test_every_operation(device, way):
    rng, n = np.random.default_rng(4), 21
    x = rng.integers(-90, 90, n).astype(np.int32)
    arrays = [rng.integers(-90, 90, n).astype(np.int32) for _ in range(6)]
    before = np.stack(arrays, axis=1)
    out = np.zeros((n, 6), np.int32)
    run(device, way, n, one_of_each, out, *arrays, x)
    np.testing.assert_array_equal(out, before)
    steps = (np.subtract, np.minimum, np.maximum, np.bitwise_and, np.bitwise_or, np.bitwise_xor)
    for k, step in enumerate(steps):
        np.testing.assert_array_equal(arrays[k], step(before[:, k], x))


def tickets(idx, out, order):
    """Each group numbers its lanes with a counter in local memory; the numbers remain valid after barriers."""
    s = pydp.local_field(np.int32, 1)
    if idx.local[0] == 0:
        s[0] = 10
    pydp.group_barrier()
    mine = pydp.atomic_add(s, 0, 2)
    pydp.group_barrier()
    out[idx] = mine + 1000 * s[0]
    order[idx] = mine


@pytest.mark.oclgrind
@pytest.mark.parametrize("way", WAYS)
def test_local_counters(device, way):
    out, order = np.zeros(40, np.int32), np.zeros(40, np.int32)
    run(device, way, 40, tickets, out, order, group=8)
    for group in range(5):
        these = order[8 * group : 8 * group + 8]
        assert sorted(these) == list(range(10, 26, 2))
        np.testing.assert_array_equal(out[8 * group : 8 * group + 8], these + 26000)


@pytest.mark.parametrize("way", WAYS)
def test_lanes_outside_the_grid_take_no_number(device, way):
    out, order = np.zeros(13, np.int32), np.zeros(13, np.int32)
    run(device, way, 13, tickets, out, order, group=8)
    assert sorted(order[:8]) == list(range(10, 26, 2)) and sorted(order[8:]) == list(range(10, 20, 2))
    np.testing.assert_array_equal(out[8:], order[8:] + 20000)


def next_of(counter, at):
    """The counter's next number."""
    return pydp.atomic_add(counter, at, 1)


def in_expressions(idx, out, counter, x):
    total = 0
    for k in range(3):
        total += next_of(counter, idx[0]) * 10 + k
    out[idx] = total + (pydp.atomic_add(counter, idx[0], 5) if x[idx] > 2 else -1)
    if x[idx] > 4 and pydp.atomic_max(counter, idx[0], 100) == 8:
        out[idx] = -7
    y = pydp.atomic_add(counter, idx[0] + 1000, 1)
    out[idx] += y


@pytest.mark.parametrize("way", WAYS)
def test_in_loops_conditions_and_called_functions(device, way):
    x = np.arange(8, dtype=np.int32)
    out, counter = np.zeros(8, np.int32), np.zeros(8, np.int32)
    run(device, way, 8, in_expressions, out, counter, x)
    wanted = [33 - 1 if k <= 2 else 33 + 3 if k <= 4 else -7 for k in range(8)]
    np.testing.assert_array_equal(out, wanted)
    np.testing.assert_array_equal(counter, [3] * 3 + [8] * 2 + [100] * 3)


@pytest.mark.host
@pytest.mark.parametrize("seed", range(40))
def test_the_host_goes_in_lane_order(seed):
    """Equal to a loop over the lanes, with few elements or many, and with inactive lanes."""
    rng = np.random.default_rng(seed)
    shape, extents = tuple(rng.integers(1, 9, 2)), tuple(rng.integers(1, (2, 3, 20)[seed % 3] + 1, 2))
    name = ("add", "min", "max", "and", "or", "xor")[seed % 6]
    memory = rng.integers(-99, 99, extents[::-1]).astype(np.int32).T
    indices = [rng.integers(-1, n + 1, shape) for n in extents]
    values = rng.integers(-(2**31), 2**31, shape).astype(np.int32)
    active = rng.random(shape) < 0.8
    wanted, before, done = memory.copy(), np.zeros(shape, np.int32), np.zeros(shape, bool)
    for lane in np.ndindex(*shape):
        at = tuple(int(index[lane]) for index in indices)
        if active[lane] and all(0 <= k < n for k, n in zip(at, extents, strict=True)):
            before[lane], done[lane] = wanted[at], True
            with np.errstate(over="ignore"):
                wanted[at] = ATOMIC[name](wanted[at], values[lane])
    got = host_memory.fetch_update(ATOMIC[name], memory, indices, values, active, shape)
    np.testing.assert_array_equal(got[0], done)
    np.testing.assert_array_equal(got[1], before)
    np.testing.assert_array_equal(memory, wanted)


@pytest.mark.host
def test_checked_mode_gives_the_same():
    field = FieldType(np.dtype(np.int32), 1)
    made = translate(keep, 1, None, [field] * 3)
    x = np.array([3, -1, 4, -1, 5], np.int32)
    kept, count = np.zeros(5, np.int32), np.zeros(1, np.int32)
    checked.run(made, (5,), None, [kept, count, x])
    assert kept.tolist() == [3, 4, 5, 0, 0] and count.tolist() == [3]


def test_atomics_of_other_types_are_refused(device):
    def f(idx, a, out):
        out[idx] = pydp.atomic_add(a, 0, 1)

    with pytest.raises((UnsupportedOnDevice, pydp.InvalidArgument)):
        pydp.forall(4, f, np.zeros(4, np.int16), np.zeros(4, np.int16), device=device)
