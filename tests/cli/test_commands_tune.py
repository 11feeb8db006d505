"""The command ``pydp tune``."""

from __future__ import annotations

import inspect
import os
import re
import signal
import stat
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from click.testing import CliRunner

import pydp
from pydp.algorithms.discovery import algorithms
from pydp.cli import main
from pydp.cli import tune as commands_tune
from pydp.tuning import tuned


@pytest.fixture(autouse=True)
def _own_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setenv("PYDP_CACHE_DIR", str(tmp_path / "cache"))
    monkeypatch.setattr(tuned, "STARTER", tmp_path / "none")
    yield
    tuned._renewed()


def _said(*words: str, code: int = 0) -> str:
    result = CliRunner().invoke(main, ["tune", *words])
    assert result.exit_code == code, result.output
    return " ".join(result.output.split())


@pytest.mark.host
@pytest.mark.parametrize(
    "words, said",
    [
        ("matmul 12y", "'12y' is not a size; positive integers"),
        ("scan 0x4", "'0x4' is not a size"),
        ("matmul 4x4", "'4x4' is not a size of matmul; M, MxNxK, BATCHxMxNxK are accepted"),
        ("--list --clear", "cannot be combined"),
        ("scan --list", "cannot be combined"),
        ("--dtype int32", "--dtype needs an ALGORITHM"),
        ("frobnicate", "is not one of"),
        ("scan -b 0", "0.0 is not in the range"),
        ("scan -b nan", "--budget is nan; a positive number"),
        ("--list -d pocl", "--device applies only to tuning and to --clear"),
    ],
)
def test_wrong_words(words: str, said: str) -> None:
    assert said in _said(*words.split(), code=2)


def test_tuning_one_size_and_looking_after_it(device: Any, tmp_path: Path) -> None:
    words = ["scan", "3000", "-d", device.driver, "-b", "0.3"]
    text = _said(*words, "--alone")
    assert "scan int32 1x4096x4x0" in text and "tried" in text
    assert "tuned before" in _said(*words, "--alone")
    file = str(tmp_path / "kept.json")
    assert "scan int32" in _said("--list").replace("… ", "")
    assert re.search(r"[1-9]\d* trial\(s\) written to", _said("--export", file))
    assert "2 file(s) removed" in _said("--clear", "-d", device.driver)
    assert "nothing has been tuned" in _said("--list")
    assert re.search(r"[1-9]\d* trial\(s\) imported", _said("--import", file))
    assert "tuned before" in _said(*words, "--alone")
    (tmp_path / "other.json").write_text("{}")
    assert "is not of the form pydp-tuned-export-1" in _said("--import", str(tmp_path / "other.json"), code=1)
    assert "cannot be written" in _said("--export", str(tmp_path / "no" / "folder"), code=1)


def test_arrays_too_large_for_the_device(device: Any) -> None:
    for size in ("99999999999", "3000000"):
        text = _said("matmul", size, "-d", device.driver, "--alone", code=2)
        assert f"'{size}' needs an array of" in text and "the device allows" in text


def test_wrong_types(device: Any) -> None:
    for words, said in (
        ("bincount 100 -t float32", "'float32' is not accepted; booleans and integers are"),
        ("scan 100 -t nonsense", "'nonsense' is not a NumPy dtype"),
        ("scan 100 -t U4", "booleans, integers, floats and complex numbers are"),
        ("scan " + "x".join(["1"] * 70), "is not accepted: maximum supported dimension"),
    ):
        assert said in _said(*words.split(), "-d", device.driver, "--alone", code=2)


@pytest.mark.parametrize("name", [name for name, one in algorithms().items() if one.tunable])
def test_arguments_of_every_algorithm(device: Any, name: str) -> None:
    one = algorithms()[name]
    assert all(commands_tune._shapes(one, size) for size in one.sizes)
    args, kw = commands_tune.arguments(device, one, "33", one.dtype)
    result = getattr(pydp, name)(*args, **kw)
    assert ("out" in kw) == ("out" in inspect.signature(one.function).parameters)
    assert name in ("min_max", "mean_var") or result is kw.get("out", result)  # no memory that is new at each call
    assert result is not None
    assert all(arg.dtype == np.dtype(one.dtype) for at, arg in enumerate(args) if at not in one.own_values)
    if device.profile.fp64 or not re.match("(nan)?(mean|var|std)|norm|logsumexp", name):  # of integers, in float64
        args, kw = commands_tune.arguments(device, one, "33", "int16")
        assert getattr(pydp, name)(*args, **kw) is not None


@pytest.mark.host
def test_every_public_algorithm_with_a_choice_has_sizes() -> None:
    takes_spec = {
        name
        for name in pydp.__all__
        if inspect.isfunction(getattr(pydp, name)) and "spec" in inspect.signature(getattr(pydp, name)).parameters
    }
    assert takes_spec - {"forall"} == {name for name, one in algorithms().items() if one.tunable}


