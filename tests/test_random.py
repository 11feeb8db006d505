"""pydp.random against a reference in NumPy: the same bits on every device; published vectors; sanity of the moments."""

from __future__ import annotations

import copy
import pickle
from types import SimpleNamespace

import needs
import numpy as np
import pyopencl.array
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import pydp
from pydp.algorithms import pieces
from pydp.random import fill as filling
from pydp.random import reference
from pydp.random.fill import Draw, Place
from pydp.random.philox import philox
from pydp.random.reference import blocks_of, integers_of, longs, normal32, normal64, normal_of, random_of
from pydp.runtime.call import Call

VECTORS = [  # of Random123's kat_vectors: counter, key, result
    ("00000000 00000000 00000000 00000000", "00000000 00000000", "6627e8d5 e169c58d bc57ac4c 9b00dbd8"),
    ("ffffffff ffffffff ffffffff ffffffff", "ffffffff ffffffff", "408f276d 41c83b0e a20bc7c6 6d5451fd"),
    ("243f6a88 85a308d3 13198a2e 03707344", "a4093822 299f31d0", "d16cfe09 94fdcceb 5001e420 24126ea1"),
]
SIZES = [0, 1, 3, 4, 5, 31, 32, 33, 5001]
MAPPINGS = pytest.mark.parametrize("mapping", ["vector", "simt"])


@pytest.fixture
def mapped(device, monkeypatch, mapping):
    needs.vector_mapping(device, mapping)
    monkeypatch.setattr(filling, "mapping_of", lambda profile: mapping)
    return mapping


def same_bits(got, want):
    assert got.dtype == want.dtype and got.shape == want.shape
    assert np.array_equal(got.view(f"u{got.itemsize}"), want.view(f"u{want.itemsize}"))


# --- known answers -------------------------------------------------------------------------------------------------


@pytest.mark.host
@pytest.mark.parametrize("counter, key, result", VECTORS)
def test_published_vectors_on_the_host(counter, key, result):
    counter, key, result = (tuple(int(word, 16) for word in one.split()) for one in (counter, key, result))
    assert philox(counter, key) == result


@pytest.mark.oclgrind
@MAPPINGS
def test_published_vectors(device, mapped):
    draw = Draw("integers", np.dtype(np.uint32), False, (np.uint64(0),) * 3, True)
    for counter, key, result in VECTORS:
        c, k = ([int(word, 16) for word in one.split()] for one in (counter, key))
        call = Call.begin({}, out=(out := np.zeros(4, np.uint32)))
        filling.fill(call, call.output((4,), np.uint32), draw, Place(tuple(k), c[0] | c[1] << 32, c[2] | c[3] << 32))
        call.finish()
        assert " ".join(f"{word:08x}" for word in out) == result


@pytest.mark.oclgrind
@MAPPINGS
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_uniform_numbers_have_the_bits_of_the_reference(device, mapped, dtype):
    needs.dtype(device, dtype)
    rng = pydp.random.Generator(5, stream=3, offset=2**32 - 700)
    for n in SIZES:
        state = rng.state
        same_bits(rng.random(n, dtype).get(), random_of(state, n, dtype))
    state = rng.state
    low, width = dtype(-3.7), dtype(11.3) - dtype(-3.7)
    same_bits(rng.uniform(-3.7, 11.3, 50, dtype).get(), random_of(state, 50, dtype) * width + low)


# Oclgrind 21.10 crashes in its check for uninitialized memory at the vectors of normal numbers.
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("mapping", ["vector", pytest.param("simt", marks=pytest.mark.oclgrind)])
def test_normal_numbers_have_the_bits_of_the_reference(device, mapped, dtype):
    needs.dtype(device, dtype)
    rng = pydp.random.Generator(5, stream=3, offset=2**32 - 700)
    for n in SIZES:
        state = rng.state
        same_bits(rng.standard_normal(n, dtype).get(), normal_of(state, n, dtype))
    state = rng.state
    same_bits(rng.normal(2.5, 0.3, 50, dtype).get(), normal_of(state, 50, dtype) * dtype(0.3) + dtype(2.5))


