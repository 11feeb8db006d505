"""Faults of drivers that all kernels avoid: the results are right where such a fault would show."""

from __future__ import annotations

import functools
import json
import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pyopencl as cl
import pytest

import pydp
from pydp import group_barrier, local_field, private_field
from pydp.errors import UnsupportedOnDevice
from pydp.runtime.device.quirks import quirks_of
from pydp.runtime.programs import template
from pydp.runtime.programs.program import kernel

HERE = Path(__file__).parent
RECORD = np.dtype([("key", np.int32), ("value", np.float32)])


def reversed_groups(idx, y, x):
    tile = local_field(np.int32, 8)
    tile[idx.local[0]] = x[idx[0]]
    group_barrier()
    y[idx[0]] = tile[7 - idx.local[0]]


@pytest.mark.oclgrind
@pytest.mark.parametrize("n", [1, 7, 9, 13])
def test_the_last_work_group_of_a_range_is_whole(device, n):
    x, y = np.arange(1, n + 1, dtype=np.int32), np.zeros(n, np.int32)
    pydp.forall(n, reversed_groups, y, x, group=8, spec={"mapping": "simt"})
    padded = np.zeros(-(-n // 8) * 8, np.int32)
    padded[:n] = x
    np.testing.assert_array_equal(y, padded.reshape(-1, 8)[:, ::-1].ravel()[:n])


def rotated(idx, y, counts, n):
    """Barriers in a loop with a 64-bit counter, whose trip count is an argument or a value of an array."""
    tile = local_field(np.int32, 8)
    lane = idx.local[0]
    value = y[idx[0]]
    for i in range(n if n else counts[0]):
        tile[lane] = value + np.int32(i)
        group_barrier()
        value = tile[(lane + 1) % 8]
        group_barrier()
    y[idx[0]] = value


@pytest.mark.oclgrind
@pytest.mark.parametrize("n", [3, 0])
def test_barriers_in_loops_with_uniform_trip_counts(device, n):
    counts, y = np.array([4], np.int64), np.arange(16, dtype=np.int32)
    want = y.reshape(2, 8)
    for i in range(n or 4):
        want = np.roll(want + i, -1, axis=1)
    try:
        pydp.forall(16, rotated, y, counts, np.int64(n), group=8, spec={"mapping": "simt"})
    except UnsupportedOnDevice:
        assert not device.profile.barriers_under_conditions
        np.testing.assert_array_equal(y, np.arange(16))
    else:
        np.testing.assert_array_equal(y, want.ravel())


def last_of_one(idx, y, x, n):
    held = private_field(1, dtype=RECORD)
    held[0].key = 0
    held[0].value = 0
    for i in range(n):
        held[0].key = held[0].key * 2 + x[idx[0]].key
        held[0].value = held[0].value + x[(idx[0] + i) % n].value
    y[idx[0]] = held[0]


@pytest.mark.oclgrind
def test_loops_over_private_arrays_of_one_record(device):
    x, y = np.zeros(5, RECORD), np.zeros(5, RECORD)
    x["key"], x["value"] = np.arange(5), np.arange(5) / 2
    pydp.forall(5, last_of_one, y, x, 5, spec={"mapping": "simt"})
    np.testing.assert_array_equal(y["key"], 31 * x["key"])
    np.testing.assert_array_equal(y["value"], np.full(5, x["value"].sum()))
    spec = {"items": 1, "lanes": 4}
    total = pydp.reduce(x, {"key": "a.key + b.key", "value": "max(a.value, b.value)"}, spec=spec)
    assert total["key"] == 10 and total["value"] == 2


def unsigned_order(idx, y, n):
    i = np.uint32(idx[0])
    y[idx[0], 0] = i < np.uint32(n)
    y[idx[0], 1] = i - np.uint32(5) < np.uint32(n)
    y[idx[0], 2] = np.uint32(idx.local[0]) - np.uint32(1) > np.uint32(n)


@pytest.mark.oclgrind
def test_unsigned_comparisons_with_indexes(device):
    y, i, lane = np.zeros((40, 3), np.int32), np.arange(40, dtype=np.uint32), np.arange(40, dtype=np.uint32) % 8
    pydp.forall(40, unsigned_order, y, 9, group=8, spec={"mapping": "simt"})
    want = np.stack([i < 9, i - np.uint32(5) < 9, lane - np.uint32(1) > 9], axis=1)
    np.testing.assert_array_equal(y, want.astype(np.int32))


def divided(idx, y, x):
    i = idx[0]
    y[i, 0] = x[i, 0] // x[i, 1]
    y[i, 1] = x[i, 0] % x[i, 1]


@pytest.mark.oclgrind
@pytest.mark.parametrize("dtype", [np.int8, np.int32, np.uint32, np.int64])
def test_division_and_remainder(device, dtype):
    x = np.array([(a, b) for a in (100, 7, 0) for b in (1, 3, 100)], dtype)
    y = np.zeros_like(x)
    pydp.forall(len(x), divided, y, x, spec={"mapping": "simt"})
    np.testing.assert_array_equal(y, np.stack(np.divmod(x[:, 0], x[:, 1]), axis=1))


def extremes(idx, y, x):
    i = idx[0]
    y[i, 0] = max(x[i, 0], ~x[i, 1])
    y[i, 1] = min(~x[i, 0], ~x[i, 1])
    y[i, 2] = max(x[i, 0] - 1 - x[i, 1], x[i, 0])
    if -1 - x[i, 0] > x[i, 1]:
        y[i, 3] = x[i, 1] ^ -1
    else:
        y[i, 3] = x[i, 0]


@pytest.mark.oclgrind
@pytest.mark.parametrize("dtype", [np.int32, np.int64])
@pytest.mark.parametrize("spec", [{"mapping": "simt"}, {}])
def test_complements_and_extremes(device, dtype, spec):
    some = np.array([0, 1, -1, 5, -7, 100, np.iinfo(dtype).max // 3, np.iinfo(dtype).min // 3, 9, -12, 3, 2, 1], dtype)
    x = np.stack([some, some[::-1] * 2 // 3], axis=1)
    y = np.zeros((len(x), 4), dtype)
    pydp.forall(len(x), extremes, y, x, spec=spec)
    a, b = x.T
    want = [np.maximum(a, ~b), np.minimum(~a, ~b), np.maximum(a - 1 - b, a), np.where(~a > b, ~b, a)]
    np.testing.assert_array_equal(y, np.stack(want, axis=1))


@pytest.mark.parametrize("dtype", [np.int8, np.int32, np.uint32, np.int64, np.uint64])
def test_complements_and_extremes_of_operators(device, dtype):
    ends = np.iinfo(dtype)
    a = np.array([0, 1, ends.min, ends.max, 5, 3, 7], dtype)
    b = a[::-1].copy()
    np.testing.assert_array_equal(pydp.evaluate("max(a, ~b)", a=a, b=b), np.maximum(a, ~b))
    np.testing.assert_array_equal(pydp.evaluate("a > ~b ? ~b : ~a", a=a, b=b), np.where(a > ~b, ~b, ~a))
    np.testing.assert_array_equal(pydp.evaluate("min(a - 1 - b, a)", a=a, b=b), np.minimum(a - dtype(1) - b, a))
    assert pydp.reduce(a, "~min(~a, ~b)") == max(a)
    np.testing.assert_array_equal(pydp.scan(a, "~max(~a, ~b)"), np.minimum.accumulate(a))
    np.testing.assert_array_equal(np.asarray(~pydp.field(a) < b), ~a < b)


_BEFORE = """
import json, os, sys
import numpy as np
import pyopencl as cl
import pyopencl.array
from pydp.runtime.device.quirks import state_before_use
from pydp.runtime.drivers.find import raw_devices
platform, device = next(one for one in raw_devices() if one[0].name == sys.argv[1] and one[1].name == sys.argv[2])
context = cl.Context([device])
queue = cl.CommandQueue(context)
os.environ.update(json.loads(sys.argv[3]))  # too late for the driver
state_before_use.cache_clear()  # as if pydp had not asked for the drivers
import pydp
x = cl.array.to_device(queue, np.arange(-9, 9, dtype=np.int32))
evaluated = pydp.evaluate("max(x, ~x)", x=x)
y = cl.array.zeros(queue, 18, np.int32)

def larger(idx, y, x):
    y[idx[0]] = max(x[idx[0]], ~x[idx[0]])

pydp.forall(18, larger, y, x, group=1, spec={"mapping": "simt"})
from pydp.compat.pyopencl.devices import device_quirks
options = [pydp.device(device).profile.build_options, device_quirks(device).build_options]
print(json.dumps([evaluated.get().tolist(), y.get().tolist(), options]))
"""


@pytest.mark.sweep
@pytest.mark.parametrize("set_too_late", [False, True])
def test_complements_in_a_context_made_before_pydp_was_used(device, tmp_path, set_too_late):
    environment = {**os.environ, "PYDP_CACHE_DIR": str(tmp_path), "PYOPENCL_NO_CACHE": "1"}
    for name in device.quirks.environment:
        environment.pop(name, None)
    program = tmp_path / "before.py"  # a file: pydp reads the source of `larger`
    program.write_text(_BEFORE)
    late = json.dumps(dict(device.quirks.environment) if set_too_late else {})
    command = [sys.executable, str(program), device.cl.platform.name, device.cl.name, late]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=300, check=True)
    x = np.arange(-9, 9)
    *found, options = json.loads(done.stdout.splitlines()[-1])
    assert found == [np.maximum(x, ~x).tolist()] * 2
    if device.quirks.parsed_once:  # the cache keeps programs of such a process apart
        assert all(device.quirks.parsed_once[1] not in one for one in options)


@pytest.mark.parametrize(
    ("operator", "reference"),
    [
        ("max((1 == max(a != 0, a)) - (b * a == b), a)", lambda a, b: max((max(a != 0, a) == 1) - (b * a == b), a)),
        (
            "max((0 < (1 == max((a || a), a))) - ((min(b, b - 2) + b * (1 + a)) == b), a)",
            lambda a, b: max((max(a != 0, a) == 1) - (b - 2 + b * (1 + a) == b), a),
        ),
    ],
    ids=["difference", "nested"],
)
def test_reductions_of_comparisons_and_extremes_compile(device, tmp_path, operator, reference):
    """A crash of the compiler ends the process, so this is one of its own. The operators are not associative: only the
    value of a few elements, which are combined from left to right, is known."""
    code = (
        "import sys, numpy as np, pydp; print(pydp.reduce(np.arange(1, 9, dtype=np.int32), sys.argv[1], init=0, "
        "device=next(one for one in pydp.devices() if one.uid == sys.argv[2])))"
    )
    done = subprocess.run(
        [sys.executable, "-c", code, operator, device.uid],
        env={**os.environ, "PYDP_CACHE_DIR": str(tmp_path), "PYOPENCL_NO_CACHE": "1"},
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )
    assert done.returncode == 0, done.stderr[-500:]
    assert int(done.stdout) == reference(0, functools.reduce(reference, range(1, 9)))


def test_kernels_run_in_groups_of_the_size_that_they_report(device):
    template.add_folder(HERE)
    params = {"T": "int", "add": 1, "fail": False}
    fill = kernel(device, "program.mako", "fill", params)
    size = fill.max_group_size
    assert size >= min(64, device.profile.max_group_size)
    after = np.zeros(size, np.int32)
    buffer = cl.Buffer(device.context, cl.mem_flags.COPY_HOST_PTR, hostbuf=after)
    fill.enqueue(device.queue, (size,), (size,), [buffer, np.int32(1), np.int64(0)])
    cl.enqueue_copy(device.queue, after, buffer)
    assert (after == 2).all()


@pytest.mark.host
def test_properties_that_the_table_states():
    gpu = quirks_of("Intel(R) OpenCL Graphics", "Xe", "2026", "gpu")
    assert gpu.subgroup_sizes == (8, 16, 32)
    assert quirks_of("NVIDIA CUDA", "H200", "550", "gpu").keeps_own_binaries
    assert quirks_of("Portable Computing Language", "cpu", "3.1", "cpu").keeps_own_binaries
    grind = quirks_of("Oclgrind", "Oclgrind Simulator", "21.10", "cpu")
    assert (grind.is_simulator, grind.fma_fast, grind.binaries_usable) == (True, False, False)
    assert quirks_of("rusticl", "llvmpipe (256 bits)", "22.3", "cpu").fma_fast is False


def powers(idx, out, x, y):
    out[idx] = x[idx] ** y[idx]


@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_powers_of_vectors(device, dtype):
    """Zeros, infinities and subnormal numbers beside others."""
    if dtype == "float64" and not device.profile.fp64:
        pytest.skip("the device has no double")
    rng = np.random.default_rng(0)
    tiny = np.finfo(dtype).tiny / (4 if device.profile.denormals else 1)
    x = np.where(rng.random(4096) < 0.3, rng.choice([0, 1e-5, np.inf, tiny, 2], 4096), rng.random(4096) * 9).astype(
        dtype
    )
    y = rng.choice([0.5, 2, 3, -1.5, 0.1], 4096).astype(dtype)
    with np.errstate(all="ignore"):
        want = x**y
    out = np.zeros_like(x)
    pydp.forall(x.size, powers, out, x, y, device=device)
    close = {"rtol": 100 * np.finfo(dtype).eps}
    np.testing.assert_allclose(out, want, **close)
    np.testing.assert_allclose(pydp.evaluate("power(x, y)", x=x, y=y, device=device), want, **close)
    x[np.isinf(x)] = 0
    for order in (3, 0.5):
        np.testing.assert_allclose(
            pydp.norm(x, ord=order, device=device), np.linalg.norm(x.astype("f8"), order), rtol=1e-5
        )
