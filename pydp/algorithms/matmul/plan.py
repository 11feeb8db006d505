"""Prepared launches of a product and its specialization: kernels, launch shapes and scalar arguments."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np

from pydp.algorithms.matmul import mma
from pydp.algorithms.matmul.problem import Arithmetic, Matrix, Product, element, parts_of
from pydp.algorithms.matmul.spec import MatmulSpec, even, up
from pydp.algorithms.matmul.staging import lane_bytes, read_width, reads_along_k, reads_of, register_limit
from pydp.groups.barrier_plan import build_kernel
from pydp.local_memory import banks_of
from pydp.runtime.programs.program import kernel

if TYPE_CHECKING:
    from pydp.algorithms.matmul.epilogue import Bound
    from pydp.runtime.arrays.operand import Operand
    from pydp.runtime.call import Call
    from pydp.runtime.drivers.devices import Device
    from pydp.runtime.programs.program import Kernel

_GROUPS_PER_UNIT = 4  # most groups per compute unit; with more blocks, a group takes several and reuses its space
_COMBINE_GROUP = 64
_SPAN = 8  # largest tile of a thin product in vectors, on drivers that limit loop iterations
_SLICE_BYTES = 64 << 20  # packing space of one launch, on drivers that limit loop iterations (one block per group)


class Launch:
    """One prepared launch. `slots`: (position, buffer name) of the arguments that are buffers."""

    __slots__ = ("args", "global_size", "kernel", "local_size", "slots")

    def __init__(self, kernel: Kernel, groups: int, group: int, args: list[Any]) -> None:
        self.kernel = kernel
        self.global_size = (groups * group,)
        self.local_size = (group,)
        self.slots = [(place, arg) for place, arg in enumerate(args) if isinstance(arg, str)]
        self.args = args


class Plan:
    """A prepared call without its buffers.

    `gathered`: shape and strides to copy the thin operand to contiguous memory with, or None. `epilogue`: the names of
    its operands in the arguments of launches.
    """

    def __init__(self, how: Arithmetic, spec: MatmulSpec) -> None:
        self.how = how
        self.spec = spec
        self.launches: list[Launch] = []
        self.space_bytes = 0
        self.partial_bytes = 0
        self.swapped = False
        self.parts = 1
        self.why: list[str] = []
        self.gathered: tuple[Any, Any] | None = None
        self.epilogue: list[str] = []
        self.choice: Any = None
        self.product: Any = None

    def run(self, call: Call, a: Operand, b: Operand, c: Operand, epilogue: Bound | None = None) -> None:
        """Enqueue the launches on the call's queue."""
        buffers: dict[str, Any] = {"a": a.buffer, "b": b.buffer, "c": c.buffer}
        if epilogue is not None and self.launches:
            buffers |= dict(zip(self.epilogue, epilogue.arguments(call), strict=True))
        if self.gathered is not None:
            thin = b if self.swapped else a
            packed = call.contiguous(thin.view(*self.gathered)).buffer
            buffers["b" if self.swapped else "a"] = packed
        if self.swapped:
            buffers["a"], buffers["b"] = buffers["b"], buffers["a"]
        if self.space_bytes:
            buffers["space"] = call.scratch(self.space_bytes)
        if self.partial_bytes:
            buffers["partial"] = call.scratch(self.partial_bytes)
        for launch in self.launches:
            args = launch.args.copy()
            for place, name in launch.slots:
                args[place] = buffers[name]
            call.launch(launch.kernel, launch.global_size, launch.local_size, *args)


