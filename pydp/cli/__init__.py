"""The command ``pydp``: a thin group that imports a command when it is used."""

from __future__ import annotations

import importlib

import click

_COMMANDS = {  # name -> (module, one line of help)
    "devices": ("pydp.cli.devices", "List the OpenCL devices, best first, and why a device is not used."),
    "doctor": ("pydp.cli.devices", "Check the OpenCL installation and say what to install."),
    "run": ("pydp.cli.run", "Run an algorithm on .npy files."),
    "explain": ("pydp.cli.explain", "Say what an algorithm would run and why, also for a GPU that is not present."),
    "demo": ("pydp.cli.demo", "Blur a photograph and classify digits, checked against NumPy."),
    "tune": ("pydp.cli.tune", "Find the fastest specializations on a device and store them."),
    "verify": ("pydp.cli.verify", "Check pydp's results on a device, measure its speed, and write a report."),
    "bench": ("pydp.cli.bench", "Measure algorithms against the device's limits and other libraries."),
}


class _LazyGroup(click.Group):
    """A group that imports a command only to run it or to show its help."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        return list(_COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        if cmd_name not in _COMMANDS:
            return None
        found = getattr(importlib.import_module(_COMMANDS[cmd_name][0]), cmd_name)
        assert isinstance(found, click.Command)
        return found

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        with formatter.section("Commands"):
            formatter.write_dl([(name, text) for name, (_, text) in _COMMANDS.items()])

    def invoke(self, ctx: click.Context) -> object:
        from pydp.errors import PydpError

        try:
            return super().invoke(ctx)
        except PydpError as error:
            raise click.ClickException(str(error)) from error
        except OSError as error:  # about a file given to the command; other OSErrors have no file name
            if error.filename is None:
                raise
            raise click.ClickException(f"{error.filename}: {error.strerror}") from error


@click.group(cls=_LazyGroup, context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(package_name="pydp")
def main() -> None:
    """Data-parallel primitives and user-written tiled kernels on any OpenCL device."""
