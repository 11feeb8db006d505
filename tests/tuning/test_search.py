"""The order of a search, the required properties of results, and the comparison of times."""

from __future__ import annotations

import threading
from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest

import pydp
from pydp.tuning import trial
from pydp.tuning.reference import Expected, alike, difference, expected, hosts, unlike
from pydp.tuning.search import FIRST, neighbourhood, search

pytestmark = pytest.mark.host


@dataclass(frozen=True)
class Spec:
    tile: int = 64
    method: str = "a"
    wide: bool = False
    fixed: int = 3


def _drive(ranked: list[Any], neighbours: Any, time_of: Any, most: int = 1000) -> list[Any]:
    """The candidates that a search tries, in order."""
    steps = search(ranked, neighbours)
    tried = [next(steps)]
    try:
        while len(tried) < most:
            tried.append(steps.send(time_of(tried[-1])))
    except StopIteration:
        pass
    return tried


def test_the_best_few_then_a_climb_then_the_rest() -> None:
    ranked = list(range(100, 130))

    def neighbours(spec: int) -> list[int]:
        return [spec - 1, spec + 1]

    tried = _drive(ranked, neighbours, lambda spec: 1.0 + abs(spec - 95))
    assert tried[:FIRST] == ranked[:FIRST]
    assert tried[FIRST : FIRST + 6] == [99, 98, 97, 96, 95, 94]  # downhill from 100, and one step beyond
    assert tried[FIRST + 6 :] == ranked[FIRST:] and len(set(tried)) == len(tried)
    # A climb begins anew where a later one of the ranking is better.
    late = _drive(ranked, neighbours, lambda spec: 0.5 + abs(spec - 200) if spec > 111 else 300.0 + spec)
    assert {112, 130, 131, 200, 201} <= set(late) and 202 not in late


def test_failures_are_no_place_to_climb_from() -> None:
    assert _drive([1, 2, 3], lambda spec: [spec * 10], lambda spec: None) == [1, 2, 3]
    assert _drive([1, 2], lambda spec: [spec * 10], lambda spec: None if spec == 1 else 1.0) == [1, 2, 20]


def test_neighbours() -> None:
    space = [Spec(64), Spec(256, "b"), Spec(512, "c", True)]
    of = neighbourhood(space, lambda spec: "too large" if spec.tile > 600 else None)
    assert set(of(Spec(256, "b"))) == {
        Spec(128, "b"), Spec(512, "b"), Spec(256, "a"), Spec(256, "c"), Spec(256, "b", True),
    }  # fmt: skip
    assert {spec.tile for spec in of(Spec(512))} == {512, 256}  # 1024 is checked away
    assert {spec.tile for spec in of(Spec(5))} == {5, 10}
    assert neighbourhood([], lambda spec: None)(Spec()) == []


_RNG = np.random.default_rng(3)
_A, _B = _RNG.standard_normal((2, 6, 5)).astype("f"), _RNG.standard_normal((5, 4)).astype("f")
_V = _RNG.integers(0, 9, 50).astype(np.int32)


@pytest.mark.parametrize(
    "name, args, kw, right",
    [
        ("matmul", (_A, _B), {}, [_A @ _B]),
        ("matmul", (_A.astype("f2"), _B.astype("f2")), {"device": None}, [_A.astype("f2") @ _B.astype("f2")]),
        ("matmul", (_V[:4], _V[:4]), {}, [_V[:4] @ _V[:4]]),
        ("scan", (_V,), {"strategy": "chained"}, [np.cumsum(_V, dtype=np.int32)]),
        ("scan", (_A, "max"), {"axis": None}, [np.maximum.accumulate(_A.reshape(-1))]),
        ("scan", (_A,), {"axis": 1}, [np.cumsum(_A, axis=1)]),
        ("scan", (_V > 4,), {}, [np.cumsum(_V > 4)]),
        ("reduce", (_A,), {"axis": (0, 2)}, [_A.sum((0, 2))]),
        ("reduce", (_V,), {"keepdims": True}, [_V.sum(keepdims=True)]),
        ("reduce", (_A, "min"), {"axis": 0}, [_A.min(0)]),
        ("sort", (_A,), {"axis": 1}, [np.sort(_A, 1)]),
        ("argsort", (_V,), {}, [np.argsort(_V, kind="stable")]),
        ("sort_by_key", (_V, np.arange(50)), {"axis": None}, [np.sort(_V), np.argsort(_V, kind="stable")]),
        ("histogram", (_A,), {"bins": 4, "range": (-1, 1)}, list(np.histogram(_A, 4, (-1, 1)))),
        ("bincount", (_V,), {"minlength": 20}, [np.bincount(_V, minlength=20)]),
        ("transpose", (_A, (1, 0, 2)), {}, [_A.transpose(1, 0, 2)]),
    ],
)
def test_references(name: str, args: tuple[Any, ...], kw: dict[str, Any], right: list[np.ndarray]) -> None:
    want = expected(getattr(pydp, name), args, kw)
    assert want is not None and difference(right, want) is None
    assert difference([np.array(one) for one in right], alike(right)) is None
    for place, one in enumerate(right):
        wrong = [np.array(other) for other in right]
        flat = wrong[place].reshape(-1)
        flat[-1] = flat[-1] + 1
        wrong[place] = flat.reshape(one.shape)
        text = difference(wrong, want)
        assert text is not None and "1 of" in text and "instead of" in text


