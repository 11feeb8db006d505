"""The host lowering against a lane-by-lane interpreter and against NumPy."""

from __future__ import annotations

import interpreter
import numpy as np
import pytest
from builder import (
    BOOL,
    F32,
    HERE,
    I32,
    add,
    array,
    assign,
    barrier,
    c,
    cmp,
    div,
    function,
    group,
    load,
    local,
    loop,
    mod,
    mul,
    op,
    place,
    private,
    read,
    shared,
    store,
    sub,
    var,
    when,
)  # fmt: skip
from hypothesis import given, settings
from hypothesis import strategies as st
from programs import random_program

from pydp.lang import ir
from pydp.lang.execute import host

pytestmark = pytest.mark.host


def same(x, y):
    for one, other in zip(x, y, strict=True):
        np.testing.assert_array_equal(one, other)


def test_random_programs_agree_with_the_interpreter():
    @settings(max_examples=150)
    @given(st.integers(0, 10**9))
    def check(seed):
        program = random_program(seed)
        ours, theirs = program.fresh(), program.fresh()
        host.run(program.function, program.extent, program.offset, ours, program.parameters)
        interpreter.run(program.function, program.extent, program.offset, theirs, program.parameters, seed)
        same(ours, theirs)

    check()


@pytest.mark.parametrize("at_once", [1, 7, 40])
def test_results_do_not_depend_on_the_number_of_lanes_at_once(monkeypatch, at_once):
    for seed in range(40):
        program = random_program(seed)
        whole, pieces = program.fresh(), program.fresh()
        host.run(program.function, program.extent, program.offset, whole, program.parameters)
        monkeypatch.setattr(host, "LANES_AT_ONCE", at_once)
        host.run(program.function, program.extent, program.offset, pieces, program.parameters)
        monkeypatch.undo()
        same(whole, pieces)


def tiled_matmul(n=4):
    C, A, B = (array(name, F32, 2, k) for k, name in enumerate("CAB"))
    a, b = shared("sA", n, n, dtype=F32), shared("sB", n, n, dtype=F32)
    acc, i, k = var("acc", F32), var("i"), var("k")
    steps = div(add(ir.ArrayExtent(I32, A, 1), n - 1), n)
    tiles = [
        store(a, [local(0), local(1)], load(A, add(mul(group(0), n), local(0)), add(mul(read(i), n), local(1)))),
        store(b, [local(0), local(1)], load(B, add(mul(read(i), n), local(0)), add(mul(group(1), n), local(1)))),
        barrier(0),
        loop(k, 0, n, [assign(acc, add(read(acc), mul(load(a, local(0), read(k)), load(b, read(k), local(1)))))]),
        barrier(1),
    ]
    body = [assign(acc, c(0, F32)), loop(i, 0, steps, tiles), store(C, [place(0), place(1)], read(acc))]
    return function(body, group=(n, n), rank=2, arrays=[C, A, B], locals=[a, b])


@pytest.mark.parametrize("shape", [(4, 4, 4), (1, 1, 1), (7, 9, 5), (13, 3, 8), (64, 70, 33)])
def test_tiled_matmul(shape):
    m, k, n = shape
    numbers = np.random.default_rng(0)
    A = numbers.integers(-9, 9, (m, k)).astype(np.float32)
    B = numbers.integers(-9, 9, (n, k)).astype(np.float32).T
    C = np.full((m, n), np.nan, np.float32)
    host.run(tiled_matmul(), (m, n), None, [C, A, B])
    assert np.array_equal(C, A @ B)


def five_points(out, x):
    i, j = place(0), place(1)
    rows = add(load(x, sub(i, 1), j), load(x, add(i, 1), j))
    columns = add(load(x, i, sub(j, 1)), load(x, i, add(j, 1)))
    return function([store(out, [i, j], add(rows, columns))], rank=2, arrays=[out, x])


