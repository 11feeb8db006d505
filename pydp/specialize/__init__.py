"""Which specialization runs: the model of a device, choices, the tuner, and the stores of what was measured."""
