"""NumPy dtypes as OpenCL C types: names, struct declarations, literals, and checks of device support.

A record dtype becomes a packed struct with the same member offsets and padding, so a NumPy array and a ``__global``
array of the struct have the same bytes. ``c_literal`` writes a value of any dtype exactly. No driver is needed.
"""

from __future__ import annotations

import functools
import hashlib
import math
import re
from collections.abc import Iterable, Iterator
from typing import Any, Protocol

import numpy as np

from pydp.errors import InvalidArgument, UnsupportedOnDevice, shown

_SCALARS = {
    "b1": "uchar",
    "i1": "char",
    "u1": "uchar",
    "i2": "short",
    "u2": "ushort",
    "i4": "int",
    "u4": "uint",
    "i8": "long",
    "u8": "ulong",
    "f2": "half",
    "f4": "float",
    "f8": "double",
    "c8": "float2",
    "c16": "double2",
}
_ACCEPTED = "bool, integers of 8 to 64 bits, float16/32/64, complex64/128, OpenCL vectors and records of these"
_MOST_NESTED = 64  # levels of records in records
_IDENTIFIER = re.compile(r"[A-Za-z][A-Za-z0-9_]*\Z")
# OpenCL C keywords and macros, which cannot be names of struct members.
# fmt: off
_RESERVED = frozenset([
    "auto", "break", "case", "char", "const", "continue", "default", "do", "double", "else", "enum", "extern",
    "float", "for", "goto", "if", "inline", "int", "long", "register", "restrict", "return", "short", "signed",
    "sizeof", "static", "struct", "switch", "typedef", "union", "unsigned", "void", "volatile", "while", "bool",
    "uchar", "ushort", "uint", "ulong", "half", "quad", "complex", "imaginary", "size_t", "ptrdiff_t", "intptr_t",
    "uintptr_t", "event_t", "sampler_t", "queue_t", "ndrange_t", "clk_event_t", "reserve_id_t", "cl_mem_fence_flags",
    "image1d_t", "image2d_t", "image3d_t", "kernel", "global", "local", "constant", "private", "generic", "read_only",
    "write_only", "read_write", "uniform", "pipe", "true", "false", "NULL", "NAN", "INFINITY", "MAXFLOAT",
    "HUGE_VALF", "HUGE_VAL", "CHAR_BIT", "CHAR_MAX", "CHAR_MIN", "SCHAR_MAX", "SCHAR_MIN", "UCHAR_MAX", "SHRT_MAX",
    "SHRT_MIN", "USHRT_MAX", "INT_MAX", "INT_MIN", "UINT_MAX", "LONG_MAX", "LONG_MIN", "ULONG_MAX",
])
# fmt: on
_RESERVED_VECTOR = re.compile(r"(u?char|u?short|u?int|u?long|half|float|double|bool)(2|3|4|8|16)\Z")
_RESERVED_MACRO = re.compile(  # names of macros of OpenCL C, of drivers and of pydp's build options
    r"([A-Z][A-Z0-9]*_|cl_)\w+\Z|linux\Z|unix\Z|i386\Z|asm\Z|vec_step\Z|image[123]d_\w*t\Z"
)


class _HasProfile(Protocol):
    name: str

    @property
    def profile(self) -> Any: ...


def native(dtype: Any) -> np.dtype:
    """`dtype` in native byte order, including its members. Raises InvalidArgument if it is not a dtype."""
    if isinstance(dtype, np.dtype) and dtype.isnative:
        return dtype
    try:
        return np.dtype(dtype).newbyteorder("=")
    except TypeError as error:
        raise InvalidArgument(f"{shown(dtype)} is not a dtype; {_ACCEPTED} are accepted") from error


