"""Fused operators: operators of Fields that follow one another are computed in one kernel.

    r = a * x + y * z          # three operators, one kernel, no temporary arrays

An operator checks its operands, and returns a Field whose memory is a `LazyStorage`: nothing is computed. Its
`LazyResult` refers to the operands, and to the results of operators among them. The expression is computed

* when the memory is used: reading `Storage.buffer` computes it;
* before the memory of an operand is used otherwise, because it may be written: operands are `GuardedStorage`;
* when `Device.queue` is read, as every call of pydp does, so that the device starts early;
* when the limits below are reached.

The values do not depend on when, and in how many kernels, it is computed: each operator rounds its result to its dtype.

A kernel computes one result. Results of operators that nobody refers to are never stored. If several expressions need
a result, it is computed first and stored. A result that the program still refers to, but that only one expression
needs, is not stored. It is computed separately if the program uses it, or if there are many such results, because they
keep their operands in memory. Operands of another shape are computed first.

The kernel of an expression is built when the expression occurs again with the same shapes; the first time, a kernel for
each operator computes it. So expressions that occur once cost no build. If the build fails, the expression is always
computed by a kernel for each operator. Numbers are arguments of the kernel.
"""

from __future__ import annotations

import contextlib
import itertools
import logging
from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass
from threading import get_ident
from typing import TYPE_CHECKING, Any
from weakref import ref

import numpy as np
import pyopencl as cl

from pydp.errors import BuildFailed, InvalidArgument, PydpError, number_text
from pydp.runtime.arrays import elementwise
from pydp.runtime.arrays.comparison import compared_dtypes, known_result
from pydp.runtime.arrays.data import FieldData
from pydp.runtime.arrays.indexing import broadcast_strides
from pydp.runtime.arrays.operand import Operand, c_strides
from pydp.runtime.arrays.self_overlap import overlaps_itself
from pydp.runtime.memory.storage import (
    GuardedStorage,
    LazyStorage,
    Storage,
    allocation,
    buffer_of,
    lazy_lock,
    set_buffer,
)
from pydp.runtime.programs.program import PreparedLaunch
from pydp.runtime.recording import seen_before

if TYPE_CHECKING:
    from pydp.runtime.arrays.copy_transposed import Prepared
    from pydp.runtime.drivers.devices import Device
    from pydp.runtime.programs.program import Kernel

MOST_STEPS = 16
"""Operators of a kernel; 0 computes each operator at once, in a kernel of its own."""
MOST_ARRAYS = 8
"""Arrays that a kernel reads. Devices accept at least 1024 bytes of arguments."""
_MOST_WAITING = 32  # operators after which all results are started
_MOST_NEEDED = 32  # results that wait for others to be computed first; above this, the older half is computed
_MOST_GUARDS = 64  # above this, the guards and consumers that are computed or dropped are removed
_NUMBERS = frozenset(
    (int, float, complex, bool, *(kind for kind in np.sctypeDict.values() if issubclass(kind, (np.number, np.bool_))))
)
_COMPARISONS = ("eq", "ne", "lt", "le", "gt", "ge")
_LARGEST = {2: 65000.0, 4: 3e38, 8: np.inf}  # finite in floats of so many bytes
_STEP = 1000
_order = itertools.count()
_NO_OFFSET = np.int64(0)
_SEPARATE: Any = object()  # instead of a launch: the kernel cannot be built
_log = logging.getLogger("pydp")


