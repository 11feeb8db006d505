"""Names of algorithms and benchmarks as command-line arguments, and options of several commands."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import click

from pydp.algorithms.discovery import algorithms
from pydp.algorithms.registry import Algorithm


class Name(click.ParamType):
    """Converts a name to its value in a mapping."""

    def __init__(self, name: str, known: Callable[[], Mapping[str, Any]]) -> None:
        self.name, self.known = name, known

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        """Find the value; for an unknown name, end the command with the accepted names."""
        known = self.known()
        if isinstance(value, str) and value not in known:
            self.fail(f"{value!r} is not one of {', '.join(known)}.", param, ctx)
        return known[value] if isinstance(value, str) else value


def ends_with_names(metavar: str, names: Callable[[], Mapping[str, Any]]) -> type[click.Command]:
    """The class of a command whose help ends with the accepted values of an argument."""

    class Command(click.Command):
        def format_epilog(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
            self.epilog = f"{metavar} is one of {', '.join(names())}."
            super().format_epilog(ctx, formatter)

    return Command


def tunable() -> dict[str, Algorithm]:
    """The algorithms that have specializations."""
    return {name: one for name, one in algorithms().items() if one.tunable}


WithAlgorithms = ends_with_names("ALGORITHM", algorithms)
WithTunable = ends_with_names("ALGORITHM", tunable)
ALGORITHM = Name("algorithm", algorithms)
device_option = click.option(
    "-d", "--device", "which", default=None, help="Device: index, part of its name, 'cpu' or 'gpu'."
)
