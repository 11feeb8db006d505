"""Python source of vector functions: syntax trees, names, and fingerprints that identify a function's content."""
