"""pydp.compat.pyopencl.scan against NumPy: lengths, segments, neighbours, arrays that overlap, subclasses."""

from __future__ import annotations

import functools

import needs
import numpy as np
import pyopencl as cl
import pyopencl.array as cl_array
import pyopencl.cltypes as cltypes
import pyopencl.scan as original
import pytest
from pyopencl.tools import ImmediateAllocator, MemoryPool, VectorArg

from pydp.compat.pyopencl.access import (
    Access,
    access,
    has_effects,
    has_effects_in_functions,
    index_changes,
    macros,
    memory_of,
    storing_macros,
)
from pydp.compat.pyopencl.scan import (
    ExclusiveScanKernel,
    GenericDebugScanKernel,
    GenericScanKernel,
    InclusiveScanKernel,
    ScanTemplate,
)

MAPPINGS = pytest.mark.parametrize("mapping", ["vector", "simt"])
LENGTHS = (1, 2, 31, 32, 33, 1025, 5000)


class Vector(GenericScanKernel):
    """The CPU mapping."""

    mapping = "vector"


class Simt(GenericScanKernel):
    """The GPU mapping, with work-groups that compile soon."""

    mapping = "simt"
    most_lanes = 8


class OneLaunch(Vector):
    """The CPU mapping with small partitions."""

    cached = 64


class ThreeLaunches(Vector):
    """The CPU mapping without the scan in one launch."""

    def _one_pass(self) -> bool:
        return False


def cls_of(device, mapping):
    needs.vector_mapping(device, mapping)
    return Vector if mapping == "vector" else Simt


def integers(n, seed=0):
    return np.random.default_rng(seed).integers(-9, 10, n).astype(np.int32)


@functools.cache
def kernel(cls, context, arguments, output, **options):
    settings = {"input_expr": "x[i]", "scan_expr": "a+b", "neutral": "0", **options}
    return cls(context, np.int32, arguments=arguments, output_statement=output, **settings)


@pytest.mark.oclgrind
@MAPPINGS
def test_every_length(device, mapping):
    cls = cls_of(device, mapping)
    knl = kernel(cls, device.context, "int *x, int *y", "y[i] = last_item - prev_item;")
    for n in LENGTHS:
        x = integers(n)
        y = cl_array.zeros(device.queue, n + 1, np.int32)
        event = knl(cl_array.to_device(device.queue, x), y)
        event.wait()
        expected = x.sum() - np.cumsum(x) + x
        assert np.array_equal(y.get(), np.append(expected, 0)), n  # the guard element after the results is unchanged


@pytest.mark.oclgrind
@MAPPINGS
@pytest.mark.parametrize("output", ["y[i] = item;", "y[i] = prev_item;"])
def test_segments(device, mapping, output):
    cls = cls_of(device, mapping)
    segments = {"scan_expr": "across_seg_boundary ? b : (a+b)", "is_segment_start_expr": "f[i]"}
    knl = kernel(cls, device.context, "int *x, char *f, int *y", output, **segments)
    for n in LENGTHS:
        x, flags = integers(n), (np.random.default_rng(n).random(n) < 0.01).astype(np.int8)
        starts = np.maximum.accumulate(np.where(flags, np.arange(n), 0))
        sums = np.cumsum(x)
        expected = sums - np.where(starts > 0, sums[starts - 1], 0)
        arrays = [cl_array.to_device(device.queue, one) for one in (x, flags, np.zeros(n, np.int32))]
        knl(*arrays)
        assert np.array_equal(arrays[2].get(), expected - x if "prev" in output else expected), n


