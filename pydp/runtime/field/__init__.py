"""Fields: N-dimensional arrays on a device, their views and their transfers."""
