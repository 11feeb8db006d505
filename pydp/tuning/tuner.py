"""``pydp.tune``: find the fastest specialization of a call on this machine by measurement, and store it.

Each trial is written at once to a journal (folder ``searches`` of the cache), so a stopped or killed search can
continue. The winner goes to the store (folder ``tuned``), which later calls of the same shape class use. Several
processes may tune at the same time.
"""

from __future__ import annotations

import os
import platform
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from pydp.errors import InvalidArgument, PydpError, shown
from pydp.model.calibration import calibrated, kept
from pydp.model.modelled import applies
from pydp.model.ranking import rank
from pydp.runtime.programs.files import cache_dir
from pydp.tuning.choose import Choice, forget, untuned
from pydp.tuning.comparison import slower
from pydp.tuning.search import neighbourhood, search
from pydp.tuning.shape_class import ShapeClass, shape_class
from pydp.tuning.store import SEARCHES, Store, Trial, Unfinished, spec_text
from pydp.tuning.trial import Subject, TooLong, WrongResult, elsewhere
from pydp.tuning.tuned import fields_of, rebuild, reread, store_of

__all__ = ["Progress", "Stuck", "Tuning", "journal_of", "tune"]

_ENDED = "the process ended twice while it ran"
_WORTH = 0.985  # a winner's time is at most this share of the untuned choice's
_FAST, _AT_ONCE = 16, 8  # candidates that are also timed at other sizes
_FINALISTS, _FINAL_SECONDS, _AGAIN_SECONDS = 3, 3.0, 0.5


class Stuck(PydpError):
    """A candidate did not end. It will not be tried again, but this process cannot continue."""


@dataclass(frozen=True)
class Progress:
    """The progress of a search.

    tried: candidates tried. ranked: candidates in the ranking; the local search adds some. best: the best ratio so far
    to the untuned choice's time. spent, budget: seconds.
    """

    tried: int
    ranked: int
    best: float
    spent: float
    budget: float


@dataclass(frozen=True)
class Tuning:
    """The result of tuning.

    spec: the best specialization. ratio: its time divided by the untuned choice's; 1 if nothing beat that by more than
    noise. tried: number of candidates that were measured or failed. failures: unusable candidates with reasons. kept:
    whether the result is on disk. known: whether the result was found earlier, so that nothing was run.
    """

    shape: ShapeClass
    device: str
    spec: Any
    ratio: float
    tried: int = 0
    failures: list[Trial] = field(default_factory=list)
    kept: bool = True
    known: bool = False

    def __str__(self) -> str:
        gain = "the choice without tuning is the best" if self.ratio >= 1 else f"{self.ratio:.2f} of the untuned time"
        how = "tuned before" if self.known else f"{self.tried} tried, {len(self.failures)} failed"
        return f"{self.shape} on {self.device}: {gain} ({how}); {self.spec}"


def tune(
    fn: Callable[..., Any],
    *args: Any,
    budget: float = 60.0,
    again: bool = False,
    progress: Callable[[Progress], None] | None = None,
    **kw: Any,
) -> Tuning:
    """Find the fastest specialization of ``fn(*args, **kw)`` and store it for calls of the same shape class.

    A shape class holds the sizes that round up to the same powers of two.

    fn: a pydp function that takes ``spec=``, followed by the arguments of a call. The arrays of the call are not
    changed; an `out` gets its old contents back. again: search even if the class was tuned before. progress: called
    before each candidate.
    budget: seconds of search. Then the current candidate is finished, and the best ones are timed again, at the call's
    size and at two others. This takes up to half a minute for short calls. For long calls, it takes the time of several
    hundred calls, and that of the builds that are still needed.

    A candidate's time counts only if its result equals NumPy's, or the untuned call's if NumPy has no such function.
    Candidates that fail or take too long are recorded with the reason and not tried again. An interrupted search
    continues at the next call; with `again` it starts anew. Short calls are timed back to back and one at a time. The
    winner is stored if it beats the untuned choice by more than noise in both, and is correct and not slower at two
    other sizes of the class. Otherwise the untuned choice is stored as the best.

    Raises InvalidArgument if the call has no specializations to tune; :class:`pydp.tuning.trial.WrongResult` if the
    untuned result differs from NumPy's; :class:`pydp.tuning.tuner.Stuck` if a candidate does not end. All are
    PydpErrors.

    >>> pydp.tune(pydp.matmul, a, b, budget=30)          # doctest: +SKIP
    """
    if not isinstance(budget, (int, float)) or isinstance(budget, bool) or not budget > 0:
        raise InvalidArgument(f"budget is {shown(budget)}; a positive number of seconds is accepted")
    return _Search(Subject(fn, args, kw), float(budget), progress).result(again)


def journal_of(store: Store) -> Store:
    """The trials of unfinished searches on the device of `store`."""
    return Store(store.name, store.device_info, cache_dir() / SEARCHES)


