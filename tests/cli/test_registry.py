"""A toy algorithm, declared in one file, is run, explained, tuned and benchmarked by the commands."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import toy_algorithm
from click.testing import CliRunner

import pydp
from pydp.algorithms import registry
from pydp.algorithms.discovery import algorithms
from pydp.cli import main
from pydp.tuning.trial import Subject, WrongResult


@pytest.fixture(autouse=True)
def toy(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(registry, "registered", algorithms())
    registry.register(toy_algorithm.DECLARATION)


def said(*words: str) -> str:
    result = CliRunner().invoke(main, list(words))
    assert result.exit_code == 0, result.output
    return result.output


def test_it_runs(device: Any, tmp_path: Path) -> None:
    x = np.arange(5000, dtype=np.float32)
    np.save(tmp_path / "x.npy", x)
    said("run", "negate", str(tmp_path / "x.npy"), "-o", str(tmp_path / "y.npy"), "-d", device.driver)
    np.testing.assert_array_equal(np.load(tmp_path / "y.npy"), -x)


def test_it_is_explained(device: Any) -> None:
    text = said("explain", "negate", "5000", "-d", device.driver)
    assert "negate of (5000,) float32" in text and "NegateSpec(items=" in text and "predicted" in text


def test_it_is_tuned(device: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PYDP_CACHE_DIR", str(tmp_path))
    text = said("tune", "negate", "65536", "-d", device.driver, "--alone", "--budget", "0.5")
    assert "negate" in text and "not usable" not in text


def test_a_wrong_candidate_is_found_by_its_reference(device: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(toy_algorithm, "WRONG_ITEMS", 4)
    subject = Subject(toy_algorithm.negate, (pydp.field(np.ones(100, np.float32), device=device),), {})
    subject.prepare(toy_algorithm.NegateSpec(1))
    subject.verify(toy_algorithm.NegateSpec(16))
    with pytest.raises(WrongResult, match="100 of 100 elements are wrong"):
        subject.verify(toy_algorithm.NegateSpec(4))


def test_it_is_benchmarked(device: Any) -> None:
    assert "negate" in said("bench", "negate", "-d", device.driver, "--quick")
    assert toy_algorithm.__name__ in sys.modules


def test_its_name_is_in_every_help() -> None:
    for command in ("run", "explain", "tune", "bench"):
        assert "negate" in said(command, "--help")
    listed = said("tune", "--help").rpartition("ALGORITHM is one of")[2].replace(",", " ").split()
    assert "scan" in listed and "take" not in listed  # take has nothing to tune


def test_every_algorithm_is_public_and_has_a_reference(device: Any) -> None:
    for name, one in algorithms().items():
        if name != "negate":
            home = pydp.random.Generator if name.startswith("random.") else pydp
            assert getattr(home, name.removeprefix("random.")) is one.function
        shapes = one.shapes((40,))
        assert shapes is not None and len(shapes) == one.operands
        kind = "float32" if "f" in one.dtypes else one.dtype
        x = [np.ones(shape, one.own_dtypes.get(at, kind)) for at, shape in enumerate(shapes)]
        options = {} if one.tunable else dict(one.options)
        if not one.operands:
            options = {"evaluate": {"expression": "2 * x", "x": np.ones(9)}}.get(name, {"size": 9})
        args, named = one.passed(x, options | ({"low": 10} if name == "random.integers" else {}))
        assert one.reference(*args, **named)


@pytest.mark.host
def test_an_unknown_name_is_refused_with_the_known_ones() -> None:
    result = CliRunner().invoke(main, ["run", "nonsense", "x.npy"])
    assert result.exit_code == 2 and "'nonsense' is not one of adjacent_difference, all, any, argmax," in result.output
