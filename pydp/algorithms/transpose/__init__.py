"""``pydp.transpose``: a contiguous copy with permuted axes.

A view is free: ``field.T`` and ``pydp.project`` need no kernel. A copy pays off if the result is read many times along
its last axis. The copy moves tiles: in vector registers on CPUs, through local memory on GPUs (SPEC S1, S3).
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from pydp.algorithms.arguments import by_key, integer, unkeyed
from pydp.algorithms.registry import Algorithm, register
from pydp.algorithms.transpose.counts import TransposeProblem, counts
from pydp.dtypes import check_supported
from pydp.errors import InvalidArgument
from pydp.groups.barrier import why_not
from pydp.groups.barrier_plan import build_kernel, describe_barriers
from pydp.model.explanation import Explanation, Given
from pydp.model.family import Family
from pydp.runtime.arrays.copy_transposed import TransposeTiling, placement, usual
from pydp.runtime.arrays.elementwise import copying_kernel
from pydp.runtime.arrays.elementwise import turned as turned_words
from pydp.runtime.arrays.operand import Operand, c_strides
from pydp.runtime.call import Call
from pydp.runtime.device.profile import Profile
from pydp.runtime.programs.program import Kernel
from pydp.runtime.recording import recorded
from pydp.tuning.choose import Choice, SpecProbe, cached_plan, choose
from pydp.tuning.reference import Expected, host
from pydp.tuning.shape_class import size_class

__all__ = ["TransposeSpec", "transpose"]


@dataclass(frozen=True)
class TransposeSpec(TransposeTiling):
    """One specialization: how blocks are transposed. barriers, subgroup: synchronization of the lanes (see
    :mod:`pydp.groups.barrier`; simt only)."""

    barriers: str = "group"
    subgroup: int | None = None

    def build(self, device: Any, params: dict[str, object]) -> Kernel:
        """Build the kernel with the barriers that `barriers` and `subgroup` select."""
        if self.mapping == "vector":
            return super().build(device, params)
        lanes = self.block * self.rows
        return build_kernel(device, "copy_transposed.mako", "copy_transposed", params, {"exchange": lanes},
                     lanes=lanes, choice=self.barriers, subgroup=self.subgroup, row=self.block)  # fmt: skip


@recorded
def transpose(
    x: Any,
    axes: Any = None,
    *,
    out: Any = None,
    device: Any = None,
    queue: Any = None,
    wait_for: Any = None,
    spec: Any = None,
) -> Any:
    """Return a contiguous copy of `x` with permuted axes, as ``numpy.transpose`` (which returns a view).

    x: array of any rank, shape, strides and dtype (NumPy, Field or pyopencl array). The result has the same kind.
    axes: a permutation of the axes. None reverses them.
    out: output array of the result's shape and dtype, with any strides. It may overlap `x`.
    spec: a TransposeSpec, or a mapping of some of its fields (mapping, block, rows, chunk, streams, barriers,
        subgroup). It is used only if the strides require a blocked transpose.

    Raises InvalidArgument if `axes` is not a permutation or for an invalid `out` or `spec`, and UnsupportedOnDevice for
    dtypes that the device cannot store.

    >>> pydp.transpose(np.arange(6).reshape(2, 3)).shape
    (3, 2)
    """
    call, turned = _opened(x, axes, out, device, queue, wait_for)
    result = call.output(turned.shape, turned.dtype)
    if call.overlaps(turned, result):
        kept = call.temporary(turned.shape, turned.dtype)
        call.copy(turned, kept)
        turned = kept
    choice = _chosen(call, turned, result, spec)
    call.copy(turned, result, None if choice is None else choice.spec)
    return call.finish(result)


def _opened(x: Any, axes: Any, out: Any, device: Any, queue: Any, wait_for: Any) -> tuple[Call, Operand]:
    """The validated call, and its operand with permuted axes."""
    call = Call.begin({"x": x}, device=device, queue=queue, wait_for=wait_for, out=out)
    source = call.input("x")
    check_supported(source.dtype, call.device, "transpose", storage_only=True)
    return call, _turned(source, axes)


def _turned(source: Operand, axes: Any) -> Operand:
    """The operand with permuted axes."""
    rank = len(source.shape)
    order = tuple(reversed(range(rank))) if axes is None else _order(axes, rank)
    return Operand(
        source.name,
        source.buffer,
        source.offset,
        tuple(source.shape[axis] for axis in order),
        tuple(source.strides[axis] for axis in order),
        source.dtype,
        source.owner,
    )


def _order(axes: Any, rank: int) -> tuple[int, ...]:
    try:
        given = [integer(axis) for axis in axes]
    except TypeError:
        raise InvalidArgument(f"axes={axes!r} is invalid; None or a permutation of {rank} axes is accepted") from None
    order = tuple(axis + rank if axis < 0 else axis for axis in given)
    if sorted(order) != list(range(rank)):
        raise InvalidArgument(f"axes={axes!r} is not a permutation of {rank} axes; each axis must occur once")
    return order


# --- specialization --------------------------------------------------------------------------------------


def _chosen(call: Call, turned: Operand, result: Operand, spec: Any) -> Choice | None:
    """The choice for a blocked transpose; None if the copy needs no blocks. Validates `spec` in both cases."""
    return _kept(call.device, turned.dtype, turned.shape, turned.strides, result.strides, by_key(spec))


@cached_plan
def _kept(
    device: Any, dtype: np.dtype, shape: tuple[int, ...], strides: tuple[int, ...], to: tuple[int, ...], spec: Any
) -> Choice | None:
    source, target = (Operand("x", None, 0, shape, steps, dtype) for steps in (strides, to))
    found = turned_words(source, target) if source.size else None
    if found is None and (unkeyed(spec) is None or isinstance(unkeyed(spec), SpecProbe)):
        return None
    nbytes, along, across = found or (4, 1, 1)
    problem = TransposeProblem(f"V{nbytes}", size_class(along), size_class(across))
    choice = choose(FAMILY, device, problem, unkeyed(spec))
    return choice if found is not None else None


def _default(profile: Profile, problem: TransposeProblem) -> TransposeSpec:
    return TransposeSpec(**vars(usual(profile, problem.item_bytes, problem.along)))


def _space(profile: Profile, problem: TransposeProblem) -> list[TransposeSpec]:
    base = _default(profile, problem)
    if base.mapping == "vector":
        found = [
            replace(base, block=block, chunk=chunk, streams=streams)
            for block in (4, 8, 16, 32)
            for chunk in (1, 8, 64)
            for streams in (True, False)
        ]
    else:
        found = [replace(base, block=block, rows=rows) for block in (16, 32, 64) for rows in (1, 2, 4, 8, 16)]
    return list(dict.fromkeys([base, *found]))


def _check(profile: Profile, problem: TransposeProblem, spec: TransposeSpec) -> str | None:
    wrong = why_not(spec.mapping, spec.barriers, spec.subgroup)
    if wrong:
        return wrong
    for name in ("block", "rows", "chunk"):
        value = getattr(spec, name)
        if isinstance(value, bool) or not isinstance(value, int) or value < 1 or value & (value - 1):
            return f"{name} is {value!r}; powers of two are accepted"
    if not isinstance(spec.streams, bool):
        return f"streams is {spec.streams!r}; True and False are accepted"
    if not 2 <= spec.block <= 64 or spec.chunk > 1024 or spec.block % spec.rows:
        return (
            f"block is {spec.block}, rows {spec.rows} and chunk {spec.chunk}; accepted are 2 to 64, a divisor of block "
            "and up to 1024"
        )
    if spec.mapping == "vector":
        limit = profile.loop_limit
        if limit is not None and 2 * spec.chunk * spec.block**2 > limit:
            return f"chunk {spec.chunk} with block {spec.block} exceeds the {limit} loop iterations of this driver"
        return None
    if spec.block * spec.rows > profile.max_group_size:
        return f"block * rows is {spec.block * spec.rows}; at most {profile.max_group_size} is accepted"
    needed = _local_bytes(profile, spec, problem.item_bytes)
    if needed > profile.local_bytes:
        return f"a block needs {needed} bytes of local memory; the device has {profile.local_bytes}"
    return None


def _local_bytes(profile: Profile, spec: TransposeSpec, item_bytes: int) -> int:
    """Bytes of local memory of a work-group, or a bound if it already decides whether the block fits.

    The exact placement takes long to compute. The lower bound is the block without padding. The upper bound is rows of
    twice the elements, with each lane's row rounded up to whole bank entries."""
    least = spec.block**2 * item_bytes
    most = 2 * (least + spec.block * spec.rows * max(profile.bank_bytes, item_bytes))
    if least > profile.local_bytes:
        return least
    return most if most <= profile.local_bytes else placement(profile, spec, item_bytes).size * item_bytes