class _Search:
    def __init__(self, subject: Subject, budget: float, progress: Callable[[Progress], None] | None) -> None:
        self.subject, self.budget, self.progress = subject, budget, progress
        self.device, self.family, self.problem = subject.device, subject.family, subject.problem
        self.shape = shape_class(self.problem)
        self.store = store_of(self.device)
        self.journal = journal_of(self.store)
        self.ratios: dict[Any, float] = {}
        self.failures: list[Trial] = []

    def result(self, again: bool) -> Tuning:
        """Run the search; if the class is tuned, return the stored result."""
        before = self.store.best(self.shape)
        spec = rebuild(self.family.spec_type, before.spec) if before is not None else None
        usable = spec is not None and self.family.check(self.device.profile, self.problem, spec) is None
        if before is not None and usable and not again:
            return Tuning(self.shape, self.device.name, spec, before.ratio or 1.0, kept=self.store.keep(), known=True)
        if again:
            self.journal.replace_class(self.shape, [])
        self.earlier = self.store.trials(self.shape)
        try:
            found = self._run([] if again else [one for one in self.store.trials(self.shape) if one.ratio is None])
        except Stuck:  # the device may be unusable
            raise
        except BaseException:
            self.subject.restore()
            raise
        self.subject.restore()
        return found

    def _ranking(self) -> list[Any]:
        """The candidates: the untuned choice, then the others, in the model's order if the model fits the device."""
        family, device, problem = self.family, self.device, self.problem
        if self.modelled:
            found = [one.spec for one in rank(family, device.profile, problem, kept(device))]
        else:
            found = family.candidates(device.profile, problem)
        return list(dict.fromkeys([self.baseline.spec, *found]))

    def _run(self, failed: list[Trial]) -> Tuning:
        profile, problem, family = self.device.profile, self.problem, self.family
        self.began = time.monotonic()
        self.modelled = applies(family, self.device)
        if self.modelled:
            calibrated(self.device)
        self.baseline: Choice = untuned(family, self.device, problem)
        self.subject.prepare(self.baseline.spec)
        self.known = {spec_text(trial.spec): trial for trial in [*failed, *self.journal.trials(self.shape)]}
        self.ratios[self.baseline.spec] = 1.0
        self.best = self.baseline.spec
        ranked = self._ranking()
        self.ranked = len(ranked)
        steps = search(ranked, neighbourhood(ranked, lambda spec: family.check(profile, problem, spec)))
        try:
            spec = next(steps)
            while time.monotonic() - self.began < self.budget:
                spec = steps.send(self._ratio(spec))
        except StopIteration:
            pass
        return self._finish()

    def _ratio(self, spec: Any) -> float | None:
        """The ratio of a candidate's time to the baseline's, known or measured now; None if it failed."""
        if spec in self.ratios:
            return self.ratios[spec]
        fields = fields_of(spec)
        known = self.known.get(spec_text(fields))
        if known is not None and known.unfinished is not None:  # another process may have finished it since
            known = self._written(known)
        if known is not None and known.unfinished is None:
            return self._noted(spec, known)
        ended = _ended(known)
        if ended >= 2:
            return self._noted(spec, self._write(Trial(self.shape, fields, None, _ENDED)))
        if self.progress is not None:
            tried = len(self.ratios) + len(self.failures)
            best, spent = self.ratios[self.best], time.monotonic() - self.began
            self.progress(Progress(tried, max(self.ranked, tried), best, spent, self.budget))
        state = Unfinished(ended, os.getpid(), _start(os.getpid()), platform.node())
        begun = self._write(Trial(self.shape, fields, None, unfinished=state))
        try:
            return self._noted(spec, self._write(self._tried(spec, fields)))
        except (KeyboardInterrupt, SystemExit):
            if self._written(begun) == begun:  # else another process has finished it
                self._write(known or Trial(self.shape, fields, None, unfinished=Unfinished()))
            raise

    def _written(self, trial: Trial) -> Trial | None:
        """The current entry of the journal for a trial's candidate."""
        found = self.journal.trials(self.shape)
        return next((one for one in found if one.identity == trial.identity), None)

    def _write(self, trial: Trial) -> Trial:
        self.journal.add([trial])
        return trial

    def _noted(self, spec: Any, trial: Trial) -> float | None:
        if trial.ratio is None:
            self.failures.append(trial)
            return None
        self.ratios[spec] = trial.ratio
        # The best one so far was timed again and may not be the best any more.
        self.best = min(self.best, self.baseline.spec, spec, key=self.ratios.__getitem__)
        return trial.ratio

    def _tried(self, spec: Any, fields: dict[str, Any]) -> Trial:
        """Run, check and time one candidate, and compare it with the best so far."""
        subject, best, base = self.subject, self.best, self.baseline.spec

        def work() -> float:
            subject.verify(spec)
            ratio = subject.race(spec, base, self.ratios[best]).worse
            if ratio >= self.ratios[best]:
                return ratio
            # The winner of one comparison may have been lucky: time both again.
            pair = [spec] if best == base else [spec, best]
            again = [measured.worse for measured in subject.final(pair, base, _AGAIN_SECONDS)]
            self.ratios[best] = again[-1] if best != base else 1.0
            return again[0]

        try:
            return Trial(self.shape, fields, subject.tried(work))
        except TooLong as error:
            trial = Trial(self.shape, fields, None, str(error))
            if error.stuck:
                self._write(trial)
                raise Stuck(
                    f"{spec}: {error}, and it is still running; start the process again to continue without it"
                ) from None
            return trial
        except Exception as error:
            return Trial(self.shape, fields, None, _reason(error))

    def _fast_everywhere(self, specs: list[Any]) -> list[Any]:
        """The specializations that are correct, and not slower than the untuned choice, at other sizes of the class."""
        base = self.baseline.spec
        for _, other in elsewhere(self.subject, base) if specs else ():
            right = [spec for spec in specs if self._right(other, spec)]
            worse = slower(right, other.final(right, base, _AGAIN_SECONDS * (1 + len(right)))) if right else {}
            specs = [spec for spec in right if spec not in worse]
            if not specs:
                break
        return specs

    def _right(self, other: Subject, spec: Any) -> bool:
        """Whether a specialization is correct at another size of the class; if not, record the failure."""
        try:
            other.tried(lambda: other.verify(spec))
        except Exception as error:
            trial = Trial(self.shape, fields_of(spec), None, f"at another size of the class: {_reason(error)}")
            self.failures.append(self._write(trial))
            self.ratios.pop(spec, None)
            if isinstance(error, TooLong) and error.stuck:
                raise Stuck(
                    f"{spec}: {error} at another size, and it is still running; start the process again"
                ) from None
            return False
        return True

    def _finish(self) -> Tuning:
        """Compare the best few with the untuned choice for the last time, and store the result."""
        base = self.baseline.spec
        best = sorted(self.ratios, key=lambda spec: self.ratios[spec])
        fast = [spec for spec in best if spec != base and self.ratios[spec] < _WORTH]
        finalists: list[Any] = []
        for first in range(0, _FAST, _AT_ONCE):  # try the next ones if all of these fail
            finalists = finalists or self._fast_everywhere(fast[first : first + _AT_ONCE])[:_FINALISTS]
        winner, ratio = base, 1.0
        if finalists:
            raced = self.subject.final(finalists, base, _FINAL_SECONDS)
            measured, spec = min(zip(raced, finalists, strict=True), key=lambda one: one[0].worse)
            if measured.ahead and measured.worse < _WORTH:
                winner, ratio = spec, measured.worse
        mine = {one.identity: one for one in (Trial(self.shape, fields_of(winner), ratio), *self.failures)}
        theirs = [one for one in self._meanwhile() if one.identity not in mine]
        kept = self.store.replace_class(self.shape, [*theirs, *mine.values()])
        for one in theirs:
            if one.ratio is not None and one.ratio < ratio:
                winner, ratio = rebuild(self.family.spec_type, one.spec), one.ratio
        if kept:  # else the next search uses the journal
            self.journal.replace_class(self.shape, [])
        reread()
        forget()
        tried = len(self.ratios) + len(self.failures)
        return Tuning(self.shape, self.device.name, winner, ratio, tried, self.failures, kept)

    def _meanwhile(self) -> list[Trial]:
        """Results of other processes for the class since this search began. They may have searched longer."""

        def usable(spec: Any) -> bool:
            return spec is not None and self.family.check(self.device.profile, self.problem, spec) is None

        found = [one for one in self.store.trials(self.shape) if one.ratio is not None and one not in self.earlier]
        return [one for one in found if usable(rebuild(self.family.spec_type, one.spec))]


