"""``pydp.explain``: describe the kernels of a call and the reasons for each choice, without running the call."""

from __future__ import annotations

from collections.abc import Callable
from types import FunctionType
from typing import Any

from pydp.algorithms.forall import forall
from pydp.errors import InvalidArgument
from pydp.model.explanation import Explanation, given, sources_of
from pydp.model.family import ProblemFound, SpecProbe
from pydp.model.modelled import model_description
from pydp.runtime.field.field import Field
from pydp.runtime.field.fusion import pending
from pydp.runtime.placement import check_events

__all__ = ["explain"]


def explain(fn: Callable[..., Any] | Field, *args: Any, **kw: Any) -> Explanation:
    """Describe the kernels and choices of ``fn(*args, **kw)`` on the device that it would use. Nothing is launched.

    fn: a function of pydp, such as ``pydp.scan``; or your own function for forall, decorated or not, followed by the
    grid and its arguments; or a Field that operators returned, such as ``a * x + y``, which is described by the kernel
    that will compute it. Values of arrays are not read.

    Returns an Explanation. `print` shows it; its attributes are `title`, `facts`, `choices` (the reasons) and `sources`
    (kernel name -> text). Raises the errors that the call would raise for invalid arguments, and InvalidArgument for
    unknown parameters and for any other function.

    >>> found = pydp.explain(pydp.reduce, np.ones(1000, np.float32), "+")
    >>> found.facts["types"]
    'float32 -> float32'
    >>> print(pydp.explain(double, a.shape, a))           # doctest: +SKIP
    >>> print(pydp.explain(a * x + y))                    # doctest: +SKIP
    """
    if isinstance(fn, Field):
        if args or kw:
            raise InvalidArgument("a Field is explained without further arguments; pass explain(a * x + y)")
        return _of_operators(fn)
    if not hasattr(fn, "__pydp_explain__") and _is_users(fn):
        if not args:
            name = getattr(fn, "__name__", "a function")
            raise InvalidArgument(f"{name} is explained without a grid; pass explain(function, grid, arguments ...)")
        fn, args = forall, (args[0], fn, *args[1:])
    describe = getattr(fn, "__pydp_explain__", None)
    if describe is None:
        name = getattr(fn, "__name__", None) or repr(fn)
        raise InvalidArgument(f"{name} cannot be explained; an algorithm of pydp or a function for forall is accepted")
    call = given(fn, args, kw)
    if getattr(call, "wait_for", None) is not None:
        check_events(call.wait_for)
        call = call.but(wait_for=None)  # nothing runs
    found = describe(call)
    assert isinstance(found, Explanation)
    if "specialization" in found.facts:
        _add_the_model(found, lambda asking: describe(call.but(spec=asking)))
    return found


def _of_operators(field: Field) -> Explanation:
    """How the result of operators is computed."""
    found = pending(field)
    facts: dict[str, object] = {"device": field.device.name, "result": f"{field.shape} {field.dtype}"}
    if found is None:
        return Explanation("elements of a Field", facts, ["the elements are computed already, or being computed"])
    facts |= {
        "operators": " ".join(found.operators),
        "arrays": found.arrays,
        "numbers": found.numbers,
        "launches": f"1 x {found.kernel.name}",
    }
    choices = [
        "one kernel computes operators that follow one another; each array is read once, only the result is stored",
        "it runs when the result is used, before an operand changes, or at the next call of pydp on this device",
    ]
    if len(found.operators) > 1:
        choices.append(
            "the first time that an expression occurs, each operator runs in a kernel of its own, because building a "
            "kernel takes longer"
        )
    if found.needed:
        choices.append(
            f"the program or other expressions may need {found.needed} of the intermediate results: a result that "
            "several expressions need is computed first and stored; others are computed again if the program uses them"
        )
    return Explanation("operators of Fields", facts, choices, sources_of([found.kernel]))


def _add_the_model(found: Explanation, described: Callable[[SpecProbe], Explanation]) -> None:
    """Add the cost model's estimates for the chosen specialization and for the other candidates."""
    try:
        described(SpecProbe())
    except ProblemFound as probed:
        facts, lines = model_description(probed.family, probed.device, probed.problem, found.facts["specialization"])
        found.facts |= facts
        found.choices += lines
    except (InvalidArgument, TypeError):  # the function has no parameter spec
        return


def _is_users(fn: object) -> bool:
    """Whether fn is a Python function from outside the library, or one made by ``pydp.vector``."""
    function = getattr(fn, "function", fn)
    home = (getattr(function, "__module__", None) or "").split(".")
    return isinstance(function, FunctionType) and (home[0] != "pydp" or home[1:2] == ["bench"])
