"""Build kernels with barriers without optimization, where PYDP_TEST_UNOPTIMIZED is set: in the lane pocl.

PoCL takes seconds to optimize such a kernel, four fifths of the lane's time. The tests marked `oclgrind`, which reach
every kernel, run first and build theirs optimized, as users have them; later tests use these, too. The lane `methods`
runs the same tests, with another method. Other specializations of kernels with barriers are optimized in the lanes of
other drivers, and on PoCL by `python tests/drivers/lane.py pocl pytest`.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import Any

import pytest


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    if os.environ.get("PYDP_TEST_UNOPTIMIZED"):
        items.sort(key=lambda item: item.get_closest_marker("oclgrind") is None)


@pytest.fixture(autouse=True)
def _unoptimized(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    if not os.environ.get("PYDP_TEST_UNOPTIMIZED") or request.node.get_closest_marker("oclgrind"):
        return
    from pydp.runtime.programs import program

    build = program.build_source

    def build_source(device: Any, source: str, options: Sequence[str] = (), **named: Any) -> program.Program:
        return build(device, source, [*options, "-cl-opt-disable"] if "barrier(" in source else options, **named)

    monkeypatch.setattr(program, "build_source", build_source)
