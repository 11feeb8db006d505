"""One device: its context and queue, its profile, and the known faults of its driver."""
