"""Build some kernels without optimization, because compiling takes most of the time of the lanes.

PYDP_TEST_UNOPTIMIZED names these kernels: "sweeps" are all kernels of the tests marked `sweep`, in the lanes pocl and
intel; "algorithms" are all kernels of the tests of algorithms, and "barriers" are other kernels with barriers, which
PoCL takes seconds to optimize, in the lane pocl. The tests marked `oclgrind`, which reach every kernel, run first and
build theirs optimized, as users have them; later tests use these, too. The lane `methods` runs the same tests, with
another method of PoCL. `python tests/drivers/lane.py pocl pytest`, or intel, builds all kernels optimized.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import Any

import pytest

KERNELS = os.environ.get("PYDP_TEST_UNOPTIMIZED", "").split()


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    if KERNELS:
        items.sort(key=lambda item: item.get_closest_marker("oclgrind") is None)


@pytest.fixture(autouse=True)
def _unoptimized(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    if not KERNELS or request.node.get_closest_marker("oclgrind"):
        return
    from pydp.runtime.programs import program

    build = program.build_source
    of_algorithm = request.node.path.parent.name == "algorithms"
    sweep = request.node.get_closest_marker("sweep") is not None
    every = ("algorithms" in KERNELS and of_algorithm) or ("sweeps" in KERNELS and sweep)

    def build_source(device: Any, source: str, options: Sequence[str] = (), **named: Any) -> program.Program:
        chosen = every or ("barriers" in KERNELS and "barrier(" in source)
        return build(device, source, [*options, *["-cl-opt-disable"] * chosen], **named)

    monkeypatch.setattr(program, "build_source", build_source)
