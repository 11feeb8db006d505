"""Members of records in vector functions: by name, sub-records, members that are arrays, everywhere the same.

What each function leaves is compared with the function run as plain Python.
"""

from __future__ import annotations

import needs
import numpy as np
import pytest
from plain_lanes import run_plain

import pydp
from pydp.errors import UnsupportedOnDevice

POINT = np.dtype([("x", "f4"), ("y", "f4")], align=True)
REC = np.dtype([("v", "f4", 3), ("m", "i4", (2, 3)), ("tag", "i4")], align=True)
NEST = np.dtype([("p", POINT, 4), ("inner", REC), ("w", "f4")], align=True)
PACKED = np.dtype([("w", "u4"), ("v", "i2", 3), ("b", "u1", 2)])
TAG = "tag"
N = 37


def records(dtype, seed=0, n=N):
    """Records of small numbers, every member set."""
    rng = np.random.default_rng(seed)
    made = np.zeros(n, dtype)
    fill(made, rng)
    return made


def fill(records, rng):
    for name in records.dtype.names:
        part = records[name]
        if part.dtype.names:
            fill(part, rng)
        else:
            part[...] = rng.integers(0, 50, part.shape)


def constants(idx, out, a, b):
    i = idx[0]
    r = a[i]
    out[i].v[0] = r.v[0] + a[i]["v"][1] * 2 + r["v"][-1]
    out[i].v[2] = r.m[1, 2] + r.m[0][1] - b[i].m[1][0]
    out[i]["v"][1] = r["tag"]
    out[i].m[0, 1] = r.m[1, 1] + r[TAG]
    out[i][TAG] = a[i].tag + 1


def dynamic(idx, out, a, b):
    i = idx[0]
    s = np.float32(0)
    for k in range(3):
        s += a[i].v[k]
        out[i].m[1, k] = a[i].m[k % 2, k]
    out[i].v[i % 3] = s
    out[i].v[(i + 1) % 3] += b[i].v[(i + 1) % 3]
    out[i].m[i % 2][0] -= 5


def divergent(idx, out, a, b):
    i = idx[0]
    k = a[i].tag % 3
    if b[i].tag % 2 == 0:
        out[i].v[k] = b[i].v[2 - k]
        while k < 2:
            k += 1
            out[i].m[0, k] = k * 100 + i
    elif a[i].m[0, 0] > 20:
        out[i].tag += a[i].m[1, k]


def whole_members(idx, out, a, b):
    i = idx[0]
    x, y, z = a[i].v
    out[i].v = (z, y, x)
    out[i].m = b[i].m
    out[i].m[1] = (7, x > y, a[i].m[0, 2])
    out[i].v = out[i].v[1], out[i].v[0], len(a[i].v)


def arithmetic(idx, out, a, b):
    i = idx[0]
    v = a[i].v * np.float32(2) + b[i].v - a[i].v
    total = np.float32(0)
    for x in v:
        total += x
    out[i].v = -v
    out[i].m[0] = a[i].m[0] * b[i].m[1]
    out[i].v[1] = max(v[0], v[1], v[2]) + total


def made(idx, out, a, b):
    i = idx[0]
    out[i] = pydp.record(REC, v=(a[i].v[2], 1.5, i), m=((1, 2, i), (a[i].tag, 5, 6)), tag=b[i].tag)


KERNELS = [constants, dynamic, divergent, whole_members, arithmetic, made]


def copies(idx, out, a):
    """Assigning copies records; their items change in the copy."""
    i = idx[0]
    r = a[i]
    r.v[i % 3] = 100 + i
    r["v"][0] += 1
    if i % 2 == 1:
        r.m[1, i % 3] = -1
    r["tag"] = i
    out[i] = r


def nested(idx, out, a):
    i = idx[0]
    k = i % 4
    out[i].p[k].x = a[i].p[3 - k].y
    out[i].p[0]["y"] = a[i]["p"][1]["x"] + a[i].inner.v[k % 3]
    out[i].inner.m[k % 2, 1] = a[i].inner.m[1, 2]
    out[i].inner.v = a[i].inner.v
    p = a[i].p[k]
    out[i].w = p.x - p["y"]


