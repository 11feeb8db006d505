"""Forks in the way that the argument names; ends with status 0 if parent and children behaved as promised.

A child that does not end is killed after a minute; that is a failure.
"""

from __future__ import annotations

import atexit
import contextlib
import ctypes
import functools
import gc
import logging  # noqa: F401 - has hooks of forks; imported by one, they would run by half
import multiprocessing
import os
import signal
import sys
import tempfile
import threading
import time
import warnings
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    import pyopencl as cl

late_hooks: list[Callable[[], None]] = []  # called at a fork after pydp's own hook: hooks run in reverse order
INTERRUPTED = {"interrupts_before_the_fork": "before", "interrupts_after_the_fork": "after_in_parent"}


def register_behind_an_interrupt(when: str, register: Callable[..., None], **hooks: Callable[[], None]) -> None:
    """Register hooks of forks, and interrupt the process, as Ctrl-C does, when the hook `when` begins.

    Afterwards, finalizers must still release their objects."""
    # Functions of `signal` raise at once. After this one, the next hook that is not in C raises.
    interrupt = functools.partial(getattr(ctypes.CDLL(None), "raise"), int(signal.SIGINT))
    if when == "after_in_parent":  # these run in the order of registration
        register(after_in_parent=interrupt)
    register(**hooks)
    if when == "before":  # and these in reverse
        register(before=interrupt)


if hasattr(os, "register_at_fork"):
    os.register_at_fork(before=lambda: [hook() for hook in list(late_hooks)])
    if sys.argv[-1] in INTERRUPTED:
        os.register_at_fork = functools.partial(
            register_behind_an_interrupt, INTERRUPTED[sys.argv[-1]], os.register_at_fork
        )

import pydp  # noqa: E402

SECONDS = 60
STATUS = 7  # of a child that ends as it should
WAYS = {}


def way(function: Callable[[], None]) -> Callable[[], None]:
    WAYS[function.__name__] = function
    return function


def child(work: Callable[[], None], leave: Callable[[int], object] = os._exit) -> None:
    """Run `work` in a forked child, which then ends by `leave`."""
    process = os.fork()
    if process == 0:
        try:
            work()
        except BaseException as error:
            print(f"in the child: {error!r}", file=sys.stderr, flush=True)
            os._exit(1)
        leave(STATUS)
    for _ in range(SECONDS * 500):
        ended, status = os.waitpid(process, os.WNOHANG)
        if ended:
            assert os.waitstatus_to_exitcode(status) == STATUS, os.waitstatus_to_exitcode(status)
            return
        time.sleep(0.002)
    os.kill(process, signal.SIGKILL)
    os.waitpid(process, 0)
    raise AssertionError("the child hangs")


def refused(call: Callable[[], object]) -> None:
    """`call` raises the error of forked children."""
    try:
        call()
    except pydp.NoUsableDevice as error:
        assert "forked" in str(error) and "spawn" in str(error), error
    else:
        raise AssertionError(f"no error from {call}")


def bump(idx, x):
    x[idx] = x[idx] + 1


def halve(idx, x):
    x[idx] = x[idx] / 2


def host_only() -> None:
    """Functions that need no device still work."""
    x = np.arange(5.0)
    pydp.forall(x.shape, bump, x, device="host")
    pydp.forall(x.shape, halve, x, device="host")
    assert x.tolist() == [0.5, 1, 1.5, 2, 2.5]
    assert pydp.tile(x, 2).extent == (3,) and tuple(pydp.grid((2, 3)).extent) == (2, 3)


def right() -> None:
    """The device calculates."""
    x = np.random.default_rng(3).integers(0, 99, 70000).astype(np.int32)
    f = pydp.field(x)
    assert np.array_equal(pydp.sort(f).get(), np.sort(x)) and np.array_equal(pydp.scan(x), np.cumsum(x, dtype=np.int32))
    assert np.array_equal((f + f).get(), 2 * x)


