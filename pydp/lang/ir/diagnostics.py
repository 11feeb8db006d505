"""The error of vector functions: what is wrong, at which line of the user's Python, with a caret under it."""

from __future__ import annotations

from pydp.errors import InvalidArgument
from pydp.lang.ir import Where

__all__ = ["VectorError"]


class VectorError(InvalidArgument):
    """A vector function does something that the language does not have, or that cannot be right.

    ``message`` is the sentence alone, ``where`` the place (:class:`pydp.lang.ir.Where`) or None; ``str()`` gives
    both, with the source line and a caret under the column.
    """

    def __init__(self, message: str, where: Where | None = None) -> None:
        self.message = message
        self.where = where
        self.callers: list[Where] = []
        super().__init__(message if where is None else f"{message}\n{_excerpt(where)}")

    def called_at(self, where: Where) -> None:
        """Note a call that led to the place, innermost first."""
        self.callers.append(where)

    def __str__(self) -> str:
        calls = [f'  called at "{where.file}", line {where.line}, in {where.function}' for where in self.callers]
        return "\n".join([super().__str__(), *calls])

    @property
    def line(self) -> int:
        """The line of the user's file, 0 where no place is known."""
        return 0 if self.where is None else self.where.line


def _excerpt(where: Where) -> str:
    """The place as in a Python traceback, a caret under the column."""
    head = f'  File "{where.file}", line {where.line}, in {where.function}'
    text = where.text.rstrip()
    if not text:
        return head
    indent = len(text) - len(text.lstrip())
    caret = " " * max(where.column - indent, 0) + "^"
    return f"{head}\n    {text.lstrip()}\n    {caret}"
