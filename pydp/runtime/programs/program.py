"""Kernels: rendered from a template and its parameters, and built once per process.

    kernel(device, "calibrate.mako", "calibrate_empty", {"width": 4, ...}).enqueue(queue, (n,), (1,), [buffer])

Kernels are cached by template and parameters, and programs by the rendered source, so the same source is not built
twice while one of its kernels is in use. Binaries are stored on disk for drivers without their own cache. If a device
has MOST_PROGRAMS programs, the least recently used plans and kernels are evicted before a new build.
"""

from __future__ import annotations

import hashlib
import logging
import re
from collections.abc import Callable, Mapping, Sequence
from operator import itemgetter
from typing import TYPE_CHECKING, Any

import numpy as np

from pydp.errors import BuildFailed, OutOfResources
from pydp.runtime.device import core as device_core
from pydp.runtime.programs import binaries, disk_bound
from pydp.runtime.programs.builtins_used import GUARD, with_declarations
from pydp.runtime.programs.files import atomic_write, cache_dir
from pydp.runtime.programs.template import render

if TYPE_CHECKING:
    import pyopencl as cl

    from pydp.runtime.device.core import DeviceCore

__all__ = ["Kernel", "build_source", "kernel", "render"]

MOST_GROUPS = 65535  # along dimensions 1 and 2 of a launch, on GPUs
free_memory: list[Callable[[cl.CommandQueue], bool]] = []
"""Functions of `runtime.memory`: free memory for a launch on a queue; return whether there may have been some."""
_log = logging.getLogger("pydp")
_WORD = re.compile(r"[a-z]\w*")
MEMORY_CODES = (-4, -5, -6)  # MEM_OBJECT_ALLOCATION_FAILURE, OUT_OF_RESOURCES, OUT_OF_HOST_MEMORY
_GROUP_CODES = (-54, -55)  # INVALID_WORK_GROUP_SIZE, INVALID_WORK_ITEM_SIZE


class Program:
    """A built program; ``cl`` is pyopencl's inner program. Its kernels keep it alive."""

    __slots__ = ("__weakref__", "cl")

    def __init__(self, cl_program: Any) -> None:
        self.cl = cl_program


class _KernelObject:
    """A kernel object of pyopencl with arguments of its own, for one launch at a time.

    Arguments are (index, argument, index, argument, ...); `objects` are buffers, `values` NumPy scalars.
    """

    __slots__ = ("cl", "enqueue", "set_objects", "set_values")

    def __init__(self, cl_kernel: cl.Kernel, objects: tuple[object, ...] = (), values: tuple[object, ...] = ()) -> None:
        import pyopencl

        self.cl, self.enqueue = cl_kernel, pyopencl.enqueue_nd_range_kernel
        self.set_objects, self.set_values = _setters(cl_kernel)
        if objects:
            self.set_objects(objects)
        if values:
            self.set_values(values)


