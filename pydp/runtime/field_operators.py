"""The arithmetic of fields: ``+ - * /`` with fields, arrays and numbers, and ``@``."""

from __future__ import annotations

from typing import Any, Self

import numpy as np
import pyopencl as cl
import pyopencl.array

from ..errors import InvalidArgument
from .call import Call
from .elementwise import apply, result_dtype
from .field_data import FieldData
from .transfer import converted


def _is_array(value: Any) -> bool:
    return isinstance(value, (FieldData, np.ndarray, cl.array.Array))


class FieldOperators(FieldData):
    """Arithmetic element by element, broadcast and typed as NumPy's; results are new fields.

    Python numbers are weak: they take the field's kind of type (a float32 field plus 0.5 stays float32).
    """

    __slots__ = ()

    def _combine(self, op: str, other: Any, swapped: bool = False, out: Any = None) -> Any:
        if not (_is_array(other) or isinstance(other, (int, float, complex, np.number, np.bool_))):
            return NotImplemented
        types = [self.dtype, type(other) if type(other) in (int, float, complex) else np.asarray(other).dtype
                 if not _is_array(other) else other.dtype]  # fmt: skip
        dtype = result_dtype(op, *(types[::-1] if swapped else types))
        inputs = {"left": self, "right": other} if _is_array(other) else {"left": self}
        shape = _broadcast(self.shape, tuple(other.shape)) if _is_array(other) else self.shape
        if out is not None:
            if not np.can_cast(dtype, out.dtype, casting="same_kind"):
                raise InvalidArgument(f"a result of dtype {dtype} cannot be kept in a field of dtype {out.dtype}")
            dtype = out.dtype
        # The field's own kind decides the result's, whichever side it stands on.
        call = Call.begin(inputs, out=out)
        left = call.input("left")
        right = call.input("right") if _is_array(other) else _number(other, dtype)
        target = call.output(shape, dtype)
        apply(call, op, [right, left] if swapped else [left, right], target)
        return call.finish(target)

    def __add__(self, other: Any) -> Self:
        return self._combine("add", other)

    def __radd__(self, other: Any) -> Self:
        return self._combine("add", other, swapped=True)

    def __iadd__(self, other: Any) -> Self:
        return self._combine("add", other, out=self)

    def __sub__(self, other: Any) -> Self:
        return self._combine("sub", other)

    def __rsub__(self, other: Any) -> Self:
        return self._combine("sub", other, swapped=True)

    def __isub__(self, other: Any) -> Self:
        return self._combine("sub", other, out=self)

    def __mul__(self, other: Any) -> Self:
        return self._combine("mul", other)

    def __rmul__(self, other: Any) -> Self:
        return self._combine("mul", other, swapped=True)

    def __imul__(self, other: Any) -> Self:
        return self._combine("mul", other, out=self)

    def __truediv__(self, other: Any) -> Self:
        return self._combine("div", other)

    def __rtruediv__(self, other: Any) -> Self:
        return self._combine("div", other, swapped=True)

    def __itruediv__(self, other: Any) -> Self:
        return self._combine("div", other, out=self)

    def __neg__(self) -> Self:
        return self._combine("mul", -1)

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


def _matmul(left: Any, right: Any) -> Any:
    import pydp  # the algorithms lie above the runtime: reached through the public name when it is used

    return pydp.matmul(left, right)


def _number(value: Any, dtype: np.dtype) -> Any:
    """A number as a scalar of the result's dtype, which is where the operation is done."""
    try:
        return np.asarray(value).astype(dtype)[()] if not isinstance(value, int) else dtype.type(value)
    except OverflowError:
        raise InvalidArgument(f"{value} does not fit the dtype {dtype}") from None


def _broadcast(left: tuple[int, ...], right: tuple[int, ...]) -> tuple[int, ...]:
    if left == right:
        return left
    try:
        return np.broadcast_shapes(left, right)
    except ValueError:
        raise InvalidArgument(f"shapes {left} and {right} do not fit each other") from None
