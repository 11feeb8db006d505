"""``pydp.merge`` and ``merge_by_key``: two sorted arrays as one, in one pass over memory."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from pydp.algorithms.arguments import by_key, check_same_shape, refuse_shared
from pydp.algorithms.merge.policy import FAMILY, MergeProblem, MergeSpec, stretch_of
from pydp.algorithms.registry import Algorithm, register, vectors
from pydp.algorithms.search.plan import common_dtype
from pydp.algorithms.sort.order import Comparison, comparison_of, ordering
from pydp.dtypes import (
    c_declarations,
    c_name,
    check_kept_whole,
    check_supported,
    dtype_text,
    is_record,
    lost_in_arrays,
    movable,
)
from pydp.errors import InvalidArgument, UnsupportedOnDevice
from pydp.groups.barrier_plan import build_kernel, describe_barriers
from pydp.model.explanation import Explanation, Given
from pydp.runtime.arrays.operand import Operand
from pydp.runtime.call import Call
from pydp.runtime.programs.program import Kernel, kernel
from pydp.runtime.recording import recorded
from pydp.tuning.choose import Choice, cached_plan, choose
from pydp.tuning.reference import Expected, host

__all__ = ["MergeSpec", "merge", "merge_by_key"]


@recorded
def merge(
    a: Any,
    b: Any,
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
    """Merge two sorted arrays. The merge is stable: of equal elements, those of `a` come first.

    a, b: arrays of rank 1 in the order of `sort` (ascending, NaN last; records member by member), of any strides and
    dtype (NumPy, Field or pyopencl Array). Numbers of different dtypes are merged in their common dtype. The result has
    ``len(a) + len(b)`` elements and the kind of `a`. If an array is not sorted, the order of the result is unspecified.
    key, less, descending: the order of both arrays, as for `sort`. Functions get elements of the common dtype.
    out: array for the result, which shares no memory with `a` and `b`.
    spec: a :class:`pydp.algorithms.merge.policy.MergeSpec`, or a mapping of some of its fields.

    Raises InvalidArgument for arrays of another rank, for dtypes without a common one and for invalid functions, and
    UnsupportedOnDevice for dtypes and functions that the device does not support, before anything is enqueued.

    >>> pydp.merge(np.array([1, 3, 5]), np.array([2, 3, 9]))
    array([1, 2, 3, 3, 5, 9])
    >>> pydp.merge(np.array([1, -3, 5]), np.array([-2, 9]), key="abs(x)")
    array([ 1, -2, -3,  5,  9])

    Source: O. Green, R. McColl and D. Bader, GPU Merge Path (2012); ``cub::DeviceMerge``.
    """
    where = {"out": out, "device": device, "queue": queue, "wait_for": wait_for}
    return _run(_prepare({"a": a, "b": b}, (key, less, descending), spec, where, 1))


@recorded
def merge_by_key(
    keys_a: Any,
    values_a: Any,
    keys_b: Any,
    values_b: Any,
    *,
    key: Any = None,
    less: Any = None,
    descending: bool = False,
    device: Any = None,
    queue: Any = None,
    wait_for: Any = None,
    spec: Any = None,
) -> tuple[Any, Any]:
    """Merge two sorted arrays of keys, and their values in the same way. Returns (keys, values).

    values_a and values_b have the shapes of `keys_a` and `keys_b`, and any dtype (numbers: the common one). Other
    arguments and errors: as for `merge`.

    >>> pydp.merge_by_key(np.array([1, 3]), np.array([10, 30]), np.array([2]), np.array([20]))
    (array([1, 2, 3]), array([10, 20, 30]))
    """
    where = {"device": device, "queue": queue, "wait_for": wait_for}
    arrays = {"keys_a": keys_a, "values_a": values_a, "keys_b": keys_b, "values_b": values_b}
    found: tuple[Any, Any] = _run(_prepare(arrays, (key, less, descending), spec, where, 2))
    return found


class _Prepared(NamedTuple):
    """A merge that is ready to run. keys, values: of a and of b, not yet contiguous."""

    call: Call
    keys: list[Operand]
    values: list[Operand]
    key: np.dtype
    carried: np.dtype | None
    plan: _Plan | None


@dataclass(frozen=True)
class _Plan:
    kernel: Kernel
    choice: Choice
    stretch: int


def _prepare(
    arrays: dict[str, Any], compared: tuple[Any, Any, Any], spec: Any, where: dict[str, Any], outputs: int
) -> _Prepared:
    """compared: the arguments key, less and descending. outputs: 2 with values, otherwise 1."""
    call = Call.begin(arrays, outputs=outputs, **where)
    operands = [call.input(name) for name in arrays]
    keys, values = operands[::outputs], operands[1::2] if outputs == 2 else []
    for one in keys:
        if len(one.shape) != 1:
            raise InvalidArgument(f"{one.name} has shape {one.shape}; a sorted array of rank 1 is accepted")
    for one, own in zip(values, keys, strict=bool(values)):
        check_same_shape(one.name, one, own.name, own)
    key = common_dtype(keys[0].dtype, keys[1].dtype)
    carried = common_dtype(values[0].dtype, values[1].dtype) if values else None
    for dtype in (*(one.dtype for one in keys), key):
        check_supported(dtype, call.device, "keys")
        check_kept_whole(dtype, call.device)
    if carried is not None:
        converts = any(one.dtype != carried for one in values)
        for dtype in (*(one.dtype for one in values), carried):
            check_supported(dtype, call.device, "values", storage_only=not converts)
    total = sum(one.size for one in keys)
    plan = _plan_of(call.device, key, carried, total, by_key(spec), *comparison_of(key, *compared))
    return _Prepared(call, keys, values, key, carried, plan if total else None)


@cached_plan
def _plan_of(device: Any, key: np.dtype, carried: np.dtype | None, total: int, spec: Any, *compared: Any) -> _Plan:
    """compared: the items of a Comparison."""
    words = None if carried is None else movable(carried)
    if device.profile.loop_limit is not None and lost_in_arrays(key, device):
        raise UnsupportedOnDevice(f"this driver corrupts local arrays of {key}; merge numbers instead")
    item = key.itemsize + (carried.itemsize if carried else 0)
    order, used, iterations = ordering(device, key, Comparison(*compared))
    problem = MergeProblem(dtype_text(key), max(0, total - 1).bit_length(), key.itemsize, item, iterations)
    choice = choose(FAMILY, device, problem, spec)
    chosen = choice.spec
    params: dict[str, object] = {
        "mapping": chosen.mapping,
        "declarations": c_declarations([*sorted(used, key=str), *([words] if words else [])]),
        "key": c_name(key),
        "ordering": order,
        "carried": c_name(words) if words else None,
        "chains": chosen.chains,
        "scalar": not is_record(key),
        "lanes": chosen.lanes,
        "items": chosen.items,
    }
    if chosen.mapping == "simt":
        needs = dict.fromkeys(("split", "loaded", "placed"), chosen.lanes)
        made = build_kernel(
            device, "merge_sorted.mako", "merge_sorted", params, needs, lanes=chosen.lanes, choice=chosen.barriers,
            subgroup=chosen.subgroup,
        )  # fmt: skip
    else:
        alone: dict[str, object] = {"lowerings": None, "attribute": "", "subgroups": False}
        made = kernel(device, "merge_sorted.mako", "merge_sorted", params | alone)
    return _Plan(made, choice, stretch_of(chosen, total, device.profile.compute_units))


def _run(ready: _Prepared) -> Any:
    call, plan = ready.call, ready.plan
    total = sum(one.size for one in ready.keys)
    results = [call.output((total,), dtype) for dtype in (ready.key, ready.carried) if dtype is not None]
    for result in results:
        refuse_shared(call, result, *ready.keys, *ready.values)
    if plan is not None:
        args: list[Any] = []
        targets = [one if one.is_contiguous else call.temporary(one.shape, one.dtype) for one in results]
        for sources, target in zip((ready.keys, ready.values), targets, strict=False):
            for one in (*(call.contiguous(each, target.dtype) for each in sources), target):
                args += [one, np.int64(one.offset)]
        args += [np.int64(one.size) for one in ready.keys]
        lanes = plan.choice.spec.lanes if plan.choice.spec.mapping == "simt" else 1
        groups = -(-total // plan.stretch)
        call.launch(plan.kernel, (groups * lanes,), (lanes,), *args, np.int64(plan.stretch))
        for target, result in zip(targets, results, strict=True):
            if target is not result:
                call.copy(target, result)
    return call.finish(*results)


def _explain(which: str, given: Given) -> Explanation:
    names = ("a", "b") if which == "merge" else ("keys_a", "values_a", "keys_b", "values_b")
    arrays = {name: getattr(given, name) for name in names}
    compared = given.key, given.less, given.descending
    ready = _prepare(arrays, compared, given.spec, given.where, 1 if which == "merge" else 2)
    device, plan = ready.call.device, ready.plan
    sizes = " and ".join(str(one.size) for one in ready.keys)
    if which == "merge" and given.out is not None:
        ready.call.output((sum(one.size for one in ready.keys),), ready.key)  # validates out
    title = f"{which} of {sizes} elements of {ready.key} on {device.name}"
    if plan is None:
        return Explanation(title, {"device": device.name}, ["there are no elements: no kernel"])
    spec = plan.choice.spec
    who = "work-group" if spec.mapping == "simt" else "work-item"
    choices = [
        f"{plan.choice.source}: {plan.choice.reason}",
        f"each {who} finds its {plan.stretch} results in both arrays by binary search (merge path)",
        f"mapping {spec.mapping!r}: the device is a {device.profile.kind}",
    ]
    for one in (*ready.keys, *ready.values):
        if not one.is_contiguous or one.dtype not in (ready.key, ready.carried):
            choices.append(f"{one.name} is first copied to a contiguous array of the common dtype")
    facts = {"device": device.name, "specialization": spec}
    return Explanation(title, facts, choices + describe_barriers(plan.kernel), {plan.kernel.name: plan.kernel.source})


def _merge_reference(a: Any, b: Any, *, descending: Any = False) -> list[Expected] | None:
    order = _order(a, b, descending)
    return None if order is None else [Expected(np.concatenate([host(a), host(b)])[order])]


def _pairs_reference(
    keys_a: Any, values_a: Any, keys_b: Any, values_b: Any, *, descending: Any = False
) -> list[Expected] | None:
    order = _order(keys_a, keys_b, descending)
    if order is None:
        return None
    pairs = ((keys_a, keys_b), (values_a, values_b))
    return [Expected(np.concatenate([host(one), host(other)])[order]) for one, other in pairs]


def _order(a: Any, b: Any, descending: bool) -> np.ndarray | None:
    """The order of a merge; None if an array is not sorted, so that it is unspecified."""
    a, b = host(a), host(b)
    for one in (a, b):
        behind, before = (one[:-1], one[1:]) if descending else (one[1:], one[:-1])
        if (behind < before).any() or (before != before)[behind == behind].any():
            return None
    both = np.concatenate([a, b])
    if not descending:
        return np.argsort(both, kind="stable")
    return (both.size - 1 - np.argsort(both[::-1], kind="stable"))[::-1]


register(
    Algorithm(
        merge,
        lambda given: _explain("merge", given),
        _merge_reference,
        sizes=("1048576",),
        shapes=vectors(2),
        accepted=("N",),
        operands=2,
        dtypes="biuf",
        numbers="sorted",
        benchmark="pydp.bench.bench_merge",
    )
)
register(
    Algorithm(
        merge_by_key,
        lambda given: _explain("merge_by_key", given),
        _pairs_reference,
        sizes=("1048576",),
        shapes=vectors(4),
        accepted=("N",),
        operands=4,
        dtypes="biuf",
        numbers="sorted",
        benchmark="pydp.bench.bench_merge",
    )
)
