"""pydp.compat.pyopencl.reduction, elementwise and array against NumPy."""

from __future__ import annotations

import numpy as np
import pyopencl.array as cl_array
import pyopencl.cltypes as cltypes
import pytest

import pydp.compat.pyopencl.array as compat_array
from pydp.compat.pyopencl.elementwise import ElementwiseKernel, ElementwiseTemplate
from pydp.compat.pyopencl.reduction import ReductionKernel, ReductionTemplate


def to(device, x):
    return cl_array.to_device(device.queue, x)


@pytest.mark.oclgrind
def test_lengths_slices_and_outputs(device):
    total = ReductionKernel(device.context, np.int32, "0", "a+b", "x[i] * y[i]", "int *x, int *y")
    for n in (0, 1, 300, 5000):
        x, y = (np.random.default_rng(seed).integers(0, 9, n).astype(np.int32) for seed in (0, 1))
        arrays = to(device, x), to(device, y)
        result, event = total(*arrays, return_event=True)
        event.wait()
        assert result.shape == () and result.dtype == np.int32 and result.get() == x @ y
        assert total(*arrays, slice=slice(3, None, 7)).get() == (x * y)[3::7].sum()
        assert total(*arrays, range=slice(0, n)).get() == x @ y
        out = cl_array.zeros(device.queue, 5, np.int32)
        total(*arrays, out=out[3])
        assert out.get().tolist() == [0, 0, 0, x @ y, 0]


def test_arrays_that_are_read_in_order_are_prefetched(device):
    knl = ReductionKernel(device.context, np.int32, "0", "a+b", "x[i] * y[n - 1 - i]", "int *x, int *y, int *z")
    x, y = (np.random.default_rng(seed).integers(0, 9, 5000).astype(np.int32) for seed in (0, 1))
    assert knl(to(device, x), to(device, y), to(device, x)).get() == x @ y[::-1]
    fetched = [line for line in knl.stage_1_inf.source.splitlines() if "__builtin_prefetch" in line]
    assert bool(fetched) is device.profile.prefetches
    assert all("(x + pcl_at)" in line for line in fetched)


def test_long_reductions_of_several_types(device):
    x = np.random.default_rng(2).integers(-99, 99, 100_003).astype(np.int32)
    largest = ReductionKernel(device.context, np.int32, "-1000", "max(a, b)", arguments="int *in")
    both = ReductionKernel(
        device.context, cltypes.int2, "{1000, -1000}", "(int2)(min(a.x, b.x), max(a.y, b.y))", "(int2)(x[i])",
        "int *x",
    )  # fmt: skip
    mean = ReductionKernel(device.context, np.float32, "0", "a+b", "x[i] * scale", "int *x, float scale")
    array = to(device, x)
    assert largest(array).get() == x.max()
    assert both(array[3:]).get().tolist() == (x[3:].min(), x[3:].max())
    assert mean(array, np.float32(0.5)).get() == pytest.approx(x.sum() / 2, rel=1e-3)
    assert "max(a, b)" in largest.stage_1_inf.source and largest.stage_2_inf.kernel is not None