def _ended(trial: Trial | None) -> int:
    """How many processes have ended while they ran a trial.

    A process that may still run (it is alive, or on another machine) does not count.
    """
    state = trial.unfinished if trial is not None else None
    if state is None or state.process is None:
        return 0 if state is None else state.ended
    here = state.machine == platform.node()
    return state.ended + (1 if here and not _lives(state.process, state.start) else 0)


def _lives(process: int, start: str | None) -> bool:
    """Whether a process of this machine is alive and began at `start`.

    The id alone is not enough: ids are reused, and the first process of a container always has the same id.
    """
    if os.name != "posix":  # other systems have no harmless check
        return False
    try:
        os.kill(process, 0)
    except ProcessLookupError:
        return False
    except (OSError, OverflowError):  # another user's process, or not a process id
        return True
    now = _start(process)
    return now is None or (now != "" and start in (None, now))


def _start(process: int) -> str | None:
    """The start time of a process of this machine, in clock ticks; "" for a zombie; None if unknown."""
    try:
        state, *fields = Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()
        return "" if state in "ZX" else fields[18]
    except (OSError, ValueError, IndexError):
        return None


def _reason(error: Exception) -> str:
    """An exception as one line."""
    text = (str(error).strip().splitlines() or [""])[0][:300]
    return text if isinstance(error, (WrongResult, TooLong)) else f"{type(error).__name__}: {text}"
