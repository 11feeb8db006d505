"""CUDA's driver, through CuPy, cuda-python, or its own library: load PTX, allocate, copy, launch.

All three share the primary context of the first GPU, so PyTorch and CuPy work in the same process.
"""

from __future__ import annotations

import contextlib
import ctypes
import importlib
import importlib.metadata
from abc import ABC, abstractmethod
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


_ERROR_LOG_BUFFER, _ERROR_LOG_BUFFER_SIZE_BYTES = 5, 6  # values of the enum CUjit_option
_LOG_BYTES = 8192


def _compiler_log(image: bytes) -> str:
    """Load a refused PTX text again, in the current context, for what the driver's compiler says about it; "" if the
    library cannot be called. CuPy gives no such log."""
    text = ctypes.create_string_buffer(_LOG_BYTES)
    options = (ctypes.c_int * 2)(_ERROR_LOG_BUFFER, _ERROR_LOG_BUFFER_SIZE_BYTES)
    values = (ctypes.c_void_p * 2)(ctypes.addressof(text), _LOG_BYTES)  # the size itself, not its address
    module = ctypes.c_void_p()
    with contextlib.suppress(Exception):
        library = cuda_library()
        if not library.cuModuleLoadDataEx(ctypes.byref(module), ctypes.c_char_p(image), 2, options, values):
            library.cuModuleUnload(module)
    return text.value.decode(errors="replace").strip()


def parameters(values: Sequence[Value]) -> tuple[Any, Any]:
    """(an array of pointers to the arguments, the memory that they point to)."""
    held = [
        ctypes.c_uint64(one) if isinstance(one, int) else (ctypes.c_char * len(one)).from_buffer_copy(one)
        for one in values
    ]
    pointers = (ctypes.c_void_p * max(1, len(held)))(*(ctypes.addressof(one) for one in held))
    return pointers, held


class Driver(ABC):
    """The first GPU. title: the library. capability: 90 for compute capability 9.0. version: of CUDA, as 12.4.

    Addresses are integers. Subclasses make each call of the driver.
    """

    title = ""
    name = ""
    capability = 0
    version = ""

    def function(self, image: bytes, name: str) -> Any:
        """A kernel of a PTX text. Raises CudaFailed, with what the driver's compiler says."""
        try:
            return self._function(image + b"\0", name)
        except Exception as error:  # each library has errors of its own
            raise CudaFailed(f"{error}\n{_compiler_log(image)}".rstrip()) from error

    @abstractmethod
    def _function(self, image: bytes, name: str) -> Any:
        """A kernel of a PTX text that ends with a zero byte."""

    @abstractmethod
    def allocate(self, size: int) -> int:
        """The address of new memory."""

    @abstractmethod
    def free(self, address: int) -> None:
        """Release memory."""

    @abstractmethod
    def upload(self, address: int, values: np.ndarray) -> None:
        """Copy a contiguous array to the GPU."""

    @abstractmethod
    def download(self, address: int, values: np.ndarray) -> None:
        """Copy from the GPU into a contiguous array."""

    @abstractmethod
    def clear(self, address: int, size: int) -> None:
        """Fill memory with zeros."""

    @abstractmethod
    def launch(self, function: Any, grid: tuple[int, ...], group: tuple[int, ...], values: Sequence[Value]) -> None:
        """Launch a kernel on the default stream."""

    @abstractmethod
    def wait(self) -> None:
        """Wait until the GPU is idle."""


