"""Translate vector functions to the typed intermediate form: the entry points of the front end.

Steps: parse the source (source.syntax), look up names (source.names), find types by a fixpoint iteration (ir.types,
frontend.state), reduce views to index expressions (frontend.view_lowering), inline calls (frontend.inline), structure
returns (frontend.statements), and check that all lanes reach each barrier (barriers.uniform).
"""

from __future__ import annotations

import ast
import sys
import threading
from collections.abc import Callable, Hashable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from types import FunctionType
from typing import Any

import numpy as np

from pydp.lang import ir
from pydp.lang.analysis.integer_widths import fits_32_bits, narrowed, widened
from pydp.lang.analysis.intervals import limits
from pydp.lang.barriers.divergent_regions import split_divergent_regions
from pydp.lang.barriers.uniform import check_barriers
from pydp.lang.frontend.inline import Translator
from pydp.lang.frontend.known_functions import as_lambda, is_known
from pydp.lang.frontend.state import Frame, Shared
from pydp.lang.frontend.values import Items, Number, Value, View, arguments_text
from pydp.lang.ir.diagnostics import VectorError
from pydp.lang.ir.types import BOOL, FLOAT64, INT32, INT64, is_integer
from pydp.lang.source.fingerprint import fingerprint
from pydp.lang.source.names import python_function
from pydp.lang.source.syntax import Source, source_of
from pydp.runtime.bounded import BoundedCache
from pydp.runtime.forks import fork_safe

__all__ = ["FieldType", "NumberType", "TupleType", "translate", "translate_value"]

_PASSES = 40


@dataclass(frozen=True)
class FieldType:
    """The type of an array argument: `rank` axes, tiled by `tiles` (in elements, outermost first)."""

    dtype: np.dtype[Any]
    rank: int
    tiles: tuple[tuple[int, ...], ...] = ()
    writable: bool = True
    fill: object = 0


@dataclass(frozen=True)
class NumberType:
    """The type of a number argument. weak: it is a Python int, float or bool."""

    dtype: np.dtype[Any]
    weak: bool


@dataclass(frozen=True)
class TupleType:
    """The type of a tuple of numbers."""

    items: tuple[NumberType, ...]


ArgumentType = FieldType | NumberType | TupleType
_kept = BoundedCache(512)
_lock = fork_safe(threading.RLock())  # reentrant: translation reads properties of user objects, which may call pydp


def translate(
    fn: object,
    grid_rank: int,
    group: tuple[int, ...] | None,
    argument_types: Sequence[ArgumentType],
    index_dtype: Any = np.int32,
) -> ir.Function:
    """Translate the vector function `fn` for a grid of `grid_rank` axes and these argument types.

    `fn` is a @pydp.vector function or a plain function; it takes the index, then the arguments. `group` is the
    extents of a group or None. Results are cached by the source of the function and the values of its free names.
    Raises VectorError, with the user's line, for code outside the language.
    """
    function = python_function(fn)
    index = np.dtype(index_dtype)
    types = tuple(argument_types)
    key = ("forall", fingerprint(function), grid_rank, group, tuple(map(_type_key, types)), index)
    made: ir.Function = _cached(key, _translate, function, grid_rank, group, types, index)
    return made


def translate_value(
    fn: object, argument_dtypes: Sequence[Any], result_dtype: Any = None, index_dtype: Any = np.int32
) -> ir.ValueFunction:
    """Translate a function of values: an operator, predicate or key; also ``max``, ``operator.add`` and the like.

    The result is converted to `result_dtype`. None keeps its type; a tuple becomes a record of its items.
    Raises VectorError for code outside the language.
    """
    if callable(fn) and is_known(fn):
        fn = as_lambda(fn, len(argument_dtypes))
    function = python_function(fn)
    dtypes = tuple(np.dtype(item).newbyteorder("=") for item in argument_dtypes)
    result = None if result_dtype is None else np.dtype(result_dtype).newbyteorder("=")
    index = np.dtype(index_dtype)
    key = ("value", fingerprint(function), dtypes, result, index)
    made: ir.ValueFunction = _cached(key, _translate_value, function, dtypes, result, index)
    return made


def _cached(key: Hashable, make: Callable[..., Any], *arguments: Any) -> Any:
    with _lock:
        known = _kept.find(key)
        if known is None:
            known = make(*arguments)
            _kept.put(key, known)
    return known


def _type_key(kind: ArgumentType) -> Hashable:
    """The type as part of a key. Fill values are encoded, because a record is not hashable."""
    if isinstance(kind, FieldType) and kind.fill.__hash__ is not int.__hash__:
        fill = np.asarray(kind.fill)
        return (kind.dtype, kind.rank, kind.tiles, kind.writable, fill.dtype, fill.tobytes())
    return kind


