"""Build PoCL from its sources, for the lane pocl7: build_pocl.py SOURCE PREFIX [--dry-run].

    git clone --branch v7.1 --depth 1 <PoCL's repository> pocl && python tests/drivers/build_pocl.py pocl ~/pocl7
    POCL7=~/pocl7 tox -e pocl7

SOURCE is a folder of PoCL's sources, PREFIX the folder to install into. Nothing is downloaded. It takes about ten
minutes on two cores; a build that was stopped goes on where it was.
"""

from __future__ import annotations

import argparse
import os
import re
import shlex
import shutil
import subprocess
import sys
from pathlib import Path

LLVM = 19
PACKAGES = (
    f"llvm-{LLVM}-dev clang-{LLVM} libclang-{LLVM}-dev libclang-cpp{LLVM}-dev liblld-{LLVM}-dev "
    "cmake ninja-build libhwloc-dev ocl-icd-opencl-dev pkg-config"
)
OPTIONS = ("ENABLE_ICD=ON", "ENABLE_TESTS=OFF", "ENABLE_EXAMPLES=OFF", "ENABLE_SPIRV=OFF", "CMAKE_BUILD_TYPE=Release")


def problem(source: Path, prefix: Path, llvm_config: str) -> str | None:
    """The reason why PoCL cannot be built, in one sentence; None if it can."""
    lists = source / "CMakeLists.txt"
    if not lists.is_file() or not re.search(r"(?im)^\s*project\s*\(\s*pocl\b", lists.read_text(errors="replace")):
        return f"{source} is no folder of PoCL's sources: it has no CMakeLists.txt of a project named pocl"
    if prefix.exists() and not prefix.is_dir():
        return f"{prefix} is a file; a folder to install into is accepted"
    if prefix.is_dir() and any(prefix.iterdir()) and not list(prefix.glob("lib*/**/libpocl*")):
        return f"{prefix} has other files in it; a new or empty folder, or one with a PoCL in it, is accepted"
    if prefix == source or source in prefix.parents:
        return f"{prefix} lies in the folder of the sources; a folder outside is accepted"
    tools = [tool for tool in ("cmake", "ninja", llvm_config) if shutil.which(tool) is None]
    if tools:
        return f"{' and '.join(tools)} cannot be found; install them, for example with: apt install {PACKAGES}"
    return None


def commands(source: Path, prefix: Path, build: Path, llvm_config: str, jobs: int) -> list[list[str]]:
    """Configure, build, install."""
    defined = [f"-D{one}" for one in (*OPTIONS, f"WITH_LLVM_CONFIG={llvm_config}", f"CMAKE_INSTALL_PREFIX={prefix}")]
    return [
        ["cmake", "-G", "Ninja", "-S", str(source), "-B", str(build), *defined],
        ["cmake", "--build", str(build), "--parallel", str(jobs)],
        ["cmake", "--install", str(build)],
    ]


def main(arguments: list[str]) -> int:
    """Build and install; the status is 0 where a driver lies in PREFIX afterwards."""
    about, _, more = (__doc__ or "").partition("\n\n")
    parser = argparse.ArgumentParser(
        description=about, epilog=more, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("source", type=Path, metavar="SOURCE")
    parser.add_argument("prefix", type=Path, metavar="PREFIX")
    parser.add_argument("--build", type=Path, help="the folder to build in (default: SOURCE/build)")
    parser.add_argument("--llvm-config", default=f"llvm-config-{LLVM}", help="of the LLVM to build with (%(default)s)")
    parser.add_argument("--jobs", type=int, default=os.cpu_count() or 1, help="compilers at a time (%(default)s)")
    parser.add_argument("--dry-run", action="store_true", help="check, and print the commands only")
    given = parser.parse_args(arguments)
    source, prefix = given.source.absolute(), given.prefix.absolute()
    found = problem(source, prefix, given.llvm_config)
    if found is not None:
        print(f"build_pocl.py: {found}", file=sys.stderr)
        return 1
    llvm_config = shutil.which(given.llvm_config)
    assert llvm_config is not None
    build = (given.build or source / "build").absolute()
    for command in commands(source, prefix, build, llvm_config, given.jobs):
        print("+", shlex.join(command), flush=True)
        if not given.dry_run and (status := subprocess.run(command, check=False).returncode):
            print(f"build_pocl.py: {command[0]} ended with status {status}", file=sys.stderr)
            return 1
    if given.dry_run:
        return 0
    if not list(prefix.glob("etc/OpenCL/vendors/*.icd")):
        print(f"build_pocl.py: {prefix} has no etc/OpenCL/vendors/*.icd after the installation", file=sys.stderr)
        return 1
    print(f"built; run the tests with: POCL7={shlex.quote(str(prefix))} tox -e pocl7")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
