"""Associative operators of scan, reduce and sort: names, OpenCL C expressions, or Python functions.

An :class:`Operator` holds the source of a C function ``T combine(T a, T b)``, its exact identity if it has one, whether
it is commutative, and a version for OpenCL vectors. :func:`operator_text` converts every accepted value of `op`:

* a name: ``+ * min max & | ^ logaddexp`` (or an equivalent function: ``np.add``, ``max``, ``operator.add``);
* an expression in ``a`` and ``b``, such as ``"a + b - a * b"`` or ``"a.s0 > b.s0 ? a : b"`` (see below);
* for a record dtype, a dict with one name or expression per field: ``{"n": "+", "lo": "min(a.lo, b.lo)", ...}``;
* a Python function of two values (see ``pydp.vector``), or an :class:`Operator`.

Expressions and functions of numbers that only apply a named operator to both values, such as ``"a + b"`` or ``lambda a,
b: max(b, a)``, are computed by that operator. The result keeps the dtype of the elements: only the names ``+`` and
``*`` and their equivalent functions add up small integers in a wider dtype.

An expression is OpenCL C without side effects and pointers. It may contain

* numbers (``10``, ``0x1Fu``, ``1.5``, ``2e-3f``), ``INFINITY``, ``NAN``, ``MAXFLOAT``, ``M_PI``, ``M_E`` (and with
  ``_F``), ``INT_MAX``, ``INT_MIN``, ``UINT_MAX``, ``LONG_MAX``, ``LONG_MIN``;
* ``a``, ``b``, fields of records (nested too, but not arrays), components of vectors (``a.x``, ``a.s03``, ``a.lo``);
* the operators ``+ - * / % << >> < > <= >= == != & ^ | && || ! ~ ?:`` and brackets, with C's precedence;
* casts ``(float)x`` and vectors ``(float4)(x, y, z, w)``; ``as_TYPE``, ``convert_TYPE`` with their suffixes;
* the built-in functions of values (`pydp.algorithms.operators.calls` lists them).

Types follow C: small integers are promoted to int; complex numbers are vectors of two. Cases that are undefined in C
are defined here: integers wrap; integer division and remainder by zero give 0; floats convert to integers as in
vector functions; ``_sat`` conversions turn NaN to 0; ``min``, ``max`` and ``clamp`` propagate NaN, and ``clamp(x,
low, high)`` is ``min(max(x, low), high)``, as in NumPy; ``mul24`` and ``mad24`` multiply all 32 bits. Literals such
as 1.5 are double, or float on a device without double; ``as_TYPE`` always takes them as double. Anything else raises
InvalidArgument with the column. The limits are 4,096 characters, 1,000 operands and operators, and 128 nested
brackets (the generated C source counts too).
"""

from __future__ import annotations

import functools
import operator
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from types import BuiltinFunctionType
from typing import Any

import numpy as np

from pydp.algorithms.operators.grammar import LONGEST, parse, refused
from pydp.algorithms.operators.text import Expressions
from pydp.algorithms.operators.tree import Node, Refused, listed, quoted, type_of
from pydp.dtypes import c_declarations, c_literal, c_member, c_name, check_computed, is_record, native, vector_parts
from pydp.errors import InvalidArgument, shown
from pydp.runtime.bounded import BoundedCache

__all__ = ["NAMES", "Operator", "operator_text"]

NAMES = ("+", "*", "min", "max", "&", "|", "^", "logaddexp")
"""The named operators."""

_EQUIVALENT: dict[Any, str] = {
    **{np.add: "+", np.multiply: "*", np.minimum: "min", np.maximum: "max", np.logaddexp: "logaddexp"},
    **{np.bitwise_and: "&", np.bitwise_or: "|", np.bitwise_xor: "^"},
    **{operator.add: "+", operator.mul: "*", min: "min", max: "max"},
    **{operator.and_: "&", operator.or_: "|", operator.xor: "^"},
}
_functions = BoundedCache(256)  # by the content of the function and the dtype
_STRUCT = re.compile(r"(?=typedef struct)")
_ACCEPTED = f"{' '.join(NAMES)}, an OpenCL C expression in a and b, and Python functions of two values are accepted"