@pytest.mark.parametrize("step", [(1, 1), (-1, 2), (3, -1)])
def test_stencil_reads_fill_outside_any_strides(step):
    out, x = array("out", F32, 2, 0), array("x", F32, 2, 1, fill=2.5)
    big = np.random.default_rng(1).random((90, 84), np.float32)
    X = big[:: step[0], :: step[1]]
    result = np.zeros((84, 90), np.float32).T[:: step[0], :: step[1]]
    padded = np.pad(X, 1, constant_values=2.5)
    expected = (padded[:-2, 1:-1] + padded[2:, 1:-1]) + (padded[1:-1, :-2] + padded[1:-1, 2:])
    host.run(five_points(out, x), X.shape, None, [result, X])
    assert np.array_equal(result, expected)


def test_grid_offset_and_smaller_grid_leave_the_rest():
    out = array("out")
    f = function([store(out, [place()], mul(place(), 2))], arrays=[out])
    data = np.full(10, -1, np.int32)
    host.run(f, (4,), (3,), [data])
    assert data.tolist() == [-1, -1, -1, 6, 8, 10, 12, -1, -1, -1]


def test_lanes_outside_the_grid_load_but_do_not_store():
    out, x, slots, count = array("out"), array("x", position=1), shared("s", 4), shared("n", 1)
    body = [
        store(slots, [local()], load(x, place())),
        when(cmp("eq", local(), 0), [store(count, [0], 0)]),
        barrier(),
        ir.Atomic(HERE, "add", count, (c(0),), c(1)),
        barrier(),
        store(out, [place()], add(load(slots, sub(3, local())), mul(load(count, 0), 100))),
    ]
    f = function(body, group=(4,), arrays=[out, x], locals=[slots, count])
    data, X = np.full(8, -1, np.int32), np.arange(8, dtype=np.int32)
    host.run(f, (6,), None, [data, X])
    assert data.tolist() == [403, 402, 401, 400, 207, 206, -1, -1]


def test_rank_zero_runs_one_lane():
    out = array("out", rank=0)
    data = np.array(0, np.int32)
    host.run(function([store(out, [], c(5))], rank=0, arrays=[out]), (), None, [data])
    assert data == 5
    host.run(function([ir.Atomic(HERE, "max", out, (), c(9))], rank=0, arrays=[out]), (), None, [data])
    assert data == 9


def test_empty_grid_runs_nothing():
    out = array("out", rank=2)
    data = np.zeros((2, 3), np.int32)
    host.run(function([store(out, [place(0), place(1)], 1)], rank=2, arrays=[out]), (0, 3), None, [data])
    assert not data.any()


@pytest.mark.parametrize(
    ("name", "update"),
    [("add", np.add), ("min", np.minimum), ("max", np.maximum), ("and", np.bitwise_and), ("or", np.bitwise_or),
     ("xor", np.bitwise_xor)],
)  # fmt: skip
def test_atomics_on_one_element(name, update):
    out, x = array("out"), array("x", position=1)
    f = function([ir.Atomic(HERE, name, out, (mod(place(), 3),), load(x, place()))], arrays=[out, x])
    X = np.random.default_rng(2).integers(-1000, 1000, 100, dtype=np.int32)
    data = np.array([12345, -99, 7, 1], np.int32)
    expected = data.copy()
    for k, value in enumerate(X):
        expected[k % 3] = update(expected[k % 3], value)
    host.run(f, (100,), None, [data, X])
    assert np.array_equal(data, expected)


def test_a_value_read_before_a_store_does_not_change():
    x, old = array("x"), var("old")
    body = [
        assign(old, load(x, place())),
        store(x, [place()], 100),
        store(x, [place()], add(load(x, place()), read(old))),
    ]
    data = np.arange(5, dtype=np.int32)
    host.run(function(body, arrays=[x]), (5,), None, [data])
    assert data.tolist() == [100, 101, 102, 103, 104]


