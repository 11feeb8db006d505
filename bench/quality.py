"""Quality of a model: the rank correlation of predicted and measured times."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np


def ranks(values: Sequence[float]) -> np.ndarray:
    """Ranks from 1; equal values get their average rank.

    >>> ranks([30.0, 10.0, 30.0]).tolist()
    [2.5, 1.0, 2.5]
    """
    given = np.asarray(values, np.float64)
    _, inverse, counts = np.unique(given, return_inverse=True, return_counts=True)
    last = np.cumsum(counts)
    return (last - (counts - 1) / 2.0)[inverse]


def spearman(predicted: Sequence[float], measured: Sequence[float]) -> float:
    """Spearman's rank correlation, ties averaged; nan if one side has fewer than two different values."""
    x, y = ranks(predicted), ranks(measured)
    x, y = x - x.mean(), y - y.mean()
    norm = float(np.sqrt((x @ x) * (y @ y)))
    return float(x @ y) / norm if norm else float("nan")
