"""A measurement applies to its own class and near classes, on this and on similar devices, if its candidate can run."""

from __future__ import annotations

import dataclasses
import errno
import json
import logging
import os
import random
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import toy_tuning as toy
from toy_tuning import ToyProblem, ToySpec

from pydp.algorithms.matmul.spec import MatmulProblem
from pydp.errors import InvalidArgument
from pydp.model import calibration
from pydp.model import family as choices
from pydp.model.family import Family
from pydp.runtime.programs import files as cache
from pydp.tuning import choose as choosing
from pydp.tuning import tuned
from pydp.tuning.shape_class import ShapeClass, shape_class
from pydp.tuning.store import SCHEMA, Store, Trial, dump
from pydp.tuning.tuned import device_distance, device_info, exported, fields_of, imported, provide, rebuild, store_of

pytestmark = pytest.mark.host


@pytest.fixture
def toys(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Any]:
    """A device, with an empty cache folder and nothing shipped."""
    monkeypatch.setenv("PYDP_CACHE_DIR", str(tmp_path))
    monkeypatch.setattr(tuned, "device_info", toy.device_info)
    monkeypatch.setattr(tuned, "STARTER", tmp_path / "shipped")
    tuned._renewed()
    yield toy.device()
    tuned._renewed()


def _shape(*sizes: int, flags: tuple[str, ...] = ()) -> ShapeClass:
    return ShapeClass("toy", "int64", sizes, flags)


def _problem(n: int, f: bool = False) -> ToyProblem:
    return ToyProblem("int64", n, f)


def _trial(wait: int, ratio: float, *sizes: int, **fields: Any) -> Trial:
    return Trial(_shape(*sizes), {"wait": wait, "mode": "right", "seconds": 0.0, **fields}, ratio)


def _other(folder: Path, name: str, trials: list[Trial], **differences: str) -> None:
    """A store of another device, or one that is shipped."""
    folder.mkdir(parents=True, exist_ok=True)
    (folder / f"{name}.json").write_bytes(dump({**toy.device_info(toy.device()), **differences}, trials))


def test_own_measurements(toys: Any) -> None:
    assert provide(toy.FAMILY, toys, _problem(10)) is None
    store_of(toys).add([_trial(5, 0.5, 16), _trial(6, 0.4, 16, mode="right"), _trial(7, 1.0, 4096)])
    found = provide(toy.FAMILY, toys, _problem(12))
    assert found is not None and found[0] == ToySpec(6)
    assert found[1] == "measured on this device for toy int64 16: 0.40 of the time without tuning"
    confirmed = provide(toy.FAMILY, toys, _problem(3000))
    assert confirmed is not None and confirmed[0] == ToySpec(8)  # what is chosen untuned, not what was in the file
    assert confirmed[1].startswith(
        "measured on this device for toy int64 4096: nothing beats the default's choice; the policy of toy"
    )


