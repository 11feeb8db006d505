"""How `explain` takes arguments: as the call does, by place or by name, and refuses what the call refuses."""

from __future__ import annotations

import re
from typing import Any

import needs
import numpy as np
import pyopencl as cl
import pytest

import pydp
from pydp.errors import InvalidArgument
from pydp.runtime.call import Call
from pydp.runtime.device.profile import Profile

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
    (pydp.histogram, {"x": X, "bins": 3, "range": (0, 9), "density": None, "weights": X}),
    (pydp.bincount, {"x": WHOLE, "weights": None, "minlength": 300}),
]


@pytest.mark.parametrize(("fn", "named"), CALLS, ids=lambda one: getattr(one, "__name__", ""))
def test_arguments_by_name_are_those_by_place(device: Any, fn: Any, named: dict[str, Any]) -> None:
    by_place = pydp.explain(fn, *named.values(), device=device)
    by_name = pydp.explain(fn, **dict(reversed(named.items())), device=device)
    assert str(by_name) == str(by_place)


def test_events_are_not_waited_for(device: Any) -> None:
    event = cl.UserEvent(device.context)  # never set
    for fn, named in [
        *CALLS,
        (pydp.nanmax, {"x": X, "initial": np.array(3)}),
        (pydp.pad, {"array": X, "pad_width": 1}),
    ]:
        pydp.explain(fn, **named, device=device, wait_for=event)
    event.set_status(cl.command_execution_status.COMPLETE)


@pytest.mark.parametrize(("fn", "named"), CALLS, ids=lambda one: getattr(one, "__name__", ""))
def test_what_the_call_refuses_is_refused(device: Any, fn: Any, named: dict[str, Any]) -> None:
    with pytest.raises(InvalidArgument, match=f"invalid arguments for {fn.__name__}: .*'colour'.* are accepted"):
        pydp.explain(fn, **named, device=device, colour=3)
    with pytest.raises(InvalidArgument, match="wait_for is 3"):
        pydp.explain(fn, **named, device=device, wait_for=3)


def shifted(idx: Any, out: Any, x: Any) -> None:
    """No lane reads elements that another lane writes, unless out and x share memory."""
    value = x[63 - idx.local[0]]
    pydp.group_barrier()
    out[idx.local[0]] = value


@pytest.fixture
def launched(monkeypatch: pytest.MonkeyPatch) -> list[tuple[str, Any, Any]]:
    """The launches: the kernels' texts and their sizes."""
    found: list[tuple[str, Any, Any]] = []
    launch = Call.launch

    def noted(self: Call, kernel: Any, global_size: Any, local_size: Any, *args: Any) -> Any:
        found.append((kernel.source, global_size, local_size))
        return launch(self, kernel, global_size, local_size, *args)

    monkeypatch.setattr(Call, "launch", noted)
    return found


@pytest.mark.parametrize("kind", ["apart", "one array twice", "overlapping", "overlapping Fields", "other types"])
@pytest.mark.parametrize("spec", [None, {"mapping": "simt"}, {"mapping": "vector"}], ids=str)
def test_forall_is_explained_with_the_kernel_that_runs(
    device: Any, launched: list[tuple[str, Any, Any]], spec: Any, kind: str
) -> None:
    needs.vector_mapping(device, (spec or {}).get("mapping", "simt"))
    whole = np.arange(65, dtype=np.int32)
    x = whole[:-1]
    outputs = {"apart": np.zeros(64, np.int32), "one array twice": x, "other types": x.view(np.float32)}
    out = outputs.get(kind, whole[1:])
    if kind == "overlapping Fields":
        field = pydp.field(whole, device=device)
        out, x = field[1:], field[:-1]
    options = dict(group=64, spec=spec, device=device)
    told = pydp.explain(pydp.forall, (64,), shifted, out, x, **options)
    assert launched == []
    pydp.forall((64,), shifted, out, x, **options)
    [(source, global_size, local_size)] = launched
    assert source in told.sources.values()
    assert told.facts["work-items"] == f"{global_size} in groups of {local_size}"
    simt = told.facts["mapping"] == "simt"
    assert any("arrays of different types share memory" in line for line in told.choices) == (kind == "other types")
    whole_group = any("every barrier waits for the whole group" in line for line in told.choices)
    assert whole_group == (simt and kind not in ("apart", "other types"))
    if simt:
        assert ("barrier(CLK" in source) == (kind != "apart")
        assert any("no barrier" in line for line in told.choices) == (kind == "apart")