@way
def every_call() -> None:
    import pyopencl as cl

    device = pydp.device()
    x = np.arange(100000, dtype=np.float32)
    f = pydp.field(x)
    array = pydp.field(x).array
    own = cl.CommandQueue(device.context, device.cl)
    event = pydp.forall(f.shape, bump, f)
    pydp.forall(f.shape, bump, x)
    # Fill all caches that warm calls use.
    assert pydp.sort(array).size == x.size
    pydp.scan(array, queue=own)
    pydp.forall(array.shape, bump, array)
    right()
    g, y = pydp.zeros(f.shape), np.empty_like(x)
    repeated = [
        lambda: pydp.scan(f, out=g),
        lambda: pydp.scan(f, out=g, queue=own),
        lambda: pydp.scan(x, out=y),
        lambda: pydp.scan(x, out=y, queue=own),
        lambda: pydp.forall(g.grid, bump, g, queue=own),
    ]
    for call in repeated * 3:  # runs from a recording at last
        call()
    want = f.get() * 2 + 1
    waiting = f * 2 + 1  # not computed
    calls = [
        *repeated,
        f.get,
        lambda: np.asarray(f),
        lambda: float(f[3]),
        lambda: f.copy_out(x),
        lambda: f.copy_out(x, blocking=False),
        lambda: f.copy_in(x),
        lambda: f.copy_in(x, blocking=False),
        lambda: f.copy_in(f),
        lambda: f.copy_in(array),
        lambda: f.__setitem__(slice(3), 1),
        lambda: f.__setitem__(slice(3), x[:3]),
        lambda: f.__setitem__(slice(0, 6, 2), x[:3]),
        lambda: f[::2].get(),
        lambda: f.reshape(10, -1).T.get(),
        lambda: f.array,
        lambda: f.event,
        lambda: f + 1,
        waiting.get,
        lambda: waiting.event,
        lambda: waiting * 2,
        lambda: waiting.T * 2,
        lambda: f @ f,
        f.copy,
        lambda: pydp.field(x),
        lambda: pydp.zeros(3),
        lambda: pydp.empty(300000),
        lambda: pydp.full(3, 1),
        lambda: pydp.zeros(3, device=device),
        pydp.devices,
        pydp.device,
        lambda: pydp.device(0),
        lambda: pydp.device("cpu"),
        lambda: pydp.device(device.cl),
        lambda: device.queue,
        lambda: device.context,
        lambda: pydp.forall(f.shape, bump, f),
        lambda: pydp.forall(array.shape, bump, array),
        lambda: pydp.forall(x.shape, bump, x),
        lambda: pydp.forall(f.shape, bump, f, device="host"),
        lambda: pydp.forall(x.shape, bump, x, device="host", wait_for=event),
        lambda: pydp.matmul(x, x),
        lambda: pydp.transpose(f.reshape(10, -1)),
        lambda: pydp.histogram(x),
        lambda: pydp.bincount(x.astype(int)),
        lambda: pydp.explain(pydp.sort, f),
        lambda: pydp.explain(pydp.scan, x),
        lambda: pydp.tune(pydp.scan, x),
    ]
    for name in ("sort", "argsort", "scan", "reduce"):
        for given in (x, f, array, np.arange(77, dtype=np.int16)):
            calls.append(lambda name=name, given=given: getattr(pydp, name)(given))
        for where in ({"device": device}, {"queue": own}, {"queue": device.queue}, {"wait_for": event}):
            calls.append(lambda name=name, where=where: getattr(pydp, name)(x, **where))

    def work() -> None:
        for call in calls:
            refused(call)
        with pydp.using(device):
            refused(lambda: pydp.sort(x))
        assert "100000" in repr(f) and f[::2].shape == (50000,) and device.name in repr(device)
        assert f.T.dtype == np.float32 and len(f) == x.size and device.profile is not None
        host_only()
        child(lambda: refused(f.get))

    child(work)
    child(work, sys.exit)
    assert np.array_equal(waiting.get(), want)
    right()
    assert f.get()[-1] == 100000