def test_a_condition_read_from_memory_does_not_change_in_its_branch():
    flags = array("flags", BOOL)
    switch = [store(flags, [place()], c(value, BOOL)) for value in (False, True)]
    body = [when(load(flags, place()), switch)]
    data = np.array([True, False, True])
    host.run(function(body, arrays=[flags]), (3,), None, [data])
    assert data.tolist() == [True, False, True]


def test_records_members_and_selection():
    body_type = np.dtype([("p", np.float32), ("tag", np.uint8), ("inner", [("q", np.int16)])])
    X, r = array("X", body_type), var("r", body_type)
    p = ir.Member(F32, read(r), "p")
    made = ir.MakeRecord(
        body_type, (c(1.5, F32), c(3, np.uint8), ir.MakeRecord(np.dtype([("q", np.int16)]), (c(-2, np.int16),)))
    )
    body = [
        assign(r, load(X, place())),
        when(cmp("gt", place(), 2), [ir.Assign(HERE, r, add(p, p), ("p",))]),
        when(cmp("eq", place(), 0), [assign(r, made)]),
        ir.Assign(HERE, r, c(9, np.int16), ("inner", "q")),
        store(X, [place()], read(r)),
        ir.Store(HERE, X, (place(),), c(77, np.uint8), ("tag",)),
    ]
    data = np.zeros(5, body_type)
    data["p"] = np.arange(5)
    host.run(function(body, arrays=[X]), (5,), None, [data])
    assert data["p"].tolist() == [1.5, 1, 2, 6, 8]
    assert data["inner"]["q"].tolist() == [9] * 5
    assert data["tag"].tolist() == [77] * 5


def test_a_uniform_record_read_is_a_copy():
    kind = np.dtype([("a", np.int32)])
    X, r, out = array("X", kind), var("r", kind), array("out", position=1)
    body = [
        assign(r, load(X, 0)),
        ir.Store(HERE, X, (c(0),), c(50), ("a",)),
        store(out, [place()], ir.Member(I32, read(r), "a")),
    ]
    data, results = np.array([(7,)], kind), np.zeros(3, np.int32)
    host.run(function(body, arrays=[X, out]), (3,), None, [data, results])
    assert results.tolist() == [7, 7, 7]


def test_integers_wrap_and_divide_as_documented():
    x, y, out = array("x"), array("y", position=1), array("out", rank=2, position=2)
    ops = ["add", "sub", "mul", "floordiv", "mod", "shl", "shr"]
    body = [store(out, [k, place()], op(name, load(x, place()), load(y, place()))) for k, name in enumerate(ops)]
    edge = np.array([0, 1, -1, 2, -7, 31, 32, 40, -(2**31), 2**31 - 1], np.int32)
    X, Y = (a.ravel().copy() for a in np.meshgrid(edge, edge))
    ours, theirs = np.zeros((7, 100), np.int32), np.zeros((7, 100), np.int32)
    f = function(body, arrays=[x, y, out])
    host.run(f, (100,), None, [X, Y, ours])
    interpreter.run(f, (100,), None, [X, Y, theirs])
    same([ours], [theirs])


