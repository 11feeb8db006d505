"""Batched matrix product ``alpha * (a @ b) + beta * out``, for any dtypes and strides."""

from __future__ import annotations

import logging
import math
from collections.abc import Mapping, Sequence
from dataclasses import replace
from types import FunctionType
from typing import TYPE_CHECKING, Any

import numpy as np

from pydp.algorithms.arguments import scalar_of
from pydp.algorithms.matmul.plan import Builder, Plan
from pydp.algorithms.matmul.policy import FAMILY, THIN_ROWS, rounded_size
from pydp.algorithms.matmul.problem import (
    Arithmetic,
    Matrix,
    Product,
    Shape,
    arithmetic,
    factor,
    product,
    result_dtype,
    result_shape,
)
from pydp.algorithms.matmul.spec import MatmulProblem, MatmulSpec
from pydp.algorithms.matmul.staging import bank_note
from pydp.algorithms.matmul.stream import first_block, multiply_in_pieces
from pydp.algorithms.pieces import after_events, buffer_limit, delivered, explaining_pieces, needed, on_host, target_of
from pydp.algorithms.registry import Algorithm, register
from pydp.dtypes import check_supported
from pydp.errors import BuildFailed, InvalidArgument, shown
from pydp.groups.barrier_plan import describe_barriers
from pydp.model.explanation import Explanation, Given, sources_of
from pydp.runtime.arrays.operand import c_strides
from pydp.runtime.call import Call
from pydp.runtime.memory.host_memory import fresh
from pydp.runtime.placement import wait_on_host
from pydp.runtime.recording import recorded
from pydp.tuning.choose import Choice, choose
from pydp.tuning.reference import Expected, eps, host, wide

if TYPE_CHECKING:
    from pydp.algorithms.matmul.epilogue import Bound, Request
    from pydp.runtime.arrays.operand import Operand
    from pydp.runtime.drivers.devices import Device

__all__ = ["MatmulSpec", "matmul"]

_log = logging.getLogger("pydp")
_SCRATCH_BYTES = 1 << 30  # largest scratch memory in bytes for float32 sums; above it, k is packed as one block


def _content(value: Any) -> Any:
    """The key of a Python function in recordings of calls."""
    if not callable(value) or isinstance(value, type):
        return None
    from pydp.lang.execute.checked import is_checked
    from pydp.lang.source.fingerprint import fingerprint
    from pydp.lang.vector import VectorFunction

    if is_checked() or not isinstance(value, (FunctionType, VectorFunction)):
        return None
    return ("vector function", fingerprint(value)), ()


