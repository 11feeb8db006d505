"""Kernel families, problems and choices.

An algorithm describes one call as a subclass of :class:`Problem` and its policy as a :class:`Family`. The model and the
tuner know nothing else about it. A specialization ("spec") is a frozen dataclass that the algorithm defines. A
:class:`Choice` is the specialization that a call uses, with the reason.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Hashable, Iterable, Mapping
from dataclasses import MISSING, dataclass, fields, replace
from itertools import product
from typing import Any, ClassVar, TypeVar, cast

from pydp.errors import InvalidArgument, shown
from pydp.groups.barrier import why_not
from pydp.model.counts import Counts
from pydp.runtime.bounded import ABSENT
from pydp.runtime.device.profile import Profile
from pydp.runtime.drivers.devices import Device, known_devices

_Spec = TypeVar("_Spec")


def problem_text(family: str, dtype: str, sizes: Iterable[int], flags: Iterable[str]) -> str:
    """A problem or a class of problems as one line.

    >>> problem_text("matmul", "float32", (1, 64, 64, 64), ("thin",))
    'matmul float32 1x64x64x64 thin'
    """
    return " ".join((family, dtype, "x".join(map(str, sizes)) or "()", *flags))


@dataclass(frozen=True)
class Problem:
    """A call as far as choices depend on it. On one device, equal problems get equal choices.

    Each family has a subclass. Its fields without a default are sizes: the shape, or a class of shapes; a field
    ``log_...`` is the logarithm of a size. The others are options: layouts and variants. Measurements are stored with
    the sizes and with the names of the options, so these must not change. family: the family's name. dtype: the type of
    the computation as text ("float32", or "int32,float64" for keys and values).
    """

    family: ClassVar[str]
    dtype: str

    def _sizes(self) -> dict[str, int]:
        named = {field.name: getattr(self, field.name) for field in fields(self)[1:] if field.default is MISSING}
        return {name: size for name, size in named.items() if size is not None}

    @property
    def sizes(self) -> tuple[int, ...]:
        """The sizes in the order of their fields, without those that are None."""
        return tuple(self._sizes().values())

    @property
    def lengths(self) -> tuple[int, ...]:
        """The sizes as numbers of elements or bytes."""
        return tuple(1 << size if name.startswith("log_") else size for name, size in self._sizes().items())

    @property
    def flags(self) -> tuple[str, ...]:
        """The options that differ from their defaults: "name" if it is true, "name=value" if it has a value."""
        values = [(field.name, field.default, getattr(self, field.name)) for field in fields(self)]
        return tuple(
            name if default is False else f"{name}={value}"
            for name, default, value in values
            if default is not MISSING and value != default
        )

    def __str__(self) -> str:
        return problem_text(self.family, self.dtype, self.sizes, self.flags)

    def smaller(self, share: float, least: int) -> Problem:
        """The problem with `share` of each size above `least`, made odd; the problem itself if it has logarithms."""
        sizes = self._sizes()
        if any(name.startswith("log_") for name in sizes):
            return self
        cut: dict[str, Any] = {name: int(share * size) | 1 for name, size in sizes.items() if size > least}
        return replace(self, **cut)


@dataclass(frozen=True)
class Family:
    """A family of kernels and its policy; all functions are pure.

    ``default(profile, problem)``: a good spec without measurements. ``space(profile, problem)``: all specs that are
    considered, including those that cannot run, so explanations can give the reason. ``check(profile, problem, spec)``:
    one sentence on why a spec cannot run, or None. ``counts(profile, problem, spec)``: the analysis parameters of a
    spec that can run, by arithmetic alone; a family without them cannot be ranked. `problem` is of the family's own
    subclass of `Problem`.
    """

    name: str
    spec_type: type
    default: Callable[[Profile, Any], Any]
    space: Callable[[Profile, Any], list[Any]]
    check: Callable[[Profile, Any, Any], str | None]
    counts: Callable[[Profile, Any, Any], Counts] | None = None

    def candidates(self, profile: Profile, problem: Problem) -> list[Any]:
        """The specs that can run: the default first, then the space in its order."""
        specs = dict.fromkeys((self.default(profile, problem), *self.space(profile, problem)))
        return [spec for spec in specs if self.check(profile, problem, spec) is None]


Accepted = tuple[Callable[[Any], bool], str]
"""A test of a field's value, and the accepted values in words."""


def between(low: int, high: int) -> Accepted:
    """The integers from `low` to `high`."""
    return lambda value: type(value) is int and low <= value <= high, f"{low} to {_in_words(high)} are"


def power_of_two(high: int) -> Accepted:
    """The powers of two from 1 to `high`."""
    return (
        lambda value: type(value) is int and 1 <= value <= high and not value & (value - 1),
        f"powers of two up to {_in_words(high)} are",
    )


