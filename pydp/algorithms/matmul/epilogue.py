"""Epilogues of matrix products: a function of each result and of operands that broadcast against the result.

A kernel applies the function when it stores a final result. Kernels see the product's dtype; float16 is float32 for the
function (products are added in float32), and a complex number is a record with the members `real` and `imag`.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from types import BuiltinFunctionType
from typing import TYPE_CHECKING, Any

import numpy as np

from pydp.algorithms.iteration_budget import call_budget
from pydp.algorithms.operators.expression import expression_of, is_number, kind_of, names_in, number_argument
from pydp.algorithms.operators.tree import listed, quoted
from pydp.dtypes import c_declarations, c_member, c_name, check_computed, check_parameter, check_supported, scalars
from pydp.errors import InvalidArgument, shown
from pydp.lang.compile import translate_value
from pydp.lang.opencl.value_function import lower_value
from pydp.lang.opencl.value_vectors import lower_vectors
from pydp.lang.source.fingerprint import fingerprint
from pydp.runtime.arrays import elementwise
from pydp.runtime.arrays.indexing import broadcast_strides
from pydp.runtime.arrays.operand import Operand, c_strides
from pydp.runtime.bounded import BoundedCache
from pydp.runtime.placement import normal_input

if TYPE_CHECKING:
    from pydp.algorithms.matmul.problem import Matrix, Shape
    from pydp.runtime.call import Call

_ACCEPTED = (
    "a function of the result, an expression in x, and tuples (function, operands...) or (expression, {name: operand}) "
    "are accepted"
)
_Layout = tuple[tuple[int, ...], tuple[int, ...], int]
_RESULT = "x"  # the result's name in expressions
_made = BoundedCache(256)  # by the content of the function and the dtypes


@dataclass(frozen=True)
class Request:
    """An epilogue as the caller gives it. function: a Python function, or the text of an expression. operands: by their
    names in messages. names: of the operands in an expression."""

    function: Any
    operands: Mapping[str, Any]
    names: tuple[str, ...] = ()

    @property
    def arrays(self) -> dict[str, Any]:
        """The operands that are arrays."""
        return {name: one for name, one in self.operands.items() if not _is_number(one)}

    def of(self, arrays: Mapping[str, Any]) -> Request:
        """The same epilogue with other arrays."""
        return replace(self, operands={**self.operands, **arrays})

    def spread(self, shape: Shape) -> dict[str, np.ndarray]:
        """The arrays, broadcast to the result's shape. Raises InvalidArgument unless they are on the host."""
        found = {}
        for name, value in self.arrays.items():
            one = normal_input(name, value)
            if not isinstance(one, np.ndarray):
                raise InvalidArgument(
                    f"{name} is a {type(one).__name__}, but the arrays exceed the device's largest buffer; a NumPy "
                    "array is needed"
                )
            try:
                found[name] = np.broadcast_to(one, shape)
            except ValueError:
                raise _not_broadcast(name, one.shape, shape) from None
        return found

    def bind(self, call: Call, dtype: np.dtype, target: Operand) -> Bound:
        """The epilogue of a call with the result `target` of `dtype`. Raises InvalidArgument for a wrong function, and
        for operands that do not broadcast; UnsupportedOnDevice for types and loops that the device lacks."""
        return _bind(call, self, dtype, target)


def request(epilogue: Any) -> Request:
    """The argument `epilogue` of matmul, or a request. Raises InvalidArgument for other values."""
    if isinstance(epilogue, Request):
        return epilogue
    function, *operands = epilogue if isinstance(epilogue, tuple) and epilogue else (epilogue,)
    if isinstance(function, str):
        if len(operands) > 1 or not all(isinstance(one, Mapping) for one in operands):
            raise InvalidArgument(
                f"epilogue has the expression {quoted(function)} and the operands {listed(operands)}; one dict of "
                "operands by their names in the expression is accepted"
            )
        return _of_text(function, dict(operands[0]) if operands else {})
    if not callable(function):
        raise InvalidArgument(f"epilogue is {shown(epilogue)}; {_ACCEPTED}")
    return Request(function, {f"epilogue[{n}]": one for n, one in enumerate(operands, 1)})


