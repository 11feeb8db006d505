"""OpenCL C from the typed form: scalar code, and the mappings simt and vector."""