@pytest.mark.oclgrind
@MAPPINGS
def test_outputs_that_overwrite_inputs_of_other_elements(device, mapping):
    cls = cls_of(device, mapping)
    moved = kernel(cls, device.context, "int *x", "x[i + 1] = item;")
    reversed_ = kernel(cls, device.context, "int *x", "x[N - 1 - i] = item;")
    assert moved.first_level_scan_info.kernel.num_args > 4  # inputs are stored
    for n in LENGTHS:
        x = integers(n, 1)
        array = cl_array.to_device(device.queue, np.append(x, np.int32(7)))
        moved(array, size=n)
        assert np.array_equal(array.get(), np.append(x[0], np.cumsum(x))), n
        array = cl_array.to_device(device.queue, x)
        reversed_(array)
        assert np.array_equal(array.get(), np.cumsum(x)[::-1]), n


def test_macros_of_pyopencls_kernels_in_the_callers_text(device):
    names = [f"psc_{name}_{axis}" for name in ("LID", "GID", "LDIM", "GDIM") for axis in range(3)]
    outside = f"psc_WG_SIZE < 1 || psc_K < 1 || NO_SEG_BOUNDARY != 2147483647 || {' + '.join(names)} < 0"
    output = f"x[i] = psc_SCAN_EXPR(item, item, false) + ({outside});"
    array = cl_array.to_device(device.queue, integers(3000))
    kernel(GenericScanKernel, device.context, "int *x", output)(array)
    assert np.array_equal(array.get(), 2 * np.cumsum(integers(3000)))


def test_indirect_accesses(device):
    n = 10_000
    x = integers(n, 7)
    sums = np.cumsum(x)
    macro = {"preamble": "#define SET(l, v) l = v"}
    cases = [
        ("x[i] = item;", {"input_expr": "i ? (&x[i])[-1] : 0"}, sums - x),
        ("i = N - 1 - i; x[i] = item;", {}, sums[::-1]),
        ("SET(x[N - 1 - i], item);", macro, sums[::-1]),
    ]
    for output, options, expected in cases:
        array = cl_array.to_device(device.queue, x)
        kernel(GenericScanKernel, device.context, "int *x", output, **options)(array)
        assert np.array_equal(array.get(), expected), output
    taking = {"input_expr": "take(x, i)", "preamble": "int take(__global int *s, int i) { return s[i]++; }"}
    array, out = cl_array.to_device(device.queue, x), cl_array.zeros(device.queue, n, np.int32)
    kernel(GenericScanKernel, device.context, "int *x, int *y", "y[i] = item;", **taking)(array, out)
    assert np.array_equal(array.get(), x + 1) and np.array_equal(out.get(), sums)


@MAPPINGS
def test_index_types_that_hold_just_the_length(device, mapping):
    cls = cls_of(device, mapping)
    dtype, n = (np.int8, 127) if mapping == "vector" else (np.int16, 32_767)
    x = integers(n, 8)
    array = cl_array.to_device(device.queue, x)
    kernel(cls, device.context, "int *x", "x[i] = item;", index_dtype=dtype)(array)
    assert np.array_equal(array.get(), np.cumsum(x))


def test_events_and_memory_pools(device):
    x = integers(300_000, 9)
    pool = MemoryPool(ImmediateAllocator(device.queue))
    array = cl_array.to_device(device.queue, x)
    out = InclusiveScanKernel(device.context, np.int32, "a+b", neutral="0")(array, "new")
    assert out.events and np.array_equal(out.get(), np.cumsum(x))
    knl = kernel(GenericScanKernel, device.context, "int *x", "x[N - 1 - i] = item;")
    knl(array, allocator=pool)
    assert pool.held_blocks == 0  # a pool would reuse scratch memory before the kernels have ended
    assert np.array_equal(array.get(), np.cumsum(x)[::-1])


def test_two_arguments_that_are_one_array(device):
    cls = cls_of(device, "simt")
    shifted = kernel(cls, device.context, "int *x, int *y", "y[N - 1 - i] = item;")
    same = kernel(cls, device.context, "int *x, int *y", "y[i] = item;")
    x = integers(3000, 2)
    for knl, expected in ((shifted, np.cumsum(x)[::-1]), (same, np.cumsum(x))):
        array = cl_array.to_device(device.queue, x)
        knl(array, array)
        assert np.array_equal(array.get(), expected)
        array = cl_array.to_device(device.queue, x)
        other = cl_array.zeros_like(array)
        knl(array, other)
        assert np.array_equal(array.get(), x) and np.array_equal(other.get(), expected)


