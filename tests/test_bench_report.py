"""The files of benchmarks: rows replace the rows of the same algorithms and device, and no others."""

from __future__ import annotations

import io
import json
from types import SimpleNamespace

import pytest
from pydp.bench.measure import Row
from pydp.bench.report import save, table
from rich.console import Console

pytestmark = pytest.mark.host


def test_rows_of_other_algorithms_stay(tmp_path):
    path = tmp_path / "results" / "one.json"
    device = SimpleNamespace(name="a device", platform="p", driver_version="1")

    def row(algorithm, case, on="a device"):
        return Row(algorithm, case, on, 1.0, 2.0, "GB/s")

    save([row("scan", "small"), row("scan", "host", "host"), row("sort", "small")], device, path)
    save([row("sort", "large")], device, path)
    kept = json.loads(path.read_text())["rows"]
    assert [(one["algorithm"], one["case"]) for one in kept] == [("scan", "small"), ("scan", "host"), ("sort", "large")]
    save([row("sort", "other", "another")], SimpleNamespace(name="another", platform="p", driver_version="1"), path)
    assert [one["case"] for one in json.loads(path.read_text())["rows"]] == ["other"]
    path.write_text("not json")
    save([row("scan", "small")], device, path)
    assert len(json.loads(path.read_text())["rows"]) == 1


def test_narrow_tables_cut_nothing_short():
    console = Console(width=80, file=io.StringIO())
    row = Row("specializations", "matmul float32 square 2048", "a device", 1.0, 0.9, "of the best", {"best of 5": 1.0})
    console.print(table([row]))
    shown = console.file.getvalue()
    assert "…" not in shown, shown