class Operation:
    """An operator of operands of certain dtypes and layouts. It is the same object for all such operands.

    op: its name. dtype, shape, strides, nbytes: of the result. kinds: the dtypes of both operands, of the number for
    a number. views: the strides of both operands, broadcast; None for a number. in_place: the result overwrites the
    left operand. number: the dtype that the number is converted to.
    """

    __slots__ = ("dtype", "in_place", "kinds", "nbytes", "number", "op", "shape", "strides", "views")

    def __init__(
        self,
        op: str,
        dtype: np.dtype,
        shape: tuple[int, ...],
        strides: tuple[int, ...],
        kinds: Sequence[np.dtype],
        views: Sequence[Any],
        in_place: bool,
    ) -> None:
        self.op, self.dtype, self.shape, self.strides, self.in_place = op, dtype, shape, strides, in_place
        self.kinds, self.views = tuple(kinds), tuple(views)
        self.nbytes = int(np.prod(shape, dtype=object)) * dtype.itemsize
        self.number = next((kind for kind, view in zip(kinds, views, strict=True) if view is None), None)


def lazy_operator(field: Any, op: str, other: Any, swapped: bool = False) -> Any:
    """The result of ``field op other`` as a Field that is not computed yet, or None: the caller then computes it.

    op: "add", "sub", "mul", "div", "and", "or", "xor" or a comparison. swapped: ``other op field``. other: a Field or a
    number. Raises the errors of the operator.
    """
    kind = type(other)
    storage = field._storage
    device = storage.device
    shape = field._shape  # faster than `shape`
    if type(shape) is not tuple:
        shape = field.shape
    if kind is type(field):
        if other._storage.device is not device:
            return None
        other_shape = other._shape
        if type(other_shape) is not tuple:
            other_shape = other.shape
        key: Any = ("lazy", op, field.dtype, shape, field.strides, other.dtype, other_shape, other.strides)
    elif kind in _NUMBERS:
        key = ("lazy", op, field.dtype, shape, field.strides, kind, swapped)
    else:
        return None
    operation = device.plans.get(key)
    if operation is None:
        operation = device.plans.make(key, _operation, device, op, field, other, swapped)
    if not operation or not MOST_STEPS:
        return None
    if device._queue is None:
        device._own_queue()  # raises an error in a forked process
    views = operation.views
    first: Any
    second: Any
    if operation.number is not None:
        if kind is int and op in _COMPARISONS and known_result(op, other, operation.number) is not None:
            return None
        second = _number(other, operation.number)
    elif type(other._storage) is LazyStorage:
        second = _source(other, operation, 1)
    else:
        second = other._storage, other.offset, views[1]
        if second[0].array is not None:  # pydp does not see all uses of the memory
            return None
    if type(storage) is LazyStorage:
        first = _source(field, operation, 1 if swapped else 0)
    else:
        first = storage, field.offset, views[1 if swapped else 0]
        if storage.array is not None:
            return None
    made = LazyResult(device, operation, (second, first) if swapped else (first, second))
    result = LazyStorage(device, made)
    made.target = ref(result)
    made.register()
    return type(field)(result, operation.dtype, operation.shape, operation.strides)


def combined_in_place(field: Any, op: str, other: Any) -> bool:
    """``field op= other`` in one kernel, if `other` is the result of operators that is not computed yet. False: nothing
    is done."""
    if type(other) is not type(field) or type(other._storage) is not LazyStorage or not field._writable:
        return False
    storage, device = field._storage, field._storage.device
    if other._storage.device is not device or other.shape != field.shape or not MOST_STEPS:
        return False
    key = ("lazy in place", op, field.dtype, field.shape, field.strides, other.dtype, other.strides)
    operation = device.plans.get(key)
    if operation is None:
        operation = device.plans.make(key, _operation, device, op, field, other, False, field)
    if not operation:
        return False
    with lazy_lock:
        buffer = storage.buffer  # computes all that needs the present elements
        lazy = _source(other, operation, 1)
        if storage.array is not None or type(lazy) is not LazyResult:
            return False
        made = LazyResult(device, operation, ((storage, field.offset, field.strides), lazy))
        made.limit_size()
        steps = made.ready()
        if len(steps) == 1:
            return False
        gathered = _Gathered(steps)
        known = device.recordings.get(gathered.key) or device.recordings.find(gathered.key)
        if known is _SEPARATE or (known is None and not seen_before(device, gathered.key)):
            return False
        try:
            _launch(device, device._own_queue(), known, steps, gathered, buffer, field.offset)
        except BuildFailed as error:
            _separate(device, gathered, error)
            return False
        return True


