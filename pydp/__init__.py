"""Data-parallel primitives and user-written tiled kernels, from Python, on any OpenCL device.

Each public name is imported on first use. ``import pydp`` is therefore fast and loads no driver.
"""

from __future__ import annotations

import importlib
import sys
from typing import Any

import pydp.runtime.forks as _forks  # from now on, forks are detected

_HOMES = {
    "Device": "pydp.runtime.drivers.devices",
    "devices": "pydp.runtime.drivers.devices",
    "device": "pydp.runtime.drivers.devices",
    "using": "pydp.runtime.drivers.devices",
    "Field": "pydp.runtime.field.field",
    "field": "pydp.runtime.field.construct",
    "empty": "pydp.runtime.field.construct",
    "zeros": "pydp.runtime.field.construct",
    "full": "pydp.runtime.field.construct",
    "tile": "pydp.runtime.field.views",
    "read_only": "pydp.runtime.field.views",
    "section": "pydp.runtime.field.views",
    "project": "pydp.runtime.field.views",
    "extent": "pydp.space",
    "index": "pydp.space",
    "grid": "pydp.space",
    "vector": "pydp.lang.vector",
    "local_field": "pydp.lang.vector",
    "private_field": "pydp.lang.vector",
    "group_barrier": "pydp.lang.vector",
    "atomic_add": "pydp.lang.vector",
    "atomic_and": "pydp.lang.vector",
    "atomic_or": "pydp.lang.vector",
    "atomic_xor": "pydp.lang.vector",
    "atomic_sub": "pydp.lang.vector",
    "atomic_min": "pydp.lang.vector",
    "atomic_max": "pydp.lang.vector",
    "fma": "pydp.math",
    "math": "pydp.math",
    "random": "pydp.random",
    "record": "pydp.lang.vector",
    "checked": "pydp.lang.execute.checked",
    "forall": "pydp.algorithms.forall",
    "matmul": "pydp.algorithms.matmul",
    "scan": "pydp.algorithms.scan",
    "reduce": "pydp.algorithms.reduce",
    "all": "pydp.algorithms.reductions",
    "any": "pydp.algorithms.reductions",
    "argmax": "pydp.algorithms.reductions",
    "argmin": "pydp.algorithms.reductions",
    "count_nonzero": "pydp.algorithms.reductions",
    "dot": "pydp.algorithms.reductions",
    "inner": "pydp.algorithms.reductions",
    "logsumexp": "pydp.algorithms.reductions",
    "max": "pydp.algorithms.reductions",
    "mean": "pydp.algorithms.reductions",
    "mean_var": "pydp.algorithms.reductions",
    "min": "pydp.algorithms.reductions",
    "min_max": "pydp.algorithms.reductions",
    "nanargmax": "pydp.algorithms.reductions",
    "nanargmin": "pydp.algorithms.reductions",
    "nanmax": "pydp.algorithms.reductions",
    "nanmean": "pydp.algorithms.reductions",
    "nanmin": "pydp.algorithms.reductions",
    "nanprod": "pydp.algorithms.reductions",
    "nanstd": "pydp.algorithms.reductions",
    "nansum": "pydp.algorithms.reductions",
    "nanvar": "pydp.algorithms.reductions",
    "norm": "pydp.algorithms.reductions",
    "prod": "pydp.algorithms.reductions",
    "std": "pydp.algorithms.reductions",
    "sum": "pydp.algorithms.reductions",
    "var": "pydp.algorithms.reductions",
    "vdot": "pydp.algorithms.reductions",
    "cumprod": "pydp.algorithms.cumulative",
    "cumsum": "pydp.algorithms.cumulative",
    "sort": "pydp.algorithms.sort",
    "argsort": "pydp.algorithms.sort",
    "sort_by_key": "pydp.algorithms.sort",
    "select": "pydp.algorithms.select",
    "compress": "pydp.algorithms.compress",
    "flatnonzero": "pydp.algorithms.select",
    "nonzero": "pydp.algorithms.select",
    "argwhere": "pydp.algorithms.select",
    "partition": "pydp.algorithms.partition",
    "unique": "pydp.algorithms.runs",
    "run_length_encode": "pydp.algorithms.runs",
    "reduce_by_key": "pydp.algorithms.runs",
    "searchsorted": "pydp.algorithms.search",
    "merge": "pydp.algorithms.merge",
    "merge_by_key": "pydp.algorithms.merge",
    "repeat": "pydp.algorithms.segments",
    "run_length_decode": "pydp.algorithms.segments",
    "scan_by_key": "pydp.algorithms.segments",
    "segmented_argsort": "pydp.algorithms.segments",
    "segmented_reduce": "pydp.algorithms.segments",
    "segmented_sort": "pydp.algorithms.segments",
    "argpartition": "pydp.algorithms.partition",
    "top_k": "pydp.algorithms.top_k",
    "intersect1d": "pydp.algorithms.sets",
    "isin": "pydp.algorithms.sets",
    "lexsort": "pydp.algorithms.lexsort",
    "setdiff1d": "pydp.algorithms.sets",
    "setxor1d": "pydp.algorithms.sets",
    "union1d": "pydp.algorithms.sets",
    "transpose": "pydp.algorithms.transpose",
    "adjacent_difference": "pydp.algorithms.moves",
    "concatenate": "pydp.algorithms.moves",
    "diff": "pydp.algorithms.moves",
    "flip": "pydp.algorithms.moves",
    "moveaxis": "pydp.algorithms.moves",
    "pad": "pydp.algorithms.moves",
    "put": "pydp.algorithms.moves",
    "roll": "pydp.algorithms.moves",
    "stack": "pydp.algorithms.moves",
    "swapaxes": "pydp.algorithms.moves",
    "take": "pydp.algorithms.moves",
    "tile_array": "pydp.algorithms.moves",
    "where": "pydp.algorithms.moves",
    "histogram": "pydp.algorithms.histogram",
    "bincount": "pydp.algorithms.histogram",
    "evaluate": "pydp.algorithms.evaluate",
    "explain": "pydp.algorithms.explain",
    "Explanation": "pydp.model.explanation",
    "tune": "pydp.tuning.tuner",
    "VectorError": "pydp.lang.ir.diagnostics",
    "CheckFailed": "pydp.lang.execute.checked",
    "PydpError": "pydp.errors",
    "InvalidArgument": "pydp.errors",
    "UnsupportedOnDevice": "pydp.errors",
    "BuildFailed": "pydp.errors",
    "OutOfResources": "pydp.errors",
    "NoUsableDevice": "pydp.errors",
}

__version__ = "0.1.0"
__all__ = sorted(_HOMES)


def __getattr__(name: str) -> Any:
    home = _HOMES.get(name)
    if home is None:
        raise AttributeError(f"module 'pydp' has no attribute {name!r}")
    if _forks.is_lost() and _is_importing(home):
        _forks.raise_if_lost()
    module = importlib.import_module(home)
    value = module if home == f"pydp.{name}" else getattr(module, name)
    globals()[name] = value
    return value


def _is_importing(home: str) -> bool:
    """Whether the import of a module may have to wait for another import of pydp. If another thread had begun that
    before a fork, it never ends in the child."""
    specs = {name: module.__spec__ for name, module in list(sys.modules.items()) if name.startswith("pydp.")}
    importing = {name for name, spec in specs.items() if getattr(spec, "_initializing", False)}
    return bool(importing) and (home not in specs or home in importing)


def __dir__() -> list[str]:
    return sorted([*globals(), *_HOMES])
