"""Targets that are not present: kernels compiled for GPUs, and what their compilers report."""