def _check_rank(function: FunctionType, grid_rank: int, group: tuple[int, ...] | None) -> None:
    if group is not None and len(group) != grid_rank:
        raise VectorError(f"{function.__name__}: group has {len(group)} axes, but the grid has {grid_rank}")


def _translate(
    function: FunctionType,
    grid_rank: int,
    group: tuple[int, ...] | None,
    types: tuple[ArgumentType, ...],
    index: np.dtype[Any],
) -> ir.Function:
    _check_rank(function, grid_rank, group)
    source = source_of(function)
    names = _argument_names(source, function, 1 + len(types), "the index and the arguments")
    for shared in _passes(function, source):
        work = Translator(shared, index, group, grid_rank)
        work.double_arrays = any(isinstance(kind, FieldType) and kind.dtype == FLOAT64 for kind in types)
        work.frame = Frame(source, function, "", (function.__code__,), True, arguments=frozenset(names))
        with _frames_enough(work):
            body, arrays, parameters = _kernel_body(work, names, types)
    result = ir.Function(
        name=function.__name__ if function.__name__.isidentifier() else "lambda_function",
        grid_rank=grid_rank,
        group=group,
        index_dtype=index,
        arrays=arrays,
        parameters=parameters,
        variables=list(work.variables.values()),
        locals=list(work.locals.values()),
        privates=list(work.privates.values()),
        body=body,
        where=source.where(source.tree),
        uses_group=work.uses_group,
    )
    result = ir.passed(split_divergent_regions(ir.passed(result)))
    check_barriers(result)
    made = ir.passed(widened(result, large=True) if index == INT64 else narrowed(result))
    made.weak_form = result
    return made


def _passes(function: FunctionType, source: Source) -> Iterator[Shared]:
    """The state for each pass of a translation; the pass that changes no type is the last one."""
    shared = Shared()
    for _ in range(_PASSES):
        shared.changed = False
        yield shared
        if not shared.changed:
            return
    where = source.where(source.tree)
    raise VectorError(f"the types of the variables of {function.__name__} do not converge", where)


@contextmanager
def _frames_enough(work: Translator) -> Iterator[None]:
    """Turn a RecursionError into a VectorError."""
    try:
        yield
    except RecursionError:
        limit = sys.getrecursionlimit()
        where = work.where(work.latest or work.frame.source.tree)
        message = f"functions and expressions are nested too deeply for Python's recursion limit of {limit} frames"
        raise VectorError(f"{message}; split them", where) from None


def _argument_names(source: Source, function: FunctionType, count: int, what: str) -> list[str]:
    """All argument names of the function; arguments beyond `count` must have defaults."""
    tree = source.tree
    arguments = tree.args
    if arguments.vararg or arguments.kwarg or arguments.kwonlyargs:
        raise VectorError(
            "a vector function has positional arguments only; *args, **kwargs and keyword-only arguments are refused",
            source.where(tree),
        )
    names = [item.arg for item in (*arguments.posonlyargs, *arguments.args)]
    least = len(names) - len(arguments.defaults)
    if not least <= count <= len(names):
        message = f"{function.__name__} takes {arguments_text(least, len(names))} ({what}), not {count}"
        raise VectorError(message, source.where(tree))
    return names


def _kernel_body(
    work: Translator, names: list[str], types: tuple[ArgumentType, ...]
) -> tuple[list[ir.Stmt], list[ir.GlobalArray], list[ir.Parameter]]:
    frame = work.frame
    tree = frame.source.tree
    lanes = tuple(Number(ir.GlobalIndex(work.index_dtype, axis), True) for axis in range(work.grid_rank))
    arrays: list[ir.GlobalArray] = []
    parameters: list[ir.Parameter] = []
    frame_names = {f"argument {name}": name for name in names}
    for key, name in frame_names.items():
        work.unique(key, name)
    with work.nested() as body:
        work.give_argument(names[0], Items(lanes, True, True), tree)
        for position, (name, kind) in enumerate(zip(names[1:], types, strict=False)):
            value: Value
            if isinstance(kind, FieldType):
                value = _array(work, name, position, kind, tree)
                assert isinstance(value.array, ir.GlobalArray)
                arrays.append(value.array)
            else:
                value = _numbers(work, name, position, kind, parameters, tree)
            work.give_argument(name, value, tree)
        work.give_defaults(names, 1 + len(types))
        if isinstance(tree, ast.Lambda):
            work.fail("forall cannot run a lambda, because it stores nothing; define the function with def", tree)
        work.translate_function(tree.body)
    return body, arrays, parameters


