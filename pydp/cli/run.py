"""The command ``pydp run``: any algorithm on .npy files."""

from __future__ import annotations

import ast
from pathlib import Path
from typing import Any

import click
import numpy as np

from pydp.algorithms.registry import Algorithm
from pydp.cli.choice import ALGORITHM, WithAlgorithms, device_option

_WORDS = {"true": "True", "false": "False", "none": "None"}
_FLOATS = ("inf", "-inf", "nan")


def _option(text: str) -> tuple[str, Any]:
    """``name=value`` as a keyword argument.

    The value is the array of a .npy file, a Python literal if it can be parsed as one, else the text itself. true,
    false and none are accepted in lower case; inf, -inf and nan are floats.
    """
    name, equals, value = text.partition("=")
    if not equals or not name.isidentifier():
        raise click.UsageError(f"{text!r} is neither a file nor an option of the form name=value")
    if value.endswith(".npy"):
        return name, load(value)
    if value in _FLOATS:
        return name, float(value)
    try:
        return name, ast.literal_eval(_WORDS.get(value, value))
    except (ValueError, SyntaxError, RecursionError, MemoryError):  # thousands of parentheses raise the last two
        return name, value


def split(words: tuple[str, ...]) -> tuple[list[str], dict[str, Any]]:
    """Split words into operands and options, such as ``op=max`` and ``mask=mask.npy``.

    A word is an operand if it has no '='. A word that ends in .npy is also an operand if it is the name of a file, or
    if the part before '=' is no name; else the option is the array of the file.
    """
    operands = [word for word in words if "=" not in word or (word.endswith(".npy") and not _is_array(word))]
    return operands, dict(_option(word) for word in words if word not in operands)


def _is_array(word: str) -> bool:
    """Whether a word with '=' that ends in .npy is an option."""
    return word.partition("=")[0].isidentifier() and not Path(word).exists()


def load(path: str) -> np.ndarray:
    """Read the array of a .npy file."""
    try:
        found = np.load(path, allow_pickle=False)
    except Exception as error:  # NumPy raises many kinds of error for a damaged header
        raise click.ClickException(f"{path} cannot be read as a .npy file: {error}") from None
    if not isinstance(found, np.ndarray):
        found.close()
        raise click.ClickException(f"{path} is an archive of arrays; a .npy file with one array is accepted")
    return found


@click.command(cls=WithAlgorithms)
@click.argument("algorithm", type=ALGORITHM, metavar="ALGORITHM")
@click.argument("words", nargs=-1, metavar="INPUT.npy... [NAME=VALUE]...")
@click.option(
    "-o",
    "--output",
    multiple=True,
    type=click.Path(dir_okay=False, path_type=Path),
    help="A .npy file for the result. Give it once for each result.",
)
@device_option
def run(algorithm: Algorithm, words: tuple[str, ...], output: tuple[Path, ...], which: str | None) -> None:
    """Run ALGORITHM on .npy files: pydp run scan x.npy -o y.npy op=max axis=0

    NAME=VALUE is a keyword argument of the algorithm; VALUE is a .npy file, a Python literal or text. Without -o, the
    results are printed. If a function changes its first array, this array is the result.
    """
    import pydp

    files, options = split(words)
    if not files and algorithm.operands:
        raise click.UsageError("no input is given; at least one .npy file is needed")
    arrays = [load(path) for path in files]
    try:
        args, named = algorithm.passed(arrays, options)
        result = algorithm.function(*args, device=pydp.device(which), **named)
    except (pydp.PydpError, TypeError) as error:
        raise click.ClickException(str(error)) from None
    if result is None:
        result = arrays[0]
    results = result if isinstance(result, tuple) else (result,)
    if not output:
        for item in results:
            click.echo(np.array2string(np.asarray(item), threshold=100))
        return
    if len(output) != len(results):
        count = len(results)
        raise click.UsageError(
            f"-o is given {len(output)} time(s); {algorithm.name} has {count} result(s) and needs -o once for each"
        )
    for path, item in zip(output, results, strict=True):
        try:
            with path.open("wb") as file:
                np.save(file, np.asarray(item), allow_pickle=False)
        except OSError as error:
            raise click.ClickException(f"{path} cannot be written: {error.strerror or error}") from None
