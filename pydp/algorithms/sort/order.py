"""The order of a sort: the layout of its rows, the comparison of elements, and their template parameters."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from pydp.algorithms.arguments import axis_of, by_key, integer, switch
from pydp.algorithms.iteration_budget import call_budget
from pydp.algorithms.operators.value_text import ExpressionFunctions
from pydp.algorithms.reduce.passes import collapse
from pydp.dtypes import c_member, c_name, check_computed, dtype_text, is_record, vector_parts
from pydp.errors import InvalidArgument, shown
from pydp.runtime.arrays.operand import Operand


class Comparison(NamedTuple):
    """How elements are compared.

    key, less: from `by_key`. A key of members is the tuple of their names; other texts are OpenCL C expressions.
    """

    key: Any = None
    less: Any = None
    descending: bool = False

    @property
    def by_value(self) -> bool:
        """Whether the elements themselves are compared, in the order of their dtype."""
        return self.key is None and self.less is None


@dataclass(frozen=True)
class Order:
    """The layout of the rows and the order of their elements. axis None: all elements are one row.

    bits: (lowest bit, end) of the integer keys' bits that are compared; None: all."""

    shape: tuple[int, ...]
    strides: tuple[int, ...]
    axis: int | None
    descending: bool
    bits: tuple[int, int] | None = None

    @property
    def result_shape(self) -> tuple[int, ...]:
        """The shape of the sorted copy; rank 1 for axis None."""
        return (int(np.prod(self.shape, dtype=object)),) if self.axis is None else self.shape

    @property
    def n(self) -> int:
        """Elements of a row."""
        return self.result_shape[0] if self.axis is None else self.shape[self.axis]

    @property
    def rows(self) -> int:
        """Number of rows, which are sorted independently; 0 if they are empty."""
        total = int(np.prod(self.shape, dtype=object))
        return total // self.n if self.n else 0

    @property
    def row_step(self) -> tuple[int, int] | None:
        """(stride between elements, stride between rows), or None if the rows have no single stride."""
        if self.axis is None:
            flat = collapse(list(zip(self.shape, self.strides, strict=True)))
            return (flat[0][1] if flat else 1, 0) if len(flat) < 2 else None
        others = [(self.shape[a], self.strides[a]) for a in range(len(self.shape)) if a != self.axis]
        flat = collapse(others)
        return (self.strides[self.axis], flat[0][1] if flat else 0) if len(flat) < 2 else None

    @property
    def rows_in_place(self) -> bool:
        """Whether contiguous sorted rows are already the result's layout."""
        return self.axis is None or self.axis == len(self.shape) - 1 or self.rows == 1


def order_of(
    axis: Any, source: Operand, key: Any, less: Any, descending: Any, bits: Any
) -> tuple[Order, tuple[Any, Any]]:
    """Returns (order, (key, less)), as they are in a `Comparison`.

    Raises InvalidArgument for an invalid axis, key, less or bits."""
    if axis is not None:
        axis = axis_of(axis, len(source.shape))
    compared = comparison_of(source.dtype, key, less, descending)
    window = None if bits is None else _window(bits, source.dtype, key is not None or less is not None)
    order = Order(source.shape, source.strides, axis, compared.descending, window)
    return order, (compared.key, compared.less)


def comparison_of(dtype: np.dtype, key: Any, less: Any, descending: Any) -> Comparison:
    """The arguments ``key=``, ``less=`` and ``descending=`` for elements of a dtype. Raises InvalidArgument for invalid
    ones."""
    if less is not None and not callable(less) and not isinstance(less, str):
        raise InvalidArgument(
            f"less is {shown(less)}; a Python function of two elements, an OpenCL C expression in a and b, and "
            "None are accepted"
        )
    if key is not None and not callable(key) and not _is_expression(key, dtype):
        key = _members(key, dtype)
        if less is not None:
            raise InvalidArgument(
                f"less cannot be combined with key {shown(list(key))}; with less, key must be a function, an "
                "expression or None"
            )
    return Comparison(by_key(key), by_key(less), switch(descending, "descending"))


def _window(bits: Any, dtype: np.dtype, by_functions: bool) -> tuple[int, int] | None:
    """The bits of integer keys that are compared; None if these are all bits."""
    if by_functions:
        raise InvalidArgument(f"bits={shown(bits)} cannot be combined with key or less; None is accepted with them")
    if dtype.kind not in "iu":
        raise InvalidArgument(
            f"bits={shown(bits)} is given for {dtype_text(dtype)} keys; it is accepted for integers only"
        )
    width = 8 * dtype.itemsize
    try:
        low, end = (integer(one) for one in bits)
    except (TypeError, ValueError):
        low, end = -1, -1
    if not 0 <= low <= end <= width:
        raise InvalidArgument(
            f"bits is {shown(bits)}; a pair (low, end) of integers with 0 <= low <= end <= {width} is accepted for "
            f"{dtype_text(dtype)} keys"
        )
    return (low, end) if end - low < width else None


def _is_expression(key: Any, dtype: np.dtype) -> bool:
    """Whether a key is an expression in x. A single word other than x names a member."""
    names = (dtype.names or ()) if is_record(dtype) and not vector_parts(dtype) else ()
    return isinstance(key, str) and key not in names and (key == "x" or not key.isidentifier())


