"""`pydp verify` on the lane's device: every check is reported, and seeded faults are found."""

from __future__ import annotations

import dataclasses
import json
from pathlib import Path
from typing import Any

import needs
import pytest
import seeded_faults
from click.testing import CliRunner

from pydp.cli import main
from pydp.tuning.reference import Expected, checked_by, host
from pydp.verify.about import about
from pydp.verify.check import Context, Stage, outcome
from pydp.verify.report import Report, load
from pydp.verify.run import COMMAND, Run
from pydp.verify.stages import STAGES, speeds

BY_LETTER = {stage.letter: stage for stage in STAGES}


def part(letter: str, *names: str, limit: float = 600.0) -> Stage:
    """Some checks of a stage."""
    checks = {one.name: one for one in BY_LETTER[letter].checks}
    return Stage(letter, "", 1.0, tuple(checks[name] for name in names), decides=True, limit=limit)


def ran(path: Path, *stages: Stage, command: str = COMMAND) -> tuple[int, dict[str, Any]]:
    """The exit status of a run without an end, and the results."""
    arguments, head = about(None, None, 600.0)
    last = Stage("z", "", 0.0, ())
    status = Run(Report(path, head), (*stages, last), 36000.0, arguments, lambda *_: None, command=command).run()
    return status, load(path)["results"]


@pytest.mark.sweep
def test_known_answers_and_limits(device: Any, tmp_path: Path) -> None:
    """A part of each stage before (f): the stages are alike, and a whole run takes minutes."""
    if device.profile.is_simulator:
        pytest.skip("a simulator is slow, and writes the log of one process")
    stages = (
        part("a", "profile", "driver", "versions", "doctor"),
        part("b", "scan int32", "reduce records", "sort float32 with NaN", "matmul int32", "matmul float16",
             "forall tickets",
             "forall records", "forall float atomics", "forall integer atomics", "forall 64-bit atomic limits",
             "barriers group: exchanges", "subgroups of every size", "64-bit addresses"),
        part("c", "look-back", "in place", "fallback, some publications suppressed", "same bits in every run"),
        part("d", "copy kernel", "local memory banks", "launch"),
        part("e", "transpose"),
    )  # fmt: skip
    status, results = ran(tmp_path / "report.json", *stages)
    assert status == 0, results
    assert results["a"]["profile"]["figures"]["kind"] == device.profile.kind
    assert results["d"]["copy kernel"]["figures"]["rate"] > 0
    transpose = results["e"]["transpose"]["figures"]
    assert ("NumPy" in transpose["ratios"]) == (device.kind == "cpu") and transpose["spec"].startswith("TransposeSpec(")
    assert transpose["spec from"].split(":")[0] in ("default", "model", "tuned")


def test_a_faulty_kernel_is_red(device: Any, tmp_path: Path) -> None:
    if device.profile.is_simulator:
        pytest.skip("a simulator is slow, and writes the log of one process")
    stage = part("b", "scan int32", "transpose float32")
    status, results = ran(tmp_path / "report.json", stage, command=seeded_faults.COMMAND.format(fault="wrong_sums"))
    assert status == 1
    assert results["b"]["scan int32"]["status"] == "failed"
    assert "elements are wrong, the first at" in results["b"]["scan int32"]["note"]
    assert results["b"]["transpose float32"]["status"] == "passed"


def test_a_speed_with_a_wrong_result_is_a_failure(device: Any) -> None:
    def not_transposed(x: Any) -> Any:
        return x

    checked_by(not_transposed, lambda x: [Expected(host(x).T.copy())])
    transpose = next(one for one in speeds.SPEEDS if one.name == "transpose")
    wrong = dataclasses.replace(transpose, shapes=lambda on_gpu: ((64, 64),), function=not_transposed)
    found = outcome(speeds._check_of(wrong), Context(device, 1.0))
    assert found["status"] == "failed" and "4032 of 4096 elements are wrong" in found["note"]


def test_an_endless_kernel_is_red_and_the_run_goes_on(device: Any, tmp_path: Path) -> None:
    needs.endless_loops(device)
    if device.profile.is_simulator:
        pytest.skip("a simulator is slow, and writes the log of one process")
    stages = (part("c", "permuted groups", limit=3.0), part("b", "transpose float32"))
    status, results = ran(tmp_path / "report.json", *stages, command=seeded_faults.COMMAND.format(fault="endless_scan"))
    assert status == 1
    assert results["c"]["permuted groups"]["note"] == "did not end within 3 s"
    assert results["b"]["transpose float32"]["status"] == "passed"


def test_the_command_reports_every_check_and_continues(device: Any, tmp_path: Path) -> None:
    """However many checks its time allows; the second run keeps their results."""
    path = tmp_path / "report.json"
    found: dict[str, Any] = {"results": {}}
    for minutes in ("0.2", "0.1"):
        done = CliRunner().invoke(main, ["verify", "--minutes", minutes, "--out", str(path)])
        assert done.exit_code in (0, 3), done.output
        before, found = found, load(path)
        for letter, checks in before["results"].items():
            for name, result in checks.items():
                assert result["status"] == "unfinished" or result == found["results"][letter][name]
        assert {letter: set(checks) for letter, checks in found["results"].items()} == {
            stage.letter: {check.name for check in stage.checks} for stage in STAGES
        }
    assert len(found["runs"]) == 2 and found["about"]["device"] == device.name
    other = tmp_path / "other.json"
    other.write_text(json.dumps({**found, "about": {**found["about"], "device": "another"}}))
    done = CliRunner().invoke(main, ["verify", "--compare", str(path), str(other)])
    assert done.exit_code == 0 and "speedup" in done.output
    done = CliRunner().invoke(main, ["verify", "--out", str(other)])
    assert done.exit_code == 2 and "is a report of another" in done.output


def test_wrong_options(tmp_path: Path) -> None:
    for words, reason in (
        (["--dry-run"], "--dry-run needs --use-pack"),
        (["--pack", "x", "--use-pack", "y"], "cannot be combined"),
        (["--minutes", "0"], "0"),
        (["--target", "sm_80"], "--target needs --pack"),
        (["--compare", str(tmp_path / "a.json"), str(tmp_path / "b.json")], "cannot be read"),
        (["--use-pack", str(tmp_path), "--dry-run"], "has no list of launches"),
    ):
        done = CliRunner().invoke(main, ["verify", *words])
        assert done.exit_code == 2 and reason in done.output, done.output
    said = CliRunner().invoke(main, ["verify", "--help"]).output
    assert all(f"({stage.letter}) {stage.title}" in said for stage in STAGES)