class Kernel:
    """A built kernel. `enqueue` is thread-safe, and safe in a finalizer or a signal handler that interrupts `enqueue`.

    ``cl`` is pyopencl's kernel, ``source`` the rendered source, ``params`` the template parameters.
    """

    __slots__ = (
        "__weakref__",
        "_about",
        "_cl_device",
        "_device_name",
        "_flush",
        "_group_limit",
        "_group_size_known",
        "_idle",
        "_launched",
        "_num_args",
        "cl",
        "name",
        "params",
        "program",
        "source",
        "template",
    )

    def __init__(
        self,
        device: DeviceCore,
        program: Program,
        cl_kernel: cl.Kernel,
        template: str,
        params: Mapping[str, object],
        source: str,
    ):
        self.program = program
        self.cl = cl_kernel
        self.name = cl_kernel.function_name
        self.template = template
        self.params = dict(params)
        self.source = source
        # No reference to the device, which holds its kernels: a cycle would keep both, and the caller's context, alive.
        self._cl_device, self._device_name = device.cl, device.name
        driver = f"{device.platform!r}, driver {device.driver_version}"
        self._about = (self.name, template, self.params, device.name, driver)
        self._launched = device.launched
        self._group_limit = device.profile.max_group_size
        self._group_size_known = device.quirks.kernel_group_size_known
        self._idle = [_KernelObject(cl_kernel)]
        self._num_args = int(cl_kernel.num_args)
        self._flush = device.quirks.flush_before_wait

    def enqueue(
        self,
        queue: cl.CommandQueue,
        global_size: tuple[int, ...],
        local_size: tuple[int, ...] | None,
        args: Sequence[object],
        wait_for: Sequence[cl.Event] | None = (),
    ) -> cl.Event:
        """Enqueue over `global_size` work-items in work-groups of `local_size`; returns the event.

        args: one buffer, NumPy scalar, ``pyopencl.LocalMemory`` or None (a null pointer) per parameter. An empty range
        enqueues a marker. Raises OutOfResources if the device lacks memory or registers.
        """
        if 0 in global_size:
            import pyopencl

            return pyopencl.enqueue_marker(queue, wait_for=list(wait_for) if wait_for else None)
        if len(args) != self._num_args:
            raise TypeError(f"kernel {self.name} of {self.template} takes {self._num_args} arguments, not {len(args)}")
        if wait_for and self._flush:
            _flush(wait_for)
        objects: list[object] = []
        values: list[object] = []
        for pair in enumerate(args):
            if isinstance(pair[1], np.generic):
                values += pair
            else:
                objects += pair
        return self._launch(queue, global_size, local_size, tuple(objects), tuple(values), wait_for, self._idle)

    def _launch(
        self,
        queue: cl.CommandQueue,
        global_size: tuple[int, ...],
        local_size: tuple[int, ...] | None,
        objects: tuple[object, ...],
        values: tuple[object, ...],
        wait_for: Sequence[cl.Event] | None,
        idle: list[_KernelObject],
        fixed: tuple[tuple[object, ...], ...] = (),
    ) -> cl.Event:
        """Set arguments on one of the `idle` kernel objects, which have the arguments `fixed`, and enqueue it.

        There is no lock: launches of two kernels that finalizers in two threads interrupt crosswise would wait for each
        other.
        """
        self._launched[0] = (self._about, global_size, local_size)
        try:
            try:
                taken = idle.pop()  # pop and append are atomic
            except IndexError:  # another thread launches this kernel, or this thread in the call that is interrupted
                taken = self._another(*fixed)
            try:
                if objects:
                    taken.set_objects(objects)
                if values:
                    taken.set_values(values)
                try:
                    return taken.enqueue(queue, taken.cl, global_size, local_size, None, wait_for or None)
                except Exception as error:  # some drivers allocate a buffer at its first use
                    if getattr(error, "code", None) not in MEMORY_CODES or not any(free(queue) for free in free_memory):
                        raise
                    return taken.enqueue(queue, taken.cl, global_size, local_size, None, wait_for or None)
            finally:
                idle.append(taken)
        except Exception as error:
            explained = self._explained(error, global_size, local_size)
            if explained is error:
                raise
            raise explained from error

    def _another(self, *fixed: tuple[object, ...]) -> _KernelObject:
        """A new object of the driver for this kernel, with some arguments set."""
        import pyopencl

        return _KernelObject(pyopencl.Kernel(self.program.cl, self.name), *fixed)

    def _explained(
        self, error: Exception, global_size: tuple[int, ...], local_size: tuple[int, ...] | None
    ) -> Exception:
        """The error to raise instead of pyopencl's: OutOfResources, or the same error with the kernel's name added."""
        code = getattr(error, "code", None)
        group = int(np.prod(local_size)) if local_size else 0
        too_large = code in _GROUP_CODES and group > self.max_group_size
        if code in MEMORY_CODES or too_large:
            return OutOfResources(
                f"{self._device_name!r} has not enough memory or registers for kernel {self.name} of {self.template} "
                f"with {global_size} work-items in groups of {local_size} ({self.local_bytes} bytes of local memory "
                f"per group): {error}"
            )
        error.add_note(f"in kernel {self.name} of {self.template}")
        return error

    def _group_info(self, name: str) -> int:
        import pyopencl

        try:
            param = getattr(pyopencl.kernel_work_group_info, name)
            return int(self.cl.get_work_group_info(param, self._cl_device))
        except pyopencl.Error:
            return 0

    @property
    def local_bytes(self) -> int:
        """Bytes of local memory per work-group, as the driver reports."""
        return self._group_info("LOCAL_MEM_SIZE")

    @property
    def private_bytes(self) -> int:
        """Bytes of private memory (spills) per work-item, as the driver reports; 0 if unknown."""
        return self._group_info("PRIVATE_MEM_SIZE")

    @property
    def max_group_size(self) -> int:
        """The largest work-group size of this kernel, as the driver reports."""
        limit = self._group_limit
        if not self._group_size_known:
            return limit
        return min(self._group_info("WORK_GROUP_SIZE") or limit, limit)

    def __repr__(self) -> str:
        return f"<pydp Kernel {self.name} of {self.template} on {self._device_name!r}>"


