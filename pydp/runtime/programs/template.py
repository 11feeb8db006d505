"""Rendering: Mako templates of ``kernels_cl`` with plain values, nothing undefined.

A user's text (an operator written in OpenCL C) goes in as a value; it is never template source, and no
caller chooses a template's name from user input.
"""

from __future__ import annotations

import functools
import threading
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from pydp.errors import BuildFailed
from pydp.runtime.forks import fork_safe

_lock = fork_safe(threading.RLock())  # a finalizer or a signal handler may ask while its thread holds it
# CPython 3.11 counts the depth of the syntax trees that all threads make in one place, and raises SystemError where two
# make one at once: Mako does when it compiles a template, and whoever reads Python functions takes this as well.
parsing = fork_safe(threading.RLock())
_extra_folders: list[str] = []


def folder() -> Path:
    """Where the kernels lie: ``kernels_cl`` beside the package in a checkout, else installed as ``pydp.kernels_cl``."""
    import pydp

    package = Path(pydp.__file__).parent
    for candidate in (package.parent / "kernels_cl", package / "kernels_cl"):
        if (candidate / "probe.mako").exists():
            return candidate
    import importlib.resources

    return Path(str(importlib.resources.files("pydp.kernels_cl")))


def add_folder(path: str | Path) -> None:
    """Let templates of `path` be rendered as well (tests with templates of their own)."""
    with _lock:
        if str(path) not in _extra_folders:
            _extra_folders.append(str(path))
            _lookup.cache_clear()


@functools.cache
def _lookup() -> Any:
    from mako.lookup import TemplateLookup

    found = TemplateLookup(
        directories=[str(folder()), *_extra_folders],
        strict_undefined=True,
        input_encoding="utf-8",
        filesystem_checks=False,
    )
    # Mako holds this lock while it compiles a template, and a finalizer or a signal handler may need one meanwhile.
    found._mutex = threading.RLock()
    return found


def render(template: str, params: Mapping[str, object]) -> str:
    """The OpenCL C text of `template` (a file name in ``kernels_cl``) with `params`.

    A name that the template uses and `params` lacks is an error (BuildFailed, with the template's line).
    """
    from mako import exceptions

    with _lock:
        lookup = _lookup()
    try:
        with parsing:  # the templates that a template takes blocks from are compiled as it is rendered
            return str(lookup.get_template(template).render_unicode(**params))
    except exceptions.TopLevelLookupException as error:
        raise BuildFailed(f"there is no template {template!r} in {folder()}", template=template) from error
    except Exception as error:
        with parsing:
            where = exceptions.text_error_template().render().strip()
        raise BuildFailed(
            f"template {template!r} cannot be rendered: {error}\n{where}", template=template, params=dict(params)
        ) from error
