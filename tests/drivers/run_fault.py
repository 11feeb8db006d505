"""Runs the kernel of fault.mako with the fault that the first argument names, on the default device."""

from __future__ import annotations

import sys
from pathlib import Path

import numpy as np
import pyopencl as cl

import pydp
from pydp.runtime.programs import template
from pydp.runtime.programs.program import kernel


def main(fault: str) -> None:
    template.add_folder(Path(__file__).parent)
    device = pydp.device()
    flags = cl.mem_flags.READ_WRITE | cl.mem_flags.COPY_HOST_PTR
    source = cl.Buffer(device.context, flags, hostbuf=np.arange(32, dtype=np.int32))
    out = cl.Buffer(device.context, flags, hostbuf=np.zeros(32, np.int32))
    faulty = kernel(device, "fault.mako", "fault", {"fault": fault})
    faulty.enqueue(device.queue, (32,), (16,), [out, source]).wait()
    device.queue.finish()


if __name__ == "__main__":
    main(sys.argv[1])
