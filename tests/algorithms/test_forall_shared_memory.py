"""forall's NumPy arguments that share memory: what is written through one is read through the others, also where
kernels work on copies (foreign byte orders, places between elements, devices with memory of their own)."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

import pydp
from pydp.algorithms.forall import aliases

COUNT = np.arange(10) + 100


def start_and_raise(idx, out, again):
    out[idx] = idx[0]
    again[idx] = again[idx] + 100


def first_writes_last(idx, low, high):
    low[idx] = 1
    if idx[0] == 0:
        high[9] = 5


def write_and_read(idx, seen, out, copy):
    out[idx] = 4
    copy[idx] = seen[idx]


def members(idx, tag, value, again):
    tag[idx] = 1
    value[idx] = 2
    again[idx] = again[idx] * 10


def members_of_two(idx, low, high):
    low[idx].y = 1
    high[idx].y = 2


@pytest.fixture(params=["shared", "own", "host"])
def where(request: pytest.FixtureRequest, device: Any) -> Iterator[Any]:
    """The device as it is, as if it had memory of its own, and the host."""
    before = device.profile
    if request.param == "own":
        device._profile = dataclasses.replace(before, shares_host_memory=False)
    yield "host" if request.param == "host" else device
    device._profile = before


def memory(kind: str, count: int) -> np.ndarray:
    """Zeros in native, foreign, or unaligned memory."""
    if kind == "between elements":
        return np.zeros(4 * count + 1, np.uint8)[1:].view(np.int32)
    return np.zeros(count, ">i4" if kind == "foreign" else "i4")


@pytest.mark.parametrize("kind", ["native", "foreign", "between elements"])
def test_an_array_twice_and_views_of_one(where: Any, kind: str) -> None:
    a = memory(kind, 10)
    pydp.forall(10, start_and_raise, a, a, device=where)
    assert np.array_equal(a, COUNT)
    wide = memory(kind, 30)
    pydp.forall(10, start_and_raise, wide[3:23:2], wide[3:23:2], device=where)
    assert np.array_equal(wide[3:23:2], COUNT) and wide.sum() == COUNT.sum()
    back = memory(kind, 10)
    pydp.forall(10, start_and_raise, back[::-1], back[::-1], device=where)
    assert np.array_equal(back[::-1], COUNT)
    overlapping = memory(kind, 12)
    pydp.forall(10, first_writes_last, overlapping[:10], overlapping[2:], device=where)
    assert overlapping.tolist() == [1] * 10 + [0, 5]


@pytest.mark.parametrize("kind", ["native", "foreign", "between elements"])
def test_read_only_views_see_what_is_written(where: Any, kind: str) -> None:
    a, copy = memory(kind, 10), np.zeros(10, np.int32)
    seen = a.view()
    seen.flags.writeable = False
    pydp.forall(10, write_and_read, seen, a, copy, device=where)
    assert (copy == 4).all() and (a == 4).all()


def test_members_of_packed_records(where: Any) -> None:
    records = np.zeros(10, [("tag", "u1"), ("value", "i4")])
    pydp.forall(10, members, records["tag"], records["value"], records["value"], device=where)
    assert (records["tag"] == 1).all() and (records["value"] == 20).all()


def test_elements_that_no_one_copy_can_hold_are_refused(device: Any) -> None:
    values = np.zeros(12, [("tag", "u1"), ("value", "i4")])["value"]
    with pytest.raises(pydp.InvalidArgument, match=r"strides \(5,\) shares elements"):
        pydp.forall(10, first_writes_last, values[:10], values[2:])
    records, raw = np.dtype([("x", "i4"), ("y", "i4"), ("z", "i4")]), np.zeros(12 * 12 + 4, np.uint8)
    with pytest.raises(pydp.InvalidArgument, match="cannot be copied together"):
        pydp.forall(12, members_of_two, raw[:-4].view(records), raw[4:].view(records))
    assert not raw.any()
    native = np.zeros(12, np.int32)
    with pytest.raises(pydp.InvalidArgument, match="cannot be copied together"):
        pydp.forall(10, first_writes_last, native[:10], native[2:].view(">i4"), device="host")
    assert not values.any() and not native.any()


def _sums(idx, out, x, y):
    out[idx] = x[idx] + y[idx[0] + 1]


def test_overlaps_of_arrays_that_are_only_read_are_not_searched(device, monkeypatch):
    """The product of a matrix with itself has no cost for the memory that its two operands share."""
    monkeypatch.setattr(aliases, "_aliases", lambda *_: pytest.fail("overlaps were searched"))
    x, out = np.arange(5), np.zeros(4, int)
    pydp.forall(4, _sums, out, x, x[::-1], device=device)
    np.testing.assert_array_equal(out, x[:4] + x[::-1][1:])


def bits_of_numbers(idx, bits, numbers, out):
    total = np.float32(0)
    for k in range(8):
        bits[idx] = 0x3F800000 + (k << 20)
        total += numbers[idx]
    out[idx] = total


def records_and_numbers(idx, records, numbers):
    at = 2 * idx[0]
    for _ in range(5):
        numbers[at] = numbers[at] + 1
        one = records[idx]
        one.x = one.x * 2
        one.n = one.n + int(one.x)
        records[idx] = one


def add_member(idx, x, n):
    x[idx] = x[idx] + n[idx]


MAPPINGS: list[Any] = [None, {"mapping": "simt"}]


@pytest.mark.oclgrind
@pytest.mark.parametrize("spec", MAPPINGS, ids=["default", "simt"])
def test_what_is_written_as_one_type_is_read_as_another(where: Any, spec: Any) -> None:
    bits, out = np.zeros(40, np.int32), np.zeros(40, np.float32)
    pydp.forall(40, bits_of_numbers, bits, bits.view(np.float32), out, device=where, spec=spec)
    want = (0x3F800000 + (np.arange(8) << 20)).astype(np.int32)
    assert (bits == want[-1]).all() and (out == want.view(np.float32).sum()).all()
    records = np.zeros(40, [("x", "f4"), ("n", "i4")])
    pydp.forall(40, records_and_numbers, records, records.view(np.float32), device=where, spec=spec)
    assert (records["x"] == 62).all() and (records["n"] == 2 + 6 + 14 + 30 + 62).all()


def test_types_of_arrays_that_share_no_bytes_are_run_as_others(device: Any) -> None:
    records = np.zeros(40, [("x", "f4"), ("n", "i4")])
    usual = pydp.explain(pydp.forall, 40, add_member, records["x"], records["n"])
    assert "_shared" not in usual.sources[f"forall_{usual.facts['mapping']}.mako"]
    bits = np.zeros(40, np.int32)
    for given in ((bits.view(np.float32), bits), (bits.view(np.float32)[1:], bits[:-1])):
        found = pydp.explain(pydp.forall, 39, add_member, *given)
        assert "float_shared*" in found.sources["forall_simt.mako"] and "share memory" in str(found)
    found = pydp.explain(pydp.forall, 20, add_member, bits[:20].view(np.float32), bits[20:])
    assert "_shared" not in found.sources[f"forall_{found.facts['mapping']}.mako"]


def test_a_group_that_types_in_one_memory_forbid_is_told_why(device: Any) -> None:
    bits, lanes = np.zeros(40, np.int32), 2 * device.profile.max_group_size
    with pytest.raises(pydp.errors.InvalidArgument, match=f"group=.{lanes}") as refused:
        pydp.forall(40, add_member, bits.view(np.float32), bits, group=lanes)
    if device.profile.mapping == "vector" and device.profile.loop_limit is None:  # others take no such group at all
        pydp.forall(40, add_member, bits.astype(np.float32), bits, group=lanes)
        assert "share memory" in str(refused.value) and "Pass a copy" in str(refused.value)
