"""Plans of histograms (cached), and the launches that fill the bins."""

from __future__ import annotations

from contextlib import suppress
from dataclasses import dataclass
from typing import Any

import numpy as np

from pydp.algorithms.arguments import by_key
from pydp.algorithms.histogram.edges import Search, threshold_dtype, value_dtype
from pydp.algorithms.histogram.policy import (
    FAMILY,
    Division,
    HistogramProblem,
    HistogramSpec,
    divide,
    place_of,
    tile_lanes,
)
from pydp.algorithms.operators.conversion import conversion
from pydp.algorithms.reduce import fold
from pydp.dtypes import c_declarations, c_name, check_supported
from pydp.errors import InvalidArgument, OutOfResources
from pydp.groups.barrier_plan import build_kernel
from pydp.local_memory import banks_of, exchange
from pydp.runtime.arrays.operand import Operand
from pydp.runtime.call import Call
from pydp.runtime.programs.program import Kernel, kernel
from pydp.tuning.choose import Choice, cached_plan, choose
from pydp.tuning.shape_class import size_class

COUNT = np.dtype(np.int64)
_MOST_SHARED = 1 << 15
_MOST_SEARCHED = (1 << 31) - 2  # slots are 32-bit integers
_CLEARING = 1 << 10  # work-groups that clear bins, unless a work-item would clear more than _CLEARED
_CLEARED = 1 << 14


@dataclass(frozen=True)
class Plan:
    """The kernel of a histogram and its parameters.

    clear: the kernel that clears the bins; None: `kernel` does. value: dtype of a bin. search: kernels search the bin
    of a value, else the value is the bin. place: see `place_of`. longest: maximum elements of a work-item.
    """

    kernel: Kernel | None
    clear: Kernel | None
    spec: HistogramSpec
    choice: Choice
    bins: int
    value: np.dtype
    search: bool
    place: str
    longest: int

    @property
    def slots(self) -> int:
        """Bins of a set in memory; on CPUs, values outside are counted, too."""
        return self.bins + 2 * (self.search and self.place == "items")


