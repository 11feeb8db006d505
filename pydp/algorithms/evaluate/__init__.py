"""``pydp.evaluate``: an expression of arrays in one pass over memory."""

from __future__ import annotations

import re
import sys
from collections.abc import Sequence
from typing import Any

import numpy as np

from pydp.algorithms.dry_explanation import explained_by_launches
from pydp.algorithms.evaluate.reference import reference
from pydp.algorithms.operators.expression import (
    WIDTH,
    Expression,
    expression_of,
    is_number,
    kind_of,
    names_in,
    number_argument,
)
from pydp.algorithms.operators.tree import listed, quoted
from pydp.algorithms.registry import Algorithm, Passed, alike, register
from pydp.dtypes import c_declarations, c_name, check_supported
from pydp.errors import InvalidArgument, UnsupportedOnDevice
from pydp.runtime.arrays import elementwise
from pydp.runtime.arrays.indexing import broadcast_strides
from pydp.runtime.arrays.operand import Operand
from pydp.runtime.call import Call
from pydp.runtime.placement import normal_input
from pydp.runtime.programs.program import kernel
from pydp.runtime.recording import recorded

__all__ = ["evaluate"]

_HALF = re.compile(r"\bhalf\d*\b")
_PART = 4096  # elements of a work-item of the kernel for vectors


def evaluate(
    expression: str, /, *, out: Any = None, device: Any = None, queue: Any = None, wait_for: Any = None, **values: Any
) -> Any:
    """Compute an expression of arrays elementwise, in one kernel and without temporary arrays.

    expression: text such as ``"a * x + sin(y)"``, in the grammar of operators (see :mod:`pydp.algorithms.operators`):
    numbers, names, ``+ - * / % << >> < > <= >= == != & ^ | && || ! ~``, ``condition ? x : y``, casts ``(float)x``, and
    OpenCL C's functions of numbers, also by NumPy's names (``where``, ``clip``, ``arctan2``, ``maximum``, ``power``,
    ``floor_divide``, ...). A name that is in NumPy and in OpenCL C is NumPy's function (``remainder`` is ``%``, the
    sign of NaN is NaN), except ``round``, which is OpenCL C's: halves are rounded away from zero, and bools stay bools
    (``rint`` is NumPy's ``round``). Comparisons in a row are refused: instead of ``x < y < z``, write
    ``x < y && y < z``.

    values: arrays and numbers by name, which broadcast. Without any, the names are variables of the caller, as in
    numexpr. The result has the kind of the first array in the expression. out: array for the result; it may be one of
    the arrays.

    Types are NumPy's: int32 + float32 is float64, ``/`` of integers is a float, ``%`` has the sign of the divisor,
    comparisons give bool. Python's numbers and literals without suffix take the dtype of the other operand if it is of
    their kind or a higher one; an integer that does not fit is then an error. Otherwise, integers are int64 and floats
    float64 (float32 if the device lacks it). Comparisons with integers that have no dtype are exact; other integers are
    compared in their common dtype. Integers with a dtype wrap; for a divisor of zero, ``%``, ``fmod`` and
    ``floor_divide`` give 0. An integer to the power of a negative integer is 1 (NumPy raises an error). A shift by a
    negative count, or by at least the number of bits, gives 0, and -1 for ``>>`` of a negative number.

    Raises InvalidArgument for mistakes in the expression, with the column, for missing names, for shapes that do not
    broadcast, for integers that a dtype does not hold, and for complex numbers and records; UnsupportedOnDevice if the
    device lacks float64 or float16, or if its driver limits loop iterations and the expression needs more.

    >>> x, y = np.array([1, 2, 3], np.float32), np.array([4], np.float32)
    >>> pydp.evaluate("2 * x + y")
    array([ 6.,  8., 10.], dtype=float32)
    >>> pydp.evaluate("n % 2 == 0 ? n : -n", n=np.arange(4, dtype=np.int32))
    array([ 0, -1,  2, -3], dtype=int32)
    """
    if not isinstance(expression, str):
        raise InvalidArgument(f"expression has type {type(expression).__name__}; a string is accepted")
    if not values:
        frame = sys._getframe(1)
        values = _of_caller(expression, frame.f_locals, frame.f_globals)
    return _evaluate(expression, values, out=out, device=device, queue=queue, wait_for=wait_for)


def _of_caller(expression: str, *scopes: Any) -> dict[str, Any]:
    """The variables of the caller that the expression names."""
    found = {}
    for name in names_in(expression, [name for scope in scopes for name in scope]):
        place = next((one for one in scopes if name in one), None)
        if place is None:
            raise InvalidArgument(f"the name {quoted(name)} is not a variable of the caller; pass it as a keyword")
        found[name] = place[name]
    return found


@recorded
def _evaluate(expression: str, values: dict[str, Any], *, out: Any, device: Any, queue: Any, wait_for: Any) -> Any:
    call, inputs, found, shape = _prepared(expression, values, out, device, queue, wait_for)
    result = call.output(shape, found.dtype)
    rows = _rows(call, inputs, found, result)
    if rows is not None:
        _launch_vectors(call, inputs, found, result, *rows)
    else:
        elementwise.apply(call, "call", inputs, result, function=found.source)
    return call.finish(result)


