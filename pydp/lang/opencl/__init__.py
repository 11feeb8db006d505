"""OpenCL C from the typed form: scalar code, and the registered lowerings of vector functions (`lowering.py`)."""

from pydp.lang.opencl import simt, vector  # both register themselves
from pydp.lang.opencl.lowering import Lowering, lowerings, register, registry_version, unregister

__all__ = ["Lowering", "lowerings", "register", "registry_version", "simt", "unregister", "vector"]
