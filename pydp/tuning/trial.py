"""Trying one specialization of a call: run it within a time limit, check its result, time it beside another."""

from __future__ import annotations

import atexit
import contextvars
import ctypes
import math
import statistics
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, TypeVar
from weakref import WeakSet

import numpy as np

from pydp.errors import InvalidArgument, PydpError
from pydp.model.explanation import given
from pydp.runtime.call import memory_of
from pydp.runtime.field.construct import field
from pydp.runtime.placement import home_of
from pydp.tuning import reference
from pydp.tuning.choose import ProblemFound, SpecProbe
from pydp.tuning.comparison import Ratio, Samples, hopeless, ratios, rounds
from pydp.tuning.shape_class import size_class
from pydp.tuning.tuned import shape_of

LIMIT = 30.0  # seconds for building and running a candidate, on top of what the untuned call needs 50 times
_SAMPLE = 2e-3  # seconds of one sample at least: shorter calls are repeated within it
WARM = 2e-2  # seconds of a call from which on it touches more than caches hold
_ROUNDS, _RACE_SECONDS = 7, 1.0
_SHORT_SECONDS = 0.4  # of a race of short calls: a sample of theirs scatters by a fifth, so that seven tell nothing
_STOPPING = 5.0  # seconds that an interrupted candidate may take to give up
_SHARES = (0.55, 0.8)  # of a class's largest size: where a winner must not be slower either
_Result = TypeVar("_Result")
_threads: WeakSet[threading.Thread] = WeakSet()  # of `within`


class WrongResult(PydpError):
    """A candidate's result differs from the reference."""


class TooLong(PydpError):
    """A candidate did not come to an end. `stuck`: nor afterwards, so that the device may not be usable."""

    def __init__(self, message: str, stuck: bool) -> None:
        super().__init__(message)
        self.stuck = stuck


def within(seconds: float, work: Callable[[], _Result], late: threading.Event | None = None) -> _Result:
    """``work()``, done by another thread and waited for at most `seconds`, then once more as long for it to give up,
    which it does when it finds `late` set.

    Raises TooLong, and what `work` raises. The thread of work that does not end is left behind until the interpreter
    ends.
    """
    found: list[_Result] = []
    failed: list[BaseException] = []
    ended = threading.Event()  # Ctrl-C within a thread's `join` makes some Pythons take the thread for ended

    def run() -> None:
        try:
            found.append(work())
        except BaseException as error:
            failed.append(error)
        finally:
            ended.set()

    def wait_again(how_long: float) -> bool:
        if late is not None:
            late.set()
        done = _waited(ended, how_long)
        if late is not None and done:
            late.clear()
        return done

    context = contextvars.copy_context()
    thread = threading.Thread(target=context.run, args=(run,), daemon=True, name="pydp-trial")
    _threads.add(thread)
    thread.start()
    try:
        in_time = _waited(ended, seconds)
    except BaseException:  # Ctrl-C: nothing goes on behind the caller's back, where `out` is restored, or at the end
        wait_again(_STOPPING)
        raise
    if not in_time:
        raise TooLong(f"no result within {seconds:.3g} s", stuck=not wait_again(seconds))
    if failed:
        raise failed[0]
    return found[0]


@atexit.register
def _stop_threads() -> None:
    """Raise SystemExit in the threads that were left behind and wait for them, for `_STOPPING` seconds at most.

    Before 3.14, Python ends a daemon thread by unwinding its stack when the thread returns from a C call after the
    interpreter has ended. That aborts the process where there are C++ frames on the stack, as in calls of pyopencl.
    """
    deadline = time.monotonic() + _STOPPING
    for thread in list(_threads):
        while thread.is_alive() and time.monotonic() < deadline:
            # Again and again: it is lost where a finalizer runs in the thread.
            ctypes.pythonapi.PyThreadState_SetAsyncExc(ctypes.c_ulong(thread.ident or 0), ctypes.py_object(SystemExit))
            thread.join(0.1)


def _waited(ended: threading.Event, seconds: float) -> bool:
    """Whether it ends within so many seconds; a function of its own, for tests have other clocks."""
    return ended.wait(seconds)


