"""Set operations on arrays, as in NumPy: ``isin``, ``union1d``, ``intersect1d``, ``setdiff1d``, ``setxor1d``.

They are composed of sorts, binary searches and selections. No step waits for the device, therefore calls with two
Fields do not wait either.
"""

from __future__ import annotations

import functools
from typing import Any, NamedTuple

import numpy as np

from pydp.algorithms.arguments import switch
from pydp.algorithms.composed import Place, explanation_of, placed, refuse_count, taken
from pydp.algorithms.merge import merge_by_key
from pydp.algorithms.registry import Algorithm, register, vectors
from pydp.algorithms.runs import unique
from pydp.algorithms.search import explained, membership, searchsorted
from pydp.algorithms.search.plan import Search, common_dtype, prepare
from pydp.algorithms.select import select
from pydp.algorithms.sort import argsort, sort
from pydp.errors import InvalidArgument, shown
from pydp.model.explanation import Explanation, Given
from pydp.runtime.call import Call
from pydp.runtime.field.field import Field
from pydp.runtime.placement import normal_input
from pydp.tuning.reference import Expected, host

__all__ = ["intersect1d", "isin", "setdiff1d", "setxor1d", "union1d"]


def isin(
    element: Any,
    test_elements: Any,
    assume_unique: bool = False,
    invert: bool = False,
    *,
    kind: str | None = None,
    device: Any = None,
    queue: Any = None,
    wait_for: Any = None,
    spec: Any = None,
) -> Any:
    """Whether each element is among `test_elements` (bool, in the shape of `element`), as ``numpy.isin``.

    element, test_elements: arrays of any shape, strides and dtype that `sort` accepts (NumPy, Field or pyopencl Array).
    The result has the kind of `element`. Elements are compared by ``==`` in their common dtype: NaN is never found.
    invert: whether each element is not among them. assume_unique and kind ("sort", "table" or None) change only the
    method of NumPy; they are accepted and have no effect.
    spec: a :class:`pydp.algorithms.search.policy.SearchSpec`, or a mapping of some of its fields.

    test_elements are sorted; then each element is searched. Raises InvalidArgument for arrays that cannot be compared,
    and UnsupportedOnDevice for dtypes that the device does not support, before anything is enqueued.

    >>> pydp.isin(np.array([[1, 2], [3, 4]]), np.array([2, 4, 9]))
    array([[False,  True],
           [False,  True]])
    """
    given_element, tests, inverted = _checked_isin(element, test_elements, assume_unique, invert, kind)
    place = placed({"element": element, "test_elements": test_elements}, device, queue)
    shape = np.broadcast_to(tests.dtype.type(0), (tests.size,)) if tests.dtype.kind in "biufc" else None
    if shape is not None:  # raises the errors of the search before anything is enqueued
        arrays = {"element": _layout(place.arrays[0]), "test_elements": shape}
        prepare(arrays, None, Search(found=True), spec, {"device": place.device})
    place.after(wait_for)
    ordered = sort(place.field(place.arrays[1]), axis=None, **place.where)
    found = membership(given_element, ordered, inverted, **place.where, wait_for=wait_for, spec=spec)
    if isinstance(found, Field):  # also of a number
        found = place.returned(found)
    return found


def _layout(array: Any) -> Any:
    """A NumPy array of the shape and dtype of an array, without memory of its own."""
    return np.broadcast_to(np.zeros((), array.dtype), tuple(array.shape))


def _checked_isin(element: Any, tests: Any, assume_unique: Any, invert: Any, kind: Any) -> tuple[Any, Any, bool]:
    switch(assume_unique, "assume_unique")
    if kind is not None and not (isinstance(kind, str) and kind in ("sort", "table")):
        raise InvalidArgument(f"kind is {shown(kind)}; None, 'sort' and 'table' are accepted")
    element, tests = normal_input("element", element), normal_input("test_elements", tests)
    common_dtype(element.dtype, tests.dtype)
    return element, tests, switch(invert, "invert")


class _Operands(NamedTuple):
    """Two arrays of rank 1 on the device. where: the arguments of further calls."""

    place: Place
    one: Field
    other: Field
    where: dict[str, Any]


def _operands(
    ar1: Any, ar2: Any, common: bool, count: Any, spec: Any, device: Any, queue: Any, wait_for: Any
) -> _Operands:
    """The arguments of a set operation, checked and flat. common: both get their common dtype."""
    place = placed({"ar1": ar1, "ar2": ar2}, device, queue)
    dtype = common_dtype(*(one.dtype.newbyteorder("=") for one in place.arrays))
    for array in place.arrays:
        flat = np.broadcast_to(np.zeros((), dtype), (array.size,))
        explanation_of(sort, flat, device=place.device)  # raises errors before the first call
    if spec is not None or count is not None:
        mask = np.broadcast_to(np.uint8(0), flat.shape)
        explanation_of(select, flat, mask=mask, count=count, spec=spec, device=place.device)
    refuse_count(place, count)
    place.after(wait_for)
    one, other = (
        each.astype(dtype) if common and each.dtype != dtype else each
        for each in (given.reshape(given.size) for given in place.fields())
    )
    return _Operands(place, one, other, place.where)