def test_forall_in_checked_mode_is_explained_as_run_by_the_host(device: Any) -> None:
    x = np.zeros(64, np.int32)
    with pydp.checked():
        told = pydp.explain(pydp.forall, (64,), shifted, np.zeros_like(x), x, group=64, device=device)
    assert told.facts["device"] == "host (NumPy)" and "checked mode runs on the host" in told.choices


def test_a_function_of_the_users_is_explained_as_forall_runs_it(device: Any) -> None:
    def doubled(idx: Any, x: Any) -> None:
        x[idx] = 2 * x[idx]

    told = pydp.explain(doubled, X.shape, X.copy(), device=device)
    assert str(told) == str(pydp.explain(pydp.forall, X.shape, doubled, X.copy(), device=device))
    assert told.title == "forall doubled"
    with pytest.raises(InvalidArgument, match="doubled is explained without a grid"):
        pydp.explain(doubled)


LONG = np.zeros(1 << 20, np.float32)
MATRIX = LONG.reshape(1024, 1024)


@pytest.mark.parametrize(
    ("fn", "arguments"),
    [(pydp.reduce, (LONG,)), (pydp.var, (LONG,)), (pydp.scan, (LONG,)), (pydp.select, (LONG, "x > 0")),
     (pydp.compress, (LONG > 0, LONG)), (pydp.reduce_by_key, (LONG, LONG)), (pydp.top_k, (LONG, 9)),
     (pydp.sum, (MATRIX, 0)), (pydp.var, (MATRIX, 0)),
     ],
)  # fmt: skip
def test_long_arrays_are_prefetched_where_the_driver_knows_the_built_in(
    device: Any, fn: Any, arguments: tuple[Any, ...]
) -> None:
    kernels = pydp.explain(fn, *arguments, device=device).sources.values()
    in_one_pass = fn not in (pydp.reduce, pydp.sum, pydp.var, pydp.top_k)
    expected = device.profile.prefetches and (device.profile.group_progress or not in_one_pass)
    if fn is pydp.top_k or (fn is pydp.var and arguments[0] is LONG):
        expected = device.profile.prefetches_beside_work
    assert any("__builtin_prefetch" in one for one in kernels) is expected


@pytest.mark.parametrize("beside", [False, True])
def test_long_arrays_are_prefetched_beside_work_where_that_is_faster(
    device: Any, beside: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    if not device.profile.prefetches:
        pytest.skip("the driver does not know the built-in")
    monkeypatch.setattr(Profile, "prefetches_beside_work", beside)
    device.plans.clear()
    for fn, prefetched in ((pydp.sum, True), (pydp.max, beside), (pydp.argmax, beside), (pydp.var, beside)):
        kernels = pydp.explain(fn, LONG, device=device).sources.values()
        assert any("__builtin_prefetch" in one for one in kernels) is prefetched, fn
    device.plans.clear()


def test_packed_products_prefetch_rows_of_b(device: Any) -> None:
    if device.profile.loop_limit is not None:
        pytest.skip("the driver cuts loops")
    spec = {"mapping": "vector", "method": "packed"}
    text = "".join(pydp.explain(pydp.matmul, MATRIX, MATRIX, spec=spec, device=device).sources.values())
    row = text.split("static void pack_b_row")[1].split("static void pack_b(")[0]
    for line in (0, 64):
        assert (f"((size_t) (b + 8 * b_row + j) + {line})" in row) is device.profile.prefetches


def test_products_of_one_row_prefetch_the_next_rows_and_columns(device: Any) -> None:
    text = "".join(pydp.explain(pydp.matmul, MATRIX[:1], MATRIX, device=device).sources.values())
    assert ("__builtin_prefetch" in text) is device.profile.prefetches
    if not device.profile.prefetches:
        pytest.skip("the driver does not know the built-in")
    _, sweep, dots, one = re.split(r"static void (?:sweep|dots_together|dots_one)\(", text)
    assert "(next + 0 * b_row + j)" in sweep and "(b + (next + 0) * b_col + k)" in dots
    assert "__builtin_prefetch" in sweep and "__builtin_prefetch" in dots and "__builtin_prefetch" not in one
