"""Files of the cache decide which code runs: what another user could have written is not read, and one line says so."""

from __future__ import annotations

import json
import logging
import os
import stat
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from click.testing import CliRunner

from pydp.cli import main
from pydp.model import calibration
from pydp.model.architectures import by_target, rates_of
from pydp.offline import compilers as offline
from pydp.runtime.bounded import BoundedCache
from pydp.runtime.device.quirks import Quirks
from pydp.runtime.drivers import find, probe
from pydp.runtime.drivers.devices import all_devices
from pydp.runtime.programs import binaries
from pydp.runtime.programs import files as cache
from pydp.runtime.programs.files import atomic_write, cache_dir, listed, make_folder, read, untrusted
from pydp.tuning.shape_class import ShapeClass
from pydp.tuning.store import Store, Trial

pytestmark = [
    pytest.mark.host,
    pytest.mark.skipif(not hasattr(os, "geteuid"), reason="this system has no owners and modes of files"),
]
OTHER = 54321  # a user who owns nothing here
FILE_MODES = [0o620, 0o602, 0o666, 0o664]
FOLDER_MODES = [0o777, 0o1777, 0o770, 0o2775, 0o703]


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture) -> Iterator[Path]:
    """The cache folder, which only this user can write to."""
    monkeypatch.setattr(cache, "_said", BoundedCache(64))
    top = tmp_path / "cache"
    top.mkdir(0o700)
    monkeypatch.setenv("PYDP_CACHE_DIR", str(top))
    with caplog.at_level(logging.WARNING, "pydp"):
        yield top


def _give(path: Path, owner: int = OTHER) -> None:
    """Make `path`, a link too, another user's; skips the test where that is not allowed."""
    try:
        os.chown(path, owner, -1, follow_symlinks=False)
    except OSError as error:
        pytest.skip(f"this user cannot give a file to another user ({error.strerror})")


def _mode(path: Path) -> int:
    return stat.S_IMODE(path.stat().st_mode)


def test_everything_is_made_for_this_user_alone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PYDP_CACHE_DIR", str(tmp_path / "one" / "two"))
    before = os.umask(0)
    try:
        assert atomic_write(cache_dir() / "three" / "file", b"x")
    finally:
        os.umask(before)
    assert [_mode(tmp_path / part) for part in ("one", "one/two", "one/two/three")] == [0o700] * 3
    assert _mode(tmp_path / "one/two/three/file") == 0o600


@pytest.mark.parametrize("mode", FILE_MODES)
def test_a_file_that_others_can_write_is_not_read(folder: Path, mode: int, caplog: pytest.LogCaptureFixture) -> None:
    path = folder / "sub" / "file"
    assert atomic_write(path, b"x") and read(path) == b"x"
    path.chmod(mode)
    for _ in range(3):
        assert read(path) is None
    assert [record.message for record in caplog.records] == [
        f"cannot read {path}: other users may write to it (mode {mode:04o}; `chmod go-w` prevents that); "
        "continuing without the file"
    ]
    assert atomic_write(path, b"y") and read(path) == b"y"  # what is written in its place is this user's
    path.chmod(0o644)
    assert read(path) == b"y"  # others may read


def test_a_file_of_another_user_is_not_read(folder: Path, caplog: pytest.LogCaptureFixture) -> None:
    path = folder / "sub" / "file"
    atomic_write(path, b"x")
    _give(path)
    assert read(path) is None and read(path) is None
    assert [record.message for record in caplog.records] == [
        f"cannot read {path}: it belongs to user {OTHER}; continuing without the file"
    ]


def test_a_link_to_a_file_of_another_user_is_not_read(folder: Path, tmp_path: Path) -> None:
    for owner, want in ((os.geteuid(), b"x"), (OTHER, None)):
        target = tmp_path / f"file-of-{owner}"
        target.write_bytes(b"x")
        _give(target, owner)
        link = folder / target.name
        link.symlink_to(target)
        assert read(link) == want


