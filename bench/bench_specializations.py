"""Measure and verify every candidate of every case, and compare the times with the model's predictions.

Each candidate alternates with the default specialization, and only the ratios are kept: background load then affects
both equally. Measurements are saved after each case; the next run continues where the last one stopped.
"""

from __future__ import annotations

import dataclasses
import json
import math
import statistics
import time
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from pydp.bench.measure import Row
from pydp.bench.report import replace
from pydp.bench.specialization_cases import Case, wanted

from pydp.errors import InvalidArgument, PydpError
from pydp.model.calibration import calibrated
from pydp.model.ranking import Ranked, rank
from pydp.tuning.choose import ProblemFound, SpecProbe, choose, forget
from pydp.tuning.trial import WARM

SCHEMA = "pydp-specializations-1"
_SAMPLE = 2e-3  # least seconds of one sample; shorter calls are repeated
_REPEATS = 15  # most pairs of samples; fewer if they agree
_FINALISTS = 6  # candidates that are measured again
_HOPELESS = 6.0  # times the default's time: for slower candidates two samples are enough


def ranked(device: Any, case: Case) -> list[Ranked]:
    """The candidates of a case in the model's order, with the device's calibration."""
    try:
        case.call(SpecProbe())
    except ProblemFound as asked:
        return rank(asked.family, device.profile, asked.problem, rates=calibrated(device))
    raise AssertionError(f"{case.name} has no specializations")


def run(device: Any, quick: bool = False) -> list[Row]:
    """A row for each case: the speed of the model's pick relative to the best measured, and the rank correlation."""
    return rows(device, qualities(device, measure(device, {}, 60.0 if quick else 600.0, quick=quick)))


def names(device: Any, families: tuple[str, ...] = (), quick: bool = False) -> list[str]:
    """The names of the cases."""
    return [name for name, _ in wanted(device, families, quick)]


def measure(
    device: Any,
    known: dict[str, Any],
    seconds: float,
    families: tuple[str, ...] = (),
    quick: bool = False,
    save: Path | None = None,
) -> dict[str, Any]:
    """Measure cases that are not `known`, for at most `seconds`; save after each. Return {case: its candidates}."""
    end = time.perf_counter() + seconds
    calibrated(device)
    for name, build in wanted(device, families, quick):
        if known.get(name, {}).get("complete"):
            continue
        case = build(name)
        found = _case(device, case, known.get(case.name, {"candidates": []})["candidates"], end)
        known[case.name] = found
        if save is not None:
            store(device, known, save)
        if time.perf_counter() > end:
            break
    return known


def _case(device: Any, case: Case, earlier: list[dict[str, Any]], end: float) -> dict[str, Any]:
    """Measure one case: every candidate that is not in `earlier`."""
    kept = {json.dumps(one["spec"], sort_keys=True): one for one in earlier}
    order = ranked(device, case)
    base = _base(device, case, order)
    complete = True
    for one in order:
        key = json.dumps(dataclasses.asdict(one.spec), sort_keys=True)
        if key in kept:
            continue
        if time.perf_counter() > end:
            complete = False
            break
        kept[key] = {"spec": dataclasses.asdict(one.spec), **_candidate(case, one.spec, base)}
    if complete:
        _again(case, list(kept.values()), order, base)
    return {"complete": complete, "candidates": list(kept.values())}


def sampled(device: Any, case: Case, count: int, seconds: float) -> Quality:
    """Measure the model's pick and other candidates, evenly spread over its order: `count` in all, fewer if `seconds`
    are over before. The fastest ones are then measured again for as many seconds."""
    order = ranked(device, case)
    base = _base(device, case, order)
    end = time.perf_counter() + seconds
    places = sorted({round(at * (len(order) - 1) / max(1, count - 1)) for at in range(count)})
    measured: dict[int, dict[str, Any]] = {}
    for place in places[::2] + places[1::2]:
        if measured and time.perf_counter() > end:
            break
        spec = order[place].spec
        measured[place] = {"spec": dataclasses.asdict(spec), **_candidate(case, spec, base)}
    found = [(order[place], measured[place]) for place in sorted(measured)]
    _again(case, [one for _, one in found], [one for one, _ in found], base, end + seconds)
    return _quality(case.name, found)


def _base(device: Any, case: Case, order: list[Ranked]) -> Any:
    """The default specialization, with which all others alternate."""
    try:
        case.call(SpecProbe())
    except ProblemFound as asked:
        return asked.family.default(device.profile, asked.problem)
    return order[0].spec


