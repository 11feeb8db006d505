"""Run the OpenCL tests of packages that use pyopencl on pydp.compat.pyopencl: downstream_suites.py [PYTEST ARGUMENT]...

The packages are compyle and silx; their tests come with them. They run twice on the default device of pydp: with
pyopencl itself, and after `pydp.compat.pyopencl.install()`. Every test that passes with pyopencl must pass again, and
some tests of each package must pass. Tests that need other files from the network are skipped without it; the picture
that most tests of silx use is replaced by another one.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path

MODULES = (
    *(f"compyle.tests.test_{name}" for name in ("array", "parallel", "jit", "low_level", "gpu_struct", "profile")),
    *(f"silx.opencl.{name}" for name in ("test", "codec.test", "sift.test")),
    "silx.image.test.test_medianfilter",
    "silx.math.fft.test",
)
INSTALL = "PYDP_COMPAT_INSTALL"

PLUGIN = f"""
import json
import os
import numpy
import pydp
import pyopencl
import pyopencl.scan
import scipy.datasets

if os.environ.get("{INSTALL}"):
    import pydp.compat.pyopencl
    pydp.compat.pyopencl.install()
    assert pyopencl.scan.GenericScanKernel.__module__.startswith("pydp."), "pyopencl's modules were not replaced"


def ascent():
    waves = numpy.add.outer(numpy.arange(512) ** 2 / 3e3, numpy.arange(512) / 9)
    blocks = numpy.random.default_rng(0).integers(0, 120, (32, 32)).repeat(16, 0).repeat(16, 1)
    return (blocks + 60 * (1 + numpy.sin(waves))).astype(numpy.uint8)


scipy.datasets.ascent = ascent  # the image of silx's tests, which scipy would download
device = pydp.device().cl
platforms = pyopencl.get_platforms()
number = platforms.index(device.platform)
os.environ["PYOPENCL_CTX"] = f"{{number}}:{{platforms[number].get_devices().index(device)}}"
passed = []


def pytest_collection_modifyitems(items):
    # Tests of other targets need a C compiler.
    items[:] = [one for one in items if not any(word in one.nodeid.lower() for word in ("cython", "openmp"))]


def pytest_runtest_logreport(report):
    if report.when == "call" and report.passed:
        passed.append("::".join((report.location[0], report.location[2])))


def pytest_sessionfinish():
    with open("passed.json", "w") as file:
        json.dump(passed, file)
"""


def passed(folder: Path, arguments: list[str], install: bool) -> set[str]:
    """The tests that pass."""
    environment = {
        **os.environ,
        "PYTHONPATH": str(folder),
        "PYOPENCL_NO_CACHE": "1",
        **({INSTALL: "1"} if install else {}),
    }
    plugins = [f"-p{name}" for name in ("no:cacheprovider", "no:warnings", "outcomes")]
    limit = ["--timeout=900", "--timeout-method=thread"]  # a test that hangs ends with the stacks of all threads
    command = [sys.executable, "-m", "pytest", "-q", "--no-header", *plugins, *limit, "--pyargs", *MODULES, *arguments]
    outcomes = folder / "passed.json"
    outcomes.unlink(missing_ok=True)
    status = subprocess.run(command, cwd=folder, env=environment, check=False).returncode
    if status not in (0, 1) or not outcomes.exists():
        sys.exit(f"pytest ended with status {status}")
    return set(json.loads(outcomes.read_text()))


def main(arguments: list[str]) -> int:
    """Run both ways; the status is 0 if nothing that passes with pyopencl fails."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        (folder / "outcomes.py").write_text(PLUGIN)
        theirs, ours = passed(folder, arguments, False), passed(folder, arguments, True)
    lost = sorted(theirs - ours)
    print("\n".join(["", *(f"fails on pydp.compat.pyopencl: {one}" for one in lost)]))
    print(f"{len(theirs) - len(lost)} passed, {len(lost)} failed")
    without = [package for package in ("compyle", "silx") if not any(package in one for one in theirs)]
    if not theirs or (without and not arguments):
        print(f"no test of {' and '.join(without)} passes with pyopencl: nothing was compared")
        return 1
    return 1 if lost else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
