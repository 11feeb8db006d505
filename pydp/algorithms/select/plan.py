"""Plans of selections: kernels, launch sizes and all arguments except buffers and offsets."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pyopencl.cltypes as cltypes

from pydp.algorithms.iteration_budget import call_budget
from pydp.algorithms.lookback import descriptors, looking, slot_parameters, waiting
from pydp.algorithms.operators import Operator, missing_declarations, operator_text
from pydp.algorithms.operators.conversion import conversion
from pydp.algorithms.scan.layout import Layout
from pydp.algorithms.scan.plan import Arrays, make_plan, unit_of
from pydp.algorithms.scan.plan import Job as ScanJob
from pydp.algorithms.scan.policy import ScanProblem
from pydp.algorithms.scan.policy import default as default_scan
from pydp.algorithms.select.policy import FAMILY, SelectProblem, SelectSpec, partition_size
from pydp.algorithms.sort.radix import KEPT
from pydp.dtypes import c_declarations, c_name, dtype_text, natural_alignment, vector_parts
from pydp.groups.barrier_plan import Widths, build_kernel, describe_barriers
from pydp.runtime.arrays import elementwise
from pydp.runtime.arrays.operand import Operand
from pydp.runtime.programs.program import Kernel, kernel
from pydp.tuning.choose import Choice, choose

COUNT = np.dtype(np.int64)
_PAIR = np.dtype(cltypes.long2)
_STORE_BYTES = 64  # bytes of a nontemporal store


@dataclass(frozen=True)
class Condition:
    """Which elements of an array are kept, as OpenCL C. text: the function ``keep(x)``, or with `heads` ``differ(a,
    b)``, which compares an element with its predecessor. iterations: of its loops, None if they depend on
    values. vector: the condition as an expression of vectors (x; with `heads`, a and b), or "".
    vector_functions: the functions that this expression calls. three: ``keep`` gives 1 for elements of the first
    part, 2 for the second part, and 0 for the others.
    """

    name: str
    dtype: np.dtype
    text: str
    declarations: str = ""
    heads: bool = False
    iterations: int | None = 0
    vector: str = ""
    vector_functions: str = ""
    three: bool = False


@dataclass(frozen=True)
class Limits:
    """The elements are `rows` rows of equal lengths. Each has a rank, known on the device, that divides it into three
    parts: smaller, equal and larger ranks. kept: elements of a row of the result; elements of the second part that do
    not fit are dropped. kind, descending: of the ranks, see sort_radix_elements.mako."""

    rows: int
    kept: int
    kind: str
    descending: bool


LIMIT_WORDS = 4
"""Words of 64 bits that a row has in the array of limits: the rank, the sizes of the first and the second part, and one
that `rank_select` uses."""


@dataclass(frozen=True)
class Job:
    """Everything that a selection's kernels depend on.

    n: elements. steps: the strides of the arrays k (condition), e (elements) and s (values of sums). element: bytes of
    a stored element, 0 if none is stored. shape: of the array whose indexes are stored; () for none. lengths: the
    lengths of runs are stored. rest: the other elements are stored after the kept ones. ranks: the number of the run of
    each element is stored, at the index that s has for the element. summand, sums: dtype of the values and operator of
    reduce_by_key. count: dtype of the caller's count. bounded: the kernels read the number of elements, at most n, on
    the device. already_sorted: the elements may be those of another array, if `sort_unless_sorted` has left its result
    alone. limits: the condition is the rank of an element, see `Limits`; n is the length of a row.
    """

    condition: Condition
    n: int
    steps: tuple[int, ...]
    element: int = 0
    shape: tuple[int, ...] = ()
    lengths: bool = False
    rest: bool = False
    ranks: bool = False
    summand: np.dtype | None = None
    sums: Operator | None = None
    count: np.dtype | None = None
    bounded: bool = False
    already_sorted: bool = False
    limits: Limits | None = None

    @property
    def word(self) -> int:
        """The bytes of the words that an element is copied by."""
        return min(8, self.element & -self.element) if self.element else 1

    @property
    def stored(self) -> int:
        """The bytes that are stored for a kept element."""
        summed = self.sums.dtype.itemsize if self.sums is not None else 0
        return self.element + (8 * max(1, len(self.shape)) if self.shape else 0) + 4 * self.lengths + summed

    def state(self) -> Operator:
        """The operator on the states of partitions, see select_common.mako."""
        if self.sums is not None:
            return _state_of_sums(self.sums)
        if self.condition.three:
            return operator_text("(long2)(a.x + b.x, a.y + b.y)", _PAIR)
        if self.lengths:
            return operator_text("(long2)(a.x + b.x, b.x != 0 ? b.y : a.y)", _PAIR)
        return operator_text("+", COUNT)


def _state_of_sums(sums: Operator) -> Operator:
    """(number of heads, sum since the last head). All bytes have a member, so that none is published uninitialized."""
    size = sums.dtype.itemsize
    before = -size % 8
    widest = max(8, natural_alignment(sums.dtype))
    after = -(size + before + 8) % widest
    members: list[Any] = [("sum", sums.dtype)]
    members += [("before", np.uint8, (before,))] if before else []
    members += [("count", COUNT)]
    members += [("after", np.uint8, (after,))] if after else []
    dtype = np.dtype(members)
    body = "$T r = b; r.count = a.count + b.count; if (b.count == 0) r.sum = combine_sums(a.sum, b.sum); return r;"
    declarations = missing_declarations(dtype, [sums.dtype]) + sums.declarations + sums.function("combine_sums")
    return Operator(
        sums.name, dtype, body, declarations=declarations, iterations=sums.iterations, computes=sums.computes
    )


def _parameters(device: Any, job: Job, spec: SelectSpec, phase: str, state: Operator, most: int) -> dict[str, object]:
    profile, sums, condition = device.profile, job.sums, job.condition
    dtypes = [condition.dtype, state.dtype, *([] if sums is None else [job.summand, sums.dtype])]
    pads = [(name, state.dtype[name].itemsize) for name in state.dtype.names or () if name in ("before", "after")]
    wide = _STORE_BYTES // job.word if spec.nontemporal and job.element else 0
    state_kind = "parts" if condition.three else "lengths" if job.lengths else "count"
    limits = job.limits
    return {
        "declarations": c_declarations(dtypes) + state.declarations + condition.declarations,
        "source": c_name(condition.dtype),
        "condition": condition.text,
        "heads": condition.heads,
        **{f"{letter}_unit": unit_of(step) for letter, step in zip("kes", job.steps, strict=True)},
        "value": c_name(state.dtype),
        "combine": state.function(),
        "state_kind": "sums" if sums is not None else state_kind,
        "three": condition.three,
        "limits": 0 if limits is None else LIMIT_WORDS,
        "key": c_name(np.dtype(f"u{condition.dtype.itemsize}")) if limits is not None else None,
        "kind": None if limits is None else limits.kind,
        "key_bits": 8 * condition.dtype.itemsize,
        "descending": limits is not None and limits.descending,
        "rank_window": None,
        "elements": bool(job.element),
        "word": c_name(np.dtype(f"u{job.word}")),
        "element_words": job.element // job.word,
        "indexes": bool(job.shape),
        "axes": len(job.shape),
        "rest": job.rest,
        "ranks": job.ranks,
        "sums": sums is not None,
        "summand": "" if job.summand is None else c_name(job.summand),
        "sum": "" if sums is None else c_name(sums.dtype),
        "convert": "" if sums is None or job.summand is None else conversion(job.summand, sums.dtype, "values")[0],
        "combine_sums": "",
        "pads": pads,
        "already_sorted": KEPT if job.already_sorted else None,
        "count_type": "" if job.count is None else c_name(job.count),
        **_vector_sums(profile, job),
        "bounded": job.bounded,
        "phase": phase,
        "most": most,
        "block": min(spec.block, most),
        "wide": min(wide, 16),
        "nontemporal": spec.nontemporal,
        "word_bytes": job.word,
        "condition_vector": condition.vector if _by_sixteen(job) else "",
        "vector_functions": condition.vector_functions,
        "key_bytes": condition.dtype.itemsize,
        "key_mask": c_name(np.dtype(f"i{condition.dtype.itemsize}")) if condition.vector else "",
        "compress": _compresses(job),
        "partitions_ahead": profile.compute_units if profile.prefetches and phase == "single" and not limits else 0,
        "summand_bytes": 0 if job.summand is None else job.summand.itemsize,
        **slot_parameters(profile, spec, state.dtype.itemsize),
        "chained": spec.strategy == "chained",
        "lanes": spec.lanes,
        "columns": spec.columns,
        "items": spec.items,
        "window": looking(spec),
    }


def _compresses(job: Job) -> bool:
    """Whether vectors of adjacent elements can be moved at once."""
    return job.element in (0, job.word) and (job.steps[1] == 1 or not job.element)


def _by_sixteen(job: Job) -> bool:
    """Whether the condition can be evaluated, and the kept elements be moved, for 16 elements at once."""
    sums = job.sums is None or job.sums.dtype.itemsize in (4, 8)
    return bool(job.condition.vector) and job.steps[0] == 1 and not job.condition.three and sums and _compresses(job)


def sums_by_vectors(profile: Any, job: Job) -> bool:
    """Whether vectors compute the sums of runs: the operator and the conversion of values have a vector form.

    Not in the simulator: Oclgrind 21.10 reports lanes of ``v.s00123456789abcde`` as uninitialized where v is not.
    """
    sums = job.sums
    if sums is None or job.summand is None or vector_parts(sums.dtype) or sums.dtype.kind == "c":
        return False
    if profile.is_simulator:
        return False
    forms = sums.vector_body is not None and sums.identity is not None
    return forms and job.steps[2] == 1 and bool(conversion(job.summand, sums.dtype, "values")[1])


def _wraps(sums: Operator) -> bool:
    """Whether the operator adds integers: differences of such sums are exact."""
    return sums.operation == "+" and sums.dtype.kind in "iu"


def _vector_sums(profile: Any, job: Job) -> dict[str, object]:
    """Template parameters of sums by vectors."""
    sums = job.sums
    if sums is None or not sums_by_vectors(profile, job):
        return {
            "sum_bytes": 1,
            "mask": "",
            "identity": "",
            "combine_sums_vector": "",
            "convert_vector": "",
            "difference": "",
        }
    assert job.summand is not None
    name, unsigned = c_name(sums.dtype), c_name(np.dtype(f"u{sums.dtype.itemsize}"))
    return {
        "sum_bytes": sums.dtype.itemsize,
        "mask": c_name(np.dtype(f"i{sums.dtype.itemsize}")),
        "identity": sums.identity_text,
        "combine_sums_vector": sums.vector_function(16, "combine_sums_vector"),
        "convert_vector": conversion(job.summand, sums.dtype, "values")[1],
        "difference": f"as_{name}{{n}}(as_{unsigned}{{n}}({{a}}) - as_{unsigned}{{n}}({{b}}))" if _wraps(sums) else "",
    }


def _needs(phase: str, lanes: int, columns: int, window: int) -> dict[str, Widths]:
    """Widths of the barriers in select_simt.mako. window: lanes that look back together."""
    needs: dict[str, Widths] = {"taken": lanes} if phase == "single" else {}
    if phase == "single" and window > 1:
        needs["looked"] = window
    needs |= {"loaded": lanes, "summed": columns, "rows": lanes}
    return needs if phase == "reduce" else needs | {"prefixes": lanes, "placed": lanes}


class SelectPlan:
    """The prepared launches of one kind of call."""

    def __init__(self, device: Any, job: Job, choice: Choice) -> None:
        self.job, self.spec, self.choice = job, choice.spec, choice
        self.state = job.state()
        spec, profile = self.spec, device.profile
        iterations, what = job.condition.iterations, f"predicate {job.condition.name}"
        if job.sums is not None:
            iterations, what = job.sums.iterations, f"op {job.sums.title}"
        calls = call_budget(profile.loop_limit, iterations, what)
        part = partition_size(spec, job.n, profile.compute_units)
        if calls is not None and spec.mapping == "vector":
            part = min(part, max(2, calls // 8))
        self.part = part
        self.per_row = max(1, -(-job.n // part))
        self.parts = self.per_row * (1 if job.limits is None else job.limits.rows)
        alone = self.per_row == 1
        self.phase = "alone" if alone else "seeded" if spec.strategy == "reduce_then_scan" else "single"
        self.group = (1,) if spec.mapping == "vector" else (spec.lanes,)
        self.vectors = spec.mapping == "vector" and sums_by_vectors(profile, job)
        self.grid = (self.parts * self.group[0],)
        phases: tuple[str, ...] = ("reduce", "seeded") if self.phase == "seeded" else (self.phase,)
        phases = phases if job.n else ()  # without elements, only the count is stored
        self.kernels = {phase: self._kernel(device, phase) for phase in phases}
        self.between = self._between(device) if self.phase == "seeded" else None

    def _kernel(self, device: Any, phase: str) -> Kernel:
        spec, job, profile = self.spec, self.job, device.profile
        params = _parameters(device, job, spec, phase, self.state, spec.part)
        if spec.mapping == "simt":
            needs = _needs(phase, spec.lanes, spec.columns, waiting(profile, spec))
            return build_kernel(
                device, "select_simt.mako", "select_elements", params, needs,
                lanes=spec.lanes, choice=spec.barriers, subgroup=spec.subgroup,
            )  # fmt: skip
        streams = job.sums is not None and not self.vectors
        return kernel(device, "runs_vector.mako" if streams else "select_vector.mako", "select_elements", params)

    def _between(self, device: Any) -> Any:
        """The inclusive scan of the partitions' states, in place."""
        state = self.state
        problem = ScanProblem(dtype_text(state.dtype), 0, self.parts.bit_length(), state.dtype.itemsize, 0)
        spec = default_scan(device.profile, problem)
        if spec.mapping == self.spec.mapping == "simt":
            spec = replace(spec, barriers=self.spec.barriers, subgroup=self.spec.subgroup)
        layout = Layout(self.parts, (1, 1), 1, 1, (0, 0), (0, 0), 0, (0, 0))
        job = ScanJob(state.dtype, state, layout, "none", None, False, "none", False, "none", False, True)
        return make_plan(device, job, spec)

    def run(
        self,
        call: Any,
        inputs: Sequence[Operand | None],
        outputs: Sequence[Operand],
        steps: Sequence[int] = (),
        length: Operand | None = None,
        already_sorted: tuple[Operand, Operand] | None = None,
        limits: Any = None,
    ) -> None:
        """Enqueue the selection. inputs: k, e and s (None if not read). outputs: the results in the order of the
        kernel's arguments. steps: between the indexes of two elements, and between those of two axes. length: the
        number of elements, of a job that is bounded. already_sorted: the second array, and the counters of the sort.
        limits: of the rows, of a job with limits."""
        job = self.job
        if not job.n:
            for output in outputs:
                if output.name in ("total", "second", "count"):
                    elementwise.apply(call, "copy", [output.dtype.type(0)], output)
            return
        args: list[Any] = []
        for one, step in zip(inputs, job.steps, strict=True):
            if one is not None:
                args += [one.buffer, np.int64(one.offset), *([] if unit_of(step) else [np.int64(step)])]
        args += [np.int64(job.n), np.int32(self.part), *([] if length is None else [length])]
        if already_sorted is not None:
            unsorted, counters = already_sorted
            args += [unsorted, np.int64(unsorted.offset), counters]
        results: list[Any] = []
        if job.limits is not None:
            args += [limits, np.int32(self.per_row)]
        for output in outputs:
            results.append(output)
            if output.name == "indexes" and len(job.shape) > 1:
                results += [*map(np.int64, steps), *map(np.int64, job.shape[1:])]
            elif output.name == "count":
                results.append(np.int64(output.offset))
        if job.limits is not None:
            results.append(np.int64(job.limits.kept))
        if self.phase == "single":
            state, tag = descriptors(call, self.parts, self.state.dtype.itemsize)
            results += [state, tag, np.int32(self.parts)]
        elif self.phase == "seeded":
            seeds = call.scratch(self.parts * self.state.dtype.itemsize)
            call.launch(self.kernels["reduce"], self.grid, self.group, *args, seeds)
            assert self.between is not None
            self.between.run(call, Arrays(seeds, 0, seeds, 0))
            results += [seeds, *([np.int32(self.parts)] if job.rest and job.limits is None else [])]
        call.launch(self.kernels[self.phase], self.grid, self.group, *args, *results)

    def describe(self) -> list[str]:
        """Sentences about the launches."""
        if not self.job.n:
            return ["there are no elements: only the count, 0, is stored"]
        lines = [
            f"{self.job.n} elements in {self.parts} partition(s) of {self.part}, "
            + {
                "alone": "which needs no prefix",
                "single": f"in a single pass ({self.spec.strategy})",
                "seeded": "counted first, then stored after the elements of earlier partitions",
            }[self.phase]
        ]
        if self.spec.mapping == "vector":
            many = _by_sixteen(self.job) and (self.job.sums is None or self.vectors)
            how = (
                "16 elements at once, where the driver has fast instructions for it"
                if many
                else "one element at a time"
            )
            lines.append(f"the condition {self.job.condition.name} is evaluated for {how}")
        if self.job.rest and self.job.limits is None and self.phase == "seeded":
            lines.append("the other elements follow the kept ones, whose number must be known first: two passes")
        elif self.phase == "single" and self.spec.polls:
            lines.append(
                f"after {self.spec.polls} unsuccessful polls of an earlier partition, a work-group recomputes its state"
            )
        lines += [f"{phase}: {line}" for phase, one in self.kernels.items() for line in describe_barriers(one)]
        if self.job.sums is not None:
            differences = self.vectors and _by_sixteen(self.job) and _wraps(self.job.sums)
            how = (
                "differences of sums from the start of a partition" if differences else "sums that restart at each run"
            )
            lines.append(f"op {self.job.sums.title}{self.job.sums.computed_as}: {how}")
        if self.job.bounded:
            lines.append("the kernels read the number of elements from memory; the host does not wait for it")
        return lines + ([f"prefixes: {line}" for line in self.between.describe()] if self.between else [])

    def all_kernels(self) -> dict[str, Kernel]:
        """All kernels by purpose."""
        found = dict(self.kernels)
        if self.between is not None:
            found |= {f"prefixes: {name}": one for name, one in self.between.all_kernels().items()}
        return found


def select_plan(device: Any, job: Job, spec: Any) -> SelectPlan:
    """The plan of a selection; spec: as given by the caller."""
    state = job.state().dtype.itemsize
    problem = SelectProblem(
        dtype_text(job.condition.dtype),
        max(0, job.n - 1).bit_length(),
        job.condition.dtype.itemsize + (job.summand.itemsize if job.summand is not None else 0),
        job.stored,
        state,
        rest=job.rest,
        sums=job.sums is not None,
        three=job.condition.three,
        limits=job.limits is not None,
    )
    return SelectPlan(device, job, choose(FAMILY, device, problem, spec))
