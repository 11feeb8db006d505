"""Several neighbouring elements for each lane: local arrays in the order that suits, families of strided accesses."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
from builder import (
    I32,
    add,
    array,
    assign,
    barrier,
    c,
    cmp,
    function,
    load,
    local,
    loop,
    mod,
    mul,
    op,
    place,
    read,
    shared,
    store,
    sub,
    var,
    when,
)
from lowering_cases import F32, device_and_host, lowering_for, unit

import pydp.lang.vector as pv
from pydp.lang import ir
from pydp.lang.analysis.regions import Interval
from pydp.lang.compile import FieldType, translate
from pydp.lang.opencl.unroll import unroll
from pydp.lang.opencl.vector import values
from pydp.lang.opencl.vector.arrange import Arrangement, arrange
from pydp.lang.opencl.vector.families import Families, Sibling, without_offset
from pydp.lang.opencl.vector.layout import StripLayout
from pydp.lang.opencl.vector.variance import Variances


@pytest.fixture
def lower(device):
    return lowering_for(device)


def product(rows, columns, depth=4, across=8, down=4):
    """Each lane has `rows` x `columns` neighbouring elements; staging takes neighbours, too."""

    def contiguous(idx, C, A, B):
        sA = pv.local_field(np.float32, down * rows, depth)
        sB = pv.local_field(np.float32, depth, across * columns)
        acc = pv.private_field(np.float32, rows, columns)
        i, j = idx.local
        for r in range(rows):
            for q in range(columns):
                acc[r, q] = 0.0
        for step in range(A.extent[1]):
            a, b = A(idx.group[0], step), B(step, idx.group[1])
            if j < depth:
                for r in range(rows):
                    sA[i * rows + r, j] = a[i * rows + r, j]
            for r in range(columns):
                sB[i, j * columns + r] = b[i, j * columns + r]
            pv.group_barrier()
            for k in range(depth):
                for r in range(rows):
                    for q in range(columns):
                        acc[r, q] += sA[rows * i + r, k] * sB[k, columns * j + q]
            pv.group_barrier()
        tile = C[idx.group]
        for r in range(rows):
            for q in range(columns):
                tile[i * rows + r, j * columns + q] = acc[r, q]

    tiles = [(down * rows, across * columns), (down * rows, depth), (depth, across * columns)]
    types = [FieldType(F32, 2, (shape,), writable) for shape, writable in zip(tiles, (True, False, False), strict=True)]
    return translate(contiguous, 2, (down, across), types), tiles[0]


def check_product(device, lower, rows, columns, sizes, **options):
    made, tile = product(rows, columns)
    lowered = lower(made, unit_strides=unit(made), **options)
    if columns in (2, 4):  # whole vectors, with which dealing is sure to pay
        assert f"local field sB is stored in {columns} interleaved planes along axis 1" in " ".join(lowered.notes)
    rng = np.random.default_rng(rows * columns)
    for n, inner, m in sizes:
        a = rng.integers(-4, 5, (n, inner)).astype(np.float32)
        b = rng.integers(-4, 5, (inner, m)).astype(np.float32)
        extent = (-(-n // tile[0]) * 4, -(-m // tile[1]) * 8)
        out = device_and_host(device, lowered, made, [np.full((n, m), -1, np.float32), a, b], extent)
        np.testing.assert_array_equal(out[0], a @ b)


SIZES = [(64, 8, 64), (37, 13, 51), (1, 1, 1)]


@pytest.mark.sweep
@pytest.mark.parametrize(("rows", "columns"), [(4, 4), (2, 2), (3, 3), (8, 8), (2, 5)])
def test_products_of_neighbouring_elements(device, lower, rows, columns):
    check_product(device, lower, rows, columns, SIZES)


@pytest.mark.oclgrind
def test_small_product_of_neighbouring_elements(device, lower):
    check_product(device, lower, 2, 4, [(9, 5, 35)])


# --- every kind of access to an array in planes --------------------------------------------------------------


def mixed_program(factor, group, last=True):
    """Local arrays that are read most often `factor` elements apart, in all other ways too."""
    lanes = group[-1]
    size = lanes * factor + 3
    a, out = array("a", I32, 1, 0, writable=False), array("out", I32, 1, 1)
    s, counts = shared("s", *((2, size) if last else (size, 2))), shared("counts", size)
    k, r, x, total = var("k"), var("r"), var("x"), var("total")
    lane = local(len(group) - 1)

    def at(row, column):
        return (row, column) if last else (column, row)

    own = add(mul(lane, factor), read(r))
    body = [
        assign(total, 0),
        # Every element is set once by the group's first row of lanes, the last three by a few lanes under a condition.
        when(
            cmp("eq", local(0) if len(group) > 1 else c(0), 0),
            [
                loop(r, 0, factor, [store(s, at(c(0), own), add(load(a, own), 1))]),
                loop(r, 0, factor, [store(s, at(c(1), add(lane, mul(read(r), lanes))), mul(lane, add(read(r), 3)))]),
                loop(r, 0, factor, [store(counts, (add(lane, mul(read(r), lanes)),), read(r))]),
                when(
                    cmp("lt", lane, 3),
                    [
                        store(s, at(c(0), add(lane, lanes * factor)), 5),
                        store(s, at(c(1), add(lane, lanes * factor)), load(s, *at(c(0), mul(lane, factor)))),
                        store(counts, (add(lane, lanes * factor),), lane),
                    ],
                ),
            ],
        ),
        barrier(),
        loop(
            k,
            0,
            6,
            [
                loop(r, 0, factor, [assign(total, add(mul(read(total), 3), load(s, *at(mod(read(k), 2), own))))]),
                loop(r, 0, factor, [assign(total, add(read(total), load(s, *at(c(0), sub(size - 4, own)))))]),
            ],
        ),
        assign(total, add(read(total), load(s, *at(c(1), add(lane, 3))))),
        assign(total, add(read(total), load(s, *at(c(1), lane)))),
        assign(total, add(read(total), mul(load(s, *at(c(0), mod(mul(lane, 7), size))), 11))),
        assign(total, op("xor", read(total), load(s, *at(c(0), c(factor + 1))))),
        assign(x, 0),
        when(
            cmp("gt", mod(lane, 3), 0),
            [
                assign(x, load(s, *at(c(1), add(mul(lane, factor), 1)))),
                assign(x, add(read(x), load(s, *at(c(1), add(lane, 1))))),
                ir.Atomic(ir.NOWHERE, "add", counts, (mul(lane, factor),), read(x)),
                ir.Atomic(ir.NOWHERE, "max", counts, (add(lane, 2),), c(1)),
            ],
            [assign(x, load(s, *at(c(0), sub(size - 1, lane))))],
        ),
        barrier(),
        loop(r, 0, factor, [assign(total, add(mul(read(total), 5), load(counts, own)))]),
        store(out, (place(),) if len(group) == 1 else (add(mul(local(0), lanes), lane),), add(read(total), read(x))),
    ]
    made = function(
        body,
        group=group,
        rank=len(group),
        arrays=[a, out],
        locals=[s, counts],
        variables=[k, r, x, total],
    )
    return made, size


@pytest.fixture
def planes(monkeypatch):
    """Every local array of the program is stored in `factor` planes along `axis`, at any cost."""

    def order(factor, axis):
        def arranged(function, variances, layout):
            return {array.name: Arrangement(array.shape, axis % len(array.shape), factor) for array in function.locals}

        monkeypatch.setattr(values, "arrange", arranged)

    return order


@pytest.mark.parametrize("factor", [2, 3, 4, 8])
@pytest.mark.parametrize("last", [True, False])
def test_every_access_to_arrays_in_planes(device, lower, factor, last, planes):
    planes(factor, int(last))
    group = (4, 8) if factor == 4 else (16,)
    made, size = mixed_program(factor, group, last)
    given = [np.random.default_rng(factor).integers(-9, 9, size).astype(np.int32), np.zeros(np.prod(group), np.int32)]
    lowered = lower(made, unit_strides=unit(made))
    assert f"local field s is stored in {factor} interleaved planes along axis {int(last)}" in " ".join(lowered.notes)
    device_and_host(device, lowered, made, given, group)


@pytest.mark.oclgrind
def test_small_access_to_arrays_in_planes(device, lower, planes):
    planes(2, 1)
    made, size = mixed_program(2, (8,))
    given = [np.arange(size, dtype=np.int32), np.zeros(8, np.int32)]
    device_and_host(device, lower(made, unit_strides=unit(made)), made, given, (8,))


@pytest.mark.parametrize("dtype", ["u1", "i8", "f8", "?", "record"])
def test_elements_of_every_size_in_planes(device, lower, dtype):
    kind = np.dtype([("x", "i4"), ("y", "u1")], align=True) if dtype == "record" else np.dtype(dtype)
    a, out = array("a", kind, 1, 0, writable=False), array("out", kind, 1, 1)
    s, r = shared("s", 64, dtype=kind), var("r")
    body = [
        loop(r, 0, 4, [store(s, (add(local(), mul(read(r), 16)),), load(a, add(local(), mul(read(r), 16))))]),
        barrier(),
        loop(r, 0, 4, [store(out, (add(mul(local(), 4), read(r)),), load(s, sub(63, add(mul(local(), 4), read(r)))))]),
        loop(r, 0, 4, [store(out, (add(mul(local(), 4), read(r)),), load(s, add(mul(local(), 4), read(r))))]),
    ]
    made = function(body, group=(16,), arrays=[a, out], locals=[s], variables=[r])
    numbers = np.random.default_rng(2).integers(0, 99, 64)
    given = np.zeros(64, kind)
    if dtype == "record":
        given["x"], given["y"] = numbers, numbers[::-1]
    else:
        given[:] = numbers % 2 if dtype == "?" else numbers
    got = device_and_host(device, lower(made, unit_strides=unit(made)), made, [given, np.zeros(64, kind)], (16,))
    np.testing.assert_array_equal(got[1], given)


# --- array arguments a few elements apart --------------------------------------------------------------------


@pytest.mark.parametrize("step", [2, 3, 4, 5, 8])
def test_array_arguments_a_few_elements_apart(device, lower, step):
    """A stencil that halves (thirds, ...) its input and its way back: all siblings, more than those, and some only."""
    a, out, up = array("a", I32, 1, 0, writable=False, fill=-3), array("out", I32, 1, 1), array("up", I32, 1, 2)
    r, total = var("r"), var("total")
    near = add(mul(place(), step), read(r))
    body = [
        assign(total, 0),
        loop(r, -1, step, [assign(total, add(mul(read(total), 3), load(a, near)))]),
        assign(total, op("xor", read(total), load(a, mul(place(), step)))),
        store(out, (place(),), read(total)),
        loop(r, 0, step, [store(up, (near,), add(mul(read(total), step), read(r)))]),
    ]
    made = function(body, arrays=[a, out, up], variables=[r, total])
    lowered = lower(made, unit_strides=unit(made))
    rng = np.random.default_rng(step)
    for size in (1, 5, 64, 1001):
        for more in (0, 1, step):
            given = rng.integers(-99, 99, size * step + more).astype(np.int32)
            arrays = [given, np.zeros(size, np.int32), np.zeros(size * step - more % 2, np.int32)]
            device_and_host(device, lowered, made, arrays, (size,))


@pytest.mark.oclgrind
def test_small_array_arguments_a_few_elements_apart(device, lower):
    a, out, r = array("a", I32, 1, 0, writable=False), array("out", I32, 1, 1), var("r")
    near = add(mul(place(), 2), read(r))
    made = function([loop(r, 0, 2, [store(out, (near,), load(a, near))])], arrays=[a, out], variables=[r])
    for size in (8, 13):
        given = [np.arange(2 * size, dtype=np.int32), np.zeros(2 * size, np.int32)]
        device_and_host(device, lower(made, unit_strides=unit(made)), made, given, (size,))


def test_stores_that_read_what_they_change(device, lower):
    """out[2 * i + r] = out[2 * i + 1 - r] * 2, in the order of the source: the second store reads the first one's."""
    out = array("out", I32, 1, 0)
    body = [store(out, (add(mul(place(), 2), r),), mul(load(out, add(mul(place(), 2), 1 - r)), 2)) for r in range(2)]
    made = function(body, arrays=[out])
    got = device_and_host(device, lower(made, unit_strides=unit(made)), made, [np.arange(80, dtype=np.int32)], (40,))
    assert list(got[0][:4]) == [2, 4, 6, 12]


