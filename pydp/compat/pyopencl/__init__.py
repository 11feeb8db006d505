"""Drop-in replacements of pyopencl's algorithms: scans, reductions, elementwise kernels and sorts.

    import pydp.compat.pyopencl.algorithm as algorithm      # instead of pyopencl.algorithm

Modules: ``scan``, ``reduction``, ``elementwise``, ``algorithm``, ``bitonic_sort`` and ``array`` (reductions and scans
only; the rest of it is pyopencl's). They have pyopencl's names, signatures and semantics, run in the context and on the
queue of the program, and read and write its arrays in place. For packages whose imports cannot be edited there are
:func:`install` and ``python -m pydp.compat.pyopencl program.py``.
"""

from __future__ import annotations

import importlib
import sys

__all__ = ["MODULES", "install"]

MODULES = ("scan", "reduction", "elementwise", "algorithm", "bitonic_sort")


def install() -> None:
    """Make ``import pyopencl.algorithm`` and the like give the modules of this package, in the whole process.

    Call it before the modules that use pyopencl are imported: names that they have imported already stay pyopencl's.
    The reductions and scans of ``pyopencl.array`` use the kernels of this package too.
    """
    import pyopencl

    own = {name: importlib.import_module(f"{__name__}.{name}") for name in (*MODULES, "array")}
    array = own.pop("array")
    for name, module in own.items():
        sys.modules[f"pyopencl.{name}"] = module
        setattr(pyopencl, name, module)
    for name in array.OWN:
        setattr(pyopencl.array, name, getattr(array, name))
