"""Studies of GPUs that are not present: occupancy by hand, faults, studies, and the command that prints them."""

from __future__ import annotations

import dataclasses
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import pytest
from click.testing import CliRunner

import pydp
from pydp.cli import main
from pydp.errors import InvalidArgument
from pydp.model.architectures import by_name, by_target, rates_of
from pydp.model.costs import costs
from pydp.model.counts import Counts, Phase
from pydp.model.family import Family, Problem
from pydp.model.ranking import rank
from pydp.offline import compilers as compiler
from pydp.offline import study as offline
from pydp.offline.reports import Resources
from pydp.offline.study import compiled_kernels, faults_of, occupancy, probed, study, target_of
from pydp.offline.target import dry_run
from pydp.offline.text import text_of
from pydp.tuning.choose import Choice

pytestmark = pytest.mark.host
needs_clang = pytest.mark.skipif(compiler.missing("sm_70") is not None, reason=str(compiler.missing("sm_70")))


def using(registers: int, local_bytes: int = 0, spilled: int = 0, scratch: int = 0, source: str = "ptxas") -> Resources:
    return Resources("f", registers, 0, local_bytes, scratch, spilled, 0, source)


@pytest.mark.parametrize(
    ("target", "found", "group", "expected"),
    [
        ("sm_80", using(64, 16384), 256, (32, "registers")),  # 65536 / (64 * 32) = 32 warps
        ("sm_80", using(32, 0), 256, (64, "warps")),  # 64 of 64
        ("sm_80", using(33, 0), 256, (48, "registers")),  # 40 registers each: 51 warps, 6 whole groups of 8
        ("sm_80", using(32, 48 << 10), 256, (24, "local memory")),  # 164 / 48 = 3 groups of 8 warps
        ("sm_80", using(16, 0), 32, (32, "groups")),  # 32 groups of one warp
        ("sm_80", using(16, 0), 33, (64, "warps")),  # a group of 33 takes two warps
        ("sm_90", using(255, 0), 1024, (0, "registers")),  # 1024 * 256 registers, there are 65536
        ("gfx906", using(170, 0), 256, (4, "registers")),  # 65536 / (176 * 64) = 5.8, one whole group of 4
        ("gfx90a", using(170, 0), 256, (8, "registers")),  # twice the registers
        ("gfx1100", using(40, 9000), 64, (14, "local memory")),  # 65536 / 9000 = 7 groups of two
    ],
)
def test_occupancy_by_hand(target: str, found: Resources, group: int, expected: tuple[int, str]) -> None:
    assert occupancy(found, group, by_target(target)[1]) == expected


@pytest.mark.parametrize(
    ("found", "group", "words"),
    [
        (using(255, 4096), 256, ()),
        (using(255, 0, spilled=8, scratch=16), 256, ("8 bytes of registers spill",)),
        (using(32, 0, scratch=16), 256, ("16 bytes of private arrays",)),
        (using(32, 0, scratch=16, source="an estimate from the PTX"), 256, ()),
        (using(256), 64, ("256 registers, a work-item has 255",)),
        (using(300, source="an estimate from the PTX"), 64, ()),
        (using(260, source="an estimate from the PTX"), 256, ()),  # 256 of 255 registers fit
        (using(260, source="an estimate from the PTX"), 512, ("groups of 512 with 260 registers each do not fit",)),
        (using(32, 49153), 64, ("49153 bytes of local memory, a group has 49152",)),
        (using(16), 2048, ("groups of 2048 work-items, 1024 is the most",)),
        (using(128), 1024, ("groups of 1024 with 128 registers each do not fit",)),
    ],
)
def test_faults(found: Resources, group: int, words: tuple[str, ...]) -> None:
    profile, structure = by_target("sm_80")
    said = faults_of(found, group, profile, by_name("sm_80"), structure)
    assert len(said) == len(words) and all(word in text for word, text in zip(words, said, strict=True))


def plain(x: Any, *, device: Any, spec: Any = None) -> Any:
    """A call that chooses nothing."""
    if spec is not None:
        raise InvalidArgument(f"spec={spec!r} is not accepted")
    return pydp.scan(x, device=device, spec={"lanes": 64})