@dataclass(frozen=True, eq=False)
class Operator:
    """One associative operator on one dtype, as OpenCL C.

    body, vector_body: statements with ``$T`` for the type, ``$U`` and ``$S`` for the unsigned and signed integer type
    of its width. identity: a value e with ``combine(e, x) == x`` bit for bit, or None. start: the result of an empty
    scan or reduction (0.0 if the identity is -0.0), or None. declarations: code before the function, without record
    structs (`c_declarations` gives those). operands_in_order: the operator is not commutative. iterations: of
    loops inside, None if they depend on values. computes: dtypes of intermediate values. operation: the named operator
    that computes the same values, or "".
    """

    name: str
    dtype: np.dtype
    body: str
    vector_body: str | None = None
    identity: Any = None
    start: Any = None
    operands_in_order: bool = True
    declarations: str = ""
    iterations: int | None = 0
    computes: tuple[np.dtype, ...] = ()
    operation: str = ""

    @functools.cached_property
    def key(self) -> tuple[str, ...]:
        """A key that is unique for each operator."""
        return (self.name, c_name(self.dtype), self.dtype.kind, self.body, self.declarations)

    def function(self, name: str = "combine") -> str:
        """The C source of ``static T name(T a, T b)``."""
        return self._text(name, self.body, c_name(self.dtype), "")

    def vector_function(self, width: int, name: str = "combine_vector") -> str:
        """The same function on vectors of `width` elements; needs `vector_body`."""
        if self.vector_body is None:
            raise InvalidArgument(f"operator {self.name!r} on {self.dtype} has no vector version")
        return self._text(name, self.vector_body, c_name(self.dtype) + str(width), str(width))

    def _text(self, name: str, body: str, c_type: str, width: str) -> str:
        parts = vector_parts(self.dtype)
        size = (parts[0] if parts else self.dtype).itemsize
        width = width or (str(parts[1]) if parts else "")
        signed = {1: "char", 2: "short", 4: "int", 8: "long"}.get(size, "long")
        body = body.replace("$T", c_type).replace("$U", f"u{signed}{width}").replace("$S", f"{signed}{width}")
        return f"static {c_type} {name}(const {c_type} a, const {c_type} b) {{ {body} }}\n"

    def check(self, device: Any) -> None:
        """Raise UnsupportedOnDevice if `device` lacks a type that the body computes with."""
        if self.computes:
            check_computed(self.computes, device, f"op {self.title}")

    @property
    def title(self) -> str:
        """The name for error messages, shortened if it is long."""
        return quoted(self.name)

    @property
    def computed_as(self) -> str:
        """For explanations, after the name: the named operator that computes the same values."""
        return "" if self.operation in ("", self.name) else f" (computed as {self.operation})"

    @property
    def identity_text(self) -> str | None:
        """`identity` as OpenCL C, or None."""
        return None if self.identity is None else c_literal(self.identity, self.dtype)

    @property
    def start_text(self) -> str | None:
        """`start` as OpenCL C, or None."""
        return None if self.start is None else c_literal(self.start, self.dtype)


def named(op: Any) -> Any:
    """The operator name of an equivalent function (``np.add``, ``max``, ``operator.add``); else `op` itself.

    >>> named(operator.add)
    '+'
    """
    return _EQUIVALENT.get(op, op) if isinstance(op, (np.ufunc, BuiltinFunctionType)) else op


def outgrows(op: Any) -> bool:
    """Whether results of an operator may overflow small integers: it is a sum or a product."""
    found = named(op)
    return isinstance(found, str) and found in ("+", "*")


def operator_text(op: Any, dtype: Any) -> Operator:
    """The operator `op` on elements of `dtype`. Raises InvalidArgument if `op` is not an operator.

    >>> operator_text("+", "int32").start
    0
    """
    dtype = native(dtype)
    c_name(dtype)
    if isinstance(op, Operator):
        if op.dtype != dtype:
            raise InvalidArgument(
                f"the operator {op.title} is for {_dtype_text(op.dtype)}; {_dtype_text(dtype)} is needed here"
            )
        return op
    op = named(op)
    if isinstance(op, np.ufunc):
        raise InvalidArgument(f"op {op.__name__!r} is not an associative ufunc that pydp knows; {_ACCEPTED}")
    if isinstance(op, str):
        return _from_text(op, dtype)
    if isinstance(op, Mapping):
        return _from_fields(op, dtype)
    if callable(op):
        return _from_function(op, dtype)
    raise InvalidArgument(f"op {shown(op)} is not an operator; {_ACCEPTED}")