FAMILY = Family("transpose", TransposeSpec, _default, _space, _check, counts)


def _explain(given: Given) -> Explanation:
    """Explain ``transpose(x, axes, ...)`` on this device."""
    call, turned = _opened(given.x, given.axes, given.out, given.device, given.queue, given.wait_for)
    facts: dict[str, object] = {"device": call.device.name, "result": turned.shape, "strides": turned.strides}
    fresh = Operand("out", turned.buffer, 0, turned.shape, c_strides(turned.shape), turned.dtype)
    if given.out is not None:
        fresh = call.output(turned.shape, turned.dtype)
    choice = _chosen(call, turned, fresh, given.spec)
    if not turned.size:
        return Explanation("transpose", facts, ["nothing to move: no kernel"])
    kernel = copying_kernel(call.device, turned, fresh, None if choice is None else choice.spec)
    sources = {kernel.name: kernel.source}
    if choice is None:
        plain = turned.is_contiguous and fresh.is_contiguous
        why = (
            "the elements are already in order: a contiguous copy"
            if plain
            else "no two long axes change places: elements are copied one by one"
        )
        return Explanation("transpose", facts, [why], sources)
    how = choice.spec
    facts["specialization"] = how
    choices = [f"{choice.source}: {choice.reason}"]
    if how.mapping == "vector":
        choices.append("tiles are transposed in vector registers: reads and writes use whole cache lines")
    else:
        found = turned_words(turned, fresh)
        assert found is not None
        laid = placement(call.device.profile, how, found[0])
        choices.append(f"tiles are transposed in local memory: reads and writes use whole cache lines; {laid.reason}")
    return Explanation("transpose", facts, choices + describe_barriers(kernel), sources)


def _reference(x: Any, axes: Any = None) -> list[Expected]:
    return [Expected(np.ascontiguousarray(np.transpose(host(x), axes)))]


register(Algorithm(transpose, _explain, _reference, sizes=("2048x2048",), benchmark="pydp.bench.bench_transpose"))
