"""Calls with known answers. The same calls run through OpenCL, and as compiled kernels through CUDA.

A case makes its call for a profile; the reference is NumPy's, computed before the call.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any

import numpy as np

import pydp
from pydp.algorithms.discovery import algorithms
from pydp.algorithms.registry import Algorithm, Shape, values_of
from pydp.errors import UnsupportedOnDevice
from pydp.random import reference
from pydp.runtime.device.profile import Profile
from pydp.tuning.reference import Expected, difference, expected, hosts
from pydp.verify.check import NotApplicable, Wrong
from pydp.verify.stages import vector_functions


@dataclass(frozen=True)
class Call:
    """One call of a public function and its expected results.

    written: the positions of the arguments that hold the results; empty if the function returns them, or if it returns
    None and changes its first argument. may_refuse: whether pydp refuses the call by design on some devices that have
    all that the case needs.
    """

    function: Callable[..., Any]
    args: tuple[Any, ...]
    want: list[Expected]
    options: dict[str, Any] = field(default_factory=dict)
    written: tuple[int, ...] = ()
    may_refuse: bool = False

    def check(self, device: Any) -> None:
        """Make the call. Raises Wrong if a result differs from its reference, NotApplicable if pydp may refuse it."""
        args = tuple(one.copy() if isinstance(one, np.ndarray) else one for one in self.args)
        with self.refusals():
            result = self.function(*args, **self.options, device=device)
        returned = args[0] if result is None and not self.written else result
        self.compare([args[at] for at in self.written] if self.written else hosts(returned))

    @contextlib.contextmanager
    def refusals(self) -> Iterator[None]:
        """Raise NotApplicable for UnsupportedOnDevice, if pydp may refuse the call."""
        try:
            yield
        except UnsupportedOnDevice as error:
            if not self.may_refuse:
                raise
            raise NotApplicable(str(error)) from error

    def compare(self, got: list[np.ndarray]) -> None:
        """Raise Wrong if results on the host differ from the expected ones. Results without one are not compared."""
        why = difference(got[: len(self.want)], self.want)
        if why is not None:
            raise Wrong(why)


Case = Callable[[Profile], Call]
"""Makes a call for a device; raises NotApplicable."""


def _known(function: Callable[..., Any], *args: Any, **options: Any) -> Call:
    """A call whose reference is the one that the function declares."""
    want = expected(function, args, options)
    assert want is not None, function
    return Call(function, args, want, options)


def _exact(function: Callable[..., Any], args: tuple[Any, ...], want: np.ndarray, **options: Any) -> Call:
    return Call(function, args, [Expected(want)], options)


def _random(dtype: str, *shape: int, seed: int = 0) -> np.ndarray:
    """Numbers over the range of an integer type, or normally distributed floats."""
    rng = np.random.default_rng(seed)
    kind = np.dtype(dtype)
    if kind.kind == "c":
        return (rng.standard_normal(shape) + 1j * rng.standard_normal(shape)).astype(kind)
    if kind.kind == "f":
        return rng.standard_normal(shape).astype(kind)
    limits = np.iinfo(kind)
    return rng.integers(limits.min, limits.max, shape, kind, endpoint=True)


def needs(profile: Profile, dtype: str, stored: bool = False) -> None:
    """Raise NotApplicable if the device cannot calculate with a type.

    stored: whether kernels only load and store elements of this type. Every device can do so with float16; NVIDIA's
    driver has no float16 for calculations.
    """
    real = {"complex64": "float32", "complex128": "float64"}.get(dtype, dtype)
    if {"float16": profile.fp16 or stored, "float64": profile.fp64}.get(real, True):
        return
    raise NotApplicable(f"the device has no {real}")


def _typed(dtype: str, make: Callable[[], Call], stored: bool = False) -> Case:
    """stored: as in `needs`."""

    def made(profile: Profile) -> Call:
        needs(profile, dtype, stored)
        return make()

    return made


def _summands(dtype: str, *shape: int) -> np.ndarray:
    """Elements whose sums are exact in any order, also as floats: one missing or added element shows."""
    if np.dtype(dtype).kind != "f":
        return _random(dtype, *shape)
    most = 1 if dtype == "float16" else 9  # float16 holds integers up to 2048 exactly
    return np.random.default_rng(1).integers(-most, most + 1, shape).astype(dtype)


def _scan(dtype: str, *shape: int, op: Any = "+", **options: Any) -> Case:
    return _typed(dtype, lambda: _known(pydp.scan, _summands(dtype, *shape), op, **options))


def _exclusive_reverse(profile: Profile) -> Call:
    x = _random("int32", 100_003)
    want = np.cumsum(x[::-1], dtype=np.int32)[::-1] - x
    return _exact(pydp.scan, (x,), want, exclusive=True, reverse=True)


def _reduce(dtype: str, *shape: int, op: Any = "+", **options: Any) -> Case:
    return _typed(dtype, lambda: _known(pydp.reduce, _summands(dtype, *shape), op, **options))


def _matmul(dtype: str, left: tuple[int, ...], right: tuple[int, ...]) -> Case:
    return _typed(dtype, lambda: _known(pydp.matmul, _random(dtype, *left), _random(dtype, *right, seed=1)))


def _exact_float16_product(m: int, n: int, k: int) -> Call:
    """Small integers: their sums are exact in any order. The rounding bound of float16 would accept zeros."""
    a, b = (
        np.random.default_rng(seed).integers(-3, 4, shape).astype(np.float16)
        for seed, shape in ((10, (m, k)), (11, (k, n)))
    )
    return _exact(pydp.matmul, (a, b), (a.astype(np.float32) @ b.astype(np.float32)).astype(np.float16))


def _products_of_layouts(a: np.ndarray, b: np.ndarray, device: Any) -> tuple[Any, ...]:
    """a @ b with operands of all orders of axes, with rows that are not aligned, in parts of k, and added to `out`."""
    rows = [pydp.field(one, device=device) for one in (a, b)]
    columns = [pydp.field(np.ascontiguousarray(one.T), device=device).T for one in (a, b)]
    cut = [pydp.field(np.pad(one, ((0, 0), (1, 2))), device=device)[:, 1:-2] for one in (a, b)]
    found = [pydp.matmul(x, y) for x, y in ((rows[0], columns[1]), columns, (columns[0], rows[1]), cut)]
    found.append(pydp.matmul(*rows, spec={"parts": 2}))
    added = pydp.matmul(*cut)
    pydp.matmul(*columns, alpha=2, beta=-1, out=added)
    return *found, added


def _layouts(dtype: str, m: int, n: int, k: int) -> Case:
    """Small integers: their sums are exact in any order."""

    def make() -> Call:
        a, b = (
            np.random.default_rng(s).integers(-3, 4, shape).astype(dtype) for s, shape in ((10, (m, k)), (11, (k, n)))
        )
        want = (a.astype(np.float64) @ b.astype(np.float64)).astype(dtype)
        return Call(_products_of_layouts, (a, b), [Expected(want)] * 6)

    return _typed(dtype, make, stored=True)


def _product_with_bias() -> Call:
    """Small integers: their sums are exact in any order."""
    a, b = (np.random.default_rng(seed).integers(-9, 10, (97, 97)).astype(np.float32) for seed in (12, 13))
    bias = np.arange(97, dtype=np.float32)
    want = np.maximum(a @ b + bias, 0)
    return _exact(pydp.matmul, (a, b), want, epilogue=("max(x + bias, 0)", {"bias": bias}))


def _sort(function: Any, dtype: str, n: int, few: int = 0) -> Case:
    """few: the number of different values, so that equal ones show whether the order is stable."""

    def make() -> Call:
        x = _random(dtype, n)
        if few:
            x = (np.abs(x.astype(np.int64)) % few).astype(dtype)
        if x.dtype.kind == "f":
            x[::97] = np.nan
        return (
            _known(function, x, np.arange(n, dtype=np.int32)) if function is pydp.sort_by_key else _known(function, x)
        )

    return _typed(dtype, make)


def _segments(profile: Profile) -> Call:
    n = 50_021
    x = np.random.default_rng(2).integers(-99, 99, n).astype(np.int32)
    heads = np.arange(n) % 777 == 5
    totals = np.cumsum(x, dtype=np.int32)
    starts = np.maximum.accumulate(np.where(heads, np.arange(n), 0))
    want = totals - np.where(starts > 0, totals[starts - 1], 0)
    return _exact(pydp.scan, (x,), want.astype(np.int32), segments=heads.astype(np.uint8))


def _first_nonzero(profile: Profile) -> Call:
    """An operator that is not commutative: operands in the wrong order show."""
    n = 40_009
    x = np.where(np.arange(n) < n // 2, 0, np.arange(n) + 1).astype(np.int32)
    return _exact(pydp.scan, (x, "a != 0 ? a : b"), np.where(x, n // 2 + 1, 0).astype(np.int32))


def _product_of_matrices(profile: Profile) -> Call:
    """Records as elements: 2x2 matrices of a group that is not commutative, modulo 2**32."""
    pair = np.dtype([("a", "u4"), ("b", "u4")])  # x -> a * x + b
    n = 20_011
    rng = np.random.default_rng(3)
    x = np.zeros(n, pair)
    x["a"], x["b"] = rng.integers(0, 1 << 16, n) * 2 + 1, rng.integers(0, 1 << 16, n)
    a, b = 1, 0
    for one in x.tolist():
        a, b = a * one[0] % 2**32, (b * one[0] + one[1]) % 2**32
    want = np.array((a, b), pair)
    return _exact(pydp.reduce, (x, {"a": "a.a * b.a", "b": "a.b * b.a + b.b"}), want)


def _sorted_records(profile: Profile) -> Call:
    pair = np.dtype([("key", "i4"), ("value", "f4")])
    x = np.zeros(9_001, pair)
    x["key"], x["value"] = _random("int32", x.size) % 50, np.arange(x.size)
    return _exact(pydp.sort, (x,), np.sort(x, order="key", kind="stable"), key="key")


def _histogram(profile: Profile) -> Call:
    x = np.random.default_rng(4).random(200_003, np.float32)
    counts, _ = np.histogram(x, 100, (0.0, 1.0))
    return _exact(pydp.histogram, (x, 100, (0.0, 1.0)), counts.astype(np.int64))


def _bincount(profile: Profile) -> Call:
    return _known(pydp.bincount, _random("uint8", 200_003))


def _transpose(dtype: str, shape: tuple[int, ...], axes: tuple[int, ...] | None) -> Case:
    return lambda profile: _known(pydp.transpose, _random(dtype, *shape), axes)


def _by_offsets(function: Any) -> Case:
    """Segments of many lengths, some empty."""

    def made(profile: Profile) -> Call:
        inner = np.sort(np.random.default_rng(11).integers(0, 10_007, 300))
        return _known(function, _random("int32", 10_007), np.concatenate([[0], inner, [10_007]]).astype(np.int32))

    return made


def _product(profile: Profile) -> Call:
    """A product that is neither zero nor infinite: powers of two, and both signs."""
    x = np.random.default_rng(12).permutation(np.repeat(np.array([1, -1, 2, 0.5], np.float32), [9_000, 901, 60, 43]))
    return _known(pydp.prod, x)


def _one_of(function: Any, others: int) -> Case:
    """One element decides the result."""

    def made(profile: Profile) -> Call:
        x = np.full(10_007, others, np.int32)
        x[7_001] = 1 - others
        return _known(function, x)

    return made


def _expression(profile: Profile) -> Call:
    x, y = (np.random.default_rng(seed).integers(-99, 100, 10_007).astype(np.float32) for seed in (13, 14))
    return _exact(pydp.evaluate, ("2 * x + abs(y)",), 2 * x + np.abs(y), x=x, y=y)


# --- random numbers -----------------------------------------------------------------------------------------------

_DRAWN = 4_004
_NEAR = 1e-5  # of standard normal numbers
_SHUFFLED = np.arange(_DRAWN, dtype=np.float32)


def _drawn(method: str, *args: Any, tolerance: float = 0, **options: Any) -> Case:
    """A method of a new generator. The reference computes the words of the blocks on the host."""

    def function(*args: Any, **options: Any) -> Any:
        return getattr(pydp.random.Generator(15), method)(*args, **options)

    def made(profile: Profile) -> Call:
        wanted = getattr(reference, "permutation" if method == "shuffle" else method)
        (want,) = wanted(pydp.random.Generator(15), *args, **options)
        return Call(function, args, [Expected(want.values, tolerance)], options)

    return made


# --- algorithms without a case of their own ---------------------------------------------------------------------

_MOST = 10_007  # elements along the last axis; along the others, 37


def _declared(algorithm: Algorithm) -> Case:
    """A small call with the operands and options that an algorithm declares."""

    def made(profile: Profile) -> Call:
        needs(profile, algorithm.dtype)
        *outer, last = (int(part) for part in algorithm.sizes[0].split("x"))
        size: Shape = (*(min(axis, 37) for axis in outer), min(last, _MOST))
        shapes = algorithm.shapes(size) or []
        values = values_of(algorithm, shapes, np.dtype(algorithm.dtype))
        args, options = algorithm.passed(values, dict(algorithm.options))
        want = expected(algorithm.function, args, options)
        if want is None:
            raise NotApplicable(f"NumPy has no function with the results of {algorithm.name}")
        return Call(algorithm.function, args, want, options)

    return made


def algorithm_of(name: str) -> str:
    """The algorithm that a case calls: the first word of its name."""
    return name.split()[0]


def _complete(own: dict[str, Case]) -> dict[str, Case]:
    """Cases of all registered algorithms: their own ones, else one by the declaration. One of each comes first."""
    tested = {algorithm_of(name) for name in own}
    found = {**own, **{name: _declared(one) for name, one in algorithms().items() if name not in tested}}
    first = {algorithm_of(name): name for name in reversed(found)}
    return {**{name: found[name] for name in found if first[algorithm_of(name)] == name}, **found}


def _forall(name: str, **spec: Any) -> Case:
    """A vector function of :mod:`pydp.verify.stages.vector_functions`."""

    def made(profile: Profile) -> Call:
        if spec.get("mapping") == "vector" and (profile.loop_limit is not None or profile.kind != "cpu"):
            raise NotApplicable("user functions run in the mapping simt only on this device")
        example = vector_functions.EXAMPLES[name](profile)
        options = {"group": example.group, "spec": spec or None}
        grid = (example.grid, example.function, *example.args)
        want = [Expected(want) for want in example.want]
        may_refuse = spec.get("barriers") in ("subgroup", "named")
        return Call(pydp.forall, grid, want, options, example.written, may_refuse)

    return made


_OWN: dict[str, Case] = {
    "scan int32": _scan("int32", 100_003),
    "scan float32": _scan("float32", 100_003),
    "scan exclusive reverse": _exclusive_reverse,
    "scan int64": _scan("int64", 50_021),
    "scan float64": _scan("float64", 50_021),
    "scan float16": _scan("float16", 1_000),
    "scan max rows": _scan("int32", 37, 1_009, op="max", axis=1),
    "scan columns": _scan("int32", 1_009, 37, axis=0),
    "scan segments": _segments,
    "scan not commutative": _first_nonzero,
    "scan reduce_then_scan": _scan("int32", 100_003, strategy="reduce_then_scan"),
    "reduce int32": _reduce("int32", 200_003),
    "reduce float32": _reduce("float32", 200_003),
    "reduce float64 rows": _reduce("float64", 61, 3_001, axis=1),
    "reduce min columns": _reduce("float32", 3_001, 61, op="min", axis=0),
    "reduce records": _product_of_matrices,
    "sort int32": _sort(pydp.sort, "int32", 100_003),
    "sort float32 with NaN": _sort(pydp.sort, "float32", 30_011),
    "sort uint8": _sort(pydp.sort, "uint8", 30_011),
    "sort int64": _sort(pydp.sort, "int64", 30_011),
    "sort float64": _sort(pydp.sort, "float64", 30_011),
    "sort records": _sorted_records,
    "argsort stable": _sort(pydp.argsort, "int32", 30_011, few=50),
    "sort_by_key stable": _sort(pydp.sort_by_key, "uint32", 30_011, few=50),
    "matmul float32": _matmul("float32", (193, 301), (301, 257)),
    "matmul float32 thin": _matmul("float32", (1, 1_000), (1_000, 515)),
    "matmul float32 batches": _matmul("float32", (3, 65, 64), (3, 64, 33)),
    "matmul float64": _matmul("float64", (129, 130), (130, 131)),
    "matmul float16": _typed("float16", lambda: _exact_float16_product(128, 128, 128), stored=True),
    "matmul float16 with edges": _typed("float16", lambda: _exact_float16_product(200, 264, 136), stored=True),
    "matmul float16 of all layouts": _layouts("float16", 133, 71, 50),
    "matmul float64 of all layouts": _layouts("float64", 133, 71, 50),
    "matmul float32 of all layouts": _layouts("float32", 133, 71, 50),
    "matmul int32": _matmul("int32", (97, 101), (101, 103)),
    "matmul complex64": _matmul("complex64", (65, 66), (66, 67)),
    "matmul float32 with an epilogue": _typed("float32", _product_with_bias),
    "histogram float32": _histogram,
    "bincount uint8": _bincount,
    "transpose float32": _transpose("float32", (301, 517), None),
    "transpose uint8 last axes": _transpose("uint8", (3, 129, 257), (0, 2, 1)),
    "segmented_reduce int32": _by_offsets(pydp.segmented_reduce),
    "segmented_sort int32": _by_offsets(pydp.segmented_sort),
    "segmented_argsort int32": _by_offsets(pydp.segmented_argsort),
    "prod float32": _product,
    "any int32": _one_of(pydp.any, 0),
    "all int32": _one_of(pydp.all, 1),
    "evaluate float32": _expression,
    "random.integers uint32": _drawn("integers", 0, 1 << 32, dtype=np.uint32, size=_DRAWN),
    "random.random float32": _drawn("random", size=_DRAWN),
    "random.uniform float32": _drawn("uniform", 2, 6, size=_DRAWN),
    "random.standard_normal float32": _drawn("standard_normal", tolerance=_NEAR, size=_DRAWN),
    "random.normal float32": _drawn("normal", 2, 4, tolerance=4 * _NEAR, size=_DRAWN),
    "random.permutation float32": _drawn("permutation", _SHUFFLED),
    "random.shuffle float32": _drawn("shuffle", _SHUFFLED),
}
ALGORITHMS = _complete(_OWN)

_LOOK_BACK = frozenset(
    "scan cumsum cumprod scan_by_key select compress nonzero flatnonzero argwhere partition unique run_length_encode "
    "reduce_by_key repeat run_length_decode sort argsort sort_by_key segmented_sort segmented_argsort lexsort top_k "
    "argpartition isin union1d intersect1d setdiff1d setxor1d random.permutation random.shuffle".split()
)


def group_of(name: str) -> str:
    """The mechanism that may keep a case of an algorithm from ending: "look-back" between groups, else ""."""
    return "look-back" if algorithm_of(name) in _LOOK_BACK else ""


BARRIERS = ("group", "none", "subgroup", "named")

FUNCTIONS: dict[str, Case] = {
    **{f"forall {name}": _forall(name) for name in vector_functions.EXAMPLES},
    "forall vectors of lanes": _forall("tiled product", mapping="vector"),
}
for _choice in BARRIERS:
    for _name in vector_functions.WITH_BARRIERS:
        FUNCTIONS[f"barriers {_choice}: {_name}"] = _forall(_name, mapping="simt", barriers=_choice)

# Every group of these scans waits for others. polls: the groups recompute what others do not publish.
_GROUPS = 16384  # more than any device runs at once


def _waiting(trouble: dict[str, Any], strategy: str = "lookback", in_place: bool = False) -> Case:
    def made(profile: Profile) -> Call:
        if profile.loop_limit is not None:
            raise NotApplicable("the driver ends long loops: scans that wait are refused there")
        if profile.mapping == "simt":
            own: dict[str, Any] = {"mapping": "simt", "lanes": 64, "columns": 16, "items": 3}
            n = 64 * 3 * _GROUPS - 5
        else:
            own, n = {"mapping": "vector", "part": 64}, 64 * (_GROUPS // 4) - 5
        if profile.is_simulator:
            n = 3_000
        x = _random("int32", n, seed=5)
        want = [Expected(np.cumsum(x, dtype=np.int32))]
        options = {"spec": {**own, **trouble}, "strategy": strategy}
        function, written = (_scan_in_place, (0,)) if in_place else (pydp.scan, ())
        return Call(function, (x,), want, options, written)

    return made


def _scan_in_place(x: np.ndarray, device: Any, **options: Any) -> None:
    if device.is_target:  # arguments stay NumPy arrays; nothing runs
        pydp.scan(x, out=x, device=device, **options)
        return
    field = pydp.field(x, device=device)
    x[...] = pydp.scan(field, out=field, **options).get()


PROGRESS: dict[str, Case] = {
    "look-back, no fallback": _waiting({"polls": 0}),
    "look-back": _waiting({}),
    "chained": _waiting({}, "chained"),
    "in place": _waiting({}, in_place=True),
    "permuted groups": _waiting({"order": "permuted", "polls": 100}),
    "reversed groups": _waiting({"order": "reversed", "polls": 100}),
    "fallback, all publications suppressed": _waiting({"suppress": 1, "polls": 100}),
    "fallback, some publications suppressed": _waiting({"suppress": 3, "polls": 100}),
    "reversed groups in place": _waiting({"order": "reversed", "polls": 100}, in_place=True),
    "fallback, some publications suppressed, in place": _waiting({"suppress": 3, "polls": 100}, in_place=True),
}
