"""Shape classes: problems so alike that one tuned specialization serves them all."""

from __future__ import annotations

from pydp.specialize.family import Problem


def size_class(size: int) -> int:
    """The power of two nearest above or at `size`, 0 for 0: sizes within a factor of two are one class."""
    return 1 << (size - 1).bit_length() if size > 0 else 0


def shape_class(problem: Problem) -> str:
    """The text that stands for a problem and those like it, the key of tuned entries.

    >>> shape_class(Problem("matmul", "float32", (1000, 700, 64), ("batch",)))
    'matmul float32 1024x1024x64 batch'
    """
    shape = "x".join(str(size_class(size)) for size in problem.sizes) or "()"
    return " ".join((problem.family, problem.dtype, shape, *sorted(problem.flags)))
