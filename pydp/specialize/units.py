"""Figures with their units, as texts."""

from __future__ import annotations


def seconds_text(seconds: float) -> str:
    """Seconds in a readable unit.

    >>> seconds_text(0.00123)
    '1.23 ms'
    """
    for unit, scale in (("s", 1.0), ("ms", 1e-3), ("us", 1e-6)):
        if seconds >= scale:
            return f"{seconds / scale:.3g} {unit}"
    return f"{seconds / 1e-9:.3g} ns"
