"""Calls of pydp.compat.pyopencl that run pydp's algorithms: which ones, and their values against NumPy."""

from __future__ import annotations

import needs
import numpy as np
import pyopencl as cl
import pyopencl.array as cl_array
import pytest

import pydp
from pydp.compat.pyopencl import direct
from pydp.compat.pyopencl.algorithm import copy_if, partition, remove_if, unique
from pydp.compat.pyopencl.bitonic_sort import BitonicSort
from pydp.compat.pyopencl.scan import GenericScanKernel, InclusiveScanKernel


@pytest.fixture(autouse=True)
def _short_arrays_too(monkeypatch):
    monkeypatch.setattr(direct, "_FEWEST", 1)


@pytest.fixture
def texts_run(monkeypatch):
    """The calls that run the caller's C text."""
    calls = []
    plain = GenericScanKernel.__call__

    def counted(self, *args, **named):
        calls.append(self)
        return plain(self, *args, **named)

    monkeypatch.setattr(GenericScanKernel, "__call__", counted)
    return calls


@pytest.mark.oclgrind
@pytest.mark.parametrize(("op", "ufunc"), [("a+b", np.add), ("max(a, b)", np.maximum)])
def test_scans(device, texts_run, op, ufunc):
    x = np.random.default_rng(0).integers(-50, 50, 700).astype(np.int32)
    scan = InclusiveScanKernel(device.context, np.int32, op, neutral="0" if op == "a+b" else "INT_MIN")
    array = cl_array.to_device(device.queue, x)
    made = scan(array, "new")
    assert made.events and np.array_equal(made.get(), ufunc.accumulate(x)) and np.array_equal(array.get(), x)
    scan(array[100:])  # in place, inside its buffer
    assert np.array_equal(array.get(), np.concatenate([x[:100], ufunc.accumulate(x[100:])]))
    array, made = cl_array.to_device(device.queue, x), cl_array.empty(device.queue, x.shape, x.dtype)
    scan(array, made, queue=cl.CommandQueue(device.context))
    assert np.array_equal(made.get(), ufunc.accumulate(x))
    assert not texts_run
    bits = cl_array.to_device(device.queue, x.view(np.uint32))
    assert np.array_equal(scan(bits, "new").get().view(np.int32), ufunc.accumulate(x))
    assert texts_run


def test_scans_of_the_callers_text(device, texts_run):
    x = np.arange(100, dtype=np.int32)
    cases = [({"preamble": "#define a (100 + a)"}, "b"), ({"options": ["-DN_OF_CALLER=1"]}, "a+b")]
    cases += [({}, "b + a + 0")]
    cases += [({}, "(a)+(int)(b*1.0)")] * needs.has(device, np.dtype(np.float64))
    for options, text in cases:
        array = cl_array.to_device(device.queue, x)
        InclusiveScanKernel(device.context, np.int32, text, neutral="0", **options)(array)
        assert np.array_equal(array.get(), x if text == "b" else np.cumsum(x)), text
        assert texts_run.pop() and not texts_run


def test_scans_start_with_the_neutral_element(device, texts_run):
    x = np.full(100, -3, np.int32)
    for op, neutral, expected in (("max(a,b)", "0", 0 * x), ("a+b", "5", 5 + np.cumsum(x)), ("a|b", "0", x)):
        array = cl_array.to_device(device.queue, x)
        InclusiveScanKernel(device.context, np.int32, op, neutral=neutral)(array)
        assert np.array_equal(array.get(), expected), op
    assert len(texts_run) == 2


@pytest.mark.parametrize("op", ["max(a,b)", "fmax(a, b)"])
def test_scans_of_nan_compare_as_in_c(device, texts_run, op):
    x = np.arange(100, dtype=np.float32)
    x[30] = np.nan
    array = cl_array.to_device(device.queue, x)
    got = InclusiveScanKernel(device.context, np.float32, op, neutral="-INFINITY")(array).get()
    assert texts_run  # NumPy's maximum and pydp's propagate NaN
    assert "fmax" not in op or np.array_equal(got[31:], x[31:])  # max of NaN depends on the device


@pytest.mark.host
def test_which_neutral_elements_are_identities() -> None:
    i4, u4, i8, f4 = map(np.dtype, ("i4", "u4", "i8", "f4"))
    limit = np.iinfo(i4)
    for text, identity, dtype in (
        *((zero, 0, dtype) for zero in ("0", " (0)", "0u", "0L", "0.0f", "0x0", "-0") for dtype in (i4, u4, i8, f4)),
        *(("-1", np.int32(-1), i4), ("0xFFFFFFFF", -1, i4), ("~0", 0xFFFFFFFF, u4), ("1e0f", f4.type(1), f4)),
        *(("INT_MIN", limit.min, i4), ("-2147483648", limit.min, i4), ("LONG_MAX", np.iinfo(i8).max, i8)),
    ):
        assert direct._is_identity(text, identity, dtype), (text, identity, dtype)
    for text, identity, dtype in (
        *((other, 0, dtype) for other in ("1", "x", "0 + 0", "(0) + (0)", "00", "", "()") for dtype in (i4, f4)),
        *(("0xFFFFFFFF", -1, i8), ("-1u", -1, i8), ("-0x1", -1, i8), ("2147483647.0f", limit.max, i4)),
    ):
        assert not direct._is_identity(text, identity, dtype), (text, identity, dtype)


