"""The cache that pydp keeps its objects in: bounded, safe between threads, least recently used entries go first.

    cache = BoundedCache(512)
    plan = cache.get(key)                        # as cheap as a dict's get, for it is one
    if plan is None:
        plan = cache.make(key, make_plan, device, shape)

The entries are in two dicts. `recent` holds the entries that are new or were used while they waited; its ``get`` is
the cache's, so that a hit takes no lock and records nothing. `waiting` is the queue of the others, the next one first.
`make` moves an entry that it finds there back to `recent`. When more entries are recent than are waiting, all recent
ones go to the end of the queue. So an entry is evicted only if it was not used while the entries ahead of it were
evicted (the "second chance" or clock approximation of least recently used); one that is used all the time never is.

Eviction drops a reference and closes nothing, so a value that a caller holds outlives it. With ``weak=True`` an evicted
value that something else still holds is found again, and `alive` lists those values too.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Hashable, Iterator
from typing import Any, Final
from weakref import WeakValueDictionary

from pydp.runtime.forks import fork_safe, reset

__all__ = ["ABSENT", "BoundedCache"]


class _Absent:
    """The type of `ABSENT`."""

    def __repr__(self) -> str:
        return "ABSENT"


ABSENT: Final = _Absent()
"""Stands for no entry where None may be a value: ``cache.get(key, ABSENT)``."""

_PATIENCE = 60.0  # seconds; threads that wait for each other's values in a circle go on after it


class _Making:
    """A value that a thread is making; `done` is held until it has."""

    __slots__ = ("__weakref__", "done", "thread")

    def __init__(self) -> None:
        self.thread = threading.get_ident()
        self.done = threading.Lock()
        self.done.acquire()


class BoundedCache:
    """At most `bound` values by their keys. `bound` may be changed at any time; with 0 nothing is kept, and a weak
    cache finds only values that something else holds.

    get(key, default=None): the value if its entry is among the recent ones, else the default; the entry may still be
    waiting, so call `make` or `find` next.
    """

    __slots__ = ("__weakref__", "_epoch", "_living", "_lock", "_making", "_recent", "_waiting", "bound", "get")

    def __init__(self, bound: int, *, weak: bool = False) -> None:
        self.bound = bound
        self._recent: dict[Hashable, Any] = {}  # never another dict: `get` is its method
        self._waiting: dict[Hashable, Any] = {}
        self._living: WeakValueDictionary[Hashable, Any] | None = WeakValueDictionary() if weak else None
        # Weak: an interrupt at any line of `make` ends its frame, and with it the attempt.
        self._making: WeakValueDictionary[Hashable, _Making] = WeakValueDictionary()
        self._epoch = 0  # how often the cache was cleared
        self._lock = threading.RLock()  # a finalizer that runs while this thread holds it may use the cache
        self.get: Callable[..., Any] = self._recent.get
        fork_safe(self)

    def _at_fork_reinit(self) -> None:
        """In a forked child: threads that held the lock or were making values do not exist any more."""
        reset(self._lock)
        here = threading.get_ident()
        self._making = WeakValueDictionary({k: making for k, making in self._making.items() if making.thread == here})

    def make(self, key: Hashable, maker: Callable[..., Any], *arguments: Any) -> Any:
        """The value of `key`, which is ``maker(*arguments)`` where there is none.

        Of several threads one makes it and the others wait, for a minute at most. What the maker raises is not kept:
        the next one tries again. A maker that asks for its own key makes a value of its own. A value whose making began
        before a `clear` is not kept.
        """
        gone: list[Any] = []  # released outside of the lock: that may take time, and finalizers may do anything
        with self._lock:
            found = self._found(key, gone)
        if found is not ABSENT:
            return found
        own = _Making()
        while True:
            with self._lock:
                found = self._found(key, gone)
                if found is not ABSENT:
                    return found
                making, epoch = self._making.setdefault(key, own), self._epoch
            if making is own:
                break
            if making.thread == threading.get_ident() or not making.done.acquire(timeout=_PATIENCE):
                return maker(*arguments)
            making.done.release()
        try:
            value = maker(*arguments)
            with self._lock:
                if epoch == self._epoch:
                    gone += self._keep(key, value)
            return value
        finally:
            with self._lock:
                if self._making.get(key) is own:
                    del self._making[key]
            own.done.release()

    def find(self, key: Hashable, default: Any = None) -> Any:
        """The value of `key`, which counts as used now; the default where there is none."""
        found = self.get(key, ABSENT)
        gone: list[Any] = []
        if found is ABSENT:
            with self._lock:
                found = self._found(key, gone)
        return default if found is ABSENT else found

    def put(self, key: Hashable, value: Any) -> None:
        """Keep `value` under `key`, in the place of the one that is there."""
        with self._lock:
            gone = [self._waiting.pop(key, None), self._recent.pop(key, None), *self._keep(key, value)]
        del gone

    def evict(self) -> bool:
        """Let go of the value that was not used for longest; False where there is none."""
        with self._lock:
            gone = self._oldest()
        return gone is not ABSENT

    def discard(self, key: Hashable) -> None:
        """Forget one key."""
        with self._lock:
            gone = [self._waiting.pop(key, None), self._recent.pop(key, None)]
            if self._living is not None:
                self._living.pop(key, None)
        del gone

    def clear(self) -> None:
        """Forget everything, values that are being made included."""
        with self._lock:
            self._epoch += 1
            gone = [dict(self._recent), dict(self._waiting)]
            self._recent.clear()
            self._waiting.clear()
            if self._living is not None:
                self._living.clear()
        del gone

    def __iter__(self) -> Iterator[Any]:
        """The keys of the kept values as they are now, the next to go first."""
        with self._lock:
            return iter([*self._waiting, *self._recent])

    def count_alive(self) -> int:
        """How many values `alive` gives."""
        with self._lock:
            return len(self._living) if self._living is not None else len(self._waiting) + len(self._recent)

    def alive(self) -> list[Any]:
        """The values that are kept, and of a weak cache those that something else holds."""
        with self._lock:
            if self._living is not None:
                return list(self._living.values())
            return [*self._waiting.values(), *self._recent.values()]

    def __len__(self) -> int:
        with self._lock:
            return len(self._waiting) + len(self._recent)

    def __contains__(self, key: Hashable) -> bool:
        with self._lock:
            return key in self._recent or key in self._waiting or (self._living is not None and key in self._living)

    # --- with the lock held -------------------------------------------------------------------------------------

    def _found(self, key: Hashable, gone: list[Any]) -> Any:
        """The value of a key, which counts as used now; ABSENT where there is none. Adds evicted values to `gone`."""
        found = self._recent.get(key, ABSENT)
        if found is not ABSENT:
            return found
        found = self._waiting.get(key, ABSENT)
        if found is not ABSENT:
            self._recent[key] = found  # first: other threads look without the lock
            self._waiting.pop(key, None)  # a finalizer or a signal handler may have let it go meanwhile
        elif self._living is not None:
            found = self._living.get(key, ABSENT)
            if found is not ABSENT:
                gone += self._keep(key, found)
        return found

    def _keep(self, key: Hashable, value: Any) -> list[Any]:
        """Add an entry; returns the values that went for it."""
        if self._living is not None:
            self._living[key] = value
        gone = []
        while self._waiting or self._recent:
            if len(self._waiting) + len(self._recent) < self.bound:
                break
            gone.append(self._oldest())
        if self.bound > 0:
            self._recent[key] = value
            if len(self._recent) > len(self._waiting):
                self._line_up()
        return gone

    def _oldest(self) -> Any:
        """Take out the next to go; ABSENT where there is none."""
        while True:
            if not self._waiting:
                self._line_up()
            key = next(iter(self._waiting), ABSENT)
            if key is ABSENT:
                return ABSENT
            gone = self._waiting.pop(key, ABSENT)
            if gone is not ABSENT:  # else a finalizer or a signal handler has let it go meanwhile
                return gone

    def _line_up(self) -> None:
        """Move the recent entries to the end of the queue."""
        self._waiting.update(self._recent)  # first: other threads look without the lock
        self._recent.clear()
