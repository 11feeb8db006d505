"""The Python source of vector functions: syntax trees, names, fingerprints."""
