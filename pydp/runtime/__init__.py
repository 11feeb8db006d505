"""Drivers, devices, kernels built from templates, and arrays on a device."""
