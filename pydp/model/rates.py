"""How fast a device is: the figures that turn counts into seconds, estimated from a table or measured."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, fields
from typing import Any

from pydp.errors import InvalidArgument


@dataclass(frozen=True)
class Rates:
    """Speeds of one device; a *unit* is a core of a CPU or a multiprocessor of a GPU.

    units: how many there are. float32, float64, integer: operations per second of one unit with full vectors (a fused
    multiply-add counts two). memory_read, memory_write: bytes per second of the whole device beyond the units' own
    caches. unit_memory: bytes per second that one unit alone can move. unit_cache: bytes per second between a unit's
    second-level cache (GPUs: local memory) and its registers. launch: seconds that one kernel launch costs.
    group: seconds to hand one group to a unit (T_allo). barrier: seconds that one work-item of a group costs at a
    group barrier. lane_slowdown: how many times slower than full vectors a unit runs groups of more than one
    work-item (1 on GPUs). signal: seconds from one group's message to another that waits for it. source: where
    they come from.
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
                raise InvalidArgument(f"{item.name} is {value!r}; a positive number is accepted")

    def operations(self, dtype: str) -> float:
        """Operations per second of a unit on `dtype` (its name: of pairs the slowest kind, records as integers)."""
        if "float64" in dtype or "complex128" in dtype:
            return self.float64
        if "float" in dtype or "complex" in dtype:
            return self.float32
        return self.integer / 2 if "64" in dtype else self.integer

    def slowdown(self, dtype: str) -> float:
        """How many times as long as a float32 multiply-add two operations on `dtype` take; Comp_Cycle is of float32."""
        return self.float32 / self.operations(dtype)

    def as_dict(self) -> dict[str, Any]:
        """The figures as JSON takes them."""
        return asdict(self)


def from_dict(values: Mapping[str, Any]) -> Rates:
    """Rates of their JSON form; InvalidArgument where a figure is missing, unknown or no positive number."""
    names = {item.name for item in fields(Rates)}
    if set(values) != names or not isinstance(values.get("source"), str) or isinstance(values.get("units"), float):
        raise InvalidArgument(f"rates have {sorted(set(values) ^ names)} missing or too many, or of a wrong type")
    return Rates(**values)
