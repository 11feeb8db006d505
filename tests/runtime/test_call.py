"""The arguments of calls: kinds, placement, memory in place and copied, results, errors."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator
from typing import Any

import needs
import numpy as np
import pyopencl as cl
import pyopencl.array
import pyopencl.tools
import pytest
from counted import calls

import pydp
from pydp.errors import InvalidArgument, OutOfResources
from pydp.runtime.call import Call
from pydp.runtime.drivers.devices import Device
from pydp.runtime.field.field import Field


def twice(x: Any, **options: Any) -> Any:
    """A little algorithm: 2 * x through the elementwise kernels."""
    from pydp.runtime.arrays.elementwise import apply

    call = Call.begin({"x": x}, **options)
    source = call.input("x")
    target = call.output(source.shape, source.dtype)
    apply(call, "add", [source, source], target)
    return call.finish(target)


@pytest.fixture(params=["shared", "mapped", "own"])
def memory(request: pytest.FixtureRequest, device: Device) -> Iterator[str]:
    """The device as it is; as if results in NumPy memory had to be mapped; and as if it had memory of its own, so that
    NumPy data is copied."""
    before = device.profile
    if request.param == "mapped":
        if not before.direct_host_memory:
            pytest.skip("results in NumPy memory are mapped on this device, or copied")
        device._profile = dataclasses.replace(before, direct_host_memory=False)
    if request.param == "own":
        device._profile = dataclasses.replace(before, shares_host_memory=False, direct_host_memory=False)
    yield request.param
    device._profile = before


def arrays(values: np.ndarray) -> dict[str, np.ndarray]:
    """The same values in every kind of NumPy memory."""
    wide = np.zeros((values.shape[0] * 2, values.shape[1] * 3), values.dtype)
    wide[::2, ::3] = values
    raw = np.zeros(values.nbytes + 1, np.uint8)
    crooked = raw[1:].view(values.dtype).reshape(values.shape)
    crooked[...] = values
    packed = np.zeros(values.shape, [("a", "u1"), ("b", values.dtype)])
    packed["b"] = values
    return {
        "plain": values.copy(),
        "fortran": np.asfortranarray(values),
        "strided": wide[::2, ::3],
        "transposed and strided": np.ascontiguousarray(wide.T).T[::2, ::3],
        "reversed": values[::-1, ::-1].copy()[::-1, ::-1],
        "swapped bytes": values.astype(values.dtype.newbyteorder(">")),
        "not aligned": crooked,
        "member of records": packed["b"],
    }


def test_every_kind_of_numpy_memory_as_input(device: Device, memory: str) -> None:
    values = np.arange(20, dtype=np.int32).reshape(4, 5)
    for name, array in arrays(values).items():
        result = twice(array)
        assert type(result) is np.ndarray and result.dtype == np.int32, name
        np.testing.assert_array_equal(result, 2 * values, err_msg=name)
        np.testing.assert_array_equal(array, values, err_msg=name)
    np.testing.assert_array_equal(twice(np.broadcast_to(values[0], (4, 5))), 2 * np.broadcast_to(values[0], (4, 5)))
    frozen = values.copy()
    frozen.flags.writeable = False
    np.testing.assert_array_equal(twice(frozen), 2 * values)


def test_every_kind_of_numpy_memory_as_output(device: Device, memory: str) -> None:
    values = np.arange(20, dtype=np.int32).reshape(4, 5)
    for name, target in arrays(np.zeros_like(values)).items():
        base = target.base
        if name == "swapped bytes":
            with pytest.raises(InvalidArgument, match="dtype"):
                twice(values, out=target)
            continue
        assert twice(values, out=target) is target
        np.testing.assert_array_equal(target, 2 * values, err_msg=name)
        if name == "strided":  # nothing else was touched
            assert base.sum() == 2 * values.sum()


def test_in_place_and_overlapping_numpy(device: Device, memory: str) -> None:
    values = np.arange(12, dtype=np.int32)
    data = values.copy()
    twice(data, out=data)
    np.testing.assert_array_equal(data, 2 * values)
    data = values.copy()
    twice(data[:-3], out=data[3:])
    np.testing.assert_array_equal(data[3:], 2 * values[:-3])
    np.testing.assert_array_equal(data[:3], values[:3])
    data = values.copy()
    twice(data[::-1], out=data)
    np.testing.assert_array_equal(data, 2 * values[::-1])


def test_an_array_around_one_that_is_written_keeps_its_whole_memory(device: Device) -> None:
    values = np.arange(1000, dtype=np.int32)
    for parts in ((slice(10, 20), slice(40, 50)), (slice(0, 20), slice(5, 10))):
        call = Call.begin({"all": values, "one": values[parts[0]], "two": values[parts[1]]}, writable=["one"])
        at = [call.input("all"), call.inout("one"), call.input("two")]
        assert all(operand.buffer.size >= 4 * operand.span[1] for operand in at)
        if device.profile.shares_host_memory:
            assert at[0].buffer is at[1].buffer is at[2].buffer
        call.finish()


@pytest.mark.parametrize("source, target", [("x", "flag"), ("flag", "x"), ("wide", "kind"), ("flag", "wide")])
def test_members_of_records_where_the_first_begins_between_elements_of_the_other(
    device: Device, memory: str, source: str, target: str
) -> None:
    record = np.dtype([("kind", "u1"), ("flag", "u1"), ("x", "f4"), ("wide", "i8")], align=True)
    data = np.zeros(100, record)
    for step, name in enumerate(record.names, 1):
        data[name] = step * np.arange(100) % 100
    want = data.copy()
    want[target] = data[source]
    call = Call.begin({"x": data[source]}, out=data[target])
    x, out = call.input("x"), call.output((100,), data[target].dtype)
    call.copy(x, out)
    call.finish()
    assert data.tolist() == want.tolist()


def test_inputs_written_in_place(device: Device, memory: str) -> None:
    values = np.arange(20, dtype=np.int32).reshape(4, 5)
    for name, array in arrays(values).items():
        call = Call.begin({"x": array, "one": np.int32(1)}, writable=["x"])
        x = call.inout("x")
        assert x.dtype.isnative
        call.copy(x.view(x.shape, x.strides), x)
        from pydp.runtime.arrays.elementwise import apply

        apply(call, "add", [x, call.input("one")], x)
        assert call.blocking and call.finish() is None
        np.testing.assert_array_equal(array, values + 1, err_msg=name)
    part = values.copy()
    call = Call.begin({"x": part[::2]}, writable=["x"])
    x = call.inout("x")
    apply(call, "mul", [x, np.int32(3)], x)
    call.finish()
    expected = values.copy()
    expected[::2] *= 3
    np.testing.assert_array_equal(part, expected)


def test_kinds_of_results(device: Device, memory: str) -> None:
    values = np.arange(6, dtype=np.float32)
    field, array = pydp.field(values), cl.array.to_device(device.queue, values)
    assert type(twice(values)) is np.ndarray
    got = twice(field)
    assert type(got) is Field and got.event is not None
    np.testing.assert_array_equal(got.get(), 2 * values)
    got = twice(array)
    assert isinstance(got, cl.array.Array) and got.events
    np.testing.assert_array_equal(got.get(), 2 * values)
    np.testing.assert_array_equal((got + 1).get(), 2 * values + 1)
    pool = cl.tools.MemoryPool(cl.tools.ImmediateAllocator(device.queue))
    pooled = cl.array.to_device(device.queue, values, allocator=pool)
    got = twice(pooled)
    assert got.allocator is pool
    np.testing.assert_array_equal(twice(got, out=pooled).get(), 4 * values)
    assert type(twice([1, 2])) is np.ndarray and twice(3).shape == ()
    for target in (np.empty_like(values), pydp.empty(6), cl.array.empty(device.queue, 6, np.float32)):
        for source in (values, field, array):
            assert twice(source, out=target) is target
            got = target if isinstance(target, np.ndarray) else target.get()
            np.testing.assert_array_equal(got, 2 * values)


def test_mixed_kinds(device: Device, memory: str) -> None:
    values = np.arange(6, dtype=np.int32)
    things = (values, pydp.field(values), cl.array.to_device(device.queue, values))
    for first in things:
        for second in things:
            call = Call.begin({"a": first, "b": second, "none": None, "number": 3})
            a, b = call.input("a"), call.input("b")
            target = call.output((2, 6), np.int32)
            call.copy(a, target.view((6,), (1,), 0))
            call.copy(b, target.view((6,), (1,), 6))
            result = call.finish(target)
            assert type(result) is (np.ndarray if first is values else type(first))
            got = result if isinstance(result, np.ndarray) else result.get()
            np.testing.assert_array_equal(got, [values, values])
            assert not call.has("none") and call.has("number")


def test_numpy_data_of_a_call_that_does_not_wait_may_change(device: Device) -> None:
    values = np.arange(1 << 18, dtype=np.int32)
    expected = values.copy()
    field = pydp.zeros(values.shape, np.int32)
    for _ in range(3):
        result = field + values
        values[...] = -1
        np.testing.assert_array_equal(result.get(), expected)
        values[...] = expected


def test_empty_and_single(device: Device, memory: str) -> None:
    for shape in ((0,), (0, 3), (3, 0), ()):
        values = np.ones(shape, np.float32)
        np.testing.assert_array_equal(twice(values), 2 * values)
        np.testing.assert_array_equal(twice(pydp.field(values)).get(), 2 * values)
        target = np.zeros(shape, np.float32)
        assert twice(values, out=target) is target
        np.testing.assert_array_equal(target, 2 * values)
    np.testing.assert_array_equal(twice(cl.array.zeros(device.queue, (0, 2), np.float32)).get(), np.zeros((0, 2)))


def test_several_outputs(device: Device, memory: str) -> None:
    values = np.arange(6, dtype=np.int32)
    given = np.zeros(6, np.int64)
    for out in (None, (None, given), (pydp.empty(6, np.int32), given), (given.astype(np.int32), None)):
        call = Call.begin({"x": values}, out=out, outputs=2)
        first, second = call.output((6,), np.int32), call.output((6,), np.int64)
        source = call.input("x")
        call.copy(source, first)
        call.copy(source, second)
        one, two = call.finish(first, second)
        np.testing.assert_array_equal(np.asarray(one), values)
        np.testing.assert_array_equal(np.asarray(two), values)
        if out is not None and out[1] is not None:
            assert two is given
    for wrong in (given, (given,), 3):
        with pytest.raises(InvalidArgument, match="a tuple of 2 arrays or None is accepted"):
            Call.begin({"x": values}, out=wrong, outputs=2)
    for kind in (values, pydp.field(values)):
        with pytest.raises(InvalidArgument, match="out is a tuple"):
            pydp.scan(kind, out=(kind, kind))


def test_scratch_and_helpers(device: Device) -> None:
    values = np.arange(12, dtype=np.int32).reshape(3, 4)
    call = Call.begin({"x": pydp.field(values).T})
    x = call.input("x")
    assert not x.is_contiguous and x.rank == 2 and x.size == 12 and x.nbytes == 48 and "strides=(1, 4)" in repr(x)
    packed = call.contiguous(x, np.float32)
    assert packed.is_contiguous and call.contiguous(packed) is packed
    np.testing.assert_array_equal(call.fetch(packed), values.T.astype(np.float32))
    with pytest.raises(InvalidArgument, match="not contiguous"):
        call.fetch(x)
    assert call.scratch(100).size >= 100
    call.finish()


def test_overlap(device: Device) -> None:
    field = pydp.zeros((8, 8), np.int32)
    parent = cl.Buffer(device.context, cl.mem_flags.READ_WRITE, 1 << 16)
    align = max(device.cl.mem_base_addr_align // 8, 1024)
    low, high = parent[0 : 2 * align], parent[align : 3 * align]
    arrays = {
        "all": field, "top": field[:4], "bottom": field[4:], "other": pydp.zeros((8, 8), np.int32),
        "empty": field[:0], "low": cl.array.Array(device.queue, (2 * align // 4,), np.int32, data=low),
        "high": cl.array.Array(device.queue, (2 * align // 4,), np.int32, data=high),
    }  # fmt: skip
    call = Call.begin(arrays)
    at = {name: call.input(name) for name in arrays}
    assert call.overlaps(at["all"], at["top"]) and call.overlaps(at["bottom"], at["all"])
    assert not call.overlaps(at["top"], at["bottom"]) and not call.overlaps(at["all"], at["other"])
    assert not call.overlaps(at["all"], at["empty"])
    assert call.overlaps(at["low"], at["high"]) and not call.same(at["low"], at["high"])
    assert not call.overlaps(at["low"].view((align // 4,), (1,)), at["high"])
    assert call.same(at["all"], call.input("all")) and not call.same(at["all"], at["top"])
    call.finish()


def test_queues_and_events(device: Device) -> None:
    values = np.arange(1 << 16, dtype=np.int32)
    field = pydp.field(values)
    other = cl.CommandQueue(device.context)
    for queue in (other, _loose_queue(device)):
        result = twice(twice(field, queue=queue))
        np.testing.assert_array_equal(result.get(), 4 * values)
        np.testing.assert_array_equal(twice(values, queue=queue), 2 * values)
        result = twice(twice(twice(field), queue=queue, wait_for=field.event), queue=queue, wait_for=[])
        np.testing.assert_array_equal(result.get(), 8 * values)


def test_an_event_of_the_callers_is_waited_for(device: Device) -> None:
    if device.driver in ("rusticl", "oclgrind"):
        pytest.skip("the driver waits for events of the host where commands are enqueued")
    values = np.arange(1000, dtype=np.float32)
    other = cl.CommandQueue(device.context, device.cl)
    gate = cl.UserEvent(device.context)
    waiting = twice(pydp.field(values), queue=other, wait_for=[gate])
    assert waiting.event.command_execution_status != cl.command_execution_status.COMPLETE
    gate.set_status(cl.command_execution_status.COMPLETE)
    np.testing.assert_array_equal(waiting.get(), 2 * values)


def _loose_queue(device: Device) -> cl.CommandQueue:
    """A queue that need not keep its order, where the driver has one."""
    loose = cl.command_queue_properties.OUT_OF_ORDER_EXEC_MODE_ENABLE
    return cl.CommandQueue(device.context, properties=loose if device.cl.queue_properties & loose else 0)


def test_the_callers_own_context(device: Device) -> None:
    context = cl.Context([device.cl])
    queue = cl.CommandQueue(context)
    values = np.arange(10, dtype=np.float32)
    array = cl.array.to_device(queue, values)
    result = twice(array)
    assert result.queue == queue
    np.testing.assert_array_equal(result.get(), 2 * values)
    np.testing.assert_array_equal(twice(values, queue=queue), 2 * values)
    np.testing.assert_array_equal(pydp.field(array).get(), values)
    field = Field.wrap(array)
    assert field.device.context == context
    np.testing.assert_array_equal((field + 1).get(), values + 1)
    assert twice(array, device=device).queue == queue
    with pytest.raises(InvalidArgument, match="another context"):
        Call.begin({"a": array, "b": pydp.field(values)})
    with pytest.raises(InvalidArgument, match="another context"):
        twice(pydp.field(values), queue=queue)
    with pytest.raises(InvalidArgument, match="another context"):
        twice(values, out=pydp.field(values), queue=queue)
    with pytest.raises(InvalidArgument, match=r"^count is in another context"):
        pydp.select(array, "x > 0", count=pydp.zeros((), np.int64))


@pytest.mark.parametrize("form", ["array", "view", "sub-buffer", "pointer"])
@pytest.mark.parametrize(("dtype", "place", "accepted"), [("f8", 4, 8), ("f4", 2, 4), ("i4,i4", 4, 8), ("f4", 4, 0)])
def test_host_memory_of_arrays_is_aligned(device: Device, form: str, dtype: str, place: int, accepted: int) -> None:
    """accepted: multiples of this address in the error; 0: no error."""
    memory = bytearray(256)
    start = -np.frombuffer(memory, np.uint8).ctypes.data % 64 + place
    given: Any = memoryview(memory)[start : start + 80]
    if form == "array":
        given = np.frombuffer(given, np.uint8)
    buffer = whole = cl.Buffer(device.context, cl.mem_flags.READ_WRITE | cl.mem_flags.USE_HOST_PTR, hostbuf=given)
    if form == "sub-buffer":
        buffer = whole.get_sub_region(0, 80)
    elif form == "pointer":
        buffer = cl.Buffer.from_int_ptr(whole.int_ptr)
    array = cl.array.Array(device.queue, (10,), np.dtype(dtype), data=buffer)
    if accepted:
        with pytest.raises(InvalidArgument, match=rf"uses host memory at .*; multiples of {accepted} are accepted"):
            pydp.transpose(array)
    else:
        assert not pydp.transpose(array).get().any()
    assert pydp.transpose(cl.array.Array(device.queue, (0,), np.dtype(dtype), data=buffer)).shape == (0,)
    assert not any(memory)


def test_arguments_on_different_devices(device: Device) -> None:
    other = needs.another_device(device)
    field = pydp.zeros(3, device=other)
    assert field.device is other
    with pytest.raises(InvalidArgument, match="copy it there"):
        Call.begin({"a": pydp.zeros(3), "b": field})
    with pytest.raises(InvalidArgument, match="the call runs on"):
        twice(pydp.zeros(3), device=other)
    with pytest.raises(InvalidArgument, match="belongs to"):
        twice(np.zeros(3), device=other, queue=device.queue)
    np.testing.assert_array_equal(pydp.field(field, device=device).get(), np.zeros(3))
    assert twice(np.zeros(2, np.float32), device=other).shape == (2,)


def _read_only() -> np.ndarray:
    array = np.zeros(4, np.float32)
    array.flags.writeable = False
    return array


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"x": np.array([None])}, "dtype object"),
        ({"x": np.array(["a"])}, "dtype"),
        ({"x": np.zeros(3, np.longdouble)}, "64 bits"),
        ({"x": np.zeros(3, "M8[s]")}, "dtype"),
        ({"x": [[1], [2, 3]]}, "converted to an array"),
        ({"x": object()}, "dtype"),
        ({"x": np.ma.masked_array([1.0])}, "mask"),
        ({"x": pydp.grid(3)}, "Grid"),
        ({"queue": 3}, "queue is a int"),
        ({"wait_for": 3}, "wait_for"),
        ({"wait_for": [None]}, "wait_for"),
        ({"out": [0.0] * 4}, "out is a list"),
        ({"out": np.zeros(5, np.float32)}, r"shape \(5,\); \(4,\)"),
        ({"out": np.zeros(4)}, "dtype float64; float32"),
        ({"out": _read_only()}, "read-only"),
        ({"out": np.lib.stride_tricks.as_strided(np.zeros(1, np.float32), (4,), (0,))}, "stride"),
        ({"device": 3.5}, "device"),
    ],
)
def test_wrong_arguments_are_named(device: Device, options: dict[str, Any], message: str) -> None:
    options = {"x": np.zeros(4, np.float32), **options}
    with pytest.raises(InvalidArgument, match=message):
        twice(options.pop("x"), **options)


def test_read_only_views_are_no_outputs(device: Device) -> None:
    field = pydp.zeros(4)
    for wrong in (field.read_only, pydp.tile(pydp.read_only(field), 4)[0]):
        with pytest.raises(InvalidArgument, match="out is read-only"):
            twice(field, out=wrong)
    with pytest.raises(InvalidArgument, match="x is read-only"):
        Call.begin({"x": field.read_only}, writable=["x"])
    with pytest.raises(InvalidArgument, match="TileRange"):
        twice(pydp.tile(field, 2))
    np.testing.assert_array_equal(field.get(), np.zeros(4))


def test_a_failed_call_leaves_numpy_memory_alone(device: Device) -> None:
    from pydp.runtime.arrays.elementwise import apply

    for _ in range(20):
        data = np.zeros(1 << 16, np.int32)
        with pytest.raises(RuntimeError, match="half-way"):
            call = Call.begin({"x": data}, out=data)
            x, y = call.input("x"), call.output(data.shape, data.dtype)
            apply(call, "add", [x, np.int32(1)], y)
            raise RuntimeError("half-way")
        del call, x, y
        data[...] = 7
        assert (data == 7).all()


def test_an_interrupted_launch_is_waited_for(device: Device, monkeypatch: pytest.MonkeyPatch) -> None:
    """Ctrl-C while the driver takes a command: its event is lost, but it uses NumPy's memory."""
    from pydp.runtime.programs.program import Kernel

    twice(np.zeros(3, np.int32))
    enqueue = Kernel.enqueue

    def interrupted(self: Kernel, *args: Any) -> cl.Event:
        enqueue(self, *args)
        raise KeyboardInterrupt

    monkeypatch.setattr(Kernel, "enqueue", interrupted)
    with pytest.raises(KeyboardInterrupt) as raised:
        twice(np.zeros(1 << 16, np.int32))
    call = next(one.frame.f_locals["call"] for one in raised.traceback if "call" in one.frame.f_locals)
    assert isinstance(call.event, cl.Event)

    def copied(*args: Any, **options: Any) -> cl.Event:
        cl.enqueue_copy(*args, **options)
        raise KeyboardInterrupt

    call = Call.begin({"x": np.zeros(3, np.int32)})
    with pytest.raises(KeyboardInterrupt):
        call.enqueue(copied, np.zeros(4, np.uint8), pydp.zeros(1, np.int32)._storage.buffer)
    assert isinstance(call.event, cl.Event)


