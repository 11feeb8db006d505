"""Every registered algorithm against its reference, with arrays of any type, size and layout.

Memory around inputs and results must keep its bytes, and results are written to memory with old values.
"""

from __future__ import annotations

import dataclasses
import inspect
import warnings
from collections.abc import Callable
from math import prod
from typing import Any

import needs
import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from selections import Guarded

import pydp
from pydp.algorithms.discovery import algorithms
from pydp.algorithms.registry import Algorithm, values_of
from pydp.tuning.reference import difference, expected, hosts

ALGORITHMS = {name: one for name, one in algorithms().items() if one.operands and not name.startswith("random.")}
DTYPES = {"b": "?", "i": "i4 i4 i1 i2 i8", "u": "u1 u1 u2 u4 u8", "f": "f4 f4 f8", "c": "c8 c8 c16"}
LIMITS = [255, 256, 257, 1023, 1024, 1025, 2047, 2048, 2049, 4095, 4096, 4097]
SPECIAL = [np.nan, np.inf, -np.inf, -0.0, 0.5]
OLD = 165  # of memory around arrays, and in results before the call

View = Callable[[Any], Any]
"""Selects the elements of an array within larger memory, of a NumPy array or a Field."""


def sizes(data: st.DataObject, algorithm: Algorithm) -> tuple[int, ...]:
    """A size that the algorithm accepts, with at most about 5,000 elements."""
    if algorithm.name == "matmul":
        rank = data.draw(st.sampled_from([1, 3, 4]))
        return tuple(data.draw(st.lists(st.integers(0, 40), min_size=rank, max_size=rank)))
    one = st.integers(0, 5000) | st.sampled_from(LIMITS)
    if algorithm.name == "lexsort":
        return data.draw(st.integers(1, 3)), data.draw(one)
    rank = data.draw(st.integers(1, 3)) if "axes" in algorithm.accepted else 1
    outer = data.draw(st.lists(st.integers(0, 9), min_size=rank - 1, max_size=rank - 1))
    found = [*outer, data.draw(one) // max(prod(outer), 1)]
    return tuple(data.draw(st.permutations(found)))


def values(algorithm: Algorithm, at: int, shape: tuple[int, ...], dtype: np.dtype, rng: np.random.Generator) -> Any:
    """The elements of the operand `at`."""
    if algorithm.name.startswith("segmented") and at:  # offsets
        inner = np.sort(rng.integers(0, shape[0] + 1, rng.integers(0, 40)))
        return np.concatenate([[0], inner, [shape[0]]]).astype(np.int64)
    if algorithm.name in ("take", "put") and at == 1:  # indexes
        return rng.integers(-max(shape[0], 1), max(shape[0], 1), shape).astype(np.int64)
    if algorithm.name == "histogram":
        return rng.uniform(-5, 5, shape).astype(dtype)
    if algorithm.numbers == "factors":
        if rng.random() < 0.5:
            return values_of(algorithm, [shape], dtype, rng)[0]
        if dtype.kind in "fc":  # a product that overflows depends on its order
            return rng.choice(np.array([1, -1, 1j if dtype.kind == "c" else 0], dtype), shape).astype(dtype)
    counts, wide = algorithm.numbers == "counts", algorithm.numbers in ("spread", "shared") and rng.random() < 0.5
    x = rng.integers(0 if counts or dtype.kind in "bu" else -4, 2 if dtype.kind == "b" else 5, shape).astype(dtype)
    if wide and dtype.kind in "iu":
        x = rng.integers(np.iinfo(dtype).min, np.iinfo(dtype).max, shape, dtype, endpoint=True)
    if dtype.kind == "c":
        x = x + 1j * rng.integers(-4, 5, shape).astype(dtype)
    if dtype.kind == "f" and x.size and rng.random() < 0.5:
        places = rng.integers(0, x.size, 1 + x.size // 50)
        x.reshape(-1)[places] = rng.choice(np.array(SPECIAL, dtype), len(places))
    return np.sort(x, axis=-1) if algorithm.numbers == "sorted" else x


def surrounded(data: st.DataObject, shape: tuple[int, ...], dtype: np.dtype) -> tuple[np.ndarray, View]:
    """(Memory that has old values everywhere, the array of this shape within it)."""
    steps = [data.draw(st.sampled_from([1, 1, 1, 2, -1, -3])) for _ in shape]
    reverse = data.draw(st.booleans())
    wide = [5 + abs(step) * n + 3 for step, n in zip(steps, shape, strict=True)]
    wide = wide[::-1] if reverse else wide
    memory = np.full(prod(wide) * dtype.itemsize, OLD, np.uint8).view(dtype).reshape(wide)
    slices = [
        slice(5, 5 + step * n, step) if step > 0 else slice(5 - step * n, 5, step)
        for step, n in zip(steps, shape, strict=True)
    ]

    def view(array: Any) -> Any:
        return array if not shape else (array.T if reverse else array)[tuple(slices)]

    assert view(memory).shape == shape
    return memory, view


CHOICES: dict[str, list[Any]] = {
    "ddof": [0, 1, 2],
    "mode": ["raise", "wrap", "clip"],
    "n": [0, 1, 2],
    "op": ["+", "min", "max"],
    "side": ["left", "right"],
}
"""Values of parameters, for any algorithm that has them. Booleans are drawn as well."""
NOT_DRAWN = [
    ("pad", "mode"),  # another mode: its values are names such as "constant"
    *((name, "assume_unique") for name in ALGORITHMS),  # NumPy's results are undefined if elements are equal
]
TUPLES = ("all", "any", "max", "mean", "min", "nanmax", "nanmin", "reduce", "std", "sum", "var")
"""Algorithms for which axis= is also a tuple."""


def options_of(data: st.DataObject, algorithm: Algorithm, shape: tuple[int, ...], dtype: np.dtype) -> dict[str, Any]:
    """Keywords of a call; some of them the function may not accept together."""
    found = dict(algorithm.options)
    parameters = inspect.signature(algorithm.function).parameters
    if "axis" in parameters and "predicate" not in found and data.draw(st.booleans()):
        axes = st.integers(-len(shape), len(shape) - 1)
        found["axis"] = data.draw(axes if algorithm.name == "diff" else st.none() | axes)
    if algorithm.name in TUPLES and data.draw(st.booleans()):
        found["axis"] = tuple(data.draw(st.lists(st.sampled_from(range(len(shape))), unique=True)))
    axis = found.get("axis", -1)
    n = prod(shape) if axis is None or isinstance(axis, tuple) else shape[axis]
    if algorithm.name == "top_k":
        found["k"] = data.draw(st.integers(0, min(n, 40)))
    if algorithm.name == "argpartition":
        found["kth"] = data.draw(st.integers(0, max(n - 1, 0)))
    for name, parameter in parameters.items():
        values = [False, True] if isinstance(parameter.default, bool) else CHOICES.get(name)
        if name not in found and values and (algorithm.name, name) not in NOT_DRAWN and data.draw(st.booleans()):
            found[name] = data.draw(st.sampled_from(values[:1] if name == "op" and dtype.kind == "c" else values))
    if "where" in parameters and data.draw(st.booleans()):
        found["where"] = np.random.default_rng(data.draw(st.integers(0, 99))).random(shape) < 0.7
        if "initial" in parameters:
            found["initial"] = data.draw(st.integers(0, 1 if dtype.kind == "b" else 3))
    return found


NUMBERS = [1, 2, 3, 4, 5, 8, 16, 32, 64, 100, 256, 1000, 1024, 4096]
WORDS = {
    "barriers": ["auto", "group", "subgroup", "wave"],
    "mapping": ["simt", "vector"],
    "strategy": ["lookback", "chained", "reduce_then_scan"],
}


def spec_of(data: st.DataObject, algorithm: Algorithm, args: Any, options: dict[str, Any]) -> dict[str, Any]:
    """Fields of a specialization of the call; the device may refuse their values. Empty in two of three draws."""
    if not algorithm.tunable or data.draw(st.integers(0, 2)):
        return {}
    default = pydp.explain(algorithm.function, *args, **options).facts.get("specialization")
    if not dataclasses.is_dataclass(default):
        return {}
    names = st.sampled_from([one.name for one in dataclasses.fields(default)])
    found: dict[str, Any] = {}
    for name in data.draw(st.lists(names, min_size=1, max_size=3, unique=True)):
        value = getattr(default, name)
        if isinstance(value, bool):
            found[name] = not value
        elif isinstance(value, str):
            found[name] = data.draw(st.sampled_from(WORDS.get(name, [value])))
        else:
            found[name] = data.draw(st.sampled_from([0, *NUMBERS]))
    return found


@pytest.mark.parametrize("name", ALGORITHMS)
@settings(max_examples=12)
@given(data=st.data())
def test_any_call(device: Any, name: str, data: st.DataObject) -> None:
    algorithm = ALGORITHMS[name]
    kind = DTYPES[data.draw(st.sampled_from(algorithm.dtypes))]
    dtype = data.draw(st.sampled_from([one for one in map(np.dtype, kind.split()) if needs.has(device, one)]))
    size = sizes(data, algorithm)
    shapes = algorithm.shapes(size) or []
    rng = np.random.default_rng(data.draw(st.integers(0, 99)))
    on_device = data.draw(st.booleans())
    memories, views, originals = [], [], []
    for at, shape in enumerate(shapes):
        offsets = algorithm.name.startswith("segmented") and at == 1  # they depend on the number of elements
        x = values(algorithm, at, shapes[0] if offsets else shape, np.dtype(algorithm.own_dtypes.get(at, dtype)), rng)
        memory, view = surrounded(data, x.shape, x.dtype)
        view(memory)[...] = x
        originals.append(memory.copy())
        memories.append(pydp.field(memory, device=device) if on_device else memory)
        views.append(view)
    operands = [view(memory) for view, memory in zip(views, memories, strict=True)]
    args, options = algorithm.passed(operands, options_of(data, algorithm, shapes[0], dtype))
    with warnings.catch_warnings(action="ignore"):  # of NumPy, such as "mean of empty slice"
        want = expected(algorithm.function, args, options)
    assume(want is not None and all(needs.has(device, one.values.dtype) for one in want))
    given_out = None
    if "out" in inspect.signature(algorithm.function).parameters and len(want) == 1 and data.draw(st.booleans()):
        memory, view = surrounded(data, want[0].values.shape, want[0].values.dtype)
        given_out = pydp.field(memory, device=device) if on_device else memory
        options["out"], old = view(given_out), memory.copy()
    options["device"] = device
    spec = spec_of(data, algorithm, args, options)
    with pytest.MonkeyPatch.context() as patch:
        guarded = Guarded(patch)
        try:
            result = algorithm.function(*args, **options, spec=spec) if spec else algorithm.function(*args, **options)
        except (pydp.InvalidArgument, pydp.UnsupportedOnDevice) as error:
            if not spec or not str(error).startswith("spec"):
                raise
            result = algorithm.function(*args, **options)
        if result is None:  # the first operand is changed in place
            result = operands[0]
            views[0](originals[0])[...] = want[0].values
        why = difference(hosts(result), want)
        assert why is None, (why, dtype, [one.strides for one in operands], options, spec)
        guarded.check(required=False)
    for memory, original in zip(memories, originals, strict=True):
        assert hosts(memory)[0].tobytes() == original.tobytes()
    if given_out is not None:
        assert result is options["out"]
        written = hosts(given_out)[0]
        assert difference([view(written)], want) is None
        view(old)[...] = view(written)
        assert written.tobytes() == old.tobytes()


@pytest.mark.parametrize("name", [name for name in ALGORITHMS if name not in ("lexsort", "put")])
def test_lists_give_plain_arrays(device: Any, name: str) -> None:
    """Arrays that pydp makes of lists have a type of their own, which no result has."""
    algorithm = ALGORITHMS[name]
    shapes = algorithm.shapes((7, 7, 7) if name == "matmul" else (7,)) or []
    operands = values_of(algorithm, shapes, np.dtype(algorithm.dtype))
    if name == "take":
        operands[1] = np.arange(3)
    options = {key: min(value, 3) if key in ("k", "kth") else value for key, value in algorithm.options.items()}
    args, options = algorithm.passed([one.tolist() for one in operands], options)
    try:
        result = algorithm.function(*args, **options, device=device)
    except pydp.UnsupportedOnDevice:
        if needs.has(device, np.dtype(np.float64)):
            raise
        pytest.skip("the device has no float64")  # the dtype of lists of floats
    for one in result if isinstance(result, tuple) else (result,):
        assert not isinstance(one, np.ndarray) or type(one) is np.ndarray


@pytest.mark.sweep
@pytest.mark.parametrize("name", [name for name in ALGORITHMS if name != "put"])
def test_repeated_calls_have_the_same_bits(device: Any, name: str) -> None:
    algorithm = ALGORITHMS[name]
    rng = np.random.default_rng(0)
    size = {"matmul": (90, 70, 80), "lexsort": (2, 9001), "transpose": (90, 101)}.get(name, (9001,))
    shapes = algorithm.shapes(size) or []
    own = np.float32 if "f" in algorithm.dtypes else algorithm.dtype
    operands = []
    for at, shape in enumerate(shapes):
        offsets = algorithm.name.startswith("segmented") and at == 1
        kind = np.dtype(algorithm.own_dtypes.get(at, np.int64 if offsets else own))
        random = kind == np.float32
        x = rng.random(shape, kind) if random else values(algorithm, at, shapes[0] if offsets else shape, kind, rng)
        operands.append(pydp.field(x, device=device))
    args, options = algorithm.passed(operands, dict(algorithm.options))
    found = {
        b"".join(one.tobytes() for one in hosts(algorithm.function(*args, **options, device=device)))
        for _ in range(100)
    }
    assert len(found) == 1