RANGES = [
    (0, 10, np.int32),
    (-100, 28, np.int8),
    (-(2**31), 2**31, np.int32),  # a full range of words
    (10**12, 10**12 + 2**32, np.int64),  # the same, in a wider dtype
    (5, 5 + 2**31 + 2**30 + 1, np.int64),  # a quarter of the words is rejected
    (-(2**62), 2**61 + 12345, np.int64),
]


@pytest.mark.oclgrind
@MAPPINGS
@pytest.mark.parametrize("low, high, dtype", RANGES)
def test_integers(device, mapped, low, high, dtype):
    rng = pydp.random.Generator(9)
    for n in (1, 37, 333):
        state = rng.state
        got = rng.integers(low, high, n, dtype).get()
        assert got.dtype == dtype and np.array_equal(got, integers_of(state, n, low, high, dtype))


@settings(max_examples=40)
@given(data=st.data())
def test_any_draw(device, data):
    """Method, numbers, shape, dtype, stream, place in it and strides are drawn; memory around the result stays."""
    start = data.draw(st.integers(0, 40) | st.integers(2**32 - 40, 2**32 + 40))
    seed, stream = data.draw(st.integers(0, 2**64 - 1)), data.draw(st.integers(0, 9))
    rngs = [pydp.random.Generator(seed, stream=stream, offset=start) for _ in range(2)]
    state = SimpleNamespace(state=rngs[0].state)
    name = data.draw(st.sampled_from(["random", "uniform", "normal", "standard_normal", "integers", "permutation"]))
    kinds = "i1 u1 i2 u2 i4 u4 i8 u8" if name == "integers" else "f4 f8"
    dtype = data.draw(st.sampled_from([one for one in map(np.dtype, kinds.split()) if needs.has(device, one)]))
    shape = data.draw(st.sampled_from([(0,), (1,), (7, 5), (3, 0), (2, 3, 4)]) | st.tuples(st.integers(0, 5000)))
    shape = shape if name != "integers" or np.prod(shape) < 300 else (300,)  # the reference computes one by one
    arguments = {"size": shape, "dtype": dtype}
    if name == "integers":
        limits = np.iinfo(dtype)
        low = data.draw(st.integers(int(limits.min), int(limits.max)))
        arguments |= {"low": low, "high": data.draw(st.integers(low + 1, int(limits.max) + 1))}
    if name in ("uniform", "normal"):
        first, second = ("low", "high") if name == "uniform" else ("loc", "scale")
        arguments |= {first: data.draw(st.integers(-9, 3)), second: data.draw(st.integers(3, 9))}
    if name == "permutation":
        n = int(np.prod(shape))
        same_bits(rngs[0].permutation(n).get(), reference.permutation(state, n)[0].values)
    else:
        want = getattr(reference, name)(state, **arguments)[0].values
        same_bits(getattr(rngs[0], name)(**arguments).get(), want)
        memory = np.full((*(2 * n + 4 for n in shape), dtype.itemsize), 0x5A, np.uint8)
        steps = [data.draw(st.sampled_from([1, 2])) for _ in shape]
        inside = tuple(slice(2, 2 + step * n, step) for step, n in zip(steps, shape, strict=True))
        del arguments["size"]
        getattr(rngs[1], name)(**arguments, out=memory.view(dtype)[..., 0][inside])
        same_bits(memory.view(dtype)[..., 0][inside].copy(), want)
        memory[inside] = 0x5A
        assert (memory == 0x5A).all() and rngs[0].state == rngs[1].state


def test_other_integers(device):
    rng = pydp.random.Generator(10)
    state = rng.state
    assert np.array_equal(rng.integers(0, 2**64, 300, np.uint64).get(), longs(blocks_of(state, 150)))
    state = rng.state
    got = rng.integers(0, 255, 400, np.uint8, endpoint=True).get()
    assert np.array_equal(got, integers_of(state, 400, 0, 256, np.uint8)) and got.min() == 0 and got.max() == 255
    for low, dtype in ((-(2**31), np.int64), (10**12, np.uint64)):
        state = rng.state
        got = rng.integers(low, low + 2**32, 5, dtype).get()
        assert np.array_equal(got, integers_of(state, 5, low, low + 2**32, dtype))
    coins = rng.integers(0, 2, 400, bool).get()
    assert coins.dtype == bool and 150 < coins.sum() < 250
    assert np.array_equal(rng.integers(7, 8, 40).get(), np.full(40, 7))


