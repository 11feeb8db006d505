"""The command ``pydp explain`` on the lane's device."""

from __future__ import annotations

from typing import Any

import pytest
from click.testing import CliRunner

from pydp.cli import main


def test_a_device_that_is_here_is_explained(device: Any) -> None:
    for words, said in (
        (["scan", "1000"], "scan of (1000,) float32"),
        (["matmul", "64", "32", "16"], "m=64 n=32 k=16"),
    ):
        result = CliRunner().invoke(main, ["explain", *words, "-d", device.driver])
        assert result.exit_code == 0 and said in result.output, result.output


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
