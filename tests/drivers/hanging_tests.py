"""Tests that never end, or crash, for test_watch.py: each in a pytest of its own."""

from __future__ import annotations

import ctypes
import faulthandler
import os
import signal
import time
from pathlib import Path
from typing import Any

import needs
import numpy as np
import pyopencl as cl
import pytest

import pydp
from pydp.runtime.programs.program import kernel
from pydp.runtime.programs.template import add_folder

add_folder(Path(__file__).parent)
pytestmark = pytest.mark.timeout(1, func_only=True)  # compilers may take as long as they like


@pytest.fixture(autouse=True)
def endless() -> Any:
    """A kernel that is built, and another one that has run."""
    made = kernel(pydp.device(), "endless.mako", "endless", {"seeded": "on purpose"})
    pydp.scan(np.arange(100, dtype=np.int16), "max", spec={"part": 37})
    return made


def test_sleeps() -> None:
    time.sleep(1000)


def test_sleeps_and_keeps_the_interpreter() -> None:
    ctypes.PyDLL(None).sleep(1000)


def test_is_stopped() -> None:
    os.kill(os.getpid(), signal.SIGSTOP)


def test_disarms_what_watches_inside() -> None:
    faulthandler.cancel_dump_traceback_later()
    ctypes.PyDLL(None).sleep(1000)


def test_crashes() -> None:
    os.abort()


def test_leaves_with_status_0() -> None:
    os._exit(0)


def test_a_kernel_never_ends(endless: Any) -> None:
    device = pydp.device()
    needs.endless_loops(device)
    flags = cl.mem_flags.READ_WRITE | cl.mem_flags.COPY_HOST_PTR
    flag = cl.Buffer(device.context, flags, hostbuf=np.zeros(1, np.int32))
    endless.enqueue(device.queue, (1,), (1,), [flag]).wait()


def test_fails() -> None:
    raise AssertionError
