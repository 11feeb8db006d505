"""Searches: the call, its operands, the kernel and its launch."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from pydp.algorithms.arguments import by_key, check_same_shape, refuse_shared
from pydp.algorithms.operators.conversion import conversion
from pydp.algorithms.runs.equality import differ
from pydp.algorithms.search.policy import FAMILY, SearchProblem, group_size, part_size
from pydp.algorithms.sort.order import Comparison, comparison_of, ordering
from pydp.dtypes import c_declarations, c_name, check_kept_whole, check_supported, dtype_text
from pydp.errors import InvalidArgument
from pydp.runtime.arrays.operand import Operand
from pydp.runtime.call import Call
from pydp.runtime.programs.program import Kernel, kernel
from pydp.tuning.choose import Choice, cached_plan, choose

POSITION = np.dtype(np.int64)
FLAG = np.dtype(np.bool_)


class Search(NamedTuple):
    """The kind of result of a search.

    right: the position after equal elements. found: whether the array contains the value, instead of the position.
    inverted: whether it does not. heads: false for a value that equals its predecessor.
    """

    right: bool = False
    found: bool = False
    inverted: bool = False
    heads: bool = False


@dataclass(frozen=True)
class Searcher:
    """A kernel and its launch."""

    kernel: Kernel
    choice: Choice
    part: int
    group: int


class Prepared(NamedTuple):
    """A search that is ready to run."""

    call: Call
    a: Operand
    v: Operand
    sorter: Operand | None
    plan: Searcher | None
    how: Search


def common_dtype(one: np.dtype, other: np.dtype) -> np.dtype:
    """The dtype that elements of two arrays are compared in. Raises InvalidArgument if there is none."""
    if one == other:
        return one
    try:
        found = np.promote_types(one, other)
    except TypeError:
        found = np.dtype(object)
    if one.kind not in "biufc" or other.kind not in "biufc" or found.kind not in "biufc":
        raise InvalidArgument(f"elements of dtype {one} and {other} cannot be compared; numbers are accepted")
    return found


def prepare(
    arrays: dict[str, Any],
    sorter: Any,
    how: Search,
    spec: Any,
    where: dict[str, Any],
    compared: tuple[Any, Any, Any] = (None, None, False),
) -> Prepared:
    """Check a call, and find its plan. arrays: the sorted array and the values by their names, the array whose kind the
    result has first. The sorted array is named "a" or "test_elements". compared: the arguments key, less, descending.
    """
    call = Call.begin({**arrays, "sorter": sorter}, **where)
    operands = {name: call.input(name) for name in arrays}
    table = next(name for name in arrays if name in ("a", "test_elements"))
    a = operands.pop(table)
    (v,) = operands.values()
    if len(a.shape) != 1:
        raise InvalidArgument(f"{table} has shape {a.shape}; a sorted array of rank 1 is accepted")
    order = call.input("sorter") if call.has("sorter") else None
    if order is not None:
        if order.dtype.kind not in "iu":
            raise InvalidArgument(f"sorter has dtype {order.dtype}; integers are accepted")
        check_same_shape("sorter", order, table, a)
    key = common_dtype(a.dtype, v.dtype)
    for dtype, name in ((a.dtype, table), (v.dtype, v.name), (key, f"{table} and {v.name} together")):
        check_supported(dtype, call.device, name)
        check_kept_whole(dtype, call.device)
    comparison = comparison_of(key, *compared)
    steps = (a.strides[0], v.flat.strides[0], None if order is None else order.strides[0])
    kinds = (a.dtype, v.dtype, key, None if order is None else order.dtype)
    plan = plan_of(call.device, kinds, steps, a.size, v.size, how, by_key(spec), *comparison)
    return Prepared(call, a, v, order, plan if v.size else None, how)


@cached_plan
def plan_of(
    device: Any,
    dtypes: tuple[np.dtype, np.dtype, np.dtype, np.dtype | None],
    steps: tuple[int, int, int | None],
    n: int,
    count: int,
    how: Search,
    spec: Any,
    *compared: Any,
) -> Searcher:
    """The kernel of a search of `count` values in `n` elements, and its launch. compared: the items of a Comparison."""
    a, v, key, sorter = dtypes
    profile = device.profile
    comparison = Comparison(*compared)
    numbers = key.kind in "biuf" and comparison.by_value
    order, used, iterations = ordering(device, key, comparison)
    problem = SearchProblem(
        dtype_text(key), max(0, n - 1).bit_length(), max(0, count - 1).bit_length(), a.itemsize, numbers, iterations
    )
    choice = choose(FAMILY, device, problem, spec)
    chosen = choice.spec
    simt = chosen.mapping == "simt"
    part = chosen.part if simt else part_size(chosen, count, profile.compute_units)
    kinds = [one for one in dtypes if one is not None]
    params = {
        "declarations": c_declarations([*kinds, *sorted(used, key=str)]),
        "key": c_name(key),
        "ordering": order,
        "a": c_name(a),
        "v": c_name(v),
        "convert_a": conversion(a, key)[0],
        "convert_v": conversion(v, key)[0],
        "index": "int" if n < 1 << 30 else "long",
        "sorter": None if sorter is None else c_name(sorter),
        "a_unit": steps[0] == 1 or n < 2,
        "v_unit": steps[1] == 1 or count < 2,
        "sorter_unit": steps[2] == 1 or n < 2,
        "right": how.right,
        "part": part,
        "chains": chosen.chains,
        "vectors": 0 if simt or not numbers else chosen.chains // 16,
        "signed": c_name(np.dtype(f"i{key.itemsize}")) if numbers else "",
        "is_float": key.kind == "f",
        "found": how.found,
        "inverted": how.inverted,
        "equal": differ(key, False) if how.found else "",
        "heads": how.heads,
        "new_run": differ(v, True).replace("int differ(", "int new_run(") if how.heads else "",
    }
    return Searcher(
        kernel(device, "search_sorted.mako", "search_sorted", params), choice, part, group_size(profile) if simt else 1
    )


def run(ready: Prepared, out_name: str = "out") -> Any:
    """Enqueue a search; returns its result."""
    call, a, v, sorter, plan, how = ready
    result = call.output(v.shape, FLAG if how.found else POSITION, out_name)
    refuse_shared(call, result, a, v, sorter)
    if plan is not None:
        v = call.flat(v)
        target = result if result.is_contiguous else call.temporary(result.shape, result.dtype)
        args: list[Any] = [a, np.int64(a.offset), np.int64(a.strides[0]), np.int64(a.size)]
        if sorter is not None:
            args += [sorter, np.int64(sorter.offset), np.int64(sorter.strides[0])]
        args += [v, np.int64(v.offset), np.int64(v.strides[0]), target, np.int64(target.offset), np.int64(v.size)]
        items = -(-v.size // plan.part)
        call.launch(plan.kernel, (-(-items // plan.group) * plan.group,), (plan.group,), *args)
        if target is not result:
            call.copy(target, result)
    return call.finish(result)