def common_dtype(*values: Any) -> np.dtype:
    """NumPy's common dtype of dtypes and numbers, in native byte order. Records of one dtype keep its layout;
    NumPy removes gaps between members. Raises InvalidArgument if there is no such dtype, and for different records.

    >>> common_dtype(np.dtype("i4"), np.dtype("f4"))
    dtype('float64')
    """
    kinds = [getattr(one, "dtype", one) for one in values]
    first = kinds[0]
    if isinstance(first, np.dtype) and first.names is not None and all(one == first for one in kinds):
        return native(first)
    try:
        found = np.result_type(*values)
    except TypeError:
        found = None
    if found is None or found.names is not None:
        raise InvalidArgument(
            f"{' and '.join(dict.fromkeys(map(str, kinds)))} have no common dtype; dtypes that NumPy combines and "
            "records of one dtype are accepted"
        )
    return native(found)


def dtype_text(dtype: np.dtype) -> str:
    """`dtype` as text in the description of a problem; equal dtypes have the same text.

    NumPy's ``np.record`` dtypes equal plain record dtypes with the same members, but their ``str`` differs.

    >>> dtype_text(np.dtype((np.record, [("a", "i4")]))), dtype_text(np.dtype("float32"))
    ("[('a', '<i4')]", 'float32')
    """
    return str(_plain(dtype))


def _plain(dtype: np.dtype) -> np.dtype:
    """`dtype` with ``np.void`` instead of ``np.record``, also in its members."""
    if dtype.subdtype is not None:
        base, shape = dtype.subdtype
        return np.dtype((_plain(base), shape))
    if dtype.names is None or dtype.fields is None:
        return dtype
    members = [dtype.fields[name] for name in dtype.names]
    layout: Any = {
        "names": dtype.names,
        "formats": [_plain(member[0]) for member in members],
        "offsets": [member[1] for member in members],
        "itemsize": dtype.itemsize,
    }
    return np.dtype(layout, align=dtype.isalignedstruct)


def is_record(dtype: np.dtype) -> bool:
    """True for a structured dtype that is not one of pyopencl's vector dtypes."""
    return dtype.names is not None and vector_parts(dtype) is None


def vector_parts(dtype: np.dtype) -> tuple[np.dtype, int] | None:
    """(element dtype, count) of one of pyopencl's vector dtypes (``pyopencl.cltypes.float4``), else None.

    pyopencl names the components ``s0``, ``s1``, ..., which distinguishes vectors from user records.
    """
    if dtype.names is None or dtype.fields is None or "s0" not in dtype.fields:
        return None
    names = [name for name in dtype.names if not name.startswith("padding")]
    element = dtype.fields[names[0]][0]
    count = len(names)
    if names != [f"s{n}" for n in range(count)] or count not in (2, 3, 4, 8, 16) or element.kind not in "iuf":
        return None
    stored = 4 if count == 3 else count
    exact = dtype.itemsize == stored * element.itemsize and all(
        dtype.fields[name][:2] == (element, position * element.itemsize) for position, name in enumerate(names)
    )
    return (element, count) if exact else None


def c_member(name: str) -> str:
    """The struct member name of the record field `name`: the name itself if OpenCL C allows it, else an escape."""
    if (
        _IDENTIFIER.match(name)
        and name not in _RESERVED
        and not name.startswith("m_x")
        and not _RESERVED_VECTOR.match(name)
        and not _RESERVED_MACRO.match(name)
    ):
        return name
    return "m_x" + name.encode().hex()


def c_name(dtype: Any) -> str:
    """The OpenCL C type of one element of `dtype`.

    Scalars and pyopencl's vectors have their OpenCL names. bool is stored as ``uchar``, complex numbers as ``float2``
    or ``double2``. A record is ``rec_`` and a hash of its layout; :func:`c_declarations` declares it. Raises
    InvalidArgument for other dtypes.

    >>> c_name("int32"), c_name(bool), c_name("complex64")
    ('int', 'uchar', 'float2')
    """
    return _c_name(native(dtype))


@functools.lru_cache(maxsize=512)
def _c_name(dtype: np.dtype) -> str:
    vector = vector_parts(dtype)
    if vector is not None:
        return f"{_c_name(vector[0])}{vector[1]}"
    if dtype.names is not None:
        _check_layout(dtype)
        return "rec_" + hashlib.sha1(_layout(dtype).encode()).hexdigest()[:12]
    name = _SCALARS.get(f"{dtype.kind}{dtype.itemsize}")
    if name is None or dtype.subdtype is not None:
        raise InvalidArgument(f"dtype {dtype} has no OpenCL C type; {_ACCEPTED} are accepted")
    return name


