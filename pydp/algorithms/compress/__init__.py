"""``pydp.compress``: a selection by a mask, or, along an axis, a gather at the places where the mask is not zero."""

from __future__ import annotations

from typing import Any

import numpy as np

from pydp.algorithms.arguments import axis_of
from pydp.algorithms.composed import explanation_of, placed
from pydp.algorithms.moves import take
from pydp.algorithms.registry import Algorithm, register, vectors
from pydp.algorithms.select import SelectSpec, explain_selection, flatnonzero, masked
from pydp.algorithms.select.request import check_flat_mask
from pydp.errors import InvalidArgument
from pydp.model.explanation import Explanation, Given
from pydp.runtime.placement import normal_input, wait_on_host
from pydp.tuning.reference import Expected, host

__all__ = ["SelectSpec", "compress"]


def compress(
    mask: Any,
    x: Any,
    axis: int | None = None,
    *,
    count: Any = None,
    length: Any = None,
    device: Any = None,
    queue: Any = None,
    wait_for: Any = None,
    spec: Any = None,
) -> Any:
    """Return the slices of `x` along an axis where `mask` is not zero, as ``numpy.compress``.

    mask: array of bools or numbers of rank 1, at most as long as the axis; slices of x beyond it are dropped. A NumPy
    array or a list may be longer if it is zero beyond that. axis: an integer; None selects elements of `x` in C order.

    With an axis, calls on Fields wait for the number of slices, which `count` receives, and `length` is not accepted.
    x, count, length, spec, errors and source: see `select`.

    >>> pydp.compress(np.array([True, False, True]), np.array([3, 1, 4]))
    array([3, 4])
    >>> pydp.compress([0, 1], np.array([[1, 2, 3], [4, 5, 6]]), axis=0)
    array([[4, 5, 6]])
    """
    mask, x = _checked(mask, x, axis, length, wait_for)
    if axis is None:
        where = {"device": device, "queue": queue, "wait_for": wait_for, "spec": spec}
        return masked(mask, x, count, length, where)
    place = placed({"x": x, "mask": mask}, device, queue)
    place.after(wait_for)
    places = flatnonzero(mask, count=count, spec=spec, wait_for=wait_for, **place.where)
    return take(x, places, axis, mode="clip", **place.where)


def _checked(mask: Any, x: Any, axis: Any, length: Any, wait_for: Any) -> tuple[Any, Any]:
    """(mask, x) as arrays. A mask on the host that is longer than the axis is cut if all elements beyond it are
    zero."""
    if mask is None:
        raise InvalidArgument("mask is None; an array of rank 1 of bools or numbers is accepted")
    if axis is not None and length is not None:
        raise InvalidArgument(f"compress is given axis={axis!r} and length; length needs axis=None")
    x = normal_input("x", x)
    mask = np.zeros(0, bool) if isinstance(mask, (list, tuple)) and not mask else normal_input("mask", mask)
    if length is not None or (axis is None and not isinstance(mask, np.ndarray)):
        return mask, x  # their sizes, which only the device may know, are not needed yet
    n = x.size if axis is None else x.shape[axis_of(axis, len(x.shape))]
    if isinstance(mask, np.ndarray) and mask.ndim == 1 and mask.size > n:
        wait_on_host(wait_for)
        mask = mask if mask[n:].any() else mask[:n]
    if axis is not None:
        check_flat_mask(mask, n, f"axis {axis} of x")
    return mask, x


def _explain(given: Given) -> Explanation:
    mask, x = _checked(given.mask, given.x, given.axis, given.length, given.wait_for)
    if given.axis is None:
        return explain_selection("compress", given.but(mask=mask, x=x))
    place = placed({"x": x, "mask": mask}, given.device, given.queue)
    found = explanation_of(flatnonzero, mask, count=given.count, spec=given.spec, device=place.device)
    found.title = f"compress of {tuple(x.shape)} {x.dtype} along axis {given.axis} on {place.device.name}"
    found.choices.insert(0, "the places where the mask is not zero are found first; then `take` gathers the slices")
    found.choices.insert(1, "the call waits for the number of slices")
    return found


def _reference(mask: Any, x: Any, axis: Any = None) -> list[Expected]:
    return [Expected(np.compress(host(mask).reshape(-1) != 0, host(x), axis))]


register(
    Algorithm(
        compress,
        _explain,
        _reference,
        sizes=("1048576",),
        shapes=vectors(2),
        accepted=("N",),
        operands=2,
        dtype="uint8",
        dtypes="biu",
        benchmark="pydp.bench.bench_select",
    )
)
