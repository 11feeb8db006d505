"""The order of reads and writes: each function against itself as plain Python, in every mapping and on the host."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from plain_lanes import run_plain

import pydp

N = 23


def bound_changed_inside(idx: Any, out: Any, a: Any) -> None:
    n = a[idx]
    count = 0
    for i in range(n):
        n = n - 1
        count += 1 + i
    out[idx] = count * 100 + n


def uniform_bound_changed_inside(idx: Any, out: Any, a: Any) -> None:
    n = 7
    count = 0
    for i in range(0, n):
        n -= 2
        count += i
    out[idx] = count * 100 + n + a[idx]


def step_changed_inside(idx: Any, out: Any, a: Any) -> None:
    low, high, step = 0, a[idx], 1
    count = 0
    for i in range(low, high, step):
        step = 2
        low = high = i
        for j in range(low, high + step):
            high, step = 0, step + j
        count = count * 3 + i
    out[idx] = count + step + low


def tuple_turned(idx: Any, out: Any, a: Any) -> None:
    i = idx[0]
    t = (a[i], a[i] * 2 + 1)
    u = (1, 2)
    for _ in range(i % 4):
        t = (t[1], t[0] + 1)
        t = u = (t[1], t[0] + u[1])
        u = t = (t[1], t[0] + u[0])
    out[i] = t[0] * 1000 + t[1] + u[0] * 100 + u[1] * 10


def turned(t: Any) -> Any:
    return (t[1], t[2], t[0])


def turned_back(t: Any) -> Any:
    if t[0] > 5:
        t = (t[2], t[0], t[1])
        return t
    t = turned(t)
    return t


def tuple_turned_by_functions(idx: Any, out: Any, a: Any) -> None:
    i = idx[0]
    t = (a[i], a[i] * 2 + 1, 7)
    for _ in range(i % 4):
        t = turned_back(t)
        whole = (t, t[0])
        t = (whole[0][0], whole[0][2], whole[0][1])
        t = turned(t)
    out[i] = t[0] * 100 + t[1]


def index_moved_by_itself(idx: Any, out: Any, a: Any) -> None:
    i = idx[0]
    p = (idx + 1, idx + a[i])
    for _ in range(i % 3):
        p = (p[1] + p[0], p[0])
        q = p[0] * 2
        q += q[0]
        p = (q, p[1])
    out[i] = p[0][0] * 100 + p[1][0]


def items_of_a_loop(idx: Any, out: Any, a: Any) -> None:
    i = idx[0]
    x, y, total = a[i], 3, 0
    out[i] = 5
    for value in (x, y, x + y, out[i]):
        y += value
        x = 2 * x + total
        out[i] = total
        total += value
    out[i] = total * 10 + x + y


def raised(out: Any, i: Any) -> Any:
    out[i] += 3
    return out[i]


def chain_of_comparisons(idx: Any, out: Any, a: Any) -> None:
    i = idx[0]
    out[i] = a[i]
    first = out[i] < raised(out, i) < 9
    second = 2 < out[i] < raised(out, i) < raised(out, i)
    out[i] += 100 * int(first) + 1000 * int(second)


FUNCTIONS = [
    chain_of_comparisons,
    bound_changed_inside,
    uniform_bound_changed_inside,
    step_changed_inside,
    tuple_turned,
    tuple_turned_by_functions,
    index_moved_by_itself,
    items_of_a_loop,
]


@pytest.mark.parametrize("function", FUNCTIONS, ids=lambda function: function.__name__)
def test_python_order(device: Any, function: Callable[..., None]) -> None:
    a = np.arange(N, dtype=np.int32) % 11
    expected = np.zeros(N, np.int32)
    run_plain(function, (N,), None, [expected, a])
    mappings = ["simt"] if device.profile.loop_limit is not None else ["simt", "vector"]
    for where in ({"device": "host"}, *({"device": device, "spec": {"mapping": name}} for name in mappings)):
        result = np.zeros(N, np.int32)
        pydp.forall(N, function, result, a, **where)
        np.testing.assert_array_equal(result, expected, err_msg=str(where))
