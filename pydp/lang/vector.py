"""What a vector function is written with: the decorator, local memory, barriers, atomics, small functions.

A vector function is plain Python. Called with plain values it runs as such; given to forall, scan, reduce or
sort it is translated. The names here stand for what the translation knows; those that only make sense on a lane
(local memory, barriers, atomics) refuse to run outside.

The language
    index       ``i, j = idx``; ``idx[0]``; ``idx + (1, 0)``; with a group also ``idx.group``, ``idx.local``,
                ``idx.group_extent``, ``idx.group_count``; ``idx.grid_extent``, ``idx.global_index``
    arrays      ``A[i, j]``, ``A[idx]``, ``A(i, j)``; outside: reads give the fill value (0), writes are dropped;
                ``A.extent[0]`` or ``A.extent(0)``, ``A.shape``, ``A.rank``, ``A.dtype``, ``len(A)``
    views       ``A.T``, ``A.tile(16, 16)``, pydp.tile, pydp.section, pydp.project, pydp.read_only; a range of tiles
                gives tiles: ``A[t, u][x, y]``; a tile's extent is the tile's, though the array may end before it; an
                index outside a tile, which checked mode names, is one of the tiles beside it
    memory      :func:`local_field`, :func:`private_field`, :func:`group_barrier`, ``atomic_add`` and its like; nothing
                looks after indexes outside local and private fields: those that depend on data are for checked mode
    statements  assignments (tuples, ``+=``), ``if``, ``for`` over range or over a tuple, ``while``, ``break``,
                ``continue``, ``return`` (nothing from what forall runs; anything, anywhere, elsewhere)
    numbers     Python's operators, exact in 64 bits for Python's own integers (indexes, counters, literals, arguments);
                abs min max round int float bool divmod pow; casts such as ``np.float32(x)``;
                most functions of math and those of NumPy with one result; ``x if c else y``, :func:`where`,
                :func:`fma`. min and max give NaN where an operand is, as NumPy's minimum does
    records     ``r.x`` or ``r["x"]``, ``r.x = v``, ``A[i].x = v``, ``dtype(x=..., y=...)``, :func:`record`; assigning
                copies. A member that is an array is a tuple of its items: ``r.v[k]``, ``r.m[i, j]``, ``A[i].v[k] = x``,
                ``A[i].v = (x, y, z)``, ``r.v + s.v`` item by item; outside it reads give 0 and writes are dropped
    functions   other Python functions are inlined, with arrays and indexes as arguments if need be; no recursion
    constants   numbers, NumPy scalars, tuples, dtypes and arrays of 1 to 64 elements from around the function, as they
                are at the call

Expressions may have as many terms as Python's parser reads; 64 levels of nesting in expressions and 80 in statements
(an elif, and what follows a return, is one) are accepted.

Types are those of :mod:`pydp.lang.ir.types`. A barrier must be met by all lanes of a group; under a condition
that differs from lane to lane it names how many meet: ``group_barrier(width)``.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from fractions import Fraction
from typing import Any, NoReturn

import numpy as np

from pydp.errors import InvalidArgument
from pydp.lang.source.names import plain_function

__all__ = [
    "VectorFunction",
    "atomic_add",
    "atomic_and",
    "atomic_max",
    "atomic_min",
    "atomic_or",
    "atomic_sub",
    "atomic_xor",
    "fma",
    "group_barrier",
    "local_field",
    "private_field",
    "record",
    "vector",
    "where",
]


class VectorFunction:
    """A Python function that runs on lanes; made by :func:`vector`. ``.function`` is the Python function."""

    __name__: str

    def __init__(self, function: Callable[..., Any]) -> None:
        self.function = plain_function(function)
        functools.update_wrapper(self, self.function)

    def __call__(self, *arguments: Any, **named: Any) -> Any:
        """Run the Python function itself, on the host, for plain values."""
        return self.function(*arguments, **named)

    def __repr__(self) -> str:
        return f"<vector function {self.__name__}>"


def vector(function: Callable[..., Any]) -> VectorFunction:
    """Mark a function as a vector function: forall runs it on every lane, other vector functions may call it.

    The function is written in a part of Python: numbers, tuples, records, arrays given as arguments; ``if``,
    ``for`` over range, ``while``; calls of other functions. Everything else is a VectorError at translation,
    with its line. Types follow :mod:`pydp.lang.ir.types`.

    >>> @vector
    ... def square(x):
    ...     return x * x
    >>> square(3)
    9
    """
    return VectorFunction(function)


def _on_lanes_only(name: str) -> NoReturn:
    raise InvalidArgument(f"{name} belongs inside a vector function that forall runs; it was called as plain Python")


def local_field(*extents: Any, dtype: Any = None) -> Any:
    """An array in local memory, shared by the lanes of a group, not initialised.

    ``local_field(np.float32, 16, 16)`` or ``local_field((16, 16), np.float32)``; the extents are constants. Unlike an
    argument's, its indexes are not guarded: one outside is refused where constants, places in the grid or a launch's
    first numbers tell, and named by ``pydp.checked()`` where it depends on data; without that it may read or destroy
    any memory of the process. Lanes of a group that lie outside the grid use local fields too.
    """
    _on_lanes_only("local_field")


def private_field(*extents: Any, dtype: Any = None) -> Any:
    """An array of one lane, not initialised; written, and as little guarded, as :func:`local_field`."""
    _on_lanes_only("private_field")


def group_barrier(width: Any = None) -> None:
    """Wait for all lanes of the group, or for each run of `width` lanes; local memory is then seen by them all."""
    _on_lanes_only("group_barrier")


def atomic_add(array: Any, index: Any, value: Any) -> Any:
    """array[index] += value, indivisibly; the value is what was there before.

    Lanes come by in no particular order, so which of them finds what may differ from run to run. It is 0 where an
    argument has no such element, and in lanes outside the grid, which change nothing.

    >>> def keep(idx, kept, count, x):
    ...     if x[idx] > 0:
    ...         kept[pydp.atomic_add(count, 0, 1)] = x[idx]
    >>> x, kept, count = np.array([3, -1, 5]), np.zeros(3, int), np.zeros(1, np.int32)
    >>> pydp.forall(3, keep, kept, count, x); np.sort(kept)
    array([0, 3, 5])
    """
    _on_lanes_only("atomic_add")


def atomic_sub(array: Any, index: Any, value: Any) -> Any:
    """array[index] -= value, indivisibly; the value is what was there, as of :func:`atomic_add`."""
    _on_lanes_only("atomic_sub")


def atomic_min(array: Any, index: Any, value: Any) -> Any:
    """array[index] = min(array[index], value), indivisibly; the value is what was there, as of :func:`atomic_add`."""
    _on_lanes_only("atomic_min")


def atomic_max(array: Any, index: Any, value: Any) -> Any:
    """array[index] = max(array[index], value), indivisibly; the value is what was there, as of :func:`atomic_add`."""
    _on_lanes_only("atomic_max")


def atomic_and(array: Any, index: Any, value: Any) -> Any:
    """array[index] &= value, indivisibly; the value is what was there, as of :func:`atomic_add`."""
    _on_lanes_only("atomic_and")


def atomic_or(array: Any, index: Any, value: Any) -> Any:
    """array[index] |= value, indivisibly; the value is what was there, as of :func:`atomic_add`."""
    _on_lanes_only("atomic_or")


def atomic_xor(array: Any, index: Any, value: Any) -> Any:
    """array[index] ^= value, indivisibly; the value is what was there, as of :func:`atomic_add`."""
    _on_lanes_only("atomic_xor")


def where(condition: Any, yes: Any, no: Any) -> Any:
    """`yes` where the condition holds, else `no`."""
    return yes if condition else no


def fma(a: Any, b: Any, c: Any) -> Any:
    """a * b + c, rounded once, in the type that the three have together (Python floats: float64)."""
    dtype = np.result_type(a, b, c)
    if dtype.kind != "f":
        dtype = np.dtype(np.float64)
    values = [float(value) for value in (a, b, c)]
    if not all(np.isfinite(values)):
        return dtype.type(values[0] * values[1] + values[2])
    exact = Fraction(values[0]) * Fraction(values[1]) + Fraction(values[2])
    return dtype.type(_rounded(exact, dtype) if exact else values[0] * values[1] + values[2])


def _rounded(exact: Fraction, dtype: np.dtype[Any]) -> Any:
    """The number of `dtype` next to an exact value, ties to even."""
    try:
        with np.errstate(over="ignore"):
            first = dtype.type(float(exact))
    except OverflowError:
        return np.inf if exact > 0 else -np.inf
    if dtype == np.float64 or not np.isfinite(first):
        return first
    near = [first, np.nextafter(first, dtype.type(np.inf)), np.nextafter(first, dtype.type(-np.inf))]
    finite = [value for value in near if np.isfinite(value)]
    last = {value: int(value.view(f"u{dtype.itemsize}")) & 1 for value in finite}
    return min(finite, key=lambda value: (abs(Fraction(float(value)) - exact), last[value]))


def record(dtype: Any, *values: Any, **members: Any) -> Any:
    """A record of `dtype` from its members' values, by place or by name.

    >>> body = np.dtype([("x", np.float32), ("mass", np.float32)])
    >>> record(body, 1.0, mass=2.0)["mass"]
    np.float32(2.0)
    """
    kind = np.dtype(dtype)
    names = kind.names
    if names is None:
        raise InvalidArgument(f"{kind} is no record; a dtype with fields is accepted")
    given = dict(zip(names, values, strict=False))
    if len(values) > len(names) or set(given) & set(members) or set(given) | set(members) != set(names):
        raise InvalidArgument(f"a record of {', '.join(names)} needs each member once")
    result = np.zeros((), kind)
    for name, value in {**given, **members}.items():
        result[name] = value
    return result[()]
