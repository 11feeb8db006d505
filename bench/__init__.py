"""Benchmarks of pydp; run them by ``pydp bench``."""
