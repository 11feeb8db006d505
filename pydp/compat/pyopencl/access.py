"""Which arrays the C text of a caller reads and writes, and at which index. In doubt the answer is the safe one."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

import pyopencl as cl

_ASSIGNED = re.compile(r"\s*(?:[-+*/%&|^]|<<|>>)?=(?!=)|\s*(?:\+\+|--)")
_MEMBER = re.compile(r"\s*\.\s*\w+")
_TAKEN = re.compile(r"(?:\+\+|--|&)\s*\(?\s*$")
_ATOMIC = re.compile(r"\batom(?:ic)?_\w+")


@dataclass(frozen=True)
class Access:
    """Uses of one argument in a text. elsewhere: maybe at another index than i. written: maybe written."""

    used: bool = False
    elsewhere: bool = False
    written: bool = False

    def __or__(self, other: Access) -> Access:
        return Access(self.used or other.used, self.elsewhere or other.elsewhere, self.written or other.written)


def _closing(text: str, at: int) -> int:
    """The index after the bracket that closes the one at `at`; the end of the text if there is none."""
    depth = 0
    for place in range(at, len(text)):
        depth += {"[": 1, "]": -1}.get(text[place], 0)
        if not depth:
            return place + 1
    return len(text)


def access(text: str, name: str) -> Access:
    """How `text` uses argument `name`."""
    found = Access()
    for match in re.finditer(rf"(?<![\w.]){re.escape(name)}\b", text):
        at = match.end()
        while at < len(text) and text[at].isspace():
            at += 1
        if at == len(text) or text[at] != "[":
            return Access(True, True, True)  # a pointer that may be moved, dereferenced or passed on
        end = _closing(text, at)
        index = text[at + 1 : end - 1]
        while True:  # a member or an element of a vector or record
            member = _MEMBER.match(text, end)
            if member:
                end = member.end()
            elif text[end:].lstrip().startswith("["):
                end = _closing(text, text.index("[", end))
            else:
                break
        changed = bool(_ASSIGNED.match(text, end)) or bool(_TAKEN.search(text[: match.start()]))
        found |= Access(True, index.strip() != "i", changed)
    return found


def macros(text: str) -> str:
    """The macro definitions in `text`: they may use the arguments of kernels, as functions cannot."""
    joined = text.replace("\\\n", " ")
    return "\n".join(line for line in joined.splitlines() if line.lstrip().startswith("#"))


def has_effects(text: str, names: Iterable[str]) -> bool:
    """Whether evaluating an expression twice may differ from evaluating it once."""
    if _ATOMIC.search(text):
        return True
    return any(access(text, name).written and _assigns(text, name) for name in names)


def _assigns(text: str, name: str) -> bool:
    return bool(re.search(rf"\b{re.escape(name)}\b[^;]*(?:(?<![=!<>])=(?!=)|\+\+|--)", text))


def memory_of(value: Any) -> object:
    """What identifies the memory of an array: equal for arrays that may overlap, None if it is unknown."""
    buffer = getattr(value, "base_data", value)
    if not isinstance(buffer, cl.MemoryObjectHolder):
        return None
    parent = buffer.get_info(cl.mem_info.ASSOCIATED_MEMOBJECT) if isinstance(buffer, cl.Buffer) else None
    return buffer.int_ptr if parent is None else parent.int_ptr
