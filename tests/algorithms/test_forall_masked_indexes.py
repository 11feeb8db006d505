"""Counters that are multiplied and masked, as indexes: one driver's compiler took consecutive elements for them."""

from __future__ import annotations

import numpy as np
import pytest

import pydp

X = np.arange(256, dtype=np.int32) * 3 + 1
K = np.arange(64)


def remainders(idx, out, x, n):
    if idx[0] == 0:
        for k in range(64):
            out[k] = x[(k * 7) % 64]


def remainders_of_a_number(idx, out, x, n):
    if idx[0] == 0:
        for k in range(64):
            out[k] = x[(k * 7) % n]


def masks(idx, out, x, n):
    if idx[0] == 0:
        mask = 63
        for k in range(64):
            out[(k * 5) & mask] = x[k]


def differences(idx, out, x, n):
    if idx[0] == 0:
        for k in range(64):
            out[k] = x[k * 7 - (k * 7) // 64 * 64]


def shifts(idx, out, x, n):
    if idx[0] == 0:
        for k in range(64):
            out[k] = x[(np.uint32(k * 7) << 26) >> 26]


def bytes_(idx, out, x, n):
    if idx[0] == 0:
        for k in range(64):
            out[k] = x[np.uint8(k * 7)]


def bytes_multiplied(idx, out, x, n):
    if idx[0] == 0:
        for k in range(64):
            out[k] = x[np.uint8(k) * np.uint8(7)]


def bytes_negated(idx, out, x, n):
    if idx[0] == 0:
        for k in range(64):
            out[k] = x[-np.uint8(k)]


def private(idx, out, x, n):
    if idx[0] == 0:
        s = pydp.private_field(np.int32, 64)
        for k in range(64):
            s[k] = x[k]
        for k in range(64):
            out[k] = s[(k * 5) % 64]


def local(idx, out, x, n):
    s = pydp.local_field(np.int32, 64)
    i = idx.local[0]
    s[i] = x[i]
    pydp.group_barrier()
    v = s[(i * 7) % 64]
    pydp.group_barrier()
    s[63 - i] = 5
    pydp.group_barrier()
    out[i] = v + s[i] - 5


FIVES = np.empty(64, np.int32)
FIVES[K * 5 % 64] = X[:64]
CASES = {
    remainders: X[K * 7 % 64], remainders_of_a_number: X[K * 7 % 64], masks: FIVES, differences: X[K * 7 % 64],
    shifts: X[K * 7 % 64], bytes_: X[K * 7 % 256], bytes_multiplied: X[K * 7 % 256], bytes_negated: X[-K % 256],
    private: X[K * 5 % 64], local: X[K * 7 % 64],
}  # fmt: skip


@pytest.mark.parametrize("fn", CASES, ids=lambda fn: fn.__name__)
@pytest.mark.parametrize("spec", [None, {"mapping": "simt"}], ids=["default", "simt"])
def test_indexes_that_wrap(fn, spec, device) -> None:
    out = np.zeros(64, np.int32)
    pydp.forall(64, fn, out, X, 64, group=64 if fn is local else None, spec=spec)
    np.testing.assert_array_equal(out, CASES[fn])


def test_keys_that_look_up_wrapped_places(device) -> None:
    """A key with a table of its own."""

    def key(value):
        table = pydp.private_field(np.int32, 16)
        for k in range(16):
            table[k] = 15 - k
        total = np.int32(0)
        for k in range(16):
            total += table[(k * 7) % 16] * (value % (k + 2))
        return total

    x = np.arange(200, dtype=np.int32)
    keys = [sum((15 - k * 7 % 16) * (value % (k + 2)) for k in range(16)) for value in range(200)]
    np.testing.assert_array_equal(pydp.sort(x, key=key), x[np.argsort(keys, kind="stable")])
