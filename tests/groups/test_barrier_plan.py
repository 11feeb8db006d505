"""The barriers of templates: what each needs, every lowering of every kernel, and what one step too narrow does."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
from made_up import profile
from tensor_cores import tensor_cores

import pydp
from pydp.algorithms.scan import plan as scan_plan
from pydp.algorithms.select import plan as select_plan
from pydp.algorithms.sort import policy as sort_policy
from pydp.errors import BuildFailed, InvalidArgument, UnsupportedOnDevice
from pydp.groups import barrier_plan
from pydp.groups.barrier import is_nvidia, subgroup_sizes
from pydp.groups.barrier_plan import build_kernel, describe_barriers
from pydp.runtime.programs.template import folder

HERE = Path(__file__).parent
LANES = 64
CHOOSES = profile("cl_intel_required_subgroup_size", sizes=(8, 16, 32, 64))


# --- every kernel that has a barrier, by every lowering ----------------------------------------------------------


def _scans(strategy):
    def run(spec):
        ends = pydp.device().profile.loop_limit is not None  # where none may wait, there is but one strategy
        x = np.random.default_rng(0).integers(-99, 99, 1500).astype(np.int32)
        given = {
            "mapping": "simt",
            "lanes": LANES,
            "columns": 8,
            "items": 3,
            "window": 32,
            "strategy": "reduce_then_scan" if ends else strategy,
        }
        given |= spec
        np.testing.assert_array_equal(pydp.scan(x, spec=given), np.cumsum(x, dtype=np.int32), err_msg=str(spec))
        return pydp.explain(pydp.scan, x, spec=given)

    return run


def _sorts(spec):
    x = np.random.default_rng(1).integers(-99, 99, (2, 300)).astype(np.int32)
    given = {"mapping": "simt", "run": 2 * LANES, "small": 2, "lanes": LANES, "items": 2, "stretch": 8, "chains": 1}
    given |= spec
    np.testing.assert_array_equal(pydp.sort(x, spec=given), np.sort(x), err_msg=str(spec))
    np.testing.assert_array_equal(pydp.argsort(x, spec=given), np.argsort(x, kind="stable"), err_msg=str(spec))
    return pydp.explain(pydp.sort, x, spec=given)


def _sweeps(strategy):
    def run(spec):
        ends = pydp.device().profile.loop_limit is not None  # where none may wait, there is but one strategy
        given = {"mapping": "simt", "run": 3 * LANES, "small": 1, "lanes": LANES, "items": 3, "stretch": 1, "digit": 8}
        return _sorts({**given, "strategy": "reduce_then_scan" if ends else strategy, **spec})

    return run


def _reductions(op):
    def run(spec):
        x = np.random.default_rng(2).integers(-99, 99, (3, 301)).astype(np.int32)
        given = {"mapping": "simt", "lanes": LANES, "items": 2, "part": 256, "longest": 2**30, "columns": 1, "busy": 4}
        given |= spec
        got = pydp.reduce(x, op, axis=1, dtype=np.int32, spec=given)
        np.testing.assert_array_equal(got, x.sum(1), err_msg=str(spec))
        return pydp.explain(pydp.reduce, x, op, axis=1, dtype=np.int32, spec=given)

    return run


def _products(buffers):
    def run(spec):
        a = np.random.default_rng(3).integers(-9, 9, (21, 30)).astype(np.float32)
        tile = {"tile_m": 16, "tile_n": 16, "tile_k": 8, "rows": 2, "columns": 2, "lanes_m": 8, "lanes_n": 8}
        given = {"mapping": "simt", "method": "staged", **tile, "width": 1, "unroll": 1, "pad": 1, "parts": 1}
        given |= {"buffers": buffers, **spec}
        np.testing.assert_array_equal(pydp.matmul(a, a.T, spec=given), a @ a.T, err_msg=str(spec))
        return pydp.explain(pydp.matmul, a, a.T, spec=given)

    return run


def _tensor_products(spec):
    # Of float64: lanes load its elements one by one, without the barriers of the emulated loads of float16.
    dtype = np.float64 if pydp.device().profile.fp64 else np.float16
    a = np.random.default_rng(3).integers(-9, 9, (21, 30)).astype(dtype)
    tile = {"tile_m": 32, "tile_n": 16, "tile_k": 16, "rows": 2, "columns": 4, "lanes_m": 16, "lanes_n": 4}
    given = {"mapping": "simt", "method": "mma", **tile, "width": 2, "unroll": 1, "pad": 0, "parts": 1, "buffers": 2}
    given |= spec
    with tensor_cores(pydp.device(), 80):
        np.testing.assert_array_equal(pydp.matmul(a, a.T, spec=given), a.astype("f4") @ a.T, err_msg=str(spec))
        return pydp.explain(pydp.matmul, a, a.T, spec=given)


def _histograms(counters):
    def run(spec):
        x = np.random.default_rng(4).integers(0, 16, 3000).astype(np.int32)
        given = {"mapping": "simt", "parts": 2, "copies": 1, "lanes": LANES, "waves": 2, "pad": 1}
        given |= {"counters": counters, **spec}
        want = np.histogram(x, 16, (0, 16))[0]
        got = pydp.histogram(x, 16, (0, 16), spec=given)[0]
        np.testing.assert_array_equal(got, want, err_msg=str(spec))
        return pydp.explain(pydp.histogram, x, 16, (0, 16), spec=given)

    return run


def _merges(spec):
    x, y = (np.sort(np.random.default_rng(seed).integers(-99, 99, 700).astype(np.int32)) for seed in (7, 8))
    given = {"mapping": "simt", "lanes": LANES, "items": 3, **spec}
    np.testing.assert_array_equal(pydp.merge(x, y, spec=given), np.sort(np.concatenate([x, y])), err_msg=str(spec))
    return pydp.explain(pydp.merge, x, y, spec=given)


def _ranks(spec):
    x = np.random.default_rng(9).integers(-99, 99, 3000).astype(np.int32)
    given = {"strategy": "select", "mapping": "simt", "digit": 8, "lanes": LANES, **spec}
    at = np.sort(x)[1000]
    got = pydp.partition(x, 1000, spec=given)
    np.testing.assert_array_equal(got, np.concatenate([x[x < at], x[x == at], x[x > at]]), err_msg=str(spec))
    return pydp.explain(pydp.partition, x, 1000, spec=given)


def _transposes(spec):
    x = np.random.default_rng(5).integers(0, 99, (70, 50)).astype(np.int32)
    given = {"mapping": "simt", "block": 64, "rows": 1, "chunk": 1, **spec}
    np.testing.assert_array_equal(pydp.transpose(x, spec=given), x.T, err_msg=str(spec))
    return pydp.explain(pydp.transpose, x, spec=given)


def _selections(function):
    def run(spec):
        ends = pydp.device().profile.loop_limit is not None  # where none may wait, there is but one strategy
        x = np.repeat(np.random.default_rng(6).integers(-9, 9, 700), 3).astype(np.int32)
        strategy = "reduce_then_scan" if ends or function is pydp.partition else "lookback"
        given = {"mapping": "simt", "lanes": LANES, "columns": 16, "items": 3, "strategy": strategy, **spec}
        heads = np.flatnonzero(np.diff(x, prepend=99))
        if function is pydp.reduce_by_key:
            got, args = function(x, x, spec=given)[1], (x, x)
            want = np.add.reduceat(x, heads)
        else:
            got, args = function(x, "x > 0", spec=given)[0], (x, "x > 0")
            want = np.concatenate([x[x > 0], x[x <= 0]])
        np.testing.assert_array_equal(got, want, err_msg=str(spec))
        return pydp.explain(function, *args, spec=given)

    return run


KERNELS = {
    "select_simt.mako partition": _selections(pydp.partition),
    "select_simt.mako reduce_by_key": _selections(pydp.reduce_by_key),
    "scan_simt.mako lookback": _scans("lookback"),
    "scan_simt.mako reduce_then_scan": _scans("reduce_then_scan"),
    "sort_tile_simt.mako": _sorts,
    "sort_onesweep_counts.mako sort_onesweep_places.mako sort_onesweep_pass.mako onesweep": _sweeps("onesweep"),
    "sort_onesweep_pass.mako reduce_then_scan": _sweeps("reduce_then_scan"),
    "reduce_rows_simt.mako +": _reductions("+"),
    "reduce_rows_simt.mako in order": _reductions("a - 0 + b"),
    "matmul_simt.mako of one buffer": _products(1),
    "matmul_simt.mako of two buffers": _products(2),
    "matmul_mma.mako": _tensor_products,
    "histogram_local.mako sets": _histograms("sets"),
    "histogram_local.mako own": _histograms("own"),
    "histogram_local.mako registers": _histograms("registers"),
    "copy_transposed.mako": _transposes,
    "merge_sorted.mako": _merges,
    "rank_select.mako": _ranks,
}
ELSEWHERE = {
    "forall_simt.mako",  # test_barriers.py has its functions by every lowering
    # These have no lowerings: their barriers are the whole group's.
    "histogram_weights.mako",
    "compat_radix.mako",
    "compat_reduce.mako",
    "compat_scan.mako",
}


def forced(given):
    """Every lowering and size of subgroups that a device has for groups of LANES."""
    sizes = subgroup_sizes(given, LANES)
    found = [{"barriers": choice} for choice in ("auto", "group", "none")]
    return found + [{"barriers": "subgroup"}] * bool(sizes) + [{"subgroup": size} for size in sizes]


EVERY_KERNEL = pytest.mark.parametrize(
    "name",
    [pytest.param(name, marks=pytest.mark.emulated) if name == "matmul_mma.mako" else name for name in KERNELS],
)


@pytest.mark.sweep
@EVERY_KERNEL
def test_all_lowerings_give_equal_results(device, name):
    for spec in forced(device.profile):
        found = KERNELS[name](spec)
        lines = [line for line in found.choices if "barrier '" in line]
        assert lines and all(re.search(r"barrier '\w+' \(line [\d, ]+\): width \d", line) for line in lines), lines
        if spec.get("subgroup"):
            assert any(f"sub_group_size({spec['subgroup']})" in text for text in found.sources.values()), spec
        if spec == {"barriers": "group"}:
            assert not any("sub_group_barrier" in text for text in found.sources.values())
            reason = r"whole-group barrier \((barriers is 'group'|the barrier is as wide as the group)\)|no barrier"
            assert all(re.search(reason, line) for line in lines), lines


@pytest.mark.parametrize("name", KERNELS)
def test_lowerings_that_the_driver_lacks_are_refused(device, name):
    run = KERNELS[name]
    if "NVIDIA" not in device.platform:
        with pytest.raises(UnsupportedOnDevice, match="only NVIDIA devices"):
            run({"barriers": "named"})
    with pytest.raises(UnsupportedOnDevice, match="subgroup is 12"):
        run({"subgroup": 12})
    if not subgroup_sizes(device.profile, LANES) and not is_nvidia(device.profile):  # NVIDIA's are reached by PTX
        with pytest.raises(UnsupportedOnDevice, match="no subgroups of known layout"):
            run({"barriers": "subgroup"})
    with pytest.raises(InvalidArgument, match="barriers is 'all'"):
        run({"barriers": "all"})


@pytest.mark.parametrize("call", [pydp.scan, pydp.sort, pydp.reduce, pydp.transpose, pydp.histogram, pydp.matmul])
def test_lanes_that_meet_are_not_of_the_vector_mapping(device, call):
    x = np.zeros((9, 9), np.float32)
    for given in ({"barriers": "subgroup"}, {"subgroup": 16}):
        spec = {"mapping": "vector", **({"method": "packed"} if call is pydp.matmul else {}), **given}
        with pytest.raises(InvalidArgument, match="apply only to mapping='simt'"):
            call(*([x, x] if call is pydp.matmul else [x]), spec=spec)


@pytest.mark.oclgrind
@EVERY_KERNEL
def test_the_chosen_lowering(device, name):
    KERNELS[name]({"barriers": "auto"})


def _with_barriers():
    """Templates of kernels that have a barrier, their own or that of a block they use."""
    texts = {path.name: path.read_text() for path in folder().glob("*.mako")}
    uses = {name: set(re.findall(r'file="(\w+\.mako)"', text)) for name, text in texts.items()}
    having = {name for name, text in texts.items() if re.search(r"\bbarrier\(|group_barrier\(|\bsynchronize\(", text)}
    while True:
        more = {name for name, used in uses.items() if used & having and _calls(texts[name], used & having)} - having
        if not more:
            return {name for name in having if re.search(r"^(__)?kernel ", texts[name], re.M)}
        having |= more


def _calls(text, used):
    names = [re.search(rf'name="(\w+)" file="{name}"', text) for name in used]
    return any(name and f"${{{name[1]}." in text for name in names)


@pytest.mark.host
def test_every_template_with_a_barrier_is_here():
    tested = {word for name in KERNELS for word in name.split() if word.endswith(".mako")} | ELSEWHERE
    tried = {"probe.mako", "calibrate.mako", "textbook_matmul.mako"}  # what a driver is tried and measured with
    found = {name for name in _with_barriers() if not name.startswith("bench_")}
    assert found - tried == tested


# --- the widths that are needed --------------------------------------------------------------------------------------


def met(cases, number=0):
    return next(case for case in cases if case["below"] is None or number < case["below"])["width"]


def run_of(lanes, width):
    return {lane // width for lane in lanes}


@pytest.mark.host
@pytest.mark.parametrize(("lanes", "items"), [(1, 4), (2, 1), (8, 2), (64, 4), (256, 8)])
def test_the_lanes_that_a_merge_reads_from_are_met(lanes, items):
    """By hand: who wrote what a lane may read in each turn, and who may still read what it overwrites."""
    for conditions in (True, False):
        given = profile("cl_nv_x", barriers_under_conditions=conditions)
        lowerings = barrier_plan.barrier_params(given, lanes, sort_policy.needs(lanes, items))["lowerings"]
        readers = {lane: {lane} for lane in range(lanes)}  # of each lane's slots, in the turn before
        width = items
        while width < lanes * items:
            sources = {lane: set() for lane in range(lanes)}
            for lane in range(lanes):
                pair = lane * items // (2 * width) * (2 * width)
                sources[lane] = {place // items for place in range(pair, pair + 2 * width)}
                assert len(run_of(readers[lane], met(lowerings["merged"], width))) == 1
                assert len(run_of(sources[lane] | {lane}, met(lowerings["placed"], width))) == 1
            readers = {lane: {other for other in sources if lane in sources[other]} for lane in range(lanes)}
            width *= 2


@pytest.mark.host
@pytest.mark.parametrize(("lanes", "columns", "items"), [(8, 2, 3), (8, 8, 1), (64, 16, 15), (12, 3, 4), (1, 1, 7)])
def test_the_lanes_that_a_scan_exchanges_with_are_met(lanes, columns, items):
    needs = scan_plan._needs("single", lanes, columns)
    loader = {}
    for lane in range(lanes):
        for i in range(items):
            loader[lane // columns * columns * items + lane % columns + i * columns] = lane
    assert sorted(loader) == list(range(lanes * items))
    for place, lane in loader.items():
        for name in ("loaded", "scanned"):
            assert lane // needs[name] == place // items // needs[name]
    assert all(lane // needs["summed"] == lane // columns * columns // needs["summed"] for lane in range(lanes))
    assert needs["taken"] == needs["rows"] == needs["prefixes"] == lanes


@pytest.mark.host
@pytest.mark.parametrize("conditions", [True, False])
@pytest.mark.parametrize("lanes", [1, 2, 16, 64, 256, 1024])
def test_the_turns_of_the_tree(lanes, conditions):
    """Lanes k and k + s of each turn, and of all turns that follow, are in one run of the barrier before it."""
    nvidia = profile("cl_nv_x", barriers_under_conditions=conditions)
    lockstep = profile(lockstep=32, barriers_under_conditions=conditions)
    sizes = {"sizes": (8, 16, 32, 64), "barriers_under_conditions": conditions}
    chooses = profile("cl_intel_required_subgroup_size", **sizes)
    for given in (nvidia, lockstep, chooses):
        lowerings = barrier_plan.barrier_params(given, lanes, barrier_plan.tree(lanes))["lowerings"]
        known = {0: met(lowerings["first"])}
        steps = [1 << k for k in range(lanes.bit_length() - 1)]
        known.update({step: met(lowerings["steps"], step) for step in steps})
        assert known[steps[-1] if steps else 0] == lanes
        for before, step in zip([0, *steps], steps, strict=False):
            assert known[before] % (2 * step) == 0
        assert conditions or len(lowerings["steps"]) == 1
    if lanes == 256 and conditions:
        turns = barrier_plan.barrier_params(nvidia, lanes, barrier_plan.tree(lanes))["lowerings"]["steps"]
        assert [way["kind"] for way in turns] == ["warp", "named", "named", "group"]
        assert [way["needs"] for way in turns] == ["4, 8, 16, 32", "64", "128", "256"]


@pytest.mark.host
def test_needs_are_those_of_the_templates():
    """The names of the barriers of a template and of its plan must be the same."""
    for template, needs in {
        "scan_simt.mako": scan_plan._needs("single", 8, 2),
        "select_simt.mako": select_plan._needs("single", 8, 2, 1),
        "sort_tile_simt.mako": sort_policy.needs(8, 2),
        "wg_reduce.mako": barrier_plan.tree(8),
    }.items():
        assert set(re.findall(r'\.synchronize\("(\w+)"', (folder() / template).read_text())) == set(needs), template


# --- the choice, its description, and the fallback after a failed build ---------------------------------------------


@pytest.mark.host
def test_one_way_where_barriers_may_not_stand_under_conditions():
    for conditions, count in ((True, 4), (False, 1)):
        given = profile("cl_nv_x", barriers_under_conditions=conditions)
        needs = {"steps": [(1, 1), (2, 32), (4, 64), (8, 256)]}
        cases = barrier_plan.barrier_params(given, 256, needs)["lowerings"]["steps"]
        assert len(cases) == count
        assert {case["kind"] for case in cases} == ({"none", "warp", "named", "group"} if conditions else {"group"})
        assert ", ".join(case["needs"] for case in cases) == "1, 32, 64, 256"


@pytest.mark.host
def test_subgroups_are_asked_for_only_where_a_barrier_has_them():
    assert "16" in str(barrier_plan.barrier_params(CHOOSES, 64, {"a": 16}, "auto", 16)["attribute"])
    assert "64" in str(barrier_plan.barrier_params(CHOOSES, 64, {"a": 8})["attribute"])
    assert barrier_plan.barrier_params(CHOOSES, 128, {"a": 128})["attribute"] == ""
    assert barrier_plan.barrier_params(CHOOSES, 64, {"a": 1})["attribute"] == ""
    assert barrier_plan.barrier_params(CHOOSES, 64, {"a": 8}, row=4)["attribute"] == ""


@pytest.mark.host
def test_describe_barriers():
    needs = {"steps": [(1, 1), (2, 2), (4, 64)], "gone": 64}
    cases = barrier_plan.barrier_params(profile("cl_nv_x"), 64, needs)["lowerings"]
    source = "int a;\n/* barrier: steps */ if (s < 2) ...\n"
    lines = describe_barriers(SimpleNamespace(name="k", params={"lowerings": cases}, source=source))
    expected = (
        "k, barrier 'steps' (line 2): width 1: no barrier (no lane needs another's memory); width 2: warp barrier "
    )
    warps = "(2 divides warps of 32 lanes, which divide the group's 64)"
    assert lines[0] == f"{expected}{warps}; width 64: whole-group barrier (the barrier is as wide as the group)"
    assert lines[1].startswith("k, barrier 'gone': width 64")
    assert describe_barriers(SimpleNamespace(name="k", params={}, source="")) == []


@pytest.mark.host
def test_whole_group_barriers_are_used_if_warp_barriers_do_not_build(monkeypatch, caplog):
    def kernel(device, template, name, params, options=()):
        if "warp" in str(params["lowerings"]["a"][0]["kind"]):
            raise BuildFailed("inline PTX is not known")
        return params

    monkeypatch.setattr(barrier_plan, "kernel", kernel)
    device = SimpleNamespace(profile=profile("cl_nv_x"), name="made up")
    assert build_kernel(device, "t", "k", {}, {"a": 32}, lanes=64)["lowerings"]["a"][0]["kind"] == "group"
    assert "warp barriers do not build on made up" in caplog.text
    for choice in ("subgroup",):
        with pytest.raises(BuildFailed):
            build_kernel(device, "t", "k", {}, {"a": 32}, lanes=64, choice=choice)
    device = SimpleNamespace(profile=profile(lockstep=1), name="made up")
    assert build_kernel(device, "t", "k", {}, {"a": 32}, lanes=64)["lowerings"]["a"][0]["kind"] == "group"


# --- seeded faults -------------------------------------------------------------------------------------------------


NARROWED = {
    "scan": ("loaded", "summed", "looked", "scanned"),
    "sort": ("merged", "placed"),
    "reduce": ("first",),
    "histogram": ("cleared", "counted"),
    "transpose": ("exchange",),
    "matmul": ("reads_end", "stores_end"),
    "merge": ("split", "loaded", "placed"),
    "partition": ("summed",),
}


@pytest.mark.host
@pytest.mark.skipif(shutil.which("oclgrind") is None, reason="Oclgrind is not installed (apt install oclgrind)")
@pytest.mark.parametrize("algorithm", NARROWED)
def test_one_step_too_narrow_is_a_race_under_the_simulator(algorithm, tmp_path):
    """Every barrier that two lanes need is one that the simulator misses where it is left out."""
    lane, log = HERE.parent / "drivers" / "lane.py", HERE.parent / "oclgrind_log.py"
    command = [sys.executable, str(lane), "oclgrind", sys.executable, str(log), str(tmp_path / "log")]
    command += [sys.executable, str(HERE / "run_too_narrow.py"), algorithm]
    environment = {name: value for name, value in os.environ.items() if not name.startswith(("OCLGRIND_", "OCL_ICD"))}
    for barrier in (None, *NARROWED[algorithm]):
        full = [*command, barrier] if barrier else command
        done = subprocess.run(full, env=environment, capture_output=True, text=True, timeout=500, check=False)
        assert done.returncode == (1 if barrier else 0), (barrier, done.stdout + done.stderr)
        assert ("data race" in done.stdout) == bool(barrier), (barrier, done.stdout)
