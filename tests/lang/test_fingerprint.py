"""Content keys and fingerprints: a deleted object's key never equals another one, and numbers are never reused."""

from __future__ import annotations

import functools
import gc
import sys
import weakref
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import pydp
from pydp.lang.source import fingerprint as module
from pydp.lang.source.fingerprint import fingerprint
from pydp.lang.source.names import IdentityKey, array_key, content_key
from pydp.runtime.bounded import BoundedCache

pytestmark = pytest.mark.host


class Opaque:
    """An object without attributes: only its identity is part of a key."""

    __slots__ = ("__weakref__",)


class Bare:
    """An object that does not support weak references."""

    __slots__ = ()


def reader(held: Any) -> Callable[..., Any]:
    return lambda a, b: a + b * held


@pytest.mark.parametrize("make", [Opaque, Bare, lambda: np.zeros(1000)])
def test_objects_at_the_same_address_are_others(make: Callable[[], Any]) -> None:
    keys, same, addresses = [], [], set()
    for _ in range(60):
        value = make()
        addresses.add(id(value))
        keys.append(content_key(reader(value)))
        same.append(IdentityKey(value))
        assert IdentityKey(value) == same[-1] and hash(IdentityKey(value)) == hash(same[-1]) and same[-1] != value
        assert content_key(reader(value)) == keys[-1]
        del value
    assert len(set(keys)) == len(set(same)) == 60
    if len(addresses) == 60 and make is not Bare:
        pytest.skip("no address was used twice")


def test_large_arrays_are_told_apart_and_not_kept() -> None:
    keys, gone = [], []
    for number in range(40):
        array = np.full(100, number)
        keys.append(array_key(array))
        assert array_key(array) == keys[-1]
        gone.append(weakref.ref(array))
        del array
    assert len(set(keys)) == 40 and not any(one() is not None for one in gone)
    small = [array_key(np.full(10, number % 2)) for number in range(40)]
    assert len(set(small)) == 2


def plus(number: int) -> Callable[..., Any]:
    return lambda a, b: a + b + number


def test_numbers_are_bounded_and_never_used_again(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "_numbers", BoundedCache(4))
    first = plus(0)
    seen = {fingerprint(first)}
    assert fingerprint(plus(0)) in seen
    for number in range(1, 30):
        found = fingerprint(plus(number))
        assert found not in seen and fingerprint(plus(number)) == found
        seen.add(found)
        assert len(module._numbers) <= 4
    assert fingerprint(first) in seen  # the function keeps its fingerprint
    assert fingerprint(plus(0)) not in seen  # evicted from the cache: it gets a new number
    x = np.arange(20, dtype=np.int64)
    for number in (0, 3, 0, 29):
        out = np.zeros_like(x)
        pydp.forall(20, _add(number), out, x, device="host")
        assert np.array_equal(out, x + number)


def _add(number: int) -> Callable[..., Any]:
    def added(idx: Any, out: Any, x: Any) -> None:
        out[idx] = x[idx] + number

    return added


def test_functions_that_are_gone_are_let_go_of() -> None:
    def made() -> weakref.ref[Any]:
        function = _add(77)
        fingerprint(function)
        return weakref.ref(function)

    found = made()
    gc.collect()
    assert found() is None


def filler(value: Any) -> Callable[..., Any]:
    def fill(idx, o):
        o[idx] = value

    return fill


def filled(fn: Callable[..., Any]) -> int:
    o = np.zeros(1, np.int64)
    pydp.forall(1, fn, o, device="host")
    return int(o[0])


def test_copied_attributes_are_no_fingerprint() -> None:
    """functools.wraps copies the attributes of a function, which include its fingerprint, to another of equal code."""
    first = filler(1)
    assert filled(first) == 1
    assert filled(functools.wraps(first)(filler(2))) == 2
    assert filled(first) == 1


OFFSET = 1


def plus_offset(x):
    return x + OFFSET


def plus_ten(x):
    return x + 10


PAIR = (0, (plus_offset,))
MARKED = pydp.vector(plus_offset)


def by_default(idx, o, function=plus_offset):
    o[idx] = function(5)


def by_tuple(idx, o):
    o[idx] = PAIR[1][0](5)


def by_mark(idx, o):
    o[idx] = MARKED(5)


@pytest.mark.parametrize("fn", [by_default, by_tuple, by_mark], ids=lambda one: one.__name__)
def test_functions_in_defaults_and_tuples_are_watched(fn: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    for offset in (1, 2, 2**40, 1):
        monkeypatch.setattr(sys.modules[__name__], "OFFSET", offset)
        assert filled(fn) == 5 + offset


def test_functions_of_marked_functions_are_watched(monkeypatch: pytest.MonkeyPatch) -> None:
    assert filled(by_mark) == 5 + OFFSET
    monkeypatch.setattr(MARKED, "function", plus_ten)
    assert filled(by_mark) == 15
