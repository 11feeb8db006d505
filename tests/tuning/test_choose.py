"""A specialization is the caller's, a provider's, or the policy's, always one that can run; and it is explained."""

from __future__ import annotations

import dataclasses
import importlib
from collections.abc import Iterator
from dataclasses import dataclass
from types import SimpleNamespace
from typing import Any, ClassVar

import numpy as np
import pytest

import pydp
from pydp.algorithms.histogram.policy import HistogramProblem
from pydp.algorithms.matmul.spec import MatmulProblem
from pydp.algorithms.reduce.policy import ReduceProblem
from pydp.algorithms.scan.policy import ScanProblem
from pydp.algorithms.sort.policy import SortProblem
from pydp.errors import InvalidArgument, UnsupportedOnDevice
from pydp.model.architectures import by_target
from pydp.model.explanation import Explanation, explained_by
from pydp.model.family import Family, Problem
from pydp.runtime.bounded import BoundedCache
from pydp.tuning import choose as module
from pydp.tuning.choose import Choice, choose, forget

pytestmark = pytest.mark.host


@dataclass(frozen=True)
class ToyProblem(Problem):
    family: ClassVar[str] = "toy"
    n: int
    m: int
    reversed: bool = False


@dataclass(frozen=True)
class Spec:
    group: int = 64
    items: int = 4


def _check(profile: Any, problem: Problem, spec: Spec) -> str | None:
    return None if spec.group <= profile.max_group_size else f"group {spec.group} is above {profile.max_group_size}"


def _family(default: Spec | None = None) -> Family:
    return Family(
        "toy",
        Spec,
        default=lambda profile, problem: default or Spec(items=problem.n % 8),
        space=lambda profile, problem: [Spec(512), Spec(128), Spec(32)],
        check=_check,
    )


PROBLEM = ToyProblem("float32", 1003, 7, reversed=True)


@pytest.fixture
def toy() -> Any:
    profile = SimpleNamespace(kind="cpu", max_group_size=256)
    return SimpleNamespace(name="toy device", choices=BoundedCache(9), profile=profile)


