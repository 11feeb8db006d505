"""The table of driver faults: which rows apply to which driver and version, and what they set."""

from __future__ import annotations

import dataclasses
import os
from pathlib import Path

import pytest

from pydp.runtime.device import quirks
from pydp.runtime.device.core import DeviceCore
from pydp.runtime.device.quirks import Quirk, Quirks, quirks_of

pytestmark = pytest.mark.host
POCL = "Portable Computing Language"


@pytest.mark.parametrize(
    ("platform", "key"),
    [
        ("Portable Computing Language", "pocl"),
        ("Intel(R) OpenCL", "intel"),
        ("Intel(R) OpenCL Graphics", "intel"),
        ("rusticl", "rusticl"),
        ("Oclgrind", "oclgrind"),
        ("NVIDIA CUDA", "nvidia"),
        ("AMD Accelerated Parallel Processing", "amd"),
        ("Clover", "clover"),
        ("Something New", "other"),
    ],
)
def test_the_platform_names_the_driver(platform: str, key: str) -> None:
    assert quirks.driver_key(platform) == key


def test_versions_are_the_leading_numbers() -> None:
    assert quirks.version_of("3.1+debian") == (3, 1)
    assert quirks.version_of("2026.22.10.0.01_160000") == (2026, 22, 10, 0, 1)
    assert quirks.version_of("no number") == ()


@pytest.mark.parametrize(
    ("since", "until", "affected", "others", "words"),
    [
        ((7, 0), None, ["7.0", "7.0.1", "7.2-rc1", "8.0", "unknown"], ["6.0", "3.1+debian"], "from 7.0"),
        (None, (5, 0), ["3.1", "4.9.9"], ["5.0", "5.0.1", "7.1"], "before 5.0"),
        ((3, 0), (7, 0), ["3.0", "3.1+debian", "6.0"], ["1.8", "7.0"], "3.0 to before 7.0"),
        (None, None, ["1.0", "99", ""], [], "all versions"),
    ],
)
def test_rows_match_a_range_of_versions(since, until, affected, others, words) -> None:
    row = Quirk("pocl", "a fault", since=since, until=until)
    assert row.versions == words
    assert all(row.applies("pocl", quirks.version_of(text), "any", "cpu") for text in affected)
    assert not any(row.applies("pocl", quirks.version_of(text), "any", "cpu") for text in others)


def test_rows_match_a_driver_a_kind_and_a_part_of_the_name() -> None:
    row = Quirk("rusticl", "a fault", kinds=frozenset({"cpu"}), device="llvmpipe")
    assert row.applies("rusticl", (22, 3), "LLVMpipe (256 bits)", "cpu")
    assert not row.applies("pocl", (22, 3), "llvmpipe", "cpu")
    assert not row.applies("rusticl", (22, 3), "llvmpipe", "gpu")
    assert not row.applies("rusticl", (22, 3), "Radeon", "cpu")


def test_faults_of_pocl_7_do_not_touch_pocl_3() -> None:
    old, new = (quirks_of(POCL, "cpu-znver5", version, "cpu") for version in ("3.1+debian", "7.1"))
    assert dict(old.environment) == {}
    assert dict(new.environment) == {"POCL_PREGION_VALUE_REMAT": "0", "POCL_FORCE_PARALLEL_OUTER_LOOP": "0"}
    assert set(old.build_options) < set(new.build_options)
    assert len(new.build_options) == len(set(new.build_options))
    assert not new.barriers_under_conditions and not old.barriers_under_conditions


