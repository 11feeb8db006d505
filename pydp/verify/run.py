"""Run the stages in order, each check in the worker process under a watchdog, and record every step in the report.

A check that takes longer than its limit has failed: the worker is killed, and a new one goes on with the next check. A
crash of the worker is a failed check in the same way. The seconds in which kernels are built do not count towards the
limit, unless the driver compiles a kernel only when it is launched, as PoCL does. When the time of the stage is over,
the running check is ended and recorded as unfinished. Unfinished checks run again when all stages have had their time,
and in the next run with the same file; those that decide the exit status also directly after the stages that decide.
Checks that failed before, or had no end within _LONG_SECONDS, run after the others, and so do the checks of the same
group: endless ones must not take the others' time.
"""

from __future__ import annotations

import contextlib
import json
import math
import os
import queue
import subprocess
import tempfile
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import IO, Any

from pydp.runtime.drivers.interpreter import answer_of, end, python_process
from pydp.verify.check import Check, Limit, Stage
from pydp.verify.report import Report

COMMAND = "from pydp.verify.worker import main; main()"
_EXIT_SECONDS = 5.0
_START_SECONDS = 180.0  # seconds to import pydp, list the devices and probe one
_MOST_STARTS = 2  # failed starts in a row
_START_AND_END = 20.0  # seconds of a run that has one check left, beside the check
_RESERVE = 5.0  # seconds of the whole time for what comes before and after the stages
_NO_TIME = "no time was left"
_LONG_SECONDS = 10.0  # most checks need less
_TF32 = ("CUPY_TF32", "NVIDIA_TF32_OVERRIDE")  # change the products that peers compute
_MOST_LOG = 4000  # characters of the standard error of the worker that a report keeps


class Ended(Exception):
    """The worker has ended or was killed; the message says why."""


class NoEnd(Exception):
    """A check took longer than its limit."""


class NotStarted(Exception):
    """The worker does not accept checks; the message says why."""


class Worker:
    """One process that runs checks. command: Python code, so that tests can replace it. began: when it was started."""

    def __init__(self, arguments: dict[str, Any], command: str = COMMAND) -> None:
        self._errors: IO[bytes] = tempfile.TemporaryFile()  # noqa: SIM115 (it lives as long as the process)
        words, environment = python_process(command, json.dumps(arguments))
        for name in _TF32:
            environment.pop(name, None)
        self.began = time.monotonic()
        self._process = subprocess.Popen(
            words, env=environment, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=self._errors, text=True,
            errors="replace",
        )  # fmt: skip
        self._answers: queue.Queue[dict[str, Any] | None] = queue.Queue()
        self._listener = threading.Thread(target=self._listen, daemon=True)
        self._listener.start()
        self._ready = False

    def _listen(self) -> None:
        assert self._process.stdout is not None
        with self._process.stdout as lines:
            for line in lines:
                if (answer := answer_of(line)) is not None:
                    self._answers.put(answer)
        self._answers.put(None)

    def ready(self, seconds: float) -> None:
        """Wait until it accepts checks. Raises NotStarted if it ends before, TimeoutError if it takes longer."""
        if not self._ready:
            try:
                self._answer(seconds)
            except Ended as error:
                raise NotStarted(str(error)) from None
            self._ready = True

    def run(self, stage: str, check: str, limit: float, seconds: float, rates: dict[str, float]) -> dict[str, Any]:
        """The result of a check.

        Raises Ended if the process ends, NoEnd if the check takes longer than `limit` without builds, and TimeoutError
        if it takes longer than `seconds`.
        """
        assert self._process.stdin is not None
        request = {"stage": stage, "check": check, "limit": limit, "seconds": seconds, "rates": rates}
        written = os.fstat(self._errors.fileno()).st_size  # before the check can write
        try:
            self._process.stdin.write(json.dumps(request) + "\n")
            self._process.stdin.flush()
        except OSError:
            raise Ended(self._why()) from None
        time_left = Limit(limit, seconds)
        while True:
            try:
                found = self._answer(time_left.left())
            except (TimeoutError, Ended) as error:
                if isinstance(error, Ended):
                    if not self._wrote_stacks(written):
                        raise
                    time.sleep(min(1.0, time_left.left()))
                if time_left.is_reached():
                    raise NoEnd from None
                raise TimeoutError from None
            if "build" not in found:
                return found
            time_left.build(found["build"])

    def _answer(self, seconds: float) -> dict[str, Any]:
        try:
            found = self._answers.get(timeout=seconds)
        except queue.Empty:
            raise TimeoutError from None
        if found is None:
            raise Ended(self._why())
        return found

    def _wrote_stacks(self, written: int) -> bool:
        """Whether the worker wrote its stacks after so many bytes of its log, as it does before its check is ended.
        This may end it: Python reads the frames of threads that run. The check did not crash then."""
        self._errors.seek(written)
        return b"Timeout (" in self._errors.read()

    def _why(self) -> str:
        try:  # its output ends before a driver has released the device, which may take forever
            code = self._process.wait(_EXIT_SECONDS)
            how = f"signal {-code}" if code < 0 else f"status {code}"
        except subprocess.TimeoutExpired:
            how = "closed output, but is still running"
        lines = self.log().splitlines() or ["no output"]
        said = next((line for line in lines if "error" in line.lower()), lines[-1])
        return f"the process of the checks ended with {how}: {said[:400]}"

    def log(self) -> str:
        """The end of the text that the process wrote to its standard error."""
        self._errors.seek(0)
        return self._errors.read().decode(errors="replace").strip()[-_MOST_LOG:]

    def kill(self) -> None:
        """End the process."""
        end(self._process, _EXIT_SECONDS)
        self._listener.join(_EXIT_SECONDS)
        for stream in (self._process.stdin, self._errors):
            with contextlib.suppress(OSError):
                assert stream is not None
                stream.close()


