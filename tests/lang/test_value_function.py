"""Operators, predicates and keys from Python functions, as C that kernels call."""

from __future__ import annotations

from pathlib import Path

import mako.template
import numpy as np
import pyopencl as cl
import pytest

import pydp
from pydp import dtypes
from pydp.lang.compile import translate_value
from pydp.lang.execute import host
from pydp.lang.ir.diagnostics import VectorError
from pydp.lang.operator import vector_operator
from pydp.runtime.programs import program

TEMPLATE = Path(__file__).parent / "apply_value.mako"
PAIR = np.dtype([("value", np.float32), ("place", np.int32)])


def apply(device, operator, *arrays):
    """The operator's results for each element, from the device."""
    source = mako.template.Template(filename=str(TEMPLATE), strict_undefined=True).render(
        declarations=operator.declarations,
        text=operator.text,
        name=operator.name,
        arguments=[dtypes.c_name(one) for one in operator.arguments],
        result=dtypes.c_name(operator.result),
    )
    kernel = cl.Kernel(program.build_source(device, source).cl, "apply")
    out = np.zeros(arrays[0].shape, operator.result)
    flags = cl.mem_flags
    buffers = [cl.Buffer(device.context, flags.READ_ONLY | flags.COPY_HOST_PTR, hostbuf=one) for one in arrays]
    target = cl.Buffer(device.context, flags.READ_WRITE | flags.COPY_HOST_PTR, hostbuf=out)
    kernel(device.queue, out.shape, (1,), *buffers, target)
    cl.enqueue_copy(device.queue, out, target)
    return out


@pydp.vector
def larger(a, b):
    """The pair with the larger value, the earlier one of equals."""
    if b.value > a.value or (b.value == a.value and b.place < a.place):
        return b
    return a


@pydp.vector
def digits(n):
    """Decimal digits: a loop, an early return, a helper of the language."""
    if n == 0:
        return 1
    count = 0
    rest = abs(n)
    while rest > 0:
        rest //= 10
        count += 1
    return count


@pydp.vector
def clipped(a, b):
    return min(max(digits(a) + b, -3), 5)


def log_add(a, b):
    high, low = max(a, b), min(a, b)
    return high + np.log1p(np.exp(low - high))


@pytest.mark.oclgrind
def test_integers_with_loops_and_calls(device):
    a = np.array([0, 7, -10, 99, -100, 12345, 2**31 - 1, -(2**31) + 1], np.int32)
    np.testing.assert_array_equal(apply(device, vector_operator(digits, ["int32"]), a), [1, 1, 2, 2, 3, 5, 10, 10])
    b = np.arange(-9, -1, dtype=np.int32)
    want = np.clip([digits(int(one)) + int(two) for one, two in zip(a, b, strict=True)], -3, 5)
    np.testing.assert_array_equal(apply(device, vector_operator(clipped, ["int32", "int32"]), a, b), want)


def test_records(device):
    rng = np.random.default_rng(0)
    a, b = np.zeros(40, PAIR), np.zeros(40, PAIR)
    for one in (a, b):
        one["value"], one["place"] = rng.integers(0, 4, 40), rng.integers(0, 4, 40)
    got = apply(device, vector_operator(larger, [PAIR, PAIR]), a, b)
    want = [max((one, two), key=lambda p: (p["value"], -p["place"])) for one, two in zip(a, b, strict=True)]
    np.testing.assert_array_equal(got, np.array(want, PAIR))


def test_lambdas_predicates_and_keys(device):
    a = np.array([1.5, -2.0, 0.0, 3.25], np.float32)
    positive = vector_operator(lambda x: x > 0, ["float32"], np.bool_)
    assert positive.result == np.bool_
    np.testing.assert_array_equal(apply(device, positive, a), a > 0)
    key = vector_operator(lambda x: abs(x), ["float32"], np.float32)
    np.testing.assert_array_equal(apply(device, key, a), np.abs(a))
    flags = np.array([True, False, True, True])
    other = vector_operator(lambda p, x: (not p) or x < 1, [np.bool_, "float32"], np.bool_)
    np.testing.assert_array_equal(apply(device, other, flags, a), ~flags | (a < 1))


def test_floats_and_the_host(device):
    rng = np.random.default_rng(1)
    a, b = rng.standard_normal(100).astype(np.float32), rng.standard_normal(100).astype(np.float32)
    got = apply(device, vector_operator(log_add, ["float32", "float32"]), a, b)
    np.testing.assert_allclose(got, np.logaddexp(a, b), rtol=1e-5)
    made = translate_value(log_add, [np.dtype(np.float32)] * 2)
    np.testing.assert_allclose(host.run_value(made, a, b), np.logaddexp(a, b), rtol=1e-5)


def test_two_operators_in_one_kernel_do_not_meet(device):
    """Both need the same helper functions; the names of one are not those of the other."""
    first = vector_operator(lambda a: a // 3, ["int32"])
    second = vector_operator(lambda a: a // 5, ["int32"])
    assert first.name != second.name
    program.build_source(device, first.declarations + first.text + second.text)
    again = vector_operator(lambda a: a // 3, ["int32"])
    assert again.result == np.int32


@pytest.mark.host
def test_what_is_refused():
    with pytest.raises(VectorError):
        vector_operator(lambda a: [a], ["int32"])
    with pytest.raises(VectorError):
        vector_operator(lambda a, b: a + b, ["int32"])
