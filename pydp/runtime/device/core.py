"""The part of a device that building and launching kernels needs: names, context, queue, profile and caches."""

from __future__ import annotations

import contextlib
import hashlib
import os
import threading
from collections import deque
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any
from weakref import WeakSet

from pydp.runtime import forks
from pydp.runtime.bounded import BoundedCache
from pydp.runtime.device.completion import complete_at_exit
from pydp.runtime.device.profile import Profile, read_profile
from pydp.runtime.device.quirks import driver_key, quirks_of

if TYPE_CHECKING:
    import pyopencl as cl

_made: WeakSet[DeviceCore] = WeakSet()


# A program uses 0.2 MB (PoCL) to several MB (Intel) in the driver. Kernels hold programs and plans hold kernels; both
# are evicted if there are too many programs (pydp.runtime.programs.program). A plan or a choice takes a few kilobytes.
MOST_PROGRAMS = 128
_MOST_KERNELS = 512
_MOST_PLANS = 2048
_MOST_CHOICES = 1024
_MOST_RECORDINGS = 512


class DeviceCore:
    """One OpenCL device, as needed to build and run kernels. `drivers.devices.Device` adds the probe."""

    is_target = False  # whether kernels are only compiled, not run; see pydp.offline.target

    def __init__(self, cl_device: cl.Device, context: cl.Context | None = None) -> None:
        self.cl = cl_device
        self.name = cl_device.name.strip(" \0")
        self.vendor = cl_device.vendor.strip(" \0")
        self.platform = cl_device.platform.name.strip(" \0")
        self.driver_version = cl_device.driver_version.strip(" \0")
        self.driver = driver_key(self.platform)
        self.kind = _kind(cl_device, self.driver)
        self.quirks = quirks_of(self.platform, self.name, self.driver_version, self.kind).with_late_variables()
        self.quirks.set_variables(os.environ)  # before the driver compiles anything
        versions = (cl_device.platform.version, self.driver_version, cl_device.version)
        identity = "\n".join((self.platform, self.name, *versions))
        self.uid = f"{self.driver}-{hashlib.sha256(identity.encode()).hexdigest()[:16]}"
        self._keep_nothing()
        self._context = context
        self._queue: cl.CommandQueue | None = None
        self._profile: Profile | None = None
        self._lock = threading.RLock()
        _made.add(self)

    def _keep_nothing(self) -> None:
        """Create empty caches. No entry refers to the device, so the driver's memory is freed together with it."""
        self.facts: dict[str, Any] = {}  # by name
        self.choices = BoundedCache(_MOST_CHOICES)
        self.plans = BoundedCache(_MOST_PLANS)  # plans of calls; the key holds everything that a plan depends on
        self.recordings = BoundedCache(_MOST_RECORDINGS)  # of calls, to repeat them; see pydp.runtime.recording
        self.seen_calls: set[int] = set()  # hashes of the keys of calls that will be recorded if they are repeated
        self.kernels = BoundedCache(_MOST_KERNELS, weak=True)
        self.programs = BoundedCache(0, weak=True)  # programs of the kernels in use, by content
        self.launched: list[Any] = [None]  # the last launch: kernel and sizes; kernels set it
        self.lazy: deque[Any] = deque()  # weak references to results to be started; see pydp.runtime.field.fusion
        self.lazy_needed: deque[Any] = deque()  # to results that are not started, because others need them

    @property
    def profile(self) -> Profile:
        """The properties of the device; see :class:`pydp.runtime.device.profile.Profile`."""
        if self._profile is None:
            forks.raise_if_lost()
            with self._lock:
                if self._profile is None:
                    self._profile = read_profile(self.cl, self.kind, self.quirks)
        return self._profile

    @property
    def context(self) -> cl.Context:
        """The pyopencl context of this device, created on first use."""
        if self._context is None:
            forks.raise_if_lost()
            with self._lock:
                if self._context is None:
                    import pyopencl as cl

                    made = cl.Context([self.cl])
                    if self._context is None:  # else a finalizer has made one meanwhile and uses it
                        self._context = made
        return self._context

    @property
    def queue(self) -> cl.CommandQueue:
        """The in-order queue for calls without ``queue=``. Reading it starts the computation of all results of
        operators of Fields that are not computed yet, so that ``device.queue.finish()`` waits for them, too."""
        if self.lazy:
            self.start_lazy()
        return self._own_queue()

    def _own_queue(self) -> cl.CommandQueue:
        if self._queue is None:
            forks.raise_if_lost()
            with self._lock:
                if self._queue is None:
                    import pyopencl as cl

                    made = cl.CommandQueue(self.context, self.cl)
                    complete_at_exit(made)
                    if self._queue is None:  # else a finalizer has made one meanwhile and uses it
                        self._queue = made
        return self._queue

    def start_lazy(self) -> None:
        """Start the computation of results of operators, in the order of the operators. An error is raised when the
        result is used."""
        with contextlib.suppress(IndexError):  # another thread may take the last one
            while self.lazy:
                step = self.lazy.popleft()()
                if step is not None:
                    step.start()

    def unbuilt(
        self, template: str, name: str, params: Mapping[str, object], source: str, options: Sequence[str]
    ) -> Any:
        """A substitute for a rendered kernel that is not built; None except for offline targets."""
        return None

    def __repr__(self) -> str:
        return f"<pydp.Device {self.name!r} ({self.kind}) on {self.platform!r} {self.driver_version}>"

    def _texts(self) -> str:
        return f"{self.name}\n{self.platform}\n{self.vendor}\n{self.driver}".lower()


@forks.on_loss
def _take_drivers_away() -> None:
    """Make every device raise at the next call. A warm call reads only `queue`, so that is cleared too."""
    for device in list(_made):
        forks.releases.kept.append(dict(vars(device)))
        device._context = device._queue = None
        device.lazy.clear()
        device.lazy_needed.clear()


def _kind(cl_device: cl.Device, driver: str) -> str:
    import pyopencl as cl

    if driver == "oclgrind":  # reports every device type; it runs work-groups as a GPU does
        return "accelerator"
    if cl_device.type & cl.device_type.GPU:
        return "gpu"
    return "cpu" if cl_device.type & cl.device_type.CPU else "accelerator"
