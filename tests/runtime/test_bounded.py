"""The cache type: its bound, what goes first, one maker for a key, and what callers hold."""

from __future__ import annotations

import gc
import random
import sys
import threading
import time
import weakref
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest

from pydp.runtime.bounded import ABSENT, BoundedCache

pytestmark = pytest.mark.host


class Value:
    """An object that allows weak references and compares by identity."""


def use(cache: BoundedCache, key: Any, made: Callable[[], Any] = Value) -> Any:
    """As callers look values up."""
    found = cache.get(key, ABSENT)
    return cache.make(key, made) if found is ABSENT else found


@pytest.mark.parametrize("bound", [0, 1, 2, 3, 7, 64])
def test_never_more_than_the_bound(bound: int) -> None:
    cache, generator = BoundedCache(bound), random.Random(bound)
    for _ in range(3000):
        key = generator.randrange(100)
        assert use(cache, key, lambda key=key: key) == key
        assert len(cache) <= bound
        assert len(cache.alive()) == len(list(cache)) == len(cache) == cache.count_alive()
    if bound:
        assert key in cache and len(cache) == bound


def test_a_hit_makes_nothing() -> None:
    cache = BoundedCache(4)
    made = use(cache, "a")
    for _ in range(5):
        assert use(cache, "a", lambda: pytest.fail("made again")) is made
    assert cache.find("a") is made and cache.find("b") is None and cache.find("b", 3) == 3
    assert cache.make("none", lambda: None) is None
    assert use(cache, "none", lambda: pytest.fail("made again")) is None


def test_a_hit_is_a_look_up_in_a_dict() -> None:
    cache: Any = BoundedCache(8)
    made = use(cache, "a")
    assert use(cache, "a") is made  # among the recent ones from now on
    assert cache.get.__self__ is cache._recent and cache.get("a") is made
    for number in range(20):
        use(cache, number)
    assert cache.get.__self__ is cache._recent


def test_what_is_used_all_the_time_stays_and_what_is_not_goes_in_order() -> None:
    cache = BoundedCache(10)
    hot = use(cache, "hot")
    for number in range(500):
        use(cache, number)
        assert use(cache, "hot") is hot
    kept = [key for key in cache if key != "hot"]
    assert sorted(kept) == list(range(491, 500))
    for number in range(491, 500):  # the one that waited for longest is the next
        assert cache.evict()
        if "hot" in cache:
            use(cache, "hot")
        assert sum(key in cache for key in range(491, 500)) >= 499 - number
    while cache.evict():
        pass
    assert len(cache) == 0 and not cache.evict()


def test_least_recently_used_goes_within_the_promise() -> None:
    """Never one that was used after half of the others were added or used again."""
    generator, cache, clock = random.Random(3), BoundedCache(32), {}
    for now in range(20_000):
        key = int(generator.paretovariate(0.7)) % 200
        before = set(cache)
        use(cache, key)
        for gone in before - set(cache):
            later = sum(clock[other] > clock[gone] for other in before)
            assert later >= 8, (now, gone, later)
        clock[key] = now


def test_a_smaller_bound_holds_from_the_next_entry_on() -> None:
    cache = BoundedCache(50)
    for number in range(50):
        use(cache, number)
    cache.bound = 5
    use(cache, 50)
    assert len(cache) == 5 and 50 in cache
    cache.bound = 0
    use(cache, 51)
    assert len(cache) == 0


def test_evicted_values_are_let_go_of_and_those_in_use_live() -> None:
    cache = BoundedCache(3)
    held, lost = use(cache, "held"), weakref.ref(use(cache, "lost"))
    for number in range(9):
        use(cache, number)
    assert "held" not in cache and lost() is None
    assert use(cache, "held") is not held  # a cache that is not weak has forgotten it