@way
def pending_work() -> None:
    import pyopencl as cl

    from pydp.runtime.memory import held_queues

    device = pydp.device()
    x = np.arange(70000, dtype=np.float32)
    gate = cl.UserEvent(device.context)
    f = pydp.field(x)
    g = pydp.field(x)
    pydp.forall(f.shape, bump, f, wait_for=gate)
    target = np.empty_like(x)
    events = [f.copy_out(target, blocking=False), g.copy_in(target, blocking=False)]
    mode = cl.command_queue_properties.OUT_OF_ORDER_EXEC_MODE_ENABLE
    loose = cl.CommandQueue(device.context, device.cl, properties=mode & device.cl.queue_properties)
    held = [pydp.sort(f), pydp.sort(f, queue=loose), f + 1, f.copy(), f.array, f[::2], [f]]
    held.append(held)  # a cycle

    def read_only() -> None:
        refused(f.get)
        refused(held[0].get)
        held_queues.has_ended = untouched  # type: ignore[assignment]
        refused(lambda: pydp.empty(300000, device=device))  # looks at what earlier calls have left

    def untouched(event: object) -> bool:
        raise AssertionError(f"{event} was looked at")

    def drop_all() -> None:
        nonlocal f, g, target
        f = g = target = None  # type: ignore[assignment]
        held.clear()
        gc.collect()

    def both() -> None:
        read_only()
        drop_all()
        events.clear()

    for work in (read_only, drop_all, both):
        for leave in (os._exit, sys.exit):
            child(work, leave)
    gate.set_status(cl.command_execution_status.COMPLETE)
    events[0].wait()
    assert f.get()[5] == 6 and g.get().size == x.size
    right()


@way
def before_the_first_use() -> None:
    for _ in range(2):
        child(right, sys.exit)
    right()
    child(lambda: refused(right), sys.exit)


@way
def while_another_thread_uses_opencl_first() -> None:
    from pydp.runtime import forks

    def use() -> None:
        late_hooks.clear()
        thread = threading.Thread(target=right)
        thread.start()
        thread.join()

    late_hooks.append(use)
    child(lambda: refused(right))
    assert not late_hooks and not forks.releases.forbidden and not forks.releases.kept
    right()
    child(lambda: refused(right))


@contextlib.contextmanager
def context_of_a_program() -> Iterator[cl.Context]:
    """A context of the lane's driver that pyopencl makes, without pydp."""
    import pyopencl as cl

    from pydp.runtime.device.quirks import driver_key
    from pydp.runtime.drivers.find import loader_variable, vendor_files

    with tempfile.TemporaryDirectory() as folder:
        if loader_variable() is None:  # the loader then finds what pydp finds, pip's drivers too
            for name, library in vendor_files().items():
                Path(folder, name).write_text(library)
            os.environ["OCL_ICD_VENDORS"] = folder
        warnings.simplefilter("ignore", cl.CompilerWarning)  # Intel's compiler says that it has vectorized
        wanted = os.environ.get("PYDP_DEVICE", "")
        platforms = [one for one in cl.get_platforms() if driver_key(one.name) == wanted] or cl.get_platforms()
        yield cl.Context(platforms[0].get_devices()[:1])


@way
def after_use_by_pyopencl_alone() -> None:
    import pyopencl as cl
    import pyopencl.array

    with context_of_a_program() as context:
        queue = cl.CommandQueue(context)
        assert (cl.array.to_device(queue, np.ones(70000, np.float32)) + 1).get()[5] == 2
        child(lambda: refused(right))
    right()


@way
def after_use_by_compat_alone() -> None:
    """pydp cannot see which drivers the loader has loaded, as on systems without /proc."""
    import pyopencl as cl
    import pyopencl.array

    from pydp.compat.pyopencl.elementwise import ElementwiseKernel
    from pydp.runtime import forks

    forks._driver_is_loaded = lambda: False
    with context_of_a_program() as context:
        queue = cl.CommandQueue(context)
        x = cl.array.zeros(queue, 1000, np.int32)
        add = ElementwiseKernel(context, "int *x", "x[i] += 1", "add")
        add(x)
        assert x.get()[5] == 1
        child(lambda: refused(right))
    right()


@way
def before_the_first_use_of_pydp() -> None:
    """A program that has imported pydp and has used pyopencl alone."""
    import pyopencl as cl

    assert "pydp.runtime.drivers.devices" not in sys.modules
    if os.environ.get("PYDP_DEVICE") != "intel":  # the loader finds no driver that pip has installed
        cl.get_platforms()
        child(lambda: refused(right))
    right()


