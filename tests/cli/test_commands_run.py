"""The command ``pydp run``: files in, files out, and one sentence for what is wrong."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from click.testing import CliRunner

from pydp.cli import main

X = np.array([[3, 1, 2], [6, 5, 4]], np.int32)


@pytest.fixture(autouse=True)
def _files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    np.save("x.npy", X)
    np.savez("archive.npz", X)
    Path("archive.npy").write_bytes(Path("archive.npz").read_bytes())
    data = Path("x.npy").read_bytes()
    Path("header.npy").write_bytes(data.replace(b"'<i4'", b"'<i4("))
    Path("short.npy").write_bytes(data[:-5])


def _said(*words: str, code: int = 0) -> str:
    result = CliRunner().invoke(main, ["run", *words])
    assert result.exit_code == code, result.output
    assert not result.exception or isinstance(result.exception, SystemExit)
    return result.output


def test_files_in_and_out(device: Any) -> None:
    where = ["-d", device.driver]
    _said("scan", "x.npy", "-o", "y.npy", "op=max", "axis=0", *where)
    np.testing.assert_array_equal(np.load("y.npy"), np.maximum.accumulate(X, 0))
    for word, right in (("true", np.sort(X)[:, ::-1]), ("false", np.sort(X)), ("True", np.sort(X)[:, ::-1])):
        _said("sort", "x.npy", f"descending={word}", "-o", "y.npy", *where)
        np.testing.assert_array_equal(np.load("y.npy"), right)
    assert "21" in _said("reduce", "x.npy", "axis=none", *where)


def test_the_keys_of_lexsort_are_files(device: Any) -> None:
    where = ["-o", "y.npy", "-d", device.driver]
    first, second = np.array([3, 1, 2, 1], np.int32), np.array([1, 0, 1, 0], np.int32)
    np.save("first.npy", first)
    np.save("second.npy", second)
    for words, keys in (
        ("first.npy second.npy", (first, second)),
        ("second.npy first.npy second.npy", (second, first, second)),
        ("first.npy", (first,)),
        ("x.npy", X),
        ("x.npy x.npy axis=0", (X, X)),
    ):
        _said("lexsort", *words.split(), *where)
        axis = 0 if "axis" in words else -1
        np.testing.assert_array_equal(np.load("y.npy"), np.lexsort(keys, axis))


def test_infinity_is_a_number(device: Any) -> None:
    np.save("v.npy", np.array([3, -4], np.float32))
    assert "4." in _said("norm", "v.npy", "ord=inf", "-d", device.driver)
    assert "3." in _said("norm", "v.npy", "ord=-inf", "-d", device.driver)


def test_what_cannot_be_written(device: Any) -> None:
    said = _said("scan", "x.npy", "-o", "none/y.npy", "-d", device.driver, code=1)
    assert "none/y.npy cannot be written: No such file or directory" in said


def test_an_output_for_each_result(device: Any) -> None:
    where = ["bins=[0,3,6,9]", "-d", device.driver]
    said = _said("histogram", "x.npy", "-o", "y.npy", *where, code=2)
    assert "-o is given 1 time(s); histogram has 2 result(s)" in said
    _said("histogram", "x.npy", "-o", "y.npy", "-o", "edges.npy", *where)
    np.testing.assert_array_equal(np.load("y.npy"), np.histogram(X, [0, 3, 6, 9])[0])
    np.testing.assert_array_equal(np.load("edges.npy"), [0, 3, 6, 9])


@pytest.mark.host
@pytest.mark.parametrize(
    "words, code, said",
    [
        ("scan archive.npz", 1, "archive.npz is an archive of arrays"),
        ("scan archive.npy", 1, "archive.npy is an archive of arrays"),
        ("scan header.npy", 1, "header.npy cannot be read as a .npy file"),
        ("scan short.npy", 1, "short.npy cannot be read as a .npy file"),
        ("scan nothing.npy", 1, "nothing.npy cannot be read as a .npy file"),
        ("scan axis=1", 2, "no input is given"),
        ("scan x.npy =1", 2, "neither a file nor an option"),
    ],
)
def test_wrong_words(words: str, code: int, said: str) -> None:
    assert said in _said(*words.split(), code=code)
