"""All drivers are visible in one process, without changing the user's own choice; the commands report them."""

from __future__ import annotations

import ast
import hashlib
import json
import os
import stat
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace

import pytest
from click.testing import CliRunner

from pydp.cli import main
from pydp.errors import NoUsableDevice
from pydp.runtime.bounded import BoundedCache
from pydp.runtime.drivers import devices as pydp_device
from pydp.runtime.drivers import doctor as diagnosis
from pydp.runtime.drivers import find as drivers
from pydp.runtime.drivers.devices import Device, all_devices
from pydp.runtime.programs import files as cache


@pytest.fixture
def vendors(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A system folder of .icd files and a virtual environment's, both of the test's own."""
    system, prefix = tmp_path / "vendors", tmp_path / "venv"
    system.mkdir()
    (prefix / "etc" / "OpenCL" / "vendors").mkdir(parents=True)
    (prefix / "lib").mkdir()
    monkeypatch.setattr(drivers, "VENDORS", system)
    monkeypatch.setattr(drivers.sys, "prefix", str(prefix))
    monkeypatch.setattr(drivers.sys, "base_prefix", str(prefix))
    monkeypatch.setattr(drivers.site, "getuserbase", lambda: str(prefix / "user"))
    monkeypatch.setattr(drivers.site, "getsitepackages", lambda: [str(prefix / "site")])
    monkeypatch.setattr(drivers.site, "getusersitepackages", lambda: str(prefix / "user-site"))
    monkeypatch.setenv("PYDP_CACHE_DIR", str(tmp_path / "cache"))
    monkeypatch.delenv("PYDP_DEVICE", raising=False)
    for name in [name for name in os.environ if name.startswith("OCLGRIND_")]:
        monkeypatch.delenv(name)
    yield tmp_path


@pytest.mark.host
def test_the_loader_is_shown_system_and_pip_drivers(vendors: Path) -> None:
    (vendors / "vendors" / "a.icd").write_text("liba.so.1\n")
    (vendors / "vendors" / "gone.icd").write_text("/nowhere/libgone.so\n")
    (vendors / "vendors" / "empty.icd").write_text("")
    (vendors / "vendors" / "note.txt").write_text("not one")
    (vendors / "venv/etc/OpenCL/vendors/intel-cpu.icd").write_text("/build/machine/libintelocl.so")
    (vendors / "venv/lib/libintelocl.so").write_text("")
    inside = vendors / "venv/site/pyopencl/.libs"
    inside.mkdir(parents=True)
    (inside / "libpocl-1234.so").write_text("")
    (inside / "pocl.icd").write_text("libpocl-1234.so")
    (inside / "cut-off.icd").write_text("")
    (inside / "overwritten.icd").write_bytes(b"\xff\xfe\x00")
    (vendors / "vendors" / "overwritten.icd").write_bytes(b"\xff\xfe\x00")
    found = drivers.vendor_files()
    found.pop("nvidia-container.icd", None)
    assert found == {
        "a.icd": "liba.so.1",
        "intel-pip.icd": str(vendors / "venv/lib/libintelocl.so"),
        "pip-pocl.icd": str(inside / "libpocl-1234.so"),
    }


@pytest.mark.host
def test_the_simulator_only_where_it_is_asked_for(vendors: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    library = vendors / "liboclgrind.so"
    library.write_text("")
    monkeypatch.setattr(drivers, "_OCLGRIND", (str(library),))
    assert "oclgrind.icd" not in drivers.vendor_files()
    monkeypatch.setenv("PYDP_DEVICE", "Oclgrind")
    assert drivers.vendor_files()["oclgrind.icd"] == str(library)
    monkeypatch.delenv("PYDP_DEVICE")
    monkeypatch.setenv("OCLGRIND_DATA_RACES", "1")
    assert "oclgrind.icd" in drivers.vendor_files()
    monkeypatch.setenv("LD_PRELOAD", "/usr/lib/oclgrind/liboclgrind-rt.so")
    assert "oclgrind.icd" not in drivers.vendor_files()  # it has taken the loader's place already


linux = pytest.mark.skipif(not sys.platform.startswith("linux"), reason="only Linux's loader reads .icd files")
FILES = {"a.icd": "liba.so", "b.icd": "/x/libb.so"}
WRITTEN = {"a.icd": "liba.so\n", "b.icd": "/x/libb.so\n"}


@pytest.fixture
def temporary(vendors: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder for temporary files in which any user may do anything, also rename other users' folders."""
    folder = vendors / "temporary"
    folder.mkdir()
    folder.chmod(0o777)
    monkeypatch.setattr(tempfile, "tempdir", str(folder))
    monkeypatch.setattr(cache, "_said", BoundedCache(64))
    return folder


def _shown(folder: str | None) -> dict[str, str]:
    assert folder is not None
    return {name: (Path(folder) / name).read_text() for name in os.listdir(folder)}


def _plant(folder: Path, files: dict[str, str]) -> Path:
    folder.mkdir(parents=True, exist_ok=True)
    for name, content in files.items():
        (folder / name).write_text(content)
    return folder


def _former_folder(parent: Path, files: dict[str, str]) -> Path:
    """The folder of the .icd files in earlier versions of pydp: any user could predict its name."""
    content = "\n".join(f"{name}={library}" for name, library in sorted(files.items()))
    return parent / f"icd-{hashlib.sha256(content.encode()).hexdigest()[:16]}"


@linux
@pytest.mark.host
def test_the_loader_is_shown_these_drivers_and_no_others(temporary: Path, vendors: Path) -> None:
    with drivers._icd_folder(FILES) as first, drivers._icd_folder(FILES) as second:
        assert _shown(first) == _shown(second) == WRITTEN and first != second
        assert len(list(temporary.iterdir())) == 2
        for folder in temporary.iterdir():
            assert stat.S_IMODE(folder.stat().st_mode) == 0o700 and folder.stat().st_uid == os.geteuid()
    assert not list(temporary.iterdir()) and not (vendors / "cache").exists()
    with pytest.raises(ZeroDivisionError), drivers._icd_folder(FILES):
        raise ZeroDivisionError
    assert not list(temporary.iterdir())


@linux
@pytest.mark.host
@pytest.mark.parametrize("planted", [dict.fromkeys(FILES, "evil.so"), {"a.icd": ""}, {**WRITTEN, "c.icd": "evil.so"}])
def test_folders_with_the_names_of_earlier_versions_are_not_read(
    temporary: Path, vendors: Path, planted: dict[str, str]
) -> None:
    for parent in (vendors / "cache", temporary / f"pydp-{os.getuid()}"):
        _plant(_former_folder(parent, FILES), planted)
    with drivers._icd_folder(FILES) as folder:
        assert _shown(folder) == WRITTEN


@linux
@pytest.mark.host
def test_a_folder_that_is_put_in_the_place_of_another_is_not_read(temporary: Path) -> None:
    with drivers._icd_folder(FILES) as folder:
        (made,) = temporary.iterdir()
        made.rename(temporary / "moved")
        _plant(made, {"a.icd": "evil.so", "c.icd": "evil.so"})
        assert _shown(folder) == WRITTEN
    assert _shown(str(made)) == {"a.icd": "evil.so", "c.icd": "evil.so"}  # nothing else is removed either
    assert not list((temporary / "moved").iterdir())


@linux
@pytest.mark.host
@pytest.mark.parametrize("how", ["full", "linked", "another user's", "writable"])
def test_a_folder_that_is_replaced_at_once_is_not_used(
    temporary: Path, vendors: Path, monkeypatch: pytest.MonkeyPatch, how: str
) -> None:
    make = tempfile.mkdtemp

    def replaced(prefix: str, dir: Path | None = None) -> str:
        made = Path(make(prefix=prefix, dir=dir))
        if dir is None:
            made.rename(temporary / "moved")
            if how == "linked":
                made.symlink_to(_plant(temporary / "planted", {}))
            else:
                _plant(made, {"c.icd": "evil.so"} if how == "full" else {})
                if how == "writable":  # an empty folder of this user's that was elsewhere
                    made.chmod(0o777)
            if how == "another user's":
                try:
                    os.chown(made, 54321, -1)
                except OSError as error:
                    pytest.skip(f"this user cannot give a folder to another user ({error.strerror})")
        return str(made)

    monkeypatch.setattr(drivers.tempfile, "mkdtemp", replaced)
    with drivers._icd_folder(FILES) as folder:
        assert _shown(folder) == WRITTEN
        (made,) = (vendors / "cache").iterdir()
        assert stat.S_IMODE(made.stat().st_mode) == 0o700
    assert not list((vendors / "cache").iterdir())


@linux
@pytest.mark.host
def test_where_no_folder_can_be_made_the_systems_drivers_are_seen(
    temporary: Path, vendors: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(tempfile, "tempdir", str(vendors / "gone"))
    with drivers._icd_folder(FILES) as folder:
        assert _shown(folder) == WRITTEN and len(list((vendors / "cache").iterdir())) == 1
    (vendors / "file").write_text("")
    monkeypatch.setenv("PYDP_CACHE_DIR", str(vendors / "file"))
    with drivers._icd_folder(FILES) as folder:
        assert folder is None
    (vendors / "vendors" / "a.icd").write_text("liba.so.1\n")
    for name in drivers.LOADER_VARIABLES:
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setattr(drivers, "_enumerate", lambda: [os.environ.get("OCL_ICD_VENDORS", "none")])
    assert drivers._query() == ["none"]
    assert caplog.text.count("only the drivers that the system lists are used") == 1


@linux
@pytest.mark.host
def test_a_full_disk_for_temporary_files(temporary: Path, vendors: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    fdopen, failed = os.fdopen, []

    def full(handle: int, mode: str) -> object:
        if not failed:
            failed.append(handle)
            os.close(handle)
            raise OSError(28, "No space left on device")
        return fdopen(handle, mode)

    monkeypatch.setattr(drivers.os, "fdopen", full)
    with drivers._icd_folder(FILES) as folder:
        assert _shown(folder) == WRITTEN and not list(temporary.iterdir())


@linux
def test_damaged_folders_of_drivers_hide_no_device(device: Device, tmp_path: Path) -> None:
    """The cache of an earlier version, with an .icd file that a full disk has cut off."""
    if drivers.loader_variable() is not None:
        pytest.skip("OCL_ICD_VENDORS or the like is set: pydp shows the loader nothing")
    files = drivers.vendor_files()
    _plant(_former_folder(tmp_path, files), dict.fromkeys(files, ""))
    environment = {**os.environ, "PYDP_CACHE_DIR": str(tmp_path)}
    code = "from pydp.runtime.drivers.devices import all_devices; print(*(one.uid for one in all_devices()))"
    command = [sys.executable, "-c", code]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=True)
    assert device.uid in done.stdout.split()


@pytest.mark.host
@pytest.mark.parametrize("variable", ["OCL_ICD_VENDORS", "OPENCL_VENDOR_PATH", "OCL_ICD_FILENAMES"])
def test_the_users_choice_is_left_alone(variable: str, vendors: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    seen: list[str | None] = []
    monkeypatch.setattr(drivers, "_enumerate", lambda: seen.append(os.environ.get("OCL_ICD_VENDORS")) or [])
    (vendors / "vendors" / "a.icd").write_text("liba.so.1\n")
    for name in drivers.LOADER_VARIABLES:
        monkeypatch.delenv(name, raising=False)
    drivers._query()
    assert seen[0] is not None
    assert "OCL_ICD_VENDORS" not in os.environ  # the loader has looked; nobody else is to be steered
    monkeypatch.setenv(variable, "/somewhere")
    assert drivers.loader_variable() == variable
    drivers._query()
    assert seen[1] == os.environ.get("OCL_ICD_VENDORS")


@linux
@pytest.mark.host
def test_threads_of_pocl_are_bound_where_each_has_a_processor(vendors: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    allowed = {0, 1, 2, 3}
    seen: list[str | None] = []
    monkeypatch.setattr(drivers, "_enumerate", lambda: seen.append(os.environ.get("POCL_AFFINITY")) or [])
    monkeypatch.setattr(os, "cpu_count", lambda: 4)
    monkeypatch.setattr(os, "sched_getaffinity", lambda pid: allowed)
    for name in ("POCL_AFFINITY", *drivers._POCL_THREADS):
        monkeypatch.delenv(name, raising=False)

    def given() -> str | None:
        drivers._query()
        return seen[-1]

    assert given() == "1"
    assert "POCL_AFFINITY" not in os.environ  # child processes may have another affinity mask
    for mask in ({0, 1}, {4, 5, 6, 7}):
        allowed = mask
        assert given() is None
    allowed = {0, 1, 2, 3}
    for name in drivers._POCL_THREADS:
        with monkeypatch.context() as limited:
            limited.setenv(name, "2")
            assert given() is None
    monkeypatch.setenv("POCL_AFFINITY", "0")
    assert given() == "0" and os.environ["POCL_AFFINITY"] == "0"


@linux
def test_each_thread_of_pocl_has_its_processor(device: Device) -> None:
    """In a new process: the threads that the driver starts, by the processors that they may use."""
    if device.driver != "pocl" or os.sched_getaffinity(0) != set(range(os.cpu_count() or 0)):
        pytest.skip("the device is not of PoCL, or the process may not use every processor")
    code = (
        "import os; from pydp.runtime.drivers.devices import all_devices; all_devices()\n"
        "masks = [os.sched_getaffinity(int(one)) for one in os.listdir('/proc/self/task')]\n"
        "print(sorted(place for mask in masks if len(mask) == 1 for place in mask))"
    )
    environment = {
        key: value for key, value in os.environ.items() if key not in ("POCL_AFFINITY", *drivers._POCL_THREADS)
    }
    command = [sys.executable, "-c", code]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=True)
    found = ast.literal_eval(done.stdout)
    assert all(found.count(place) >= 1 for place in range(os.cpu_count() or 0)), found


@pytest.mark.host
def test_importing_touches_neither_driver_nor_disk(tmp_path: Path) -> None:
    code = (
        "import sys, pydp\n"
        "assert 'numpy' not in sys.modules, 'numpy was imported'\n"
        "pydp.Device, pydp.InvalidArgument\n"
        "assert 'pyopencl' not in sys.modules and 'mako' not in sys.modules, 'a driver was'\n"
    )
    environment = {**os.environ, "PYDP_CACHE_DIR": str(tmp_path / "cache")}
    done = subprocess.run([sys.executable, "-c", code], env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert not (tmp_path / "cache").exists()


def test_devices_lists_each_with_its_state(device: Device, monkeypatch: pytest.MonkeyPatch) -> None:
    result = CliRunner().invoke(main, ["devices", "--json"])
    assert result.exit_code == 0, result.output
    listed = json.loads(result.output)
    assert [one["uid"] for one in listed] == [one.uid for one in all_devices()]
    assert all(one["reason"] is None for one in listed if one["uid"] == device.uid)
    monkeypatch.setenv("COLUMNS", "250")
    shown = CliRunner().invoke(main, ["devices", "--verbose"]).output
    assert device.driver_version in shown and "usable" in shown and "compute_units" in shown
    monkeypatch.setenv("COLUMNS", "80")
    narrow = CliRunner().invoke(main, ["devices"]).output
    assert "usable" in narrow and "…" not in narrow, narrow
    folded = "".join(line.split("│")[2].strip() for line in narrow.splitlines() if line.count("│") > 2)
    assert device.name.replace(" ", "") in folded.replace(" ", "")


def test_the_doctor_finds_the_drivers_and_what_is_wrong(device: Device, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(diagnosis.probe, "ask_again", lambda one: None if one is device else "made to fail")
    result = CliRunner().invoke(main, ["doctor"])
    assert result.exit_code == 0, result.output
    assert f"usable: {device.name}" in result.output and f"): {device.name} on {device.platform}" in result.output
    assert "ICD loader" in result.output
    assert ("made to fail" in result.output) == (len(all_devices()) > 1)
    monkeypatch.setattr(diagnosis.probe, "ask_again", lambda one: "made to fail")
    broken = CliRunner().invoke(main, ["doctor"])
    assert broken.exit_code == 1
    assert f"not used: {device.name}" in broken.output


@pytest.mark.parametrize("variable", ["PYDP_DEVICE", "PYOPENCL_CTX"])
def test_the_doctor_fails_where_the_default_device_is_none(
    device: Device, variable: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Every call that names no device fails then."""
    monkeypatch.setattr(diagnosis.probe, "ask_again", lambda one: None if one is device else "made to fail")
    for name in ("PYDP_DEVICE", "PYOPENCL_CTX"):
        monkeypatch.delenv(name, raising=False)
    for word in ("no-such-device", "97"):
        monkeypatch.setenv(variable, word)
        monkeypatch.setattr(pydp_device, "_defaults", BoundedCache(4))
        result = CliRunner().invoke(main, ["doctor"])
        assert result.exit_code == 1, result.output
        (line,) = [line for line in result.output.splitlines() if line.startswith("fail")]
        assert f"the default device ({variable}={word}) cannot be used: " in line and device.name in line
        assert f"usable: {device.name}" in result.output
    monkeypatch.setenv(variable, device.driver if variable == "PYDP_DEVICE" else device.platform)
    monkeypatch.setattr(pydp_device, "_defaults", BoundedCache(4))
    result = CliRunner().invoke(main, ["doctor"])
    assert result.exit_code == 0, result.output
    assert f"default device ({variable}={os.environ[variable]}): {device.name}" in result.output


def test_the_doctor_fails_where_the_named_device_cannot_be_used(
    device: Device, monkeypatch: pytest.MonkeyPatch
) -> None:
    others = [one for one in all_devices() if one.driver != device.driver]
    if not others:
        pytest.skip("one driver is all that is there")
    monkeypatch.setattr(diagnosis.probe, "ask_again", lambda one: "made to fail" if one is device else None)
    monkeypatch.setenv("PYDP_DEVICE", device.driver)
    result = CliRunner().invoke(main, ["doctor"])
    assert result.exit_code == 1, result.output
    assert f"the default device (PYDP_DEVICE={device.driver}) cannot be used: made to fail" in result.output


@pytest.mark.host
def test_pyopencl_goes_without_a_cache_where_it_cannot_have_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def unknown(*_: object) -> str:
        raise RuntimeError("could not determine the home directory")

    (tmp_path / "file").write_text("")
    for folder, goes in ((tmp_path / "folder", False), (tmp_path / "file" / "folder", True), (None, True)):
        cl = SimpleNamespace(_PYOPENCL_NO_CACHE=False)
        place = unknown if folder is None else lambda *_, folder=folder: str(folder)
        monkeypatch.setattr("platformdirs.user_cache_dir", place)
        drivers._without_files(cl)
        assert cl._PYOPENCL_NO_CACHE is goes


def test_an_error_of_pydps_is_one_line_of_the_command(device: Device, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*_: object) -> None:
        raise NoUsableDevice("there is none")

    monkeypatch.setattr("pydp.runtime.drivers.devices.all_devices", fail)
    result = CliRunner().invoke(main, ["devices"])
    assert result.exit_code == 1
    assert result.output.strip() == "Error: there is none"


@pytest.mark.host
def test_the_help_names_every_command() -> None:
    result = CliRunner().invoke(main, ["--help"])
    assert result.exit_code == 0
    for name in ("devices", "doctor", "run", "explain", "demo", "bench"):
        assert name in result.output
    assert CliRunner().invoke(main, ["nothing"]).exit_code == 2
