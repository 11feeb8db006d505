"""Elementwise kernels whose work-items compute several elements each, as on GPUs."""

from __future__ import annotations

from typing import Any

import made_up
import numpy as np
import pyopencl as cl
import pyopencl.array
import pytest

import pydp
from pydp.runtime.arrays import elementwise

F4, F8, U1, C16 = (np.dtype(one) for one in ("f4", "f8", "u1", "c16"))
_LARGE = 1 << 26


def test_the_number_of_elements() -> None:
    gpu, cpu = (made_up.profile(mapping=mapping, compute_units=100) for mapping in ("simt", "vector"))
    assert elementwise.items_of(cpu, _LARGE, 1, 256, [F4, F4]) == 1
    for dtypes, items in (([F4, F4], 4), ([U1, F4], 4), ([F8, F4], 2), ([U1, U1], 8), ([C16, C16], 1)):
        assert elementwise.items_of(gpu, _LARGE, 1, 256, dtypes) == items
    # Each compute unit has its work-items first, and a row is not padded to more than twice its length.
    assert elementwise.items_of(gpu, 100 * 2048, 1, 256, [F4]) == 1
    assert elementwise.items_of(gpu, 3 * 100 * 2048, 1, 256, [F4]) == 2
    assert elementwise.items_of(gpu, 256, _LARGE >> 8, 256, [F4]) == 1
    assert elementwise.items_of(gpu, 600, _LARGE >> 8, 256, [F4]) == 2


@pytest.fixture
def several(device: Any, monkeypatch: pytest.MonkeyPatch) -> Any:
    """A function that makes every work-item compute so many elements, in work-groups of 4 along a row."""

    def use(items: int) -> None:
        monkeypatch.setattr(elementwise, "items_of", lambda *_: items)
        monkeypatch.setattr(elementwise, "_group", lambda *_: (4, 1))
        forget()

    def forget() -> None:
        device.plans.clear()
        device.recordings.clear()

    yield use
    forget()


@pytest.mark.oclgrind
@pytest.mark.parametrize("items", [2, 4, 8])
def test_every_length(device: Any, several: Any, items: int) -> None:
    several(items)
    x = np.arange(3 * 4 * items, dtype=np.int32)
    for n in (1, 3, 4, 5, 4 * items - 1, 4 * items, 4 * items + 1, 8 * items + 3, x.size):
        field = pydp.field(x[:n], device=device)
        assert np.array_equal(field.copy().get(), x[:n])
        assert np.array_equal((field + 7).get(), x[:n] + 7)
        field += field  # each element is read before it is written
        assert np.array_equal(field.get(), 2 * x[:n])
        framed = pydp.zeros(n + 8, np.int32, device=device)
        framed[4 : n + 4] = field[::-1]
        assert np.array_equal(framed.get(), np.pad(2 * x[:n][::-1], 4))


@pytest.mark.oclgrind
@pytest.mark.parametrize("items", [2, 4])
def test_kinds_of_kernels(device: Any, several: Any, items: int) -> None:
    several(items)
    x = np.arange(5 * 7 * 11, dtype=np.float32).reshape(5, 7, 11)
    field = pydp.field(x, device=device)
    assert np.array_equal(field.astype(np.int16).get(), x.astype(np.int16))
    assert np.array_equal((field[:, ::2, ::3] * field[:, ::2, 1::3][..., :1]).get(), x[:, ::2, ::3] * x[:, ::2, 1:2])
    assert np.array_equal((field > 50).get(), x > 50)
    assert np.array_equal(pydp.where(field > 50, field, 0.0).get(), np.where(x > 50, x, 0))
    assert np.array_equal(pydp.evaluate("2 * x + y", x=field[0], y=field[1, :1]).get(), 2 * x[0] + x[1, :1])
    assert np.array_equal(((field + 1) * 2 - field).get(), (x + 1) * 2 - x)
    z = (x[0] + 1j * x[1]).astype(np.complex64)
    assert np.array_equal((pydp.field(z, device=device) + 1j).get(), z + np.complex64(1j))


def _stores_nontemporal(device: Any, fn: Any, *args: Any, **options: Any) -> bool:
    return any("nontemporal" in one for one in pydp.explain(fn, *args, device=device, **options).sources.values())


