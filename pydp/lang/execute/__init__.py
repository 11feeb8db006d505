"""Running the typed form for many lanes: by NumPy, in checked mode, and with symbolic values."""
