"""The caches of the processor, read from sysfs."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from pydp.runtime.device import host_cpu

pytestmark = pytest.mark.host


@pytest.fixture
def listed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A folder in sysfs's place."""
    monkeypatch.setattr(host_cpu, "_SYSFS", tmp_path)
    host_cpu.caches.cache_clear()
    host_cpu.ways.cache_clear()
    yield tmp_path
    host_cpu.caches.cache_clear()
    host_cpu.ways.cache_clear()


def test_sizes_and_ways_of_data_caches(listed: Path) -> None:
    found = [(1, "Data", "48K", 12), (1, "Instruction", "32K", 8), (2, "Unified", "2048K", 16), (3, "Unified", "1G", 0)]
    for number, (level, kind, size, ways) in enumerate(found):
        folder = listed / f"index{number}"
        folder.mkdir()
        for name, text in (("level", level), ("type", kind), ("size", size), ("ways_of_associativity", ways)):
            (folder / name).write_text(f"{text}\n")
    assert host_cpu.caches() == {1: 48 << 10, 2: 2 << 20, 3: 1 << 30}
    assert host_cpu.ways() == {1: 12, 2: 16, 3: 0}


def test_what_is_not_told_is_left_out(listed: Path) -> None:
    (listed / "index0").mkdir()
    (listed / "index0" / "level").write_text("1\n")
    assert host_cpu.caches() == {} and host_cpu.ways() == {}