def test_what_a_call_chooses_from() -> None:
    target, x = target_of("gfx90a"), np.zeros((64, 64), np.float32)
    for call, arguments, family in (
        (pydp.matmul, (x, x), "matmul"),
        (pydp.scan, (x,), "scan"),
        (pydp.reduce, (x,), "reduce"),
        (pydp.sort, (x,), "sort"),
        (pydp.sort_by_key, (x, x), "sort"),
        (pydp.histogram, (x,), "histogram"),
        (pydp.bincount, (np.zeros(100, np.uint8),), "histogram"),
        (pydp.transpose, (x,), "transpose"),
    ):
        found = probed(target, call, *arguments)
        assert found is not None and found[0].name == found[1].family == family
    assert probed(target, plain, x) is None
    with pytest.raises(InvalidArgument, match="axes"):
        probed(target, pydp.transpose, x, axes=(0, 0))
    with pytest.raises(InvalidArgument, match="axis=5"):
        probed(target, pydp.reduce, x, axis=5)


@pytest.fixture
def made_up(monkeypatch: pytest.MonkeyPatch) -> list[Resources]:
    """Resources that the compiler is made to report, the last one again and again."""
    given: list[Resources] = []

    def resources_of(target: str, source: str, options: Any, extensions: Any) -> dict[str, Resources]:
        one = given.pop(0) if len(given) > 1 else given[0]
        return {name: one for name in ("scan", "matmul_simt", "sort_tile", "sort_merge", "matmul_combine")}

    monkeypatch.setattr("pydp.offline.target.resources_of", resources_of)
    monkeypatch.setattr(offline, "missing", lambda target: None)
    return given


def test_a_study_ranks_and_says_why_others_are_not_taken(made_up: list[Resources]) -> None:
    made_up.append(using(40, 4096))
    found = study("sm_90", pydp.matmul, *[np.zeros((4096, 4096), np.float32)] * 2)
    assert found.runs.limiter in ("memory", "compute", "latency", "launch") and found.runs.seconds
    assert len(found.others) >= 3 and all(one.not_taken for one in found.others)
    assert all(one.spec != found.runs.spec for one in found.others)
    assert found.runs.kernels and found.runs.kernels[0].resources.registers == 40 and not found.runs.faults
    assert all(why for _, why in found.impossible)
    text = text_of("matmul", found)
    assert f"limiter         {found.runs.limiter}" in text and "40 registers" in text
    assert text.count("\n  - ") >= 4 and "times the best prediction" in text


def test_the_prediction_takes_the_registers_of_the_kernel_that_does_most(monkeypatch: pytest.MonkeyPatch) -> None:
    own = {"histogram_local": using(28, 8192), "reduce_columns": using(250)}
    monkeypatch.setattr("pydp.offline.target.resources_of", lambda *_: own)
    monkeypatch.setattr(offline, "missing", lambda target: None)
    runs = study("sm_120", pydp.bincount, np.zeros(1 << 24, np.uint8)).runs
    assert {one.name for one in runs.kernels or ()} == set(own)
    # Nearly all warps fit by its 28 registers; with the 250 of the few groups that add up, a sixth would.
    assert runs.compiled_registers == 28 and runs.compiled_seconds == pytest.approx(runs.seconds, rel=0.02)


def test_spills_are_a_reason(made_up: list[Resources]) -> None:
    made_up.append(using(255, 4096, spilled=12, scratch=12))
    found = study("sm_80", pydp.scan, np.zeros(1 << 20, np.float32), top=2)
    assert found.runs.faults == ["scan: 12 bytes of registers spill"]
    assert "fault: 12 bytes of registers spill" in text_of("scan", found)
    refused = [one for one in found.others if one.not_taken == "scan: 12 bytes of registers spill"]
    assert refused and all(one.kernels for one in refused)


