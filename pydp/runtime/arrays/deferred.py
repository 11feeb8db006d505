"""Shapes whose first axis has a length that only the device knows: the result of a selection."""

from __future__ import annotations

from typing import Any


class DeferredShape:
    """The shape ``(count, *others)`` of an array, where a kernel stores `count`, an integer Field of one element.

    `wait` waits for the kernel, once: the Fields of one call share the DeferredShape. most: the space for elements
    along the first axis.
    """

    __slots__ = ("_count", "_others", "_shape", "most")

    def __init__(self, count: Any, most: int, others: tuple[int, ...] = ()) -> None:
        self._count = count
        self._others = others
        self.most = most
        self._shape: tuple[int, ...] | None = None

    @property
    def whole(self) -> tuple[int, ...]:
        """The shape of all the space."""
        return self.most, *self._others

    def wait(self) -> tuple[int, ...]:
        """The shape; waits until the count is known."""
        count, found = self._count, self._shape  # in this order: another thread may set the shape and drop the count
        if found is None:
            found = self._shape = (int(count.get().reshape(())), *self._others)
            self._count = None
        return found
