"""Random numbers, the same on every device: `Generator` and `default_rng`, with NumPy's names.

>>> rng = pydp.random.default_rng(1)
>>> rng.normal(size=(2, 3)).shape, rng.integers(10, size=3).dtype
((2, 3), dtype('int64'))
"""

from __future__ import annotations

from pydp.random.generator import Generator, default_rng

__all__ = ["Generator", "default_rng"]
