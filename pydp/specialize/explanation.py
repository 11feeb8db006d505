"""Explanations: what a call would run here, and why, without running it."""

from __future__ import annotations

import functools
import importlib
from collections.abc import Callable
from dataclasses import dataclass, field
from types import FunctionType
from typing import Any

from pydp.errors import InvalidArgument
from pydp.specialize.choices import Asked, Asking
from pydp.specialize.modelled import model_told


@dataclass
class Explanation:
    """What would run: printable as it is.

    ``facts`` are named values (device, dtype, sizes, specialization, launch shape); ``choices`` are sentences, each
    one decision with its reason; ``sources`` are the rendered kernels, by name.
    """

    title: str
    facts: dict[str, object] = field(default_factory=dict)
    choices: list[str] = field(default_factory=list)
    sources: dict[str, str] = field(default_factory=dict)

    def __str__(self) -> str:
        width = max((len(name) for name in self.facts), default=0)
        lines = [self.title, "-" * len(self.title)]
        lines += [f"{name.ljust(width)}  {value}" for name, value in self.facts.items()]
        if self.choices:
            lines += ["", "why"]
            lines += [f"  - {sentence}" for sentence in self.choices]
        if self.sources:
            lines += ["", "kernels (the text of each is in .sources)"]
            lines += [f"  {name}: {len(text.splitlines())} lines" for name, text in self.sources.items()]
        return "\n".join(lines)


def explained_by(fn: Callable[..., Any], describe: Callable[..., Explanation]) -> None:
    """Lets `explain` describe the calls of a public function; `describe` takes the function's own arguments."""
    fn.__dict__["__pydp_explain__"] = describe


def explain(fn: Callable[..., Any], *args: Any, **kw: Any) -> Explanation:
    """What ``fn(*args, **kw)`` would run here, and why; nothing is launched.

    fn: a function of pydp (``pydp.scan``), or a function of yours that forall runs, decorated or not: what follows is
    then the grid and the arguments. The arguments are those of the call; their values are not read. Raises what the
    call itself would raise for wrong arguments, InvalidArgument for another function.

    >>> print(pydp.explain(pydp.reduce, x, "+"))          # doctest: +SKIP
    >>> print(pydp.explain(double, a.shape, a))           # doctest: +SKIP
    """
    describe = getattr(fn, "__pydp_explain__", None)
    if describe is None and _is_users(fn):
        # By name: forall lies above, and is loaded only where it is used.
        describe = functools.partial(importlib.import_module("pydp.algorithms.forall").explain_function, fn)
    if describe is None:
        name = getattr(fn, "__name__", None) or repr(fn)
        raise InvalidArgument(
            f"{name} cannot be explained; a function of pydp's algorithms or one that forall runs is accepted"
        )
    found = describe(*args, **kw)
    assert isinstance(found, Explanation)
    if "specialization" in found.facts:
        _add_the_model(found, lambda asking: describe(*args, **{**kw, "spec": asking}))
    return found


def _add_the_model(found: Explanation, described: Callable[[Asking], Explanation]) -> None:
    """Adds what the model says of the specialization that would run, and of those that would not."""
    try:
        described(Asking())
    except Asked as asked:
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