@dataclass
class Run:
    """One run of the stages on one device, for at most `seconds`.

    arguments: of the worker (see :mod:`pydp.verify.worker`). on_result: called with the stage, the check and its
    result after each check. command: of the worker.
    """

    report: Report
    stages: tuple[Stage, ...]
    seconds: float
    arguments: dict[str, Any]
    on_result: Callable[[Stage, Check, dict[str, Any]], None]
    command: str = COMMAND
    _worker: Worker | None = None
    _starts_failed: int = 0  # in a row

    def run(self) -> int:
        """Run every check that has no final result yet; return the exit status."""
        self._began = time.monotonic()
        self._end = self._began + self.seconds - _RESERVE
        *early, last = self.stages
        try:
            deadline = self._began
            for at, stage in enumerate(early):
                deadline += stage.share * self.seconds
                self._stage(stage, min(deadline, self._end))
                if stage.decides and not any(one.decides for one in early[at + 1 :]):
                    self._decide(early[: at + 1])
                    deadline = max(deadline, time.monotonic())  # the other stages keep their shares
            for stage in early:  # checks that their stage had no time for
                self._stage(stage, self._end)
            for stage in early:
                self._stage(stage, self._end, retried_last=True)
            for retried_last in (False, True):
                self._stage(last, self._end, retried_last)
        finally:
            if self._worker is not None:
                self._worker.kill()
            self.report.runs[-1]["seconds"] = round(time.monotonic() - self._began, 1)
            self.report.write()
        return self.report.status(self.stages)

    def _decide(self, stages: list[Stage]) -> None:
        """Run the unfinished checks that decide the exit status, in at most half of the time that is left."""
        now = time.monotonic()
        for stage in stages:
            if stage.decides:
                self._stage(stage, now + (self._end - now) / 2)

    def _stage(self, stage: Stage, deadline: float, retried_last: bool = False) -> None:
        """Run the checks of a stage that have no final result; those that may not end only with `retried_last`."""
        for check in stage.checks:
            name = (stage.letter, check.name)
            if self.report.is_final(*name, check.depends_on()):
                continue
            turn = retried_last or not self._is_retried_last(stage, check)
            if turn and deadline - time.monotonic() > check.least:
                self._check(stage, check, deadline)
            elif not self.report.result(*name):
                self.report.unfinished(*name, _NO_TIME)

    def _is_retried_last(self, stage: Stage, check: Check) -> bool:
        """Whether an earlier result of the check, or of a check in its group, says that it may not end."""
        group = [one for one in stage.checks if check.group and one.group == check.group]
        return self.report.is_retried_last(stage.letter, check.name) or any(
            self.report.has_no_end(stage.letter, one.name) for one in group
        )

    def _start(self, deadline: float) -> None:
        """Have a worker that accepts checks. Raises NotStarted; after some failures in a row, without another try."""
        if self._starts_failed == _MOST_STARTS:
            raise NotStarted(f"the process of the checks failed to start {_MOST_STARTS} times in a row")
        if self._worker is None:
            self._worker = Worker(self.arguments, self.command)
        end = self._worker.began + _START_SECONDS
        try:
            self._worker.ready(max(0.0, min(end, deadline) - time.monotonic()))
        except TimeoutError:
            spent = time.monotonic() - self._worker.began
            if end <= deadline:  # else it goes on starting, for the next stage
                self._starts_failed += 1
                self._drop()
            raise NotStarted(f"the process of the checks did not start within {spent:.0f} s") from None
        except NotStarted:
            self._starts_failed += 1
            self._drop()
            raise
        self._starts_failed = 0

    def _check(self, stage: Stage, check: Check, deadline: float) -> None:
        """Run one check and record its result."""
        began = time.monotonic()
        try:
            self._start(deadline)
            assert self._worker is not None
            self.report.begin(stage.letter, check.name)
            began = time.monotonic()
            limit = min(stage.limit, check.limit)
            result = self._worker.run(stage.letter, check.name, limit, max(0.0, deadline - began), self.report.rates())
            if result["status"] == "unfinished":
                self._unfinished(stage, check, result["note"])
                return
            if result["status"] == "failed":  # a fault can leave the driver's context unusable for all later checks
                self._drop()
        except NotStarted as error:
            self._unfinished(stage, check, str(error))
            return
        except TimeoutError:
            self._ended(stage, check, time.monotonic() - began, self._drop())
            return
        except NoEnd:
            result = {"status": "failed", "note": f"did not end within {limit:g} s", "ran": limit, "log": self._drop()}
        except Ended as error:
            result = {"status": "failed", "note": str(error), "log": self._drop()}
        except KeyboardInterrupt:
            self.report.unfinished(stage.letter, check.name, "interrupted")
            raise
        self.report.end(stage.letter, check.name, result, time.monotonic() - began, check.depends_on())
        self.on_result(stage, check, result)

    def _unfinished(self, stage: Stage, check: Check, note: str, **evidence: Any) -> None:
        self.on_result(stage, check, self.report.unfinished(stage.letter, check.name, note, **evidence))

    def _ended(self, stage: Stage, check: Check, seconds: float, log: str) -> None:
        """Record a check that had not ended when the time was over, after `seconds`."""
        if seconds < _LONG_SECONDS:
            self._unfinished(stage, check, f"stopped after {seconds:.1f} s: the time of the stage was over")
            return
        enough, given = (math.ceil(one / 60) for one in (min(stage.limit, check.limit) + _START_AND_END, self.seconds))
        how = f" with --minutes {enough} or more" if enough > given else ""
        note = f"did not end in the {seconds:.0f} s that were left; run the command again{how}"
        self._unfinished(stage, check, note, ran=seconds, log=log)

    def _drop(self) -> str:
        """End the worker; return its log."""
        assert self._worker is not None
        log = self._worker.log()
        self._worker.kill()
        self._worker = None
        return log