def _candidate(case: Case, spec: Any, base: Any) -> dict[str, Any]:
    """Seconds of one candidate and the ratio to the default's, or the reason of a failure."""
    try:
        case.clear()
        case.call(spec)
    except PydpError as error:
        return {"failure": f"{type(error).__name__}: {str(error).splitlines()[0]}"}
    wrong = case.wrong()
    if wrong is not None:
        return {"failure": f"wrong result: {wrong}"}
    case.call(base)
    ratios, bases = [], []
    for repeat in range(_REPEATS):
        pair = {which: _seconds(case, which) for which in ((spec, base) if repeat % 2 else (base, spec))}
        ratios.append(pair[spec] / pair[base])
        bases.append(pair[base])
        if (repeat and min(ratios) > _HOPELESS) or (repeat >= 4 and _settled(ratios)):
            break
    ratio = statistics.median(ratios)
    return {"ratio": ratio, "seconds": ratio * statistics.median(bases)}


def _settled(ratios: list[float]) -> bool:
    """Whether the middle half of the ratios agrees within 5%; the tolerance grows for slow candidates."""
    low, middle, high = statistics.quantiles(ratios, n=4)
    return high - low < 0.05 * middle**1.5


def _again(case: Case, candidates: list[dict[str, Any]], order: list[Ranked], base: Any, end: float = math.inf) -> None:
    """Measure the fastest few and the model's pick again, alternating, once or until `end`: they decide the result."""
    specs = {json.dumps(dataclasses.asdict(one.spec), sort_keys=True): one.spec for one in order}
    timed = [(one, json.dumps(one["spec"], sort_keys=True)) for one in candidates if "ratio" in one]
    timed = sorted((pair for pair in timed if pair[1] in specs), key=lambda pair: pair[0]["ratio"])
    first = json.dumps(dataclasses.asdict(order[0].spec), sort_keys=True)
    chosen = timed[:_FINALISTS] + [pair for pair in timed[_FINALISTS:] if pair[1] == first]
    ratios: dict[str, list[float]] = {key: [] for _, key in chosen}
    for repeat in range(_REPEATS):
        if repeat and time.perf_counter() > end:
            break
        reference = _seconds(case, base)
        for _, key in chosen[:: 1 if repeat % 2 else -1]:
            took = _seconds(case, specs[key])
            after = _seconds(case, base)
            ratios[key].append(2 * took / (reference + after))
            reference = after
    for one, key in chosen:
        one["seconds"] *= statistics.median(ratios[key]) / one["ratio"]
        one["ratio"] = statistics.median(ratios[key])


def _seconds(case: Case, spec: Any) -> float:
    """Seconds of one call. Short calls are repeated, after one warm-up call that removes effects of other
    specializations on the caches."""
    began = time.perf_counter()
    case.call(spec)
    once = time.perf_counter() - began
    if once >= WARM:
        return once
    count, began = 0, time.perf_counter()
    while True:
        case.call(spec)
        count += 1
        took = time.perf_counter() - began
        if took >= _SAMPLE:
            return took / count


def choosing(device: Any) -> tuple[float, float]:
    """(median seconds of a cached choice, median seconds of a new choice), over the cases' problems."""
    found = []
    for _, build in wanted(device, quick=True):
        try:
            build("").call(SpecProbe())
        except ProblemFound as asked:
            found.append((asked.family, asked.problem))
    warm: list[float] = []
    first: list[float] = []
    for family, problem in found:
        for _ in range(20):
            forget()
            for times in (first, warm):
                began = time.perf_counter()
                choose(family, device, problem)
                times.append(time.perf_counter() - began)
    return statistics.median(warm), statistics.median(first)


# --- measurements and the model -------------------------------------------------------------------------


def store(device: Any, known: dict[str, Any], path: Path, found: Iterable[Quality] = ()) -> None:
    """Write all measurements, one case per line, with the device, its calibration and the quality of the model."""
    summary = {
        one.case: {"first": round(one.first, 3), "best of five": round(one.five, 3), "Spearman": round(one.rho, 3)}
        for one in found
    }
    head = {"schema": SCHEMA, "about": _about(device), "rates": calibrated(device).as_dict(), "quality": summary}
    lines = [f"  {json.dumps(name)}: {json.dumps(case, separators=(',', ':'))}" for name, case in known.items()]
    text = json.dumps(head, indent=1).removesuffix("\n}") + ',\n "cases": {\n' + ",\n".join(lines) + "\n }\n}\n"
    replace(path, text)