def _of_text(text: str, values: dict[Any, Any]) -> Request:
    used = names_in(text, [*values, _RESULT])
    missing = [name for name in used if name not in values and name != _RESULT]
    if missing:
        raise InvalidArgument(
            f"the epilogue uses {listed(missing)}, but its names are x (the result)"
            f"{f' and {listed(list(values))}' if values else ''}; pass operands in a dict: "
            f"(expression, {{{missing[0]!r}: ...}})"
        )
    if _RESULT in values:
        raise InvalidArgument(
            f"the epilogue has an operand named {_RESULT}; {_RESULT} is the result, choose another name"
        )
    surplus = [name for name in values if name not in used]
    if surplus:
        raise InvalidArgument(
            f"the epilogue has the operand {listed(surplus)}, which the expression {quoted(text)} does not use; names "
            "of the expression other than x (the result) are accepted"
        )
    names = tuple(name for name in used if name != _RESULT)
    return Request(text, {f"epilogue[1][{name!r}]": values[name] for name in names}, names)


def _is_number(value: Any) -> bool:
    return is_number(value) or isinstance(value, (complex, np.generic))


@dataclass(frozen=True)
class _Lowered:
    """C source. result: the dtype that `name` returns. dtypes: of values in it. iterations: of its loops per call, None
    if they depend on data."""

    name: str
    text: str
    result: np.dtype
    dtypes: tuple[np.dtype, ...]
    iterations: int | None


@dataclass(frozen=True)
class Epilogue:
    """An epilogue for dtypes of a result and of operands. dtypes: as the function sees them, first the result's. kinds:
    their kinds in an expression."""

    function: Any
    dtype: np.dtype
    dtypes: tuple[np.dtype, ...]
    kinds: tuple[tuple[str, Any], ...]
    double: bool
    lowered: _Lowered
    key: Any

    @property
    def title(self) -> str:
        """The function for messages."""
        if isinstance(self.function, str):
            return quoted(self.function)
        return str(getattr(self.function, "__name__", type(self.function).__name__))

    def params(self, operands: list[dict[str, Any]], width: int) -> dict[str, Any]:
        """The parameters of matmul_epilogue.mako. operands: see there. width: of vectors, 0 for none."""
        lowered, pair = self.lowered, None
        if self.dtype.kind == "c" and lowered.result.names is not None:
            pair = [c_member(name) for name in lowered.result.names]
        value = {"c": "complex", "b": "bool"}.get(self.dtype.kind, "real")
        vector = self._vectors(width, operands) if width else None
        text = lowered.text
        if vector is not None:  # an expression has both functions in one text
            text = vector[1] if isinstance(self.function, str) else f"{text}\n{vector[1]}"
        return {
            "declarations": c_declarations([*lowered.dtypes, *self.dtypes]),
            "functions": text,
            "name": lowered.name,
            "vector": vector[0] if vector else "",
            "width": width,
            "value": {"type": "int" if value == "bool" else c_name(self.dtypes[0]), "kind": value},
            "result": c_name(lowered.result),
            "pair": pair,
            "operands": operands,
        }

    def _vectors(self, width: int, operands: list[dict[str, Any]]) -> tuple[str, str] | None:
        """(name, text) of the function on vectors, or None."""
        stored_wide = self.dtype.kind in "iuf" and (self.dtype.itemsize >= 4 or self.dtype == np.float16)
        if not stored_wide or any(one["kind"] not in ("real", "half") for one in operands):
            return None
        if isinstance(self.function, str):
            found = expression_of(self.function, self.kinds, self.double, self.dtypes[0], width)
            return ("evaluate_vectors", f"{found.source}\n{found.vectors}") if found.vectors else None
        return lower_vectors(translate_value(self.function, self.dtypes, self.dtypes[0]), width)


