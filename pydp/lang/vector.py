"""Building blocks of vector functions: the decorator, local memory, barriers, atomics, small functions.

A vector function is plain Python. A normal call runs it in Python; forall, scan, reduce and sort translate it to a
kernel. Local memory, barriers and atomics work only inside a translated function; a normal call of them raises
InvalidArgument. A lane is one index of the grid that forall runs the function for.

The language
    index       ``i, j = idx``; ``idx[0]``; ``idx + (1, 0)``; with a group also ``idx.group``, ``idx.local``,
                ``idx.group_extent``, ``idx.group_count``; ``idx.grid_extent``, ``idx.global_index``
    arrays      ``A[i, j]``, ``A[idx]``, ``A(i, j)``; out of bounds, reads give the fill value (0) and writes are
                dropped; ``A.extent[0]`` or ``A.extent(0)``, ``A.shape``, ``A.rank``, ``A.dtype``, ``len(A)``
    views       ``A.T``, ``A.tile(16, 16)``, pydp.tile, pydp.section, pydp.project, pydp.read_only; indexing a range of
                tiles gives a tile: ``A[t, u][x, y]``; all tiles have the same extent, even where the array ends inside
                the last one; an index outside a tile accesses the neighbouring tile (checked mode reports it)
    memory      :func:`local_field`, :func:`private_field`, :func:`group_barrier`, ``atomic_add`` and the other atomics;
                indexes of local and private fields are not bounds-checked if they depend on data; use checked mode
    statements  assignments (tuples, ``+=``), ``if``, ``for`` over range or over a tuple, ``while``, ``break``,
                ``continue``, ``return`` (without a value in the function that forall runs)
    numbers     Python's operators, exact in 64 bits for Python integers (indexes, counters, literals, arguments);
                abs min max round int float bool divmod pow; casts such as ``np.float32(x)``;
                most functions of math, and NumPy functions with one result; :mod:`pydp.math` (popcount, rotate, fma
                and others); ``x if c else y``, :func:`where`. min and max propagate NaN, like numpy.minimum
    records     ``r.x`` or ``r["x"]``, ``r.x = v``, ``A[i].x = v``, ``dtype(x=..., y=...)``, :func:`record`; assigning
                copies. An array member is a tuple of its items: ``r.v[k]``, ``r.m[i, j]``, ``A[i].v[k] = x``,
                ``A[i].v = (x, y, z)``, ``r.v + s.v`` (elementwise); out of bounds, reads give 0, writes are dropped
    functions   other Python functions are inlined; arrays and indexes may be arguments; no recursion
    constants   numbers, NumPy scalars, tuples, dtypes and arrays of 1 to 64 elements from enclosing scopes, with their
                values at the time of the call

Nesting is limited to 64 levels in expressions and 80 in statements (each elif, and the code after a return, adds one
level). The number of terms in an expression is not limited.

:mod:`pydp.lang.ir.types` gives the type rules. All lanes of a group must reach a barrier. Under a divergent condition,
pass the number of lanes that reach it together: ``group_barrier(width)``.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any, NoReturn

import numpy as np

from pydp.dtypes import native
from pydp.errors import InvalidArgument
from pydp.lang.source.names import python_function

__all__ = [
    "VectorFunction",
    "atomic_add",
    "atomic_and",
    "atomic_max",
    "atomic_min",
    "atomic_or",
    "atomic_sub",
    "atomic_xor",
    "group_barrier",
    "local_field",
    "private_field",
    "record",
    "vector",
    "where",
]


class VectorFunction:
    """A vector function, made by :func:`vector`. ``.function`` is the Python function."""

    __name__: str

    def __init__(self, function: Callable[..., Any]) -> None:
        self.function = python_function(function)
        functools.update_wrapper(self, self.function)

    def __call__(self, *arguments: Any, **named: Any) -> Any:
        """Call the Python function directly."""
        return self.function(*arguments, **named)

    def __repr__(self) -> str:
        return f"<vector function {self.__name__}>"


def vector(function: Callable[..., Any]) -> VectorFunction:
    """Mark a function as a vector function: forall runs it for every index, and other vector functions may call it.

    The mark is optional: forall and vector functions accept plain Python functions too. The function uses a subset of
    Python: numbers, tuples, records, arrays passed as arguments; ``if``, ``for`` over range, ``while``; calls of other
    functions. Translation raises VectorError, with the line, for anything else. :mod:`pydp.lang.ir.types` gives the
    type rules.

    >>> @vector
    ... def square(x):
    ...     return x * x
    >>> square(3)
    9
    """
    return VectorFunction(function)


def _on_lanes_only(name: str) -> NoReturn:
    raise InvalidArgument(f"{name} was called from plain Python; call it inside a vector function that forall runs")


def local_field(*extents: Any, dtype: Any = None) -> Any:
    """An uninitialized array in local memory, shared by the lanes of a group.

    ``local_field(np.int32, 16, 16)``, ``local_field((16, 16), np.int32)`` or ``local_field(16, 16, dtype=np.int32)``;
    dtypes are bool, integers, floats and records, by default float32. The extents are constants. Lanes of the group
    outside the grid use local fields too. Raises InvalidArgument if it is called outside a vector function.

    Unlike indexes of arguments, its indexes are not checked at run time. If constants, grid indexes or scalar arguments
    put an index out of bounds, an error is raised before the launch. If a scalar argument changes on every call, only
    its first values of each magnitude are checked. An index that depends on data is checked only in
    ``pydp.checked()``; elsewhere, if it is out of bounds, it may read or overwrite any memory of the process.

    >>> def reverse(idx, a):
    ...     s = local_field(np.float32, 4)
    ...     s[idx.local] = a[idx]
    ...     group_barrier()
    ...     a[idx] = s[3 - idx.local[0]]
    >>> a = np.arange(8, dtype=np.float32); pydp.forall(8, reverse, a, group=4); a
    array([3., 2., 1., 0., 7., 6., 5., 4.], dtype=float32)
    """
    _on_lanes_only("local_field")


def private_field(*extents: Any, dtype: Any = None) -> Any:
    """An uninitialized array, private to one lane. Arguments, bounds checks and errors: see :func:`local_field`."""
    _on_lanes_only("private_field")


def group_barrier(width: Any = None) -> None:
    """Wait for all lanes of the group. After the barrier, each lane sees the earlier writes of the others.

    width: divides the group into blocks of `width` consecutive lanes. Only the lanes of a block wait for each other.
    `width` must divide the size of the group. Without `width`, the group is one block.

    Either all lanes of a block must reach the barrier, or none: it may be under a condition that is the same in the
    whole block. Raises VectorError before the launch if only some lanes of a block may reach it, or if `width` does not
    divide the size of the group; InvalidArgument if it is called outside a vector function.

    >>> def swap_pairs(idx, a):
    ...     s = local_field(np.float32, 8)
    ...     i = idx.local[0]
    ...     s[i] = a[idx]
    ...     group_barrier(2)
    ...     a[idx] = s[i ^ 1]
    >>> a = np.arange(8, dtype=np.float32); pydp.forall(8, swap_pairs, a, group=8); a
    array([1., 0., 3., 2., 5., 4., 7., 6.], dtype=float32)
    """
    _on_lanes_only("group_barrier")


def atomic_add(array: Any, index: Any, value: Any) -> Any:
    """Atomically add `value` to ``array[index]``, and return the old value.

    Lanes run in no particular order, so the old values may differ from run to run. If the index is outside an argument
    array, or the lane is outside the grid, nothing changes and the result is 0.

    >>> def keep(idx, kept, count, x):
    ...     if x[idx] > 0:
    ...         kept[pydp.atomic_add(count, 0, 1)] = x[idx]
    >>> x, kept, count = np.array([3, -1, 5]), np.zeros(3, int), np.zeros(1, np.int32)
    >>> pydp.forall(3, keep, kept, count, x); np.sort(kept)
    array([0, 3, 5])
    """
    _on_lanes_only("atomic_add")


def atomic_sub(array: Any, index: Any, value: Any) -> Any:
    """Atomically subtract `value` from ``array[index]``, and return the old value (see :func:`atomic_add`)."""
    _on_lanes_only("atomic_sub")


def atomic_min(array: Any, index: Any, value: Any) -> Any:
    """Atomically set ``array[index]`` to the minimum of it and `value`; return the old value (see `atomic_add`)."""
    _on_lanes_only("atomic_min")


def atomic_max(array: Any, index: Any, value: Any) -> Any:
    """Atomically set ``array[index]`` to the maximum of it and `value`; return the old value (see `atomic_add`)."""
    _on_lanes_only("atomic_max")


def atomic_and(array: Any, index: Any, value: Any) -> Any:
    """Atomically compute ``array[index] &= value``, and return the old value (see :func:`atomic_add`)."""
    _on_lanes_only("atomic_and")


def atomic_or(array: Any, index: Any, value: Any) -> Any:
    """Atomically compute ``array[index] |= value``, and return the old value (see :func:`atomic_add`)."""
    _on_lanes_only("atomic_or")


def atomic_xor(array: Any, index: Any, value: Any) -> Any:
    """Atomically compute ``array[index] ^= value``, and return the old value (see :func:`atomic_add`)."""
    _on_lanes_only("atomic_xor")


def where(condition: Any, yes: Any, no: Any) -> Any:
    """`yes` if the condition is true, else `no`. `condition` is one value; for arrays, use np.where."""
    return yes if condition else no


def record(dtype: Any, *values: Any, **members: Any) -> Any:
    """A record of `dtype` with the given members, by position or by name.

    >>> body = np.dtype([("x", np.float32), ("mass", np.float32)])
    >>> record(body, 1.0, mass=2.0)["mass"]
    np.float32(2.0)
    """
    native(dtype)  # raises InvalidArgument for what is no dtype
    kind = np.dtype(dtype)
    names = kind.names
    if names is None:
        raise InvalidArgument(f"{kind} is not a record dtype; a dtype with fields is accepted")
    given = dict(zip(names, values, strict=False))
    if len(values) > len(names) or set(given) & set(members) or set(given) | set(members) != set(names):
        raise InvalidArgument(f"a record of {', '.join(names)} needs exactly one value for each member")
    result = np.zeros((), kind)
    for name, value in {**given, **members}.items():
        result[name] = value
    return result[()]
