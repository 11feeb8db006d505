"""The Python text of vector functions: syntax trees, names, fingerprints."""
