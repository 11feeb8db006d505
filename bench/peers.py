"""Other libraries on the processor, as candidates beside pydp, if they are installed.

They compute with as many threads as the device has compute units. A library that is missing, or a device that is not a
CPU, gives no candidate.
"""

from __future__ import annotations

import functools
import importlib
from collections.abc import Callable
from typing import Any

import numpy as np
from pydp.bench import numba_kernels

Candidates = dict[str, Callable[[], Any]]


def torch(device: Any, call: Callable[..., Any], *arrays: np.ndarray) -> Candidates:
    """{"PyTorch": `call(torch, *tensors)`}. The tensors share the memory of the arrays."""
    module = _library("torch", device)
    if module is None:
        return {}
    tensors = [module.from_numpy(one) for one in arrays]
    return {"PyTorch": lambda: call(module, *tensors)}


def numba(device: Any, name: str, *arguments: Any) -> Candidates:
    """{"Numba": a function of `numba_kernels`}."""
    if _library("numba", device) is None:
        return {}
    call = getattr(numba_kernels.kernels(), name)
    return {"Numba": lambda: call(*arguments)}


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
    try:
        module: Any = importlib.import_module(name)
    except ImportError:
        return None
    if name == "warp":
        module.config.quiet = True
        module.init()
    else:
        module.set_num_threads(threads)
    return module