class Cupy(Driver):
    """Through CuPy."""

    def __init__(self) -> None:
        cupy = importlib.import_module("cupy")
        if getattr(cupy.cuda.runtime, "is_hip", False):
            raise NoUsableDevice("this CuPy is built for ROCm; PTX needs NVIDIA's driver")
        self._runtime, self._driver = cupy.cuda.runtime, cupy.cuda.driver
        properties = self._runtime.getDeviceProperties(0)
        self._runtime.free(0)  # makes the context
        name = properties["name"]
        self.name = name.decode() if isinstance(name, bytes) else str(name)
        self.title = f"CuPy {cupy.__version__}"
        self.capability = 10 * int(properties["major"]) + int(properties["minor"])
        self.version = _version(self._runtime.driverGetVersion())
        self._modules: list[int] = []

    def _function(self, image: bytes, name: str) -> Any:
        self._modules.append(self._driver.moduleLoadData(image))
        return self._driver.moduleGetFunction(self._modules[-1], name)

    def allocate(self, size: int) -> int:
        return int(self._runtime.malloc(size))

    def free(self, address: int) -> None:
        self._runtime.free(address)

    def upload(self, address: int, values: np.ndarray) -> None:
        self._runtime.memcpy(address, values.ctypes.data, values.nbytes, 1)

    def download(self, address: int, values: np.ndarray) -> None:
        self._runtime.memcpy(values.ctypes.data, address, values.nbytes, 2)

    def clear(self, address: int, size: int) -> None:
        self._runtime.memset(address, 0, size)

    def launch(self, function: Any, grid: tuple[int, ...], group: tuple[int, ...], values: Sequence[Value]) -> None:
        pointers, _held = parameters(values)
        self._driver.launchKernel(function, *grid, *group, 0, 0, ctypes.addressof(pointers), 0)

    def wait(self) -> None:
        self._runtime.deviceSynchronize()


class _Called(Driver):
    """Through functions with the names and arguments of the driver's C interface."""

    @abstractmethod
    def _call(self, name: str, *args: Any) -> Any:
        """The result of a function of the driver, without its status. Raises CudaFailed."""

    @abstractmethod
    def _status(self, status: Any) -> str:
        """CUDA's name of a status."""

    def _failed(self, name: str, status: Any) -> CudaFailed:
        try:
            text = self._status(status)
        except Exception:  # a driver without cuGetErrorName, or a number that it does not know
            text = ""
        return CudaFailed(f"{name} failed: {text or 'an unknown status'} ({int(status)})")

    def _begin(self) -> None:
        self._call("cuInit", 0)
        device = self._call("cuDeviceGet", 0)
        context = self._call("cuDevicePrimaryCtxRetain", device)
        self._call("cuCtxSetCurrent", context)
        self.version = _version(int(self._call("cuDriverGetVersion")))
        self.name = self._name(device)
        self.capability = self._capability(device)

    @abstractmethod
    def _name(self, device: Any) -> str:
        """The name of a device."""

    @abstractmethod
    def _capability(self, device: Any) -> int:
        """The compute capability of a device, as in `Driver`."""

    def _function(self, image: bytes, name: str) -> Any:
        module = self._call("cuModuleLoadData", image)
        return self._call("cuModuleGetFunction", module, name.encode())

    def allocate(self, size: int) -> int:
        return int(self._call("cuMemAlloc", size))

    def free(self, address: int) -> None:
        self._call("cuMemFree", address)

    def upload(self, address: int, values: np.ndarray) -> None:
        self._call("cuMemcpyHtoD", address, values.ctypes.data, values.nbytes)

    def download(self, address: int, values: np.ndarray) -> None:
        self._call("cuMemcpyDtoH", values.ctypes.data, address, values.nbytes)

    def clear(self, address: int, size: int) -> None:
        self._call("cuMemsetD8", address, 0, size)

    def launch(self, function: Any, grid: tuple[int, ...], group: tuple[int, ...], values: Sequence[Value]) -> None:
        pointers, _held = parameters(values)
        self._call("cuLaunchKernel", function, *grid, *group, 0, 0, ctypes.addressof(pointers), 0)

    def wait(self) -> None:
        self._call("cuCtxSynchronize")


class CudaPython(_Called):
    """Through cuda-python."""

    def __init__(self) -> None:
        try:
            self._bindings = importlib.import_module("cuda.bindings.driver")
        except ImportError:
            self._bindings = importlib.import_module("cuda.cuda")  # releases before 12.6
        self.title = f"cuda-python {_installed('cuda-bindings', 'cuda-python')}"
        self._begin()

    def _call(self, name: str, *args: Any) -> Any:
        status, *found = getattr(self._bindings, name)(*args)
        if int(status):
            raise self._failed(name, status)
        return found[0] if found else None

    def _status(self, status: Any) -> str:
        return str(bytes(self._bindings.cuGetErrorName(status)[1]).decode())

    def _name(self, device: Any) -> str:
        return bytes(self._call("cuDeviceGetName", 100, device)).split(b"\0")[0].decode()

    def _capability(self, device: Any) -> int:
        kinds = self._bindings.CUdevice_attribute
        major = self._call("cuDeviceGetAttribute", kinds.CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR, device)
        minor = self._call("cuDeviceGetAttribute", kinds.CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR, device)
        return 10 * int(major) + int(minor)