# --- without a device ------------------------------------------------------------------------------------------------


@pytest.mark.host
def test_arrangements_are_one_to_one():
    for shape, factor in itertools.product([(6,), (7,), (3, 10), (4, 3, 5)], (1, 2, 3, 4)):
        for axis in range(len(shape)):
            order = Arrangement(shape, axis, factor)
            seen = set()
            for index in np.ndindex(*shape):
                along = index[axis]
                index = (*index[:axis], along % factor * order.plane_size + along // factor, *index[axis + 1 :])
                seen.add(sum(one * stride for one, stride in zip(index, order.strides, strict=True)))
            assert len(seen) == np.prod(shape) and min(seen) >= 0 and max(seen) < order.total
    assert Arrangement((5, 7)).strides == (7, 1) and Arrangement((5, 7)).total == 35
    assert Arrangement((5, 7), 0).strides == (1, 5) and Arrangement((), -1).total == 1


def _arranged(body, **given):
    made = function(body, group=(4, 16), rank=2, **given)
    interval = Interval(made.body)
    layout = StripLayout(made.group, 16, 1, False)
    variances = Variances([interval], layout)
    return arrange(made, variances, layout), variances


@pytest.mark.host
def test_the_order_that_is_picked():
    s, k, r, x = shared("s", 16, 64), var("k"), var("r"), var("x")
    given = {"locals": [s], "variables": [k, r, x]}

    def reads(*index):
        return [loop(k, 0, 16, [loop(r, 0, 4, [assign(x, load(s, *index))])])]

    def picked(body):
        return _arranged(body, **given)[0]["s"]

    neighbours, apart = add(mul(local(1), 4), read(r)), add(local(1), mul(read(r), 16))
    stages = [store(s, (local(0), apart), 1)]
    assert picked(stages + reads(read(k), neighbours)) == Arrangement((16, 64), 1, 4)
    assert picked(stages + reads(read(k), apart)) == Arrangement((16, 64))
    assert picked(stages + reads(read(k), add(local(0), 3))) == Arrangement((16, 64))
    # Lanes move along the first axis: it is the one to be stored fastest, unless staging costs more.
    assert picked(stages + reads(local(1), read(k))) == Arrangement((16, 64), 0)
    assert picked([store(s, (local(0), apart), 1), assign(x, load(s, local(1), 3))]) == Arrangement((16, 64))
    assert picked([]) == Arrangement((16, 64))


@pytest.mark.host
def test_families():
    a, b = array("a", I32, 2, 0), array("b", I32, 2, 1)
    s, x = shared("s", 16, 64), var("x")
    unit_strides = frozenset([("a", 1), ("b", 1)])

    def near(offset, step=2):
        return add(add(mul(place(1), step), offset), place(0))

    loads = [load(a, place(0), near(offset)) for offset in (-1, 0, 1)] + [load(b, place(0), near(0))]
    variances = _arranged([], locals=[s], variables=[x])[1]
    families = Families(variances, unit_strides)
    body = [assign(x, one) for one in loads]
    found = families.loads(body)
    assert [found.get(one.uid) for one in loads] == [Sibling(0, 2, 1), Sibling(1, 2, 1), None, None]
    assert families.loads([when(cmp("eq", 1, 1), body)]) == found and not Families(variances, frozenset()).loads(body)

    stores = [store(a, (place(0), near(offset)), offset) for offset in (1, 0)]
    assert families.stores(stores) == stores[::-1] and not families.stores(stores[:1])
    assert not families.stores([stores[0], stores[0]]) and not families.stores([stores[0], assign(x, 1), stores[1]])
    assert not families.stores([stores[0], store(b, (place(0), near(0)), 1)])
    assert not families.stores([stores[0], store(a, (place(0), near(0)), load(b, 0, 0))])
    rest, offset = without_offset(near(5))
    assert offset == 5 and without_offset(near(7))[0] == rest and without_offset(sub(3, local(1)))[1] == 3


@pytest.mark.host
def test_loops_that_fill_gaps_are_written_out():
    a, r = array("a", I32, 1, 0), var("r")
    near = loop(r, 0, 4, [store(a, (add(mul(place(), 4), read(r)),), 1)])
    assert len(unroll([near])) == 4
    for far in (
        loop(r, 0, 4, [store(a, (add(mul(place(), 16), read(r)),), 1)]),
        loop(r, 0, 4, [store(a, (add(place(), mul(read(r), 16)),), 1)]),
    ):
        assert unroll([far]) == [far]