def test_long_scans_of_numbers(device):
    dtypes = [np.int32, np.int64, np.float32] + [np.float64] * needs.has(device, np.dtype(np.float64))
    x = np.random.default_rng(3).integers(0, 5, 200_001)
    for dtype in dtypes:
        given = cl_array.to_device(device.queue, x.astype(dtype))
        expected = np.cumsum(x).astype(dtype)
        inclusive = InclusiveScanKernel(device.context, dtype, "a+b", neutral="0")
        assert np.array_equal(inclusive(given, "new").get(), expected), dtype
        ExclusiveScanKernel(device.context, dtype, "a+b", neutral="0")(given)
        assert np.array_equal(given.get(), expected - x.astype(dtype)), dtype


@pytest.mark.oclgrind
def test_one_launch_and_three_agree(device):
    needs.vector_mapping(device)
    x = integers(1000)
    results = []
    for cls in (OneLaunch, ThreeLaunches, GenericDebugScanKernel):
        array = cl_array.to_device(device.queue, x)
        knl = kernel(cls, device.context, "int *x", "x[i] = min(item, i);", scan_expr="max(a, b)", neutral="-100")
        knl(array)
        results.append(array.get())
    assert np.array_equal(results[0], results[1]) and np.array_equal(results[0], results[2])


@MAPPINGS
def test_vectors_fetched_neighbours_and_offsets(device, mapping):
    cls = cls_of(device, mapping)
    x = integers(2000, 4)
    buffer = cl_array.to_device(device.queue, np.concatenate([integers(5), x]))
    y = cl_array.zeros(device.queue, (2000,), cltypes.int2)
    knl = cls(
        device.context,
        cltypes.int2,
        [VectorArg(np.int32, "x"), VectorArg(cltypes.int2, "y")],
        input_expr="(int2)(now, i ? now - before : now)",
        input_fetch_exprs=[("now", "x", 0), ("before", "x", -1)],
        scan_expr="a+b",
        neutral="(int2)(0)",
        output_statement="if (i % 2) continue; y[i] = item;",
        index_dtype=np.int64,
    )
    knl(buffer[5:], y)  # pyopencl ignores the offset of arguments without with_offset
    got = y.get()
    assert np.array_equal(got["x"][::2], np.cumsum(x)[::2]) and np.array_equal(got["y"][::2], x[::2])
    assert not got["x"][1::2].any()


@MAPPINGS
def test_operators_that_do_not_commute(device, mapping):
    cls = cls_of(device, mapping)
    factors = np.random.default_rng(5).integers(1, 1000, (3000, 2)).astype(np.uint32)
    x = cl_array.to_device(device.queue, factors.view(cltypes.uint2).reshape(-1))
    y = cl_array.zeros_like(x)
    knl = cls(
        device.context, cltypes.uint2, "uint2 *x, uint2 *y", "x[i]", "(uint2)(a.x * b.x, b.x * a.y + b.y)",
        "(uint2)(1, 0)", "y[i] = item;",
    )  # fmt: skip
    knl(x, y)
    scale, shift = np.uint32(1), np.uint32(0)
    expected = []
    with np.errstate(over="ignore"):
        for one, other in factors:
            scale, shift = scale * one, one * shift + other
            expected.append((scale, shift))
    got = y.get()
    assert np.array_equal(np.stack([got["x"], got["y"]], 1), np.array(expected))


