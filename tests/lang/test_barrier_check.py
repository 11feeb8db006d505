"""Barrier widths that depend on the values of a launch: wrong widths are rejected before the launch."""

from __future__ import annotations

import numpy as np
import pytest

import pydp
from pydp import forall, group_barrier, local_field
from pydp.errors import InvalidArgument
from pydp.lang.analysis import launch_check
from pydp.lang.compile import FieldType, NumberType, translate


def given(idx, out, n):
    s = local_field(np.int32, 16)
    s[idx.local[0]] = idx.local[0]
    group_barrier(n)
    out[idx] = s[idx.local[0] // 2 * 2]


def tree(idx, out, n):
    s = local_field(np.int32, 16)
    i = idx.local[0]
    s[i] = out[idx]
    group_barrier()
    width = n // 2
    while width > 0:
        value = s[i ^ width]
        group_barrier(width * 2)
        s[i] = s[i] + value
        group_barrier(width * 2)
        width = width // 2
    out[idx] = s[i]


def sometimes(idx, out, n):
    s = local_field(np.int32, 16)
    s[idx.local[0]] = 1
    for k in range(n - 3):
        group_barrier(n + k)
    if n > 4 and out.extent[0] > 40:
        group_barrier(n - 2)
    out[idx] = s[idx.local[0]]


def measured(idx, out, widths):
    """The width is read from an array: it is unknown before the launch."""
    s = local_field(np.int32, 16)
    s[idx.local[0]] = 1
    group_barrier(widths[0])
    out[idx] = s[idx.local[0]]


def run(function, n, size=32, **options):
    out = np.arange(size, dtype=np.int32)
    forall((size,), function, out, n, group=(16,), **options)
    return out


MAPPINGS = [{}, {"spec": {"mapping": "simt"}}, {"device": "host"}]


@pytest.mark.parametrize("options", MAPPINGS, ids=["default", "simt", "host"])
def test_widths_of_arguments(device, options):
    np.testing.assert_array_equal(run(given, 4, **options), np.arange(32) % 16 // 2 * 2)
    for n in (3, 0, -4, 32, 24):
        wrong = rf"a barrier's width is {n}; numbers that divide the group's 16 lanes"
        with pytest.raises(InvalidArgument, match=wrong):
            run(given, n, **options)


@pytest.mark.host
def test_widths_that_change_with_the_iteration():
    for n in (16, 8, 2):
        want = np.arange(32).reshape(-1, n).sum(1).repeat(n)
        np.testing.assert_array_equal(run(tree, n, device="host"), want)
    for n in (12, 10, 32):
        with pytest.raises(InvalidArgument, match=r"width is (12|10|32|4|6)"):
            run(tree, n, device="host")


def mirrored(idx, out, n):
    s = local_field(np.int32, 16)
    s[idx.local[0]] = idx.local[0]
    group_barrier(n)
    out[idx] = s[idx.local[0] ^ 7]


def shifted(idx, out, n):
    """The width is constant; the distance of the lanes that exchange is an argument."""
    s = local_field(np.int32, 16)
    s[idx.local[0]] = idx.local[0]
    group_barrier(4)
    out[idx] = s[idx.local[0] ^ n]


def halving(idx, out, n):
    """Reads elements that lanes of the upper half write, but the barrier synchronizes only the lower half."""
    s = local_field(np.int32, 16)
    i = idx.local[0]
    s[i] = out[idx]
    group_barrier()
    w = n
    while w > 0:
        if i < w:
            s[i] += s[i + w]
        group_barrier(w // 2 if w > 1 else 1)
        w >>= 1
    out[idx] = s[0] if i == 0 else 0


@pytest.mark.parametrize("options", MAPPINGS, ids=["default", "simt", "host"])
def test_arguments_that_are_too_narrow_name_two_lanes(device, options):
    for function, wide, narrow, words in (
        (mirrored, (8, 16), (1, 2, 4), r"width {} is too narrow: lane \[\d\] writes s .* lane \[\d\] reads"),
        (shifted, (0, 1, 3), (4, 7, 12), r"width 4 is too narrow: lane \[\d\] writes s .* lane \[\d+\] reads"),
    ):
        for n in wide:
            want = np.arange(32) % 16 ^ (7 if function is mirrored else n)
            np.testing.assert_array_equal(run(function, n, **options), want)
        for n in narrow:
            with pytest.raises(InvalidArgument, match=words.format(n)):
                run(function, n, **options)


@pytest.mark.host
def test_a_width_too_narrow_for_the_next_iteration():
    assert run(halving, 1, device="host")[0] == 1
    with pytest.raises(InvalidArgument, match="width 4 is too narrow"):
        run(halving, 8, device="host")


@pytest.mark.host
def test_lanes_outside_the_grid_do_not_race():
    def rows(idx, out, n):
        out[idx.local[0]] = 1
        group_barrier(n)
        out[(idx.local[0] + 8) % 16] = 2 if idx.local[0] >= 8 else 1

    run(rows, 16, 16, device="host"), run(rows, 8, 8, device="host")
    with pytest.raises(InvalidArgument, match="width 8 is too narrow"):
        run(rows, 8, 16, device="host")


def by_grid(idx, out, n):
    out[idx] = n
    group_barrier(8)
    value = out[idx.group[0] * 16 + 15 - idx.local[0]]
    group_barrier()
    out[idx] = value


def by_lane(idx, out, n):
    out[idx] = n
    group_barrier(8)
    value = out[15 - idx.local[0]]
    group_barrier()
    out[idx] = value


def by_grid_behind(idx, out, n):
    out[idx] = n
    group_barrier(8)
    value = out[idx.group[0] * 16 + 31 - idx.local[0]]
    group_barrier()
    out[idx] = value


@pytest.mark.parametrize("options", MAPPINGS, ids=["default", "simt", "host"])
def test_indexes_in_the_grid_are_compared_with_indexes_in_the_group(device, options):
    """The grid's offset, and that there is only one group, are known only at the launch."""
    wanted = r"width 8 is too narrow: lane \[0\] writes out .* and lane \[15\] reads the same"
    for function, size in ((by_grid, 32), (by_grid, 16), (by_lane, 16)):
        with pytest.raises(InvalidArgument, match=wanted):
            run(function, 3, size, **options)
    with pytest.raises(InvalidArgument, match=wanted):
        forall(pydp.grid((32,), (16,)), by_grid_behind, np.zeros(48, np.int32), 3, group=(16,), **options)


def by_lane_in_each_group(idx, out, res, n):
    out[idx.local[0] // 2] = n
    group_barrier(2)
    value = out[idx]
    group_barrier()
    res[idx] = value


def butterfly(idx, out, res, n):
    out[idx] = n
    group_barrier(n)
    res[idx] = out[idx[0] ^ 4]


@pytest.mark.parametrize("options", MAPPINGS, ids=["default", "simt", "host"])
def test_indexes_known_only_in_the_first_group(device, options):
    """Elements at indexes that do not depend on the group, which only one group reads."""
    wanted = r"width {} is too narrow: lane \[\d+\] writes out .* and lane \[\d\] reads the same"
    out, res = np.zeros((2, 64), np.int32)
    with pytest.raises(InvalidArgument, match=wanted.format(2)):
        forall(pydp.grid((24,), (5,)), by_lane_in_each_group, out, res, 3, group=(16,), **options)
    with pytest.raises(InvalidArgument, match=wanted.format(4)):
        forall((64,), butterfly, out, res, 4, group=(16,), **options)
    forall((64,), butterfly, out, res, 8, group=(16,), **options)
    assert (res == 8).all()


@pytest.mark.host
def test_barriers_that_are_not_reached_have_any_width():
    run(sometimes, 3, device="host"), run(sometimes, 4, device="host"), run(sometimes, 4, 48, device="host")
    with pytest.raises(InvalidArgument, match="width is 5"):
        run(sometimes, 5, device="host")


@pytest.mark.host
def test_widths_that_depend_on_data_are_checked_in_checked_mode():
    with pydp.checked():
        run(measured, np.array([4]), device="host")
        with pytest.raises(InvalidArgument, match="width is 6; numbers that divide the group's 16"):
            run(measured, np.array([6]), device="host")


def scaled(idx, out, n):
    """A number that is only stored: no index or condition depends on it."""
    s = local_field(np.int32, 16)
    s[idx.local[0]] = n
    group_barrier(4)
    factor = n if out[idx] > 0 else n + 1
    out[idx] = s[idx.local[0] ^ 1] * factor


def carried(idx, out, n):
    """A number on which an index depends through a condition and two variables."""
    s = local_field(np.int32, 16)
    s[idx.local[0]] = idx.local[0]
    group_barrier(4)
    a = n + 1
    b = 0
    for _ in range(2):
        if a > 2:
            b = 4
        a += 1
    out[idx] = s[idx.local[0] ^ (b + 1)]


@pytest.mark.host
def test_only_control_inputs_need_a_check():
    types = [FieldType(np.dtype(np.int32), 1), NumberType(np.dtype(np.int32), True)]
    made = {one: translate(one, 1, (16,), types) for one in (scaled, carried, shifted, given)}
    needed = {one: launch_check.LaunchCheck(function, False).has_widths for one, function in made.items()}
    assert needed == {scaled: False, carried: True, shifted: True, given: True}
    run(scaled, 3, device="host"), run(carried, 0, device="host")
    for n in (1, 6):
        with pytest.raises(InvalidArgument, match="width 4 is too narrow"):
            run(carried, n, device="host")


def stepped(idx, out, n):
    s = local_field(np.int32, 16)
    s[idx.local[0]] = idx.local[0]
    group_barrier(4)
    out[idx] = s[idx.local[0] ^ 1] if idx.local[0] < n else n
