"""Finding drivers and devices, and checking that they work."""