def record_members(dtype: np.dtype) -> list[tuple[str, np.dtype, tuple[int, ...], int]]:
    """(name, element dtype, array shape, byte offset) of a record's fields, ordered by offset."""
    assert dtype.names is not None and dtype.fields is not None
    found = []
    for name in dtype.names:
        member, offset = dtype.fields[name][:2]
        base, shape = member.subdtype if member.subdtype is not None else (member, ())
        found.append((name, base, shape, offset))
    return sorted(found, key=lambda member: member[3])


def _check_nesting(dtype: np.dtype) -> None:
    records, depth = [dtype], 0
    while records:
        depth += 1
        if depth > _MOST_NESTED:
            raise InvalidArgument(f"a record dtype has more than {_MOST_NESTED} levels of records; fewer are accepted")
        members = {base for record in records for _, base, _, _ in record_members(record)}
        records = [base for base in members if base.names is not None]


def _check_layout(dtype: np.dtype) -> None:
    _check_nesting(dtype)
    end = 0
    if dtype.itemsize == 0 or not dtype.names:
        raise InvalidArgument(f"record dtype {dtype} has size 0; records of at least one byte are accepted")
    for name, base, shape, offset in record_members(dtype):
        size = base.itemsize * math.prod(shape)
        if size == 0:
            raise InvalidArgument(f"field {name!r} of record dtype {dtype} has size 0; at least one byte is needed")
        if offset < end:
            raise InvalidArgument(f"field {name!r} of record dtype {dtype} overlaps another; fields must not overlap")
        _c_name(base)
        end = offset + size


def _layout(dtype: np.dtype) -> str:
    parts = [
        f"{c_member(name)}:{_c_name(base)}{list(shape)}@{offset}" for name, base, shape, offset in record_members(dtype)
    ]
    return ",".join(parts) + f"/{dtype.itemsize}"


def scalars(dtype: Any) -> Iterator[np.dtype]:
    """The scalar dtypes in `dtype`, in order: a scalar dtype itself, float32 twice for complex64."""
    dtype = native(dtype)
    vector = vector_parts(dtype)
    if vector is not None:
        yield from [vector[0]] * vector[1]
    elif dtype.names is not None:
        for _, base, shape, _ in record_members(dtype):
            for _ in range(math.prod(shape)):
                yield from scalars(base)
    elif dtype.kind == "c":
        yield from [np.dtype(f"f{dtype.itemsize // 2}")] * 2
    else:
        yield dtype


def c_declarations(dtypes: Iterable[Any]) -> str:
    """OpenCL C declarations that `dtypes` need before their first use: extension pragmas and structs.

    Each record is declared once, after the records that it contains, with the exact byte layout.
    """
    structs: dict[str, str] = {}
    kinds: set[str] = set()
    for dtype in dtypes:
        _collect(native(dtype), structs, kinds)
    pragmas = []
    if "half" in kinds:
        pragmas.append("#pragma OPENCL EXTENSION cl_khr_fp16 : enable\n")
    if "double" in kinds:
        pragmas.append("#pragma OPENCL EXTENSION cl_khr_fp64 : enable\n")
    return "".join(pragmas) + "".join(structs.values())


def _collect(dtype: np.dtype, structs: dict[str, str], kinds: set[str]) -> None:
    name = _c_name(dtype)
    if not is_record(dtype):
        kinds.add(name.rstrip("0123456789"))
        return
    if name in structs:
        return
    for _, base, _, _ in record_members(dtype):
        _collect(base, structs, kinds)
    structs[name] = _struct(dtype, name)


def natural_alignment(dtype: Any) -> int:
    """The alignment in bytes of a value of `dtype` in OpenCL C; for a record, the declared alignment of its struct.

    For a record, it is the largest power of two that divides the record's size, at most 8 and at most the largest
    alignment of a member.
    """
    dtype = native(dtype)
    vector = vector_parts(dtype)
    if vector is not None or dtype.names is None:
        return dtype.itemsize
    widest = max(natural_alignment(base) for _, base, _, _ in record_members(dtype))
    return min(widest, dtype.itemsize & -dtype.itemsize, 8)


