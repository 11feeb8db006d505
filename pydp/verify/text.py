"""Reports as tables: one report, and two side by side."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

_HIDDEN = ("predicted", "measured / default", "seconds", "versions", "doctor", "failures", "spec", "size",
           "devices of peers", "spec from", "OpenCL")  # fmt: skip
_MOST_NAMES = 6  # names of checks in one row


def line(result: dict[str, Any]) -> str:
    """The main figures of a result, or its note, in one line."""
    if "earlier" in result and result["status"] != "failed":
        own = {key: value for key, value in result.items() if key != "earlier"}
        now = ": ".join(filter(None, (f"{result['status']} now", line(own))))
        earlier = result["earlier"]
        note = f" ({earlier.get('note')})" if earlier["status"] == "failed" else ""
        return f"{earlier['status']} in an earlier run{note}; {now}"
    if result.get("note"):
        return str(result["note"])
    figures = result.get("figures", {})
    if len(figures) > 12:
        return f"{len(figures)} properties"
    words = []
    if "rate" in figures:
        words.append(f"{_number(figures['rate'], '.4g')} {figures['unit']}")
    for name, value in figures.items():
        if name == "ratios":
            words += [f"{_number(ratio, '.2f')}x the speed of {peer}" for peer, ratio in value.items()]
        elif name == "above a limit":
            words.append(str(value))
        elif name == "by stride":
            each = [f"{stride}: {_number(one['time'], '.2f')} ({one['degree']})" for stride, one in value.items()]
            words.append(f"time (conflict degree of the model) by stride: {', '.join(each)}")
        elif name not in ("rate", "unit", *_HIDDEN):
            words.append(f"{name} {value:.4g}" if isinstance(value, float) else f"{name} {value}")
    return ", ".join(words)


def _number(value: float | None, form: str) -> str:
    """A number, or None in its place if it is not finite."""
    return "?" if value is None else f"{value:{form}}"


def table(record: dict[str, Any]) -> Any:
    """A rich table of a report, without checks that passed and have no figures.

    Checks of a stage with equal results share a row.
    """
    from rich.table import Column, Table
    from rich.text import Text

    out = Table(*(Column(name, overflow="fold") for name in ("check", "result", "figures")))
    rows: dict[tuple[str, str, str], list[str]] = {}
    for letter, name, result in _results(record):
        text = line(result)
        if text or result["status"] != "passed":
            rows.setdefault((letter, result["status"], text), []).append(name)
    for (letter, status, text), names in rows.items():
        shown = "; ".join(names)
        if len(names) > _MOST_NAMES:
            shown = f"{len(names)} checks: {names[0]} ... {names[-1]}"
        out.add_row(*(Text(word) for word in (f"({letter}) {shown}", status, text)))  # no markup
    return out


def summary(record: dict[str, Any], titles: dict[str, str]) -> list[str]:
    """One line for each stage: how many checks had which result."""
    lines = []
    for letter, checks in record["results"].items():
        counts: dict[str, int] = {}
        for result in checks.values():
            counts[result["status"]] = counts.get(result["status"], 0) + 1
        lines.append(f"({letter}) {titles.get(letter, '')}: " + ", ".join(f"{n} {one}" for one, n in counts.items()))
    return lines


def comparison(first: dict[str, Any], second: dict[str, Any]) -> Any:
    """A rich table of two reports: the results of each check, and how much faster the second is.

    Figures that are no times or rates are shown beside one another. Figures of different sizes are not compared. Checks
    with equal results and no figures are left out.
    """
    from rich.table import Column, Table
    from rich.text import Text

    names = ("check", _title(first), _title(second), "speedup")
    out = Table(*(Column(name, overflow="fold") for name in names))
    mine = {(letter, name): result for letter, name, result in _results(first)}
    theirs = {(letter, name): result for letter, name, result in _results(second)}
    for key in dict.fromkeys([*mine, *theirs]):
        pair = [found.get(key, {}) for found in (mine, theirs)]
        cells = [f"{one.get('status', 'missing')} {line(one)}".strip() for one in pair]
        if cells[0] == cells[1] and not any("figures" in one and line(one) for one in pair):
            continue
        ratio = speedup(*(one.get("figures", {}) for one in pair))
        out.add_row(*(Text(word) for word in (f"({key[0]}) {key[1]}", *cells, ratio)))
    return out


_OF_MODEL = ("Spearman", "pick/best", "time/untuned")


def speedup(first: dict[str, Any], second: dict[str, Any]) -> str:
    """The speedup of the second figures over the first; for the model and tuning, both figures."""
    sizes = [one.get("size", one.get("case")) for one in (first, second)]
    if None not in sizes and sizes[0] != sizes[1]:
        return f"sizes differ: {sizes[0]} and {sizes[1]}"
    words = []
    if first.get("rate") and second.get("rate"):
        words.append(f"{second['rate'] / first['rate']:.2f}")
    times, others = _times(first), _times(second)
    words += [f"{name}: {value / others[name]:.2f}" for name, value in times.items() if value and others.get(name)]
    words += [f"{name}: {first[name]} and {second[name]}" for name in _OF_MODEL if name in first and name in second]
    return ", ".join(words)


def _times(figures: dict[str, Any]) -> dict[str, float]:
    """The times of a check by their names."""
    if "by stride" in figures:
        return {stride: one["time"] for stride, one in figures["by stride"].items()}
    return {name: value for name, value in figures.items() if name.endswith("(us)")}


def _title(record: dict[str, Any]) -> str:
    about = record["about"]
    return f"{about.get('device')}, {about.get('driver')}, {about.get('interface')}"


def _results(record: dict[str, Any]) -> Iterator[tuple[str, str, dict[str, Any]]]:
    for letter, checks in record["results"].items():
        for name, result in checks.items():
            yield letter, name, result
