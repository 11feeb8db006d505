"""Functions that copy strided blocks: `roll`, `flip`, `concatenate`, `stack`, `tile_array`, `moveaxis`, `swapaxes`,
`diff`, `adjacent_difference`.

Each block is one copy of a view of the input to a view of the result, at the speed of a copy.
"""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from math import prod
from typing import Any

import numpy as np

from pydp.algorithms.arguments import axis_of, integer, refuse_shared
from pydp.algorithms.moves.views import along, broadcast, part_of
from pydp.algorithms.transpose import transpose
from pydp.dtypes import common_dtype, native
from pydp.errors import InvalidArgument, shown
from pydp.runtime.arrays import elementwise
from pydp.runtime.arrays.operand import Operand, c_strides
from pydp.runtime.call import Call
from pydp.runtime.placement import normal_input, wait_on_host
from pydp.runtime.recording import recorded
from pydp.space import MAX_RANK

_MOST_COPIES = 16  # copies of a block that are launches of their own; more are one copy with repeated axes
_NO_ARRAY = "arrays has no array; at least one is needed"
_RANK_0 = "arrays have rank 0; arrays of rank 1 and more, or axis=None, are accepted"


def _axes_of(axis: Any, rank: int) -> tuple[int, ...]:
    """Several axes, without repetition unless the caller allows it."""
    given = axis if isinstance(axis, (tuple, list)) else (axis,)
    return tuple(axis_of(one, rank, "an integer, a tuple of integers or None") for one in given)


@recorded
def flip(
    m: Any, axis: Any = None, *, out: Any = None, device: Any = None, queue: Any = None, wait_for: Any = None
) -> Any:
    """Copy of `m` with the elements along some axes in reverse order, as ``numpy.flip`` (which returns a view).

    m: array of any shape, strides and dtype. axis: an integer, a tuple, or None for all axes. out: array for the
    result; it may share memory with `m`. Raises InvalidArgument for axes out of range or given twice.

    >>> pydp.flip(np.array([1, 2, 3]))
    array([3, 2, 1])
    """
    call = Call.begin({"m": m}, out=out, device=device, queue=queue, wait_for=wait_for)
    source = call.input("m")
    axes = tuple(range(source.rank)) if axis is None else _axes_of(axis, source.rank)
    if len(set(axes)) < len(axes):
        raise InvalidArgument(f"axis={shown(axis)} contains a duplicate axis; different axes are accepted")
    result = call.output(source.shape, source.dtype)
    call.copy(
        part_of(source, *(slice(None, None, -1) if k in axes else slice(None) for k in range(source.rank))), result
    )
    return call.finish(result)


@recorded
def roll(
    a: Any, shift: Any, axis: Any = None,
    *, out: Any = None, device: Any = None, queue: Any = None, wait_for: Any = None,
) -> Any:  # fmt: skip
    """Copy of `a` with the elements shifted cyclically along axes, as ``numpy.roll``.

    a: array of any shape, strides and dtype. shift: an integer, or a tuple with one for each axis of `axis`. axis: an
    integer or a tuple; None rolls the elements in C order and keeps the shape. out: array for the result, which must
    not share memory with `a`. Raises InvalidArgument for other shifts and axes.

    >>> pydp.roll(np.array([1, 2, 3, 4, 5]), 2)
    array([4, 5, 1, 2, 3])
    """
    wait_on_host(wait_for, shift)
    call = Call.begin({"a": a}, out=out, device=device, queue=queue, wait_for=wait_for)
    source = call.input("a")
    shifts = _shifts_of(shift, axis, source.rank)
    result = call.output(source.shape, source.dtype)
    refuse_shared(call, result, source)
    target = result
    if axis is None:
        packed = result if result.is_contiguous else call.temporary(result.shape, result.dtype)
        source = call.flat(source)
        target = packed.view((packed.size,), (1,))
        shifts = {0: shifts.get(0, 0)}
    parts = []
    for k, size in enumerate(source.shape):
        by = shifts.get(k, 0) % size if size else 0
        whole = [(slice(None), slice(None))]
        parts.append(
            [(slice(None, size - by), slice(by, None)), (slice(size - by, None), slice(None, by))] if by else whole
        )
    for keys in itertools.product(*parts):
        call.copy(part_of(source, *(one[0] for one in keys)), part_of(target, *(one[1] for one in keys)))
    if axis is None and not result.is_contiguous:
        call.copy(target.view(result.shape, c_strides(result.shape)), result)
    return call.finish(result)