def _operation(
    device: Device, op: str, field: FieldData, other: Any, swapped: bool, out: FieldData | None = None
) -> Operation | bool:
    """The Operation; False if the operator cannot be fused. Raises the operator's errors."""
    array = isinstance(other, FieldData)
    if device.is_target or "V" in (field.dtype.kind, other.dtype.kind if array else ""):
        return False
    kinds = [field.dtype, other.dtype if array else number_type(other)]
    if swapped:
        kinds.reverse()
    if op in _COMPARISONS:
        dtype, computed = np.dtype(bool), compared_dtypes(op, *kinds)[0 if swapped else 1]
    else:
        dtype = computed = elementwise.result_dtype(op, *kinds)
    shape = broadcast_shape(field.shape, other.shape) if array else field.shape
    strides = c_strides(shape) if out is None else out.strides
    if out is not None:
        if not np.can_cast(dtype, out.dtype, casting="same_kind") or overlaps_itself(shape, strides, 1):
            return False  # an error
        dtype = out.dtype
    operands: list[Any] = []
    for name, one in (("left", field), ("right", other)):
        if isinstance(one, FieldData):
            view = broadcast_strides(one.shape, one.strides, shape, name)
            operands.append(Operand(name, None, 0, shape, view, one.dtype))
        else:
            operands.append(computed.type(0))
    if swapped:
        operands.reverse()
    target = Operand("out", None, 0, shape, strides, dtype)
    elementwise.check_dtypes(device, op, operands, target)
    if not target.size or target.nbytes > device.profile.max_allocation:
        return False
    views = [one.strides if isinstance(one, Operand) else None for one in operands]
    return Operation(op, dtype, shape, strides, [one.dtype for one in operands], views, out is not None)


def number_type(number: Any) -> Any:
    """The type of a number for NumPy's promotion rules: Python's numbers are weak."""
    return type(number) if type(number) in (int, float, complex) else np.asarray(number).dtype


def convert_number(value: Any, dtype: np.dtype) -> Any:
    """Convert a number to `dtype`, in which an operation is computed. Raises InvalidArgument if it does not fit."""
    try:
        with np.errstate(over="ignore"):  # a float that is too large becomes infinite
            return np.asarray(value).astype(dtype)[()] if not isinstance(value, int) else dtype.type(value)
    except OverflowError:
        raise InvalidArgument(f"{number_text(value)} does not fit the dtype {dtype}") from None


def _number(value: Any, dtype: np.dtype) -> np.generic:
    """A number as an argument of a kernel."""
    if type(value) is float and dtype.kind == "f" and abs(value) < _LARGEST.get(dtype.itemsize, 0.0):
        return elementwise.by_value(dtype.type(value))  # faster
    return elementwise.by_value(convert_number(value, dtype))


def broadcast_shape(left: tuple[int, ...], right: tuple[int, ...]) -> tuple[int, ...]:
    """The common shape of two operands."""
    if left == right:
        return left
    try:
        return np.broadcast_shapes(left, right)
    except ValueError:
        raise InvalidArgument(f"shapes {left} and {right} cannot be broadcast together") from None


def _source(field: FieldData, operation: Operation, at: int) -> Any:
    """An operand that is a result of operators: a LazyResult, or (storage, offset, strides)."""
    storage = field._storage
    if type(storage) is LazyStorage:
        lazy = storage.lazy
        if (
            type(lazy) is LazyResult
            and field.shape == operation.shape == lazy.operation.shape
            and field.strides == lazy.operation.strides
            and not field.offset
        ):
            return lazy
        _ = storage.buffer  # a view, or an array that is repeated: computed once
    return storage, field.offset, operation.views[at]


