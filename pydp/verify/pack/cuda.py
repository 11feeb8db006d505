"""CUDA's driver through its C library: load PTX, allocate, copy, launch.

It uses the primary context of the first GPU, so PyTorch and CuPy work in the same process.
"""

from __future__ import annotations

import contextlib
import ctypes
from collections.abc import Sequence
from typing import Any

import numpy as np

from pydp.errors import NoUsableDevice, PydpError

Value = int | bytes
"""A kernel argument: the address of a buffer, or the bytes of a number or record."""


def cuda_library() -> Any:
    """The library of CUDA's driver. Raises OSError if it cannot be loaded."""
    names = ("libcuda.so.1", "nvcuda.dll")
    for name in names:
        with contextlib.suppress(OSError):
            return ctypes.CDLL(name)
    raise OSError(f"{' and '.join(names)} cannot be loaded")


class CudaFailed(PydpError):
    """A call of CUDA failed; the message has the name of the function and CUDA's status."""


# The functions of the driver's library that return a value through their first argument, with its type.
_RESULTS: dict[str, Any] = {
    "cuDeviceGet": ctypes.c_int, "cuDevicePrimaryCtxRetain": ctypes.c_void_p, "cuDriverGetVersion": ctypes.c_int,
    "cuModuleLoadDataEx": ctypes.c_void_p, "cuModuleGetFunction": ctypes.c_void_p, "cuMemAlloc": ctypes.c_uint64,
    "cuDeviceGetAttribute": ctypes.c_int,
}  # fmt: skip
_SECOND = {"cuMemAlloc", "cuMemFree", "cuMemcpyHtoD", "cuMemcpyDtoH", "cuMemsetD8"}  # their current version is _v2
_SIZES: dict[str, list[Any]] = {  # types of arguments that are wider than C's int
    "cuDevicePrimaryCtxRetain": [ctypes.c_int], "cuCtxSetCurrent": [ctypes.c_void_p],
    "cuModuleLoadDataEx": [ctypes.c_char_p, ctypes.c_uint, *[ctypes.c_void_p] * 2],
    "cuModuleGetFunction": [ctypes.c_void_p, ctypes.c_char_p],
    "cuMemAlloc": [ctypes.c_size_t], "cuMemFree": [ctypes.c_uint64],
    "cuMemcpyHtoD": [ctypes.c_uint64, ctypes.c_void_p, ctypes.c_size_t],
    "cuMemcpyDtoH": [ctypes.c_void_p, ctypes.c_uint64, ctypes.c_size_t],
    "cuMemsetD8": [ctypes.c_uint64, ctypes.c_ubyte, ctypes.c_size_t],
    "cuLaunchKernel": [ctypes.c_void_p, *[ctypes.c_uint] * 7, *[ctypes.c_void_p] * 3],
}  # fmt: skip
_MAJOR, _MINOR = 75, 76  # CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR, _MINOR
_ERROR_LOG_BUFFER, _ERROR_LOG_BUFFER_SIZE_BYTES = 5, 6  # values of the enum CUjit_option
_LOG_BYTES = 8192


class Driver:
    """The first GPU. capability: 90 for compute capability 9.0. version: of CUDA, as 12.4. Addresses are integers."""

    def __init__(self, library: Any = None) -> None:
        """library: in place of the driver's. Raises NoUsableDevice."""
        try:
            self._library = library if library is not None else cuda_library()
            self._call("cuInit", 0)
            device = self._call("cuDeviceGet", 0)
            self._call("cuCtxSetCurrent", self._call("cuDevicePrimaryCtxRetain", device))
            text = ctypes.create_string_buffer(100)
            self._call("cuDeviceGetName", text, 100, device)
            version = self._call("cuDriverGetVersion")
            major, minor = (self._call("cuDeviceGetAttribute", which, device) for which in (_MAJOR, _MINOR))
        except Exception as error:  # a library that is missing or too old, or that finds no GPU
            raise NoUsableDevice(
                f"no GPU can be used through CUDA ({type(error).__name__}: {error}); NVIDIA's driver is needed"
            ) from error
        self.name = text.value.decode()
        self.capability = 10 * major + minor
        self.version = f"{version // 1000}.{version % 1000 // 10}"

    def _call(self, name: str, *args: Any) -> Any:
        """The result of a function of the driver. Raises CudaFailed."""
        function = getattr(self._library, f"{name}_v2" if name in _SECOND else name)
        types = _SIZES.get(name)
        given = [kind(one) for kind, one in zip(types, args, strict=True)] if types else list(args)
        made = _RESULTS[name]() if name in _RESULTS else None
        status = function(ctypes.byref(made), *given) if made is not None else function(*given)
        if status:
            raise CudaFailed(f"{name} failed: {self._status(status) or 'an unknown status'} ({status})")
        return made.value if made is not None else None

    def _status(self, status: int) -> str:
        """CUDA's name of a status; "" for a driver without cuGetErrorName, or for a number that it does not know."""
        text = ctypes.c_char_p()
        with contextlib.suppress(Exception):
            self._library.cuGetErrorName(status, ctypes.byref(text))
        return (text.value or b"").decode()

    def function(self, image: bytes, name: str) -> Any:
        """A kernel of a PTX text. Raises CudaFailed, with what the driver's compiler says."""
        text = ctypes.create_string_buffer(_LOG_BYTES)
        options = (ctypes.c_int * 2)(_ERROR_LOG_BUFFER, _ERROR_LOG_BUFFER_SIZE_BYTES)
        values = (ctypes.c_void_p * 2)(ctypes.addressof(text), _LOG_BYTES)  # the size itself, not its address
        addresses = ctypes.addressof(options), ctypes.addressof(values)
        try:
            module = self._call("cuModuleLoadDataEx", image, 2, *addresses)
        except CudaFailed as error:
            raise CudaFailed(f"{error}\n{text.value.decode(errors='replace').strip()}".rstrip()) from error
        return self._call("cuModuleGetFunction", module, name.encode())

    def allocate(self, size: int) -> int:
        """The address of new memory."""
        return int(self._call("cuMemAlloc", size))

    def free(self, address: int) -> None:
        """Release memory."""
        self._call("cuMemFree", address)

    def upload(self, address: int, values: np.ndarray) -> None:
        """Copy a contiguous array to the GPU."""
        self._call("cuMemcpyHtoD", address, values.ctypes.data, values.nbytes)

    def download(self, address: int, values: np.ndarray) -> None:
        """Copy from the GPU into a contiguous array."""
        self._call("cuMemcpyDtoH", values.ctypes.data, address, values.nbytes)

    def clear(self, address: int, size: int) -> None:
        """Fill memory with zeros."""
        self._call("cuMemsetD8", address, 0, size)

    def launch(self, function: Any, grid: tuple[int, ...], group: tuple[int, ...], values: Sequence[Value]) -> None:
        """Launch a kernel on the default stream."""
        held = [
            ctypes.c_uint64(one) if isinstance(one, int) else (ctypes.c_char * len(one)).from_buffer_copy(one)
            for one in values
        ]
        pointers = (ctypes.c_void_p * max(1, len(held)))(*(ctypes.addressof(one) for one in held))
        self._call("cuLaunchKernel", function, *grid, *group, 0, 0, ctypes.addressof(pointers), 0)

    def wait(self) -> None:
        """Wait until the GPU is idle."""
        self._call("cuCtxSynchronize")
