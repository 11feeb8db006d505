"""``pydp.take`` and ``pydp.put``: elements at given indexes."""

from __future__ import annotations

from math import prod
from typing import Any

import numpy as np

from pydp.algorithms.arguments import axis_of, refuse_shared, scalar_of
from pydp.algorithms.moves.views import words_of
from pydp.algorithms.reductions import min_max
from pydp.dtypes import c_name, check_supported
from pydp.errors import InvalidArgument, shown
from pydp.runtime.arrays.indexing import IndexOutOfRange
from pydp.runtime.arrays.operand import Operand
from pydp.runtime.call import Call
from pydp.runtime.device.profile import Profile
from pydp.runtime.placement import normal_input, wait_on_host
from pydp.runtime.programs.program import Kernel, kernel
from pydp.runtime.recording import recorded
from pydp.space import MAX_RANK, merge_axes

_MODES = ("raise", "wrap", "clip")
_PART = 4096  # words of a work-item of the mapping "vector"
_GROUP = 128  # work-items of a work-group of the mapping "simt"
_FEW = 4096  # indexes that one work-item puts in order
_MOST_OWNERS = (1 << 31) - 1  # indexes of a launch of put with owners


def take(
    a: Any, indices: Any, axis: int | None = None, out: Any = None, mode: str = "raise",
    *, device: Any = None, queue: Any = None, wait_for: Any = None,
) -> Any:  # fmt: skip
    """Elements of `a` at `indices` along an axis, as ``numpy.take``.

    a: array of any shape, strides and dtype. indices: integers or bools of any shape. axis: an integer; None takes the
    elements of `a` in C order. The result has the shape of `a` with the axis replaced by the axes of `indices`.

    mode: "raise": indexes from -size to size - 1 are accepted; others raise an InvalidArgument that is also an
    IndexError, and nothing is written. The smallest and the largest index are computed first, which reads the indexes
    once more, and the call waits for them. "wrap": indexes are taken modulo size. "clip": negative indexes become 0,
    large ones size - 1. With "wrap" and "clip", a call on device data does not wait; these modes take uint64 indexes as
    int64, as NumPy does.

    out: array for the result, which must not share memory with `a` or `indices`. A result of rank 0 is a NumPy scalar
    if the arrays are NumPy's. Raises InvalidArgument for other dtypes, axes and modes, and for an axis of size 0 unless
    there are no indexes.

    >>> pydp.take(np.array([10, 20, 30, 40]), [3, 0, -1])
    array([40, 10, 40])
    """
    where = {"out": out, "device": device, "queue": queue, "wait_for": wait_for}
    given = _index_array(indices)
    _check_mode(mode)
    if mode == "raise":
        wait_on_host(wait_for, indices)
    how = _checked(given, _size_of(a, axis), mode, where)
    return scalar_of(_take(a, given, axis, how, **where), out)


@recorded
def _take(a: Any, indices: Any, axis: Any, how: str, **where: Any) -> Any:
    call, source, indexes, at, shape = _prepared(a, indices, axis, where)
    result = call.output(shape, source.dtype)
    refuse_shared(call, result, source, indexes)
    gather(call, source, indexes, at, how, result)
    return call.finish(result)


def _prepared(a: Any, indices: Any, axis: Any, where: dict[str, Any]) -> Any:
    """(call, source, indexes, axis, shape of the result)."""
    call = Call.begin({"a": a, "indices": indices}, **where)
    source, indexes = call.input("a"), call.input("indices")
    check_supported(source.dtype, call.device, "a", storage_only=True)
    if axis is None:
        source, at = call.flat(source), 0
    else:
        at = axis_of(axis, source.rank)
    shape = (*source.shape[:at], *indexes.shape, *source.shape[at + 1 :])
    if len(shape) > MAX_RANK:
        raise InvalidArgument(f"the result has {len(shape)} axes; ranks 0 to {MAX_RANK} are accepted")
    return call, source, indexes, at, shape


def gather(call: Call, source: Operand, indexes: Operand, axis: int, how: str, target: Operand) -> None:
    """Enqueue ``target[...] = take(source, indexes, axis)``. how: the mode of the kernel."""
    if not target.size:
        return
    made = target if target.is_contiguous else call.temporary(target.shape, target.dtype)
    _launch_take(call, source, indexes, axis, how, made)
    if made is not target:
        call.copy(made, target)


