"""How a sort runs: its specialization, the order of its elements as values for the templates, its passes. Pure."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from pydp.dtypes import c_member, c_name, is_record, vector_parts
from pydp.errors import InvalidArgument
from pydp.groups.barrier import why_not
from pydp.groups.meetings import Widths
from pydp.runtime.profile import Profile
from pydp.specialize.family import Family, Problem


@dataclass(frozen=True)
class SortSpec:
    """First stage: runs of `run` elements (CPU: a work-item sorts one, pieces of `small` by insertion; GPU: `lanes`
    with `items` elements each do, and run is their product). Then passes in which a work-item makes `stretch`
    results, in `chains` that take turns. barriers, subgroup: how lanes meet (see :mod:`pydp.groups.barrier`; GPU)."""

    mapping: str
    run: int
    small: int
    lanes: int
    items: int
    stretch: int
    chains: int
    barriers: str = "auto"
    subgroup: int | None = None


def needs(lanes: int, items: int) -> dict[str, Widths]:
    """What the barriers of sort_tile_simt.mako need, in the turns that merge runs of `items`, 2 `items`, ... elements.

    A turn reads from the pair of runs that the lane is in; what it overwrites, the turn before has read in its run.
    """
    turns = [1 << turn for turn in range(lanes.bit_length() - 1)]
    merged = [(items * run, run) for run in turns]
    placed = [(items * run, 2 * run) for run in turns]
    return {"loaded": lanes, "merged": merged or lanes, "placed": placed or lanes}


def passes(n: int, run: int) -> list[int]:
    """The widths of the runs before each merge pass."""
    widths = []
    while run < n:
        widths.append(run)
        run *= 2
    return widths


def ordering(dtype: np.dtype, key: Any, less: Any, descending: bool) -> tuple[dict[str, object], set[np.dtype]]:
    """The order as `sort_order.mako` takes it, and the dtypes that it uses.

    key: a Python function of one element; less: one of two elements (or keys), true where the first comes first.
    """
    texts: list[str] = []
    needed = {dtype}
    compared = dtype
    key_name = function = None
    if key is not None:
        lowered = _function(key, (dtype,), None, texts, needed)
        key_name, compared = lowered.name, lowered.result
    if less is not None:
        function = _function(less, (compared, compared), np.dtype(bool), texts, needed).name
    order: dict[str, object] = {
        "text": "\n".join(texts),
        "function": function,
        "key_function": key_name,
        "compared": c_name(compared),
        "parts": [] if function else list(_parts("@", compared)),
        "descending": descending,
    }
    return order, needed | {compared}


def _function(function: Any, dtypes: tuple[np.dtype, ...], result: Any, texts: list[str], needed: set[np.dtype]) -> Any:
    """A Python function as C: its text and the dtypes that it uses are added to the lists."""
    from pydp.lang.vector_operator import vector_operator  # the language is only read in where it is used

    lowered = vector_operator(function, dtypes, result)
    if lowered.text not in texts:
        texts.append(lowered.text)
    needed.update(lowered.dtypes)
    return lowered


def _parts(expression: str, dtype: np.dtype) -> Any:
    """What is compared in turn: a record's members in their order, a complex number as NumPy does (those with NaN
    after the others), a vector's components."""
    vector = vector_parts(dtype)
    if vector:
        for place in range(vector[1]):
            yield f"{expression}.s{place:x}", vector[0].kind == "f"
    elif is_record(dtype):
        assert dtype.names is not None and dtype.fields is not None
        for name in dtype.names:
            member = dtype.fields[name][0]
            base, shape = member.subdtype if member.subdtype else (member, ())
            for at in np.ndindex(*shape):
                index = "".join(f"[{i}]" for i in at)
                yield from _parts(f"{expression}.{c_member(name)}{index}", base)
    elif dtype.kind == "c":
        yield f"({expression}.x != {expression}.x)", False
        yield f"({expression}.y != {expression}.y)", False
        yield f"{expression}.x", True
        yield f"{expression}.y", True
    elif dtype.kind in "iufb":
        yield expression, dtype.kind == "f"
    else:
        raise InvalidArgument(f"dtype {dtype} has no order; a key or less function is needed")


def _power_of_two(value: int, least: int, most: int) -> int:
    """The largest power of two up to `value`, kept between two powers of two."""
    return max(least, min(most, 1 << max(value, 1).bit_length() - 1))


def default(profile: Profile, problem: Problem) -> SortSpec:
    """problem.sizes: (elements of a row, rows, bytes of a key and what it carries)."""
    n, rows, size = problem.sizes
    if profile.mapping == "vector":
        # Both copies of a run stay in half of L1; a run is not longer than what gives every core one.
        run = _power_of_two(profile.l1_bytes // (4 * size), 16, 1024)
        stretch = _power_of_two(n * rows // (4 * profile.compute_units), 1024, 16384)
        if profile.loop_limit is not None:
            run, stretch = min(run, 256), 1024
        if profile.loop_limit is not None and size & (size - 1):
            run, stretch = 1, 1024  # such drivers lose records of odd sizes in private arrays
        return SortSpec("vector", run, min(run, 16), 1, 1, stretch, 4)
    lanes = _power_of_two(min(256, profile.max_group_size), 1, 256)
    items = _power_of_two(profile.local_bytes // (2 * lanes * size), 1, 8)
    return SortSpec("simt", lanes * items, items, lanes, items, min(16, 2 * lanes * items), 1)


def candidates(profile: Profile, problem: Problem) -> list[SortSpec]:
    """Specializations worth trying."""
    base = default(profile, problem)
    if base.mapping == "simt":
        found = [
            SortSpec("simt", lanes * items, items, lanes, items, stretch, 1)
            for lanes in (64, 128, 256)
            for items in (2, 4, 8)
            for stretch in (4, 8, 16, 32)
        ]
        found.append(replace(base, barriers="group"))
    else:
        found = [
            SortSpec("vector", run, small, 1, 1, stretch, chains)
            for run in (64, 256, 1024)
            for small in (8, 16, 32)
            for stretch in (1024, 4096, 16384)
            for chains in (1, 2, 4)
        ]
    return [spec for spec in found if check(profile, problem, spec) is None]


def check(profile: Profile, problem: Problem, spec: SortSpec) -> str | None:
    """Why a specialization cannot run, or None."""
    powers = {name: getattr(spec, name) for name in ("run", "small", "lanes", "items", "stretch", "chains")}
    for name, value in powers.items():
        if value < 1 or value & (value - 1):
            return f"{name} is {value}; powers of two are accepted"
    if spec.mapping not in ("vector", "simt"):
        return f"mapping is {spec.mapping!r}; 'vector' and 'simt' are accepted"
    wrong = why_not(spec.mapping, spec.barriers, spec.subgroup)
    if wrong:
        return wrong
    size = problem.sizes[2]
    if spec.mapping == "simt":
        if spec.run != spec.lanes * spec.items:
            return f"run is {spec.run}; lanes * items, {spec.lanes * spec.items}, is accepted"
        if spec.lanes > profile.max_group_size or spec.run * size > profile.local_bytes:
            return f"lanes is {spec.lanes} and run {spec.run}, more than the device's group or local memory takes"
    elif spec.small > spec.run or spec.run * size > 2**17:
        return f"small is {spec.small} and run {spec.run}; small up to run, and runs of 64 KiB are accepted"
    return None


FAMILY = Family("sort", SortSpec, default, candidates, check)
