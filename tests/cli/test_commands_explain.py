"""The command ``pydp explain`` on the lane's device."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from click.testing import CliRunner

from pydp.algorithms.discovery import algorithms
from pydp.cli import main


def test_a_device_that_is_here_is_explained(device: Any) -> None:
    for words, said in (
        (["scan", "1000"], "scan of (1000,) float32"),
        (["matmul", "64", "32", "16"], "m=64 n=32 k=16"),
    ):
        result = CliRunner().invoke(main, ["explain", *words, "-d", device.driver])
        assert result.exit_code == 0 and said in result.output, result.output


@pytest.mark.parametrize(
    "words, said",
    [
        ("repeat x.npy repeats=2", "repeat of (9,) int32"),
        ("repeat 9 repeats=2", "repeat of (9,) int32"),
        ("repeat x.npy x.npy", "repeat of (9,) int32"),
        ("take x.npy indices=[1,0]", "(2,) int32"),
        ("take 9 indices=[1,0]", "(2,) float32"),
        ("take x.npy indices=x.npy", "(9,) int32"),
        ("searchsorted x.npy v=x.npy", "searchsorted"),
        ("where x.npy", "int64"),
        ("put x.npy ind=[1] v=3", "none"),
        ("lexsort x.npy x.npy", "2 stable sort(s)"),
        ("lexsort 3x3 3x3", "2 stable sort(s)"),
        ("histogram x.npy bins=3 range=[0,9] weights=x.npy", "histogram"),
        ("reduce_by_key x.npy values=x.npy", "reduce_by_key"),
        ("concatenate 3x3 3x3 axis=1", "(3, 6) float32"),
    ],
)
def test_the_words_of_run_are_accepted(
    device: Any, words: str, said: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    np.save("x.npy", np.arange(9, dtype=np.int32))
    for command in ("run", "explain"):
        if command == "run" and ".npy" not in words:
            continue
        result = CliRunner().invoke(main, [command, *words.split(), "-d", device.driver])
        assert result.exit_code == 0 and (command == "run" or said in result.output), result.output


@pytest.mark.parametrize("name", [name for name, one in algorithms().items() if one.tunable])
def test_every_algorithm_with_specializations_is_explained_for_sizes(device: Any, name: str) -> None:
    one = algorithms()[name]
    size = "x".join(str(min(int(part), 100)) for part in one.sizes[0].split("x"))
    options = [f"{key}={value}" for key, value in one.options.items() if isinstance(value, (int, str))]
    result = CliRunner().invoke(main, ["explain", name, size, *options, "-d", device.driver])
    assert result.exit_code == 0, result.output


@pytest.mark.host
@pytest.mark.parametrize("name", ["segmented_reduce", "segmented_sort"])
def test_operands_of_a_wrong_rank(name: str) -> None:
    result = CliRunner().invoke(main, ["explain", "--target", "xe_hpg", name, "10x10", "5x2"])
    assert result.exit_code == 1 and "an array of rank 1 is accepted" in result.output, result.output


@pytest.mark.host
@pytest.mark.parametrize("words", [["matmul"], ["matmul", "10", "20"], ["matmul", "1", "2", "3", "4", "5"]])
def test_wrong_operands_of_a_product(words: list[str]) -> None:
    result = CliRunner().invoke(main, ["explain", "--target", "xe_hpg", *words])
    assert result.exit_code == 2 and "; give M, M N K" in result.output, result.output


@pytest.mark.host
@pytest.mark.parametrize("words", [["matmul", "0", "0", "0"], ["scan", "0"], ["transpose", "0", "4"]])
@pytest.mark.parametrize("target", ["sm_90", "gfx90a"])
def test_nothing_to_do_on_a_target(target: str, words: list[str]) -> None:
    result = CliRunner().invoke(main, ["explain", "--target", target, *words])
    assert result.exit_code == 0 and target in result.output, result.output