@pytest.mark.oclgrind
def test_selections(device, texts_run):
    x = np.random.default_rng(0).integers(-50, 50, 700).astype(np.int32)
    array = cl_array.to_device(device.queue, x)
    start = cl.UserEvent(device.context)
    for call, kept in ((copy_if, x % 3 == 1), (remove_if, x % 3 != 1)):
        out, count, event = call(array, "ary[i] % 3 == 1 || ary [ i ] % 3 == -2", wait_for=[start])
        start.set_status(cl.command_execution_status.COMPLETE) if call is copy_if else None
        event.wait()
        assert out.shape == x.shape and count.shape == () and count.dtype == np.uint32
        kept = kept | (x % 3 == -2) if call is copy_if else kept & (x % 3 != -2)
        assert int(count.get()) == kept.sum() and np.array_equal(out.get()[: kept.sum()], x[kept])
    out, count, _ = copy_if(array[5:], "ary[i] > 7 && !(ary[i] & 1)", queue=device.queue)
    expected = x[5:][(x[5:] > 7) & (x[5:] & 1 == 0)]
    assert np.array_equal(out.get()[: int(count.get())], expected)
    other = cl.CommandQueue(device.context)
    out, count, event = copy_if(array, "ary[i] > 7", queue=other)
    assert out.queue == array.queue and event in out.events and event in count.events
    assert np.array_equal(out.get()[: int(count.get())], x[x > 7])
    assert not texts_run


@pytest.mark.parametrize("call", [copy_if, remove_if, partition, unique])
def test_selections_keep_the_class_of_arrays(device, call):
    class Mine(cl_array.Array):
        pass

    x = np.arange(100, dtype=np.int32)
    array = Mine(device.queue, x.shape, x.dtype)
    array.set(x)
    made = call(array, "a == b" if call is unique else "ary[i] > 3")
    assert {type(one) for one in made[:-1]} == {Mine}
    assert int(made[-2].get()) == {copy_if: 96, remove_if: 4, partition: 96, unique: 100}[call]


def test_a_scan_of_a_subclass_with_another_input(device):
    class Doubled(InclusiveScanKernel):
        def finish_setup(self):
            self.input_expr = "2 * input_ary[i]"
            super().finish_setup()

    x = np.arange(100, dtype=np.int32)
    got = Doubled(device.context, np.int32, "a+b", "0")(cl_array.to_device(device.queue, x), "new")
    assert np.array_equal(got.get(), 2 * np.cumsum(x))


@pytest.mark.parametrize(
    "predicate",
    ["i % 2 == 0", "ary[i + 1 - 1] > 3", "ary[i] > 3 && ary[0] < 100", "max(ary[i], 0.f) > 3", "ary[i] > 2.5"],
)
def test_selections_by_the_callers_text(device, texts_run, predicate):
    if "2.5" in predicate:
        needs.dtype(device, np.float64)
    x = np.arange(-20, 20, dtype=np.float32)
    kept = {"i": np.arange(40) % 2 == 0, "2": x > 2.5}.get(
        predicate[0] if predicate[0] == "i" else predicate[-3], x > 3
    )
    out, count, _ = copy_if(cl_array.to_device(device.queue, x), predicate)
    assert np.array_equal(out.get()[: int(count.get())], x[kept])
    assert len(texts_run) == 1


def test_a_float_is_compared_with_a_double_as_in_c(device):
    needs.dtype(device, np.float64)
    x = np.full(100, 0.1, np.float32)  # above 0.1 in float64
    assert int(copy_if(cl_array.to_device(device.queue, x), "ary[i] > 0.1")[1].get()) == 100
    assert int(copy_if(cl_array.to_device(device.queue, x), "ary[i] > 0.1f")[1].get()) == 0
    assert not direct._differs("x > 1.5f && x < 2e3f || x > 7 && x < .5F || x == 0xe", np.dtype("f4"))
    for text in ("x > 1.5", "1e3 < x", "x < 1.", "x > .5 + 1.0f", "x > 1.5e-3"):
        assert direct._differs(text, np.dtype("f4")) and not direct._differs(text, np.dtype("f8"))


def test_arrays_in_shared_virtual_memory(device):
    """pydp's algorithms refuse them with one sentence, so the kernels of the caller's text, or pyopencl's, run."""
    needs.endless_loops(device)
    try:
        fine = device.cl.svm_capabilities & cl.device_svm_capabilities.FINE_GRAIN_BUFFER
    except (cl.Error, AttributeError):
        fine = 0
    if not fine:
        pytest.skip("the device has no fine-grained shared virtual memory")
    context, queue = device.context, device.queue
    allocator = cl.tools.SVMAllocator(context, alignment=0, queue=queue)
    x = np.random.default_rng(0).permutation(1024).astype(np.int32)
    array = cl_array.to_device(queue, x, allocator=allocator)
    with pytest.raises(pydp.InvalidArgument, match=r"memory in a pyopencl\.Buffer is accepted"):
        pydp.sort(array)
    kept, count, _ = copy_if(array, "ary[i] > 500")
    assert np.array_equal(kept.get()[: int(count.get())], x[x > 500])
    found = InclusiveScanKernel(context, np.int32, "a+b", neutral="0")(array.copy())
    assert np.array_equal(found.get(), np.cumsum(x, dtype=np.int32))
    ordered, _ = BitonicSort(context)(array.copy())
    assert np.array_equal(ordered.get(), np.sort(x))


def test_indexes_of_another_shape_are_sorted_along(device):
    needs.endless_loops(device)
    x = np.random.default_rng(0).permutation(32).astype(np.int32).reshape(4, 8)
    keys = cl_array.to_device(device.queue, x)
    indexes = cl_array.to_device(device.queue, np.arange(32, dtype=np.int32))
    BitonicSort(device.context)(keys, indexes, axis=1)
    assert np.array_equal(keys.get(), np.sort(x, axis=1))
    assert np.array_equal(indexes.get(), (np.argsort(x, axis=1) + 8 * np.arange(4)[:, None]).ravel())
