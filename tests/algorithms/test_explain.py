"""How `explain` takes arguments: as the call does, by place or by name, and refuses what the call refuses."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import pydp
from pydp.errors import InvalidArgument

X = np.arange(12, dtype=np.float32).reshape(3, 4)
WHOLE = np.arange(12, dtype=np.int32)
CALLS = [
    (pydp.matmul, {"a": X, "b": X.T}),
    (pydp.scan, {"x": X, "op": "max"}),
    (pydp.reduce, {"x": X, "op": "max"}),
    (pydp.sort, {"x": X}),
    (pydp.argsort, {"x": X}),
    (pydp.sort_by_key, {"keys": X, "values": X}),
    (pydp.transpose, {"x": X, "axes": (1, 0)}),
    (pydp.histogram, {"x": X, "bins": 3, "range": (0, 9), "weights": X}),
    (pydp.bincount, {"x": WHOLE, "weights": None, "minlength": 300}),
]


@pytest.mark.parametrize(("fn", "named"), CALLS, ids=lambda one: getattr(one, "__name__", ""))
def test_arguments_by_name_are_those_by_place(device: Any, fn: Any, named: dict[str, Any]) -> None:
    by_place = pydp.explain(fn, *named.values(), device=device)
    by_name = pydp.explain(fn, **dict(reversed(named.items())), device=device)
    assert str(by_name) == str(by_place)


@pytest.mark.parametrize(("fn", "named"), CALLS, ids=lambda one: getattr(one, "__name__", ""))
def test_what_the_call_refuses_is_refused(device: Any, fn: Any, named: dict[str, Any]) -> None:
    with pytest.raises(InvalidArgument, match=f"{fn.__name__} cannot be called so: .*'colour'.* are accepted"):
        pydp.explain(fn, **named, device=device, colour=3)
    with pytest.raises(InvalidArgument, match="wait_for is 3"):
        pydp.explain(fn, **named, device=device, wait_for=3)


def test_a_function_of_the_users_is_explained_as_forall_runs_it(device: Any) -> None:
    def doubled(idx: Any, x: Any) -> None:
        x[idx] = 2 * x[idx]

    told = pydp.explain(doubled, X.shape, X.copy(), device=device)
    assert str(told) == str(pydp.explain(pydp.forall, X.shape, doubled, X.copy(), device=device))
    assert told.title == "forall doubled"
    with pytest.raises(InvalidArgument, match="doubled is explained without a grid"):
        pydp.explain(doubled)