def _shifts_of(shift: Any, axis: Any, rank: int) -> dict[int, int]:
    """The shift of each axis; of axis 0 for axis=None."""
    given = list(shift) if isinstance(shift, (tuple, list)) else [shift]
    try:
        numbers = [integer(one) for one in given]
    except TypeError:
        raise InvalidArgument(f"shift is {shown(shift)}; an integer or a tuple of integers is accepted") from None
    if axis is None:
        return {0: sum(numbers)}
    axes = _axes_of(axis, rank)
    if len(numbers) == 1:
        numbers *= len(axes)
    if len(axes) == 1:
        axes *= len(numbers)
    if len(axes) != len(numbers):
        raise InvalidArgument(
            f"shift is {shown(shift)} and axis is {shown(axis)}; equally many shifts and axes are accepted"
        )
    found: dict[int, int] = {}
    for k, number in zip(axes, numbers, strict=True):
        found[k] = found.get(k, 0) + number
    return found


def concatenate(
    arrays: Any, axis: int | None = 0, out: Any = None, *, dtype: Any = None,
    device: Any = None, queue: Any = None, wait_for: Any = None,
) -> Any:  # fmt: skip
    """Join arrays along an existing axis, as ``numpy.concatenate``.

    arrays: a sequence of arrays with equal shapes except along `axis`, or an array, whose slices along axis 0 are
    joined. axis: an integer; None joins the elements of all arrays in C order. dtype: of the result; None takes NumPy's
    common dtype (records keep the gaps between their members). out: array for the result, which must not share memory
    with the arrays. The result has the kind of the first array. Raises InvalidArgument for other shapes, for dtypes
    without a common one, and for arrays on different devices.

    >>> pydp.concatenate([np.array([1, 2]), np.array([3])])
    array([1, 2, 3])
    """
    where = {"out": out, "device": device, "queue": queue, "wait_for": wait_for}
    if not isinstance(arrays, (tuple, list)):
        return _slices_joined(arrays, axis, dtype, where)
    call, operands = _joined(arrays, where)
    if axis is None:
        operands, at = [call.flat(one) for one in operands], 0
    else:
        if not operands[0].rank:
            raise InvalidArgument(_RANK_0)
        at = axis_of(axis, operands[0].rank)
    first = operands[0].shape
    for one in operands:
        if (*one.shape[:at], *one.shape[at + 1 :]) != (*first[:at], *first[at + 1 :]) or one.rank != len(first):
            raise InvalidArgument(
                f"{one.name} has shape {one.shape}, but arrays[0] has {first}; shapes that differ only along axis {at} "
                "are accepted"
            )
    kind = _joined_dtype(operands, dtype)
    result = call.output((*first[:at], sum(one.shape[at] for one in operands), *first[at + 1 :]), kind)
    refuse_shared(call, result, *operands)
    _lay(call, operands, at, result)
    return call.finish(result)


def _slices_joined(array: Any, axis: int | None, dtype: Any, where: dict[str, Any], stacked: bool = False) -> Any:
    """Join the slices of an array along its axis 0 with one copy. stacked: `axis` is a new axis."""
    shape = getattr(array, "shape", ())
    if not shape:
        raise InvalidArgument(f"arrays is a {type(array).__name__}; a list, a tuple or an array is accepted")
    if not shape[0]:
        raise InvalidArgument(_NO_ARRAY)
    count, *inner = shape
    if axis is None:
        inner, at = [prod(inner)], 0
    elif stacked:
        at = axis_of(axis, len(shape), "an integer")
        inner.insert(at, 1)
    else:
        if not inner:
            raise InvalidArgument(_RANK_0)
        at = axis_of(axis, len(inner))
    call = Call.begin({"arrays": array}, **where)
    source = call.input("arrays")
    result = call.output((*inner[:at], count * inner[at], *inner[at + 1 :]), _joined_dtype([source], dtype))
    refuse_shared(call, result, source)
    if axis is None:
        strides = tuple(result.strides[0] * one for one in c_strides(source.shape))
    else:
        rest = (one for k, one in enumerate(result.strides) if not stacked or k != at)
        strides = (result.strides[at] * inner[at], *rest)
    call.copy(source, result.view(source.shape, strides))
    return call.finish(result)