def test_a_given_spec_is_what_runs(made_up: list[Resources]) -> None:
    made_up.append(using(40))
    found = study("gfx90a", pydp.scan, np.zeros(1 << 20, np.float32), spec={"lanes": 128})
    assert found.choice is not None and found.choice.source == "caller" and found.runs.spec.lanes == 128
    assert found.runs.kernels is not None and found.runs.kernels[0].group == 128
    # One that is not among the candidates is predicted too; better ones are not "within the model's error" of it.
    found = study("sm_90", pydp.scan, np.zeros(1 << 24, np.float32), spec={"lanes": 512, "items": 3, "subgroup": 32})
    assert found.runs.seconds and found.runs.limiter and found.runs.compiled_seconds
    assert str(found.others[0].not_taken).endswith("; spec= asks for another")
    assert "within the model's error" not in text_of("scan", found)
    with pytest.raises(InvalidArgument, match="lanes 100000"):
        study("gfx90a", pydp.scan, np.zeros(10), spec={"lanes": 100000})


def test_a_target_without_a_compiler_is_studied_all_the_same() -> None:
    found = study("xe_hpg", pydp.scan, np.zeros(1 << 20, np.float32))
    assert found.runs.kernels is None and "no compiler for xe_hpg" in str(found.compiler)
    assert "not compiled: no compiler for xe_hpg" in text_of("scan", found)
    assert isinstance(found.choice, Choice)
    assert "plain has only one way to run this call" in text_of("plain", study("xe_hpg", plain, np.zeros(100)))


@needs_clang
def test_calls_without_work_say_that_no_kernel_runs() -> None:
    for call, shape in ((pydp.scan, 0), (pydp.sort, 0), (pydp.transpose, (0, 4))):
        assert "no kernel runs" in text_of("none", study("gfx90a", call, np.zeros(shape, np.float32)))
    with pytest.raises(InvalidArgument, match="'sm_13' is not known"):
        study("sm_13", pydp.scan, np.zeros(10))


@needs_clang
@pytest.mark.parametrize("name", ["gfx906", "gfx90a"])
def test_occupancy_is_what_amds_compiler_counts(name: str) -> None:
    x = np.zeros((2048, 2048), np.float32)
    profile, structure = by_target(name)
    compared = 0
    for rows in (4, 8):
        shape = {"mapping": "simt", "tile_m": 16 * rows, "tile_n": 16 * rows, "tile_k": 8, "rows": rows}
        spec = {**shape, "columns": rows, "lanes_m": 16, "lanes_n": 16, "pad": 4, "width": 4}
        launches = dry_run(target_of(name), pydp.matmul, x, x, spec=spec)
        (one,) = compiled_kernels(launches, profile, by_name(name), structure)
        if one.limiter == "registers":
            assert one.warps == 4 * one.resources.waves  # on each of four SIMDs
            compared += 1
    assert compared


# --- the command --------------------------------------------------------------------------------------------------


def explained(*words: str) -> str:
    result = CliRunner().invoke(main, ["explain", *words])
    assert result.exit_code == 0, result.output
    return result.output


