"""Translates a function, interprets the result lane by lane, and compares with the function run by Python."""

from __future__ import annotations

import interpreter
import numpy as np
from plain_lanes import run_plain

from pydp.lang.compile import FieldType, NumberType, TupleType, translate

N = 23
RNG = np.random.default_rng(5)


def ints(n=N, low=-50, high=50):
    """Random integers of 32 bits."""
    return RNG.integers(low, high, n).astype(np.int32)


def floats(n=N):
    """Random floats of 32 bits."""
    return RNG.standard_normal(n).astype(np.float32)


def type_of(value):
    """The argument type of `value`."""
    if isinstance(value, np.ndarray):
        return FieldType(value.dtype, value.ndim, (), value.flags.writeable)
    if isinstance(value, tuple):
        return TupleType(tuple(map(type_of, value)))
    weak = isinstance(value, bool | int | float) and not isinstance(value, np.generic)
    dtype = np.asarray(value).dtype
    if weak and dtype == np.int64 and abs(value) < 2**31:
        dtype = np.dtype(np.int32)
    return NumberType(dtype, weak)


def run_translated(fn, extent, group, arguments, types=None, index_dtype=np.int32):
    """Translate a function for these arguments and run it. Arrays are written in place. Returns the translation."""
    types = [type_of(item) for item in arguments] if types is None else types
    made = translate(fn, len(extent), group, types, index_dtype)
    arrays = [item for item in arguments if isinstance(item, np.ndarray)]
    interpreter.run(made, extent, None, arrays, {k: item for k, item in enumerate(arguments)})
    return made


def check(fn, extent, group, *arguments, close=False):
    """Check that the translated function and Python write equal arrays (within 1e-5 if `close`)."""
    extent = (extent,) if isinstance(extent, int) else extent
    copies = [item.copy() if isinstance(item, np.ndarray) else item for item in arguments]
    run_plain(fn, extent, group, copies)
    made = run_translated(fn, extent, group, arguments)
    for result, wanted in zip(arguments, copies, strict=True):
        if isinstance(result, np.ndarray) and close:
            np.testing.assert_allclose(result, wanted, rtol=1e-5, atol=1e-6)
        elif isinstance(result, np.ndarray):
            np.testing.assert_array_equal(result, wanted)
    return made