def test_histograms_of_integers_that_numpy_rounds_have_no_reference() -> None:
    for values in ([2**53 + 1, 5], [-(2**53) - 1, 5]):
        assert expected(pydp.histogram, (np.array(values),), {}) is None
    assert expected(pydp.histogram, (np.array([2**53, 5]),), {}) is not None
    assert expected(pydp.histogram, (np.zeros(0, np.int64),), {}) is not None


@pytest.mark.parametrize("whole", [True, False])
def test_sums_of_both_signs_are_not_taken_for_right_whatever_they_are(whole: bool) -> None:
    """Magnitudes grow faster than such sums do: what they alone allow is more than the sums themselves."""
    rng, n, part = np.random.default_rng(1), 1 << 18, 1 << 14
    x = (rng.integers(-4, 5, n) if whole else rng.standard_normal(n)).astype(np.float32)
    apart = np.concatenate([np.cumsum(piece) for piece in np.split(x, n // part)])  # without the pieces before
    wanted, total = expected(pydp.scan, (x,), {}), expected(pydp.reduce, (x,), {})
    assert wanted is not None and "elements are wrong" in str(difference([apart], wanted))
    assert difference([np.cumsum(x)], wanted) is None
    for rows in (x.reshape(64, -1), x.reshape(64, -1).T):
        folded = expected(pydp.reduce, (rows,), {"axis": 0, "keepdims": True})
        assert folded is not None and difference([rows.sum(0, keepdims=True)], folded) is None
    assert total is not None and difference([x.sum()], total) is None
    assert difference([np.float32(3 * x.sum() - 2000)], total) is not None
    for constant in (0.1, 16777217):  # which rounds the same way at each step
        same = np.full(n, constant, np.float32)
        for name, found in (("scan", np.cumsum(same)), ("reduce", np.cumsum(same)[-1])):
            right = expected(getattr(pydp, name), (same,), {})
            assert right is not None and difference([found], right) is None


@pytest.mark.filterwarnings("error")
def test_what_overflows_or_is_no_number_is_no_cause_to_warn() -> None:
    x = np.array([3e38, 3e38, np.inf, -np.inf, np.nan, 1], np.float32)
    for name, args in (("scan", (x,)), ("reduce", (x,)), ("matmul", (np.full((2, 2), 3e38, np.float32),) * 2)):
        with np.errstate(all="ignore"):
            right = {"scan": np.cumsum, "reduce": np.sum}.get(name, np.matmul)(*args)
        want = expected(getattr(pydp, name), args, {})
        assert want is not None and difference([np.asarray(right)], want) is None
    bools = x > 0
    counted = expected(pydp.histogram, (bools, 4), {})
    assert counted is not None and counted[0].values.tolist() == [2, 0, 0, 4]


def test_infinite_values_let_no_others_pass() -> None:
    x = np.array([1, np.inf, 2, 3], np.float32)
    for name, args in (("scan", (x,)), ("reduce", (x,)), ("matmul", (x, x))):
        want = expected(getattr(pydp, name), args, {})
        assert want is not None and difference([want[0].values], want) is None
        for other in (7, -np.inf, np.nan):
            wrong = np.where(np.isinf(want[0].values), np.float32(other), want[0].values)
            assert "elements are wrong" in str(difference([wrong], want))
    z = np.array([complex(np.inf, np.inf)], np.complex64)
    want = alike([z])
    assert difference([np.array([complex(np.nan, np.nan)], np.complex64)], want) is None
    for other in (np.array([7], np.complex64), unlike(z)):
        assert "1 of 1" in str(difference([other], want))


@pytest.mark.parametrize(
    "name, args, kw",
    [
        ("forall", (), {}),
        ("scan", (_V, "*"), {}),
        ("scan", (_V,), {"segments": _V}),
        ("scan", (_V, lambda a, b: a), {}),
        ("matmul", (_A, _B), {"beta": 2}),
        ("sort", (_V,), {"key": "-x"}),
        ("histogram", (_V,), {"weights": _V}),
    ],
)
def test_what_numpy_does_not_know(name: str, args: tuple[Any, ...], kw: dict[str, Any]) -> None:
    assert expected(getattr(pydp, name), args, kw) is None


def test_differences() -> None:
    one = np.array([1.0, np.nan, 3.0])
    assert difference([one], alike([one.copy()])) is None
    assert difference([one, one], [Expected(one)]) == "2 arrays instead of 1"
    assert difference([one.astype("f")], [Expected(one)]) == "float32 (3,) instead of float64 (3,)"
    assert "(1,): 2.0 instead of nan" in str(difference([np.array([1.0, 2.0, 3.0])], [Expected(one)]))
    assert difference([one + 1e-3], [Expected(one, 2e-3)]) is None
    assert "2 of 3" in str(difference([one + 1e-3], [Expected(one, 1e-4)]))
    assert [values.tolist() for values in hosts((np.arange(2), 3))] == [[0, 1], 3]


def test_work_in_time() -> None:
    assert trial.within(300, lambda: 3) == 3
    with pytest.raises(ZeroDivisionError):
        trial.within(300, lambda: 1 // 0)


def test_work_that_does_not_end() -> None:
    released = threading.Event()
    with pytest.raises(trial.TooLong, match=r"no result within 0\.01 s") as caught:
        trial.within(0.01, released.wait)
    assert caught.value.stuck
    released.set()