@recorded(content=_content)
def matmul(
    a: Any,
    b: Any,
    *,
    alpha: Any = 1,
    beta: Any = 0,
    out: Any = None,
    epilogue: Any = None,
    device: Any = None,
    queue: Any = None,
    wait_for: Any = None,
    spec: Any = None,
) -> Any:
    """Compute ``alpha * (a @ b) + beta * out``, a matrix product, optionally followed by an elementwise function.

    a: (..., m, k) or (k,); b: (..., k, n) or (k,), NumPy arrays, Fields or pyopencl Arrays of any strides; leading
    axes broadcast. The result has the shape and dtype of NumPy's ``a @ b``: bool, integers (which wrap), float16
    (accumulated in float32), float32, float64, complex64, complex128; a and b may have different dtypes. The product of
    two vectors in NumPy arrays is a NumPy scalar.
    alpha, beta: numbers that the result's dtype can hold. If beta is 0, `out` is not read. `out` may overlap a and b.
    epilogue: a function that is applied to each element of ``alpha * (a @ b) + beta * out`` before it is stored, in the
    same kernel (activations, biases, scales, residual connections). It is a Python function of one value (see
    `pydp.vector`), or an expression in ``x`` in the grammar of :func:`pydp.evaluate`; or, with operands, a tuple
    ``(function, operand, ...)`` or ``(expression, {name: operand})``. Operands are numbers and arrays of any strides
    that broadcast against the result, also `out` itself. In the function, Python numbers have the result's dtype, and
    float16 values are float32; its value is converted to the result's dtype, as by astype. Complex numbers are records
    with the members `real` and `imag`; a function of a complex product returns a number, or a pair of a real and an
    imaginary part.
    spec: a :class:`pydp.algorithms.matmul.spec.MatmulSpec`, or a mapping of some of its fields.

    Raises InvalidArgument for wrong shapes, dtypes, factors, a wrong `out` or `epilogue`, UnsupportedOnDevice for
    float64 on a device without it; nothing is written then.

    >>> pydp.matmul(np.ones((2, 3), "f4"), np.ones((3, 4), "f4")).shape
    (2, 4)
    >>> bias = np.array([-4, 1], "f4")
    >>> pydp.matmul(np.ones((2, 3), "f4"), np.ones((3, 2), "f4"), epilogue=(lambda v, bias: max(v + bias, 0), bias))
    array([[0., 4.],
           [0., 4.]], dtype=float32)

    Sources: Goto and van de Geijn, Anatomy of High-Performance Matrix Multiplication (2008), for CPUs; the tiled
    matrix product with Ringseth's tile operator, for GPUs.
    """
    where = {"device": device, "queue": queue, "wait_for": wait_for, "out": out}
    given = _requested(epilogue)
    wait_on_host(wait_for, alpha, beta)
    if needed(where, a, b, *_host_operands(given, a, b), result=_result_bytes(a, b)):
        return scalar_of(_in_pieces(a, b, alpha, beta, given, spec, where), out)
    return scalar_of(_matmul(a, b, alpha, beta, given, spec, where), out)


def _matmul(a: Any, b: Any, alpha: Any, beta: Any, epilogue: Request | None, spec: Any, where: dict[str, Any]) -> Any:
    """Multiply arrays that fit the device."""
    call = _begin(a, b, epilogue, where)
    plan, left, right, target, bound = _prepare(call, alpha, beta, where["out"], epilogue, spec)
    plan.run(call, left, right, target, bound)
    return call.finish(target)


def _requested(epilogue: Any) -> Request | None:
    """The checked argument `epilogue`. The language of Python functions is imported only if there is one."""
    if epilogue is None:
        return None
    from pydp.algorithms.matmul.epilogue import request

    return request(epilogue)


def _begin(a: Any, b: Any, epilogue: Request | None, where: dict[str, Any]) -> Call:
    operands = {} if epilogue is None else epilogue.arrays
    return Call.begin({"a": a, "b": b, **operands}, **where)


def _host_operands(epilogue: Request | None, a: Any, b: Any) -> list[Any]:
    """The operands of an epilogue that are NumPy arrays, if both factors are."""
    if epilogue is None or not on_host(a, b):
        return []
    return [one for one in epilogue.arrays.values() if on_host(one)]


def _result_bytes(a: Any, b: Any) -> int:
    """The bytes of the product of NumPy arrays; 0 for others."""
    if not on_host(a, b):
        return 0
    return math.prod(result_shape(a.shape, b.shape)) * result_dtype(a.dtype, b.dtype).itemsize


def _empty_result(given: Given) -> np.ndarray:
    """An array with the shape and dtype of the product of NumPy arrays."""
    return fresh(result_shape(given.a.shape, given.b.shape), result_dtype(given.a.dtype, given.b.dtype))


def _first_piece(given: Given, limit: int, result: np.ndarray) -> dict[str, Any]:
    """The arguments of the first piece of a product of NumPy arrays."""
    epilogue = _requested(given.epilogue)
    operands = {} if epilogue is None else epilogue.spread(result.shape)
    block = first_block(limit, np.asarray(given.a), np.asarray(given.b), result, list(operands.values()))
    found: dict[str, Any] = {"a": block.a, "b": block.b, "epilogue": None}
    if epilogue is not None and block.last:
        found["epilogue"] = epilogue.of(dict(zip(operands, block.others, strict=True)))
    return found if given.out is None else {**found, "out": block.c}


