"""The first call of a new vector function: processor time in pydp, and in the driver's build of the kernel.

Each call runs a function of its own, which differs from the others in a constant, so nothing is cached. The driver's
part is the time of the call that builds a program. Creating the kernel object and the launch count as pydp's part.
"""

from __future__ import annotations

import functools
import importlib.util
import itertools
import statistics
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
from pydp.bench.measure import Row

import pydp
from pydp.runtime.programs import binaries

_ELEMENTWISE = """
def f(idx, out, a):
    out[idx] = {n}.5 * a[idx] + {n}
"""
_STENCIL = """
def f(idx, out, a):
    i, j = idx
    out[idx] = {n}.25 * (a[i - 1, j] + a[i + 1, j] + a[i, j - 1] + a[i, j + 1])
"""
_MATMUL = """
def f(idx, C, A, B):
    sA = pydp.local_field(np.float32, 16, 16)
    sB = pydp.local_field(np.float32, 16, 16)
    acc = {n}.0
    for i in range(A.extent(1)):
        sA[idx.local] = A(idx.group[0], i)[idx.local]
        sB[idx.local] = B(i, idx.group[1])[idx.local]
        pydp.group_barrier()
        for k in range(16):
            acc += sA(idx.local[0], k) * sB(k, idx.local[1])
        pydp.group_barrier()
    C[idx] = acc
"""
_SCAN = """
def f(idx, out, a):
    s = pydp.local_field(np.float32, 2, 64)
    l = idx.local[0]
    s[0, l] = a[idx] + {n}.0
    pydp.group_barrier()
    src = 0
    d = 1
    while d < 64:
        dst = 1 - src
        if l >= d:
            s[dst, l] = s[src, l] + s[src, l - d]
        else:
            s[dst, l] = s[src, l]
        pydp.group_barrier()
        src = dst
        d = d * 2
    out[idx] = s[src, l]
"""
# The functions' constants start at the time, because the kernels of earlier runs are on disk. All are exact in float32.
_numbers = itertools.count(time.time_ns() % 10**6)


def _function(text: str, folder: Path) -> Callable[..., None]:
    """A new function; Python gives the source of functions in files only."""
    path = folder / f"f{next(_numbers)}.py"
    path.write_text("import numpy as np\nimport pydp\n" + text.format(n=path.stem[1:]))
    spec = importlib.util.spec_from_file_location(path.stem, path)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    made: Callable[..., None] = module.f
    return made


def _measure(call: Callable[[], Any]) -> tuple[float, float]:
    """(seconds in pydp, seconds in the driver's build) of a call, in processor time of the process."""
    spent = [0.0]

    def timed(function: Callable[..., Any]) -> Callable[..., Any]:
        def run(*given: Any) -> Any:
            start = time.process_time()
            try:
                return function(*given)
            finally:
                spent[0] += time.process_time() - start

        return run

    build = binaries.compile_program
    binaries.compile_program = timed(build)
    try:
        start = time.process_time()
        call().wait()
        return time.process_time() - start - spent[0], spent[0]
    finally:
        binaries.compile_program = build


def run(device: pydp.Device, quick: bool = False) -> list[Row]:
    """First calls of four functions; `value` is the time in pydp, and the ratio is the driver's part of the call."""
    flat = [pydp.field(np.ones(4096, np.float32), device=device) for _ in range(2)]
    plane = [pydp.field(np.ones((256, 256), np.float32), device=device) for _ in range(3)]
    tiles = [plane[0], *(pydp.tile(one, (16, 16)) for one in plane[1:])]
    cases: list[tuple[str, str, Any, list[Any], Any]] = [
        ("elementwise", _ELEMENTWISE, 4096, flat, None),
        ("stencil", _STENCIL, (256, 256), plane[:2], None),
        ("matmul", _MATMUL, (256, 256), tiles, (16, 16)),
        ("scan", _SCAN, 4096, flat, 64),
    ]
    rows = []
    with tempfile.TemporaryDirectory() as folder:
        for name, text, grid, arrays, group in cases:
            times = []
            for _ in range(3 if quick else 15):
                function = _function(text, Path(folder))
                times.append(_measure(functools.partial(pydp.forall, grid, function, *arrays, group=group)))
            ours, driver = (statistics.median(part) for part in zip(*times[1:], strict=True))
            share = {"driver": driver / (ours + driver)}
            rows.append(Row("first_call", name, device.name, ours + driver, ours * 1e3, "ms in pydp", share))
    return rows