@pytest.mark.usefixtures("nontemporal")
@pytest.mark.parametrize("dtype", ["i1", "u2", "i4", "f8", "c16", "i1,i2,f4"])
def test_blocks_of_every_length_and_place(device: Any, dtype: str) -> None:
    block = 512 // np.dtype(dtype).itemsize
    part = (1 << 17) // np.dtype(dtype).itemsize
    x = np.random.default_rng(0).integers(0, 99, part + 4 * block + 80).astype(dtype)
    field = pydp.field(x, device=device)
    for n in (4 * block - 1, 4 * block, 5 * block + 1, part - 1, part, part + 4 * block + 3):
        for start in (0, 1, 64):
            framed = pydp.field(np.roll(x, 7), device=device)
            want = framed.get()
            framed[start : start + n] = field[2 : n + 2][::-1]
            want[start : start + n] = x[2 : n + 2][::-1]
            assert np.array_equal(framed.get(), want), (n, start)


@pytest.mark.usefixtures("nontemporal")
def test_blocks_of_rows_and_kinds_of_kernels(device: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    x = np.random.default_rng(0).integers(1, 99, (5, 7, 1030)).astype(np.float32)
    field = pydp.field(x, device=device)
    assert np.array_equal(field.astype(np.int16).get(), x.astype(np.int16))
    wide = pydp.zeros((5, 7, 2000), np.float32, device=device)
    wide[:, 1:, 3:1033] = field[:, :6] * field[:1, :1, :1]  # rows that begin inside a cache line
    wide[:, 1:, 1033:] = field[:1, :6, 967:0:-1]
    want = np.zeros((5, 7, 2000), np.float32)
    want[:, 1:, 3:1033], want[:, 1:, 1033:] = x[:, :6] * x[0, 0, 0], x[:1, :6, 967:0:-1]
    assert np.array_equal(wide.get(), want)
    assert np.array_equal((field > 50).get(), x > 50)
    assert np.array_equal(pydp.where(field > 50, field, 0.0).get(), np.where(x > 50, x, 0))
    assert np.array_equal(((field + 1) * 2 - field[..., :1]).get(), (x + 1) * 2 - x[..., :1])
    assert np.array_equal(pydp.evaluate("2 * x + y", x=field, y=field[:1]).get(), 2 * x + x[:1])
    monkeypatch.setattr(elementwise, "MOST_GROUPS", 3)  # rows in dimension 2 of a launch
    assert np.array_equal((field[::-1, ::2] + field[:, ::2]).get(), x[::-1, ::2] + x[:, ::2])


@pytest.mark.usefixtures("nontemporal")
def test_blocks_of_every_type(device: Any) -> None:
    x = np.random.default_rng(0).integers(0, 99, (2, 5000))
    numbers = ["i1", "u2", "i8", "f4", "c8", *["f8", "c16"] * device.profile.fp64, *["f2"] * device.profile.fp16]
    for dtype in numbers:
        a, b = x.astype(dtype)
        one, other = pydp.field(a, device=device), pydp.field(b, device=device)
        assert np.array_equal((one + other).get(), a + b), dtype
        assert np.array_equal((one == other).get(), a == b), dtype
        assert np.array_equal(one.astype(np.complex64).get(), a.astype(np.complex64)), dtype
        if dtype[0] != "c":
            assert np.array_equal(one.astype(np.int16).get(), a.astype(np.int16)), dtype
    odd = pydp.field(x[0] % 2 == 1, device=device)
    assert np.array_equal((odd & (odd ^ True)).get(), np.zeros(5000, bool))
    records = x.astype("i4,i4")
    one, other = (pydp.field(row, device=device) for row in records)
    assert np.array_equal((one != other).get(), records[0] != records[1])
    assert np.array_equal(one[::-1].copy().get(), records[0][::-1])


@pytest.mark.usefixtures("nontemporal")
@pytest.mark.parametrize(("dtype", "place"), [("f4", 4), ("f8", 8), ("c8", 8), ("i4,i4", 8), ("i1", 1)])
def test_blocks_in_memory_of_the_program(device: Any, dtype: str, place: int) -> None:
    """It may begin inside a cache line."""
    a = np.random.default_rng(0).integers(0, 99, 3000).astype(dtype)
    memory = np.zeros(a.nbytes + 128, np.uint8)
    start = -memory.ctypes.data % 64 + place
    given = memory[start : start + a.nbytes]
    flags = cl.mem_flags.READ_WRITE | cl.mem_flags.USE_HOST_PTR
    buffer = cl.Buffer(device.context, flags, hostbuf=given)
    out = cl.array.Array(device.queue, a.shape, a.dtype, data=buffer)
    pydp.transpose(pydp.field(a, device=device), out=out)
    assert np.array_equal(out.get(), a)
    if dtype == "f4":
        pydp.evaluate("exp(0 * x) + x", x=pydp.field(a, device=device), out=out)
        assert np.array_equal(out.get(), a + 1)


@pytest.mark.usefixtures("nontemporal")
def test_operators_in_place_store_to_the_lines_that_they_read(device: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    made = []

    def prepare(*args: Any, **options: Any) -> Any:
        made.append(original(*args, **options))
        return made[-1]

    original = elementwise.prepare
    monkeypatch.setattr(elementwise, "prepare", prepare)
    x = np.arange(6000, dtype=np.float32)
    a, b = pydp.field(x, device=device), pydp.field(x + 1, device=device)
    for _ in range(3):  # the third time, b * 2 is computed in the kernel of the addition
        a += b * 2
    b = pydp.field(x, device=device)
    pydp.evaluate("x * 2", x=b, out=pydp.empty(6000, device=device))
    pydp.evaluate("x * 2", x=b, out=b)  # the layouts of the call before
    assert np.array_equal(b.get(), 2 * x)
    a *= 3
    half = a[3000:]
    half[...] = a[:3000]  # the other half is not read
    assert np.array_equal(a.get(), np.tile((x + 6 * (x + 1))[:3000] * 3, 2))
    kinds = {(one.kernel.name.removeprefix("elementwise_"), "nontemporal" in one.kernel.source) for one in made}
    assert kinds == {("mul", True), ("call", True), ("call", False), *((op, False) for op in ("add", "mul", "fused")),
                     ("copy", True)}  # fmt: skip


@pytest.mark.usefixtures("nontemporal")
@pytest.mark.parametrize("expression", ["x + y", "exp(-x) + y"])
def test_expressions_are_stored_past_the_caches_unless_in_place(device: Any, expression: str) -> None:
    x, y = np.random.default_rng(0).standard_normal((2, 70, 1030)).astype(np.float32)
    values = {"x": pydp.field(x, device=device), "y": pydp.field(y, device=device)}
    want = x + y if expression == "x + y" else np.exp(-x) + y
    result = pydp.empty(x.shape, np.float32, device=device)
    framed = pydp.zeros((70, 1100), np.float32, device=device)
    flat = framed.reshape(-1)
    for n in (*range(1010, 1027), 4096 + 15):  # rests of every length, also of a whole part
        given = {name: one.reshape(-1)[:n] for name, one in values.items()}
        got = pydp.evaluate(expression, **given, out=flat[3 : n + 3])
        np.testing.assert_allclose(got.get(), want.ravel()[:n], rtol=1e-5, atol=1e-6)
        assert not flat[n + 3 :].get().any()
        flat[:] = 0
    for out in (result, framed[:, 3:1033], values["x"]):
        in_place = out is values["x"]
        assert _stores_nontemporal(device, pydp.evaluate, expression, **values, out=out) is not in_place
        pydp.evaluate(expression, **values, out=out)
        np.testing.assert_allclose(out.get(), want, rtol=1e-5, atol=1e-6)
    assert not framed.get()[:, :3].any() and not framed.get()[:, 1033:].any()


def test_only_large_results_are_stored_past_the_caches(device: Any) -> None:
    expected = device.profile.nontemporal_bytes is not None
    for n, large in ((1 << 16, False), ((device.profile.nontemporal_bytes or 1 << 23) // 4 + 1, expected)):
        x = pydp.zeros(n, np.float32, device=device)
        assert _stores_nontemporal(device, pydp.evaluate, "x + 1", x=x) is large


@pytest.mark.usefixtures("nontemporal")
@pytest.mark.parametrize("place", [0, 8, 24])
@pytest.mark.parametrize("dtype", ["f4,f4,f4,f4", "f8,f8", "f8,f8,f8,f8"])
def test_blocks_of_records_that_begin_inside_every_line(device: Any, dtype: str, place: int) -> None:
    a, b = np.random.default_rng(0).integers(0, 99, (2, 3000)).astype(dtype)
    memory = np.zeros(a.nbytes + 128, np.uint8)
    start = -memory.ctypes.data % 64 + place
    out = memory[start : start + a.nbytes].view(dtype)
    mask = np.arange(3000) % 3 == 0
    pydp.where(mask, a, b, out=out, device=device)
    assert np.array_equal(out, np.where(mask, a, b))
    assert not memory[:start].any() and not memory[start + a.nbytes :].any()