def _in_pieces(
    a: np.ndarray, b: np.ndarray, alpha: Any, beta: Any, epilogue: Request | None, spec: Any, where: dict[str, Any]
) -> np.ndarray:
    """Multiply NumPy arrays that are larger, or have a larger product, than the device's largest buffer."""
    dtype, out = result_dtype(a.dtype, b.dtype), where["out"]
    shape = result_shape(a.shape, b.shape)
    alpha, beta = factor(alpha, dtype, "alpha"), factor(beta, dtype, "beta")
    if beta != 0 and out is None:
        raise InvalidArgument(f"beta is {shown(beta)}, but out is not given; a nonzero beta needs out=")
    operands = {} if epilogue is None else epilogue.spread(shape)
    target, result = target_of(out, shape, dtype, a, b, *operands.values())
    where, a, b = after_events(where), np.asarray(a), np.asarray(b)
    if beta != 0 and not np.may_share_memory(target, result):
        target[...] = result

    def run(
        left: np.ndarray, right: np.ndarray, place: np.ndarray, beta: Any, others: Sequence[np.ndarray] | None
    ) -> None:
        last = None if epilogue is None or others is None else epilogue.of(dict(zip(operands, others, strict=True)))
        _matmul(left, right, alpha, beta, last, spec, {**where, "out": place})

    multiply_in_pieces(run, buffer_limit(where), beta, a, b, target, list(operands.values()))
    return delivered(target, result)


def _prepare(
    call: Call, alpha: Any, beta: Any, out: Any, epilogue: Request | None, spec: Any
) -> tuple[Plan, Operand, Operand, Operand, Bound | None]:
    """The plan of a call, its validated operands, and its epilogue."""
    left, right = call.input("a"), call.input("b")
    dtype = result_dtype(left.dtype, right.dtype)
    shape = result_shape(left.shape, right.shape)
    alpha = 1 if type(alpha) is int and alpha == 1 else factor(alpha, dtype, "alpha")
    plain = type(beta) is int and beta == 0
    beta = 0 if plain else factor(beta, dtype, "beta")
    if beta != 0 and out is None:
        raise InvalidArgument(f"beta is {shown(beta)}, but out is not given; a nonzero beta needs out=")
    target = call.output(shape, dtype, keep=not plain or (epilogue is not None and out is not None))
    bound = None if epilogue is None else epilogue.bind(call, dtype, target)
    via_scratch = out is not None and (call.overlaps(target, left) or call.overlaps(target, right))
    return _plan(call.device, left, right, target, alpha, beta, bound, spec, via_scratch), left, right, target, bound


def _plan(
    device: Device, a: Operand, b: Operand, c: Operand, alpha: Any, beta: Any, epilogue: Bound | None, spec: Any,
    via_scratch: bool,
) -> Plan:  # fmt: skip
    """The cached plan for these operands, made on first use; its checks are not repeated."""
    key = (
        "matmul", a.shape, a.strides, a.offset, a.dtype.char, b.shape, b.strides, b.offset, b.dtype.char,
        c.strides, c.offset,
        repr(alpha), repr(beta),  # repr distinguishes -0.0 from 0.0, and equal NaNs have equal keys
        via_scratch, None if epilogue is None else epilogue.key,
        None if spec is None else repr(dict(spec) if isinstance(spec, Mapping) else spec),
    )  # fmt: skip
    found: Plan | None = device.plans.get(key)
    if found is None:
        found = device.plans.make(key, _make_plan, device, a, b, c, alpha, beta, epilogue, spec, via_scratch)
    return found


