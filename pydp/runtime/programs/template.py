"""Rendering of the Mako templates in ``kernels_cl``. Undefined names are errors.

User text (an operator written in OpenCL C) is passed as a value and is never template source. Template names never come
from user input.
"""

from __future__ import annotations

import functools
import threading
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from pydp.errors import BuildFailed
from pydp.runtime.forks import fork_safe

_lock = fork_safe(threading.RLock())  # reentrant for finalizers and signal handlers
# CPython 3.11 has one depth counter for the syntax trees of all threads. It raises SystemError if two threads build one
# at the same time. Mako builds one when it compiles a template; code that parses Python functions takes this lock too.
parsing = fork_safe(threading.RLock())
_extra_folders: list[str] = []
# Templates write ${one_lane} at kernels whose work-groups have one work-item, which handles vectors. Without the hint
# Intel's compiler vectorizes these kernels across work-items too, and takes up to three times as long.
_FOR_ALL = {"one_lane": "__attribute__((vec_type_hint(float16)))"}


def folder() -> Path:
    """The folder of the kernel templates: ``kernels_cl`` in a checkout, or the installed ``pydp.kernels_cl``."""
    import pydp

    package = Path(pydp.__file__).parent
    for candidate in (package.parent / "kernels_cl", package / "kernels_cl"):
        if (candidate / "probe.mako").exists():
            return candidate
    import importlib.resources

    return Path(str(importlib.resources.files("pydp.kernels_cl")))


def add_folder(path: str | Path) -> None:
    """Add a folder of templates, for tests."""
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
    # Mako holds this lock while it compiles a template; a finalizer or a signal handler may render one meanwhile.
    found._mutex = fork_safe(threading.RLock())
    return found


def render(template: str, params: Mapping[str, object]) -> str:
    """Render `template` (a file name in ``kernels_cl``) with `params` to OpenCL C.

    Raises BuildFailed, with the line of the template, if the template uses a name that `params` lacks.
    """
    from mako import exceptions

    with _lock:
        lookup = _lookup()
    try:
        with parsing:  # rendering compiles the templates that this one includes
            return str(lookup.get_template(template).render_unicode(**_FOR_ALL, **params))
    except exceptions.TopLevelLookupException as error:
        raise BuildFailed(f"there is no template {template!r} in {folder()}", template=template) from error
    except Exception as error:
        with parsing:
            where = exceptions.text_error_template().render().strip()
        raise BuildFailed(
            f"template {template!r} cannot be rendered: {error}\n{where}", template=template, params=dict(params)
        ) from error
