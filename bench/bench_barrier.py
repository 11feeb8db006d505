"""barrier: the cost of each lowering of a barrier by width and group size, and kernels with barriers of the needed
widths against the same kernels with whole-group barriers."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator
from typing import Any

import numpy as np
import pyopencl as cl
from pydp.bench.measure import Row, alternating

import pydp
from pydp.groups.barrier import BarrierLowering, Barriers, build, is_nvidia, subgroup_sizes
from pydp.runtime.programs.program import kernel

_REPEATS = 256


@pydp.vector
def sums_of_256(idx: Any, out: Any, x: Any) -> None:
    """A tree of 256 lanes for each group, written as a loop."""
    s = pydp.local_field(np.float32, 256)
    i = idx.local[0]
    s[i] = x[idx]
    pydp.group_barrier()
    for k in range(8):
        n = 128 >> k
        if i < n:
            s[i] += s[i + n]
        pydp.group_barrier()
    if i == 0:
        out[idx.group[0]] = s[0]


def run(device: Any, quick: bool = False) -> list[Row]:
    """Rows for every lowering, group size and width (Mbarrier/s), then for kernels with needed widths (Gitem/s)."""
    sizes = [size for size in ((64,) if quick else (16, 64, 256)) if size <= device.profile.max_group_size]
    rows = [row for size in sizes for row in _costs(device, size, 4 if quick else 16)]
    return [*rows, _reduction(device, 1 << (16 if quick else 20)), *_templates(device, quick)]


def _ways(profile: Any, lanes: int, width: int) -> Iterator[tuple[str, BarrierLowering, int]]:
    """(name, lowering, subgroup) of every implementation of a barrier of `width`; "none" is the baseline."""
    yield "group", Barriers(profile, lanes, lanes, choice="group").lowering(width), 0
    yield "none", BarrierLowering("none", 1, ""), 0
    for size in (0,) if is_nvidia(profile) else subgroup_sizes(profile, lanes):
        found = Barriers(profile, lanes, lanes, size, "subgroup").lowering(width)
        if found.kind != "group":
            yield f"subgroup of {found.width}", found, size
    named = Barriers(profile, lanes, lanes, choice="named").lowering(width)
    if named.kind == "named":
        yield f"named, {named.width} lanes", named, 0


def _costs(device: Any, lanes: int, groups: int) -> Iterator[Row]:
    """A row for each implementation and width. "none" has no barrier, so its values may be wrong."""
    profile = device.profile
    out = cl.Buffer(device.context, cl.mem_flags.WRITE_ONLY, 4 * lanes * groups)
    args = [out, np.int32(_REPEATS)]
    width = 2
    while width <= lanes:
        ways = {name: (lowering, size) for name, lowering, size in _ways(profile, lanes, width)}
        kernels = {name: _kernel(device, lanes, width, lowering, size) for name, (lowering, size) in ways.items()}
        candidates = {
            name: lambda one=one: one.enqueue(device.queue, (lanes * groups,), (lanes,), args).wait()
            for name, one in kernels.items()
        }
        seconds = alternating(candidates, budget=1.0)
        for name, spent in seconds.items():
            if name != "none":
                own = max(spent - seconds["none"], 0.0) / (groups * _REPEATS)
                yield Row(
                    "barrier", f"{name}: width {width} of {lanes}", device.name, spent,
                    groups * _REPEATS / spent / 1e6, "Mbarrier/s", {"whole group": seconds["group"] / spent},
                    notes=f"{own * 1e9:.0f} ns per barrier above none",
                )  # fmt: skip
        width *= 8


def _kernel(device: Any, lanes: int, width: int, lowering: BarrierLowering, subgroup: int) -> Any:
    params: dict[str, object] = {"lanes": lanes, "width": width, "kind": lowering.kind, "synchronized": lowering.width}
    params |= build(Barriers(device.profile, lanes, lanes, subgroup))
    return kernel(device, "bench_barriers.mako", "bench_barriers", params)


def _reduction(device: Any, items: int) -> Row:
    x = np.random.default_rng(0).random(items, np.float32)
    field, outs = pydp.field(x, device=device), {}
    candidates = {}
    for name in ("auto", "group"):
        outs[name] = pydp.zeros((items // 256,), np.float32, device=device)
        spec = {"mapping": "simt", "barriers": name}
        candidates[name] = lambda name=name, spec=spec: pydp.forall(
            (items,), sums_of_256, outs[name], field, group=256, spec=spec
        ).wait()
    seconds = alternating(candidates, repeats=61)
    for out in outs.values():
        np.testing.assert_allclose(out.get(), x.reshape(-1, 256).sum(1), rtol=1e-5)
    found = pydp.explain(pydp.forall, (items,), sums_of_256, outs["auto"], field, group=256, spec={"mapping": "simt"})
    line = next(line for line in found.choices if "barrier execution(s)" in line)
    return Row(
        "barrier", f"sums of 256 by inferred widths, {items} items", device.name, seconds["auto"],
        items / seconds["auto"] / 1e9, "Gitem/s", {"whole group": seconds["group"] / seconds["auto"]}, notes=line,
    )  # fmt: skip


def _templates(device: Any, quick: bool) -> Iterator[Row]:
    """pydp's own kernels with the needed widths against whole-group barriers."""
    values = np.random.default_rng(1).integers(0, 999, 1 << (14 if quick else 18)).astype(np.int32)
    x = pydp.field(values, device=device)
    tree = {"lanes": 256, "items": 4, "part": 4096, "longest": 2**30, "columns": 1, "busy": 64}
    runs = {"lanes": 256, "items": 4, "run": 1024, "small": 4, "stretch": 256, "chains": 1}
    cases: dict[str, tuple[Any, dict[str, Any]]] = {
        "scan": (pydp.scan, {"lanes": 256, "columns": 16, "items": 7}),
        "reduce": (pydp.reduce, tree),
        "sort": (pydp.sort, runs),
    }
    for name, (call, given) in cases.items():
        candidates = {}
        for choice in ("auto", "group"):
            spec = {"mapping": "simt", **given, "barriers": choice}
            candidates[choice] = lambda call=call, spec=spec: (call(x, spec=spec), device.queue.finish())
        seconds = alternating(candidates, repeats=31, budget=3.0)
        found = pydp.explain(call, x, spec={"mapping": "simt", **given, "barriers": "auto"})
        executions: Counter[str] = Counter()
        for widths, lowering in re.findall(r"width ([\d, ]+): ([\w-]+ barrier)", "\n".join(found.choices)):
            executions[lowering] += len(widths.split(","))
        yield Row(
            "barrier", f"{name} of {x.size} items by needed widths", device.name, seconds["auto"],
            x.size / seconds["auto"] / 1e9, "Gitem/s", {"whole group": seconds["group"] / seconds["auto"]},
            notes=f"{executions.total()} barrier execution(s): "
            + ", ".join(f"{count} {lowering}" for lowering, count in executions.items()),
        )  # fmt: skip


if __name__ == "__main__":
    from pydp.bench.report import table
    from rich.console import Console

    Console().print(table(run(pydp.device())))
