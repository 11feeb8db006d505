"""``pyopencl.bitonic_sort``: the same names, on pydp's sort. Axes of any length are sorted."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pyopencl as cl

from pydp.algorithms.sort import sort, sort_by_key
from pydp.compat.pyopencl.devices import check_process
from pydp.compat.pyopencl.rebind import original_module, overrides, public_names
from pydp.runtime.forks import is_lost

if TYPE_CHECKING:
    import pyopencl.bitonic_sort as original
else:
    original = original_module("bitonic_sort")

OWN = ["BitonicSort"]
__all__ = public_names(OWN, original)


def __getattr__(name: str) -> Any:
    return getattr(original, name)


def _is_accepted(array: Any) -> bool:
    """Whether pydp's sort accepts the memory of an array: a buffer, or none for an empty array."""
    return array.base_data is None or isinstance(array.base_data, cl.MemoryObjectHolder)


class BitonicSort(original.BitonicSort):
    """Sorts an array in place, along an axis: :class:`pyopencl.bitonic_sort.BitonicSort`. The sort is stable.

    A subclass with other ``get_program`` or ``sort_b_prepare_wl`` runs as it does in pyopencl. On Intel's runtime,
    calls in a forked process also run as in pyopencl, and so do calls with arrays in shared virtual memory or with an
    `idx` of another shape.
    """

    def __call__(self, arr: Any, idx: Any = None, queue: Any = None, wait_for: Any = None, axis: int = 0) -> Any:
        """Sort `arr` in place, and permute `idx` likewise. Returns (`arr`, the event)."""
        check_process(self.context)
        own = overrides(self, original.BitonicSort, "get_program", "sort_b_prepare_wl")
        arrays = [one for one in (arr, idx) if one is not None]
        if is_lost() or own or not all(map(_is_accepted, arrays)) or arrays[-1].shape != arr.shape:
            return super().__call__(arr, idx, queue, list(wait_for or ()), axis)
        queue = queue or arr.queue
        waits = [*(wait_for or ()), *arr.events]
        if not arr.size:
            return arr, cl.enqueue_marker(queue, wait_for=waits)
        if idx is None:
            sort(arr, axis=axis, out=arr, queue=queue, wait_for=waits)
            return arr, cl.enqueue_marker(queue, wait_for=arr.events)
        if not (arr.flags.c_contiguous and idx.flags.c_contiguous):
            raise ValueError("arr or idx is not C-contiguous; with idx, both must be")
        pair = sort_by_key(arr, idx, axis=axis, queue=queue, wait_for=[*waits, *idx.events])
        events = []
        for target, one in zip((arr, idx), pair, strict=True):
            offset, size = target.offset, target.nbytes
            memory = one.base_data, one.offset
            events.append(
                cl.enqueue_copy(
                    queue, target.base_data, memory[0], src_offset=memory[1], dst_offset=offset, byte_count=size,
                    wait_for=one.events,
                )
            )  # fmt: skip
            target.add_event(events[-1])
        return arr, cl.enqueue_marker(queue, wait_for=events)
