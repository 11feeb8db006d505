"""Strided arrays on a device: kernel operands, copies, conversions, arithmetic and comparisons."""
