"""Build some kernels without optimization where PYDP_TEST_UNOPTIMIZED is set: in the lane pocl.

These are kernels with barriers, which PoCL takes seconds to optimize, and all kernels of the tests marked `sweep`. The
tests marked `oclgrind`, which reach every kernel, run first and build theirs optimized, as users have them; later tests
use these, too. The lane `methods` runs the same tests, with another method. Other specializations are optimized in the
lane intel, and on PoCL by `python tests/drivers/lane.py pocl pytest`.
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
    sweep = request.node.get_closest_marker("sweep") is not None

    def build_source(device: Any, source: str, options: Sequence[str] = (), **named: Any) -> program.Program:
        unoptimized = ["-cl-opt-disable"] if sweep or "barrier(" in source else []
        return build(device, source, [*options, *unoptimized], **named)

    monkeypatch.setattr(program, "build_source", build_source)
