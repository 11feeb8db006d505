"""Kernel families: what an algorithm tells the choosing layer about itself.

An algorithm describes one call as a :class:`Problem` and its policy as a :class:`Family`; the choosing layer
knows nothing else of it. A specialization ("spec") is a frozen dataclass of the algorithm's own.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, TypeVar

from pydp.runtime.profile import Profile
from pydp.specialize.counts import Counts

_Spec = TypeVar("_Spec")


@dataclass(frozen=True)
class Problem:
    """What a choice depends on, besides the device: the same description gets the same choice.

    family: the family's name. dtype: what is computed with, as text ("float32", or "int32,float64" for keys and
    values). sizes: the shape, or a class of shapes. flags: layout and variant words ("transposed_b", "exclusive").
    """

    family: str
    dtype: str
    sizes: tuple[int, ...]
    flags: tuple[str, ...] = ()

    def __str__(self) -> str:
        shape = "x".join(str(size) for size in self.sizes) or "()"
        return " ".join((self.family, self.dtype, shape, *self.flags))


@dataclass(frozen=True)
class Family:
    """A family of kernels and its policy; all functions are pure.

    ``default(profile, problem)`` is a good spec without measuring; ``space(profile, problem)`` is everything that is
    looked at, what cannot run included, so that it can be told with its reason; ``check(profile, problem, spec)`` says
    in one sentence why a spec cannot run there, or is None. ``counts(profile, problem, spec)`` are the analysis
    parameters of a spec that can run, from arithmetic alone; a family without them cannot be ranked.
    ``lengths(problem)`` are the problem's sizes as they are, where ``problem.sizes`` holds something else (logarithms).
    """

    name: str
    spec_type: type
    default: Callable[[Profile, Problem], Any]
    space: Callable[[Profile, Problem], list[Any]]
    check: Callable[[Profile, Problem, Any], str | None]
    counts: Callable[[Profile, Problem, Any], Counts] | None = None
    lengths: Callable[[Problem], tuple[int, ...]] | None = None

    def candidates(self, profile: Profile, problem: Problem) -> list[Any]:
        """What is worth measuring there, all of which can run: the default first, then the space in its order."""
        specs = dict.fromkeys((self.default(profile, problem), *self.space(profile, problem)))
        return [spec for spec in specs if self.check(profile, problem, spec) is None]


def altered(spec: _Spec, **fields: Any) -> _Spec:
    """`dataclasses.replace` for policies, which make dozens of specializations for a first choice: a copy with other
    values of fields that it has.

    >>> altered(Problem("scan", "int32", (8,)), sizes=(9,))
    Problem(family='scan', dtype='int32', sizes=(9,), flags=())
    """
    copy = object.__new__(type(spec))
    copy.__dict__.update(spec.__dict__, **fields)
    return copy
