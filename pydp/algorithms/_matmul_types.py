"""What a matrix product computes with: the result's dtype, the working type of the kernels, the two factors."""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import numpy as np

from ..dtypes import c_name
from ..errors import InvalidArgument

_WORK = {"f2": "float", "f4": "float", "c8": "float", "f8": "double", "c16": "double"}
_NUMPY = {"float": np.float32, "double": np.float64, "uint": np.uint32, "ulong": np.uint64}


@dataclass(frozen=True)
class Arithmetic:
    """How one result dtype is computed.

    work: the C scalar that is added up (integers as unsigned: wrapping is defined there, and equal). scalar: its
    NumPy type. planes: 2 for complex numbers. narrow: sums must not be kept in the result's own type.
    """

    dtype: np.dtype
    work: str
    scalar: type
    planes: int
    narrow: bool

    @property
    def item_bytes(self) -> int:
        """Bytes of one number of the working type, both parts of a complex one."""
        return self.planes * np.dtype(self.scalar).itemsize

    @property
    def partial(self) -> np.dtype:
        """The dtype in which unfinished sums are kept in memory."""
        if self.planes == 2:
            return self.dtype
        return np.dtype(self.scalar)


@lru_cache(maxsize=256)
def arithmetic(dtype: np.dtype) -> Arithmetic:
    """The arithmetic of a result dtype."""
    code = f"{dtype.kind}{dtype.itemsize}"
    work = _WORK.get(code)
    if work is None:
        if dtype.kind not in "bui":
            raise InvalidArgument(
                f"matmul of dtype {dtype}; booleans, integers, floats and complex numbers are accepted"
            )
        work = "ulong" if dtype.itemsize == 8 else "uint"
    return Arithmetic(dtype, work, _NUMPY[work], 2 if dtype.kind == "c" else 1, code == "f2")


@lru_cache(maxsize=1024)
def result_dtype(a: np.dtype, b: np.dtype) -> np.dtype:
    """The dtype of NumPy's ``a @ b``."""
    for name, dtype in (("a", a), ("b", b)):
        if dtype.kind not in "buifc" or dtype.itemsize > (16 if dtype.kind == "c" else 8):
            raise InvalidArgument(
                f"{name} has dtype {dtype}; booleans, integers, floats up to float64 and complex are accepted"
            )
    return np.result_type(a, b).newbyteorder("=")


def element(dtype: np.dtype) -> dict[str, str]:
    """The storage type of an operand as the templates take it."""
    kind = {"c": "complex", "b": "bool"}.get(dtype.kind, "half" if dtype == np.float16 else "real")
    return {"type": c_name(dtype), "kind": kind}


def factor(value: Any, dtype: np.dtype, name: str) -> complex | float | int:
    """alpha or beta as a Python number that `dtype` can hold; InvalidArgument where it cannot."""
    number = value if type(value) in (int, float, complex) else _number(value, name)
    if isinstance(number, complex) and dtype.kind != "c":
        raise InvalidArgument(f"{name} is {value!r}, the result is {dtype}; a real number is accepted")
    if dtype.kind in "fc":
        try:
            return complex(number) if dtype.kind == "c" else float(number)
        except OverflowError:
            raise InvalidArgument(f"{name} is an integer that {dtype} cannot hold; a smaller one is accepted") from None
    low, high = (0, 1) if dtype.kind == "b" else (int(np.iinfo(dtype).min), int(np.iinfo(dtype).max))
    if (
        number != number
        or number in (float("inf"), float("-inf"))
        or number != int(number)
        or not low <= number <= high
    ):
        raise InvalidArgument(
            f"{name} is {value!r}, the result is {dtype}; an integer from {low} to {high} is accepted"
        )
    return int(number)


def _number(value: Any, name: str) -> Any:
    """What is no Python number as one."""
    try:
        array = np.asarray(value)
    except ValueError:  # rows of unequal lengths
        array = None
    if array is None or array.ndim or array.dtype.kind not in "buifc":
        raise InvalidArgument(f"{name} is {value!r}; one number is accepted")
    return array.item()


def parts_of(number: complex | float | int, how: Arithmetic) -> tuple[Any, Any]:
    """A factor as two scalars of the working type, its real and its imaginary part."""
    if isinstance(number, complex):
        return how.scalar(number.real), how.scalar(number.imag)
    if isinstance(number, int):
        return how.scalar(number % (1 << (8 * np.dtype(how.scalar).itemsize))), how.scalar(0)
    with np.errstate(over="ignore"):
        return how.scalar(number), how.scalar(0)
