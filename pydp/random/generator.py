"""`Generator`: random numbers with NumPy's names, the same on every device."""

from __future__ import annotations

import threading
from collections.abc import Mapping
from typing import Any

import numpy as np

from pydp.algorithms.arguments import axis_of, integer, switch
from pydp.algorithms.moves import flip, take
from pydp.algorithms.pieces import after_events, buffer_limit, device_of, needed
from pydp.algorithms.sort import argsort
from pydp.dtypes import check_supported
from pydp.errors import InvalidArgument, shown
from pydp.random.fill import Draw, Place, fill, fill_in_parts
from pydp.random.philox import WORD, philox
from pydp.runtime.arrays.data import Array, FieldData
from pydp.runtime.call import Call
from pydp.runtime.field.construct import empty
from pydp.runtime.placement import check_out, home_of
from pydp.space import Extent

_NAME = "Philox4x32-10"
_CHILDREN = 0xFFFF << 16  # the last word of the counters that keys of children are made from
_STREAMS = 1 << 48  # the upper 16 bits of the counter tell draws from repeated draws and keys
_LONG = 1 << 64


class Generator:
    """A generator of random numbers, Philox4x32-10, as ``numpy.random.Generator``.

    The numbers depend on seed, stream, offset and the earlier calls only: all devices, drivers and mappings give the
    same bits. NumPy's generators give other numbers.

    seed: None (from the operating system), a non-negative integer, or a sequence of them. stream: 0 to 2**48 - 1;
    generators of one seed with different streams are independent. offset: the number of blocks of four words (see
    below) to skip, as :meth:`advance`.

    State: the key (64 bits, from the seed) and a counter of 128 bits, which is the stream and the number of the next
    block. A block has four words of 32 bits. Each call takes the next whole blocks: element i of a result comes from
    word i % 4 of block i // 4, or from half of block i // 2 if its dtype needs 64 bits. A generator may be used by
    several threads. It can be copied and pickled: the copy continues the stream, independently of the original.

    The methods that take `size` return a Field, or one number if `size` and `out` are None. They also take `out` (a
    NumPy array, Field or pyopencl Array of any strides), which receives the numbers. All methods that make numbers,
    except `bytes`, take device=, queue= and wait_for=. They raise InvalidArgument for invalid arguments, and
    UnsupportedOnDevice for float64 on a device without it.

    >>> rng = pydp.random.Generator(7)
    >>> rng.integers(0, 10, 6).get()
    array([8, 1, 2, 1, 7, 6])

    Source: J. Salmon, M. Moraes, R. Dror, D. Shaw, Parallel Random Numbers: As Easy as 1, 2, 3 (2011).
    """

    def __init__(self, seed: Any = None, *, stream: int = 0, offset: int = 0) -> None:
        key = int(_sequence(seed).generate_state(1, np.uint64)[0])
        self._lock = threading.Lock()
        self._key: tuple[int, int] = (key & 0xFFFFFFFF, key >> 32)
        self._stream = _in_range(stream, "stream", _STREAMS)
        self._block = _in_range(offset, "offset", _LONG)
        self._spawned = 0

    def __repr__(self) -> str:
        return f"Generator({_NAME}, key=0x{self._key[1]:08x}{self._key[0]:08x}, counter=0x{self.state['counter']:x})"

    # --- state -------------------------------------------------------------------------------------------------

    def __getstate__(self) -> dict[str, Any]:
        """The attributes without the lock: a copy, or a Generator from a pickle, continues the stream on its own."""
        with self._lock:
            return {name: value for name, value in vars(self).items() if name != "_lock"}

    def __setstate__(self, state: dict[str, Any]) -> None:
        vars(self).update(state)
        self._lock = threading.Lock()

    @property
    def state(self) -> dict[str, Any]:
        """The state as a dict: the name of the generator, ``key`` (two words), ``counter`` (128 bits: stream and next
        block) and ``spawned`` (the number of children). Assigning such a dict restores the state.

        >>> rng = pydp.random.Generator(7)
        >>> state, first = rng.state, rng.random(3).get()
        >>> rng.state = state
        >>> bool((rng.random(3).get() == first).all())
        True
        """
        with self._lock:
            counter = self._stream << 64 | self._block
            return {"bit_generator": _NAME, "key": self._key, "counter": counter, "spawned": self._spawned}

    @state.setter
    def state(self, value: Mapping[str, Any]) -> None:
        if not isinstance(value, Mapping) or value.get("bit_generator") != _NAME:
            raise InvalidArgument(f"state is {shown(value)}; a state of a Generator is accepted")
        try:
            low, high = (_in_range(word, "a word of key", 1 << 32) for word in value["key"])
            counter = _in_range(value["counter"], "counter", _STREAMS << 64)
            spawned = _in_range(value.get("spawned", 0), "spawned", _LONG)
        except (KeyError, TypeError, ValueError) as error:
            raise InvalidArgument(f"state is {dict(value)!r}, which is not a state of a Generator: {error}") from None
        with self._lock:
            self._key, self._spawned = (low, high), spawned
            self._stream, self._block = divmod(counter, _LONG)

    def advance(self, blocks: int) -> Generator:
        """Skip a number of blocks, which may be negative; returns the generator.

        >>> a, b = pydp.random.Generator(7), pydp.random.Generator(7).advance(25)
        >>> bool((a.random(104).get()[100:] == b.random(4).get()).all())
        True
        """
        try:
            count = integer(blocks)
        except TypeError:
            raise InvalidArgument(f"blocks is {shown(blocks)}; an integer is accepted") from None
        self._take(count)
        return self

    def spawn(self, n_children: int) -> list[Generator]:
        """`n_children` new generators with keys made from this generator's key and stream. Later calls give others.

        >>> a, b = pydp.random.Generator(7).spawn(2)
        >>> bool((a.random(4).get() == b.random(4).get()).any())
        False
        """
        count = _in_range(n_children, "n_children", 1 << 31)
        with self._lock:
            key, stream = self._key, self._stream
            first, self._spawned = self._spawned, self._spawned + count
        children = []
        for number in range(first, first + count):
            child = Generator(0)
            counter = (number & WORD, number >> 32, stream & WORD, _CHILDREN | stream >> 32)
            low, high, _, _ = philox(counter, key)
            child._key = (low, high)
            children.append(child)
        return children

    def _take(self, blocks: int) -> Place:
        with self._lock:
            place = Place(self._key, self._block, self._stream)
            self._block = (self._block + blocks) % _LONG
            return place

    # --- numbers -----------------------------------------------------------------------------------------------

    def random(
        self, size: Any = None, dtype: Any = np.float32, out: Any = None,
        *, device: Any = None, queue: Any = None, wait_for: Any = None,
    ) -> Any:  # fmt: skip
        """Uniform numbers in [0, 1): multiples of 2**-24 (float32) or 2**-53 (float64).

        size: None, an integer or a tuple. dtype: float32 or float64.

        >>> pydp.random.Generator(1).random((2, 2)).shape
        (2, 2)
        """
        kind = _float(dtype, out)
        return self._draw(_reals("random", kind, 0, 1), size, out, device, queue, wait_for)

    def uniform(
        self, low: float = 0.0, high: float = 1.0, size: Any = None, dtype: Any = np.float32, out: Any = None,
        *, device: Any = None, queue: Any = None, wait_for: Any = None,
    ) -> Any:  # fmt: skip
        """Uniform numbers in [low, high): ``random() * (high - low) + low``, which may round to `high`.

        low, high: numbers with a finite difference. size, dtype: as for :meth:`random`.

        >>> x = pydp.random.Generator(1).uniform(-1, 1, 1000).get()
        >>> bool(x.min() >= -1), bool(x.max() <= 1)
        (True, True)
        """
        kind = _float(dtype, out)
        first, last = _number(low, "low", kind), _number(high, "high", kind)
        with np.errstate(over="ignore", invalid="ignore"):
            width = last - first
        if not np.isfinite(width) or not np.isfinite(first):
            raise InvalidArgument(
                f"low is {shown(low)} and high is {shown(high)}; numbers with a finite difference are accepted"
            )
        return self._draw(_reals("random", kind, first, width), size, out, device, queue, wait_for)

    def normal(
        self, loc: float = 0.0, scale: float = 1.0, size: Any = None, dtype: Any = np.float32, out: Any = None,
        *, device: Any = None, queue: Any = None, wait_for: Any = None,
    ) -> Any:  # fmt: skip
        """Normal numbers with mean `loc` and standard deviation `scale` (Box-Muller).

        The logarithm, the sine and the square root are polynomials and Newton's method, which give the same bits
        everywhere. Their errors are a few units in the last place. float32 numbers are at most 6.6 standard deviations
        from the mean, float64 numbers 8.6. loc, scale: numbers; scale is not negative. size, dtype: as for
        :meth:`random`.

        >>> x = pydp.random.Generator(1).normal(10, 2, 4000).get()
        >>> bool(abs(x.mean() - 10) < 0.1), bool(abs(x.std() - 2) < 0.1)
        (True, True)
        """
        kind = _float(dtype, out)
        mean, deviation = _number(loc, "loc", kind), _number(scale, "scale", kind)
        if not deviation >= 0:
            raise InvalidArgument(f"scale is {shown(scale)}; a number that is not negative is accepted")
        return self._draw(_reals("normal", kind, mean, deviation), size, out, device, queue, wait_for)

    def standard_normal(
        self, size: Any = None, dtype: Any = np.float32, out: Any = None,
        *, device: Any = None, queue: Any = None, wait_for: Any = None,
    ) -> Any:  # fmt: skip
        """Normal numbers with mean 0 and standard deviation 1; see :meth:`normal`.

        >>> pydp.random.Generator(1).standard_normal((2, 3)).shape
        (2, 3)
        """
        return self.normal(0, 1, size, dtype, out, device=device, queue=queue, wait_for=wait_for)

    def integers(
        self, low: int, high: int | None = None, size: Any = None, dtype: Any = np.int64, endpoint: bool = False,
        out: Any = None, *, device: Any = None, queue: Any = None, wait_for: Any = None,
    ) -> Any:  # fmt: skip
        """Integers from `low` to `high`, exclusive (inclusive with endpoint=True); from 0 to `low` without `high`.

        All values are equally likely: a word is multiplied by the number of values, the upper half is the result, and a
        word whose lower half is too small is rejected (Lemire). A rejected element is drawn again with further words,
        from counters that nothing else uses. Ranges of up to 2**32 values take a word of 32 bits, others of 64.
        dtype: an integer dtype or bool. size: as for :meth:`random`.

        >>> pydp.random.Generator(3).integers(1, 6, 5, endpoint=True).get()
        array([5, 4, 4, 1, 2])

        Source: D. Lemire, Fast Random Integer Generation in an Interval (2019).
        """
        kind = _integer_dtype(dtype, out)
        draw = _integers(low, high, kind, switch(endpoint, "endpoint"))
        return self._draw(draw, size, out, device, queue, wait_for)

    def bytes(self, length: int) -> bytes:
        """`length` random bytes: the words of blocks, the lowest byte first.

        >>> pydp.random.Generator(1).bytes(3).hex()
        '7d5811'
        """
        count = _in_range(length, "length", 1 << 62)
        found = np.empty(-(-count // 4), np.uint32)
        self.integers(0, 1 << 32, dtype=np.uint32, out=found)
        return found.astype("<u4").tobytes()[:count]

    def permutation(self, x: Any, axis: int = 0, *, device: Any = None, queue: Any = None, wait_for: Any = None) -> Any:
        """The integers 0 to x - 1 (int64) in random order; or a copy of the array `x` with the elements along an axis
        in random order, of the kind of `x`.

        The order is that of one random key of 64 bits per element (a stable sort).

        >>> sorted(pydp.random.Generator(1).permutation(4).get().tolist())
        [0, 1, 2, 3]
        """
        where = {"device": device, "queue": queue, "wait_for": wait_for}
        if hasattr(x, "shape") and len(x.shape):
            return take(x, self._order(x.shape[axis_of(axis, len(x.shape))], x, where), axis, mode="clip", **where)
        if isinstance(x, (list, tuple)):
            return self.permutation(np.asarray(x), axis, **where)
        return self._order(_in_range(x, "x", 1 << 48), None, where)

    def shuffle(self, x: Any, axis: int = 0, *, device: Any = None, queue: Any = None, wait_for: Any = None) -> None:
        """Put the elements of the array `x` along an axis into random order, in place; see :meth:`permutation`.

        >>> x = np.arange(5)
        >>> pydp.random.Generator(1).shuffle(x); np.sort(x)
        array([0, 1, 2, 3, 4])
        """
        if not isinstance(x, (np.ndarray, FieldData, Array)):
            raise InvalidArgument(f"x is a {type(x).__name__}; NumPy arrays, Fields and pyopencl Arrays are accepted")
        if not len(x.shape):
            raise InvalidArgument("x has shape (); an array of rank 1 or more is needed")
        made = self.permutation(x, axis, device=device, queue=queue, wait_for=wait_for)
        flip(made, (), out=x, device=device, queue=queue)

    def _order(self, n: int, like: Any, where: dict[str, Any]) -> Any:
        """The positions of n elements in random order, on the device of an array."""
        home = None if like is None else home_of(like)
        if where["device"] is None and where["queue"] is None and home is not None:
            where = {**where, "device": home}
        keys = self.integers(0, _LONG, n, np.uint64, **where)
        return argsort(keys, **where)

    def _draw(self, draw: Draw, size: Any, out: Any, device: Any, queue: Any, wait_for: Any) -> Any:
        """Make the numbers of a call."""
        where = {"device": device, "queue": queue, "wait_for": wait_for}
        shape = _shape(size, out)
        single = out is None and size is None
        if out is None:
            home = device_of(where)
            check_supported(draw.dtype, home, "dtype")
            if not home.is_target:  # a target has no memory
                out = np.empty((), draw.dtype) if single else empty(shape, draw.dtype, home)
        if needed(where, out):
            check_out(out, shape, draw.dtype, "out")
            check_supported(draw.dtype, device_of(where), "dtype")
            place = self._take(draw.blocks(out.size))
            fill_in_parts(buffer_limit(where), np.asarray(out), draw, place, after_events(where))
            return out
        call = Call.begin({}, out=out, **where)
        check_supported(draw.dtype, call.device, "dtype")
        target = call.output(shape, draw.dtype)
        fill(call, target, draw, self._take(draw.blocks(target.size)))
        result = call.finish(target)
        return result[()] if single else result


def default_rng(seed: Any = None) -> Generator:
    """A new Generator; a Generator as `seed` is returned itself, as ``numpy.random.default_rng``.

    >>> pydp.random.default_rng(7).random(3).dtype
    dtype('float32')
    """
    return seed if isinstance(seed, Generator) else Generator(seed)


# --- arguments -----------------------------------------------------------------------------------------------------


def _sequence(seed: Any) -> np.random.SeedSequence:
    if isinstance(seed, (bool, float)):
        raise InvalidArgument(f"seed is {shown(seed)}; None, a non-negative integer or a sequence of them is accepted")
    try:
        return np.random.SeedSequence(seed)
    except (TypeError, ValueError):
        raise InvalidArgument(
            f"seed is {shown(seed)}; None, a non-negative integer or a sequence of them is accepted"
        ) from None


def _in_range(value: Any, name: str, limit: int) -> int:
    """An integer from 0 to limit - 1."""
    try:
        number = integer(value)
    except TypeError:
        number = -1
    if not 0 <= number < limit:
        raise InvalidArgument(f"{name} is {shown(value)}; integers from 0 to {limit - 1} are accepted")
    return number


def _shape(size: Any, out: Any) -> tuple[int, ...]:
    if size is None:
        return () if out is None else tuple(getattr(out, "shape", ()))
    try:
        shape = tuple(Extent(size))
    except TypeError:
        raise InvalidArgument(f"size is {shown(size)}; None, an integer or a tuple of integers is accepted") from None
    if out is not None and tuple(getattr(out, "shape", shape)) != shape:
        raise InvalidArgument(f"size is {shape}, but out has shape {tuple(out.shape)}; equal shapes are accepted")
    return shape


def _dtype(dtype: Any) -> np.dtype:
    try:
        return np.dtype(dtype)
    except TypeError:
        raise InvalidArgument(f"dtype is {shown(dtype)}, which is not a dtype; NumPy dtypes are accepted") from None


def _check_out_dtype(kind: np.dtype, out: Any) -> None:
    given = getattr(out, "dtype", kind)
    if given != kind:
        raise InvalidArgument(f"out has dtype {given}; {kind} is needed, the dtype of the numbers")


def _float(dtype: Any, out: Any) -> np.dtype:
    kind = _dtype(dtype)
    if kind not in (np.float32, np.float64):
        raise InvalidArgument(f"dtype is {kind}; float32 and float64 are accepted")
    _check_out_dtype(kind, out)
    return kind.newbyteorder("=")


def _integer_dtype(dtype: Any, out: Any) -> np.dtype:
    kind = _dtype(dtype)
    if kind.kind not in "iub":
        raise InvalidArgument(f"dtype is {kind}; integer dtypes and bool are accepted")
    _check_out_dtype(kind, out)
    return kind.newbyteorder("=")


def _number(value: Any, name: str, kind: np.dtype) -> Any:
    """A real number in a float dtype."""
    try:
        given = np.asarray(value)
        if given.ndim or given.dtype.kind not in "iufb":
            raise TypeError
        with np.errstate(over="ignore"):
            return given.astype(kind)[()]
    except TypeError:
        raise InvalidArgument(f"{name} is {shown(value)}; a real number is accepted") from None


def _reals(which: str, kind: np.dtype, low: Any, step: Any) -> Draw:
    return Draw(which, kind, kind.itemsize == 8, (kind.type(low), kind.type(step)))


def _integers(low: Any, high: Any, kind: np.dtype, endpoint: bool) -> Draw:
    """The draw of integers from low to high."""
    try:
        first, last = (0, integer(low)) if high is None else (integer(low), integer(high))
    except TypeError:
        raise InvalidArgument(f"low is {shown(low)} and high is {shown(high)}; integers are accepted") from None
    last -= not endpoint
    least, most = (0, 1) if kind.kind == "b" else (int(np.iinfo(kind).min), int(np.iinfo(kind).max))
    if last < first:
        raise InvalidArgument(f"there are no integers from {first} to {last}; high must be above low")
    if first < least or last > most:
        raise InvalidArgument(f"the range from {first} to {last} is not within {kind}; {least} to {most} is accepted")
    count = last - first + 1
    bits = 32 if count <= 1 << 32 else 64
    full = count == 1 << bits
    values = (0, 0) if full else (count, (1 << bits) % count)
    return Draw("integers", kind, bits == 64, tuple(np.uint64(one % _LONG) for one in (*values, first)), full)
