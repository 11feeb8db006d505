"""The table of architectures, and the profiles, structures and rates that are made of it."""

from __future__ import annotations

import dataclasses
from types import SimpleNamespace
from typing import Any

import pytest

from pydp.errors import InvalidArgument
from pydp.model.architectures import (
    TABLE,
    architecture,
    architecture_of,
    by_name,
    by_target,
    rates_of,
    structure_of,
)

pytestmark = pytest.mark.host


def test_the_table_holds_together() -> None:
    for name, entry in TABLE.items():
        assert entry.name == name
        assert entry.note
        assert entry.local_per_group <= entry.local
        assert entry.lanes >= entry.lanes64 > 0
        profile, structure = by_target(name)
        assert (profile.kind == "cpu") == (entry.vendor == "cpu")
        assert architecture(profile, name) is entry
        assert structure.sms == profile.compute_units == rates_of(profile, entry).units
        assert set(profile.sources) >= {"compute_units", "local_bytes"}
    with pytest.raises(InvalidArgument, match="sm_90"):
        by_name("sm_1")


def test_devices_find_their_architecture() -> None:
    for name in ("sm_86", "avx512", "avx2", "neon", "sse"):
        assert architecture(by_target(name)[0]).name == name
    assert architecture(by_target("gfx90a")[0]).vendor == "amd"
    assert architecture(by_target("gfx1100")[0]).warp == 32
    assert architecture(by_target("sm_60")[0], "gfx906:sramecc+:xnack-").name == "gfx906"
    # Targets that the table lacks: a Ryzen's gfx90c is GCN, with half of gfx90a's registers.
    near = {
        "gfx90c:xnack-": "gfx900",
        "gfx941": "gfx942",
        "gfx950": "gfx942",
        "gfx1036": "gfx1030",
        "gfx1150": "gfx1100",
    }
    assert {word: architecture(by_target("gfx90a")[0], word).name for word in near} == near
    assert architecture(by_target("sm_60")[0], "a gfx7 or gfx701 card").name == "sm_60"


def test_structure_of_a_target() -> None:
    profile, structure = by_target("sm_90")
    assert structure == structure_of(profile)
    assert (structure.sms, structure.registers_per_sm, structure.max_warps_per_sm) == (132, 65536, 64)
    assert structure.comp_cycle == pytest.approx(32 / 128 / 1.83e9)


def test_structure_of_a_cpu() -> None:
    _, structure = by_target("avx512")
    assert (structure.warp_size, structure.sms, structure.min_block, structure.max_block) == (1, 8, 1, 4096)
    assert structure.comp_cycle == pytest.approx(1 / 32 / 3e9)  # two vectors of 16 multiply-adds in each cycle
    assert structure.t_allo == 3e-7


def test_rates_of_a_gpu() -> None:
    # An A100: 108 multiprocessors with 64 multiply-adds of float32 and 32 of float64 in each of 1.41e9 cycles a second.
    profile, _ = by_target("sm_80")
    found = rates_of(profile)
    assert found.float32 == pytest.approx(2 * 64 * 1.41e9) and found.float64 == pytest.approx(found.float32 / 2)
    assert found.integer == pytest.approx(found.float32 / 2)
    assert found.memory_read == found.memory_write == pytest.approx(1555e9)
    assert found.unit_memory == pytest.approx(3 * 1555e9 / 108)
    assert found.unit_cache == pytest.approx(128 * 1.41e9)
    assert found.barrier == pytest.approx(20 / 1.41e9 / 32)
    assert (found.lane_slowdown, found.signal, found.source) == (1.0, pytest.approx(5.5e-7), "table: sm_80")
    # A part with a third of the multiprocessors has a third of the bandwidth, and the same for each of them.
    part = rates_of(dataclasses.replace(profile, compute_units=36))
    assert part.units == 36 and part.memory_read == pytest.approx(1555e9 / 3)
    assert (part.float32, part.unit_memory) == (found.float32, pytest.approx(found.unit_memory))


def test_rates_of_a_cpu() -> None:
    profile, _ = by_target("avx2")  # eight cores with two vectors of 8 floats a cycle
    found = rates_of(profile)
    assert found.float32 == 2 * 16 * 3e9
    assert (found.memory_read, found.memory_write) == (64e9, pytest.approx(38.4e9))  # 8e9 for each core
    assert found.unit_cache == 16 * 3e9 and found.lane_slowdown == 8.0
    assert rates_of(dataclasses.replace(profile, compute_units=2)).memory_read == 40e9  # at least a desktop's


@pytest.mark.parametrize(
    ("target", "changes", "found"),
    [
        ("avx512", {}, "avx512"),
        ("avx512", {"simd_bytes": 32}, "avx2"),
        ("avx512", {"simd_bytes": 16}, "neon"),
        ("avx512", {"simd_bytes": 16, "vector_registers": 16}, "sse"),
        ("sm_90", {}, "sm_86"),
        ("gfx1100", {"subgroup_sizes": (32,)}, "gfx1030"),
        ("gfx906", {"subgroup_sizes": (64,)}, "gfx90a"),
        ("xe2", {"extensions": frozenset({"cl_intel_subgroups"})}, "xe_hpg"),
        ("xe2", {"subgroup_sizes": (32, 64)}, "gfx1030"),
        ("xe2", {}, "gfx906"),
    ],
)
def test_architecture_of_a_profile_without_a_name(target: str, changes: dict[str, Any], found: str) -> None:
    profile = dataclasses.replace(by_target(target)[0], sources={}, **changes)
    assert architecture(profile).name == found


def _nvidia(major: int, minor: int) -> Any:
    profile = by_target("sm_80")[0]
    return SimpleNamespace(
        cl=SimpleNamespace(compute_capability_major_nv=major, compute_capability_minor_nv=minor),
        profile=profile,
        name="a GPU",
    )


def test_architecture_of_a_device() -> None:
    versions = {(8, 0): "sm_80", (8, 8): "sm_87", (10, 3): "sm_100", (12, 1): "sm_120", (3, 5): "sm_50"}
    assert {version: architecture_of(_nvidia(*version)).name for version in versions} == versions
    other: Any = SimpleNamespace(cl=object(), profile=by_target("sm_80")[0], name="gfx1030")
    assert architecture_of(other).name == "gfx1030"
