"""The command ``pydp verify``: check pydp on one device, and write a report."""

from __future__ import annotations

import contextlib
import math
import os
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import click

from pydp.cli.choice import device_option
from pydp.errors import PydpError

_FILE = click.Path(dir_okay=False, path_type=Path)
_FOLDER = click.Path(file_okay=False, path_type=Path)
_TARGETS = ("sm_80", "sm_90")


class _NotUsable(click.ClickException):
    exit_code = 2  # 1 says that a check failed


@click.command()
@device_option
@click.option("-m", "--minutes", type=click.FloatRange(min=0, min_open=True), default=10.0, show_default=True,
              help="Time limit of the run, in minutes.")  # fmt: skip
@click.option("-o", "--out", type=_FILE, default="pydp-verify.json", show_default=True, help="The report file.")
@click.option("--again", is_flag=True, help="Replace the report file instead of continuing it.")
@click.option("--compare", nargs=2, type=_FILE, metavar="A.json B.json", help="Compare two reports; nothing runs.")
@click.option("--pack", "pack", type=_FOLDER, metavar="DIR",
              help="Compile the kernels for NVIDIA GPUs into a folder; needs clang and no GPU.")  # fmt: skip
@click.option("--target", "targets", multiple=True,
              help="With --pack: a GPU to compile for, several times if needed.  [default: sm_80, sm_90]")  # fmt: skip
@click.option("--use-pack", "used", type=_FOLDER, metavar="DIR",
              help="Run the kernels of a folder made by --pack through CUDA's driver.")  # fmt: skip
@click.option("--dry-run", is_flag=True, help="With --use-pack: check every launch of the folder without a GPU.")
def verify(
    which: str | None, minutes: float, out: Path, again: bool, compare: tuple[Path, Path] | None, pack: Path | None,
    targets: tuple[str, ...], used: Path | None, dry_run: bool,
) -> None:  # fmt: skip
    """Check pydp's results on a device, measure its speed, and write a report file to send to others.

    The stages, in this order:

    \b
    (a) device            doctor, properties of the driver, pydp's profile of the device
    (b) known answers     every algorithm, vector functions with every kind of barrier,
                          atomics, records, 64-bit addresses, compared with NumPy
    (c) forward progress  scans whose work-groups wait for one another: more groups than
                          fit, permuted and reversed group order, groups that do not
                          publish their aggregate, in place
    (d) limits            multiply-adds, copies, reads, local memory banks, launch overhead
    (e) speeds            products, scan, reduce, sort, select, histogram, transpose, copy,
                          beside PyTorch and CuPy where they are installed (on a CPU:
                          NumPy); results are compared, a rate above a limit measured in
                          (d) is marked
    (f) model             measured times of some candidates beside the cost model's
    (g) tuning            pydp.tune of the sizes of (e) with the time that is left; the
                          winners are stored, as by pydp tune

    Each stage has a share of --minutes. The checks run in a separate process. If a check crashes it or does not end,
    the check has failed, and a new process runs the next one. The report is written after each check. If the command is
    stopped or killed, or if time runs out, run it again with the same --out to continue. Failed checks run again then,
    and the report keeps their earlier results. Passed checks are not repeated. Exceptions: versions and the checks of
    (e) run again after PyTorch or CuPy was installed or updated. Use --again to repeat all.

    Exit status, by (b) and (c) alone: 0 if all checks passed or do not apply to the device, 1 if one failed, 3 if some
    did not run or need more time. 2 for wrong options, a missing device, or a file that is not usable. If no device is
    usable, the report says why. --pack and --dry-run: 0 without faults, 1 with faults, 2 as above. --compare: 0 or 2.

    On a machine that has NVIDIA's CUDA driver but not its OpenCL library, make a folder of compiled kernels elsewhere
    with --pack, and run it there with --use-pack. The report names the interface: OpenCL or CUDA's driver.
    """
    if targets and pack is None:
        raise click.UsageError("--target needs --pack")
    if sum(map(bool, (compare, pack, used))) > 1:
        raise click.UsageError("--compare, --pack and --use-pack cannot be combined")
    if not math.isfinite(minutes):
        raise click.UsageError(f"--minutes is {minutes}; a finite number is accepted")
    if which is not None and used is not None:
        raise click.UsageError(
            f"--device is {which!r}, but --use-pack runs on CUDA's first GPU; set CUDA_VISIBLE_DEVICES to "
            "select another"
        )
    if dry_run and used is None and not compare:
        raise click.UsageError("--dry-run needs --use-pack")
    mode = "--compare" if compare else "--pack" if pack is not None else "--dry-run" if dry_run else ""
    given = [name for name in ("which", "minutes", "out", "again", "dry_run") if _is_given(name)]
    given = [name for name in given if f"--{name.replace('_', '-')}" != mode]
    if mode and given:
        option = "--device" if given[0] == "which" else f"--{given[0].replace('_', '-')}"
        raise click.UsageError(f"{option} does not apply to {mode}, which runs nothing")
    try:
        if compare:
            _compare(*compare)
        elif pack is not None:
            _pack(pack, targets or _TARGETS)
        elif dry_run:
            _dry_run(used)
        else:
            from pydp.verify.report import locked

            with locked(out), _writable_caches() as note:
                _verify(which, minutes, out, again, used, note)
    except PydpError as error:
        raise _NotUsable(str(error)) from error
    except OSError as error:  # about a file given to the command; other OSErrors have no file name
        if error.filename is None:
            raise
        raise _NotUsable(f"{error.filename}: {error.strerror}") from error


