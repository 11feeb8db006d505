"""Programs that declare only the built-in functions that they use: the header's index, and what drivers build."""

from __future__ import annotations

import ctypes
import logging
import re

import numpy as np
import pyopencl as cl
import pytest

from pydp.errors import BuildFailed
from pydp.runtime.programs import builtins_used, program
from pydp.runtime.programs.builtins_used import GUARD, Header
from pydp.runtime.programs.template import folder

HEADER = """\
#ifndef GUARD
#define GUARD
/* sin(x); a comment with cos(x); */
#define __ovld __attribute__((overloadable)) \\
    __attribute__((const))
typedef float length_t;
float __ovld sin(float); // tan(x);
float __ovld cos(float);
#if defined(fp64)
double __ovld sin(double);
#elif defined(fp16)
half __ovld tan(half);
#else
void __attribute__((overloadable))
    tan(int, int);
#endif
#define twice(x) add_sat(x, x)
int __ovld add_sat(int, int);
#endif
"""


@pytest.mark.host
def test_functions_that_a_source_names_are_declared_for_all_types_with_the_conditions_around():
    text = Header(HEADER).declarations("kernel void k(global float *x) { *x = sin(*x); }")
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    assert lines == [
        "#ifndef GUARD",
        "#define GUARD",
        "#define __ovld __attribute__((overloadable))      __attribute__((const))",
        "typedef float length_t;",
        "float __ovld sin(float);",
        "#if defined(fp64)",
        "double __ovld sin(double);",
        "#elif defined(fp16)",
        "#else",
        "#endif",
        "#define twice(x) add_sat(x, x)",
        "int __ovld add_sat(int, int);",  # a macro of the header may call it
        "#endif",
    ]


@pytest.mark.host
def test_declarations_on_several_lines_and_functions_that_macros_call():
    text = Header(HEADER).declarations("#define f tan\n")
    assert "half __ovld tan(half);" in text and re.search(
        r"void __attribute__\(\(overloadable\)\)\s+tan\(int, int\);", text
    )
    assert "sin" not in text and "cos" not in text


@pytest.mark.host
@pytest.mark.parametrize("text", ["int f(int);\n#endif\n", "#else\n", "#if 1\nint f(int);\n"])
def test_headers_whose_conditionals_are_not_balanced_are_not_used(text):
    with pytest.raises(ValueError, match="conditional"):
        Header(text)


@pytest.mark.host
def test_the_library_of_a_device_among_versions(monkeypatch, tmp_path):
    """A device is an object that begins with a pointer to the functions of its driver."""
    lines = []
    for number, version in enumerate(("3", "7")):
        root = tmp_path / version
        (root / "lib").mkdir(parents=True)
        (root / "lib/header.h").write_text(f"int version{version}(int);")
        lines.append(f"{number + 1}000-{number + 1}fff r-xp 00000000 08:01 5   {root}/lib/libdriver.so.{version}")
    monkeypatch.setattr(builtins_used, "proc_text", lambda name: "\n".join(["7000-7fff rw-p 00000000 00:00 0", *lines]))
    for first, version in ((0x1010, "3"), (0x2010, "7")):
        functions = (ctypes.c_void_p * 8)(0, first)
        handle = ctypes.c_void_p(ctypes.addressof(functions))
        found = builtins_used._libraries_of(ctypes.addressof(handle), "libdriver")
        assert builtins_used._header(found, "header.h").names == {f"version{version}"}


def _header(device):
    if device.quirks.builtin_header is None:
        pytest.skip("the driver's programs do not begin with a header of all functions")
    found = builtins_used.header_of(device)
    assert found is not None, "the driver's header is not where it is expected"
    return found


def _built_text(device, source):
    return program.build_source(device, source).cl.get_info(cl.program_info.SOURCE)


@pytest.mark.oclgrind
def test_programs_are_built_with_the_declarations_that_they_use(device, caplog):
    header = _header(device)
    text = header.declarations("convert_int_sat(x) vload16(0, p) vstore16(x, 0, p) get_global_id(0)")
    assert len(text) < 60_000 and "int __ovld __cnfn convert_int_sat(double)" in text and "sincos" not in text
    source = "kernel void k(global int *x, float y) { x[get_global_id(0)] = convert_int_sat(exp2(y)) + max(1, 2); }"
    with caplog.at_level(logging.DEBUG, logger="pydp"):
        built = program.build_source(device, source)
    assert f"#undef {GUARD}" in built.cl.get_info(cl.program_info.SOURCE) and not caplog.records
    queue, x = device.queue, np.zeros(1, np.int32)
    held = cl.Buffer(device.context, cl.mem_flags.READ_WRITE | cl.mem_flags.COPY_HOST_PTR, hostbuf=x)
    cl.Kernel(built.cl, "k")(queue, (1,), (1,), held, np.float32(5))
    cl.enqueue_copy(queue, x, held)
    assert x[0] == 34


def test_no_declaration_of_the_drivers_header_is_lost(device):
    """With all names as the source, every statement of the header is there."""
    header = _header(device)
    text = header.declarations(" ".join(header.names))
    library, root = device.quirks.builtin_header
    folders = [folder for path in builtins_used._libraries(library) for folder in path.parents[:3]]
    path = next(path for folder in folders for path in folder.glob(root))
    whole = (path.parent / "opencl-c.h").read_text()
    whole = re.sub(r"/\*.*?\*/|//[^\n]*", " ", whole, flags=re.DOTALL)
    for name in (
        "sin",
        "vload16",
        "vstore_half16_rte",
        "convert_uchar16_sat_rtz",
        "atomic_fetch_add_explicit",
        "select",
    ):
        counts = [len(re.findall(rf"\b{name}\s*\(", part)) for part in (whole, header.declarations(name), text)]
        assert counts[0] > 0 and counts[0] == counts[1] == counts[2], (name, counts)
    assert whole.count(";") <= text.count(";")


def test_programs_that_do_not_build_with_them_are_built_with_the_whole_header(device, caplog, monkeypatch):
    _header(device)
    source = "kernel void k(global float *x) { *x = sin(*x) + 5.0f; }"
    with caplog.at_level(logging.DEBUG, logger="pydp"), monkeypatch.context() as patch:
        patch.setattr(Header, "declarations", lambda header, text: "a header of another version;")
        assert _built_text(device, source) == source
    assert "does not build with the declarations" in caplog.text


def test_macros_may_join_names(device):
    _header(device)
    source = "#define JOIN(a, b) a##b\nkernel void k(global float *x) { *x = JOIN(si, n)(*x); }"
    assert _built_text(device, source) == source


def test_messages_of_the_compiler_name_the_lines_of_the_source(device):
    with pytest.raises(BuildFailed, match=r":3:\d+"):
        program.build_source(device, "kernel void k(global int *x) {\n    *x = 1;\n    *x = nothing_there;\n}")


def test_drivers_without_their_header_build_with_their_own_declarations(device, monkeypatch):
    _header(device)
    monkeypatch.setattr(builtins_used, "_header", lambda library, root: None)
    source = "kernel void k(global float *x) { *x = cos(*x) + 17.0f; }"
    assert _built_text(device, source) == source


@pytest.mark.host
def test_templates_do_not_join_names():
    """Programs that do join names need the whole header, which takes a tenth of a second."""
    for path in folder().glob("*.mako"):
        for line in path.read_text().splitlines():
            assert line.lstrip().startswith("##") or "##" not in line, (path.name, line)