class Builder:
    """Builds one plan. `types`: storage dtypes of A, B and C, in the product's order (after swapping)."""

    def __init__(
        self,
        device: Device,
        how: Arithmetic,
        spec: MatmulSpec,
        types: tuple[Any, Any, Any],
        alpha: Any,
        beta: Any,
        epilogue: Bound | None = None,
    ) -> None:
        self.plan = Plan(how, spec)
        self.epilogue = epilogue
        self.device, self.how, self.spec = device, how, spec
        self.types = types
        self.scaled = alpha != 1
        self.alpha = parts_of(alpha, how)
        self.beta = parts_of(beta, how)
        self.mode = 0 if beta == 0 else 1 if beta == 1 else 2

    def build(self, one: Product, via_scratch: bool) -> Plan:
        """The plan of `one`. via_scratch: compute in scratch memory and write C at the end."""
        self.plan.swapped = one.swapped
        parts, part_k = self._parts(one)
        self.plan.parts = parts
        if not one.batches or not one.m or not one.n:
            return self.plan
        via_scratch |= parts > 1
        if self.epilogue is not None:
            via_scratch = self._with_epilogue(self.epilogue, part_k, via_scratch)
        steps = one.outer_steps()
        for step in steps:
            self._one(one.inner(), step, parts, part_k, via_scratch)
        return self.plan

    # --- splitting k ------------------------------------------------------------------------------------------

    def _parts(self, one: Product) -> tuple[int, int]:
        """(parts, k of each part): the spec's parts, or more if the driver limits loop iterations."""
        spec, limit = self.spec, self.device.profile.loop_limit
        most = max(1, one.k)
        if limit is not None:
            # Use half the limit for the steps of k. cost: iterations per step of each method, edges included. A block
            # of "direct" has up to 2 x 4 tiles.
            cost = {"staged": 2, "mma": 2, "packed": 2 * spec.width + 4, "thin": spec.width + _SPAN, "direct": 8}[
                spec.method
            ]
            most = min(most, max(64, limit // 2 // cost // 64 * 64))
        parts = max(min(spec.parts, max(1, one.k)), -(-one.k // most), 1)
        part_k = -(-one.k // parts)
        if parts > 1:
            part_k = up(part_k, spec.tile_k if spec.method in ("staged", "mma") else 16)
        return max(1, -(-one.k // max(1, part_k))), max(1, part_k)

    def _with_epilogue(self, epilogue: Bound, part_k: int, via_scratch: bool) -> bool:
        """Whether the product with the epilogue is computed in scratch memory; notes where it is applied."""
        title = epilogue.epilogue.title
        if not via_scratch:
            limited = self.device.profile.loop_limit is not None and epilogue.epilogue.lowered.iterations
            several = self.spec.method == "packed" and part_k > self._tile_k(part_k, self.types[2])
            if limited:
                self.plan.why.append(
                    f"the epilogue {title} has loops, and the driver limits the iterations of a work-item: the product "
                    "is computed in scratch memory first"
                )
            if epilogue.reads_result and several:
                self.plan.why.append(
                    f"the epilogue {title} reads the old result, and there are several blocks of k: the product is "
                    "computed in scratch memory first"
                )
            via_scratch = bool(limited) or (epilogue.reads_result and several)
        place = "kernel that writes C from scratch memory" if via_scratch else "store of the product's kernel"
        self.plan.why.append(f"the epilogue {title} is applied in the {place}, once for each result")
        return via_scratch

    def _one(self, one: Product, step: tuple[int, ...], parts: int, part_k: int, via_scratch: bool) -> None:
        operands = (one.a, one.b, one.c, *one.others)
        a, b, c, *others = (replace(x, offset=x.offset + add) for x, add in zip(operands, step, strict=True))
        one = replace(one, a=a, b=b, c=c, others=tuple(others))
        if not via_scratch:
            self._multiply(one, "c", self.types[2], 0, parts, part_k, self.mode, self.beta)
            return
        plain = _contiguous(one)
        count = one.batches * one.m * one.n
        partial = self.how.partial
        self.plan.partial_bytes = max(self.plan.partial_bytes, parts * count * partial.itemsize)
        nothing = parts_of(0, self.how)
        self._multiply(replace(one, c=plain), "partial", partial, count, parts, part_k, 0, nothing)
        self._combine(one, parts, count)

    # --- kernels ----------------------------------------------------------------------------------------------

    def _params(self, c_type: Any) -> dict[str, object]:
        a, b, _ = self.types
        return {
            "types": {"a": element(a), "b": element(b), "c": element(c_type)},
            "work": self.how.work,
            "is_complex": self.how.planes == 2,
            "fused": self.device.profile.fma_fast and self.how.dtype.kind in "fc",
            "logical": self.how.dtype.kind == "b",
            "scaled": self.scaled,
        }

    def _finish(self, one: Product, final: bool, width: int = 0) -> dict[str, Any] | None:
        """The template's parameters of the epilogue. final: the kernel stores final results. width: of its vectors."""
        if self.epilogue is None or not final:
            return None
        return self.epilogue.epilogue.params(self.epilogue.described(one.others), width)

    def _finish_args(self, one: Product) -> list[Any]:
        """The arguments of a kernel for the epilogue: arrays, then numbers."""
        if self.epilogue is None:
            return []
        described = self.epilogue.described(one.others)
        self.plan.epilogue = [operand["name"] for operand in described]
        arrays = [operand["name"] for operand in described if operand["source"] == "array"]
        found = [x for name, matrix in zip(arrays, one.others, strict=True) for x in self._strided(matrix, name)]
        return found + [operand["name"] for operand in described if operand["source"] == "number"]

    def _strided(self, matrix: Matrix, name: str) -> list[Any]:
        outer, inner = (0, 0, *matrix.batch)[-2:]
        return [name, *(np.int64(x) for x in (matrix.offset, matrix.row, matrix.col, inner, outer))]

    def _multiply(
        self, one: Product, target: str, c_type: Any, c_part: int, parts: int, part_k: int, mode: int, beta: Any
    ) -> None:
        operands = [
            *self._strided(one.a, "a"),
            *self._strided(one.b, "b"),
            *self._strided(one.c, target),
            np.int64(c_part),
        ]
        sizes = [np.int64(x) for x in (one.m, one.n, one.k, one.batch[-1] if one.batch else 1, parts, part_k)]
        final = target == "c"
        last = [*self.alpha, *beta, np.int32(mode), *(self._finish_args(one) if final else ())]
        launch = {
            "packed": self._packed, "direct": self._direct, "thin": self._thin, "staged": self._staged,
            "mma": self._mma,
        }[self.spec.method]  # fmt: skip
        launch(one, operands, sizes, last, c_type, parts, part_k, final)

    def _packed(
        self, one: Product, operands: list, sizes: list, last: list, c_type: Any, parts: int, part_k: int, final: bool
    ) -> None:
        spec, how, profile = self.spec, self.how, self.device.profile
        most_m, most_n = spec.tile_m, spec.tile_n
        if profile.loop_limit is not None:  # the iteration limit leaves room for one register tile only
            most_m, most_n = spec.rows, spec.columns
            self._cut((spec.tile_m, spec.tile_n), (most_m, most_n))
        tile_m = even(one.m, most_m, spec.rows)
        tile_n = even(one.n, most_n, spec.columns)
        tile_k, usual = self._tile_k(part_k, c_type), even(part_k, spec.tile_k, 32)
        if tile_k > usual:
            tile_n = even(one.n, max(spec.columns, most_n * usual // tile_k), spec.columns)
        blocks_m, blocks_n = -(-one.m // tile_m), -(-one.n // tile_n)
        blocks = blocks_m * blocks_n * parts * one.batches
        space = up((spec.rows + tile_n) * tile_k * how.planes + 2 * spec.width, 64)
        bytes_each = space * np.dtype(how.scalar).itemsize
        groups = min(blocks, _GROUPS_PER_UNIT * profile.compute_units, max(1, profile.max_allocation // bytes_each))
        each = blocks
        if profile.loop_limit is not None:
            groups = each = min(blocks, max(1, _SLICE_BYTES // bytes_each))
        self.plan.space_bytes = max(self.plan.space_bytes, groups * bytes_each)
        params = {
            **self._params(c_type), "width": spec.width, "rows": spec.rows, "vectors": spec.columns // spec.width,
            "unroll": spec.unroll, "prefetch": profile.prefetches,
            "b_prefetch_bytes": self.types[1].itemsize if profile.prefetches else 0,
            "epilogue": self._finish(one, final, spec.width), "blocks_of_k": part_k > tile_k,
        }  # fmt: skip
        made = kernel(self.device, "matmul_vector.mako", "matmul_vector", params)
        for first in range(0, blocks, each):
            count = min(each, blocks - first)
            blocking = [np.int64(x) for x in (blocks_m, blocks_n, first, first + count)]
            tiles = [np.int32(x) for x in (tile_m, tile_n, tile_k)]
            args = [*operands, "space", np.int64(space), *sizes, *blocking, *tiles, *last]
            self.plan.launches.append(Launch(made, min(groups, count), 1, args))

    def _tile_k(self, part_k: int, c_type: Any) -> int:
        """The depth of the blocks of k of the method "packed"."""
        usual = even(part_k, self.spec.tile_k, 32)
        if self.how.narrow and c_type.itemsize < 4 and part_k > usual:
            return up(part_k, 32)  # one block of k: sums must not be rounded to the type of C in between
        return usual

    def _direct(
        self, one: Product, operands: list, sizes: list, last: list, c_type: Any, parts: int, part_k: int, final: bool
    ) -> None:
        spec, profile = self.spec, self.device.profile
        width = min(spec.width, 1 << one.n.bit_length() - 1)  # a tile is not larger than the product
        vectors = min(spec.columns // spec.width, one.n // width)
        rows = -(-one.m // -(-one.m // spec.rows))
        most_m, most_n = spec.tile_m, spec.tile_n
        if profile.loop_limit is not None:  # the iteration limit leaves room for one register tile only
            most_m, most_n = rows, vectors * width
            self._cut((spec.tile_m, spec.tile_n), (most_m, most_n))
        # Blocks of whole tiles; the last ones have the remaining rows and columns too.
        tile_m = even(one.m // rows * rows, most_m, rows)
        tile_n = even(one.n // width * width, most_n, vectors * width)
        blocks_m, blocks_n = -(-(one.m // rows * rows) // tile_m), -(-(one.n // width * width) // tile_n)
        blocks = blocks_m * blocks_n * parts * one.batches
        most = blocks if profile.loop_limit is not None else 4 * _GROUPS_PER_UNIT * profile.compute_units
        each = -(-blocks // min(blocks, most))
        params = {
            **self._params(c_type), "width": width, "rows": rows, "vectors": vectors, "unroll": spec.unroll,
            "a_unit": one.a.col == 1, "epilogue": self._finish(one, final, width),
        }  # fmt: skip
        made = kernel(self.device, "matmul_direct.mako", "matmul_direct", params)
        blocking = [np.int64(x) for x in (blocks_m, blocks_n, 0, blocks, each)]
        tiles = [np.int32(x) for x in (tile_m, tile_n)]
        self.plan.launches.append(Launch(made, -(-blocks // each), 1, [*operands, *sizes, *blocking, *tiles, *last]))

    def _cut(self, given: tuple[int, int], most: tuple[int, int]) -> None:
        """Note in `why` that the tiles are smaller than the specialization's."""
        limit = self.device.profile.loop_limit
        note = f"tiles of {most[0]} x {most[1]}, because the driver ends loops after {limit} iterations"
        if given != most and note not in self.plan.why:
            self.plan.why.append(note)

    def _thin(
        self, one: Product, operands: list, sizes: list, last: list, c_type: Any, parts: int, part_k: int, final: bool
    ) -> None:
        spec, profile = self.spec, self.device.profile
        most = spec.tile_n if profile.loop_limit is None else min(spec.tile_n, _SPAN * spec.width)
        self._cut((spec.rows, spec.tile_n), (spec.rows, most))
        tile_n = even(one.n, most, spec.width if one.n > spec.width else 1)
        blocks_n = -(-one.n // tile_n)
        blocks = blocks_n * parts * one.batches
        b_bytes = self.types[1].itemsize
        params = {
            **self._params(c_type), "width": spec.width, "rows": spec.rows, "span": up(spec.columns, spec.width),
            "unroll": spec.unroll, "together": spec.unroll, "epilogue": self._finish(one, final),
            "read_ahead": b_bytes if profile.prefetches and 2 * spec.width * b_bytes >= 64 else 0,
            "columns_ahead": tile_n >= 2 * spec.unroll,
        }  # fmt: skip
        made = kernel(self.device, "matmul_thin.mako", "matmul_thin", params)
        groups = blocks if profile.loop_limit is not None else min(blocks, 4 * _GROUPS_PER_UNIT * profile.compute_units)
        blocking = [np.int64(x) for x in (blocks_n, 0, blocks)]
        self.plan.launches.append(Launch(made, groups, 1, [*operands, *sizes, *blocking, np.int32(tile_n), *last]))

    def _staged(
        self, one: Product, operands: list, sizes: list, last: list, c_type: Any, parts: int, part_k: int, final: bool
    ) -> None:
        spec = self.spec
        reads_a, reads_b = self._reads(one.a, one.m, one.k, False), self._reads(one.b, one.n, one.k, True)
        params = {
            **self._params(c_type), "tile_m": spec.tile_m, "tile_n": spec.tile_n, "tile_k": spec.tile_k,
            "lanes_m": spec.lanes_m, "lanes_n": spec.lanes_n, "block": spec.width, "pad": spec.pad,
            "buffers": spec.buffers, "unroll": min(spec.unroll, spec.tile_k), "reads_a": reads_a, "reads_b": reads_b,
            "epilogue": self._finish(one, final),
        }  # fmt: skip
        left, right = reads_a["width"], reads_b["width"]
        note = f"lanes read {left} adjacent elements of the left and {right} of the right matrix at a time"
        if note not in self.plan.why:
            self.plan.why.append(note)
        group = spec.lanes_m * spec.lanes_n
        needs = {"reads_end": group, "stores_end": group}  # every lane reads elements staged by any lane
        if spec.buffers == 2:
            del needs["reads_end"]
        made = build_kernel(self.device, "matmul_simt.mako", "matmul_simt", params, needs,
                     lanes=group, choice=spec.barriers, subgroup=spec.subgroup,
                     options=register_limit(self.device.profile, self.how, spec))  # fmt: skip
        blocks_m, blocks_n = -(-one.m // spec.tile_m), -(-one.n // spec.tile_n)
        steps = -(-min(one.k, part_k) // spec.tile_k)
        args = [*operands, *sizes, np.int64(blocks_m), np.int64(blocks_n), np.int32(steps), *last]
        groups = blocks_m * blocks_n * parts * one.batches
        self.plan.launches.append(Launch(made, groups, group, args))

    def _reads(self, operand: Matrix, size: int, k: int, is_b: bool) -> dict[str, Any]:
        """The template's parameters of the reads of A or B, whose rows or columns are `size`."""
        spec, profile = self.spec, self.device.profile
        tile, dtype = (spec.tile_n, self.types[1]) if is_b else (spec.tile_m, self.types[0])
        width = read_width(spec, dtype, operand, size, k, tile, is_b)
        # Buffers begin at aligned addresses, except those that use the host's memory in place.
        aligned = not profile.shares_host_memory
        banks = banks_of(profile.banks, profile.bank_bytes)
        along_k = reads_along_k(operand, is_b)
        return reads_of(banks, spec, lane_bytes(self.how), tile, along_k, width, aligned).params()

    def _mma(
        self, one: Product, operands: list, sizes: list, last: list, c_type: Any, parts: int, part_k: int, final: bool
    ) -> None:
        spec, a, b = self.spec, self.types[0], self.types[1]
        group, c_part = spec.lanes_m * spec.lanes_n, int(operands[-1])
        same = (a == self.how.dtype, b == self.how.dtype)
        params = {
            **self._params(c_type),
            **mma.params(self.device.profile, self.how, spec, (one.a, one.b, one.c), c_part, same),
            "epilogue": self._finish(one, final),
        }  # fmt: skip
        made = build_kernel(self.device, "matmul_mma.mako", "matmul_mma", params, {"staged": group},
                     lanes=group, choice=spec.barriers, subgroup=spec.subgroup)  # fmt: skip
        self.plan.why += [note for note in mma.notes(params) if note not in self.plan.why]
        blocks_m, blocks_n = -(-one.m // spec.tile_m), -(-one.n // spec.tile_n)
        steps = -(-min(one.k, part_k) // spec.tile_k)
        args = [*operands, *sizes, np.int64(blocks_m), np.int64(blocks_n), np.int32(steps), *last]
        groups = blocks_m * blocks_n * parts * one.batches
        self.plan.launches.append(Launch(made, groups, group, args))

    def _combine(self, one: Product, parts: int, count: int) -> None:
        types = {"a": element(self.how.partial), "c": element(self.types[2])}
        group = min(_COMBINE_GROUP, self.device.profile.max_group_size)
        params = {
            "types": types, "work": self.how.work, "is_complex": self.how.planes == 2,
            "logical": self.how.dtype.kind == "b", "group": group, "epilogue": self._finish(one, True),
        }  # fmt: skip
        made = kernel(self.device, "matmul_combine.mako", "matmul_combine", params)
        inner = one.batch[-1] if one.batch else 1
        numbers = [np.int64(x) for x in (one.m, one.n, inner, parts, count)]
        last = [*self.beta, np.int32(self.mode), *self._finish_args(one)]
        args = ["partial", np.int64(0), *self._strided(one.c, "c"), *numbers, *last]
        self.plan.launches.append(Launch(made, -(-count // group), group, args))


def _contiguous(one: Product) -> Matrix:
    """The layout of C in scratch memory: batch x m x n, contiguous."""
    steps: list[int] = []
    step = one.m * one.n
    for size in reversed(one.batch):
        steps.insert(0, step)
        step *= size
    return Matrix(0, one.n, 1, tuple(steps))
