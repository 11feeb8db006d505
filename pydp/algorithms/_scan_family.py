"""Specializations of the scan kernels and their policy: pure functions of the device's profile and the problem."""

from __future__ import annotations

import dataclasses

from pydp.algorithms._scan_counts import counts, specializations
from pydp.algorithms._scan_spec import ORDERS, STRATEGIES, ScanSpec
from pydp.groups.barrier import why_not
from pydp.lds import Skew, banks_of, skew, skewed
from pydp.runtime.profile import Profile
from pydp.specialize.family import Family, Problem

_LOOP_BOUND_PART = 1024  # two passes of it and the looks of a few dozen look-backs stay below 65,535 iterations


def problem_of(
    dtypes: str, rows: int, n: int, itemsize: int, vectors: bool, words: tuple[str, ...], columns: int
) -> Problem:
    """The description that a choice is made from; its sizes are log2 of rows and of n, bytes of an element, columns.

    vectors: the operator has a form for vectors of this dtype. words: what else tells scans apart.
    """
    sizes = ((rows - 1).bit_length() if rows else 0, (n - 1).bit_length() if n else 0, itemsize, columns)
    return Problem("scan", dtypes, sizes, (*words, "vectors") if vectors else words)


def _power_below(n: int) -> int:
    return 1 << max(n.bit_length() - 1, 0)


