"""Plans of scans: kernels, launch sizes and all arguments except buffers and offsets."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import numpy as np

from pydp.algorithms.iteration_budget import call_budget
from pydp.algorithms.lookback import descriptors, words_per_slot
from pydp.algorithms.operators import Operator
from pydp.algorithms.operators.conversion import conversion
from pydp.algorithms.scan.layout import Layout
from pydp.algorithms.scan.policy import ScanSpec, partition
from pydp.dtypes import c_declarations, c_name
from pydp.groups.barrier_plan import Widths, build_kernel, describe_barriers
from pydp.runtime.programs.program import Kernel, kernel


@dataclass(frozen=True)
class Job:
    """Everything that a scan's kernels depend on. heads: "none", "flags" or "keys". init, heads_init, start: see
    scan_common.mako. Every row starts with a head; scans of many rows therefore have start "none"."""

    source: np.dtype
    operator: Operator
    layout: Layout
    heads: str
    head_dtype: np.dtype | None
    exclusive: bool
    init: str
    heads_init: bool
    start: str
    total: bool
    in_place: bool

    @property
    def value(self) -> np.dtype:
        """The dtype of the scan and its result."""
        return self.operator.dtype

    def calls(self, profile: Any) -> int | None:
        """The most operator calls in loops of a work-item that the driver allows; None: no limit."""
        return call_budget(profile.loop_limit, self.operator.iterations, f"op {self.operator.title}")


class Arrays(NamedTuple):
    """The buffers of a launch with their element offsets. `init` is a scalar argument or (buffer, offset)."""

    x: Any
    x_offset: int
    y: Any
    y_offset: int
    h: Any = None
    h_offset: int = 0
    init: Any = None
    carry: Any = None
    total: Any = None


def unit_of(step: int) -> int:
    """The stride if it is 1 or -1 (kernels are specialized for these), else 0."""
    return step if step in (1, -1) else 0


def _shared(job: Job, wide: int) -> dict[str, object]:
    """Template parameters of all scan kernels. wide: elements of a vector, or 0 for scalar code."""
    operator = job.operator
    one, many = conversion(job.source, job.value)
    return {
        "declarations": c_declarations([job.source, job.value]) + operator.declarations,
        "source": c_name(job.source),
        "value": c_name(job.value),
        "convert": one,
        "combine": operator.function(),
        "heads": job.heads,
        "head_type": c_name(job.head_dtype) if job.head_dtype is not None else "",
        "init": job.init,
        "exclusive": job.exclusive,
        "start_value": (operator.start_text or "") if job.init == "none" else "",
        "vector": wide,
        "combine_vector": operator.vector_function(wide) if wide else "",
        "convert_vector": many.replace("$N", str(wide)),
    }


def parameters(device: Any, job: Job, spec: ScanSpec, phase: str, template: str) -> dict[str, object]:
    """Template parameters of the kernels for flat scans and scans of rows."""
    profile, layout = device.profile, job.layout
    units = [unit_of(step) for step in layout.step]
    rows = layout.rows > 1
    simt = template == "scan_simt.mako"
    wide = spec.vector if not simt and units[0] and units[1] and conversion(job.source, job.value)[1] else 0
    shared = _shared(job, wide) | {
        "rows": rows,
        "nested": rows and layout.inner > 1,
        "x_unit": units[0],
        "y_unit": units[1],
        "h_unit": units[2] if len(units) > 2 else 1,
        "heads_init": job.heads_init,
        "start": job.start,
        "phase": phase,
        "total": job.total and phase != "reduce",
        "wide_words": profile.int64_atomics,
        "words": words_per_slot(profile, job.value.itemsize),
        "order": spec.order,
        "polls": spec.polls,
        "keeps": phase == "single" and job.in_place and bool(spec.polls),
        "chained": spec.strategy == "chained",
        "suppress": spec.suppress,
        "plain_polls": spec.plain_polls,
    }
    if simt:
        return shared | {"lanes": spec.lanes, "columns": spec.columns, "items": spec.items, "pad": spec.pad}
    return shared | {
        "identity": job.operator.identity_text or "",
        "nontemporal": spec.nontemporal and bool(wide),
    }


def _needs(phase: object, lanes: int, columns: int) -> dict[str, Widths]:
    """Widths of the barriers in scan_simt.mako: rows of `columns` lanes exchange data, lane 0 serves all lanes."""
    needs: dict[str, Widths] = {"taken": lanes} if phase == "single" else {}
    needs |= {"loaded": columns, "summed": columns, "rows": lanes}
    return needs if phase == "reduce" else needs | {"prefixes": lanes, "scanned": columns}


def _built(device: Any, template: str, spec: ScanSpec, params: dict[str, object]) -> Kernel:
    if spec.mapping == "vector":
        return kernel(device, template, "scan", params)
    needs = _needs(params["phase"], spec.lanes, spec.columns)
    return build_kernel(
        device, template, "scan", params, needs, lanes=spec.lanes, choice=spec.barriers, subgroup=spec.subgroup
    )


class WalkPlan:
    """A flat scan, or a scan of many rows, cut into partitions."""

    why = ""  # the source of the specialization

    def __init__(self, device: Any, job: Job, spec: ScanSpec) -> None:
        self.job, self.spec = job, spec
        layout = job.layout
        self.size = layout.size
        self.rows = layout.rows > 1
        self.part = self._part(device)
        self.parts = -(-self.size // self.part)
        aligned = self.rows and self.part % layout.n == 0
        alone = self.parts == 1 or aligned
        two_pass = spec.strategy == "reduce_then_scan"
        self.phase = "alone" if alone else "seeded" if two_pass else "single"
        template = f"scan_{spec.mapping}.mako"
        self.kernels: dict[str, Kernel] = {}
        for phase in ("reduce", "seeded") if self.phase == "seeded" else (self.phase,):
            self.kernels[phase] = _built(device, template, spec, parameters(device, job, spec, phase, template))
        self.group = (1,) if spec.mapping == "vector" else (spec.lanes,)
        self.grid = (self.parts * self.group[0],)
        self.tiles = np.int32(self.parts)
        self.between = self._between(device) if self.phase == "seeded" else None
        self._prepare()

    def _part(self, device: Any) -> int:
        """Elements of a partition: small enough to give all cores work, a multiple of the row length for short rows."""
        spec, n = self.spec, self.job.layout.n
        part = partition(spec, self.size, device.profile.compute_units)
        calls = self.job.calls(device.profile)
        if calls is not None:  # the kernel walks it twice: backwards to its last head, then forwards
            part = min(part, calls // 4)
        short = n <= part if spec.mapping == "vector" else n * 4 <= part
        return part - part % n if self.rows and short else part

    def _between(self, device: Any) -> WalkPlan:
        """The scan of the partitions' aggregates. A partition that contains a head starts a new segment."""
        job = self.job
        heads = self.rows or job.heads != "none"
        steps = (1, 1, 1) if heads else (1, 1)
        none = (0,) * len(steps)
        layout = Layout(self.parts, steps, 1, 1, none, none, 0, none)
        inner = replace(
            job,
            source=job.value,
            layout=layout,
            heads="flags" if heads else "none",
            head_dtype=np.dtype(np.uint8) if heads else None,
            exclusive=False,
            init=job.init if job.start == "init" else "none",
            heads_init=False,
            total=False,
            in_place=True,
        )
        return WalkPlan(device, inner, replace(self.spec, nontemporal=False))

    def _prepare(self) -> None:
        """Prepare the arguments that are the same in every call, as NumPy scalars."""
        layout, rows = self.job.layout, self.rows
        nested = rows and layout.inner > 1

        def steps(which: int) -> list[Any]:
            found = [] if unit_of(layout.step[which]) else [np.int64(layout.step[which])]
            found += [np.int64(layout.outer[which])] if rows else []
            return found + ([np.int64(layout.within[which])] if nested else [])

        self.x_steps, self.y_steps = steps(0), steps(1)
        self.h_steps = steps(2) if self.job.heads != "none" else []
        sizes = [np.int64(self.size)]
        sizes += [np.int64(layout.n)] if rows else []
        sizes += [np.int64(layout.inner)] if nested else []
        self.sizes = [*sizes, np.int32(self.part)]
        shift = layout.shift
        self.shift = (shift[0], shift[1], shift[2] if len(shift) > 2 else 0)

    def _inputs(self, arrays: Arrays) -> list[Any]:
        args = [arrays.x, np.int64(arrays.x_offset + self.shift[0]), *self.x_steps]
        if self.job.heads != "none":
            args += [arrays.h, np.int64(arrays.h_offset + self.shift[2]), *self.h_steps]
        args += self.sizes
        args += _init_arguments(self.job.init, arrays)
        if self.job.start == "carry":
            args.append(arrays.carry)
        return args

    def run(self, call: Any, arrays: Arrays) -> None:
        """Enqueue the scan on the call's queue."""
        inputs = self._inputs(arrays)
        args = [*inputs, arrays.y, np.int64(arrays.y_offset + self.shift[1]), *self.y_steps]
        if self.phase == "single":
            state, tag = descriptors(call, self.parts, self.job.value.itemsize, keeps=self.job.in_place)
            args += [state, tag, self.tiles]
        elif self.phase == "seeded":
            args.append(self._seeds(call, arrays, inputs))
        if self.job.total:
            args.append(arrays.total)
        call.launch(self.kernels[self.phase], self.grid, self.group, *args)

    def _seeds(self, call: Any, arrays: Arrays, inputs: list[Any]) -> Any:
        """The inclusive prefixes of all partitions: reduce each partition, then scan the aggregates in place."""
        seeds = call.scratch(self.parts * self.job.value.itemsize)
        heads = call.scratch(self.parts)
        call.launch(self.kernels["reduce"], self.grid, self.group, *inputs, seeds, heads)
        assert self.between is not None
        self.between.run(call, Arrays(seeds, 0, seeds, 0, heads, 0, arrays.init, arrays.carry))
        return seeds

    def describe(self) -> list[str]:
        """Sentences about the launches."""
        kind = "rows" if self.rows else "elements"
        count = self.job.layout.rows if self.rows else self.size
        lines = [
            f"{count} {kind} in {self.parts} partition(s) of {self.part} elements, "
            + {
                "alone": "none needs a prefix of another partition",
                "single": f"in a single pass ({self.spec.strategy})",
                "seeded": "reduced first, then scanned with their prefixes",
            }[self.phase]
        ]
        if self.phase == "single":
            lines += self._describe_waiting()
        lines += [f"{phase}: {line}" for phase, one in self.kernels.items() for line in describe_barriers(one)]
        return lines + ([f"prefixes: {line}" for line in self.between.describe()] if self.between else [])

    def _describe_waiting(self) -> list[str]:
        polls = self.spec.polls
        if not polls:
            return ["a work-group waits for earlier partitions without a limit (polls=0)"]
        lines = [f"after {polls} unsuccessful polls of an earlier partition, a work-group recomputes its aggregate"]
        if self.job.in_place:
            lines.append("in place: a partition stores its aggregate for this fallback before it overwrites elements")
        return lines

    def all_kernels(self) -> dict[str, Kernel]:
        """All kernels by purpose."""
        found = dict(self.kernels)
        if self.between:
            found |= {f"prefixes: {name}": one for name, one in self.between.all_kernels().items()}
        return found


