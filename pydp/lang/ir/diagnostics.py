"""The error of vector functions: a message, and the line of the user's Python source with a caret under the column."""

from __future__ import annotations

from pydp.errors import InvalidArgument
from pydp.lang.ir import Where

__all__ = ["VectorError", "excerpt"]


class VectorError(InvalidArgument):
    """A vector function uses something that the language does not support, or contains an error that pydp can prove
    before the launch.

    ``message`` is the message alone. ``where`` is the source location (:class:`pydp.lang.ir.Where`) or None. ``str()``
    gives both, with the source line and a caret under the column.
    """

    def __init__(self, message: str, where: Where | None = None) -> None:
        self.message = message
        self.where = where
        self.callers: list[Where] = []
        super().__init__(message if where is None else f"{message}\n{excerpt(where)}")

    def called_at(self, where: Where) -> None:
        """Add a call on the way to the location; the innermost call is added first."""
        self.callers.append(where)

    def __str__(self) -> str:
        calls = [f'  called at "{where.file}", line {where.line}, in {where.function}' for where in self.callers]
        return "\n".join([super().__str__(), *calls])

    @property
    def line(self) -> int:
        """The line of the user's file; 0 if the location is unknown."""
        return 0 if self.where is None else self.where.line


def excerpt(where: Where) -> str:
    """The location as in a Python traceback, with a caret under the column."""
    head = f'  File "{where.file}", line {where.line}, in {where.function}'
    text = where.text.rstrip()
    if not text:
        return head
    indent = len(text) - len(text.lstrip())
    caret = " " * max(where.column - indent, 0) + "^"
    return f"{head}\n    {text.lstrip()}\n    {caret}"
