"""Predicates of select and partition: OpenCL C expressions in ``x``, or Python functions of one argument."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from pydp.algorithms.operators import declarations_of, missing_declarations
from pydp.algorithms.operators.grammar import LONGEST, parse, refused
from pydp.algorithms.operators.text import Expressions
from pydp.algorithms.operators.tree import Refused, quoted
from pydp.algorithms.operators.vector_predicate import vector_predicate
from pydp.dtypes import c_name, check_computed, is_record, native, vector_parts
from pydp.errors import InvalidArgument, shown
from pydp.runtime.bounded import BoundedCache

_ACCEPTED = (
    "an OpenCL C expression in x, such as 'x > 0', a Python function of one element, and NumPy's tests of one element, "
    "such as np.isfinite, are accepted"
)
_TESTS = {  # NumPy's tests: their expressions for floats, and for booleans and integers
    np.isfinite: ("isfinite(x)", "x == x"),
    np.isinf: ("isinf(x)", "x != x"),
    np.isnan: ("isnan(x)", "x != x"),
    np.signbit: ("signbit(x)", "x < 0"),
    np.logical_not: ("!x", "!x"),
}
_made = BoundedCache(256)  # by the text, or the content of the function, and the dtype
_TRUTH = np.dtype(bool)


@dataclass(frozen=True, eq=False)
class Predicate:
    """A condition on one element of `dtype`, as OpenCL C. It has the fields of an Operator; `body` uses ``x``.

    vector, vector_functions: the condition on vectors of 16 elements, see
    :func:`pydp.algorithms.operators.vector_predicate.vector_predicate`.
    """

    name: str
    dtype: np.dtype
    body: str
    declarations: str = ""
    iterations: int | None = 0
    computes: tuple[np.dtype, ...] = ()
    vector: str = ""
    vector_functions: str = ""

    @property
    def key(self) -> tuple[str, ...]:
        """A key that is unique for each predicate."""
        return (self.name, c_name(self.dtype), self.dtype.kind, self.body, self.declarations)

    @property
    def title(self) -> str:
        """The name for error messages, shortened if it is long."""
        return quoted(self.name)

    def function(self, name: str = "keep") -> str:
        """The C source of ``static int name(T x)``, which returns 0 or 1; for `three_parts`, 0, 1 or 2."""
        return f"static int {name}(const {c_name(self.dtype)} x) {{ {self.body} }}\n"

    def check(self, device: Any) -> None:
        """Raise UnsupportedOnDevice if `device` lacks a type that the body computes with."""
        if self.computes:
            check_computed(self.computes, device, f"predicate {self.title}")


def predicate_of(value: Any, dtype: Any) -> Predicate:
    """The predicate `value` on elements of `dtype`. Raises InvalidArgument if it is not one.

    >>> predicate_of("x > 0", "int32").body
    'return ((x > 0) != 0);'
    """
    dtype = native(dtype)
    c_name(dtype)
    if isinstance(value, Predicate):
        return value
    if isinstance(value, np.ufunc) and value in _TESTS:
        if dtype.kind not in "biuf":
            raise InvalidArgument(
                f"predicate {shown(value)} is given {dtype}; it accepts booleans, integers and floats"
            )
        value = _TESTS[value][dtype.kind in "biu"]
    if isinstance(value, str):
        found: Predicate = _made.make((value, dtype), _from_text, value, dtype)
        return found
    if callable(value) and not isinstance(value, (np.ufunc, type)):
        from pydp.lang.source.fingerprint import fingerprint

        found = _made.make((fingerprint(value), dtype), _from_function, value, dtype)
        return found
    raise InvalidArgument(f"predicate {shown(value)} is not a condition; {_ACCEPTED}")


def three_parts(first: Any, second: Any, dtype: Any) -> Predicate:
    """1 for elements of `dtype` that meet the first predicate, 2 for those that meet only the second one, else 0.

    >>> three_parts("x > 0", "x < -9", "int32").body
    'return (x > 0 ? 1 : x < -9 ? 2 : 0);'
    """
    dtype = native(dtype)
    one, two = predicate_of(first, dtype), predicate_of(second, dtype)
    if isinstance(first, str) and isinstance(second, str):  # as one text, because they may have the same helpers
        text = f"({first}) ? 1 : ({second}) ? 2 : 0"
        if len(text) > LONGEST:
            most = LONGEST - len(text) + len(first) + len(second)
            raise InvalidArgument(
                f"predicate has {len(first)} characters and second has {len(second)}; "
                f"at most {most} together are accepted"
            )
        found: Predicate = _made.make((text, dtype, "three parts"), _from_text, text, dtype, np.dtype(np.int32))
        return found
    return _joined(one, two)


def _joined(first: Predicate, second: Predicate) -> Predicate:
    """The three parts of two predicates that are not both texts."""
    iterations = None
    if first.iterations is not None and second.iterations is not None:
        iterations = first.iterations + second.iterations
    both = first.declarations
    if second.declarations not in both:
        both += second.declarations
    return Predicate(
        f"{first.name} or {second.name}",
        first.dtype,
        "return meets_first(x) ? 1 : meets_second(x) ? 2 : 0;",
        both + first.function("meets_first") + second.function("meets_second"),
        iterations,
        first.computes + second.computes,
    )


def nonzero(dtype: np.dtype) -> Predicate:
    """True for elements that differ from zero; for NaN too, as in NumPy. Raises InvalidArgument for records."""
    if is_record(dtype) or vector_parts(dtype):
        raise InvalidArgument(f"elements of {dtype} have no truth value; numbers and bools are accepted")
    body = "return x.x != 0 || x.y != 0;" if dtype.kind == "c" else "return x != 0;"
    vector, functions = vector_predicate("x != 0", dtype)
    computes = (dtype,) if dtype.kind in "fc" else ()
    return Predicate("x != 0", dtype, body, computes=computes, vector=vector, vector_functions=functions)


def _from_text(text: str, dtype: np.dtype, result: np.dtype = _TRUTH) -> Predicate:
    tree = parse(text, dtype, "predicate", ("x",))
    expressions = Expressions()
    try:
        source = expressions.assignable(tree, result)
    except Refused as error:
        raise refused(text, "predicate", 1, error) from None
    declarations, used = declarations_of(expressions, dtype), expressions.computes
    vector, functions = vector_predicate(text, dtype, expressions.helpers) if result == _TRUTH else ("", "")
    body = f"return {source};"
    return Predicate(text, dtype, body, declarations, expressions.iterations, used, vector, functions)


def _from_function(function: Any, dtype: np.dtype) -> Predicate:
    from pydp.lang.operator import vector_operator

    lowered = vector_operator(function, (dtype,), np.bool_)
    declarations = missing_declarations(dtype, lowered.dtypes) + lowered.text + "\n"
    name = getattr(function, "__name__", type(function).__name__)
    body, used = f"return {lowered.name}(x) != 0;", tuple(lowered.dtypes)
    return Predicate(name, dtype, body, declarations, lowered.iterations, used)
