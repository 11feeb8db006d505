"""Devices that are not present: kernels are rendered and compiled, launches are recorded, nothing runs.

    target = Target("gfx90a", "amd", profile)
    for launch in dry_run(target, pydp.scan, x):
        print(launch.kernel.name, launch.group, launch.kernel.resources.registers)

A target works with the plans of all algorithms, because plans only use a device's profile and kernels.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from math import prod
from typing import Any

import numpy as np
import pyopencl as cl

from pydp.errors import DeviceNotPresent, InvalidArgument
from pydp.offline.compilers import resources_of
from pydp.offline.reports import Resources
from pydp.runtime.arrays.operand import Operand, c_strides
from pydp.runtime.call import Call
from pydp.runtime.device.profile import Profile
from pydp.runtime.device.quirks import quirks_of
from pydp.runtime.drivers.devices import Device
from pydp.runtime.placement import check_out, normal_input
from pydp.runtime.programs.program import Kernel, complete_options

_MOST_ZEROS = 1 << 30  # bytes of a result with the strides of an array; a larger one is one broadcast element


class Target(Device):
    """A device that is not present: a profile with a compiler's name ("sm_90", "gfx90a").

    It can be used to explain and compile. Running anything raises DeviceNotPresent.
    """

    is_target = True

    def __init__(self, name: str, driver: str, profile: Profile) -> None:
        self.cl = None
        self.name = name
        self.vendor = self.driver = driver
        self.platform = "offline target"
        self.driver_version = ""
        self.kind = profile.kind
        self.quirks = quirks_of(driver, name, "", profile.kind)
        self.uid = f"target-{hashlib.sha256(f'{name} {profile}'.encode()).hexdigest()[:16]}"
        self._keep_nothing()
        self._context = None
        self._queue = None
        self._profile = profile
        self.recorder = Recorder(name)

    @property
    def context(self) -> Any:
        """Raises DeviceNotPresent: a target has no context."""
        raise DeviceNotPresent(f"{self.name} is a target to compile for; nothing can run on it")

    @property
    def queue(self) -> Any:
        """The recorder of launches."""
        return self.recorder

    @property
    def reason(self) -> str | None:
        """Why it cannot be used."""
        return "a target to compile for, not a device of this machine"

    @property
    def extensions(self) -> tuple[str, ...]:
        """OpenCL extensions that its compiler must support."""
        profile = self.profile
        atomics = ("cl_khr_int64_base_atomics", "cl_khr_int64_extended_atomics")
        return (
            *(atomics if profile.int64_atomics else ()),
            *(("cl_khr_fp16",) if profile.fp16 else ()),
            *(("cl_khr_fp64",) if profile.fp64 else ()),
        )

    def unbuilt(
        self, template: str, name: str, params: Mapping[str, object], source: str, options: Sequence[str]
    ) -> TargetKernel:
        """A rendered kernel that is compiled when its resources are needed."""
        return TargetKernel(self, name, template, params, source, options)

    def planned(self, inputs: Mapping[str, object], out: Any) -> TargetCall:
        """A call whose launches are recorded."""
        return TargetCall.planned(inputs, self, out)

    def __repr__(self) -> str:
        return f"<pydp.Target {self.name!r}>"


@dataclass(frozen=True)
class Launch:
    """A recorded launch: its kernel, sizes and arguments (`Absent` in place of buffers)."""

    kernel: TargetKernel
    global_size: tuple[int, ...]
    local_size: tuple[int, ...] | None
    args: tuple[object, ...] = ()

    @property
    def group(self) -> int:
        """Work-items of a group."""
        return prod(self.local_size) if self.local_size else 1

    @property
    def groups(self) -> int:
        """Groups of the launch."""
        return prod(self.global_size) // self.group


class Recorder:
    """The queue of a target: records launches during `dry_run`.

    outputs: the operands of the results. commands: the number of other commands, such as fills.
    """

    def __init__(self, name: str) -> None:
        self.name = name
        self.launches: list[Launch] | None = None
        self.outputs: list[Operand] = []
        self.commands = 0
        self._arrays: list[Absent] = []

    def start(self) -> list[Launch]:
        """Begin a record; returns the list that launches are added to."""
        self.launches, self.outputs, self.commands, self._arrays = [], [], 0, []
        return self.launches

    def memory(self, values: np.ndarray) -> Absent:
        """The memory of an argument; the same for an array that is given twice, for example as input and as `out`.

        A result of an earlier step of the call has the memory that this step writes.
        """
        made: Absent | None = next((one.buffer for one in self.outputs if _is_same(one.result, values)), None)
        if made is not None:
            made.reused = True
            return made
        found = next((one for one in self._arrays if one.values is values), None)
        if found is None:
            found = Absent(values.nbytes, values)
            self._arrays.append(found)
        return found

    def note(self, launch: Launch | None) -> None:
        """Record a launch (None: a command without a kernel). Raises DeviceNotPresent outside of `dry_run`."""
        if self.launches is None:
            raise DeviceNotPresent(f"{self.name} is a target to compile for; nothing can run on it")
        if launch is not None:
            self.launches.append(launch)


def _is_same(result: np.ndarray, values: np.ndarray) -> bool:
    """Whether an array is a result, perhaps with another shape."""
    place = result.ctypes.data
    return result.nbytes == values.nbytes > 0 and place == values.ctypes.data


class TargetKernel(Kernel):
    """A kernel rendered for a target; it is compiled when its resources are needed."""

    __slots__ = ("_device", "options")

    def __init__(
        self,
        device: Target,
        name: str,
        template: str,
        params: Mapping[str, object],
        source: str,
        options: Sequence[str],
    ) -> None:
        self.cl = None
        self.name = name
        self.template = template
        self.params = dict(params)
        self.source = source
        self.options = tuple(complete_options(device, params, options))
        self._device, self._device_name = device, device.name

    @property
    def resources(self) -> Resources:
        """Registers, memory and spills by a real compile; raises as :func:`pydp.offline.compilers.resources_of`."""
        assert isinstance(self._device, Target)
        found = resources_of(self._device.name, self.source, self.options, self._device.extensions)
        if self.name not in found:
            raise InvalidArgument(f"{self.template} has no kernel {self.name!r}; it has {', '.join(found)}")
        return found[self.name]

    @property
    def local_bytes(self) -> int:
        """Bytes of local memory per group."""
        return self.resources.local_bytes

    @property
    def private_bytes(self) -> int:
        """Bytes of private memory per work-item outside registers."""
        return self.resources.scratch_bytes

    @property
    def max_group_size(self) -> int:
        """The device's largest group."""
        return self._device.profile.max_group_size

    def enqueue(
        self,
        queue: Any,
        global_size: tuple[int, ...],
        local_size: tuple[int, ...] | None,
        args: Sequence[object],
        wait_for: Any = (),
    ) -> Any:
        """Record the launch, unless it has no work-items."""
        sizes = tuple(int(size) for size in global_size), local_size and tuple(int(size) for size in local_size)
        queue.note(None if 0 in sizes[0] else Launch(self, *sizes, tuple(args)))
        return None


