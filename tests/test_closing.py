"""The summary that is printed at the end of a run of all test lanes."""

from __future__ import annotations

import importlib.util
import json
from pathlib import Path
from types import ModuleType

import pytest

pytestmark = pytest.mark.host


@pytest.fixture(scope="module")
def closing() -> ModuleType:
    path = Path(__file__).parent.parent / ".ci" / "closing.py"
    if not path.exists():
        pytest.skip(".ci is not here")
    spec = importlib.util.spec_from_file_location("closing", path)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


RUN = """
..s. [100%]
=== what was not tested, and why ===
skipped 2: the device has no float64
skipped 1: the driver has in-order queues only
=== 3 passed, 3 skipped, 12 deselected in 1.02s ===
Oclgrind: 0 findings
"""
MISSING = "a word of pip\nlane rusticl: the driver is missing (no device of rusticl), install it with: apt install x\n"


def test_lanes_close_with_counts_and_reasons(
    closing: ModuleType, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    runs = {
        "rusticl": {"test": [{"retcode": 1, "output": MISSING}]},
        "pocl": {"test": [{"retcode": 0, "output": RUN}, {"retcode": 5, "output": "7 deselected in 0.1s\n"}]},
        ".pkg": {},
    }
    (tmp_path / "result.json").write_text(json.dumps({"testenvs": runs}))
    closing.main(str(tmp_path / "result.json"))
    assert capsys.readouterr().out.splitlines() == [
        "-- pocl: exit 0",
        "skipped 2: the device has no float64",
        "skipped 1: the driver has in-order queues only",
        "=== 3 passed, 3 skipped, 12 deselected in 1.02s ===",
        "Oclgrind: 0 findings",
        "-- pocl: exit 5",
        "7 deselected in 0.1s",
        "-- rusticl: exit 1",
        MISSING.splitlines()[-1],
    ]
