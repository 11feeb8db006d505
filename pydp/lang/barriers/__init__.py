"""Barriers of vector functions (SPEC S4): uniformity, widths, checks, lowerings."""