def test_complex_numbers_to_tune_with(device: Any) -> None:
    for name in ("matmul", "sort"):
        for arg in commands_tune.arguments(device, algorithms()[name], "8", "complex64")[0]:
            assert arg.dtype == np.complex64 and arg.get().imag.any() and arg.get().real.any()


@pytest.mark.host
def test_a_list_tells_what_was_imported(monkeypatch: pytest.MonkeyPatch) -> None:
    from pydp.tuning.shape_class import ShapeClass
    from pydp.tuning.store import Store, Trial

    monkeypatch.setenv("COLUMNS", "250")
    shapes = (ShapeClass("scan", "int32", (size,)) for size in (4, 8))
    trials = [Trial(shape, {"part": 1}, 0.5, imported=name) for shape, name in zip(shapes, ("", "a.json"), strict=True)]
    Store("one-2", {"device": "one", "driver": "d", "units": "2"}).add(trials)
    said = _said("--list")
    assert "one (d, 2 units) │ scan int32 4 " in said
    assert "one (d, 2 units), imported from a.json │ scan int32 8" in said


@pytest.mark.host
def test_a_list_with_brackets() -> None:
    from pydp.tuning.shape_class import ShapeClass
    from pydp.tuning.store import Store, Trial

    trial = Trial(ShapeClass("scan", "int32", (4,)), {"part": 1}, None, "[/a] [red]")
    Store("one-2", {"device": "[/b]", "driver": "d", "units": "2"}).add([trial])
    said = _said("--list")
    assert "[/a]" in said and "[red]" in said and "[/b]" in said


# --- the process that looks after the one that tunes ---------------------------------------------------------


def _pretend(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, ends: list[str]) -> Path:
    """In Python's place a program that ends in these ways, one after the other; the file has its arguments."""
    program, log = tmp_path / "program", tmp_path / "log"
    cases = "\n".join(f"{number}) {end};;" for number, end in enumerate(ends, 1))
    program.write_text(f'#!/bin/sh\necho "$@" >> {log}\ncase $(grep -c tune {log}) in\n{cases}\nesac\n')
    program.chmod(program.stat().st_mode | stat.S_IXUSR)
    monkeypatch.setattr(sys, "executable", str(program))
    return log


@pytest.mark.host
def test_another_process_goes_on(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: Any) -> None:
    log = _pretend(tmp_path, monkeypatch, ["kill -SEGV $$", "exit 75", "exit 0"])
    assert commands_tune._tune_apart(["scan", "100"], again=True)
    lines = log.read_text().splitlines()
    assert [line.endswith("--again") for line in lines if "tune scan 100 --alone" in line] == [True, False, False]
    said = capfd.readouterr().err
    assert "its process was ended by SIGSEGV; continuing without" in said and "a kernel did not end" in said


@pytest.mark.host
@pytest.mark.parametrize("end, fine, times", [("exit 0", True, 1), ("exit 1", False, 1), ("kill -9 $$", False, 8)])
def test_ends(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, end: str, fine: bool, times: int) -> None:
    log = _pretend(tmp_path, monkeypatch, [end] * 9)
    assert commands_tune._tune_apart(["scan", "100"], again=False) is fine
    assert log.read_text().count("tune scan") == times


@pytest.mark.host
def test_an_interrupted_process_ends_the_command(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    _pretend(tmp_path, monkeypatch, ["exit 130"])
    with pytest.raises(SystemExit) as end:
        commands_tune._tune_apart(["scan", "100"], again=False)
    assert end.value.code == 130


def test_the_whole_command_stopped_and_resumed(device: Any, tmp_path: Path) -> None:
    program = "import sys; from pydp.cli import main; main(sys.argv[1:], prog_name='pydp')"
    words = ["tune", "reduce", "5000", "7000", "-d", device.driver, "--budget"]
    with subprocess.Popen([sys.executable, "-c", program, *words, "600"], start_new_session=True) as process:
        journal = tmp_path / "cache" / "searches"
        while not list(journal.glob("*.json")):
            assert process.poll() is None
            time.sleep(0.05)
        os.killpg(process.pid, signal.SIGINT)  # as a terminal's Ctrl-C does
        assert process.wait(300) == 130
    assert list(journal.glob("*.json"))
    done = subprocess.run([sys.executable, "-c", program, *words, "0.5"], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert "1 of 2: reduce 5000" in done.stdout and "2 of 2: reduce 7000" in done.stdout
    assert done.stdout.count("reduce float32 8192x1") == 2 and "tuned before" in done.stdout  # one class, tuned once
