"""The problem of a matrix product: dtypes, shapes and strides.

The dtypes of a and b determine the result's dtype and the working type of the kernels. Shapes follow NumPy's rules for
vectors and batches. Strides are reduced to a normal form.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Any

import numpy as np

from pydp.dtypes import c_name
from pydp.errors import InvalidArgument, shown
from pydp.space import merge_axes

_WORK = {"f2": "float", "f4": "float", "c8": "float", "f8": "double", "c16": "double"}
_NUMPY = {"float": np.float32, "double": np.float64, "uint": np.uint32, "ulong": np.uint64}


@dataclass(frozen=True)
class Arithmetic:
    """How one result dtype is computed.

    work: the C type of the sums (unsigned for integers: it wraps by definition, with the same bits as signed).
    scalar: its NumPy type. planes: 2 for complex numbers, else 1. narrow: sums must not be stored in `dtype`.
    """

    dtype: np.dtype
    work: str
    scalar: type
    planes: int
    narrow: bool

    @property
    def item_bytes(self) -> int:
        """Bytes of one number in the working type; a complex number counts both parts."""
        return self.planes * np.dtype(self.scalar).itemsize

    @property
    def partial(self) -> np.dtype:
        """The dtype of partial sums in memory."""
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
                f"the result of matmul has dtype {dtype}; bool, integers, floats and complex numbers are accepted"
            )
        work = "ulong" if dtype.itemsize == 8 else "uint"
    return Arithmetic(dtype, work, _NUMPY[work], 2 if dtype.kind == "c" else 1, code == "f2")


@lru_cache(maxsize=1024)
def result_dtype(a: np.dtype, b: np.dtype) -> np.dtype:
    """The dtype of NumPy's ``a @ b``."""
    for name, dtype in (("a", a), ("b", b)):
        if dtype.kind not in "buifc" or dtype.itemsize > (16 if dtype.kind == "c" else 8):
            raise InvalidArgument(
                f"{name} has dtype {dtype}; bool, integers, floats up to float64 and complex numbers are accepted"
            )
    return np.result_type(a, b).newbyteorder("=")


def element(dtype: np.dtype) -> dict[str, str]:
    """The storage type of an operand, as template parameters."""
    kind = {"c": "complex", "b": "bool"}.get(dtype.kind, "half" if dtype == np.float16 else "real")
    return {"type": c_name(dtype), "kind": kind}


def factor(value: Any, dtype: np.dtype, name: str) -> complex | float | int:
    """alpha or beta as a Python number. Raises InvalidArgument if `dtype` cannot hold it."""
    number = value if type(value) in (int, float, complex) else _number(value, name)
    if isinstance(number, complex) and dtype.kind != "c":
        raise InvalidArgument(f"{name} is {shown(value)}, but the result is {dtype}; a real number is accepted")
    if dtype.kind in "fc":
        try:
            return complex(number) if dtype.kind == "c" else float(number)
        except OverflowError:
            raise InvalidArgument(f"{name} is an integer too large for {dtype}; a smaller one is accepted") from None
    low, high = (0, 1) if dtype.kind == "b" else (int(np.iinfo(dtype).min), int(np.iinfo(dtype).max))
    if (
        number != number
        or number in (float("inf"), float("-inf"))
        or number != int(number)
        or not low <= number <= high
    ):
        raise InvalidArgument(
            f"{name} is {shown(value)}, but the result is {dtype}; an integer from {low} to {high} is accepted"
        )
    return int(number)


def _number(value: Any, name: str) -> Any:
    """Convert a NumPy number to a Python number."""
    try:
        array = np.asarray(value)
    except ValueError:  # rows of unequal lengths
        array = None
    if array is None or array.ndim or array.dtype.kind not in "buifc":
        raise InvalidArgument(f"{name} is {shown(value)}; one number is accepted")
    return array.item()


def parts_of(number: complex | float | int, how: Arithmetic) -> tuple[Any, Any]:
    """The real and imaginary part of a factor, in the working type."""
    if isinstance(number, complex):
        return how.scalar(number.real), how.scalar(number.imag)
    if isinstance(number, int):
        return how.scalar(number % (1 << (8 * np.dtype(how.scalar).itemsize))), how.scalar(0)
    with np.errstate(over="ignore"):
        return how.scalar(number), how.scalar(0)


Shape = tuple[int, ...]


@lru_cache(maxsize=4096)
def result_shape(a: Shape, b: Shape) -> Shape:
    """The shape of NumPy's ``a @ b``. Raises InvalidArgument if the shapes do not match."""
    for name, shape in (("a", a), ("b", b)):
        if not shape:
            raise InvalidArgument(f"{name} has shape (); an array with at least one axis is accepted")
    rows, inner = (a[-2:-1], a[-1])
    depth, columns = (b[-2], b[-1:]) if len(b) > 1 else (b[0], ())
    if inner != depth:
        raise InvalidArgument(
            f"a of shape {a} has {inner} columns, but b of shape {b} has {depth} rows; equal numbers are needed"
        )
    try:
        batch = np.broadcast_shapes(a[:-2], b[:-2])
    except ValueError:
        raise InvalidArgument(
            f"the leading axes of a of shape {a} and b of shape {b} do not broadcast; equal sizes or 1 are needed"
        ) from None
    return (*batch, *rows, *columns)


