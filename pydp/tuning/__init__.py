"""Measured specializations: the tuner, the store, and the choice between measured and modelled."""