@pytest.mark.parametrize("count", [2, 10, 3000])
def test_integers_are_equally_likely(device, count):
    n = 1 << 18
    found = np.bincount(pydp.random.Generator(11).integers(0, count, n, np.int32).get(), minlength=count)
    assert len(found) == count
    chi2 = float(((found - n / count) ** 2).sum() / (n / count))
    freedom = count - 1
    assert abs(chi2 - freedom) < 5 * np.sqrt(2 * freedom)


def test_moments(device):
    n = 1 << 18
    rng = pydp.random.Generator(12)
    x = rng.random(n).get().astype(np.float64)
    assert abs(x.mean() - 0.5) < 5 / np.sqrt(12 * n) and abs(x.var() - 1 / 12) < 0.001 and x.min() >= 0 and x.max() < 1
    buckets = np.bincount((x * 64).astype(int), minlength=64)
    assert abs(float(((buckets - n / 64) ** 2).sum() / (n / 64)) - 63) < 5 * np.sqrt(126)
    z = rng.standard_normal(n).get().astype(np.float64)
    assert abs(z.mean()) < 5 / np.sqrt(n) and abs(z.var() - 1) < 0.015
    assert abs((z**3).mean()) < 0.04 and abs((z**4).mean() - 3) < 0.1
    quantiles = [-1.2815516, -0.6744898, 0.0, 0.6744898, 1.2815516]
    shares = np.diff([0, *(np.searchsorted(np.sort(z), quantiles) / n), 1])
    np.testing.assert_allclose(shares, [0.1, 0.15, 0.25, 0.25, 0.15, 0.1], atol=0.004)
    assert abs(np.corrcoef(z[::2], z[1::2])[0, 1]) < 0.01


def test_normal_numbers_are_accurate():
    """The reference, which the kernels equal bit for bit, against NumPy's functions of float64."""
    state = pydp.random.Generator(13).state
    for make, dtype, bits in ((normal32, np.float32, 32), (normal64, np.float64, 64)):
        words = blocks_of(state, 2000)
        units = (words.reshape(-1, 2) if bits == 32 else longs(words).reshape(-1, 2)).T
        if bits == 32:
            u = ((units[0] >> np.uint64(1)) | np.uint64(1)).astype(float) * 2.0**-31
            angle = 2 * np.pi * ((units[1] + np.uint64(2**29)) % np.uint64(2**32)).astype(float) * 2.0**-32
            angle = np.pi / 2 * ((units[1] >> np.uint64(30)).astype(float))
            angle += (units[1].astype(np.uint32) << np.uint32(2)).view(np.int32) * (np.pi / 2 * 2.0**-32)
        else:
            u = (units[0] >> np.uint64(12)).astype(float) * 2.0**-52 + 2.0**-53
            within = ((units[1] << np.uint64(2)) >> np.uint64(12)).astype(float) * 2.0**-52 - 0.5
            angle = np.pi / 2 * ((units[1] >> np.uint64(62)).astype(float) + within)
        want = np.stack([np.sqrt(-2 * np.log(u)) * np.cos(angle), np.sqrt(-2 * np.log(u)) * np.sin(angle)], 1)
        np.testing.assert_allclose(make(words), want.reshape(-1), rtol=0, atol=16 * np.finfo(dtype).eps)


# --- state ---------------------------------------------------------------------------------------------------------


def test_a_call_takes_whole_blocks(device):
    a, b = pydp.random.Generator(1), pydp.random.Generator(1)
    a.random(5)
    a.integers(0, 2**40, 3)
    assert a.state["counter"] == 4 and b.advance(4).state == a.state
    assert np.array_equal(a.random(9).get(), b.random(9).get())
    assert np.array_equal(pydp.random.Generator(1, offset=4).random(9).get(), b.advance(-3).random(9).get())


