"""Barriers of vector functions (SPEC S4): uniformity, inference and checks of their widths, and their lowerings."""
