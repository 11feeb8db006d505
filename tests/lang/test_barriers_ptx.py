"""NVIDIA's barriers of one warp and of several warps of a group, compiled offline to PTX and machine code."""

from __future__ import annotations

import re
import shutil
import subprocess

import barrier_examples
import numpy as np
import pytest
from made_up import profile

import pydp
from pydp.lang.compile import FieldType, NumberType, translate
from pydp.lang.opencl import simt as simt_lowering
from pydp.offline.compilers import toolchain
from pydp.offline.study import target_of
from pydp.offline.target import dry_run
from pydp.runtime.programs.template import render

TOOLS = toolchain("sm_70")

pytestmark = [
    pytest.mark.host,
    pytest.mark.skipif(isinstance(TOOLS, str), reason=str(TOOLS)),
]

PROFILE = profile("cl_nv_device_attribute_query")
FIELD, NUMBER = FieldType(np.dtype(np.int32), 1), NumberType(np.dtype(np.int32), True)
FUNCTIONS = {
    "sums_of_64": ((64,), [FIELD, FIELD]),
    "turned_by_turns": ((64,), [FIELD, FIELD, FIELD, NUMBER]),
    "pairs_and_rows": ((2, 64), [FieldType(np.dtype(np.int32), 2)] * 2),
    "sums_of_512": ((512,), [FIELD, FIELD]),
}


def sums_of_512(idx, out, x):
    s = pydp.local_field(np.int32, 512)
    i = idx.local[0]
    s[i] = x[idx]
    pydp.group_barrier()
    for k in range(9):
        n = 256 >> k
        if i < n:
            s[i] += s[i + n]
        pydp.group_barrier()
    if i == 0:
        out[idx.group[0]] = s[0]


def source(name, **options):
    group, types = FUNCTIONS[name]
    fn = getattr(barrier_examples, name, None) or sums_of_512
    function = translate(fn, len(group), group, types, np.dtype(np.int32))
    lowered = simt_lowering.LOWERING.lower(function, PROFILE, **options)
    assert lowered.uses_ptx == (options.get("barriers") not in ("group", "none"))
    return render(lowered.template, lowered.params), lowered.barriers


def ptx(text, arch, folder):
    """The PTX of OpenCL source. It must also pass ptxas, if ptxas is installed and supports the architecture."""
    given = render("offline_functions.mako", {"vendor": "nvidia"}) if "atom_" in text else ""  # what libclc lacks
    (folder / "kernel.cl").write_text(given + text)
    command = [TOOLS.clang, "-x", "cl", "-cl-std=CL1.2", "-target", "nvptx64-nvidia-nvcl", f"-march={arch}", "-O2"]
    command += ["-S", "-nogpulib", "-Wno-linker-warnings", "-Xclang", "-finclude-default-header"]
    command += ["-Xclang", "-mlink-builtin-bitcode", "-Xclang", TOOLS.libclc]
    command += ["-o", str(folder / "kernel.ptx"), str(folder / "kernel.cl")]
    done = subprocess.run(command, capture_output=True, text=True, timeout=500, check=False)
    assert done.returncode == 0, done.stderr
    if shutil.which("ptxas"):  # part of NVIDIA's toolkit; the offline lane brings it
        command = ["ptxas", f"-arch={arch}", str(folder / "kernel.ptx"), "-o", str(folder / "kernel.cubin")]
        done = subprocess.run(command, capture_output=True, text=True, timeout=500, check=False)
        assert done.returncode == 0 or "is not defined for option 'gpu-name'" in done.stderr, done.stderr
    return (folder / "kernel.ptx").read_text()


def barriers_of(text):
    """The barrier instructions in PTX source."""
    return set(re.findall(r"(bar\.warp\.sync|barrier\.sync|bar\.sync|barrier\.cta\.sync(?:\.aligned)?)\b", text))


