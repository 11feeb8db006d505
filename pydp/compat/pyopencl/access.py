"""Which arrays the C text of a caller reads and writes, and at which index. If the text is unclear, the array counts as
read and written at any index."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any

import pyopencl as cl

_ASSIGNMENT = r"(?:(?:[-+*/%&|^]|<<|>>)?=(?!=)|\+\+|--)"
_ASSIGNED = re.compile(rf"[\s)]*{_ASSIGNMENT}")
_STORE = re.compile(r"(?<![=!<>])=(?!=)|<<=|>>=|\+\+|--")
_POINTER_STORE = re.compile(
    rf"(?:\]|->\s*\w+)(?:\s*\.\s*\w+)*[\s)]*{_ASSIGNMENT}|\*[\s(]*\w[^;{{}}]*?{_ASSIGNMENT}"
    r"|(?:\+\+|--)[\s(]*(?:\*|\w+\s*(?:\[|->))"
)
_MEMBER = re.compile(r"\s*\.\s*\w+")
_INCREMENTED = re.compile(r"(?:\+\+|--)[\s(]*$")
_ADDRESS = re.compile(r"(?:^|[^&\w\]\s]|\breturn)\s*&[\s(]*$")  # after `)` it may be a cast: an address, in doubt
_ATOMIC = re.compile(r"\batom(?:ic)?_\w+")
_INDEX = re.compile(r"(?<![\w.])(?<!->)i\b")
_DEFINE = re.compile(r"#\s*define\s+(\w+)(\([^)]*\))?")
_DECLARED = re.compile(r"(?<![\w.])(?!(?:case|else|return|sizeof)\b)[A-Za-z_]\w*\s+i\b")
_INCLUDE = re.compile(r"#\s*include(?!\s*<pyopencl-complex\.h>)")
_FUNCTION = re.compile(r"(\w+)\s*\(([^(){};]*)\)\s*\{")
_STORING_BUILTIN = re.compile(r"vstore\w*|fract|frexp|lgamma_r|modf|remquo|sincos|async_\w+")
_ANY_CALL = r"(?!(?:if|for|while|switch|return|sizeof)$)\w+"


@dataclass(frozen=True)
class Access:
    """Uses of one argument in a text. elsewhere: may use an index other than i; written: may be written."""

    used: bool = False
    elsewhere: bool = False
    written: bool = False

    def __or__(self, other: Access) -> Access:
        return Access(self.used or other.used, self.elsewhere or other.elsewhere, self.written or other.written)


def plain(text: str) -> str:
    """C text without comments, continued lines and pyopencl's mark of OpenCL text."""
    text = text.replace("//CL//", "\n").replace("\\\n", " ")
    return re.sub(r"/\*.*?\*/|//[^\n]*", " ", text, flags=re.DOTALL)


def _closing(text: str, at: int) -> int:
    """The index after the bracket that closes the one at `at`; the end of the text if there is none."""
    depth = 0
    for place in range(at, len(text)):
        depth += {"[": 1, "]": -1}.get(text[place], 0)
        if not depth:
            return place + 1
    return len(text)


def _calls(before: str) -> set[str]:
    """The functions and macros in whose parentheses the end of `before` is."""
    found = set()
    depth = 0
    for at in range(len(before) - 1, -1, -1):
        depth += {")": 1, "(": -1}.get(before[at], 0)
        if depth < 0:
            depth = 0
            name = re.search(r"(\w+)\s*$", before[:at])
            if name:
                found.add(name[1])
    return found


def _uses(text: str, name: str) -> Iterator[re.Match[str]]:
    return re.finditer(rf"(?<![\w.]){re.escape(name)}\b\s*", text)


