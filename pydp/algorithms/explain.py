"""``pydp.explain``: what a call would run here, and why, without running it."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping, Sequence
from types import FunctionType
from typing import Any

from pydp.algorithms.forall import forall
from pydp.errors import InvalidArgument
from pydp.model.explanation import Explanation, Given, given
from pydp.model.family import ProblemFound, SpecProbe
from pydp.model.modelled import model_told

__all__ = ["explain"]


def explain(fn: Callable[..., Any], *args: Any, **kw: Any) -> Explanation:
    """What ``fn(*args, **kw)`` would run here, and why; nothing is launched.

    fn: a function of pydp (``pydp.scan``), or a function of yours that forall runs, decorated or not: what follows is
    then the grid and the arguments. The arguments are those of the call; their values are not read. Raises what the
    call itself would raise for wrong arguments, and InvalidArgument for those that the function does not take and for
    another function.

    >>> print(pydp.explain(pydp.reduce, x, "+"))          # doctest: +SKIP
    >>> print(pydp.explain(double, a.shape, a))           # doctest: +SKIP
    """
    if not hasattr(fn, "__pydp_explain__") and _is_users(fn):
        if not args:
            name = getattr(fn, "__name__", "a function")
            raise InvalidArgument(f"{name} is explained without a grid; explain takes (function, grid, arguments ...)")
        fn, args = forall, (args[0], fn, *args[1:])
    describe = getattr(fn, "__pydp_explain__", None)
    if describe is None:
        name = getattr(fn, "__name__", None) or repr(fn)
        raise InvalidArgument(
            f"{name} cannot be explained; a function of pydp's algorithms or one that forall runs is accepted"
        )
    call = _given(fn, args, kw)
    found = describe(call)
    assert isinstance(found, Explanation)
    if "specialization" in found.facts:
        _add_the_model(found, lambda asking: describe(call.but(spec=asking)))
    return found


def _given(fn: Callable[..., Any], args: Sequence[Any], kw: Mapping[str, Any]) -> Given:
    """The arguments by the names of the function's parameters, however they were given."""
    try:
        return given(fn, args, kw)
    except TypeError as error:
        accepted = ", ".join(inspect.signature(fn).parameters)
        name = getattr(fn, "__name__", repr(fn))
        raise InvalidArgument(f"{name} cannot be called so: {error}; {accepted} are accepted") from None


def _add_the_model(found: Explanation, described: Callable[[SpecProbe], Explanation]) -> None:
    """Adds what the model says of the specialization that would run, and of those that would not."""
    try:
        described(SpecProbe())
    except ProblemFound as asked:
        facts, lines = model_told(asked.family, asked.device, asked.problem, found.facts["specialization"])
        found.facts |= facts
        found.choices += lines
    except (InvalidArgument, TypeError):  # a function that takes no spec
        return


def _is_users(fn: object) -> bool:
    """A Python function from outside the library, or one made by ``pydp.vector``."""
    function = getattr(fn, "function", fn)
    home = (getattr(function, "__module__", None) or "").split(".")
    return isinstance(function, FunctionType) and (home[0] != "pydp" or home[1:2] == ["bench"])
