"""Other libraries on the processor, as candidates beside pydp, if they are installed.

They compute with as many threads as the device has compute units, if they use threads. A library that is missing, or a
device that is not a CPU, gives no candidate.
"""

from __future__ import annotations

import functools
import importlib
import os
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from pydp.bench import numba_kernels, taichi_kernels, warp_kernels

Candidates = dict[str, Callable[[], Any]]

_COMPILED = {"Numba": numba_kernels.kernels, "Taichi": taichi_kernels.kernels, "Warp": warp_kernels.kernels}


def torch(device: Any, call: Callable[..., Any], *arrays: np.ndarray) -> Candidates:
    """{"PyTorch": `call(torch, *tensors)`}. The tensors share the memory of the arrays."""
    module = _library("torch", device)
    if module is None:
        return {}
    tensors = [module.from_numpy(one) for one in arrays]
    return {"PyTorch": lambda: call(module, *tensors)}


def compiled(
    device: Any, name: str, out: Sequence[np.ndarray], *inputs: Any
) -> tuple[Candidates, dict[str, list[np.ndarray]]]:
    """Candidates that call the kernel `name` of Numba, Taichi and Warp, and the arrays that each of them writes.

    The kernels are those of `numba_kernels`, `taichi_kernels` and `warp_kernels`. out: arrays of the results' form.
    """
    calls: Candidates = {}
    results: dict[str, list[np.ndarray]] = {}
    for label, kernels in _COMPILED.items():
        if _library(label.lower(), device) is None:
            continue
        results[label] = [np.zeros_like(one) for one in out]
        calls[label] = functools.partial(getattr(kernels(), name), *results[label], *inputs)
    return calls, results


def warp_pairs(device: Any, keys: np.ndarray, values: np.ndarray) -> Candidates:
    """{"Warp": its radix sort of pairs of int32}.

    Warp sorts in place, in arrays of twice the length; a call includes the copies into them.
    """
    warp = _library("warp", device)
    if warp is None or keys.ndim != 1 or {keys.dtype, values.dtype} != {np.dtype(np.int32)}:
        return {}
    given = [warp.array(one, dtype=warp.int32, device="cpu") for one in (keys, values)]
    targets = [warp.empty(2 * keys.size, dtype=warp.int32, device="cpu") for _ in given]

    def call() -> None:
        for target, source in zip(targets, given, strict=True):
            warp.copy(target, source, count=keys.size)
        warp.utils.radix_sort_pairs(*targets, count=keys.size)

    return {"Warp": call}


def _library(name: str, device: Any) -> Any:
    """The module, if it is installed and `device` is a CPU; else None."""
    return _imported(name, device.profile.compute_units) if device.kind == "cpu" else None


@functools.cache
def _imported(name: str, threads: int) -> Any:
    os.environ.setdefault("ENABLE_TAICHI_HEADER_PRINT", "False")
    try:
        module: Any = importlib.import_module(name)
    except ImportError:
        return None
    if name == "warp":  # uses one thread of a CPU
        module.config.quiet = True
        module.init()
    elif name == "taichi":
        module.init(arch=module.cpu, cpu_max_num_threads=threads, log_level=module.ERROR, verbose=False)
    else:
        module.set_num_threads(threads)
    return module