def test_rows_add_up_and_give_reasons() -> None:
    slow = quirks_of("rusticl", "llvmpipe (LLVM 15.0.6, 256 bits)", "22.3.6", "cpu")
    assert (slow.loop_limit, slow.simd_bytes, slow.fma_fast) == (65535, 32, False)
    assert {"loop_limit", "simd_bytes", "fma_fast"} <= set(slow.reasons)
    assert quirks_of("rusticl", "llvmpipe", "22.3.6", "cpu").simd_bytes == 16
    assert quirks_of("rusticl", "AMD Radeon", "24.1", "gpu").loop_limit is None
    assert quirks_of("rusticl", "AMD Radeon", "24.1", "gpu").flush_before_wait
    assert not quirks_of("Something New", "x", "1", "gpu").group_progress
    assert quirks_of("Intel(R) OpenCL", "Xeon", "2026", "cpu").subgroup_sizes == (8, 16, 32, 64)
    assert quirks_of("Intel(R) OpenCL Graphics", "Xe", "2026", "gpu").subgroup_sizes == (8, 16, 32)
    ranks = [quirks_of(name, "", "1", "cpu").rank for name in ("NVIDIA", "AMD", "Intel", POCL, "Oclgrind")]
    assert ranks == sorted(ranks)


@pytest.mark.parametrize("row", quirks.TABLE, ids=lambda row: f"{row.driver}: {row.symptom[:40]}")
def test_every_row_sets_what_exists_and_names_a_test_that_exists(row: Quirk) -> None:
    assert row.driver in quirks.DRIVER_KEYS
    assert set(row.sets) <= {field.name for field in dataclasses.fields(Quirks)}
    file, _, name = row.shown_by.partition("::")
    assert f"\ndef {name}(" in (Path(__file__).parents[2] / file).read_text()


def test_variables_of_the_driver_are_set_before_its_first_use(monkeypatch: pytest.MonkeyPatch) -> None:
    """A user's own value would bring the fault back, so it does not count."""
    monkeypatch.setenv("POCL_PREGION_VALUE_REMAT", "1")
    monkeypatch.delenv("POCL_FORCE_PARALLEL_OUTER_LOOP", raising=False)

    class Platform:
        name, version = POCL, "OpenCL 3.0 PoCL 7.1"

    class ClDevice:
        name, vendor, driver_version, version, platform, type = "cpu", "", "7.1", "OpenCL 3.0", Platform, 2

    DeviceCore(ClDevice)  # type: ignore[arg-type]
    assert os.environ["POCL_PREGION_VALUE_REMAT"] == "0"
    assert os.environ["POCL_FORCE_PARALLEL_OUTER_LOOP"] == "0"


def test_options_of_a_driver_are_added_to_those_of_the_user() -> None:
    intel = quirks_of("Intel(R) OpenCL", "Xeon", "2026.22.10.0", "cpu")
    (option,) = intel.environment.values()
    variables = {"CL_CONFIG_LLVM_OPTIONS": "-one -two"}
    for _ in range(2):
        intel.set_variables(variables)
        assert variables == {"CL_CONFIG_LLVM_OPTIONS": f"-one -two {option}"}
    variables.clear()
    intel.set_variables(variables)
    assert variables == {"CL_CONFIG_LLVM_OPTIONS": option}
    for version in ("2026.21.7.0", "2026.23.1"):  # such a runtime may end the process, because it lacks the option
        assert not quirks_of("Intel(R) OpenCL", "Xeon", version, "cpu").environment


def test_programs_of_a_process_that_used_the_driver_before_have_other_options(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    intel = quirks_of("Intel(R) OpenCL", "Xeon", "2026.22.10.0", "cpu")
    assert intel.parsed_once is not None
    library, option = intel.parsed_once
    loaded, variables = f"/opt/{library}.so.2026.22.10.0", {}
    monkeypatch.setattr(quirks, "state_before_use", lambda: quirks.StateBeforeUse(loaded, variables))
    quirks._warn.cache_clear()
    for _ in range(2):
        assert set(intel.build_options) - set(intel.with_late_variables().build_options) == {option}
    assert len(caplog.messages) == 1 and "CL_CONFIG_LLVM_OPTIONS=-disable" in caplog.messages[0]
    intel.set_variables(variables)  # as a user does before the program starts
    assert intel.with_late_variables() is intel
    loaded, variables = "/usr/lib/libc.so.6", {}
    assert intel.with_late_variables() is intel and option in intel.build_options
    quirks._warn.cache_clear()
