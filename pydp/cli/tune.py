"""The command ``pydp tune``: tunes, and lists, exports, imports and removes the results.

Each problem is tuned in a process of its own. If a driver crashes that process or a kernel never ends, a new process
continues without the specialization that was running.
"""

from __future__ import annotations

import inspect
import math
import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from pydp.algorithms.registry import Algorithm, Shape, values_of
from pydp.cli.choice import ALGORITHM, WithTunable, device_option, tunable

if TYPE_CHECKING:
    from pydp.runtime.drivers.devices import Device
    from pydp.tuning.tuner import Progress as Now

_STUCK = 75  # exit status of a process whose device is stuck
_RESTARTS = 8


@click.command(cls=WithTunable)
@click.argument("algorithm", required=False, type=ALGORITHM, metavar="[ALGORITHM]")
@click.argument("sizes", nargs=-1, metavar="[SIZE]...")
@device_option
@click.option("-t", "--dtype", default=None, help="Type of the elements.")
@click.option("-b", "--budget", type=click.FloatRange(min=0, min_open=True), default=30.0, show_default=True,
              help="Seconds of search for each size, without the final runs.")  # fmt: skip
@click.option("--again", is_flag=True, help="Tune again what was tuned before.")
@click.option("--list", "listed", is_flag=True, help="List the tuned specializations.")
@click.option("--export", "target", type=click.Path(dir_okay=False, path_type=Path), help="Write results to a file.")
@click.option("--import", "source", type=click.Path(exists=True, dir_okay=False, path_type=Path),
              help="Add the results of a file.")  # fmt: skip
@click.option("--clear", is_flag=True, help="Remove all results; with -d, those of one device.")
@click.option("--alone", hidden=True, is_flag=True, help="Tune one size in this process.")
def tune(
    algorithm: Algorithm | None, sizes: tuple[str, ...], which: str | None, dtype: str | None, budget: float,
    again: bool, listed: bool, target: Path | None, source: Path | None, clear: bool, alone: bool,
) -> None:  # fmt: skip
    """Find the fastest specializations on a device and store them: pydp tune matmul 1024 4096x64x4096

    Without ALGORITHM, it tunes all of them. SIZE is a shape such as 1048576 or 2048x2048 (matmul: M, MxNxK or
    BATCHxMxNxK); without SIZE, it tunes a few usual sizes. If the command is stopped or killed, run it again to
    continue. Later calls with similar sizes, from any program, use the results.
    """
    if sum(map(bool, (listed, target, source, clear))) > 1 or (algorithm and (listed or target or source or clear)):
        raise click.UsageError(
            "--list, --export, --import and --clear cannot be combined with each other or with ALGORITHM"
        )
    if which is not None and (listed or target or source):
        raise click.UsageError("--device applies only to tuning and to --clear")
    if math.isnan(budget):
        raise click.UsageError("--budget is nan; a positive number of seconds is accepted")
    if dtype is not None and algorithm is None:
        raise click.UsageError("--dtype needs an ALGORITHM")
    if listed:
        _list()
    elif target is not None:
        _export(target)
    elif source is not None:
        _import(source)
    elif clear:
        _clear(which)
    elif algorithm is not None and not algorithm.tunable:
        click.echo(f"{algorithm.name} has nothing to tune: it has no specializations")
    else:
        wanted = [algorithm] if algorithm is not None else list(tunable().values())
        jobs = [(one, size, dtype or one.dtype) for one in wanted for size in (sizes or one.sizes)]
        for one, size, _ in jobs:
            _shapes(one, size)
        if alone:
            _tune_here(*jobs[0], which, budget, again)
        else:
            _tune_all(jobs, which, budget, again)


# --- one process for each size ----------------------------------------------------------------------------


