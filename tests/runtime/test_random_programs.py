"""Random programs of operations on Fields, on views of them and on pyopencl Arrays of their memory, against NumPy.

A result that is not computed yet, a repeated call and a command on another queue must not change any value.
"""

from __future__ import annotations

import contextlib
import operator
import random
from typing import Any

import numpy as np
import pyopencl as cl
from hypothesis import given
from hypothesis import strategies as st

import pydp
from pydp.errors import UnsupportedOnDevice

SHAPES = [(4, 6), (6, 4), (24,), (5000,)]
DTYPES = ["i4", "f4", "?"]
ARITHMETIC = [operator.add, operator.mul, operator.and_, operator.or_, operator.lt, operator.eq]
IN_PLACE = [operator.iadd, operator.isub, operator.imul]


class Program:
    """Pairs of an array and a Field with the same elements; a view of the array belongs to a view of the Field.

    All decisions follow from the seed and from shapes and dtypes, so that a program can be repeated with other values.
    """

    def __init__(self, device: Any, queue: cl.CommandQueue, seed: int, values: int) -> None:
        self.device, self.queue = device, queue
        self.rng, self.values = random.Random(seed), np.random.default_rng(values)
        self.pairs: list[tuple[np.ndarray, Any]] = []
        self.lines: list[str] = []

    def step(self) -> None:
        if len(self.pairs) < 3:
            return self.new()
        if len(self.pairs) > 12:
            del self.pairs[self.rng.randrange(len(self.pairs))]
        return self.rng.choice(STEPS)(self)

    def check(self) -> None:
        for array, field in self.pairs:
            got = field.get()
            assert (got.dtype, got.shape) == (array.dtype, array.shape), self
            np.testing.assert_array_equal(got, array, str(self))

    def __str__(self) -> str:
        return "\n".join(self.lines)

    def add(self, text: str, array: Any, field: Any) -> None:
        array = np.asarray(array)
        self.pairs.append((array, field))
        self.lines.append(f"{text} -> {array.dtype} {array.shape}")

    def any(self) -> tuple[np.ndarray, Any]:
        return self.rng.choice(self.pairs)

    def like(self, array: np.ndarray, same_dtype: bool = True) -> tuple[np.ndarray, Any]:
        """A pair of this shape, and dtype."""
        found = [one for one in self.pairs if one[0].shape == array.shape]
        return self.rng.choice([one for one in found if not same_dtype or one[0].dtype == array.dtype])

    def key(self, shape: tuple[int, ...]) -> tuple[Any, ...]:
        """An index that leaves a view."""
        found: list[Any] = []
        for size in shape:
            start = self.rng.randrange(size + 1)
            steps = [slice(None), slice(start, None), slice(None, start), slice(None, None, 2), slice(None, None, -1)]
            found.append(self.rng.choice(steps))
        if shape and min(shape) and self.rng.random() < 0.2:
            found[self.rng.randrange(len(shape))] = self.rng.randrange(min(shape))
        return tuple(found)

    # --- steps

    def new(self) -> None:
        dtype, shape = self.rng.choice(DTYPES), self.rng.choice(SHAPES)
        array = self.values.integers(0, 2 if dtype == "?" else 20, shape).astype(dtype)
        self.add("field", array, pydp.field(array.copy(), device=self.device))

    def view(self) -> None:
        array, field = self.any()
        key = self.key(array.shape)
        self.add(f"view {key}", array[(*key, ...)], field[key])

    def transposed_view(self) -> None:
        array, field = self.any()
        self.add("T", array.T, field.T)

    def binary(self) -> None:
        array, field = self.any()
        op = self.rng.choice(ARITHMETIC)
        other, other_field = self.like(array, same_dtype=False)
        if self.rng.random() < 0.3:
            other, other_field = (np.bool_(True),) * 2
        if op in (operator.and_, operator.or_) and "f" in (array.dtype.kind, other.dtype.kind):
            op = operator.mul
        with contextlib.suppress(UnsupportedOnDevice):  # NumPy's result, or the comparison, is of a type it lacks
            self.add(op.__name__, op(array, other), op(field, other_field))

    def in_place(self) -> None:
        array, field = self.any()
        op = self.rng.choice(IN_PLACE)
        other, other_field = self.like(array)
        if array.dtype.kind == "b":
            op = operator.ior
        self.lines.append(f"{op.__name__} {array.dtype} {array.shape}")
        op(field, other_field)
        array[...] = op(array.copy(), other.copy())

    def assign(self) -> None:
        array, field = self.any()
        key = self.key(array.shape)
        self.lines.append(f"assign {key} {array.dtype} {array.shape}")
        part = array[(*key, ...)]
        found = [one for one in self.pairs if one[0].shape == part.shape and one[0].dtype == part.dtype]
        value, given = self.rng.choice(found) if found and self.rng.random() < 0.7 else (np.array(1),) * 2
        if self.rng.random() < 0.3:
            given = value.copy()
        field[key] = given
        part[...] = value.copy()

    def copy(self) -> None:
        array, field = self.any()
        self.add("copy", array.copy(), field.copy())

    def convert(self) -> None:
        array, field = self.any()
        dtype = self.rng.choice(["f4", array.dtype])  # large floats as integers have no defined value
        self.add(f"astype {dtype}", array.astype(dtype), field.astype(dtype))

    def scan(self) -> None:
        array, field = self.any()
        if not array.ndim or array.dtype.kind != "i":
            return
        axis = self.rng.randrange(array.ndim)
        sums = np.cumsum(array, axis, array.dtype)
        if self.rng.random() < 0.5:
            self.add(f"scan {axis}", sums, pydp.scan(field, "+", axis=axis))
        else:
            self.lines.append(f"scan in place {axis} {array.shape}")
            pydp.scan(field, "+", axis=axis, out=field)
            array[...] = sums

    def sort(self) -> None:
        array, field = self.any()
        if array.ndim:
            self.lines.append(f"sort {array.dtype} {array.shape}")
            pydp.sort(field, out=field)
            array.sort()

    def where(self) -> None:
        array, field = self.any()
        other, other_field = self.like(array)
        self.add("where", np.where(other != 0, array, other), pydp.where(other_field != 0, field, other_field))

    def concatenate(self) -> None:
        array, field = self.any()
        if array.ndim and array.size < 10000:
            other, other_field = self.like(array)
            self.add("concatenate", np.concatenate([array, other]), pydp.concatenate([field, other_field]))

    def transpose(self) -> None:
        array, field = self.any()
        self.add("transpose", array.T.copy(), pydp.transpose(field))

    def fill_by_pyopencl(self) -> None:
        """Another queue writes to the memory; the Array's events are all that orders this with pydp's commands."""
        array, field = self.any()
        if array.size and array.dtype.kind == "i" and field.array.flags.forc:
            self.lines.append(f"fill {array.shape}")
            field.array.with_queue(self.queue).fill(3, queue=self.queue)
            array[...] = 3

    def read(self) -> None:
        array, field = self.any()
        np.testing.assert_array_equal(field.get(), array, str(self))


STEPS = [
    Program.new,
    *[Program.view] * 2,
    Program.transposed_view,
    *[Program.binary] * 4,
    *[Program.in_place] * 2,
    *[Program.assign] * 2,
    Program.copy,
    Program.convert,
    Program.scan,
    Program.sort,
    Program.where,
    Program.concatenate,
    Program.transpose,
    Program.fill_by_pyopencl,
    Program.read,
]


@given(seed=st.integers(0, 1 << 30), steps=st.integers(4, 40))
def test_programs_have_the_values_of_numpy(device: Any, seed: int, steps: int) -> None:
    queue = cl.CommandQueue(device.context, device.cl)
    for values in range(3):  # the second time calls are recorded and operators fused; the third time these are used
        program = Program(device, queue, seed, values)
        for _ in range(steps):
            program.step()
        program.check()