class ColumnsPlan:
    """A scan along adjacent columns: each work-item scans some columns."""

    why = ""  # the source of the specialization

    def __init__(self, device: Any, job: Job, spec: ScanSpec) -> None:
        self.job, self.spec = job, spec
        layout, width = job.layout, spec.width
        wide = spec.vector if job.heads == "none" and conversion(job.source, job.value)[1] else 0
        self.slabs = layout.rows // layout.inner
        self.items = -(-layout.columns // width) * self.slabs
        self.group = (1,) if spec.mapping == "vector" else (min(spec.lanes, 64),)
        self.grid = (-(-self.items // self.group[0]) * self.group[0],)
        params = _shared(job, wide) | {"heads_init": job.init != "none", "width": width}
        self.kernel = kernel(device, "scan_columns.mako", "scan", params)
        self.steps = [[np.int64(layout.step[i]), np.int64(layout.outer[i])] for i in range(len(layout.step))]
        self.sizes = [np.int64(self.slabs), np.int64(layout.n), np.int64(layout.columns)]

    def run(self, call: Any, arrays: Arrays) -> None:
        """Enqueue the scan on the call's queue."""
        shift = self.job.layout.shift
        args: list[Any] = [arrays.x, np.int64(arrays.x_offset + shift[0]), *self.steps[0]]
        if self.job.heads != "none":
            args += [arrays.h, np.int64(arrays.h_offset + shift[2]), *self.steps[2]]
        args += [arrays.y, np.int64(arrays.y_offset + shift[1]), *self.steps[1], *self.sizes]
        args += _init_arguments(self.job.init, arrays)
        call.launch(self.kernel, self.grid, self.group, *args)

    def describe(self) -> list[str]:
        """Sentences about the launch."""
        layout = self.job.layout
        return [f"{self.items} work-item(s) scan {self.spec.width} of {layout.columns} adjacent columns each"]

    def all_kernels(self) -> dict[str, Kernel]:
        """All kernels by purpose."""
        return {"columns": self.kernel}


def _init_arguments(kind: str, arrays: Arrays) -> list[Any]:
    if kind == "value":
        return [arrays.init]
    return [arrays.init[0], np.int64(arrays.init[1])] if kind == "buffer" else []


def down_columns(profile: Any, job: Job, spec: ScanSpec) -> bool:
    """Whether to use the columns kernel: adjacent columns, enough of them, and few enough loop iterations."""
    layout = job.layout
    if not layout.columns:
        return False
    if job.calls(profile) is not None:
        # Each step processes one row of the work-item's columns.
        iterations = 1 + spec.width * (job.operator.iterations or 0)
        if layout.n * iterations >= profile.loop_limit - 1000:
            return False
    if spec.mapping == "simt":
        return layout.rows >= 32 * profile.compute_units or layout.n <= 32
    return layout.columns >= 8 or layout.n <= 4


def make_plan(device: Any, job: Job, spec: ScanSpec) -> WalkPlan | ColumnsPlan:
    """The prepared launches of `job`."""
    if not job.total and job.start != "carry" and down_columns(device.profile, job, spec):
        return ColumnsPlan(device, job, spec)
    return WalkPlan(device, job, spec)