@pytest.mark.parametrize("part", ["sub", "sub/deeper"])
@pytest.mark.parametrize("mode", FOLDER_MODES)
def test_folders_that_others_can_write_are_left_alone(
    folder: Path, part: str, mode: int, caplog: pytest.LogCaptureFixture
) -> None:
    paths = [folder / "sub" / "deeper" / name for name in ("a", "b")]
    for path in paths:
        atomic_write(path, b"x")
    (folder / part).chmod(mode)
    for path in paths:
        assert read(path) is None
        assert not atomic_write(path, b"y") and path.read_bytes() == b"x"
    assert not make_folder(paths[0].parent)
    message = f"files in {folder / part} are neither read nor written: other users may write to it (mode {mode:04o}; "
    assert len(caplog.records) == 1 and caplog.records[0].message.startswith(message)
    (folder / part).chmod(0o755)
    assert read(paths[0]) == b"x"


@pytest.mark.parametrize("part", ["sub", "sub/deeper"])
def test_folders_of_another_user_are_left_alone(folder: Path, part: str) -> None:
    path = folder / "sub" / "deeper" / "file"
    atomic_write(path, b"x")
    _give(folder / part)
    assert read(path) is None and not atomic_write(path, b"y")


def test_a_link_of_another_user_is_no_folder(folder: Path, tmp_path: Path) -> None:
    path = folder / "sub" / "file"
    (tmp_path / "elsewhere").mkdir(0o700)
    (tmp_path / "elsewhere" / "file").write_bytes(b"x")
    (folder / "sub").symlink_to(tmp_path / "elsewhere")
    assert read(path) == b"x"  # this user's own
    _give(folder / "sub")
    assert read(path) is None and not atomic_write(path, b"y")


def test_a_link_to_a_folder_that_others_can_write(folder: Path, tmp_path: Path) -> None:
    (tmp_path / "elsewhere").mkdir()
    (tmp_path / "elsewhere").chmod(0o777)
    (folder / "sub").symlink_to(tmp_path / "elsewhere")
    assert not atomic_write(folder / "sub" / "file", b"y") and not list((tmp_path / "elsewhere").iterdir())


# --- the cache folder itself -------------------------------------------------------------------------------


@pytest.mark.parametrize("mode", FOLDER_MODES)
def test_a_cache_folder_that_is_shared_gets_a_subfolder_of_this_users(
    folder: Path, mode: int, caplog: pytest.LogCaptureFixture
) -> None:
    atomic_write(folder / "sub" / "file", b"planted")
    folder.chmod(mode)
    own = folder / f"private-{os.geteuid()}"
    assert cache_dir() == own and not own.exists()
    assert read(cache_dir() / "sub" / "file") is None
    assert atomic_write(cache_dir() / "sub" / "file", b"x") and read(cache_dir() / "sub" / "file") == b"x"
    assert _mode(own) & 0o777 == 0o700
    assert [record.message for record in caplog.records] == [
        f"the cache folder {folder} is not used: other users may write to it (mode {mode:04o}; `chmod go-w` "
        f"prevents that); files are kept in {own}"
    ]
    own.chmod(0o775)
    assert read(cache_dir() / "sub" / "file") is None and not atomic_write(cache_dir() / "sub" / "file", b"y")


def test_a_planted_subfolder_is_left_alone(folder: Path, tmp_path: Path) -> None:
    folder.chmod(0o1777)
    own = folder / f"private-{os.geteuid()}"
    own.mkdir(0o755)
    (own / "file").write_bytes(b"planted")
    _give(own)
    assert read(cache_dir() / "file") is None and not atomic_write(cache_dir() / "file", b"x")
    own.rename(tmp_path / "mine")
    _give(tmp_path / "mine", os.geteuid())
    own.symlink_to(tmp_path / "mine")
    _give(own)
    assert read(cache_dir() / "file") is None and not atomic_write(cache_dir() / "file", b"x")


