"""Run pyopencl's own tests of the installed version on pydp.compat.pyopencl: pyopencl_suite.py [PYTEST ARGUMENT]...

The tests come from pyopencl's source distribution, which pip downloads; a folder with one is taken from PYOPENCL_SDIST
instead. Their imports are rewritten, nothing else: test_algorithm.py whole, and of test_array.py the tests of what
pydp.compat.pyopencl replaces, by name; the others only run pyopencl's own kernels. They run on the default device of
pydp (PYDP_DEVICE).
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
import tarfile
import tempfile
from importlib.metadata import version
from pathlib import Path

FILES = ("test_algorithm.py", "test_array.py")
IMPORT = re.compile(
    r"^(\s*(?:from|import) )pyopencl\.(scan|reduction|algorithm|bitonic_sort|elementwise|array)\b", re.MULTILINE
)

# pydp finds drivers that pip has installed; pyopencl's tests take devices by their numbers.
CONFTEST = """
import os
import pydp
import pyopencl

device = pydp.device().cl
platforms = pyopencl.get_platforms()
number = platforms.index(device.platform)
os.environ["PYOPENCL_TEST"] = f"{number}:{platforms[number].get_devices().index(device)}"


def pytest_collection_modifyitems(items):
    words = "sum dot min max any all reduc scan slice offset subset stack concat size elementwise".split()
    items[:] = [one for one in items if one.path.name != "test_array.py" or any(word in one.name for word in words)]
"""


def rewritten(text: str) -> str:
    """A module of tests with the imports of pydp.compat.pyopencl."""
    return IMPORT.sub(r"\1pydp.compat.pyopencl.\2", text)


def sources(folder: Path) -> Path:
    """The source distribution of the installed pyopencl."""
    given = os.environ.get("PYOPENCL_SDIST")
    name = f"pyopencl-{version('pyopencl')}.tar.gz"
    if given:
        return Path(given) / name
    options = ["--no-binary", "pyopencl", "--no-deps", "--no-build-isolation", "--quiet", "--dest", str(folder)]
    command = [sys.executable, "-m", "pip", "download", *options, f"pyopencl=={version('pyopencl')}"]
    subprocess.run(command, check=True)
    return folder / name


def main(arguments: list[str]) -> int:
    """Download, rewrite and run; the status is pytest's."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        with tarfile.open(sources(folder)) as archive:
            for member in archive.getmembers():
                path = Path(member.name)
                if path.parent.name == "test" and path.name in FILES:
                    file = archive.extractfile(member)
                    assert file is not None
                    (folder / path.name).write_text(rewritten(file.read().decode()))
        (folder / "pytest.ini").write_text("[pytest]\nmarkers =\n    bitonic: tests of bitonic sorts\n")
        (folder / "conftest.py").write_text(CONFTEST)
        limit = ["--timeout=900", "--timeout-method=thread"]  # a test that hangs ends with the stacks of all threads
        command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", *limit, *FILES, *arguments]
        return subprocess.run(command, cwd=folder, check=False).returncode


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
