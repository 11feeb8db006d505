"""The commands ``pydp devices`` and ``pydp doctor``."""

from __future__ import annotations

import dataclasses
import json
from typing import TYPE_CHECKING, Any

import click

if TYPE_CHECKING:
    from rich.table import Table

    from pydp.runtime.drivers.devices import Device


@click.command()
@click.option("-v", "--verbose", is_flag=True, help="Show every value of each device's profile and its source.")
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
def devices(verbose: bool, as_json: bool) -> None:
    """List the OpenCL devices, best first, and why a device is not used.

    pydp.device(number) and PYDP_DEVICE accept the number in the first column; * marks the default device.
    """
    from rich.console import Console

    from pydp.runtime.drivers.devices import all_devices

    known = all_devices()
    if as_json:
        click.echo(json.dumps([_record(one) for one in known], indent=2))
        return
    console = Console()
    if not known:
        console.print("no OpenCL device was found; `pydp doctor` says what to install")
        return
    console.print(_overview(known))
    if verbose:
        for one in known:
            console.print(_profile_table(one))


def _overview(known: list[Device]) -> Table:
    from rich.markup import escape
    from rich.table import Column, Table

    # Few columns with several lines each fit into 80 characters. Longer text is folded, never truncated.
    names = ("", "device and driver", "kind", "memory", "able to", "state")
    table = Table(*(Column(name, overflow="fold") for name in names), show_lines=True)
    default = _default()
    number = 0
    for one in known:
        profile = one.profile
        label = ""
        if one.usable:
            label, number = f"{number}{'*' if one is default else ''}", number + 1
        abilities = [name.replace("_", " ") for name in ("fp64", "fp16", "int64_atomics") if getattr(profile, name)]
        if profile.subgroup_sizes:
            abilities.append("subgroups " + "/".join(str(size) for size in profile.subgroup_sizes))
        table.add_row(
            label,
            escape(f"{one.name}\n{one.platform} {one.driver_version}"),
            f"{one.kind}{' (simulator)' if profile.is_simulator else ''}\n{profile.compute_units} unit(s)\n"
            f"groups to {profile.max_group_size}",
            f"{_bytes(profile.global_bytes)}\n{_bytes(profile.local_bytes)} local",
            ", ".join(abilities),
            escape(one.reason or "usable"),
        )
    return table


def _profile_table(one: Device) -> Table:
    from rich.table import Table

    table = Table("value", "", "from", title=f"{one.name} ({one.platform}), {one.uid}", title_justify="left")
    for field in dataclasses.fields(one.profile):
        if field.name not in ("sources", "extensions"):
            value = getattr(one.profile, field.name)
            shown = _bytes(value) if field.name.endswith(("_bytes", "_allocation")) else str(value)
            table.add_row(field.name, shown, one.profile.sources.get(field.name, ""))
    return table


def _record(one: Device) -> dict[str, Any]:
    profile = {
        field.name: sorted(value) if isinstance(value, frozenset) else value
        for field in dataclasses.fields(one.profile)
        for value in [getattr(one.profile, field.name)]
        if field.name != "sources"
    }
    plain = ("name", "vendor", "platform", "driver", "driver_version", "kind", "uid", "reason")
    return {**{name: getattr(one, name) for name in plain}, "profile": profile, "sources": dict(one.profile.sources)}


def _default() -> Device | None:
    from pydp.errors import NoUsableDevice
    from pydp.runtime.drivers.devices import device

    try:
        return device()
    except NoUsableDevice:
        return None


def _bytes(count: int) -> str:
    for unit, size in (("GiB", 1 << 30), ("MiB", 1 << 20), ("KiB", 1 << 10)):
        if count >= size:
            return f"{count / size:.4g} {unit}"
    return f"{count} B"


@click.command()
def doctor() -> None:
    """Check the OpenCL installation and say what to install.

    Probes every device again. The exit status is 1 if calls without device= fail: no device is usable, or PYDP_DEVICE
    or PYOPENCL_CTX names no usable device.
    """
    from rich.console import Console
    from rich.text import Text

    from pydp.runtime.drivers.doctor import examine

    console = Console(highlight=False)
    style = {"good": "green", "note": "cyan", "bad": "red", "fail": "bold red"}
    findings = examine()
    for finding in findings:
        console.print(Text(f"{finding.level:>4}  ", style[finding.level]) + Text(finding.text, ""), soft_wrap=True)
    if any(finding.level == "fail" for finding in findings):
        raise SystemExit(1)