def _joined(arrays: Sequence[Any], where: dict[str, Any]) -> tuple[Call, list[Operand]]:
    if not arrays:
        raise InvalidArgument(_NO_ARRAY)
    given = {f"arrays[{k}]": normal_input(f"arrays[{k}]", one) for k, one in enumerate(arrays)}
    call = Call.begin(given, **where)
    return call, [call.input(name) for name in given]


def _joined_dtype(operands: Sequence[Operand], dtype: Any = None) -> np.dtype:
    return common_dtype(*(one.dtype for one in operands)) if dtype is None else native(dtype)


def _lay(call: Call, operands: Sequence[Operand], axis: int, target: Operand) -> None:
    """Copy operands to consecutive parts of an axis."""
    start = 0
    for one in operands:
        if one.size:
            call.copy(one, along(target, axis, slice(start, start + one.shape[axis])))
        start += one.shape[axis]


def stack(
    arrays: Any, axis: int = 0, out: Any = None, *, dtype: Any = None,
    device: Any = None, queue: Any = None, wait_for: Any = None,
) -> Any:  # fmt: skip
    """Join arrays of equal shape along a new axis, as ``numpy.stack``.

    axis: the position of the new axis in the result. arrays, dtype, out and errors: see :func:`concatenate`.

    >>> pydp.stack([np.array([1, 2]), np.array([3, 4])])
    array([[1, 2],
           [3, 4]])
    """
    where = {"out": out, "device": device, "queue": queue, "wait_for": wait_for}
    if not isinstance(arrays, (tuple, list)):
        return _slices_joined(arrays, axis, dtype, where, stacked=True)
    call, operands = _joined(arrays, where)
    first = operands[0].shape
    at = axis_of(axis, len(first) + 1, "an integer")
    for one in operands:
        if one.shape != first:
            raise InvalidArgument(
                f"{one.name} has shape {one.shape}, but arrays[0] has {first}; equal shapes are accepted"
            )
    if len(first) + 1 > MAX_RANK:
        raise InvalidArgument(f"the result has {len(first) + 1} axes; ranks 0 to {MAX_RANK} are accepted")
    result = call.output((*first[:at], len(operands), *first[at:]), _joined_dtype(operands, dtype))
    refuse_shared(call, result, *operands)
    _lay(call, [part_of(one, *(slice(None),) * at, None) for one in operands], at, result)
    return call.finish(result)