@dataclass
class Subject:
    """A call of a public function, to be made with any specialization. `out` is restored before a run is checked."""

    fn: Callable[..., Any]
    args: tuple[Any, ...]
    kw: dict[str, Any]

    def __post_init__(self) -> None:
        name = getattr(self.fn, "__name__", repr(self.fn))
        describe = getattr(self.fn, "__pydp_explain__", None)
        if not callable(self.fn) or describe is None:
            raise InvalidArgument(f"{name} cannot be tuned; a function of pydp that takes spec= is")
        if self.kw.get("spec") is not None:
            raise InvalidArgument("spec= is what tuning looks for; it is not accepted here")
        self.kw = {key: value for key, value in self.kw.items() if key != "spec"}
        self.late = threading.Event()
        self.limit = LIMIT
        try:
            self.fn(*self.args, **self.kw, spec=SpecProbe())
        except ProblemFound as asked:
            self.family, self.device, self.problem = asked.family, asked.device, asked.problem
        except (TypeError, InvalidArgument) as error:
            # Where the call itself is wrong, that is what to tell; it is not made, which might change arrays.
            describe(given(self.fn, self.args, self.kw))
            raise InvalidArgument(f"{name} has no specializations to choose from") from error
        else:
            raise InvalidArgument(f"this call of {name} has nothing to choose: it needs no kernel of its family")
        out = self.kw.get("out")
        self._outs = [one for one in (out if isinstance(out, tuple) else (out,)) if one is not None]
        self._before = [reference.host(one) for one in self._outs]
        self.want: list[reference.Expected] | None = None

    def run(self, spec: Any = None) -> Any:
        """The call's result, complete."""
        if self.late.is_set():
            raise TooLong("its time is over", stuck=False)
        result = self.fn(*self.args, **self.kw, spec=spec)
        for one in result if isinstance(result, tuple) else (result,):
            if hasattr(one, "finish"):  # a pyopencl Array
                one.finish()
            elif getattr(one, "event", None) is not None:
                one.event.wait()
        return result

    def restore(self) -> None:
        """Writes into `out` what it held at first."""
        for one, values in zip(self._outs, self._before, strict=True):
            _write(one, values)

    def _wipe(self) -> None:
        """Puts what is no result into an `out` that the call does not read, or whoever writes nothing would pass."""
        if np.any(np.asarray(self.kw.get("beta", 0)) != 0):
            return
        read = (*self.args, *(value for name, value in self.kw.items() if name != "out"))
        for place, one in enumerate(self._outs):
            if any(given is one or _may_share(one, given) for given in read):
                continue
            right = self.want[place].values if self.want is not None and place < len(self.want) else None
            fits = right is not None and (right.shape, right.dtype) == (one.shape, one.dtype)
            _write(one, reference.unlike(right if right is not None and fits else self._before[place]))

    def tried(self, work: Callable[[], _Result]) -> _Result:
        """What `work` with this subject gives, within the limit; raises as `within` does."""
        return within(self.limit, work, self.late)

    def values(self, spec: Any) -> list[np.ndarray]:
        """Copies of the results on the host, of a run that found nothing of them in an `out` that it only writes."""
        self.restore()
        self._wipe()
        return reference.hosts(self.run(spec))

    def prepare(self, baseline: Any) -> None:
        """Learns what the result must be and how long the untuned call takes; WrongResult where the result is wrong."""
        name = getattr(self.fn, "__name__", "")
        self.restore()
        self.want = reference.expected(self.fn, self.args, self.kw)
        got = within(10 * LIMIT, lambda: self.values(baseline))
        if self.want is None:
            self.want = reference.alike(got)
        wrong = reference.difference(got, self.want)
        if wrong is not None:
            raise WrongResult(f"the untuned result of {name} is not NumPy's, so nothing is tuned: {wrong}")
        once = min(self._seconds(baseline, 1, waiting=False) for _ in range(2))
        self._warm = once < WARM
        self._inner = max(1, min(200, math.ceil(_SAMPLE / max(once, 1e-6))))
        self.limit = LIMIT + 50 * once

    def verify(self, spec: Any) -> None:
        """Raises WrongResult where the specialization's result is not the right one."""
        assert self.want is not None  # `prepare` comes first
        wrong = reference.difference(self.values(spec), self.want)
        if wrong is not None:
            raise WrongResult(f"wrong result: {wrong}")

    def seconds(self, spec: Any) -> float:
        """The time of one call, the median of five samples."""
        return statistics.median(self._sample(spec, waiting=False) for _ in range(5))

    def _sample(self, spec: Any, waiting: bool) -> float:
        """Seconds of one call, after one that is not timed: what another specialization left, in the caches or of
        threads asleep, is not this one's."""
        if self._warm:
            self.run(spec)
        return self._seconds(spec, self._inner, waiting)

    def _seconds(self, spec: Any, inner: int, waiting: bool) -> float:
        start = time.perf_counter()
        for _ in range(inner - 1):
            if waiting:
                self.run(spec)
            else:
                self.fn(*self.args, **self.kw, spec=spec)
        self.run(spec)
        return (time.perf_counter() - start) / inner

    def race(self, spec: Any, baseline: Any, best: float = 1.0) -> Ratio:
        """The time of a specialization over the baseline's; both have been run before.

        best: the best ratio so far; who is far behind it is not timed as long.
        """
        least = _SHORT_SECONDS if self._inner > 1 else 0.0

        def enough(done: int, spent: float, times: Samples) -> bool:
            if done >= 2 and hopeless(times, best):
                return True
            return (done >= _ROUNDS and spent >= least) or (done >= 3 and spent > _RACE_SECONDS)

        return self._timed([baseline, spec], enough)[0]

    def final(self, specs: Sequence[Any], baseline: Any, seconds: float) -> list[Ratio]:
        """The time of each over the baseline's, from so many seconds of rounds.

        At least five rounds; of short calls, which scatter most, as many as there is time for.
        """
        return self._timed([baseline, *specs], lambda done, spent, _: done >= 5 and spent >= seconds)

    def _timed(self, specs: Sequence[Any], enough: Callable[[int, float, Samples], bool]) -> list[Ratio]:
        """The ratios of all but the first, from as many rounds as it takes: `enough` is given their number, the seconds
        spent and the samples."""
        began = time.perf_counter()
        turns = rounds(self._sample, specs, short=self._inner > 1)
        for done, times in enumerate(turns, 1):
            if enough(done, time.perf_counter() - began, times):
                break
        return ratios(times)


