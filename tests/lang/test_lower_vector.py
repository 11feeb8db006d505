"""The lowering for CPUs (a group to a work-item, lanes in vectors) against NumPy, plain Python and the host lowering."""

from __future__ import annotations

from dataclasses import replace

import device_run
import numpy as np
import pytest
from builder import F32, I32, add, array, assign, barrier, c, cmp, function, load, local, loop, mod, mul, op, place
from builder import private, read, shared, store, var, when
from lowering_cases import cases
from programs import random_program

from pydp.errors import UnsupportedOnDevice
from pydp.lang import host, ir, lower_vector, strip_shape
from pydp.lang.facets import Facet, Facets
from pydp.lang.front import translate
from pydp.lang.regions import Interval, Scopes, Shared, split
from pydp.lang.strip_layout import Layout, pick_rows, pick_width
from pydp.lang.strip_unroll import unroll

BOOL, F64, I64 = np.dtype(np.bool_), np.dtype(np.float64), np.dtype(np.int64)
CASES = cases()


@pytest.fixture
def lower(device):
    """The lowering for the device, which must not be one that ends loops early."""
    if device.profile.loop_limit is not None:
        pytest.skip("this driver ends loops early; the vector mapping refuses it, as another test sees")
    return lambda made, **options: lower_vector.lower(made, device.profile, **options)


def unit(made):
    return frozenset((a.name, a.rank - 1) for a in made.arrays if a.rank)


def device_and_host(device, lowered, made, arrays, extent, offset=None, parameters=(), equal=True):
    ours, theirs = [a.copy() for a in arrays], [a.copy() for a in arrays]
    device_run.run(device, lowered, ours, parameters, extent, offset)
    host.run(made, extent, offset, theirs, parameters)
    for one, other in zip(ours, theirs, strict=True):
        if equal:
            np.testing.assert_array_equal(one, other)
        else:
            np.testing.assert_allclose(one, other, rtol=4e-6, atol=1e-30)
    return ours


def check_case(device, lower, case, launches=None, **options):
    made = translate(case.function, len(case.launches[0][0]), case.group, case.types)
    if options.get("unit_strides"):
        options["unit_strides"] = unit(made)
    lowered = lower(made, **options)
    for extent, arrays, parameters, expected in case.launches[:launches]:
        got = [a.copy() for a in arrays]
        device_run.run(device, lowered, got, parameters, extent)
        for one, want in zip(got, expected, strict=True):
            np.testing.assert_array_equal(one, want)


@pytest.mark.parametrize("case", CASES, ids=[case.name for case in CASES])
def test_cases(device, lower, case):
    check_case(device, lower, case, unit_strides=True)


@pytest.mark.parametrize("name", ["mxm_naive", "mxm_tiled", "mxm_blocked", "stencil"])
def test_cases_with_unknown_strides(device, lower, name):
    check_case(device, lower, next(case for case in CASES if case.name == name))


@pytest.mark.oclgrind
@pytest.mark.parametrize("name", ["tree_sum", "histogram", "prefix", "jumps"])
def test_small_cases(device, lower, name):
    check_case(device, lower, next(case for case in CASES if case.name == name), launches=1)


def compare(device, made, lowered):
    ours, theirs = made.fresh(), made.fresh()
    device_run.run(device, lowered, ours, made.parameters, made.extent, made.offset)
    host.run(made.function, made.extent, made.offset, theirs, made.parameters)
    for one, other in zip(ours, theirs, strict=True):
        np.testing.assert_array_equal(one, other)


@pytest.mark.parametrize("seed", range(100, 114))
def test_random_programs(device, lower, seed):
    made = random_program(seed)
    compare(device, made, lower(made.function, unit_strides=unit(made.function)))


def test_random_programs_with_rows_side_by_side(device, lower, monkeypatch):
    def rows(nodes, layout, profile):
        return replace(layout, rows=pick_rows(layout.row_extent, 4))

    monkeypatch.setattr(lower_vector, "pick_layout_rows", rows)
    ran = 0
    for seed in range(200, 216):
        made = random_program(seed)
        if len(made.extent) == 2:
            ran += 1
            compare(device, made, lower(made.function))
    assert ran >= 4


