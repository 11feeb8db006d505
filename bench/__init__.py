"""Benchmarks of pydp; run them with ``pydp bench``."""
