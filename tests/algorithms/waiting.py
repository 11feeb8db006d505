"""Strategies of scans whose groups wait for one another, and drivers that end long loops, where they are refused."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import pydp


def skip_where_refused(device: Any, strategy: str, mapping: dict[str, Any]) -> None:
    """Skip a test of a strategy that the device refuses, once it has been refused."""
    if device.profile.loop_limit is None or strategy == "reduce_then_scan":
        return
    with pytest.raises(pydp.InvalidArgument, match="waits in loops"):
        pydp.scan(np.ones(100, np.int32), strategy=strategy, spec=mapping)
    pytest.skip("the driver ends long loops: strategies of scans that wait are refused")
