"""Random numbers, the same on every device: `Generator` and `default_rng`, with NumPy's names.

>>> rng = pydp.random.default_rng(1)
>>> rng.normal(size=(2, 3)).shape, rng.integers(10, size=3).dtype
((2, 3), dtype('int64'))
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from pydp.algorithms.dry_explanation import explained_by_launches
from pydp.algorithms.registry import Algorithm, Passed, alike, register
from pydp.random import reference
from pydp.random.generator import Generator, default_rng

__all__ = ["Generator", "default_rng"]


def _passed(arrays: Sequence[Any], options: dict[str, Any]) -> Passed:
    """The call of a command: a method of a generator that is made from the options seed, stream and offset."""
    made = {name: options.pop(name) for name in ("seed", "stream", "offset") if name in options}
    return (Generator(made.pop("seed", None), **made), *arrays), options


_FILLED = "one kernel makes all numbers: a work-item computes the blocks of its elements from the counter"
_SORTED = "random keys of 64 bits are sorted (see argsort), and the order is taken"

for _method, _choice, _reference, _operands in (
    (Generator.random, _FILLED, reference.random, 0),
    (Generator.uniform, _FILLED, reference.uniform, 0),
    (Generator.normal, _FILLED, reference.normal, 0),
    (Generator.standard_normal, _FILLED, reference.standard_normal, 0),
    (Generator.integers, _FILLED, reference.integers, 0),
    (Generator.permutation, _SORTED, reference.permutation, 1),
    (Generator.shuffle, _SORTED + "; then the result is copied back", reference.permutation, 1),
):
    _bound = getattr(Generator(0), _method.__name__)
    register(
        Algorithm(
            _method,
            explained_by_launches(_method, _choice, call=_bound),
            _reference,
            sizes=("1048576",),
            shapes=alike(_operands),
            accepted=("axes",) if _operands else ("size=N",),
            operands=_operands,
            passed=_passed,
            label=f"random.{_method.__name__}",
            benchmark="pydp.bench.bench_random",
        )
    )