def union1d(
    ar1: Any, ar2: Any, *, count: Any = None, device: Any = None, queue: Any = None, wait_for: Any = None,
    spec: Any = None,
) -> Any:  # fmt: skip
    """Return the sorted distinct elements of two arrays, as ``numpy.union1d``.

    ar1, ar2: arrays of any shape, strides and dtype that `sort` accepts (NumPy, Field or pyopencl Array); numbers of
    different dtypes get their common dtype. The result has rank 1 and the kind of `ar1`; all NaNs count as one value.
    count: a device scalar (one int32 or int64) that receives the length of the result. The length of the result and
    spec: see `select`.

    Raises InvalidArgument for arrays without a common dtype, and UnsupportedOnDevice for dtypes that the device does
    not support, before anything is enqueued.

    >>> pydp.union1d(np.array([3, 1, 3]), np.array([2, 1]))
    array([1, 2, 3])
    """
    operands = _operands(ar1, ar2, True, count, spec, device, queue, wait_for)
    call = Call.begin({"one": operands.one, "other": operands.other}, **operands.where, wait_for=wait_for)
    parts = call.input("one"), call.input("other")
    joined = call.output((sum(one.size for one in parts),), parts[0].dtype)
    start = 0
    for part in parts:
        to = joined.view(part.shape, (1,))
        to.offset += start
        if part.size:
            call.copy(part, to)
        start += part.size
    return operands.place.returned(unique(call.finish(joined), count=count, spec=spec, **operands.where))


def intersect1d(
    ar1: Any,
    ar2: Any,
    assume_unique: bool = False,
    return_indices: bool = False,
    *,
    count: Any = None,
    device: Any = None,
    queue: Any = None,
    wait_for: Any = None,
    spec: Any = None,
) -> Any:
    """Return the sorted distinct elements that two arrays have in common, as ``numpy.intersect1d``.

    return_indices: also return the indexes (int64) of the first occurrences of these elements in `ar1` and in `ar2`,
    taken in C order. assume_unique is accepted and ignored: duplicates are removed in any case (in NumPy, they change
    the result then). NaN is in no intersection. ar1, ar2, count and errors: as for `union1d`.

    >>> pydp.intersect1d(np.array([3, 1, 3, 2]), np.array([3, 2, 7]))
    array([2, 3])
    """
    switch(assume_unique, "assume_unique")
    indices = switch(return_indices, "return_indices")
    place, one, other, where = _operands(ar1, ar2, True, count, spec, device, queue, wait_for)
    if not indices:
        ordered = sort(one, **where, wait_for=wait_for)
        mask = membership(ordered, sort(other, **where, wait_for=wait_for), heads=True, **where)
        return place.returned(select(ordered, mask=mask, count=count, spec=spec, **where))
    orders = [argsort(each, **where, wait_for=wait_for) for each in (one, other)]
    ordered, tests = (taken(each, order, where) for each, order in zip((one, other), orders, strict=True))
    mask = membership(ordered, tests, heads=True, **where)
    places = taken(orders[1], searchsorted(tests, ordered, **where), where)
    kept = select(ordered, mask=mask, count=count, spec=spec, **where)
    return place.returned(kept, *(select(each, mask=mask, spec=spec, **where) for each in (orders[0], places)))


def setdiff1d(
    ar1: Any,
    ar2: Any,
    assume_unique: bool = False,
    *,
    count: Any = None,
    device: Any = None,
    queue: Any = None,
    wait_for: Any = None,
    spec: Any = None,
) -> Any:
    """Return the sorted distinct elements of `ar1` that are not in `ar2`, as ``numpy.setdiff1d``.

    assume_unique: `ar1` has no duplicates; its elements then keep their order. The result has the dtype of `ar1`. ar1,
    ar2, count and errors: as for `union1d`.

    >>> pydp.setdiff1d(np.array([3, 1, 3, 2]), np.array([2, 7]))
    array([1, 3])
    """
    keeps_order = switch(assume_unique, "assume_unique")
    place, one, other, where = _operands(ar1, ar2, False, count, spec, device, queue, wait_for)
    tests = sort(other, **where, wait_for=wait_for)
    ordered = one if keeps_order else sort(one, **where, wait_for=wait_for)
    mask = membership(ordered, tests, True, not keeps_order, **where)
    return place.returned(select(ordered, mask=mask, count=count, spec=spec, **where))


