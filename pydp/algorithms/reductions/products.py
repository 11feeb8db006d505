"""Products of vectors and norms: ``dot``, ``vdot``, ``inner``, ``norm``."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np

from pydp.algorithms.arguments import axis_of, switch
from pydp.algorithms.composed import Place, delivered, explanation_of, placed
from pydp.algorithms.matmul import matmul
from pydp.algorithms.reduce import reduce
from pydp.algorithms.reduce.hooks import Hooks
from pydp.algorithms.reductions.run import Request, check_kind, describe, float_result, limited, perform, widest_float
from pydp.dtypes import check_supported
from pydp.errors import InvalidArgument, shown
from pydp.model.explanation import Explanation, Given, given
from pydp.runtime.placement import check_out, normal_input
from pydp.runtime.recording import recorded
from pydp.space import MAX_RANK

_RUN = 16  # elements whose rounded sum, in the dtype of the run, goes into a float64


def _product_hooks(name: str, load: str) -> Any:
    """Makes the hooks of a sum of products; integers are added modulo the range of the result."""

    def hooks(device: Any, dtypes: tuple[np.dtype, ...]) -> Hooks:
        for dtype in dtypes:
            check_kind(name, dtype, "biufc", "numbers")
        result = np.result_type(*dtypes)
        chain, operator, how = 1024, "+", load
        run: np.dtype
        own: np.dtype
        if result.kind == "b":
            run, own, operator, how = np.dtype(np.int32), np.dtype(np.int32), "|", "both"
        elif result.kind in "iu":
            run, own = np.dtype(np.uint32 if result.itemsize < 4 else np.uint64), np.dtype(np.uint64)
        else:
            chain = _RUN
            run = np.dtype(np.float32) if result == np.float16 else result
            own = widest_float(device) if result.kind == "f" else result
        finish = "test" if result.kind == "b" else "own"
        return Hooks(name, "value", (("value", own, True),), (result,), finish, (0,), run, chain, operator, how)

    return hooks


def _vectors_request(name: str, load: str = "product") -> Any:
    """Builds requests for a product of two vectors."""

    def build(g: Given) -> Request:
        a, b = _inputs(g)
        if math.prod(a.shape) != math.prod(b.shape):
            raise InvalidArgument(
                f"{name} is given shapes {a.shape} and {b.shape}; equal numbers of elements are needed"
            )
        return Request(name, {"x": a, "b": b}, _product_hooks(name, load), None, False, g.where, g.spec, flat=True)

    return build


def _inputs(g: Given) -> tuple[Any, Any]:
    for which in ("a", "b"):
        if getattr(g, which) is None:
            raise InvalidArgument(f"{which} is None; NumPy arrays, Fields and pyopencl Arrays are accepted")
    return normal_input("a", g.a), normal_input("b", g.b)


_dot_request, vdot_request = _vectors_request("dot"), _vectors_request("vdot", "conjugate")
_inner_request = _vectors_request("inner")


def _factors(name: str, g: Given) -> tuple[Any, Any] | None:
    """The operands of the call of matmul that dot or inner stands for; None for two vectors, and if they must be
    reshaped first."""
    a, b = _inputs(g)
    ranks = len(a.shape), len(b.shape)
    if 0 in ranks or ranks == (1, 1):
        return None
    if name == "inner" and ranks[0] == 1:
        return (b, a) if type(a) is type(b) else None  # the result has the kind of the first operand
    if ranks[1] <= 2:
        return a, b.T if name == "inner" and ranks[1] == 2 else b
    return (a, b) if name == "dot" and ranks[0] == 1 else None


class _Reshaped(NamedTuple):
    """A product of arrays, of which matmul would pair the leading axes, as one of two matrices. left, right: the shapes
    of the matrices. first: the axis of b that becomes the first one of the right matrix. shape: of the result."""

    left: tuple[int, int]
    right: tuple[int, int]
    first: int
    shape: tuple[int, ...]

    def matrices(self, a: Any, b: Any) -> tuple[Any, Any]:
        """The two matrices; a copy of an array that has no view of this shape."""
        if self.first == len(b.shape) - 1:
            return a.reshape(self.left), b.reshape(self.right[::-1]).T
        axes = (self.first, *(k for k in range(len(b.shape)) if k != self.first))
        return a.reshape(self.left), b.transpose(axes).reshape(self.right)


def _reshaped(name: str, g: Given) -> _Reshaped | None:
    """How dot or inner is one product of matrices; None for two vectors and for a number."""
    a, b = (tuple(one.shape) for one in _inputs(g))
    if not a or not b or len(a) == len(b) == 1:
        return None
    first = len(b) - 1 if name == "inner" or len(b) == 1 else len(b) - 2
    if a[-1] != b[first]:
        raise InvalidArgument(
            f"{name} is given shapes {a} and {b}; the last axis of a and axis {first} of b must have equal sizes"
        )
    rest = b[:first] + b[first + 1 :]
    return _Reshaped((math.prod(a[:-1]), a[-1]), (a[-1], math.prod(rest)), first, a[:-1] + rest)


def _is_product_of_vectors(name: str, g: Given) -> bool:
    return all(len(one.shape) == 1 for one in _inputs(g))


def _product(name: str, g: Given) -> Any:
    """dot or inner of two arrays that are not both vectors."""
    one = _reshaped(name, g)
    factors = _factors(name, g)
    if factors is not None:
        return matmul(**_through_matmul(g, factors))
    place = _checked(name, g, one)  # raises the errors before anything is enqueued
    place.after(g.wait_for)
    a, b = (place.field(place.given[which]) for which in ("a", "b"))
    if one is None:
        return delivered(place, a * b, g.out)
    found = matmul(*one.matrices(a, b), spec=g.spec, **place.where).reshape(one.shape)
    return delivered(place, found, g.out)


def _place(g: Given) -> Place:
    """The place of a product. Its result has the kind of `a`, or of `b` if `a` is a number."""
    a = normal_input("a", g.a)
    names = ("b", "a") if isinstance(a, np.ndarray) and not a.ndim else ("a", "b")
    return placed({name: getattr(g, name) for name in names}, g.device, g.queue)


def _explain_product(name: str, g: Given) -> Explanation:
    """The explanation of `_product`."""
    one = _reshaped(name, g)
    factors = _factors(name, g)
    if factors is not None:
        found: Explanation = matmul.__pydp_explain__(given(matmul, (), _through_matmul(g, factors)))
        found.choices.insert(0, "the arrays are multiplied by matmul")
        return replace(found, title=name)
    place = _checked(name, g, one)
    a, b = place.given["a"], place.given["b"]
    if one is None:
        facts = {"device": place.device.name, "result": f"{np.result_type(a.dtype, b.dtype)} {a.shape + b.shape}"}
        return Explanation(name, facts, ["a number multiplies all elements, as the operator * of Fields"])
    found = _of_matrices(g, one, place)
    found.facts["result"] = f"{np.result_type(a.dtype, b.dtype)} {one.shape}"
    found.choices.insert(
        0, f"arrays of shapes {a.shape} and {b.shape} are reshaped, or copied, and multiplied by matmul"
    )
    return replace(found, title=name)


def _of_matrices(g: Given, one: _Reshaped, place: Place) -> Explanation:
    """The explanation of the product of the matrices."""
    a, b = place.given["a"], place.given["b"]
    left = np.zeros(one.left, a.dtype)  # not touched: it takes no memory
    right = np.zeros(one.right[::-1], b.dtype).T if one.first == len(b.shape) - 1 else np.zeros(one.right, b.dtype)
    return explanation_of(matmul, left, right, spec=g.spec, device=place.device)


def _checked(name: str, g: Given, one: _Reshaped | None) -> Place:
    """The place of a product of reshaped arrays, or with a number (`one` is None); raises the errors of the call."""
    place = _place(g)
    a, b = place.given["a"], place.given["b"]
    shape = tuple(a.shape) + tuple(b.shape) if one is None else one.shape
    if len(shape) > MAX_RANK:
        raise InvalidArgument(f"the result has {len(shape)} axes; ranks 0 to {MAX_RANK} are accepted")
    for which, array in place.given.items():
        check_kind(f"{name} with {which}", array.dtype, "biufc", "numbers")
        check_supported(array.dtype, place.device, which)
    dtype = np.result_type(a.dtype, b.dtype)
    check_supported(dtype, place.device, name)
    if g.out is not None:
        check_out(g.out, shape, dtype, "out")
    if g.spec is not None and one is None:
        raise InvalidArgument(f"spec is {shown(g.spec)}; None is accepted for a product with a number")
    if g.spec is not None and one is not None:
        _of_matrices(g, one, place)
    return place


def _through_matmul(g: Given, factors: tuple[Any, Any]) -> dict[str, Any]:
    named = {name: getattr(g, name) for name in ("out", "device", "queue", "wait_for", "spec")}
    return {"a": factors[0], "b": factors[1], **named}


@recorded
def _dot(a: Any, b: Any, **named: Any) -> Any:
    return perform(_dot_request(Given(a=a, b=b, **named)))


@recorded
def _inner(a: Any, b: Any, **named: Any) -> Any:
    return perform(_inner_request(Given(a=a, b=b, **named)))


def dot(
    a: Any,
    b: Any,
    out: Any = None,
    *,
    device: Any = None,
    queue: Any = None,
    wait_for: Any = None,
    spec: Any = None,
) -> Any:
    """Dot product of two vectors, as ``numpy.dot``; other arrays are multiplied with :func:`pydp.matmul`.

    a, b: numbers or bools, vectors of equal length, any strides. Arrays of rank 2 or more are multiplied over the last
    axis of `a` and the last but one axis of `b`; an array of rank 0 multiplies all elements of the other one.
    out: array of the shape and the dtype of the result, which has the kind of `a`, or of `b` if `a` is a number.
    spec: a :class:`pydp.algorithms.reduce.policy.ReduceSpec` for vectors, a
    :class:`pydp.algorithms.matmul.spec.MatmulSpec` for matrices, or a mapping of some of its fields.

    The result has the dtype that NumPy gives products of both. float32 and float16 are added as float32 in runs of 16
    elements, and the sums of runs as float64 (float32 on devices without float64). Raises InvalidArgument for other
    dtypes and for shapes that do not match.

    >>> pydp.dot(np.array([1, 2, 3]), np.array([4, 5, 6]))
    np.int64(32)
    """
    g = Given(**locals())
    if not _is_product_of_vectors("dot", g):
        return _product("dot", g)
    return _dot(a, b, out=out, device=device, queue=queue, wait_for=wait_for, spec=spec)


def inner(
    a: Any,
    b: Any,
    *,
    out: Any = None,
    device: Any = None,
    queue: Any = None,
    wait_for: Any = None,
    spec: Any = None,
) -> Any:
    """Inner product of two vectors, as ``numpy.inner``; matrices give ``pydp.matmul(a, b.T)``.

    Arrays of rank 2 or more are multiplied over their last axes. a, b, out, spec, dtypes and errors: see :func:`dot`.

    >>> pydp.inner(np.array([1, 2, 3]), np.array([4, 5, 6]))
    np.int64(32)
    """
    g = Given(**locals())
    if not _is_product_of_vectors("inner", g):
        return _product("inner", g)
    return _inner(a, b, out=out, device=device, queue=queue, wait_for=wait_for, spec=spec)


@recorded
def vdot(
    a: Any,
    b: Any,
    *,
    out: Any = None,
    device: Any = None,
    queue: Any = None,
    wait_for: Any = None,
    spec: Any = None,
) -> Any:
    """Dot product of all elements of two arrays in C order, as ``numpy.vdot``. Complex elements of `a` are conjugated.

    a, b: numbers or bools, of any shapes with equal numbers of elements, any strides. out: array of rank 0 of the dtype
    of the result.

    The dtype of the result, its accuracy and the errors are as for :func:`dot`.

    >>> pydp.vdot(np.array([1j, 2], np.complex64), np.array([1j, 3], np.complex64))
    np.complex64(7+0j)
    """
    return perform(vdot_request(Given(**locals())))


def explaining_product(name: str) -> Any:
    """The explanation of dot or inner."""
    request = _dot_request if name == "dot" else _inner_request

    def explain(g: Given) -> Explanation:
        return describe(request(g)) if _is_product_of_vectors(name, g) else _explain_product(name, g)

    return explain


_NORMS: dict[Any, tuple[str, str, str]] = {  # order: load, operator, finish
    2: ("square", "+", "root"),
    1: ("absolute", "+", "own"),
    0: ("nonzero", "+", "own"),
    np.inf: ("absolute", "max", "own"),
    -np.inf: ("absolute", "min", "own"),
}


_MATRIX_NORMS: dict[Any, tuple[int, str]] = {  # order: the axis whose magnitudes are added, operator of the sums
    1: (0, "max"),
    -1: (0, "min"),
    np.inf: (1, "max"),
    -np.inf: (1, "min"),
}


class _Matrix(NamedTuple):
    """A matrix norm that is two reductions. axis: of the sums of magnitudes. other: of their extreme value `operator`,
    counted without the axis unless keepdims."""

    axis: int
    other: int
    operator: str

    @property
    def initial(self) -> int | None:
        """The first value of the extreme: the largest of no sums is 0."""
        return 0 if self.operator == "max" else None


def _matrix_of(g: Given) -> _Matrix | None:
    """The matrix norm that a call asks for; None for a norm of vectors, and for the root of a sum of squares."""
    rank = len(normal_input("x", g.x).shape)
    axes = g.axis if isinstance(g.axis, (tuple, list)) and len(g.axis) == 2 else None
    if g.axis is None and g.ord is not None and rank == 2:
        axes = (0, 1)
    if axes is None or g.ord is None:
        return None
    if isinstance(g.ord, str) and g.ord in ("fro", "f"):
        return None
    rows, columns = (axis_of(axis, rank, "an integer, a pair of integers or None") for axis in axes)
    if rows == columns:
        raise InvalidArgument(f"axis is {shown(g.axis)}; two different axes are accepted")
    known = isinstance(g.ord, (int, float, np.number)) and not isinstance(g.ord, bool)
    if (isinstance(g.ord, str) and g.ord == "nuc") or (known and g.ord in (2, -2)):
        raise InvalidArgument(
            f"ord is {shown(g.ord)}, but this matrix norm needs singular values, which pydp does not compute; "
            "None, 'fro', 1, -1, inf and -inf are accepted"
        )
    if not known or g.ord not in _MATRIX_NORMS:
        raise InvalidArgument(f"ord is {shown(g.ord)}; None, 'fro', 1, -1, inf and -inf are accepted for matrices")
    if g.length is not None:
        raise InvalidArgument(
            f"length is {shown(g.length)}, but ord={shown(g.ord)} of a matrix reads all of x; None is accepted"
        )
    summed, operator = _MATRIX_NORMS[g.ord]
    axis, other = (rows, columns) if summed == 0 else (columns, rows)
    return _Matrix(axis, other if switch(g.keepdims, "keepdims") or other < axis else other - 1, operator)


def norm_request(g: Given) -> Request:
    """The request of :func:`norm` of vectors, or of the root of the sum of squares of matrices."""
    if isinstance(g.ord, str) and g.ord in ("fro", "f"):
        rank = len(normal_input("x", g.x).shape)
        if not (isinstance(g.axis, (tuple, list)) and len(g.axis) == 2) and not (g.axis is None and rank == 2):
            raise InvalidArgument(
                f"ord is {shown(g.ord)} and axis {shown(g.axis)}; this order needs a matrix or two axes"
            )
        g = g.but(ord=None, axis=None if g.axis is None else tuple(g.axis))
    order = _order_of(g.ord)
    if isinstance(g.axis, (tuple, list)) and len(g.axis) != 1 and g.ord is not None:
        raise InvalidArgument(f"axis is {shown(g.axis)}; an integer or two axes are accepted")
    x = normal_input("x", g.x) if g.x is not None else None
    if g.ord is not None and g.axis is None and x is not None and len(x.shape) != 1:
        raise InvalidArgument(f"x has shape {x.shape}; ord={shown(g.ord)} needs a vector or an axis")
    load, operator, finish = _NORMS.get(order, ("power", "+", "power root"))

    def hooks(device: Any, dtypes: tuple[np.dtype, ...]) -> Hooks:
        found = float_result("norm", dtypes[0], None, True)
        result = np.dtype(f"f{found.itemsize // 2}") if found.kind == "c" else found
        run = np.dtype(np.float32) if result == np.float16 else result
        own = widest_float(device)
        if load == "nonzero":
            run = np.dtype(np.int32)
        empty = None if operator == "min" else (np.inf if finish == "power root" and order < 0 else 0,)
        members = (("value", own, True),)
        return Hooks(
            "norm",
            "value",
            members,
            (result,),
            finish,
            empty,
            run,
            _RUN,
            operator,
            load,
            power=order,
            unknown_empty=(np.inf,) if empty is None else None,
        )

    return Request.of(g, "norm", {"x": x}, hooks)


def _order_of(order: Any) -> float:
    """The order of a norm of vectors; 2 for None."""
    if order is None:
        return 2.0
    if isinstance(order, bool) or not isinstance(order, (int, float, np.integer, np.floating)) or order != order:
        raise InvalidArgument(f"ord is {shown(order)}; None, inf, -inf and other real numbers are accepted for vectors")
    try:
        return float(order)
    except OverflowError:
        raise InvalidArgument(
            "ord is an integer beyond the range of floats; None, inf, -inf and other real numbers are accepted"
        ) from None


@limited
def _vector_norm(x: Any, **named: Any) -> Any:
    return perform(norm_request(Given(x=x, **named)))


def norm(
    x: Any,
    ord: Any = None,
    axis: int | tuple[int, int] | None = None,
    *,
    keepdims: bool = False,
    length: Any = None,
    out: Any = None,
    device: Any = None,
    queue: Any = None,
    wait_for: Any = None,
    spec: Any = None,
) -> Any:
    """Norm of vectors or matrices, as ``numpy.linalg.norm``.

    x: numbers or bools, of any shape and strides. axis: an integer for norms of vectors, two integers for norms of
    matrices (the axes of rows and columns). None takes all elements, and `x` must then be a vector or a matrix unless
    ord is None. keepdims: keep the reduced axes, with size 1. out: array for the result.

    ord, for vectors: None or 2 (square root of the sum of squares), 1 (sum of magnitudes), inf or -inf (largest or
    smallest magnitude), 0 (number of elements that are not zero), any other real number p (the sum of the magnitudes
    raised to p, raised to 1 / p). For matrices: None or "fro" (square root of the sum of squares), 1 or -1 (largest or
    smallest sum of the magnitudes of a column), inf or -inf (the same of a row). The norms 2, -2 and "nuc" of matrices
    need singular values, which pydp does not compute.
    length: only the first `length` elements count, see :func:`pydp.reduce`.

    The result has the dtype of `x` if it is a float, its real dtype if it is complex, else float64. Raises
    InvalidArgument for other orders, dtypes and axes, and for ord=-inf of no elements.

    >>> pydp.norm(np.array([3, 4], np.float32))
    np.float32(5.0)
    >>> pydp.norm(np.array([[3, -4], [1, 1]], np.float32), np.inf)
    np.float32(7.0)
    """
    g = Given(**locals())
    matrix = _matrix_of(g) if x is not None else None
    if matrix is None:
        return _vector_norm(**vars(g))
    explain_norm(g)  # raises the errors before anything is enqueued
    place = placed({"x": x}, device, queue)
    place.after(wait_for)
    sums = _vector_norm(**vars(_sums(g, place.field(place.arrays[0]), place.device, queue)))
    named = {"init": matrix.initial, "axis": matrix.other, "keepdims": keepdims, **place.where}
    found = reduce(sums, matrix.operator, **named)
    return delivered(place, found, out)


def _sums(g: Given, x: Any, device: Any, queue: Any) -> Given:
    """The call that adds the magnitudes of the columns or rows of a matrix."""
    matrix = _matrix_of(g)
    assert matrix is not None
    return g.but(x=x, ord=1, axis=matrix.axis, out=None, device=device, queue=queue, wait_for=None)


def explain_norm(g: Given) -> Explanation:
    """The explanation of :func:`norm`."""
    matrix = _matrix_of(g) if g.x is not None else None
    if matrix is None:
        return describe(norm_request(g))
    place = placed({"x": g.x}, g.device, g.queue)
    x = place.arrays[0]
    layout = np.zeros(x.shape, x.dtype)  # not touched: takes no memory
    found = describe(norm_request(_sums(g, layout, place.device, None)))
    keepdims = switch(g.keepdims, "keepdims")
    shape = tuple(1 if k == matrix.axis else size for k, size in enumerate(x.shape) if keepdims or k != matrix.axis)
    if matrix.initial is None and not shape[matrix.other]:
        raise InvalidArgument(
            f"x has shape {x.shape}; ord={shown(g.ord)} needs at least one {'column' if g.ord == -1 else 'row'}"
        )
    dtype = float_result("norm", x.dtype, None, True)
    dtype = np.dtype(f"f{dtype.itemsize // 2}") if dtype.kind == "c" else dtype
    sums = np.zeros(shape, dtype)
    named = {"init": matrix.initial, "axis": matrix.other, "keepdims": keepdims, "device": place.device}
    last = explanation_of(reduce, sums, matrix.operator, **named)
    if g.out is not None:
        kept = tuple(1 if k == matrix.other else n for k, n in enumerate(shape) if keepdims or k != matrix.other)
        check_out(g.out, kept, dtype, "out")
    found.choices.insert(0, f"a reduction with {matrix.operator!r} of the sums of magnitudes follows")
    found.choices += [line for line in last.choices[1:] if line not in found.choices]
    return found
