"""Compilers' reports are read right, kernels compile for GPUs that are not here, and targets run nothing."""

from __future__ import annotations

import json
import os
import re
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from offline_samples import ASSEMBLY, PTX, PTXAS

import pydp
from pydp.errors import BuildFailed, InvalidArgument, UnsupportedOnDevice
from pydp.offline import compilers as offline
from pydp.offline.compilers import _unresolved
from pydp.offline.reports import Resources, of_assembly, of_ptx, of_ptxas
from pydp.offline.study import target_of
from pydp.offline.target import Target, dry_run
from pydp.runtime.bounded import BoundedCache
from pydp.runtime.programs import disk_bound

pytestmark = pytest.mark.host
needs_clang = pytest.mark.skipif(offline.missing("sm_70") is not None, reason=str(offline.missing("sm_70")))
SUM = """
kernel __attribute__((reqd_work_group_size(64, 1, 1))) void sum(global const float* x, global float* y) {
    local float part[64];
    const int lane = get_local_id(0);
    part[lane] = x[get_global_id(0)];
    barrier(CLK_LOCAL_MEM_FENCE);
    y[get_global_id(0)] = part[63 - lane];
}
"""


def test_ptxas() -> None:
    tiny, matmul = of_ptxas(PTXAS).values()
    assert (tiny.kernel, tiny.registers, tiny.local_bytes, tiny.scratch_bytes, tiny.spilled_bytes) == (
        ("tiny", 10, 256, 0, 0)
    )
    assert (matmul.registers, matmul.local_bytes, matmul.scratch_bytes, matmul.spilled_bytes) == (255, 34816, 608, 616)
    assert matmul.source == "ptxas" and of_ptxas("ptxas info : 0 bytes gmem") == {}


def test_assembly() -> None:
    tiny, matmul = of_assembly(ASSEMBLY).values()
    assert (tiny.kernel, tiny.registers, tiny.scalar_registers, tiny.local_bytes) == ("tiny", 11, 10, 256)
    assert (tiny.scratch_bytes, tiny.spilled_bytes, tiny.waves) == (0, 0, 8)
    assert (matmul.kernel, matmul.registers, matmul.local_bytes) == ("matmul_simt", 256, 17408)
    assert (matmul.scratch_bytes, matmul.spilled_bytes, matmul.waves) == (112, 4 * 27, 1)


def test_the_estimate_from_ptx_is_the_most_values_that_live_at_once() -> None:
    (tiny,) = of_ptx(PTX).values()
    # In the loop: rd5, rd12, rd13 (two registers each), r5, f10, and both f6 and f7 after the load.
    assert tiny.registers == 6 + 1 + 1 + 2 + 4
    assert (tiny.local_bytes, tiny.scratch_bytes, tiny.spilled_bytes) == (256, 32, 0)
    assert "estimate" in tiny.source and of_ptx("") == {}


def test_a_value_that_is_used_at_the_end_lives_through_the_loop() -> None:
    carried = PTX.replace("st.global.f32 	[%rd11], %f8", "st.global.v2.f32 	[%rd11], {%f8, %f9}")
    (tiny,) = of_ptx(carried).values()
    assert tiny.registers == of_ptx(PTX)["tiny"].registers + 1


def test_the_result_of_inline_assembly_lives_only_after_it() -> None:
    vote = (
        "{ .reg .pred one; setp.ne.b32 one, %r1, 0; vote.sync.ballot.b32 %r4, one, 0xffffffff; @one not.b32 %r4, %r4; }"
    )
    voting = PTX.replace("st.global.f32 	[%rd11], %f8", f"{vote}\n	st.global.u32 	[%rd11], %r4")
    (tiny,) = of_ptx(voting).values()
    assert tiny.registers == of_ptx(PTX)["tiny"].registers + 1  # r1 lives through the loop, r4 does not


def test_functions_that_nothing_defines_are_found() -> None:
    assert list(offline._unresolved(PTX)) == ["_Z4pairif"]
    text = "\t.type\t_Z3oldv,@function\n s_add_u32 s4, s4, _Z3newi@gotpcrel32@lo+4\n s_add_u32 s4, _Z3oldv@rel32@lo+4\n"
    assert list(offline._unresolved(text)) == ["_Z3newi"]


@pytest.mark.parametrize(("name", "vendor"), [("sm_90", "nvidia"), ("sm_90a", "nvidia"), ("gfx90a", "amd"), ("x", "")])
def test_vendors(name: str, vendor: str) -> None:
    assert offline.vendor_of(name) == vendor


