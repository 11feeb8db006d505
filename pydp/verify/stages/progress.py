"""Stage (c): scans whose work-groups wait for one another, with more groups than the device runs at once.

A driver without progress between groups never ends such a kernel; the watchdog then ends the process.
"""

from __future__ import annotations

from typing import Any

import numpy as np

import pydp
from pydp.verify.check import NOT_IN_PACK, Check, Context, NotApplicable, Wrong
from pydp.verify.stages.cases import PROGRESS
from pydp.verify.stages.known_answers import check_of

_REPEATS = 20


def _same_bits(context: Context) -> dict[str, Any]:
    """Sums of floats have the same bits in every run, whatever the order in which groups finish."""
    if context.pack is not None:
        raise NotApplicable(f"{NOT_IN_PACK}its launches run once")
    device = context.device
    x = np.random.default_rng(8).standard_normal(200_003).astype(np.float32)
    field = pydp.field(x, device=device)
    first = pydp.scan(field).get().tobytes()
    for repeat in range(1, _REPEATS):
        if pydp.scan(field).get().tobytes() != first:
            raise Wrong(f"the bits of run {repeat} differ from those of the first run")
    return {"runs": _REPEATS}


CHECKS = (
    *(check_of(name, case, "look-back") for name, case in PROGRESS.items()),
    Check("same bits in every run", _same_bits, group="look-back"),
)
