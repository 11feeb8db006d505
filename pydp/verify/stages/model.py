"""Stage (f): the cost model. A sample of the candidates of each family is measured and compared with predictions."""

from __future__ import annotations

import math
from typing import Any

from pydp.verify.check import NOT_IN_PACK, Check, Context, NotApplicable, Unfinished, Wrong
from pydp.verify.stages.cases import group_of

_SAMPLE, _LEAST_SPECS = 8, 3
# Large enough that a GPU's launch does not hide the differences.
_CASES = {
    "matmul": ("matmul float32 square 256", "matmul float32 square 2048"),
    "scan": ("scan int32 2^20", "scan int32 2^26"),
    "reduce": ("reduce float32 2^20", "reduce float32 2^24"),
    "histogram": ("histogram float32 2^20", "histogram float32 2^24"),
    "sort": ("sort int32 2^16", "sort int32 2^20"),
    "transpose": ("transpose float32 512", "transpose float32 2048"),
}


def _check_of(family: str) -> Check:
    def run(context: Context) -> dict[str, Any]:
        if context.pack is not None:
            raise NotApplicable(f"{NOT_IN_PACK}it has the kernels of one candidate only")
        from pydp.bench import bench_specializations as measuring
        from pydp.bench.specialization_cases import wanted

        device = context.device
        name = _CASES[family][device.kind == "gpu"]
        build = dict(wanted(device, (family,))).get(name)
        if build is None:
            raise NotApplicable(f"there is no case {name!r} for this device")
        found = measuring.sampled(device, build(name), _SAMPLE, context.seconds / 4)
        if len(found.specs) < _LEAST_SPECS:
            measured = f"{len(found.specs)} candidate{'s were' if len(found.specs) != 1 else ' was'} measured"
            raise Unfinished(f"only {measured} before time ran out; at least {_LEAST_SPECS} are needed")
        if not any(map(math.isfinite, found.measured)):
            raise Wrong(f"every candidate of {name} failed, the first: {found.failures[0]}")
        return {
            "case": name,
            "candidates": len(found.specs),
            "Spearman": None if math.isnan(found.rho) else round(found.rho, 3),
            "pick/best": round(found.first, 3),
            "failed": len(found.failures),
            "failures": list(found.failures),
            "predicted": found.predicted,
            "measured / default": [one if math.isfinite(one) else None for one in found.measured],
        }

    return Check(family, run, group=group_of(family))


CHECKS = tuple(_check_of(family) for family in _CASES)
