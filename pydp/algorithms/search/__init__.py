"""``pydp.searchsorted``: the positions of values in a sorted array, by interleaved binary searches.

`membership` has the same kernel: whether a sorted array contains values, for ``pydp.isin`` and the set operations.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from pydp.algorithms.arguments import scalar_of
from pydp.algorithms.registry import Algorithm, register, vectors
from pydp.algorithms.search.plan import Search, prepare, run
from pydp.algorithms.search.policy import SearchSpec
from pydp.errors import InvalidArgument, shown
from pydp.model.explanation import Explanation, Given
from pydp.runtime.placement import normal_input
from pydp.runtime.recording import recorded
from pydp.tuning.reference import Expected, host

__all__ = ["SearchSpec", "membership", "searchsorted"]


def searchsorted(
    a: Any,
    v: Any,
    side: str = "left",
    sorter: Any = None,
    *,
    key: Any = None,
    less: Any = None,
    descending: bool = False,
    out: Any = None,
    device: Any = None,
    queue: Any = None,
    wait_for: Any = None,
    spec: Any = None,
) -> Any:
    """Return the indexes (int64) in the sorted array `a` where the values `v` would be inserted, as
    ``numpy.searchsorted``.

    a: array of rank 1 in the order of `sort`: ascending, NaN last (NumPy, Field or pyopencl Array; any stride).
    v: values of any shape and strides, or a number; they are compared in the common dtype of both arrays. The result
    has the shape of `v` and the kind of `a`; for a NumPy array and a number it is a NumPy scalar.
    side: with "left", the elements before the index are those that come before the value in the order of `a`; with
    "right", also those that are equal to it.
    sorter: integers that sort `a`, as of `argsort`; then `a` need not be sorted. Indexes that are out of range are
    clipped (NumPy raises an error for them).
    key, less, descending: the order of `a`, as for `sort`. The key is also applied to the values, and functions get
    elements of the common dtype. A key that names members compares these first, then the other members.
    out: int64 array of the shape of `v` for the result.
    spec: a :class:`pydp.algorithms.search.policy.SearchSpec`, or a mapping of some of its fields.

    Raises InvalidArgument for another side, a sorter of another shape or dtype, invalid functions, and arrays that
    cannot be compared; UnsupportedOnDevice for dtypes and functions that the device does not support. Both are raised
    before anything is enqueued.

    >>> pydp.searchsorted(np.array([1, 3, 5, 5]), np.array([0, 5, 9]))
    array([0, 2, 4])
    >>> pydp.searchsorted(np.array([1, 3, 5, 5]), np.array([0, 5, 9]), side="right")
    array([0, 4, 4])
    >>> pydp.searchsorted(np.array([5, 3, 1]), np.array([4, 3]), descending=True)
    array([1, 1])

    Source: P.-V. Khuong and P. Morin, Array Layouts for Comparison-Based Searching (2017), section 3: searches without
    branches.
    """
    where = {"out": out, "device": device, "queue": queue, "wait_for": wait_for}
    values = normal_input("v", v)
    found = _searched(a, values, sorter, _right(side), key, less, descending, **where, spec=spec)
    return scalar_of(found, out)


def _right(side: Any) -> bool:
    if not isinstance(side, str) or side not in ("left", "right"):
        raise InvalidArgument(f"side is {shown(side)}; 'left' and 'right' are accepted")
    return side == "right"


@recorded
def _searched(a: Any, v: Any, sorter: Any, right: bool, *compared: Any, spec: Any, **where: Any) -> Any:
    return run(prepare({"a": a, "v": v}, sorter, Search(right), spec, where, compared))


@recorded
def membership(
    element: Any,
    test_elements: Any,
    inverted: bool = False,
    heads: bool = False,
    *,
    device: Any = None,
    queue: Any = None,
    wait_for: Any = None,
    spec: Any = None,
) -> Any:
    """Whether the sorted array `test_elements` contains each element (bool); or, if `inverted`, whether it does not.

    heads: `element` is sorted, and the result is false for elements that equal their predecessor (NaN equals NaN).
    """
    where = {"device": device, "queue": queue, "wait_for": wait_for}
    how = Search(found=True, inverted=inverted, heads=heads)
    return run(prepare({"element": element, "test_elements": test_elements}, None, how, spec, where))


def _explain(given: Given) -> Explanation:
    values = normal_input("v", given.v)
    how, compared = Search(_right(given.side)), (given.key, given.less, given.descending)
    ready = prepare({"a": given.a, "v": values}, given.sorter, how, given.spec, given.where, compared)
    if given.out is not None:
        ready.call.output(ready.v.shape, np.int64)  # validates out
    return explained("searchsorted", ready)


def explained(which: str, ready: Any) -> Explanation:
    """The explanation of a search."""
    device, plan = ready.call.device, ready.plan
    title = f"{which}: {ready.v.size} values in {ready.a.size} sorted elements of {ready.a.dtype} on {device.name}"
    if plan is None:
        return Explanation(title, {"device": device.name}, ["there are no values: no kernel"])
    spec = plan.choice.spec
    facts = {"device": device.name, "specialization": spec, "values of a work-item": plan.part, "group": plan.group}
    choices = [f"{plan.choice.source}: {plan.choice.reason}"]
    choices.append(
        f"{spec.chains} searches are interleaved, so that their cache misses overlap"
        if spec.chains > 1
        else "a work-item makes one search; the others of its work-group hide its cache misses"
    )
    choices.append(f"mapping {spec.mapping!r}: the device is a {device.profile.kind}")
    return Explanation(title, facts, choices, {plan.kernel.name: plan.kernel.source})


def _reference(
    a: Any, v: Any, side: str = "left", sorter: Any = None, *, descending: Any = False
) -> list[Expected] | None:
    a = host(a)
    by_numpy: Any = np.searchsorted
    if sorter is not None:
        a = a[host(sorter)]
    if descending:  # before the element of the reversed array is after that of the array
        a, side = a[::-1], "left" if side == "right" else "right"
    if (a[1:] < a[:-1]).any() or (a[:-1] != a[:-1])[a[1:] == a[1:]].any():
        return None  # the result for an array that is not sorted depends on the order of the comparisons
    found = np.asarray(by_numpy(a, host(v), side))
    return [Expected((a.size - found if descending else found).astype(np.int64))]


register(
    Algorithm(
        searchsorted,
        _explain,
        _reference,
        sizes=("1048576",),
        shapes=vectors(2),
        accepted=("N",),
        operands=2,
        dtypes="biuf",
        numbers="sorted",
        benchmark="pydp.bench.bench_search",
    )
)
