"""How good a model is: rank correlation between predicted and measured times, and what its picks lose."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np


def ranks(values: Sequence[float]) -> np.ndarray:
    """Ranks from 1; equal values share the average of theirs.

    >>> ranks([30.0, 10.0, 30.0]).tolist()
    [2.5, 1.0, 2.5]
    """
    given = np.asarray(values, np.float64)
    _, inverse, counts = np.unique(given, return_inverse=True, return_counts=True)
    last = np.cumsum(counts)
    return (last - (counts - 1) / 2.0)[inverse]


def spearman(predicted: Sequence[float], measured: Sequence[float]) -> float:
    """Spearman's rank correlation, ties averaged; nan for fewer than two different values on a side."""
    x, y = ranks(predicted), ranks(measured)
    x, y = x - x.mean(), y - y.mean()
    norm = float(np.sqrt((x @ x) * (y @ y)))
    return float(x @ y) / norm if norm else float("nan")
