"""The inferred widths of a vector function's barriers, as `explain` shows them."""

from __future__ import annotations

import numpy as np

from pydp.lang.barriers import widths
from pydp.lang.compile import FieldType, translate

I1 = FieldType(np.dtype(np.int32), 1)  # a one-dimensional field of int32


def shown(fn, types, group):
    return [str(width) for width in widths.infer(translate(fn, len(group), group, types)).values()]