# The functions of the driver's library that return a value through their first argument, with its type.
_RESULTS: dict[str, Any] = {
    "cuDeviceGet": ctypes.c_int, "cuDevicePrimaryCtxRetain": ctypes.c_void_p, "cuDriverGetVersion": ctypes.c_int,
    "cuModuleLoadData": ctypes.c_void_p, "cuModuleGetFunction": ctypes.c_void_p, "cuMemAlloc": ctypes.c_uint64,
    "cuDeviceGetAttribute": ctypes.c_int,
}  # fmt: skip
_SECOND = {"cuMemAlloc", "cuMemFree", "cuMemcpyHtoD", "cuMemcpyDtoH", "cuMemsetD8"}  # their current version is _v2
_SIZES: dict[str, list[Any]] = {  # types of arguments that are wider than C's int
    "cuDevicePrimaryCtxRetain": [ctypes.c_int], "cuCtxSetCurrent": [ctypes.c_void_p],
    "cuModuleLoadData": [ctypes.c_char_p], "cuModuleGetFunction": [ctypes.c_void_p, ctypes.c_char_p],
    "cuMemAlloc": [ctypes.c_size_t], "cuMemFree": [ctypes.c_uint64],
    "cuMemcpyHtoD": [ctypes.c_uint64, ctypes.c_void_p, ctypes.c_size_t],
    "cuMemcpyDtoH": [ctypes.c_void_p, ctypes.c_uint64, ctypes.c_size_t],
    "cuMemsetD8": [ctypes.c_uint64, ctypes.c_ubyte, ctypes.c_size_t],
    "cuLaunchKernel": [ctypes.c_void_p, *[ctypes.c_uint] * 7, *[ctypes.c_void_p] * 3],
}  # fmt: skip
_MAJOR, _MINOR = 75, 76  # CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR, _MINOR


class Library(_Called):
    """Through the driver's own library, if neither CuPy nor cuda-python is installed."""

    def __init__(self, library: Any = None) -> None:
        self._library = library if library is not None else cuda_library()
        self.title = "the driver's library"
        self._begin()

    def _call(self, name: str, *args: Any) -> Any:
        function = getattr(self._library, f"{name}_v2" if name in _SECOND else name)
        types = _SIZES.get(name)
        given = [kind(one) for kind, one in zip(types, args, strict=True)] if types else list(args)
        made = _RESULTS[name]() if name in _RESULTS else None
        status = function(ctypes.byref(made), *given) if made is not None else function(*given)
        if status:
            raise self._failed(name, status)
        return made.value if made is not None else None

    def _status(self, status: int) -> str:
        text = ctypes.c_char_p()
        self._library.cuGetErrorName(status, ctypes.byref(text))
        return (text.value or b"").decode()

    def _name(self, device: Any) -> str:
        text = ctypes.create_string_buffer(100)
        self._call("cuDeviceGetName", text, 100, device)
        return text.value.decode()

    def _capability(self, device: Any) -> int:
        major, minor = (self._call("cuDeviceGetAttribute", which, device) for which in (_MAJOR, _MINOR))
        return 10 * int(major) + int(minor)


def driver() -> Driver:
    """The first GPU, through the first library that works. Raises NoUsableDevice with the reason of each."""
    reasons = []
    for kind in (Cupy, CudaPython, Library):
        try:
            return kind()
        except Exception as error:  # a library that is missing, or that finds no GPU
            reasons.append(f"{kind.__name__}: {type(error).__name__}: {error}".splitlines()[0])
    raise NoUsableDevice(f"no GPU can be used through CUDA ({'; '.join(reasons)}); NVIDIA's driver is needed")


def _installed(*names: str) -> str:
    """The version of the first of some packages that is installed."""
    for name in names:
        with contextlib.suppress(importlib.metadata.PackageNotFoundError):
            return importlib.metadata.version(name)
    return "of unknown version"


def _version(number: int) -> str:
    return f"{number // 1000}.{number % 1000 // 10}"
