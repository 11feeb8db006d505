"""C text: identifiers, types and constants of private values, and blocks of indented lines."""

from __future__ import annotations

import functools
import re
from typing import Any

import numpy as np

from pydp import dtypes
from pydp.dtypes import c_literal
from pydp.lang.ir.data import wrap

_PLAIN = re.compile(r"[A-Za-z0-9_]*\Z")


def identifier(prefix: str, name: str) -> str:
    """A C identifier for a Python name: `prefix` and the name, in hexadecimal if C does not allow it.

    The prefix prevents conflicts with keywords and functions of OpenCL C.
    """
    if _PLAIN.match(name) and not name.startswith("0x"):
        return prefix + name
    return f"{prefix}0x{name.encode().hex()}"


@functools.lru_cache(maxsize=512)
def private_type(dtype: Any) -> str:
    """The C type of a private value: the type in memory, except ``int`` for bool (with the values 0 and 1)."""
    return "int" if dtype == np.bool_ else dtypes.c_name(dtype)


def unsigned_type(dtype: np.dtype[Any]) -> str:
    """The unsigned C type in which integers of `dtype` are added and multiplied, because it wraps."""
    return "ulong" if dtype.itemsize == 8 else "uint"


def constant(value: Any, dtype: np.dtype[Any]) -> str:
    """C text of a private constant: :func:`pydp.dtypes.c_literal`, with integers wrapped to their type."""
    if dtype == np.bool_:
        return "1" if value else "0"
    if dtype.kind in "iu":
        return c_literal(wrap(int(value), dtype), dtype)
    return c_literal(value, dtype)


def to_memory(text: str, dtype: np.dtype[Any]) -> str:
    """A private value's text, converted for memory (bool is a byte)."""
    return f"(uchar)({text})" if dtype == np.bool_ else text


def from_memory(text: str, dtype: np.dtype[Any]) -> str:
    """An element's text, converted to a private value."""
    return f"({text} != 0)" if dtype == np.bool_ else text


class Block:
    """Lines of C, with indentation and unused names for temporaries."""

    def __init__(self, depth: int = 0, counter: list[int] | None = None) -> None:
        self.lines: list[str] = []
        self.depth = depth
        self._counter = [0] if counter is None else counter

    def line(self, text: str) -> None:
        """Add a line."""
        self.lines.append("    " * self.depth + text)

    def open(self, text: str) -> None:
        """Open a compound statement: `text` and a brace."""
        self.line(text + " {")
        self.depth += 1

    def close(self, after: str = "") -> None:
        """Close a compound statement; `after` follows the brace."""
        self.depth -= 1
        self.line("}" + after)

    def fresh(self, prefix: str = "t") -> str:
        """A name that is not yet used in this text."""
        self._counter[0] += 1
        return f"{prefix}_{self._counter[0]}"

    def temporary(self, c_type: str, text: str) -> str:
        """Declare a constant with the value `text`; returns its name."""
        name = self.fresh()
        self.line(f"const {c_type} {name} = {text};")
        return name

    def inner(self) -> Block:
        """An empty block that shares the names of this one, to be appended with :meth:`extend`."""
        return Block(0, self._counter)

    def extend(self, block: Block) -> None:
        """Append the lines of an inner block, with the indentation of this one."""
        self.lines += ["    " * self.depth + line for line in block.lines]

    def __str__(self) -> str:
        return "\n".join(self.lines)
