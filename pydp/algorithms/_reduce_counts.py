"""What one specialization of a reduction does: phases for the cost model. Rows are taken to lie in order."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from pydp.algorithms._reduce_spec import ReduceSpec
from pydp.specialize.counts import Counts, Phase, efficiency, spread

if TYPE_CHECKING:
    from pydp.runtime.profile import Profile
    from pydp.specialize.family import Problem


def item_bytes(problem: Problem) -> int:
    """Bytes of an element: the problem's third size, which records have, else by the name of the scalar type."""
    return problem.sizes[2] if len(problem.sizes) > 2 else np.dtype(problem.dtype).itemsize


def local_bytes(problem: Problem, spec: ReduceSpec) -> int:
    """Local memory of a group of lanes: a result of each, in `buffers` of them where they are folded in order."""
    return spec.lanes * item_bytes(problem) * (1 if "commutes" in problem.flags else spec.buffers)


def counts(profile: Profile, problem: Problem, spec: ReduceSpec) -> Counts:
    """problem.sizes: (elements of a fold, folds), and of records the bytes of one. The parts of every fold, then the
    fold of the parts' results."""
    n, folds = (max(1, size) for size in problem.sizes[:2])
    parts = max(1, min(-(-spec.busy // folds), n // spec.part), -(-n // spec.longest))
    phases = [_pass(profile, problem, spec, n, folds, parts)]
    if parts > 1:
        phases.append(_pass(profile, problem, spec, parts, folds, 1))
    return Counts(problem.dtype, tuple(phases))


def _pass(profile: Profile, problem: Problem, spec: ReduceSpec, n: int, folds: int, parts: int) -> Phase:
    item = item_bytes(problem)
    work = parts * folds
    size = float(n * folds * item)
    near = profile.kind == "cpu" and size < 0.75 * profile.l2_bytes * profile.compute_units
    commutes = "commutes" in problem.flags
    each = -(-n // parts)
    if spec.mapping == "simt":
        tree = spec.lanes.bit_length() if spec.barriers == "group" else 2  # narrow ones cost less
        step = spec.lanes * spec.items * (spec.waves if commutes else 1)
        tiles = -(-each // step)
        wasted = tiles * step / each
        # Operators that do not commute fold every tile; two buffers spare the tree's last barrier.
        trees, barriers = (1, tree) if commutes else (tiles, tiles * (tree + 1 - spec.buffers))
        return Phase(
            "rows",
            groups=work,
            lanes=spec.lanes,
            operations=n * folds * wasted + 2.0 * work * spec.lanes * trees,
            efficiency=0.5,
            read=size,
            written=float(work * item),
            balance=spread(work, profile.compute_units),
            barriers=barriers,
            local_bytes=local_bytes(problem, spec),
            registers=16 + 2 * spec.items * spec.waves,
            access=item,
        )
    latency = 4.0 if "float" in problem.dtype or "complex" in problem.dtype else 1.0
    if spec.width and commutes:
        pieces = max(1.0, spec.width * item / profile.simd_bytes)
        cycles = max(pieces, latency / spec.unroll) / spec.width
        start = spec.width * spec.unroll * 2.0 + 20.0  # the accumulators, folded at the end element by element
    else:
        cycles, start = latency, 10.0
    return Phase(
        "rows",
        groups=work,
        operations=float(n * folds),
        efficiency=efficiency(profile, problem.dtype, 1.0, cycles + start / each),
        read=0.0 if near else size,
        cached=size,
        written=float(work * item),
        balance=spread(work, profile.compute_units),
    )
