"""Gives a released pyopencl array to each parameter of each algorithm, one at a time; run in a process of its own.

Prints "NAME PARAMETER" before each call, so that a crash shows its call, and "NAME PARAMETER: ERROR" after a call that
raises anything else than pydp's errors and TypeError, or nothing. A parameter may accept any value, such as out=.
"""

from __future__ import annotations

import inspect
from typing import Any

import numpy as np
import pyopencl as cl
import pyopencl.array as cl_array

import pydp
from pydp.algorithms.discovery import algorithms
from pydp.algorithms.registry import values_of


def arguments(algorithm: Any, kind: str) -> tuple[tuple[Any, ...], dict[str, Any]]:
    """A small call that the algorithm accepts."""
    shapes = next(found for size in ((30,), (6, 5), (6, 5, 4)) if (found := algorithm.shapes(size)) is not None)
    return algorithm.passed(values_of(algorithm, shapes, np.dtype(kind)), dict(algorithm.options))


def released(queue: Any) -> Any:
    one = cl_array.to_device(queue, np.arange(5, dtype=np.int32))
    one.data.release()
    return one


def call(function: Any, given: dict[str, Any]) -> None:
    """Call a function by the names of its parameters; those of a parameter such as *arrays follow the others."""
    parameters = inspect.signature(function).parameters.values()
    starred = next((one.name for one in parameters if one.kind == one.VAR_POSITIONAL), None)
    if starred is None:
        function(**given)
        return
    first = [one.name for one in parameters if one.kind == one.POSITIONAL_OR_KEYWORD and one.name in given]
    named = {name: value for name, value in given.items() if name not in (*first, starred)}
    function(*(given[name] for name in first), *given.get(starred, ()), **named)


def main() -> None:
    device = pydp.device()
    queue = cl.CommandQueue(device.context, device.cl)
    for name, algorithm in algorithms().items():
        signature = inspect.signature(algorithm.function)
        try:
            args, options = arguments(algorithm, algorithm.dtype)
            bound = signature.bind(*args, **options)
        except (pydp.InvalidArgument, TypeError):  # of evaluate and random numbers: other arguments than arrays
            continue
        for parameter in signature.parameters.values():
            if parameter.name == "self" or parameter.kind in (parameter.VAR_POSITIONAL, parameter.VAR_KEYWORD):
                continue
            print(name, parameter.name, flush=True)
            try:
                call(algorithm.function, {**bound.arguments, parameter.name: released(queue)})
            except (pydp.PydpError, TypeError):
                continue
            except Exception as error:
                print(f"{name} {parameter.name}: {type(error).__name__}: {error}", flush=True)
            else:
                print(f"{name} {parameter.name}: no error", flush=True)
    print("done", flush=True)


if __name__ == "__main__":
    main()
