"""Runs of toy checks: results, crashes, hangs, the end of the time, and how the next run continues."""

from __future__ import annotations

import dataclasses
import importlib.metadata as metadata
import json
import math
import os
import re
import signal
import subprocess
import time
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import toy_checks
from click.testing import CliRunner
from toy_checks import CLOSES_OUTPUT, COMMAND, HANGS, NEEDS_HEALTH, PASSES, POISONS, STAGES

from pydp.algorithms.discovery import algorithms
from pydp.algorithms.registry import Algorithm, alike
from pydp.cli import main, verify
from pydp.errors import InvalidArgument, NoUsableDevice, OutOfResources, UnsupportedOnDevice
from pydp.runtime.drivers import doctor
from pydp.runtime.drivers.interpreter import python_process
from pydp.tuning.reference import Expected, checked_by
from pydp.verify import run
from pydp.verify.check import Check, Context, Limit, NotApplicable, Stage, Wrong, outcome
from pydp.verify.report import MOST_ATTEMPTS, Report, load, locked
from pydp.verify.run import Run
from pydp.verify.stages import cases, facts, known_answers, model, speeds
from pydp.verify.stages.cases import ALGORITHMS, Call
from pydp.verify.stages.facts import versions
from pydp.verify.text import comparison, line, table

pytestmark = pytest.mark.host
ABOUT = {"device": "a toy", "driver": "1", "interface": "of toys", "pydp": "0"}
ARGUMENTS = {"uid": "", "number": 0, "pack": None}
LONG = 3600.0


def ran(
    path: Path, stages: tuple[Stage, ...] = STAGES, seconds: float = LONG, command: str = COMMAND
) -> tuple[int, list[str], dict[str, Any]]:
    """The exit status, the checks that ran, and the results in the file."""
    reported: list[str] = []

    def tell(stage: Stage, check: Check, result: dict[str, Any]) -> None:
        reported.append(f"{stage.letter} {check.name} {result['status']}")

    found = Run(Report(path, ABOUT), stages, seconds, ARGUMENTS, tell, command=command)
    if seconds < LONG:
        found._start(math.inf)  # its time is not part of the run
    status = found.run()
    return status, reported, load(path)["results"]


def test_faults_are_findings_and_the_run_goes_on(tmp_path: Path) -> None:
    path = tmp_path / "report.json"
    status, reported, results = ran(path)
    assert status == 1
    assert reported == [
        "a passes passed", "a lacks skipped",
        "b passes passed", "b fails failed", "b raises failed", "b crashes failed", "b lacks skipped",
        "c hangs failed", "c passes passed", "d passes passed",
    ]  # fmt: skip
    assert results["a"]["passes"]["figures"] == {"rate": 2.0, "unit": "GB/s"}
    assert results["a"]["lacks"]["note"] == "the device has no toys"
    assert results["b"]["fails"]["note"] == "1 instead of 2"
    assert results["b"]["raises"]["note"] == "ZeroDivisionError: division by zero"
    assert f"signal {signal.SIGABRT.value}" in results["b"]["crashes"]["note"]
    assert "Fatal Python error: Aborted" in results["b"]["crashes"]["note"]
    assert "in _crashes" in results["b"]["crashes"]["log"]
    assert results["c"]["hangs"]["note"] == "did not end within 1 s" and "in _hangs" in results["c"]["hangs"]["log"]
    again, reported, now = ran(path)
    assert again == 1 and reported == [
        "b fails failed", "b raises failed", "b crashes failed", "c hangs failed"
    ]  # fmt: skip
    for letter, checks in results.items():
        for name, before in checks.items():
            if before["status"] == "failed":
                assert now[letter][name].pop("earlier") == before
                assert now[letter][name]["note"] == before["note"]
            else:
                assert now[letter][name] == before
    assert len(load(path)["runs"]) == 2


def test_builds_do_not_count_towards_the_limit(tmp_path: Path) -> None:
    """A build takes longer than the limit; a check that does not end after its build has failed."""
    stage = Stage("e", "", 1.0, (toy_checks.BUILDS, toy_checks.BUILDS_AND_HANGS), decides=True, limit=0.5)
    _, reported, results = ran(tmp_path / "report.json", (stage, dataclasses.replace(STAGES[3], checks=())))
    assert reported == ["e builds passed", "e builds and hangs failed"]
    hangs = results["e"]["builds and hangs"]
    assert hangs["note"] == "did not end within 0.5 s" and "in _hangs" in hangs["log"].rpartition("Timeout")[2]


def test_the_time_of_a_check(monkeypatch: pytest.MonkeyPatch) -> None:
    """Builds may overlap; a build that does not end is stopped at the end of the time, which is no failure."""
    now = [0.0]
    monkeypatch.setattr("pydp.verify.check.time.monotonic", lambda: now[0])
    limit = Limit(5.0, 100.0)
    for at, change, left in ((2.0, 0, 3.0), (3.0, 1, 97.0), (10.0, 1, 90.0), (20.0, -1, 80.0), (30.0, -1, 2.0)):
        now[0] = at
        if change:
            limit.build(change)
        assert limit.left() == left and not limit.is_reached()
    now[0] = 32.0
    assert limit.left() == 0.0 and limit.is_reached()
    limit.build(1)
    now[0] = 101.0
    assert limit.left() == 0.0 and not limit.is_reached()