@pytest.fixture
def tools(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Any]:
    """Makes a path of given compilers the only one; each says its version and, where it compiles, its name and the
    libclc that it is given."""

    def only(*names: str, libclc: tuple[str, ...] = ("libclc-15",), forget: bool = True) -> None:
        if forget:
            offline._answers.clear()
        folder = tmp_path / f"path-{len(list(tmp_path.iterdir()))}"
        folder.mkdir()
        for name in names:
            file, _, version = name.partition("=")
            reads = 'case "$*" in *libclc-15*) ;; *) echo "error: Unknown attribute kind (86)" >&2; exit 1;; esac\n'
            knows = 'case "$*" in *gfx1201*) echo "error: unknown target" >&2; exit 1;; esac\n'
            said = f"Debian clang version {version or file[6:]}.0.6"
            script = f'#!/bin/sh\n[ "$1" = --version ] && echo "{said}" && exit\n'
            (folder / file).write_text(script + reads + (knows if "20" not in name else ""))
            (folder / file).chmod(0o755)
        for name in libclc:
            (folder / name).mkdir()
            for files in offline._LIBRARIES.values():
                (folder / name / files[0]).write_text("")
        monkeypatch.setenv("PATH", str(folder))
        monkeypatch.setattr(offline, "_FOLDERS", tuple(str(folder / name) for name in libclc))
        monkeypatch.setattr(offline.glob, "glob", lambda _: [])

    yield only
    monkeypatch.undo()
    offline._answers.clear()


INSTALL = "install clang 19 to 22 and a libclc that is no newer (apt: clang-19 libclc-15)"


@pytest.mark.parametrize(
    ("names", "libclc", "said"),
    [
        ((), ("libclc-15",), "clang is not installed, so nothing is compiled for sm_80; "),
        (("clang-15",), ("libclc-15",), "clang 15 cannot be used, so nothing is compiled for sm_80; "),
        (("clang=14", "clang-15"), ("libclc-15",), "clang 15 and clang 14 cannot be used, so nothing is compiled for "),
        (("clang-14", "clang-23"), ("libclc-15",), "clang 23 and clang 14 cannot be used, so nothing is compiled for "),
        (("clang-19",), (), "libclc is not installed, so nothing is compiled for sm_80; "),
        (("clang-19",), ("libclc-22",), "compiles nothing for sm_80 (error: Unknown attribute kind (86)); "),
    ],
)
def test_what_is_missing_is_said_in_one_sentence(
    tools: Any, names: tuple[str, ...], libclc: tuple[str, ...], said: str
) -> None:
    tools(*names, libclc=libclc)
    reason = str(offline.missing("sm_80"))
    assert said in reason and reason.endswith(INSTALL) and "\n" not in reason
    with pytest.raises(UnsupportedOnDevice, match=re.escape(reason)):
        offline.resources_of("sm_80", SUM)


@pytest.mark.parametrize(
    ("names", "libclc", "taken"),
    [
        (("clang-15", "clang-19"), ("libclc-15",), ("clang-19", "libclc-15")),
        (("clang-19", "clang-20", "clang-23"), ("libclc-15",), ("clang-20", "libclc-15")),
        (("clang=14", "clang-19"), ("libclc-15",), ("clang-19", "libclc-15")),
        (("clang=20", "clang-19"), ("libclc-15",), ("clang", "libclc-15")),
        (("clang=19", "clang-19"), ("libclc-15",), ("clang-19", "libclc-15")),
        (("clang-15", "clang-19"), ("libclc-22", "libclc-15"), ("clang-19", "libclc-15")),
    ],
)
def test_the_newest_supported_compiler_with_a_libclc_that_it_reads_is_taken(
    tools: Any, names: tuple[str, ...], libclc: tuple[str, ...], taken: tuple[str, str]
) -> None:
    tools(*names, libclc=libclc)
    found = offline.toolchain("gfx906")
    assert isinstance(found, offline.Toolchain)
    assert (Path(found.clang).name, Path(found.libclc).parent.name) == taken and offline.missing("gfx906") is None


def test_a_target_that_no_compiler_knows(tools: Any) -> None:
    assert "no compiler for xe_hpg" in str(offline.missing("xe_hpg"))
    tools("clang-19", "clang-22")
    assert "clang-22 with " in str(offline.missing("gfx1201")) and "unknown target" in str(offline.missing("gfx1201"))
    tools("clang-22", "clang-20")
    found = offline.toolchain("gfx1201")
    assert isinstance(found, offline.Toolchain) and Path(found.clang).name == "clang-20"