def test_a_weak_cache_finds_what_something_else_holds() -> None:
    cache = BoundedCache(2, weak=True)
    held, lost = use(cache, "held"), weakref.ref(use(cache, "lost"))
    for number in range(9):
        use(cache, number)
    assert len(cache) == 2 and cache.count_alive() == len(cache.alive()) == 3
    assert lost() is None and "held" in cache
    assert use(cache, "held", lambda: pytest.fail("made again")) is held
    assert len(cache) == 2
    keeps_nothing = BoundedCache(0, weak=True)
    first = use(keeps_nothing, 1)
    assert use(keeps_nothing, 1) is first and len(keeps_nothing) == 0 and keeps_nothing.count_alive() == 1
    del first
    assert keeps_nothing.count_alive() == 0 and 1 not in keeps_nothing


def test_put_discard_and_clear() -> None:
    cache = BoundedCache(4, weak=True)
    one, two = Value(), Value()
    for number in range(6):
        cache.put("a", one if number % 2 else two)
        cache.put(number, Value())
        assert cache.find("a") is (one if number % 2 else two) and len(cache) <= 4
    cache.discard("a")
    assert "a" not in cache and cache.find("a") is None
    cache.discard("a")
    cache.put("a", one)
    cache.clear()
    assert not len(cache) and cache.find("a") is None and not cache.alive()


def test_what_is_made_while_it_is_cleared_is_not_kept() -> None:
    cache = BoundedCache(4)

    def outdated() -> int:
        cache.clear()
        return 1

    assert cache.make("a", outdated) == 1 and "a" not in cache
    assert cache.make("a", lambda: 2) == 2 and "a" in cache


