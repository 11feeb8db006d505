"""Values and memory of the lowering for CPUs: every operation, conversions, records, arrays of any strides."""

from __future__ import annotations

from dataclasses import replace

import needs
import numpy as np
import pytest
from builder import (
    F32,
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
    mod,
    mul,
    op,
    place,
    private,
    read,
    shared,
    store,
    when,
)
from lowering_cases import device_and_host, lowering_for, unit

from pydp.lang import ir
from pydp.lang.execute import host

BOOL, F64 = np.dtype(np.bool_), np.dtype(np.float64)


@pytest.fixture
def lower(device):
    return lowering_for(device)


def strided_run(device, lowered, arrays, extent):
    """As device_run.run, for views of one axis or more with any strides (each view's base is sent whole)."""
    import pyopencl as cl

    from pydp.lang.opencl.lowered import launch_shape
    from pydp.runtime.programs import program

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


_LESS_USED = [pytest.param(name, marks=pytest.mark.huge) for name in ("int16", "uint16", "uint32", "uint64")]


@pytest.mark.parametrize("name", ["int8", "uint8", "int32", "int64", *_LESS_USED])
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
    needs.dtype(device, dtype)
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
        ir.Store(
            ir.NOWHERE,
            b,
            (place(),),
            ir.Member(np.dtype(np.int16), ir.Load(kind, mine, (mod(local(), 2),)), "n"),
            ("n",),
        ),
    ]
    made = function(body, group=(8,), arrays=[a, b], locals=[slots], privates=[mine], variables=[r])
    given = np.zeros(13, kind)
    given["x"], given["n"], given["alive"] = np.arange(13), np.arange(13) - 3, np.arange(13) % 3 == 0
    given["in"]["v"] = np.arange(13)
    device_and_host(device, lower(made), made, [given, np.zeros(13, kind)], (13,))
