"""Python functions of values as C source: operators of scan and reduce, keys and comparisons of sort."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from pydp.lang.compile import translate_value
from pydp.lang.opencl.value_function import ValueText, lower_value


def vector_operator(fn: Callable[..., Any], argument_dtypes: Sequence[Any], result: Any = None) -> ValueText:
    """Translate `fn`, a function or lambda of values, to C source for the given argument dtypes.

    result: the dtype of the result. None keeps the dtype that the language's rules give; a returned tuple then becomes
    a record of its items. Raises VectorError, with the Python line, for code outside the language.

    >>> vector_operator(lambda a, b: a + b, ["float32", "float32"]).result
    dtype('float32')
    """
    arguments = [np.dtype(one) for one in argument_dtypes]
    return lower_value(translate_value(fn, arguments, None if result is None else np.dtype(result)))