class PreparedLaunch:
    """A launch of a kernel whose other arguments are set once, on kernel objects of its own.

    slots: for the arguments that each `enqueue` sets, by their index, the position in the list that `enqueue` takes.
    indexes: the position of the numbers 0, 1, 2, ... in this list.
    """

    __slots__ = ("_buffers", "_fixed", "_idle", "_kernel", "_values", "global_size", "local_size")

    def __init__(
        self,
        kernel: Kernel,
        global_size: tuple[int, ...],
        local_size: tuple[int, ...] | None,
        args: Sequence[object],
        slots: Mapping[int, int],
        indexes: int,
    ) -> None:
        self._kernel, self.global_size, self.local_size = kernel, global_size, local_size
        fixed: tuple[list[object], list[object]] = ([], [])  # buffers, NumPy scalars
        given: tuple[list[int], list[int]] = ([], [])
        for at, arg in enumerate(args):
            number = isinstance(arg, np.generic)
            if at in slots:
                given[number].extend((indexes + at, slots[at]))
            else:
                fixed[number].extend((at, arg))
        self._buffers, self._values = map(_getter, given)
        self._fixed = (tuple(fixed[0]), tuple(fixed[1]))
        self._idle = [kernel._another(*self._fixed)]

    def enqueue(
        self, queue: cl.CommandQueue, given: Sequence[object], wait_for: Sequence[cl.Event] | None = ()
    ) -> cl.Event:
        """Enqueue with the other arguments from `given`."""
        kernel, sizes = self._kernel, (self.global_size, self.local_size)
        if wait_for and kernel._flush:
            _flush(wait_for)
        buffers, values = self._buffers(given), self._values(given)
        return kernel._launch(queue, *sizes, buffers, values, wait_for, self._idle, self._fixed)


def _getter(positions: Sequence[int]) -> Callable[[Sequence[object]], tuple[object, ...]]:
    """A function that takes the elements at these positions from a list, without a loop in Python."""
    return itemgetter(*positions) if positions else lambda given: ()


def described(launch: tuple[tuple[Any, ...], object, object]) -> str:
    """A description of the launch that `DeviceCore.launched` holds, on three lines."""
    (name, template, params, device, driver), global_size, local_size = launch
    return (
        f"kernel {name} of {template}, {global_size} work-items in groups of {local_size}\n"
        f"on {device!r} of {driver}\n"
        f"rendered with {params}"
    )


def _setters(
    cl_kernel: cl.Kernel,
) -> tuple[Callable[[tuple[object, ...]], None], Callable[[tuple[object, ...]], None]]:
    """Two functions that set (index, argument, index, argument, ...): for buffers and for NumPy scalars.

    pyopencl's public function takes 7 us per NumPy scalar, its inner ones 0.1 us.
    """
    objects = getattr(cl_kernel, "_set_arg_multi", None)
    values = getattr(cl_kernel, "_set_arg_buf_multi", None)
    if objects is not None and values is not None:
        return objects, values

    def one_by_one(pairs: tuple[object, ...]) -> None:
        for index, arg in zip(pairs[::2], pairs[1::2], strict=True):
            cl_kernel.set_arg(index, arg)

    return one_by_one, one_by_one


def _flush(events: Sequence[cl.Event]) -> None:
    """Flush the queues of `events`: some drivers do not start commands that another queue waits for."""
    import pyopencl

    for event in events:
        try:
            queue = event.command_queue
        except pyopencl.Error:
            continue
        if queue is not None:  # a user event has none
            queue.flush()


def kernel(
    device: DeviceCore, template: str, name: str, params: Mapping[str, object], options: Sequence[str] = ()
) -> Kernel:
    """The kernel `name` of `template`, rendered with `params` and built for `device`. It is cached for all threads.

    params: plain values only. The key ``cl_std`` ("CL2.0", "CL3.0"), or ``-cl-std=`` in `options`, selects the OpenCL C
    version; the default is 1.2. Raises BuildFailed, which holds the rendered source and the compiler's log.
    """
    key = ("kernel", template, name, _content(params), tuple(options))
    found: Kernel | None = device.kernels.get(key)
    if found is None:
        found = device.kernels.make(key, _make, device, template, name, params, options)
    return found


def _content(value: object) -> object:
    """A hashable form of a parameter; 1, 1.0 and True are different."""
    if isinstance(value, Mapping):
        return tuple(sorted((str(key), _content(part)) for key, part in value.items()))
    if isinstance(value, (list, tuple, set, frozenset)):
        parts = sorted(value, key=repr) if isinstance(value, (set, frozenset)) else value
        return (type(value).__name__, *(_content(part) for part in parts))
    return repr(value)


def _make(device: DeviceCore, template: str, name: str, params: Mapping[str, object], options: Sequence[str]) -> Kernel:
    import pyopencl as cl

    source = _completed(device, render(template, params))
    unbuilt: Kernel | None = device.unbuilt(template, name, params, source, options)
    if unbuilt is not None:
        return unbuilt
    program = build_source(device, source, _asked(params, options), template=template, params=params)
    try:
        return Kernel(device, program, cl.Kernel(program.cl, name), template, params, source)
    except cl.Error as error:
        raise _failed(device, source, f"it has no kernel {name!r}: {error}", template, params) from error


