"""Executors of the intermediate form: with NumPy on the host, in checked mode, and with symbolic values."""
