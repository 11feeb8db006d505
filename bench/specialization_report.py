"""Reports on the quality of the model: tables, heat maps over two parameters, predicted against measured times."""

from __future__ import annotations

import math
import statistics
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

from pydp.bench.bench_specializations import Quality, pooled

# The parameters of a family's heat maps: tiles, then group sizes. On CPUs a group is one work-item, so its register
# tile or vector replaces the group size.
MAPS = {
    "matmul": (("tile_n", "tile_k"), ("columns", "rows"), ("tile_m", "lanes_m")),
    "scan": (("part", "strategy"), ("vector", "part"), ("lanes", "items")),
    "reduce": (("width", "unroll"), ("lanes", "items")),
    "sort": (("run", "stretch"), ("small", "chains"), ("lanes", "items")),
    "histogram": (("parts", "copies"), ("lanes", "waves")),
    "transpose": (("block", "chunk"), ("block", "rows")),
}


def by_family(found: Iterable[Quality]) -> dict[str, list[Quality]]:
    """The cases of each family."""
    grouped: dict[str, list[Quality]] = {}
    for one in found:
        grouped.setdefault(one.case.split()[0], []).append(one)
    return grouped


def heat(one: Quality, across: str, down: str) -> tuple[list[Any], list[Any], list[list[float | None]]]:
    """(values across, values down, cells). A cell is the best measured time divided by that of the best candidate with
    both values; None if no candidate has them."""
    best = min(one.measured)
    cells: dict[tuple[Any, Any], float] = {}
    for spec, measured in zip(one.specs, one.measured, strict=True):
        key = getattr(spec, down), getattr(spec, across)
        cells[key] = max(cells.get(key, 0.0), best / measured)
    rows = sorted({key[0] for key in cells})
    columns = sorted({key[1] for key in cells})
    return columns, rows, [[cells.get((row, column)) for column in columns] for row in rows]


def maps_of(one: Quality) -> list[tuple[str, str]]:
    """The pairs of parameters that both vary among a case's candidates."""
    pairs = MAPS.get(one.case.split()[0], ())
    return [pair for pair in pairs if all(len({getattr(spec, name) for spec in one.specs}) > 1 for name in pair)]


def summary(found: Sequence[Quality]) -> Any:
    """A rich table of each family: relative speeds of the first pick and the best of five, and the rank correlation."""
    from rich.table import Table

    out = Table(
        "family", "cases", "candidates", "first pick: median, least", "best of five", "Spearman: pooled, median"
    )
    for family, cases in by_family(found).items():
        first, five = [one.first for one in cases], [one.five for one in cases]
        out.add_row(
            family,
            str(len(cases)),
            str(sum(len(one.specs) for one in cases)),
            f"{statistics.median(first):.3f}, {min(first):.3f}",
            f"{statistics.median(five):.3f}, {min(five):.3f}",
            f"{pooled(cases):.3f}, {statistics.median(one.rho for one in cases):.3f}",
        )
    return out


def heat_tables(one: Quality) -> list[Any]:
    """Rich tables of one case's heat maps: 1.00 is the best measured."""
    from rich.table import Table

    tables = []
    for across, down in maps_of(one):
        columns, rows, cells = heat(one, across, down)
        out = Table(f"{down} \\ {across}", *map(str, columns), title=one.case)
        for row, values in zip(rows, cells, strict=True):
            out.add_row(str(row), *(_colored(value) for value in values))
        tables.append(out)
    return tables


def _colored(value: float | None) -> str:
    if value is None:
        return ""
    color = "green" if value >= 0.9 else "yellow" if value >= 0.7 else "red"
    return f"[{color}]{value:.2f}[/{color}]"


def candidates_table(one: Quality) -> Any:
    """A rich table of a case's candidates in the model's order: predicted, measured (over the best), limiter."""
    from rich.table import Table

    out = Table("predicted", "measured", "limited by", "specialization", title=one.case)
    for predicted, measured, limiter, spec in zip(one.predicted, one.measured, one.limiters, one.specs, strict=True):
        near, far = predicted / min(one.predicted), measured / min(one.measured)
        out.add_row(f"{near:.2f}", f"{far:.2f}" if math.isfinite(far) else "failed", limiter, str(spec))
    return out


def plot(found: Sequence[Quality], path: Path) -> None:
    """One row for each case: predicted against measured, then its heat maps; needs matplotlib."""
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot

    most = 1 + max(len(maps_of(one)) for one in found)
    figure, panels = pyplot.subplots(len(found), most, figsize=(4 * most, 3 * len(found)), squeeze=False)
    colors = {"memory": "tab:blue", "compute": "tab:red", "latency": "tab:purple", "launch": "tab:gray"}
    for line, one in zip(panels, found, strict=True):
        for limiter, color in colors.items():
            chosen = [i for i, name in enumerate(one.limiters) if name == limiter and math.isfinite(one.measured[i])]
            measured = [one.measured[i] / min(one.measured) for i in chosen]
            predicted = [one.predicted[i] / min(one.predicted) for i in chosen]
            line[0].scatter(measured, predicted, s=10, color=color, label=limiter if chosen else None)
        line[0].axline((1, 1), slope=1, color="black", linewidth=0.5)
        line[0].set(xscale="log", yscale="log", xlabel="measured / best", ylabel="predicted / best")
        line[0].set_title(f"{one.case}: {one.first:.2f} reached, rho {one.rho:.2f}", fontsize=8)
        line[0].legend(fontsize=6)
        pairs = maps_of(one)
        for panel, (across, down) in zip(line[1:], pairs, strict=False):
            _heat_panel(panel, heat(one, across, down), across, down)
        for panel in line[1 + len(pairs) :]:
            panel.set_axis_off()
    figure.tight_layout()
    path.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(path, dpi=80)
    pyplot.close(figure)


def _heat_panel(
    panel: Any, drawn: tuple[list[Any], list[Any], list[list[float | None]]], across: str, down: str
) -> None:
    columns, rows, cells = drawn
    values = [[float("nan") if cell is None else cell for cell in line] for line in cells]
    panel.imshow(values, vmin=0, vmax=1, cmap="RdYlGn", aspect="auto")
    panel.set_xticks(range(len(columns)), [str(value) for value in columns], rotation=60, fontsize=6)
    panel.set_yticks(range(len(rows)), [str(value) for value in rows], fontsize=6)
    panel.set_xlabel(across, fontsize=7)
    panel.set_ylabel(down, fontsize=7)
