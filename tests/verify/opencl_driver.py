"""A stand-in for CUDA that runs the launches of a pack through OpenCL: the "PTX" of such a pack is OpenCL C."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import pyopencl as cl

from pydp.offline.reports import Resources
from pydp.runtime.programs.program import complete_options
from pydp.verify.pack.cuda import Driver, Value


def not_compiled(target: str, source: str, options: Sequence[str], _: object) -> tuple[str, Mapping[str, Resources]]:
    """In place of `compiled`: the source itself, and kernels that use no resources."""

    class Any(dict[str, Resources]):
        def __missing__(self, name: str) -> Resources:
            return Resources(name, 32, source="ptxas")

    return source, Any()


class OpenCL(Driver):
    """A device of OpenCL behind CUDA's interface."""

    name, capability, version = "a stand-in", 90, "0"

    def __init__(self, device: Any) -> None:
        self.device, self.queue = device, device.queue
        self.buffers: dict[int, cl.Buffer] = {}
        self.launches = 0

    def function(self, image: bytes, name: str) -> Any:
        program = cl.Program(self.device.context, image.decode())
        return cl.Kernel(program.build(complete_options(self.device, {})), name)

    def allocate(self, size: int) -> int:
        place = len(self.buffers) + 1
        self.buffers[place] = cl.Buffer(self.device.context, cl.mem_flags.READ_WRITE, size)
        self.clear(place, size, 0xAA)  # new memory of a GPU is not zeros
        return place

    def free(self, place: int) -> None:
        self.buffers[place].release()

    def upload(self, place: int, values: np.ndarray) -> None:
        cl.enqueue_copy(self.queue, self.buffers[place], values)

    def download(self, place: int, values: np.ndarray) -> None:
        cl.enqueue_copy(self.queue, values, self.buffers[place])

    def clear(self, place: int, size: int, value: int = 0) -> None:
        cl.enqueue_fill_buffer(self.queue, self.buffers[place], np.uint8(value), 0, size)

    def launch(self, function: Any, grid: tuple[int, ...], group: tuple[int, ...], values: Sequence[Value]) -> None:
        for at, one in enumerate(values):
            function.set_arg(at, self.buffers[one] if isinstance(one, int) else np.frombuffer(one, np.uint8))
        size = tuple(count * own for count, own in zip(grid, group, strict=True))
        cl.enqueue_nd_range_kernel(self.queue, function, size, group)
        self.launches += 1

    def wait(self) -> None:
        self.queue.finish()
