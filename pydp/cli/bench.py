"""The command ``pydp bench``: measured rates, with the device's limits and other libraries in the same run."""

from __future__ import annotations

import importlib
from pathlib import Path
from typing import TYPE_CHECKING

import click

from pydp.algorithms.discovery import algorithms
from pydp.cli.choice import Name, device_option, ends_with_names

if TYPE_CHECKING:
    from rich.console import Console

    from pydp.runtime.drivers.devices import Device

_OTHERS = (
    "forall",
    "vector_functions",
    "barrier",
    "lds",
    "overhead",
    "first_call",
    "compat",
    "tuning",
)  # benchmarks that do not belong to algorithms


def _modules() -> dict[str, str]:
    """The module of each benchmark, keyed by its name on the command line."""
    found = {name: one.benchmark for name, one in algorithms().items() if one.benchmark}
    groups = {_group(module): module for module in found.values() if _group(module)}
    return found | dict(sorted(groups.items())) | {name: f"pydp.bench.bench_{name}" for name in _OTHERS}


def _group(module: str) -> str:
    """The name of a module's benchmark, which has all rows of the module."""
    return module.rpartition("pydp.bench.bench_")[2] if module.startswith("pydp.bench.") else ""


def _jobs(names: tuple[str, ...]) -> list[tuple[str, str]]:
    """(module, the one function to measure or "") of each benchmark; each module once if all of its rows are wanted."""
    modules = _modules()
    if not names:
        return [(module, "") for module in dict.fromkeys(modules.values()) if module != modules["tuning"]]
    jobs = dict.fromkeys((modules[name], _only(name, modules[name])) for name in names)
    return [(module, only) for module, only in jobs if not only or (module, "") not in jobs]


def _only(name: str, module: str) -> str:
    """The name of the function to measure, of several that share a module; "" for all rows of the module."""
    shared = sum(one.benchmark == module for one in algorithms().values()) > 1
    return name.removeprefix("random.") if shared and _group(module) != name else ""


_BENCHMARK = Name("benchmark", lambda: {name: name for name in _modules()})


@click.command(cls=ends_with_names("BENCHMARK", _modules))
@click.argument("names", nargs=-1, type=_BENCHMARK, metavar="[BENCHMARK]...")
@device_option
@click.option("-q", "--quick", is_flag=True, help="Measure small sizes only.")
@click.option("--json", "json_path", type=click.Path(dir_okay=False, path_type=Path), help="Save the rows to a file.")
@click.option("--plot", "plot_path", type=click.Path(dir_okay=False, path_type=Path), help="Save a plot to a file.")
@click.option("--specializations", is_flag=True, help="Compare measured times of all candidates with the model.")
@click.option(
    "--seconds",
    type=click.FloatRange(min=0),
    default=170.0,
    show_default=True,
    help="With --specializations: the time limit.",
)
def bench(
    names: tuple[str, ...],
    which: str | None,
    quick: bool,
    json_path: Path | None,
    plot_path: Path | None,
    specializations: bool,
    seconds: float,
) -> None:
    """Run each BENCHMARK and compare it with the device's limits, NumPy and other libraries that are installed.

    Without BENCHMARK, it runs all except tuning, which takes half an hour. A BENCHMARK is an algorithm, a group of
    algorithms (moves, random, reductions, search, segments, select, sets, sort, ...), vector_functions (kernels of
    users, compared with Numba), barrier (implementations of barriers), lds (bank conflicts of local memory), overhead
    (the time of a call beyond the driver's own), first_call (the first call of a new function), compat
    (pydp.compat.pyopencl compared with pyopencl) or tuning (tuned specializations compared with all candidates).

    With --specializations, it measures how well the cost model picks specializations, for families such as matmul and
    scan. Cases that are already in the --json file are not measured again, so a long measurement can be made in parts.
    """
    import os

    # Otherwise NumPy's threads keep spinning after each product and slow down the next measurement.
    os.environ.setdefault("OPENBLAS_THREAD_TIMEOUT", "4")
    from rich.console import Console

    import pydp
    from pydp.bench import report

    if json_path:
        report.check_place(json_path)
    if plot_path:
        report.check_place(plot_path)
        report.check_picture(plot_path)
    console = Console()
    device = pydp.device(which)
    console.print(f"device: {device.name} ({device.platform} {device.driver_version})")
    if specializations:
        _specializations(console, device, names, quick, json_path, plot_path, seconds)
        return
    rows = []
    jobs = _jobs(names)
    for module, only in jobs:
        run = importlib.import_module(module).run
        found = run(device, quick=quick, only=only) if only else run(device, quick=quick)
        if not found:
            raise click.ClickException(f"{module} has no rows of {only}")
        console.print(report.table(found))
        rows += found
    if json_path:
        report.save(rows, device, json_path, by_case=any(only for _, only in jobs))
    if plot_path:
        report.plot(rows, plot_path)


def _specializations(
    console: Console,
    device: Device,
    families: tuple[str, ...],
    quick: bool,
    json_path: Path | None,
    plot_path: Path | None,
    seconds: float,
) -> None:
    from pydp.bench import bench_specializations as measuring
    from pydp.bench import report
    from pydp.bench import specialization_report as quality

    known_families = {name.split()[0] for name in measuring.names(device)}
    unknown = set(families) - known_families
    if unknown:
        raise click.UsageError(
            f"--specializations cannot measure {', '.join(sorted(unknown))}; {', '.join(sorted(known_families))} are "
            "accepted"
        )
    known = measuring.load(device, json_path) if json_path else {}
    measuring.measure(device, known, seconds, families, quick, json_path)
    left = [name for name in measuring.names(device, families, quick) if not known.get(name, {}).get("complete")]
    found = [one for one in measuring.qualities(device, known) if not families or one.case.split()[0] in families]
    for one in found:
        console.print(quality.candidates_table(one))
        for table in quality.heat_tables(one):
            console.print(table)
    console.print(report.table(measuring.rows(device, found)))
    console.print(quality.summary(found))
    warm, first = measuring.choosing(device)
    console.print(f"choosing: {warm * 1e6:.1f} us from the cache, {first * 1e3:.2f} ms the first time")
    if left:
        console.print(f"incomplete, run again with the same --json file: {', '.join(left)}")
    if json_path:
        measuring.store(device, known, json_path, measuring.qualities(device, known))
    if plot_path and found:
        quality.plot(found, plot_path)
