"""``pyopencl.elementwise``: the same names, faster on CPUs. Kernel: ``kernels_cl/compat_elementwise.mako``.

Kernels of pyopencl's arrays (``get_take_kernel`` and others) and kernels for GPUs are pyopencl's own.
"""

from __future__ import annotations

import builtins
import re
import warnings
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import pyopencl as cl
from pyopencl.tools import VectorArg

from pydp.compat.pyopencl.devices import build, check_process, mapping_of
from pydp.compat.pyopencl.rebind import original_module, overrides, public_names, rebind

if TYPE_CHECKING:
    import pyopencl.elementwise as original
else:
    original = original_module("elementwise")

OWN = ["ElementwiseKernel", "ElementwiseTemplate"]
__all__ = public_names(OWN, original)

_SMALLEST = 4096  # elements of a work-item
_PARTS = 4  # work-items of a compute unit
_ONE = (1,)


_NO_QUEUE = "the first array has no queue; give queue="


def __getattr__(name: str) -> Any:
    return getattr(original, name)


def _program(
    context: Any,
    arguments: Sequence[Any],
    operation: str,
    *,
    name: str = "elwise_kernel",
    options: Any = None,
    preamble: str = "",
    loop_prep: str = "",
    after_loop: str = "",
    use_range: bool = False,
) -> Any:
    """The program of an elementwise kernel on CPUs; the parameters are those of pyopencl's ``get_elwise_program``."""
    if re.search(r"\breturn\b", operation):
        warnings.warn(
            "a 'return' in an elementwise operation ends the work-item, so its other elements are not computed. "
            "Use PYOPENCL_ELWISE_CONTINUE instead",
            stacklevel=3,
        )
    params: dict[str, object] = {
        "operation": operation,
        "loop_prep": loop_prep,
        "after_loop": after_loop,
        "preamble": preamble,
        "arguments": ", ".join(one.declarator() for one in arguments),
        "name": name,
        "use_range": use_range,
    }
    return build(context, context.devices, "compat_elementwise.mako", params, options)


_kernel_and_types = rebind(original.get_elwise_kernel_and_types, original, get_elwise_program=_program)


class ElementwiseKernel(original.ElementwiseKernel):
    """A C operation on each element, as :class:`pyopencl.elementwise.ElementwiseKernel`.

    A subclass with another ``get_kernel`` runs as it does in pyopencl.
    """

    def __init__(
        self,
        context: Any,
        arguments: Any,
        operation: str,
        name: str = "elwise_kernel",
        options: Any = None,
        **kwargs: Any,
    ) -> None:
        super().__init__(context, arguments, operation, name, options, **kwargs)
        overridden = overrides(self, original.ElementwiseKernel, "get_kernel")
        self._vector = mapping_of(context.devices) == "vector" and not overridden
        self._kernels: dict[bool, tuple[Any, int]] = {}
        self._max_work_items = _PARTS * max(one.max_compute_units for one in context.devices)

    def _own(self, use_range: bool) -> tuple[Any, int]:
        """The kernel, and the place of the first array among its arguments."""
        found = self._kernels.get(use_range)
        if found is None:
            kernel, types = _kernel_and_types(
                self.context, self.arguments, self.operation, name=self.name, options=self.options,
                use_range=use_range, **self.kwargs,
            )  # fmt: skip
            arrays = [isinstance(one, VectorArg) for one in types]
            if not any(arrays):
                raise RuntimeError(
                    "ElementwiseKernel can only be used with functions that have at least one vector argument"
                )
            found = self._kernels[use_range] = kernel, arrays.index(True)
        return found

    def __call__(
        self,
        *args: Any,
        range: Any = None,
        slice: Any = None,
        capture_as: Any = None,
        queue: Any = None,
        wait_for: Any = None,
        **kwargs: Any,
    ) -> Any:
        """Enqueue the kernel; the parameters are pyopencl's."""
        check_process(self.context)
        if kwargs:
            raise TypeError(f"unknown keyword arguments: '{', '.join(kwargs)}'")
        if not self._vector or capture_as is not None:
            return super().__call__(
                *args, range=range, slice=slice, capture_as=capture_as, queue=queue, wait_for=wait_for
            )
        if range is None is slice:
            kernel, place = self._kernels.get(False) or self._own(False)
            first = args[place]
            n = first.size
            if n:
                shape = (min(self._max_work_items, -(-n // _SMALLEST)),)
                try:
                    return kernel(queue or first.queue, shape, _ONE, *args, n, wait_for=wait_for)
                except (AssertionError, RuntimeError, TypeError):
                    if not first.flags.forc:
                        raise NotImplementedError("cannot operate on non-contiguous array") from None
                    if queue is None is first.queue:
                        raise ValueError(_NO_QUEUE) from None
                    raise
        kernel, place = self._own(range is not None or slice is not None)
        first = args[place]
        if slice is not None:
            if range is not None:
                raise TypeError("may not specify both range and slice keyword arguments")
            range = builtins.slice(*slice.indices(first.size))
        sizes: tuple[int, ...]
        if range is None:
            n, sizes = 0, (0,)
        else:
            start, step = range.start or 0, 1 if range.step is None else range.step
            n = len(builtins.range(start, range.stop, step))
            sizes = (start, range.stop, step)
        queue = queue or first.queue
        if queue is None:
            raise ValueError(_NO_QUEUE)
        waits = [] if wait_for is None else list(wait_for)
        if not n:
            return cl.enqueue_marker(queue, wait_for=waits)
        parts = min(self._max_work_items, -(-n // _SMALLEST))
        return kernel(queue, (parts,), (1,), *args, *sizes, wait_for=waits)


class ElementwiseTemplate(original.ElementwiseTemplate):
    """A template of elementwise kernels: pyopencl's, which builds kernels of this module."""

    build_inner = rebind(original.ElementwiseTemplate.build_inner, original, ElementwiseKernel=ElementwiseKernel)
