"""install() and ``python -m pydp.compat.pyopencl``: programs that import pyopencl get pydp's classes."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

PROGRAM = """
import importlib
import sys
import numpy as np
import pydp
import pyopencl.algorithm
from pyopencl.scan import GenericScanKernel, ScanPerformanceWarning
import pyopencl.array as cl_array
assert GenericScanKernel.__module__ == "pydp.compat.pyopencl.scan", GenericScanKernel
assert pyopencl.algorithm.RadixSort.__module__ == "pydp.compat.pyopencl.algorithm"
x = cl_array.to_device(pydp.device().queue, np.arange(1, 100, dtype=np.int32))
assert cl_array.sum(x).get() == 4950 and x.all().get() and cl_array.cumsum(x).get()[-1] == 4950
for name in ("scan", "reduction", "elementwise", "algorithm", "bitonic_sort"):
    module = importlib.reload(sys.modules[f"pyopencl.{name}"])
    assert module.__name__ == f"pydp.compat.pyopencl.{name}" and not hasattr(module, "missing")
assert pyopencl.algorithm.copy_if(x, "ary[i] > 90")[1].get() == 9
print("ran with", *sys.argv[1:])
"""


def run(*arguments: str, folder: Path) -> str:
    command = [sys.executable, *arguments]
    done = subprocess.run(command, capture_output=True, text=True, cwd=folder, check=False)
    assert not done.returncode, done.stderr
    return done.stdout.strip()


def test_programs_and_modules(device, tmp_path):
    if device.profile.is_simulator:
        pytest.skip("the simulator is too slow for another process")
    (tmp_path / "program.py").write_text(PROGRAM)
    start = ("-W", "ignore", "-m", "pydp.compat.pyopencl")
    assert run(*start, "program.py", "a", "-b", folder=tmp_path) == "ran with a -b"
    assert run(*start, "-m", "program", "c", folder=tmp_path) == "ran with c"


@pytest.mark.parametrize("name", ["scan", "reduction", "elementwise", "algorithm", "bitonic_sort", "array"])
def test_star_imports_give_every_name_of_pyopencl(name):
    theirs, ours = {}, {}
    exec(f"from pyopencl.{name} import *", theirs)
    exec(f"from pydp.compat.pyopencl.{name} import *", ours)
    module = sys.modules[f"pydp.compat.pyopencl.{name}"]
    assert set(theirs) <= set(ours) and set(ours) - set(theirs) <= set(module.OWN)
    assert all(ours[one] is getattr(module, one) for one in module.OWN)


def test_without_a_program(device):
    done = subprocess.run([sys.executable, "-m", "pydp.compat.pyopencl"], capture_output=True, text=True, check=False)
    assert done.returncode and "usage" in done.stderr
