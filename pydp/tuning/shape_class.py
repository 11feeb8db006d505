"""Shape classes: groups of similar problems that share one tuned specialization."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from pydp.model.family import Problem, problem_text

NEAR = 2.0  # most doublings or halvings of one size at which another class's result applies


@dataclass(frozen=True)
class ShapeClass:
    """The key of a measurement: kernel family, dtype, sizes rounded up to powers of two, and sorted flags.

    >>> str(ShapeClass("matmul", "float32", (1024, 1024, 64), ("batch",)))
    'matmul float32 1024x1024x64 batch'
    """

    kernel: str
    dtype: str
    sizes: tuple[int, ...]
    flags: tuple[str, ...] = ()

    def __str__(self) -> str:
        return problem_text(self.kernel, self.dtype, self.sizes, self.flags)

    def distance(self, other: ShapeClass) -> float | None:
        """The sum of doublings between the sizes of two classes; None if one cannot replace the other.

        That is the case for another kernel, dtype or flag, a size that is 0 in only one of them, or more than NEAR
        doublings of one size.
        """
        if (self.kernel, self.dtype, self.flags) != (other.kernel, other.dtype, other.flags):
            return None
        if len(self.sizes) != len(other.sizes):
            return None
        total = 0.0
        for mine, theirs in zip(self.sizes, other.sizes, strict=True):
            if (mine == 0) != (theirs == 0):
                return None
            steps = abs(math.log2(mine / theirs)) if mine else 0.0
            if steps > NEAR:
                return None
            total += steps
        return total

    def fields(self) -> dict[str, Any]:
        """The class as JSON-compatible values; `from_fields` is the inverse."""
        return {"kernel": self.kernel, "dtype": self.dtype, "sizes": list(self.sizes), "flags": list(self.flags)}

    @staticmethod
    def from_fields(values: Mapping[str, Any]) -> ShapeClass:
        """The inverse of `fields`. Raises ValueError for a wrong type and for a missing or unknown name."""
        if set(values) != {"kernel", "dtype", "sizes", "flags"}:
            raise ValueError(f"a shape class has kernel, dtype, sizes and flags, not {sorted(values)}")
        names = [values["kernel"], values["dtype"], *values["flags"]]
        sizes = list(values["sizes"])
        whole = all(type(size) is int and 0 <= size < 1 << 64 for size in sizes)
        if not whole or not all(type(name) is str for name in names):
            raise ValueError("names must be strings and sizes integers from 0 to 2**64 - 1")
        return ShapeClass(values["kernel"], values["dtype"], tuple(sizes), tuple(values["flags"]))


def size_class(size: int) -> int:
    """The smallest power of two not below `size`; 0 for 0."""
    return 1 << (size - 1).bit_length() if size > 0 else 0


def shape_class(problem: Problem) -> ShapeClass:
    """The class of a problem."""
    sizes = tuple(size_class(size) for size in problem.lengths)
    return ShapeClass(problem.family, problem.dtype, sizes, tuple(sorted(problem.flags)))
