"""What `pydp tune` finds, beside the choice without it and the best of all candidates, in turns of one run.

The best of all is judged as the tuner judges: it is the fastest of calls in a row among those that are not slower than
the untuned choice where each call is waited for. Without that, whoever keeps a driver awake would count as the best:
under PoCL, kernels that take a fifth longer when waited for win short calls in a row by a twentieth, and a tuner that
stored them would slow programs down. What is faster than the tuned choice in a row alone is named in the row's notes.
"""

from __future__ import annotations

from typing import Any

from pydp.bench.measure import Row
from pydp.bench.specialization_cases import MATMUL, SCAN

import pydp
from pydp.commands_tune import arguments
from pydp.errors import PydpError
from pydp.specialize.choose import untuned
from pydp.specialize.trial import Subject
from pydp.specialize.tuned import fields_of, rebuild, shape_of, store_of

CASES = (  # algorithm, size, dtype; tuned now where it was not before
    *(("matmul", "x".join(map(str, size)), dtype) for dtype in ("float32", "float64") for size in MATMUL.values()),
    *(("scan", str(n), dtype) for dtype in ("int32", "float32") for n in SCAN),
    ("reduce", "1048576", "float32"),
    ("sort", "65536", "int32"),
)
_QUICK = (("matmul", "256x256x256", "float32"), ("scan", "65536", "int32"))
_BUDGET, _SECONDS, _WAITED, _JUDGED, _RIVALS = 60.0, 2.0, 0.5, 4.0, 4
_NEAR = 1.1  # a rival whose first race came out above this is none


def run(device: Any, quick: bool = False) -> list[Row]:
    """One row a case: calls a second of the tuned specialization, with its ratios to the untuned choice and to the
    fastest of all candidates (1: tuning found it) that are not slower than the untuned one where waited for."""
    cases = [case for case in (_QUICK if quick else CASES) if case[2] != "float64" or device.profile.fp64]
    return [measured(device, *case) for case in cases]


def measured(device: Any, name: str, size: str, dtype: str) -> Row:
    """The row of one case. Notes name who is faster than the tuned one in a row but slower than the untuned one where
    waited for, each by what differs from the untuned choice."""
    args, kw = arguments(device, name, size, dtype)
    fn = getattr(pydp, name)
    found = pydp.tune(fn, *args, budget=_BUDGET, **kw)
    subject = Subject(fn, tuple(args), kw)
    family, problem = subject.family, subject.problem
    base = untuned(family, device, problem).spec
    subject.prepare(base)
    kept = store_of(device).best(shape_of(family, problem))
    tuned = rebuild(family.spec_type, kept.spec) if kept is not None and (kept.ratio or 1.0) < 1 else base
    rivals, failed = _rivals(subject, tuned)
    near = [spec for spec, ratio in rivals.items() if ratio < _NEAR]
    alone = subject.slower_alone([spec for spec in (tuned, *near) if spec != base], base, _WAITED * (1 + len(near)))
    late = alone.pop(tuned, None)
    eligible = [tuned, *[spec for spec in near if spec not in alone][:_RIVALS]]
    # The fastest of several measurements has had luck: which it is is found out first, how fast it is afterwards.
    raced = subject.final(eligible, base, _SECONDS)
    _, best = min(zip(raced, eligible, strict=True), key=lambda one: one[0][0])
    (untuned_ratio, _), (best_ratio, _), *apart = subject.final([base, best, *alone], tuned, _JUDGED)
    seconds = subject.seconds(tuned)
    against = {"untuned": untuned_ratio, "best of all": 1.0 if best == tuned else min(1.0, best_ratio)}
    notes = [f"{len(rivals) + 1} candidates"]
    notes += [f"{failed} failed"] if failed else []
    notes += [] if found.known else [f"{found.tried} tried"]
    notes += [f"the best is {_named(best, base) or 'the untuned one'}"] if best != tuned else []
    notes += [f"the tuned one takes {late:.3f} of the untuned time where waited for"] if late is not None else []
    for (spec, waited), (ratio, _) in zip(alone.items(), apart, strict=True):
        if ratio < 1:
            times = f"{ratio:.3f} of the tuned time in a row, {waited:.3f} of the untuned where waited for"
            notes.append(f"{_named(spec, base)}: {times}")
    case, told = f"{name} {dtype} {size}", ", ".join(notes)
    return Row("tuning", case, device.name, seconds, 1 / seconds, "calls/s", against, told)


def _rivals(subject: Subject, tuned: Any) -> tuple[dict[Any, float], int]:
    """The other candidates with their first race against the tuned one, the fastest first; how many gave none."""
    found, failed = {}, 0
    for spec in subject.family.candidates(subject.device.profile, subject.problem):
        if spec != tuned:
            try:
                subject.verify(spec)
                found[spec] = subject.race(spec, tuned)
            except PydpError:  # no rival: the tuner has noted why
                failed += 1
    return dict(sorted(found.items(), key=lambda one: one[1])), failed


def _named(spec: Any, base: Any) -> str:
    """A specialization by what differs from the untuned choice."""
    usual = fields_of(base)
    return " ".join(f"{name}={value}" for name, value in fields_of(spec).items() if value != usual[name])


if __name__ == "__main__":
    from pydp.bench.report import table
    from rich.console import Console

    Console().print(table(run(pydp.device())))
