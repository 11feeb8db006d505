"""The command ``pydp bench``: measured rates beside limits and peers of the same run."""

from __future__ import annotations

import importlib
from pathlib import Path

import click

ALGORITHMS = ("matmul", "scan", "reduce", "sort", "forall", "barrier")


@click.command()
@click.argument("algorithms", nargs=-1, type=click.Choice(ALGORITHMS))
@click.option("-d", "--device", "which", default=None, help="Device: index, part of its name, 'cpu' or 'gpu'.")
@click.option("-q", "--quick", is_flag=True, help="Small sizes only.")
@click.option("--json", "json_path", type=click.Path(dir_okay=False, path_type=Path), help="Save the rows here.")
@click.option("--plot", "plot_path", type=click.Path(dir_okay=False, path_type=Path), help="Save a picture here.")
def bench(
    algorithms: tuple[str, ...], which: str | None, quick: bool, json_path: Path | None, plot_path: Path | None
) -> None:
    """Measure ALGORITHMS (default: all) against the device's limits, NumPy and other libraries that are installed."""
    import os

    # NumPy's threads otherwise spin on after each product and take the cores from whoever is measured next.
    os.environ.setdefault("OPENBLAS_THREAD_TIMEOUT", "4")
    from rich.console import Console

    import pydp
    from pydp.bench import report

    console = Console()
    device = pydp.device(which)
    console.print(f"device: {device.name} ({device.platform} {device.driver_version})")
    rows = []
    for name in algorithms or ALGORITHMS:
        found = importlib.import_module(f"pydp.bench.bench_{name}").run(device, quick=quick)
        console.print(report.table(found))
        rows += found
    if json_path:
        report.save(rows, device, json_path)
    if plot_path:
        report.plot(rows, plot_path)