@functools.lru_cache(maxsize=512)
def _from_text(op: str, dtype: np.dtype) -> Operator:
    if op in NAMES:
        return _named(op, dtype)
    if len(op) <= LONGEST and op.isidentifier() and op not in ("a", "b"):
        raise InvalidArgument(f"op {quoted(op)} is not the name of an operator; {_ACCEPTED}")
    tree = parse(op, dtype, "op")
    same = _named_operator_of(tree)
    if same and (dtype.kind != "c" or same == "+"):  # complex numbers are vectors in expressions
        return _with_name(op, same, dtype)
    expressions = Expressions()
    text = _c_text(expressions, tree, op, dtype, "op")
    return _of_expressions(op, dtype, f"return {text};", expressions)


def _named_operator_of(tree: Node) -> str:
    """The named operator that an expression applies to a and b, such as + in ``a + b`` and ``b + a``, or ""."""
    operands = sorted((one.kind, one.symbol) for one in tree.children)
    applied = tree.kind in ("binary", "call") and operands == [("name", "a"), ("name", "b")]
    return tree.symbol if applied and tree.symbol in NAMES else ""


def _with_name(name: str, same: str, dtype: np.dtype) -> Operator:
    """The named operator `same`, with the name of an expression or function that computes the same values."""
    return replace(_named(same, dtype), name=name)


def _c_text(expressions: Expressions, tree: Node, text: str, result: np.dtype, what: str) -> str:
    """The C source of a parsed expression in a and b, converted to the dtype `result`."""
    try:
        return expressions.assignable(tree, result)
    except Refused as error:
        raise refused(text, what, 1, error) from None


def _of_expressions(name: str, dtype: np.dtype, body: str, expressions: Expressions) -> Operator:
    declarations, used = declarations_of(expressions, dtype), expressions.computes
    return Operator(name, dtype, body, declarations=declarations, iterations=expressions.iterations, computes=used)


def declarations_of(expressions: Expressions, dtype: np.dtype) -> str:
    """The declarations that the function of the expressions needs in a kernel on `dtype`."""
    used = expressions.computes
    return (missing_declarations(dtype, used) if used else "") + expressions.helper_text()


def _from_fields(op: Mapping[str, str], dtype: np.dtype) -> Operator:
    if not is_record(dtype):
        raise InvalidArgument(f"op is a dict of fields, but {_dtype_text(dtype)} has no fields; {_ACCEPTED}")
    names = dtype.names or ()
    unknown, missing = [key for key in op if key not in names], [name for name in names if name not in op]
    if unknown:
        raise InvalidArgument(f"op has unknown fields {listed(unknown)}; the fields {listed(names)} are accepted")
    if missing:
        raise InvalidArgument(f"op has no expression for the fields {listed(missing)}; one per field is needed")
    given = {field: named(one) for field, one in op.items()}
    for field, one in given.items():
        if not isinstance(one, str):
            raise InvalidArgument(
                f"op[{quoted(field)}] is {shown(one)}; the name of an operator or an OpenCL C expression in a and b is "
                "accepted"
            )
    return _from_items(tuple(given.items()), dtype)