@dataclass
class Bound:
    """The epilogue and the operands of one call. operands: arrays that broadcast against the result, and numbers.
    layouts: (shape, strides, offset) of each array as the kernels read it, broadcast; None for numbers and for arrays
    with the same elements as the result. copied: whether an array is copied first, because it shares memory with the
    result in another way."""

    epilogue: Epilogue
    operands: list[Operand | np.generic]
    layouts: list[_Layout | None]
    copied: list[bool]
    key: Any

    @property
    def reads_result(self) -> bool:
        """Whether an operand is the old result."""
        return any(
            layout is None and isinstance(one, Operand) for one, layout in zip(self.operands, self.layouts, strict=True)
        )

    @property
    def text(self) -> str:
        """The function and its operands in words."""
        given = [
            f"{one.dtype} {one.shape}" if isinstance(one, Operand) else f"the number {one}" for one in self.operands
        ]
        return f"{self.epilogue.title} of {', '.join(['the result', *given])}"

    def arguments(self, call: Call) -> list[Any]:
        """The buffers and numbers of one call; makes the copies."""
        found: list[Any] = []
        for one, copied in zip(self.operands, self.copied, strict=True):
            if not isinstance(one, Operand):
                found.append(np.int32(one) if one.dtype == np.bool_ else one)
            elif copied:
                packed = call.temporary(one.shape, one.dtype, one.name)
                elementwise.copy(call, one, packed)
                found.append(packed.buffer)
            else:
                found.append(one.buffer)
        return found

    def described(self, others: tuple[Matrix, ...]) -> list[dict[str, Any]]:
        """The operands for the template, with the layouts that the product has for the arrays."""
        matrices, found = iter(others), []
        for number, (one, layout) in enumerate(zip(self.operands, self.layouts, strict=True)):
            name, dtype = f"operand{number}", one.dtype
            kind, seen = "real", _seen(dtype)
            if not isinstance(one, Operand):
                kinds = dict(self.epilogue.kinds)
                splat = not kinds or isinstance(list(kinds.values())[1 + number], np.dtype)
                c_type = "int" if dtype == np.bool_ else c_name(seen)
                found.append({"name": name, "type": c_type, "kind": kind, "source": "number", "splat": splat})
                continue
            kind = {"b": "bool", "c": "complex"}.get(dtype.kind, "half" if dtype == np.float16 else "real")
            column = f"{name}_col"
            if layout is not None:
                kind = "real" if kind == "complex" else kind
                column = {0: "0", 1: "1"}.get(next(matrices).col, column)
            c_type = c_name(dtype if kind == "half" else seen)
            source = "result" if layout is None else "array"
            found.append({"name": name, "type": c_type, "kind": kind, "source": source, "column": column})
        return found


def _bind(call: Call, asked: Request, dtype: np.dtype, target: Operand) -> Bound:
    double, text = bool(call.device.profile.fp64), isinstance(asked.function, str)
    seen = _seen(dtype)
    operands: list[Operand | np.generic] = []
    layouts: list[_Layout | None] = []
    copied: list[bool] = []
    kinds: list[Any] = []
    for name, value in asked.operands.items():
        made: Operand | np.generic
        kind, layout, copy = None, None, False
        if _is_number(value):
            kind = kind_of(value) if text and is_number(value) else None
            made = _number(name, value, kind, seen, double)
            check_parameter(made.dtype, call.device, name)
        else:
            made = call.input(name)
            layout, copy = _layout(call, made, target)
        check_supported(made.dtype, call.device, name, storage_only=made.dtype == np.float16)
        kinds.append(_seen(made.dtype) if kind is None or isinstance(kind, np.dtype) else kind)
        operands.append(made)
        layouts.append(layout)
        copied.append(copy)
    dtypes = (seen, *(_seen(one.dtype) for one in operands))
    epilogue = _epilogue(asked, dtype, dtypes, kinds, double)
    title = f"epilogue {epilogue.title}"
    check_computed(epilogue.lowered.dtypes, call.device, title)
    call_budget(call.device.profile.loop_limit, epilogue.lowered.iterations, title)
    if text:
        numbers = [value if _is_number(value) else None for value in asked.operands.values()]
        expression_of(asked.function, epilogue.kinds, double, seen).check([None, *numbers])
    key = (epilogue.key, *((one.dtype, isinstance(one, Operand)) for one in operands), *layouts, *copied)
    return Bound(epilogue, operands, layouts, copied, key)


def _layout(call: Call, one: Operand, target: Operand) -> tuple[_Layout | None, bool]:
    """(layout of the operand as kernels read it, whether it is copied first): see Bound."""
    try:
        strides = broadcast_strides(one.shape, one.strides, target.shape, one.name)
        packed = broadcast_strides(one.shape, c_strides(one.shape), target.shape, one.name)
    except InvalidArgument:
        raise _not_broadcast(one.name, one.shape, target.shape) from None
    if not call.overlaps(one, target):
        return (target.shape, strides, one.offset), False
    return (None, False) if call.same(one, target) else ((target.shape, packed, 0), True)