class LazyResult:
    """The result of an operator that is not computed yet, or that results which are not computed yet need.

    args: its operands. target: a weak reference to the LazyStorage. storage: the memory of the result, once it is
    computed. consumers: weak references to the results that need this one. size, reads: upper bounds of the numbers of
    operators and arrays that a kernel for this needs.
    """

    __slots__ = (
        "__weakref__", "args", "consumers", "device", "operation", "order", "reads", "size", "storage", "target",
    )  # fmt: skip

    size: int
    reads: int

    def __init__(self, device: Device, operation: Operation, args: tuple[Any, Any]) -> None:
        self.device = device
        self.operation = operation
        self.args: tuple[Any, ...] = args
        self.storage: Storage | None = None
        self.target: Any = None
        self.consumers: Any = ()
        self.order = next(_order)
        size, reads = 1, 2
        left, right = args
        if type(left) is LazyResult:
            size, reads = size + left.size, reads + left.reads - 1
        if type(right) is LazyResult and right is not left:
            size, reads = size + right.size, reads + right.reads - 1
        self.size, self.reads = size, reads

    # --- the graph

    def register(self) -> None:
        """Enter the new result into the graph; computes operands first if one kernel would be too large."""
        own = ref(self)
        with lazy_lock:
            if self.size > MOST_STEPS or self.reads > MOST_ARRAYS:
                self.limit_size()
            for one in self.args:
                if type(one) is tuple:
                    _guard(one[0], own)
                elif type(one) is LazyResult:
                    if one.storage is None:
                        known = one.consumers if len(one.consumers) < _MOST_GUARDS else _pending(one.consumers)
                        one.consumers = (*known, own)
                    else:
                        _guard(one.storage, own)
        waiting = self.device.lazy
        waiting.append(own)
        if len(waiting) > _MOST_WAITING:
            _tidy(waiting)
            if len(waiting) > _MOST_WAITING // 2:
                self.device.start_lazy()

    def limit_size(self) -> None:
        """Compute operands until one kernel can compute the others and this."""
        while True:
            steps = self.steps()
            self.size, self.reads = len(steps), len(_Gathered(steps).arrays)
            if self.size <= MOST_STEPS and self.reads <= MOST_ARRAYS:
                return
            lazy = [one for one in self.args if type(one) is LazyResult and one.storage is None]
            max(lazy, key=lambda one: len(one.steps())).compute()

    def steps(self) -> list[LazyResult]:
        """This and the results that it needs and that are not computed, in the order of the operators."""
        found, waiting = {self}, [self]
        while waiting:
            for one in waiting.pop().args:
                if type(one) is LazyResult and one.storage is None and one not in found:
                    found.add(one)
                    waiting.append(one)
        return sorted(found, key=_by_order) if len(found) > 1 else [self]

    def ready(self) -> list[LazyResult]:
        """The steps of one kernel, after computing those that other results need, too."""
        while True:
            steps = self.steps()
            inside = set(steps)
            shared = [one for one in steps[:-1] if not inside.issuperset(one.needed_by())]
            if not shared:
                return steps
            shared[0].compute()

    def needed_by(self) -> list[LazyResult]:
        """The results that are not computed and need this one directly."""
        found = [one() for one in self.consumers]
        return [one for one in found if one is not None and one.storage is None]

    # --- computing

    def start(self) -> None:
        """Compute this if the program refers to it and no other result needs it. Errors of the device are raised when
        the program uses the result."""
        with lazy_lock, contextlib.suppress(PydpError, cl.Error):
            if self.storage is not None or self.target() is None:
                return
            if self.needed_by():
                self.keep()
            else:
                self.compute()

    def keep(self) -> None:
        """Do not start this, because the expression that needs it may not need it stored. If there are many such
        results, compute the older ones: results that are not computed keep their operands in memory."""
        needed = self.device.lazy_needed
        needed.append(ref(self))
        if len(needed) > _MOST_NEEDED:
            found = [one() for one in needed]
            needed.clear()
            alive = [one for one in found if one is not None and one.storage is None and one.target() is not None]
            older = max(len(alive) - _MOST_NEEDED // 2, 0)
            needed += map(ref, alive[older:])
            for one in alive[:older]:
                one.compute()

    def settle(self, storage: Storage) -> None:
        """Compute this for its storage, with the lock held."""
        self.compute()
        if type(storage) is LazyStorage:  # an interrupt has ended `done`
            self.publish(storage)

    def compute(self) -> None:
        """Compute this unless it is computed, with the lock held."""
        if self.storage is None:
            steps = [self]
            for one in self.args:
                if type(one) is LazyResult and one.storage is None:
                    steps = self.ready()
                    break
            if self.storage is None:
                _run(steps)

    def done(self, buffer: Any, pool_queue: Any, queue: cl.CommandQueue, event: cl.Event) -> None:
        """Set the computed memory."""
        storage = self.target()
        if storage is None:
            storage = Storage(None, self.device)
        set_buffer(storage, buffer)
        storage.queue, storage.event, storage.pool_queue, storage.others = queue, event, pool_queue, None
        storage.thread = get_ident()
        self.storage, self.args = storage, ()
        self.publish(storage)

    def publish(self, storage: Storage) -> None:
        """Make the memory a normal one, or guarded by the results that need this one."""
        readers = self.needed_by() if self.consumers else ()
        storage.lazy = Guards(map(ref, readers)) if readers else None
        storage.__class__ = GuardedStorage if readers else Storage  # type: ignore[assignment]


def _tidy(waiting: deque[Any]) -> None:
    """Remove the results that need not be started. Errors of the device are raised when the program uses the result."""
    for _ in range(len(waiting)):
        with contextlib.suppress(IndexError, PydpError, cl.Error):  # IndexError: another thread has started them
            one = waiting.popleft()
            result = one()
            if result is None or result.storage is not None or result.target() is None:
                continue
            with lazy_lock:
                if result.needed_by():
                    result.keep()
                else:
                    waiting.append(one)


def _by_order(one: LazyResult) -> int:
    return one.order


class Guards(list[Any]):
    """Weak references to the results that must be computed before some memory is used otherwise."""

    def settle(self, storage: Storage) -> None:
        """Compute all results that depend on the memory and that the program refers to, with the lock held."""
        while self:
            taken = self[:]
            waiting = [one() for one in taken]
            found: set[LazyResult] = set()
            while waiting:
                one = waiting.pop()
                if one is not None and one.storage is None and one not in found:
                    found.add(one)
                    waiting += one.needed_by()
            for one in sorted(found, key=_by_order):
                if one.target() is not None:
                    one.compute()
            storage.__class__ = Storage  # type: ignore[assignment]
            gone = set(map(id, taken))
            self[:] = [one for one in self if id(one) not in gone]  # a signal handler may have added others
        storage.__class__ = Storage  # type: ignore[assignment]

    def tidy(self) -> None:
        """Remove the computed and dropped results."""
        self[:] = _pending(self)


def _pending(results: Sequence[Any]) -> list[Any]:
    """Weak references to results, without the computed and dropped ones."""
    found = [(one, one()) for one in results]
    return [one for one, result in found if result is not None and result.storage is None]


def _guard(storage: Storage, reader: Any) -> None:
    """Compute the result of `reader` before the memory is used otherwise."""
    if type(storage) is GuardedStorage:
        storage.lazy.append(reader)
        if len(storage.lazy) > _MOST_GUARDS:
            storage.lazy.tidy()
    else:
        storage.lazy = Guards((reader,))
        storage.__class__ = GuardedStorage


class _Gathered:
    """The arrays and numbers that some steps read. key: the operation of each step and its two operands: n for the n-th
    array, _STEP + n for the n-th step, None for the next number. (-1 and -2 would have the same hash.)"""

    __slots__ = ("arrays", "key", "numbers")

    key: tuple[Any, ...]

    def __init__(self, steps: Sequence[LazyResult]) -> None:
        if len(steps) == 1:  # the same, faster
            left, right = steps[0].args
            if type(left) is type(right) is tuple and left[0] is not right[0]:
                self.arrays, self.numbers, self.key = [left, right], [], ("fused", steps[0].operation, 0, 1)
                return
        arrays: list[tuple[Storage, int, Any]] = []
        numbers: list[np.generic] = []
        parts: list[Any] = ["fused"]
        known: dict[Any, int] = {}  # arrays and steps
        for n, step in enumerate(steps):
            parts.append(step.operation)
            for one in step.args:
                if type(one) is LazyResult:
                    if one.storage is None:
                        parts.append(known[one])
                        continue
                    one = one.storage, 0, one.operation.strides
                elif type(one) is not tuple:
                    numbers.append(one)
                    parts.append(None)
                    continue
                same = id(one[0]), one[1], one[2]
                at = known.get(same)
                if at is None:
                    at = known[same] = len(arrays)
                    arrays.append(one)
                parts.append(at)
            known[step] = _STEP + n
        self.arrays, self.numbers, self.key = arrays, numbers, tuple(parts)


class _Launch:
    """A prepared launch; its list of arguments ends with the numbers 0, 1, 2, ... in `indexes`."""

    __slots__ = ("indexes", "prepared")

    def __init__(self, prepared: PreparedLaunch, indexes: tuple[int, ...]) -> None:
        self.prepared, self.indexes = prepared, indexes


def _run(steps: list[Any]) -> None:
    """Compute the last step; the other steps are needed only for it."""
    step, gathered = steps[-1], _Gathered(steps)
    device = step.device
    known = device.recordings.get(gathered.key) or device.recordings.find(gathered.key)
    repeats = known is not None or seen_before(device, gathered.key)
    if len(steps) > 1 and (known is _SEPARATE or not repeats):
        _run_separately(steps)
        return
    queue = device._queue or device._own_queue()
    buffer, pool_queue = allocation(device, queue, step.operation.nbytes)
    try:
        event = _launch(device, queue, known, steps, gathered, buffer, 0, repeats)
    except BuildFailed as error:
        if len(steps) == 1:
            raise
        _separate(device, gathered, error)
        _run_separately(steps)
    else:
        step.done(buffer, pool_queue, queue, event)


def _run_separately(steps: list[Any]) -> None:
    """Compute each step in a kernel of its own."""
    for at, one in enumerate(steps):
        _run([one])
        steps[at] = None  # releases memory that the next steps do not need


def _separate(device: Device, gathered: _Gathered, error: BuildFailed) -> None:
    """Compute the operators of this expression in separate kernels from now on: the compiler failed on the kernel of
    all of them, but it may build smaller kernels."""
    _log.warning("%s cannot build the kernel of an expression; its operators run separately: %s", device.name, error)
    device.recordings.put(gathered.key, _SEPARATE)


def _launch(
    device: Device,
    queue: cl.CommandQueue,
    known: _Launch | None,
    steps: Sequence[LazyResult],
    gathered: _Gathered,
    buffer: Any,
    offset: int,
    repeats: bool = True,
) -> cl.Event:
    """Enqueue the kernel of some steps, which writes to a buffer from the element `offset` on. repeats: keep the launch
    for the next time; launches that occur once must not evict others."""
    arrays = gathered.arrays
    waits: list[cl.Event] = []
    given, offsets = [buffer], [np.int64(offset) if offset else _NO_OFFSET]
    for storage, at, _ in arrays:
        if storage.queue is not queue or storage.others is not None:
            waits += Storage.waits(storage, queue)
        given.append(buffer_of(storage))
        offsets.append(np.int64(at) if at else _NO_OFFSET)
    given += offsets
    given += gathered.numbers
    event = None
    try:
        if known is not None:
            given += known.indexes
            event = known.prepared.enqueue(queue, given, waits)
        else:
            event = _first_launch(device, queue, steps, gathered, given, waits, repeats)
        for storage, _, _ in arrays:
            Storage.note(storage, event, queue)
    except BaseException:
        with contextlib.suppress(cl.Error):  # Ctrl-C may have lost the event
            marker = cl.enqueue_marker(queue, wait_for=None if event is None else [event])
            for storage, _, _ in arrays:
                Storage.note(storage, marker, queue)
        raise
    return event


def _first_launch(
    device: Device,
    queue: cl.CommandQueue,
    steps: Sequence[LazyResult],
    gathered: _Gathered,
    given: list[Any],
    waits: list[cl.Event],
    repeats: bool,
) -> cl.Event:
    """Build the kernel and enqueue it; keep the launch if it `repeats`. given: the buffers of the result and the
    arrays, their offsets, the numbers."""
    epoch = device.recordings.epoch
    plan = _plan(device, [step.operation for step in steps], gathered)
    count = len(gathered.arrays) + 1
    order = [at for n in range(count) for at in (n, n + count)] + list(range(2 * count, len(given)))
    slots = dict(enumerate(order))
    args = [given[at] for at in order]
    args += plan.rest
    event: cl.Event = plan.kernel.enqueue(queue, plan.global_size, plan.local_size, args, waits)
    if not repeats:
        return event
    prepared = PreparedLaunch(plan.kernel, plan.global_size, plan.local_size, args, slots, len(given))
    device.recordings.put(gathered.key, _Launch(prepared, tuple(range(len(args)))), epoch)
    return event


def _plan(device: Device, operations: Sequence[Operation], gathered: _Gathered) -> Prepared:
    """The kernel of some steps and its launch."""
    last, count = operations[-1], len(gathered.arrays)
    refs = [gathered.key[3 * n + 2 : 3 * n + 4] for n in range(len(operations))]
    kinds = {
        at: kind for pair, one in zip(refs, operations, strict=True) for at, kind in zip(pair, one.kinds, strict=True)
    }
    inputs: list[Any] = [
        Operand("array", None, offset, last.shape, strides, kinds[n])
        for n, (_, offset, strides) in enumerate(gathered.arrays)
    ]
    inputs += [one.number.type(0) for one in operations if one.number is not None]
    number = itertools.count(count)
    steps = []
    for operation, pair in zip(operations, refs, strict=True):
        places = [next(number) if at is None else at if at < _STEP else len(inputs) + at - _STEP for at in pair]
        steps.append(elementwise.Step(operation.op, tuple(places), operation.dtype))
    name = f"elementwise_{last.op}" if len(steps) == 1 else "elementwise_fused"
    target = Operand("out", None, 0, last.shape, last.strides, last.dtype)
    return elementwise.prepare(device, name, steps, inputs, target, in_place=last.in_place)


@dataclass(frozen=True)
class Pending:
    """How a result that is not computed yet will be computed. needed: the results among the operators that other
    results or the program need, too."""

    operators: tuple[str, ...]
    arrays: int
    numbers: int
    needed: int
    kernel: Kernel


def pending(field: FieldData) -> Pending | None:
    """How the elements of a Field will be computed; None if they are computed. Builds the kernel."""
    with lazy_lock:
        lazy = field._storage.lazy
        if type(lazy) is not LazyResult:
            return None
        steps = lazy.steps()
        gathered = _Gathered(steps)
    operations = [step.operation for step in steps]
    kernel = _plan(lazy.device, operations, gathered).kernel
    needed = sum(step.target() is not None or len(step.needed_by()) > 1 for step in steps[:-1])
    return Pending(tuple(one.op for one in operations), len(gathered.arrays), len(gathered.numbers), needed, kernel)
