"""Algorithm names as command-line arguments."""

from __future__ import annotations

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


class WithNames(click.Command):
    """A command whose help ends with the names of all algorithms."""

    def format_epilog(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Write the names."""
        self.epilog = f"ALGORITHM is one of {', '.join(algorithms())}."
        super().format_epilog(ctx, formatter)