def _make_plan(
    device: Device, a: Operand, b: Operand, c: Operand, alpha: Any, beta: Any, epilogue: Bound | None, spec: Any,
    via_scratch: bool,
) -> Plan:  # fmt: skip
    how = arithmetic(c.dtype)
    check_supported(c.dtype, device, "the result of matmul", storage_only=c.dtype == np.float16)
    others = () if epilogue is None else (layout for layout in epilogue.layouts if layout is not None)
    one, why = _arranged(product(*((x.shape, x.strides, x.offset) for x in (a, b, c)), *others))
    choice = _choose(device, how, one, spec)
    gathered = None
    if choice.spec.method == "thin" and one.b.col != 1 and one.a.col != 1:
        one, gathered = _gathered(one)
        why.append("the thin operand is copied first: its rows are not contiguous")
    small = one.batches * one.m * one.n * how.item_bytes <= _SCRATCH_BYTES
    if how.narrow and choice.spec.method == "packed" and one.k > 4 * choice.spec.tile_k and small:
        via_scratch = True
        why.append(f"between blocks of k, sums of {how.dtype} are kept as float32 in scratch memory")
    elif via_scratch:
        why.append("out overlaps an input: the product is computed in scratch memory first")
    types = (b.dtype, a.dtype, c.dtype) if one.swapped else (a.dtype, b.dtype, c.dtype)
    try:
        plan = Builder(device, how, choice.spec, types, alpha, beta, epilogue).build(one, via_scratch)
    except BuildFailed as error:
        asked = spec.method if isinstance(spec, MatmulSpec) else (spec or {}).get("method")
        if choice.spec.method != "mma" or asked == "mma":
            raise
        _log.warning("kernels for tensor cores do not build on %s; multiply-adds are used: %s", device.name, error)
        given = {**(spec if isinstance(spec, Mapping) else {}), "method": "staged"}
        choice = replace(_choose(device, how, one, given), source="default", reason="no tensor cores")
        plan = Builder(device, how, choice.spec, types, alpha, beta, epilogue).build(one, via_scratch)
    plan.gathered = gathered
    plan.choice, plan.product = choice, one
    plan.why = why + plan.why
    return plan


def _arranged(one: Product) -> tuple[Product, list[str]]:
    """The product, or the transposed product if that turns thin operands into rows or makes rows of C contiguous."""
    if one.m and one.n and (one.n < one.m if min(one.m, one.n) <= THIN_ROWS else one.c.col != 1 and one.c.row == 1):
        return one.transposed(), ["computed as the transposed product of transposed operands"]
    return one, []


def _choose(device: Device, how: Arithmetic, one: Product, spec: Any) -> Choice:
    thin = one.m <= THIN_ROWS and (one.b.col == 1 or one.b.row == 1)
    wanted: Mapping[str, Any] = spec if isinstance(spec, Mapping) else {}
    # The defaults of the other fields depend on these two.
    mapping, method = (str(wanted[name]) if name in wanted else None for name in ("mapping", "method"))
    batches, m, n, k = (rounded_size(size) for size in (one.batches, one.m, one.n, one.k))
    strided = one.n < 2 * how.planes or (one.b.col != 1 and one.k > 0)
    problem = MatmulProblem(str(how.dtype), batches, m, n, k, thin, thin and one.b.col != 1, mapping, method, strided)
    return choose(FAMILY, device, problem, spec)


def _gathered(one: Product) -> tuple[Product, tuple[Shape, Shape]]:
    """The product with a contiguous copy of the thin operand, and the shape and strides to copy the operand with.

    The axes do not change, because the specialization was chosen for them. Broadcast batch axes are copied once.
    """
    batch = tuple(1 if step == 0 else size for size, step in zip(one.batch, one.a.batch, strict=True))
    shape = (*batch, one.m, one.k)
    steps = c_strides(shape)[:-2]
    batch_steps = tuple(step if own else 0 for step, own in zip(steps, one.a.batch, strict=True))
    return replace(one, a=Matrix(0, one.k, 1, batch_steps)), (shape, (*one.a.batch, one.a.row, one.a.col))