def test_what_fails_is_tried_again() -> None:
    cache = BoundedCache(4)
    for _ in range(3):
        with pytest.raises(ZeroDivisionError):
            cache.make("a", lambda: 1 // 0)
    assert cache.make("a", lambda: 1) == 1


def test_a_maker_may_use_the_cache() -> None:
    cache = BoundedCache(2)

    def inner(number: int) -> int:
        return number and 1 + cache.make(number - 1, inner, number - 1)

    assert cache.make(20, inner, 20) == 20 and len(cache) == 2
    assert cache.make("own", lambda: cache.make("own", lambda: 5) + 1) == 6
    assert cache.find("own") == 6


@pytest.mark.parametrize("weak", [False, True])
def test_one_thread_makes_and_the_others_wait(weak: bool) -> None:
    cache, made = BoundedCache(4, weak=weak), []
    together = threading.Barrier(8)

    def make() -> Value:
        made.append(threading.get_ident())
        time.sleep(0.01)
        return Value()

    def work(_: int) -> Any:
        together.wait()
        return use(cache, "a", make)

    with ThreadPoolExecutor(8) as pool:
        found = list(pool.map(work, range(8)))
    assert len({id(one) for one in found}) == 1 and len(made) == 1


def test_another_thread_makes_what_one_failed_to() -> None:
    cache, tries = BoundedCache(4), []

    def make() -> int:
        tries.append(1)
        time.sleep(0.01)
        if len(tries) < 3:
            raise OSError(len(tries))
        return 7

    def work(_: int) -> Any:
        try:
            return cache.make("a", make)
        except OSError as error:
            return error.args[0]

    with ThreadPoolExecutor(8) as pool:
        found = sorted(pool.map(work, range(8)))
    assert found == [1, 2, *[7] * 6] and len(tries) == 3


def test_threads_that_wait_for_each_other_go_on(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("pydp.runtime.bounded._PATIENCE", 0.05)
    cache, both = BoundedCache(4), threading.Barrier(2)

    def work(pair: tuple[str, str]) -> str:
        own, other = pair

        def make() -> str:
            both.wait()
            return own + str(cache.make(other, lambda: other))

        return str(cache.make(own, make))

    with ThreadPoolExecutor(2) as pool:
        first, second = pool.map(work, [("a", "b"), ("b", "a")])
    assert first[0] == "a" and second[0] == "b"


@pytest.mark.parametrize("bound", [1, 2, 16])
def test_threads_find_the_value_of_their_key(bound: int) -> None:
    cache = BoundedCache(bound)

    def work(seed: int) -> bool:
        generator, right = random.Random(seed), True
        for _ in range(4000):
            key = (generator.randrange(24), "key")
            found = cache.get(key)
            if found is None:
                found = cache.make(key, lambda key=key: ("value", key))
            right &= found == ("value", key)
            if generator.random() < 0.02:
                generator.choice([cache.evict, cache.clear, lambda key=key: cache.discard(key)])()
        return right and len(cache) <= bound

    with ThreadPoolExecutor(8) as pool:
        assert all(pool.map(work, range(8)))
    assert len(cache) <= bound and not cache._making


@pytest.mark.parametrize("kept_error", [False, True])
def test_an_interrupt_at_any_line_leaves_no_attempt_behind(kept_error: bool) -> None:
    lines = {line for *_, line in BoundedCache.make.__code__.co_lines() if line}
    interrupted, held = 0, None
    for stop in sorted(lines):
        cache, made = BoundedCache(4), []

        def interrupt(frame: Any, event: str, argument: object, stop: int = stop) -> Any:
            if frame.f_code is not BoundedCache.make.__code__:
                return None
            if event == "line" and frame.f_lineno == stop:
                raise KeyboardInterrupt
            return interrupt

        before = sys.gettrace()
        sys.settrace(interrupt)
        try:
            cache.make("key", made.append, 1)
        except KeyboardInterrupt as error:
            interrupted += 1
            held = error if kept_error else None  # keeps the frame, as sys.last_value does
        finally:
            sys.settrace(before)
        assert kept_error or not cache._making, stop
        kept = len(cache)
        cache.make("key", made.append, 2)
        cache.make("key", made.append, 3)
        assert made in ([1], [2], [1, 2]) and (made == [1]) == bool(kept), (stop, made)
    assert interrupted > 8 and isinstance(held, KeyboardInterrupt) == kept_error


def test_evicted_values_are_released_without_the_lock() -> None:
    held: list[bool] = []
    cache = BoundedCache(1, weak=True)

    class Last:
        def __del__(self) -> None:
            held.append(cache._lock._is_owned())  # type: ignore[attr-defined]

    living = cache.make("a", Value)
    cache.make("b", Last)
    assert cache.find("a") is living  # "b" goes for it
    cache.make("b", Last)
    assert cache.make("a", Value) is living
    cache.make("b", Last)
    cache.clear()
    assert held == [False] * 3


def test_finalizers_of_values_may_use_the_cache() -> None:
    cache, gone = BoundedCache(2), []

    class Last:
        def __init__(self, key: int) -> None:
            self.key = key

        def __del__(self) -> None:
            gone.append(self.key)
            cache.make(("after", self.key % 3), int)

    for number in range(50):
        use(cache, number, lambda number=number: Last(number))
        assert len(cache) <= 2
    cache.clear()
    gc.collect()
    assert sorted(gone) == list(range(50)) and len(cache) <= 2


class _Interrupting:
    """A key whose look-ups run a finalizer of the user, in the thread that holds the lock."""

    skipped = 0
    finalizer: Callable[[], object] | None = None

    def __hash__(self) -> int:
        if self.finalizer is not None:
            self.skipped -= 1
            if self.skipped < 0:
                finalizer, self.finalizer = self.finalizer, None
                finalizer()
        return 1


@pytest.mark.parametrize("skipped", range(6))
@pytest.mark.parametrize("nested", ["evict", "clear", "find", "make"])
@pytest.mark.parametrize("act", ["find", "make", "evict", "another"])
def test_the_cache_may_be_used_by_what_interrupts_it(act: str, nested: str, skipped: int) -> None:
    cache, key = BoundedCache(2), _Interrupting()
    cache.put(key, "value")
    cache.put("other", "another value")  # now the key is among those that wait
    acts: dict[str, Callable[[], object]] = {
        "find": lambda: cache.find(key, "value"),
        "make": lambda: cache.make(key, lambda: "value"),
        "evict": lambda: "value" if cache.evict() in (True, False) else None,
        "another": lambda: cache.make("one more", lambda: "value"),
        "clear": cache.clear,
    }
    key.skipped, key.finalizer = skipped, acts[nested]
    assert acts[act]() == "value"
    key.finalizer = None
    assert len(cache) <= 2 and cache.make(key, lambda: "value") == "value" and cache.find(key) == "value"
