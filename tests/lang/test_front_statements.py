"""Statements: assignment, branches, loops, returns, calls; each against the function run as plain Python."""

# ruff: noqa: RUF021

from __future__ import annotations

import numpy as np
import pytest
from front_check import N, check, ints

import pydp
from pydp.lang.compile import FieldType, translate

pytestmark = pytest.mark.host


def collatz(idx, out, a):
    n = abs(a[idx]) + 1
    steps = 0
    while n != 1:
        if n % 2 == 0:
            n //= 2
        else:
            n = 3 * n + 1
        steps += 1
    out[idx] = steps


def first_divisor(idx, out, a):
    n = abs(a[idx]) + 2
    found = 0
    for d in range(2, n + 1):
        if n % d:
            continue
        found = d
        break
    out[idx] = found


def swaps(idx, out, a):
    (i,) = idx
    x, y = a[i], a[i + 1]
    if x > y:
        x, y = y, x
    z, (u, v) = x, (y, x)
    x = y = x + 1
    out[i] = x * 1000 + y * 100 + z * 10 + u - v


def rotating(idx, out, a):
    (i,) = idx
    p, q, r = a[i], a[i + 1], a[i + 2]
    for _ in range(i % 4):
        p, q, r = q, r, p
    out[i] = p - 3 * q + 7 * r


def backwards(idx, out, a):
    (i,) = idx
    total = 0
    for k in range(10, 0, -3):
        total = total * 2 + k * a[(i + k) % a.extent[0]]
    for k in range(i, len(a), 5):
        total -= a[k]
    out[i] = total


def counter_after(idx, out, a):
    (i,) = idx
    k = -1
    for k in range(i):
        if a[k] > 20:
            break
        k += 100
    out[i] = k


def counter_reused(idx, out, a):
    (i,) = idx
    s = 0
    for k in range(3):
        s += a[i + k]
    for k in range(2):
        for m in range(k + 1):
            s -= a[i + k] * m
    out[i] = s


def nested_breaks(idx, out, a):
    (i,) = idx
    total = 0
    for k in range(5):
        for m in range(5):
            if m > k:
                break
            if (m + i) % 3 == 0:
                continue
            total += a[(k * m + i) % N]
        if total > 100:
            break
    out[i] = total


def early_return(idx, out, a):
    (i,) = idx
    if i == 0:
        return
    if a[i] < 0:
        out[i] = -1
        if a[i] < -20:
            return
        out[i] = -2
    elif a[i] > 20:
        out[i] = 2
        return
    out[i] = out[i] * 10 + 1


def return_in_loops(idx, out, a):
    (i,) = idx
    for k in range(i):
        for m in range(k):
            if a[k] + a[m] > 60:
                out[i] = k * 100 + m
                return
            if a[m] > 45:
                break
        out[i] = k
    while True:
        out[i] = out[i] + 7
        if out[i] > 3 * i:
            return


def conditional(idx, out, a):
    (i,) = idx
    x = a[i]
    out[i] = (1 if x > 10 else 2 if x > 0 else 3) + (10 if 0 < x < 20 <= i else 0) + (100 if not x else 0)
    out[i] += 1000 if x < 0 and a[i + 1] > 0 or i == 3 else 0


def while_true(idx, out, a):
    (i,) = idx
    n = 0
    while True:
        n += 1
        if n * n > abs(a[i]):
            break
    out[i] = n


@pytest.mark.parametrize(
    "fn",
    [
        collatz, first_divisor, swaps, rotating, backwards, counter_after, counter_reused, nested_breaks,
        early_return, return_in_loops, conditional, while_true,
    ],
    ids=lambda fn: fn.__name__,
)  # fmt: skip
def test_statements(fn):
    check(fn, N, None, np.zeros(N, np.int32), ints())


# --- calls


def clamp(x, low, high=30):
    if x < low:
        return low
    if x > high:
        return high
    return x


@pydp.vector
def search(a, value, first=0):
    for k in range(first, a.extent(0)):
        if a[k] > value:
            return k
    return -1


def both(x, y):
    return min(x, y), max(x, y)


def put(out, idx, value):
    if value < 0:
        return
    out[idx] = value


def twice(f, x):
    return f(f(x))


def minus(x):
    return x - 3


def deep(x):
    if x > 0:
        while True:
            x = x // 2
            if x < 5:
                return x
    for k in range(10):
        x += k
        if x > 0:
            return 100 + x
    return -1


def factor(x):
    y = x
    for k in range(2, 8):
        for m in range(2, 8):
            if k * m == abs(y):
                return k * 10 + m
    return 0


cube = lambda x: x * x * x  # noqa: E731


def calls(idx, out, a):
    (i,) = idx
    low, high = both(a[i], a[i + 1])
    put(out, idx, clamp(a[i], -10) + clamp(x=a[i], low=0, high=low) * 7 - twice(minus, high) + cube(i))


def calls_in_conditions(idx, out, a):
    (i,) = idx
    n = 0
    while n < 20 and search(a, n + a[i]) > 3:
        n += 1
    out[i] = n + (deep(a[i]) if i % 2 else factor(a[i])) + (1000 if i > 3 and deep(i) > 2 or factor(i) else 0)


def calls_in_loops(idx, out, a):
    total = 0
    for k in range(idx[0] % 5):
        total += deep(a[k]) - search(a, total, k) + factor(k + 4)
    out[idx] = total


@pytest.mark.parametrize("fn", [calls, calls_in_conditions, calls_in_loops], ids=lambda fn: fn.__name__)
def test_calls(fn):
    check(fn, N, None, np.zeros(N, np.int32), ints())


def take(a, k):
    old = a[k]
    a[k] = old + 1
    return old


def ordered(idx, out, a):
    (i,) = idx
    out[i] = a[i] * 100 + take(a, i) * 10 + a[i]
    out[i] += take(a, i)


def test_effects_come_in_order():
    check(ordered, N, None, np.zeros(N, np.int32), ints())


def test_index_types():
    types = [FieldType(np.dtype("i4"), 1), FieldType(np.dtype("i4"), 1)]
    made = translate(backwards, 1, None, types, np.int64)
    assert made.index_dtype == np.int64
    assert {variable.dtype for variable in made.variables} == {np.dtype(np.int64)}
