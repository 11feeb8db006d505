"""Indexes, constants from around a function, arguments and records; each against the function run as plain Python."""

# ruff: noqa: RUF005

from __future__ import annotations

import math

import interpreter
import numpy as np
import pytest
from front_check import RNG, N, check, floats, ints

import pydp
from pydp.lang import ir
from pydp.lang.compile import FieldType, NumberType, translate
from pydp.lang.execute import host

pytestmark = pytest.mark.host


# --- indexes


def shifted(idx, out, a):
    i, j = idx
    p = idx + (1, 0)
    q = p * 2 - idx
    n = 0
    if i > j:
        p = (j, i)
        n = p[1]
    out[idx] = a[p] + 3 * a[q] + a(j, i) + a[idx[1], idx[0]] + n + q[0]


def group_parts(idx, out, a):
    g, t = idx.group, idx.local
    e = idx.group_extent
    flat = (g[0] * idx.group_count[1] + g[1]) * e[0] * e[1] + t(0) * e(1) + t[1]
    out[g * e + t] = flat + a[idx.global_index] * idx.grid_extent[0]


def transposed(idx, out, a):
    b = a.T
    out[idx] = b[idx] + b.extent[0] * 10 + len(a) + a.rank


def test_indexes():
    a = RNG.integers(0, 9, (5, 7)).astype(np.int32)
    check(shifted, (5, 7), None, np.zeros((5, 7), np.int32), a)
    check(group_parts, (6, 8), (3, 4), np.zeros((6, 8), np.int32), RNG.integers(0, 9, (6, 8)).astype(np.int32))
    check(transposed, (7, 5), None, np.zeros((7, 5), np.int32), a)


def rank_three(idx, out, a):
    i, j, k = idx
    out[idx] = a[k, j, i] + a[i, j, k]


def rank_zero(idx, out, a):
    out[()] = a[()] + 1
    out[idx] += a()


def test_ranks():
    a = np.arange(27, dtype=np.int32).reshape(3, 3, 3)
    check(rank_three, (3, 3, 3), None, np.zeros((3, 3, 3), np.int32), a)
    out = np.zeros((), np.int32)
    made = translate(rank_zero, 0, None, [FieldType(out.dtype, 0), FieldType(out.dtype, 0)])
    interpreter.run(made, (), None, [out, np.array(5, np.int32)], {})
    assert out == 11


# --- constants from around the function

WEIGHTS = (1, -2, 3, -4, 5)
SIZES = {"ignored": 1}
HALF = np.float32(0.5)
THRESHOLD = 7
ENABLED = True


class Settings:
    shift = 3
    weights = (0.25, 0.5)


def constants(idx, out, a):
    (i,) = idx
    total = 0
    for k in range(len(WEIGHTS)):
        total += WEIGHTS[k] * a[i + k]
    for w in WEIGHTS:
        total += w
    if ENABLED:
        total += THRESHOLD << Settings.shift
    else:
        total = undefined_name  # noqa: F821
    out[i] = total + int(math.pi * 100)


def test_constants():
    check(constants, N, None, np.zeros(N, np.int32), ints())


def smooth(idx, out, a):
    (i,) = idx
    v = 0.0
    for k in range(2):
        v += Settings.weights[k] * a[i + k]
    out[i] = v * HALF


def test_weights_by_a_variable():
    check(smooth, N, None, np.zeros(N, np.float32), floats())


def tuple_argument(idx, out, a, offsets, scale):
    s = 0.0
    for k in range(len(offsets)):
        s += a[idx + offsets[k]]
    first, second = offsets
    out[idx] = s * scale + first - second


def test_tuple_arguments():
    check(tuple_argument, N, None, np.zeros(N, np.float32), floats(), (2, 5), np.float32(0.5))


def changed_argument(idx, out, a, n):
    n = n * 2
    n += a[idx]
    out[idx] = n


def test_an_argument_may_be_assigned():
    check(changed_argument, N, None, np.zeros(N, np.int32), ints(), 4)


def with_default(idx, out, a, n=3):
    out[idx] = a[idx] * n


def test_a_default():
    check(with_default, N, None, np.zeros(N, np.int32), ints())
    check(with_default, N, None, np.zeros(N, np.int32), ints(), 5)


# --- records

BODY = np.dtype([("x", np.float32), ("y", np.float32), ("mass", np.int32)])
PAIR = np.dtype([("first", BODY), ("second", BODY), ("ok", np.bool_)])