def packed(idx, out, a):
    i = idx[0]
    out[i].v[i % 3] = a[i].v[2] + a[i].w
    out[i].b[1] = a[i].b[0] + 1
    out[i].w = a[i].v[i % 3]


@pytest.fixture(params=["simt", "vector", "host"])
def where(request, device):
    """How to run: both mappings of the device, and the host."""
    if request.param == "host":
        return {"device": "host"}
    needs.vector_mapping(device, request.param)
    return {"spec": {"mapping": request.param}}


def same_as_plain(kernel, where, *arrays):
    wanted = [array.copy() for array in arrays]
    run_plain(kernel, (len(arrays[0]),), None, wanted)
    got = [array.copy() for array in arrays]
    pydp.forall(len(got[0]), kernel, *got, **where)
    for one, other in zip(got, wanted, strict=True):
        np.testing.assert_array_equal(one, other)


@pytest.mark.parametrize("kernel", KERNELS, ids=lambda kernel: kernel.__name__)
def test_array_members(where, kernel):
    same_as_plain(kernel, where, *(records(REC, seed) for seed in range(3)))


def test_sub_records_and_arrays_of_them(where):
    same_as_plain(nested, where, records(NEST), records(NEST, 1))


def test_records_with_members_off_their_alignment(where, device):
    same_as_plain(packed, where, records(PACKED), records(PACKED, 1))


def test_copies_of_records(where):
    a = records(REC)
    before, out = a.copy(), np.zeros(N, REC)
    pydp.forall(N, copies, out, a, **where)
    np.testing.assert_array_equal(a, before)
    i = np.arange(N)
    before["v"][i, i % 3] = 100 + i
    before["v"][:, 0] += 1
    odd = i[i % 2 == 1]
    before["m"][odd, 1, odd % 3] = -1
    before["tag"] = i
    np.testing.assert_array_equal(out, before)


def outside(idx, out, a):
    i = idx[0]
    k = i - 3
    out[i].v[0] = a[i].v[k]
    out[i].m[k, 1] = 9
    out[i].tag = a[i].m[1, k]


def test_an_index_outside_reads_zero_and_writes_nothing(where):
    a, out = records(REC, n=9), records(REC, 1, n=9)
    wanted = out.copy()
    for i in range(9):
        k = i - 3
        wanted[i]["v"][0] = a[i]["v"][k] if 0 <= k < 3 else 0
        if 0 <= k < 2:
            wanted[i]["m"][k, 1] = 9
        wanted[i]["tag"] = a[i]["m"][1, k] if 0 <= k < 3 else 0
    pydp.forall(9, outside, out, a, **where)
    np.testing.assert_array_equal(out, wanted)


def by_tiles(idx, out, tiles):
    tile = tiles[idx.group]
    shared = pydp.local_field(REC, 16)
    k = idx.local[0]
    shared[k] = tile[k]
    pydp.group_barrier()
    out[idx].v[k % 3] = shared[15 - k].v[k % 3] + tile[k + 1].v[1]
    out[idx]["tag"] = shared[15 - k]["m"][1, 2]


def test_tiles_and_local_fields(where):
    a, out = records(REC), np.zeros(N, REC)
    pydp.forall(N, by_tiles, out, pydp.tile(a, 16), group=16, **where)
    padded = np.concatenate([a, np.zeros(16, REC)])
    wanted = np.zeros(N, REC)
    for i in range(N):
        start, k = i // 16 * 16, i % 16
        other = padded[start + 15 - k]
        wanted[i]["v"][k % 3] = other["v"][k % 3] + (padded[i + 1]["v"][1])
        wanted[i]["tag"] = other["m"][1, 2]
    np.testing.assert_array_equal(out, wanted)


def parameter(idx, out, r, k):
    out[idx].v[0] = r.v[k] + r["m"][1, k]


def test_a_record_as_a_number_of_the_call(where, device):
    out, r = np.zeros(5, REC), records(REC, 4)[2]
    if not device.profile.unaligned_records and where != {"device": "host"}:
        with pytest.raises(UnsupportedOnDevice, match="multidimensional array member by value; pass an array of one"):
            pydp.forall(5, parameter, out, r, 2, **where)
        pytest.skip("the driver loses array members of several axes in values: they are refused")
    pydp.forall(5, parameter, out, r, 2, **where)
    assert (out["v"][:, 0] == r["v"][2] + r["m"][1, 2]).all() and not out["m"].any()


