"""Compare the results of `pydp tune` with the untuned choice and with the best of all candidates, in one run.

Candidates are compared as in the tuner: short calls are timed back to back and one at a time, and the worse of the two
ratios counts. Otherwise a kernel that keeps a driver's threads awake would win: under PoCL, some kernels that are a
tenth slower one at a time are a sixth faster back to back, and would slow programs down. A candidate that is slower
than the untuned choice at another size of the shape class does not count either. The notes of a row name candidates
that are faster than the tuned choice only at the row's size, and the first two that are faster only back to back.
"""

from __future__ import annotations

from typing import Any

from pydp.bench.measure import Row
from pydp.bench.specialization_cases import MATMUL, SCAN

import pydp
from pydp.algorithms.discovery import algorithms
from pydp.cli.tune import arguments
from pydp.errors import PydpError
from pydp.tuning.choose import untuned
from pydp.tuning.comparison import Ratio, slower
from pydp.tuning.shape_class import shape_class
from pydp.tuning.trial import Subject, elsewhere
from pydp.tuning.tuned import fields_of, rebuild, store_of

CASES = (  # algorithm, size, dtype; tuned now if not tuned before
    *(("matmul", "x".join(map(str, size)), dtype) for dtype in ("float32", "float64") for size in MATMUL.values()),
    *(("scan", str(n), dtype) for dtype in ("int32", "float32") for n in SCAN),
    ("reduce", "1048576", "float32"),
    ("sort", "65536", "int32"),
)
_QUICK = (("matmul", "256x256x256", "float32"), ("scan", "65536", "int32"))
_BUDGET, _SECONDS, _ELSEWHERE, _JUDGED, _FINALISTS, _NAMED = 60.0, 2.0, 0.5, 4.0, 4, 2
_SAME = Ratio(1.0, 1.0)
_NEAR = 1.1  # candidates with more times the tuned choice's ratio in the first comparison are not compared again


def run(device: Any, quick: bool = False) -> list[Row]:
    """One row per case: calls per second, back to back, of the tuned specialization.

    The ratios (the worse of both modes) compare it with the untuned choice and with the fastest candidate that a tuner
    may store (1: tuning found it).
    """
    cases = [case for case in (_QUICK if quick else CASES) if case[2] != "float64" or device.profile.fp64]
    return [measured(device, *case) for case in cases]


def measured(device: Any, name: str, size: str, dtype: str) -> Row:
    """The row of one case.

    The notes name candidates that are faster than the tuned one only back to back, or only at this size of the class.
    Each is given by its differences from the untuned choice.
    """
    algorithm = algorithms()[name]
    args, kw = arguments(device, algorithm, size, dtype)
    fn = algorithm.function
    found = pydp.tune(fn, *args, budget=_BUDGET, **kw)
    subject = Subject(fn, tuple(args), kw)
    family, problem = subject.family, subject.problem
    base = untuned(family, device, problem).spec
    subject.prepare(base)
    kept = store_of(device).best(shape_class(problem))
    tuned = rebuild(family.spec_type, kept.spec) if kept is not None and (kept.ratio or 1.0) < 1 else base
    compared, failed = _first_comparison(subject, base, tuned)
    others = [spec for spec in compared if spec not in (tuned, base)]
    near = [spec for spec in others if compared[spec].worse < _NEAR * compared[tuned].worse]
    near.sort(key=lambda spec: compared[spec].worse)
    excluded = _excluded(subject, [spec for spec in (tuned, *near) if spec != base], base)
    late = excluded.pop(tuned, None)
    # The fastest of several measurements was partly lucky: find it first, then measure it again.
    finalists = [tuned, base, *[spec for spec in near if spec not in excluded][:_FINALISTS]]
    first = _judged(subject, finalists, base, _SECONDS)
    best = min(first, key=lambda spec: first[spec].worse)
    in_a_row = [spec for spec in others if spec != best and spec not in excluded]
    partial = [*excluded, *sorted(in_a_row, key=lambda spec: compared[spec].in_a_row)[:_NAMED]]
    judged = _judged(subject, [tuned, best, *partial], base, _JUDGED)
    own, seconds = judged[tuned], subject.seconds(tuned)
    against = {"untuned": 1 / own.worse, "best of all": min(1.0, judged[best].worse / own.worse)}
    notes = [f"{len(compared)} candidates"]
    notes += [f"{failed} failed"] if failed else []
    notes += [] if found.known else [f"{found.tried} tried"]
    notes += [f"the best is {_named(best, base)}"] if best != tuned else []
    notes += [f"the tuned one {late}"] if late is not None else []
    for spec in partial:
        why = _partial_gain(judged[spec], own, excluded.get(spec))
        notes += [f"{_named(spec, base)} takes {why}"] if why is not None else []
    case, note = f"{name} {dtype} {size}", ", ".join(notes)
    return Row("tuning", case, device.name, seconds, 1 / seconds, "calls/s", against, note)


