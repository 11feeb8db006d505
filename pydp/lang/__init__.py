"""Vector functions: from Python to a typed form, its checks, and from there to OpenCL C or to NumPy."""
