"""The command ``pydp bench``: what is wrong with its files is told before anything is measured."""

from __future__ import annotations

import importlib
import inspect
import json
import pkgutil
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pydp.bench
import pytest
from click.testing import CliRunner
from pydp.bench import bench_first_call
from pydp.bench import bench_specializations as measuring
from pydp.bench.measure import Row, cases_of

import pydp
from pydp.algorithms.discovery import algorithms
from pydp.cli import bench as commands_bench
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


OTHERS = {  # they measure other things than calls of algorithms
    "bench_barrier", "bench_first_call", "bench_lds", "bench_overhead", "bench_specializations", "bench_tuning",
}  # fmt: skip
BENCHMARKS = {one.name for one in pkgutil.iter_modules(pydp.bench.__path__) if one.name.startswith("bench_")} - OTHERS


@pytest.mark.sweep
@pytest.mark.parametrize("name", sorted(BENCHMARKS))
def test_every_benchmark_of_algorithms_runs(device: Any, name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    if device.driver != "pocl":
        pytest.skip("the benchmarks run once, on PoCL")

    def called_once(candidates: Any, **options: Any) -> dict[str, float]:
        for one in candidates.values():
            one()
        return dict.fromkeys(candidates, 1.0)

    module = importlib.import_module(f"pydp.bench.{name}")
    monkeypatch.setattr(module, "alternating", called_once)
    rows = module.run(device, quick=True)
    assert rows and all(isinstance(one, Row) and one.value > 0 for one in rows)


def test_families_without_specializations(device: Any, tmp_path: Path) -> None:
    words = ["--specializations", "-d", device.driver]
    assert "--specializations cannot measure barrier; " in _said("barrier", *words, code=2)
    path = tmp_path / "junk.json"
    path.write_text("junk")
    assert "is not of the form" in _said("scan", *words, "--json", str(path), code=1)
    assert path.read_text() == "junk"


def test_first_calls_are_measured(device: pydp.Device) -> None:
    rows = bench_first_call.run(device, quick=True)
    assert [row.case for row in rows] == ["elementwise", "stencil", "matmul", "scan"]
    assert all(row.value > 0 and 0 < row.ratios["driver"] < 1 for row in rows)
    assert binaries.compile_program.__module__ == binaries.__name__


@pytest.mark.host
def test_every_algorithm_has_a_benchmark() -> None:
    for name, one in algorithms().items():
        ((module, only),) = commands_bench._jobs((name,))
        run = importlib.import_module(module).run
        assert module == one.benchmark and (not only or "only" in inspect.signature(run).parameters), name


@pytest.mark.host
def test_each_benchmark_runs_once() -> None:
    every = commands_bench._jobs(())
    assert len(set(every)) == len(every) and all(not only for _, only in every)
    assert {one.benchmark for one in algorithms().values()} < {module for module, _ in every}
    select, sets = "pydp.bench.bench_select", "pydp.bench.bench_sets"
    assert commands_bench._jobs(("unique", "select", "unique", "isin")) == [(select, ""), (sets, "isin")]
    assert commands_bench._jobs(("sets", "isin", "random.normal")) == [
        (sets, ""),
        ("pydp.bench.bench_random", "normal"),
    ]


def test_the_rows_of_one_function(device: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def row(case: str) -> Row:
        return Row("sets", case, device.name, 1.0, 1.0, "Gitem/s")

    def run(device: Any, quick: bool = False, only: str = "") -> list[Row]:
        return [row(case) for (case,) in cases_of([("isin of 9",), ("union1d of 9",), ("union1dx",)], only)]

    monkeypatch.setattr(importlib.import_module("pydp.bench.bench_sets"), "run", run)
    path = tmp_path / "rows.json"
    for words, cases in (
        ("sets", ["isin of 9", "union1d of 9", "union1dx"]),
        ("union1d", ["isin of 9", "union1dx", "union1d of 9"]),  # replaced, and the other rows are kept
    ):
        _said(words, "-d", device.driver, "--quick", "--json", str(path), code=0)
        assert [one["case"] for one in json.loads(path.read_text())["rows"]] == cases


def _called(calls: dict[str, Any]) -> dict[str, float]:
    """Each candidate is called once, and takes a second."""
    for call in calls.values():
        call()
    return dict.fromkeys(calls, 1.0)


@pytest.mark.parametrize("name", ["compress", "argmin", "swapaxes"])
def test_a_function_that_shares_its_module_is_measured(
    device: pydp.Device, name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    module, only = commands_bench._jobs((name,))[0]
    found = importlib.import_module(module)
    monkeypatch.setattr(found, "alternating", lambda calls, **_: _called(calls))
    rows = found.run(device, quick=True, only=only)
    assert rows and all(row.case.startswith(name) and "pydp" not in row.ratios for row in rows)
