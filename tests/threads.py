"""Run the same few functions in several threads, which change as often as the interpreter lets them."""

from __future__ import annotations

import sys
import threading
from collections.abc import Callable, Iterable

OFTEN = 1e-6  # seconds between changes of threads


def together(functions: Iterable[Callable[[], object]]) -> list[BaseException]:
    """Run each function in a thread of its own, all at the same time; return the errors that they raised."""
    raised: list[BaseException] = []

    def run(function: Callable[[], object]) -> None:
        try:
            function()
        except BaseException as error:
            raised.append(error)

    before = sys.getswitchinterval()
    sys.setswitchinterval(OFTEN)
    try:
        threads = [threading.Thread(target=run, args=(function,)) for function in functions]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    finally:
        sys.setswitchinterval(before)
    return raised