def test_a_check_does_not_start_shortly_before_the_end(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(run, "Worker", Fake)
    stage = Stage("b", "", 1.0, named("x"), decides=True)
    found = Run(Report(tmp_path / "r.json", ABOUT), (stage, STAGES[3]), LONG, ARGUMENTS, lambda *_: None)
    monkeypatch.setattr(run.time, "monotonic", lambda: 100.0)
    found._stage(stage, 101.5)
    assert found.report.result("b", "x")["note"] == "no time was left"
    found._stage(stage, 160.0)
    assert found.report.result("b", "x")["status"] == "passed"


def test_a_result_that_depends_on_peers_is_measured_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """With other peers; meanwhile the earlier result is kept."""
    assert {one.depends_on for one in speeds.CHECKS} == {facts.peers}
    monkeypatch.setattr(run, "Worker", Fake)
    path, installed = tmp_path / "r.json", ["torch 1"]
    (check,) = named("x")
    stages = (Stage("e", "", 1.0, (dataclasses.replace(check, depends_on=lambda: installed),)), STAGES[3])
    assert ran(path, stages)[1] == ["e x passed", "d passes passed"]
    assert ran(path, stages)[1] == []
    installed.append("cupy 2")
    report = Report(path, ABOUT)
    passed = report.result("e", "x")
    assert not report.is_final("e", "x", installed)
    report.begin("e", "x")  # and the process is gone
    assert line(load(path)["results"]["e"]["x"]) == "passed in an earlier run; running now"
    assert Report(path, ABOUT).result("e", "x") == passed | {"killed": 1}
    assert ran(path, stages)[1] == ["e x passed"]
    assert ran(path, stages)[1] == [] and "earlier" not in load(path)["results"]["e"]["x"]
    installed.append("torch 2")
    for killed in (1, 2, 3):  # with the new peers, the check takes the command with it each time
        Report(path, ABOUT).begin("e", "x")
        found = Report(path, ABOUT).result("e", "x")
        assert found["status"] == ("failed" if killed == 3 else "passed")
    assert found["note"].endswith("in each of 3 attempts")


def test_an_array_that_cannot_be_allocated_now_is_unfinished(monkeypatch: pytest.MonkeyPatch) -> None:
    def full(*_: object, **__: object) -> None:
        raise OutOfResources("no memory is left")

    monkeypatch.setattr(known_answers.pydp, "empty", full)
    device = SimpleNamespace(profile=SimpleNamespace(max_allocation=1 << 40))
    check = next(one for one in known_answers.CHECKS if one.name == "64-bit addresses")
    found = outcome(check, Context(device, 1.0), decides=True)
    assert found == {"status": "unfinished", "note": "the array cannot be allocated now: no memory is left"}


def test_numbers_that_are_not_finite_are_null(tmp_path: Path) -> None:
    path = tmp_path / "r.json"
    figures = {"rate": math.nan, "unit": "GB/s", "ratios": {"NumPy": math.inf}, "by stride": {"1": {
        "time": -math.inf, "degree": 1}}, "seconds": 1.5}  # fmt: skip
    Report(path, ABOUT).end("e", "x", {"status": "passed", "figures": figures}, 1.0)
    found = json.loads(path.read_text(), parse_constant=lambda word: pytest.fail(word))["results"]["e"]["x"]
    assert found["figures"] == {
        "rate": None, "unit": "GB/s", "ratios": {"NumPy": None}, "by stride": {"1": {"time": None, "degree": 1}},
        "seconds": 1.5,
    }  # fmt: skip
    assert line(found).startswith("? GB/s, ?x the speed of NumPy, time (") and line(found).endswith(" 1: ? (1)")
    assert Report(path, ABOUT).rates() == {} and shown(comparison(load(path), load(path)))[0][3] == ""


def test_two_runs_do_not_write_one_report(tmp_path: Path) -> None:
    path = tmp_path / "new" / "r.json"
    with locked(path):
        with locked(tmp_path / "new" / "other.json"):
            pass
        done = CliRunner().invoke(main, ["verify", "--out", str(path)])
        said = " ".join(done.output.split())
        assert done.exit_code == 2 and "r.json is in use by another `pydp verify`; wait until it has ended, or" in said
    with locked(path):
        pass
    assert os.name == "nt" or not list(path.parent.iterdir())


def test_peers_compute_without_tf32(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("CUPY_TF32", "NVIDIA_TF32_OVERRIDE", "CUPY_CACHE_DIR"):
        monkeypatch.setenv(name, "1")
    found = "json.dumps({'names': [one for one in os.environ if 'TF32' in one]})"
    worker = run.Worker({}, f"import os, json; print('pydp-answer:' + {found})")
    try:
        assert worker._answer(60.0) == {"names": []}
    finally:
        worker.kill()


def test_the_status_goes_by_the_stages_that_decide(tmp_path: Path) -> None:
    fails = Stage("a", "", 1.0, (toy_checks.FAILS,))
    passes = Stage("b", "", 0.0, (PASSES, toy_checks.LACKS), decides=True)
    report = Report(tmp_path / "one.json", ABOUT)
    report.end("a", "fails", {"status": "failed"}, 0)
    assert report.status((fails, passes)) == 3
    report.unfinished("b", "passes", "no time")
    report.end("b", "lacks", {"status": "skipped"}, 0)
    assert report.status((fails, passes)) == 3
    report.end("b", "passes", {"status": "passed"}, 0)
    assert report.status((fails, passes)) == 0
    report.end("b", "passes", {"status": "failed"}, 0)
    assert report.status((fails, passes)) == 1


def test_without_time_everything_is_left_for_the_next_run(tmp_path: Path) -> None:
    path = tmp_path / "report.json"
    status, reported, results = ran(path, seconds=1e-3)
    assert (status, reported) == (3, [])
    assert {one["status"] for checks in results.values() for one in checks.values()} == {"unfinished"}
    assert ran(path)[0] == 1


def test_checks_that_their_stage_had_no_time_for_run_after_all_stages(tmp_path: Path) -> None:
    stages = (Stage("a", "", 0.0, (PASSES,)), Stage("b", "", 1.0, (PASSES,), decides=True), STAGES[3])
    status, reported, results = ran(tmp_path / "report.json", stages)
    assert status == 0 and reported == ["b passes passed", "a passes passed", "d passes passed"]
    assert results["a"]["passes"]["status"] == "passed"


def test_the_end_of_the_time_ends_a_check_that_is_no_failure(tmp_path: Path) -> None:
    """The check hangs until the time is over: unfinished, not failed, and after a short time not retried last."""
    path = tmp_path / "report.json"
    for _ in range(2):
        status, _, results = ran(path, (Stage("c", "", 1.0, (HANGS,), decides=True, limit=LONG), STAGES[3]), 8.0)
        assert status == 3
        assert results["c"]["hangs"]["status"] == "unfinished" and "ran" not in results["c"]["hangs"]
        assert ": the time of the stage was over" in results["c"]["hangs"]["note"]


def test_a_crash_while_the_stacks_are_written_is_no_failure(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Also if the parent process continues only after the worker has written the stacks."""

    def late(limit: float, seconds: float) -> Limit:
        time.sleep(0.2)
        return Limit(limit, seconds)

    monkeypatch.setattr(run, "Limit", late)
    check = toy_checks.CRASHES_WRITING_STACKS
    stage = Stage("e", "", 1.0, (check,), decides=True, limit=100.0)
    status, _, results = ran(tmp_path / "time.json", (stage, STAGES[3]), 6.0)
    assert (status, results["e"][check.name]["status"]) == (3, "unfinished")
    status, _, results = ran(tmp_path / "limit.json", (dataclasses.replace(stage, limit=0.3), STAGES[3]))
    assert (status, results["e"][check.name]["note"]) == (1, "did not end within 0.3 s")


def test_a_check_without_an_end_needs_more_time_until_its_limit_has_passed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """From the second run on, it runs after the others. However often the time was too short, it has not failed."""
    monkeypatch.setattr(run, "_LONG_SECONDS", 0.0)
    monkeypatch.setattr(run, "_RESERVE", 0.0)
    path = tmp_path / "report.json"
    endless = Stage("c", "", 1.0, (HANGS,), decides=True, limit=100.0)
    assert ran(path, (endless, STAGES[3]), 3.0)[:2] == (3, ["c hangs unfinished"])
    stages = (endless, Stage("b", "", 0.0, (PASSES,), decides=True), STAGES[3])
    assert ran(path, stages, 3.0)[:2] == (3, ["b passes passed", "c hangs unfinished"])
    for _ in range(MOST_ATTEMPTS - 1):
        status, _, results = ran(path, stages, 3.0)
        assert (status, results["c"]["hangs"]["status"]) == (3, "unfinished")
        note = r"did not end in the \d s that were left; run the command again with --minutes 2 or more"
        assert re.fullmatch(note, line(results["c"]["hangs"]))
    stages = (dataclasses.replace(endless, limit=1.0), STAGES[3])
    status, _, results = ran(path, stages)
    assert (status, results["c"]["hangs"]["note"]) == (1, "did not end within 1 s")


def test_a_slow_check_passes_once_it_has_the_time(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "report.json"
    slow = Stage("e", "", 1.0, (toy_checks.IS_SLOW,), decides=True)
    report = Report(path, ABOUT)
    for _ in range(2 * MOST_ATTEMPTS):
        report.begin("e", "is slow")
        report.unfinished("e", "is slow", "did not end in the 1 s that were left", ran=1.0)
        report = Report(path, ABOUT)
        assert report.is_retried_last("e", "is slow")
    assert report.result("e", "is slow") == {
        "status": "unfinished", "note": "did not end in the 1 s that were left", "attempts": 0, "ran": 1.0
    }  # fmt: skip
    status, reported, results = ran(path, (slow, STAGES[3]))
    assert (status, reported[0]) == (0, "e is slow passed")
    assert "earlier" not in results["e"]["is slow"] and line(results["e"]["is slow"]) == ""


def test_a_failed_check_runs_again_and_its_failure_is_kept(tmp_path: Path) -> None:
    path = tmp_path / "report.json"
    failed = {"status": "failed", "note": "1 instead of 2", "attempts": 1, "seconds": 0.0}

    def failing() -> Report:
        report = Report(path, ABOUT, again=path.exists())
        report.begin("b", "passes")
        report.end("b", "passes", {"status": "failed", "note": "1 instead of 2"}, 0)
        assert report.is_final("b", "passes")
        return Report(path, ABOUT)

    report = failing()
    assert not report.is_final("b", "passes")
    report.unfinished("b", "passes", "no time")
    assert report.result("b", "passes") == failed
    report.begin("b", "passes")
    assert report.unfinished("b", "passes", "the time was over") == failed
    report.begin("b", "passes")  # and the process is gone
    assert Report(path, ABOUT).result("b", "passes") == failed | {"killed": 1}
    for _ in range(2):
        Report(path, ABOUT).begin("b", "passes")
    killed = Report(path, ABOUT).result("b", "passes")
    assert killed["note"].endswith("in each of 3 attempts") and killed["earlier"] == failed
    Report(path, ABOUT).begin("b", "passes")
    killed = Report(path, ABOUT).result("b", "passes")
    assert killed["note"].endswith("in each of 4 attempts") and killed["earlier"] == failed
    report = Report(path, ABOUT)
    report.begin("b", "passes")
    report.end("b", "passes", {"status": "passed"}, 0)
    assert report.result("b", "passes")["earlier"] == failed
    failing()
    status, reported, results = ran(path, (Stage("b", "", 1.0, (PASSES,), decides=True), STAGES[3]))
    assert (status, reported[0]) == (0, "b passes passed")
    assert results["b"]["passes"]["earlier"] == failed
    assert line(results["b"]["passes"]) == "failed in an earlier run (1 instead of 2); passed now: 2 GB/s"


def test_a_check_whose_command_is_always_killed_has_failed(tmp_path: Path) -> None:
    path = tmp_path / "report.json"
    for attempt in range(1, MOST_ATTEMPTS + 1):
        report = Report(path, ABOUT)
        report.begin("b", "passes")  # and the process is gone
        assert load(path)["results"]["b"]["passes"] == {"status": "running", "attempts": attempt}
    found = Report(path, ABOUT).result("b", "passes")
    assert found["status"] == "failed"
    assert found["note"] == "the command was killed while this check ran, in each of 3 attempts"


def test_a_killed_run_leaves_a_whole_file_and_the_next_one_continues(tmp_path: Path) -> None:
    """The process is killed after its first, second, ... check; its worker then ends too."""
    path = tmp_path / "report.json"
    program = f"""
from pathlib import Path
from test_verify_run import *
def tell(stage, check, result):
    print(stage.letter, check.name, flush=True)
Run(Report(Path({str(path)!r}), ABOUT), (STAGES[0], STAGES[1], STAGES[3]), LONG, ARGUMENTS, tell, command=COMMAND).run()
"""
    final = -1
    for lines in range(1, 10):
        command, environment = python_process(program)
        process = subprocess.Popen(command, env=environment, stdout=subprocess.PIPE, text=True)
        assert process.stdout is not None
        for _ in range(lines):
            process.stdout.readline()
        process.send_signal(signal.SIGKILL)
        process.wait()
        process.stdout.close()
        statuses = [one["status"] for checks in load(path)["results"].values() for one in checks.values()]
        now = sum(one in ("passed", "failed", "skipped") for one in statuses)
        assert now >= final
        final = now
        if now == 8:
            break
    assert final == 8 and set(statuses) == {"passed", "failed", "skipped"}


class Fake:
    """A worker without a process: the checks whose names begin with "endless" have no end."""

    began = 0.0

    def __init__(self, *_: Any) -> None:
        pass

    def ready(self, seconds: float) -> None:
        """It accepts checks."""

    def run(self, stage: str, check: str, limit: float, seconds: float, rates: Any) -> dict[str, Any]:
        if check.startswith("endless"):
            raise run.NoEnd
        return {"status": "passed", "figures": {}}

    def log(self) -> str:
        return "a log"

    def kill(self) -> None:
        """Nothing runs."""


def named(*names: str, group: str = "") -> tuple[Check, ...]:
    return tuple(Check(name, lambda context: {}, limit=5.0, group=group) for name in names)


def test_after_a_check_without_an_end_its_group_runs_last(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """In the next run, too: its other checks may have no end either."""
    monkeypatch.setattr(run, "Worker", Fake)
    waiting = named("endless 1", "endless 2", "w", group="look-back")
    stages = (Stage("b", "", 0.5, (*waiting, *named("x")), decides=True), Stage("d", "", 0.5, named("y")), STAGES[3])
    first = ["b endless 1 failed", "b x passed", "d y passed", "b endless 2 failed", "b w passed", "d passes passed"]
    status, reported, results = ran(tmp_path / "r.json", stages)
    assert (status, reported) == (1, first)
    found = results["b"]["endless 1"]
    assert (found["note"], found["log"], found["ran"]) == ("did not end within 5 s", "a log", 5.0)
    report = Report(tmp_path / "2.json", ABOUT)
    report.begin("b", "endless 1")
    report.end("b", "endless 1", {"status": "failed", "ran": 5.0}, 5.0)
    assert ran(tmp_path / "2.json", stages)[1][:3] == ["b x passed", "d y passed", "b endless 1 failed"]


def test_unfinished_checks_that_decide_run_before_the_other_stages(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(run, "Worker", Fake)
    stages = (
        Stage("b", "", 0.0, named("x"), decides=True), Stage("c", "", 0.5, named("y"), decides=True),
        Stage("d", "", 0.5, named("z")), STAGES[3],
    )  # fmt: skip
    assert ran(tmp_path / "r.json", stages)[1] == ["c y passed", "b x passed", "d z passed", "d passes passed"]


@pytest.mark.parametrize(("given", "how"), [(60, " with --minutes 3 or more"), (175, ""), (400, "")])
def test_a_run_that_was_long_enough_is_repeated_as_it_was(tmp_path: Path, given: float, how: str) -> None:
    stage = Stage("a", "", 1.0, (PASSES,), limit=120.0)
    found = Run(Report(tmp_path / "r.json", ABOUT), (stage,), given, ARGUMENTS, lambda *_: None)
    found._ended(stage, PASSES, 13.0, "a log")
    result = found.report.result("a", "passes")
    note = f"did not end in the 13 s that were left; run the command again{how}"
    assert result["note"] == note and result["log"] == "a log"


def test_every_algorithm_has_a_case_and_one_of_each_comes_first() -> None:
    tested = [cases.algorithm_of(name) for name in ALGORITHMS]
    assert set(tested) >= set(algorithms())
    assert len(set(tested[: len(set(tested))])) == len(set(tested))
    assert set(tested) >= cases._LOOK_BACK
    profile: Any = SimpleNamespace(fp16=True, fp64=True)
    for name in set(ALGORITHMS) - set(cases._OWN):  # by their declarations
        assert ALGORITHMS[name](profile).want, name


@pytest.mark.parametrize("name", sorted(set(ALGORITHMS) - {"all int32"}))  # its one result is meant to be False
def test_memory_that_was_never_written_is_not_a_right_result(name: str) -> None:
    call = ALGORITHMS[name](SimpleNamespace(fp16=True, fp64=True, kind="cpu", loop_limit=None))
    with pytest.raises(Wrong):
        call.compare([np.zeros_like(one.values) for one in call.want])


def test_declarations_without_operands_or_references() -> None:
    def nothing(size: int = 5) -> Any:
        return None

    def negate(x: np.ndarray, device: Any) -> None:
        x[...] = -x

    profile: Any = SimpleNamespace(fp16=True, fp64=True)
    declared = Algorithm(nothing, None, lambda: None, ("9",), alike(0), operands=0)
    with pytest.raises(NotApplicable, match="NumPy has no function with the results of nothing"):
        cases._declared(declared)(profile)
    checked_by(negate, lambda x: [Expected(-x)])
    call = cases._declared(Algorithm(negate, None, None, ("30000",)))(profile)
    assert call.args[0].shape == (10_007,) and call.args[0].any()
    call.check(None)  # compares the first argument
    checked_by(negate, lambda x: [Expected(x)])
    with pytest.raises(Wrong, match="elements are wrong"):
        cases._declared(Algorithm(negate, None, None, ("30000",)))(profile).check(None)


def test_only_the_device_under_test_is_probed_again(monkeypatch: pytest.MonkeyPatch) -> None:
    listed = [SimpleNamespace(name=name, kind="cpu", platform="P", driver_version="1", quirks=SimpleNamespace(rows=()))
              for name in "xyz"]  # fmt: skip
    probed: list[str] = []
    monkeypatch.setattr(doctor, "all_devices", lambda: listed)
    monkeypatch.setattr(doctor.probe, "ask_again", lambda one: probed.append(one.name))
    found = [one.text for one in doctor.examine(listed[1])]
    assert probed == ["y"] and "usable: y (cpu) on P 1" in found and "not probed: z (cpu) on P 1" in found


def test_the_last_line_counts_failures_of_earlier_runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "report.json"
    report = Report(path, ABOUT)
    for name, status, note in (
        ("x", "failed", "1 instead of 2"), ("y", "passed", ""), ("z", "skipped", "the device has no float64"),
        ("u", "skipped", "not in the pack: it has no kernels there"),
    ):  # fmt: skip
        report.begin("b", name)
        report.end("b", name, {"status": status, "note": note}, 0)

    def run_again(self: Run) -> int:
        self.report.begin("b", "x")
        self.report.end("b", "x", {"status": "passed", "figures": {}}, 0)
        return 0

    monkeypatch.setattr("pydp.verify.about.about", lambda *_: ({}, dict(ABOUT)))
    monkeypatch.setattr(Run, "run", run_again)
    done = CliRunner().invoke(main, ["verify", "--out", str(path)])
    said = (
        "all checks of (b) and (c) passed, except 1 that do not apply to this device and 1 that are not in the pack; "
        "1 failed in an earlier run;"
    )
    assert done.exit_code == 0 and said in done.output, done.output
    assert "failed in an earlier run (1 instead of 2); passed now" in " ".join(done.output.replace("│", " ").split())


def test_a_cache_folder_that_cannot_be_written(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "file").write_text("")
    monkeypatch.setenv("PYDP_CACHE_DIR", str(tmp_path / "file" / "cache"))
    monkeypatch.delenv("POCL_CACHE_DIR", raising=False)
    with verify._writable_caches() as note:
        own = {name: os.environ[name] for name in ("PYDP_CACHE_DIR", "POCL_CACHE_DIR")}
        assert note == f"the cache folder {tmp_path}/file/cache is not writable; the run uses a temporary one"
        assert own["PYDP_CACHE_DIR"] != own["POCL_CACHE_DIR"] and Path(own["PYDP_CACHE_DIR"]).parent.is_dir()
    assert os.environ["PYDP_CACHE_DIR"] == str(tmp_path / "file" / "cache") and "POCL_CACHE_DIR" not in os.environ
    monkeypatch.setenv("PYDP_CACHE_DIR", str(tmp_path / "cache"))
    with verify._writable_caches() as note:
        assert note == "" and os.environ["PYDP_CACHE_DIR"] == str(tmp_path / "cache")


def test_without_a_usable_device_the_report_says_why(tmp_path: Path) -> None:
    path = tmp_path / "report.json"
    done = CliRunner().invoke(main, ["verify", "--device", "no such device", "--out", str(path)])
    assert done.exit_code == 2 and f"the report is in {path}" in " ".join(done.output.split())
    found = load(path)
    assert (found["about"]["device"], found["about"]["interface"]) == ("no such device", "none")
    result = found["results"]["a"]["usable device"]
    assert result["status"] == "failed" and "no such device" in result["note"]
    assert {"versions", "OpenCL", "doctor"} <= set(result["figures"]) and result["figures"]["doctor"]
    assert Report(path, ABOUT).results == {}  # replaced without --again


def test_a_report_of_a_device_is_not_replaced_by_a_reason(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "report.json"
    Report(path, ABOUT)
    monkeypatch.setattr("pydp.verify.about.about", lambda *_: (_ for _ in ()).throw(NoUsableDevice("none")))
    done = CliRunner().invoke(main, ["verify", "--out", str(path)])
    said = " ".join(done.output.split())
    assert done.exit_code == 2 and "none; no report was written:" in said and "Choose another --out, or" in said
    assert load(path)["about"] == ABOUT


def test_all_targets_of_a_pack_are_compiled(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("pydp.verify.pack.make.make", lambda folder, target: [("x", "failed", "spills")])
    done = CliRunner().invoke(main, ["verify", "--pack", str(tmp_path)])
    assert done.exit_code == 1 and "sm_80: compiled into" in done.output and "sm_90: compiled into" in done.output


@pytest.mark.parametrize("option", [["--again"], ["--minutes", "3"], ["--device", "x"], ["--out", "x.json"]])
@pytest.mark.parametrize("mode", [["--compare", "a.json", "b.json"], ["--pack", "x"], ["--dry-run", "--use-pack", "x"]])
def test_options_of_a_run_are_refused_where_nothing_runs(mode: list[str], option: list[str]) -> None:
    done = CliRunner().invoke(main, ["verify", *mode, *option])
    said = f"{option[0]} does not apply to {mode[0]}, which runs nothing"
    if "--use-pack" in mode and "--device" in option:
        said = "--device is 'x', but --use-pack runs on CUDA's first GPU"
    assert done.exit_code == 2 and said in " ".join(done.output.replace("│", " ").split())


def test_a_failed_check_does_not_spoil_the_next(tmp_path: Path) -> None:
    stages = (Stage("e", "", 1.0, (POISONS, NEEDS_HEALTH), decides=True), STAGES[3])
    assert ran(tmp_path / "report.json", stages)[1][:2] == ["e poisons failed", "e needs health passed"]


def test_a_worker_that_closes_its_output_without_ending(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(run, "_EXIT_SECONDS", 0.2)
    stages = (Stage("e", "", 1.0, (CLOSES_OUTPUT, NEEDS_HEALTH)), STAGES[3])
    results = ran(tmp_path / "report.json", stages)[2]
    assert "closed output, but is still running" in results["e"]["closes output"]["note"]
    assert results["e"]["needs health"]["status"] == "passed"


def test_a_worker_that_starts_slowly_goes_on_starting_for_the_next_stage(tmp_path: Path) -> None:
    stages = (Stage("a", "", 1e-9, (PASSES,)), Stage("b", "", 1.0, (PASSES,), decides=True), STAGES[3])
    found = Run(Report(tmp_path / "r.json", ABOUT), stages, LONG, ARGUMENTS, lambda *_: None, command=COMMAND)
    found._check(stages[0], PASSES, 0.0)  # its deadline has passed
    assert "did not start within 0 s" in found.report.result("a", "passes")["note"]
    starting = found._worker
    assert starting is not None and found.run() == 0
    assert found._worker is starting


def test_a_worker_that_does_not_start_leaves_its_checks(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "report.json"
    stages = (Stage("b", "", 1.0, (PASSES, toy_checks.LACKS, toy_checks.FAILS), decides=True), STAGES[3])
    status, _, results = ran(path, stages, command="import sys; sys.exit('there is no driver')")
    assert status == 3
    assert {one["status"] for checks in results.values() for one in checks.values()} == {"unfinished"}
    assert results["b"]["passes"].get("attempts", 0) == 0
    assert "failed to start 2 times in a row" in results["b"]["fails"]["note"]
    monkeypatch.setattr(run, "_MOST_STARTS", 99)
    results = ran(path, stages, command="import sys; sys.exit('there is no driver')")[2]
    assert "ended with status 1: there is no driver" in results["b"]["passes"]["note"]
    monkeypatch.setattr(run, "_START_SECONDS", 0.2)
    results = ran(path, stages, command="import time; time.sleep(60)")[2]
    assert results["b"]["passes"]["note"] == "the process of the checks did not start within 0 s"


@pytest.mark.parametrize("name", ["scan float16", "matmul float16"])
def test_zeros_are_not_the_result_of_float16(name: str) -> None:
    call = ALGORITHMS[name](SimpleNamespace(fp16=True, fp64=True))  # type: ignore[arg-type]
    call.compare([one.values for one in call.want])
    with pytest.raises(Wrong, match="elements are wrong"):
        call.compare([np.zeros_like(one.values) for one in call.want])
    one = call.want[0].values.copy()
    one.flat[np.flatnonzero(one == 1)[0]] = 0
    with pytest.raises(Wrong, match=r"1 of [0-9]+ elements are wrong"):
        call.compare([one])


def test_only_a_refusal_by_design_does_not_apply() -> None:
    def refuses(*_: object, **__: object) -> None:
        raise UnsupportedOnDevice("the device cannot")

    def found(decides: bool, may_refuse: bool = False) -> Any:
        call = Call(refuses, (), [], may_refuse=may_refuse)
        return outcome(Check("x", lambda context: call.check(None) or {}), Context(None, 1.0), decides)["status"]

    assert (found(True), found(False), found(True, may_refuse=True)) == ("failed", "skipped", "skipped")


def test_operations_that_only_store_float16() -> None:
    """NVIDIA's driver has no float16 for calculations."""
    profile: Any = SimpleNamespace(fp16=False, fp64=True)
    assert ALGORITHMS["matmul float16"](profile).want
    hgemm = next(one for one in speeds.SPEEDS if one.name == "hgemm")
    assert speeds.arrays_of(hgemm, SimpleNamespace(profile=profile, kind="cpu"))[0].dtype == np.float16
    with pytest.raises(NotApplicable, match="the device has no float16"):
        ALGORITHMS["scan float16"](profile)


def test_too_few_candidates_of_the_model(monkeypatch: pytest.MonkeyPatch) -> None:
    from pydp.bench import bench_specializations, specialization_cases

    monkeypatch.setattr(specialization_cases, "wanted", lambda *_: [("matmul float32 square 256", lambda name: name)])
    monkeypatch.setattr(bench_specializations, "sampled", lambda *_: SimpleNamespace(specs=["one"]))
    found = outcome(model.CHECKS[0], Context(SimpleNamespace(kind="cpu"), 1.0))
    said = "only 1 candidate was measured before time ran out; at least 3 are needed"
    assert found == {"status": "unfinished", "note": said}


def test_a_missing_case_of_the_model_does_not_apply(monkeypatch: pytest.MonkeyPatch) -> None:
    from pydp.bench import specialization_cases

    monkeypatch.setattr(specialization_cases, "wanted", lambda device, families: [])
    found = outcome(model.CHECKS[0], Context(SimpleNamespace(kind="cpu"), 1.0))
    assert found["status"] == "skipped" and found["note"].startswith("there is no case 'matmul float32")


def shown(table: Any) -> list[list[str]]:
    """The cells of a rich table, by row."""
    return [list(row) for row in zip(*([str(cell) for cell in column.cells] for column in table.columns), strict=True)]


def test_checks_with_equal_results_share_a_row() -> None:
    left = {"status": "unfinished", "note": "no time was left"}
    banks = {"1": {"time": 1.0, "degree": 1}, "32": {"time": 9.5, "degree": 32}}
    results = {
        "b": {"x": {"status": "passed", "figures": {}}, "y": left, "z": left},
        "c": {f"c{at}": left for at in range(7)},
        "d": {"banks": {"status": "passed", "figures": {"by stride": banks}}},
        "g": {"y": left},
    }
    assert shown(table({"results": results})) == [
        ["(b) y; z", "unfinished", "no time was left"],
        ["(c) 7 checks: c0 ... c6", "unfinished", "no time was left"],
        ["(d) banks", "passed", "time (conflict degree of the model) by stride: 1: 1.00 (1), 32: 9.50 (32)"],
        ["(g) y", "unfinished", "no time was left"],
    ]


def test_rates_times_and_strides_of_two_reports_are_compared() -> None:
    def report(factor: float) -> dict[str, Any]:
        figures: dict[str, Any] = {
            "rate": {"rate": 10.0 * factor, "unit": "GB/s"},
            "launch": {"one at a time (us)": 20.0 * factor, "back to back (us)": 3.0 / factor},
            "banks": {"by stride": {"1": {"time": 1.0, "degree": 1}, "2": {"time": factor, "degree": 2}}},
            "nothing": {"rate": 0.0, "unit": "GB/s"},
            "sgemm": {"rate": 1.0, "unit": "GFLOP/s", "size": f"({factor},)"},
            "model": {"case": "x", "Spearman": factor / 4, "pick/best": 1.5},
            "tuned": {"case": "x", "time/untuned": 0.5 * factor},
        }
        passed = {name: {"status": "passed", "figures": one} for name, one in figures.items()}
        return {"about": ABOUT, "results": {"d": passed}}

    cells = {row[0]: row[3] for row in shown(comparison(report(1.0), report(2.0)))}
    assert cells == {
        "(d) rate": "2.00", "(d) launch": "one at a time (us): 0.50, back to back (us): 2.00",
        "(d) banks": "1: 1.00, 2: 0.50", "(d) nothing": "", "(d) sgemm": "sizes differ: (1.0,) and (2.0,)",
        "(d) model": "Spearman: 0.25 and 0.5, pick/best: 1.5 and 1.5", "(d) tuned": "time/untuned: 0.5 and 1.0",
    }  # fmt: skip


def test_versions_of_the_libraries_that_matter(monkeypatch: pytest.MonkeyPatch) -> None:
    def version(package: str) -> str:
        if package in ("numpy", "cuda-bindings"):
            return f"{package} 1"
        raise metadata.PackageNotFoundError

    monkeypatch.setattr(metadata, "version", version)
    found = versions()
    assert list(found) == ["python", "system", "numpy", "cuda-bindings"]
    assert found["cuda-bindings"] == "cuda-bindings 1"


def test_a_time_that_is_no_number() -> None:
    done = CliRunner().invoke(main, ["verify", "--minutes", "nan"])
    assert done.exit_code == 2 and "--minutes is nan; a finite number is accepted" in done.output


def test_a_worker_ends_with_the_process_that_started_it() -> None:
    command, environment = python_process(COMMAND, json.dumps(ARGUMENTS))
    reading, writing = os.pipe()
    process = subprocess.Popen(command, env=environment, stdin=reading, stdout=subprocess.PIPE, text=True)
    os.close(reading)
    assert process.stdout is not None
    os.write(writing, b'{"stage": "c", "check": "hangs", "limit": 1, "seconds": 1}\n')
    os.close(writing)
    assert process.wait(300) == 0
    process.stdout.close()


def test_a_file_belongs_to_one_device(tmp_path: Path) -> None:
    path = tmp_path / "report.json"
    Report(path, ABOUT).end("a", "passes", {"status": "passed"}, 1.0)
    with pytest.raises(InvalidArgument, match="is a report of a toy, 1, of toys, pydp 0, not of another"):
        Report(path, {**ABOUT, "device": "another"})
    assert Report(path, {**ABOUT, "device": "another"}, again=True).results == {}


@pytest.mark.parametrize(
    "text",
    [
        "", "[]", '{"schema": "pydp-verify-1"}', '{"schema": "x", "about": {}, "results": {}}',
        *(
            json.dumps({"schema": "pydp-verify-1", "about": {}, "runs": [], "results": {"e": {"x": one}}})
            for one in (
                {"status": "passed", "figures": None}, {"status": "failed", "note": "x", "figures": None},
                {"status": "passed", "figures": {"rate": "x"}}, {"status": "passed", "figures": {"ratios": None}},
                {"status": "passed", "earlier": None}, {"status": "unfinished", "attempts": "x"},
            )
        ),
    ],
)  # fmt: skip
def test_other_files_are_refused(text: str, tmp_path: Path) -> None:
    path = tmp_path / "other.json"
    path.write_text(text)
    with pytest.raises(InvalidArgument, match=r"other.json is not of the form pydp-verify-1; a report of pydp verify"):
        Report(path, ABOUT)
    with pytest.raises(InvalidArgument, match="is not of the form"):  # --again replaces reports only
        Report(path, ABOUT, again=True)
    assert path.read_text() == text


def test_a_place_that_cannot_be_written(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(InvalidArgument, match="cannot be written"):
        Report(tmp_path / "file" / "report.json", ABOUT)
    with pytest.raises(InvalidArgument, match="cannot be read"):
        load(tmp_path / "missing.json")