def test_affine_indexes_wrap_in_their_type():
    out = array("out", np.int64)
    big = op("mul", place(), c(2**30))
    f = function([store(out, [place()], ir.Cast(np.dtype(np.int64), big))], arrays=[out])
    data = np.zeros(6, np.int64)
    host.run(f, (6,), None, [data])
    assert data.tolist() == [0, 2**30, -(2**31), -(2**30), 0, 2**30]
    narrow = ir.Cast(np.dtype(np.int64), ir.Cast(np.dtype(np.uint8), sub(place(), 3)))
    host.run(function([store(out, [place()], narrow)], arrays=[out]), (6,), None, [data])
    assert data.tolist() == [253, 254, 255, 0, 1, 2]


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_fma_rounds_once(dtype):
    numbers = np.random.default_rng(3)
    a, b = (numbers.standard_normal(400).astype(dtype) for _ in range(2))
    near = -(a * b)
    addend = np.concatenate([near[:200], numbers.standard_normal(100).astype(dtype), near[300:] * dtype(2**-30)])
    special = np.array([0, -0.0, np.inf, np.nan, np.finfo(dtype).max, np.finfo(dtype).tiny, 1], dtype)
    grid = [v.ravel() for v in np.meshgrid(special, special, special)]
    a, b, addend = (np.concatenate([u, v]).astype(dtype) for u, v in zip((a, b, addend), grid, strict=True))
    x, y, z = (var(name, dtype) for name in "xyz")
    f = ir.ValueFunction("f", [x, y, z], [], [], [], ir.Math(np.dtype(dtype), "fma", (read(x), read(y), read(z))))
    result = host.run_value(f, a, b, addend)
    with np.errstate(all="ignore"):
        expected = np.array([interpreter.fma(*v) for v in zip(a, b, addend, strict=True)], dtype)
    np.testing.assert_array_equal(result, expected)


def test_value_function_with_a_loop_broadcasts():
    x, n, total, k = var("x", F32), var("n"), var("total", F32), var("k")
    stop = when(cmp("ge", read(k), 2), [ir.Break(HERE)])
    body = [assign(total, c(1, F32)), loop(k, 0, read(n), [assign(total, mul(read(total), read(x))), stop])]
    f = ir.ValueFunction("power", [x, n], [total, k], [], body, read(total))
    result = host.run_value(f, np.array([[2.0], [3.0]], np.float32), np.array([0, 1, 2, 3, 9], np.int32))
    assert result.tolist() == [[1, 2, 4, 8, 8], [1, 3, 9, 27, 27]]
    assert result.dtype == np.float32


def test_value_function_in_several_pieces():
    x = var("x")
    f = ir.ValueFunction("twice", [x], [], [], [], add(read(x), read(x)))
    data = np.arange(host.LANES_AT_ONCE * 2 + 3, dtype=np.int32)
    assert np.array_equal(host.run_value(f, data), data * 2)
    assert host.run_value(f, data[:0]).shape == (0,)


def test_private_fields_belong_to_a_lane():
    out, stack, k = array("out"), private("stack", 4), var("k")
    body = [
        loop(k, 0, 4, [store(stack, [read(k)], mul(read(k), place()))]),
        store(out, [place()], load(stack, mod(place(), 4))),
    ]
    data = np.zeros(6, np.int32)
    host.run(function(body, arrays=[out], privates=[stack]), (6,), None, [data])
    assert data.tolist() == [0, 1, 4, 9, 0, 5]


def test_overlapping_arguments_see_each_other():
    a, b = array("a"), array("b", position=1)
    body = [store(a, [place()], 5), store(a, [place()], add(load(b, place()), 1))]
    data = np.zeros(4, np.int32)
    host.run(function(body, arrays=[a, b]), (4,), None, [data, data])
    assert data.tolist() == [6] * 4


def test_large_fields_bound_the_lanes_that_run_together():
    out, slots, stack = array("out"), shared("s", 1 << 12), private("p", 1 << 10)
    body = [store(slots, [local()], place()), store(stack, [5], place()), barrier()]
    body.append(store(out, [place()], add(load(slots, sub(3, local())), load(stack, 5))))
    made = function(body, group=(4,), arrays=[out], locals=[slots], privates=[stack])
    sizes = [np.prod(chunk.shape) for chunk in host.chunks(made, (1 << 17,), (0,))]
    assert max(sizes) * (4096 // 4 + 1024) * 4 <= host.FIELD_BYTES and sum(sizes) == 1 << 17
    data = np.zeros(1 << 14, np.int32)
    host.run(made, data.shape, None, [data])
    k = np.arange(data.size)
    assert np.array_equal(data, k + k // 4 * 4 + 3 - k % 4)