def _members(key: Any, dtype: np.dtype) -> tuple[str, ...]:
    """The record members that a key names, followed by the other members, which break ties."""
    names = (key,) if isinstance(key, str) else tuple(key) if isinstance(key, Sequence) else None
    if not names or not all(isinstance(name, str) for name in names):
        raise InvalidArgument(
            f"key is {shown(key)}; a Python function, an OpenCL C expression in x, a member name or a list of names is "
            "accepted"
        )
    known = (dtype.names or ()) if is_record(dtype) and not vector_parts(dtype) else ()
    for name in names:
        if name not in known:
            what = (
                f"its members are {', '.join(known)}"
                if known
                else "names are accepted for records only, expressions in x for all dtypes"
            )
            raise InvalidArgument(f"key contains {name!r}, which is not a member of {dtype}; {what}")
    if len(set(names)) < len(names):
        raise InvalidArgument(f"key {list(names)} contains a member twice; each member may be given once")
    return (*names, *(name for name in known if name not in names))


def ordering(
    device: Any, dtype: np.dtype, comparison: Comparison, bits: tuple[int, int] | None = None
) -> tuple[dict[str, object], set[np.dtype], int]:
    """Returns (parameters of `sort_order.mako`, the dtypes that it uses, loop iterations of a comparison).

    The number of iterations is 0 on devices that do not limit them. A key function that returns a tuple returns a
    record in C; its members are compared in turn. Raises UnsupportedOnDevice for functions that the device cannot run.
    """
    values, used, iterations = _ordering(dtype, *comparison, bits)
    check_computed(used, device, "a comparison by key and less")
    limit = device.profile.loop_limit
    call_budget(limit, iterations, "a comparison by key and less")
    return values, used, iterations if iterations and limit is not None else 0


def _ordering(
    dtype: np.dtype, key: Any, less: Any, descending: bool, bits: tuple[int, int] | None
) -> tuple[dict[str, object], set[np.dtype], int | None]:
    """Iterations of None: their number depends on data."""
    texts: list[str] = []
    needed = {dtype}
    compared = dtype
    key_name = function = None
    iterations: list[int | None] = []
    expressions = ExpressionFunctions()
    if isinstance(key, str):
        key_name, compared = expressions.add("key", key, dtype, ("x",))
    elif callable(key):
        lowered = _function(key, (dtype,), None, texts, needed)
        key_name, compared = lowered.name, lowered.result
        iterations += [lowered.iterations, lowered.iterations]  # once for each element
    if isinstance(less, str):
        function, _ = expressions.add("less", less, compared, ("a", "b"), condition=True)
    elif less is not None:
        lowered = _function(less, (compared, compared), None, texts, needed)
        if lowered.result != np.dtype(bool):  # a three-way comparison would count as true for every nonzero result
            raise InvalidArgument(
                f"less returns {lowered.result}; a bool is required: True if the first element comes before the second"
            )
        function = lowered.name
        iterations.append(lowered.iterations)
    texts.append(expressions.text)
    needed |= expressions.computes
    iterations.append(expressions.iterations)
    values: dict[str, object] = {
        "text": "\n".join(filter(None, texts)),
        "function": function,
        "key_function": key_name,
        "compared": c_name(compared),
        "parts": [(_bits_of("@", dtype, *bits), False)]
        if bits
        else []
        if function
        else list(comparisons("@", compared, key if isinstance(key, tuple) else None)),
        "descending": descending,
    }
    return values, needed | {compared}, None if None in iterations else sum(one for one in iterations if one)


def _function(function: Any, dtypes: tuple[np.dtype, ...], result: Any, texts: list[str], needed: set[np.dtype]) -> Any:
    """Lower a Python function to C. Adds its text to `texts` and its dtypes to `needed`."""
    from pydp.lang.operator import vector_operator

    lowered = vector_operator(function, dtypes, result)
    if lowered.text not in texts:
        texts.append(lowered.text)
    needed.update(lowered.dtypes)
    return lowered


def _bits_of(expression: str, dtype: np.dtype, low: int, end: int) -> str:
    """The bits low .. end - 1 of an integer in C, where the sign bit of signed integers is flipped."""
    kind, suffix = ("ulong", "UL") if dtype.itemsize == 8 else ("uint", "U")
    flipped = 1 << 8 * dtype.itemsize - 1 if dtype.kind == "i" else 0
    unsigned = f"({kind}) ({c_name(np.dtype(f'u{dtype.itemsize}'))}) {expression}"
    return f"(({unsigned} ^ {flipped}{suffix}) >> {low % (8 * dtype.itemsize)} & {(1 << end - low) - 1}{suffix})"


def comparisons(expression: str, dtype: np.dtype, names: tuple[str, ...] | None = None) -> Any:
    """Yields (C expression, is a float) for each comparison, in order: the members of a record (in the order of
    `names`), the parts of a complex number (as NumPy: numbers with NaN last), the components of a vector."""
    vector = vector_parts(dtype)
    if vector:
        for place in range(vector[1]):
            yield f"{expression}.s{place:x}", vector[0].kind == "f"
    elif is_record(dtype):
        assert dtype.names is not None and dtype.fields is not None
        for name in names or dtype.names:
            member = dtype.fields[name][0]
            base, shape = member.subdtype if member.subdtype else (member, ())
            for at in np.ndindex(*shape):
                index = "".join(f"[{i}]" for i in at)
                yield from comparisons(f"{expression}.{c_member(name)}{index}", base)
    elif dtype.kind == "c":
        yield f"({expression}.x != {expression}.x)", False
        yield f"({expression}.y != {expression}.y)", False
        yield f"{expression}.x", True
        yield f"{expression}.y", True
    elif dtype.kind in "iufb":
        yield expression, dtype.kind == "f"
    else:
        raise InvalidArgument(f"dtype {dtype} has no natural order; pass a key or less function")
