"""The rates of a device, which turn counts into seconds. They are measured, or estimated from a table."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, fields
from typing import Any

from pydp.errors import InvalidArgument, shown


@dataclass(frozen=True)
class Rates:
    """Speeds of one device; a *unit* is a core of a CPU or a multiprocessor of a GPU.

    units: number of units. float32, float64, integer: operations per second of one unit with full vectors (a fused
    multiply-add counts two). memory_read, memory_write: bytes per second of the whole device beyond the units' own
    caches. unit_memory: bytes per second of one unit alone. unit_cache: bytes per second between a unit's second-level
    cache (GPUs: local memory) and its registers. launch: seconds per kernel launch. group: seconds to start one group
    on a unit (T_allo). barrier: seconds per work-item at a group barrier. lane_slowdown: how many times slower than
    full vectors a unit runs groups of more than one work-item (1 on GPUs). signal: seconds until a message of one group
    reaches another group that waits for it. source: where the rates come from.
    """

    units: int
    float32: float
    float64: float
    integer: float
    memory_read: float
    memory_write: float
    unit_memory: float
    unit_cache: float
    launch: float
    group: float
    barrier: float
    lane_slowdown: float
    signal: float
    source: str = "table"

    def __post_init__(self) -> None:
        for item in fields(self):
            value = getattr(self, item.name)
            if item.name != "source" and not (isinstance(value, (int, float)) and 0 < value < 1e18):
                raise InvalidArgument(f"{item.name} is {shown(value)}; a positive number is accepted")

    def operations(self, dtype: str) -> float:
        """Operations per second of a unit on `dtype` (a name). Pairs count as the slowest kind, records as integers."""
        if "float64" in dtype or "complex128" in dtype:
            return self.float64
        if "float" in dtype or "complex" in dtype:
            return self.float32
        return self.integer / 2 if "64" in dtype else self.integer

    def slowdown(self, dtype: str) -> float:
        """The time of two operations on `dtype`, relative to a float32 multiply-add. (Comp_Cycle is for float32.)"""
        return self.float32 / self.operations(dtype)

    def as_dict(self) -> dict[str, Any]:
        """The rates as a JSON-compatible dict."""
        return asdict(self)


def from_dict(values: Mapping[str, Any]) -> Rates:
    """The inverse of `Rates.as_dict`. Raises InvalidArgument for a missing, unknown or non-positive figure."""
    names = {item.name for item in fields(Rates)}
    if set(values) != names:
        raise InvalidArgument(f"rates have the figures {sorted(set(values))}; exactly {sorted(names)} are accepted")
    if not isinstance(values["source"], str) or isinstance(values["units"], float):
        raise InvalidArgument(
            f"source is {values['source']!r} and units {values['units']!r}; a string and an integer are accepted"
        )
    return Rates(**values)
