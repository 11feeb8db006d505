"""Problems, families and the cache of plans."""

from __future__ import annotations

import gc
import weakref
from dataclasses import dataclass
from types import SimpleNamespace
from typing import Any, ClassVar

import pytest

from pydp.algorithms.histogram.policy import HistogramProblem
from pydp.algorithms.matmul.spec import MatmulProblem
from pydp.algorithms.reduce.policy import ReduceProblem
from pydp.algorithms.scan.policy import ScanProblem
from pydp.algorithms.sort.policy import SortProblem
from pydp.algorithms.transpose.policy import TransposeProblem
from pydp.model import family
from pydp.model.architectures import by_target
from pydp.model.family import Family, Key, Keyed, Problem, ProblemFound, SpecProbe, altered, cached_plan, forget
from pydp.runtime.bounded import BoundedCache
from pydp.tuning.shape_class import shape_class

pytestmark = pytest.mark.host

PROFILE = by_target("avx512")[0]


@dataclass(frozen=True)
class ToyProblem(Problem):
    family: ClassVar[str] = "toy"
    n: int
    depth: int | None
    wide: bool = False
    turns: int = 0
    mapping: str | None = None


@dataclass(frozen=True)
class EmptyProblem(Problem):
    family: ClassVar[str] = "empty"


@dataclass(frozen=True)
class Spec:
    width: int
    unroll: int = 1

    def __post_init__(self) -> None:
        assert self.width < 100


def test_problems_as_text() -> None:
    assert str(ToyProblem("int32", 8, 9, wide=True)) == "toy int32 8x9 wide"
    assert str(EmptyProblem("int32,float64")) == "empty int32,float64 ()"


def test_candidates_begin_with_the_default_and_can_run() -> None:
    def check(profile: Any, problem: Problem, spec: Spec) -> str | None:
        return f"width {spec.width} is above {problem.sizes[0]}" if spec.width > problem.sizes[0] else None

    one = Family("toy", Spec, lambda *_: Spec(4), lambda *_: [Spec(1), Spec(16), Spec(4), Spec(1), Spec(8)], check)
    assert one.candidates(PROFILE, ToyProblem("int32", 8, None)) == [Spec(4), Spec(1), Spec(8)]
    assert one.candidates(PROFILE, ToyProblem("int32", 2, None)) == [Spec(1)]


def test_altered_copies_without_checks() -> None:
    spec = Spec(4, unroll=2)
    assert altered(spec, width=8) == Spec(8, 2) and spec == Spec(4, 2)
    assert altered(spec, width=100).width == 100


def test_probes_differ() -> None:
    one, other = SpecProbe(), SpecProbe()
    assert repr(one) != repr(other)
    device: Any = SimpleNamespace(name="cpu")
    found = ProblemFound(Any, device, ToyProblem("int32", 8, None))  # type: ignore[arg-type]
    assert str(found) == "toy int32 8 on 'cpu'" and found.device is device


def test_keys_equal_keys_alone() -> None:
    assert Key(3) == Key(3) and hash(Key(3)) == hash(Key(3))
    assert Key(3) != Key(4) and Key(3) != 3 and Key((3,)) != (3,)
    with pytest.raises(TypeError, match="unhashable"):
        hash(Keyed(3, Key(3)))


def _device() -> Any:
    return SimpleNamespace(plans=BoundedCache(64), choices=BoundedCache(64), recordings=BoundedCache(64))


def test_plans_are_made_once_for_each_key() -> None:
    made: list[Any] = []

    @cached_plan
    def plan(device: Any, size: int, operator: Any) -> list[Any]:
        made.append((size, operator))
        return [size]

    @cached_plan
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
    plan: Any = cached_plan(lambda device, size: made.append(size))
    device = _device()
    assert plan(device, 8) is plan(device, 8) is None and made == [8]


def test_a_plans_key_keeps_no_value_alive() -> None:
    class Large:
        pass

    @cached_plan
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


@pytest.mark.parametrize(
    ("problem", "text", "stored"),
    [
        (
            MatmulProblem("float32", 3, 4, 64, 100, thin=True, dots=True, mapping="vector", method="packed"),
            "matmul float32 3x4x64x100 thin dots mapping=vector method=packed",
            "matmul float32 4x4x64x128 dots mapping=vector method=packed thin",
        ),
        (MatmulProblem("int8", 1, 64, 64, 0), "matmul int8 1x64x64x0", "matmul int8 1x64x64x0"),
        (
            ScanProblem("uint8,int64", 3, 20, 8, 5, True, True, True, True, True),
            "scan uint8,int64 3x20x8x5 exclusive segments in_place record vectors",
            "scan uint8,int64 8x1048576x8x8 exclusive in_place record segments vectors",
        ),
        (
            ScanProblem("int32", 0, 24, 4, 0, vectors=True),
            "scan int32 0x24x4x0 vectors",
            "scan int32 1x16777216x4x0 vectors",
        ),
        (
            ReduceProblem("[('a', '<f4')]", 1024, 3, 4, commutes=True, columns=True),
            "reduce [('a', '<f4')] 1024x3x4 commutes columns",
            "reduce [('a', '<f4')] 1024x4x4 columns commutes",
        ),
        (ReduceProblem("float32", 1024, 1, None), "reduce float32 1024x1", "reduce float32 1024x1"),
        (
            SortProblem("int32", 1024, 1, 12, records_lost_in_arrays=True, iterations=123),
            "sort int32 1024x1x12 records_lost_in_arrays iterations=123",
            "sort int32 1024x1x16 iterations=123 records_lost_in_arrays",
        ),
        (
            HistogramProblem("uint8", 1024, 7, values=True, uneven=True, weights=True),
            "histogram uint8 1024x7 values uneven weights",
            "histogram uint8 1024x8 uneven values weights",
        ),
        (TransposeProblem("V4", 1024, 300), "transpose V4 1024x300", "transpose V4 1024x512"),
    ],
)
def test_texts_by_which_measurements_are_found(problem: Problem, text: str, stored: str) -> None:
    """A change of these texts would make the measurements of users and the shipped ones useless."""
    assert str(problem) == text
    assert str(shape_class(problem)) == stored


def test_sizes_and_options_are_fields() -> None:
    plain, full = ToyProblem("f4", 5, None), ToyProblem("f4", 5, 0, wide=True, turns=3, mapping="simt")
    assert (plain.sizes, plain.flags, str(plain)) == ((5,), (), "toy f4 5")
    assert (full.sizes, full.flags, str(full)) == ((5, 0), ("wide", "turns=3", "mapping=simt"), str(full))
    assert plain.lengths == (5,) and plain == ToyProblem("f4", 5, None) and plain != full
    assert len({plain, ToyProblem("f4", 5, None), full}) == 2


def test_problems_of_smaller_sizes() -> None:
    assert ToyProblem("f4", 512, None, wide=True).smaller(0.55, 64) == ToyProblem("f4", 281, None, wide=True)
    assert ToyProblem("f4", 64, 100).smaller(0.55, 64) == ToyProblem("f4", 64, 55)
    scan = ScanProblem("int32", 0, 24, 100, 0)
    assert scan.smaller(0.55, 64) is scan
