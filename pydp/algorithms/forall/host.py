"""forall on the host: NumPy runs the same typed form. Checked mode runs here too and checks every access.

Device arrays are copied to the host first; written arrays are copied back afterwards.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pyopencl as cl

from pydp.algorithms.forall.arguments import Arguments
from pydp.algorithms.forall.plan import Translation, too_deep
from pydp.lang.execute import checked, host
from pydp.runtime import placement
from pydp.runtime.arrays.aliased_copy import AliasedCopy, groups
from pydp.runtime.drivers.devices import device as find_device
from pydp.runtime.field.field import Field
from pydp.runtime.memory import host_memory
from pydp.space import Grid


def run(made: Translation, space: Grid, given: Arguments, device: Any, queue: Any, wait_for: Any) -> None:
    """Run a translated function over a grid in NumPy, and wait until it is done.

    In checked mode, the call may give a device and a queue; they are validated, but not used.
    """
    placement.check_queue(queue)
    if device is not None and device != "host":
        find_device(device)
    placement.wait_for_all(placement.check_events(wait_for))
    written = [given.values[position] for position, name in made.arrays if name in made.written]
    for position, name in made.arrays:
        if name in made.written:
            placement.check_writable(given.values[position], name)
    numbers = {one.position: given.values[one.position] for one in made.function.parameters}
    runner = checked.run if checked.is_checked() else host.run
    with host_memory.host_allocation():
        memory = _Memory([given.values[position] for position, _ in made.arrays], written)
        ordered = [memory.here(given.values[position], name in made.written) for position, name in made.arrays]
        try:
            runner(made.function, tuple(space.extent), tuple(space.offset), ordered, numbers)
        except RecursionError:
            raise too_deep(made.function.name) from None
        memory.take_back()


class _Memory:
    """Host copies of device arrays and of arrays with foreign byte order. Copies alias where the arguments do."""

    def __init__(self, values: Sequence[Any], written: Sequence[Any]) -> None:
        self.raw: dict[int, np.ndarray] = {}
        self.back: list[tuple[np.ndarray | Field, np.ndarray]] = []
        self.together: dict[int, AliasedCopy] = {}
        arrays = [value for value in values if isinstance(value, np.ndarray)]
        if not all(array.dtype.isnative for array in arrays):
            for group in groups(arrays, written):
                if not all(array.dtype.isnative for array in group):
                    together = AliasedCopy(group)
                    self.together |= {id(array): together for array in group}

    def here(self, value: Any, written: bool) -> np.ndarray:
        """The elements as a NumPy array of native byte order: the array itself if possible, else a copy."""
        if isinstance(value, np.ndarray):
            together = self.together.get(id(value))
            if together is None and value.dtype.isnative:
                return value
            array = together.elements(value) if together else value.astype(value.dtype.newbyteorder("="))
            if written:
                self.back.append((value, array))
            return array
        field = value if isinstance(value, Field) else Field.wrap(value)
        operand = field._operand("array")
        key = operand.buffer.int_ptr
        if key not in self.raw:
            storage = operand.owner
            queue = storage.device.queue
            raw = np.empty(operand.buffer.size, np.uint8)
            waits = storage.waits(queue, loose=True) or None
            host_memory.enqueued(cl.enqueue_copy, queue, raw, operand.buffer, wait_for=waits)
            self.raw[key] = raw
        size = operand.dtype.itemsize
        strides = tuple(stride * size for stride in operand.strides)
        if operand.size == 0:
            return np.empty(operand.shape, operand.dtype)
        array = np.ndarray(operand.shape, operand.dtype, self.raw[key], operand.offset * size, strides)
        if written:
            self.back.append((field, array))
        return array

    def take_back(self) -> None:
        """Copy the written arrays back: only their elements, because other work may change the memory around them."""
        for value, array in self.back:
            if isinstance(value, np.ndarray):
                value[...] = array
                continue
            event = value.copy_in(array)
            if event is not None:
                event.wait()