def _judged(subject: Subject, specs: list[Any], base: Any, seconds: float) -> dict[Any, Ratio]:
    """The ratio of each to the untuned choice, measured in one run; the untuned choice has 1."""
    others = list(dict.fromkeys(spec for spec in specs if spec != base))
    found = dict(zip(others, subject.final(others, base, seconds), strict=True)) if others else {}
    return {spec: found.get(spec, _SAME) for spec in specs}


def _partial_gain(ratio: Ratio, own: Ratio, excluded: str | None) -> str | None:
    """How a candidate is faster than the tuned choice (ratio `own`) in one respect only; None if it is not."""
    if excluded is not None and ratio.worse < own.worse:
        return f"{ratio.worse / own.worse:.3f} of the tuned time, but {excluded}"
    if ratio.in_a_row + ratio.noises[0] < own.in_a_row:
        row, waited = ratio.in_a_row / own.in_a_row, ratio.waited / own.waited
        return f"{row:.3f} of the tuned time back to back, but {waited:.3f} of it one at a time"
    return None


def _excluded(subject: Subject, specs: list[Any], base: Any) -> dict[Any, str]:
    """Candidates that a tuner must not store, with the reason: slower than the untuned one, or wrong, elsewhere."""
    found: dict[Any, str] = {}
    for share, other in elsewhere(subject, base):
        where, right = f"at {share} of the class's largest size", []
        for spec in specs:
            if spec not in found:
                try:
                    other.verify(spec)
                    right.append(spec)
                except PydpError as error:
                    found[spec] = f"fails {where} ({type(error).__name__})"
        late = slower(right, other.final(right, base, _ELSEWHERE * (1 + len(right)))) if right else {}
        found |= {spec: f"takes {ratio.worse:.3f} of the untuned time {where}" for spec, ratio in late.items()}
    return found


def _first_comparison(subject: Subject, base: Any, tuned: Any) -> tuple[dict[Any, Ratio], int]:
    """(candidates that run, with the ratio of a first comparison; number of failures)."""
    found, failed = {base: _SAME}, 0
    for spec in [tuned, *subject.family.candidates(subject.device.profile, subject.problem)]:
        if spec not in found:
            try:
                subject.verify(spec)
                found[spec] = subject.race(spec, base, found[tuned].worse if tuned in found else 1.0)
            except PydpError:
                if spec == tuned:
                    raise
                failed += 1  # the tuner has recorded why
    return found, failed


def _named(spec: Any, base: Any) -> str:
    """The fields in which a specialization differs from the untuned choice."""
    usual = fields_of(base)
    other = [f"{name}={value}" for name, value in fields_of(spec).items() if value != usual[name]]
    return " ".join(other) or "the untuned one"


if __name__ == "__main__":
    from pydp.bench.report import table
    from rich.console import Console

    Console().print(table(run(pydp.device())))