def _array(work: Translator, name: str, position: int, kind: FieldType, tree: ast.AST) -> View:
    dtype = np.dtype(kind.dtype)
    if dtype.kind not in "biufV" or dtype.hasobject:
        work.fail(f"{name!r} is an array of {dtype}; bool, integers, floats and records are accepted", tree)
    array = ir.GlobalArray(name, dtype, kind.rank, kind.writable, position, kind.fill)
    extents = tuple(ir.ArrayExtent(work.index_dtype, array, axis) for axis in range(kind.rank))
    zero = work.integer(0)
    for sizes in kind.tiles:
        if len(sizes) != kind.rank:
            work.fail(f"{name!r} has rank {kind.rank}, but its tiles {sizes} have rank {len(sizes)}", tree)
    axes = tuple(range(kind.rank))
    return View(array, axes, (zero,) * kind.rank, extents, tuple(kind.tiles), writable=kind.writable)


def _numbers(
    work: Translator,
    name: str,
    position: int,
    kind: NumberType | TupleType,
    parameters: list[ir.Parameter],
    tree: ast.AST,
) -> Value:
    if isinstance(kind, TupleType):
        pairs = enumerate(kind.items)
        return Items(tuple(_number(work, name, position, item, n, parameters, tree) for n, item in pairs))
    return _number(work, name, position, kind, None, parameters, tree)


def _number(
    work: Translator,
    name: str,
    position: int,
    kind: NumberType,
    item: int | None,
    parameters: list[ir.Parameter],
    tree: ast.AST,
) -> Number:
    dtype, weak = np.dtype(kind.dtype), kind.weak and kind.dtype != BOOL
    if dtype.kind not in "biufV" or dtype.hasobject:
        work.fail(f"{name!r} is a {dtype} number; bool, integers, floats and records are accepted", tree)
    if weak and is_integer(dtype):
        dtype = INT64 if dtype.itemsize == 8 or work.index_dtype == INT64 else INT32
    elif weak:
        dtype = work.parameter_float(f"{name}.{item}", tree)
    parameter = ir.Parameter(dtype, name, position, item, weak and is_integer(dtype))
    parameters.append(parameter)
    return Number(parameter, weak)


def _record_of(value: Items, work: Translator, tree: ast.AST) -> Number:
    """A tuple as a result: a record of its items in order, nested tuples flattened."""
    numbers = _numbers_in(value, work, tree)
    if not numbers:
        work.fail("the function returns an empty tuple; a number, a record or a tuple of them is accepted", tree)
    dtypes = [_own_type(number) for number in numbers]
    dtype = np.dtype([(f"f{place}", own) for place, own in enumerate(dtypes)], align=True)
    items = (work.convert(number, own, tree) for number, own in zip(numbers, dtypes, strict=True))
    return Number(ir.MakeRecord(dtype, tuple(items)))


def _own_type(number: Number) -> np.dtype[Any]:
    """The type of a result if the caller names none: Python integers have 64 bits."""
    dtype = number.expr.dtype
    return INT64 if number.weak and dtype == INT32 else dtype


def _numbers_in(value: Value, work: Translator, tree: ast.AST) -> list[Number]:
    if isinstance(value, Items):
        return [number for item in value.items for number in _numbers_in(item, work, tree)]
    return [work.as_number(value, tree)]


def _translate_value(
    function: FunctionType, dtypes: tuple[np.dtype[Any], ...], result: np.dtype[Any] | None, index: np.dtype[Any]
) -> ir.ValueFunction:
    source = source_of(function)
    tree = source.tree
    names = _argument_names(source, function, len(dtypes), "the values")
    for shared in _passes(function, source):
        work = Translator(shared, index, None, 0)
        work.values_only = True
        work.frame = Frame(source, function, "", (function.__code__,), False, arguments=frozenset(names))
        with _frames_enough(work), work.nested() as body:
            arguments = [work.value_argument(name, dtype, tree) for name, dtype in zip(names, dtypes, strict=False)]
            work.give_defaults(names, len(dtypes))
            value = work.lambda_or_function(tree)
        if result is None and isinstance(value, Items):
            value = _record_of(value, work, tree)
        number = work.as_number(value, tree)
        wanted = _own_type(number) if result is None else result
        expr = work.convert(number, wanted, tree)
    own = {argument.name for argument in arguments}
    variables = [variable for variable in work.variables.values() if variable.name not in own]
    name = function.__name__ if function.__name__.isidentifier() else "operator"
    privates = list(work.privates.values())
    made = ir.passed(ir.ValueFunction(name, arguments, variables, privates, body, expr, source.where(tree)))
    short = index == INT32 and fits_32_bits(made, lambda leaf: limits(leaf.dtype))
    return ir.passed(narrowed(made) if short else widened(made, large=index == INT64))
