"""The store of measured specializations: what it keeps, and what it makes of damaged files."""

from __future__ import annotations

import json
import random
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest

from pydp.algorithms.histogram.policy import HistogramProblem
from pydp.algorithms.scan.policy import ScanProblem
from pydp.errors import InvalidArgument
from pydp.tuning import store as stores
from pydp.tuning.shape_class import ShapeClass, shape_class, size_class
from pydp.tuning.store import SCHEMA, Store, Trial, Unfinished, dump, parse

pytestmark = pytest.mark.host

ABOUT = {"device": "a device", "driver": "1.0"}
OTHER = ShapeClass("other", "float32", (1,))


K = ShapeClass("k", "float32", (1,))


def _trials(count: int, shape: ShapeClass = K) -> list[Trial]:
    return [Trial(shape, {"tile": i}, 1.0 + i / 8) for i in range(count)]


def test_shape_classes() -> None:
    assert [size_class(n) for n in (0, 1, 2, 3, 1000, 1024, 1025)] == [0, 1, 2, 4, 1024, 1024, 2048]
    left = shape_class(HistogramProblem("int32", 1000, 3, values=True, uneven=True))
    assert left == shape_class(HistogramProblem("int32", 600, 4, uneven=True, values=True))
    assert str(left) == "histogram int32 1024x4 uneven values"
    assert shape_class(ScanProblem("int32", 3, 10, 4, 5)).sizes == (8, 1024, 4, 8)
    assert ShapeClass.from_fields(left.fields()) == left


def test_distances_of_shape_classes() -> None:
    def one(*sizes: int, kernel: str = "k", flags: tuple[str, ...] = ()) -> ShapeClass:
        return ShapeClass(kernel, "int32", sizes, flags)

    assert one(1024, 64).distance(one(1024, 64)) == 0
    assert one(1024, 64).distance(one(2048, 16)) == one(2048, 16).distance(one(1024, 64)) == 3
    assert one(0, 4).distance(one(0, 4)) == 0
    for other in (one(8192, 64), one(1024, 0), one(1024), one(1024, 64, kernel="l"), one(1024, 64, flags=("f",))):
        assert one(1024, 64).distance(other) is None
    for wrong in (
        {"kernel": "k", "dtype": "d", "sizes": [1]},
        {**K.fields(), "sizes": [-1]},
        {**K.fields(), "sizes": [True]},
        {**K.fields(), "sizes": [1 << 2000]},
        {**K.fields(), "flags": [1]},
        {**K.fields(), "more": 1},
    ):
        with pytest.raises(ValueError):
            ShapeClass.from_fields(wrong)


def test_best_and_replacement(tmp_path: Path) -> None:
    store = Store("dev-1", ABOUT, tmp_path)
    assert store.best(K) is None
    assert store.add([Trial(K, {"tile": 1}, 0.9), Trial(K, {"tile": 2}, 0.8), Trial(K, {"tile": 3}, None, "slow")])
    again = Store("dev-1", ABOUT, tmp_path)
    found = again.best(K)
    assert found is not None and dict(found.spec) == {"tile": 2} and again.best(OTHER) is None
    assert again.add([Trial(K, {"tile": 2}, 1.1)])
    found = store.best(K)
    assert found is not None and dict(found.spec) == {"tile": 1} and len(store.trials()) == 3


def test_settling_replaces_a_class(tmp_path: Path) -> None:
    store = Store("dev", ABOUT, tmp_path)
    assert store.add([*_trials(3), Trial(OTHER, {"tile": 9}, 0.5)])
    assert store.replace_class(K, [Trial(K, {"tile": 7}, 0.9)])
    assert [dict(trial.spec) for trial in Store("dev", ABOUT, tmp_path).trials(K)] == [{"tile": 7}]
    assert len(store.trials()) == 2
    assert store.replace_class(K, []) and store.trials() == [Trial(OTHER, {"tile": 9}, 0.5)]


def test_what_was_cleared_does_not_come_back(tmp_path: Path) -> None:
    store = Store("dev", ABOUT, tmp_path)
    assert store.add(_trials(3))
    store.path.unlink()  # another process clears
    other = [Trial(OTHER, {"tile": 9}, 0.5)]
    assert store.add(other) and Store("dev", ABOUT, tmp_path).trials() == other == store.trials()


