"""Rows of a benchmark as a table, a JSON file and a plot."""

from __future__ import annotations

import json
import platform
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from pydp.bench.measure import Row

from pydp.errors import InvalidArgument


def table(rows: Iterable[Row]) -> Any:
    """A rich table: a line for each case, its rate, and its ratios to peers and limits."""
    from rich.table import Column, Table

    names = ("algorithm", "case", "ms", "rate", "ratios (above 1: faster)", "notes")
    out = Table(*(Column(name, overflow="fold") for name in names))
    for row in rows:
        ratios = "  ".join(f"{name} {ratio:.2f}" for name, ratio in row.ratios.items())
        out.add_row(
            row.algorithm, row.case, f"{row.seconds * 1e3:.3f}", f"{row.value:.2f} {row.unit}", ratios, row.notes
        )
    return out


def save(rows: Iterable[Row], device: Any, path: Path, by_case: bool = False) -> None:
    """Write the rows with the device and the versions that they were measured with.

    The file keeps rows of other algorithms on the same device; with by_case, also those of other cases.
    """
    import numpy
    import pyopencl

    import pydp

    about = {
        "device": device.name,
        "platform": device.platform,
        "driver": device.driver_version,
        "processor": platform.processor() or platform.machine(),
        "numpy": numpy.__version__,
        "pyopencl": pyopencl.VERSION_TEXT,
        "pydp": pydp.__version__,
    }
    found = [row.as_dict() for row in rows]
    names = ("algorithm", "case") if by_case else ("algorithm",)
    measured = {tuple(row[name] for name in names) for row in found}
    kept = [row for row in _saved(path, about["device"]) if tuple(row.get(name) for name in names) not in measured]
    replace(path, json.dumps({"about": about, "rows": kept + found}, indent=1) + "\n")


def replace(path: Path, text: str) -> None:
    """Replace a file as a whole, so an interruption leaves the old file. Creates the folder."""
    path.parent.mkdir(parents=True, exist_ok=True)
    part = _part(path)
    part.write_text(text)
    part.replace(path)


def _part(path: Path) -> Path:
    return path.with_name(f"{path.name}.part")


def _saved(path: Path, device: object) -> list[dict[str, Any]]:
    """The rows of a file that were measured on the same device; empty if there is no such file."""
    try:
        saved = json.loads(path.read_text())
        rows = saved["rows"] if saved["about"]["device"] == device else []
        return [row for row in rows if "algorithm" in row]
    except (OSError, ValueError, LookupError, TypeError):
        return []


def check_place(path: Path) -> None:
    """Create the folder of `path`; raise OSError, before anything is measured, if it is not writable."""
    path.parent.mkdir(parents=True, exist_ok=True)
    part = _part(path)
    part.touch()
    part.unlink()


def check_picture(path: Path) -> None:
    """Raise InvalidArgument, before anything is measured, if no picture can be saved at `path`."""
    try:
        from matplotlib.backend_bases import FigureCanvasBase
    except ImportError:
        raise InvalidArgument("plots need matplotlib: pip install matplotlib") from None
    known = FigureCanvasBase.get_supported_filetypes()
    if path.suffix and path.suffix[1:].lower() not in known:
        raise InvalidArgument(f"{path} is not a picture file name; these endings are accepted: {', '.join(known)}")


def plot(rows: Iterable[Row], path: Path) -> None:
    """Bars of every ratio, one panel for each algorithm; needs matplotlib."""
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot

    grouped: dict[str, list[Row]] = {}
    for row in rows:
        grouped.setdefault(row.algorithm, []).append(row)
    figure, panels = pyplot.subplots(len(grouped), 1, figsize=(9, 3.2 * len(grouped)), squeeze=False)
    for panel, (algorithm, cases) in zip(panels[:, 0], grouped.items(), strict=True):
        peers = sorted({peer for row in cases for peer in row.ratios})
        for place, peer in enumerate(peers):
            at = [i + 0.8 * place / len(peers) for i in range(len(cases))]
            panel.bar(at, [row.ratios.get(peer, 0.0) for row in cases], 0.8 / len(peers), label=peer)
        panel.axhline(1.0, color="black", linewidth=0.8)
        panel.set_xticks(range(len(cases)), [row.case for row in cases], rotation=20, ha="right", fontsize=7)
        panel.set_title(algorithm)
        panel.set_ylabel("pydp's rate / peer's")
        panel.legend(fontsize=7)
    figure.tight_layout()
    path.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(path, dpi=110)