class Absent:
    """A placeholder for memory of a target.

    values: the elements that are there at the start, if any. cleared: whether a launch needs zeros there. reused:
    whether it is the result of one step of a call and an argument of a later one.
    """

    def __init__(self, size: int, values: np.ndarray | None = None) -> None:
        self.size = size
        self.values = values
        self.cleared = self.reused = False


class TargetCall(Call):
    """A call on a target: arguments have shapes and types but no memory; launches are recorded."""

    __slots__ = ()

    @classmethod
    def planned(cls, inputs: Mapping[str, object], target: Target, out: Any) -> TargetCall:
        """`Call.begin` for a target. Raises InvalidArgument for arguments on a device."""
        call = cls.__new__(cls)
        call._scratch, call._used, call._waits, call._host, call._recorder = [], [], [], None, None
        call._outs = [] if out is None else [out]
        call._values = {name: normal_input(name, value) for name, value in inputs.items() if value is not None}
        for name, value in call._values.items():
            if not isinstance(value, np.ndarray):
                kind = type(value).__name__
                raise InvalidArgument(f"{name} is a {kind} on a device; a target accepts NumPy arrays")
        call.event, call._serial, call.blocking = None, False, False
        call.like, call.device, call.queue = None, target, target.queue
        return call

    def input(self, name: str) -> Operand:
        """An input's operand without memory, in the machine's byte order."""
        if name not in self._values:
            raise InvalidArgument(f"{name} is None; a target accepts NumPy arrays")
        value = self._values[name]
        dtype = value.dtype if value.dtype.isnative else value.dtype.newbyteorder("=")
        even = not any(stride % dtype.itemsize for stride in value.strides)
        strides = tuple(s // dtype.itemsize for s in value.strides) if even else c_strides(value.shape)
        return Operand(name, self.queue.memory(value), 0, value.shape, strides, dtype)

    def inout(self, name: str) -> Operand:
        """Same as `input`."""
        return self.input(name)

    def output(self, shape: Sequence[int], dtype: Any, name: str = "out", keep: bool = False) -> Operand:
        """An output without memory; its result is zeros, which take no memory until they are written."""
        shape, dtype = tuple(int(n) for n in shape), np.dtype(dtype)
        given = self._outs.pop(0) if self._outs else None
        if given is not None:
            check_out(given, shape, dtype, name)
        memory = self.queue.memory(given) if isinstance(given, np.ndarray) else Absent(prod(shape) * dtype.itemsize)
        contiguous = prod(shape) * dtype.itemsize <= _MOST_ZEROS
        result = np.zeros(shape, dtype) if contiguous else np.broadcast_to(np.zeros((), dtype), shape)
        operand = Operand(name, memory, 0, shape, c_strides(shape), dtype, None, result)
        self.queue.outputs.append(operand)
        return operand

    def enqueue(self, command: Any, *args: Any, **options: Any) -> Any:
        """Note a copy of host data into new memory as its values, and count any other command.

        Raises DeviceNotPresent outside of `dry_run`.
        """
        self.queue.note(None)
        new = isinstance(args[0], Operand) and args[0].buffer.values is None and not args[0].offset
        if command is cl.enqueue_copy and new and isinstance(args[1], np.ndarray):
            args[0].buffer.values = args[1].copy()
        else:
            self.queue.commands += 1

    def scratch(self, nbytes: int) -> Any:
        """A placeholder for scratch memory."""
        return Absent(nbytes)

    def fetch(self, operand: Operand) -> np.ndarray:
        """Zeros."""
        return np.zeros(operand.shape, operand.dtype)


def dry_run(target: Target, call: Callable[..., Any], *args: Any, **kw: Any) -> list[Launch]:
    """The launches of ``call(*args, device=target, **kw)``; `call` is a public function. Values count as zeros."""
    recorder = target.recorder
    launches = recorder.start()
    try:
        call(*args, device=target, **kw)
        return launches
    finally:
        recorder.launches, recorder._arrays = None, []