@pytest.mark.oclgrind
def test_members_under_the_simulator(where):
    for kernel in (dynamic, divergent, made):
        same_as_plain(kernel, where, *(records(REC, seed, 6) for seed in range(3)))


def changed(idx, out, r):
    q = r
    q["tag"] = 5
    p = r
    p.v[1] = 7
    out[idx] = q if idx[0] < 2 else p


def test_copies_of_a_record_given_as_a_number(device):
    out, r = np.zeros(4, REC), records(REC, 4)[2]
    pydp.forall(4, changed, out, r, device="host")
    wanted = np.array([r] * 4)
    wanted["tag"][:2] = 5
    wanted["v"][2:, 1] = 7
    np.testing.assert_array_equal(out, wanted)


def test_operators_of_values(device):
    """Array members in operators of scans and reductions, and in keys of sorts."""
    a = records(REC)

    def summed(x, y):
        return pydp.record(REC, v=x.v + y.v, m=((x.m[0, 0], 0, 0), (1, 2, y["m"][1, 2])), tag=x.tag + y["tag"])

    got = pydp.reduce(a, summed)
    np.testing.assert_array_equal(got["v"], a["v"].sum(axis=0))
    assert got["tag"] == a["tag"].sum() and got["m"][0, 0] == a[0]["m"][0, 0] and got["m"][1, 2] == a[-1]["m"][1, 2]
    order = np.argsort(a["v"][:, 1], kind="stable")
    np.testing.assert_array_equal(pydp.sort(a, key=lambda r: r.v[1]), a[order])


def turned(idx, out, a):
    shared = pydp.local_field(a.dtype, 8)
    shared[idx.local] = a[idx]
    pydp.group_barrier()
    out[idx] = shared[7 - idx.local[0]]


def turned_alone(idx, out, a):
    own = pydp.private_field(a.dtype, 8)
    first = idx[0] - idx[0] % 8
    for k in range(8):
        own[k] = a[first + k]
    out[idx] = own[7 - idx[0] % 8]


def member(idx, out, r):
    out[idx] = r["b"]


@pytest.mark.parametrize("offsets, itemsize", [([0, 4], 8), ([4, 0], 8), ([1, 5], 9), ([2, 7], 12)])
def test_a_record_with_gaps_as_a_number_of_the_call(where, device, offsets, itemsize):
    dtype = np.dtype({"names": ["a", "b"], "formats": ["i2", "i4"], "offsets": offsets, "itemsize": itemsize})
    out, r = np.zeros(5, np.int32), np.array([(3, 70000)], dtype)[0]
    aligned = offsets in ([0, 4], [4, 0])
    if not device.profile.unaligned_records and where != {"device": "host"} and not aligned:
        with pytest.raises(UnsupportedOnDevice, match="cannot pass a record with misaligned members by value"):
            pydp.forall(5, member, out, r, **where)
        pytest.skip("the driver loses misaligned members in values: they are refused")
    pydp.forall(5, member, out, r, **where)
    assert np.array_equal(out, [70000] * 5)


@pytest.mark.parametrize("members", ["f4 i2", "i4 u8", "u1 u1 u1", "u1 u1", "i4 i4 i4"])
@pytest.mark.parametrize("function", [turned, turned_alone])
def test_fields_of_packed_records(where, device, function, members):
    dtype = np.dtype([(name, part) for name, part in zip("abc", members.split(), strict=False)])
    a, out = records(dtype, 7, 24), np.zeros(24, dtype)
    fits = (dtype.itemsize % 4 == 0 and members != "i4 u8") or dtype.itemsize == 2
    if where != {"device": "host"} and not device.profile.unaligned_records and not fits:
        with pytest.raises(UnsupportedOnDevice, match=r"does not store (local|private) arrays|corrupts records"):
            pydp.forall(24, function, out, a, group=8, **where)
        pytest.skip("the driver loses records with members off their alignment: they are refused")
    pydp.forall(24, function, out, a, group=8, **where)
    assert np.array_equal(out, a.reshape(-1, 8)[:, ::-1].reshape(-1))
