"""What can be chosen of a matrix product."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class MatmulSpec:
    """One specialization of matmul.

    mapping: "vector" (a work-item is a thread with vector registers) or "simt" (work-items are lanes).
    method: "packed" or "thin" (vector), "staged" (simt).
    tile_m, tile_n: largest block of C per group; tile_k: depth staged or packed at a time.
    rows, columns: the register tile of a work-item. lanes_m, lanes_n: work-items of a group along m and n.
    width: vector lanes (vector) or adjacent results per block (simt). unroll: steps of k in the inner loop.
    pad: elements added to a staged row of local memory. parts: into how many parts k is split at least.
    buffers: 2 stages even and odd steps apart, with one barrier a step; 1 takes half the local memory and two barriers.
    barriers, subgroup: how the lanes of a staged product meet (see :mod:`pydp.groups.barrier`).
    """

    mapping: str
    method: str
    tile_m: int
    tile_n: int
    tile_k: int
    rows: int
    columns: int
    lanes_m: int = 1
    lanes_n: int = 1
    width: int = 1
    unroll: int = 1
    pad: int = 0
    parts: int = 1
    buffers: int = 2
    barriers: str = "group"
    subgroup: int | None = None
