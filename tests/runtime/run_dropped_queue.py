"""Drops out-of-order queues while commands that pydp enqueued on them are pending; ends with status 0, or hangs.

Intel's CPU runtime hangs where nobody holds such a queue until its commands have ended.
"""

from __future__ import annotations

import numpy as np
import pyopencl as cl

import pydp

CALLS = {
    "scan": lambda x, **where: pydp.scan(x, **where),
    "sort": lambda x, **where: pydp.sort(x, **where),
    "reduce with a first value": lambda x, **where: pydp.reduce(x, init=2, **where),
    "forall": lambda x, **where: pydp.forall(x.grid, twice, x, **where),
}


@pydp.vector
def twice(i, x):
    x[i] = x[i] * 2


def main() -> None:
    device = pydp.device()
    mode = cl.command_queue_properties.OUT_OF_ORDER_EXEC_MODE_ENABLE
    small = np.array([3, 1, 2])
    for name, call in CALLS.items():
        x = pydp.field(np.ones(5000, np.int32))
        call(x)
        device.queue.finish()
        gate = cl.UserEvent(device.context)
        call(x, queue=cl.CommandQueue(device.context, device.cl, properties=mode), wait_for=gate)
        del x
        gate.set_status(cl.command_execution_status.COMPLETE)
        for _ in range(20):
            assert pydp.sort(small).tolist() == [1, 2, 3]
        print(name, flush=True)


if __name__ == "__main__":
    main()
