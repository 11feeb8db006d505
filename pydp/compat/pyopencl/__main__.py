"""``python -m pydp.compat.pyopencl PROGRAM [ARGUMENT ...]``: run a program after ``install()``.

``-m MODULE`` instead of PROGRAM runs a module.
"""

from __future__ import annotations

import runpy
import sys
from pathlib import Path

from pydp.compat.pyopencl import install


def main() -> None:
    """Run the program of the command line."""
    arguments = sys.argv[1:]
    if not arguments or arguments == ["-m"]:
        raise SystemExit("usage: python -m pydp.compat.pyopencl (PROGRAM | -m MODULE) [ARGUMENT ...]")
    install()
    if arguments[0] == "-m":
        sys.argv = arguments[1:]
        sys.path.insert(0, "")
        runpy.run_module(arguments[1], run_name="__main__", alter_sys=True)
    else:
        sys.argv = arguments
        sys.path.insert(0, str(Path(arguments[0]).resolve().parent))
        runpy.run_path(arguments[0], run_name="__main__")


if __name__ == "__main__":
    main()
