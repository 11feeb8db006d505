"""``pyopencl.reduction``: the same names, faster on CPUs. Kernels: ``kernels_cl/compat_reduce.mako``.

On GPUs the kernels are pyopencl's own.
"""

from __future__ import annotations

import builtins
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import pyopencl.array as cl_array
from pyopencl.tools import (
    VectorArg,
    context_dependent_memoize,
    dtype_to_ctype,
    get_arg_list_scalar_arg_dtypes,
    get_arg_offset_adjuster_code,
    parse_arg_list,
)

from pydp.compat.pyopencl.access import access
from pydp.compat.pyopencl.devices import build, check_process, has_double, mapping_of, prefetches, scratch
from pydp.compat.pyopencl.rebind import original_module, public_names, rebind

if TYPE_CHECKING:
    import pyopencl.reduction as original
else:
    original = original_module("reduction")

OWN = [
    "ReductionKernel",
    "ReductionTemplate",
    "get_all_kernel",
    "get_any_kernel",
    "get_dot_kernel",
    "get_minmax_kernel",
    "get_subset_dot_kernel",
    "get_subset_minmax_kernel",
    "get_sum_kernel",
]
__all__ = public_names(OWN, original)

_SMALLEST = 8192  # elements of a part: fewer are reduced sooner than a work-item is started
_PARTS = 4  # parts per compute unit
_VECTORS = 128  # bytes of the independent sums of numbers: two of the largest vectors
_RECORDS = 4  # independent sums of other types
_BLOCK = 64  # elements that are added to one of the independent sums


def __getattr__(name: str) -> Any:
    return getattr(original, name)


@dataclass(frozen=True)
class _StageInfo:
    """A stage, with the names that pyopencl's users read."""

    context: Any
    source: str
    group_size: int
    program: Any
    kernel: Any
    arg_types: list[Any]


