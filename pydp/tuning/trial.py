"""Try one specialization of a call: run it within a time limit, check its result, compare its time with another."""

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
from pydp.runtime.placement import check_events, home_of
from pydp.tuning import reference
from pydp.tuning.choose import ProblemFound, SpecProbe
from pydp.tuning.comparison import Ratio, Samples, hopeless, ratios, rounds
from pydp.tuning.shape_class import shape_class, size_class

LIMIT = 30.0  # seconds to build and run a candidate, plus 50 times the untuned call's time
_SAMPLE = 2e-3  # least seconds of one sample: shorter calls are repeated within it
WARM = 2e-2  # calls of at least so many seconds use more memory than caches hold
_ROUNDS, _RACE_SECONDS = 7, 1.0
_SHORT_SECONDS = 0.4  # least time to compare short calls: their samples scatter by 20%, so seven are too few
_STOPPING = 5.0  # seconds that an interrupted candidate may take to stop
_SHARES = (0.55, 0.8)  # other sizes, as shares of a class's largest size: a winner must not be slower there either
_Result = TypeVar("_Result")
_threads: WeakSet[threading.Thread] = WeakSet()  # of `within`


class WrongResult(PydpError):
    """A candidate's result differs from the reference."""


class TooLong(PydpError):
    """A candidate did not end in time. `stuck`: it still runs, so the device may be unusable."""

    def __init__(self, message: str, stuck: bool) -> None:
        super().__init__(message)
        self.stuck = stuck


def within(seconds: float, work: Callable[[], _Result], late: threading.Event | None = None) -> _Result:
    """Run ``work()`` in another thread and wait for at most `seconds`.

    After that, set `late` and wait once more for `seconds`: work that checks `late` stops. Raises TooLong, and every
    exception of `work`. If the work does not end, its thread remains until the interpreter exits.
    """
    found: list[_Result] = []
    failed: list[BaseException] = []
    ended = threading.Event()  # some Pythons take a thread for ended after Ctrl-C in `join`

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
    except BaseException:  # Ctrl-C: the work must not continue while the caller restores `out` or exits
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
    interpreter has ended. That aborts the process if there are C++ frames on the stack, as in calls of pyopencl.
    """
    deadline = time.monotonic() + _STOPPING
    for thread in list(_threads):
        while thread.is_alive() and time.monotonic() < deadline:
            # Repeat: the exception is lost if a finalizer runs in the thread.
            ctypes.pythonapi.PyThreadState_SetAsyncExc(ctypes.c_ulong(thread.ident or 0), ctypes.py_object(SystemExit))
            thread.join(0.1)


def _waited(ended: threading.Event, seconds: float) -> bool:
    """Whether it ends within so many seconds. Tests replace this function to use another clock."""
    return ended.wait(seconds)


@dataclass
class Subject:
    """A call of a public function that can be made with any specialization. `out` is restored before each check."""

    fn: Callable[..., Any]
    args: tuple[Any, ...]
    kw: dict[str, Any]

    def __post_init__(self) -> None:
        name = getattr(self.fn, "__name__", repr(self.fn))
        describe = getattr(self.fn, "__pydp_explain__", None)
        if not callable(self.fn) or describe is None:
            raise InvalidArgument(f"{name} cannot be tuned; a pydp function that takes spec= is accepted")
        if self.kw.get("spec") is not None:
            raise InvalidArgument("spec= is not accepted here, because tuning looks for it")
        self.kw = {key: value for key, value in self.kw.items() if key != "spec"}
        self.late = threading.Event()
        self.limit = LIMIT
        try:
            self.fn(*self.args, **self.kw, spec=SpecProbe())
        except ProblemFound as probed:
            self.family, self.device, self.problem = probed.family, probed.device, probed.problem
        except (TypeError, InvalidArgument) as error:
            # If the call itself is wrong, `describe` raises that error, without a run that might change arrays.
            check_events(self.kw.get("wait_for"))
            named = {key: None if key == "wait_for" else value for key, value in self.kw.items()}
            describe(given(self.fn, self.args, named))
            raise InvalidArgument(f"{name} has no specializations to tune") from error
        else:
            raise InvalidArgument(f"this call of {name} cannot be tuned: it runs no kernel that has specializations")
        out = self.kw.get("out")
        self._outs = [one for one in (out if isinstance(out, tuple) else (out,)) if one is not None]
        self._before = [reference.host(one) for one in self._outs]
        self.want: list[reference.Expected] | None = None

    def run(self, spec: Any = None) -> Any:
        """Make the call and wait for its result."""
        if self.late.is_set():
            raise TooLong("the time limit is over", stuck=False)
        result = self.fn(*self.args, **self.kw, spec=spec)
        for one in result if isinstance(result, tuple) else (result,):
            if hasattr(one, "finish"):  # a pyopencl Array
                one.finish()
            elif getattr(one, "event", None) is not None:
                one.event.wait()
        return result

    def restore(self) -> None:
        """Write the original contents into `out`."""
        for one, values in zip(self._outs, self._before, strict=True):
            _write(one, values)

    def _wipe(self) -> None:
        """Fill write-only `out` arrays with wrong values. Else a candidate that writes nothing would pass."""
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
        """The result of `work` within the time limit; raises as `within` does."""
        return within(self.limit, work, self.late)

    def values(self, spec: Any) -> list[np.ndarray]:
        """Run and copy the results to the host. An `out` that is only written holds wrong values before the run."""
        self.restore()
        self._wipe()
        return reference.hosts(self.run(spec))

    def prepare(self, baseline: Any) -> None:
        """Find the reference result and the untuned call's time. Raises WrongResult if the untuned result is wrong."""
        name = getattr(self.fn, "__name__", "")
        self.restore()
        self.want = reference.expected(self.fn, self.args, self.kw)
        got = within(10 * LIMIT, lambda: self.values(baseline))
        if self.want is None:
            self.want = reference.alike(got)
        difference = reference.difference(got, self.want)
        if difference is not None:
            raise WrongResult(f"the untuned result of {name} differs from NumPy's, so it is not tuned: {difference}")
        once = min(self._seconds(baseline, 1, waiting=False) for _ in range(2))
        self._warm = once < WARM
        self._inner = max(1, min(200, math.ceil(_SAMPLE / max(once, 1e-6))))
        self.limit = LIMIT + 50 * once

    def verify(self, spec: Any) -> None:
        """Raise WrongResult if the specialization's result is wrong."""
        assert self.want is not None  # `prepare` comes first
        difference = reference.difference(self.values(spec), self.want)
        if difference is not None:
            raise WrongResult(f"wrong result: {difference}")

    def seconds(self, spec: Any) -> float:
        """Seconds of one call: the median of five samples."""
        return statistics.median(self._sample(spec, waiting=False) for _ in range(5))

    def _sample(self, spec: Any, waiting: bool) -> float:
        """Seconds of one call, after one warm-up call.

        The warm-up removes effects of the specialization before it, such as cold caches and sleeping threads.
        """
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
        """The ratio of a specialization's time to the baseline's; both have been run before.

        best: the best ratio so far. A specialization that is much slower is timed for fewer rounds.
        """
        least = _SHORT_SECONDS if self._inner > 1 else 0.0

        def enough(done: int, spent: float, times: Samples) -> bool:
            if done >= 2 and hopeless(times, best):
                return True
            return (done >= _ROUNDS and spent >= least) or (done >= 3 and spent > _RACE_SECONDS)

        return self._timed([baseline, spec], enough)[0]

    def final(self, specs: Sequence[Any], baseline: Any, seconds: float) -> list[Ratio]:
        """The ratio of each specialization's time to the baseline's.

        Rounds continue for `seconds`, and for at least five rounds.
        """
        return self._timed([baseline, *specs], lambda done, spent, _: done >= 5 and spent >= seconds)

    def _timed(self, specs: Sequence[Any], enough: Callable[[int, float, Samples], bool]) -> list[Ratio]:
        """The ratios of all but the first.

        Rounds continue until `enough` is true for their number, the seconds spent and the samples.
        """
        began = time.perf_counter()
        sampled = rounds(self._sample, specs, short=self._inner > 1)
        for done, times in enumerate(sampled, 1):
            if enough(done, time.perf_counter() - began, times):
                break
        return ratios(times)


