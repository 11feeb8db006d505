"""How the kernels of this package are mapped and built: in the context of the program, for all of its devices."""

from __future__ import annotations

import functools
from collections.abc import Sequence
from typing import Any

import pyopencl as cl

from pydp.runtime import forks
from pydp.runtime.device.quirks import Quirks, driver_key, quirks_of
from pydp.runtime.programs.template import render


@functools.lru_cache(maxsize=64)
def device_quirks(device: Any) -> Quirks:
    """The quirks of a device. Most programs make a context first, so variables for its driver may come too late."""
    kind = "cpu" if device.type & cl.device_type.CPU else "gpu" if device.type & cl.device_type.GPU else "accelerator"
    return quirks_of(device.platform.name, device.name, device.driver_version, kind).with_late_variables()


@functools.lru_cache(maxsize=64)
def has_double(device: Any) -> bool:
    """Whether a device has float64."""
    from pyopencl.characterize import has_double_support

    return bool(has_double_support(device))


def mapping_of(devices: Sequence[Any]) -> str:
    """The mapping of kernels: "vector" if all devices are CPUs that run loops of any length, else "simt"."""
    cpus = all(one.type & cl.device_type.CPU and device_quirks(one).loop_limit is None for one in devices)
    return "vector" if cpus else "simt"


def prefetches(devices: Sequence[Any]) -> bool:
    """Whether kernels of CPUs use clang's built-in for prefetches, see `Profile.prefetches`."""
    return not any(device_quirks(one).is_simulator for one in devices)


def lanes_of(devices: Sequence[Any], most: int, item_bytes: int) -> int:
    """Work-items of a work-group with mapping "simt": a power of two whose items fit into half of the local memory."""
    lanes = min(most, *(one.max_work_group_size for one in devices))
    lanes = min([lanes, *(one.local_mem_size // 2 // item_bytes for one in devices)])
    return 1 << max(0, lanes.bit_length() - 1)


def check_process(context: Any) -> None:
    """Raise NoUsableDevice in a forked process in which commands of the context would never end.

    On Intel's runtime they end unless commands were running at the fork. pyopencl's programs may rely on that.
    Calls, and constructors that build programs, check first: in such a process, building a program or making a buffer
    may hang, too. Names of devices can be read, because the drivers take no lock for them. Methods that are pyopencl's
    own, such as ``get_kernel``, do not check.
    """
    if not forks.is_lost():
        forks.note_use()
    elif any(driver_key(one.platform.name) != "intel" for one in context.devices):
        forks.raise_if_lost()


class _Kernel(cl.Kernel):
    """A kernel whose ``program`` is the object that made it."""

    def __init__(self, program: _Program, name: str) -> None:
        super().__init__(program, name)
        self._made_by = program

    @property
    def program(self) -> _Program:
        return self._made_by


class _Program(cl.Program):
    """A program whose ``source`` can be read, also as ``kernel.program.source``. Intel's runtime has no source of
    programs from pyopencl's cache, and does not return the program of a kernel if it is released."""

    @property
    def source(self) -> str:
        return str(self._source)

    def __getattr__(self, name: str) -> _Kernel:
        try:
            made = _Kernel(self, name)
            made.get_info(cl.kernel_info.NUM_ARGS)  # NVIDIA's driver refuses an invalid name only here
            return made
        except cl.LogicError as error:
            raise AttributeError(f"the program has no attribute or kernel {name!r}") from error


def build(context: Any, devices: Sequence[Any], template: str, params: dict[str, object], options: Any = None) -> Any:
    """Render `template` and build it with the caller's options. Errors of the compiler are pyopencl's."""
    source = render(template, params)
    given = [] if options is None else options.split() if isinstance(options, str) else list(options)
    known = [one for device in devices for one in device_quirks(device).build_options]
    return _Program(context, source).build([*given, *dict.fromkeys(known)])


def scratch(queue: Any, size: int) -> Any:
    """A temporary buffer. The driver keeps it until the kernels that use it have ended.

    It does not come from the caller's allocator: a memory pool reuses a block as soon as Python releases it, perhaps on
    another queue.
    """
    return cl.Buffer(queue.context, cl.mem_flags.READ_WRITE, size)