def _simt_items(profile: Profile, itemsize: int, lanes: int) -> int:
    """Odd numbers of items keep lanes in different banks without unused elements (see :func:`pydp.lds.skew`); about
    16 KiB of local memory leave room for more groups."""
    room = min(profile.local_bytes // 2, 16 << 10) - _local_bytes(itemsize, lanes, 16, 0)
    items = min(15, room // (lanes * itemsize)) if room > 0 else 0
    return items - 1 if items > 1 and items % 2 == 0 else items


def _local_bytes(itemsize: int, lanes: int, columns: int, items: int, pad: int = 0) -> int:
    tile = lanes * items + (lanes * items // pad if pad else 0)
    others = lanes + lanes // columns + lanes // columns
    return tile * itemsize + others * (itemsize + 1) + lanes * items + 64


def default(profile: Profile, problem: Problem) -> ScanSpec:
    """The specialization without measuring."""
    log_rows, log_n, itemsize, _ = problem.sizes
    careful = profile.loop_limit is not None
    safe = profile.group_progress and not careful
    strategy = "lookback" if safe else "reduce_then_scan"
    polls = 256 if careful else 20000 if profile.group_progress else 1000
    if profile.is_simulator:  # it reports the race where a group recomputes in place what its owner may overwrite
        polls = 1 << 20
    wide = 0
    if "vectors" in problem.flags:
        wide = max(4, min(16, _power_below(profile.simd_bytes // itemsize)))
    part = min(65536, max(16, _power_below(max(profile.l2_bytes, 1 << 18) // 8 // itemsize)))
    streamed = (itemsize << (log_rows + log_n)) > max(2 * profile.l2_bytes * profile.compute_units, 1 << 23)
    spec = ScanSpec(
        mapping="vector",
        strategy=strategy,
        part=min(part, _LOOP_BOUND_PART) if careful else part,
        vector=wide,
        nontemporal=bool(wide) and profile.kind == "cpu" and not careful and not profile.is_simulator and streamed,
        width=_width(profile, problem, wide),
        polls=polls,
        plain_polls=profile.kind == "gpu",
        barriers="auto" if profile.kind == "gpu" else "group",  # CPUs keep more in memory between subgroups' barriers
    )
    if profile.mapping != "simt":
        return spec
    lanes = min(256, _power_below(profile.max_group_size))
    while lanes > 32 and not _simt_items(profile, itemsize, lanes):
        lanes //= 2
    items = _simt_items(profile, itemsize, lanes)
    if not items:
        return spec  # elements too large for local memory
    return apart(profile, problem, dataclasses.replace(
        spec, mapping="simt", lanes=lanes, columns=min(16, lanes), items=items, vector=0, nontemporal=False, width=1
    ))  # fmt: skip


def apart(profile: Profile, problem: Problem, spec: ScanSpec) -> ScanSpec:
    """The specialization with the unused elements that the model of the device's banks asks for (pad)."""
    banks = banks_of(profile.banks, profile.bank_bytes)
    return dataclasses.replace(spec, pad=skew(banks, problem.sizes[2], spec.lanes, spec.items, spec.columns).every)


def lies(profile: Profile, itemsize: int, spec: ScanSpec) -> Skew:
    """How a group's elements lie in local memory, and what that costs on the device's banks."""
    banks = banks_of(profile.banks, profile.bank_bytes)
    return skewed(banks, itemsize, spec.lanes, spec.items, spec.columns, spec.pad)


def _width(profile: Profile, problem: Problem, wide: int) -> int:
    """Columns of a work-item: whole vectors, wide enough for whole pages' worth, narrow enough to keep cores busy."""
    columns = problem.sizes[3]
    if not wide:
        return 8 if problem.sizes[2] <= 64 else 2
    width = 4 * wide
    while width > wide and columns < 2 * profile.compute_units * width:
        width //= 2
    return width


def space(profile: Profile, problem: Problem) -> list[ScanSpec]:
    """What is worth a look: partition sizes, strategies, vectors, groups."""
    found = specializations(profile, problem, default(profile, problem))
    return [apart(profile, problem, spec) if spec.mapping == "simt" else spec for spec in found]


def check(profile: Profile, problem: Problem, spec: ScanSpec) -> str | None:
    """Why `spec` cannot run there, in one sentence; None where it can."""
    itemsize = problem.sizes[2]
    wrong = why_not(spec.mapping, spec.barriers, spec.subgroup)
    if wrong:
        return wrong
    if spec.strategy not in STRATEGIES:
        return f"strategy {spec.strategy!r} is not one of {', '.join(STRATEGIES)}"
    if profile.loop_limit is not None and spec.strategy != "reduce_then_scan":
        return (
            f"strategy {spec.strategy!r} waits in loops, which this driver ends after {profile.loop_limit} rounds; "
            "'reduce_then_scan' is accepted"
        )
    if spec.order not in ORDERS:
        return f"order {spec.order!r} is not one of {', '.join(ORDERS)}"
    if not (0 <= spec.polls < 1 << 31 and 0 <= spec.suppress < 1 << 31):
        return f"polls {spec.polls} and suppress {spec.suppress} are not between 0 and 2**31 - 1"
    if (spec.order != "ticket" or spec.suppress) and not spec.polls:
        return "order and suppress need polls, as nothing else ends the wait for what is not published"
    if spec.vector not in (0, 2, 4, 8, 16):
        return f"vector {spec.vector} is not 0, 2, 4, 8 or 16"
    if spec.vector and "vectors" not in problem.flags:
        return f"vector {spec.vector} needs a named operator on a scalar dtype; 0 is accepted here"
    if spec.part < 1 or spec.part >= 1 << 30:
        return f"part {spec.part} is not between 1 and 2**30 - 1"
    if not 1 <= spec.width <= 256 or (spec.vector and spec.width % spec.vector):
        return f"width {spec.width} is not a multiple of vector {spec.vector} from 1 to 256"
    elements = spec.part if spec.mapping == "vector" else spec.lanes * spec.items
    if spec.strategy == "reduce_then_scan" and elements == 1:
        return "'reduce_then_scan' scans the partitions' sums in turn: partitions of at least 2 elements are accepted"
    if spec.mapping == "vector":
        return None
    if not 1 <= spec.lanes <= profile.max_group_size:
        return f"lanes {spec.lanes} is not between 1 and {profile.max_group_size}"
    if spec.columns < 1 or spec.lanes % spec.columns or spec.items < 1 or spec.pad < 0:
        return f"columns {spec.columns} must divide lanes {spec.lanes}, items be positive and pad not negative"
    if profile.loop_limit is not None and "record" in problem.flags and itemsize % 4:
        return f"this driver loses records of {itemsize} bytes in local memory; mapping 'vector' is accepted"
    need = _local_bytes(itemsize, spec.lanes, spec.columns, spec.items, spec.pad)
    if need > profile.local_bytes:
        return f"{need} bytes of local memory are more than the {profile.local_bytes} there are"
    return None


def lengths(problem: Problem) -> tuple[int, ...]:
    """Rows, n, bytes of an element and columns, of a problem that has the first two as logarithms."""
    log_rows, log_n, itemsize, columns = problem.sizes
    return 1 << log_rows, 1 << log_n, itemsize, columns


FAMILY = Family("scan", ScanSpec, default, space, check, counts, lengths)