@way
def calls_of_compat() -> None:
    import pyopencl as cl
    import pyopencl.array

    from pydp.compat.pyopencl.algorithm import KeyValueSorter, ListOfListsBuilder, RadixSort, copy_if, partition, unique
    from pydp.compat.pyopencl.array import cumsum
    from pydp.compat.pyopencl.array import sum as array_sum
    from pydp.compat.pyopencl.bitonic_sort import BitonicSort
    from pydp.compat.pyopencl.elementwise import ElementwiseKernel
    from pydp.compat.pyopencl.reduction import ReductionKernel
    from pydp.compat.pyopencl.scan import InclusiveScanKernel

    warnings.simplefilter("ignore", cl.CompilerWarning)  # Intel's compiler says that it has vectorized
    device = pydp.device()
    context, queue = device.context, device.queue
    generate = """//CL//
        void generate(LIST_ARG_DECL USER_ARG_DECL index_type i) { APPEND_found(i); }"""
    x = cl.array.to_device(queue, np.arange(1024, dtype=np.int32))
    keys, large = x.copy(), cl.array.zeros(queue, 1 << 17, np.int32)
    sorter = KeyValueSorter(context)
    add = ElementwiseKernel(context, "int *x", "x[i] += 1", "add")
    total = ReductionKernel(context, np.int32, "0", "a + b", "x[i]", "__global int *x")
    running = InclusiveScanKernel(context, np.int32, "a + b", "0")
    lists = ListOfListsBuilder(context, [("found", np.int32)], generate, [])
    radix = RadixSort(context, "int *x", "x[i]", ["x"], key_dtype=np.int32)
    calls: list[Callable[[], object]] = [
        lambda: add(x),
        lambda: total(x),
        lambda: running(x),
        lambda: running(x, "new"),
        lambda: running(large),
        lambda: copy_if(large, "ary[i] > 3"),
        lambda: radix(x, queue=queue),
        lambda: RadixSort(context, "int *x", "x[i]", ["x"], key_dtype=np.int32)(x, queue=queue),
        lambda: copy_if(x, "ary[i] > 3"),
        lambda: partition(x, "ary[i] > 3"),
        lambda: unique(x),
        lambda: lists(queue, 9),
        lambda: sorter(queue, keys, x, 1024, np.int32),
        lambda: BitonicSort(context)(x),
        lambda: array_sum(x),
        lambda: cumsum(x),
    ]
    for call in calls[: len(calls) if device.driver == "pocl" else 3]:  # these are warm
        call()
    assert x.get()[1] >= 2
    if device.driver == "intel":  # pyopencl's commands end in a child
        child(lambda: [call() for call in calls])
        return

    def work() -> None:
        def called(*args: object) -> None:
            raise AssertionError("this takes locks of the driver, which another thread may have held at the fork")

        for name in ("Buffer", "Program"):
            setattr(cl, name, called)
        cl.CommandQueue.context = property(called)
        for call in calls:
            refused(call)

    child(work)


@way
def multiprocessing_pool() -> None:
    right()
    with multiprocessing.get_context("fork").Pool(2) as pool:
        pool.apply(host_only)
        raised = [pool.apply_async(right) for _ in range(4)]
        for one in raised:
            refused(lambda one=one: one.get(SECONDS))
        pool.close()
        pool.join()
    with multiprocessing.get_context("spawn").Pool(1) as pool:
        pool.apply_async(right).get(SECONDS)
        pool.close()
        pool.join()
    right()


@way
def beside_calls_of_another_thread() -> None:
    f = pydp.field(np.arange(70000, dtype=np.float32))
    stop = threading.Event()
    running = threading.Event()
    failed = []

    def calls() -> None:
        try:
            while not stop.is_set():
                g = f + 1
                running.set()
                assert pydp.sort(g).get()[0] == 1
        except BaseException as error:
            failed.append(error)

    threads = [threading.Thread(target=calls) for _ in range(2)]
    for thread in threads:
        thread.start()
    running.wait()
    held = [f + 1 for _ in range(20)]

    def work() -> None:
        refused(f.get)
        held.clear()
        gc.collect()

    try:
        for turn in range(6):
            child(work, os._exit if turn % 2 == 0 else sys.exit)
    finally:
        stop.set()
        for thread in threads:
            thread.join()
    assert not failed, failed
    right()


