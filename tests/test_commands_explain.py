"""The command ``pydp explain`` on the lane's device."""

from __future__ import annotations

from typing import Any

from click.testing import CliRunner

from pydp.cli import main


def test_a_device_that_is_here_is_explained(device: Any) -> None:
    for words, said in (
        (["scan", "1000"], "scan of (1000,) float32"),
        (["matmul", "64", "32", "16"], "m=64 n=32 k=16"),
    ):
        result = CliRunner().invoke(main, ["explain", *words, "-d", device.driver])
        assert result.exit_code == 0 and said in result.output, result.output
