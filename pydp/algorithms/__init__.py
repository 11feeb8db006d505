"""The public algorithms, a folder each; the operators of scan and reduce, the registry of algorithms, and explain."""
