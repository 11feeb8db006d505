"""Operators of fields, with fields, arrays and numbers: arithmetic, bits, comparisons, and ``@``."""

from __future__ import annotations

import numbers
from collections.abc import Callable
from typing import Any, Self

import numpy as np
import pyopencl as cl
import pyopencl.array

from pydp.dtypes import c_name
from pydp.errors import InvalidArgument, shown
from pydp.runtime.arrays.comparison import compared_dtypes, known_result
from pydp.runtime.arrays.data import FieldData
from pydp.runtime.arrays.elementwise import apply, result_dtype, undefined
from pydp.runtime.call import Call
from pydp.runtime.field.fusion import broadcast_shape, combined_in_place, convert_number, lazy_operator, number_type
from pydp.runtime.field.transfer import converted
from pydp.runtime.placement import normal_input
from pydp.runtime.recording import recorded

_Method = Callable[[Any, Any], Any]
_NUMBERS = (int, float, complex, np.number, np.bool_)


def _is_array(value: Any) -> bool:
    return isinstance(value, (FieldData, np.ndarray, cl.array.Array))


def _type_of(other: Any) -> Any:
    """The type of an operand for NumPy's promotion rules."""
    return other.dtype if _is_array(other) else number_type(other)


def _has_buffer(value: Any) -> bool:
    try:
        memoryview(value).release()
    except (TypeError, ValueError, BufferError):
        return False
    return True


def _compared(op: str, other: Any, field: Any) -> tuple[Any, bool]:
    """The other side of a comparison, as an array if it holds elements, and whether no element can equal it: it is not
    a number and has no comparison of its own with fields."""
    if _is_array(other) or isinstance(other, _NUMBERS):
        return other, False
    # NumPy's arrays leave the comparison to objects with these attributes.
    decides = any(hasattr(other, name) for name in ("__array_ufunc__", "__array_priority__"))
    if not decides and not isinstance(other, (str, bytes, type)) and _has_buffer(other):
        return normal_input("the other side of a comparison", other), False
    if isinstance(other, (list, tuple, range, np.void)) or (
        hasattr(other, "__array__") and not decides and not isinstance(other, type)
    ):
        return normal_input("the other side of a comparison", other), False
    if isinstance(other, numbers.Number) and not isinstance(other, np.generic):
        raise InvalidArgument(
            f"a Field is compared with {shown(other)}; Python's and NumPy's bools, integers, floats and complex "
            "numbers are accepted"
        )
    if op not in ("eq", "ne"):
        return other, False
    if isinstance(other, (str, bytes, np.generic)):
        return other, True
    return other, getattr(type(other), f"__{op}__")(other, field) is NotImplemented


def _comparison(op: str) -> _Method:
    """The method of a comparison."""

    def compare(self: Any, other: Any) -> Any:
        result = lazy_operator(self, op, other)
        return self._compare(op, other) if result is None else result

    return compare


def _arithmetic(op: str) -> tuple[_Method, _Method, _Method]:
    """The methods of an operator with the field on the left, on the right, and in place."""

    def combine(self: Any, other: Any) -> Any:
        result = lazy_operator(self, op, other)
        return self._combine(op, other) if result is None else result

    def swapped(self: Any, other: Any) -> Any:
        result = lazy_operator(self, op, other, swapped=True)
        return self._combine(op, other, swapped=True) if result is None else result

    def in_place(self: Any, other: Any) -> Any:
        return self if combined_in_place(self, op, other) else self._combine(op, other, out=self)

    return combine, swapped, in_place


def _evaluated(op: str, expression: str) -> tuple[_Method, _Method, _Method]:
    """The methods of an operator that ``pydp.evaluate`` computes, from an expression in left and right."""

    def combine(self: Any, other: Any) -> Any:
        return _evaluate(op, expression, self, other)

    def swapped(self: Any, other: Any) -> Any:
        if isinstance(other, cl.array.Array):  # the first array decides the kind of the result
            other = type(self).wrap(other)
        elif isinstance(other, np.ndarray):
            other = _root().field(other, device=self._storage.device)
        return _evaluate(op, expression, other, self)

    def in_place(self: Any, other: Any) -> Any:
        return _evaluate(op, expression, self, other, out=self)

    return combine, swapped, in_place