def load(device: Any, path: Path) -> dict[str, Any]:
    """The measurements of a file; empty if it does not exist. Raises InvalidArgument for another device or format."""
    if not path.exists():
        return {}
    try:
        found = json.loads(path.read_bytes())
        cases, about = dict(found["cases"]), dict(found["about"])
        wrong = found["schema"] != SCHEMA or not all(map(_is_case, cases.values()))
    except (ValueError, LookupError, TypeError, RecursionError):
        wrong = True
    if wrong:
        raise InvalidArgument(f"{path} is not of the form {SCHEMA}; a file of this command or a new file is accepted")
    if about != _about(device):
        raise InvalidArgument(f"{path} was measured on {about}, not on {_about(device)}; use another file")
    return cases


def _is_case(case: Any) -> bool:
    return (
        isinstance(case, dict)
        and isinstance(case.get("complete"), bool)
        and isinstance(case.get("candidates"), list)
        and all(isinstance(one, dict) and "spec" in one for one in case["candidates"])
    )


def _about(device: Any) -> dict[str, str]:
    return {"device": device.name, "platform": device.platform, "driver": device.driver_version}


@dataclasses.dataclass(frozen=True)
class Quality:
    """One case: the candidates' predicted and measured seconds, in the model's order, with limiters and specs.

    Failed candidates have infinite times; `failures` has the reasons.
    """

    case: str
    predicted: list[float]
    measured: list[float]
    limiters: list[str]
    specs: list[Any]
    failures: tuple[str, ...] = ()

    @property
    def first(self) -> float:
        """The speed of the model's first pick relative to the best measured."""
        return min(self.measured) / self.measured[0]

    @property
    def five(self) -> float:
        """The speed of the best of its first five picks relative to the best measured."""
        return min(self.measured) / min(self.measured[:5])

    @property
    def rho(self) -> float:
        """Spearman's rank correlation of predicted and measured times."""
        return spearman(self.predicted, self.measured)


def ranks(values: Sequence[float]) -> np.ndarray:
    """Ranks from 1; equal values get their average rank.

    >>> ranks([30.0, 10.0, 30.0]).tolist()
    [2.5, 1.0, 2.5]
    """
    given = np.asarray(values, np.float64)
    _, inverse, counts = np.unique(given, return_inverse=True, return_counts=True)
    last = np.cumsum(counts)
    return (last - (counts - 1) / 2.0)[inverse]


def spearman(predicted: Sequence[float], measured: Sequence[float]) -> float:
    """Spearman's rank correlation, ties averaged; nan if one side has fewer than two different values."""
    x, y = ranks(predicted), ranks(measured)
    x, y = x - x.mean(), y - y.mean()
    norm = float(np.sqrt((x @ x) * (y @ y)))
    return float(x @ y) / norm if norm else float("nan")


def _quality(name: str, order: Sequence[tuple[Ranked, dict[str, Any]]]) -> Quality:
    """Predictions beside measurements, in the model's order."""
    return Quality(
        name,
        [one.seconds for one, _ in order],
        [measured.get("ratio", math.inf) for _, measured in order],
        [one.limiter for one, _ in order],
        [one.spec for one, _ in order],
        tuple(str(measured.get("failure")) for _, measured in order if "ratio" not in measured),
    )


def qualities(device: Any, known: dict[str, Any]) -> list[Quality]:
    """Compare the current model with the measurements."""
    found = []
    for name, build in wanted(device):
        if name not in known:
            continue
        case = build(name)
        kept = {json.dumps(one["spec"], sort_keys=True): one for one in known[case.name]["candidates"]}
        order = [
            (one, kept[key])
            for one in ranked(device, case)
            if (key := json.dumps(dataclasses.asdict(one.spec), sort_keys=True)) in kept
        ]
        if any("ratio" in measured for _, measured in order):
            found.append(_quality(case.name, order))
    return found


def pooled(found: Iterable[Quality]) -> float:
    """Rank correlation over the candidates of several cases, each case's times relative to its best."""
    predicted: list[float] = []
    measured: list[float] = []
    for one in found:
        predicted += [value / min(one.predicted) for value in one.predicted]
        measured += [value / min(one.measured) for value in one.measured]
    return spearman(predicted, measured)


def rows(device: Any, qualities_: Iterable[Quality]) -> list[Row]:
    """A row for each case; the value is the speed of the model's pick relative to the best measured."""
    found = []
    for one in qualities_:
        limiters = {name: one.limiters.count(name) for name in sorted(set(one.limiters))}
        notes = f"{len(one.specs)} candidates, limited by " + ", ".join(f"{k} {v}" for k, v in limiters.items())
        if one.failures:
            notes += f"; {len(one.failures)} failed, the first: {one.failures[0]}"
        ratios = {"best of five": one.five, "Spearman": one.rho}
        found.append(
            Row("specializations", one.case, device.name, one.predicted[0], one.first, "of the best", ratios, notes)
        )
    return found