def one_of(*values: Any) -> Accepted:
    """These values."""
    *first, last = map(repr, values)
    return lambda value: value in values, f"{', '.join(first)} and {last} are"


def _in_words(number: int) -> str:
    if number < 1 << 20:
        return str(number)
    return f"2**{number.bit_length() - 1}" if not number & (number - 1) else f"2**{number.bit_length()} - 1"


def field_error(spec: Any, accepted: Mapping[str, Accepted]) -> str | None:
    """One sentence on the first field of a spec that no device accepts, or None.

    `accepted` has the fields that are checked by themselves. mapping is checked for every spec; barriers and subgroup
    are checked if the spec has them.
    """
    for name, (test, text) in accepted.items():
        value = getattr(spec, name)
        if not test(value):
            return f"{name} is {shown(value)}; {text} accepted"
    return why_not(spec.mapping, getattr(spec, "barriers", "auto"), getattr(spec, "subgroup", None))


def check_spec(name: str, spec_type: type, spec: Any) -> None:
    """Raise InvalidArgument unless the `spec` of a call is None, a `spec_type` or a mapping of its fields. name: the
    family's name."""
    if isinstance(spec, Mapping):
        names = [field.name for field in fields(spec_type) if field.init]
        unknown = [name for name in spec if name not in names]
        if unknown:
            raise InvalidArgument(f"spec of {name} has no field {unknown[0]!r}; {', '.join(names)} are accepted")
    elif spec is not None and not isinstance(spec, spec_type):
        raise InvalidArgument(
            f"spec is {shown(spec)}; None, a {spec_type.__name__} or a mapping of its fields is accepted"
        )


def altered(spec: _Spec, **fields: Any) -> _Spec:
    """A faster `dataclasses.replace`: a copy with other values of existing fields, without checks.

    Policies make dozens of specializations for a first choice.

    >>> altered(Choice("a spec", "caller", "given as spec="), source="tuned")
    Choice(spec='a spec', source='tuned', reason='given as spec=')
    """
    copy = object.__new__(type(spec))
    copy.__dict__.update(spec.__dict__, **fields)
    return copy


def variants(spec: _Spec, **values: Iterable[Any]) -> list[_Spec]:
    """Copies of a specialization with every combination of these values of its fields; the last field varies fastest.

    >>> [one.source for one in variants(Choice("a spec", "caller", ""), source=("tuned", "model"))]
    ['tuned', 'model']
    """
    return [altered(spec, **dict(zip(values, combined, strict=True))) for combined in product(*values.values())]


_Function = TypeVar("_Function", bound=Callable[..., Any])


@dataclass(frozen=True)
class Choice:
    """A specialization, its source ("caller", "tuned", "model", "default", "candidate") and the reason."""

    spec: Any
    source: str
    reason: str


class ProblemFound(Exception):
    """`choose` raises this for a `SpecProbe`. It has the family, device and problem of the call."""

    def __init__(self, family: Family, device: Device, problem: Problem) -> None:
        super().__init__(f"{problem} on {device.name!r}")
        self.family, self.device, self.problem = family, device, problem


class SpecProbe:
    """As ``spec=`` of a public function, it makes the call raise `ProblemFound` before a kernel is built."""

    def __repr__(self) -> str:
        return f"<SpecProbe {id(self):x}>"  # part of plan keys, so it must be unique


@dataclass(slots=True, unsafe_hash=True)
class Key:
    """Stands for a value in the key of a cached plan; never equal to another type of value."""

    content: Hashable


@dataclass(slots=True, eq=False)
class Keyed:
    """An argument of a cached plan, with its key.

    The plan is made from `value` and cached by `key` alone. A function as key would keep every object alive that it
    refers to, also the user's largest ones.
    """

    value: Any
    key: Key
    __hash__ = None  # type: ignore[assignment]  # must not become part of a key


def cached_plan(function: _Function) -> _Function:
    """Decorator: cache the results of a function of a device and other arguments in ``device.plans``.

    The other arguments must be hashable or `Keyed`; the function gets the value of a `Keyed`. Results must not refer to
    such a value.
    """

    @functools.wraps(function)
    def found_or_made(device: Device, *arguments: Any) -> Any:
        key = (function, tuple([one.key if type(one) is Keyed else one for one in arguments]))
        found = device.plans.get(key, ABSENT)
        if found is not ABSENT:
            return found
        values = [one.value if type(one) is Keyed else one for one in arguments]
        return device.plans.make(key, function, device, *values)

    return cast(_Function, found_or_made)


def forget() -> None:
    """Drop all cached choices, and what was made from them: plans and recordings. Kernels stay. Call it when a
    provider's data changes."""
    for device in known_devices():
        device.choices.clear()
        device.plans.clear()
        device.recordings.clear()
