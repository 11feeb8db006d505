"""Explanations of calls: what would run, and why. `pydp.explain` returns them."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, fields, is_dataclass
from types import SimpleNamespace
from typing import Any

from pydp.errors import InvalidArgument


@dataclass
class Explanation:
    """A description of the kernels that a call would run. ``str()`` gives a readable text.

    facts: named values (device, dtype, sizes, specialization, launch shape). choices: sentences, each with one decision
    and its reason. sources: the rendered kernels by name.
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


def differences(spec: Any, base: Any) -> str:
    """The fields in which a specialization differs from another; a specialization of another type as a whole."""
    if type(spec) is not type(base) or not is_dataclass(spec):
        return str(spec)
    names = [item.name for item in fields(spec)]
    found = [f"{name}={getattr(spec, name)!r}" for name in names if getattr(spec, name) != getattr(base, name)]
    return ", ".join(found) or "the same"


def sources_of(kernels: Iterable[Any]) -> dict[str, str]:
    """The sources of kernels by name; further sources with the same name get a number (" #2")."""
    found: dict[str, str] = {}
    for name, text in dict.fromkeys((one.name, one.source) for one in kernels):
        same = sum(known.partition(" #")[0] == name for known in found)
        found[f"{name} #{same + 1}" if same else name] = text
    return found


class Given(SimpleNamespace):
    """The arguments of a call by parameter name, including defaults."""

    @property
    def where(self) -> dict[str, Any]:
        """The arguments of `Call.begin` among them: device, queue, wait_for and out."""
        return {name: value for name, value in vars(self).items() if name in ("device", "queue", "wait_for", "out")}

    def but(self, **changed: Any) -> Given:
        """The same call with some arguments changed."""
        return Given(**{**vars(self), **changed})


def given(fn: Callable[..., Any], args: Sequence[Any], kw: Mapping[str, Any]) -> Given:
    """The arguments of a call by parameter name. Raises InvalidArgument if the function does not accept them."""
    signature = inspect.signature(fn)
    try:
        bound = signature.bind(*args, **kw)
    except TypeError as error:
        accepted = ", ".join(signature.parameters)
        name = getattr(fn, "__name__", repr(fn))
        raise InvalidArgument(f"invalid arguments for {name}: {error}; {accepted} are accepted") from None
    bound.apply_defaults()
    return Given(**bound.arguments)


def explained_by(fn: Callable[..., Any], describe: Callable[[Given], Explanation]) -> None:
    """Register `describe`, which explains calls of the public function `fn` from their arguments."""
    fn.__dict__["__pydp_explain__"] = describe