class ReductionKernel(original.ReductionKernel):
    """A reduction of C expressions, with the parameters and calls of :class:`pyopencl.reduction.ReductionKernel`."""

    def __init__(
        self,
        ctx: Any,
        dtype_out: Any,
        neutral: str,
        reduce_expr: str,
        map_expr: str | None = None,
        arguments: Any = None,
        name: str = "reduce_kernel",
        options: Any = None,
        preamble: str = "",
    ) -> None:
        check_process(ctx)
        self._vector = mapping_of(ctx.devices) == "vector"
        if not self._vector:
            super().__init__(ctx, dtype_out, neutral, reduce_expr, map_expr, arguments, name, options, preamble)
            return
        if arguments is None:
            raise ValueError("arguments must not be None")
        self.dtype_out = np.dtype(dtype_out)
        given = [
            VectorArg(one.dtype, one.name, with_offset=True) if isinstance(one, VectorArg) else one
            for one in parse_arg_list(arguments, with_offset=True)
        ]
        plain = self.dtype_out.kind in "iuf"
        declared = ", ".join(one.declarator() for one in given)
        lanes = min(64, _VECTORS // self.dtype_out.itemsize) if plain else _RECORDS
        mapped = "in[i]" if map_expr is None else str(map_expr)
        arrays = [one for one in given if isinstance(one, VectorArg)] if prefetches(ctx.devices) else []
        reads = [(one, access(mapped, one.name)) for one in arrays]
        in_order = [one for one, how in reads if how.used and not how.elsewhere]
        params: dict[str, object] = {
            "reduce_expr": _macro(reduce_expr),
            "map_expr": _macro(mapped),
            "neutral": neutral,
            "preamble": preamble,
            "arguments": declared + ", " if declared else "",
            "adjust_offsets": get_arg_offset_adjuster_code(given),
            "value": dtype_to_ctype(self.dtype_out),
            "name": name,
            "lanes": lanes,
            "block": _BLOCK,
            "read_ahead": [(one.name, one.dtype.itemsize) for one in in_order],
            "double_support": all(has_double(one) for one in ctx.devices),
        }
        program = build(ctx, ctx.devices, "compat_reduce.mako", params, options)
        scalars = [None, np.int64, *get_arg_list_scalar_arg_dtypes(given)]
        first, second = (getattr(program, f"{name}_stage{stage}") for stage in (1, 2))
        first.set_scalar_arg_dtypes([*scalars, *[np.int64] * 6])
        second.set_scalar_arg_dtypes([*scalars, None, np.int64])
        self.stage_1_inf = _StageInfo(ctx, program.source, 1, program, first, given)
        self.stage_2_inf = _StageInfo(ctx, program.source, 1, program, second, given)
        self._units = max(one.max_compute_units for one in ctx.devices)

    def __call__(
        self,
        *args: Any,
        return_event: bool = False,
        queue: Any = None,
        allocator: Any = None,
        wait_for: Any = None,
        out: Any = None,
        range: Any = None,
        slice: Any = None,
    ) -> Any:
        """Reduce; the parameters are pyopencl's. The event is that of the last kernel."""
        check_process(self.stage_1_inf.context)
        if not self._vector:
            return super().__call__(
                *args, return_event=return_event, queue=queue, allocator=allocator, wait_for=wait_for, out=out,
                range=range, slice=slice,
            )  # fmt: skip
        waits = list(wait_for or ())
        data: list[Any] = []
        first, array_class = None, cl_array.Array
        for value, one in zip(args, self.stage_1_inf.arg_types, strict=True):
            if not isinstance(one, VectorArg):
                data.append(value)
                continue
            array_class = type(value)
            if not value.flags.forc:  # the error has pyopencl's type and text
                raise RuntimeError(f"{type(self).__name__} cannot deal with non-contiguous arrays")
            first = value if first is None else first
            data += [value.base_data, value.offset]
            waits.extend(value.events)
        elements = _elements(first, range, slice)
        if queue is None:
            if first is None:
                raise TypeError("must specify queue argument when no vector argument present")
            queue = first.queue
        if allocator is None and first is not None:
            allocator = first.allocator
        result = out
        if result is None:
            result = array_class(queue, (), self.dtype_out, allocator=allocator)
        n = len(elements)
        seen = n if elements.step < 0 else max(0, elements.stop - elements.start) // elements.step  # pyopencl's n
        part = max(_SMALLEST, -(-n // (_PARTS * self._units)))
        part = -(-part // 64) * 64
        parts = max(1, -(-n // part))
        target = (result.base_data, result.offset)
        size = (elements.start, elements.step, elements.stop, seen, n, part)
        if parts == 1:
            event = self.stage_1_inf.kernel(queue, (1,), (1,), *target, *data, *size, wait_for=waits)
        else:
            sums = scratch(queue, parts * self.dtype_out.itemsize)
            event = self.stage_1_inf.kernel(queue, (parts,), (1,), sums, 0, *data, *size, wait_for=waits)
            event = self.stage_2_inf.kernel(queue, (1,), (1,), *target, *data, sums, parts, wait_for=[event])
        result.add_event(event)
        return (result, event) if return_event else result


def _elements(first: Any, given: Any, part: Any) -> builtins.range:
    """The indexes of a call's ``range=`` or ``slice=``."""
    if given is None:
        if first is None:
            raise TypeError("must have vector argument when range is not specified")
        return range(*(part if part is not None else slice(None)).indices(first.size))
    if part is not None:
        raise TypeError("may not specify both range and slice keyword arguments")
    start, step = given.start, given.step
    return range(0 if start is None else int(start), int(given.stop), 1 if step is None else int(step))


def _macro(code: str) -> str:
    """C text as the replacement of a macro."""
    code = code.replace("//CL//", "\n")
    if "//" in code:
        raise RuntimeError("end-of-line comments ('//') may not be used in code snippets")
    return code.replace("\n", " \\\n")


class ReductionTemplate(original.ReductionTemplate):
    """A template of reductions: :class:`pyopencl.reduction.ReductionTemplate`, which builds kernels of this module."""

    build_inner = rebind(original.ReductionTemplate.build_inner, original, ReductionKernel=ReductionKernel)


def _with_own_kernel(function: Any) -> Any:
    return context_dependent_memoize(rebind(function, original, ReductionKernel=ReductionKernel))


get_any_kernel = _with_own_kernel(original.get_any_kernel)
get_all_kernel = _with_own_kernel(original.get_all_kernel)
get_sum_kernel = _with_own_kernel(original.get_sum_kernel)
get_dot_kernel = _with_own_kernel(original.get_dot_kernel)
get_subset_dot_kernel = _with_own_kernel(original.get_subset_dot_kernel)
get_minmax_kernel = _with_own_kernel(original.get_minmax_kernel)
get_subset_minmax_kernel = _with_own_kernel(original.get_subset_minmax_kernel)