class FieldOperators(FieldData):
    """Elementwise arithmetic and comparisons with NumPy's broadcasting and type rules; results are new fields.

    Python numbers are weak: a float32 field plus 0.5 stays float32.
    """

    __slots__ = ()

    @recorded
    def _combine(self, op: str, other: Any, swapped: bool = False, out: Any = None) -> Any:
        if not (_is_array(other) or isinstance(other, _NUMBERS)):
            return NotImplemented
        types = [self.dtype, _type_of(other)]
        dtype = result_dtype(op, *(types[::-1] if swapped else types))
        inputs = {"left": self, "right": other} if _is_array(other) else {"left": self}
        shape = broadcast_shape(self.shape, tuple(other.shape)) if _is_array(other) else self.shape
        if out is not None:
            _check_stored(dtype, out)
            dtype = out.dtype
        # The field comes first in the inputs, so the result is a Field on either side of the operator.
        call = Call.begin(inputs, out=out)
        left = call.input("left")
        right = call.input("right") if _is_array(other) else convert_number(other, dtype)
        target = call.output(shape, dtype)
        apply(call, op, [right, left] if swapped else [left, right], target)
        return call.finish(target)

    @recorded
    def _compare(self, op: str, other: Any) -> Any:
        other, unlike = _compared(op, other, self)
        is_array = _is_array(other) and not unlike
        if not (is_array or unlike or isinstance(other, _NUMBERS)):
            return NotImplemented
        dtype = self.dtype if unlike else compared_dtypes(op, self.dtype, _type_of(other))[1]
        shape = broadcast_shape(self.shape, tuple(other.shape)) if is_array else self.shape
        known = None if is_array else np.bool_(op == "ne") if unlike else known_result(op, other, dtype)
        number = convert_number(other, dtype) if known is None and not is_array else None
        call = Call.begin({"left": self, "right": other} if is_array else {"left": self})
        left = call.input("left")
        right: Any = call.input("right") if is_array else number
        target = call.output(shape, np.bool_)
        if known is None:
            apply(call, op, [left, right], target)
        else:
            apply(call, "copy", [known], target)
        return call.finish(target)

    # Python evaluates a reflected comparison by the mirrored operator: ``other > field`` calls ``field < other``.
    __eq__, __ne__ = _comparison("eq"), _comparison("ne")
    __lt__, __le__ = _comparison("lt"), _comparison("le")
    __gt__, __ge__ = _comparison("gt"), _comparison("ge")

    __hash__ = None  # type: ignore[assignment]  # as for NumPy arrays: == is elementwise

    __add__, __radd__, __iadd__ = _arithmetic("add")
    __sub__, __rsub__, __isub__ = _arithmetic("sub")
    __mul__, __rmul__, __imul__ = _arithmetic("mul")
    __truediv__, __rtruediv__, __itruediv__ = _arithmetic("div")
    __and__, __rand__, __iand__ = _arithmetic("and")
    __or__, __ror__, __ior__ = _arithmetic("or")
    __xor__, __rxor__, __ixor__ = _arithmetic("xor")

    __floordiv__, __rfloordiv__, __ifloordiv__ = _evaluated("floordiv", "floor_divide(left, right)")
    __mod__, __rmod__, __imod__ = _evaluated("mod", "left % right")
    __lshift__, __rlshift__, __ilshift__ = _evaluated("shl", "left << right")
    __rshift__, __rrshift__, __irshift__ = _evaluated("shr", "left >> right")
    _power, __rpow__, __ipow__ = _evaluated("pow", "power(left, right)")

    def __pow__(self, other: Any, modulus: Any = None) -> Any:
        if modulus is not None:
            raise InvalidArgument("pow of a field is given a modulus; two arguments are accepted")
        return self._power(other)

    def __divmod__(self, other: Any) -> Any:
        quotient = self.__floordiv__(other)
        return quotient if quotient is NotImplemented else (quotient, self % other)

    def __rdivmod__(self, other: Any) -> Any:
        quotient = self.__rfloordiv__(other)
        return quotient if quotient is NotImplemented else (quotient, self.__rmod__(other))

    def __abs__(self) -> Self:
        if self.dtype.kind == "c":
            return self._magnitude()
        found: Self = _root().evaluate("abs(x)", x=self)
        return found

    @recorded
    def _magnitude(self) -> Any:
        """The absolute values of complex numbers."""
        call = Call.begin({"x": self})
        source = call.input("x")
        target = call.output(source.shape, np.dtype(f"f{source.dtype.itemsize // 2}"))
        function = (
            f"static {c_name(target.dtype)} evaluate(const {c_name(source.dtype)} x) {{ return hypot(x.x, x.y); }}"
        )
        apply(call, "call", [source], target, function=function)
        return call.finish(target)

    def __neg__(self) -> Self:
        return self * -1

    def __invert__(self) -> Self:
        if self.dtype.kind not in "biu":
            raise InvalidArgument(f"~ is not defined for {self.dtype}; booleans and integers are accepted")
        return self ^ (~np.zeros((), self.dtype))[()]

    def __pos__(self) -> Self:
        return self.copy()

    def __matmul__(self, other: Any) -> Self:
        return _matmul(self, other)

    def __rmatmul__(self, other: Any) -> Self:
        return _matmul(other, self)

    def copy(self) -> Self:
        """A new C-contiguous field with the same elements."""
        return converted(self)

    def astype(self, dtype: Any) -> Self:
        """A new C-contiguous field with the elements converted to `dtype`."""
        return converted(self, dtype)