def setxor1d(
    ar1: Any,
    ar2: Any,
    assume_unique: bool = False,
    *,
    count: Any = None,
    device: Any = None,
    queue: Any = None,
    wait_for: Any = None,
    spec: Any = None,
) -> Any:
    """Return the sorted distinct elements that are in only one of two arrays, as ``numpy.setxor1d``.

    assume_unique is accepted and ignored: duplicates are removed in any case (in NumPy, they change the result then).
    ar1, ar2, count and errors: as for `union1d`.

    >>> pydp.setxor1d(np.array([3, 1, 3, 2]), np.array([2, 7]))
    array([1, 3, 7])
    """
    switch(assume_unique, "assume_unique")
    place, one, other, where = _operands(ar1, ar2, True, count, spec, device, queue, wait_for)
    one, other = sort(one, **where, wait_for=wait_for), sort(other, **where, wait_for=wait_for)
    masks = [membership(*pair, True, True, **where) for pair in ((one, other), (other, one))]
    keys, mask = merge_by_key(one, masks[0], other, masks[1], **where)
    return place.returned(select(keys, mask=mask, count=count, spec=spec, **where))


# --- explanations and references -----------------------------------------------------------------------------


def _explain_isin(g: Given) -> Explanation:
    element, tests, _ = _checked_isin(g.element, g.test_elements, g.assume_unique, g.invert, g.kind)
    place = placed({"element": element, "test_elements": tests}, g.device, g.queue)
    arrays = {"element": _layout(element), "test_elements": np.broadcast_to(np.zeros((), tests.dtype), (tests.size,))}
    ready = prepare(arrays, None, Search(found=True), g.spec, {"device": place.device})
    found = explained("isin", ready)
    found.choices.insert(0, "test_elements are sorted first, see the explanation of sort")
    return found


_STEPS = {
    "union1d": "both arrays are joined, sorted, and the heads of runs selected",
    "intersect1d": "both arrays are sorted; the first of equal ones of ar1 is searched in ar2, and selected if found",
    "setdiff1d": "both arrays are sorted; the first of equal ones of ar1 is searched in ar2, and selected if missing",
    "setxor1d": "both arrays are sorted; elements of each are searched in the other; both are merged with the results, "
    "and the missing ones are selected",
}


def _explain_set(which: str, g: Given) -> Explanation:
    place = placed({"ar1": g.ar1, "ar2": g.ar2}, g.device, g.queue)
    dtype = common_dtype(*(one.dtype.newbyteorder("=") for one in place.arrays))
    size = sum(one.size for one in place.arrays) if which == "union1d" else place.arrays[0].size
    flat, mask = np.broadcast_to(np.zeros((), dtype), (size,)), np.broadcast_to(np.uint8(0), (size,))
    found = explanation_of(select, flat, mask=mask, count=g.count, spec=g.spec, device=place.device)
    found.choices.insert(0, _STEPS[which])
    found.choices.insert(1, "the specialization is that of the selection")
    found.title = f"{which} of {place.arrays[0].size} and {place.arrays[1].size} {dtype} on {place.device.name}"
    return found


def _isin_reference(element: Any, test_elements: Any, assume_unique: Any = False, invert: Any = False) -> Any:
    return [Expected(np.asarray(np.isin(host(element), host(test_elements), assume_unique, invert)))]


def _set_reference(function: Any, ar1: Any, ar2: Any, *options: Any, **named: Any) -> list[Expected]:
    found = function(host(ar1), host(ar2), *options, **named)
    return [Expected(one) for one in (found if isinstance(found, tuple) else (found,))]


_BENCHMARK = "pydp.bench.bench_sets"
_FLAT: dict[str, Any] = {
    "sizes": ("1048576",),
    "shapes": vectors(2),
    "accepted": ("N",),
    "operands": 2,
    "benchmark": _BENCHMARK,
}
register(Algorithm(isin, _explain_isin, _isin_reference, dtypes="biuf", dtype="int32", numbers="shared", **_FLAT))
_function: Any
_numpy: Any
for _function, _numpy in (
    (union1d, np.union1d),
    (intersect1d, np.intersect1d),
    (setdiff1d, np.setdiff1d),
    (setxor1d, np.setxor1d),
):
    register(
        Algorithm(
            _function,
            functools.partial(_explain_set, _function.__name__),
            functools.partial(_set_reference, _numpy),
            dtypes="biuf",
            dtype="int32",
            numbers="shared",
            **_FLAT,
        )
    )
