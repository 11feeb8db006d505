"""Runs pydp's scan and select for calls of pyopencl's algorithms.

They run if they give the results of the caller's C text: pydp's grammar accepts it, it has no double literal for
another dtype, it computes no minimum or maximum of floats (pydp's propagate NaN), and there is no preamble and no
option. A scan must have a named operator and its identity as ``neutral``: pydp's scan starts with the first element.
pydp's kernels are faster, because they know what the text computes. All other calls compile the caller's text as it is.
"""

from __future__ import annotations

import re
from typing import Any

import numpy as np
import pyopencl.array as cl_array

import pydp
from pydp.algorithms.operators import operator_text
from pydp.algorithms.select import selected
from pydp.errors import PydpError

_FEWEST = 1 << 16  # elements of a call; with fewer, the kernels of this package start sooner
_ELEMENT = re.compile(r"\bary\s*\[\s*i\s*\]")
_NUMBER = re.compile(r"(?<![\w.])(?:\d+\.?\d*|\.\d+)(?:[eE][+-]?\d+)?\w*")
_EXTREME = re.compile(r"\b(?:min|max|clamp)\b")
_FLOAT = re.compile(r"float|double|half")
_INTEGER = re.compile(r"-?(?:0|[1-9]\d*)l*|(?:0|[1-9]\d*|0x[0-9a-f]+)[ul]*")  # neither octal, nor a minus of unsigned
_DECIMAL = re.compile(r"-?(?:\d+\.\d*|\.\d+)(?:e[+-]?\d+)?f?|-?\d+e[+-]?\d+f?")
_LIMITS = {
    **{f"{name}_MIN": int(np.iinfo(dtype).min) for name, dtype in (("INT", "i4"), ("LONG", "i8"))},
    **{f"{name}_MAX": int(np.iinfo(dtype).max) for name, dtype in (("INT", "i4"), ("LONG", "i8"))},
    **{f"U{name}_MAX": int(np.iinfo(dtype).max) for name, dtype in (("INT", "u4"), ("LONG", "u8"))},
    "~0": -1,
}


def operator_of(text: str, neutral: str, dtype: np.dtype, preamble: str, options: Any) -> str | None:
    """The operator of a scan as text for pydp, or None if the C text may give other results."""
    if dtype.kind not in "iuf" or preamble.strip() or options or _differs(text, dtype):
        return None
    try:
        operator = operator_text(text, dtype)
    except PydpError:
        return None
    if not operator.operation or (dtype.kind == "f" and operator.operation not in "+*"):
        return None
    return text if _is_identity(neutral, operator.identity, dtype) else None


def _is_identity(neutral: str, identity: Any, dtype: np.dtype) -> bool:
    """Whether C text is a literal, or the name of a limit, whose value as `dtype` is `identity` (0.0 equals -0.0)."""
    text = neutral.strip()
    while text.startswith("(") and text.endswith(")"):
        text = text[1:-1].strip()
    word = text.lower()
    value: float
    if text in _LIMITS:
        value = _LIMITS[text]
    elif _INTEGER.fullmatch(word):
        value = int(word.rstrip("ul"), 0)
    elif _DECIMAL.fullmatch(word):
        value = float(word.rstrip("f"))
    else:
        return False
    if dtype.kind == "f" or isinstance(value, float):
        return bool(value == identity) and abs(value) <= 1  # C may round a larger literal
    return (value - int(identity)) % (1 << 8 * dtype.itemsize) == 0  # C converts to integers of n bits modulo 2^n


def scan(operator: str, dtype: np.dtype, source: cl_array.Array, target: cl_array.Array, queue: Any) -> bool:
    """Enqueue an inclusive scan to another array, or in place. False: nothing is done."""
    if not (_accepted(source) and source.dtype == target.dtype == dtype and target.flags.forc):
        return False
    try:
        pydp.scan(source, operator, out=target, queue=queue)
    except PydpError:
        return False
    _flush_other(queue, target)
    return True


def select(ary: Any, predicate: str, queue: Any, wait_for: Any) -> tuple[Any, Any, Any] | None:
    """The kept elements in an array with space for all, their number, the event; None: nothing is done."""
    if type(ary) is not cl_array.Array or not _accepted(ary) or len(ary) > np.iinfo(np.int32).max:
        return None  # pyopencl returns arrays of the caller's subclass
    text = _ELEMENT.sub("x", predicate)
    if ary.queue is None or re.search(r"\bx\b", predicate) or _differs(text, ary.dtype):
        return None
    if _EXTREME.search(text) and (ary.dtype.kind == "f" or _FLOAT.search(text)):
        return None
    count = ary._new_with_changes(data=None, offset=0, shape=(), strides=(), dtype=np.dtype(np.uint32))
    signed = count._new_with_changes(data=count.base_data, offset=count.offset, dtype=np.dtype(np.int32))
    try:
        kept = selected(ary, text, signed, queue=queue or ary.queue, wait_for=wait_for)
    except PydpError:
        return None
    _flush_other(queue, ary)
    event = kept.events[-1]
    found = kept.with_queue(ary.queue)
    for one in (found, count):
        if event not in one.events:
            one.add_event(event)
    return found, count, event


def _flush_other(queue: Any, array: cl_array.Array) -> None:
    """Flush a queue that is not the one of the results: some drivers start commands only then."""
    if queue not in (None, array.queue):
        queue.flush()


def _accepted(array: cl_array.Array) -> bool:
    """Whether an array is long enough for pydp's kernels to be faster, and is a contiguous array of numbers of rank
    1."""
    return array.size >= _FEWEST and array.ndim == 1 and array.flags.forc and array.dtype.kind in "iuf"


def _differs(text: str, dtype: np.dtype) -> bool:
    """Whether the text contains a double literal that pydp would convert to the dtype of the array."""
    return dtype != np.float64 and any(
        re.search(r"[.e]", word) is not None and word[-1] != "f"
        for word in map(str.lower, _NUMBER.findall(text))
        if not word.startswith("0x")
    )
