"""``pydp.transpose``: a contiguous copy with permuted axes.

A view is free: ``field.T`` and ``pydp.project`` need no kernel. A copy pays off if the result is read many times along
its last axis. The copy moves tiles: in vector registers on CPUs, through local memory on GPUs (SPEC S1, S3).
"""

from __future__ import annotations

from typing import Any

import numpy as np

from pydp.algorithms.arguments import by_key, integer
from pydp.algorithms.pieces import (
    after_events,
    buffer_limit,
    delivered,
    explaining_pieces,
    needed,
    pieces,
    target_of,
    unallocated,
)
from pydp.algorithms.registry import Algorithm, register
from pydp.algorithms.transpose.policy import FAMILY, TransposeProblem, TransposeSpec
from pydp.dtypes import check_supported
from pydp.errors import InvalidArgument, shown
from pydp.groups.barrier_plan import describe_barriers
from pydp.model.explanation import Explanation, Given
from pydp.runtime.arrays.copy_transposed import placement
from pydp.runtime.arrays.elementwise import copying_kernel
from pydp.runtime.arrays.elementwise import turned as transposed_words
from pydp.runtime.arrays.operand import Operand, c_strides
from pydp.runtime.call import Call
from pydp.runtime.recording import recorded
from pydp.tuning.choose import Choice, SpecProbe, cached_plan, choose
from pydp.tuning.reference import Expected, host
from pydp.tuning.shape_class import size_class

__all__ = ["TransposeSpec", "transpose"]


@recorded
def transpose(
    x: Any,
    axes: Any = None,
    *,
    out: Any = None,
    device: Any = None,
    queue: Any = None,
    wait_for: Any = None,
    spec: Any = None,
) -> Any:
    """Return a contiguous copy of `x` with permuted axes, as ``numpy.transpose`` (which returns a view).

    x: array of any rank, shape, strides and dtype (NumPy, Field or pyopencl array). The result has the same kind.
    axes: a permutation of the axes. None reverses them.
    out: output array of the result's shape and dtype, with any strides. It may overlap `x`.
    spec: a :class:`pydp.algorithms.transpose.policy.TransposeSpec`, or a mapping of some of its fields. It is used only
        if the strides require a blocked transpose.

    Raises InvalidArgument if `axes` is not a permutation or for an invalid `out` or `spec`, and UnsupportedOnDevice for
    dtypes that the device cannot store.

    >>> pydp.transpose(np.arange(6).reshape(2, 3)).shape
    (3, 2)
    """
    where = {"out": out, "device": device, "queue": queue, "wait_for": wait_for}
    if needed(where, x, result=getattr(x, "nbytes", 0)):
        where = after_events(where)
        source = np.transpose(np.asarray(x), _order(axes, x.ndim) if axes is not None else None)
        target, result = target_of(out, source.shape, source.dtype.newbyteorder("="), source)
        for part, place in pieces(buffer_limit(where), source, target):
            _transpose(part, range(part.ndim), spec, {**where, "out": place})
        return delivered(target, result)
    return _transpose(x, axes, spec, where)


def _transpose(x: Any, axes: Any, spec: Any, where: dict[str, Any]) -> Any:
    """Transpose an array that fits the device."""
    call, source = _prepare(x, axes, where)
    result = call.output(source.shape, source.dtype)
    if call.overlaps(source, result):
        kept = call.temporary(source.shape, source.dtype)
        call.copy(source, kept)
        source = kept
    choice = _chosen(call, source, result, spec)
    call.copy(source, result, None if choice is None else choice.spec)
    return call.finish(result)


def _prepare(x: Any, axes: Any, where: dict[str, Any]) -> tuple[Call, Operand]:
    """The validated call, and its operand with permuted axes."""
    call = Call.begin({"x": x}, **where)
    source = call.input("x")
    check_supported(source.dtype, call.device, "transpose", storage_only=True)
    return call, _permuted(source, axes)