def _explain(given: Given) -> Explanation:
    """Describe what ``matmul(a, b, ...)`` would run: its plan, without launching it."""
    epilogue = _requested(given.epilogue)
    call = _begin(given.a, given.b, epilogue, given.where)
    plan, _, _, target, bound = _prepare(call, given.alpha, given.beta, given.out, epilogue, given.spec)
    one, chosen = plan.product, plan.choice
    facts: dict[str, object] = {
        "device": call.device.name,
        "result": f"{target.dtype} {target.shape}",
        "product": f"m={one.m} n={one.n} k={one.k}" + (f", batch {one.batch}" if one.batch else ""),
        "accumulator": plan.how.work,
        "specialization": chosen.spec,
        "split-k": plan.parts,
        "scratch bytes": plan.space_bytes + plan.partial_bytes,
    }
    if bound is not None:
        facts["epilogue"] = bound.text
    for number, launch in enumerate(plan.launches[:8]):
        facts[f"launch {number}"] = f"{launch.kernel.name} {launch.global_size} in groups of {launch.local_size}"
    choices = [f"{chosen.source}: {chosen.reason}", _method_text(chosen.spec), *plan.why]
    if chosen.spec.method == "staged":
        choices += [bank_note(call.device.profile, plan.how, chosen.spec), _BUFFERS[chosen.spec.buffers]]
        choices += [line for launch in plan.launches[:1] for line in describe_barriers(launch.kernel)]
    if chosen.spec.method == "mma":
        choices += [line for launch in plan.launches[:1] for line in describe_barriers(launch.kernel)]
    if plan.parts > 1:
        choices.append(f"split-k: k is split into {plan.parts} parts, which a second kernel adds in order")
    return Explanation("matmul", facts, choices, sources_of(launch.kernel for launch in plan.launches))


_BUFFERS = {
    1: "one buffer: a barrier before and after staging tiles",
    2: "two buffers, for even and odd steps: one barrier per step",
}


def _method_text(spec: MatmulSpec) -> str:
    """One sentence on the method."""
    return {
        "packed": "one work-item per group packs panels that fit the caches and holds "
        f"{spec.rows} x {spec.columns} results in vector registers",
        "direct": f"one work-item per group reads a and b in place and holds {spec.rows} x {spec.columns} results in "
        "vector registers",
        "thin": "few rows: reading the matrix once limits the speed, so nothing is packed",
        "staged": f"groups of {spec.lanes_m} x {spec.lanes_n} work-items stage tiles of depth {spec.tile_k} in local "
        "memory",
        "mma": f"groups of {spec.lanes_m * spec.lanes_n // 32} warps stage {spec.buffers} tiles of depth "
        f"{spec.tile_k} in local memory and multiply them by tensor cores",
    }[spec.method]


def _reference(a: Any, b: Any, *, alpha: Any = 1, beta: Any = 0, epilogue: Any = None) -> list[Expected] | None:
    if alpha != 1 or beta != 0 or epilogue is not None:
        return None
    a, b = host(a), host(b)
    dtype = np.result_type(a, b)
    right = np.asarray(np.matmul(wide(a), wide(b)))
    if dtype.kind not in "fc":
        return [Expected(right.astype(dtype))]
    left_norms = np.sqrt(np.sum(np.abs(wide(a)) ** 2, axis=-1))
    right_norms = np.sqrt(np.sum(np.abs(wide(b)) ** 2, axis=-2 if b.ndim > 1 else -1))
    scale = left_norms[..., None] * right_norms[..., None, :] if a.ndim > 1 and b.ndim > 1 else left_norms * right_norms
    return [Expected(right.astype(dtype), (a.shape[-1] + 2) * eps(dtype) * scale)]


def _shapes(size: Shape) -> list[Shape] | None:
    """The shapes of a and b for M, (M, N, K) or (BATCH, M, N, K)."""
    size = size * 3 if len(size) == 1 else size
    if len(size) not in (3, 4):
        return None
    *batch, m, n, k = size
    return [(*batch, m, k), (*batch, k, n)]


register(
    Algorithm(
        matmul,
        explaining_pieces(
            _explain,
            "a",
            "b",
            result=_empty_result,
            others=lambda given: _host_operands(_requested(given.epilogue), given.a, given.b),
            first=_first_piece,
        ),
        _reference,
        sizes=("256", "1024", "2048", "4096x64x4096", "64x4096x4096"),
        shapes=_shapes,
        accepted=("M", "M N K", "BATCH M N K"),
        operands=2,
        benchmark="pydp.bench.bench_matmul",
    )
)