@pytest.fixture
def pocl_chosen(folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The folder that POCL_CACHE_DIR names."""
    chosen = tmp_path / "above" / "chosen"
    chosen.mkdir(mode=0o755, parents=True)
    monkeypatch.setenv("POCL_CACHE_DIR", str(chosen))
    monkeypatch.setattr(cache, "_is_private_group", lambda group: False)
    if cache.why_untrusted_tree(tmp_path) is not None:
        pytest.skip("other users may replace the folder for temporary files")
    return chosen


def _inside(path: Path) -> Path:
    (path / "ab").mkdir(mode=0o700)
    return path / "ab"


def _missing(path: Path) -> Path:
    path.rmdir()
    return path.parent


@pytest.mark.parametrize("mode", FOLDER_MODES)
@pytest.mark.parametrize("shared", [lambda path: path, lambda path: path.parent, _inside, _missing])
def test_pocl_gets_a_folder_that_others_cannot_write(pocl_chosen: Path, shared: Any, mode: int) -> None:
    """PoCL loads the binaries in its folder without a look at their owners."""
    assert find._own_pocl_cache() is None
    where = shared(pocl_chosen)
    where.chmod(mode)
    own = find._own_pocl_cache()
    if mode & stat.S_ISVTX and where == pocl_chosen.parent and pocl_chosen.exists():
        assert own is None  # nobody else can rename what is in it
    else:
        assert own == cache_dir() / "pocl" and stat.S_IMODE(own.stat().st_mode) == 0o700


def test_a_group_of_one_user_is_trusted_above_the_folder(pocl_chosen: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Many systems give each user a group, and make folders that it may write to."""
    monkeypatch.setattr(cache, "_is_private_group", lambda group: group == os.getegid())
    pocl_chosen.parent.chmod(0o775)
    assert find._own_pocl_cache() is None
    pocl_chosen.parent.chmod(0o777)
    assert find._own_pocl_cache() is not None


def test_pocl_gets_a_folder_if_a_link_can_be_changed(pocl_chosen: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    link = pocl_chosen.parent / "link"
    monkeypatch.setenv("POCL_CACHE_DIR", str(link))
    link.symlink_to(pocl_chosen)
    assert find._own_pocl_cache() is None
    link.unlink()
    link.symlink_to(pocl_chosen / "missing")
    assert find._own_pocl_cache() is None
    pocl_chosen.chmod(0o777)
    assert find._own_pocl_cache() == cache_dir() / "pocl"
    pocl_chosen.chmod(0o755)
    second = pocl_chosen.parent / "open" / "second"
    second.parent.mkdir()
    second.symlink_to(pocl_chosen)
    link.unlink()
    link.symlink_to(second)
    assert find._own_pocl_cache() is None
    second.parent.chmod(0o777)
    assert find._own_pocl_cache() == cache_dir() / "pocl"
    second.parent.chmod(0o755)
    _give(link)
    assert find._own_pocl_cache() == cache_dir() / "pocl"


@pytest.mark.parametrize("way", ["link/../cache", "second"])
def test_dots_after_a_link_are_followed_as_the_system_does(pocl_chosen: Path, way: str) -> None:
    above = pocl_chosen.parent
    for name in ("open/dir", "open/cache", "cache"):
        (above / name).mkdir(parents=True, mode=0o755)
    (above / "link").symlink_to(above / "open" / "dir")
    (above / "second").symlink_to("link/../cache")
    assert cache.why_untrusted_tree(above / way) is None
    (above / "open").chmod(0o777)
    assert "open" in str(cache.why_untrusted_tree(above / way))
    assert cache.why_untrusted_tree(above / "cache") is None


def test_a_working_directory_that_is_gone(pocl_chosen: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    gone = tmp_path / "gone"
    gone.mkdir()
    monkeypatch.chdir(gone)
    gone.rmdir()
    assert find._own_pocl_cache() is None
    monkeypatch.setenv("POCL_CACHE_DIR", "kcache")
    assert find._own_pocl_cache() == cache_dir() / "pocl"


def test_a_relative_folder_stays_where_it_was_checked(pocl_chosen: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(pocl_chosen.parent)
    monkeypatch.setenv("POCL_CACHE_DIR", pocl_chosen.name)
    assert find._own_pocl_cache() == pocl_chosen
    monkeypatch.delenv("POCL_CACHE_DIR")
    monkeypatch.setenv("XDG_CACHE_HOME", ".")
    assert find._own_pocl_cache() == pocl_chosen.parent / "pocl" / "kcache"


def test_a_container_that_does_not_know_the_systems_root(pocl_chosen: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    link = pocl_chosen.parent / "link"
    link.symlink_to(pocl_chosen.parent)
    _give(link)
    monkeypatch.setenv("POCL_CACHE_DIR", str(link / pocl_chosen.name))
    assert find._own_pocl_cache() is not None
    with monkeypatch.context() as patch:
        patch.setattr(cache, "_unmapped_root", lambda: (OTHER,))
        assert find._own_pocl_cache() is None
    monkeypatch.setenv("POCL_CACHE_DIR", str(pocl_chosen))
    _give(pocl_chosen.parent)
    assert find._own_pocl_cache() is not None
    monkeypatch.setattr(cache, "_unmapped_root", lambda: (OTHER,))
    assert find._own_pocl_cache() is None
    pocl_chosen.parent.chmod(0o777)
    assert find._own_pocl_cache() is not None


def test_long_chains_and_circles_of_links(pocl_chosen: Path) -> None:
    above = pocl_chosen.parent
    (above / "open").mkdir()
    (above / "open").chmod(0o777)
    (above / "open" / "end").mkdir()
    last = above / "open" / "end"
    for number in range(40):
        (above / f"link{number}").symlink_to(last)
        last = above / f"link{number}"
        assert "open" in str(cache.why_untrusted_tree(last)), number
    (pocl_chosen / "inside").mkdir()
    (pocl_chosen / "inside").chmod(0o777)
    (pocl_chosen / "circle").symlink_to("circle")
    assert "other users may write to it" in str(cache.why_untrusted_tree(pocl_chosen))


def test_a_home_folder_that_is_not_accessible(pocl_chosen: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """As in a container that runs as another user than its image was made for."""
    monkeypatch.setattr(os, "access", lambda path, mode: Path(path) != pocl_chosen.parent)
    assert find._own_pocl_cache() == cache_dir() / "pocl"


def test_a_private_group_has_no_other_members(monkeypatch: pytest.MonkeyPatch) -> None:
    grp, pwd = pytest.importorskip("grp"), pytest.importorskip("pwd")
    user, members = os.geteuid(), []
    monkeypatch.setattr(pwd, "getpwuid", lambda number: SimpleNamespace(pw_name=f"user{number}"))
    monkeypatch.setattr(grp, "getgrgid", lambda number: SimpleNamespace(gr_name=f"user{number}", gr_mem=members))
    assert cache._is_private_group(user) and not cache._is_private_group(user + 1)
    members += [f"user{user}"]
    assert cache._is_private_group(user)
    members += ["another"]
    assert not cache._is_private_group(user)


def test_a_temporary_folder_that_others_can_replace_is_not_used(
    pocl_chosen: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    pocl_chosen.chmod(0o777)
    temporary = tmp_path / "temporary"
    temporary.mkdir(mode=0o755)
    monkeypatch.setattr(tempfile, "tempdir", str(temporary))
    monkeypatch.setenv("PYDP_CACHE_DIR", "/dev/null/pydp")
    assert find._own_pocl_cache().parent == temporary
    temporary.chmod(0o777)
    before = sorted(temporary.iterdir())
    assert find._own_pocl_cache() is cache.NOWHERE and sorted(temporary.iterdir()) == before


def test_pocl_without_a_home_folder(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("POCL_CACHE_DIR", "XDG_CACHE_HOME", "HOME"):
        monkeypatch.delenv(name, raising=False)
    assert find._own_pocl_cache() == cache_dir() / "pocl"  # not one with a known name among the temporary files
    monkeypatch.setenv("HOME", str(folder.parent))
    assert find._own_pocl_cache() is None
    monkeypatch.setenv("POCL_CACHE_DIR", "")  # PoCL ends the process
    assert find._own_pocl_cache() == folder.parent / ".cache" / "pocl" / "kcache"


PROGRAM = """
import os, sys
import numpy as np
import pydp
from pydp.runtime.drivers import find
# find._temporary_folder = lambda prefix: None
before = dict(os.environ)
with_folder = []
enumerate_ = find._enumerate
find._enumerate = lambda: with_folder.append(os.environ.get("POCL_CACHE_DIR")) or enumerate_()
try:
    assert pydp.sum(np.arange(5), device="pocl") == 10
    print("computed", with_folder[0])
except pydp.PydpError as error:
    print("refused", error)
assert {k: v for k, v in os.environ.items() if "POCL" in k} == {k: v for k, v in before.items() if "POCL" in k}
"""


@pytest.fixture(scope="module")
def pocl() -> None:
    """Skips if there is no PoCL. This process looks for drivers here, before a test changes the folders."""
    if not any(one.driver == "pocl" and one.usable for one in all_devices()):
        pytest.skip("PoCL is not installed")


@pytest.mark.parametrize("usable", ["cache", "temporary", "nothing"])
def test_pocl_leaves_a_shared_folder_alone(pocl: None, pocl_chosen: Path, tmp_path: Path, usable: str) -> None:
    pocl_chosen.chmod(0o777)
    temporary = tmp_path / "temporary"
    temporary.mkdir()
    environment = {**os.environ, "TMPDIR": str(temporary)}
    if usable != "cache":
        environment["PYDP_CACHE_DIR"] = "/dev/null/pydp"
    program = tmp_path / "program.py"
    program.write_text(PROGRAM if usable != "nothing" else PROGRAM.replace("# ", ""))
    done = subprocess.run([sys.executable, "-P", program], env=environment, capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stderr
    assert done.stdout.startswith("refused" if usable == "nothing" else "computed"), done.stdout
    if usable == "temporary":
        assert str(temporary) in done.stdout
    assert not any(pocl_chosen.iterdir()) and not any(temporary.glob("pydp-pocl*"))
    assert "is not used: other users may write to it" in done.stderr


def test_a_cache_folder_of_another_user(folder: Path) -> None:
    """As where root keeps a user's HOME."""
    _give(folder)
    assert atomic_write(cache_dir() / "file", b"x") and read(cache_dir() / "file") == b"x"
    assert cache_dir().parent == folder and cache_dir().stat().st_uid == os.geteuid()


def test_a_cache_folder_may_be_a_link_of_this_users(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    link = folder.parent / "link"
    link.symlink_to(folder)
    monkeypatch.setenv("PYDP_CACHE_DIR", str(link))
    assert atomic_write(cache_dir() / "file", b"x") and (folder / "file").read_bytes() == read(cache_dir() / "file")
    folder.chmod(0o777)
    assert cache_dir() == link / f"private-{os.geteuid()}"
    assert atomic_write(cache_dir() / "file", b"x") and read(cache_dir() / "file") == b"x"


def test_a_cache_folder_that_is_a_link_of_another_users(
    folder: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    link = folder.parent / "link"
    link.symlink_to(folder)
    _give(link)
    monkeypatch.setenv("PYDP_CACHE_DIR", str(link))
    atomic_write(folder / "file", b"x")
    assert read(cache_dir() / "file") is None and not atomic_write(cache_dir() / "file", b"y")
    assert listed(cache_dir(), "*") == [] and (folder / "file").read_bytes() == b"x"
    assert f"the cache folder {link} is not used: it is another user's symbolic link" in caplog.text


def test_systems_without_owners_check_nothing(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    atomic_write(folder / "sub" / "file", b"x")
    for path in (folder, folder / "sub", folder / "sub" / "file"):
        path.chmod(0o777)
    monkeypatch.delattr(cache.os, "geteuid")
    assert cache_dir() == folder and read(folder / "sub" / "file") == b"x" and not list(untrusted())


def test_files_of_the_package_are_not_checked(tmp_path: Path) -> None:
    path = tmp_path / "shared" / "file"
    path.parent.mkdir()
    path.write_bytes(b"x")
    path.parent.chmod(0o777)
    path.chmod(0o666)
    assert read(path) is None and read(path, of_package=True) == b"x"


# --- every file that pydp reads ---------------------------------------------------------------------------


def _device() -> Any:
    quirks = Quirks("one", (1,))
    profile = replace(by_target("avx512")[0], compute_units=2)
    return SimpleNamespace(
        uid="one-1", name="one", facts={}, driver_version="1", quirks=quirks, profile=profile, context=None, cl=None
    )


def _binary(monkeypatch: pytest.MonkeyPatch) -> Any:
    import pyopencl as cl

    made = SimpleNamespace(get_info=lambda _: [b"code"])
    monkeypatch.setattr(cl._cl, "_Program", lambda *_: made)
    monkeypatch.setattr(binaries, "compile_program", lambda *_: None)
    binaries.store(_device(), "source", (), made)
    return lambda: binaries.load(_device(), "source", ())


def _calibration(monkeypatch: pytest.MonkeyPatch) -> Any:
    device = _device()
    atomic_write(calibration.path_of(device), calibration.dump(rates_of(device.profile), "1"))
    return lambda: calibration.kept(_device())


def _probe(monkeypatch: pytest.MonkeyPatch) -> Any:
    good = {"version": probe._VERSION, "time": time.time(), "reason": None, "subgroups": []}
    atomic_write(probe._path(_device()), json.dumps(good).encode())
    return lambda: probe._from_disk(_device())


def _store(monkeypatch: pytest.MonkeyPatch) -> Any:
    assert Store("one", {}).add([Trial(ShapeClass("k", "", ()), {"tile": 1}, 0.5)])
    return lambda: Store("one", {}).trials()


def _offline(monkeypatch: pytest.MonkeyPatch) -> Any:
    path = cache_dir() / "offline" / "one.json"
    atomic_write(path, b"[]")
    return lambda: None if offline._kept(path) is None else "kept"


@pytest.mark.parametrize("keep", [_binary, _calibration, _probe, _store, _offline])
def test_no_reader_takes_what_others_can_write(
    folder: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture, keep: Any
) -> None:
    load = keep(monkeypatch)
    assert load()
    (path,) = (path for path in folder.rglob("*") if path.is_file() and path.suffix != ".lock")
    path.chmod(0o660)
    assert not load() and not load()
    assert [str(path) in record.message for record in caplog.records] == [True]
    path.chmod(0o600)
    assert load()
    path.parent.chmod(0o775)
    assert not load() and not load()
    assert len(caplog.records) == 2 and f"files in {path.parent} are neither read" in caplog.text


def test_a_store_that_others_can_write_is_neither_used_nor_lost(folder: Path) -> None:
    one, two = (Trial(ShapeClass("k", "", ()), {"tile": tile}, 0.5) for tile in (1, 2))
    assert Store("one", {}).add([one])
    path = Store("one", {}).path
    path.chmod(0o664)
    store = Store("one", {})
    assert not store.add([two]) and store.trials() == [two]  # kept for this process
    path.chmod(0o600)
    assert store.keep() and Store("one", {}).trials() == [one, two]


def test_no_lock_is_made_in_a_folder_that_others_can_write(folder: Path, tmp_path: Path) -> None:
    """There a link could stand in its place, which some versions of filelock follow and cut the file short."""
    (tmp_path / "precious").write_text("precious")
    (folder / "tuned").mkdir()
    (folder / "tuned").chmod(0o777)
    (folder / "tuned" / "one.json.lock").symlink_to(tmp_path / "precious")
    for name in ("one", "two"):
        assert not Store(name, {}).add([Trial(ShapeClass("k", "", ()), {}, 0.5)])
    assert (tmp_path / "precious").read_text() == "precious"
    assert [path.name for path in (folder / "tuned").iterdir()] == ["one.json.lock"]


def test_the_doctor_names_what_is_not_read(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from pydp.runtime.drivers import doctor as diagnosis

    for name in ("good/a", "open/a", "files/a", "files/b"):
        atomic_write(folder / name, b"x")
    (folder / "open").chmod(0o777)
    (folder / "files" / "b").chmod(0o666)
    why = "other users may write to it (mode {}; `chmod go-w` prevents that)"
    assert dict(untrusted()) == {folder / "open": why.format("0777"), folder / "files" / "b": why.format("0666")}
    monkeypatch.setattr(diagnosis, "_software", list)
    monkeypatch.setattr(diagnosis, "_vendors", list)
    monkeypatch.setattr(diagnosis, "_devices", list)
    said = CliRunner().invoke(main, ["doctor"]).output
    assert f"{folder / 'open'} is not read: {why.format('0777')}" in said
    assert said.count("is not read") == 2 and "good/a" not in said
    folder.chmod(0o777)
    said = CliRunner().invoke(main, ["doctor"]).output
    assert f"{folder} is not read: {why.format('0777')}" in said and f"cache folder {cache_dir()}" in said
