"""Plans of scans: kernels, launch sizes and all arguments except buffers and offsets."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import numpy as np

from pydp.algorithms.iteration_budget import call_budget
from pydp.algorithms.lookback import descriptors, looking, slot_parameters, waiting
from pydp.algorithms.operators import Operator
from pydp.algorithms.operators.conversion import conversion
from pydp.algorithms.scan.layout import Layout
from pydp.algorithms.scan.policy import ScanSpec, cut_columns, partition, row_items
from pydp.dtypes import c_declarations, c_name
from pydp.errors import OutOfResources
from pydp.groups.barrier_plan import Widths, build_kernel, describe_barriers
from pydp.runtime.programs.program import Kernel, kernel


@dataclass(frozen=True)
class Job:
    """Everything that a scan's kernels depend on. heads: "none", "flags" or "keys". init, heads_init, start: see
    scan_common.mako. Every row starts with a head; scans of many rows therefore have start "none". bounded: the kernels
    read the number of elements on the device; there is one row."""

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
    bounded: bool = False

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
    length: Any = None


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
        "heads_init": job.heads_init,
    }


def _waiting(profile: Any, job: Job, spec: ScanSpec, phase: str, nbytes: int) -> dict[str, object]:
    """Template parameters of the look-back for slots of `nbytes`."""
    return {
        "phase": phase,
        **slot_parameters(profile, spec, nbytes),
        "keeps": phase == "single" and job.in_place and bool(spec.polls),
        "chained": spec.strategy == "chained",
    }


def parameters(
    device: Any, job: Job, spec: ScanSpec, phase: str, template: str, row_items: int | None = None
) -> dict[str, object]:
    """Template parameters of the kernels for flat scans and scans of rows. row_items: the elements of a lane, if each
    partition is a row."""
    profile, layout = device.profile, job.layout
    units = [unit_of(step) for step in layout.step]
    rows = layout.rows > 1
    simt = template == "scan_simt.mako"
    wide = spec.vector if not simt and units[0] and units[1] and conversion(job.source, job.value)[1] else 0
    shared = _shared(job, wide) | _waiting(profile, job, spec, phase, job.value.itemsize)
    shared |= {
        "rows": rows,
        "nested": rows and layout.inner > 1,
        "x_unit": units[0],
        "y_unit": units[1],
        "h_unit": units[2] if len(units) > 2 else 1,
        "start": job.start,
        "total": job.total and phase != "reduce",
        "bounded": job.bounded,
    }
    if simt:
        lanes = {"lanes": spec.lanes, "columns": spec.columns, "items": spec.items, "pad": spec.pad}
        if row_items is not None:
            lanes |= {"items": row_items, "pad": 0}
        return shared | lanes | {"window": looking(spec), "one_row": row_items is not None}
    looks_ahead = phase == "single" and units[0] == 1 and not rows
    return shared | {
        "partitions_ahead": profile.compute_units if looks_ahead else 0,
        "prefetch": profile.prefetches,
        "in_place": job.in_place,
        "source_bytes": job.source.itemsize,
        "identity": job.operator.identity_text or "",
        "nontemporal": spec.nontemporal and bool(wide),
    }


def _needs(phase: object, lanes: int, columns: int, window: int = 1) -> dict[str, Widths]:
    """Widths of the barriers in scan_simt.mako: rows of `columns` lanes exchange data, lane 0 serves all lanes, the
    first `window` lanes look back together."""
    needs: dict[str, Widths] = {"taken": lanes} if phase == "single" else {}
    if phase == "single" and window > 1:
        needs["looked"] = window
    needs |= {"loaded": columns, "summed": columns, "rows": lanes}
    return needs if phase == "reduce" else needs | {"prefixes": lanes, "scanned": columns}


def _built(device: Any, template: str, spec: ScanSpec, params: dict[str, object]) -> Kernel:
    if spec.mapping == "vector":
        return kernel(device, template, "scan", params)
    needs = _needs(params["phase"], spec.lanes, spec.columns, waiting(device.profile, spec))
    return build_kernel(
        device, template, "scan", params, needs, lanes=spec.lanes, choice=spec.barriers, subgroup=spec.subgroup
    )


class WalkPlan:
    """A flat scan, or a scan of many rows, cut into partitions."""

    why = ""  # the source of the specialization

    def __init__(self, device: Any, job: Job, spec: ScanSpec) -> None:
        self.job, self.spec = job, spec
        self.rows = job.layout.rows > 1
        alone = self._cut(device)
        self.phase = "alone" if alone else "single" if self._looks_back() else "seeded"
        phases = ("reduce", "seeded") if self.phase == "seeded" else (self.phase,)
        self.kernels = {phase: self._kernel(device, phase) for phase in phases}
        if self.parts >= 1 << 31:
            raise OutOfResources(
                f"{job.layout.size} elements make {self.parts} partitions; less than 2**31 are accepted"
            )
        self.tiles = np.int32(self.parts)
        self.between = self._between(device) if self.phase == "seeded" else None
        self._prepare()

    def _cut(self, device: Any) -> bool:
        """Set the partitions and the launch shape. Returns whether no partition needs a prefix of another one."""
        job, layout = self.job, self.job.layout
        items = None
        if self.rows and job.heads == "none":
            items = row_items(device.profile, self.spec, layout.n, job.value.itemsize)
        self.row_items = items
        spec = self.spec
        self.size = layout.size
        self.part = self._part(device) if items is None else layout.n
        self.parts = self.aggregates = -(-self.size // self.part)
        self.slot_bytes = job.value.itemsize
        self.group = (1,) if spec.mapping == "vector" else (spec.lanes,)
        self.grid = (self.parts * self.group[0],)
        return self.parts == 1 or (self.rows and self.part % job.layout.n == 0)

    def _looks_back(self) -> bool:
        """Whether partitions look back, in a single pass."""
        return self.spec.strategy != "reduce_then_scan"

    def _kernel(self, device: Any, phase: str) -> Kernel:
        template = f"scan_{self.spec.mapping}.mako"
        params = parameters(device, self.job, self.spec, phase, template, self.row_items)
        return _built(device, template, self.spec, params)

    def _part(self, device: Any) -> int:
        """Elements of a partition: small enough to give all cores work, a multiple of the row length for short rows."""
        spec, n = self.spec, self.job.layout.n
        part = partition(spec, self.size, device.profile.compute_units)
        calls = self.job.calls(device.profile)
        if calls is not None:  # the kernel walks it twice: backwards to its last head, then forwards
            part = min(part, calls // 4)
        short = n <= part if spec.mapping == "vector" else n * 4 <= part
        return part - part % n if self.rows and short else part

    def _between(self, device: Any) -> WalkPlan | ColumnsPlan:
        """The scan of the partitions' aggregates. A partition that contains a head starts a new segment."""
        job = self.job
        heads = self._has_heads()
        inner = replace(
            job,
            source=job.value,
            layout=self._layout_between(3 if heads else 2),
            heads="flags" if heads else "none",
            head_dtype=np.dtype(np.uint8) if heads else None,
            exclusive=False,
            init=job.init if job.start == "init" else "none",
            heads_init=False,
            total=False,
            in_place=True,
            bounded=False,
        )
        return make_plan(device, inner, replace(self.spec, nontemporal=False))

    def _has_heads(self) -> bool:
        return self.rows or self.job.heads != "none"

    def _layout_between(self, arrays: int) -> Layout:
        """The layout of the aggregates, of their results and of `arrays` - 2 arrays of heads."""
        none = (0,) * arrays
        return Layout(self.parts, (1,) * arrays, 1, 1, none, none, 0, none)

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

    def _inputs(self, arrays: Arrays) -> list[Any]:
        shift = self.job.layout.shift
        args = [arrays.x, np.int64(arrays.x_offset + shift[0]), *self.x_steps]
        if self.job.heads != "none":
            args += [arrays.h, np.int64(arrays.h_offset + shift[2]), *self.h_steps]
        args += self.sizes
        args += _init_arguments(self.job.init, arrays)
        if self.job.start == "carry":
            args.append(arrays.carry)
        if self.job.bounded:
            args.append(arrays.length)
        return args

    def run(self, call: Any, arrays: Arrays) -> None:
        """Enqueue the scan on the call's queue."""
        inputs = self._inputs(arrays)
        args = [*inputs, arrays.y, np.int64(arrays.y_offset + self.job.layout.shift[1]), *self.y_steps]
        if self.phase == "single":
            state, tag = descriptors(call, self.parts, self.slot_bytes, keeps=self.job.in_place)
            args += [state, tag, self.tiles]
        elif self.phase == "seeded":
            args.append(self._seeds(call, arrays, inputs))
        if self.job.total:
            args.append(arrays.total)
        call.launch(self.kernels[self.phase], self.grid, self.group, *args)

    def _seeds(self, call: Any, arrays: Arrays, inputs: list[Any]) -> Any:
        """The inclusive prefixes of all partitions: reduce each partition, then scan the aggregates in place."""
        seeds = call.scratch(self.aggregates * self.job.value.itemsize)
        heads = call.scratch(self.aggregates)
        call.launch(self.kernels["reduce"], self.grid, self.group, *inputs, seeds, heads)
        assert self.between is not None
        self.between.run(call, Arrays(seeds, 0, seeds, 0, heads, 0, arrays.init, arrays.carry))
        return seeds

    def describe(self) -> list[str]:
        """Sentences about the launches."""
        lines = [
            f"{self._describe_cut()}, "
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

    def _describe_cut(self) -> str:
        kind = "rows" if self.rows else "elements"
        count = self.job.layout.rows if self.rows else self.size
        each = "" if self.row_items is None else f", {self.row_items} for each lane"
        return f"{count} {kind} in {self.parts} partition(s) of {self.part} elements{each}"

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


class ColumnsPlan(WalkPlan):
    """A scan along adjacent columns: each work-item scans a strip of columns, or a block of its rows.

    The lanes of a work-group run together, so none of them can wait for another: on GPUs, blocks are reduced first.
    """

    def _looks_back(self) -> bool:
        return super()._looks_back() and self.spec.mapping == "vector"

    def _cut(self, device: Any) -> bool:
        job, spec, profile = self.job, self.spec, device.profile
        layout = job.layout
        self.vectors = job.heads == "none" and bool(conversion(job.source, job.value)[1])
        slabs, most = layout.rows // layout.inner, None
        if profile.loop_limit is not None:  # a block is folded, then scanned
            most = (profile.loop_limit - 1000) // (3 + 2 * (job.operator.iterations or 0))
        units = profile.compute_units
        self.cut = cut_columns(spec, units, layout.n, layout.columns, slabs, self.vectors, most)
        self.part, self.strips = self.cut.rows, self.cut.chains // slabs
        self.blocks = -(-layout.n // self.part)
        self.parts = self.cut.chains * self.blocks
        self.aggregates = slabs * self.blocks * layout.columns
        self.slot_bytes = self.cut.pieces * (self.cut.vector or 1) * job.value.itemsize
        self.head_bytes = 0
        if job.heads != "none":
            self.head_bytes = self.cut.pieces + -(self.slot_bytes + self.cut.pieces) % 4
            self.slot_bytes += self.head_bytes
        items = -(-self.parts // self.cut.share)
        self.group = (1,) if spec.mapping == "vector" else (min(spec.lanes, 64),)
        self.grid = (-(-items // self.group[0]) * self.group[0],)
        return self.blocks == 1

    def _kernel(self, device: Any, phase: str) -> Kernel:
        job, spec, cut = self.job, self.spec, self.cut
        whole = job.layout.columns % cut.width == 0
        y_steps = (job.layout.step[1], job.layout.outer[1])
        aligned = bool(cut.vector) and all(size % cut.vector == 0 for size in (*y_steps, job.layout.columns))
        params = _shared(job, cut.vector) | _waiting(device.profile, job, spec, phase, self.slot_bytes)
        params |= {
            "pieces": cut.pieces,
            "width": cut.width,
            "whole": whole,
            "nontemporal": spec.nontemporal and aligned,
            "head_bytes": self.head_bytes,
            "ahead": 1 if spec.mapping == "vector" else _AHEAD,
        }
        return kernel(device, "scan_columns.mako", "scan", params)

    def _has_heads(self) -> bool:
        return self.job.heads != "none"

    def _layout_between(self, arrays: int) -> Layout:
        columns = self.job.layout.columns
        slabs = self.cut.chains // self.strips
        step, outer = (columns,) * arrays, (self.blocks * columns,) * arrays
        return Layout(self.blocks, step, slabs * columns, columns, outer, (1,) * arrays, columns, (0,) * arrays)

    def _prepare(self) -> None:
        layout, alone = self.job.layout, self.phase == "alone"
        steps = [[np.int64(layout.step[i]), np.int64(layout.outer[i])] for i in range(len(layout.step))]
        self.x_steps, self.y_steps, self.h_steps = steps[0], steps[1], steps[-1]
        self.sizes = [np.int64(layout.n), np.int64(layout.columns), np.int32(self.strips), np.int32(self.cut.chains)]
        self.sizes += [np.int64(self.part), np.int32(self.cut.share if alone else self.blocks)]

    def _describe_cut(self) -> str:
        layout, cut = self.job.layout, self.cut
        return (
            f"{self.cut.chains} strip(s) of up to {cut.width} of {layout.columns} adjacent columns, in {self.parts} "
            f"partition(s) of up to {self.part} of {layout.n} rows"
        )


def _init_arguments(kind: str, arrays: Arrays) -> list[Any]:
    if kind == "value":
        return [arrays.init]
    return [arrays.init[0], np.int64(arrays.init[1])] if kind == "buffer" else []


_MOST_CHAINS = (1 << 31) - (1 << 16)  # the columns kernel counts chains as int, past the last one too


_AHEAD = 4  # rows that a lane loads before it scans them: their loads do not wait for one another
_SECTOR = 32  # bytes, the least that a GPU loads


def down_columns(profile: Any, job: Job, spec: ScanSpec) -> bool:
    """Whether to use the columns kernel: adjacent columns and, on GPUs, enough of them, short or long ones."""
    layout = job.layout
    if layout.columns < 2 or layout.rows > _MOST_CHAINS:
        return False
    calls = job.calls(profile)
    if spec.mapping == "vector":
        return True
    each = 3 * spec.width if spec.width > 1 else 1  # operators and two loops over the pieces, in each row
    if calls is not None and layout.n * each >= calls - 1000:
        return False
    adjacent = layout.columns * job.value.itemsize >= _SECTOR
    return layout.rows >= 32 * profile.compute_units or layout.n <= 32 or adjacent


def make_plan(device: Any, job: Job, spec: ScanSpec) -> WalkPlan | ColumnsPlan:
    """The prepared launches of `job`."""
    if not job.total and job.start != "carry" and down_columns(device.profile, job, spec):
        return ColumnsPlan(device, job, spec)
    return WalkPlan(device, job, spec)
