"""Strided arrays on a device: operands of kernels, copies, conversions and arithmetic."""
