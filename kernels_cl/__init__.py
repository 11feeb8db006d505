"""The OpenCL templates of pydp (package data)."""
