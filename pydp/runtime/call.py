"""Call: the arrays, launches and results of one call of an algorithm.

    call = Call.begin({"a": a, "b": b}, device=device, queue=queue, wait_for=wait_for, out=out)
    a, b = call.input("a"), call.input("b")
    y = call.output(a.shape, a.dtype)
    call.launch(kernel, global_size, local_size, a, np.int64(a.offset), ..., y)
    return call.finish(y)

If the device shares the host's memory, kernels work on NumPy arrays in place. The result has the kind of the first
array (NumPy, Field or pyopencl Array). A call whose arrays are all on the device is asynchronous; its results carry the
event.
"""

from __future__ import annotations

import contextlib
import sys
from collections.abc import Callable, Mapping, Sequence
from math import prod
from typing import TYPE_CHECKING, Any

import numpy as np
import pyopencl as cl

from pydp.errors import InvalidArgument, PydpError
from pydp.runtime import placement
from pydp.runtime.arrays import elementwise
from pydp.runtime.arrays.data import Array, FieldData, WrappedArray
from pydp.runtime.arrays.host_arguments import HostArguments
from pydp.runtime.arrays.operand import Operand, c_strides
from pydp.runtime.forks import releases
from pydp.runtime.memory import held_queues, host_memory
from pydp.runtime.memory.deferred_release import hold, later, release_pending
from pydp.runtime.memory.host_memory import check_dtype
from pydp.runtime.memory.scratch import give, take
from pydp.runtime.memory.storage import Storage, is_in_order, memory_of
from pydp.runtime.recording import Recorder, claim

if TYPE_CHECKING:
    from pydp.runtime.arrays.copy_transposed import TransposeTiling
    from pydp.runtime.drivers.devices import Device

__all__ = ["Call", "Operand"]


def _given(out: Any, outputs: int) -> list[Any]:
    """The caller's output arrays as a list; empty if new arrays are to be made."""
    if out is None or outputs == 1:
        return [] if out is None else [out]
    if type(out) is not tuple or len(out) != outputs:
        raise InvalidArgument(f"out is a {type(out).__name__}; a tuple of {outputs} arrays or None is accepted")
    return list(out)


def _wrapped(value: Any) -> Any:
    return WrappedArray.wrap(value) if isinstance(value, Array) else value