def test_the_command_names_the_limiter_and_other_candidates(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PYDP_DEVICE", "a device that is not there")
    text = explained("--target", "sm_90", "matmul", "4096", "4096", "4096")
    assert "matmul of 4096x4096 float32, 4096x4096 float32 for sm_90, H100" in text
    assert "limiter " in text and "specialization  MatmulSpec(mapping='simt'" in text
    assert text.partition("other candidates")[2].count("\n  - ") >= 3
    if compiler.missing("sm_90") is None:
        assert "matmul_simt: " in text and " registers" in text and "warps resident" in text
    np.save(tmp_path / "x.npy", np.zeros((10, 30), np.float64))
    assert "scan of 10x30 float64" in explained("--target", "gfx90a", "scan", str(tmp_path / "x.npy"), "axis=0")


@needs_clang
def test_the_command_compiles_functions_without_specializations() -> None:
    assert "elementwise_copy" in explained("--target", "sm_70", "flip", "100")


@pytest.mark.parametrize(
    ("words", "title"),
    [
        (["matmul", "64", "32", "16", "-t", "int32"], "matmul of 64x16 int32, 16x32 int32 for gfx90a"),
        (["matmul", "64"], "matmul of 64x64 float32, 64x64 float32"),
        (["matmul", "2x64x16", "16x8"], "matmul of 2x64x16 float32, 16x8 float32"),
        (["reduce", "100", "200", "axis=0"], "reduce of 100x200 float32"),
        (["sort", "1000"], "sort of 1000 float32"),
        (["sort_by_key", "1000"], "sort_by_key of 1000 float32, 1000 float32"),
        (["transpose", "100", "200"], "transpose of 100x200 float32"),
        (["histogram", "1000", "bins=20"], "histogram of 1000 float32"),
        (["bincount", "1000"], "bincount of 1000 uint8"),
        (["argsort", "30x40", "-t", "float64"], "argsort of 30x40 float64"),
    ],
)
def test_sizes_of_every_algorithm(words: list[str], title: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(offline, "missing", lambda target: "nothing is compiled in this test")
    assert explained("--target", "gfx90a", *words).startswith(title)


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["--target", "sm_12", "scan", "10"], "target 'sm_12' is not known; sm_50"),
        (["--target", "sm_90", "-d", "cpu", "scan", "10"], "cannot be given together"),
        (["--target", "sm_90", "scan", "ten"], "'ten' is neither a .npy file nor sizes"),
        (
            ["--target", "sm_90", "scan", "10", "-t", "float33"],
            "cannot make an array of shape (10,) and type 'float33'",
        ),
        (["--target", "sm_90", "scan", "10", "axis=3"], "axis"),
        (["--target", "sm_90", "lexsort", "2x3"], "calls other functions of pydp"),
        (["--target", "sm_90", "matmul", "2x3", "4x5"], "a of shape (2, 3) has 3 columns"),
    ],
)
def test_wrong_words_are_told(words: list[str], said: str) -> None:
    result = CliRunner().invoke(main, ["explain", *words])
    assert result.exit_code != 0 and said in result.output and "Traceback" not in result.output


def test_sources_are_printed_on_request(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(offline, "missing", lambda target: "nothing is compiled in this test")
    assert "--- copy_transposed\n" in explained("--target", "sm_70", "transpose", "100", "200", "--source")


def test_candidates_that_would_spill_go_last() -> None:
    """On GPUs; the figures are a family's own estimates, before anything is compiled."""

    @dataclasses.dataclass(frozen=True)
    class ToyProblem(Problem):
        family: ClassVar[str] = "toy"

    @dataclasses.dataclass(frozen=True)
    class Spec:
        registers: int

    def counts(profile: Any, problem: Problem, spec: Spec) -> Counts:
        work = 1e12 / spec.registers
        return Counts("float32", (Phase("work", 1024, 256, operations=work, read=1e6, registers=spec.registers),))

    specs = [Spec(registers) for registers in (32, 300, 128, 255, 256)]
    family = Family("toy", Spec, lambda *_: specs[0], lambda *_: specs, lambda *_: None, counts)
    ranked = rank(family, by_target("sm_90")[0], ToyProblem("float32"), entry=by_name("sm_90"))
    order = [one.spec.registers for one in ranked]
    assert order[-2:] == [300, 256] and set(order[:3]) == {32, 128, 255}
    assert ranked[-1].reason.startswith("needs about 256 registers, a work-item has 255: they would spill")
    assert "spill" not in ranked[2].reason
    assert rank(family, by_target("gfx90a")[0], ToyProblem("float32"))[0].reason.count("spill") == 0


def test_idle_lanes_of_a_warp_cost_as_much_as_busy_ones() -> None:
    structure, rates = by_target("sm_90")[1], rates_of(by_target("sm_90")[0], by_name("sm_90"))

    def seconds(lanes: int) -> float:
        work = Phase("work", (1 << 20) // lanes, lanes, operations=1e13, read=1e3)
        return costs([Counts("float32", (work,))], rates, structure)[0].parts["compute"]

    assert seconds(16) == pytest.approx(2 * seconds(32)) and seconds(256) == pytest.approx(seconds(32))
    assert seconds(48) == pytest.approx(64 / 48 * seconds(32))