def _not_broadcast(name: str, shape: Shape, result: Shape) -> InvalidArgument:
    """The error for an operand whose shape does not fit the result."""
    return InvalidArgument(
        f"{name} has shape {shape}; a shape that broadcasts to the result's shape {result} is needed"
    )


def _seen(dtype: np.dtype) -> np.dtype:
    """The dtype of values of `dtype` in the function."""
    if dtype == np.float16:
        return np.dtype(np.float32)
    if dtype.kind == "c":
        part = np.dtype(f"f{dtype.itemsize // 2}")
        return np.dtype([("real", part), ("imag", part)])
    return dtype


def _number(name: str, value: Any, kind: Any, seen: np.dtype, double: bool) -> np.generic:
    """A number as an argument of kernels. Python numbers take the result's dtype where it can hold them."""
    if kind is not None:
        made: np.generic = number_argument(value, kind, double)
        return made if made.dtype != np.float16 else made.astype(np.float32)
    if isinstance(value, np.generic):
        return _by_value(value)
    part = next(iter(scalars(seen)))
    if isinstance(value, bool):
        return np.bool_(value)
    if isinstance(value, complex):
        if seen.names is None:
            raise InvalidArgument(f"{name} is {shown(value)}, but the result is {seen}; a real number is accepted")
        return _by_value(np.dtype(f"c{seen.itemsize}").type(value))
    if isinstance(value, float):
        with np.errstate(over="ignore"):
            return part.type(value) if part.kind == "f" else np.float64(value) if double else np.float32(value)
    wanted = np.dtype(np.int64) if part.kind == "b" else part
    try:
        return wanted.type(value)
    except OverflowError:
        raise InvalidArgument(
            f"{name} is {shown(value)}, which the result's dtype {wanted} cannot hold; a NumPy number of a wider dtype "
            "is accepted"
        ) from None


def _by_value(value: np.generic) -> np.generic:
    seen = _seen(value.dtype)
    if seen.names is not None and value.dtype.names is None:
        pair: np.generic = np.array([(value.real, value.imag)], seen)[0]
        return pair
    return value.astype(seen) if seen != value.dtype else value


def _epilogue(
    asked: Request, dtype: np.dtype, dtypes: tuple[np.dtype, ...], kinds: list[Any], double: bool
) -> Epilogue:
    function = asked.function
    if isinstance(function, str):
        content: Any = (function, asked.names, tuple(kinds), double)
    elif isinstance(function, (np.ufunc, BuiltinFunctionType, type)):
        content = function
    else:
        content = fingerprint(function)
    found: Epilogue = _made.make((content, dtype, dtypes), _lower, asked, dtype, dtypes, kinds, double, content)
    return found


def _lower(
    asked: Request, dtype: np.dtype, dtypes: tuple[np.dtype, ...], kinds: list[Any], double: bool, content: Any
) -> Epilogue:
    named: tuple[tuple[str, Any], ...] = ()
    if isinstance(asked.function, str):
        for name, one in zip(("the result", *asked.operands), dtypes, strict=True):
            if one.kind not in "biuf":
                what = "a complex number" if one.names == ("real", "imag") else str(one)
                raise InvalidArgument(
                    f"{name} is {what} in an expression; real numbers and bools are accepted, and a Python function "
                    "takes complex numbers as records with the members real and imag"
                )
        named = ((_RESULT, dtypes[0]), *zip(asked.names, kinds, strict=True))
        found = expression_of(asked.function, named, double, dtypes[0])
        used = (*dtypes, *((np.dtype(np.float64),) if "double" in found.source else ()))
        lowered = _Lowered("evaluate", found.source, dtypes[0], used, found.iterations)
    else:
        made = lower_value(translate_value(asked.function, dtypes, None if dtype.kind == "c" else dtypes[0]))
        _check_result(made.result, dtype)
        lowered = _Lowered(made.name, made.text, made.result, made.dtypes, made.iterations)
    return Epilogue(asked.function, dtype, dtypes, named, double, lowered, content)


def _check_result(result: np.dtype, dtype: np.dtype) -> None:
    """Raise InvalidArgument unless `result` is a number, or for a complex product a pair of numbers."""
    numbers = [result] if result.names is None else [result[name] for name in result.names]
    if (result.names is not None and len(numbers) != 2) or any(one.kind not in "biuf" for one in numbers):
        raise InvalidArgument(
            f"the epilogue returns {result}, but the result is {dtype}; a number, or a pair of its real and imaginary "
            "part, is accepted"
        )