def _tune_all(jobs: list[tuple[Algorithm, str, str]], which: str | None, budget: float, again: bool) -> None:
    import pydp

    chosen = pydp.device(which)  # raises an error for a wrong device before anything starts
    click.echo(f"device: {chosen.name} ({chosen.platform} {chosen.driver_version})")
    failed = False
    for number, (algorithm, size, dtype) in enumerate(jobs, 1):
        name = algorithm.name
        left = (len(jobs) - number + 1) * budget
        click.echo(f"{number} of {len(jobs)}: {name} {size} {dtype} (at most {_minutes(left)} of search left)")
        words = [name, size, "--dtype", dtype, "--budget", str(budget), *(["--device", which] if which else [])]
        failed |= not _tune_apart(words, again)
    if failed:
        raise SystemExit(1)


def _tune_apart(words: list[str], again: bool) -> bool:
    """Tune one size in another process, restarted if it crashes. Return whether a process exited with status 0."""
    from pydp.runtime.drivers.interpreter import python_process

    program = "import sys; from pydp.cli import main; main(sys.argv[1:], prog_name='pydp')"
    for _ in range(_RESTARTS):
        command, environment = python_process(program, "tune", *words, "--alone", *(["--again"] if again else []))
        process = subprocess.Popen(command, env=environment)
        try:
            code = process.wait()
        except KeyboardInterrupt:
            _end(process)
            click.echo("stopped; run the same command again to continue")
            raise SystemExit(130) from None
        if code == 130:
            raise SystemExit(130)
        if code >= 0 and code != _STUCK:
            return code == 0
        cause = "a kernel did not end" if code == _STUCK else f"its process was ended by {_signal(-code)}"
        click.echo(f"{cause}; continuing without this specialization", err=True)
        again = False  # the restarted process must not repeat what was tried
    click.echo(f"gave up after {_RESTARTS} processes", err=True)
    return False


def _end(process: subprocess.Popen[bytes]) -> None:
    """Wait for a process that was also interrupted; kill it if it does not exit in 10 seconds."""
    try:
        process.wait(10)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()


def _signal(number: int) -> str:
    try:
        return signal.Signals(number).name
    except ValueError:
        return f"signal {number}"


def _minutes(seconds: float) -> str:
    return f"{seconds / 60:.0f} min" if seconds >= 90 else f"{seconds:.0f} s"


def _tune_here(algorithm: Algorithm, size: str, dtype: str, which: str | None, budget: float, again: bool) -> None:
    """Tune one size in this process, with a progress bar."""
    from rich.progress import BarColumn, Progress, TextColumn, TimeRemainingColumn

    import pydp
    from pydp.tuning.tuner import Stuck

    device = pydp.device(which)
    args, kw = arguments(device, algorithm, size, dtype)
    parent = os.getppid()
    columns = (TextColumn("{task.description}"), BarColumn(), TextColumn("{task.fields[state]}"), TimeRemainingColumn())
    try:
        with Progress(*columns, transient=True) as bar:
            task = bar.add_task(f"{algorithm.name} {size}", total=1.0, state="")

            def show(now: Now) -> None:
                if os.getppid() != parent:  # the parent process has ended
                    raise KeyboardInterrupt
                share = max(now.spent / now.budget, now.tried / now.ranked if now.ranked > now.tried else 0.0)
                state = f"{now.tried} tried, best {now.best:.2f} of the untuned time"
                bar.update(task, completed=min(share, 1.0), state=state)

            found = pydp.tune(algorithm.function, *args, budget=budget, again=again, progress=show, **kw)
    except KeyboardInterrupt:
        raise SystemExit(130) from None
    except Stuck as error:
        click.echo(str(error), err=True)
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(_STUCK)  # a normal exit would wait for the driver's threads
    click.echo(str(found))
    for trial in found.failures:
        click.echo(f"  not usable: {trial.failure}: {dict(trial.spec)}")
    if not found.kept:
        click.echo("  the result could not be written to the cache folder (see the log)", err=True)


# --- arguments to tune with -------------------------------------------------------------------------------


