"""Build some kernels without optimization, because compiling takes most of the time of the lanes.

PYDP_TEST_UNOPTIMIZED names these kernels: "sweeps" are all kernels of the tests marked `sweep`; "algorithms" are all
kernels of the tests of algorithms; "barriers" are kernels with barriers, which PoCL takes seconds to optimize, and
Intel's compiler up to half a minute. The tests marked `oclgrind`, which reach every kernel, run first and build theirs
optimized, as users have them. Kernels with barriers are an exception in tests of algorithms. Therefore
`test_the_chosen_lowering` in groups/test_barrier_plan.py builds one of each optimized, before them, and the lane
`methods`, which runs the tests marked `oclgrind` with another method of PoCL, builds all optimized. So does
`python tests/drivers/lane.py pocl pytest`, or intel.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import Any

import pytest

KERNELS = os.environ.get("PYDP_TEST_UNOPTIMIZED", "").split()


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    if KERNELS:
        items.sort(key=lambda item: (item.get_closest_marker("oclgrind") is None, _of_algorithm(item)))


def _of_algorithm(item: pytest.Item) -> bool:
    return item.path.parent.name == "algorithms"


@pytest.fixture(autouse=True)
def _unoptimized(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    if not KERNELS:
        return
    from pydp.runtime.programs import program

    build = program.build_source
    of_algorithm = _of_algorithm(request.node)
    small, sweep = (request.node.get_closest_marker(name) is not None for name in ("oclgrind", "sweep"))
    every = not small and (("algorithms" in KERNELS and of_algorithm) or ("sweeps" in KERNELS and sweep))
    with_barriers = "barriers" in KERNELS and (of_algorithm or not small)

    def build_source(device: Any, source: str, options: Sequence[str] = (), **named: Any) -> program.Program:
        chosen = every or (with_barriers and "barrier(" in source)
        return build(device, source, [*options, *["-cl-opt-disable"] * chosen], **named)

    monkeypatch.setattr(program, "build_source", build_source)
