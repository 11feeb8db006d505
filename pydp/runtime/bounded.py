"""BoundedCache: a thread-safe cache with a size limit that evicts entries in approximately LRU order.

    cache = BoundedCache(512)
    plan = cache.get(key)                        # dict.get, without a lock
    if plan is None:
        plan = cache.make(key, make_plan, device, shape)

The entries are in two dicts. `recent` holds entries that are new or were used while they waited. The ``get`` of the
cache is the ``get`` of this dict, so a cache hit takes no lock and records nothing. `waiting` is the eviction queue of
the other entries. If `make` finds an entry there, it moves it back to `recent`. If `recent` has more entries than
`waiting`, all of them are appended to the queue. An entry is thus evicted only if it was not used while the entries
before it were evicted: the "second chance" (clock) approximation of LRU. An entry in constant use is never evicted.

Eviction drops a reference and closes nothing, so values that callers hold stay valid. With ``weak=True``, an evicted
value that is still referenced elsewhere is found again, and `alive` lists it too.
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
"""Marks a missing entry if None may be a value: ``cache.get(key, ABSENT)``."""

_PATIENCE = 60.0  # seconds; resolves a deadlock of threads that wait for each other's values


class _Making:
    """A value that a thread is making; the thread holds the lock `done` meanwhile."""

    __slots__ = ("__weakref__", "done", "thread")

    def __init__(self) -> None:
        self.thread = threading.get_ident()
        self.done = threading.Lock()


class BoundedCache:
    """A cache of at most `bound` values. `bound` may be changed at any time. With 0, nothing is kept; a weak cache then
    finds only values that are referenced elsewhere.

    get(key, default=None): the value if its entry is in `recent`, else the default. The entry may be in `waiting`, so
    call `make` or `find` after a miss.
    """

    __slots__ = ("__weakref__", "_epoch", "_living", "_lock", "_making", "_recent", "_waiting", "bound", "get")

    def __init__(self, bound: int, *, weak: bool = False) -> None:
        self.bound = bound
        self._recent: dict[Hashable, Any] = {}  # never replaced: `get` is a method of this dict
        self._waiting: dict[Hashable, Any] = {}
        self._living: WeakValueDictionary[Hashable, Any] | None = WeakValueDictionary() if weak else None
        # Weak: the _Making disappears with the frame of `make`. If an exception keeps the frame, `done` is free.
        self._making: WeakValueDictionary[Hashable, _Making] = WeakValueDictionary()
        self._epoch = 0  # number of calls of `clear`
        self._lock = threading.RLock()  # reentrant: a finalizer may use the cache while this thread holds the lock
        self.get: Callable[..., Any] = self._recent.get
        fork_safe(self)

    def _at_fork_reinit(self) -> None:
        """In a forked child, the other threads that held the lock or were making values no longer exist."""
        reset(self._lock)
        here = threading.get_ident()
        self._making = WeakValueDictionary({k: making for k, making in self._making.items() if making.thread == here})

    def make(self, key: Hashable, maker: Callable[..., Any], *arguments: Any) -> Any:
        """The value of `key`; if there is none, ``maker(*arguments)`` makes it.

        If several threads ask for a key, one makes the value and the others wait, for one minute at most. An exception
        of the maker is not cached; the next call tries again. A maker that asks for its own key makes a separate value.
        A value is not kept if `clear` was called while it was made.
        """
        gone: list[Any] = []  # released after the lock: release may take time and run any finalizer
        with self._lock:
            found = self._found(key, gone)
        if found is not ABSENT:
            return found
        own = _Making()
        with own.done:  # released in C code, so an interrupt at any line leaves it free
            while True:
                with self._lock:
                    found = self._found(key, gone)
                    if found is not ABSENT:
                        return found
                    making, epoch = self._making.get(key), self._epoch
                    if making is None or not making.done.locked():  # none, or one that an exception has ended
                        self._making[key] = making = own
                if making is own:
                    break
                if making.thread == threading.get_ident() or not making.done.acquire(timeout=_PATIENCE):
                    return maker(*arguments)
                making.done.release()
            value = maker(*arguments)
            with self._lock:
                if epoch == self._epoch:
                    gone += self._keep(key, value)
            return value

    def find(self, key: Hashable, default: Any = None) -> Any:
        """The value of `key`, or the default if there is none. A found key becomes the most recently used one.

        While another thread moves the key inside the cache, it may seem to be missing.
        """
        found = self.get(key, ABSENT)
        gone: list[Any] = []
        if found is ABSENT and (key in self._waiting or self._living is not None):
            with self._lock:
                found = self._found(key, gone)
        return default if found is ABSENT else found

    @property
    def epoch(self) -> int:
        """The number of calls of `clear`."""
        return self._epoch

    def put(self, key: Hashable, value: Any, epoch: int | None = None) -> None:
        """Store `value` under `key`, replacing an existing value; not if `clear` was called since `epoch`."""
        with self._lock:
            if epoch is not None and epoch != self._epoch:
                return
            gone = [self._waiting.pop(key, None), self._recent.pop(key, None), *self._keep(key, value)]
        del gone

    def evict(self) -> bool:
        """Evict the least recently used value; False if the cache is empty."""
        with self._lock:
            gone = self._oldest()
        return gone is not ABSENT

    def discard(self, key: Hashable) -> None:
        """Remove one key."""
        with self._lock:
            gone = [self._waiting.pop(key, None), self._recent.pop(key, None)]
            if self._living is not None:
                self._living.pop(key, None)
        del gone

    def clear(self) -> None:
        """Remove all entries. Values that are being made now will not be kept."""
        with self._lock:
            self._epoch += 1
            gone = [dict(self._recent), dict(self._waiting)]
            self._recent.clear()
            self._waiting.clear()
            if self._living is not None:
                self._living.clear()
        del gone

    def __iter__(self) -> Iterator[Any]:
        """A snapshot of the keys of the kept values; the next to be evicted comes first."""
        with self._lock:
            return iter([*self._waiting, *self._recent])

    def count_alive(self) -> int:
        """The number of values that `alive` returns."""
        with self._lock:
            return len(self._living) if self._living is not None else len(self._waiting) + len(self._recent)

    def alive(self) -> list[Any]:
        """The kept values; for a weak cache, also evicted values that are referenced elsewhere."""
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
        """The value of a key, which counts as a use; ABSENT if there is none. Adds evicted values to `gone`."""
        found = self._recent.get(key, ABSENT)
        if found is not ABSENT:
            return found
        found = self._waiting.get(key, ABSENT)
        if found is not ABSENT:
            self._recent[key] = found  # first: other threads read without the lock
            self._waiting.pop(key, None)  # a finalizer or a signal handler may have evicted it meanwhile
        elif self._living is not None:
            found = self._living.get(key, ABSENT)
            if found is not ABSENT:
                gone += self._keep(key, found)
        return found

    def _keep(self, key: Hashable, value: Any) -> list[Any]:
        """Add an entry; returns the evicted values."""
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
        """Remove the next entry to evict and return its value; ABSENT if there is none."""
        while True:
            if not self._waiting:
                self._line_up()
            key = next(iter(self._waiting), ABSENT)
            if key is ABSENT:
                return ABSENT
            gone = self._waiting.pop(key, ABSENT)
            if gone is not ABSENT:  # else a finalizer or a signal handler has evicted it meanwhile
                return gone

    def _line_up(self) -> None:
        """Move the recent entries to the end of the queue."""
        self._waiting.update(self._recent)  # first: other threads read without the lock
        self._recent.clear()
