"""Tuners are killed at random moments: the files stay readable, no lock stays, nothing that was measured is lost."""

from __future__ import annotations

import json
import os
import random
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from pydp.tuning import store as stores

pytestmark = pytest.mark.host

_HERE = Path(__file__).parent
_WORKER = """
import sys, time
import numpy as np
import toy_tuning as toy
from pydp.model import calibration
from pydp.tuning import store, trial, tuned, tuner
from pydp.tuning.store import Store

tuned.device_info = toy.device_info
toy.SPACE[:] = [toy.ToySpec(wait, mode) for wait in (8, 6, 4, 2) for mode in ("right", "wrong")]
toy.CLOSED = True
toy.time = type("quick", (), {"sleep": lambda seconds: time.sleep(seconds / 20)})
store.LOCK_SECONDS = trial.LIMIT = 300.0
tuner._FINAL_SECONDS = tuner._AGAIN_SECONDS = trial._RACE_SECONDS = trial._SAMPLE = 0.001
change = Store._change

def told(self, gone, trials):
    saved = change(self, gone, trials)
    lines = [f"{trial.shape.sizes[0]} {store.spec_text(trial.spec)}" for trial in trials
             if trial.unfinished is None]
    print(f"{int(saved)} {self.path.parent.name}", *lines, sep="|", flush=True)
    return saved

Store._change = told
device, turn = toy.device(), 0
while True:
    for size in map(int, sys.argv[1:]):
        tuner.tune(toy.double, np.arange(size), device=device, again=turn % 2 == 1)
    turn += 1
"""


class _Tuner:
    """A running process, and the lines that it printed."""

    def __init__(self, folder: Path, sizes: list[int]) -> None:
        self.sizes = sizes
        environment = {**os.environ, "PYDP_CACHE_DIR": str(folder), "PYTHONPATH": str(_HERE)}
        command = [sys.executable, "-c", _WORKER, *map(str, sizes)]
        self.process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env=environment)

    def first_line(self) -> str:
        assert self.process.stdout is not None
        return self.process.stdout.readline()

    def killed(self) -> list[str]:
        self.process.send_signal(signal.SIGKILL)
        assert self.process.stdout is not None
        lines = self.process.stdout.read().splitlines(keepends=True)
        self.process.stdout.close()
        self.process.wait()
        return [line for line in lines if line.endswith("\n")]


def _whole(path: Path) -> list[stores.Trial]:
    """The trials of a file; none may be damaged. Empty before the first trial is stored."""
    if not path.exists():
        return []
    document = json.loads(path.read_bytes())
    _, trials = stores.parse_document(document, str(path))
    assert len(trials) == len(document["trials"])
    return trials


def _check(folder: Path, sizes: list[int], lines: list[str]) -> None:
    """The files contain the results that a killed tuner reported."""
    known = {place: _whole(folder / place / "toy-1-2.json") for place in ("tuned", "searches")}
    replaced = {trial.shape.sizes[0] for trial in known["tuned"]}
    kept = {(trial.shape.sizes[0], stores.spec_text(trial.spec)) for place in known for trial in known[place]}
    for line in lines:
        head, *trials = line.rstrip("\n").split("|")
        assert head.startswith("1 "), line  # saved
        for trial in trials:
            size, spec = trial.split(" ", 1)
            assert (int(size), spec) in kept or int(size) in replaced, line


def _kill(folder: Path, kills: int, processes: int) -> None:
    """Each process tunes two classes of its own and one that all share."""
    rng = random.Random(7)
    places = [[4 << 2 * i, 8 << 2 * i, 2] for i in range(processes)]
    running = {i: _Tuner(folder, sizes) for i, sizes in enumerate(places)}
    try:
        for turn in range(kills):
            which = rng.randrange(processes)
            victim = running[which]
            first = victim.first_line()  # it has begun
            time.sleep(rng.random() / 8)
            lines = [first, *victim.killed()]
            running[which] = _Tuner(folder, places[which])
            if turn % 2 or turn > kills - 5:
                _check(folder, victim.sizes, lines)
    finally:
        for tuner in running.values():
            tuner.killed()
    for place in ("tuned", "searches"):
        _whole(folder / place / "toy-1-2.json")


def test_killed_tuners_lose_nothing(tmp_path: Path) -> None:
    _kill(tmp_path, 12, 3)


@pytest.mark.huge
def test_two_hundred_kills_of_eight_tuners(tmp_path: Path) -> None:
    _kill(tmp_path, 200, 8)
