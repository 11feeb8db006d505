"""The command ``pydp bench``: what is wrong with its files is told before anything is measured."""

from __future__ import annotations

import json
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from click.testing import CliRunner
from pydp.bench import bench_first_call
from pydp.bench import bench_specializations as measuring

import pydp
from pydp.cli import main
from pydp.errors import InvalidArgument
from pydp.runtime.programs import binaries

HERE = SimpleNamespace(name="a device", platform="p", driver_version="1")
CASES = {"scan int32 2^16": {"complete": True, "candidates": [{"spec": {"part": 1}, "ratio": 1.0, "seconds": 1e-3}]}}


def _said(*words: str, code: int) -> str:
    result = CliRunner().invoke(main, ["bench", *words])
    assert result.exit_code == code, result.output
    assert not result.exception or isinstance(result.exception, SystemExit)
    return result.output


def _document(**changed: Any) -> dict[str, Any]:
    about = {"device": "a device", "platform": "p", "driver": "1"}
    return {"schema": measuring.SCHEMA, "about": about, "cases": CASES, **changed}


@pytest.mark.host
def test_measurements_of_this_device_only(tmp_path: Path) -> None:
    path = tmp_path / "found.json"
    assert measuring.load(HERE, path) == {}
    path.write_text(json.dumps(_document()))
    assert measuring.load(HERE, path) == CASES
    with pytest.raises(InvalidArgument, match=r"found\.json was measured on .*'a device'.*, not on .*'another'"):
        measuring.load(SimpleNamespace(**{**vars(HERE), "name": "another"}), path)


@pytest.mark.host
@pytest.mark.parametrize(
    "text",
    [
        "", "junk", "[]", "{}", "[" * 100_000, "\udcff",
        json.dumps(_document(schema="other")), json.dumps(_document(cases=[1])), json.dumps(_document(cases={"a": []})),
        json.dumps(_document(cases={"a": {"complete": True, "candidates": [{}]}})), json.dumps(_document())[:-9],
    ],
)  # fmt: skip
def test_damaged_measurements(tmp_path: Path, text: str) -> None:
    path = tmp_path / "found.json"
    path.write_text(text, errors="surrogateescape")
    with pytest.raises(InvalidArgument, match="is not of the form pydp-specializations-1"):
        measuring.load(HERE, path)


@pytest.mark.host
def test_wrong_words(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("no folder")
    assert "File exists" in _said("--json", str(tmp_path / "file" / "a.json"), code=1)
    assert "is not in the range" in _said("--specializations", "--seconds", "-1", code=2)
    pytest.importorskip("matplotlib")
    assert "is not a picture file name" in _said("--plot", str(tmp_path / "a.frob"), code=1)


def test_families_without_specializations(device: Any, tmp_path: Path) -> None:
    words = ["--specializations", "-d", device.driver]
    assert "barrier: its specializations are not measured" in _said("barrier", *words, code=2)
    path = tmp_path / "junk.json"
    path.write_text("junk")
    assert "is not of the form" in _said("scan", *words, "--json", str(path), code=1)
    assert path.read_text() == "junk"


def test_first_calls_are_measured(device: pydp.Device) -> None:
    rows = bench_first_call.run(device, quick=True)
    assert [row.case for row in rows] == ["elementwise", "stencil", "matmul", "scan"]
    assert all(row.value > 0 and 0 < row.ratios["driver"] < 1 for row in rows)
    assert binaries.compile_program.__module__ == binaries.__name__
