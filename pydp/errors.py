"""The exceptions that pydp raises on purpose.

Every message is one sentence that names the wrong value and what is accepted. All of them are a
:class:`PydpError`; where Python has a built-in of the same meaning, the class is that as well, so that
``except ValueError`` and ``except MemoryError`` work as in NumPy.
"""

from __future__ import annotations

__all__ = [
    "BuildFailed",
    "InvalidArgument",
    "NoUsableDevice",
    "OutOfResources",
    "PydpError",
    "UnsupportedOnDevice",
]


class PydpError(Exception):
    """The base of all errors that pydp raises on purpose."""


def number_text(value: object) -> str:
    """A number for an error message: an integer of more than 40 digits is shown by its size."""
    if isinstance(value, int) and abs(value) >= 10**40:
        return f"an integer of {value.bit_length()} bits"
    return str(value)


class InvalidArgument(PydpError, ValueError):
    """An argument's value, shape or type is not accepted; nothing was enqueued."""


class UnsupportedOnDevice(PydpError):
    """The request is right, but this device lacks what it needs (for example fp64); nothing was enqueued."""


class BuildFailed(PydpError):
    """A kernel did not compile on a device.

    ``template``, ``device``, ``driver``, ``params`` and ``log`` say which, where and why; ``source`` is the
    rendered text and ``source_path`` the file it is kept in (None where the cache folder is not writable).
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
    """The device has too little memory, local memory or registers for the request, or the host too little memory."""


class NoUsableDevice(PydpError):
    """No OpenCL device passed the trust probe, none matches the one asked for, or the process was forked after use."""
