"""One device as kernels see it: its context and queue, its profile, and the known faults of its driver."""
