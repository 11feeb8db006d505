"""The README's programs run."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest

README = Path(__file__).parents[1] / "README.md"
PROGRAMS = re.findall(r"```python\n(.*?)```", README.read_text(), re.DOTALL)


def test_there_are_programs() -> None:
    assert len(PROGRAMS) >= 2


@pytest.mark.parametrize("number", range(len(PROGRAMS)))
def test_program(device: Any, number: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    # Vector functions are read from their file: each program becomes one.
    path = tmp_path / f"readme_{number}.py"
    path.write_text(PROGRAMS[number])
    monkeypatch.chdir(tmp_path)
    exec(compile(PROGRAMS[number], str(path), "exec"), {"__name__": "readme"})
