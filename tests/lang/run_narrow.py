"""Runs a tree reduction with widths that are too narrow, or with a false lockstep claim: run_narrow.py FAULT."""

from __future__ import annotations

import dataclasses
import sys

import device_run
import numpy as np
from barrier_examples import sums_of_64

import pydp
from pydp.lang.barriers.lowering import plan_barriers
from pydp.lang.barriers.widths import Width, infer
from pydp.lang.compile import FieldType, translate
from pydp.lang.opencl import simt as simt_lowering


def main(fault: str) -> None:
    device = pydp.device()
    field = FieldType(np.dtype(np.int32), 1)
    function = translate(sums_of_64, 1, (64,), [field, field], np.dtype(np.int32))
    profile = device.profile
    if fault == "lockstep":
        profile = dataclasses.replace(profile, lockstep=16)
    elif fault == "narrow":
        found = infer(function)
        narrower = {k: Width(tuple(1 if n == 2 else n for n in one.per_iteration)) for k, one in found.items()}
        assert narrower != found
        simt_lowering.plan_barriers = lambda *args, **named: plan_barriers(*args, **named, widths=narrower)
    x, out = np.arange(64, dtype=np.int32), np.zeros(1, np.int32)
    device_run.run(device, simt_lowering.LOWERING.lower(function, profile), [out, x], (), (64,))


if __name__ == "__main__":
    main(sys.argv[1])