def test_what_programs_read_and_subclass(device):
    for _ in range(2):  # the second time, pyopencl takes the program from its cache
        knl = kernel(GenericScanKernel, device.context, "int *x, int *y", "y[i] = item;")
        for info in (knl.first_level_scan_info, knl.second_level_scan_info, knl.final_update_info):
            assert "x[i]" in info.kernel.program.source and info.wg_size >= 1
    template = ScanTemplate("t *x", "x[i]", "a+b", "0", "x[i] = item * %(by)s;", template_processor="printf")
    aliases = {"type_aliases": (("t", np.dtype(np.int32)), ("scan_t", np.dtype(np.int32)))}
    built = template.build(device.context, var_values=(("by", "3"),), **aliases)
    assert isinstance(built, GenericScanKernel)
    assert built is template.build(device.context, var_values=(("by", "3"),), **aliases)
    x = cl_array.to_device(device.queue, integers(10))
    built(x)
    assert np.array_equal(x.get(), 3 * np.cumsum(integers(10)))


@pytest.mark.parametrize("method", ["generate_scan_kernel", "get_local_mem_use", "_finish_setup_impl"])
def test_subclasses_that_change_how_pyopencl_generates_kernels(device, monkeypatch, method):
    monkeypatch.setattr(cl, "_PYOPENCL_NO_CACHE", True)  # pyopencl stores generated kernels
    calls = []

    def counted(self, *args, **options):
        calls.append(method)
        return getattr(super(type(self), self), method)(*args, **options)

    x = np.arange(70_000, dtype=np.int32)
    for cls, arguments in (
        (GenericScanKernel, ("int *x", "x[i]", "a+b", "0", "x[i] = item;")),
        (InclusiveScanKernel, ("a+b", "0")),
    ):
        array = cl_array.to_device(device.queue, x)
        knl = type("Mine", (cls,), {method: counted})(device.context, np.int32, *arguments)
        knl(array)
        assert calls and isinstance(knl, original.GenericScanKernel)
        assert np.array_equal(array.get(), np.cumsum(x, dtype=np.int32))
        calls.clear()


def test_a_subclass_that_replaces_the_setup(device):
    class Mine(GenericScanKernel):
        def finish_setup(self):
            original.GenericScanKernel.finish_setup(self)

    array = cl_array.to_device(device.queue, integers(3000))
    Mine(device.context, np.int32, "int *x", "x[i]", "a+b", "0", "x[i] = item;")(array)
    assert np.array_equal(array.get(), np.cumsum(integers(3000)))


def test_methods_of_pyopencls_scan_kernel(device):
    knl = kernel(GenericScanKernel, device.context, "int *x, int *y", "y[i] = item;")
    assert knl.get_local_mem_use(4, 16, False) > 4 * 4 * 16
    info = knl.generate_scan_kernel(
        16, knl.parsed_args, "x[i]", None, input_fetch_exprs=[], is_first_level=True, store_segment_start_flags=False,
        k_group_size=4, use_bank_conflict_avoidance=False,
    )  # fmt: skip
    assert info.wg_size == 16 and "x[i]" in info.scan_src


def test_wrong_calls_and_no_elements(device):
    knl = kernel(GenericScanKernel, device.context, "int *x, int *y", "y[i] = item;")
    empty = cl_array.zeros(device.queue, 0, np.int32)
    assert isinstance(knl(empty, empty), cl.Event)
    with pytest.raises(TypeError, match="expected 2 arguments, got 1"):
        knl(empty)
    with pytest.raises(ValueError, match="neutral"):
        GenericScanKernel(device.context, np.int32, "int *x", "x[i]", "a+b", None, "x[i] = item;")
    with pytest.raises(cl.RuntimeError):
        GenericScanKernel(device.context, np.int32, "int *x", "x[i] +", "a+b", "0", "x[i] = item;")


