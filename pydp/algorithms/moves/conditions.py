"""``pydp.where``: elements chosen by a condition; of one value, in vector functions and in Python; or `nonzero`."""

from __future__ import annotations

from typing import Any

import numpy as np

from pydp.algorithms.select import nonzero
from pydp.dtypes import c_name, common_dtype
from pydp.errors import InvalidArgument, shown
from pydp.runtime.arrays import elementwise
from pydp.runtime.call import Call
from pydp.runtime.placement import normal_input
from pydp.runtime.recording import recorded


def where(
    condition: Any, yes: Any = None, no: Any = None,
    *, out: Any = None, device: Any = None, queue: Any = None, wait_for: Any = None,
) -> Any:  # fmt: skip
    """Elements of `yes` where `condition` is not zero, and of `no` elsewhere, as ``numpy.where``.

    The arguments are arrays or numbers that broadcast; the result has NumPy's common dtype of `yes` and `no` (records
    keep the gaps between their members), and the kind of the first array. out: array for the result; it may be one of
    the inputs. Without `yes` and `no`, the result is ``nonzero(condition)``. In a vector function, or if all arguments
    are scalars and `out` is None, the result is the scalar `yes` or `no`.

    Raises InvalidArgument for shapes that do not broadcast, for records of different dtypes, and for Python integers
    that the dtype of the result does not hold.

    >>> pydp.where(np.array([True, False, True]), np.array([1, 2, 3]), 0)
    array([1, 0, 3])
    """
    places = {"device": device, "queue": queue, "wait_for": wait_for}
    if yes is None and no is None:
        return nonzero(condition, **places)
    if yes is None or no is None:
        raise InvalidArgument("where has only one of yes and no; pass both or neither")
    if out is None and not _is_array(condition) and not _is_array(yes) and not _is_array(no):
        return yes if condition else no
    return _where(condition, yes, no, out=out, **places)


def _is_array(value: Any) -> bool:
    return not isinstance(value, (bool, int, float, complex, str, bytes, np.generic))


@recorded
def _where(condition: Any, yes: Any, no: Any, *, out: Any, device: Any, queue: Any, wait_for: Any) -> Any:
    values = {"condition": condition, "yes": yes, "no": no}
    arrays = {name: normal_input(name, one) for name, one in values.items() if _is_array(one)}
    call = Call.begin(arrays, out=out, device=device, queue=queue, wait_for=wait_for)
    operands = {name: call.input(name) for name in arrays}
    kind = common_dtype(*(operands[name].dtype if name in operands else values[name] for name in ("yes", "no")))
    inputs: list[Any] = []
    for name, one in values.items():
        if name in operands:
            inputs.append(operands[name])
        elif name == "condition":
            inputs.append(np.uint8(bool(one)))
        else:
            check_held(one, kind, name)
            inputs.append(np.asarray(one).astype(kind)[()])
    shape = _broadcast([one.shape for one in operands.values()])
    result = call.output(shape, kind)
    elementwise.apply(call, "call", inputs, result, function=_function(inputs, kind))
    return call.finish(result)


def check_held(value: Any, dtype: np.dtype, name: str) -> None:
    """Refuse a Python integer that an integer dtype does not hold."""
    if isinstance(value, int) and dtype.kind in "iu":
        least, most = int(np.iinfo(dtype).min), int(np.iinfo(dtype).max)
        if not least <= value <= most:
            raise InvalidArgument(
                f"{name} is {shown(value)}, which {dtype} does not hold; {least} to {most} is accepted"
            )


def _broadcast(shapes: list[tuple[int, ...]]) -> tuple[int, ...]:
    try:
        return np.broadcast_shapes(*shapes)
    except ValueError:
        raise InvalidArgument(
            f"the shapes {', '.join(map(str, shapes))} do not match; shapes that broadcast are accepted"
        ) from None


def _function(inputs: list[Any], kind: np.dtype) -> str:
    """The C function of where."""
    names = [_c_type(one) for one in inputs]
    condition = inputs[0].dtype
    if condition.kind not in "biufc":
        raise InvalidArgument(f"condition has dtype {condition}; numbers and bools are accepted")
    test = "c.x != 0 || c.y != 0" if condition.kind == "c" else "c != 0"
    made = [converted(name, one.dtype, kind) for name, one in (("x", inputs[1]), ("y", inputs[2]))]
    return (
        f"static {c_name(kind)} evaluate(const {names[0]} c, const {names[1]} x, const {names[2]} y) "
        f"{{ return ({test}) ? {made[0]} : {made[1]}; }}"
    )


def _c_type(one: Any) -> str:
    return "float" if isinstance(one, np.generic) and one.dtype == np.float16 else c_name(one.dtype)


def converted(text: str, given: np.dtype, to: np.dtype) -> str:
    """A C value of one dtype in another, into which NumPy converts it safely."""
    if given == to or given.kind == "V":
        return text
    if to.kind == "c":
        part = c_name(np.dtype(f"f{to.itemsize // 2}"))
        return f"convert_{c_name(to)}({text})" if given.kind == "c" else f"({c_name(to)}) (({part}) {text}, 0)"
    return f"({c_name(to)}) {text}"
