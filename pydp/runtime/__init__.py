"""Drivers, devices, kernels made from templates, and data on a device."""