@recorded
def tile_array(
    a: Any, reps: Any, *, out: Any = None, device: Any = None, queue: Any = None, wait_for: Any = None
) -> Any:
    """Repeat a whole array along its axes, as ``numpy.tile``. (:func:`pydp.tile` divides an array into tiles.)

    a: array of any shape, strides and dtype. reps: an integer or a tuple, one number of repetitions per axis, for the
    last axes; the result has as many axes as the longer of `reps` and the shape. out: array for the result, which must
    not share memory with `a`. Raises InvalidArgument for negative repetitions.

    >>> pydp.tile_array(np.array([1, 2]), (2, 2))
    array([[1, 2, 1, 2],
           [1, 2, 1, 2]])
    """
    try:
        counts = [integer(one) for one in (reps if isinstance(reps, (tuple, list)) else (reps,))]
    except TypeError:
        counts = [-1]
    if min(counts, default=0) < 0:
        raise InvalidArgument(
            f"reps is {shown(reps)}; an integer or a tuple of integers that are not negative is accepted"
        )
    call = Call.begin({"a": a}, out=out, device=device, queue=queue, wait_for=wait_for)
    source = call.input("a")
    rank = max(source.rank, len(counts))
    if rank > MAX_RANK:
        raise InvalidArgument(f"reps has {len(counts)} numbers; at most {MAX_RANK} are accepted")
    counts = [1] * (rank - len(counts)) + counts
    sizes = (1,) * (rank - source.rank) + source.shape
    steps = (0,) * (rank - source.rank) + source.strides
    result = call.output([count * size for count, size in zip(counts, sizes, strict=True)], source.dtype)
    refuse_shared(call, result, source)
    source = source.view(sizes, steps)
    if 0 < prod(counts) <= _MOST_COPIES:
        for at in itertools.product(*(range(count) for count in counts)):
            keys = (slice(k * size, (k + 1) * size) for k, size in zip(at, sizes, strict=True))
            call.copy(source, part_of(result, *keys))
        return call.finish(result)
    shape = tuple(one for pair in zip(counts, sizes, strict=True) for one in pair)
    from_ = tuple(one for step in steps for one in (0, step))
    to = tuple(one for size, step in zip(sizes, result.strides, strict=True) for one in (size * step, step))
    call.copy(source.view(shape, from_), result.view(shape, to))
    return call.finish(result)


def moveaxis(
    a: Any, source: Any, destination: Any,
    *, out: Any = None, device: Any = None, queue: Any = None, wait_for: Any = None,
) -> Any:  # fmt: skip
    """Contiguous copy with some axes at other positions, as ``numpy.moveaxis`` (which returns a view).

    a: array of any dtype. source, destination: integers, or tuples of the same length. out: array for the copy. The
    copy is that of :func:`pydp.transpose`, which takes any order of the axes. Raises InvalidArgument for invalid axes.

    >>> pydp.moveaxis(np.zeros((2, 3, 4), np.float32), 0, -1).shape
    (3, 4, 2)
    """
    rank = len(normal_input("a", a).shape)
    moved, to = _axes_of(source, rank), _axes_of(destination, rank)
    if len(set(moved)) != len(set(to)) or len(moved) != len(to) or len(set(moved)) < len(moved):
        raise InvalidArgument(
            f"source is {shown(source)} and destination is {shown(destination)}; equally many axes are accepted"
        )
    order = [k for k in range(rank) if k not in moved]
    for place, k in sorted(zip(to, moved, strict=True)):
        order.insert(place, k)
    return transpose(a, tuple(order), out=out, device=device, queue=queue, wait_for=wait_for)


def swapaxes(
    a: Any, axis1: int, axis2: int, *, out: Any = None, device: Any = None, queue: Any = None, wait_for: Any = None
) -> Any:
    """Contiguous copy with two axes exchanged, as ``numpy.swapaxes`` (which returns a view).

    axis1, axis2: integers. a, out and errors: see :func:`moveaxis`.

    >>> pydp.swapaxes(np.zeros((2, 3, 4), np.float32), 0, 2).shape
    (4, 3, 2)
    """
    rank = len(normal_input("a", a).shape)
    one, other = axis_of(axis1, rank), axis_of(axis2, rank)
    order = list(range(rank))
    order[one], order[other] = other, one
    return transpose(a, tuple(order), out=out, device=device, queue=queue, wait_for=wait_for)


# --- differences ---------------------------------------------------------------------------------------------------


