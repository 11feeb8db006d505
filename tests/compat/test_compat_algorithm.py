"""pydp.compat.pyopencl.algorithm and bitonic_sort against NumPy."""

from __future__ import annotations

import numpy as np
import pyopencl as cl
import pyopencl.array as cl_array
import pytest

from pydp.compat.pyopencl.algorithm import (
    KeyValueSorter,
    ListOfListsBuilder,
    RadixSort,
    _enqueue_chunks,
    copy_if,
    partition,
    remove_if,
    unique,
)
from pydp.compat.pyopencl.bitonic_sort import BitonicSort
from pydp.compat.pyopencl.devices import mapping_of
from pydp.compat.pyopencl.scan import GenericScanKernel

LENGTHS = (0, 1, 1000, 20_001)


def to(device, x):
    return cl_array.to_device(device.queue, x)


@pytest.mark.oclgrind
@pytest.mark.parametrize("n", [0, 1, 600])
def test_selections_of_few_elements(device, n):
    check_selections(device, n)


def test_selections_of_many_elements(device):
    check_selections(device, 70_001)


def check_selections(device, n):
    x = np.random.default_rng(n).integers(0, 9, n).astype(np.int32)
    limit = [("limit", np.int32(4))]
    for call, kept in ((copy_if, x > 4), (remove_if, x <= 4)):
        out, count, event = call(to(device, x), "ary[i] > limit", extra_args=limit)
        event.wait()
        assert int(count.get()) == kept.sum() and np.array_equal(out.get()[: kept.sum()], x[kept])
    true, false, count, _ = partition(to(device, x), "ary[i] > limit", extra_args=limit)
    few = int(count.get())
    assert np.array_equal(true.get()[:few], x[x > 4]) and np.array_equal(false.get()[: n - few], x[x <= 4])
    heads = np.flatnonzero(np.diff(x // 3, prepend=-1))
    out, count, _ = unique(to(device, x), is_equal_expr="a / 3 == b / 3")
    assert int(count.get()) == heads.size and np.array_equal(out.get()[: heads.size], x[heads])


@pytest.mark.oclgrind
def test_radix_sort_of_few_elements(device):
    check_radix(device, (1, 700))


def test_radix_sort_of_many_elements(device):
    check_radix(device, (0, 20_001))


def check_radix(device, lengths):
    names = ["keys", "values"]
    sort = RadixSort(device.context, "uint *keys, int *values, int unmoved", "keys[i] ^ unmoved", names)
    for n in lengths:
        keys = np.random.default_rng(n).integers(0, 1 << 32, n, np.uint32)
        values = np.arange(n, dtype=np.int32)
        for bits, mask in ((None, 0xFFFFFFFF), (9, 0x3FF)):  # two bits at a time: nine are ten
            (a, b), event = sort(to(device, keys), to(device, values), np.int32(5), key_bits=bits)
            assert a.events and b.events
            event.wait()
            order = np.argsort((keys ^ 5) & mask, kind="stable")
            assert np.array_equal(a.get(), keys[order]) and np.array_equal(b.get(), values[order]), (n, bits)


def test_radix_sort_with_a_scan_kernel_of_the_caller(device):
    class Mine(GenericScanKernel):
        pass

    x = np.random.default_rng(0).integers(0, 1 << 8, 3000).astype(np.int64)
    sort = RadixSort(device.context, "long *x", "x[i]", ["x"], 4, key_dtype=np.int64, scan_kernel=Mine)
    assert isinstance(sort.scan_kernel, Mine)
    (got,), _ = sort(to(device, x), key_bits=8)
    assert np.array_equal(got.get(), np.sort(x))
    assert isinstance(RadixSort(device.context, "long *x", "x[i]", ["x"]).scan_kernel, GenericScanKernel)


def test_radix_sort_by_no_bits(device):
    sort = RadixSort(device.context, "int *x, int *y", "x[i]", ["x", "y"])
    x = np.arange(20, dtype=np.int32)
    for n in (17, 0):
        arrays = to(device, x)[3 : 3 + n], to(device, -x)[1 : 1 + n]
        results, event = sort(*arrays, key_bits=0)
        event.wait()
        assert np.array_equal(results[0].get(), x[3 : 3 + n]) and np.array_equal(results[1].get(), -x[1 : 1 + n])


def test_values_grouped_by_keys(device):
    sorter = KeyValueSorter(device.context)
    for n, count in ((0, 3), (1, 1), (5000, 300), (5000, 20_000)):
        keys = np.random.default_rng(n).integers(0, count, n).astype(np.int32)
        values = np.arange(n, dtype=np.int32)
        starts, lists, event = sorter(device.queue, to(device, keys), to(device, values), count, np.dtype(np.int32))
        assert starts.events and lists.events
        event.wait()
        order = np.argsort(keys, kind="stable")
        assert np.array_equal(lists.get(), values[order])
        assert np.array_equal(starts.get(), np.searchsorted(keys[order], np.arange(count + 1)))


def test_values_grouped_by_keys_with_the_kernels_of_a_subclass(device):
    class Mine(KeyValueSorter):
        def get_kernels(self, *dtypes):
            calls.append(dtypes)
            return super().get_kernels(*dtypes)

    calls = []
    keys = np.random.default_rng(0).integers(0, 50, 3000).astype(np.int32)
    values = np.arange(3000, dtype=np.int32)
    starts, lists, event = Mine(device.context)(
        device.queue, to(device, keys), to(device, values), 50, np.dtype(np.int32)
    )
    event.wait()
    order = np.argsort(keys, kind="stable")
    assert len(calls) == 1 and np.array_equal(lists.get(), values[order])
    assert np.array_equal(starts.get(), np.searchsorted(keys[order], np.arange(51)))
    assert KeyValueSorter(device.context).get_kernels(*[np.dtype(np.int32)] * 3).by_target_sorter is not None


@pytest.mark.parametrize("n", [1, 128, 129, 3000])  # chunks of 128 objects
def test_lists(device, n):
    text = """
        void generate(LIST_ARG_DECL USER_ARG_DECL index_type i)
        {
            for (int j = 0; j < x[i]; ++j) { APPEND_a(i); APPEND_b(j); }
        }
    """
    x = np.random.default_rng(0).integers(0, 4, n).astype(np.int32)
    shared = {"arg_decls": "int *x", "count_sharing": {"b": "a"}}
    for empty in (False, True):
        builder = ListOfListsBuilder(
            device.context, [("a", np.int32), ("b", np.int32)], text,
            eliminate_empty_output_lists=["a"] if empty else [], **shared,
        )  # fmt: skip
        lists, event = builder(device.queue, x.size, to(device, x).data)
        event.wait()
        a = lists["a"]
        assert a.count == x.sum()
        assert np.array_equal(a.lists.get(), np.repeat(np.arange(x.size), x))
        assert np.array_equal(lists["b"].lists.get(), np.concatenate([np.arange(one) for one in x]))
        filled = x[x > 0] if empty else x
        assert np.array_equal(a.starts.get(), np.append(0, np.cumsum(filled)))
        if empty:
            assert np.array_equal(a.nonempty_indices.get(), np.flatnonzero(x))


def launched(device, monkeypatch, text, n, **options):
    """The work-items of the kernels that build lists of `n` objects, and the lists."""
    sizes = []
    enqueue = cl.Kernel.__call__

    def noted(kernel, queue, size, *args, **named):
        if kernel.function_name.startswith("plb"):
            sizes.append(size[0])
        return enqueue(kernel, queue, size, *args, **named)

    monkeypatch.setattr(cl.Kernel, "__call__", noted)
    builder = ListOfListsBuilder(device.context, [("a", np.int32)], text, [], **options)
    lists, event = builder(device.queue, n)
    event.wait()
    return sizes, lists["a"].lists.get()


def test_lists_are_built_in_chunks_of_adjacent_objects(device, monkeypatch):
    if mapping_of([device.cl]) != "vector":
        pytest.skip("adjacent work-items take adjacent objects on GPUs and on drivers that cut loops")
    usual = 4 * device.cl.max_compute_units
    text = "void generate(LIST_ARG_DECL USER_ARG_DECL index_type i) { APPEND_a(i); }"
    for n, chunks in ((128 * usual + 129, usual + 2), (1, usual)):
        sizes, lists = launched(device, monkeypatch, text, n)
        assert sizes == [chunks, chunks] and np.array_equal(lists, np.arange(n))
    n = 128 * usual + 1
    assert launched(device, monkeypatch, text, n, complex_kernel=True)[0] == [usual, usual]
    sizes, lists = launched(device, monkeypatch, text.replace("(i)", "(get_global_id(0))"), n)
    assert sizes == [usual, usual] and lists.max() < usual  # the program may have memory for each work-item
    builder = ListOfListsBuilder(device.context, [("a", np.int32)], text, [])
    assert type(builder.get_count_kernel(np.dtype(np.int32))) is cl.Kernel


@pytest.mark.host
@pytest.mark.parametrize("n, chunks", [(1 << 30, 1 << 16), ((1 << 31) - 5000, 8), ((1 << 31) + 1, 8)])
def test_the_index_after_the_last_chunk_fits_its_type(n, chunks):
    sizes = []
    _enqueue_chunks(lambda queue, size, group, *args, **named: sizes.append(size), None, (8,), (1,), "counts", n)
    assert sizes == [(chunks,)] and n % (1 << 31) + 128 * chunks < 1 << 31


def test_sorts_in_place_with_the_kernels_of_a_subclass(device):
    class Mine(BitonicSort):
        def sort_b_prepare_wl(self, *args):
            calls.append(args)
            return super().sort_b_prepare_wl(*args)

    calls = []
    x = np.random.default_rng(0).integers(0, 1000, 64).astype(np.int32)
    array = to(device, x)
    Mine(device.context)(array)[1].wait()
    assert len(calls) == 1 and np.array_equal(array.get(), np.sort(x))


@pytest.mark.parametrize(("shape", "axis"), [((2, 100, 3), 1), ((64,), 0), ((0,), 0)])
def test_sorts_in_place(device, shape, axis):
    x = np.random.default_rng(0).integers(0, 1000, shape).astype(np.int32)
    sorter = BitonicSort(device.context)
    array = to(device, x)
    same, event = sorter(array, axis=axis)
    event.wait()
    assert same is array and np.array_equal(array.get(), np.sort(x, axis=axis))
    index = np.indices(shape, np.int32)[axis]
    array, positions = to(device, x), to(device, index)
    _, event = sorter(array, idx=positions, axis=axis)
    event.wait()
    assert np.array_equal(positions.get(), np.argsort(x, axis=axis, kind="stable"))
    assert np.array_equal(array.get(), np.sort(x, axis=axis))
