"""Stage (g): `tune` of the headline sizes with the time that is left. Winners go to the store of tuned results."""

from __future__ import annotations

from typing import Any

import pydp
from pydp.verify.check import NOT_IN_PACK, Check, Context, NotApplicable
from pydp.verify.stages.cases import group_of
from pydp.verify.stages.speeds import SPEEDS, Speed, arrays_of

_LEAST = 20.0  # seconds that a search with its final comparisons needs


def _check_of(speed: Speed) -> Check:
    def run(context: Context) -> dict[str, Any]:
        if context.pack is not None:
            raise NotApplicable(f"{NOT_IN_PACK}it has the kernels of one candidate only")
        device = context.device
        fields = [pydp.field(one, device=device) for one in arrays_of(speed, device)]
        found = pydp.tune(speed.function, *fields, budget=max(2.0, context.seconds / 3 - 5), **speed.options)
        return {
            "case": str(found.shape),
            "time/untuned": round(found.ratio, 3),
            "tried": found.tried,
            "failures": [str(one.failure) for one in found.failures],
            "known": found.known,
            "spec": str(found.spec),
        }

    return Check(speed.name, run, least=_LEAST, group=group_of(speed.name))


CHECKS = tuple(_check_of(speed) for speed in SPEEDS if speed.name != "copy")
