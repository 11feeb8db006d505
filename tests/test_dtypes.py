"""dtypes as OpenCL C types: names, exact literals, and structs that share their bytes with NumPy's records."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import numpy as np
import pyopencl as cl
import pyopencl.cltypes as cltypes
import pytest
from hypothesis import given
from hypothesis import strategies as st

import pydp
from pydp.dtypes import (
    c_declarations,
    c_literal,
    c_member,
    c_name,
    c_struct,
    check_supported,
    is_aligned,
    is_record,
    lost_in_arrays,
    movable,
    native,
    natural_alignment,
    scalars,
    vector_parts,
)
from pydp.errors import InvalidArgument, UnsupportedOnDevice
from pydp.runtime.drivers.devices import Device
from pydp.runtime.programs import template
from pydp.runtime.programs.program import kernel


@pytest.mark.host
@pytest.mark.parametrize(
    ("dtype", "name"),
    [
        (bool, "uchar"),
        ("i1", "char"),
        ("u1", "uchar"),
        ("i2", "short"),
        ("u2", "ushort"),
        ("i4", "int"),
        (">u4", "uint"),
        (int, "long"),
        (np.uintp, "ulong"),
        (np.longlong, "long"),
        ("f2", "half"),
        (np.float32, "float"),
        (float, "double"),
        ("c8", "float2"),
        ("c16", "double2"),
        (cltypes.float4, "float4"),
        (cltypes.uchar16, "uchar16"),
        (cltypes.double3, "double3"),
    ],
)
def test_names(dtype: Any, name: str) -> None:
    assert c_name(dtype) == name


@pytest.mark.host
@pytest.mark.parametrize(
    "dtype",
    [
        object,
        "S3",
        "U2",
        "V4",
        "M8[s]",
        "m8[ns]",
        [],
        [("a", "O")],
        [("a", "S2")],
        [("a", "f4", 0)],
        ("f4", (2,)),
        {"names": ["a", "b"], "formats": ["i4", "i4"], "offsets": [0, 2]},
        "no dtype",
        3,
    ],
)
def test_what_has_no_name(dtype: Any) -> None:
    with pytest.raises(InvalidArgument):
        c_name(dtype)


@pytest.mark.host
def test_records_in_records_have_a_limit() -> None:
    dtype = np.dtype("i4")
    for level in range(900):
        dtype = np.dtype([("a", dtype), ("b", "i4")])
        if level == 63:
            assert c_name(dtype).startswith("rec_")
        if level in (64, 899):
            with pytest.raises(InvalidArgument, match="more than 64 levels"):
                c_name(dtype)


@pytest.mark.host
def test_vectors_are_told_from_records() -> None:
    assert vector_parts(cltypes.float3) == (np.dtype("f4"), 3)
    assert vector_parts(np.dtype("f4")) is None
    plain = np.dtype([("x", "f4"), ("y", "f4")])
    assert is_record(plain) and vector_parts(plain) is None and c_name(plain).startswith("rec_")
    assert not is_record(cltypes.float2)
    mixed = np.dtype([("s0", "f4"), ("s1", "i4")])
    assert is_record(mixed)
    assert [str(d) for d in scalars([("a", cltypes.float2), ("b", "c8"), ("c", "i1", 2)])] == (
        ["float32"] * 4 + ["int8"] * 2
    )


@pytest.mark.host
def test_a_layout_has_one_name() -> None:
    packed, aligned = np.dtype([("a", "i1"), ("b", "f8")]), np.dtype([("a", "i1"), ("b", "f8")], align=True)
    assert c_name(packed) != c_name(aligned)
    assert c_name(packed) == c_name(packed.newbyteorder(">"))
    assert native(packed.newbyteorder(">")) == packed
    assert c_name([("a", "i1"), ("c", "f8")]) != c_name(packed)
    declared = c_declarations([packed, [("p", packed, 2), ("q", packed)], packed, "f2"])
    assert declared.count(f"}} {c_name(packed)};") == 1
    assert declared.index(f"}} {c_name(packed)};") < declared.index(f"{c_name(packed)} p[2];")
    assert "cl_khr_fp16" in declared and "cl_khr_fp64" in declared
    assert c_declarations(["f4", "i4"]) == ""


@pytest.mark.host
def test_alignment_of_records() -> None:
    for dtype, alignment, aligned in [
        ("i4", 4, True),
        (cltypes.float4, 16, True),
        (RECORD, 4, False),  # 32 bytes in all
        (ALIGNED, 8, False),  # to NumPy a vector is a record of alignment 1
        (SPARSE, 1, False),
        ([("a", "i4"), ("b", "f4")], 4, True),
        ([("a", "i4"), ("b", "f8")], 4, False),
        (np.dtype([("a", "i4"), ("b", "f8")], align=True), 8, True),
        ([("a", "i4"), ("b", "i1")], 1, False),
        ([("a", cltypes.float4)], 8, True),
    ]:
        assert (natural_alignment(dtype), is_aligned(dtype)) == (alignment, aligned), dtype


@pytest.mark.host
def test_what_travels_is_made_of_words() -> None:
    for dtype, words in [
        ("f4", "f4"),
        ("i8", "i8"),
        ("f8", "u8"),
        ("f2", "u2"),
        ("c8", "c8"),
        ("c16", [("words", "u8", 2)]),
        (cltypes.double3, [("words", "u8", 4)]),
        (cltypes.float4, cltypes.float4),
        ([("a", "i1"), ("b", "f8")], [("words", "u1", 9)]),
        ([("a", "i4"), ("b", "f8")], [("words", "u4", 3)]),
        (RECORD, [("words", "u4", 8)]),
    ]:
        assert movable(dtype) == np.dtype(words)
        assert movable(dtype).itemsize == np.dtype(dtype).itemsize


@pytest.mark.host
@given(st.text(min_size=1, max_size=12))
def test_every_field_name_is_a_member(name: str) -> None:
    member = c_member(name)
    assert member.isascii() and member.isidentifier()
    assert c_member("float") != "float" and c_member("x") == "x" and c_member("float4") != "float4"
    if member != name:
        assert bytes.fromhex(member.removeprefix("m_x")).decode() == name


MACROS = [
    "cl_khr_fp64", "cl_khr_fp16", "cl_khr_global_int32_base_atomics", "cl_intel_subgroups", "M_PI", "linux", "vec_step",
    "FP_ILOGB0", "image2d_array_t", "image1d_buffer_t", "image2d_depth_t", "KEEP_MASKED_INTEGERS",
    "FAST_SHUFFLES", "HIDE_COMPLEMENT", "POCL_DEVICE_ADDRESS_BITS",
]  # fmt: skip


def test_fields_may_have_the_names_of_macros(device: Device) -> None:
    x = np.ones(9, np.dtype([(name, "i4") for name in MACROS]))
    got = pydp.scan(x, {name: f"a.{name} + {number} * b.{name}" for number, name in enumerate(MACROS)}, device=device)
    for number, name in enumerate(MACROS):
        assert got[name].tolist() == [1 + number * k for k in range(9)], name


@pytest.mark.host
@pytest.mark.parametrize(
    ("value", "dtype", "text"),
    [
        (-128, "i1", "((char)-128)"),
        (255, "u1", "((uchar)255)"),
        (True, bool, "((uchar)1)"),
        (-(2**31), "i4", "(-2147483647 - 1)"),
        (-(2**63), "i8", "(-9223372036854775807L - 1)"),
        (2**64 - 1, "u8", "18446744073709551615UL"),
        (-5, "i4", "(-5)"),
        (np.float32(0.1), "f4", "0x1.99999a0000000p-4f"),
        (0.1, "f8", "0x1.999999999999ap-4"),
        (-0.0, "f4", "(-0x0.0p+0f)"),
        (math.inf, "f4", "INFINITY"),
        (-math.inf, "f8", "(-((double)INFINITY))"),
        (math.nan, "f4", "NAN"),
        (1e300, "f4", "INFINITY"),
        (1 + 2j, "c8", "((float2)(0x1.0000000000000p+0f, 0x1.0000000000000p+1f))"),
        ((1, 2), cltypes.int2, "((int2)(1, 2))"),
    ],
)
def test_literals(value: Any, dtype: Any, text: str) -> None:
    assert c_literal(value, dtype) == text


@pytest.mark.host
@pytest.mark.parametrize(
    ("value", "dtype"),
    [(256, "u1"), (-1, "u4"), (2**63, "i8"), (1.5, "i4"), ("x", "f4"), (math.nan, "i4"), (2, bool), (None, "f8")],
)
def test_values_that_do_not_fit(value: Any, dtype: str) -> None:
    with pytest.raises(InvalidArgument):
        c_literal(value, dtype)


RECORD = np.dtype([("a", "i1"), ("float", "f4"), ("in ner", [("x", "u2"), ("y", "i4", (2, 3))]), ("b", bool)])
ALIGNED = np.dtype([("k", "i2"), ("v", cltypes.float4), ("z", "c8"), ("u", "u8"), ("t", "i1")], align=True)
WHOLE = np.dtype([("a", "i4"), ("b", "f4", 2), ("c", [("x", "u2"), ("y", "i2")])])
SPARSE = np.dtype({"names": ["p", "q"], "formats": ["i2", "f4"], "offsets": [3, 10], "itemsize": 17})


def _paths(dtype: np.dtype, prefix: str = "") -> list[str]:
    """Each scalar or vector member of a record as C text."""
    found = []
    assert dtype.names is not None
    for name in dtype.names:
        base, shape = dtype[name].base, dtype[name].shape
        for index in np.ndindex(shape):
            path = prefix + c_member(name) + "".join(f"[{i}]" for i in index)
            found += _paths(base, path + ".") if is_record(base) else [path]
    return found


@pytest.mark.oclgrind
@pytest.mark.parametrize("dtype", [RECORD, ALIGNED, SPARSE, WHOLE], ids=["packed", "aligned", "sparse", "whole"])
def test_records_share_their_bytes(dtype: np.dtype, device: Device) -> None:
    template.add_folder(Path(__file__).parent / "runtime")
    generator = np.random.default_rng(1)
    count = 32
    raw = generator.integers(0, 256, count * dtype.itemsize, dtype=np.uint8)
    given_ = np.zeros(count, dtype)
    for name in _fields(dtype):  # only members hold data, and no value that a copy may change (NaN)
        view = _member(given_, name)
        view[...] = (raw[: view.size].reshape(view.shape) % 2).astype(view.dtype)
    value = tuple(given_[3].tolist())
    params = {
        "declarations": c_declarations([dtype]),
        "T": c_name(dtype),
        "members": _paths(dtype),
        "literal": c_literal(given_[3], dtype),
    }
    # A literal is a private variable, and some driver loses such records in those.
    with_literal = is_aligned(dtype) or device.profile.unaligned_records
    if not with_literal:
        params["literal"] = None
    flags = cl.mem_flags.READ_WRITE | cl.mem_flags.COPY_HOST_PTR
    source = cl.Buffer(device.context, flags, hostbuf=given_)
    out = cl.Buffer(device.context, flags, hostbuf=np.zeros(count * dtype.itemsize, np.uint8))
    result = np.empty(count, dtype)
    kernel(device, "records.mako", "copy", params).enqueue(device.queue, (count,), (8,), [out, source])
    cl.enqueue_copy(device.queue, result, out)
    assert result.tobytes() == given_.tobytes()
    if with_literal:
        kernel(device, "records.mako", "literal", params).enqueue(device.queue, (count,), (8,), [out])
        cl.enqueue_copy(device.queue, result, out)
        assert [str(row) for row in result.tolist()] == [str(given_[3].tolist())] * count
    assert len(value) == len(dtype.names or ())


def _fields(dtype: np.dtype, prefix: tuple[str, ...] = ()) -> list[tuple[str, ...]]:
    found = []
    for name in dtype.names or ():
        base = dtype[name].base
        found += _fields(base, (*prefix, name)) if base.names is not None else [(*prefix, name)]
    return found


def _member(array: np.ndarray, path: tuple[str, ...]) -> np.ndarray:
    for name in path:
        array = array[name]
    return array


class _Plain:
    name = "plain"

    class profile:
        fp16 = fp64 = unaligned_records = False


@pytest.mark.host
def test_what_a_device_lacks() -> None:
    assert check_supported(">f4", _Plain, "x") == np.dtype("f4")
    for dtype in ("f8", "c16", "f2", cltypes.double2, [("a", "i4"), ("b", "f8")], [("a", [("b", "f2", 3)])]):
        with pytest.raises(UnsupportedOnDevice, match=r"x: dtype .* needs float(64|16), which 'plain'"):
            check_supported(dtype, _Plain, "x")
        assert check_supported(dtype, _Plain, "x", storage_only=True) == native(dtype)
    lost = np.dtype([("a", "i1"), ("b", "i4")])
    with pytest.raises(UnsupportedOnDevice, match="align=True"):
        check_supported(lost, _Plain, "x")
    assert check_supported(lost, _Plain, "x", moved=True) == lost
    check_supported(np.dtype(lost.descr, align=True), _Plain, "x")
    for size in (3, 5, 6, 9):
        assert lost_in_arrays([("w", "u1", size)], _Plain)
    assert lost_in_arrays([("a", "i4"), ("c", "u8")], _Plain)
    for fine in ("u1", "i8", [("w", "u1", 2)], [("w", "u1", 8)], [("w", "u4", 3)]):
        assert not lost_in_arrays(fine, _Plain)
    with pytest.raises(InvalidArgument, match="values: "):
        check_supported(object, _Plain, "values")


@pytest.mark.host
@pytest.mark.parametrize(
    ("members", "offsets", "itemsize"),
    [
        ([("a", "c16"), ("b", "i8")], [0, 16], 32),
        ([("a", "i8"), ("b", "c16")], [0, 16], 32),
        ([("a", "i1"), ("b", "c8"), ("c", "i2")], [0, 8, 16], 24),
        ([("a", "f4"), ("b", "i8")], [0, 8], 16),
        ([("a", "f2")], [0], 2),
    ],
)
def test_layout_of_structs(members: list[tuple[str, str]], offsets: list[int], itemsize: int) -> None:
    made = c_struct((name, np.dtype(kind)) for name, kind in members)
    assert [made.fields[name][1] for name, _ in members] == offsets
    assert made.itemsize == itemsize
    assert is_aligned(made)