@pytest.fixture(autouse=True)
def _no_providers(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setattr(module, "_BUILT_IN", ())
    yield
    forget()


def test_the_default_is_chosen_and_kept(toy: Any) -> None:
    choice = choose(_family(), toy, PROBLEM)
    assert choice == Choice(Spec(64, 3), "default", "the policy of toy for a cpu")
    assert choose(_family(Spec(1)), toy, PROBLEM) is choice  # the same description
    assert choose(_family(), toy, ToyProblem("float32", 1004, 7)).spec == Spec(64, 4)
    assert str(PROBLEM) == "toy float32 1003x7 reversed"


def test_a_default_that_cannot_run_gives_way_to_a_candidate(toy: Any) -> None:
    choice = choose(_family(Spec(1024)), toy, PROBLEM)
    assert (choice.spec, choice.source) == (Spec(128), "candidate")
    assert "group 1024 is above 256" in choice.reason
    toy.profile.max_group_size, toy.choices = 16, BoundedCache(9)
    with pytest.raises(UnsupportedOnDevice, match="toy float32 1003x7 reversed can run on 'toy device'"):
        choose(_family(Spec(1024)), toy, PROBLEM)


def test_the_callers_own(toy: Any) -> None:
    assert choose(_family(), toy, PROBLEM, Spec(8, 1)) == Choice(Spec(8, 1), "caller", "given as spec=")
    assert choose(_family(), toy, PROBLEM, {"group": 16}).spec == Spec(16, 3)
    assert choose(_family(), toy, PROBLEM, {}).spec == Spec(64, 3)
    with pytest.raises(InvalidArgument, match=r"has no field 'tile'; group, items are accepted"):
        choose(_family(), toy, PROBLEM, {"tile": 3})
    with pytest.raises(InvalidArgument, match="group 1024 is above 256"):
        choose(_family(), toy, PROBLEM, {"group": 1024})
    with pytest.raises(InvalidArgument, match="group 1024 is above 256"):
        choose(_family(), toy, PROBLEM, Spec(1024))
    with pytest.raises(InvalidArgument, match="a Spec or a mapping"):
        choose(_family(), toy, PROBLEM, 64)


def test_providers_go_before_the_default(toy: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    known = {"spec": Spec(2)}

    def tuned(family: Family, device: Any, problem: ToyProblem) -> Choice | None:
        return Choice(known["spec"], "tuned", "measured") if problem.n == 1 else None

    monkeypatch.setattr(module, "_BUILT_IN", (tuned,))
    assert choose(_family(), toy, PROBLEM).source == "default"
    assert choose(_family(), toy, ToyProblem("f", 1, 7)).spec == Spec(2)
    known["spec"] = Spec(4096)  # what it knows cannot run here
    choice = choose(_family(), toy, ToyProblem("g", 1, 7))
    assert choice.source == "default" and "tuned Spec(group=4096" in choice.reason


def test_explanations_print() -> None:
    def fn(x: int, **kw: int) -> None: ...

    explained_by(
        fn, lambda given: Explanation("fn", {"n": given.x, "longer": given.kw}, ["a reason"], {"k": "one\ntwo"})
    )
    assert pydp.explain(fn, 3, a=1).title
    assert str(pydp.explain(fn, 3, a=1)).splitlines() == [
        "fn",
        "--",
        "n       3",
        "longer  {'a': 1}",
        "",
        "why",
        "  - a reason",
        "",
        "kernels (the text of each is in .sources)",
        "  k: 2 lines",
    ]
    with pytest.raises(InvalidArgument, match="len cannot be explained"):
        pydp.explain(len, [1])


def test_values_of_a_wrong_type_are_told_before_they_are_compared(toy: Any) -> None:
    wrong: tuple[Any, ...] = ("64", 64.0, None, True)
    for value in wrong:
        for spec in ({"group": value}, Spec(group=value)):
            with pytest.raises(InvalidArgument, match=rf"group is {value!r}; int is accepted"):
                choose(_family(), toy, PROBLEM, spec)


_HUGE: list[tuple[str, Problem, dict[str, int]]] = [
    ("sort.policy", SortProblem("int32", 1024, 1, 4), {"chains": 1 << 20}),
    ("sort.policy", SortProblem("int32", 1024, 1, 4), {"stretch": 1 << 40}),
    ("sort.policy", SortProblem("int32", 1024, 1, 4), {"lanes": 64}),
    ("reduce.policy", ReduceProblem("float32", 1024, 1, None), {"unroll": 1 << 20}),
    ("reduce.policy", ReduceProblem("float32", 1024, 1, None), {"busy": 1 << 70}),
    ("histogram.policy", HistogramProblem("float32", 1024, 10), {"parts": 1 << 40}),
    ("scan.policy", ScanProblem("float32", 0, 10, 4, 0), {"width": 1 << 20, "vector": 0}),
    ("scan.policy", ScanProblem("float32", 0, 10, 4, 0), {"polls": 1 << 40}),
    ("matmul.policy", MatmulProblem("float32", 1, 64, 64, 64), {"tile_k": 1 << 40}),
]


@pytest.mark.parametrize(("stem", "problem", "fields"), _HUGE)
def test_values_that_no_kernel_takes_are_refused(stem: str, problem: Problem, fields: dict[str, int]) -> None:
    family = importlib.import_module(f"pydp.algorithms.{stem}").FAMILY
    profile = by_target("avx512")[0]
    spec = family.default(profile, problem)
    assert family.check(profile, problem, spec) is None
    why = family.check(profile, problem, dataclasses.replace(spec, **fields))
    assert why is not None and next(iter(fields)) in why


@pytest.mark.parametrize("target", ["avx512", "avx2", "sm_90"])
@pytest.mark.parametrize("sizes", [(1, 1, 1, 1 << 31), (1, 4, 64, 1 << 32), (1, 1, 1 << 33, 4), (1 << 33, 3, 4, 5)])
def test_products_of_any_size_have_a_default(target: str, sizes: tuple[int, ...]) -> None:
    """Sums of over 2**30 products along k had none of its own, and were left to lanes on a CPU."""
    family = importlib.import_module("pydp.algorithms.matmul.policy").FAMILY
    profile = by_target(target)[0]
    batches, m, n, k = sizes
    for thin, dots in ((True, False), (True, True), (False, False)):
        problem = MatmulProblem("uint8", batches, m, n, k, thin, dots)
        spec = family.default(profile, problem)
        assert spec.mapping == profile.mapping and family.check(profile, problem, spec) is None


@pytest.mark.parametrize(("stem", "problem"), [(stem, problem) for stem, problem, _ in _HUGE[2:]])
def test_the_other_mapping_can_be_asked_for_by_its_name(stem: str, problem: Problem) -> None:
    family = importlib.import_module(f"pydp.algorithms.{stem}").FAMILY
    profile = by_target("avx512")[0]
    there = SimpleNamespace(name="a CPU", choices=BoundedCache(9), profile=profile)
    found = choose(family, there, problem, {"mapping": "simt"}).spec
    assert found.mapping == "simt" and family.check(profile, problem, found) is None
    assert found == family.default(dataclasses.replace(profile, mapping="simt"), problem)
    assert choose(family, there, problem, {"mapping": "vector"}).spec == choose(family, there, problem).spec
    for wrong in ("warp", ["simt"], None, np.array(["simt", "simt"])):
        with pytest.raises(InvalidArgument, match="mapping"):
            choose(family, there, problem, {"mapping": wrong})