def _shapes(algorithm: Algorithm, size: str) -> list[Shape]:
    """The shapes of the operands for a size."""
    try:
        numbers = tuple(int(part) for part in size.split("x"))
    except ValueError:
        numbers = ()
    if not numbers or min(numbers) < 1:
        raise click.UsageError(f"{size!r} is not a size; positive integers joined by x are accepted")
    shapes = algorithm.shapes(numbers)
    if shapes is None:
        accepted = ", ".join(one.replace(" ", "x") for one in algorithm.accepted)
        raise click.UsageError(f"{size!r} is not a size of {algorithm.name}; {accepted} are accepted")
    return shapes


def arguments(device: Device, algorithm: Algorithm, size: str, dtype: str) -> tuple[list[Any], dict[str, Any]]:
    """Arguments on the device for the call to tune. Their sums are exact in any order."""
    import numpy as np

    import pydp

    try:
        kind = np.dtype(dtype)
    except TypeError:
        raise click.UsageError(f"{dtype!r} is not a NumPy dtype") from None
    if kind.kind not in algorithm.dtypes:
        words = {"b": "booleans", "i": "integers", "f": "floats", "c": "complex numbers"}
        accepted = [word for letter, word in words.items() if letter in algorithm.dtypes]
        raise click.UsageError(f"{dtype!r} is not accepted; {', '.join(accepted[:-1])} and {accepted[-1]} are allowed")
    shapes = _shapes(algorithm, size)
    largest = max(math.prod(one) for one in shapes) * kind.itemsize
    if largest > device.profile.max_allocation:
        raise click.UsageError(
            f"{size!r} needs an array of {largest} bytes; the device allows {device.profile.max_allocation}"
        )
    try:
        numbers = values_of(algorithm, shapes, kind)
    except (ValueError, MemoryError) as error:  # too many axes for NumPy, or too little host memory
        raise click.UsageError(f"{size!r} is not accepted: {error}") from None
    arrays = [pydp.field(one, device=device) for one in numbers]
    options: dict[str, Any] = {**algorithm.options, "device": device}
    fn = algorithm.function
    if "out" in inspect.signature(fn).parameters:  # new memory at each call would cost more than some kernels
        out = options["out"] = fn(*arrays, **options)
        for one in out if isinstance(out, tuple) else (out,):
            one[...] = 0  # else a candidate that writes nothing would pass the check
    return arrays, options


# --- stored results ---------------------------------------------------------------------------------------


def _list() -> None:
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    from pydp.tuning.tuned import user_stores

    table = Table("device", "tuned for", "time / untuned", "specialization")
    for device_info, trials in user_stores():
        for trial in sorted(trials, key=lambda trial: trial.identity):
            name = f"{device_info.get('device', '?')} ({device_info.get('driver')}, {device_info.get('units')} units)"
            name += f", imported from {trial.imported}" if trial.imported else ""
            spec = ", ".join(f"{key}={value}" for key, value in trial.spec.items())
            ratio = (
                trial.failure if trial.ratio is None else f"{trial.ratio:.2f}" if trial.ratio < 1 else "1 (the best)"
            )
            table.add_row(*(Text(word) for word in (name, str(trial.shape), ratio or "", spec)))  # no markup
    Console().print(table if table.row_count else "nothing has been tuned")


def _export(path: Path) -> None:
    from pydp.tuning.tuned import exported

    data, count = exported()
    try:
        path.write_bytes(data)
    except OSError as error:
        raise click.ClickException(f"{path} cannot be written: {error.strerror or error}") from None
    click.echo(f"{count} trial(s) written to {path}")


def _import(path: Path) -> None:
    from pydp.tuning.tuned import imported

    try:
        data = path.read_bytes()
    except OSError as error:
        raise click.ClickException(f"{path} cannot be read: {error.strerror or error}") from None
    click.echo(f"{imported(data, str(path))} trial(s) imported from {path}")


def _clear(which: str | None) -> None:
    import pydp
    from pydp.tuning.tuned import clear

    click.echo(f"{clear(pydp.device(which) if which is not None else None)} file(s) removed")
