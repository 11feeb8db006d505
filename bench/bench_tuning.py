"""What `pydp tune` finds, beside the choice without it and the best of all candidates, in turns of one run."""

from __future__ import annotations

from typing import Any

from pydp.bench.measure import Row
from pydp.bench.specialization_cases import MATMUL, SCAN

import pydp
from pydp.commands_tune import arguments
from pydp.errors import PydpError
from pydp.specialize.choose import untuned
from pydp.specialize.trial import Subject
from pydp.specialize.tuned import rebuild, shape_of, store_of

CASES = (  # algorithm, size, dtype; tuned now where it was not before
    *(("matmul", "x".join(map(str, size)), dtype) for dtype in ("float32", "float64") for size in MATMUL.values()),
    *(("scan", str(n), dtype) for dtype in ("int32", "float32") for n in SCAN),
    ("reduce", "1048576", "float32"),
    ("sort", "65536", "int32"),
)
_QUICK = (("matmul", "256x256x256", "float32"), ("scan", "65536", "int32"))
_BUDGET, _SECONDS, _JUDGED, _RIVALS = 60.0, 2.0, 4.0, 4


def run(device: Any, quick: bool = False) -> list[Row]:
    """One row a case: calls a second of the tuned specialization, with its ratios to the untuned choice and to the
    fastest of all candidates (1: tuning found it)."""
    cases = [case for case in (_QUICK if quick else CASES) if case[2] != "float64" or device.profile.fp64]
    return [measured(device, *case) for case in cases]


def measured(device: Any, name: str, size: str, dtype: str) -> Row:
    """The row of one case."""
    args, kw = arguments(device, name, size, dtype)
    fn = getattr(pydp, name)
    found = pydp.tune(fn, *args, budget=_BUDGET, **kw)
    subject = Subject(fn, tuple(args), kw)
    family, problem = subject.family, subject.problem
    base = untuned(family, device, problem).spec
    subject.prepare(base)
    kept = store_of(device).best(shape_of(family, problem))
    tuned = rebuild(family.spec_type, kept.spec) if kept is not None and (kept.ratio or 1.0) < 1 else base
    rivals, failed = {}, 0
    for spec in family.candidates(device.profile, problem):
        if spec != tuned:
            try:
                subject.verify(spec)
                rivals[spec] = subject.race(spec, tuned)
            except PydpError:  # no rival: the tuner has noted why
                failed += 1
    nearest = sorted(rivals, key=lambda spec: rivals[spec])[:_RIVALS]
    # The fastest of several measurements has had luck: which it is is found out first, how fast it is afterwards.
    raced = subject.final([tuned, *nearest], base, _SECONDS)
    _, best = min(zip(raced, [tuned, *nearest], strict=True), key=lambda one: one[0][0])
    (untuned_ratio, _), (best_ratio, _) = subject.final([base, best], tuned, _JUDGED)
    seconds = subject.seconds(tuned)
    against = {"untuned": untuned_ratio, "best of all": 1.0 if best == tuned else min(1.0, best_ratio)}
    notes = f"{len(rivals) + 1} candidates" + (f", {failed} failed" if failed else "")
    notes += "" if found.known else f", {found.tried} tried"
    return Row("tuning", f"{name} {dtype} {size}", device.name, seconds, 1 / seconds, "calls/s", against, notes)


if __name__ == "__main__":
    from pydp.bench.report import table
    from rich.console import Console

    Console().print(table(run(pydp.device())))