def test_state_and_streams(device):
    a = pydp.random.default_rng(1)
    assert pydp.random.default_rng(a) is a
    a.spawn(2)
    state = a.state
    x, children = a.random(8).get(), a.spawn(2)
    b = pydp.random.Generator()
    b.state = state
    assert np.array_equal(b.random(8).get(), x)
    assert [one.state["key"] for one in b.spawn(2)] == [one.state["key"] for one in children]
    first = pydp.random.Generator(1).spawn(3)
    assert len({one.state["key"] for one in [a, *first, *children]}) == 5  # first[2] is children[0]
    streams = [pydp.random.Generator(1, stream=k).spawn(1)[0].state["key"] for k in (0, 1, 1 << 40)]
    assert len(set(streams)) == 3 and streams[0] == first[0].state["key"]
    other = pydp.random.Generator(1, stream=1)
    assert other.state["counter"] == 1 << 64 and not np.array_equal(other.random(8).get(), x)
    assert pydp.random.Generator().state["key"] != pydp.random.Generator().state["key"]
    assert pydp.random.Generator([1, 2]).state["key"] != pydp.random.Generator(1).state["key"]
    last = pydp.random.Generator(1, offset=2**64 - 1)
    got = last.random(8).get()
    assert last.state["counter"] == 1
    assert np.array_equal(got[4:], pydp.random.Generator(1).random(4).get())


COPIES = {"copy": copy.copy, "deepcopy": copy.deepcopy} | {
    f"pickle protocol {k}": lambda one, k=k: pickle.loads(pickle.dumps(one, k)) for k in (0, 2, 5)
}


@pytest.mark.parametrize("how", COPIES)
def test_copies_continue_the_stream(device, how):
    a, numpy = pydp.random.Generator(5, stream=3, offset=9), np.random.default_rng(5)
    a.random(5)
    a.spawn(1)
    b, other = COPIES[how](a), COPIES[how](numpy)
    if how != "copy":  # a copy.copy of NumPy's shares its state
        assert np.array_equal(numpy.random(4), other.random(4))
    assert b.state == a.state
    x = a.random(8).get()
    assert b.state != a.state and np.array_equal(b.random(8).get(), x)  # a copy advances on its own
    assert b.spawn(1)[0].state == a.spawn(1)[0].state and b.state == a.state


def test_bytes(device):
    rng = pydp.random.Generator(2)
    state = rng.state
    assert rng.bytes(11) == blocks_of(state, 1).astype("<u4").tobytes()[:11] and rng.bytes(0) == b""


def test_permutations(device):
    rng = pydp.random.Generator(14)
    state = rng.state
    got = rng.permutation(1000).get()
    assert np.array_equal(got, np.argsort(longs(blocks_of(state, 500)), kind="stable"))
    x = np.arange(60, dtype=np.int32).reshape(20, 3)
    for make in (np.array, pydp.field, lambda x: pyopencl.array.to_device(device.queue, x)):
        for axis in (0, 1):
            rng.state = state
            order = np.argsort(longs(blocks_of(state, x.shape[axis]))[: x.shape[axis]], kind="stable")
            mixed = rng.permutation(make(x), axis)
            assert type(mixed) is type(make(x))
            assert np.array_equal(mixed.get() if hasattr(mixed, "get") else mixed, np.take(x, order, axis))
            rng.state = state
            target = make(x)
            assert rng.shuffle(target, axis) is None
            assert np.array_equal(target.get() if hasattr(target, "get") else target, np.take(x, order, axis))
    assert sorted(rng.permutation([3, 1, 2]).tolist()) == [1, 2, 3]
    for wrong in (lambda: rng.permutation(1.5), lambda: rng.shuffle([1, 2]), lambda: rng.permutation(x, 2)):
        with pytest.raises(pydp.InvalidArgument):
            wrong()


# --- results -------------------------------------------------------------------------------------------------------


