"""Fields: N-dimensional arrays on a device, with views and transfers."""
