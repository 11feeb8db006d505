"""Runs vector functions without barriers as Python functions: lane after lane, on NumPy scalars.

It is the reference for the tests of the front end, and shares no code with the translation.
"""

from __future__ import annotations

import itertools
import operator
import warnings

import numpy as np


class PlainIndex(tuple):
    """An index with elementwise arithmetic."""

    def _by_element(self, op, other):
        others = other if isinstance(other, tuple) else (other,) * len(self)
        return PlainIndex(op(a, b) for a, b in zip(self, others, strict=True))

    def __add__(self, other):
        return self._by_element(operator.add, other)

    def __sub__(self, other):
        return self._by_element(operator.sub, other)

    def __mul__(self, other):
        return self._by_element(operator.mul, other)

    def __floordiv__(self, other):
        return self._by_element(operator.floordiv, other)

    def __mod__(self, other):
        return self._by_element(operator.mod, other)

    __radd__, __rmul__ = __add__, __mul__

    def __call__(self, axis):
        return self[axis]


class LaneIndex(PlainIndex):
    """The index of a lane."""

    def __new__(cls, place, group=None, extent=None):
        made = super().__new__(cls, place)
        made.sizes, made.grid = group, extent
        return made

    global_index = property(lambda self: PlainIndex(self))
    group = property(lambda self: PlainIndex(n // g for n, g in zip(self, self.sizes, strict=True)))
    local = property(lambda self: PlainIndex(n % g for n, g in zip(self, self.sizes, strict=True)))
    group_extent = property(lambda self: PlainIndex(self.sizes))
    grid_extent = property(lambda self: PlainIndex(self.grid))
    group_count = property(lambda self: PlainIndex(-(-n // g) for n, g in zip(self.grid, self.sizes, strict=True)))


class Member:
    """An element of a record array; its members can be read and assigned."""

    def __init__(self, record):
        object.__setattr__(self, "record", record)

    def __getattr__(self, name):
        value = self.record[name]
        if isinstance(value, np.ndarray) and value.dtype.names:
            return [Member(item) for item in value]
        return Member(value) if isinstance(value, np.void) else value

    def __setattr__(self, name, value):
        self.record[name] = value

    __getitem__, __setitem__ = __getattr__, __setattr__


class PlainArray:
    """An array that reads 0 out of bounds and drops writes out of bounds."""

    def __init__(self, data):
        self.data = data

    extent = shape = property(lambda self: PlainIndex(self.data.shape))
    rank = property(lambda self: self.data.ndim)
    dtype = property(lambda self: self.data.dtype)
    T = property(lambda self: PlainArray(self.data.T))

    def _place(self, index):
        return tuple(int(n) for n in (index if isinstance(index, tuple) else (index,)))

    def _inside(self, place):
        return all(0 <= n < size for n, size in zip(place, self.data.shape, strict=True))

    def __getitem__(self, index):
        place = self._place(index)
        if not self._inside(place):
            return self.data.dtype.type(0)
        return Member(self.data[place]) if self.data.dtype.names else self.data[place]

    def __setitem__(self, index, value):
        place = self._place(index)
        if self._inside(place):
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                value = value.record if isinstance(value, Member) else value
                self.data[place] = np.asarray(value).astype(self.data.dtype)

    def __call__(self, *index):
        return self[index[0] if len(index) == 1 else index]

    def __len__(self):
        return len(self.data)


def run_plain(function, extent, group, arguments):
    """Run `function` for every lane of a grid. NumPy arrays among the arguments are written in place."""
    made = [PlainArray(item) if isinstance(item, np.ndarray) else item for item in arguments]
    with warnings.catch_warnings(), np.errstate(all="ignore"):
        warnings.simplefilter("ignore")
        for place in itertools.product(*(range(n) for n in extent)):
            function(LaneIndex(place, group, extent), *made)