def _check_stored(dtype: np.dtype, field: Any) -> None:
    if not np.can_cast(dtype, field.dtype, casting="same_kind"):
        raise InvalidArgument(f"a result of dtype {dtype} cannot be stored in a field of dtype {field.dtype}")


def _evaluate(op: str, expression: str, left: Any, right: Any, out: Any = None) -> Any:
    """``left op right`` by an expression in left and right. out: the field of an operation in place."""
    if not all(_is_array(one) or isinstance(one, _NUMBERS) for one in (left, right)):
        return NotImplemented
    types = _type_of(left), _type_of(right)
    dtype = result_dtype(op, *types)
    if out is not None:
        _check_stored(dtype, out)
    made = _simple_power(left, right, dtype) if op == "pow" and isinstance(left, FieldData) else None
    if made is None and dtype.kind == "c":
        raise undefined(op, *types, "booleans, integers and floats")
    if made is None:
        evaluate = _root().evaluate
        if out is not None and dtype == out.dtype:
            return evaluate(expression, left=left, right=right, out=out)
        made = evaluate(expression, left=left, right=right)
    if out is None:
        return made
    if made.shape != out.shape:
        raise InvalidArgument(f"out has shape {out.shape}; {made.shape} is needed")
    out[...] = made
    return out


def _simple_power(base: Any, exponent: Any, dtype: np.dtype) -> Any:
    """A power that NumPy computes by another function, as a field; None for others. dtype: of the result.

    Raises InvalidArgument for an integer to a negative power.
    """
    if not isinstance(exponent, (int, float, np.integer, np.floating)) or isinstance(exponent, bool):
        return None
    if dtype.kind in "iu" and exponent < 0:
        raise InvalidArgument(
            f"the exponent of integers is {exponent}; exponents of at least 0 are accepted, or a field of floats"
        )
    if base.dtype.kind == "b" and type(exponent) is int and exponent == 2:
        return base.astype(np.int8)
    if exponent == 0.5 and dtype.kind == "f":
        return _root().evaluate("sqrt(x)", x=base if dtype == base.dtype else base.astype(dtype))
    if dtype != base.dtype or exponent not in (2, -1):
        return None
    return base * base if exponent == 2 else 1 / base


def _root() -> Any:
    """The package, whose functions these operators call."""
    import pydp

    return pydp


def _matmul(left: Any, right: Any) -> Any:
    return _root().matmul(left, right)