def test_near_classes(toys: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    store_of(toys).add(
        [_trial(5, 0.5, 16), _trial(6, 0.9, 256), _trial(7, 1.0, 2048), Trial(_shape(32), {}, None, "x")]
    )
    for size, wait in ((8, 5), (32, 5), (64, 5), (128, 6), (3, 5)):
        found = provide(toy.FAMILY, toys, _problem(size))
        assert found is not None and found[0].wait == wait, size
    assert provide(toy.FAMILY, toys, _problem(1024)) is None  # the nearest says that nothing beats the default
    assert provide(toy.FAMILY, toys, _problem(1 << 15)) is None  # too far
    assert provide(toy.FAMILY, toys, _problem(16, f=True)) is None
    # A result of another class is not used if the model predicts that it is much slower; in its own class it is used.
    times = {5: 2.0, 8: 1.0, 6: 1.05}
    monkeypatch.setattr(tuned, "predicted", lambda family, device, problem, spec: times[spec.wait])
    assert provide(toy.FAMILY, toys, _problem(32)) is None
    own, near = provide(toy.FAMILY, toys, _problem(16)), provide(toy.FAMILY, toys, _problem(128))
    assert own is not None and own[0].wait == 5 and near is not None and near[0].wait == 6


def test_near_classes_must_suit_the_smaller_sizes_of_a_class_too(toys: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    store_of(toys).add([_trial(5, 0.5, 256)])
    slow_at: set[int] = set()

    def predicted(family: Family, device: Any, problem: ToyProblem, spec: ToySpec) -> float:
        return 1.3 if spec.wait == 5 and problem.n in slow_at else 1.0

    monkeypatch.setattr(tuned, "predicted", predicted)
    assert provide(toy.FAMILY, toys, _problem(512)) is not None
    slow_at |= {281}  # 0.55 of 512: as where three blocks fall to two cores, which 512 cuts into four
    assert provide(toy.FAMILY, toys, _problem(512)) is None
    assert provide(toy.FAMILY, toys, _problem(256)) is not None  # its own class was measured there


def test_blocks_of_another_shape_leave_no_core_idle(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from pydp.algorithms.matmul.policy import FAMILY
    from pydp.model.architectures import by_target, rates_of
    from pydp.model.modelled import predicted

    profile = dataclasses.replace(by_target("avx512")[0], compute_units=2)
    device: Any = toy.device()
    device.profile, device.cl = profile, None
    device.facts[calibration._KEY] = (rates_of(profile),)
    monkeypatch.setenv("PYDP_CACHE_DIR", str(tmp_path))
    monkeypatch.setattr(tuned, "device_info", toy.device_info)
    monkeypatch.setattr(tuned, "STARTER", tmp_path / "shipped")
    tuned._renewed()
    wide, square = (
        MatmulProblem("float64", 1, 512, 2048, 1024),
        MatmulProblem("float64", 1, 1024, 1024, 1024),
    )
    spec = dataclasses.replace(FAMILY.default(profile, wide), tile_m=2048, tile_n=512)
    store_of(device).add([Trial(shape_class(square), fields_of(spec), 0.9)])
    assert predicted(FAMILY, device, wide, spec) is not None
    found = provide(FAMILY, device, wide)  # 300 x 1100 has three such blocks, for two cores
    assert found is None, found
    tuned._renewed()


def test_what_cannot_run_is_passed_over(toys: Any) -> None:
    store_of(toys).add([_trial(1000, 0.1, 16), _trial(5, 0.2, 16, more=1), _trial(6, 0.3, 16)])
    found = provide(toy.FAMILY, toys, _problem(16))
    assert found is not None and found[0] == ToySpec(6)


def test_other_devices(toys: Any, tmp_path: Path) -> None:
    folder = tmp_path / "tuned"
    _other(folder, "toy-1-4", [_trial(5, 0.5, 16)], units="4")
    _other(folder, "toy-2-3", [_trial(6, 0.6, 16), _trial(7, 1.0, 1 << 20)], units="3", device="another")
    _other(folder, "far-1-2", [_trial(3, 0.1, 16)], driver="foreign")
    _other(folder, "toy-3-2", [_trial(3, 0.1, 16)], units="many")
    found = provide(toy.FAMILY, toys, _problem(16))  # 3 units are nearer than 4, though the device has another name
    assert found is not None and found[0] == ToySpec(6)
    assert found[1] == "measured on 'another', a device like this one for toy int64 16: 0.60 of the time without tuning"
    assert provide(toy.FAMILY, toys, _problem(1 << 20)) is None
    store_of(toys).add([_trial(9, 0.99, 64)])  # its own near class goes before others' of the same class
    found = provide(toy.FAMILY, toys, _problem(16))
    assert found is not None and found[0] == ToySpec(9)


def test_what_is_shipped_comes_last(toys: Any, tmp_path: Path) -> None:
    _other(tmp_path / "shipped", "toy-1-2", [_trial(5, 0.1, 16)])
    found = provide(toy.FAMILY, toys, _problem(16))
    assert found is not None and found[0] == ToySpec(5)
    _other(tmp_path / "tuned", "toy-2-4", [_trial(6, 0.9, 64)], units="4")
    tuned.reread()
    found = provide(toy.FAMILY, toys, _problem(16))
    assert found is not None and found[0] == ToySpec(6)


def _reasons(device: Any, *sizes: int) -> list[str]:
    found = [provide(toy.FAMILY, device, _problem(size)) for size in sizes]
    return [one[1] for one in found if one is not None]


def test_what_is_shipped_is_not_said_to_be_measured_here(toys: Any, tmp_path: Path) -> None:
    _other(tmp_path / "shipped", "toy-1-2", [_trial(5, 0.1, 16), _trial(7, 1.0, 4096)])
    _other(tmp_path / "shipped", "toy-2-2", [_trial(6, 0.2, 1 << 20)], device="another")
    reasons = _reasons(toys, 16, 4096, 1 << 20)
    assert reasons[0] == (
        "shipped with pydp for 'toy device', measured for toy int64 16: 0.10 of the time without tuning"
    )
    assert reasons[1].startswith("shipped with pydp for 'toy device', measured for toy int64 4096: nothing beats the ")
    assert reasons[2] == (
        "shipped with pydp for 'another', a device like this one, measured for toy int64 1048576: "
        "0.20 of the time without tuning"
    )
    store_of(toys).add([_trial(5, 0.5, 16)])  # the same trial, measured here
    found = provide(toy.FAMILY, toys, _problem(16))
    assert found is not None and found[1].startswith("measured on this device for toy int64 16: 0.50 of")


def test_what_is_shipped_is_read_from_folders_that_others_can_write(toys: Any, tmp_path: Path) -> None:
    """As an environment of a group's: who could change the file could change pydp's code."""
    _other(tmp_path / "shipped", "toy-1-2", [_trial(5, 0.1, 16)])
    (tmp_path / "shipped" / "toy-1-2.json").chmod(0o666)
    (tmp_path / "shipped").chmod(0o777)
    assert provide(toy.FAMILY, toys, _problem(16)) is not None


def test_what_was_imported_is_not_said_to_be_measured_here(toys: Any, tmp_path: Path) -> None:
    store_of(toys).add([_trial(5, 0.5, 16), _trial(7, 1.0, 4096)])
    _other(tmp_path / "tuned", "toy-2-4", [_trial(6, 0.6, 1 << 20)], units="4")
    data, _ = exported()
    tuned.clear()
    assert imported(data, str(tmp_path / "of a colleague.json")) == 3
    reasons = _reasons(toys, 16, 4096, 1 << 20)
    assert reasons[0] == (
        "imported from 'of a colleague.json' for 'toy device', measured for toy int64 16: "
        "0.50 of the time without tuning"
    )
    assert reasons[1].startswith("imported from 'of a colleague.json' for 'toy device', measured for toy int64 4096: n")
    assert "for 'toy device', a device like this one, measured for toy int64 1048576: 0.60" in reasons[2]
    assert exported() == (data, 3)  # whose file it was is not passed on
    store_of(toys).replace_class(_shape(16), [_trial(5, 0.5, 16)])  # measured here since
    found = provide(toy.FAMILY, toys, _problem(16))
    assert found is not None and found[1].startswith("measured on this device")


def test_distances_of_devices() -> None:
    mine = toy.device_info(toy.device())
    assert device_distance(mine, mine) == 0
    assert device_distance(mine, {**mine, "driver_version": "2"}) == 0.25
    assert device_distance(mine, {**mine, "l2_bytes": "2048", "units": "1"}) == 2
    for name, value in (
        ("driver", "x"), ("kind", "gpu"), ("architecture", "x"), ("units", "5"), ("l2_bytes", "0"), ("units", "-2"),
        ("local_bytes", ""), ("local_bytes", "1e3"), ("units", "9" * 400),
    ):  # fmt: skip
        assert device_distance(mine, {**mine, name: value}) is None, name
    assert device_distance(mine, {}) is None


def test_files_are_read_again_when_they_change(toys: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(choosing, "_tuned", lambda *of: _choice(provide(*of)))
    monkeypatch.setattr(choosing, "_BUILT_IN", (choosing._tuned,))
    monkeypatch.setattr(choices, "known_devices", lambda: [toys])
    now = 0.0
    monkeypatch.setattr(choosing, "time", SimpleNamespace(monotonic=lambda: now))
    monkeypatch.setattr(choosing, "_next_look", 0.0)
    assert choosing.choose(toy.FAMILY, toys, _problem(16)).source == "default"
    _other(tmp_path / "tuned", "toy-2-4", [_trial(6, 0.9, 16)], units="4")
    assert choosing.choose(toy.FAMILY, toys, _problem(16)).source == "default"  # looked at a moment ago
    now += choosing._LOOK_SECONDS
    assert choosing.choose(toy.FAMILY, toys, _problem(16)).spec == ToySpec(6)
    assert not tuned.changed()
    Store("toy-1-2", toy.device_info(toys)).add([_trial(4, 0.5, 16)])  # of another process's store object
    assert tuned.changed() and not tuned.changed()
    os.unlink(tmp_path / "tuned" / "toy-2-4.json")
    provide(toy.FAMILY, toys, _problem(16))
    assert not tuned.changed()


def _choice(found: Any) -> Any:
    return None if found is None else choosing.Choice(found[0], "tuned", found[1])


def test_callers_fields_replace_the_tuned_ones(toys: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    @dataclass(frozen=True)
    class Linked:
        lanes: int = 4
        items: int = 2

    family = Family("toy", Linked, lambda p, q: Linked(), lambda p, q: [Linked()],
                    lambda p, q, s: None if s.lanes * s.items <= 64 else "too many")  # fmt: skip
    monkeypatch.setattr(choosing, "_BUILT_IN", (lambda *of: choosing.Choice(Linked(4, 16), "tuned", "measured"),))
    assert choosing.choose(family, toys, _problem(1), {"lanes": 2}).spec == Linked(2, 16)
    assert choosing.choose(family, toys, _problem(1), {"lanes": 32}).spec == Linked(32, 2)  # with the default's items
    with pytest.raises(InvalidArgument, match="too many"):
        choosing.choose(family, toys, _problem(1), {"lanes": 64})


# --- damage ----------------------------------------------------------------------------------------------


def test_damaged_stores_are_a_miss_and_one_line(toys: Any, tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    trials = [_trial(5, 0.5, 16), _trial(6, 1.0, 4096)]
    data = dump(toy.device_info(toys), trials)
    path = tmp_path / "tuned" / "toy-1-2.json"
    path.parent.mkdir()
    rng = random.Random(5)
    damaged = [data[: rng.randrange(len(data))] for _ in range(60)]
    for _ in range(240):
        flipped = bytearray(data)
        flipped[rng.randrange(len(data))] ^= 1 << rng.randrange(8)
        damaged.append(bytes(flipped))
    damaged += [b"", b"{}", b"[" * 100_000, data.replace(SCHEMA.encode(), b"pydp-tuned-9"), b'{"schema": "x"}']
    misses = 0
    for turn, content in enumerate(damaged):
        path.write_bytes(content)
        os.utime(path, ns=(turn, turn))
        cache._said.clear()
        caplog.clear()
        with caplog.at_level(logging.INFO, "pydp"):
            found = [provide(toy.FAMILY, toys, _problem(size)) for size in (16, 9, 16)]
        assert all(one is None or one[0] == ToySpec(5) for one in found)
        if found[0] is None:
            misses += 1
            assert len(caplog.records) == 1 and str(path) in caplog.text, content[-80:]
    assert misses > 100


@pytest.mark.parametrize("code", [errno.EROFS, errno.ENOSPC, errno.EACCES])
def test_folders_that_cannot_be_written(
    toys: Any, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture, code: int
) -> None:
    store_of(toys).add([_trial(5, 0.5, 16)])

    def refuse(*_: Any, **__: Any) -> Any:
        raise OSError(code, os.strerror(code))

    monkeypatch.setattr(cache.tempfile, "mkstemp", refuse)
    cache._said.clear()
    assert not store_of(toys).add([_trial(6, 0.4, 16)])
    assert not store_of(toys).add([_trial(7, 0.3, 64)])
    assert [os.strerror(code) in record.message for record in caplog.records] == [True]
    found = provide(toy.FAMILY, toys, _problem(16))
    assert found is not None and found[0] == ToySpec(6)  # for this process
    monkeypatch.undo()


_FULL = """
import resource, signal, sys
from pathlib import Path
from pydp.tuning.shape_class import ShapeClass, shape_class
from pydp.tuning.store import Store, Trial
signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
store = Store("dev", {}, Path(sys.argv[1]))
k = ShapeClass("k", "", ())
assert store.add([Trial(k, {"tile": 0}, 1.0)])
resource.setrlimit(resource.RLIMIT_FSIZE, (1000, 1000))
assert not store.add([Trial(k, {"tile": i}, 2.0) for i in range(1, 101)])
assert len(store.trials()) == 101 and len(Store("dev", {}, Path(sys.argv[1])).trials()) == 1
"""


def test_a_full_disk_keeps_the_file_as_it_was(tmp_path: Path) -> None:
    pytest.importorskip("resource")
    done = subprocess.run([sys.executable, "-c", _FULL, str(tmp_path)], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert done.stderr.count("cannot keep files") == 1
    assert sorted(path.name for path in tmp_path.iterdir()) == ["dev.json", "dev.json.lock"]


# --- specs as values, and files of them ------------------------------------------------------------------


@dataclass(frozen=True)
class Mixed:
    count: int
    name: str = "x"
    share: float = 0.5
    flag: bool = False
    size: int | None = None


def test_rebuilding() -> None:
    for spec in (Mixed(1), Mixed(2, "y", 1.5, True, 32)):
        assert rebuild(Mixed, json.loads(json.dumps(fields_of(spec)))) == spec
    assert rebuild(Mixed, {"count": 3}) == Mixed(3)
    assert rebuild(Mixed, {"count": 3, "share": 2}) == Mixed(3, share=2)
    for wrong in (
        {}, {"count": "3"}, {"count": True}, {"count": 3.0}, {"count": None}, {"count": [3]}, {"count": 3, "other": 1},
        {"count": 3, "name": 4}, {"count": 3, "flag": 1}, {"count": 3, "size": "4"}, {"count": 3, "share": "0.5"},
        {"count": 3, "size": False},
    ):  # fmt: skip
        assert rebuild(Mixed, wrong) is None, wrong


def test_export_import_clear(toys: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    store_of(toys).add([_trial(5, 0.5, 16), Trial(_shape(16), {"wait": 2}, None, "slow")])
    _other(tmp_path / "tuned", "toy-2-4", [_trial(6, 0.6, 1 << 20)], units="4")
    data, count = exported()
    assert count == 3 and json.loads(data)["schema"] == tuned.EXPORT
    assert tuned.clear(toys) == 1 and tuned.clear() == 1 and provide(toy.FAMILY, toys, _problem(16)) is None
    monkeypatch.setenv("PYDP_CACHE_DIR", str(tmp_path / "elsewhere"))
    assert imported(data, "file") == 3 and exported() == (data, 3)
    found = [provide(toy.FAMILY, toys, _problem(size)) for size in (16, 1 << 20)]
    assert [one[0].wait for one in found if one] == [5, 6]
    for wrong in (b"", b"[]", b"{}", b'{"schema": "pydp-tuned-export-1"}', dump({}, [])):
        with pytest.raises(InvalidArgument, match="file is not of the form pydp-tuned-export-1"):
            imported(wrong, "file")
    outside = json.loads(data)
    outside["stores"] = {"../../x": next(iter(outside["stores"].values()))}
    with pytest.raises(InvalidArgument, match="are accepted"):
        imported(json.dumps(outside).encode(), "file")
    assert not (tmp_path / "x.json").exists()


def test_the_store_of_a_device(toys: Any) -> None:
    assert store_of(toys) is store_of(toys) and store_of(toys).path.name == "toy-1-2.json"
    assert store_of(toy.device(units=1)).path.name == "toy-1-1.json"


def test_what_is_shipped_is_whole() -> None:
    names = {"device", "driver", "driver_version", "kind", "architecture", "units", "l2_bytes", "local_bytes"}
    for path in (Path(tuned.__file__).parent / "starter").glob("*.json"):
        theirs, trials = tuned.stores.load(path, of_package=True)
        assert set(theirs) == names and trials
        assert len(trials) == len(json.loads(path.read_bytes())["trials"])
        assert all(trial.ratio is not None and 0 < trial.ratio <= 1 for trial in trials)
    assert device_info is not toy.device_info