@pytest.mark.parametrize("arch", ["sm_70", "sm_90"])
@pytest.mark.parametrize("name", FUNCTIONS)
def test_the_chosen_barriers_compile(name, arch, tmp_path):
    text, _ = source(name)
    found = ptx(text, arch, tmp_path)
    assert "bar.warp.sync 0xffffffff" in found or "bar.warp.sync \t0xffffffff" in found
    if name in ("pairs_and_rows", "sums_of_512"):
        assert re.search(r"barrier\.sync %r\d+, 64;|barrier\.sync %r\d+, 256;", found)


def test_a_tree_of_512_uses_barriers_of_256_128_64_then_warps():
    text, reasons = source("sums_of_512")
    lines = next(line for line in text.splitlines() if line.startswith("#define LANE_BARRIER_1"))
    order = re.findall(r"barrier\.sync %0, (\d+)|(bar\.warp\.sync)", lines)
    assert [count or name for count, name in order] == ["256", "128", "64", "bar.warp.sync"]
    assert "named barrier" in reasons[1] and "warp barrier" in reasons[1]


@pytest.mark.parametrize("choice", ["group", "none", "subgroup", "named"])
def test_every_choice_compiles(choice, tmp_path):
    found = barriers_of(ptx(source("sums_of_512", barriers=choice)[0], "sm_90", tmp_path))
    assert ("barrier.sync" in found) == (choice == "named")
    assert ("bar.warp.sync" in found) == (choice == "subgroup")


# --- kernels of templates ------------------------------------------------------------------------------------

ROWS = np.zeros((3, 4096), np.float32)
REDUCTION = {"mapping": "simt", "lanes": 256, "items": 2, "part": 2048, "longest": 2**30, "columns": 1, "busy": 8}
TEMPLATES = {
    "scan": (pydp.scan, (ROWS[0],), {}, {"mapping": "simt", "lanes": 128, "columns": 64, "items": 7}),
    "sort_tile": (pydp.sort, (ROWS[0],), {}, {"mapping": "simt", "run": 1024, "lanes": 256, "items": 4, "small": 4}),
    "reduce_rows": (pydp.reduce, (ROWS, "+"), {"axis": 1}, REDUCTION),
}
CHOSEN = {  # instructions in the order of a kernel's barriers and their iterations
    "scan": "group warp 64 64 group group 64",
    "sort_tile": "group none warp 64 128 warp 64 128 group",
    "reduce_rows": "warp warp 64 128 group",
}


def planned(name, arch, choice):
    """The kernel of a template, planned for a GPU of the given architecture."""
    call, args, named, spec = TEMPLATES[name]
    launches = dry_run(target_of(arch), call, *args, **named, spec={**spec, "barriers": choice})
    return next(one.kernel for one in launches if one.kernel.name == name)


@pytest.mark.parametrize("arch", ["sm_70", "sm_90"])
@pytest.mark.parametrize("name", TEMPLATES)
def test_templates_compile_with_the_chosen_barriers(name, arch, tmp_path):
    kernel = planned(name, arch, "auto")
    cases = [case for one in kernel.params["lowerings"].values() for case in one]
    lowerings = [str(case["width"]) if case["kind"] == "named" else case["kind"] for case in cases]
    assert " ".join(lowerings) == CHOSEN[name]
    found = ptx(kernel.source, arch, tmp_path)
    counts = set(re.findall(r"barrier\.sync \s*%r\d+, (\d+);", found))
    assert counts == {one for one in lowerings if one.isdigit()}
    assert ("bar.warp.sync" in found) == ("warp" in lowerings)


@pytest.mark.parametrize("choice", ["group", "none", "subgroup", "named"])
@pytest.mark.parametrize("name", TEMPLATES)
def test_templates_compile_with_every_choice(name, choice, tmp_path):
    found = barriers_of(ptx(planned(name, "sm_90", choice).source, "sm_90", tmp_path))
    assert ("barrier.sync" in found) == (choice == "named")
    assert ("bar.warp.sync" in found) == (choice == "subgroup")