@pytest.mark.huge
@pytest.mark.parametrize("seed", range(1000, 1200))
def test_many_random_programs(device, lower, seed, monkeypatch):
    made = random_program(seed)
    compare(device, made, lower(made.function, unit_strides=unit(made.function)))
    monkeypatch.setattr(
        lower_vector, "pick_layout_rows", lambda nodes, layout, profile: replace(layout, rows=layout.row_extent)
    )
    compare(device, made, lower(made.function))


@pytest.mark.parametrize("rank", range(7))
def test_every_rank(device, lower, rank):
    a = array("a", I32, rank, 0)
    value: ir.Expr = c(1)
    for axis in range(rank):
        value = add(mul(value, 10), place(axis))
    made = function([store(a, tuple(place(axis) for axis in range(rank)), value)], rank=rank, arrays=[a])
    shape = (3, 2, 4, 2, 3, 5)[:rank]
    want = np.ones(shape, np.int64)
    for axis in range(rank):
        want = want * 10 + np.arange(shape[axis]).reshape((-1,) + (1,) * (rank - 1 - axis))
    for options in ({}, {"flat": True, "unit_strides": unit(made), "grid_extent": shape}):
        out = np.zeros(shape, np.int32)
        device_run.run(device, lower(made, **options), [out], (), shape)
        np.testing.assert_array_equal(out, want)


def test_lanes_outside_the_grid(device, lower):
    """They fetch for others; their stores and atomic updates are dropped."""
    a, b, count = array("a", I32, 2, 0, writable=False, fill=-7), array("b", I32, 2, 1), array("count", I32, 1, 2)
    slots = shared("slots", 4, 8)
    body = [
        store(slots, (local(0), local(1)), load(a, place(0), place(1))),
        barrier(),
        store(b, (place(0), place(1)), load(slots, op("sub", 3, local(0)), op("sub", 7, local(1)))),
        ir.Atomic(ir.NOWHERE, "add", count, (c(0),), c(1)),
        ir.Atomic(ir.NOWHERE, "max", slots, (c(0), c(0)), c(5)),
    ]
    made = function(body, group=(4, 8), rank=2, arrays=[a, b, count], locals=[slots])
    given = np.random.default_rng(1).integers(0, 99, (9, 17)).astype(np.int32)
    for extent, offset in (((4, 8), None), ((5, 9), None), ((3, 7), (2, 1)), ((9, 17), (0, 0))):
        arrays = [given, np.full((9, 17), -1, np.int32), np.zeros(1, np.int32)]
        out = device_and_host(device, lower(made, unit_strides=unit(made)), made, arrays, extent, offset)
        assert out[2][0] == np.prod(extent)