def _completed(device: DeviceCore, source: str) -> str:
    """The source, after definitions of functions that the driver lacks or computes wrongly."""
    words = set(_WORD.findall(source))
    if not device.quirks.half_functions and "cl_khr_fp16" in words:
        source = render("half_functions.mako", {"words": sorted(words)}) + source
    if not device.quirks.wide_powers and "pow" in words and words & {"double8", "double16"}:
        source = render("power_functions.mako", {}) + source
    return source


def _asked(params: Mapping[str, object], options: Sequence[str]) -> list[str]:
    standard = params.get("cl_std")
    return [f"-cl-std={standard}", *options] if standard else list(options)


def complete_options(device: DeviceCore, params: Mapping[str, object], options: Sequence[str] = ()) -> list[str]:
    """All compiler options of a kernel that is rendered with `params`, for `device`."""
    return _options(device, _asked(params, options))


def build_source(
    device: DeviceCore,
    source: str,
    options: Sequence[str] = (),
    *,
    template: str = "source",
    params: Mapping[str, object] | None = None,
) -> Program:
    """Build a program from OpenCL C source; a program in use is found by its content. Raises BuildFailed."""
    options = _options(device, options)
    key = hashlib.sha256("\n".join((*options, source)).encode()).hexdigest()
    made: Program = device.programs.make(key, _program, device, source, options, template, params or {})
    return made


def _program(
    device: DeviceCore, source: str, options: list[str], template: str, params: Mapping[str, object]
) -> Program:
    while device.programs.count_alive() >= device_core.MOST_PROGRAMS:
        evicted = device.recordings.evict(), device.plans.evict(), device.kernels.evict()
        if not any(evicted):  # all of them are in use
            break
    return Program(_build(device, source, options, template, params))


def _options(device: DeviceCore, options: Sequence[str]) -> list[str]:
    standard = [option for option in options if option.startswith("-cl-std=")] or ["-cl-std=CL1.2"]
    others = [option for option in options if not option.startswith("-cl-std=")]
    # -w: one driver prints the number of clang's warnings about generated code to the user's terminal.
    return [standard[-1], "-w", *device.profile.build_options, *others]


def _build(device: DeviceCore, source: str, options: list[str], template: str, params: Mapping[str, object]) -> Any:
    import pyopencl as cl

    kept = binaries.load(device, source, options)
    if kept is not None:
        return kept
    short = with_declarations(device, source)
    texts = [(source, options)] if short is None else [(short, [*options, f"-D{GUARD}"]), (source, options)]
    for text, given in texts:
        # The inner program type does not use pyopencl's cache, where a stale lock costs a minute.
        program = cl._cl._Program(device.context, text)
        try:
            binaries.compile_program(program, device, given)
        except cl.Error as error:
            code = getattr(error, "code", None)
            if code in MEMORY_CODES:
                raise OutOfResources(f"{device.name!r} has not enough memory to build {template}: {error}") from error
            if text is source:
                raise _failed(device, source, _build_log(program, device) or str(error), template, params) from error
            _log.debug("%s does not build with the declarations of the functions that it names", template)
        else:
            binaries.store(device, source, options, program)
            return program
    raise AssertionError("unreachable")


def _build_log(program: Any, device: DeviceCore) -> str:
    import pyopencl as cl

    try:
        return str(program.get_build_info(device.cl, cl.program_build_info.LOG)).strip(" \n\0")
    except cl.Error:
        return ""


def _failed(device: DeviceCore, source: str, log: str, template: str, params: Mapping[str, object]) -> BuildFailed:
    digest = hashlib.sha256(source.encode()).hexdigest()[:12]
    path = cache_dir() / "failed" / f"{template.removesuffix('.mako')}-{digest}.cl"
    kept = str(path) if atomic_write(path, source.encode()) else None
    if kept is not None:
        disk_bound.written(path, len(source))
    lines = log.splitlines()
    first = next((line for line in lines if "error" in line.lower()), lines[0] if lines else "no log")
    where = f"the source is in {kept}" if kept else "the source is in the attribute `source` of this error"
    driver = f"{device.platform} {device.driver_version}"
    message = f"{template} does not build on {device.name!r} ({driver}): {first}; {where}"
    return BuildFailed(
        f"{message}\nparams: {dict(params)}\n{log[:4000]}",
        template=template,
        device=device.name,
        driver=driver,
        params=dict(params),
        log=log,
        source=source,
        source_path=kept,
    )