@functools.lru_cache(maxsize=128)
def _from_items(items: tuple[tuple[str, str], ...], dtype: np.dtype) -> Operator:
    assert dtype.fields is not None
    lines, expressions, functions = ["$T r = a;"], Expressions(), ""
    for place, (field, expression) in enumerate(items):
        result = dtype.fields[field][0]
        if result.subdtype is not None:
            raise InvalidArgument(
                f"op: field {quoted(field)} of {_dtype_text(dtype)} is an array; an expression cannot compute an array"
            )
        what, member = f"op[{quoted(field)}]", c_member(field)
        if expression in NAMES:
            functions += _named(expression, native(result)).function(f"combine_field{place}")
            lines.append(f"r.{member} = combine_field{place}(a.{member}, b.{member});")
            continue
        text = _c_text(expressions, parse(expression, dtype, what), expression, result, what)
        lines.append(f"r.{member} = {text};")
    name = "{" + ", ".join(f"{field}: {text}" for field, text in sorted(items)) + "}"
    body = " ".join([*lines, "return r;"])
    made = _of_expressions(name, dtype, body, expressions)
    return replace(made, declarations=made.declarations + functions)


def _dtype_text(dtype: np.dtype) -> str:
    """A dtype for error messages; a long list of fields is shortened."""
    return str(dtype if dtype.names is None else type_of(dtype))


def _from_function(op: Any, dtype: np.dtype) -> Operator:
    from pydp.lang.source.fingerprint import fingerprint

    found: Operator = _functions.make((fingerprint(op), dtype), _lowered, op, dtype)
    return found


def _lowered(op: Any, dtype: np.dtype) -> Operator:
    from pydp.lang.operator import vector_operator

    lowered = vector_operator(op, (dtype, dtype), dtype)
    others = missing_declarations(dtype, lowered.dtypes)
    name = getattr(op, "__name__", type(op).__name__)
    if lowered.operation:
        return _with_name(name, lowered.operation, dtype)
    body = f"return {lowered.name}(a, b);"
    text = others + lowered.text + "\n"
    return Operator(name, dtype, body, declarations=text, iterations=lowered.iterations, computes=tuple(lowered.dtypes))


def missing_declarations(dtype: np.dtype, used: Iterable[np.dtype]) -> str:
    """The declarations of `used`, without those that a kernel on `dtype` has anyway."""
    there = set(_STRUCT.split(c_declarations([dtype])))
    return "".join(part for part in _STRUCT.split(c_declarations([dtype, *used])) if part not in there)


# --- named operators -------------------------------------------------------------------------------------


def _named(op: str, dtype: np.dtype) -> Operator:
    if is_record(dtype):
        raise InvalidArgument(
            f"op {shown(op)} is not defined on records ({_dtype_text(dtype)}); "
            "a dict with one name or expression per field or a Python function is accepted"
        )
    parts = vector_parts(dtype)
    if dtype.kind == "c":
        return _complex(op, dtype)
    element = parts[0] if parts else dtype
    own = _OF_BOOLS.get(op, op) if element.kind == "b" else op
    make = {"+": _sum, "*": _product, "min": _extreme, "max": _extreme, "logaddexp": _logaddexp}.get(own, _bits)
    scalar, vector, identity, start = make(own, element)
    if parts:
        wide = np.zeros((), dtype)
        return Operator(op, dtype, vector, None, _filled(wide, identity), _filled(wide, start), False, operation=op)
    return Operator(op, dtype, scalar, vector, identity, start, False, operation=op)


_Named = tuple[str, str, Any, Any]
_OF_BOOLS = {"+": "|", "*": "&", "min": "&", "max": "|"}


def _sum(op: str, dtype: np.dtype) -> _Named:
    if dtype.kind == "i":  # unsigned arithmetic wraps, like NumPy
        wide = "return as_$T(as_$U(a) + as_$U(b));"
        return wide if dtype.itemsize >= 4 else "return as_$T(($U)(as_$U(a) + as_$U(b)));", wide, 0, 0
    if dtype.kind == "f":
        return "return a + b;", "return a + b;", dtype.type(-0.0), dtype.type(0)
    return "return a + b;", "return a + b;", 0, 0


def _product(op: str, dtype: np.dtype) -> _Named:
    if dtype.kind == "i":
        narrow = "return as_$T(($U)((uint)as_$U(a) * (uint)as_$U(b)));"
        text = narrow if dtype.itemsize < 4 else "return as_$T(as_$U(a) * as_$U(b));"
        return text, "return as_$T(as_$U(a) * as_$U(b));", 1, 1
    if dtype.kind == "u" and dtype.itemsize < 4:
        return "return ($T)((uint)a * (uint)b);", "return a * b;", 1, 1
    one = dtype.type(1)
    return "return a * b;", "return a * b;", one, one


