"""The public surface, pinned: a name that comes or goes is a decision."""

from __future__ import annotations

import configparser
import importlib
import inspect
import pkgutil
import subprocess
import sys
from pathlib import Path

import pytest

import pydp
from pydp.algorithms.discovery import algorithms

pytestmark = pytest.mark.host

PUBLIC = """
BuildFailed CheckFailed Device Explanation Field InvalidArgument NoUsableDevice OutOfResources PydpError
UnsupportedOnDevice VectorError adjacent_difference all any argmax argmin argpartition argsort argwhere atomic_add
atomic_and atomic_max atomic_min atomic_or atomic_sub atomic_xor bincount checked compress concatenate count_nonzero
cumprod cumsum device devices diff dot empty evaluate explain extent field flatnonzero flip fma forall full grid
group_barrier histogram index inner intersect1d isin lexsort local_field logsumexp math matmul max mean mean_var merge
merge_by_key min min_max moveaxis nanargmax nanargmin nanmax nanmean nanmin nanprod nanstd nansum nanvar nonzero norm
pad partition private_field prod project put random read_only record reduce reduce_by_key repeat roll run_length_decode
run_length_encode scan scan_by_key searchsorted section segmented_argsort segmented_reduce segmented_sort select
setdiff1d setxor1d sort sort_by_key stack std sum swapaxes take tile tile_array top_k transpose tune union1d unique
using var vdot vector where zeros
""".split()


def test_names() -> None:
    assert sorted(pydp.__all__) == sorted(PUBLIC)
    for name in PUBLIC:
        assert getattr(pydp, name) is not None
    with pytest.raises(AttributeError, match="nonsense"):
        pydp.nonsense  # noqa: B018


def test_every_name_is_documented() -> None:
    for name in PUBLIC:
        text = inspect.getdoc(getattr(pydp, name))
        assert text and len(text) > 20, name


def test_algorithms_share_their_last_arguments() -> None:
    for name, one in algorithms().items():
        if name == "evaluate":  # its last parameters are the values of the names
            continue
        parameters = list(inspect.signature(one.function).parameters)
        last = ["device", "queue", "wait_for", *(["spec"] if one.tunable else [])]
        assert parameters[-len(last) :] == last, name
        assert hasattr(one.function, "__pydp_explain__"), name


def test_every_package_is_installed() -> None:
    """Editable installations import folders that `packages` of setup.cfg does not name; others do not."""
    root = Path(__file__).resolve().parents[1]
    config = configparser.ConfigParser()
    config.read(root / "setup.cfg")
    named = set(config["options"]["packages"].split()) - {"pydp.bench", "pydp.kernels_cl"}
    assert named == {".".join(path.parent.relative_to(root).parts) for path in (root / "pydp").rglob("__init__.py")}


def test_exported_names_exist() -> None:
    for module in pkgutil.walk_packages(pydp.__path__, "pydp."):
        if not module.name.startswith(("pydp.bench", "pydp.__main__")) and not module.name.endswith("__main__"):
            found = importlib.import_module(module.name)
            assert all(hasattr(found, name) for name in getattr(found, "__all__", ())), module.name


def test_import_touches_no_driver() -> None:
    code = "import sys, pydp; sys.exit('pyopencl' in sys.modules or 'numpy' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0
