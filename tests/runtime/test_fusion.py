"""Operators of Fields in one kernel: the same bits as a kernel for each, whatever happens before it runs."""

from __future__ import annotations

import gc
import operator
import random
import weakref
from collections.abc import Iterator
from typing import Any

import needs
import numpy as np
import pyopencl as cl
import pytest
from threads import together

import pydp
from pydp.errors import BuildFailed, InvalidArgument, OutOfResources, UnsupportedOnDevice
from pydp.runtime.device.core import DeviceCore
from pydp.runtime.field import fusion
from pydp.runtime.memory.storage import GuardedStorage, LazyStorage, Storage
from pydp.runtime.programs.program import Kernel

N = 300
ARITHMETIC = (operator.add, operator.sub, operator.mul)
COMPARISONS = (operator.lt, operator.le, operator.gt, operator.ge, operator.eq, operator.ne)


@pytest.fixture
def launched(device: Any, monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The names of the kernels that are enqueued, in order."""
    device.start_lazy()
    device.seen_calls.clear()
    names: list[str] = []
    launch = Kernel._launch

    def noting(self: Kernel, *args: Any) -> Any:
        names.append(self.name)
        return launch(self, *args)

    monkeypatch.setattr(Kernel, "_launch", noting)
    return names


def floats(count: int, shape: tuple[int, ...] = (N,), seed: int = 0) -> list[np.ndarray]:
    """Random float32s with all bits in use."""
    rng = np.random.default_rng(seed)
    return [rng.standard_normal(shape).astype(np.float32) for _ in range(count)]


def lazy(field: Any) -> bool:
    return type(field._storage) is LazyStorage


def bits(x: np.ndarray) -> tuple[Any, ...]:
    return x.dtype, x.shape, x.tobytes()


# --- values


def tree(rng: random.Random, leaves: list[Any], numbers: list[Any], size: int, ops: Any) -> Any:
    """A random expression as (operator, left, right); integers are leaves, other values numbers."""
    if size == 0:
        return rng.randrange(len(leaves))
    left = rng.randrange(size)
    parts = [tree(rng, leaves, numbers, one, ops) for one in (left, size - 1 - left)]
    if all(isinstance(one, int) for one in parts) and rng.random() < 0.4:
        parts[rng.randrange(2)] = (None, rng.choice(numbers))
    return rng.choice(ops), *parts


def value(expression: Any, leaves: list[Any]) -> Any:
    if isinstance(expression, int):
        return leaves[expression]
    if expression[0] is None:
        return expression[1]
    op, left, right = expression
    return op(value(left, leaves), value(right, leaves))


def of_dtypes(device: Any, kind: str) -> tuple[list[np.ndarray], list[Any]]:
    """Arrays and numbers that are combined."""
    rng = np.random.default_rng(3)
    if kind == "float32":
        x, y, z = floats(3)
        x[:6] = [np.nan, np.inf, -np.inf, -0.0, 3e38, 1e-40]
        return [x, y, z, x > 0], [2.5, -3, True, np.float32(1e-3), float("inf"), -0.0]
    if kind == "complex64":
        parts = floats(6)
        return [(one + 1j * other).astype("c8") for one, other in zip(parts[::2], parts[1::2], strict=True)], [2, 1.5j]
    needs.dtype(device, *([kind] if kind != "integers" else []))
    if kind == "integers":
        dtypes = ["i1", "u1", "i2", "i4", "?", "i8"]
        return [rng.integers(0, 2 if one == "?" else 120, N).astype(one) for one in dtypes], [3, np.int16(-7), True]
    return [rng.standard_normal(N).astype(kind) for _ in range(3)], [0.1, 3, -7.25]


@pytest.mark.parametrize("kind", ["float32", "integers", "float16", "float64", "complex64"])
def test_random_expressions_have_the_bits_of_separate_operators(
    device: Any, kind: str, monkeypatch: pytest.MonkeyPatch, launched: list[str]
) -> None:
    arrays, numbers = of_dtypes(device, kind)
    fields = [pydp.field(one, device=device) for one in arrays]
    rng = random.Random(kind)
    ops = ARITHMETIC if kind in ("integers", "complex64") else (*ARITHMETIC, operator.truediv)
    for size in (3, 6) if kind != "float32" else (2, 5, 11):
        expression = tree(rng, fields, numbers, size, ops)
        with np.errstate(all="ignore"):
            want = value(expression, arrays)
        monkeypatch.setattr(fusion, "MOST_STEPS", 0)
        separate = value(expression, fields)
        assert not lazy(separate)
        monkeypatch.undo()
        for _ in range(2):  # one kernel each, then one kernel for all
            result = value(expression, fields)
            assert lazy(result) and type(result) is type(fields[0])
            assert bits(result.get()) == bits(separate.get())
        assert (result.dtype, result.shape) == (want.dtype, want.shape)
        if operator.truediv not in ops and kind != "complex64":
            np.testing.assert_array_equal(result.get(), want)
        else:
            np.testing.assert_allclose(result.get(), want, rtol=2e-2 if kind == "float16" else 1e-4, atol=1e-3)


def test_a_product_is_rounded_before_it_is_added(device: Any, launched: list[str]) -> None:
    """A fused multiply-add would give other bits."""
    x, y = floats(2, (4096,))
    a, b = (pydp.field(one, device=device) for one in (x, y))
    want = x * x - y * y
    exact = (x.astype(np.float64) * x - y * y).astype(np.float32)
    assert (exact != want).any()
    for name in ("elementwise_sub", "elementwise_fused"):
        assert bits((a * a - b * b).get()) == bits(want)
        assert launched[-1] == name


@pytest.mark.parametrize("op", COMPARISONS)
def test_comparisons_of_results(device: Any, op: Any) -> None:
    x, y = floats(2)
    x[0], y[1] = np.nan, np.nan
    a, b = (pydp.field(one, device=device) for one in (x, y))
    for _ in range(2):
        result = op(a + b, b) == (a < 0.5)
        assert lazy(result)
        np.testing.assert_array_equal(result.get(), op(x + y, y) == (x < np.float32(0.5)))
    n = pydp.field(np.arange(-3, 4), device=device)
    for number in (2, 1 << 70, -(1 << 70), None, "text"):
        np.testing.assert_array_equal(
            (op(n + 0, number) if number.__class__ is int else n + 0 == number).get(),
            op(np.arange(-3, 4), number) if number.__class__ is int else False,
        )


def test_shapes_and_strides(device: Any) -> None:
    x, y = floats(2, (12, 10))
    row, column = x[0].copy(), x[:, :1].copy()
    a, b, r, c = (pydp.field(one, device=device) for one in (x, y, row, column))
    square = pydp.field(x[:10], device=device)
    for _ in range(2):
        np.testing.assert_array_equal((a.T * b.T + r[:, None]).get(), x.T * y.T + row[:, None])
        np.testing.assert_array_equal((a[::2, ::-1] * c[::2] - b[1::2]).get(), x[::2, ::-1] * column[::2] - y[1::2])
        np.testing.assert_array_equal((square * 3 - square.T).get(), square.get() * 3 - square.get().T)
        smaller = r * 2 + 1  # of another shape: computed first
        np.testing.assert_array_equal((a * smaller + c).get(), x * (row * 2 + 1) + column)
        whole, want = a * b, x * y
        np.testing.assert_array_equal((whole.T * b.T + whole.T[::-1]).get(), want.T * y.T + want.T[::-1])
        np.testing.assert_array_equal((whole[3] + whole.reshape(-1)[:10]).get(), want[3] + want[0])
        one = pydp.field(np.float32(2), device=device)
        np.testing.assert_array_equal((one * 3 + one).get(), np.float32(8))
        assert (a[:0] * 2 + b[:0]).get().shape == (0, 10)


@pytest.mark.oclgrind
def test_small_expressions(device: Any) -> None:
    x, y = floats(2, (9,))
    a, b = (pydp.field(one, device=device) for one in (x, y))
    for _ in range(3):
        b += a * 2
        y += x * 2
        result = a * b + b * 0.5 - (a > 0)
        np.testing.assert_array_equal(result.get(), x * y + y * np.float32(0.5) - (x > 0))


# --- expressions that one kernel computes


def test_repeated_expressions_run_in_one_kernel(device: Any, launched: list[str]) -> None:
    x, y, z = floats(3)
    a, b, c = (pydp.field(one, device=device) for one in (x, y, z))
    del launched[:]
    for repeat in range(4):
        number = 1.5 * repeat  # an argument of the kernel
        result = a * b + c * number - a
        np.testing.assert_array_equal(result.get(), x * y + z * np.float32(number) - x)
        want = ["elementwise_mul"] * 2 + ["elementwise_add", "elementwise_sub"] if not repeat else ["elementwise_fused"]
        assert launched == want
        del launched[:]
    other = a * b + c * 0.25 - b  # b instead of a: another expression
    np.testing.assert_array_equal(other.get(), x * y + z * np.float32(0.25) - y)
    assert len(launched) == 4


def test_nothing_runs_for_dropped_results(device: Any, launched: list[str]) -> None:
    a = pydp.field(floats(1)[0], device=device)
    del launched[:]
    for _ in range(100):
        a * 2 + a
    device.queue.finish()
    assert not launched
    a += 1
    assert launched == ["elementwise_add"] and type(a._storage) is Storage


def test_the_number_of_operators_and_arrays_is_limited(device: Any, launched: list[str]) -> None:
    arrays = floats(20)
    fields = [pydp.field(one, device=device) for one in arrays]
    for _ in range(2):
        del launched[:]
        result, want = fields[0], arrays[0]
        for one, array in zip(fields[1:], arrays[1:], strict=True):
            result, want = result + one, want + array
        assert bits(result.get()) == bits(want)
    assert len(launched) == -(-19 // (fusion.MOST_ARRAYS - 1))
    for _ in range(3):
        del launched[:]
        result, want = fields[0], arrays[0]
        for _ in range(40):
            result, want = result * 0.9 + fields[1], want * np.float32(0.9) + arrays[1]
        assert bits(result.get()) == bits(want)
    assert len(launched) == 80 // fusion.MOST_STEPS
    deep = fields[0]  # each result is used twice: a kernel computes it once
    for _ in range(10):
        deep = deep * deep
    assert deep._storage.lazy.size <= fusion.MOST_STEPS
    want = arrays[0]
    with np.errstate(all="ignore"):
        for _ in range(10):
            want = want * want
    np.testing.assert_array_equal(deep.get(), want)


def test_a_result_of_several_expressions_is_computed_once(device: Any, launched: list[str]) -> None:
    x, y = floats(2)
    a, b = (pydp.field(one, device=device) for one in (x, y))
    for repeat in range(2):
        del launched[:]
        shared = a * b + 1
        first, second = shared - a, shared - b
        del shared
        np.testing.assert_array_equal(first.get(), x * y + 1 - x)
        np.testing.assert_array_equal(second.get(), x * y + 1 - y)
        assert len(launched) == (4 if not repeat else 3)
    for repeat in range(2):
        del launched[:]
        product = a * b
        total = product * 2 + product * b  # one expression
        np.testing.assert_array_equal(total.get(), x * y * 2 + x * y * y)
        if repeat:
            assert launched == ["elementwise_fused"] and lazy(product)  # the program may still ask for it
        np.testing.assert_array_equal(product.get(), x * y)


# --- when it runs


def test_calls_start_what_waits(device: Any, launched: list[str]) -> None:
    a, b = (pydp.field(one, device=device) for one in floats(2))
    pydp.scan(b)
    starts = {
        "queue": lambda field: device.queue.finish(),
        "event": lambda field: field.event.wait(),
        "another call": lambda field: pydp.scan(b),
        "get": lambda field: field.get(),
        "a copy": lambda field: b.copy(),
        "empty": lambda field: pydp.empty(3, device=device),
    }
    for name, start in starts.items():
        for _ in range(2):  # each time, because a build may evict the kernel; then the operators run separately
            (a * 2 + a).get()
        del launched[:]
        result = a + 3
        inner = a * 2
        assert lazy(result) and not launched, name
        outer = inner + a
        start(result)
        assert launched[0] == "elementwise_add" and not lazy(result), name
        assert name == "event" or (lazy(inner) and not lazy(outer)), name
        device.queue.finish()
        del inner, outer, result
    many = [a + k for k in range(100)]
    assert sum(map(lazy, many)) <= fusion._MOST_WAITING
    np.testing.assert_array_equal(many[7].get(), a.get() + 7)


def _kernel_write(a: Any) -> None:
    def clear(idx: Any, out: Any) -> None:
        out[idx] = 0

    pydp.forall(a.shape, clear, a)


def _through_array(a: Any) -> None:
    a.array.fill(9)


def _fill(a: Any) -> None:
    cl.enqueue_fill_buffer(a.device.queue, a.array.base_data, np.float32(4), 0, a.nbytes)


WRITES = {
    "a += 1": lambda a, b: operator.iadd(a, 1),
    "a += b * a": lambda a, b: operator.iadd(a, b * a),
    "a[...] = 0": lambda a, b: operator.setitem(a, ..., 0),
    "a[::2] = b[::2]": lambda a, b: operator.setitem(a, slice(None, None, 2), b[::2]),
    "a.set": lambda a, b: a.set(np.zeros(N, np.float32)),
    "a.copy_in": lambda a, b: a.copy_in(b, blocking=False),
    "b.copy_out": lambda a, b: b.copy_out(a),
    "a view": lambda a, b: operator.imul(a[::-1][5:], 2),
    "scan": lambda a, b: pydp.scan(b, out=a),
    "evaluate": lambda a, b: pydp.evaluate("2 * b", b=b, out=a),
    "forall": lambda a, b: _kernel_write(a),
    "array": lambda a, b: _through_array(a),
    "fill": lambda a, b: _fill(a),
}


@pytest.mark.parametrize("write", WRITES)
def test_changes_of_an_operand_come_later(device: Any, write: str, monkeypatch: pytest.MonkeyPatch) -> None:
    x, y = floats(2)
    for repeat in range(4):
        if repeat == 2:  # now only the operand's memory computes the results, as for calls in other threads
            monkeypatch.setattr(DeviceCore, "start_lazy", lambda self: None)
        a, b = (pydp.field(one, device=device) for one in (x, y))
        kept = a * 3
        result = a * b + b
        inner = result - 1  # result is needed by another one and by the program
        assert lazy(kept) and lazy(result) and type(a._storage) is GuardedStorage
        WRITES[write](a, b)
        assert bits(kept.get()) == bits(x * 3)
        assert bits(result.get()) == bits(x * y + y)
        assert bits(inner.get()) == bits(x * y + y - 1)
        assert not np.array_equal(a.get(), x)
        result += 1
        after = result * 2 + a
        assert lazy(after) is (write not in ("array", "fill"))  # pydp does not see all uses of such memory
        np.testing.assert_array_equal(after.get(), (x * y + y + 1) * 2 + a.get())


def test_changes_of_a_result_come_later(device: Any, launched: list[str], monkeypatch: pytest.MonkeyPatch) -> None:
    x, y = floats(2)
    a, b = (pydp.field(one, device=device) for one in (x, y))
    for repeat in range(4):
        if repeat == 2:
            monkeypatch.setattr(DeviceCore, "start_lazy", lambda self: None)
        result = a * b
        other = result + b
        third = result - a
        if repeat % 2:
            assert other.event is not None  # computes result, too, which third still needs
            assert lazy(third) and type(result._storage) is GuardedStorage
        view = result[10:]
        view += 1
        np.testing.assert_array_equal(other.get(), x * y + y)
        np.testing.assert_array_equal(third.get(), x * y - x)
        want = x * y
        want[10:] += 1
        np.testing.assert_array_equal(result.get(), want)


def test_in_place_operators_are_fused(device: Any, launched: list[str]) -> None:
    x, y = floats(2)
    a, b = (pydp.field(one, device=device) for one in (x, y))
    for repeat in range(3):
        del launched[:]
        b += a * 2
        y += x * 2
        assert launched == (["elementwise_mul", "elementwise_add"] if not repeat else ["elementwise_fused"])
        part, want = b[::-1][3:], y[::-1][3:]
        part -= a[3:] * a[3:]
        want -= x[3:] * x[3:]
        b *= b + 1  # reads b: not fused
        y *= y + 1
        np.testing.assert_array_equal(b.get(), y)
    guarded = b * 2
    b += a * 2
    np.testing.assert_array_equal(guarded.get(), y * 2)
    whole = pydp.field(np.arange(5, dtype=np.int16), device=device)
    whole += whole * 2
    whole -= pydp.field(np.arange(5, dtype=np.int16), device=device) * 3
    assert not whole.get().any()
    for wrong in (b.read_only, whole):
        with pytest.raises(InvalidArgument):
            wrong += b * 2
    with pytest.raises(InvalidArgument, match="shapes"):
        part += a * 2


def test_errors_are_raised_by_the_operator(device: Any) -> None:
    a = pydp.field(floats(1)[0], device=device)
    small = pydp.field(np.arange(3, dtype=np.uint8), device=device)
    for _ in range(2):
        with pytest.raises(InvalidArgument, match="cannot be broadcast"):
            a * 2 + small
        with pytest.raises(InvalidArgument, match="300 does not fit the dtype uint8"):
            small + 1 + 300
        with pytest.raises(InvalidArgument, match="not defined"):
            (small > 1) - (small > 2)
        with pytest.raises(TypeError):
            a * 2 + "text"
        if not device.profile.fp64:
            with pytest.raises(UnsupportedOnDevice):
                small * 2 / 3
    context = cl.Context([device.cl])
    other = pydp.field(floats(1)[0], device=pydp.runtime.drivers.devices.from_queue(cl.CommandQueue(context)))
    with pytest.raises(InvalidArgument, match="copy it there first"):
        a * 2 + other


def test_errors_of_the_device_keep_the_operands(device: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    x = floats(1)[0]
    a = pydp.field(x, device=device)
    result = a * 2 + 1

    def fail(*args: Any) -> None:
        raise OutOfResources("no memory")

    monkeypatch.setattr(fusion, "_run", fail)
    device.queue.finish()  # of no call that needs the result
    for use in (result.get, lambda: operator.setitem(a, ..., 0), lambda: operator.iadd(a, 1)):
        with pytest.raises(OutOfResources, match="no memory"):
            use()
    monkeypatch.undo()
    a += 1
    np.testing.assert_array_equal(result.get(), x * 2 + 1)


def test_other_queues_wait_for_results_and_results_for_them(device: Any) -> None:
    x, y = floats(2)
    a, b = (pydp.field(one, device=device) for one in (x, y))
    second = cl.CommandQueue(device.context, device.cl)
    device.queue.finish()
    for _ in range(3):
        gate = cl.UserEvent(device.context)
        cl.enqueue_barrier(device.queue, wait_for=[gate])
        result = a * b + b
        pydp.scan(b, out=a, queue=second)  # reads and writes what waits on the device's queue
        after = a * 2 + b
        pydp.reduce(after, queue=second)
        second.flush()
        gate.set_status(cl.command_execution_status.COMPLETE)
        np.testing.assert_array_equal(result.get(), x * y + y)
        x = a.get()
        np.testing.assert_allclose(x, np.cumsum(y, dtype=np.float32), rtol=1e-4, atol=1e-4)
        np.testing.assert_array_equal(after.get(), x * 2 + y)


def test_threads_share_results(device: Any) -> None:
    x, y = floats(2)
    a, b = (pydp.field(one, device=device) for one in (x, y))
    for _ in range(10):
        shared = a * b
        results = [shared + k for k in range(4)]
        want = [x * y + np.float32(k) for k in range(4)]
        del shared

        def check(k: int, results: list[Any] = results, want: list[Any] = want) -> None:
            own = results[k] * 2 - a
            np.testing.assert_array_equal(results[k].get(), want[k])
            assert own.shape == x.shape

        def write(results: list[Any] = results) -> None:
            operator.iadd(b, 0)
            results.append(b * 2)

        raised = together([*(lambda k=k: check(k % 4) for k in range(8)), write])
        assert not raised, raised[:1]
        for result, right in zip(results, [*want, y * 2], strict=True):
            np.testing.assert_array_equal(result.get(), right)


def test_memory_is_released(device: Any) -> None:
    def alive() -> Iterator[Any]:
        a, b = (pydp.field(one, device=device) for one in floats(2))
        watched = [weakref.ref(one._storage) for one in (a, b)]
        for _ in range(3):
            result = a * 2 + b
            inner = result - a
            yield from ()
        watched += [weakref.ref(one._storage) for one in (result, inner)]
        watched.append(weakref.ref(result._storage.lazy))
        inner.get()
        del result
        dropped = inner * 3  # never computed
        watched.append(weakref.ref(dropped._storage.lazy))
        yield watched

    found = list(alive())
    gc.collect()
    assert len(found[0]) == 6 and not any(one() for one in found[0])


def test_arrays_that_pydp_does_not_watch_are_computed_at_once(device: Any) -> None:
    x = floats(1)[0]
    a = pydp.field(x, device=device)
    for _ in range(2):
        result = a * 2 + x  # the owner of x may change it now
        assert not lazy(result)
        changed = x.copy()
        other = a * 2 + changed
        changed[:] = 0
        np.testing.assert_array_equal(result.get(), x * 2 + x)
        np.testing.assert_array_equal(other.get(), x * 2 + x)
        assert not lazy(a * 2 + pydp.field(x, device=device).array)


def test_expressions_are_explained(device: Any, launched: list[str]) -> None:
    x, y = floats(2)
    a, b = (pydp.field(one, device=device) for one in (x, y))
    del launched[:]
    inner = a * b
    result = inner * 2 - a
    found = pydp.explain(result)
    assert lazy(result) and not launched
    assert found.facts["operators"] == "mul mul sub" and found.facts["launches"] == "1 x elementwise_fused"
    assert (found.facts["arrays"], found.facts["numbers"]) == (2, 1)
    assert "r2" in found.sources["elementwise_fused"] and "may need 1 of the intermediate results" in str(found)
    np.testing.assert_array_equal(result.get(), x * y * 2 - x)
    assert "computed already" in str(pydp.explain(result))
    with pytest.raises(InvalidArgument, match="without further arguments"):
        pydp.explain(inner, 3)


@pytest.mark.parametrize("dtypes", ["??", "?i", "bB", "hq"])
def test_bitwise_operators(device: Any, dtypes: str) -> None:
    x, y = (
        np.random.default_rng(n).integers(0, 2 if one == "?" else 99, N).astype(one) for n, one in enumerate(dtypes)
    )
    a, b = (pydp.field(one, device=device) for one in (x, y))
    for _ in range(2):
        result = ((a & b) | (a ^ b)) ^ ~b
        want = ((x & y) | (x ^ y)) ^ ~y
        assert lazy(result) and bits(result.get()) == bits(want)
        b ^= a > b
        y ^= x > y
        assert bits(b.get()) == bits(y)
    number = True if dtypes[0] == "?" else 5
    assert bits((number & a | number).get()) == bits(number & x | number)
    assert bits((a & x).get()) == bits(x)
    with pytest.raises(InvalidArgument, match="& is not defined for float32"):
        pydp.field(floats(1)[0], device=device) & a
    with pytest.raises(InvalidArgument, match="~ is not defined for float32"):
        ~pydp.field(floats(1)[0], device=device)


@pytest.mark.parametrize("place", ["_launch", "publish"])
def test_an_interrupted_result_is_computed_later(device: Any, place: str, monkeypatch: pytest.MonkeyPatch) -> None:
    x, y = floats(2)
    a, b = (pydp.field(one, device=device) for one in (x, y))
    owner = fusion if place == "_launch" else fusion.LazyResult
    real = getattr(owner, place)

    def interrupted(*args: Any) -> None:
        if place == "_launch":
            real(*args)
        monkeypatch.undo()
        raise KeyboardInterrupt

    for _ in range(3):
        result = a * b
        other = result + b
        monkeypatch.setattr(owner, place, interrupted)
        with pytest.raises(KeyboardInterrupt):
            result.event.wait()
        a += 1
        np.testing.assert_array_equal(result.get(), x * y)
        result *= 2
        np.testing.assert_array_equal(other.get(), x * y + y)
        x = a.get()


def test_storages_that_another_thread_has_computed(device: Any) -> None:
    """A thread may look up a method of a lazy Storage just before another thread makes it a normal one."""
    x = floats(1)[0]
    a = pydp.field(x, device=device)
    storage, queue = a._storage, device.queue
    assert type(storage) is Storage and storage.event is not None
    for state in (LazyStorage, GuardedStorage):
        assert state.buffer.fget(storage) is storage.buffer
        assert state.last_event(storage) is storage.event
        assert state.waits(storage, queue) == []
    LazyStorage.note(storage, storage.event, queue)
    np.testing.assert_array_equal(a.get(), x)


def test_dropped_and_needed_results_are_not_kept(device: Any, launched: list[str]) -> None:
    x, y = floats(2)
    a, b = (pydp.field(one, device=device) for one in (x, y))
    shared = a * b
    for _ in range(500):
        shared + 1
    assert len(shared._storage.lazy.consumers) <= fusion._MOST_GUARDS + 1
    np.testing.assert_array_equal(shared.get(), x * y)
    kept = []  # results that the next operator needs, but the program never uses
    for k in range(100):
        kept.append(a * k)
        (kept[-1] + b).get()
    assert sum(map(lazy, kept)) <= fusion._MOST_NEEDED
    for k in (0, 50, 99):
        np.testing.assert_array_equal(kept[k].get(), x * k)
    many = [[a * k, a * k + b] for k in range(100)]  # the same without another call
    for k, (product, total) in enumerate(many):
        many[k] = [product, total, product - total]
    assert sum(lazy(one) for group in many for one in group) < 200
    del many
    dropped = weakref.ref(kept[98]._storage.lazy)
    del kept[98]
    gc.collect()
    assert dropped() is None


def test_launches_that_occur_once_are_not_kept(device: Any, launched: list[str]) -> None:
    x = floats(1)[0]
    a = pydp.field(x, device=device)
    count = len(device.recordings)
    for size in range(1, 30):
        np.testing.assert_array_equal((a[:size] + a[-size:]).get(), x[:size] + x[-size:])
    assert len(device.recordings) == count
    assert (a[:29] + a[-29:]).event is not None
    assert len(device.recordings) == count + 1


def test_expressions_whose_kernel_cannot_be_built(
    device: Any, launched: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    x, y = floats(2, (77,))
    a, b = (pydp.field(one, device=device) for one in (x, y))
    plan, tries = fusion._plan, []

    def fails(home: Any, operations: Any, gathered: Any) -> Any:
        if len(operations) > 1:
            tries.append(len(operations))
            raise BuildFailed("an internal error of the compiler")
        return plan(home, operations, gathered)

    monkeypatch.setattr(fusion, "_plan", fails)
    for _ in range(4):
        result = a * 2 + b
        b += a * 3
        np.testing.assert_array_equal(result.get(), x * 2 + y)
        y += x * 3
        np.testing.assert_array_equal(b.get(), y)
    assert tries == [2, 2] and "elementwise_fused" not in launched