def _rows(
    call: Call, inputs: list[Operand | np.generic], found: Expression, result: Operand
) -> tuple[list[int], list[list[int]]] | None:
    """(sizes, steps of the result and of each array) of the kernel for vectors; None where it does not apply: on GPUs,
    and for arrays that are not rows of adjacent or repeated elements."""
    profile = call.device.profile
    if not found.vectors or profile.mapping != "vector" or profile.loop_limit is not None or not result.size:
        return None
    strides = [result.strides]
    for one in inputs:
        if isinstance(one, Operand):
            if call.overlaps(one, result) and not call.same(one, result):
                return None
            strides.append(broadcast_strides(one.shape, one.strides, result.shape, one.name))
    sizes, steps = elementwise.collapse(result.shape, strides)
    if len(sizes) > 2 or (len(sizes) == 2 and sizes[1] < WIDTH) or steps[0][-1] != 1:
        return None
    return (sizes, steps) if all(one[-1] in (0, 1) for one in steps) else None


def _launch_vectors(
    call: Call,
    inputs: list[Operand | np.generic],
    found: Expression,
    result: Operand,
    sizes: list[int],
    steps: list[list[int]],
) -> None:
    rows, columns = (1, *sizes)[-2:]
    each = max(1, _PART // columns)
    of_rows = [np.int64(0 if len(sizes) == 1 else one[0]) for one in steps]
    args: list[Any] = [result, np.int64(result.offset), of_rows[0]]
    described: list[dict[str, object]] = []
    arrays = 0
    for one in inputs:
        if isinstance(one, Operand):
            arrays += 1
            args += [one, np.int64(one.offset), of_rows[arrays]]
            repeated = steps[arrays][-1] == 0
            described.append(
                {"type": c_name(one.dtype), "number": False, "repeated": repeated, "bytes": one.dtype.itemsize}
            )
        else:
            args.append(one)
            described.append({"type": c_name(one.dtype), "number": True, "repeated": False})
    profile, in_place = call.device.profile, any(call.same(one, result) for one in inputs if isinstance(one, Operand))
    params = {
        "declarations": c_declarations([one.dtype for one in inputs]),
        "functions": [found.source, found.vectors],
        "inputs": described,
        "part": _PART,
        "width": WIDTH,
        "nontemporal": not in_place and profile.stores_nontemporal(result.size * result.dtype.itemsize),
        "ahead": profile.prefetches,
    }
    ready = kernel(call.device, "evaluate_vectors.mako", "evaluate_all", params)
    groups = -(-columns // _PART) * -(-rows // each)
    call.launch(ready, (groups,), (1,), *args, np.int64(rows), np.int64(columns), np.int64(each))


def _prepared(
    expression: str, values: dict[str, Any], out: Any, device: Any, queue: Any, wait_for: Any
) -> tuple[Call, list[Operand | np.generic], Expression, tuple[int, ...]]:
    """(call, inputs, the parsed expression, shape of the result)."""
    used = names_in(expression, values)
    missing = [name for name in used if name not in values]
    if missing:
        raise InvalidArgument(
            f"expression uses {listed(missing)}, but only {listed(list(values))} {'is' if len(values) == 1 else 'are'} "
            f"given; pass {listed([f'{name}=...' for name in missing])}"
        )
    arrays = {name: normal_input(name, values[name]) for name in used if not is_number(values[name])}
    call = Call.begin(arrays, out=out, device=device, queue=queue, wait_for=wait_for)
    operands = {name: call.input(name) for name in arrays}
    for name, one in operands.items():
        if one.dtype.kind not in "biuf":
            raise InvalidArgument(f"{name} has dtype {one.dtype}; real numbers and bools are accepted")
    kinds = tuple((name, operands[name].dtype if name in operands else kind_of(values[name])) for name in used)
    double = bool(call.device.profile.fp64)
    found = expression_of(expression, kinds, double)
    for what, dtype in [
        ("the result", found.dtype),
        *((name, kind) for name, kind in kinds if isinstance(kind, np.dtype)),
    ]:
        check_supported(dtype, call.device, what)
    if not double and "double" in found.source:
        check_supported(np.float64, call.device, "the expression")
    if not call.device.profile.fp16 and _HALF.search(found.source):  # NumPy's type of sqrt(x) for int8, and of others
        check_supported(np.float16, call.device, "the expression")
    limit = call.device.profile.loop_limit
    if limit is not None and found.iterations > limit:
        raise UnsupportedOnDevice(
            f"the expression takes {found.iterations} loop iterations for an element; up to {limit} are accepted on "
            "this driver, which ends longer loops. Float remainders and powers of integers contain loops"
        )
    found.check([None if name in operands else values[name] for name in used])
    inputs: list[Operand | np.generic] = []
    for name, kind in kinds:
        if name in operands:
            inputs.append(operands[name])
        else:
            inputs.append(number_argument(values[name], kind, double))
    try:
        shape = np.broadcast_shapes(*(one.shape for one in operands.values()))
    except ValueError:
        shapes = ", ".join(f"{name} {one.shape}" for name, one in operands.items())
        raise InvalidArgument(f"the shapes do not match: {shapes}; shapes that broadcast are accepted") from None
    return call, inputs, found, shape


def _passed(arrays: Sequence[Any], options: dict[str, Any]) -> Passed:
    """The call of a command: the expression is an option, and its names have their arrays."""
    expression = options.pop("expression", None)
    if arrays or expression is None:
        raise InvalidArgument("evaluate takes expression=TEXT and an array NAME=FILE.npy for each name in the text")
    return (expression,), options


register(
    Algorithm(
        evaluate,
        explained_by_launches(
            evaluate,
            "one kernel computes all elements; each array is read once",
            "on CPUs, functions of float32 are computed in vectors, if arrays are contiguous or broadcast along rows",
            "on CPUs, large results are stored past the caches, unless they overwrite an array of the expression",
        ),
        reference,
        sizes=("1048576",),
        shapes=alike(0),
        accepted=("expression=TEXT and NAME=FILE.npy",),
        operands=0,
        passed=_passed,
        benchmark="pydp.bench.bench_evaluate",
    )
)
