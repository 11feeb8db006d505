"""Helper functions that generated C calls: their parameters for lane_functions.mako, and their text."""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Any, NamedTuple

import numpy as np

from pydp.errors import UnsupportedOnDevice
from pydp.lang.ir import Atomic as AtomicUpdate
from pydp.lang.ir import Function
from pydp.lang.ir.diagnostics import excerpt
from pydp.runtime.device.profile import Profile
from pydp.runtime.programs import program

_BITS = {"char": 8, "short": 16, "int": 32, "long": 64, "half": 16, "float": 32, "double": 64, "real": 64}
_INTEGER = {8: "char", 16: "short", 32: "int", 64: "long"}
_WORDS = {"float": "uint", "double": "ulong"}
_VECTOR = re.compile(r"([a-z]+?)(\d*)\Z")


class Atomic(NamedTuple):
    """An atomic update: operation, address space, element type, and the integer type of its compare-and-swap."""

    op: str
    space: str
    type: str
    word: str


def atomic(op: str, space: str, c_type: str) -> Atomic:
    """The description of an atomic update for lane_atomics.mako."""
    return Atomic(op, space, c_type, _WORDS.get(c_type, c_type))


def unsupported_atomic(statement: AtomicUpdate, dtype: np.dtype[Any]) -> UnsupportedOnDevice:
    """The error of an atomic update of a dtype without one, with the user's line."""
    return UnsupportedOnDevice(
        f"atomic_{statement.op} does not support {dtype}; integers and floats of 32 and 64 bits are accepted\n"
        f"{excerpt(statement.where)}"
    )


def check_atomics(function: Function, atomics: Iterable[Atomic], profile: Profile) -> None:
    """Raise UnsupportedOnDevice for atomic updates of 64 bits on a device without them."""
    if has_wide(atomics) and not profile.int64_atomics:
        raise UnsupportedOnDevice(f"{function.name} updates 64-bit values atomically; this device cannot")


def has_wide(atomics: Iterable[Atomic]) -> bool:
    """Whether an atomic update has 64 bits."""
    return any(one.word.endswith("long") for one in atomics)


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


def text(helpers: Iterable[tuple[str, str]], atomics: Iterable[Atomic] = ()) -> str:
    """C text of the functions ``lane_KIND_TYPE`` for (kind, type) pairs, and of atomic updates, in a fixed order."""
    wanted, updates = sorted(set(helpers)), [one._asdict() for one in sorted(set(atomics))]
    functions = program.render("lane_functions.mako", {"helpers": [describe(*one) for one in wanted]}) if wanted else ""
    return functions + (program.render("lane_atomics.mako", {"atomics": updates}) if updates else "")
