"""Functions of half that operators and vector functions may call, on every device that reports fp16."""

from __future__ import annotations

import math
import re
from pathlib import Path

import numpy as np
import pyopencl as cl
import pytest

from pydp.runtime.programs import template
from pydp.runtime.programs.program import kernel

# Every function that half_functions.mako may define; those of vectors alone are in GEOMETRIC.
ONE = {
    "acosh(a + 1.0h)": lambda a: np.arccosh(a + 1),
    "acospi(a * 0.125h)": lambda a: np.arccos(a / 8) / np.pi,
    "asinh(a)": np.arcsinh,
    "asinpi(a * 0.125h)": lambda a: np.arcsin(a / 8) / np.pi,
    "atanh(a * 0.125h)": lambda a: np.arctanh(a / 8),
    "atanpi(a)": lambda a: np.arctan(a) / np.pi,
    "cbrt(a)": np.cbrt,
    "cospi(a * 0.03125h)": lambda a: np.cos(np.pi * a / 32),
    "degrees(a)": np.degrees,
    "erf(a)": np.vectorize(math.erf),
    "erfc(a)": np.vectorize(math.erfc),
    "expm1(a)": np.expm1,
    "log1p(a)": np.log1p,
    "logb(a)": lambda a: np.floor(np.log2(a)),
    "radians(a)": np.radians,
    "sinpi(a * 0.03125h)": lambda a: np.sin(np.pi * a / 32),
    "lgamma(a + 3.0h)": np.vectorize(lambda a: math.lgamma(float(np.float16(a) + np.float16(3)))),
    "tanpi(a * 0.03125h)": lambda a: np.tan(np.pi * a / 32),
    "tgamma(a)": np.vectorize(math.gamma),
    "ldexp(a, INTS(3))": lambda a: a * 8,
    "pown(a, INTS(3))": lambda a: a**3,
    "rootn(a, INTS(3))": np.cbrt,
    "HALVES(ilogb(a))": lambda a: np.floor(np.log2(a)),
}
TWO = {
    "atan2(a, b)": np.arctan2,
    "atan2pi(a, b)": lambda a, b: np.arctan2(a, b) / np.pi,
    "fdim(a, b)": lambda a, b: np.maximum(a - b, 0),
    "hypot(a, b)": np.hypot,
    "powr(a, b)": np.power,
    "remainder(a, b)": np.vectorize(math.remainder),
}


@pytest.fixture(scope="module", autouse=True)
def _templates():
    template.add_folder(Path(__file__).parent)


def applied(device, expressions, x, y, width):
    """One row of results for each expression."""
    if not device.profile.fp16:
        pytest.skip(f"{device.platform} has no fp16")
    built = kernel(device, "half.mako", "apply", {"width": width, "expressions": list(expressions)})
    flags = cl.mem_flags.READ_WRITE | cl.mem_flags.COPY_HOST_PTR
    got = np.zeros((len(expressions), x.size), np.float16)
    buffers = [cl.Buffer(device.context, flags, hostbuf=array) for array in (x, y, got)]
    built.enqueue(device.queue, (1,), (1,), [*buffers, np.int32(x.size)])
    cl.enqueue_copy(device.queue, got, buffers[2])
    return got


def samples():
    rng = np.random.default_rng(3)
    return rng.uniform(0.25, 6, 48).astype(np.float16), rng.uniform(0.25, 6, 48).astype(np.float16)


@pytest.mark.parametrize("width", [1, 3, 16])
def test_values_of_every_function(device, width):
    x, y = samples()
    functions = {**ONE, **TWO}
    for (expression, reference), got in zip(functions.items(), applied(device, functions, x, y, width), strict=True):
        operands = (x, y) if expression in TWO else (x,)
        want = reference(*(operand.astype(np.float64) for operand in operands)).astype(np.float16)
        steps = np.abs(got.view(np.int16).astype(int) - want.view(np.int16).astype(int))
        assert np.all((steps <= 4) | (got == want)), expression


GEOMETRIC = {
    "(half3)(length(a))": lambda a, b: np.repeat(np.linalg.norm(a, axis=1), 3).reshape(a.shape),
    "normalize(a)": lambda a, b: a / np.linalg.norm(a, axis=1)[:, None],
    "(half3)(dot(a, b))": lambda a, b: np.repeat(np.sum(a * b, axis=1), 3).reshape(a.shape),
    "(half3)(distance(a, b))": lambda a, b: np.repeat(np.linalg.norm(a - b, axis=1), 3).reshape(a.shape),
    "cross(a, b)": np.cross,
}


def test_geometric_functions(device):
    x, y = samples()
    u, v = (one.astype(np.float64).reshape(-1, 3) for one in (x, y))
    for (expression, reference), got in zip(GEOMETRIC.items(), applied(device, GEOMETRIC, x, y, 3), strict=True):
        np.testing.assert_allclose(got, reference(u, v).ravel(), rtol=4e-3, atol=0.04, err_msg=expression)


@pytest.mark.host
def test_every_function_that_is_defined_is_tested():
    text = (Path(__file__).parents[2] / "kernels_cl" / "half_functions.mako").read_text()
    lists = re.findall(r'(?:one|two|with_int) = "+([a-z0-9\s]+)"+', text)
    names = {name for one in lists for name in one.split()} | set(re.findall(r'"(\w+)" in words', text))
    assert len(lists) == 3 and names - {"nextafter"} <= set(re.findall(r"\w+", " ".join((*ONE, *TWO, *GEOMETRIC))))


@pytest.mark.parametrize("width", [1, 4])
def test_the_next_half(device, width):
    edges = [0.0, -0.0, 1.0, -1.0, 65504.0, 6e-8, -6e-8, np.inf, np.nan, 1024.0]
    x, y = (np.array(values, np.float16) for values in zip(*((a, b) for a in edges for b in edges), strict=True))
    (got,) = applied(device, ["nextafter(a, b)"], x, y, width)
    with np.errstate(all="ignore"):
        np.testing.assert_array_equal(got, np.nextafter(x, y))


@pytest.mark.parametrize("width", [2, 3, 4, 8, 16])
def test_vectors_are_loaded_and_stored(device, width):
    x, y = samples()
    np.testing.assert_array_equal(applied(device, ["a", "b"], x, y, width), [x, y])