def _write(one: Any, values: np.ndarray) -> None:
    """Replace the elements of an `out` with any strides."""
    if isinstance(one, np.ndarray):
        one[...] = values
    elif hasattr(one, "set"):
        reference.placed(one).set(values)


def _may_share(one: Any, other: Any) -> bool:
    """Whether an `out` and another argument may share memory."""
    mine, theirs = home_of(one), home_of(other)
    if mine is None and theirs is None:
        return np.may_share_memory(one, other)  # accepts everything that NumPy can convert to an array
    if mine is None or theirs is None:
        return False
    buffers = (reference.placed(value)._storage.buffer for value in (one, other))
    return len({memory_of(buffer)[0] for buffer in buffers}) == 1


def resized(subject: Subject, share: float) -> Subject | None:
    """The same call at another size of the shape class; None if the result is not a call of the same class.

    Every axis longer than 8 gets about `share` of the class's largest length: its elements are repeated or cut off.
    """

    made: dict[int, Any] = {}  # by the id of the original: an `out` may also be an input

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

    subject.restore()  # repeated runs have changed an in-place array
    try:
        found = Subject(subject.fn, tuple(map(other, subject.args)), {k: other(v) for k, v in subject.kw.items()})
    except (PydpError, MemoryError):
        return None
    return found if shape_class(found.problem) == shape_class(subject.problem) else None


def elsewhere(subject: Subject, baseline: Any) -> Iterator[tuple[float, Subject]]:
    """The same call at other sizes of the shape class, prepared, each with its share of the class's largest size.

    Sizes that are not in the class or do not fit into memory are left out.
    """
    for share in _SHARES:
        other = resized(subject, share)
        if other is None:
            continue
        try:
            other.prepare(baseline)
        except MemoryError:
            continue
        yield share, other
