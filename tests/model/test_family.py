"""Problems, families and the cache of plans."""

from __future__ import annotations

import gc
import weakref
from dataclasses import dataclass
from types import SimpleNamespace
from typing import Any

import pytest

from pydp.model import family
from pydp.model.architectures import by_target
from pydp.model.family import Family, Key, Keyed, Problem, ProblemFound, SpecProbe, altered, forget, kept_plan
from pydp.runtime.bounded import BoundedCache

pytestmark = pytest.mark.host

PROFILE = by_target("avx512")[0]


@dataclass(frozen=True)
class Spec:
    width: int
    unroll: int = 1

    def __post_init__(self) -> None:
        assert self.width < 100


def test_problems_as_text() -> None:
    assert str(Problem("scan", "int32", (8, 9), ("exclusive", "rows"))) == "scan int32 8x9 exclusive rows"
    assert str(Problem("sort", "int32,float64", ())) == "sort int32,float64 ()"


def test_candidates_begin_with_the_default_and_can_run() -> None:
    def check(profile: Any, problem: Problem, spec: Spec) -> str | None:
        return f"width {spec.width} is above {problem.sizes[0]}" if spec.width > problem.sizes[0] else None

    one = Family("toy", Spec, lambda *_: Spec(4), lambda *_: [Spec(1), Spec(16), Spec(4), Spec(1), Spec(8)], check)
    assert one.candidates(PROFILE, Problem("toy", "int32", (8,))) == [Spec(4), Spec(1), Spec(8)]
    assert one.candidates(PROFILE, Problem("toy", "int32", (2,))) == [Spec(1)]


def test_altered_copies_without_checks() -> None:
    spec = Spec(4, unroll=2)
    assert altered(spec, width=8) == Spec(8, 2) and spec == Spec(4, 2)
    assert altered(spec, width=100).width == 100


def test_probes_differ() -> None:
    one, other = SpecProbe(), SpecProbe()
    assert repr(one) != repr(other)
    device: Any = SimpleNamespace(name="cpu")
    found = ProblemFound(Any, device, Problem("scan", "int32", (8,)))  # type: ignore[arg-type]
    assert str(found) == "scan int32 8 on 'cpu'" and found.device is device


def test_keys_equal_keys_alone() -> None:
    assert Key(3) == Key(3) and hash(Key(3)) == hash(Key(3))
    assert Key(3) != Key(4) and Key(3) != 3 and Key((3,)) != (3,)
    with pytest.raises(TypeError, match="unhashable"):
        hash(Keyed(3, Key(3)))


def _device() -> Any:
    return SimpleNamespace(plans=BoundedCache(64), choices=BoundedCache(64), recordings=BoundedCache(64))


def test_plans_are_made_once_for_each_key() -> None:
    made: list[Any] = []

    @kept_plan
    def plan(device: Any, size: int, operator: Any) -> list[Any]:
        made.append((size, operator.value))
        return [size]

    @kept_plan
    def other(device: Any, size: int, operator: Any) -> str:
        return "other"

    device = _device()
    first = plan(device, 8, Keyed("+", Key("sum")))
    assert plan(device, 8, Keyed("plus", Key("sum"))) is first
    assert plan(device, 9, Keyed("+", Key("sum"))) == [9]
    assert plan(device, 8, Keyed("*", Key("product"))) is not first
    assert made == [(8, "+"), (9, "+"), (8, "*")]
    assert other(device, 8, Keyed("+", Key("sum"))) == "other"
    plan(_device(), 8, Keyed("+", Key("sum")))
    assert len(made) == 4


def test_a_plan_whose_result_is_none_is_kept() -> None:
    made: list[int] = []
    plan: Any = kept_plan(lambda device, size: made.append(size))
    device = _device()
    assert plan(device, 8) is plan(device, 8) is None and made == [8]


def test_a_plans_key_keeps_no_value_alive() -> None:
    class Large:
        pass

    @kept_plan
    def plan(device: Any, one: Any) -> int:
        return 1

    device, value = _device(), Large()
    alive = weakref.ref(value)
    plan(device, Keyed(value, Key("large")))
    del value
    gc.collect()
    assert alive() is None and len(device.plans) == 1


def test_forget_drops_what_follows_from_choices(monkeypatch: pytest.MonkeyPatch) -> None:
    devices = [_device(), _device()]
    monkeypatch.setattr(family, "known_devices", lambda: devices)
    for device in devices:
        for cache in (device.plans, device.choices, device.recordings):
            cache.make("key", lambda: 1)
    forget()
    assert not any(len(cache) for device in devices for cache in vars(device).values())