@way
def locks_of_another_thread() -> None:
    from pydp.runtime import forks
    from pydp.runtime.memory import scratch
    from pydp.runtime.memory.storage import Storage

    right()  # leaves buffers for the next call, which takes a pool's lock to return them
    device = pydp.device()
    own = threading.local()
    locked, done = threading.Event(), threading.Event()

    def hold() -> None:
        own.field = pydp.field(np.ones(3))  # dropped in the child, before its hooks run
        gc.collect()
        locks = [getattr(one, "_lock", one) for one in forks._locks]
        taken = [*locks, scratch.pool_of(device.queue).lock]
        for lock in taken:
            lock.acquire()
        locked.set()
        done.wait()
        for lock in taken:
            lock.release()

    def work() -> None:
        assert any(isinstance(one, Storage) for one in forks.releases.kept)
        refused(lambda: pydp.empty(300000, device=device))
        host_only()

    thread = threading.Thread(target=hold)
    thread.start()
    locked.wait()
    try:
        child(work, sys.exit)
    finally:
        done.set()
        thread.join()
    right()


@way
def locks_of_rendering_and_files() -> None:
    """The child of a process without a driver renders and keeps files; another thread holds the locks."""
    from pydp.runtime import forks
    from pydp.runtime.programs import disk_bound, template

    locked, done = threading.Event(), threading.Event()

    def hold() -> None:
        with template._lookup()._mutex, disk_bound._lock:
            locked.set()
            done.wait()

    def work() -> None:
        assert not forks._lost
        assert template.render("offline_functions.mako", {"vendor": "amd"})
        disk_bound.written(Path(folder, "failed", "file"), 1)

    thread = threading.Thread(target=hold)
    thread.start()
    locked.wait()
    try:
        with tempfile.TemporaryDirectory() as folder:
            Path(folder, "failed").mkdir()
            child(work)
    finally:
        done.set()
        thread.join()


def interrupted() -> None:
    from pydp.runtime import forks

    raised = []
    sys.unraisablehook = lambda found: raised.append(found.exc_type)
    signal.signal(signal.SIGINT, signal.default_int_handler)
    child(lambda: None)
    assert KeyboardInterrupt in raised and not forks.releases.forbidden, (raised, forks.releases.forbidden)


@way
def interrupts_before_the_fork() -> None:
    interrupted()


@way
def interrupts_after_the_fork() -> None:
    interrupted()


@way
def during_the_first_import_of_another_thread() -> None:
    f = pydp.field(np.arange(1000, dtype=np.int32))
    f.get()
    assert "sort" not in vars(pydp)
    started, failed = threading.Event(), []

    def first() -> None:
        started.set()
        try:
            assert pydp.sort(f).get()[-1] == 999
        except BaseException as error:
            failed.append(error)

    thread = threading.Thread(target=first)
    thread.start()
    started.wait()
    for _ in range(3):
        time.sleep(0.005)  # within the import, or before or after it
        child(lambda: refused(lambda: pydp.sort(f)))
    thread.join()
    assert not failed, failed


@way
def values_that_another_thread_makes() -> None:
    from pydp.runtime import bounded

    bounded._PATIENCE = 10 * SECONDS
    cache = bounded.BoundedCache(3)
    making, done = threading.Event(), threading.Event()

    def make() -> int:
        making.set()
        done.wait()
        return 1

    thread = threading.Thread(target=cache.make, args=("key", make))
    thread.start()
    making.wait()

    def work() -> None:
        assert cache.make("key", lambda: 2) == 2 and cache.find("key") == 2

    try:
        child(work)
    finally:
        done.set()
        thread.join()
    assert cache.find("key") == 1


@way
def objects_of_the_caller() -> None:
    """Nothing of pyopencl is released when the child's interpreter ends."""
    import pyopencl as cl

    from pydp.runtime import forks

    context = cl.Context([pydp.device().cl])
    queue = cl.CommandQueue(context)
    objects = [context, queue, cl.Buffer(context, cl.mem_flags.READ_WRITE, 8), cl.enqueue_marker(queue)]
    parent = os.getpid()

    def check() -> None:  # runs after pydp's function, which the child registers later
        kept = set(map(id, forks.releases.kept))
        if os.getpid() != parent and not kept.issuperset(map(id, objects)):
            os._exit(1)

    atexit.register(check)
    child(lambda: None, sys.exit)


if __name__ == "__main__":
    warnings.filterwarnings("ignore", ".*fork", DeprecationWarning)  # Python 3.12 warns where threads exist
    WAYS[sys.argv[1]]()