def record_work(idx, out, a):
    (i,) = idx
    r = a[i]
    x = r.x
    r.x = r.y
    r.y = x + 1
    r.mass += i
    out[i] = r
    out[i].mass = out[i].mass * 2


def test_records():
    a = np.zeros(N, BODY)
    a["x"], a["y"], a["mass"] = floats(), floats(), ints()
    out = np.zeros(N, BODY)
    types = [FieldType(BODY, 1), FieldType(BODY, 1)]
    interpreter.run(translate(record_work, 1, None, types), (N,), None, [out, a], {})
    np.testing.assert_array_equal(out["x"], a["y"])
    np.testing.assert_array_equal(out["y"], a["x"] + 1)
    np.testing.assert_array_equal(out["mass"], (a["mass"] + np.arange(N)) * 2)


def nested_records(idx, out, a):
    (i,) = idx
    one = a[i]
    two = pydp.record(BODY, one.y, mass=7, y=one.x)
    pair = PAIR(first=one, second=two, ok=one.x > 0)
    pair.second.mass += i
    out[i] = pair
    out[i].first.x = 2.0


def test_nested_records():
    a = np.zeros(N, BODY)
    a["x"], a["y"], a["mass"] = floats(), floats(), ints()
    out = np.zeros(N, PAIR)
    types = [FieldType(PAIR, 1), FieldType(BODY, 1)]
    interpreter.run(translate(nested_records, 1, None, types), (N,), None, [out, a], {})
    assert (out["first"]["x"] == 2).all() and (out["first"]["y"] == a["y"]).all()
    np.testing.assert_array_equal(out["second"]["x"], a["y"])
    np.testing.assert_array_equal(out["second"]["mass"], 7 + np.arange(N))
    np.testing.assert_array_equal(out["ok"], a["x"] > 0)


# --- the shape of the result


def tiled(idx, C, A):
    s = pydp.local_field(np.float32, 4, 4)
    for k in range(A.extent(1)):
        t = A[idx.group[0], k]
        s[idx.local] = t[idx.local]
        pydp.group_barrier()
        C[idx] += s[idx.local.T if False else idx.local]
        pydp.group_barrier()


def test_indexes_set_once_stay_expressions():
    """Views and indexes that are set once leave no variables behind: what lanes read is seen at a glance."""
    f32 = np.dtype(np.float32)
    made = translate(tiled, 2, (4, 4), [FieldType(f32, 2), FieldType(f32, 2, ((4, 4),), False)])
    assert [variable.name for variable in made.variables] == ["k"]
    assert made.uses_group and [item.shape for item in made.locals] == [(4, 4)]
    assert len(ir.barriers(made.body)) == 2
    loads = [item for s in ir.statements(made.body) for e in ir.expressions(s) for item in ir.walk(e)]
    first = next(item for item in loads if isinstance(item, ir.Load) and item.array.name == "A")
    assert [bound.size for bound in first.bounds] == [4, 4] and not first.strict_bounds


def wide_scalar(idx, out, x, n):
    s = 0.0
    for _ in range(n):
        s = s + x
    out[idx] = s * 0.1


def test_plain_floats_meet_float64():
    """s and x hold only weak floats: they are float32 for a float32 array, and exact in float64 for a float64 array."""
    for dtype, wanted in ((np.float32, np.float32), (np.float64, np.float64), (np.int32, np.float32)):
        numbers = [NumberType(np.dtype(np.float64), True), NumberType(np.dtype("i4"), True)]
        types = [FieldType(np.dtype(dtype), 1), *numbers]
        made = translate(wide_scalar, 1, None, types)
        assert made.variables[0].dtype == wanted
        assert [item.dtype for item in made.parameters] == [wanted, np.int32]
    out = np.zeros(1, np.float64)
    check(wide_scalar, 1, None, out, 0.3, 11)


def test_fill_values_of_any_type():
    """A fill value may be a record or NaN; equal ones share a translation."""
    fill = np.array((1.0, 2.0, 3), BODY)[()]
    kinds = [FieldType(BODY, 1), FieldType(BODY, 1, ((4,),), False, fill)]
    made = translate(record_from_tile, 1, None, kinds)
    assert made is translate(record_from_tile, 1, None, [kinds[0], FieldType(BODY, 1, ((4,),), False, fill.copy())])
    out, a = np.zeros(8, BODY), np.zeros(5, BODY)
    host.run(made, (8,), None, [out, a], {})
    assert (out[5:] == fill).all() and (out[:5] == a).all()


def record_from_tile(idx, out, a):
    (i,) = idx
    out[i] = a[i // 4][i % 4]
