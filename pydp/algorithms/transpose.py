"""``pydp.transpose``: the elements with their axes in another order, as a contiguous copy.

A view is free: ``field.T`` and ``pydp.project`` need no kernel. A copy is for what reads the result again and again
along its last axis. It moves tiles: in vector registers on CPUs, through local memory on GPUs (SPEC S1, S3).
"""

from __future__ import annotations

from typing import Any

from pydp.dtypes import check_supported
from pydp.errors import InvalidArgument
from pydp.runtime.call import Call
from pydp.runtime.operand import Operand
from pydp.specialize.explanation import Explanation, explained_by

__all__ = ["transpose"]


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
    """A contiguous copy of `x` with its axes in the order `axes` (None: reversed), as ``numpy.transpose``.

    x: array of any rank, shape, strides and type (NumPy, Field or pyopencl array); the result is of its kind.
    out: where the result is written (of any strides; its shape and dtype must fit), also overlapping `x`.
    spec: must be None; the copy picks its kernel from the strides.

    Raises InvalidArgument for axes that are no permutation and for a wrong `out`, UnsupportedOnDevice for types that
    the device cannot hold.

    >>> pydp.transpose(np.arange(6).reshape(2, 3)).shape
    (3, 2)
    """
    if spec is not None:
        raise InvalidArgument(f"spec={spec!r} is not accepted: transpose has no specializations; None is accepted")
    call = Call.begin({"x": x}, device=device, queue=queue, wait_for=wait_for, out=out)
    source = call.input("x")
    check_supported(source.dtype, call.device, "transpose", storage_only=True)
    turned = _turned(source, axes)
    result = call.output(turned.shape, turned.dtype)
    if call.overlaps(source, result):
        kept = call.temporary(turned.shape, turned.dtype)
        call.copy(turned, kept)
        turned = kept
    call.copy(turned, result)
    return call.finish(result)


def _turned(source: Operand, axes: Any) -> Operand:
    """The operand with its axes in another order."""
    rank = len(source.shape)
    order = tuple(reversed(range(rank))) if axes is None else _order(axes, rank)
    return Operand(
        source.name,
        source.buffer,
        source.offset,
        tuple(source.shape[axis] for axis in order),
        tuple(source.strides[axis] for axis in order),
        source.dtype,
        source.owner,
    )


def _order(axes: Any, rank: int) -> tuple[int, ...]:
    try:
        given = [int(axis.__index__()) for axis in axes]
    except (AttributeError, TypeError):
        raise InvalidArgument(f"axes={axes!r} is not accepted; None or a permutation of {rank} axes is") from None
    order = tuple(axis + rank if axis < 0 else axis for axis in given)
    if sorted(order) != list(range(rank)):
        raise InvalidArgument(f"axes={axes!r} is no permutation of {rank} axes: each is named once")
    return order


def _explain(x: Any, axes: Any = None, *, device: Any = None, queue: Any = None, **_: Any) -> Explanation:
    call = Call.begin({"x": x}, device=device, queue=queue)
    turned = _turned(call.input("x"), axes)
    facts: dict[str, object] = {"device": call.device.name, "result": turned.shape, "steps": turned.strides}
    if turned.is_contiguous:
        return Explanation("transpose", facts, ["the elements lie in order already: a plain copy"], {})
    how = "vector registers" if call.device.profile.mapping == "vector" else "local memory"
    return Explanation("transpose", facts, [f"tiles go through {how}: whole lines are read and written"], {})


explained_by(transpose, _explain)