def _extreme(op: str, dtype: np.dtype) -> _Named:
    """NumPy's minimum and maximum; they propagate NaN."""
    sign = "<" if op == "min" else ">"
    if dtype.kind == "f":
        worst = dtype.type(np.inf if op == "min" else -np.inf)
        scalar = f"return (a {sign}= b || a != a) ? a : b;"
        return scalar, f"return select(b, a, (a {sign}= b) | (a != a));", worst, worst
    limits = np.iinfo(dtype)
    worst = limits.max if op == "min" else limits.min
    return f"return {op}(a, b);", f"return {op}(a, b);", int(worst), int(worst)


def _bits(op: str, dtype: np.dtype) -> _Named:
    if dtype.kind not in "iub":
        raise InvalidArgument(f"op {shown(op)} is not defined on {_dtype_text(dtype)}; integers and bool are accepted")
    identity: Any = 0
    if op == "&":
        identity = {"b": True, "i": -1}.get(dtype.kind) or int(np.iinfo(dtype).max)
    if dtype.kind == "b":
        identity = bool(identity)
    return f"return a {op} b;", f"return a {op} b;", identity, identity


def _logaddexp(op: str, dtype: np.dtype) -> _Named:
    """log(exp(a) + exp(b)). Equal operands give a + log 2 without a subtraction, so infinities are exact."""
    if dtype.kind != "f":
        raise InvalidArgument(
            f"op 'logaddexp' is not defined on {_dtype_text(dtype)}; float16, float32 and float64 are accepted"
        )
    log2 = c_literal(np.log(2.0), dtype)
    scalar = (
        "const $T d = -fabs(a - b); const $T m = fmax(a, b); if (a == b) return a + "
        f"{log2}; if (d != d) return a + b; return m + log1p(exp(d));"
    )
    vector = (
        "const $T d = -fabs(a - b); const $T near = fmax(a, b) + log1p(exp(d)); "
        f"return select(select(near, a + b, d != d), a + ($T)({log2}), a == b);"
    )
    worst = dtype.type(-np.inf)
    return scalar, vector, worst, worst


def _complex(op: str, dtype: np.dtype) -> Operator:
    if op == "+":
        zero = dtype.type(complex(-0.0, -0.0))
        return Operator(op, dtype, "return a + b;", None, zero, dtype.type(0), False, operation=op)
    if op == "*":
        body = "return ($T)(a.x * b.x - a.y * b.y, a.x * b.y + a.y * b.x);"
        return Operator(op, dtype, body, None, None, dtype.type(1), False, operation=op)
    if op in ("min", "max"):
        worst = dtype.type(complex(*(2 * [np.inf if op == "min" else -np.inf])))
        # The first of several numbers with NaN is the result, so the operands stay in order.
        body = f"if ({complex_nan('a')} || {complex_before('a', 'b', op, True)}) return a; return b;"
        return Operator(op, dtype, body, None, worst, worst, operation=op)
    raise InvalidArgument(f"op {shown(op)} is not defined on {_dtype_text(dtype)}; +, *, min and max are accepted")


def complex_nan(a: str) -> str:
    """A C test of a complex number: whether a part of it is NaN."""
    return f"({a}.x != {a}.x || {a}.y != {a}.y)"


def complex_before(a: str, b: str, op: str, equal: bool = False) -> str:
    """A C test of two complex numbers: whether `a` is the lower (min) or the higher one (max) in NumPy's order, by real
    and then by imaginary parts; False if one of them has NaN. equal: or both are equal."""
    sign = "<" if op == "min" else ">"
    numbers = f"{a}.y == {a}.y && {b}.y == {b}.y"
    return f"(({a}.x {sign} {b}.x && {numbers}) || ({a}.x == {b}.x && {a}.y {sign}{'=' if equal else ''} {b}.y))"


def _filled(record: np.ndarray, value: Any) -> Any:
    for name in record.dtype.names or ():
        record[name] = value
    return record[()]
