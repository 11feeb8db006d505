"""Faults in the text of kernels, for the process of the checks: its command is `COMMAND.format(fault=...)`."""

from __future__ import annotations

from collections.abc import Mapping

from pydp.runtime.programs import program

COMMAND = "import seeded_faults; seeded_faults.{fault}(); from pydp.verify.worker import main; main()"
_RENDER = program.render


def wrong_sums() -> None:
    """Sums of 32-bit integers are one too large for each addition."""

    def render(template: str, params: Mapping[str, object]) -> str:
        return _RENDER(template, params).replace("as_uint(a) + as_uint(b)", "as_uint(a) + as_uint(b) + 1u")

    program.render = render


def endless_scan() -> None:
    """Scans with permuted groups never end."""

    def render(template: str, params: Mapping[str, object]) -> str:
        text = _RENDER(template, params)
        if params.get("order") != "permuted":
            return text
        before, after = text.split(" void scan(")
        head, body = after.split(") {", 1)
        return f"{before} void scan({head}) {{ local volatile int endless; endless = 1; while (endless) {{}}{body}"

    program.render = render