def test_kinds_of_results(device):
    rng = pydp.random.Generator(3)
    assert type(rng.random()) is np.float32 and type(rng.integers(5)) is np.int64
    assert type(rng.random(3)) is pydp.Field and rng.random((2, 0)).shape == (2, 0)
    want = pydp.random.Generator(4).random((30, 40)).get()
    for make in (np.zeros, pydp.zeros, lambda shape, dtype: pyopencl.array.zeros(device.queue, shape, dtype)):
        out = make((30, 40), np.float32)
        got = pydp.random.Generator(4).random(out=out)
        assert got is out and np.array_equal(out.get() if hasattr(out, "get") else out, want)
    wide = np.full((30, 83), 7, np.float32)
    pydp.random.Generator(4).random((30, 40), out=wide[:, 80:0:-2])
    assert np.array_equal(wide[:, 80:0:-2], want) and (wide[:, 1::2] == 7).all() and (wide[:, [0, 82]] == 7).all()
    field = pydp.full((100,), 7, np.float32)
    pydp.random.Generator(4).random(out=field[17:60])
    assert np.array_equal(field.get()[17:60], want.reshape(-1)[:43])
    assert (field.get()[:17] == 7).all() and (field.get()[60:] == 7).all()


def test_large_results_are_stored_past_the_caches(device):
    n = device.profile.l2_bytes * device.profile.compute_units // 4 + 4001
    if n > 1 << 24:
        pytest.skip("the caches of the device are large")
    guarded = np.full(n + 128, -1, np.float32)
    pydp.random.Generator(5).random(out=guarded[63:-65])
    assert np.array_equal(guarded[63:-65], random_of(pydp.random.Generator(5).state, n, np.float32))
    assert (guarded[:63] == -1).all() and (guarded[-65:] == -1).all()


def test_arrays_beyond_the_largest_buffer(device, monkeypatch):
    want = pydp.random.Generator(6).normal(size=5001).get()
    monkeypatch.setattr(pieces, "ALWAYS_FITS", 0)
    monkeypatch.setattr(pieces, "limit_of", lambda device: 1000)
    import pydp.random.generator as module

    monkeypatch.setattr(module, "buffer_limit", lambda where: 1000)
    out = np.zeros(5001, np.float32)
    assert pydp.random.Generator(6).normal(out=out) is out and np.array_equal(out, want)
    out = np.zeros(10002, np.float32)
    pydp.random.Generator(6).normal(out=out[::2])
    assert np.array_equal(out[::2], want) and not out[1::2].any()


def test_wrong_arguments(device):
    rng = pydp.random.Generator(7)
    state = rng.state
    for call, match in [
        (lambda: rng.random(3, np.int32), "float32 and float64 are accepted"),
        (lambda: rng.random(-1), "negative size"),
        (lambda: rng.random("3"), "takes integers"),
        (lambda: rng.random(3, out=np.zeros(4, np.float32)), "equal shapes"),
        (lambda: rng.random(out=np.zeros(4, np.int32)), "float32 is needed"),
        (lambda: rng.random(out=np.broadcast_to(np.float32(1), 4)), "read-only"),
        (lambda: rng.normal(scale=-1), "scale is -1"),
        (lambda: rng.normal(loc=[1, 2]), "loc is"),
        (lambda: rng.uniform(-3e38, 3e38, 4), "finite difference"),
        (lambda: rng.integers(5, 5), "there are no integers"),
        (lambda: rng.integers(0, 257, dtype=np.uint8), "not within uint8"),
        (lambda: rng.integers(0.5), "integers are accepted"),
        (lambda: rng.integers(5, dtype=np.float32), "integer dtypes"),
        (lambda: rng.integers(5, endpoint=2), "endpoint"),
        (lambda: rng.spawn(-1), "n_children"),
        (lambda: rng.advance(1.5), "blocks"),
        (lambda: rng.bytes(-1), "length"),
        (lambda: rng.shuffle(np.array(1)), r"x has shape \(\); an array of rank 1 or more"),
        (lambda: pydp.random.Generator(-1), "seed"),
        (lambda: pydp.random.Generator(1.5), "seed"),
        (lambda: pydp.random.Generator(1, stream=1 << 48), "stream"),
        (lambda: setattr(rng, "state", {}), "state"),
        (lambda: setattr(rng, "state", {"bit_generator": "Philox4x32-10", "key": (1,), "counter": 0}), "state"),
    ]:
        with pytest.raises(pydp.InvalidArgument, match=match):
            call()
    assert rng.state == state
    if not device.profile.fp64:
        with pytest.raises(pydp.UnsupportedOnDevice):
            rng.random(3, np.float64)
        with pytest.raises(pydp.UnsupportedOnDevice):
            rng.normal(size=3, dtype=np.float64)
