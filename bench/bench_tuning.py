"""What `pydp tune` finds, beside the choice without it and the best of all candidates, in turns of one run.

The best of all is judged as the tuner judges: it is the fastest of calls in a row among those that are not slower than
the untuned choice where each call is waited for, nor at the other sizes of the shape class for which the choice is
kept. Without the first, whoever keeps a driver awake would count as the best: under PoCL, kernels that take a fifth
longer when waited for win short calls in a row by a twentieth, and a tuner that stored them would slow programs down.
What is faster than the tuned choice at the row's size in a row alone is named in the row's notes.
"""

from __future__ import annotations

from typing import Any

from pydp.bench.measure import Row
from pydp.bench.specialization_cases import MATMUL, SCAN

import pydp
from pydp.commands_tune import arguments
from pydp.errors import PydpError
from pydp.specialize.choose import untuned
from pydp.specialize.trial import Subject, elsewhere, slower
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
    fastest of all candidates that a tuner may keep (1: tuning found it)."""
    cases = [case for case in (_QUICK if quick else CASES) if case[2] != "float64" or device.profile.fp64]
    return [measured(device, *case) for case in cases]


def measured(device: Any, name: str, size: str, dtype: str) -> Row:
    """The row of one case. Notes name who is faster than the tuned one but slower than the untuned one where waited
    for, or at another size of the class, each by what differs from the untuned choice."""
    args, kw = arguments(device, name, size, dtype)
    fn = getattr(pydp, name)
    found = pydp.tune(fn, *args, budget=_BUDGET, **kw)
    subject = Subject(fn, tuple(args), kw)
    family, problem = subject.family, subject.problem
    base = untuned(family, device, problem).spec
    subject.prepare(base)
    kept = store_of(device).best(shape_of(family, problem))
    tuned = rebuild(family.spec_type, kept.spec) if kept is not None and (kept.ratio or 1.0) < 1 else base
    rivals, tried, failed = _rivals(subject, tuned)
    barred = _barred(subject, [spec for spec in (tuned, *rivals) if spec != base], base)
    late = barred.pop(tuned, None)
    eligible = [tuned, *[spec for spec in rivals if spec not in barred][:_RIVALS]]
    # The fastest of several measurements has had luck: which it is is found out first, how fast it is afterwards.
    raced = subject.final(eligible, base, _SECONDS)
    _, best = min(zip(raced, eligible, strict=True), key=lambda one: one[0][0])
    (untuned_ratio, _), (best_ratio, _), *apart = subject.final([base, best, *barred], tuned, _JUDGED)
    seconds = subject.seconds(tuned)
    against = {"untuned": untuned_ratio, "best of all": 1.0 if best == tuned else min(1.0, best_ratio)}
    notes = [f"{tried} candidates"]
    notes += [f"{failed} failed"] if failed else []
    notes += [] if found.known else [f"{found.tried} tried"]
    notes += [f"the best is {_named(best, base) or 'the untuned one'}"] if best != tuned else []
    notes += [f"the tuned one {late}"] if late is not None else []
    for (spec, why), (ratio, _) in zip(barred.items(), apart, strict=True):
        if ratio < 1:
            notes.append(f"{_named(spec, base)} takes {ratio:.3f} of the tuned time, but {why}")
    case, told = f"{name} {dtype} {size}", ", ".join(notes)
    return Row("tuning", case, device.name, seconds, 1 / seconds, "calls/s", against, told)


def _barred(subject: Subject, specs: list[Any], base: Any) -> dict[Any, str]:
    """Those that a tuner may not keep for the shape class, and why: slower than the untuned choice where it counts."""

    def takes(ratio: float, where: str) -> str:
        return f"takes {ratio:.3f} of the untuned time {where}"

    late = subject.slower_alone(specs, base, _WAITED * (1 + len(specs)))
    found = {spec: takes(ratio, "where waited for") for spec, ratio in late.items()}
    for share, other in elsewhere(subject, base):
        where, right = f"at {share} of the class's largest size", []
        for spec in specs:
            if spec not in found:
                try:
                    other.verify(spec)
                    right.append(spec)
                except PydpError as error:
                    found[spec] = f"fails {where} ({type(error).__name__})"
        raced = other.final(right, base, _WAITED * (1 + len(right)))
        found |= {spec: takes(ratio, where) for spec, ratio in slower(right, raced).items()}
    return found


def _rivals(subject: Subject, tuned: Any) -> tuple[list[Any], int, int]:
    """The other candidates that may be the best, the fastest in a first race against the tuned one first; how many
    candidates run, and how many fail."""
    found, failed = {tuned: 1.0}, 0
    for spec in subject.family.candidates(subject.device.profile, subject.problem):
        if spec != tuned:
            try:
                subject.verify(spec)
                found[spec] = subject.race(spec, tuned)
            except PydpError:  # no rival: the tuner has noted why
                failed += 1
    near = sorted((spec for spec, ratio in found.items() if ratio < _NEAR and spec != tuned), key=found.__getitem__)
    return near, len(found), failed


def _named(spec: Any, base: Any) -> str:
    """A specialization by what differs from the untuned choice."""
    usual = fields_of(base)
    return " ".join(f"{name}={value}" for name, value in fields_of(spec).items() if value != usual[name])


if __name__ == "__main__":
    from pydp.bench.report import table
    from rich.console import Console

    Console().print(table(run(pydp.device())))