def test_damaged_files_are_a_miss(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    path = tmp_path / "dev.json"
    data = dump(ABOUT, _trials(5))
    rng = random.Random(1)
    for turn in range(300):
        damaged = bytearray(data)
        if turn % 3 == 0:
            damaged = damaged[: rng.randrange(len(damaged))]
        else:
            for _ in range(1 + turn % 4):
                damaged[rng.randrange(len(damaged))] ^= 1 << rng.randrange(8)
        path.write_bytes(damaged)
        for trial in Store("dev", ABOUT, tmp_path).trials():
            assert trial in _trials(5)
    for foreign in (b"", b"[]", b"null", b"\xff\xfe", b'{"schema": "pydp-tuned-0"}', b"[" * 100_000):
        path.write_bytes(foreign)
        store = Store("dev", ABOUT, tmp_path)
        assert store.trials() == []
        assert store.add(_trials(1)) and store.trials() == _trials(1)
    assert caplog.records


def test_lists_in_lists_are_a_miss_however_deep(tmp_path: Path) -> None:
    """Of some depths they can be read and not be written again."""
    path = tmp_path / "dev.json"
    about = json.loads(dump(ABOUT, []))["about"]
    for depth in range(800, 1000):
        spec = f'"spec": {"[" * depth}{"]" * depth}, "sum": "x"'
        for data in (
            f'{{"schema": "{SCHEMA}", "about": {json.dumps(about)}, "trials": [{{{spec}}}]}}',
            f'{{"schema": "{SCHEMA}", "about": {{{spec}}}, "trials": []}}',
        ):
            path.write_text(data)
            assert Store("dev", ABOUT, tmp_path).trials() == []
    assert parse(dump(ABOUT, [Trial(K, {"tile": [1]}, 0.5), *_trials(1)]), "x") == (ABOUT, _trials(1))


def test_what_cannot_be_read_is_not_written_over(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Another user's, for example, in a folder that several share."""
    assert Store("dev", ABOUT, tmp_path).add(_trials(3))
    with monkeypatch.context() as patched:
        patched.setattr(stores, "read", lambda path: None)
        store = Store("dev", ABOUT, tmp_path)
        assert not store.add([Trial(OTHER, {"tile": 9}, 0.5)])
        assert store.trials() == [Trial(OTHER, {"tile": 9}, 0.5)]
    assert Store("dev", ABOUT, tmp_path).trials() == _trials(3)
    assert store.keep() and len(Store("dev", ABOUT, tmp_path).trials()) == 4


def test_what_could_not_be_read_for_a_while_is_not_lost(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A process with too many open files, for example: the file stays the same."""
    assert Store("dev", ABOUT, tmp_path).add(_trials(3))
    store = Store("dev", ABOUT, tmp_path)
    with monkeypatch.context() as patched:
        patched.setattr(stores, "read", lambda path: None)
        assert store.trials() == []
    assert store.trials() == _trials(3)


def test_file_systems_without_locks(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def none(*_: object, **__: object) -> None:
        raise NotImplementedError("no locks there")

    monkeypatch.setattr("filelock.FileLock.acquire", none)
    store = Store("dev", ABOUT, tmp_path)
    assert not store.add(_trials(1)) and store.trials() == _trials(1)


def test_what_cannot_be_written_is_kept_for_the_process(tmp_path: Path) -> None:
    blocked = tmp_path / "file"
    blocked.write_text("not a folder")
    store = Store("dev", ABOUT, blocked)
    assert not store.add(_trials(2))
    assert store.trials() == _trials(2)
    assert not store.replace_class(K, _trials(1))
    assert store.trials() == _trials(1)


def test_what_cannot_be_written_is_kept_once_for_each_candidate(tmp_path: Path) -> None:
    """A search notes every candidate when it begins and when it ends, and replaces its class at the end."""
    blocked = tmp_path / "file"
    blocked.write_text("not a folder")
    store = Store("dev", ABOUT, blocked)
    for number in range(200):
        assert not store.add([Trial(K, {"tile": number % 4}, 1.0 + number)])
        assert not store.replace_class(OTHER, [Trial(OTHER, {"tile": number}, 0.5)])
    assert len(store._unsaved) == 5 and len(store._replaced) == 1
    assert {trial.ratio for trial in store.trials(K)} == {197.0, 198.0, 199.0, 200.0}
    assert [dict(trial.spec) for trial in store.trials(OTHER)] == [{"tile": 199}]
    blocked.unlink()
    assert Store("dev", ABOUT, blocked).add([*_trials(6), Trial(OTHER, {"tile": 7}, 0.1)])
    assert store.keep() and not store._unsaved and not store._replaced
    found = Store("dev", ABOUT, blocked)
    assert found.trials(OTHER) == store.trials(OTHER) and len(found.trials(OTHER)) == 1
    assert len(found.trials(K)) == 6 and found.best(K) == Trial(K, {"tile": 4}, 1.5)


def test_a_class_that_was_cleared_is_cleared_once_that_can_be_written(tmp_path: Path) -> None:
    folder = tmp_path / "folder"
    assert Store("dev", ABOUT, folder).add([*_trials(3), Trial(OTHER, {"tile": 9}, 0.5)])
    store = Store("dev", ABOUT, folder)
    assert len(store.trials()) == 4
    folder.rename(tmp_path / "elsewhere")
    folder.write_text("not a folder")
    assert not store.replace_class(K, []) and not store.keep() and store.trials(K) == []
    folder.unlink()
    (tmp_path / "elsewhere").rename(folder)
    assert store.keep() and Store("dev", ABOUT, folder).trials() == [Trial(OTHER, {"tile": 9}, 0.5)]


def test_the_oldest_of_too_much_that_cannot_be_written_goes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(stores, "_MOST_UNSAVED", 10)
    blocked = tmp_path / "file"
    blocked.write_text("not a folder")
    store = Store("dev", ABOUT, blocked)
    for number in range(50):
        shape = ShapeClass("k", "float32", (number,))
        assert not store.replace_class(shape, [Trial(shape, {"tile": 1}, 0.5)])
        assert len(store._unsaved) <= 10 and len(store._replaced) <= 10
    assert [trial.shape.sizes for trial in store.trials()] == [(number,) for number in range(40, 50)]
    blocked.unlink()
    assert store.add(_trials(30)) and len(Store("dev", ABOUT, blocked).trials()) == 40


def test_a_held_lock_is_not_waited_for_long(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from filelock import FileLock

    monkeypatch.setattr(stores, "LOCK_SECONDS", 0.01)
    store = Store("dev", ABOUT, tmp_path)
    with FileLock(str(store.path) + ".lock"):
        assert not store.add(_trials(1))
    assert store.trials() == _trials(1)
    assert store.add([]) and Store("dev", ABOUT, tmp_path).trials() == _trials(1)


def test_wrong_names_and_schema(tmp_path: Path) -> None:
    for name in ("", "../x", "a b"):
        with pytest.raises(InvalidArgument):
            Store(name, ABOUT, tmp_path)
    assert json.loads(dump(ABOUT, _trials(1)))["schema"] == SCHEMA
    assert parse(dump(ABOUT, _trials(3)), "x") == (ABOUT, _trials(3))
    assert b"imported" not in dump(ABOUT, _trials(3))
    kept = [Trial(K, {"tile": 0}, 0.5, imported="a.json"), Trial(K, {"tile": 1}, None, "slow", "b.json")]
    assert parse(dump(ABOUT, kept), "x") == (ABOUT, kept)
    assert parse(dump(ABOUT, [*_trials(1), Trial(K, {"tile": 9}, 0.5, imported=1)]), "x")[1] == _trials(1)  # type: ignore[arg-type]
    for ratio in (float("inf"), float("nan"), 0.0, -1.0):
        assert parse(dump(ABOUT, [*_trials(1), Trial(K, {"tile": 9}, ratio)]), "x") == (ABOUT, _trials(1))


def test_unfinished_trials_are_kept_with_their_state() -> None:
    states = (Unfinished(), Unfinished(2), Unfinished(1, 12, "345", "here"), Unfinished(0, 12, None, "there"))
    kept = [Trial(K, {"tile": number}, None, unfinished=state) for number, state in enumerate(states)]
    assert parse(dump(ABOUT, kept), "x") == (ABOUT, kept)
    assert b"unfinished" not in dump(ABOUT, _trials(3))
    wrong: tuple[tuple[Any, ...], ...] = ((True,), ("1",), (0, 1.5), (0, 1, 2), (0, 1, "2", None))
    broken = [Trial(K, {"tile": 9}, None, unfinished=Unfinished(*values)) for values in wrong]
    broken += [Trial(K, {"tile": 9}, *result, "", Unfinished()) for result in ((0.5, None), (None, "slow"))]
    for one in (*broken, Trial(K, {"tile": 9}, None)):
        assert parse(dump(ABOUT, [*_trials(1), one]), "x") == (ABOUT, _trials(1)), one


_WRITER = """
import sys, time
from pathlib import Path
from pydp.tuning.shape_class import ShapeClass
from pydp.tuning import store as stores
from pydp.tuning.store import Store, Trial
stores.LOCK_SECONDS = 300.0
store = Store("dev", {}, Path(sys.argv[1]))
for i in range(100000):
    if store.add([Trial(ShapeClass(sys.argv[2], "", ()), {"tile": i % 50}, 1.0 + i % 50)]):
        print(i % 50, flush=True)
    time.sleep(0.002)
"""


def _kill_writers(folder: Path, kills: int, processes: int) -> None:
    """Kills writers at random moments. The file must be valid and contain the results that it reported as stored."""
    rng = random.Random(2)
    running: dict[str, subprocess.Popen[str]] = {}
    started = 0
    seen: dict[str, set[int]] = {}

    def start() -> None:
        nonlocal started
        name = f"w{started}"
        started += 1
        command = [sys.executable, "-c", _WRITER, str(folder), name]
        running[name] = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)

    for _ in range(processes):
        start()
    for _ in range(kills):
        name = rng.choice(sorted(running))
        process = running.pop(name)
        assert process.stdout is not None
        first = process.stdout.readline()  # it has begun to write
        time.sleep(rng.random() / 20)
        process.send_signal(signal.SIGKILL)
        rest = process.stdout.read().split()
        process.wait()
        process.stdout.close()
        seen[name] = {int(word) for word in [first, *rest] if word.strip()}
        kept = {(trial.shape.kernel, trial.spec["tile"]) for trial in Store("dev", {}, folder).trials()}
        missing = {(n, tile) for n, tiles in seen.items() for tile in tiles} - kept
        assert not missing
        start()
    for process in running.values():
        process.kill()
        process.wait()
        assert process.stdout is not None
        process.stdout.close()


def test_kills_lose_nothing(tmp_path: Path) -> None:
    _kill_writers(tmp_path, 10, 3)


@pytest.mark.huge
def test_two_hundred_kills_of_eight(tmp_path: Path) -> None:
    _kill_writers(tmp_path, 200, 8)