def _write(one: Any, values: np.ndarray) -> None:
    """Replaces the elements of an `out`, whatever its strides."""
    if isinstance(one, np.ndarray):
        one[...] = values
    elif hasattr(one, "set"):
        reference.placed(one).set(values)


def _may_share(one: Any, other: Any) -> bool:
    """Whether an `out` and another argument may share memory."""
    mine, theirs = home_of(one), home_of(other)
    if mine is None and theirs is None:
        return np.may_share_memory(one, other)  # which takes whatever NumPy makes an array of, without a copy or with
    if mine is None or theirs is None:
        return False
    buffers = (reference.placed(value)._storage.buffer for value in (one, other))
    return len({memory_of(buffer)[0] for buffer in buffers}) == 1


def resized(subject: Subject, share: float) -> Subject | None:
    """The same call at another size of the shape class: every axis longer than 8 has about `share` of the class's
    largest length, its elements repeated or cut off. None where that is no call of the same class."""

    made: dict[int, Any] = {}  # by what they are made of: an `out` may be an input too

    def other(value: Any) -> Any:
        if not hasattr(value, "shape") or not hasattr(value, "dtype") or not value.shape:
            return value
        if id(value) not in made:
            values = reference.host(value)
            for axis, length in enumerate(values.shape):
                if length > 8:
                    values = np.take(values, np.arange(int(size_class(length) * share) | 1) % length, axis)
            made[id(value)] = values if isinstance(value, np.ndarray) else field(values, device=subject.device)
        return made[id(value)]

    subject.restore()  # what is computed in place has been computed over and over
    try:
        found = Subject(subject.fn, tuple(map(other, subject.args)), {k: other(v) for k, v in subject.kw.items()})
    except (PydpError, MemoryError):
        return None
    return found if shape_of(found.family, found.problem) == shape_of(subject.family, subject.problem) else None


def elsewhere(subject: Subject, baseline: Any) -> Iterator[tuple[float, Subject]]:
    """The same call at other sizes of the shape class, with their shares of its largest, ready to be compared with the
    baseline; without those that are no calls of the class, or do not fit the memory."""
    for share in _SHARES:
        other = resized(subject, share)
        if other is None:
            continue
        try:
            other.prepare(baseline)
        except MemoryError:
            continue
        yield share, other