def _permuted(source: Operand, axes: Any) -> Operand:
    """The operand with permuted axes."""
    rank = len(source.shape)
    order = tuple(reversed(range(rank))) if axes is None else _order(axes, rank)
    shape, strides = (tuple(given[axis] for axis in order) for given in (source.shape, source.strides))
    return source.view(shape, strides)


def _order(axes: Any, rank: int) -> tuple[int, ...]:
    try:
        given = [integer(axis) for axis in axes]
    except TypeError:
        raise InvalidArgument(
            f"axes={shown(axes)} is invalid; None or a permutation of {rank} axes is accepted"
        ) from None
    order = tuple(axis + rank if axis < 0 else axis for axis in given)
    if sorted(order) != list(range(rank)):
        raise InvalidArgument(f"axes={shown(axes)} is not a permutation of {rank} axes; each axis must occur once")
    return order


# --- specialization --------------------------------------------------------------------------------------


def _chosen(call: Call, source: Operand, result: Operand, spec: Any) -> Choice | None:
    """The choice for a blocked transpose; None if the copy needs no blocks. Validates `spec` in both cases."""
    return _cached_choice(call.device, source.dtype, source.shape, source.strides, result.strides, by_key(spec))


@cached_plan
def _cached_choice(
    device: Any, dtype: np.dtype, shape: tuple[int, ...], strides: tuple[int, ...], to: tuple[int, ...], spec: Any
) -> Choice | None:
    source, target = (Operand("x", None, 0, shape, steps, dtype) for steps in (strides, to))
    found = transposed_words(source, target) if source.size else None
    if found is None and (spec is None or isinstance(spec, SpecProbe)):
        return None
    nbytes, along, across = found or (4, 1, 1)
    problem = TransposeProblem(f"V{nbytes}", size_class(along), size_class(across))
    choice = choose(FAMILY, device, problem, spec)
    return choice if found is not None else None


def _explain(given: Given) -> Explanation:
    """Explain ``transpose(x, axes, ...)`` on this device."""
    call, source = _prepare(given.x, given.axes, given.where)
    facts: dict[str, object] = {"device": call.device.name, "result": source.shape, "strides": source.strides}
    fresh = Operand("out", source.buffer, 0, source.shape, c_strides(source.shape), source.dtype)
    if given.out is not None:
        fresh = call.output(source.shape, source.dtype)
    choice = _chosen(call, source, fresh, given.spec)
    if not source.size:
        return Explanation("transpose", facts, ["nothing to move: no kernel"])
    kernel = copying_kernel(call.device, source, fresh, None if choice is None else choice.spec)
    sources = {kernel.name: kernel.source}
    if choice is None:
        plain = source.is_contiguous and fresh.is_contiguous
        why = (
            "the elements are already in order: a contiguous copy"
            if plain
            else "no two long axes change places: elements are copied one by one"
        )
        return Explanation("transpose", facts, [why], sources)
    how = choice.spec
    facts["specialization"] = how
    choices = [f"{choice.source}: {choice.reason}"]
    if how.mapping == "vector":
        choices.append("tiles are transposed in vector registers: reads and writes use whole cache lines")
    else:
        found = transposed_words(source, fresh)
        assert found is not None
        layout = placement(call.device.profile, how, found[0])
        choices.append(f"tiles are transposed in local memory: reads and writes use whole cache lines; {layout.reason}")
    return Explanation("transpose", facts, choices + describe_barriers(kernel), sources)


def _empty_result(given: Given) -> np.ndarray:
    """The layout of the result, with the axes of x."""
    shape = given.x.shape
    order = range(len(shape))[::-1] if given.axes is None else _order(given.axes, len(shape))
    return unallocated([shape[k] for k in order], given.x.dtype).transpose(np.argsort(order))


def _reference(x: Any, axes: Any = None) -> list[Expected]:
    return [Expected(np.ascontiguousarray(np.transpose(host(x), axes)))]


register(
    Algorithm(
        transpose,
        explaining_pieces(_explain, "x", result=_empty_result),
        _reference,
        sizes=("2048x2048",),
        benchmark="pydp.bench.bench_transpose",
    )
)
