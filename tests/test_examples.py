"""The programs of examples/ give NumPy's results, and pass in checked mode."""

from __future__ import annotations

import importlib.util
import subprocess
import sys
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import pytest

import pydp

FOLDER = Path(__file__).parents[1] / "examples"
NAMES = sorted(path.stem for path in FOLDER.glob("*.py"))
EXACT = {"transpose", "histogram", "reduction", "mandelbrot", "prefix_sum", "batched_products", "life", "stencil"}


def program(name: str) -> ModuleType:
    spec = importlib.util.spec_from_file_location(f"example_{name}", FOLDER / f"{name}.py")
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_there_are_ten_and_they_are_short() -> None:
    assert len(NAMES) >= 10
    assert all(len((FOLDER / f"{name}.py").read_text().splitlines()) < 60 for name in NAMES)


@pytest.mark.parametrize("name", NAMES)
def test_example(device: Any, name: str) -> None:
    result, expected = program(name).main(device)
    assert result.shape == expected.shape
    if name in EXACT:
        np.testing.assert_array_equal(result, expected)
    else:
        np.testing.assert_allclose(result, expected, rtol=2e-5, atol=1e-6)


@pytest.mark.host
def test_an_example_runs_as_a_program(tmp_path: Path) -> None:
    picture = tmp_path / "mandelbrot.pgm"
    command = [sys.executable, str(FOLDER / "mandelbrot.py"), str(picture)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=500, check=True)
    assert "equal to NumPy's: True" in done.stdout
    assert picture.read_bytes().startswith(b"P5 320 240 255\n") and picture.stat().st_size == 15 + 320 * 240


@pytest.mark.host
@pytest.mark.parametrize("name", NAMES)
def test_example_in_checked_mode(device: Any, name: str) -> None:
    short = {"stencil": {"steps": 1}, "life": {"generations": 2}, "mandelbrot": {"height": 60, "width": 80}}
    with pydp.checked():
        result, expected = program(name).main(device, **short.get(name, {}))
    np.testing.assert_allclose(result, expected, rtol=2e-5, atol=1e-6)
