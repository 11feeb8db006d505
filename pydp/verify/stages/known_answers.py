"""Stage (b): every algorithm, vector functions with every barrier lowering, atomics, records, 64-bit addresses."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

import pydp
from pydp.errors import OutOfResources
from pydp.groups.barrier import subgroup_sizes
from pydp.verify.check import NOT_IN_PACK, Check, Context, NotApplicable, Unfinished, Wrong
from pydp.verify.stages.cases import ALGORITHMS, FUNCTIONS, Call, Case, group_of
from pydp.verify.stages.vector_functions import marked

_WAITING_SECONDS = 30.0  # seconds to wait for kernels that may not end
_EDGE = 1 << 16  # elements on each side of a boundary


def check_of(name: str, case: Case, group: str) -> Check:
    """The check that a case's results are right, through OpenCL or through CUDA. group: of the check."""

    def run(context: Context) -> dict[str, Any]:
        if context.pack is not None:
            return dict(context.device.run_case(name))
        case(context.device.profile).check(context.device)
        return {}

    return Check(name, run, limit=_WAITING_SECONDS if group else math.inf, group=group)


def _subgroups(context: Context) -> dict[str, Any]:
    """The barriers of subgroups, for every size that a kernel can request."""
    if context.pack is not None:
        raise NotApplicable("an NVIDIA GPU has subgroups of 32 lanes only")
    profile = context.device.profile
    sizes = subgroup_sizes(profile, 128)
    if not sizes:
        raise NotApplicable("kernels cannot request a subgroup size on this device")
    call = FUNCTIONS["forall exchanges"](profile)
    for size in sizes:
        spec = {"mapping": "simt", "barriers": "subgroup", "subgroup": size}
        try:
            Call(call.function, call.args, call.want, {**call.options, "spec": spec}, call.written).check(
                context.device
            )
        except Wrong as error:
            raise Wrong(f"subgroups of {size}: {error}") from error
    return {"sizes": list(sizes)}


def _addresses(context: Context) -> dict[str, Any]:
    """Elements beyond the reach of 31 or 32 bits: a kernel with a truncated index writes to the array's start."""
    if context.pack is not None:
        raise NotApplicable(f"{NOT_IN_PACK}an array of this size has no launches there")
    device = context.device
    size = min((1 << 32) + 2 * _EDGE, device.profile.max_allocation)
    boundary = 1 << 32 if size > 1 << 32 else 1 << 31
    if size < boundary + _EDGE:
        raise NotApplicable(f"the device allows arrays of {size} bytes")
    try:
        field = pydp.empty((size,), np.uint8, device=device)
        start = field[: 2 * _EDGE]
        start[...] = 0
        across = field[boundary - _EDGE : boundary + _EDGE]
        x = np.random.default_rng(7).integers(0, 5, 2 * _EDGE).astype(np.uint8)
        across.set(x)
        device.queue.finish()  # drivers allocate at the first use
    except OutOfResources as error:
        raise Unfinished(f"the array cannot be allocated now: {str(error).splitlines()[0]}") from error
    # NVIDIA reports an access outside the array as CL_OUT_OF_RESOURCES: from here on, that is a failure.
    pydp.scan(across, out=across)
    got, low = across.get(), start.get()
    pydp.forall((2 * _EDGE,), marked, field, boundary - _EDGE)
    marks, still = across.get(), start.get()
    if not np.array_equal(got, np.cumsum(x, dtype=np.uint8)):
        raise Wrong(f"the scan of elements around index {boundary} is wrong")
    if not np.array_equal(marks, np.arange(2 * _EDGE) % 251 + 1):
        raise Wrong(f"a vector function does not write the elements around index {boundary}")
    if low.any() or still.any():
        raise Wrong(f"elements at the start of the array changed; an index is truncated at {boundary}")
    return {"boundary": boundary}


CHECKS = (
    *(check_of(name, case, group_of(name)) for name, case in ALGORITHMS.items()),
    *(check_of(name, case, name.partition(":")[0] if ":" in name else "") for name, case in FUNCTIONS.items()),
    Check("subgroups of every size", _subgroups, group="barriers subgroup"),
    Check("64-bit addresses", _addresses),
)