def _is_given(name: str) -> bool:
    """Whether an option of this command was given."""
    source = click.get_current_context().get_parameter_source(name)
    return source is click.core.ParameterSource.COMMANDLINE


def _compare(first: Path, second: Path) -> None:
    from rich.console import Console

    from pydp.verify.report import load
    from pydp.verify.text import comparison

    Console().print(comparison(load(first), load(second)))


def _pack(folder: Path, targets: tuple[str, ...]) -> None:
    from pydp.verify.pack.make import make

    total = 0
    for target in targets:
        faults = 0
        for name, result, note in make(folder, target):
            faults += result == "failed"
            if note:
                click.echo(f"{target} {name}: {result}: {note}")
        click.echo(f"{target}: compiled into {folder}, {faults} fault(s)")
        total += faults
    if total:
        raise SystemExit(1)


def _dry_run(folder: Path | None) -> None:
    from pydp.verify.pack.launch import dry_run

    assert folder is not None
    faults = 0
    for target, launches, found in dry_run(str(folder)):
        for fault in found:
            click.echo(f"{target}: {fault}")
        faults += len(found)
        click.echo(f"{target}: {launches} launches checked, {len(found)} fault(s)")
    if faults:
        raise SystemExit(1)


@contextlib.contextmanager
def _writable_caches() -> Iterator[str]:
    """Temporary cache folders for this process and its workers, if pydp's own cannot be written.

    Without files, each process would probe the device and build its kernels again. Yields a sentence for the report.
    """
    from pydp.runtime.programs.files import atomic_write, cache_dir

    folder, written = cache_dir(), "written-by-verify"
    if atomic_write(folder / written, b"pydp\n"):
        (folder / written).unlink(missing_ok=True)
        yield ""
        return
    before = {name: os.environ.get(name) for name in ("PYDP_CACHE_DIR", "POCL_CACHE_DIR")}
    with tempfile.TemporaryDirectory(prefix="pydp-verify-", ignore_cleanup_errors=True) as made:
        os.environ.update({name: str(Path(made) / name.split("_")[0].lower()) for name in before})
        try:
            yield f"the cache folder {folder} is not writable; the run uses a temporary one"
        finally:
            for name, value in before.items():
                os.environ.pop(name) if value is None else os.environ.update({name: value})


def _reported(wanted: str, out: Path, again: bool, note: str, reason: Exception, seconds: float) -> str:
    """Write a report that says why no device is usable. Returns a clause about the report.

    seconds: what the run has left.
    """
    import pydp
    from pydp.errors import InvalidArgument
    from pydp.verify.about import evidence
    from pydp.verify.report import NO_INTERFACE, Report

    head = {"device": wanted, "driver": "", "interface": NO_INTERFACE, "pydp": pydp.__version__}
    try:
        report = Report(out, {**head, **({"note": note} if note else {})}, again)
    except InvalidArgument as error:
        return f"no report was written: {error}"
    report.begin("a", "usable device")
    report.end("a", "usable device", {"status": "failed", "note": str(reason), "figures": evidence(seconds)}, 0.0)
    return f"the report is in {out}"


def _verify(which: str | None, minutes: float, out: Path, again: bool, used: Path | None, note: str) -> None:
    from rich.console import Console

    from pydp.errors import NoUsableDevice
    from pydp.verify.about import about
    from pydp.verify.check import NOT_IN_PACK
    from pydp.verify.report import Report
    from pydp.verify.run import Run
    from pydp.verify.stages import STAGES
    from pydp.verify.text import line, summary, table

    began = time.monotonic()

    def left() -> float:
        return 60 * minutes - (time.monotonic() - began)

    try:
        arguments, described = about(which, used, left())
    except NoUsableDevice as error:
        wanted = which or ("CUDA's first GPU" if used is not None else "the default device")
        raise NoUsableDevice(f"{error}; {_reported(wanted, out, again, note, error, left())}") from error
    notes = [one for one in (described.get("note"), note) if one]
    if notes:
        described["note"] = "; ".join(notes)
    report = Report(out, described, again)
    click.echo(f"device: {described['device']} ({described['driver']}), {described['interface']}; report: {out}")
    for one in notes:
        click.echo(one)
    titles = {stage.letter: stage.title for stage in STAGES}

    def show(stage: Any, check: Any, result: dict[str, Any]) -> None:
        text = f"({stage.letter}) {check.name}: {result['status']} {line(result)}"
        click.echo(f"{time.monotonic() - began:4.0f} s {text}"[:160].rstrip())

    try:
        status = Run(report, STAGES, left(), arguments, show).run()
    except KeyboardInterrupt:
        click.echo(f"stopped; run the same command again to continue {out}")
        raise SystemExit(130) from None
    record = {"about": report.about, "results": report.results}
    Console().print(table(record))
    for text in summary(record, titles):
        click.echo(text)
    decisive = [one for letter in "bc" for one in report.results.get(letter, {}).values()]
    reasons = [str(one.get("note")) for one in decisive if one["status"] == "skipped"]
    omitted = sum(one.startswith(NOT_IN_PACK) for one in reasons)
    missing = f" and {omitted} that are not in the pack" if omitted else ""
    before = sum("earlier" in one and one["status"] != "failed" for one in decisive)
    words = {0: f"all checks of (b) and (c) passed, except {len(reasons) - omitted} that do not apply to this "
                f"device{missing}",
             1: "checks of (b) or (c) failed",
             3: "some checks of (b) or (c) did not run or did not end; run the command again, with more "
                "--minutes if the table says so"}  # fmt: skip
    earlier = f"; {before} failed in an earlier run" if before else ""
    click.echo(f"{words[status]}{earlier}; the report is in {out}")
    raise SystemExit(status)
