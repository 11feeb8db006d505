"""The exceptions that pydp raises.

Every message names the wrong value and the accepted ones. All classes derive from :class:`PydpError`, also the few that
other modules define, such as :class:`pydp.tuning.trial.WrongResult`. Some also derive from the matching built-in
exception, so ``except ValueError`` and ``except MemoryError`` work as in NumPy.
"""

from __future__ import annotations

import dataclasses
import re
import reprlib
from typing import Any

__all__ = [
    "BuildFailed",
    "InvalidArgument",
    "NoUsableDevice",
    "OutOfResources",
    "PydpError",
    "UnsupportedOnDevice",
]


class PydpError(Exception):
    """The base class of all pydp exceptions."""


def number_text(value: object) -> str:
    """Format a number for an error message; an integer of more than 40 digits is described by its bit length."""
    if isinstance(value, int) and abs(value) >= 10**40:
        return f"an integer of {value.bit_length()} bits"
    return str(value)


def is_on_device(value: Any) -> bool:
    """Whether a value is an array whose elements are not NumPy's, such as a pyopencl Array. Reads no element."""
    if isinstance(value, type) or type(value).__module__.partition(".")[0] == "numpy":
        return False
    return hasattr(value, "dtype") and isinstance(getattr(value, "shape", None), tuple)


class _Values(reprlib.Repr):
    """Short texts of values. The repr() of a pyopencl Array copies its elements, which crashes for a released array."""

    def __init__(self) -> None:
        super().__init__()
        self.maxlist = self.maxtuple = self.maxdict = self.maxset = 12
        self.maxstring = self.maxlong = self.maxother = 200

    def repr1(self, x: Any, level: int) -> str:  # reprlib finds methods by the names of classes, also of users' classes
        return super().repr1(x, level) if type(x).__module__ == "builtins" else self.repr_instance(x, level)

    def repr_instance(self, x: Any, level: int) -> str:
        if dataclasses.is_dataclass(x) and not isinstance(x, type):
            texts = [f"{one.name}={self.repr1(getattr(x, one.name), level - 1)}" for one in dataclasses.fields(x)]
            return f"{type(x).__name__}({', '.join(texts)})"
        if not is_on_device(x):
            return super().repr_instance(x, level)
        return f"<{type(x).__name__} of shape {tuple(x.shape)} and dtype {x.dtype}>"


def shown(value: object) -> str:
    """Any value for an error message: its repr() on one line, shortened if it is long. Arrays of devices: without
    elements."""
    try:
        return re.sub(r"\s*\n\s*", " ", _values.repr(value))
    except Exception:  # also ValueError: Python limits the digits of an integer as text
        return f"a value of type {type(value).__name__}"


_values = _Values()


class InvalidArgument(PydpError, ValueError):
    """The value, shape or type of an argument is not accepted; no result was written."""


class UnsupportedOnDevice(PydpError):
    """The request is valid, but the device lacks a required feature (for example fp64); nothing was enqueued."""


class DeviceNotPresent(UnsupportedOnDevice):
    """The call needs a device that is present; a compile-only target only explains and compiles kernels."""


class BuildFailed(PydpError):
    """A kernel did not compile on a device.

    ``template``, ``params``, ``device`` and ``driver`` identify the kernel; ``log`` is the compiler's log. ``source``
    is the rendered source. ``source_path`` is the file that contains it, or None if the cache folder is not writable.
    """

    def __init__(
        self,
        message: str,
        *,
        template: str = "",
        device: str = "",
        driver: str = "",
        params: object = None,
        log: str = "",
        source: str = "",
        source_path: str | None = None,
    ) -> None:
        super().__init__(message)
        self.template = template
        self.device = device
        self.driver = driver
        self.params = params
        self.log = log
        self.source = source
        self.source_path = source_path


class OutOfResources(PydpError, MemoryError):
    """The device has too little memory, local memory or registers, or the host has too little memory."""


class NoUsableDevice(PydpError):
    """No OpenCL device passed the probe, none matches the request, or the process was forked after its parent used
    OpenCL."""
