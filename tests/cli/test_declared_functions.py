"""Functions without specializations: explained with the launches of the call, and run by the commands."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from click.testing import CliRunner

import pydp
from pydp.algorithms.discovery import algorithms
from pydp.algorithms.registry import Algorithm
from pydp.cli import main
from pydp.runtime.call import Call

DECLARED = {name: one for name, one in algorithms().items() if not one.tunable}
NAMES = """
    adjacent_difference concatenate diff evaluate flip moveaxis pad put random.integers random.normal random.permutation
    random.random random.shuffle random.standard_normal random.uniform roll stack swapaxes take tile_array where
""".split()
ROWS = 12


def said(*words: str, code: int = 0) -> str:
    result = CliRunner().invoke(main, list(words))
    assert result.exit_code == code, result.output
    return result.output


def arguments(one: Algorithm) -> tuple[tuple[Any, ...], dict[str, Any]]:
    """Arguments of a call, with values that differ from one another; indexes are in range."""
    made = []
    for at, shape in enumerate(one.shapes((ROWS,)) or []):
        x = np.arange(ROWS).reshape(shape) * 5 % ROWS
        made.append(x.astype(one.own_dtypes.get(at, "float32")))
    options = dict(one.options)
    if one.name == "evaluate":
        options = {"expression": "2 * x", "x": np.arange(ROWS, dtype=np.float32)}
    elif one.name == "random.integers":
        options = {"low": 10, "size": 9}
    elif not one.operands:
        options = {"size": 9}
    return one.passed(made, options)


def test_all_are_declared() -> None:
    assert list(DECLARED) == NAMES


@pytest.mark.parametrize("name", NAMES)
def test_the_explanation_has_the_launches_of_the_call(device: Any, name: str, monkeypatch: Any) -> None:
    one = DECLARED[name]
    args, named = arguments(one)
    told = pydp.explain(one.function, *args, device=device, **named)
    (expected,) = one.reference(*args, **named)
    launched: list[str] = []
    launch = Call.launch

    def noted(self: Call, kernel: Any, *sizes_and_args: Any) -> Any:
        launched.append(kernel.source)
        return launch(self, kernel, *sizes_and_args)

    monkeypatch.setattr(Call, "launch", noted)
    found = one.function(*args, device=device, **named)
    if name != "put" or device.profile.mapping == "vector":
        assert sum(int(part.split(" x ")[0]) for part in told.facts["launches"].split(", ")) == len(launched)
    assert set(launched) == set(told.sources.values())
    assert told.choices and told.facts["device"] == device.name
    result = args[int(name.startswith("random"))] if found is None else found
    np.testing.assert_array_equal(result, expected.values)


def test_arrays_on_the_device_are_explained_without_their_values(device: Any) -> None:
    x = pydp.field(np.zeros((6, 4), np.float32), device=device)
    told = pydp.explain(pydp.concatenate, [x.T[::-1], x.T.read_only], 1)
    assert told.facts["result"] == "(4, 12) float32" and "2 x " in str(told.facts["launches"])
    with pytest.raises(pydp.InvalidArgument, match="a shares memory with v"):
        pydp.explain(pydp.put, x, np.array([0]), x)
    with pytest.raises(pydp.InvalidArgument, match="a is read-only"):
        pydp.explain(pydp.put, x.read_only, np.array([0]), 1)
    with pytest.raises(pydp.InvalidArgument, match="axis"):
        pydp.explain(pydp.flip, x, 2)
    with pytest.raises(pydp.InvalidArgument, match="wait_for is 3"):
        pydp.explain(pydp.flip, x, wait_for=3)
    generator = pydp.random.Generator(1)
    before = generator.state
    assert "random_fill" in str(pydp.explain(generator.normal, size=5, device=device)) and generator.state == before


def test_commands(device: Any, tmp_path: Path, monkeypatch: Any) -> None:
    monkeypatch.chdir(tmp_path)
    x, i = np.arange(8, dtype=np.float32), np.array([3, 1], np.int64)
    np.save("x.npy", x)
    np.save("i.npy", i)
    np.save("v.npy", -x[:2])
    where = ["-d", device.driver]
    changed = x.copy()
    changed[i] = -x[:2]
    for words, right in (
        ("roll x.npy shift=3", np.roll(x, 3)),
        ("concatenate x.npy x.npy v.npy", np.concatenate([x, x, -x[:2]])),
        ("put x.npy i.npy v.npy", changed),
        ("evaluate expression=2*x+y x=x.npy y=x.npy", 3 * x),
        ("random.integers low=7 size=5 seed=3", pydp.random.Generator(3).integers(7, size=5).get()),
        ("random.permutation x.npy seed=3", pydp.random.Generator(3).permutation(x)),
    ):
        said("run", *words.split(), "-o", "y.npy", *where)
        np.testing.assert_array_equal(np.load("y.npy"), right)
    for words, text in (
        ("take 100 20", "result    (20,) float32"),
        ("where 8x8 8x8 8x8", "(8, 8) float32"),
        ("stack 3x3 3x3 3x3", "(3, 3, 3) float32"),
        ("random.normal size=10", "random_fill"),
        ("evaluate expression=2*x x=x.npy", "evaluate on "),
    ):
        assert text in said("explain", *words.split(), *where)
    assert "random.normal does not take '100'; give size=N" in said("explain", "random.normal", "100", code=2)
    assert "evaluate takes expression=TEXT" in said("run", "evaluate", "x.npy", *where, code=1)
    assert "roll has nothing to tune: it has no specializations" in said("tune", "roll")