@dataclass(frozen=True)
class Matrix:
    """One operand of a product: offset, row and column stride, and batch strides, in elements."""

    offset: int
    row: int
    col: int
    batch: Shape

    def transposed(self) -> Matrix:
        """The transposed matrix."""
        return replace(self, row=self.col, col=self.row)


@dataclass(frozen=True)
class Product:
    """C (m x n) = A (m x k) B (k x n) over batch axes. `swapped`: it is the transposed product. others: matrices of the
    shape of C, the operands of an epilogue."""

    m: int
    n: int
    k: int
    batch: Shape
    a: Matrix
    b: Matrix
    c: Matrix
    swapped: bool = False
    others: tuple[Matrix, ...] = ()

    @property
    def batches(self) -> int:
        """The number of matrices."""
        count = 1
        for size in self.batch:
            count *= size
        return count

    def transposed(self) -> Product:
        """The transposed product, Ct = Bt At."""
        return Product(
            self.n,
            self.m,
            self.k,
            self.batch,
            self.b.transposed(),
            self.a.transposed(),
            self.c.transposed(),
            not self.swapped,
            tuple(one.transposed() for one in self.others),
        )

    def inner(self) -> Product:
        """The product over the last two batch axes; `outer_steps` gives the others."""
        keep = self.batch[-2:]
        cut = len(self.batch) - len(keep)
        a, b, c, *others = (replace(x, batch=x.batch[cut:]) for x in (self.a, self.b, self.c, *self.others))
        return replace(self, batch=keep, a=a, b=b, c=c, others=tuple(others))

    def outer_steps(self) -> list[tuple[int, ...]]:
        """Increments of the offsets of a, b, c and `others` for each index of the batch axes before the last two."""
        outer = self.batch[:-2]
        axes = range(len(outer))

        def step(operand: Any, index: tuple[int, ...]) -> int:
            return sum(index[axis] * operand.batch[axis] for axis in axes)

        operands = (self.a, self.b, self.c, *self.others)
        return [tuple(step(one, at) for one in operands) for at in np.ndindex(*outer)]


_Layout = tuple[Shape, Shape, int]


def product(a: _Layout, b: _Layout, c: _Layout, *others: _Layout) -> Product:
    """The normal form of operands given as (shape, strides, offset); c and `others` have the result's shape.

    Batch axes of size 1 are dropped, and adjacent batch axes are merged where possible. A batch of matrices A with one
    common B becomes one taller A if the strides allow it.
    """
    (shape_a, strides_a, offset_a), (shape_b, strides_b, offset_b), (shape_c, _, _) = a, b, c
    vector_a, vector_b = len(shape_a) == 1, len(shape_b) == 1
    m, k = (1, shape_a[0]) if vector_a else shape_a[-2:]
    n = 1 if vector_b else shape_b[-1]
    row_a, col_a = (0, strides_a[0]) if vector_a else strides_a[-2:]
    row_b, col_b = (strides_b[0], 0) if vector_b else strides_b[-2:]
    rank = len(shape_c) - (not vector_a) - (not vector_b)
    batch = shape_c[:rank]
    steps = [
        _batch_strides(shape_a[:-2], strides_a[:-2], batch),
        _batch_strides(shape_b[:-2], strides_b[:-2], batch),
        *(strides[:rank] for _, strides, _ in (c, *others)),
    ]
    merged = merge_axes((size, tuple(step[axis] for step in steps)) for axis, size in enumerate(batch))
    batch = tuple(size for size, _ in merged)
    steps = [tuple(step[array] for _, step in merged) for array in range(len(steps))]
    # The stride of an axis of size 1 is arbitrary: use 1 if that makes rows contiguous, else 0.
    row_a, col_a = (row_a if m > 1 else 0), (col_a if k > 1 else 1)
    row_b, col_b = (row_b if k > 1 else 1), (col_b if n > 1 else 0)

    def like_c(layout: _Layout, batch: Shape) -> Matrix:
        tail = list(layout[1][rank:])
        row, col = (0 if vector_a else tail.pop(0)), (0 if vector_b else tail.pop(0))
        return Matrix(layout[2], row if m > 1 else 0, col if n > 1 else 1, batch)

    made = Product(
        m, n, k, batch, Matrix(offset_a, row_a, col_a, steps[0]), Matrix(offset_b, row_b, col_b, steps[1]),
        like_c(c, steps[2]), others=tuple(map(like_c, others, steps[3:])),
    )  # fmt: skip
    return _taller(made)


def _batch_strides(shape: Shape, strides: Shape, batch: Shape) -> Shape:
    missing = len(batch) - len(shape)
    return (0,) * missing + tuple(0 if size == 1 else step for size, step in zip(shape, strides, strict=True))


def _taller(one: Product) -> Product:
    """Merge a batch of matrices A with a common B to one A, if the strides allow it."""
    if not one.batch or one.b.batch[-1] != 0 or not one.m:
        return one
    size = one.batch[-1]
    stacked = []
    for x in (one.a, one.c, *one.others):
        row = x.batch[-1] if one.m == 1 else x.row
        if x.batch[-1] != one.m * row:
            return one
        stacked.append(replace(x, row=row, batch=x.batch[:-1]))
    a, c, *others = stacked
    b = replace(one.b, batch=one.b.batch[:-1])
    return replace(one, m=one.m * size, batch=one.batch[:-1], a=a, b=b, c=c, others=tuple(others))
