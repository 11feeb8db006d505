"""Validate the arguments of a call on runs, and find its plan: the call, its operands and the cached plan."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from pydp.algorithms.arguments import by_key, check_same_shape
from pydp.algorithms.lengths import check_limit, length_of, limit
from pydp.algorithms.operators import Operator, operator_text
from pydp.algorithms.operators.conversion import conversion
from pydp.algorithms.pieces import buffer_limit, needed, on_host
from pydp.algorithms.runs.equality import differ, differ_vector
from pydp.algorithms.scan.arguments import value_dtype
from pydp.algorithms.select.plan import COUNT, Condition, Job, SelectPlan, select_plan
from pydp.algorithms.select.request import (
    Prepared,
    check_count,
    check_types,
    explanation,
    flattened,
    given_count,
)
from pydp.dtypes import check_kept_whole, check_supported, native
from pydp.model.explanation import Explanation
from pydp.model.family import Key, Keyed
from pydp.runtime.call import Call
from pydp.runtime.placement import normal_input
from pydp.tuning.choose import cached_plan


class Heads(NamedTuple):
    """A selection of the heads of runs of equal `keys`.

    results: in the order of the kernel's arguments: "values" (the heads), "starts" (their indexes), "lengths" (of the
    runs), "sums" (of `values` by `op`, in `dtype`), "first values" (the element of `values` at each head), "ranks"
    (the number of the run of each element i, at index ``values[i]``). finds_sorted: `keys` is the first result of
    `sort_unless_sorted`; unsorted, counters: its argument and its second result, which an explanation does not have.
    space: the elements of each result except "ranks"; None stands for as many as `keys` has.
    """

    keys: Any
    values: Any
    op: Any
    dtype: Any
    results: tuple[str, ...]
    equal_nan: bool
    count: Any
    spec: Any
    length: Any = None
    finds_sorted: bool = False
    unsorted: Any = None
    counters: Any = None
    space: int | None = None


def launched(request: Heads, where: dict[str, Any]) -> tuple[Any, ...]:
    """Enqueue a selection of heads. Returns its results and the number of runs."""
    ready, sums = prepare(request, where)
    call, n = ready.call, ready.x.size
    dtypes = {"values": ready.x.dtype, "starts": COUNT, "lengths": COUNT, "ranks": COUNT}
    if sums is not None:
        dtypes["sums"] = sums.dtype
    if "first values" in request.results:
        dtypes["first values"] = native(request.values.dtype)
    space = n if request.space is None else request.space
    outputs = [call.output((n if name == "ranks" else space,), dtypes[name], name) for name in request.results]
    outputs.append(call.output((), COUNT, "total"))
    outputs += [given_count(call, ready, request.count)] if request.count is not None else []
    length = limit(call, n) if call.has("length") else None
    ready.plan.run(call, flattened(call, ready.inputs, n), outputs, length=length, already_sorted=ready.already_sorted)
    found = call.finish(*outputs)
    results: tuple[Any, ...] = found if len(outputs) > 1 else (found,)
    return results[: len(request.results) + 1]


def runs_are_counted_first(request: Heads, where: dict[str, Any]) -> bool:
    """Whether results with space for as many runs as elements would exceed the device's largest buffer."""
    keys, values = request.keys, request.values
    if not on_host(keys):
        return False
    sizes = {"values": keys.dtype.itemsize, "starts": COUNT.itemsize, "lengths": COUNT.itemsize}
    if "sums" in request.results:
        given = native(normal_input("values", values).dtype)
        sizes["sums"] = value_dtype(given, request.dtype, request.op).itemsize
    elif values is not None:
        sizes["first values"] = values.dtype.itemsize
    most = max(sizes[name] for name in request.results)
    return needed({**where, "out": None}, keys, result=keys.size * most)


def prepare(request: Heads, where: dict[str, Any]) -> tuple[Prepared, Operator | None]:
    """Do all checks, and find the plan; nothing is enqueued. Returns (the selection, the operator of the sums)."""
    count, results = request.count, request.results
    if count is not None:
        check_count(count)
    out = None if count is None else (*[None] * (len(results) + 1), count)
    values = request.values
    sums = None
    if "sums" in results:
        values = normal_input("values", values)
        sums = operator_text(request.op, value_dtype(native(values.dtype), request.dtype, request.op))
        conversion(native(values.dtype), sums.dtype, "values")
    length = length_of(request.length)
    sources = {"keys": request.keys, "values": values, "length": length}
    sources |= {"unsorted": request.unsorted, "counters": request.counters}
    call = Call.begin(sources, out=out, outputs=len(results) + 2, out_name="count", **where)
    keys = call.input("keys")
    check_limit(length, keys.size)
    check_types(call, keys.dtype, False)
    others = call.input("values") if call.has("values") else None
    if others is not None:
        check_same_shape("values", others, "keys", keys)
    if sums is not None and others is not None:
        sums.check(call.device)
        for dtype in (others.dtype, sums.dtype):
            check_supported(dtype, call.device, "values")
            check_kept_whole(dtype, call.device)
    shape = keys.shape
    stored = keys if "values" in results else others if "first values" in results else None
    read = others if "sums" in results or "ranks" in results else None
    inputs = (keys, stored, read)
    steps = tuple(1 if one is None else one.flat.strides[0] for one in inputs)
    operator = None if sums is None else Keyed(sums, Key(sums.key))
    arrays = (keys.dtype, keys.size, stored.dtype.itemsize if stored is not None else 0, steps)
    summand, counted = None if read is None else read.dtype, None if count is None else np.dtype(count.dtype)
    already_sorted = (call.input("unsorted"), call.input("counters")) if call.has("unsorted") else None
    how = (results, request.equal_nan, summand, counted, length is not None, request.finds_sorted)
    plan = _plan_of(call.device, arrays, how, operator, by_key(request.spec))
    return Prepared(call, plan, inputs, keys.flat, shape, already_sorted), sums


@cached_plan
def _plan_of(
    device: Any,
    arrays: tuple[np.dtype, int, int, tuple[int, ...]],
    how: tuple[tuple[str, ...], bool, np.dtype | None, np.dtype | None, bool, bool],
    sums: Any,
    spec: Any,
) -> SelectPlan:
    dtype, n, element, steps = arrays
    results, equal_nan, summand, count, bounded, already_sorted = how
    condition = Condition(
        "x[i] != x[i - 1]", dtype, differ(dtype, equal_nan), heads=True, vector=differ_vector(dtype, equal_nan)
    )
    job = Job(
        condition,
        n,
        steps,
        element=element,
        shape=(n,) if "starts" in results else (),
        lengths="lengths" in results,
        ranks="ranks" in results,
        summand=summand,
        sums=sums,
        count=count,
        bounded=bounded,
        already_sorted=already_sorted,
    )
    return select_plan(device, job, spec)


def explained(which: str, request: Heads, where: dict[str, Any]) -> Explanation:
    """Describe a call without enqueuing anything."""
    ready, _ = prepare(request, where)
    found = explanation(which, ready.call.device, ready.plan, f"{ready.shape} {ready.x.dtype}")
    if runs_are_counted_first(request, where):
        limit = buffer_limit(where)
        found.choices.insert(0, f"buffers of the device have at most {limit} bytes: a first pass counts the runs")
    return found
