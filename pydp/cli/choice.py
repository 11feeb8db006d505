"""Algorithm names as command-line arguments."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

import click

from pydp.algorithms.registry import Algorithm, algorithms


class AlgorithmName(click.ParamType):
    """Converts the name of a registered algorithm to its `Algorithm`."""

    name = "algorithm"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Algorithm:
        """Find the algorithm; for an unknown name, end the command with the accepted names."""
        known = algorithms()
        if isinstance(value, Algorithm):
            return value
        if value not in known:
            self.fail(f"{value!r} is not one of {', '.join(known)}.", param, ctx)
        return known[value]


def ends_with_names(metavar: str, names: Callable[[], Iterable[str]]) -> type[click.Command]:
    """The class of a command whose help ends with the accepted values of an argument."""

    class Command(click.Command):
        def format_epilog(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
            self.epilog = f"{metavar} is one of {', '.join(names())}."
            super().format_epilog(ctx, formatter)

    return Command


WithAlgorithms = ends_with_names("ALGORITHM", algorithms)