def c_struct(members: Iterable[tuple[str, np.dtype]]) -> np.dtype:
    """The record that a struct of these members is in OpenCL C. There, complex numbers and vectors are aligned to their
    size; NumPy's ``align=True`` aligns them to one component.

    >>> c_struct([("value", np.dtype(np.complex128)), ("index", np.dtype(np.int64))]).itemsize
    32
    """
    offsets, end, widest = [], 0, 1
    names, dtypes = zip(*members, strict=True)
    for dtype in dtypes:
        step = natural_alignment(dtype)
        offsets.append(-(-end // step) * step)
        end, widest = offsets[-1] + dtype.itemsize, max(widest, step)
    itemsize = -(-end // widest) * widest
    return np.dtype({"names": names, "formats": dtypes, "offsets": offsets, "itemsize": itemsize})


def is_aligned(dtype: Any) -> bool:
    """False if `dtype` is a record with a misaligned member (in NumPy, most records without align=True).

    Misaligned members are slow on GPUs, and some drivers corrupt them in private variables.
    """
    dtype = native(dtype)
    if not is_record(dtype):
        return True
    widest = max(natural_alignment(base) for _, base, _, _ in record_members(dtype))
    return dtype.itemsize % widest == 0 and all(
        offset % natural_alignment(base) == 0 and is_aligned(base) for _, base, _, offset in record_members(dtype)
    )


def _struct(dtype: np.dtype, name: str) -> str:
    # `packed` keeps every offset; `aligned` avoids bytewise access where all elements are aligned. A record with the C
    # layout needs no attribute: one driver corrupts packed records in arrays.
    widest = max(natural_alignment(base) for _, base, _, _ in record_members(dtype))
    plain = is_aligned(dtype) and natural_alignment(dtype) == widest
    attribute = "" if plain else f" __attribute__((packed, aligned({natural_alignment(dtype)})))"
    lines = [f"typedef struct{attribute} {name} {{"]
    end = 0
    for member, base, shape, offset in record_members(dtype):
        if offset > end:
            lines.append(f"    uchar m_xpad{end}[{offset - end}];")
        dims = "".join(f"[{n}]" for n in shape)
        lines.append(f"    {_c_name(base)} {c_member(member)}{dims};")
        end = offset + base.itemsize * math.prod(shape)
    if dtype.itemsize > end:
        lines.append(f"    uchar m_xpad{end}[{dtype.itemsize - end}];")
    return "\n".join(lines) + f"\n}} {name};\n"


def movable(dtype: Any) -> np.dtype:
    """A dtype of the same size that every device can copy. It is used for data that is only moved, such as the values
    of a sort by key.

    Scalars and vectors of 16- and 64-bit floats become unsigned integers. Records become an array of words of their
    alignment, because some drivers corrupt misaligned members and some do not support double.

    >>> movable("float64"), movable([("a", "u1"), ("b", "i4")])
    (dtype('uint64'), dtype([('words', 'u1', (5,))]))
    """
    dtype = native(dtype)
    if is_record(dtype):
        width = natural_alignment(dtype)
        return np.dtype([("words", f"u{width}", dtype.itemsize // width)])
    if dtype.kind == "f" and dtype.itemsize != 4:
        return np.dtype(f"u{dtype.itemsize}")
    vector = vector_parts(dtype)
    parts = 2 if dtype.kind == "c" else vector[1] if vector else 1
    if _c_name(dtype).startswith(("double", "half")):
        parts = 4 if parts == 3 else parts
        return np.dtype([("words", f"u{dtype.itemsize // parts}", parts)])
    return dtype


_OPTIONAL = (("double", "fp64", "float64"), ("half", "fp16", "float16"))  # C types, profile flags, dtypes


def check_supported(
    dtype: Any, device: _HasProfile, what: str, *, storage_only: bool = False, moved: bool = False
) -> np.dtype:
    """Check that `device` can compute with `dtype`; returns it in native byte order. `what` is its name in errors.

    Raises InvalidArgument for a dtype without an OpenCL C type. Raises UnsupportedOnDevice for float64 or float16, also
    inside a vector, complex number or record, on a device without it, and for records that its driver corrupts.
    storage_only: elements are copied as :func:`movable`, which every device supports. moved: elements are only assigned
    from memory to memory, which works on all drivers.
    """
    try:
        dtype = native(dtype)
        name = _c_name(dtype)
    except InvalidArgument as error:
        raise InvalidArgument(f"{what}: {error}") from None
    if storage_only:
        return dtype
    needed = {name.rstrip("0123456789")} if not is_record(dtype) else {_c_name(d) for d in scalars(dtype)}
    for kind, flag, width in _OPTIONAL:
        if kind in needed and not getattr(device.profile, flag):
            raise UnsupportedOnDevice(f"{what}: dtype {dtype} needs {width}, which {device.name!r} does not have")
    if not moved and not device.profile.unaligned_records and _starts_with_a_byte(dtype) and not is_aligned(dtype):
        raise UnsupportedOnDevice(
            f"{what}: the driver of {device.name!r} corrupts records like {dtype}, which start with a byte and have "
            "misaligned members; make the dtype with align=True"
        )
    return dtype


def check_computed(dtypes: Iterable[np.dtype], device: _HasProfile, what: str) -> None:
    """Raise UnsupportedOnDevice if `what` computes with float64 or float16 and `device` lacks it."""
    used = {_c_name(one) for dtype in dtypes for one in scalars(dtype)}
    for kind, flag, width in _OPTIONAL:
        if kind in used and not getattr(device.profile, flag):
            raise UnsupportedOnDevice(f"{what} computes with {kind} ({width}), which {device.name!r} does not have")


def check_parameter(dtype: Any, device: _HasProfile, what: str) -> None:
    """Raise UnsupportedOnDevice if `device` cannot take a value of `dtype` as a kernel argument.

    One driver uses a wrong size for records that contain arrays of two or more axes, and for misaligned records.
    """
    dtype = native(dtype)
    if is_record(dtype) and not device.profile.unaligned_records and (_has_matrix(dtype) or not is_aligned(dtype)):
        fault = "a multidimensional array member" if _has_matrix(dtype) else "misaligned members"
        raise UnsupportedOnDevice(
            f"{what}: the driver of {device.name!r} cannot pass a record with {fault} by value; pass an array of one "
            "record"
        )


def _has_matrix(dtype: np.dtype) -> bool:
    return any(len(shape) > 1 or (is_record(base) and _has_matrix(base)) for _, base, shape, _ in record_members(dtype))


def check_kept_whole(dtype: np.dtype, device: _HasProfile) -> None:
    """Raise UnsupportedOnDevice if `device` treats a record of three bytes as a 3-component vector, which has four."""
    if device.profile.unaligned_records or not is_record(dtype) or dtype.itemsize != 3:
        return
    if [member.itemsize for member in scalars(dtype)] == [1, 1, 1]:
        raise UnsupportedOnDevice(f"{device.name!r} corrupts records of three bytes such as {dtype}; pad them to four")


def lost_in_arrays(dtype: Any, device: _HasProfile) -> bool:
    """Whether `device` corrupts private or local arrays of `dtype`.

    One driver uses a wrong element size in arrays of records of 3, 5, 6, 7, 9, ... bytes and of misaligned records.
    """
    dtype = native(dtype)
    if not is_record(dtype) or device.profile.unaligned_records:
        return False
    return (dtype.itemsize % 4 != 0 and dtype.itemsize > 2) or not is_aligned(dtype)


def _starts_with_a_byte(dtype: np.dtype) -> bool:
    """Whether the first scalar of a record has one byte. llvmpipe corrupts such misaligned records even singly."""
    return is_record(dtype) and next(scalars(dtype)).itemsize == 1


def c_literal(value: Any, dtype: Any) -> str:
    """The OpenCL C literal of `value` as an element of `dtype` (a number, or a tuple for vectors and records).

    Floats are written in hexadecimal and are exact. Raises InvalidArgument if the value does not fit the dtype.

    >>> c_literal(-128, "int8"), c_literal(1.5, "float32"), c_literal(7, "uint64")
    ('((char)-128)', '0x1.8000000000000p+0f', '7UL')
    """
    dtype = native(dtype)
    name = c_name(dtype)
    vector = vector_parts(dtype)
    if vector is not None:
        parts = list(_sequence(value, dtype, vector[1]))
        return f"(({name})({', '.join(c_literal(part, vector[0]) for part in parts)}))"
    if dtype.names is not None:
        return f"(({name}){_initializer(value, dtype)})"
    if dtype.kind == "c":
        number = complex(value)
        half = np.dtype(f"f{dtype.itemsize // 2}")
        return f"(({name})({c_literal(number.real, half)}, {c_literal(number.imag, half)}))"
    if dtype.kind == "f":
        return _float_literal(value, dtype)
    return _integer_literal(value, dtype, name)


def _sequence(value: Any, dtype: np.dtype, count: int) -> list[Any]:
    if isinstance(value, np.ndarray) and value.shape == () and value.dtype.names is not None:
        value = value[()]
    parts = list(value.tolist() if isinstance(value, np.ndarray) else value)
    if len(parts) < count:
        raise InvalidArgument(f"{shown(value)} has {len(parts)} parts; {dtype} needs {count}")
    return parts[:count]


def _initializer(value: Any, dtype: np.dtype) -> str:
    assert dtype.names is not None and dtype.fields is not None
    if isinstance(value, dict):
        given = dict(value)
    else:
        given = dict(zip(dtype.names, _sequence(value, dtype, len(dtype.names)), strict=True))
    parts = []
    for member, base, shape, _ in record_members(dtype):
        if member not in given:
            raise InvalidArgument(f"{shown(value)} has no field {member!r}; {dtype} needs one")
        parts.append(f".{c_member(member)} = {_nested(given[member], base, shape)}")
    return "{" + ", ".join(parts) + "}"


def _nested(value: Any, base: np.dtype, shape: tuple[int, ...]) -> str:
    if shape:
        return "{" + ", ".join(_nested(part, base, shape[1:]) for part in _sequence(value, base, shape[0])) + "}"
    return _initializer(value, base) if is_record(base) else c_literal(value, base)


def _float_literal(value: Any, dtype: np.dtype) -> str:
    try:
        if value is None:
            raise TypeError("None is not a number")
        with np.errstate(over="ignore"):
            number = float(dtype.type(value))
    except (TypeError, ValueError, OverflowError) as error:
        raise InvalidArgument(f"{shown(value)} is not a {dtype}; real numbers are accepted") from error
    cast = {"f2": "half", "f8": "double"}.get(f"f{dtype.itemsize}", "float")
    if math.isnan(number):
        text = "NAN" if cast == "float" else f"(({cast})NAN)"
        return f"(-{text})" if math.copysign(1.0, number) < 0 else text
    if math.isinf(number):
        text = "INFINITY" if cast == "float" else f"(({cast})INFINITY)"
        return f"(-{text})" if number < 0 else text
    text = number.hex() + ("" if cast == "double" else "f")
    if cast == "half":
        return f"((half){text})"
    return f"({text})" if text.startswith("-") else text


def _integer_literal(value: Any, dtype: np.dtype, name: str) -> str:
    try:
        number = int(value)
        exact = number == value
    except (TypeError, ValueError, OverflowError):
        exact = False
    low, high = (0, 1) if dtype.kind == "b" else (int(np.iinfo(dtype).min), int(np.iinfo(dtype).max))
    if not exact or not low <= number <= high:
        raise InvalidArgument(f"{shown(value)} is not a {dtype}; integers from {low} to {high} are accepted")
    if dtype.itemsize < 4:
        return f"(({name}){number})"
    suffix = {"int": "", "uint": "u", "long": "L", "ulong": "UL"}[name]
    if number == low < 0:  # the literal of its magnitude would overflow the type
        return f"(-{high}{suffix} - 1)"
    return f"({number}{suffix})" if number < 0 else f"{number}{suffix}"
