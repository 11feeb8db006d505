"""Barriers inside a work-group: their widths, and the implementation of each on a device."""