def test_a_compiler_that_is_installed_meanwhile_is_found(tools: Any) -> None:
    tools(libclc=())
    assert "clang is not installed" in str(offline.missing("gfx906"))
    tools("clang-19", libclc=(), forget=False)
    assert "libclc is not installed" in str(offline.missing("gfx906"))
    tools("clang-19", libclc=("libclc-22",), forget=False)
    assert "compiles nothing" in str(offline.missing("gfx906"))
    tools("clang-19", forget=False)
    assert offline.missing("gfx906") is None
    assert "unknown target" in str(offline.missing("gfx1201"))
    first = offline.toolchain("gfx906")
    tools("clang-19", "clang-20", forget=False)
    assert offline.missing("gfx1201") is None and offline.toolchain("gfx906") is first


def test_an_assembler_that_is_installed_meanwhile_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    offline._answers.clear()
    here: list[str] = []
    monkeypatch.setattr(offline, "assemblers", offline._remembered(lambda: tuple(here)))
    assert offline.assemblers() == ()
    here.append("/ptxas")
    assert offline.assemblers() == ("/ptxas",)
    here.clear()
    assert offline.assemblers() == ("/ptxas",)
    monkeypatch.undo()


def test_what_is_known_of_targets_is_bounded(tools: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    tools("clang-19")
    unknown = subprocess.CompletedProcess([], 1, "", "error: unknown target CPU 'x'; valid ones are: sm_70, sm_80")
    monkeypatch.setattr(offline, "_run", lambda *_: unknown)
    monkeypatch.setattr(offline, "_assembly", lambda *_: "")
    for number in range(100, 1100):
        assert offline.missing(f"sm_{number}") is None and offline.missing(f"gfx{number:x}") is None
    assert 0 < len(offline._answers) <= offline._answers.bound < 1000
    kept = [one for one in vars(offline).values() if hasattr(one, "cache_parameters")]
    assert all(one.cache_parameters()["maxsize"] is not None for one in kept)


@pytest.fixture
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("PYDP_CACHE_DIR", str(tmp_path))
    return tmp_path / "offline"


@needs_clang
@pytest.mark.parametrize("target", ["sm_70", "sm_90", "gfx906", "gfx90a", "gfx1030", "gfx1100"])
def test_a_kernel_compiles(target: str, cache: Path) -> None:
    (found,) = offline.resources_of(target, SUM, ["-cl-std=CL1.2"]).values()
    assert found.kernel == "sum" and found.local_bytes == 256
    assert 2 <= found.registers <= 32 and found.spilled_bytes == found.scratch_bytes == 0


@needs_clang
def test_answers_are_kept_and_damaged_ones_made_again(cache: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    first = offline.resources_of("gfx90a", SUM)
    (path,) = cache.iterdir()
    kept = path.read_bytes()
    with monkeypatch.context() as patch:
        patch.setattr(offline, "_compile", lambda *_: pytest.fail("compiled again"))
        assert offline.resources_of("gfx90a", SUM) == first
    texts = [b"", b"[", b"[1]", b'[{"kernel": 3}]', kept.replace(b'"registers": ', b'"registers": "x", "r": ')]
    for damaged in (*texts, kept.replace(b'"registers": ', b'"registers": Infinity, "r": '), b"[" * 100000):
        path.write_bytes(damaged)
        assert offline.resources_of("gfx90a", SUM) == first
    assert path.read_bytes() == kept and json.loads(kept)[0]["kernel"] == "sum"
    other = offline.resources_of("gfx906", SUM)
    assert len(list(cache.iterdir())) == 2 and other["sum"].registers


def test_answers_on_disk_are_bounded_and_those_in_use_stay(
    tools: Any, cache: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    tools("clang-19")
    compiled: list[str] = []

    def compile_(tools: Any, target: str, given: str, source: str, command: list[str]) -> dict[str, Resources]:
        compiled.append(source)
        return {"f": Resources("f", 8, source="ptxas")}

    monkeypatch.setattr(offline, "_compile", compile_)
    monkeypatch.setattr(disk_bound, "_since", BoundedCache(16))
    monkeypatch.setattr(disk_bound, "_EVERY", 8)
    monkeypatch.setitem(disk_bound.BOUNDS, "offline", disk_bound.Bound(8, 1 << 20))
    for number in range(30):
        for source in ("first", str(number)):
            assert offline.resources_of("gfx906", source)["f"].registers == 8
            assert len(list(cache.iterdir())) <= 8
        for path in cache.iterdir():  # long ago, so that the next use of a file is noted
            state = path.stat()
            os.utime(path, ns=(state.st_atime_ns, state.st_mtime_ns - 7200 * 10**9))
    assert compiled.count("first") == 1 and len(compiled) == 31


@needs_clang
def test_gpus_that_the_compiler_is_too_old_for_get_the_newest_ptx_it_knows(cache: Path) -> None:
    for number, target in enumerate(("sm_100", "sm_120"), start=1):
        assert "sum" in offline.resources_of(target, SUM, ["-cl-std=CL1.2"])
        assert len(list(cache.iterdir())) == number
    with pytest.raises(UnsupportedOnDevice, match="compiles nothing for gfx9999 "):
        offline.resources_of("gfx9999", SUM)


@needs_clang
def test_sixty_four_bit_atomics_and_subgroup_barriers_compile_everywhere(cache: Path) -> None:
    text = """
    #pragma OPENCL EXTENSION cl_khr_int64_base_atomics : enable
    kernel void touch(global ulong* x, global long* y) {
        atom_add(x, 1UL); atom_xchg(x, 2UL); atom_cmpxchg(y, 3L, 4L); atom_max(y, 5L); atom_inc(x);
        sub_group_barrier(CLK_LOCAL_MEM_FENCE);
    }"""
    extensions = ["cl_khr_int64_base_atomics", "cl_khr_int64_extended_atomics"]
    for target in ("sm_70", "gfx906", "gfx1100"):
        assert "touch" in offline.resources_of(target, text, ["-cl-std=CL1.2"], extensions)


@needs_clang
def test_what_does_not_compile_is_said(cache: Path) -> None:
    with pytest.raises(BuildFailed, match=r"sm_80 by clang.*undeclared identifier 'nothing'") as caught:
        offline.resources_of("sm_80", "kernel void f(global int* x) { x[0] = nothing; }")
    assert caught.value.device == "sm_80" and "nothing" in caught.value.log and caught.value.source
    declared = "int elsewhere(int); kernel void f(global int* x) { x[0] = elsewhere(x[1]); }"
    for target in ("sm_80", "gfx90a"):
        with pytest.raises(BuildFailed, match="elsewhere"):
            offline.resources_of(target, declared)
    assert not cache.exists()


# --- targets ----------------------------------------------------------------------------------------------------


def test_a_dry_run_notes_every_launch() -> None:
    target = target_of("sm_80")
    x = np.zeros((300, 200), np.float32)
    first, second = dry_run(target, pydp.reduce, np.zeros(1 << 24, np.float32))
    assert first.kernel.name == second.kernel.name == "reduce_rows" and first.groups > 1 == second.groups
    assert 64 <= first.group <= target.profile.max_group_size and "reduce_rows" in first.kernel.source
    (product,) = dry_run(target, pydp.matmul, x, x.T)
    assert product.kernel.template == "matmul_simt.mako" and "-cl-std=CL1.2" in product.kernel.options
    assert dry_run(target, pydp.scan, x[:0]) == []


def test_a_dry_run_of_strided_and_foreign_arrays() -> None:
    target = target_of("gfx90a")
    x = np.zeros((64, 64), ">f4")[:, ::2]
    assert dry_run(target, pydp.transpose, x)
    unaligned = np.zeros(100, [("a", "u1"), ("b", "f4")])["b"]
    assert dry_run(target, pydp.scan, unaligned)
    out = np.zeros(10, np.float32)
    assert dry_run(target, pydp.scan, out, out=out)
    with pytest.raises(InvalidArgument, match="out has shape"):
        dry_run(target, pydp.scan, out, out=out[1:])


def test_nothing_runs_on_a_target() -> None:
    target = target_of("sm_90")
    with pytest.raises(UnsupportedOnDevice, match="sm_90 is a target to compile for"):
        pydp.scan(np.zeros(10), device=target)
    with pytest.raises(UnsupportedOnDevice, match="sm_90 is a target"):
        pydp.field(np.zeros(10), device=target)
    assert not target.usable and "target" in str(target.reason) and isinstance(target, Target)
    assert pydp.explain(pydp.scan, np.zeros(10), device=target).facts["device"] == "sm_90"
    assert target.recorder.launches is None


def test_fields_do_not_go_with_a_target() -> None:
    from pydp.runtime.call import Call

    class Field:
        dtype = np.dtype(np.float32)

    Field.__module__ = "pydp.somewhere"
    with pytest.raises(InvalidArgument, match="Field"):
        Call.begin({"x": Field()}, device=target_of("sm_90"))


def test_functions_that_are_declared_before_their_bodies_are_not_unknown() -> None:
    """Compilers do not inline very large functions; only those without a body anywhere are libclc's to have."""
    declared = ".func  (.param .align 4 .b8 func_retval0[8]) aggregate\n(\n\t.param .b64 a_0\n)\n"
    text = f"{declared};\n.func other\n(\n\t.param .b32 other_0\n)\n;\n{declared}{{\n\tret;\n}}\n"
    assert list(_unresolved(text)) == ["other"]
    assert list(_unresolved(text.replace("{", ";"))) == ["aggregate", "other", "aggregate"]