def diff(
    a: Any, n: int = 1, axis: int = -1, prepend: Any = None, append: Any = None,
    *, out: Any = None, device: Any = None, queue: Any = None, wait_for: Any = None,
) -> Any:  # fmt: skip
    """Differences of neighbouring elements along an axis, `n` times, as ``numpy.diff``.

    a: numbers or bools of rank 1 or more; bools give ``!=``, unsigned integers wrap. n: for 0 the result is `a`.
    prepend, append: values, or arrays with the shape of `a` except along the axis, that are joined with `a` first. out:
    array for the result, which must not share memory with the arrays. Raises InvalidArgument for a negative `n` and for
    shapes that do not match.

    >>> pydp.diff(np.array([1, 4, 9, 16]))
    array([3, 5, 7])
    """
    try:
        times = integer(n)
    except TypeError:
        times = -1
    if times < 0:
        raise InvalidArgument(f"n is {shown(n)}; integers from 0 are accepted")
    given = {"prepend": prepend, "a": a, "append": append} if times else {"a": a}
    values = {name: normal_input(name, one) for name, one in given.items() if one is not None}
    if a is None or not len(values["a"].shape):
        raise InvalidArgument("a is None or has rank 0; arrays of rank 1 and more are accepted")
    places = {"device": device, "queue": queue, "wait_for": wait_for}
    call = Call.begin({"a": values.pop("a"), **values}, out=out, **places)
    x = call.input("a")
    at = axis_of(axis, x.rank)
    ends = {name: _end(call.input(name), x, at) for name in values}
    pieces = [one for one in (ends.get("prepend"), x, ends.get("append")) if one is not None]
    return _differences(call, pieces, at, times)


def _end(one: Operand, x: Operand, axis: int) -> Operand:
    """An operand that is joined with x; a scalar becomes one element."""
    if not one.rank:
        return broadcast(one, (*x.shape[:axis], 1, *x.shape[axis + 1 :]))
    if (*one.shape[:axis], *one.shape[axis + 1 :]) != (*x.shape[:axis], *x.shape[axis + 1 :]) or one.rank != x.rank:
        raise InvalidArgument(
            f"{one.name} has shape {one.shape}, but a has {x.shape}; they may differ along the axis only"
        )
    return one


def _differences(call: Call, pieces: list[Operand], axis: int, times: int) -> Any:
    kind, first = _joined_dtype(pieces), pieces[0].shape
    if kind.kind not in "biufc":
        raise InvalidArgument(f"a has dtype {kind}; numbers and bools are accepted")
    length = sum(one.shape[axis] for one in pieces)

    def shape(size: int) -> tuple[int, ...]:
        return (*first[:axis], max(0, size), *first[axis + 1 :])

    result = call.output(shape(length - times), kind)
    refuse_shared(call, result, *pieces)
    x = pieces[0]
    if len(pieces) > 1 or times == 0:
        x = result if times == 0 else call.temporary(shape(length), kind)
        _lay(call, pieces, axis, x)
    for k in range(1, times + 1 if length > times else 1):
        target = result if k == times else call.temporary(shape(length - k), kind)
        _subtract(call, x, axis, target)
        x = target
    return call.finish(result)


def _subtract(call: Call, x: Operand, axis: int, target: Operand) -> None:
    """target = x[1:] - x[:-1] along an axis."""
    ends = [along(x, axis, slice(1, None)), along(x, axis, slice(None, -1))]
    elementwise.apply(call, "ne" if x.dtype.kind == "b" else "sub", ends, target)


def adjacent_difference(
    x: Any, axis: int = -1, *, out: Any = None, device: Any = None, queue: Any = None, wait_for: Any = None
) -> Any:
    """The first element, then the differences of neighbouring elements, as ``cub::DeviceAdjacentDifference``.

    x: numbers or bools of rank 1 or more. axis: the axis along which elements are neighbours. The inverse of an
    inclusive scan with "+". out and errors: see :func:`diff`.

    >>> pydp.adjacent_difference(np.array([1, 4, 9, 16]))
    array([1, 3, 5, 7])
    """
    call = Call.begin({"x": x}, out=out, device=device, queue=queue, wait_for=wait_for)
    source = call.input("x")
    at = axis_of(axis, source.rank)
    if source.dtype.kind not in "biufc":
        raise InvalidArgument(f"x has dtype {source.dtype}; numbers and bools are accepted")
    result = call.output(source.shape, source.dtype)
    refuse_shared(call, result, source)
    if source.size:
        call.copy(along(source, at, slice(0, 1)), along(result, at, slice(0, 1)))
        _subtract(call, source, at, along(result, at, slice(1, None)))
    return call.finish(result)
