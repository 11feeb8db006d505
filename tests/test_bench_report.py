"""What benchmarks write: rows take the place of those of the same algorithms and device, and of no others."""

from __future__ import annotations

import json
from types import SimpleNamespace

import pytest
from pydp.bench.measure import Row
from pydp.bench.report import save

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