def access(text: str, name: str, storing: str = "") -> Access:
    """How `text` uses argument `name`. `storing` is an expression for the names of macros that may store."""
    text = plain(text)
    found = Access()
    moved = index_changes(text)
    for match in _uses(text, name):
        at, before = match.end(), text[: match.start()]
        if text[at : at + 1] != "[":
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
        address = bool(_ADDRESS.search(before))
        written = address or bool(_ASSIGNED.match(text, end)) or bool(_INCREMENTED.search(before))
        if storing and not written:
            written = any(re.fullmatch(storing, one) for one in _calls(before))
        found |= Access(True, moved or address or index.strip() != "i", written)
    return found


def index_changes(text: str) -> bool:
    """Whether `i` may have another value than the index of the element somewhere in `text`."""
    text = plain(text)
    for name, parameters in _DEFINE.findall(text):
        if name == "i" or _INDEX.search(parameters):
            return True
    text = _DEFINE.sub(";", text)
    if _DECLARED.search(text):
        return True
    for match in _INDEX.finditer(text):
        before = text[: match.start()]
        if _ASSIGNED.match(text, match.end()) or _INCREMENTED.search(before) or _ADDRESS.search(before):
            return True
    return False


def macros(preamble: str, options: Any = None) -> str:
    """The preprocessor's lines and options: macros may use the arguments of kernels, as functions cannot."""
    lines = [line for line in plain(preamble).splitlines() if line.lstrip().startswith("#")]
    given = options if isinstance(options, str) else " ".join(map(str, options or ()))
    given = re.sub(r"-cl-\S+", "", given)
    defined = re.sub(r"-D\s*(\w+(?:\([^)]*\))?)=?", r"\n#define \1 ", given)
    return "\n".join([*lines, *(line for line in defined.splitlines() if line.startswith("#"))])


def storing_macros(defined: str) -> str:
    """A regular expression for the names of macros that may store to their parameters. "" if none does."""
    if _INCLUDE.search(defined):
        return _ANY_CALL
    if not _STORE.search(defined):
        return ""
    return "|".join(name for name, _ in _DEFINE.findall(defined))


def has_effects(text: str, names: Iterable[str], storing: str = "") -> bool:
    """Whether evaluating an expression twice may differ from evaluating it once."""
    text = plain(text)
    if _ATOMIC.search(text):
        return True
    return bool(_STORE.search(text)) and any(access(text, name, storing).written for name in names)


def has_effects_in_functions(text: str, names: Iterable[str], preamble: str) -> bool:
    """As :func:`has_effects`, through the pointers that `text` passes to functions and macros of `preamble`."""
    text, preamble = plain(text), plain(preamble)
    if _ATOMIC.search(preamble):
        return True
    stores, included = bool(_POINTER_STORE.search(preamble)), bool(_INCLUDE.search(preamble))
    pure = set()
    if not re.search(r"\btypedef\b[^;]*\*", preamble):
        for function, parameters in _FUNCTION.findall(preamble):
            if all(_is_read_only(one) for one in parameters.split(",")):
                pure.add(function)
    for name in names:
        for match in _uses(text, name):
            before = text[: match.start()]
            if text[match.end() : match.end() + 1] == "[" and not _ADDRESS.search(before):
                continue
            for called in _calls(before) - pure:
                if re.search(rf"\b{called}\b", preamble):
                    if stores or included or _STORING_BUILTIN.search(preamble):
                        return True
                elif _STORING_BUILTIN.fullmatch(called) or (included and not called.startswith("vload")):
                    return True
    return False


def _is_read_only(parameter: str) -> bool:
    """Whether a function cannot store through `parameter`."""
    kind, pointer, _ = parameter.replace("[", "*").partition("*")
    return not pointer or bool(re.search(r"\bconst\b", kind))


def memory_of(value: Any) -> object:
    """An identity of the memory of an array: equal for arrays that may overlap, None if it is unknown."""
    buffer = getattr(value, "base_data", value)
    if not isinstance(buffer, cl.MemoryObjectHolder):
        return None
    parent = buffer.get_info(cl.mem_info.ASSOCIATED_MEMOBJECT) if isinstance(buffer, cl.Buffer) else None
    return buffer.int_ptr if parent is None else parent.int_ptr
