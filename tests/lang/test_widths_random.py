"""Inferred widths of barriers between random index patterns, compared with brute force."""

from __future__ import annotations

import interpreter
import numpy as np
import ordering
import pytest
from patterns import pattern

from pydp.lang.barriers import widths

pytestmark = pytest.mark.host


def random_patterns(seeds):
    for seed in seeds:
        open_ended = seed % 4 == 0
        made = pattern(seed, open_ended=open_ended)
        found = widths.infer(made)
        for value in (0, 1, 2, 5) if open_ended else (0,):
            log, barriers_reached = [], []
            interpreter.run(made, made.group, None, [np.zeros(64, np.int32)], {1: value}, seed, log, barriers_reached)
            needs = set(ordering.dependencies(log, made.group))
            met = ordering.widths_reached(barriers_reached, found)
            assert not ordering.violated(needs, met), seed
            if not open_ended:
                assert_narrowest(seed, needs, met, int(np.prod(made.group)))


def assert_narrowest(seed, needs, met, size):
    """No barrier can have the next narrower width while the others remain unchanged."""
    accepted = sorted({size, *(1 << k for k in range(8) if size % (1 << k) == 0)})
    for number, width in enumerate(met):
        if width > 1:
            narrower = list(met)
            narrower[number] = accepted[accepted.index(width) - 1]
            assert ordering.violated(needs, narrower), (seed, number)


@pytest.mark.parametrize("first", range(0, 2000, 250))
def test_two_thousand_random_index_patterns(first):
    """No inferred width is too narrow; if everything is known before the launch, none is too wide."""
    random_patterns(range(first, first + 250))
