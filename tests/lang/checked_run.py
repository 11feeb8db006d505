"""Runs functions in checked mode and returns the error, for its tests."""

from __future__ import annotations

import inspect

import numpy as np
import pytest

from pydp.lang.compile import FieldType, NumberType, translate
from pydp.lang.execute import checked

I1 = FieldType(np.dtype(np.int32), 1)
N = NumberType(np.dtype(np.int32), True)


def failure(fn, types, arrays, grid, group=None, parameters=()):
    made = translate(fn, len(grid), group, types)
    with pytest.raises(checked.CheckFailed) as caught:
        checked.run(made, grid, None, arrays, parameters)
    return caught.value


def line_of(fn, text):
    lines, first = inspect.getsourcelines(fn)
    return first + next(k for k, line in enumerate(lines) if text in line)


def ints(*values):
    return np.array(values, np.int32)
