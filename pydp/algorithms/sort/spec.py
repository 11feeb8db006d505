"""The specializations of the sorts, and the problems that they are chosen for."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import ClassVar

from pydp.model.family import Problem


def key_bits(dtype: str) -> int:
    """The bits of keys of a dtype given as text."""
    found = re.search(r"\d+", dtype)
    return int(found.group()) if found else 8


@dataclass(frozen=True)
class SortSpec:
    """One specialization of sort.

    mapping: "vector" (CPUs) or "simt" (GPUs). strategy: "merge"; "radix" (CPUs; see sort_radix_rounds.mako); "onesweep"
    or "reduce_then_scan" (GPUs: radix sorts in passes; see sort_onesweep_pass.mako).
    run: elements of a run that the first stage of a merge sort sorts, or that a radix sort sorts in the cache.
    small: pieces of a run that a work-item sorts by insertion (CPUs; a work-item sorts a run).
    lanes, items: work-items of a work-group and elements of each (GPUs; a work-group sorts a run of lanes * items).
    stretch: results of a work-item in a merge pass. chains: independent merges that a work-item interleaves.
    barriers, subgroup: synchronization of the lanes (see :mod:`pydp.groups.barrier`; GPUs).
    Of a radix sort: digit: the most bits of a digit in the cache. bins: the most bits of the first digit. chunk: the
    least elements that a work-item counts and scatters. nontemporal: buckets are stored past the caches.
    Of the radix sorts of GPUs: digit: the most bits of a pass; run is lanes * items, the elements of a tile. polls,
    plain_polls and, for tests only, order and suppress: of the look-back (see
    :class:`pydp.algorithms.scan.policy.ScanSpec`). predecessors: tiles whose slots a work-item reads at once during the
    look-back.
    """

    mapping: str
    run: int
    small: int
    lanes: int
    items: int
    stretch: int
    chains: int
    barriers: str = "auto"
    subgroup: int | None = None
    strategy: str = "merge"
    digit: int = 1
    bins: int = 1
    chunk: int = 1
    nontemporal: bool = False
    polls: int = 20000
    plain_polls: bool = False
    order: str = "ticket"
    suppress: int = 0
    predecessors: int = 1


@dataclass(frozen=True)
class SortProblem(Problem):
    """A sort as far as its specialization depends on it.

    dtype: the dtype of the keys. n: elements of a row. rows: number of rows. item_bytes: bytes of a key and its carried
    value. records_lost_in_arrays: the driver loses these elements in private and local arrays. iterations: of the
    loops in a comparison, on drivers that limit loops. element_bytes: of the radix sorts; 0: the keys are compared
    by functions, are records or have more than 64 bits, so only a merge sort can sort them.
    """

    family: ClassVar[str] = "sort"
    n: int
    rows: int
    item_bytes: int
    records_lost_in_arrays: bool = False
    iterations: int = 0
    element_bytes: int = 0
