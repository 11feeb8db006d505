"""The examples in the docstrings run, and give the results that they show."""

from __future__ import annotations

import doctest
import importlib
import pkgutil

import numpy as np
import pytest

import pydp

NAMES = sorted(info.name for info in pkgutil.walk_packages(pydp.__path__, "pydp."))
MODULES = [name for name in NAMES if not name.endswith("__main__")]


def examples(name):
    """The docstrings of a module that have an example, with the names that a user has imported."""
    names = {"np": np, "pydp": pydp}
    found = doctest.DocTestFinder().find(importlib.import_module(name), extraglobs=names)
    return [test for test in found if test.examples]


@pytest.mark.sweep
@pytest.mark.parametrize("name", MODULES)
def test_examples(device, name):
    runner = doctest.DocTestRunner(verbose=False, optionflags=doctest.NORMALIZE_WHITESPACE)
    said: list[str] = []
    for test in examples(name):
        runner.run(test, out=said.append)
    assert not runner.failures, "".join(said)


def test_public_functions_have_an_example():
    """The docstring of every function that computes has an example."""
    computing = (
        "forall",
        "reduce",
        "scan",
        "sort",
        "argsort",
        "sort_by_key",
        "matmul",
        "transpose",
        "histogram",
        "tile",
    )
    for name in computing:
        assert ">>>" in (getattr(pydp, name).__doc__ or ""), name
