"""Reports as tables: one report, and two side by side."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

_HIDDEN = ("predicted", "measured / default", "seconds", "versions", "doctor", "failures", "spec", "size",
           "devices of peers")  # fmt: skip


def line(result: dict[str, Any]) -> str:
    """The main figures of a result, or its note, in one line."""
    if "earlier" in result and result["status"] != "failed":
        own = {key: value for key, value in result.items() if key != "earlier"}
        return f"failed before ({result['earlier'].get('note')}); now {line(own) or 'right'}"
    if result.get("note"):
        return str(result["note"])
    figures = result.get("figures", {})
    if len(figures) > 12:
        return f"{len(figures)} properties"
    words = []
    if "rate" in figures:
        words.append(f"{figures['rate']:.4g} {figures['unit']}")
    for name, value in figures.items():
        if name == "ratios":
            words += [f"{ratio:.2f} times {peer}" for peer, ratio in value.items()]
        elif name == "by stride":
            each = [f"{stride}: {one['time']:.2f} ({one['degree']})" for stride, one in value.items()]
            words.append(f"time (conflict degree of the model) by stride: {', '.join(each)}")
        elif name not in ("rate", "unit", *_HIDDEN):
            words.append(f"{name} {value:.4g}" if isinstance(value, float) else f"{name} {value}")
    return ", ".join(words)


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
        out.add_row(*(Text(word) for word in (f"({letter}) {'; '.join(names)}", status, text)))  # no markup
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
    """A rich table of two reports: the results of each check, and the ratios of the second's figures to the first's.

    Checks with equal results and no figures are left out.
    """
    from rich.table import Column, Table
    from rich.text import Text

    names = ("check", _title(first), _title(second), "second / first")
    out = Table(*(Column(name, overflow="fold") for name in names))
    mine = {(letter, name): result for letter, name, result in _results(first)}
    theirs = {(letter, name): result for letter, name, result in _results(second)}
    for key in dict.fromkeys([*mine, *theirs]):
        pair = [found.get(key, {}) for found in (mine, theirs)]
        measured = [_measured(one.get("figures", {})) for one in pair]
        ratios = [
            f"{name}: {measured[1][name] / value:.2f}".removeprefix(": ")
            for name, value in measured[0].items()
            if value and name in measured[1]
        ]
        cells = [f"{one.get('status', 'missing')} {line(one)}".strip() for one in pair]
        if cells[0] == cells[1] and not any("figures" in one and line(one) for one in pair):
            continue
        out.add_row(*(Text(word) for word in (f"({key[0]}) {key[1]}", *cells, ", ".join(ratios))))
    return out


def _measured(figures: dict[str, Any]) -> dict[str, float]:
    """The measurements of a check: its rate under the name "", or times by their names."""
    if "rate" in figures:
        return {"": figures["rate"]}
    if "by stride" in figures:
        return {stride: one["time"] for stride, one in figures["by stride"].items()}
    return {name: value for name, value in figures.items() if name.endswith("(us)")}


def _title(record: dict[str, Any]) -> str:
    about = record["about"]
    return f"{about.get('device')}, {about.get('driver')}, {about.get('way')}"


def _results(record: dict[str, Any]) -> Iterator[tuple[str, str, dict[str, Any]]]:
    for letter, checks in record["results"].items():
        for name, result in checks.items():
            yield letter, name, result