@pytest.mark.oclgrind
def test_names_of_pyopencls_kernels_in_the_callers_text(device):
    ones = to(device, np.ones(7, np.float32))
    mean = ReductionKernel(device.context, np.float32, "0", "a+b", map_expr="in[i]/n", arguments="const float *in")
    assert mean(ones).get() == mean(ones, slice=slice(2, None)).get() == pytest.approx(1)
    x = np.arange(40_000, dtype=np.int32) % 7
    names = "(PCL_GROUP_SIZE < 1 || pcl_lid >= PCL_GROUP_SIZE || pcl_seq_count < 1 || pcl_base_idx < 0 || i < 0)"
    total = ReductionKernel(
        device.context, np.int32, "n > 0 ? 0 : 1", f"a+b+{names}",
        "in[i] + (n > 39997) + pcl_start + pcl_step + pcl_stop", "int *in",
    )  # fmt: skip
    for part in (slice(None), slice(2, None), slice(1, None, 3)):  # several parts, in two launches
        start, stop, step = part.indices(x.size)
        expected = x[part].astype(np.int64) + ((stop - start) // step > 39_997) + start + stop + step
        assert total(to(device, x), slice=part).get() == expected.sum().astype(np.int32), part


def test_reductions_define_no_macros_of_scans(device):
    own = "int KERNEL(int v) { return 2 * v; }"
    total = ReductionKernel(device.context, np.int32, "0", "a+b", "KERNEL(x[i])", "int *x", preamble=own)
    assert total(to(device, np.arange(10, dtype=np.int32))).get() == 90


def test_wrong_reductions(device):
    total = ReductionKernel(device.context, np.int32, "0", "a+b", arguments="int *in")
    x = to(device, np.zeros((4, 4), np.int32))
    with pytest.raises(TypeError, match="both range and slice"):
        total(x, range=slice(0, 2), slice=slice(0, 2))
    with pytest.raises(RuntimeError, match="non-contiguous"):
        total(x[:, 1:3])
    with pytest.raises(ValueError, match="arguments must not be None"):
        ReductionKernel(device.context, np.int32, "0", "a+b")


def test_reductions_and_scans_of_arrays(device):
    x = np.random.default_rng(3).integers(1, 9, 5000).astype(np.int32)
    f = x.astype(np.float32)
    subset = np.arange(0, 5000, 3, dtype=np.int32)
    a, b, few = to(device, x), to(device, f), to(device, subset)
    assert compat_array.sum(a, dtype=np.int64).get() == x.sum() and compat_array.sum(a, initial=2).get() == x.sum() + 2
    assert compat_array.dot(b, b).get() == f @ f == compat_array.vdot(b, b).get()
    assert compat_array.min(b).get() == 1 and compat_array.max(a, initial=99).get() == 99
    assert compat_array.all(a).get() and not compat_array.any(a - a).get()
    assert compat_array.subset_dot(few, a, a).get() == x[subset] @ x[subset]
    assert compat_array.subset_max(few, a).get() == x[subset].max()
    assert compat_array.subset_min(few, a).get() == x[subset].min()
    assert np.array_equal(compat_array.cumsum(a, np.int64).get(), np.cumsum(x))
    assert compat_array.Array is cl_array.Array
    assert compat_array.sum(a, initial=compat_array._NoValue).get() == x.sum()  # pyopencl's default
    assert compat_array.max(a, initial=cl_array._NoValue).get() == x.max()
    for function in (cl_array.any, compat_array.any, cl_array.all, compat_array.all):
        assert type(function(to(device, x[:0]))) is np.int8


@pytest.mark.oclgrind
def test_elementwise_kernels(device):
    operation = "if (x[i] == 3) PYOPENCL_ELWISE_CONTINUE; y[i] = by * x[i]"
    scale = ElementwiseKernel(device.context, "int *x, int *y, int by", operation)
    for n in (0, 1, 5000):
        x = np.random.default_rng(4).integers(0, 9, n).astype(np.int32)
        for part in (None, slice(5, None, 3), slice(None, None, -2), slice(2, 900)):
            y = cl_array.zeros(device.queue, n, np.int32)
            scale(to(device, x), y, 2, slice=part).wait()
            expected = np.zeros(n, np.int32)
            taken = slice(None) if part is None else part
            expected[taken] = np.where(x[taken] == 3, 0, 2 * x[taken])
            assert np.array_equal(y.get(), expected), (n, part)


def test_elementwise_kernels_raise_pyopencls_errors(device):
    double = ElementwiseKernel(device.context, "int *x", "x[i] *= 2")
    x = to(device, np.arange(10, dtype=np.int32))
    with pytest.raises(NotImplementedError, match="non-contiguous"):
        double(x[::2])
    missing = (ValueError, AssertionError)  # on GPUs pyopencl's own call runs
    with pytest.raises(missing):
        double(x.with_queue(None))
    both = ElementwiseKernel(device.context, "int *x, int *y", "x[i] += y[i]")
    with pytest.raises(missing):
        both(x.with_queue(None), x)
    double(x.with_queue(None), queue=device.queue)
    assert np.array_equal(x.get(), 2 * np.arange(10))


def test_elementwise_kernels_of_a_subclass_with_another_kernel(device):
    class Mine(ElementwiseKernel):
        def get_kernel(self, use_range):
            calls.append(use_range)
            return super().get_kernel(use_range)

    calls = []
    mine = Mine(device.context, "int *x", "x[i] += 2")
    x = to(device, np.arange(5000, dtype=np.int32))
    mine(x)
    mine(x, slice=slice(10))
    assert calls == [False, True]
    assert np.array_equal(x.get(), np.arange(5000) + 2 + 2 * (np.arange(5000) < 10))


def test_templates(device):
    context = device.context
    sums = ReductionTemplate("t *x", "0", "a+b", "x[i] * %(by)s", template_processor="printf")
    types = (("t", np.dtype(np.int32)), ("reduction_t", np.dtype(np.int32)))
    reduced = sums.build(context, type_aliases=types, var_values=(("by", "2"),))
    moved = ElementwiseTemplate("t *x", "x[i] += %(by)s", template_processor="printf")
    added = moved.build(context, type_aliases=(("t", np.dtype(np.int32)),), var_values=(("by", "2"),))
    assert isinstance(reduced, ReductionKernel) and isinstance(added, ElementwiseKernel)
    x = to(device, np.arange(100, dtype=np.int32))
    added(x)
    assert reduced(x).get() == 2 * (np.arange(100) + 2).sum()


def test_long_sums_are_accurate(device):
    """Added one after the other, these numbers give an error of 1e-2; with one sum for each work-item, 1e-4."""
    x = to(device, np.full(1 << 20, 0.1, np.float32))
    total = ReductionKernel(device.context, np.float32, "0", "a+b", arguments="float *in")
    pair = ReductionKernel(device.context, cltypes.float2, "(float2)(0)", "a+b", "(float2)(x[i], 1)", "float *x")
    for got in (total(x).get(), pair(x).get()["x"]):
        assert float(got) == pytest.approx(float(np.float32(0.1)) * (1 << 20), rel=1e-6)