@cached_plan
def plan_of(
    device: Any,
    dtype: np.dtype,
    weights: np.dtype | None,
    result: np.dtype,
    bins: int,
    even: bool | None,
    n: int,
    spec: Any,
) -> Plan:
    """even: all bins have the same size; None: the bin index is the value itself."""
    check_supported(dtype, device, "histogram")
    check_supported(result, device, "histogram")
    if weights is not None:
        check_supported(weights, device, "histogram")
    problem = HistogramProblem(
        str(dtype), size_class(n), bins, values=even is None, uneven=even is False, weights=weights is not None
    )
    choice = choose(FAMILY, device, problem, spec)
    chosen: HistogramSpec = choice.spec
    search = even is not None
    if search and bins >= _MOST_SEARCHED:
        raise OutOfResources(f"{bins} bins; fewer than {_MOST_SEARCHED} bins with edges are accepted")
    value = np.dtype(np.uint32) if weights is None else _sum_dtype(device, chosen, result)
    place = place_of(device.profile, chosen, bins, weights is not None)
    wide, edge = value_dtype(dtype), threshold_dtype(dtype)
    how: dict[str, object] = {
        "wide": c_name(wide),
        "unsigned": None if wide.kind == "f" else c_name(np.dtype(f"u{wide.itemsize}")),
        "edge": c_name(edge),
        "guess": "double" if dtype == np.float64 else "float",
        "table": even is False,
        "topped": wide.kind != "f" and wide.itemsize == 8,
    }
    dtypes = [dtype, value, *([wide, edge] if search else []), *([weights] if weights else [])]
    params: dict[str, object] = {
        "declarations": c_declarations(dtypes),
        "source": c_name(dtype),
        "direct": not search,
        "how": how if search else None,
    }
    limit = device.profile.loop_limit
    # A part's counters have 32 bits. A driver that limits loops also counts the iterations of a value's bin search.
    longest = 2**31 if limit is None else max(1, limit // 2 // (3 + bins.bit_length() if search else 2))
    if place == "tiles" and limit is not None:
        longest = max(1, limit // 2 // (3 + bins.bit_length() + tile_lanes(chosen)))
    if n == 0:
        return Plan(None, None, chosen, choice, bins, value, search, place, longest)
    params_of_sums = params | {
        "value": c_name(value),
        "weights": c_name(weights) if weights else None,
        "weight": conversion(weights, value, "weights")[0] if weights else None,
    }
    clear, clears = None, True
    if place == "local":
        ready = _local(device, chosen, bins, params)
    elif place == "tiles":
        lanes = tile_lanes(chosen)
        clears = limit is None or bins // lanes < limit // 4
        params_of_tiles = params_of_sums | {"clears": clears, "lanes": lanes}
        ready = kernel(device, "histogram_weights.mako", "histogram_weights", params_of_tiles)
    elif place == "shared":
        ready, clear = (
            kernel(device, "histogram_global.mako", f"histogram_{name}", params_of_sums) for name in ("global", "clear")
        )
    else:
        clears = limit is None or bins * chosen.copies < limit // 4
        vectors = dtype not in (np.float16, np.bool_)
        params_of_parts = params_of_sums | {
            "clears": clears,
            "bytes": not search and dtype in (np.uint8, np.bool_),
            "lanes": 64 // wide.itemsize if vectors else 1,
        }
        ready = kernel(device, "histogram_parts.mako", "histogram_parts", params_of_parts)
    if not clears:
        clear = kernel(device, "histogram_global.mako", "histogram_clear", params_of_sums)
    return Plan(ready, clear, chosen, choice, bins, value, search, place, longest)


def _sum_dtype(device: Any, spec: HistogramSpec, result: np.dtype) -> np.dtype:
    """The dtype of a part's sums of weights: on CPUs, a part adds many small floats one by one, as float64.

    On GPUs, float64 is slow, and parts are short. float16 is added as float32: adding 1 does not change 2048."""
    if spec.mapping == "vector" and device.profile.fp64 and result.kind in "fc":
        return np.dtype(np.float64 if result.kind == "f" else np.complex128)
    return np.dtype(np.float32) if result == np.float16 else result


def shared_plan(
    device: Any, source: Operand, given: Operand | None, result: np.dtype, bins: int, least: int, spec: Any
) -> Plan:
    """The plan of a bincount with at least `bins` bins.

    Kernels with bins in local memory are compiled for a number of bins. If the maximum of the values sets this number
    (bins > least), it is rounded up by at most an eighth: calls with similar maxima share a kernel. It is not rounded
    if there are too many bins for local memory, or if `spec` does not allow more bins."""
    kinds = device, source.dtype, None if given is None else given.dtype, result
    of_call = None, source.size, by_key(spec)
    step = 1 << max(0, bins.bit_length() - 4)
    if least < bins <= _MOST_SHARED and bins % step:
        with suppress(InvalidArgument):
            return plan_of(*kinds, -(-bins // step) * step, *of_call)
    return plan_of(*kinds, bins, *of_call)


def _local(device: Any, spec: HistogramSpec, bins: int, params: dict[str, object]) -> Kernel:
    """The kernel that counts in the local memory or registers of a work-group."""
    profile = device.profile
    own = None
    if spec.counters == "own":
        own = exchange(banks_of(profile.banks, profile.bank_bytes), spec.lanes, bins, 4).params()
    given = {"lanes": spec.lanes, "waves": spec.waves, "bins": bins, "counters": spec.counters, "sets": spec.sets,
             "pad": spec.pad, "x": own, "constants": spec.constants}  # fmt: skip
    needs = {"cleared": spec.lanes, "counted": spec.lanes}  # any lane clears, counts and folds any bin
    return build_kernel(device, "histogram_local.mako", "histogram_local", {**params, **given}, needs,
                 lanes=spec.lanes, choice=spec.barriers, subgroup=spec.subgroup)  # fmt: skip


def count(
    call: Call, plan: Plan, source: Operand, weights: Operand | None, search: Search | None, result: Operand
) -> None:
    """Enqueue the histogram."""
    n = source.size
    if plan.kernel is None:
        fold(call, call.temporary((0, plan.bins), plan.value), "+", (0,), result)
        return
    x = call.flat(source)
    if weights is None and source.dtype.itemsize == 1:
        x = call.contiguous(x)
    found = division(plan, n)
    sums = call.temporary((found.sets, plan.slots), plan.value)
    arguments: list[Any] = [x, np.uint64(x.offset), np.int64(x.strides[0]), np.uint64(n), np.uint64(found.part), sums]
    if plan.place != "local":
        arguments.append(np.uint64(plan.slots))
    if plan.place in ("items", "shared"):
        arguments.append(np.uint64(found.sets // found.parts if plan.place == "items" else found.sets))
    if weights is not None:
        w = call.flat(weights)
        arguments += [w, np.uint64(w.offset), np.int64(w.strides[0])]
    if search is not None:
        arguments += _search_arguments(call, source.dtype, search)
    if plan.clear is not None:
        length = found.sets * plan.slots
        groups = max(min(_CLEARING, -(-length // found.lanes)), -(-length // (found.lanes * _CLEARED)))
        call.launch(plan.clear, (groups * found.lanes,), (found.lanes,), sums, np.uint64(length))
    call.launch(plan.kernel, (found.parts * found.lanes,), (found.lanes,), *arguments)
    if plan.slots != plan.bins:
        sums = sums.view((found.sets, plan.bins), (plan.slots, 1), 1)
    fold(call, sums, "+", (0,), result)


def division(plan: Plan, n: int) -> Division:
    """How the plan divides `n` elements, at least 1."""
    return divide(plan.spec, plan.place, n, plan.bins, plan.value.itemsize, plan.longest)


def _search_arguments(call: Call, dtype: np.dtype, given: Search) -> list[Any]:
    """The kernel arguments of a search, in the order of histogram_bins.mako."""
    found: list[Any] = [call.constant(given.thresholds), given.first, given.scale, given.shift, np.int32(given.cells)]
    if dtype.kind != "f" and dtype.itemsize == 8:
        found.append(np.int32(given.top))
    if given.least is not None:
        found += [call.constant(given.least), np.int32(given.most)]
    return found