class Call:
    """The device, queue, arrays and scratch memory of one call. `Call.begin` makes it, `finish` ends it.

    Attributes: `device`; `queue`; `like`, the first array if it is on a device, whose kind the results have (None:
    NumPy arrays); `event` of the last launch; `blocking`, whether `finish` waits because it returns NumPy data.
    """

    __slots__ = (
        "_host", "_outs", "_recorder", "_scratch", "_serial", "_used", "_values", "_waits",
        "blocking", "device", "event", "like", "queue",
    )  # fmt: skip

    device: Device
    queue: cl.CommandQueue
    like: FieldData | None
    event: cl.Event | None
    blocking: bool
    _host: HostArguments | None
    _recorder: Recorder | None  # notes what is enqueued, to repeat it
    _outs: list[Any]  # given arrays that output() has not used yet
    _scratch: list[cl.Buffer]
    _serial: bool  # the queue is out-of-order: every launch waits for the previous one
    _used: list[Storage]  # device memory of the arguments
    _values: dict[str, Any]
    _waits: list[cl.Event]  # the wait list of the next launch

    @classmethod
    def begin(
        cls,
        inputs: Mapping[str, object],
        *,
        device: Any = None,
        queue: Any = None,
        wait_for: Any = None,
        out: Any = None,
        writable: Sequence[str] = (),
        outputs: int = 1,
        out_name: str = "out",
    ) -> Call:
        """Begin a call.

        inputs: arrays by name; None entries are ignored. out: an array, or for several `outputs` a tuple of arrays and
        None. writable: the names of inputs that kernels write in place. out_name: of `out` in messages. wait_for:
        events; the kernels wait for them, or this function does if an array is a NumPy array of the caller, or the
        event is of another context.

        Raises InvalidArgument for a value that is not an array, an unsupported dtype, arrays on different devices, an
        unsuitable queue or wait list, and read-only arrays in `writable`.
        """
        if device is not None and getattr(device, "is_target", False):
            planned: Call = device.planned(inputs, out)
            for name in writable:
                if planned.has(name):
                    placement.check_writable(planned._values[name], name)
            return planned
        call = cls.__new__(cls)
        call._recorder = claim()
        call._scratch = []
        call._used = []
        call._host = None
        call.event = None
        call._waits = [] if wait_for is None else placement.check_events(wait_for)
        call._outs = [_wrapped(one) for one in _given(out, outputs)]
        if device is None and queue is None and call._all_fields(inputs):
            for name in writable:
                if name in call._values:
                    placement.check_writable(call._values[name], name)
            if call._waits:
                call._waits = placement.of_context(call.queue.context, call._waits)
            return call
        values = call._values = {
            name: value if isinstance(value, FieldData) else _wrapped(placement.normal_input(name, value))
            for name, value in inputs.items()
            if value is not None
        }
        call.like = placement.first_array(values)
        call.device, call.queue = placement.place(values, call._outs, device, queue, out_name)
        call._serial = call.queue is not call.device.queue and not is_in_order(call.queue)
        if call._waits and any(map(placement.may_change, (*values.values(), *call._outs))):
            placement.wait_for_all(call._waits)  # the host may copy the arrays now
            call._waits = []
        elif call._waits:
            call._waits = placement.of_context(call.queue.context, call._waits)
        call._prepare_host(writable)
        return call

    def _all_fields(self, inputs: Mapping[str, object]) -> bool:
        """Set up the call if all arrays are Fields of one device, the common case; returns whether they are."""
        first: FieldData | None = None
        for value in (*inputs.values(), *self._outs):
            if value is None:
                continue
            if not isinstance(value, FieldData):
                return False
            storage = value._storage
            if first is not None and storage.device is not first._storage.device:
                return False
            if storage.array is not None:
                storage.check_alive()
            if first is None:
                first = value
        self._values = {name: value for name, value in inputs.items() if value is not None}
        if first is None or not self._values:
            return False
        self.like, self.device = first, first._storage.device
        self.queue = self.device.queue
        self._serial = self.blocking = False
        return True

    def _prepare_host(self, writable: Sequence[str]) -> None:
        """Determine whether the call blocks, and which NumPy arrays share memory with a written array."""
        values = self._values
        changed: list[np.ndarray] = []
        for name in writable:
            if name in values:
                placement.check_writable(values[name], name)
                changed += [values[name]] if isinstance(values[name], np.ndarray) else []
        written = [*(one for one in self._outs if isinstance(one, np.ndarray)), *changed]
        # With `writable`, or if every output is given, the call makes no new arrays: `written` alone decides.
        given_outs = sum(one is not None for one in self._outs)
        makes = given_outs < len(self._outs) if given_outs else not writable
        self.blocking = bool(written) or (self.like is None and makes)
        if self.blocking:
            self._host = HostArguments(self.device, self.device.profile.shares_host_memory)
            given = [value for value in values.values() if isinstance(value, np.ndarray)]
            if written and self._host.in_place:
                self._host.merge([*given, *written])
            if changed and len(given) > 1:
                self._host.share(given, changed)

    # --- arrays --------------------------------------------------------------------------------------------

    def has(self, name: str) -> bool:
        """Whether an input with this name was given."""
        return name in self._values

    def input(self, name: str) -> Operand:
        """The operand of an input that kernels read. A NumPy array is copied if a kernel cannot read it in place
        (foreign byte order, misaligned) or if the call does not block."""
        try:
            value = self._values[name]
        except KeyError:
            raise InvalidArgument(f"{name} is None; {placement.ARRAYS} are accepted") from None
        if isinstance(value, np.ndarray):
            if self._host is None:
                self._host = HostArguments(self.device, False)
            operand = self._host.read(name, value)
        else:
            operand = self._device_operand(name, value, written=False)
        if self._recorder is not None:
            self._recorder.argument(value, operand)
        return operand

    def inout(self, name: str) -> Operand:
        """The operand of an input named in `writable`; kernels read and write it in place."""
        return self._written(name, self._values[name], keep=True)

    def _written(self, name: str, value: Any, keep: bool) -> Operand:
        """The operand of an array that kernels write. keep: they can also read its old elements."""
        if isinstance(value, np.ndarray):
            assert self._host is not None and self.blocking
            operand = self._host.write(name, value, keep=keep)
        else:
            operand = self._device_operand(name, value, written=True)
        if self._recorder is not None:
            self._recorder.argument(value, operand, written=True)
        return operand

    def output(self, shape: Sequence[int], dtype: Any, name: str = "out", keep: bool = False) -> Operand:
        """The operand of the next output: the checked `out`, or a new C-contiguous array of the call's kind.

        keep: kernels can also read the old elements of a given `out`.
        """
        shape, dtype = tuple(map(int, shape)), np.dtype(dtype)
        given = self._outs.pop(0) if self._outs else None
        if given is not None:
            placement.check_out(given, shape, dtype, name)
            return self._written(name, given, keep)
        native = check_dtype(dtype, name)
        if self.like is not None:
            nbytes = prod(shape) * native.itemsize
            made = self.like.uninitialized(self.device, self.queue, shape, c_strides(shape), native, nbytes)
            operand = self._device_operand(name, made, written=True)
        else:
            if self._host is None:  # another output is on the device; this one is copied back nevertheless
                self.blocking, self._host = True, HostArguments(self.device, self.device.profile.shares_host_memory)
            operand = self._host.write(name, host_memory.fresh(shape, dtype), keep=False)
        if self._recorder is not None:
            self._recorder.output(operand, self.like)
        return operand

    def _not_recorded(self) -> None:
        """The call does what a recording cannot repeat."""
        if self._recorder is not None:
            self._recorder.valid = False

    def uses_layout(self, array: Any) -> None:
        """State that the call reads no elements of an array that is no input, so that it may be recorded."""
        if self._recorder is not None:
            self._recorder.uses_layout(array)

    def _device_operand(self, name: str, value: FieldData, written: bool) -> Operand:
        operand = value._operand(name)
        storage = operand.owner
        self._used.append(storage)
        if storage.queue is not self.queue or storage.others is not None or storage.array is not None or self._serial:
            self._waits += storage.waits(self.queue, self._serial)
        if written:
            operand.result = value.given
        return operand

    def overlaps(self, a: Operand, b: Operand) -> bool:
        """Whether two operands may share elements: their spans of one buffer overlap, even if only interleaved."""
        if a.buffer is not b.buffer and _is_whole(a.owner) and _is_whole(b.owner):
            return False
        (low_a, high_a), (low_b, high_b) = a.span, b.span
        if high_a <= low_a or high_b <= low_b:
            return False
        base_a, base_b = 0, 0
        if a.buffer is not b.buffer:
            parent_a, base_a = memory_of(a.buffer)
            parent_b, base_b = memory_of(b.buffer)
            if parent_a != parent_b:
                return False
        size_a, size_b = a.dtype.itemsize, b.dtype.itemsize
        return base_a + low_a * size_a < base_b + high_b * size_b and base_b + low_b * size_b < base_a + high_a * size_a

    def same(self, a: Operand, b: Operand) -> bool:
        """Whether two operands are the same elements in the same order."""
        return (a.buffer is b.buffer or memory_of(a.buffer) == memory_of(b.buffer)) and (
            (a.offset, a.shape, a.strides, a.dtype) == (b.offset, b.shape, b.strides, b.dtype)
        )

    # --- work ----------------------------------------------------------------------------------------------

    def launch(self, kernel: Any, global_size: Any, local_size: Any, *args: Any) -> cl.Event:
        """Enqueue a kernel; an Operand among the arguments is replaced by its buffer. The first launch waits for the
        pending uses of the arguments and for `wait_for`; each later launch runs after the previous one."""
        buffers = [arg.buffer if type(arg) is Operand else arg for arg in args]
        if self._recorder is not None:
            self._recorder.launch(kernel, global_size, local_size, buffers)
        try:
            event = self.event = kernel.enqueue(self.queue, global_size, local_size, buffers, self._waits)
        except BaseException as error:
            self._cover_command(error)
            raise
        self._waits = self._next_waits(event) if self._serial else []
        return event

    def enqueue(self, command: Any, *args: Any, **options: Any) -> cl.Event:
        """Call one of pyopencl's `enqueue_...` functions, in order with the launches."""
        self._not_recorded()
        buffers = [arg.buffer if type(arg) is Operand else arg for arg in args]
        try:
            event = self.event = hold(
                host_memory.enqueued(command, self.queue, *buffers, wait_for=self._waits or None, **options)
            )
        except BaseException as error:
            self._cover_command(error)
            raise
        self._waits = self._next_waits(event) if self._serial else []
        return event

    def _cover_command(self, error: BaseException) -> None:
        """Make `event` cover the command that raised `error`. The driver may already have it if a signal handler raised
        the error (Ctrl-C); the command's own event is then lost."""
        if isinstance(error, (cl.Error, PydpError)) or self.device.is_target:
            return
        with contextlib.suppress(cl.Error):
            self.event = cl.enqueue_marker(self.queue)
            if self._serial:
                held_queues.hold(self.device, self.queue, self.event)

    def _next_waits(self, event: cl.Event) -> list[cl.Event]:
        """The wait list of the command that follows `event` on an out-of-order queue."""
        held_queues.hold(self.device, self.queue, event)
        return [event]

    def scratch(self, nbytes: int) -> cl.Buffer:
        """Device memory that is returned to its pool at the end of the call."""
        release_pending()
        buffer = take(self.device, self.queue, nbytes)
        self._scratch.append(buffer)
        if self._recorder is not None:
            self._recorder.scratch(buffer, nbytes)
        return buffer

    def provided(self, provider: Callable[[Device, cl.CommandQueue], tuple[Any, Any]]) -> tuple[Any, Any]:
        """A buffer and a number for one launch, which every launch gets anew from `provider`."""
        buffer, tag = provider(self.device, self.queue)
        if self._recorder is not None:
            self._recorder.provided(buffer, tag, provider)
        return buffer, tag

    def constant(self, values: np.ndarray) -> Operand:
        """Host values that kernels only read, as an operand. A recording keeps them in memory of its own."""
        if self._recorder is None:
            place = self.temporary(values.shape, values.dtype, "constant")
            self.enqueue(cl.enqueue_copy, place, values, is_blocking=False)
            return place
        flags = cl.mem_flags.READ_ONLY | cl.mem_flags.COPY_HOST_PTR
        buffer = cl.Buffer(self.device.context, flags, hostbuf=np.ascontiguousarray(values))
        self._recorder.constant(buffer)
        return Operand("constant", buffer, 0, values.shape, c_strides(values.shape), values.dtype)

    def contiguous(self, operand: Operand, dtype: Any = None) -> Operand:
        """The operand itself if it is C-contiguous and has `dtype`, else a converted copy in scratch memory."""
        kind = operand.dtype if dtype is None else np.dtype(dtype)
        if kind == operand.dtype and operand.is_contiguous:
            return operand
        packed = self.temporary(operand.shape, kind, operand.name)
        elementwise.copy(self, operand, packed)
        return packed

    def flat(self, operand: Operand) -> Operand:
        """The elements in C order as an operand of one axis; enqueues a copy if they have no single stride."""
        return (self.contiguous(operand) if operand.flat_step is None else operand).flat

    def temporary(self, shape: Sequence[int], dtype: Any, name: str = "temporary") -> Operand:
        """A C-contiguous operand in scratch memory."""
        shape, kind = tuple(shape), np.dtype(dtype)
        operand = Operand(name, None, 0, shape, c_strides(shape), kind)
        operand.buffer = self.scratch(operand.nbytes)
        return operand

    def copy(self, source: Operand, target: Operand, tiling: TransposeTiling | None = None) -> None:
        """Enqueue ``target[...] = source`` (broadcast, converted to the target's dtype, any strides).

        tiling: the tiling used if source and target are contiguous along different axes; None: the default tiling.
        """
        elementwise.copy(self, source, target, tiling)

    def fetch(self, operand: Operand) -> np.ndarray:
        """Copy a C-contiguous operand to the host and wait for it. Meant for small data such as counts."""
        if not operand.is_contiguous:
            raise InvalidArgument(f"{operand!r} is not contiguous; fetch takes contiguous operands")
        self._not_recorded()
        values = host_memory.fresh(operand.shape, operand.dtype)
        if values.size:
            start = operand.offset * operand.dtype.itemsize
            raw = values.reshape(-1).view(np.uint8)
            waits = self._waits or None
            host_memory.enqueued(
                cl.enqueue_copy, self.queue, raw, operand.buffer, src_offset=start, is_blocking=True, wait_for=waits
            )
            self._waits = []
        return values

    # --- the end -------------------------------------------------------------------------------------------

    def finish(self, *outputs: Operand) -> Any:
        """End the call and return the results: one, a tuple of several, or None.

        NumPy results are complete on return; Fields and pyopencl Arrays carry the event of the last launch.
        """
        event = self.event
        if event is not None:
            queue = self.queue
            for storage in self._used:
                storage.note(event, queue)
        if self.blocking and self._host is not None:
            self._wait_before_return()
            self._host.copy_back(self.queue, event, self._serial)
        self._release()
        result: Any = None
        if outputs:
            result = outputs[0].result if len(outputs) == 1 else tuple(output.result for output in outputs)
        if self._recorder is not None:
            self._recorder.finish(result, event)
        return result

    def _wait_before_return(self) -> None:
        if self._waits:  # nothing was launched, or the queue is out-of-order
            cl.wait_for_events(self._waits)
            self._waits = []

    def _release(self) -> None:
        scratch, self._scratch = self._scratch, []
        for buffer in scratch:
            give(buffer, self.event)
        self._host, self._used = None, []

    def __del__(self, releases: Any = releases, is_finalizing: Any = sys.is_finalizing) -> None:
        # Only a call that failed part-way has memory of arguments or scratch left. Globals may be gone, as in Storage.
        try:
            host, scratch, event, used = self._host, self._scratch, self.event, self._used
        except AttributeError:  # `begin` has failed
            return
        if host is None and not scratch and (event is None or not used):
            return
        if releases.forbidden:
            releases.kept.append(self)
            return
        if host is not None and self.blocking and event is not None:
            event.wait()  # commands may still use NumPy's memory
        if not is_finalizing():
            for storage in used if event is not None else ():
                storage.note(event, self.queue)
            for buffer in scratch:
                later(buffer, event)


def _is_whole(owner: Any) -> bool:
    """Whether pydp made the buffer; such a buffer is never a sub-buffer."""
    return isinstance(owner, Storage) and owner.array is None