def strided_run(device, lowered, arrays, extent):
    """As device_run.run, for views of one axis or more with any strides (each view's base is sent whole)."""
    import pyopencl as cl

    from pydp.lang.lowered import launch_shape
    from pydp.runtime import program

    kernel = program.kernel(device, lowered.template, lowered.kernel_name, lowered.params)
    bases = [a if a.base is None else a.base for a in arrays]
    flags = cl.mem_flags.READ_WRITE | cl.mem_flags.COPY_HOST_PTR
    buffers = [cl.Buffer(device.context, flags, hostbuf=base) for base in bases]
    values: list[object] = []
    for slot in lowered.arguments:
        view = arrays[slot.position] if slot.position >= 0 else None
        if slot.kind == "array":
            values.append(buffers[slot.position])
        elif slot.kind == "offset":
            start, first = view.__array_interface__["data"][0], bases[slot.position].__array_interface__["data"][0]
            values.append(slot.dtype.type((start - first) // view.itemsize))
        elif slot.kind == "stride":
            values.append(slot.dtype.type(view.strides[slot.axis] // view.itemsize))
        elif slot.kind == "extent":
            values.append(slot.dtype.type(view.shape[slot.axis]))
        else:
            values.append(slot.dtype.type(extent[slot.axis] if slot.kind == "grid" else 0))
    kernel.enqueue(device.queue, *launch_shape(lowered, extent), values)
    for base, buffer in zip(bases, buffers, strict=True):
        cl.enqueue_copy(device.queue, base, buffer)


@pytest.mark.parametrize("index", ["int32", "int64"])
def test_views_of_any_strides(device, lower, index):
    """Reversed, stepped, transposed and broadcast arrays; indexes with steps 2 and -1 from lane to lane; guards."""
    kind = np.dtype(index)
    a, b = array("a", I32, 2, 0, writable=False, fill=-5), array("b", I32, 2, 1)
    i, j = ir.GlobalIndex(kind, 0), ir.GlobalIndex(kind, 1)

    def two(x, y):
        return ir.Binary(kind, "add", x, ir.Binary(kind, "mul", y, c(2, kind)))

    value = load(a, i, j)
    for where in ((i, two(c(0, kind), j)), (i, ir.Binary(kind, "sub", c(20, kind), j)), (two(j, i), i)):
        value = add(mul(value, 3), load(a, *where))
    made = function([store(b, (i, j), value)], rank=2, arrays=[a, b])
    made = replace(made, index_dtype=kind)
    base = np.random.default_rng(2).integers(-50, 50, (40, 41)).astype(np.int32)
    lowered = lower(made)
    for view in (base, base[::-1], base.T, base[3:30:2, ::-3], np.broadcast_to(base[5], (40, 41))):
        out = np.zeros((60, 50), np.int32)
        target = out[50:10:-1, 5:47]
        want = np.zeros((60, 50), np.int32)
        host.run(made, (38, 40), None, [view, want[50:10:-1, 5:47]], ())
        strided_run(device, lowered, [view, target], (38, 40))
        np.testing.assert_array_equal(out, want)
    out, want = np.zeros((38, 40), np.int32), np.zeros((38, 40), np.int32)
    host.run(made, (38, 40), None, [base, want], ())
    strided_run(device, lower(made, unit_strides=unit(made)), [base, out], (38, 40))
    np.testing.assert_array_equal(out, want)


INTEGER_OPS = ["add", "sub", "mul", "floordiv", "mod", "and", "or", "xor", "shl", "shr"]


@pytest.mark.parametrize("name", ["int8", "uint8", "int16", "uint16", "int32", "uint32", "int64", "uint64"])
def test_integer_operations(device, lower, name):
    """Every operation of every width, by vectors and by a constant; values at the ends of the type."""
    dtype = np.dtype(name)
    x, y = array("x", dtype, 1, 0, writable=False), array("y", dtype, 1, 1, writable=False)
    out, flags = array("out", dtype, 2, 2), array("flags", BOOL, 2, 3)
    a, b = load(x, place()), load(y, place())
    values = [ir.Binary(dtype, name, a, b) for name in INTEGER_OPS]
    values += [ir.Binary(dtype, name, a, c(k, dtype)) for name, k in (("floordiv", 8), ("mod", 8), ("floordiv", 7))]
    values += [ir.Binary(dtype, name, a, c(3, dtype)) for name in ("shl", "shr", "mod")]
    values += [ir.Unary(dtype, "neg", a), ir.Unary(dtype, "invert", a)]
    values += [ir.Math(dtype, name, (a, b)) for name in ("minimum", "maximum")]
    values += [ir.Math(dtype, "abs", (a,)), ir.Select(dtype, cmp("lt", a, b), b, a)]
    body = [store(out, (c(k), place()), value) for k, value in enumerate(values)]
    tests = [cmp(name, a, b) for name in ("lt", "le", "gt", "ge", "eq", "ne")]
    body += [store(flags, (c(k), place()), test) for k, test in enumerate(tests)]
    made = function(body, arrays=[x, y, out, flags])
    low, high = int(np.iinfo(dtype).min), int(np.iinfo(dtype).max)
    edges = [low, low + 1, 0, 1, 2, 3, 7, 8, 31, 63, high - 1, high]
    if low < 0:
        edges += [-1, -2, -7, -8]
    given = np.array([(p, q) for p in edges for q in edges], dtype).T.copy()
    n = given.shape[1]
    arrays = [given[0], given[1], np.zeros((len(values), n), dtype), np.zeros((6, n), BOOL)]
    device_and_host(device, lower(made, unit_strides=unit(made)), made, arrays, (n,))


@pytest.mark.parametrize("name", ["float32", "float64"])
def test_float_operations_and_casts(device, lower, name):
    dtype = np.dtype(name)
    if dtype == F64 and not device.profile.fp64:
        pytest.skip("no float64 on this device")
    x, y, out = (array(n, dtype, r, k, writable=r == 2) for k, (n, r) in enumerate((("x", 1), ("y", 1), ("out", 2))))
    a, b = load(x, place()), load(y, place())
    values = [ir.Binary(dtype, op_name, a, b) for op_name in ("add", "sub", "mul", "truediv", "floordiv", "mod")]
    values += [ir.Math(dtype, "fmod", (a, b))]
    values += [ir.Math(dtype, n, (a, b)) for n in ("minimum", "maximum", "copysign")]
    values += [ir.Math(dtype, n, (a,)) for n in ("floor", "ceil", "trunc", "rint", "abs")]
    values += [ir.Cast(dtype, ir.Math(BOOL, n, (a,))) for n in ("isnan", "isinf", "isfinite")]
    kinds = ["bool", "int8", "uint8", "int16", "int32", "uint32", "int64"]
    small = ir.Math(dtype, "maximum", (ir.Math(dtype, "minimum", (a, c(100.0, dtype))), c(0.0, dtype)))
    small = ir.Select(dtype, ir.Math(BOOL, "isnan", (a,)), c(9.0, dtype), small)
    values += [ir.Cast(dtype, ir.Cast(np.dtype(kind), small)) for kind in kinds]
    values += [ir.Cast(dtype, ir.Cast(I32, a)), ir.Cast(dtype, ir.Cast(BOOL, b))]
    body = [store(out, (c(k), place()), value) for k, value in enumerate(values)]
    made = function(body, arrays=[x, y, out])
    edges = [0.0, -0.0, 1.0, -1.0, 0.5, 1.5, 2.5, -2.5, 3.0, -7.25, 1e10, -3e9, np.inf, -np.inf, np.nan]
    given = np.array([(p, q) for p in edges for q in edges], dtype).T.copy()
    arrays = [given[0], given[1], np.zeros((len(values), given.shape[1]), dtype)]
    device_and_host(device, lower(made, unit_strides=unit(made)), made, arrays, given.shape[1:])


def test_functions_of_floats(device, lower):
    names = ["sqrt", "exp", "exp2", "expm1", "log", "log2", "log10", "log1p", "sin", "cos", "tan", "asin", "acos"]
    names += ["atan", "sinh", "cosh", "tanh", "asinh", "atanh", "erf", "cbrt", "rsqrt"]
    x, out = array("x", F32, 1, 0, writable=False), array("out", F32, 2, 1)
    a = load(x, place())
    body = [store(out, (c(k), place()), ir.Math(F32, name, (a,))) for k, name in enumerate(names)]
    extra = [ir.Math(F32, "atan2", (a, c(0.5, F32))), ir.Math(F32, "hypot", (a, a)), ir.Binary(F32, "pow", a, a)]
    body += [store(out, (c(len(names) + k), place()), value) for k, value in enumerate(extra)]
    made = function(body, arrays=[x, out])
    given = np.linspace(0.01, 0.99, 37).astype(np.float32)
    arrays = [given, np.zeros((len(body), 37), np.float32)]
    device_and_host(device, lower(made, unit_strides=unit(made)), made, arrays, (37,), equal=False)


@pytest.mark.oclgrind
def test_records(device, lower):
    inner = np.dtype([("u", np.float32), ("v", np.int8)])
    kind = np.dtype([("x", np.float32), ("n", np.int16), ("in", inner), ("alive", np.bool_)])
    a, b = array("a", kind, 1, 0, writable=False), array("b", kind, 1, 1)
    r, slots, mine = ir.Variable("r", kind), shared("slots", 8, dtype=kind), private("mine", 2, dtype=kind)
    whole = ir.Load(kind, a, (place(),))
    member = ir.Member(F32, ir.Load(kind, a, (add(place(), 1),)), "x")
    made_inner = ir.MakeRecord(inner, (member, c(5, np.int8)))
    made_record = ir.MakeRecord(kind, (member, c(3, np.int16), made_inner, c(True, BOOL)))
    there = ir.Load(kind, slots, (op("sub", 7, local()),))
    body = [
        assign(r, ir.Select(kind, ir.Member(BOOL, whole, "alive"), whole, made_record)),
        ir.Assign(ir.NOWHERE, r, ir.Binary(F32, "mul", ir.Member(F32, read(r), "x"), c(2.0, F32)), ("x",)),
        ir.Assign(ir.NOWHERE, r, c(1.5, F32), ("in", "u")),
        store(slots, (local(),), read(r)),
        store(mine, (mod(local(), 2),), read(r)),
        barrier(),
        when(ir.Compare(BOOL, "ne", there, read(r)), [store(b, (place(),), there)]),
        ir.Store(ir.NOWHERE, b, (place(),), ir.Member(np.dtype(np.int16), ir.Load(kind, mine, (mod(local(), 2),)), "n"),
                 ("n",)),
    ]
    made = function(body, group=(8,), arrays=[a, b], locals=[slots], privates=[mine], variables=[r])
    given = np.zeros(13, kind)
    given["x"], given["n"], given["alive"] = np.arange(13), np.arange(13) - 3, np.arange(13) % 3 == 0
    given["in"]["v"] = np.arange(13)
    device_and_host(device, lower(made), made, [given, np.zeros(13, kind)], (13,))


@pytest.mark.oclgrind
def test_private_arrays_that_live_across_barriers(device, lower):
    """One indexed by lanes' own values, one by constants of a written-out loop; kept for several blocks of a group."""
    a, out = array("a", I32, 1, 0, writable=False), array("out", I32, 1, 1)
    loose, fixed, slots = private("loose", 5), private("fixed", 3), shared("slots", 16)
    k, t, total = var("k"), var("t"), var("total")
    body = [
        loop(k, 0, 5, [store(loose, (read(k),), mul(read(k), local()))]),
        loop(k, 0, 3, [store(fixed, (read(k),), add(read(k), load(a, place())))]),
        loop(
            t,
            0,
            2,
            [
                store(slots, (local(),), load(loose, mod(add(local(), read(t)), 5))),
                barrier(),
                store(loose, (mod(local(), 5),), load(slots, op("sub", 15, local()))),
                loop(k, 0, 3, [store(fixed, (read(k),), add(load(fixed, read(k)), load(slots, read(k))))]),
                barrier(),
            ],
        ),
        assign(total, load(loose, mod(local(), 5))),
        loop(k, 0, 3, [assign(total, add(mul(read(total), 31), load(fixed, read(k))))]),
        store(out, (place(),), add(read(total), read(k))),
    ]
    made = function(
        body, group=(16,), arrays=[a, out], locals=[slots], privates=[loose, fixed], variables=[k, t, total]
    )
    given = np.random.default_rng(6).integers(-9, 9, 40).astype(np.int32)
    for profile in (device.profile, replace(device.profile, simd_bytes=16)):
        lowered = lower_vector.lower(made, profile)
        device_and_host(device, lowered, made, [given, np.zeros(40, np.int32)], (40,))


def test_shared_control_flow_around_barriers(device, lower):
    """Conditions, while loops with break and continue that hold barriers; values of the group that change on the way."""
    a, out = array("a", I32, 1, 0, writable=False), array("out", I32, 1, 1)
    slots, n, total = shared("slots", 8), var("n"), var("total")
    turn = [
        assign(n, add(read(n), 1)),
        when(cmp("eq", mod(read(n), 3), 1), [ir.Continue(ir.NOWHERE)]),
        barrier(),
        store(slots, (local(),), add(read(total), read(n))),
        barrier(),
        assign(total, add(read(total), load(slots, mod(add(local(), read(n)), 8)))),
        when(cmp("gt", mul(read(n), read(n)), ir.Parameter(I32, "p", 2)), [barrier(), ir.Break(ir.NOWHERE)]),
    ]
    body = [
        assign(n, c(0)),
        assign(total, load(a, place())),
        ir.While(ir.NOWHERE, cmp("lt", read(n), 9), turn),
        ir.If(
            ir.NOWHERE,
            cmp("gt", read(n), 5),
            [barrier(), assign(total, mul(read(total), 2))],
            [assign(total, op("sub", read(total), read(n)))],
        ),
        store(out, (place(),), add(mul(read(total), 10), read(n))),
    ]
    parameter = ir.Parameter(I32, "p", 2)
    made = function(
        body, group=(8,), arrays=[a, out], locals=[slots], variables=[n, total], parameters=[parameter]
    )
    given = np.random.default_rng(8).integers(-9, 9, 21).astype(np.int32)
    for profile in (device.profile, replace(device.profile, simd_bytes=16)):
        lowered = lower_vector.lower(made, profile)
        for p in (0, 20, 1000):
            device_and_host(device, lowered, made, [given, np.zeros(21, np.int32)], (21,), None, {2: p})


def test_loops_count_as_python_does(device, lower):
    """Every start, stop and step by lane; the counter apart from the variable; break and continue."""
    a, limits, k, n = array("a", I32, 2, 0), array("limits", I32, 2, 1, writable=False), var("k"), var("n")
    bounds = [load(limits, place(0), c(axis)) for axis in range(3)]
    body = [
        assign(n, 0),
        loop(
            k,
            bounds[0],
            bounds[1],
            [
                when(cmp("eq", read(k), 5), [ir.Continue(ir.NOWHERE)]),
                when(cmp("gt", read(n), 6), [ir.Break(ir.NOWHERE)]),
                store(a, (place(0), read(n)), read(k)),
                assign(n, add(read(n), 1)),
                assign(k, 100),
            ],
            step=bounds[2],
        ),
    ]
    made = function(body, arrays=[a, limits], variables=[k, n])
    steps = [(0, 4, 1), (0, 20, 1), (3, -9, -2), (5, 5, 1), (2, 1, 1), (1, 2, -1), (-7, 8, 3), (2**31 - 3, 2**31 - 1, 2)]
    arrays = [np.full((8, 9), -1, np.int32), np.array(steps, np.int32)]
    got, _ = device_and_host(device, lower(made), made, arrays, (8,))
    for row, (start, stop, step) in zip(got, steps, strict=True):
        want = [value for value in range(start, stop, step) if value != 5][:7]
        assert list(row[: len(want)]) == want and (row[len(want) :] == -1).all()


# --- without a device ------------------------------------------------------------------------------------------------


@pytest.mark.host
def test_shapes():
    assert [pick_width(n, 16) for n in (16, 64, 24, 20, 5, 1, 17)] == [16, 16, 8, 4, 8, 4, 16]
    assert [pick_width(n, 8) for n in (16, 20, 5, 9)] == [8, 4, 8, 8]
    assert [pick_rows(16, n) for n in (16, 12, 3, 1)] == [16, 8, 2, 1] and pick_rows(13, 8) == 1
    layout = Layout((3, 8, 20), 16, 4, False)
    assert (layout.strips, layout.blocks, layout.whole, layout.row_axis) == (2, 12, False, 1)
    assert Layout((), 4, 1, True).blocks == 1 and Layout((16, 16), 16, 16, False).single


class _Profile:
    compute_units, vector_registers, simd_bytes = 2, 32, 64


@pytest.mark.host
def test_picked_groups():
    pick = strip_shape.pick_group
    assert pick(0, (), _Profile) == ()
    assert pick(1, (10**7,), _Profile) == (2048,) and pick(1, (3,), _Profile) == (4,)
    assert pick(2, (4000, 4000), _Profile) == (8, 256) and pick(3, (50, 50, 50), _Profile) == (1, 8, 64)
    assert pick(2, (10**6, 3), _Profile)[1] == 4


@pytest.mark.host
def test_regions():
    body = [assign(var("x"), c(1)), barrier(), loop(var("k"), 0, 3, [assign(var("x"), c(2)), barrier()])]
    nodes = split(body)
    assert [type(node) for node in nodes] == [Interval, Shared]
    assert nodes[1].body[0].looped and not nodes[0].looped


@pytest.mark.host
def test_facets():
    """Indexes are scalars with a step, what a condition on lanes sets is a vector unless only it sees it."""
    layout = Layout((8, 32), 16, 4, False)
    x, y, z, s = (var(n) for n in "xyzs")
    body = [
        assign(x, add(mul(local(1), 3), local(0))),
        assign(s, c(0)),
        when(
            cmp("gt", local(1), 4),
            [assign(y, add(local(1), 1)), assign(z, read(y)), assign(s, add(read(s), 1))],
        ),
    ]
    nodes = split(body)
    found = Facets(nodes, layout, {id(nodes[0]): Scopes(nodes[0].body, set())}).variables
    assert found["x"] == Facet(3, True, True) and found["y"].step == 1 and found["z"].step == 1
    assert found["s"].step is None and not found["s"].row


@pytest.mark.host
def test_small_loops_are_written_out():
    mine, k, n = private("mine", 4), var("k"), var("n")
    inner = loop(k, 0, 4, [store(mine, (add(mul(read(k), 1), 0),), read(n))])
    flat = unroll([loop(n, 0, 100, [inner]), assign(var("last"), read(k))])
    stores = [s for s in ir.statements(flat) if isinstance(s, ir.Store)]
    assert [s.indices[0].value for s in stores] == [0, 1, 2, 3]
    assert isinstance(flat[0], ir.For) and isinstance(flat[0].body[-1], ir.Assign)
    assert isinstance(unroll([loop(k, 0, 17, inner.body)])[0], ir.For)


def _profile(**changes):
    from types import SimpleNamespace

    given = {"compute_units": 2, "vector_registers": 32, "simd_bytes": 64, "loop_limit": None, "int64_atomics": True}
    return SimpleNamespace(**(given | changes))


@pytest.mark.host
def test_refusals():
    a = array("a", I32, 1, 0)
    plain = function([store(a, (place(),), 1)], arrays=[a])
    with pytest.raises(UnsupportedOnDevice, match="65535"):
        lower_vector.lower(plain, _profile(loop_limit=65535))
    wide = array("wide", I64, 1, 0)
    update = function([ir.Atomic(ir.NOWHERE, "add", wide, (c(0),), c(1, I64))], arrays=[wide])
    with pytest.raises(UnsupportedOnDevice, match="64-bit"):
        lower_vector.lower(update, _profile(int64_atomics=False))
    large = shared("large", 1 << 20)
    greedy = function([store(large, (local(),), 1), barrier()], group=(4,), locals=[large])
    with pytest.raises(UnsupportedOnDevice, match="bytes in each group"):
        lower_vector.lower(greedy, _profile())


@pytest.mark.host
def test_what_the_fast_version_of_a_product_does():
    """Rows side by side, whole vectors, no guard inside; both are in the text."""
    case = next(case for case in CASES if case.name == "mxm_tiled")
    made = translate(case.function, 2, case.group, case.types)
    lowered = lower_vector.lower(made, _profile(), unit(made))
    text = str(lowered.params["body"])
    assert "16 rows side by side" in " ".join(lowered.notes) and "vload16" in text and "v_acc_r15" in text
    assert len(lowered.barriers) == 2 and lowered.local_bytes == 0