def test_memory_of_a_failed_call_is_in_use(device: Device) -> None:
    """It does not return to the pool of the device's queue while the caller's queue may use it."""
    from pydp.runtime.arrays.elementwise import apply

    queue = cl.CommandQueue(device.context, device.cl)
    field = pydp.zeros(1 << 16, np.int32, device=device)
    call = Call.begin({"x": field}, queue=queue)
    x, y = call.input("x"), call.output(field.shape, field.dtype)
    apply(call, "add", [x, x], y)
    storages, last = [x.owner, y.owner], call.event
    del call
    for storage in storages:
        assert storage.queue is queue and storage.event is last and storage.waits(device.queue) != []


def test_more_memory_than_the_device_has(device: Device) -> None:
    if device.profile.is_simulator:
        pytest.skip("the simulator takes any size and allocates it at once")
    with pytest.raises(OutOfResources):
        field = pydp.empty(1 << 46, np.float64)
        field[0] = 1  # NVIDIA's driver allocates memory at its first use


def test_a_warm_call_is_cheap(device: Device) -> None:
    field, target = pydp.zeros(16), pydp.zeros(16)

    def own_cost() -> None:
        call = Call.begin({"a": field, "b": target}, out=target)
        call.input("a")
        call.input("b")
        call.finish(call.output((16,), field.dtype))

    own_cost()
    assert calls(own_cost) <= 80  # 52 functions; the time itself is what `pydp bench` measures


@pytest.mark.oclgrind
def test_small(device: Device) -> None:
    values = np.arange(6, dtype=np.int32)
    np.testing.assert_array_equal(twice(values), 2 * values)
    np.testing.assert_array_equal(twice(pydp.field(values))[::2].copy().get(), 2 * values[::2])