def _launch_take(call: Call, source: Operand, indexes: Operand, axis: int, how: str, made: Operand) -> None:
    kind = indexes.dtype if indexes.dtype in (np.int32, np.int64) else np.dtype(np.int64)
    indexes = call.contiguous(indexes, kind)
    word, words = words_of(source.dtype)
    outer, inner = _merged(source, 0, axis), _merged(source, axis + 1, source.rank)
    if outer is None or inner is None or (words > 1 and inner[0] > 1 and inner[1] != 1):
        source = call.contiguous(source)
        outer, inner = _merged(source, 0, axis), _merged(source, axis + 1, source.rank)
    assert outer is not None and inner is not None
    steps = outer[1] * words, source.strides[axis] * words, inner[1] if words == 1 else 1
    count, rows, row = indexes.size, outer[0] * indexes.size, inner[0] * words
    ready, mapping = take_kernel(call.device, word, kind, how, row, outer[0] > 1, steps[2] == 1)
    sizes = (count, rows, source.shape[axis], row, *steps)
    numbers = [np.int64(one) for one in sizes]
    if mapping == "vector":
        part = max(1, _PART // row)
        numbers.append(np.int64(part))
        global_size, local_size = (-(-rows // part),), (1,)
    else:
        group = min(_GROUP, call.device.profile.max_group_size)
        global_size, local_size = (-(-rows * row // group) * group,), (group,)
    ends = (made, np.int64(made.offset * words), source, np.int64(source.offset * words))
    call.launch(ready, global_size, local_size, *ends, indexes, np.int64(indexes.offset), *numbers)


def _merged(source: Operand, first: int, last: int) -> tuple[int, int] | None:
    """(size, stride) of some axes as one axis; None if their strides do not allow it."""
    axes = merge_axes((source.shape[k], (source.strides[k],)) for k in range(first, last))
    if not axes:
        return 1, 1
    return (axes[0][0], axes[0][1][0]) if len(axes) == 1 else None


def mapping_of(profile: Profile) -> str:
    """The mapping of the kernels on a device: rows may be longer than the loops that some drivers run."""
    return profile.mapping if profile.loop_limit is None else "simt"


def take_kernel(
    device: Any, word: np.dtype, index: np.dtype, how: str, row: int, outer: bool, unit: bool
) -> tuple[Kernel, str]:
    """The kernel that gathers rows of `row` words, and its mapping."""
    mapping = mapping_of(device.profile)
    params = {
        "word": c_name(word),
        "index": c_name(index),
        "mode": how,
        "mapping": mapping,
        "wide": min(16, 64 // word.itemsize) if row >= 16 else 1,
        "rows_only": row == 1,
        "outer": outer,
        "unit": unit,
    }
    return kernel(device, "take.mako", "take_rows", params), mapping


# --- put -----------------------------------------------------------------------------------------------------------


def put(
    a: Any, ind: Any, v: Any, mode: str = "raise", *, device: Any = None, queue: Any = None, wait_for: Any = None
) -> None:
    """Store the elements of `v` at the indexes `ind` of `a` in C order, as ``numpy.put``: ``a.flat[ind] = v``.

    a: array that is changed in place, of any shape, strides and dtype. ind: integers or bools, of any shape. v: values,
    converted to the dtype of `a`; they are repeated if there are fewer than indexes. mode: see :func:`take`.

    If an index occurs several times, the last value wins, on all devices: on CPUs each work-item owns a part of `a` and
    visits the indexes in order; on GPUs an atomic maximum finds the last position of each index first.

    Raises InvalidArgument if `v` is empty, if `v` is complex and `a` is real, for read-only arrays, for arrays that
    share memory with `a`, and for indexes out of range (also an IndexError); `a` is then unchanged.

    >>> a = np.arange(5)
    >>> pydp.put(a, [0, 2, 0], [7, 8, 9]); a
    array([9, 1, 8, 3, 4])
    """
    where = {"device": device, "queue": queue, "wait_for": wait_for}
    given = _index_array(ind, "ind")
    size = prod(getattr(a, "shape", ()))
    _check_mode(mode)
    if mode == "raise":
        wait_on_host(wait_for, ind)
    how = _checked(given, size, mode, where, "ind")
    values = _values_for(a, v, wait_for)
    if not prod(given.shape):
        return
    if not prod(values.shape):
        raise InvalidArgument("v has no elements; at least one value is needed for the indexes")
    _put(a, given, values, how, **where)


@recorded
def _put(a: Any, ind: Any, v: Any, how: str, *, device: Any, queue: Any, wait_for: Any) -> None:
    call = Call.begin({"a": a, "ind": ind, "v": v}, writable=("a",), device=device, queue=queue, wait_for=wait_for)
    target, indexes, values = call.inout("a"), call.input("ind"), call.input("v")
    check_supported(target.dtype, call.device, "a", storage_only=True)
    refuse_shared(call, target, indexes, values, name="a")
    if values.dtype != target.dtype:
        values = call.contiguous(values, target.dtype)
    kind = indexes.dtype if indexes.dtype in (np.int32, np.int64) else np.dtype(np.int64)
    indexes, values = call.contiguous(indexes, kind), call.contiguous(values)
    made = target if target.is_contiguous else call.contiguous(target)
    for first in range(0, indexes.size, _MOST_OWNERS):  # later parts overwrite earlier ones
        count = min(_MOST_OWNERS, indexes.size - first)
        _launch_put(call, made, indexes, values, how, first, count)
    if made is not target:
        call.copy(made, target)
    call.finish()


def _launch_put(call: Call, made: Operand, indexes: Operand, values: Operand, how: str, first: int, count: int) -> None:
    word, words = words_of(made.dtype)
    profile = call.device.profile
    mapping = mapping_of(profile)
    params = {
        "word": c_name(word),
        "words": words,
        "index": c_name(indexes.dtype),
        "mode": how,
        "mapping": mapping,
        "period": values.size < first + count,
    }
    store = kernel(call.device, "put.mako", "put_elements", params)
    size, number, start = np.int64(made.size), np.int64(count), np.int64(indexes.offset + first)
    args: tuple[Any, ...] = (made, np.int64(made.offset * words), size, indexes, start, number)
    args += (values, np.int64(values.offset * words), np.int64(values.size), np.int64(first))
    if mapping == "vector":
        groups = 1 if count <= _FEW else min(profile.compute_units, made.size)
        call.launch(store, (groups,), (1,), *args)
        return
    owners = call.scratch(4 * made.size)
    group = min(_GROUP, profile.max_group_size)
    sizes = (-(-count // group) * group,), (group,)
    reset, claim = (kernel(call.device, "put.mako", name, params) for name in ("put_reset", "put_claim"))
    call.launch(reset, (-(-made.size // group) * group,), (group,), owners, size)
    call.launch(claim, *sizes, owners, indexes, start, number, size)
    call.launch(store, *sizes, *args, owners)


# --- arguments -----------------------------------------------------------------------------------------------------


def _index_array(indices: Any, name: str = "indices") -> Any:
    if indices is None:
        raise InvalidArgument(f"{name} is None; integers are accepted")
    given = normal_input(name, indices)
    if isinstance(given, np.ndarray) and not given.size and not isinstance(indices, np.ndarray):
        given = given.astype(np.int64)  # an empty list
    unsigned = given.dtype == np.uint64 and name == "ind"  # as numpy.put, which refuses them
    if given.dtype.kind not in "iub" or unsigned:
        accepted = "bool and integers" + " except uint64" * (name == "ind")
        raise InvalidArgument(f"{name} has dtype {given.dtype}; {accepted} are accepted")
    return given


def _size_of(a: Any, axis: Any) -> int:
    shape = getattr(a, "shape", None)
    shape = np.shape(a) if shape is None else tuple(shape)
    return prod(shape) if axis is None else shape[axis_of(axis, len(shape))]


def _check_mode(mode: Any) -> None:
    if not isinstance(mode, str) or mode not in _MODES:
        raise InvalidArgument(f"mode is {shown(mode)}; 'raise', 'wrap' and 'clip' are accepted")


def _checked(indexes: Any, size: int, mode: str, where: dict[str, Any], name: str = "indices") -> str:
    """The mode of the kernel. Raises IndexOutOfRange for indexes out of range."""
    if not prod(indexes.shape):
        return "plain" if mode == "raise" else mode
    if not size:
        raise IndexOutOfRange(f"{name} has {prod(indexes.shape)} indexes, but there are no elements to take")
    if mode != "raise":
        return mode
    if isinstance(indexes, np.ndarray) and indexes.size <= _FEW:
        low, high = int(indexes.min()), int(indexes.max())
    else:
        places = {key: value for key, value in where.items() if key != "out"}
        low, high = (int(np.asarray(one.get() if hasattr(one, "get") else one)) for one in min_max(indexes, **places))
    if low < -size or high >= size:
        wrong = low if low < -size else high
        raise IndexOutOfRange(
            f"{name}: index {wrong} is out of bounds; indexes from {-size} to {size - 1} are accepted"
        )
    return "negative" if low < 0 else "plain"


def _values_for(a: Any, v: Any, wait_for: Any) -> Any:
    """The values of put as an array; values that lose their fraction or sign are converted as by astype."""
    values = normal_input("v", v)
    dtype = getattr(a, "dtype", None)
    if dtype is None:
        raise InvalidArgument(f"a is a {type(a).__name__}; NumPy arrays, Fields and pyopencl Arrays are accepted")
    if values.dtype.kind == "c" and dtype.kind not in "bc":
        raise InvalidArgument(f"v has dtype {values.dtype}, but a has dtype {dtype}; real values are accepted")
    if isinstance(values, np.ndarray) and values.dtype != dtype:
        wait_on_host(wait_for, v)
        with np.errstate(invalid="ignore"):  # NumPy would warn about NaN; the device does not
            values = values.astype(dtype)
    return values