@pytest.mark.host
def test_how_text_uses_arrays() -> None:
    read, write = Access(True), Access(True, False, True)
    assert access("x[i] + y[i-1]", "x") == read
    assert access("x[i] + y[i-1]", "y") == Access(True, True)
    assert access("if (x[i] == 2) y[ i ] = x[i];", "x") == read
    assert access("if (x[i] == 2) y[ i ] = x[i];", "y") == write
    for text in (
        "x[i] += 1",
        "x[i].s0 = 1",
        "++x[i]",
        "x[i]--",
        "x[i][2] <<= 1",
        "x[i].a.b = 3",
        "(x[i]) = 1",
        "x[i] /* */ = 1",
    ):
        assert access(text, "x") == write, text
    for text in ("f(&x[i])", "(&x[i])[-1]", "i ? &x[i] : 0", "(int*) &(x[i])", "int i = 3; x[i] = 1"):
        assert access(text, "x") == Access(True, True, "=" in text or "&" in text), text
    for text in ("a & x[i]", "a && x[i]", "y[2] & (x[i])", "f(i, x[i])"):
        assert access(text, "x") == read, text
    assert access("f(a, SET(x[i], 2))", "x", "SET|GET") == write and access("SET(1) + x[i]", "x", "SET") == read
    assert access("f(x, i)", "x") == access("*x = 1", "x") == Access(True, True, True)
    assert access("out[x[i]] = 2", "x") == read and access("out[x[i]] = 2", "out") == Access(True, True, True)
    assert access("p.x + xx[i]", "x") == Access()
    assert has_effects("atomic_inc(x)", ()) and not has_effects("x[i] == 3", ("x",))
    assert all(has_effects(text, ("x",)) for text in ("x[i] = 3", "++x[i]", "x[i] <<= 1", "(*x)++"))


@pytest.mark.host
def test_where_text_changes_the_index() -> None:
    for text in (
        "i = N-1-i;",
        "i++",
        "--i;",
        "(i) += 2",
        "int j = 2; long i;",
        "#define i 3",
        "f(&i)",
        "#define X(i) x[i]",
    ):
        assert index_changes(text), text
    for text in ("i == 0 || i <= n", "s.i = 3", "p->i = 3", "a & i", "return i;", "x[i] = i - 1", "#define X(a) x[i]"):
        assert not index_changes(text), text


@pytest.mark.host
def test_effects_of_functions_and_macros() -> None:
    def effects(text, preamble):
        return has_effects_in_functions(text, ("x",), preamble)

    taking = "int take(__global int *s, int i) { return s[i]++; }"
    for body in ("*s = 1", "*(s + i) += 1", "(*s)--", "++s[i]", "s[i].y = 2", "s->y = 3", "(s[i]) = 3"):
        assert effects("take(x, i)", f"int take(__global int *s, int i) {{ {body}; }}"), body
    assert effects("2 * take(&x[i], 0)", taking) and effects("T(x)", f"{taking}\n#define T(x) take(x, 3)")
    assert effects("modf(y, x)", "") and not effects("vload2(i, x)", "")
    assert not effects("take(y, x[i])", taking)
    assert not effects("get(x, i)", "int get(__global const int *s, int i) { int t[1]; t[0] = s[i]; return t[0]; }")
    assert not effects("get(x, i)", "int get(__global int *s, int i) { int j = 0; ++j; return s[i] == j; }")
    assert storing_macros(macros("#define A(l) \\\n l = 2", ["-cl-std=CL1.2", "-DB=3"])) == "A|B"
    assert storing_macros(macros("#define EQ(a, b) a == b // --", "-cl-std=CL1.2")) == ""
    assert storing_macros(macros("#include <pyopencl-complex.h>")) == ""
    assert access("GET(x[i])", "x", storing_macros("#include <other.h>")) == Access(True, False, True)


def test_which_arrays_share_memory(device):
    x = cl_array.zeros(device.queue, 2048, np.int32)
    assert memory_of(x) == memory_of(x[5:]) != memory_of(x.copy())
    assert memory_of(object()) is None
