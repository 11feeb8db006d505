"""The command ``pydp explain``: what would run on a device of this machine, or on a target that is not present."""

from __future__ import annotations

from typing import Any

import click
import numpy as np

from pydp.algorithms.registry import Algorithm
from pydp.cli.choice import ALGORITHM, WithAlgorithms, device_option
from pydp.cli.run import load, split


def _sizes(word: str) -> tuple[int, ...] | None:
    """Parse ``4096`` or ``512x512``; None for other words."""
    parts = word.split("x")
    return tuple(int(part) for part in parts) if all(part.isdecimal() for part in parts) else None


def _shapes(algorithm: Algorithm, words: list[str], options: dict[str, Any]) -> list[Any]:
    """Operands as shapes or file names.

    If each word is one integer, they are one size of the algorithm: the axes of an array, or M N K of a product.
    Otherwise each word is an operand. The number of files is not checked: `pydp run` accepts the same words, and the
    function has its own message.
    """
    if words and all(word.endswith(".npy") for word in words):
        return list(words)
    positions = algorithm.positional(options)
    sizes = [_sizes(word) for word in words]
    known = [size for size in sizes if size is not None]
    size = None
    if words and len(known) == len(words) and max(map(len, known)) == 1:
        size = tuple(one for (one,) in known)
    elif known and len(words) == 1 < algorithm.operands:
        size = known[0]
    shapes = algorithm.shapes(size) if size is not None else None
    shapes = [shapes[at] for at in positions] if shapes else shapes
    count = min(len(words), algorithm.operands) if algorithm.more else len(words)
    if (not shapes and size is not None) or (size is None and count != len(positions)):
        arrays = "one array" if len(positions) == 1 else f"{len(positions)} arrays"
        accepted = ", ".join(algorithm.accepted)
        raise click.UsageError(
            f"{algorithm.name} does not take {' '.join(words)!r}; give {accepted}, or {arrays} as 512x512 or x.npy"
        )
    return shapes or [word if one is None else one for word, one in zip(words, sizes, strict=True)]


def _operand(given: Any, dtype: str) -> np.ndarray:
    """An array from a .npy file, or zeros of a shape. Zeros take no memory until they are read."""
    if isinstance(given, str):
        if given.endswith(".npy"):
            return np.ascontiguousarray(load(given))
        raise click.UsageError(f"{given!r} is neither a .npy file nor sizes such as 4096 or 512x512")
    try:
        return np.zeros(given, np.dtype(dtype))
    except (TypeError, ValueError, MemoryError) as error:
        raise click.UsageError(f"cannot make an array of shape {given} and type {dtype!r}: {error}") from None


def _own_values(algorithm: Algorithm, at: int, arrays: list[np.ndarray]) -> np.ndarray:
    """The values of an operand that the call accepts, instead of zeros."""
    try:
        return algorithm.own_values[at]([one.shape for one in arrays])
    except MemoryError as error:
        raise click.UsageError(f"cannot make an array of shape {arrays[at].shape}: {error}") from None


@click.command(cls=WithAlgorithms)
@click.argument("algorithm", type=ALGORITHM, metavar="ALGORITHM")
@click.argument("words", nargs=-1, metavar="INPUT.npy|SIZES... [NAME=VALUE]...")
@click.option("-t", "--dtype", default=None, help="Type of operands given as sizes (float32; bincount: uint8).")
@click.option("-s", "--source", is_flag=True, help="Also print the rendered kernels.")
@device_option
@click.option("--target", default=None, help="A GPU that need not be present (sm_90, gfx90a, ...), or avx2, neon, ...")
def explain(
    algorithm: Algorithm, words: tuple[str, ...], dtype: str | None, source: bool, which: str | None, target: str | None
) -> None:
    """Say what ALGORITHM would run, and why: pydp explain --target sm_90 matmul 4096 4096 4096

    SIZES are the sizes of a product (M N K), the axes of an array (4096 4096), or one shape for each array (512x512).
    """
    import pydp

    if target is not None and which is not None:
        raise click.UsageError("--target and --device cannot be given together; --target selects no OpenCL device")
    given, options = split(words)
    kind = dtype or ("float32" if "f" in algorithm.dtypes else algorithm.dtype)
    call = algorithm.function
    try:
        positions, operands = algorithm.positional(options), _shapes(algorithm, given, options)
        dtypes = [algorithm.own_dtypes.get(at, kind) for at in positions] + [kind] * len(operands)
        arrays = [_operand(one, own) for one, own in zip(operands, dtypes, strict=False)]
        for place, at in enumerate(positions):
            if (
                len(arrays) == algorithm.operands
                and at in algorithm.own_values
                and not isinstance(operands[place], str)
            ):
                arrays[place] = _own_values(algorithm, at, arrays)
        args, named = algorithm.passed(arrays, options)
        if target is not None:
            sources = _on_target(target, call, args, named)
        else:
            found = pydp.explain(call, *args, device=pydp.device(which), **named)
            click.echo(str(found))
            sources = found.sources
    except (pydp.PydpError, TypeError) as error:
        raise click.ClickException(str(error)) from None
    if source:
        for name, text in sources.items():
            click.echo(f"--- {name}\n{text}")


def _on_target(target: str, call: Any, args: tuple[Any, ...], options: dict[str, Any]) -> dict[str, str]:
    """Print the study of a target; return the kernels' sources by name."""
    from pydp.model.explanation import sources_of
    from pydp.offline.study import study, target_of
    from pydp.offline.target import dry_run
    from pydp.offline.text import text_of

    arrays = [one for given in args for one in (given if isinstance(given, list) else [given])]
    shapes = ", ".join("x".join(map(str, one.shape)) + f" {one.dtype}" for one in arrays if hasattr(one, "dtype"))
    title = f"{call.__name__} of {shapes}" if shapes else call.__name__
    click.echo(text_of(title, study(target, call, *args, **options)))
    launches = dry_run(target_of(target), call, *args, **options)
    return sources_of(launch.kernel for launch in launches)
