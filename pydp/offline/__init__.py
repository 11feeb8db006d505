"""Targets that are not present: compile kernels for GPUs and read the compilers' reports."""
