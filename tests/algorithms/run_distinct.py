"""Makes calls that all differ, and prints the process's memory in MB at the start and after each tenth of them.

python run_distinct.py operators|functions|shapes|grids|programs COUNT
"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import numpy as np
import pyopencl as cl

import pydp

X = np.arange(1000, dtype=np.int32)


def _resident() -> float:
    pages = int(Path("/proc/self/statm").read_text().split()[1])
    return pages * 4096 / 1e6


def operators(number: int) -> None:
    """One program each."""
    assert pydp.reduce(X, f"a + b + {number} * 0", dtype=np.int32) == X.sum()


def functions(number: int) -> None:
    """One program each, and a translation."""
    assert pydp.reduce(X, lambda a, b: a + b + number * (a - a), dtype=np.int32) == X.sum()


def shapes(number: int) -> None:
    """One plan or more each, of shared programs."""
    rows, columns = 2 + number % 141, 2 + number // 141
    x = np.arange(rows * columns, dtype=np.int32).reshape(rows, columns)
    assert np.array_equal(pydp.scan(x, axis=0)[-1], x.sum(0))
    assert np.array_equal(pydp.transpose(pydp.field(x)).get(), x.T)
    assert int(pydp.reduce(x)) == x.sum()


def _scaled(idx: Any, out: Any, x: Any, factor: int) -> None:
    out[idx] = x[idx] * factor


def grids(number: int) -> None:
    """A grid and arguments each, of one translation."""
    rows, columns = 1 + number % 141, 1 + number // 141
    x = np.arange(rows * columns, dtype=np.int32).reshape(rows, columns)
    out = np.zeros_like(x)
    pydp.forall(x.shape, _scaled, out, x, number)
    assert np.array_equal(out, x * number)


def programs(number: int) -> None:
    """One program each by pyopencl alone, released at once: the memory that the driver itself does not free."""
    queue = pydp.device().queue
    text = f"kernel void add(global int *x) {{ x[get_global_id(0)] += {number}; }}"
    program = cl.Program(queue.context, text).build(cache_dir=False)
    buffer = cl.Buffer(queue.context, cl.mem_flags.READ_WRITE, X.nbytes)
    program.add(queue, X.shape, None, buffer).wait()


def main(what: str, count: int) -> None:
    call = {one.__name__: one for one in (operators, functions, shapes, grids, programs)}[what]
    call(0)
    print(f"{_resident():.1f}", flush=True)
    for number in range(1, count + 1):
        call(number)
        if number % (count // 10) == 0:
            print(f"{_resident():.1f}", flush=True)


if __name__ == "__main__":
    main(sys.argv[1], int(sys.argv[2]))
