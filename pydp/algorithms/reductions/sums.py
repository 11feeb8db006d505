"""Sums and products: ``sum``, ``prod``, ``nansum``, ``nanprod`` and ``logsumexp``."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from pydp.algorithms.composed import explanation_of
from pydp.algorithms.reduce import reduce
from pydp.algorithms.reduce.hooks import Hooks
from pydp.algorithms.reduce.plan import result_dtype
from pydp.algorithms.reductions.run import Request, check_kind, float_result, limited, mask_of, perform
from pydp.algorithms.scan.arguments import host_init, is_device_init
from pydp.dtypes import native
from pydp.errors import InvalidArgument
from pydp.model.explanation import Explanation, Given
from pydp.runtime.placement import normal_input

_SUMS = "+*"


def fold_request(name: str, operator: str, nan: bool) -> Any:
    """Builds requests for a fold of some elements with a named operator."""

    def build(g: Given) -> Request:
        given = vars(g)
        mask, initial, dtype = mask_of(given.get("where")), given.get("initial"), given.get("dtype")
        if operator not in _SUMS:
            check_initial(name, mask, initial)

        def hooks(device: Any, dtypes: tuple[np.dtype, ...]) -> Hooks:
            source = dtypes[0]
            check_kind(name, source, "biufc", "numbers")
            result = native(dtype) if dtype is not None else result_dtype(native(source), operator)
            check_kind(f"{name} with dtype={result}", result, "biufc", "numbers")
            skips = (
                *(("nan",) if nan and source.kind in "fc" else ()),
                *(("masked",) if len(dtypes) > 1 else ()),
            )
            run = np.dtype(np.float32) if result == np.float16 else result
            start = identity(operator, run)
            chain = 16 if run.kind in "fc" and operator in _SUMS else 1024
            members = (("value", run, True),)
            return Hooks(
                name, "value", members, (result,), "own", (start,), run, chain, operator, skips=skips, start=start
            )

        inputs = {"x": g.x, "where": mask}
        return Request.of(g, name, inputs, hooks, initial=initial)

    return build


def check_initial(name: str, mask: Any, initial: Any) -> None:
    """Raise InvalidArgument if an extreme value has a mask and no first value, the result if no element counts."""
    if mask is not None and initial is None:
        raise InvalidArgument(f"{name} with where= is given no initial value; initial= is needed")


def check_first(initial: Any, x: Any, operator: str, dtype: Any = None) -> None:
    """Raise InvalidArgument if `initial` is a value of the host that a fold cannot start with."""
    if initial is not None and not is_device_init(initial):
        source = native(normal_input("x", x).dtype)
        host_init(initial, native(dtype) if dtype is not None else result_dtype(source, operator), "initial")


def identity(operator: str, dtype: np.dtype) -> Any:
    """The value that masked elements get."""
    if operator in _SUMS:
        return int(operator == "*")
    if dtype.kind in "fc":
        worst = np.inf if operator == "min" else -np.inf
        return worst if dtype.kind == "f" else complex(worst, worst)
    if dtype.kind == "b":
        return operator == "min"
    return int(np.iinfo(dtype).max if operator == "min" else np.iinfo(dtype).min)


sum_request = fold_request("sum", "+", False)
prod_request = fold_request("prod", "*", False)
nansum_request = fold_request("nansum", "+", True)
nanprod_request = fold_request("nanprod", "*", True)


def logsumexp_request(g: Given) -> Request:
    """The request of :func:`logsumexp`."""

    def hooks(device: Any, dtypes: tuple[np.dtype, ...]) -> Hooks:
        result = float_result("logsumexp", dtypes[0], None, False)
        own = np.dtype(np.float32) if result == np.float16 else result
        members = (("top", own, True), ("sum", own, True))
        skips = ("masked",) if len(dtypes) > 1 else ()
        return Hooks("logsumexp", "exponentials", members, (result,), "logarithm", (-np.inf,), chain=16, skips=skips)

    inputs = {"x": g.x, "where": mask_of(vars(g).get("where"))}
    return Request.of(g, "logsumexp", inputs, hooks)


def sum(
    x: Any,
    axis: int | tuple[int, ...] | None = None,
    dtype: Any = None,
    out: Any = None,
    keepdims: bool = False,
    initial: Any = None,
    where: Any = None,
    *,
    length: Any = None,
    device: Any = None,
    queue: Any = None,
    wait_for: Any = None,
    spec: Any = None,
) -> Any:
    """Sum along some axes, as ``numpy.sum``: ``pydp.reduce(x, "+")``.

    x: numbers or bools, of any shape and strides. axis: an integer, a tuple of integers, or None for all axes. dtype:
    the dtype of the sum and the result; see :func:`pydp.reduce`. keepdims: keep the reduced axes, with size 1. where:
    bools that broadcast to `x`; only elements where they are true count. initial: the first value of each sum, see
    `init` of :func:`pydp.reduce`. out: array for the result.
    length: only the first `length` elements count, see :func:`pydp.reduce`.

    Errors: see :func:`pydp.reduce`.

    >>> pydp.sum(np.array([1, 2, 3]), where=np.array([True, False, True]))
    np.int64(4)
    """
    check_first(initial, x, "+", dtype)
    if mask_of(where) is None:
        named = {"device": device, "queue": queue, "wait_for": wait_for, "spec": spec}
        named |= {"axis": axis, "keepdims": keepdims, "init": initial, "length": length, "dtype": dtype, "out": out}
        return reduce(x, "+", **named)
    return _masked_sum(**locals())


def prod(
    x: Any,
    axis: int | tuple[int, ...] | None = None,
    dtype: Any = None,
    out: Any = None,
    keepdims: bool = False,
    initial: Any = None,
    where: Any = None,
    *,
    length: Any = None,
    device: Any = None,
    queue: Any = None,
    wait_for: Any = None,
    spec: Any = None,
) -> Any:
    """Product along some axes, as ``numpy.prod``: ``pydp.reduce(x, "*")``.

    x: numbers or bools, of any shape and strides. axis: an integer, a tuple of integers, or None for all axes. dtype:
    the dtype of the product and the result; see :func:`pydp.reduce`. keepdims: keep the reduced axes, with size 1.
    where: bools that broadcast to `x`; only elements where they are true count. initial: the first value of each
    product, see `init` of :func:`pydp.reduce`. out: array for the result.
    length: only the first `length` elements count, see :func:`pydp.reduce`.

    Errors: see :func:`pydp.reduce`.

    >>> pydp.prod(np.array([1, 2, 3]))
    np.int64(6)
    """
    check_first(initial, x, "*", dtype)
    if mask_of(where) is None:
        named = {"device": device, "queue": queue, "wait_for": wait_for, "spec": spec}
        named |= {"axis": axis, "keepdims": keepdims, "init": initial, "length": length, "dtype": dtype, "out": out}
        return reduce(x, "*", **named)
    return _masked_product(**locals())


@limited
def nansum(
    x: Any,
    axis: int | tuple[int, ...] | None = None,
    dtype: Any = None,
    out: Any = None,
    keepdims: bool = False,
    initial: Any = None,
    where: Any = None,
    *,
    length: Any = None,
    device: Any = None,
    queue: Any = None,
    wait_for: Any = None,
    spec: Any = None,
) -> Any:
    """Sum of the elements that are not NaN along some axes, as ``numpy.nansum``.

    x: numbers or bools, of any shape and strides. axis: an integer, a tuple of integers, or None for all axes. dtype:
    the dtype of the sum and the result; see :func:`pydp.reduce`. keepdims: keep the reduced axes, with size 1. where:
    bools that broadcast to `x`; only elements where they are true count. initial: the first value of each sum, see
    `init` of :func:`pydp.reduce`. out: array for the result.
    length: only the first `length` elements count, see :func:`pydp.reduce`.

    The sum of no elements is 0. Raises InvalidArgument for other dtypes and for invalid axes.

    >>> pydp.nansum(np.array([1, np.nan, 3], np.float32))
    np.float32(4.0)
    """
    return perform(nansum_request(Given(**locals())))


@limited
def nanprod(
    x: Any,
    axis: int | tuple[int, ...] | None = None,
    dtype: Any = None,
    out: Any = None,
    keepdims: bool = False,
    initial: Any = None,
    where: Any = None,
    *,
    length: Any = None,
    device: Any = None,
    queue: Any = None,
    wait_for: Any = None,
    spec: Any = None,
) -> Any:
    """Product of the elements that are not NaN along some axes, as ``numpy.nanprod``.

    The arguments, dtypes and errors are those of :func:`nansum`. The product of no elements is 1.

    >>> pydp.nanprod(np.array([2, np.nan, 3], np.float32))
    np.float32(6.0)
    """
    return perform(nanprod_request(Given(**locals())))


@limited
def logsumexp(
    x: Any,
    axis: int | tuple[int, ...] | None = None,
    *,
    where: Any = None,
    keepdims: bool = False,
    length: Any = None,
    out: Any = None,
    device: Any = None,
    queue: Any = None,
    wait_for: Any = None,
    spec: Any = None,
) -> Any:
    """log(sum(exp(x))) along some axes, without overflow, as ``scipy.special.logsumexp``.

    x: bool, integers or floats, of any shape and strides. axis: an integer, a tuple of integers, or None for all axes.
    keepdims: keep the reduced axes, with size 1. where: bools that broadcast to `x`; only elements where they are true
    count. out: array for the result.
    length: only the first `length` elements count, see :func:`pydp.reduce`.

    The result has the dtype of `x` if it is a float, else float64; it is -inf if there are no elements. One pass: the
    maximum and the sum of exp(x - maximum) are merged. Raises InvalidArgument for other dtypes and for invalid axes.

    >>> pydp.logsumexp(np.array([1000, 1000], np.float32))
    np.float32(1000.6932)
    """
    return perform(logsumexp_request(Given(**locals())))


def masked_fold(request: Callable[[Given], Request]) -> Callable[..., Any]:
    """The call of a fold with a mask, for the arguments of its public function."""

    @limited
    def fold(x: Any, **named: Any) -> Any:
        return perform(request(Given(x=x, **named)))

    return fold


_masked_sum, _masked_product = masked_fold(sum_request), masked_fold(prod_request)


def explaining_fold(operator: str, masked: Any) -> Any:
    """The explanation of a function that is a reduction of ``pydp.reduce`` unless it has a mask. masked: explains a
    call with a mask."""

    def explain(g: Given) -> Explanation:
        check_first(vars(g).get("initial"), g.x, operator, vars(g).get("dtype"))
        if mask_of(vars(g).get("where")) is not None:
            found: Explanation = masked(g)
            return found
        named = {name: value for name, value in vars(g).items() if name not in ("where", "initial")}
        named["init"] = vars(g).get("initial")
        return explanation_of(reduce, named.pop("x"), operator, **named)

    return explain
