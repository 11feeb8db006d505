"""Operators, predicates and keys from Python functions: what scan, reduce, sort and select take as `op`."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from pydp.lang.compile import translate_value
from pydp.lang.opencl.value_function import ValueText, lower_value


def vector_operator(fn: Callable[..., Any], argument_dtypes: Sequence[Any], result: Any = None) -> ValueText:
    """`fn`, a vector function, plain function or lambda of values, as C text for the given argument dtypes.

    result: the dtype to convert the returned value to (None: the one that the language's rules give; a tuple is
    then a record of its items). Raises VectorError, with the line of Python, for what the language does not have.

    >>> vector_operator(lambda a, b: a + b, ["float32", "float32"]).result
    dtype('float32')
    """
    arguments = [np.dtype(one) for one in argument_dtypes]
    return lower_value(translate_value(fn, arguments, None if result is None else np.dtype(result)))
