"""Helper functions that generated C calls: their parameters for lane_functions.mako, and their text."""

from __future__ import annotations

import re
from collections.abc import Iterable

from pydp.runtime.programs import program

_BITS = {"char": 8, "short": 16, "int": 32, "long": 64, "half": 16, "float": 32, "double": 64, "real": 64}
_INTEGER = {8: "char", 16: "short", 32: "int", 64: "long"}
_VECTOR = re.compile(r"([a-z]+?)(\d*)\Z")


def describe(kind: str, c_type: str) -> dict[str, object]:
    """The parameters of lane_functions.mako for the function ``lane_KIND_TYPE``."""
    matched = _VECTOR.match(c_type)
    assert matched is not None, c_type
    base, width = matched[1], matched[2]
    bare = base if base in _BITS else base[1:]
    bits = _BITS[bare]
    wide = "long" if bits == 64 else "int"
    return {
        "kind": kind,
        "type": c_type,
        "base": base,
        "width": int(width or 1),
        "bits": bits,
        "wide": ("u" + wide if base[0] == "u" else wide) + width,
        "unsigned": "u" + wide + width,
        "signed": _INTEGER[bits] + width,
    }


def text(helpers: Iterable[tuple[str, str]]) -> str:
    """C text of the functions ``lane_KIND_TYPE`` for (kind, type) pairs, each once, in a fixed order."""
    wanted = sorted(set(helpers))
    if not wanted:
        return ""
    return program.render("lane_functions.mako", {"helpers": [describe(*one) for one in wanted]})
