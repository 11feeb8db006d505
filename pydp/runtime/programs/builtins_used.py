"""Declarations of the built-in functions that a program uses, for drivers that otherwise parse all of them.

PoCL and Oclgrind put clang's header ``opencl-c.h`` before every program. Its 18,000 lines take a tenth to a quarter of
a second, ten times the rest of a small program. The header has an include guard: a program that defines the guard's
macro skips the header. Its source then begins with the same declarations, but only of the functions whose names occur
in it. If a program does not build with these declarations, it is built with the whole header.
"""

from __future__ import annotations

import ctypes
import functools
import re
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from pydp.runtime.forks import proc_text

if TYPE_CHECKING:
    from pydp.runtime.device.core import DeviceCore

GUARD = "_OPENCL_H_"
_COMMENT = re.compile(r"/\*.*?\*/|//[^\n]*", re.DOTALL)
_DIRECTIVE = re.compile(r"^[ \t]*#[^\n]*$", re.MULTILINE)
_KIND = re.compile(r"\s*#\s*(\w+)")
_CALLED = re.compile(r"(\w+)\s*\(")
_INCLUDE = re.compile(r'^[ \t]*#[ \t]*include[ \t]*["<]([^">]+)[">][^\n]*$', re.MULTILINE)
_FILE_GUARD = re.compile(r"^#ifndef (\w+)\s+#define \1$", re.MULTILINE)
_GUARDED = ("_clang_opencl.h", "opencl-c.h")
_WORD = re.compile(r"[A-Za-z_]\w*")


class Header:
    """A header of declarations, indexed by the names of its functions.

    Its items are preprocessor directives and statements. A declaration of a function is wanted if a program contains
    its name; all other items are always wanted. An item brings the ``#if`` ... ``#endif`` around it.
    """

    def __init__(self, text: str) -> None:
        self._items: list[str] = []
        self._around: list[tuple[list[int], ...]] = []  # the conditionals around each item, outermost first
        self._always: list[int] = []
        self._named: dict[str, list[int]] = {}
        open_conditionals: list[list[int]] = []
        text = _COMMENT.sub(" ", text).replace("\\\n", " ")
        start, macros = 0, set()
        for directive in _DIRECTIVE.finditer(text):
            self._add_statements(text[start : directive.start()], open_conditionals)
            start, line = directive.end(), directive.group().strip()
            kind = _KIND.match(line)
            word, number = kind[1] if kind else "", len(self._items)
            if word.startswith("if"):
                open_conditionals.append([])
            if word.startswith(("if", "el", "endif")):
                if not open_conditionals:
                    raise ValueError(f"the conditionals of the header are not balanced: {line}")
                open_conditionals[-1].append(number)
            else:
                self._always.append(number)
                macros.update(_WORD.findall(line))
            self._items.append(line)
            self._around.append(tuple(open_conditionals))
            if word == "endif":
                open_conditionals.pop()
        if open_conditionals:
            raise ValueError("a conditional of the header is not closed")
        self._add_statements(text[start:], open_conditionals)
        self._always += [number for name in macros for number in self._named.get(name, ())]

    def _add_statements(self, text: str, open_conditionals: list[list[int]]) -> None:
        around = tuple(open_conditionals)
        for statement in text.split(";"):
            number = len(self._items)
            before, parenthesis, _ = statement.partition("(")
            if parenthesis:
                names = before.rsplit(None, 1)[-1:]
                for called in names if names != ["__attribute__"] else _CALLED.findall(statement):
                    if called != "__attribute__":
                        self._named.setdefault(called, []).append(number)
            elif statement.isspace() or not statement:
                continue
            else:
                self._always.append(number)
            self._items.append(statement + ";")
            self._around.append(around)

    @property
    def names(self) -> frozenset[str]:
        """The functions that the header declares, and words that look like functions there."""
        return frozenset(self._named)

    def declarations(self, source: str) -> str:
        """The part of the header that `source` needs."""
        wanted = set(self._always)
        for word in set(_WORD.findall(source)):
            wanted.update(self._named.get(word, ()))
        for number in tuple(wanted):
            for conditional in self._around[number]:
                wanted.update(conditional)
        return "\n".join(self._items[number] for number in sorted(wanted))


def with_declarations(device: DeviceCore, source: str) -> str | None:
    """`source` after the declarations that it needs, to be built with the macro GUARD; None if the whole header is
    needed: it is not found, or macros of `source` may join names (``##``).
    """
    header = None if "##" in source else header_of(device)
    if header is None:
        return None
    return f"#undef {GUARD}\n{header.declarations(source)}\n{source}"


def header_of(device: DeviceCore) -> Header | None:
    """The header of a device's driver; None if it is not found."""
    if device.quirks.builtin_header is None:
        return None
    return _header(_libraries_of(device.cl.int_ptr, device.quirks.builtin_header[0]), device.quirks.builtin_header[1])


@functools.lru_cache(maxsize=8)
def _libraries_of(handle: int, name: str) -> tuple[Path, ...]:
    """The files of a driver's library. If there are several, for example of several versions, that of the device at
    `handle` comes first. A driver may have its header beside another one of them."""
    places = _libraries(name)
    if len(places) > 1:
        found = _files_at(_functions_of(handle), proc_text("maps").splitlines())
        places.sort(key=lambda path: path not in found)
    return tuple(places)


@functools.lru_cache(maxsize=8)
def _header(libraries: tuple[Path, ...], root: str) -> Header | None:
    """The header `root`, a path from a folder above one of the driver's libraries."""
    for path in libraries:
        for folder in path.parents[:3]:
            for found in sorted(folder.glob(root)):
                try:
                    return Header(_expanded(found))
                except (OSError, ValueError):  # not readable, or not the expected text
                    continue
    return None


def _libraries(name: str) -> list[Path]:
    """The files of the shared libraries in this process whose names begin with `name`; none where the system does not
    list them.
    """
    paths = {Path(line.split(maxsplit=5)[5]) for line in proc_text("maps").splitlines() if f"/{name}" in line}
    return sorted(path for path in paths if path.name.startswith(name))


def _functions_of(handle: int) -> list[int]:
    """The addresses of the first functions of the driver that made an object of OpenCL. The object begins with a
    pointer to a table of them (cl_khr_icd)."""
    table = ctypes.c_void_p.from_address(handle).value
    return [] if table is None else [one or 0 for one in (ctypes.c_void_p * 8).from_address(table)]


def _files_at(addresses: Sequence[int], maps: Sequence[str]) -> set[Path]:
    """The files whose contents are at one of the addresses."""
    found = set()
    for line in maps:
        fields = line.split(maxsplit=5)
        if len(fields) == 6:
            start, end = (int(one, 16) for one in fields[0].split("-"))
            found |= {Path(fields[5]) for one in addresses if start <= one < end}
    return found


def _expanded(path: Path) -> str:
    """The text of a header after the files that it includes behind the guard.

    PoCL's ``_kernel.h`` includes ``_clang_opencl.h``, which includes ``opencl-c.h``, and then changes macros. The
    driver has read the text before that, and all other files that they include, such as ``opencl-c-base.h`` with the
    types.
    """
    text = path.read_text()
    if path.name == "_kernel.h":
        text = text[text.index('#include "_clang_opencl.h"') :]
    if guarded := _FILE_GUARD.search(text):
        text = f"#undef {guarded[1]}\n{text}"
    return _INCLUDE.sub(lambda found: _expanded(path.parent / found[1]) if found[1] in _GUARDED else "", text)
